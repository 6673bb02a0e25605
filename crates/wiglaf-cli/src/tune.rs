//! `wiglaf tune`, and what `wiglaf run --tune` holds for the time of a job.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use serde::{Deserialize, Serialize};
use wiglaf_base::paths::EXE;
use wiglaf_base::user::User;
use wiglaf_base::{Error, HostList, Result, network};
use wiglaf_check::probe::{PairResult, Plan};
use wiglaf_check::tuning::{self, Plan as Changes};
use wiglaf_check::verdict::gain;
use wiglaf_cluster::cluster::ask_all;
use wiglaf_cluster::{Cluster, Member};
use wiglaf_helper::{AskError, Change, MICROSECONDS_MAX, Tuned, TuningLease, Wants};
use wiglaf_node::client::Running;
use wiglaf_node::{NodeCommand, Streams};

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::{check, output};

/// A card that was started anew has its carrier back within this, or has no cable.
const CARRIER_PATIENCE: Duration = Duration::from_secs(15);

const HELP: &str = "\
Examples:
  wiglaf tune --dry-run            what it would change, and the lines to type
  wiglaf tune                      all hosts, until it is undone
  wiglaf tune -w 'pc[1-2]' --measure
                                   with what that gave
  wiglaf tune --undo               everything as it was
  wiglaf run --tune -- ./prog      while a job runs, and no longer

On each host: the card of the data network interrupts at once (no moderation, or
--usecs), has no Energy Efficient Ethernet and the longest rings that it can
have, and processors stay awake (/dev/cpu_dma_latency). Old values are kept on
the host and come back with --undo, with `wiglaf leave`, or when the machine
starts anew; what somebody else has changed meanwhile stays as it is.

Rings and Energy Efficient Ethernet cannot be changed without a card losing its
carrier for some seconds. `--link-stays` and `run --tune` leave these two alone.

The wiglaf-helper of each host does it, for users whom its policy admits to that
(`tune` in docs/helper.md). Where none runs, this says what to type.";

/// Set hosts' cards and processors for short messages, and back again
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// On which hosts [default: all]
    #[arg(short = 'w', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Set back what you have tuned; as root, what anybody has
    #[arg(long, conflicts_with_all = ["dry_run", "measure", "usecs", "link_stays"])]
    undo: bool,

    /// Say what would be changed, and change nothing
    #[arg(long, conflicts_with = "measure")]
    dry_run: bool,

    /// Measure each pair of these hosts before and after
    #[arg(long)]
    measure: bool,

    /// Let cards keep an arrival to themselves for so many microseconds: fewer
    /// interrupts where much arrives
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u16).range(0..=i64::from(MICROSECONDS_MAX)))]
    usecs: u16,

    /// Only what takes no carrier away
    #[arg(long)]
    link_stays: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What a host is asked, as a line of JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    /// As long as standard input is open.
    Hold,
    Keep,
    Undo,
    /// Change nothing.
    Look,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Question {
    what: What,
    #[serde(default)]
    wants: Wants,
    /// The data network, as in 192.168.77.0/24.
    #[serde(default)]
    network: String,
}

/// What it answers, as a line of JSON.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Answer {
    /// How it is tuned now; none: see `error`.
    tuned: Option<Tuned>,
    /// The names of those who hold a tuning.
    users: BTreeMap<u32, String>,
    /// Why the helper did nothing.
    error: Option<String>,
    /// There is no helper.
    is_absent: bool,
    /// What is left to do.
    plan: Changes,
}

