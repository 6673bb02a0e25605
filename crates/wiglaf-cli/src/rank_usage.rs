//! `wiglaf rank-usage`: the parent of a rank, which leaves what the rank took of its machine for `wiglaf run
//! --usage`, and ends as the rank did.

use std::ffi::OsString;
use std::process::ExitCode;

use wiglaf_base::records::{self, RECORDS_VAR};
use wiglaf_base::{End, Result, signals, usage};

/// Run a rank and leave what it took; started by `wiglaf compare`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The program and its arguments
    #[arg(required = true, last = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let usage = usage::measure(&args.argv)?;
    if let (Ok(begin), Ok(text)) = (std::env::var(RECORDS_VAR), serde_json::to_string(&usage))
        && let Err(error) = records::leave(&begin, &format!("{text}\n"))
    {
        eprintln!("wiglaf: cannot write the record of a rank: {error}");
    }
    if let End::Signal(number) = usage.end {
        signals::die_of(number);
    }
    Ok(ExitCode::from(usage.end.code()))
}
