//! `wiglaf links measure --collectives`: which of an MPI's algorithms are faster here than its own choice.

use std::ffi::OsString;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use wiglaf_base::error::Context;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_bench::algorithms::{
    self, LeftOut, Measurement, OPERATIONS, Plan, ROUNDS_MAX, ROUNDS_MIN, Winner,
};
use wiglaf_cluster::launch::Mpi;
use wiglaf_cluster::rules::{self as kept, Kept};
use wiglaf_cluster::{Cluster, Member};
use wiglaf_link::LinkKind;
use wiglaf_mpi::rules::{self, Operation, Rules, Shape};
use wiglaf_mpi::{self as mpi, Family, Transport};

use super::MeasureArgs;
use crate::choices::{any, parse_mpi};
use crate::measuring::{interrupt, plain, progress};
use crate::options::Global;
use crate::output;
use crate::up::this_exe;

/// Each four times the one before, from a number to what is no longer the latency's matter.
const LENGTHS: [u64; 10] =
    [4, 16, 64, 256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
/// Ranks of one measurement; the program keeps all vectors in memory.
const RANKS_MAX: usize = 256;

#[derive(Debug, clap::Args)]
pub(super) struct CollectivesArgs {
    /// Measure the MPI's algorithms for collectives instead, and keep rules for
    /// `wiglaf run` where one is faster than the MPI's own choice
    #[arg(long)]
    pub(super) collectives: bool,

    /// With --collectives: which MPI
    #[arg(long, value_name = "MPI", default_value = "openmpi", value_parser = parse_mpi)]
    #[arg(requires = "collectives")]
    mpi: Mpi,

    /// With --collectives: over which transport
    #[arg(long, value_parser = any::<Transport>(), default_value = "wiglaf", requires = "collectives")]
    transport: Transport,

    /// With --collectives: over which of Wiglaf's links
    #[arg(long, value_parser = any::<LinkKind>(), default_value = "auto", requires = "collectives")]
    link: LinkKind,

    /// With --collectives: how many ranks on each node, such as 1,2 [default: 1,
    /// and the slots of the cluster file where all hosts have as many]
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "collectives")]
    per_node: Vec<usize>,

    /// With --collectives: only some operations, such as bcast,allreduce
    #[arg(long, value_name = "LIST", value_delimiter = ',', requires = "collectives")]
    #[arg(value_parser = OPERATIONS)]
    operations: Vec<String>,

    /// With --collectives: time for each algorithm, length and round, in ms
    #[arg(long, value_name = "MS", default_value_t = 10, requires = "collectives")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=10_000))]
    budget: u16,
}

/// What one shape came to.
#[derive(Debug, Serialize)]
struct Outcome {
    per_node: usize,
    file: String,
    winners: Vec<Winner>,
    left_out: Vec<LeftOut>,
}

/// Measures, keeps, and prints what was found.
pub(super) fn measure(args: &MeasureArgs, global: &Global, json: bool) -> Result<()> {
    let how = &args.collectives;
    let Mpi::With(choice) = &how.mpi else {
        return Err(Error::new("a program without MPI has no collectives; name an MPI with --mpi"));
    };
    if args.repeats.is_some_and(|rounds| !(ROUNDS_MIN..=ROUNDS_MAX).contains(&rounds)) {
        return Err(Error::new(format!(
            "with --collectives, --repeats is {ROUNDS_MIN} to {ROUNDS_MAX}: fewer tell nothing of the spread"
        )));
    }
    let mpi = mpi::installation(choice, how.transport)?;
    if let Some(why) = rules::why_not(&mpi) {
        return Err(Error::new(why));
    }
    // Before minutes are spent.
    kept::choice(&mpi, &Rules::default())?;
    let cluster = global.meant()?.running()?;
    let members = cluster.members(&HostList::default())?;
    if members.len() < 2 {
        return Err(Error::new("collectives are measured between nodes; the cluster has one"));
    }
    let folder = kept::folder(&cluster)?;
    std::fs::create_dir_all(&folder).cannot(|| {
        format!("keep what is measured in {}, where sudo may be needed", folder.display())
    })?;
    interrupt::listen()?;
    let mut outcomes = Vec::new();
    for per_node in shapes(how, &members)? {
        let shape = Shape {
            mpi: Shape::mpi_of(&mpi),
            transport: how.transport.word().to_owned(),
            link: how.link.name().to_owned(),
            per_node,
            nodes: members.iter().map(|member| member.name().to_owned()).collect(),
        };
        outcomes.push(measure_shape(args, &mpi, &cluster, shape, &folder)?);
    }
    match json {
        true => output::print_json(&outcomes),
        false => output::print(&outcomes.iter().map(show).collect::<String>()),
    }
}

/// How many ranks on each node are measured.
fn shapes(how: &CollectivesArgs, members: &[Member]) -> Result<Vec<usize>> {
    let mut shapes = how.per_node.clone();
    if shapes.is_empty() {
        let slots =
            members[0].slots.filter(|slots| members.iter().all(|m| m.slots == Some(*slots)));
        shapes = std::iter::once(1).chain(slots).collect();
    }
    shapes.sort_unstable();
    shapes.dedup();
    match shapes.iter().all(|per_node| *per_node > 0 && per_node * members.len() <= RANKS_MAX) {
        true => Ok(shapes),
        false => {
            Err(Error::new(format!("1 to {RANKS_MAX} ranks are measured; give another --per-node")))
        }
    }
}

