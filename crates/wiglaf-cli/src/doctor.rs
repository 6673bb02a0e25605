//! `wiglaf doctor`.

use std::process::ExitCode;

use serde::Serialize;
use wiglaf_base::Result;
use wiglaf_cluster::StateDir;
use wiglaf_doctor::doctor::{self, Check, Verdict};

use crate::links;
use crate::output;
use crate::toolchain;
use crate::up::this_exe;

const HELP: &str = "\
ok       it is there and works
limited  it is not there, and Wiglaf does without it
MISSING  it is not there, and `wiglaf up` or `wiglaf run` needs it

The exit status is 1 when something is missing.

With --toolchain, small Fortran and C programs are compiled and run, which takes
about a minute:

ok       it works as it is
mended   it fails as it is, and works with the mend that is told
FAILS    it fails; the mend says what to take instead
absent   a library is not installed

links    links a program                    names    how procedures are called
.TRUE.   what the compiler stores for it    -1 is    true, false, or both
true=1   logical reductions of programs that store 1; true=-1, that store -1

The exit status is 1 when something fails. docs/toolchain.md has more.";

/// Say what this machine offers, and the mend for what is missing
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Compile and run small programs with every compiler and MPI found here
    #[arg(long)]
    toolchain: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Report {
    complete: bool,
    checks: Vec<Check>,
}

pub(crate) fn run(args: &Args, state: &StateDir) -> Result<ExitCode> {
    if args.toolchain {
        return toolchain::run(args.json);
    }
    let mut checks = doctor::examine(&this_exe()?);
    if let Some(at) = checks.iter().position(|check| check.name == "link packet") {
        let helper = helper(checks[at].verdict);
        checks.insert(at + 1, helper);
    }
    let after_links = checks.iter().rposition(|check| check.name.starts_with("link "));
    checks.insert(after_links.map_or(0, |at| at + 1), auto_link(state));
    let complete = checks.iter().all(|check| check.verdict != Verdict::Missing);
    match args.json {
        true => output::print_json(&Report { complete, checks })?,
        false => output::print(&show(&checks))?,
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Which link `auto` takes.
fn auto_link(state: &StateDir) -> Check {
    Check { name: "link auto", verdict: Verdict::Ok, found: links::summary(state), mend: None }
}

fn show(checks: &[Check]) -> String {
    let row = |check: &Check| {
        let verdict = match check.verdict {
            Verdict::Ok => "ok",
            Verdict::Limited => "limited",
            Verdict::Missing => "MISSING",
        };
        vec![check.name.to_owned(), verdict.to_owned(), check.found.clone()]
    };
    let mut text = output::table(&checks.iter().map(row).collect::<Vec<_>>());
    let mends: Vec<_> = checks.iter().filter_map(|c| Some((c, c.mend.as_ref()?))).collect();
    if !mends.is_empty() {
        text += "\nMends:\n";
    }
    for (check, mend) in mends {
        text += &format!("  {}: {mend}\n", check.name);
    }
    text
}

/// The helper, which lends the packet link its privilege.
fn helper(packet: Verdict) -> Check {
    let name = "helper";
    let told = wiglaf_helper::status();
    let mend = "have the administrator run wiglaf-helper and admit you (docs/helper.md); whom it admits \
                can send any frame on this machine's networks";
    match told {
        Ok(found) if packet == Verdict::Ok || found.contains(" is admitted") => {
            Check { name, verdict: Verdict::Ok, found, mend: None }
        }
        Ok(found) => Check { name, verdict: Verdict::Limited, found, mend: Some(mend.to_owned()) },
        Err(why) if packet == Verdict::Ok => {
            let found = format!("{why}; this user needs none");
            Check { name, verdict: Verdict::Ok, found, mend: None }
        }
        Err(why) => {
            let found = format!("{why}; `udp` is used");
            Check { name, verdict: Verdict::Limited, found, mend: Some(mend.to_owned()) }
        }
    }
}
