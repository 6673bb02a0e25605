//! `wiglaf doctor`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use serde::{Deserialize, Serialize};
use wiglaf_base::paths::EXE;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::cluster::{all_or_error, ask_all};
use wiglaf_cluster::{Member, StateDir};
use wiglaf_doctor::doctor::{self, Check, Verdict};
use wiglaf_node::NodeCommand;
use wiglaf_node::client::null;

use crate::choices::parse_hosts;
use crate::links;
use crate::options::Global;
use crate::output;
use crate::toolchain;
use crate::up::this_exe;
use crate::which::Meant;

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

/// What only emulated nodes need: of real hosts nobody asks it.
const OF_EMULATION: [&str; 4] = ["privilege", "user namespaces", "overlayfs", "iproute2"];

/// Say what this machine offers, and the mend for what is missing
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Compile and run small programs with every compiler and MPI found here
    #[arg(long)]
    toolchain: bool,

    /// What these hosts of the cluster offer, one table for all
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    #[arg(conflicts_with = "toolchain")]
    nodes: Option<HostList>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A report as another host has printed it.
#[derive(Debug, Serialize, Deserialize)]
struct Said {
    complete: bool,
    checks: Vec<SaidCheck>,
}

impl Said {
    fn without_emulation(&mut self) {
        self.checks.retain(|check| !OF_EMULATION.contains(&check.name.as_str()));
        self.complete = self.checks.iter().all(|check| check.verdict != "missing");
    }
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SaidCheck {
    name: String,
    verdict: String,
    found: String,
    mend: Option<String>,
}

#[derive(Debug, Serialize)]
struct Report {
    complete: bool,
    checks: Vec<Check>,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    if let Some(names) = &args.nodes {
        return on_hosts(args, global, names);
    }
    let state = &global.state_dir();
    if args.toolchain {
        return toolchain::run(args.json);
    }
    let mut checks = doctor::examine(&this_exe()?);
    if matches!(global.meant(), Ok(Meant::Hosts(_))) {
        checks.retain(|check| !OF_EMULATION.contains(&check.name));
    }
    if let Some(at) = checks.iter().position(|check| check.name == "link packet") {
        let helper = helper(checks[at].verdict);
        checks.insert(at + 1, helper);
    }
    let after_links = checks.iter().rposition(|check| check.name.starts_with("link "));
    let after_links = after_links.map_or(0, |at| at + 1);
    checks.insert(after_links, auto_link(state));
    if let Some(found) =
        global.meant().and_then(|meant| meant.running()).ok().as_ref().and_then(links::rules)
    {
        let row = Check { name: "collectives", verdict: Verdict::Ok, found, mend: None };
        checks.insert(after_links + 1, row);
    }
    let complete = checks.iter().all(|check| check.verdict != Verdict::Missing);
    match args.json {
        true => output::print_json(&Report { complete, checks })?,
        false => output::print(&show(&checks))?,
    }
    Ok(if complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What each of these hosts says of itself. Hosts that say one thing are one row.
fn on_hosts(args: &Args, global: &Global, names: &HostList) -> Result<ExitCode> {
    let meant = global.meant()?;
    let members = meant.members(Some(names))?;
    let said = ask_all(&members, |member| {
        let command = NodeCommand::new([EXE, "doctor", "--json"]).cwd("/");
        let mut said = Vec::new();
        let ended = member.node.run(&command, null()?, &mut said);
        // Where something is missing it says so by its status, too.
        serde_json::from_slice::<Said>(&said).map_err(|_| match ended {
            Err(error) => Error::new(format!("{}: {error}", member.name())),
            Ok(()) => Error::new(format!("{} does not say what it offers", member.name())),
        })
    });
    let mut said = all_or_error(&members, said)?;
    if matches!(meant, Meant::Hosts(_)) {
        said.iter_mut().for_each(Said::without_emulation);
    }
    let is_complete = said.iter().all(|said| said.complete);
    let by_name: BTreeMap<&str, &Said> = members.iter().map(Member::name).zip(&said).collect();
    if args.json {
        output::print_json(&by_name)?;
    } else {
        output::print(&folded(&by_name))?;
    }
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The rows of all, in the order of the first, and the mends.
fn folded(said: &BTreeMap<&str, &Said>) -> String {
    let mut rows: Vec<(&SaidCheck, Vec<&str>)> = Vec::new();
    for (name, said) in said {
        for check in &said.checks {
            match rows.iter_mut().find(|(other, _)| *other == check) {
                Some((_, names)) => names.push(name),
                None => rows.push((check, vec![name])),
            }
        }
    }
    // What is said of one thing stands together.
    let mut order: Vec<&str> = Vec::new();
    for (check, _) in &rows {
        if !order.contains(&check.name.as_str()) {
            order.push(&check.name);
        }
    }
    rows.sort_by_key(|(check, _)| order.iter().position(|name| *name == check.name));
    let list = |names: &[&str]| names.iter().copied().collect::<HostList>().to_string();
    let table: Vec<Vec<String>> = rows
        .iter()
        .map(|(check, names)| {
            let verdict = if check.verdict == "missing" { "MISSING" } else { &check.verdict };
            vec![check.name.clone(), list(names), verdict.to_owned(), check.found.clone()]
        })
        .collect();
    let mut text = output::table(&table);
    let mends: Vec<String> = rows
        .iter()
        .filter_map(|(check, names)| {
            Some(format!("  {}, {}: {}\n", list(names), check.name, check.mend.as_ref()?))
        })
        .collect();
    if !mends.is_empty() {
        text += &format!("\nMends:\n{}", mends.concat());
    }
    text
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