/// Numbers of nodes: powers of two, and all.
fn node_counts(all: usize) -> Vec<usize> {
    let mut counts: Vec<usize> =
        std::iter::successors(Some(2), |n| Some(n * 2)).take_while(|n| *n < all).collect();
    counts.push(all);
    counts
}

fn measure_shape(
    args: &MeasureArgs,
    mpi: &mpi::Installation,
    cluster: &Cluster,
    shape: Shape,
    folder: &Path,
) -> Result<Outcome> {
    let how = &args.collectives;
    let exe = cluster.program(&this_exe()?);
    let cache = folder.join(kept::WORK_DIR);
    std::fs::create_dir_all(&cache).cannot(|| format!("make {}", cache.display()))?;
    // The only other one that rules are for is Open MPI.
    let is_mpich = mpi.family == Family::Mpich;
    let plan = Plan {
        rounds: args.repeats.unwrap_or(ROUNDS_MIN),
        operations: match (how.operations.is_empty(), is_mpich) {
            (false, _) => how.operations.clone(),
            (true, true) => {
                rules::mpich::OPERATIONS.map(|operation| operation.name().to_owned()).into()
            }
            (true, false) => OPERATIONS.map(str::to_owned).into(),
        },
        lengths: LENGTHS.into(),
        budget: Duration::from_millis(how.budget.into()),
        names: is_mpich.then(rules::mpich::names),
        // That of another Open MPI builds what all of them run.
        compiler: mpi.wrappers.c.clone().filter(|_| is_mpich),
        cache,
    };
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let mut measured = match is_mpich {
        false => Measurement::of_open_mpi(),
        true => Measurement::default(),
    };
    for nodes in node_counts(shape.nodes.len()) {
        progress(&format!(
            "{}: {} ranks on {nodes} nodes, {} rounds",
            shape.mpi,
            nodes * shape.per_node,
            plan.rounds
        ));
        let command = |program: &Path, words: &[OsString]| {
            let mut command = Command::new(&exe);
            match cluster {
                Cluster::Emulated { state, .. } => {
                    command.arg("--state").arg(state.path()).arg("run")
                }
                Cluster::Hosts(hosts) => {
                    command.arg("--file").arg(&hosts.file).args(["run", "--stage"])
                }
            };
            let names: HostList = shape.nodes.iter().take(nodes).collect();
            command.args(["-n", &(nodes * shape.per_node).to_string()]);
            command.args(["--nodes", &names.to_string(), "--mpi", &mpi_word(mpi)]);
            command.args(["--transport", &shape.transport, "--link", &shape.link]);
            command.args(["--collectives", "mpi"]);
            if !is_mpich {
                command.args(["-x", "OMPI_MCA_coll_tuned_use_dynamic_rules=1"]);
            }
            command.arg("--").arg(program).args(words).current_dir(&plan.cache);
            command
        };
        let taken = measured.take(&plan, &command, &interrupt::is_wanted);
        interrupt::check()?;
        taken.map_err(plain)?;
    }
    let has_lengths = |name: &str| Operation::named(name).is_some_and(|one| shape.has_lengths(one));
    let winners = algorithms::choose(&measured.series, &has_lengths);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let made = [
        ("made", format!("{now_s} s after 1970 by wiglaf {}", env!("CARGO_PKG_VERSION"))),
        ("rounds", plan.rounds.to_string()),
        ("load before", load.trim().to_owned()),
        ("nodes measured", format!("{:?}", node_counts(shape.nodes.len()))),
        (
            "rule",
            "all rounds faster than all of the MPI's own choice, and the median by a tenth"
                .to_owned(),
        ),
    ];
    let made = made.map(|(name, text)| (name.to_owned(), text)).into();
    let mut rules = Rules::new(shape, made);
    for (operation, ranks, lengths) in tables(&winners, &plan.lengths) {
        rules.add(operation, ranks, lengths)?;
    }
    let choice = kept::choice(mpi, &rules)?;
    let file = kept::keep(folder, &rules, choice.as_deref(), now_s)?;
    Ok(Outcome {
        per_node: rules.shape.per_node,
        file: file.display().to_string(),
        winners,
        left_out: measured.left_out,
    })
}

/// As `--mpi` takes it: exactly this one.
fn mpi_word(mpi: &mpi::Installation) -> String {
    match mpi.origin {
        mpi::Origin::System => format!("{}@{}", mpi.family.name(), mpi.version),
        mpi::Origin::Prefix => format!("{}={}", mpi.family.name(), mpi.prefix.display()),
    }
}

