//! `wiglaf links`: what is known of the links here, and measuring them.

mod collectives;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::time::Duration;

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_bench::floor::{self, Floor};
use wiglaf_cluster::StateDir;
use wiglaf_link::LinkKind;
use wiglaf_links::remembered::{self, Measured, Remembered};

use crate::bench::launcher::Emulated;
use crate::measuring::nodes::{Cluster, Wish};
use crate::measuring::{interrupt, progress};
use crate::options::Global;
use crate::output;
use crate::which::Meant;
use collectives::CollectivesArgs;

const HELP: &str = "\
Examples:
  wiglaf links measure      measure every link between the first two nodes
  wiglaf links              show what was measured
  wiglaf links measure --collectives    measure the MPI's algorithms
  wiglaf links forget       take back what that has found

`--link auto` takes packet, or else udp, until the links have been measured.
Then it takes the link that comes closest to the best one for frames of every
length and for streams, and the next best where that cannot be had. The
measurement is kept in the cluster's state folder, so `measure` takes root where
root has brought the cluster up. It holds for the kernel, the driver and the MTU
that it was made with, and until `wiglaf down`.

`behind` says by how much a link's worst figure is worse than the best link's.

An MPI chooses algorithms for collectives by rules that were made on other
networks. `measure --collectives` measures, on emulated nodes and on hosts,
those algorithms that are right for any input in turns with the MPI's own
choice, for 2, 4, 8 ... nodes and 4 B to 1 MiB, and keeps a rule where in all
of 5 rounds one beat it, and its median by a tenth. `wiglaf run` uses the rules
for exactly this version of the MPI, transport, link and number of ranks on a
node; `--collectives mpi` does not, nor does it where a variable of yours
speaks of collectives. For Open MPI and MPICH 4 and 5. Measure while nothing
else runs, and again when the network has changed.";

/// Every one that may join two nodes.
const LINKS: [LinkKind; 5] = [
    LinkKind::Udp,
    LinkKind::Packet,
    LinkKind::XdpGeneric,
    LinkKind::XdpNative,
    LinkKind::XdpZeroCopy,
];
const TIME_MAX: Duration = Duration::from_secs(60);

/// Show how fast the links are here, or measure them for --link auto
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: Option<What>,

    /// Print JSON
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, clap::Subcommand)]
enum What {
    /// Show what was measured (this is done when nothing is said)
    Show,
    /// Measure the links of the cluster that is up, and remember it
    Measure(MeasureArgs),
    /// Take back what `measure --collectives` has found
    Forget,
}

#[derive(Debug, clap::Args)]
struct MeasureArgs {
    /// How often each link is measured; medians count [default: 3; with
    /// --collectives 5, which is the least there]
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    repeats: Option<u16>,

    #[command(flatten)]
    collectives: CollectivesArgs,
}

