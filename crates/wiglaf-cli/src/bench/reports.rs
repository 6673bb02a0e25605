//! `wiglaf bench reports`: results of comparisons and predictions as one page.

use std::path::PathBuf;

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result, machine};
use wiglaf_compare::reports::{Found, page};

use crate::output;

#[derive(Debug, clap::Args)]
pub(super) struct ReportsArgs {
    /// Files that `wiglaf compare --json` and `wiglaf predict --json` have written
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// A sentence for the page's top, such as what else the machine did
    #[arg(long, value_name = "TEXT")]
    note: Vec<String>,

    /// The page; `-` prints it
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
    let text = page(&all, machine::cores().len(), &args.note);
    if args.output.as_os_str() == "-" {
        return output::print(&text);
    }
    std::fs::write(&args.output, text).cannot(|| format!("write {}", args.output.display()))?;
    eprintln!("wiglaf: written {}", args.output.display());
    Ok(())
}
