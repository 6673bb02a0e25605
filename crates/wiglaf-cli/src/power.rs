//! `wiglaf power` and `wiglaf sensors`.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::Serialize;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::hosts::{HostSpec, Hosts};
use wiglaf_power::{Done, Leave, Limits, Sensor, State, Wanted};

use crate::options::Global;
use crate::output;
use crate::which::Meant;

/// As many hosts are asked at once.
const AT_ONCE: usize = 64;

const EXAMPLES: &str = "\
Examples:
  wiglaf power status                  all hosts of the cluster file
  wiglaf power off -w 'pc[2-4]'        a clean shutdown, then their BMCs
  wiglaf power cycle -w pc3            a host that hangs: off, and on again
  wiglaf power wake -w 'pc[2-4]'       magic packets on the data network
  wiglaf power off -w pc3 --dry-run    say what would be done, and do nothing

The cluster file says how, in each host's section:
  [node.pc3]
  power = { kind = \"ipmi\", address = \"10.9.1.3\", user = \"admin\",
            password_file = \"bmc.password\" }";

/// Power of real hosts: is it on; on, off, off and on, reset, wake
///
/// `off` and `cycle` shut a host down over ssh first, where it answers, and cut
/// its power after that. They and `reset` refuse the machine you sit at, and
/// hosts where a job of another user runs. What was asked is logged.
///
/// Exit status 0: all hosts are as wanted; 1: not all.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to do
    #[arg(value_enum)]
    action: Action,

    /// The hosts; all for `status`
    #[arg(short = 'w', long = "nodes", value_name = "HOSTS", value_parser = HostList::parse)]
    nodes: Option<HostList>,

    /// Also the machine you sit at, and under another user's job
    #[arg(long)]
    force: bool,

    /// Only hosts that have power and do not answer: those that hang
    #[arg(long, conflicts_with = "force")]
    if_silent: bool,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Seconds for a host to be as its BMC was told
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    wait: u64,

    /// Seconds for a clean shutdown, or a start by magic packet
    #[arg(long, value_name = "SECONDS", default_value_t = 120)]
    shutdown_wait: u64,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What BMCs of hosts measure: temperatures, fans, voltages
///
/// Exit status 0: all have answered; 1: not all.
#[derive(Debug, clap::Args)]
pub(crate) struct SensorsArgs {
    /// The hosts [default: all]
    #[arg(short = 'w', long = "nodes", value_name = "HOSTS", value_parser = HostList::parse)]
    nodes: Option<HostList>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Action {
    Status,
    On,
    Off,
    Cycle,
    Reset,
    Wake,
}

impl Action {
    fn wanted(self) -> Option<Wanted> {
        Some(match self {
            Self::Status => return None,
            Self::On => Wanted::On,
            Self::Off => Wanted::Off,
            Self::Cycle => Wanted::Cycle,
            Self::Reset => Wanted::Reset,
            Self::Wake => Wanted::Wake,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Status => "status",
            Self::On => "on",
            Self::Off => "off",
            Self::Cycle => "cycle",
            Self::Reset => "reset",
            Self::Wake => "wake",
        }
    }
}

#[derive(Debug, Serialize)]
struct JsonHost {
    host: String,
    state: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct JsonSensors {
    host: String,
    sensors: Vec<JsonSensor>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
}

#[derive(Debug, Serialize)]
struct JsonSensor {
    id: String,
    name: String,
    reading: Option<String>,
    unit: String,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let hosts = hosts(global)?;
    let Some(wanted) = args.action.wanted() else {
        let chosen = hosts.select(&args.nodes.clone().unwrap_or_default())?;
        let answers = at_once(&chosen, |spec| {
            wiglaf_power::status(spec).map(|state| Done { state, steps: Vec::new() })
        });
        return show(args, &chosen, &answers);
    };
    // All hosts of a cluster are never meant by leaving something out.
    let names = args.nodes.clone().ok_or_else(|| {
        Error::new(format!(
            "say which hosts: `wiglaf power {} -w {}`",
            args.action.name(),
            hosts.names()
        ))
    })?;
    let chosen = hosts.select(&names)?;
    if args.dry_run {
        return dry_run(args, &chosen);
    }
    let limits = Limits {
        change: Duration::from_secs(args.wait),
        shutdown: Duration::from_secs(args.shutdown_wait),
    };
    let (leave, forced) = match (args.force, args.if_silent) {
        (true, _) => (Leave::Nothing, " --force"),
        (_, true) => (Leave::WhatAnswers, " --if-silent"),
        _ => (Leave::InUse, ""),
    };
    let asked = format!("power {} -w {names}{forced}", args.action.name());
    wiglaf_power::note(&asked)?;
    let answers =
        at_once(&chosen, |spec| wiglaf_power::switch(spec, &hosts.network, wanted, limits, leave));
    for (names, text, _) in folded(&chosen, &answers) {
        // It has been done: a full disk does not change that.
        let _ = wiglaf_power::note(&format!("power {}: {names}: {text}", args.action.name()));
    }
    show(args, &chosen, &answers)
}

pub(crate) fn hosts(global: &Global) -> Result<Hosts> {
    match global.meant()? {
        Meant::Hosts(hosts) => Ok(hosts),
        Meant::Emulated(_) => Err(Error::new(
            "this is for real hosts, and there is no cluster file of any; write one with `wiglaf init`, or \
             name it with --file",
        )),
    }
}

fn dry_run(args: &Args, chosen: &[&HostSpec]) -> Result<ExitCode> {
    let mut text = String::new();
    for spec in chosen {
        let how = match &spec.power {
            None => "nothing: the cluster file says nothing of its power".to_owned(),
            Some(power) => {
                let kind = serde_json::to_value(power.kind).unwrap_or_default();
                let at = power.address.as_ref().map(|a| format!(" at {a}")).unwrap_or_default();
                let kind = kind.as_str().unwrap_or_default();
                format!("{} by {kind}{at}", args.action.name())
            }
        };
        text += &format!("{}: would do {how}\n", spec.name);
    }
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Asks many at once; answers in their order.
fn at_once<T: Send>(
    chosen: &[&HostSpec],
    ask: impl Fn(&HostSpec) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let next = AtomicUsize::new(0);
    let answers: Mutex<Vec<Option<Result<T>>>> = Mutex::new(chosen.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..chosen.len().min(AT_ONCE) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(spec) = chosen.get(index) else { break };
                    let answer = ask(spec);
                    if let Ok(mut answers) = answers.lock() {
                        answers[index] = Some(answer);
                    }
                }
            });
        }
    });
    let answers = answers.into_inner().unwrap_or_default();
    answers.into_iter().map(|a| a.unwrap_or_else(|| Err(Error::new("a thread panicked")))).collect()
}