/// Rounds unless said otherwise.
const ROUNDS: u16 = 3;

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match &args.what {
        Some(What::Measure(how)) if how.collectives.collectives => {
            collectives::measure(how, global, args.json)?;
            return Ok(ExitCode::SUCCESS);
        }
        Some(What::Forget) => {
            output::print(&collectives::forget(&global.meant()?.running()?)?)?;
            return Ok(ExitCode::SUCCESS);
        }
        None | Some(What::Show) if matches!(global.meant()?, Meant::Hosts(_)) && !args.json => {
            let found = collectives::summary(&global.meant()?.running()?)?;
            let none = "No algorithms of collectives have been measured; `wiglaf links measure \
                        --collectives` does it.\n";
            output::print(if found.is_empty() { none } else { found.trim_start() })?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    let state = match global.meant()? {
        Meant::Emulated(state) => state,
        Meant::Hosts(hosts) => {
            return Err(Error::new(format!(
                "links are measured between emulated nodes (add --name for those), not between the hosts \
                 in {}; `wiglaf check` measures each pair of hosts, and `wiglaf bench pingpong --links \
                 auto,packet,udp` their links beside each other",
                hosts.file.display()
            )));
        }
    };
    if let Some(What::Measure(how)) = &args.what {
        measure(global, &state, how.repeats.unwrap_or(ROUNDS))?;
    }
    let all = recall(&state)?;
    match args.json {
        true => output::print_json(&all)?,
        false => {
            let rules = Meant::Emulated(state).running().and_then(|c| collectives::summary(&c));
            output::print(&(show(&all) + &rules.unwrap_or_default()))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn recall(state: &StateDir) -> Result<Vec<Remembered>> {
    remembered::read(state.path())
        .cannot(|| format!("read {}", state.path().join(remembered::FILE).display()))
}

/// What `auto` does on each interface, in a few words; for `wiglaf doctor`.
pub(crate) fn summary(state: &StateDir) -> String {
    let all = recall(state).unwrap_or_default();
    let one = |one: &Remembered| {
        let best = one.links.first()?;
        let place = |name: &str| one.place.get(name).map_or("?", String::as_str);
        Some(format!(
            "{} ({}, MTU {}): {}, at most {:.0} % behind the best",
            place("interface"),
            place("driver"),
            place("mtu"),
            best.link,
            best.behind_percent
        ))
    };
    let all: Vec<String> = all.iter().filter_map(one).collect();
    match all.is_empty() {
        true => "packet, else udp; `wiglaf links measure` finds the best".to_owned(),
        false => all.join("; "),
    }
}

/// Whether rules for collectives are kept, in a few words; for `wiglaf doctor`.
pub(crate) fn rules(cluster: &wiglaf_cluster::Cluster) -> Option<String> {
    collectives::count(cluster).filter(|count| *count > 0).map(|count| {
        format!("algorithms of collectives for {count} kinds of jobs; see `wiglaf links`")
    })
}

fn measure(global: &Global, state: &StateDir, rounds: u16) -> Result<()> {
    let record = state.running()?;
    if record.shape.nodes.len() < 2 {
        return Err(Error::new("links are measured between two nodes; the cluster has one"));
    }
    check_writable(state)?;
    let wish = Wish { nodes: 2, ..Wish::default() };
    let cluster = Cluster::find_or_start(global, &wish)?;
    let launcher = Emulated::new(&cluster, 2, 2, LinkKind::Auto, state.path())?;
    let mut floors: BTreeMap<&str, Vec<Floor>> = BTreeMap::new();
    let mut absent = BTreeMap::new();
    for round in 1..=rounds {
        for link in LINKS {
            let name = link.name();
            if absent.contains_key(name) {
                continue;
            }
            progress(&format!("round {round} of {rounds}: {name}"));
            let measured = floor::measure(launcher.floor(link, 2), TIME_MAX, &interrupt::is_wanted);
            interrupt::check()?;
            match measured {
                // Another than was asked for: all queues are taken.
                Ok(floor) if floor.link != name => {
                    absent.insert(name.to_owned(), format!("{} was taken instead", floor.link));
                }
                Ok(floor) => floors.entry(name).or_default().push(floor),
                Err(error) => {
                    absent.insert(name.to_owned(), error.to_string());
                }
            }
        }
    }
    floors.retain(|name, _| !absent.contains_key(*name));
    let place = floors.values().flatten().map(|floor| floor.place.clone()).next();
    let place = place.ok_or_else(|| {
        let why = absent.values().next().cloned().unwrap_or_default();
        Error::new(format!("no link could be measured: {why}"))
    })?;
    let links = floors.iter().map(|(name, floors)| medians(name, floors)).collect();
    remembered::write(state.path(), Remembered::new(place, links, absent))
        .cannot(|| format!("write {}", state.path().join(remembered::FILE).display()))
}

/// Before minutes are spent on what could not be kept.
fn check_writable(state: &StateDir) -> Result<()> {
    let folder = state.path();
    rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).map_err(|error| {
        Error::new(format!(
            "what is measured is kept in {}, which this user cannot write to ({error}); run the \
             command as the user who brought the cluster up, as a rule with sudo",
            folder.display()
        ))
    })
}

fn medians(name: &str, floors: &[Floor]) -> Measured {
    let lens = floors.first().map(|floor| floor.latency.iter().map(|l| l.len));
    let at = |len: u64| {
        let all = floors.iter().flat_map(|floor| &floor.latency);
        median(all.filter(|l| l.len == len).map(|l| l.p50_us).collect())
    };
    Measured {
        link: name.to_owned(),
        latency_us: lens.into_iter().flatten().map(|len| (len, at(len))).collect(),
        stream_megabytes_per_s: median(
            floors.iter().filter_map(|floor| floor.stream_megabytes_per_s).collect(),
        ),
        behind_percent: 0.0,
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn show(all: &[Remembered]) -> String {
    if all.is_empty() {
        return "Nothing has been measured; `wiglaf links measure` does it.\n".to_owned();
    }
    let mut text = String::new();
    for one in all {
        let place: Vec<String> =
            one.place.iter().map(|(name, value)| format!("{name} {value}")).collect();
        text += &format!("{}\n\n", place.join(", "));
        let lens = one.links.first().map(|link| link.latency_us.iter().map(|(len, _)| *len));
        let mut heading = vec!["link".to_owned()];
        heading.extend(lens.into_iter().flatten().map(|len| format!("{len} B, us")));
        heading.extend(["stream, MB/s", "behind"].map(str::to_owned));
        let mut rows = vec![heading];
        for link in &one.links {
            let mut row = vec![link.link.clone()];
            row.extend(link.latency_us.iter().map(|(_, time)| format!("{time:.2}")));
            row.push(format!("{:.0}", link.stream_megabytes_per_s));
            row.push(format!("{:.0} %", link.behind_percent));
            rows.push(row);
        }
        text += &output::table(&rows);
        text += "\n--link auto tries them in this order.\n";
        for (link, why) in &one.absent {
            text += &format!("Without {link}: {why}\n");
        }
    }
    text
}
