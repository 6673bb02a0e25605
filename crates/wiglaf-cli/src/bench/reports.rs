//! `wiglaf bench reports`: results of comparisons and predictions as one page.

use std::path::{Path, PathBuf};

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result, machine};
use wiglaf_bench::report::{self, SpeedUpCurve, SpeedUpWords};
use wiglaf_compare::reports::{Drawing, Found, drawings, page};

use crate::compare::transport_of;
use crate::measuring::plain;
use crate::output;

#[derive(Debug, clap::Args)]
pub(super) struct ReportsArgs {
    /// Files that `wiglaf compare --json` and `wiglaf predict --json` have written
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A sentence for the page's top, such as what else the machine did
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,

    /// The page, with its pictures beside it; `-` prints it, without pictures
    #[arg(long, short, value_name = "FILE", default_value = "bench/results/reports.md")]
    output: PathBuf,
}

pub(super) fn run(args: &ReportsArgs) -> Result<()> {
    let mut all = Vec::new();
    for file in &args.files {
        let text = std::fs::read_to_string(file).cannot(|| format!("read {}", file.display()))?;
        let found = Found::read(&text);
        all.push(found.map_err(|why| Error::new(format!("{} {why}", file.display())))?);
    }
    let cores = machine::cores().len();
    if args.output.as_os_str() == "-" {
        return output::print(&page(&all, &[], cores, &args.note));
    }
    let pictures = drawings(&all);
    let text = page(&all, &pictures, cores, &args.note);
    std::fs::write(&args.output, text).cannot(|| format!("write {}", args.output.display()))?;
    eprintln!("wiglaf: written {}", args.output.display());
    for picture in pictures.iter().flatten() {
        let file = args.output.with_file_name(&picture.file);
        draw(picture, &file)?;
        eprintln!("wiglaf: written {}", file.display());
    }
    Ok(())
}

fn draw(picture: &Drawing, file: &Path) -> Result<()> {
    let curves = picture.curves.iter().map(|curve| SpeedUpCurve {
        label: output::visible(&curve.label),
        transport: transport_of(&curve.word),
        is_published: curve.is_published,
        points: curve.points.clone(),
    });
    let words = SpeedUpWords {
        title: &output::visible(&picture.title),
        subtitle: &output::visible(&picture.subtitle),
        cores: picture.cores,
    };
    report::draw_speed_up(&words, &curves.collect::<Vec<_>>(), file).map_err(plain)
}