/// What is said of hosts, once for all of which it is true, and whether it is an error.
fn folded(chosen: &[&HostSpec], answers: &[Result<Done>]) -> Vec<(HostList, String, bool)> {
    let mut groups: BTreeMap<(bool, String), Vec<&str>> = BTreeMap::new();
    for (spec, answer) in chosen.iter().zip(answers) {
        let text = match answer {
            Ok(done) if done.steps.is_empty() => done.state.to_string(),
            Ok(done) => format!("{} ({})", done.state, done.steps.join(", ")),
            Err(error) => error.to_string(),
        };
        groups.entry((answer.is_err(), text)).or_default().push(&spec.name);
    }
    let finish =
        |((is_error, text), names): (_, Vec<&str>)| (names.into_iter().collect(), text, is_error);
    groups.into_iter().map(finish).collect()
}

fn show(args: &Args, chosen: &[&HostSpec], answers: &[Result<Done>]) -> Result<ExitCode> {
    let ok = answers.iter().all(Result::is_ok);
    if args.json {
        let rows = chosen.iter().zip(answers).map(|(spec, answer)| JsonHost {
            host: spec.name.clone(),
            state: answer.as_ref().ok().map(|done| match done.state {
                State::On => "on",
                State::Off => "off",
                State::Silent => "silent",
            }),
            steps: answer.as_ref().map(|done| done.steps.clone()).unwrap_or_default(),
            error: answer.as_ref().err().map(ToString::to_string),
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        for (names, text, is_error) in folded(chosen, answers) {
            match is_error {
                true => eprintln!("wiglaf: {names}: {text}"),
                false => output::print(&format!("{names}: {text}\n"))?,
            }
        }
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

pub(crate) fn sensors(args: &SensorsArgs, global: &Global) -> Result<ExitCode> {
    let hosts = hosts(global)?;
    let chosen = hosts.select(&args.nodes.clone().unwrap_or_default())?;
    let answers = at_once(&chosen, wiglaf_power::sensors);
    let ok = answers.iter().all(Result::is_ok);
    if args.json {
        let rows = chosen.iter().zip(&answers).map(|(spec, answer)| JsonSensors {
            host: spec.name.clone(),
            sensors: answer.iter().flatten().map(json_sensor).collect(),
            error: answer.as_ref().err().map(ToString::to_string),
        });
        output::print_json(&rows.collect::<Vec<_>>())?;
    } else {
        let mut rows = vec![["host", "sensor", "reading"].map(str::to_owned).to_vec()];
        for (spec, answer) in chosen.iter().zip(&answers) {
            for sensor in answer.iter().flatten() {
                let reading = sensor
                    .reading
                    .as_deref()
                    .map_or_else(|| "-".to_owned(), |reading| format!("{reading} {}", sensor.unit));
                rows.push(vec![
                    spec.name.clone(),
                    output::visible(&sensor.name),
                    output::visible(&reading),
                ]);
            }
        }
        output::print(&output::table(&rows))?;
        for (spec, error) in
            chosen.iter().zip(&answers).filter_map(|(s, a)| Some((s, a.as_ref().err()?)))
        {
            eprintln!("wiglaf: {}: {error}", spec.name);
        }
    }
    Ok(if ok { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn json_sensor(sensor: &Sensor) -> JsonSensor {
    JsonSensor {
        id: sensor.id.clone(),
        name: sensor.name.clone(),
        reading: sensor.reading.clone(),
        unit: sensor.unit.clone(),
    }
}
