//! `wiglaf profile`: where a program's time in MPI goes, and whether a faster network would help.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result, program, records};
use wiglaf_bench::report::{self, RankBar};
use wiglaf_compare::profile::{Profile, Rank};
use wiglaf_compare::trace::Trace;
use wiglaf_mpi as mpi;

use crate::measuring::plain;
use crate::options::Global;
use crate::output;
use crate::run;

/// Has ranks keep a trace; the preloaded library knows it.
const TRACE_VAR: &str = "WIGLAF_TRACE";

pub(crate) const HELP: &str = "\
Examples:
  wiglaf profile -- ./prog in.dat            one rank on every node
  wiglaf profile -n 4 --transport tcp -- ./prog in.dat
  wiglaf profile --trace prog.trace -- ./prog
                                             for `wiglaf predict --trace`
  wiglaf profile --mpi mpich --json calls.json --plot ranks.svg -- ./prog

The program runs once as with `wiglaf run`, whose options are all taken, with a
library preloaded that counts and times its calls of MPI: by call, by size, by
rank. The last line says how much of the wall time a faster network could gain
at most. See docs/profile.md.";

/// What is given besides the options of `wiglaf run`.
#[derive(Debug, clap::Args)]
#[group(id = "profile")]
pub(crate) struct Args {
    /// Write all that was counted to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write what every rank did to this file, for `wiglaf predict --trace`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Draw what ranks compute and call into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    #[command(flatten)]
    run: run::Args,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let name = args.run.program();
    let found = program::find_program(name).ok_or_else(|| program::no_program(name))?;
    let file = PathBuf::from(format!("{}.profile", records::begin()?));
    let folder = std::env::current_dir().ok();
    let env = args.trace.iter().map(|_| (TRACE_VAR.to_owned(), "1".to_owned())).collect();
    let ended = run::run_profiled(&args.run, global, &file, env);
    let text = std::fs::read_to_string(&file).unwrap_or_default();
    let _ = std::fs::remove_file(&file);
    let ended = ended?;
    let ranks: Vec<Rank> =
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let wanted = ranks.iter().find_map(|rank| rank.size);
    let told = ranks.len();
    let command = args.run.words();
    let trace = args.trace.as_ref().map(|file| (file, Trace::of(command.clone(), &ranks)));
    let Some(profile) = Profile::of(command, ranks) else {
        return Err(nothing_counted(&name.to_string_lossy(), &found, ended));
    };
    let said: String = profile.notes().iter().map(|note| format!("note: {note}\n")).collect();
    output::print(&format!("\n{}{said}{}\n", profile.tables(), profile.sentence()))?;
    let at = |file: &Path| folder.as_ref().map_or(file.to_owned(), |folder| folder.join(file));
    if let Some(file) = &args.json {
        report::write(&profile, &at(file)).map_err(plain)?;
        eprintln!("wiglaf: written {}", file.display());
    }
    if let Some(file) = &args.plot {
        draw(&profile, &at(file))?;
        eprintln!("wiglaf: written {}", file.display());
    }
    if let Some((file, trace)) = trace.filter(|_| wanted.is_none_or(|wanted| wanted <= told)) {
        let trace = trace.map_err(|why| Error::new(format!("no trace was written: {why}")))?;
        std::fs::write(at(file), trace.text()).cannot(|| format!("write {}", file.display()))?;
        eprintln!("wiglaf: written {}", file.display());
    }
    match wanted.filter(|wanted| *wanted > told) {
        Some(wanted) => Err(Error::new(format!(
            "{} of {wanted} ranks did not reach MPI_Finalize, and are not in the tables",
            wanted - told
        ))),
        None => Ok(ended),
    }
}

/// Why no rank has told anything.
fn nothing_counted(name: &str, found: &Path, ended: ExitCode) -> Error {
    let why = match (mpi::is_linked(found), ended == ExitCode::SUCCESS) {
        (_, false) => "the program ended early: no rank reached MPI_Finalize".to_owned(),
        (true, true) => format!("no rank of `{name}` called both MPI_Init and MPI_Finalize"),
        (false, true) => format!(
            "no rank of `{name}` called MPI in a shared library: it is no MPI program, or MPI is linked in \
             statically; build it with mpicc or mpif90, with the MPI as a shared library"
        ),
    };
    Error::new(format!("nothing was counted: {why}"))
}

fn draw(profile: &Profile, file: &Path) -> Result<()> {
    let bar = |rank: &Rank| RankBar {
        label: rank.rank.map_or("?".to_owned(), |rank| rank.to_string()),
        parts_s: [rank.compute_s(), rank.mpi_s()],
    };
    let bars: Vec<RankBar> = profile.ranks.iter().map(bar).collect();
    let title = output::visible(&profile.command.join(" ")).chars().take(60).collect::<String>();
    report::draw_ranks(&title, &profile.sentence(), &bars, file).map_err(plain)
}