#[derive(Debug, Serialize)]
struct JsonHost<'a> {
    host: &'a str,
    error: Option<String>,
    changes: &'a [Change],
    /// What was not done, in sentences.
    notes: Vec<String>,
    would_change: &'a [Change],
    /// What to type on the host instead.
    commands: &'a [String],
    tuned_by: Vec<String>,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let cluster = global.meant()?.running()?;
    let network = data_network(&cluster, "wiglaf tune")?;
    let members = cluster.members(&args.nodes.clone().unwrap_or_default())?;
    let what = match (args.undo, args.dry_run) {
        (true, _) => What::Undo,
        (_, true) => What::Look,
        _ => What::Keep,
    };
    let wants = if args.link_stays { Wants::FOR_A_JOB } else { Wants::ALL };
    let wants = Wants { rx_usecs: Some(args.usecs), ..wants };
    let question = Question { what, wants, network };
    let before = if args.measure { measure(&cluster, &members, args.json) } else { Vec::new() };
    let answers = ask_all(&members, |member| ask(member, &question));
    if args.json {
        let hosts: Vec<JsonHost<'_>> = members.iter().zip(&answers).map(json).collect();
        output::print_json(&hosts)?;
    } else {
        for (member, answer) in members.iter().zip(&answers) {
            show(member.name(), answer, what)?;
        }
    }
    if args.measure {
        let after = measure(&cluster, &members, args.json);
        before.iter().try_for_each(|before| show_gain(before, &after, args.json))?;
    }
    let failed = |answer: &Result<Answer>| match answer {
        Err(_) => true,
        Ok(answer) => answer.error.is_some() && !(answer.is_absent && what != What::Keep),
    };
    Ok(if answers.iter().any(failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// The network whose cards are meant, of real hosts.
fn data_network(cluster: &Cluster, what: &str) -> Result<String> {
    match cluster.hosts() {
        Some(hosts) => Ok(hosts.network.data.to_string()),
        None => Err(Error::new(format!(
            "emulated nodes have no cards, so {what} is for real hosts; see `wiglaf init --help`"
        ))),
    }
}

fn ask(member: &Member, question: &Question) -> Result<Answer> {
    let said = member.node.output(&command(), &line(question)?)?;
    serde_json::from_slice(&said).map_err(|error| not_understood(member, &error))
}

fn command() -> NodeCommand {
    NodeCommand::new([EXE, "host-tune"]).cwd("/")
}

fn line(question: &Question) -> Result<Vec<u8>> {
    let mut line = serde_json::to_vec(question).map_err(|error| Error::new(error.to_string()))?;
    line.push(b'\n');
    Ok(line)
}

fn not_understood(member: &Member, error: &serde_json::Error) -> Error {
    let name = member.name();
    Error::new(format!(
        "{name} does not say how it is tuned ({error}); if its Wiglaf is an older one, run `wiglaf join {name}`"
    ))
}

fn words(changes: &[Change]) -> String {
    let one = |change: &Change| {
        let of = change.card.as_ref().map_or_else(|| "processors'".to_owned(), Clone::clone);
        format!("{of} {} {} -> {}", change.setting, change.before, change.now)
    };
    changes.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// Sentences about what was not done.
fn notes(host: &str, tuned: &Tuned) -> Vec<String> {
    let one = |note: &wiglaf_helper::Note| match &note.card {
        Some(card) => format!("{card} of {host} {}", note.text),
        None => format!("{host} {}", note.text),
    };
    tuned.notes.iter().map(one).collect()
}

fn show(host: &str, answer: &Result<Answer>, what: What) -> Result<()> {
    let answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            eprintln!("wiglaf: {error}");
            return Ok(());
        }
    };
    let print = |text: &str| output::print(&format!("{host}: {text}\n"));
    if what == What::Look {
        match answer.plan.changes.is_empty() {
            true => print("nothing to change")?,
            false => print(&words(&answer.plan.changes))?,
        }
        answer.plan.commands.iter().try_for_each(|line| output::print(&format!("  {line}\n")))?;
        return match &answer.error {
            Some(_) => Ok(()),
            None => who(host, answer).map_or(Ok(()), |who| output::print(&format!("{who}\n"))),
        };
    }
    if let Some(error) = &answer.error {
        if what == What::Undo && answer.is_absent {
            return print("nothing is tuned, as no wiglaf-helper runs there");
        }
        let mut hint = String::new();
        if answer.is_absent {
            hint += &format!("; where sudo works, `wiglaf join {host}` starts one");
        }
        if !answer.plan.commands.is_empty() {
            hint += &format!("; or type there: {}", answer.plan.commands.join("; "));
        }
        eprintln!("wiglaf: {host} is not tuned: {error}{hint}");
        return Ok(());
    }
    let Some(tuned) = &answer.tuned else { return Ok(()) };
    match (&tuned.changes[..], what) {
        ([], What::Undo) => print("as it was")?,
        ([], _) => print("nothing to change")?,
        (changes, What::Undo) => {
            print(&format!("still tuned ({})", words(changes)))?;
            who(host, answer).map_or(Ok(()), |who| output::print(&format!("{who}\n")))?;
        }
        (changes, _) => print(&words(changes))?,
    }
    notes(host, tuned).iter().for_each(|note| eprintln!("wiglaf: {note}"));
    Ok(())
}

/// On whose behalf a host is tuned, in a sentence.
fn who(host: &str, answer: &Answer) -> Option<String> {
    let names = names(answer);
    (!names.is_empty()).then(|| format!("{host} is tuned by {}", names.join(", ")))
}

fn names(answer: &Answer) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for holder in answer.tuned.iter().flat_map(|tuned| &tuned.holders) {
        let name = answer.users.get(&holder.uid).cloned();
        let name = name.unwrap_or_else(|| holder.uid.to_string());
        let name = match holder.is_kept {
            true => format!("{name} until `wiglaf tune --undo`"),
            false => format!("{name} for a job"),
        };
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn json<'a>((member, answer): (&'a Member, &'a Result<Answer>)) -> JsonHost<'a> {
    let host = member.name();
    let mut row = JsonHost {
        host,
        error: None,
        changes: &[],
        notes: Vec::new(),
        would_change: &[],
        commands: &[],
        tuned_by: Vec::new(),
    };
    match answer {
        Err(error) => row.error = Some(error.to_string()),
        Ok(answer) => {
            row.error.clone_from(&answer.error);
            row.changes = answer.tuned.as_ref().map_or(&[], |tuned| &tuned.changes);
            row.notes = answer.tuned.as_ref().map(|tuned| notes(host, tuned)).unwrap_or_default();
            row.would_change = &answer.plan.changes;
            row.commands = &answer.plan.commands;
            row.tuned_by = names(answer);
        }
    }
    row
}

/// For `wiglaf status`: who has tuned each host that is tuned. A host that does not say is none.
pub(crate) fn told(cluster: &Cluster, members: &[Member]) -> Vec<Option<String>> {
    let Ok(network) = data_network(cluster, "this") else { return Vec::new() };
    let question = Question { what: What::Look, wants: Wants::FOR_A_JOB, network };
    let answers = ask_all(members, |member| ask(member, &question));
    let told = members.iter().zip(answers).map(|(member, answer)| {
        let answer = answer.ok()?;
        let who = who(member.name(), &answer)?;
        Some(format!("{who}: {}", words(&answer.tuned?.changes)))
    });
    told.collect()
}

fn measure(cluster: &Cluster, members: &[Member], is_for_programs: bool) -> Vec<PairResult> {
    let addresses = check::addresses(cluster, members);
    let ends: Vec<(&Member, Ipv4Addr)> = members
        .iter()
        .zip(addresses)
        .filter_map(|(member, address)| Some((member, address.ok()?)))
        .collect();
    check::measure_pairs(&ends, &Plan::tuning(check::ports(cluster)), is_for_programs)
}

fn show_gain(before: &PairResult, after: &[PairResult], is_for_programs: bool) -> Result<()> {
    let (a, b) = (&before.a, &before.b);
    let after = after.iter().find(|pair| pair.a == *a && pair.b == *b);
    let known = after.and_then(|after| {
        let link = (before.link.get()?, after.link.get()?);
        Some((link, (before.after_pause.get()?, after.after_pause.get()?)))
    });
    let line = match known {
        Some((link, paused)) => format!("{a} and {b}: {}", gain(link, paused)),
        None => format!("{a} and {b} could not be measured; see `wiglaf check -w {a},{b}`"),
    };
    if is_for_programs {
        eprintln!("wiglaf: {line}");
        return Ok(());
    }
    output::print(&format!("{line}\n"))
}

/// Hosts that are tuned until this is dropped.
#[derive(Debug)]
pub(crate) struct Held {
    _hosts: Vec<(File, Running)>,
}

/// Tunes these hosts for the time of a job; says which it could not. They stay as they are.
pub(crate) fn hold(cluster: &Cluster, nodes: &HostList) -> Result<Held> {
    let network = data_network(cluster, "--tune")?;
    let question = Question { what: What::Hold, wants: Wants::FOR_A_JOB, network };
    let members = cluster.members(nodes)?;
    let held = ask_all(&members, |member| hold_one(member, &question));
    let mut hosts = Vec::new();
    for (member, held) in members.iter().zip(held) {
        match held {
            Ok(held) => hosts.push(held),
            Err(error) => eprintln!("wiglaf: {} is not tuned: {error}", member.name()),
        }
    }
    Ok(Held { _hosts: hosts })
}

fn hold_one(member: &Member, question: &Question) -> Result<(File, Running)> {
    let (streams, mut to, from) = Streams::piped()?;
    let running = member.node.spawn(&command(), streams)?;
    let failed = |error: std::io::Error| Error::new(format!("it does not answer ({error})"));
    to.write_all(&line(question)?).map_err(failed)?;
    let mut said = BufReader::new(from);
    let mut first = String::new();
    said.read_line(&mut first).map_err(failed)?;
    let answer: Answer =
        serde_json::from_str(&first).map_err(|error| not_understood(member, &error))?;
    if let Some(error) = answer.error {
        return Err(Error::new(error));
    }
    if let Some(tuned) = &answer.tuned {
        notes(member.name(), tuned).iter().for_each(|note| eprintln!("wiglaf: {note}"));
    }
    // What it says later is that it is tuned no longer.
    let name = member.name().to_owned();
    std::thread::spawn(move || {
        for later in said.lines().map_while(std::result::Result::ok) {
            if let Ok(Answer { error: Some(error), .. }) = serde_json::from_str(&later) {
                eprintln!("wiglaf: {name} is tuned no longer: {error}");
            }
        }
    });
    Ok((to, running))
}

/// The hidden command `wiglaf host-tune`.
pub(crate) fn host_tune() -> Result<ExitCode> {
    let mut asked = String::new();
    std::io::stdin()
        .lock()
        .read_line(&mut asked)
        .map_err(|error| Error::new(format!("there is no question: {error}")))?;
    let question: Question = serde_json::from_str(&asked)
        .map_err(|error| Error::new(format!("the question is damaged: {error}")))?;
    if question.what == What::Hold {
        return hold_here(&question);
    }
    let is_up = carriers(&question);
    let tuned = match question.what {
        What::Undo => wiglaf_helper::undo_tuning(),
        What::Keep => wiglaf_helper::keep_tuning(question.wants),
        What::Hold | What::Look => wiglaf_helper::tuned(),
    };
    if question.what != What::Look {
        wait_for_carriers(&question, &is_up);
    }
    say(&answer(&question, tuned))?;
    Ok(ExitCode::SUCCESS)
}

fn is_in(question: &Question, ip: Ipv4Addr) -> bool {
    question.network.parse::<network::Cidr>().is_ok_and(|network| network.contains(ip))
}

/// Interfaces of the data network that have their carrier.
fn carriers(question: &Question) -> Vec<String> {
    let all = network::addresses();
    let meant = all.into_iter().filter(|found| is_in(question, found.address));
    meant.map(|found| found.interface).filter(|name| has_carrier(name)).collect()
}

fn has_carrier(name: &str) -> bool {
    let path = format!("/sys/class/net/{name}/carrier");
    std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "1")
}

/// A job that starts next is to find the cables whole.
fn wait_for_carriers(question: &Question, before: &[String]) {
    let began = Instant::now();
    let missing = || {
        let now = carriers(question);
        before.iter().any(|name| !now.contains(name))
    };
    while missing() && began.elapsed() < CARRIER_PATIENCE {
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn answer(question: &Question, tuned: std::result::Result<Tuned, AskError>) -> Answer {
    let mut answer = Answer::default();
    match tuned {
        Ok(tuned) => {
            let uids = tuned.holders.iter().map(|holder| holder.uid);
            let named = |uid: u32| Some((uid, User::find(&uid.to_string()).ok()?.name));
            answer.users = uids.filter_map(named).collect();
            answer.tuned = Some(tuned);
        }
        Err(error) => {
            answer.is_absent = matches!(error, AskError::None);
            answer.error = Some(match error {
                AskError::None => "no wiglaf-helper runs there".to_owned(),
                error => error.to_string(),
            });
        }
    }
    // Of what was done nothing is left to do.
    if question.what == What::Look || answer.error.is_some() {
        answer.plan = tuning::plan(&question.wants, |ip| is_in(question, ip));
    }
    answer
}

fn say(answer: &Answer) -> Result<()> {
    let text = serde_json::to_string(answer).map_err(|error| Error::new(error.to_string()))?;
    output::print(&format!("{text}\n"))
}

/// Holds the tuning until standard input ends. A helper that is started anew is asked again.
fn hold_here(question: &Question) -> Result<ExitCode> {
    let mut is_first = true;
    loop {
        let lease = match wiglaf_helper::hold_tuning(question.wants) {
            Ok((tuned, lease)) => {
                if is_first {
                    say(&answer(question, Ok(tuned)))?;
                }
                lease
            }
            Err(error) => {
                say(&answer(question, Err(error)))?;
                return Ok(ExitCode::FAILURE);
            }
        };
        is_first = false;
        if is_over(&lease)? {
            return Ok(ExitCode::SUCCESS);
        }
    }
}

/// Waits for the end of standard input (true), or of the helper.
fn is_over(lease: &TuningLease) -> Result<bool> {
    let stdin = std::io::stdin();
    loop {
        let end = lease.end();
        let mut both =
            [PollFd::new(&stdin, PollFlags::IN), PollFd::from_borrowed_fd(end, PollFlags::empty())];
        match poll(&mut both, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::new(format!("cannot wait: {error}"))),
        }
        if !both[0].revents().is_empty() {
            return Ok(true);
        }
        if !both[1].revents().is_empty() {
            return Ok(false);
        }
    }
}