/// What was found as rules: each holds up to the next length that was measured, and the last one for as far again.
fn tables(winners: &[Winner], lengths: &[u64]) -> Vec<(Operation, usize, rules::Lengths)> {
    let mut keys: Vec<(Operation, usize)> = winners
        .iter()
        .filter_map(|one| Some((Operation::named(&one.operation)?, one.ranks)))
        .collect();
    keys.sort_unstable();
    keys.dedup();
    let table = |(operation, ranks): (Operation, usize)| {
        let of = |one: &&Winner| one.operation == operation.name() && one.ranks == ranks;
        let mine: Vec<&Winner> = winners.iter().filter(of).collect();
        if let Some(one) = mine.iter().find(|one| one.len.is_none()) {
            return (operation, ranks, vec![(0, one.algorithm)]);
        }
        let end = lengths.last().map(|last| last * 4);
        let steps = lengths.iter().copied().chain(end).map(|len| {
            let winner = mine.iter().find(|one| one.len == Some(len));
            (len, winner.map_or(0, |one| one.algorithm))
        });
        let mut found = vec![(0, 0)];
        for (len, algorithm) in steps {
            if found.last().is_some_and(|(_, before)| *before != algorithm) {
                found.push((len, algorithm));
            }
        }
        (operation, ranks, found)
    };
    keys.into_iter().map(table).collect()
}

fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

fn show(outcome: &Outcome) -> String {
    let mut text = format!("{} on each node:\n\n", counted(outcome.per_node, "rank"));
    if outcome.winners.is_empty() {
        text += "The MPI's own choice is never clearly slower; nothing is changed.\n";
    } else {
        let mut rows = vec![
            ["operation", "ranks", "bytes", "algorithm", "time, own choice = 1"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for one in &outcome.winners {
            let len = one.len.map_or("all".to_owned(), |len| len.to_string());
            let ratio = format!("{:.2}", one.ratio);
            rows.push(vec![
                one.operation.clone(),
                one.ranks.to_string(),
                len,
                one.name.clone(),
                ratio,
            ]);
        }
        text += &output::table(&rows);
    }
    let left_out: Vec<String> =
        outcome.left_out.iter().map(|one| format!("{} {}", one.operation, one.algorithm)).collect();
    if !left_out.is_empty() {
        text += &format!("\nNot right for any input, so left out: {}.", left_out.join(", "));
    }
    text += &format!("\nKept in {}\n", outcome.file);
    text
}

/// What is kept for a cluster, for `wiglaf links`.
pub(super) fn summary(cluster: &Cluster) -> Result<String> {
    let mut text = String::new();
    for Kept { path, rules } in kept::list(&kept::folder(cluster)?)? {
        match rules {
            Err(why) => text += &format!("{why}\n"),
            Ok(rules) => {
                let count = rules.table().count();
                let Shape { mpi, transport, link, per_node, nodes } = &rules.shape;
                let nodes: HostList = nodes.iter().collect();
                text += &format!(
                    "{mpi} over {transport}, link {link}, {} a node of {nodes}: {} ({})\n",
                    counted(*per_node, "rank"),
                    match count {
                        0 => "its own choice".to_owned(),
                        _ => counted(count, "rule"),
                    },
                    path.display()
                );
            }
        }
    }
    if !text.is_empty() {
        text = format!("\nAlgorithms of collectives, which `wiglaf run` takes:\n{text}");
    }
    Ok(text)
}

/// For how many shapes rules are kept.
pub(super) fn count(cluster: &Cluster) -> Option<usize> {
    let kept = kept::list(&kept::folder(cluster).ok()?).ok()?;
    Some(kept.iter().filter(|one| one.rules.as_ref().is_ok_and(|rules| !rules.is_empty())).count())
}

/// Removes what is kept.
pub(super) fn forget(cluster: &Cluster) -> Result<String> {
    let count = kept::forget(&kept::folder(cluster)?)?;
    Ok(format!("removed {}\n", counted(count, "file")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn winner(operation: &str, ranks: usize, len: Option<u64>, algorithm: u32) -> Winner {
        Winner {
            operation: operation.to_owned(),
            ranks,
            len,
            algorithm,
            name: String::new(),
            ratio: 0.5,
        }
    }

    #[test]
    fn rules_end_where_the_next_length_was_measured() {
        let winners = [
            winner("bcast", 4, Some(16), 3),
            winner("bcast", 4, Some(64), 3),
            winner("bcast", 4, Some(1 << 10), 6),
            winner("bcast", 2, Some(4), 1),
            winner("gather", 4, None, 2),
        ];
        let wanted = [
            (Operation::Bcast, 2, vec![(0, 0), (4, 1), (16, 0)]),
            (Operation::Bcast, 4, vec![(0, 0), (16, 3), (256, 0), (1 << 10, 6), (4 << 10, 0)]),
            (Operation::Gather, 4, vec![(0, 2)]),
        ];
        assert_eq!(tables(&winners, &[4, 16, 64, 256, 1 << 10]), wanted);
    }

    #[test]
    fn all_nodes_are_measured_besides_the_powers_of_two() {
        assert_eq!(node_counts(2), [2]);
        assert_eq!(node_counts(6), [2, 4, 6]);
        assert_eq!(node_counts(8), [2, 4, 8]);
    }
}
