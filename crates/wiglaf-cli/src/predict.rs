//! `wiglaf predict`: a program on a cluster that is described, in SimGrid.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result, program};
use wiglaf_bench::facts::Facts;
use wiglaf_bench::launch::capture;
use wiglaf_bench::report::{self, SpeedUpCurve, SpeedUpWords};
use wiglaf_bench::simgrid::{self, Machine, Model};
use wiglaf_bench::{Transport, interleave, loggp};
use wiglaf_cluster::rate::Rate;
use wiglaf_compare::predict::{Prediction, SCHEMA, Simulated};
use wiglaf_compare::trace::Trace;
use wiglaf_compare::{Check, Way};
use wiglaf_mpi as mpi;

use crate::choices::one_of;
use crate::compare::transport_of;
use crate::measuring::{interrupt, plain, progress};
use crate::options::typed;
use crate::output;

const HELP: &str = "\
Examples:
  smpicc -O2 -o prog.smpi prog.c         build the program for SimGrid
  sudo wiglaf bench loggp --rate 1gbit   measure the transports
  wiglaf predict -- ./prog.smpi in.dat   2 to 32 nodes, every transport
  wiglaf predict --nodes 2,64,1024 --rate 1gbit --plot up.svg -- ./prog.smpi
  wiglaf predict --cores 4 --speed 1.5 --backplane 8gbit -- ./prog.smpi
  wiglaf profile -n 8 --trace prog.trace -- ./prog
  wiglaf predict --trace prog.trace      an unchanged program's own messages
  wiglaf predict --seconds 'iterations in (\\S+) s' -- ./prog.smpi

SimGrid's SMPI (apt-get install libsimgrid-dev) runs all ranks in one process
here, one after another, and computes when messages arrive, with the parameters
of `wiglaf bench loggp`. The program runs once for each transport and number of
nodes, and takes as long as all of its ranks compute together. Below the tables
stands what they cannot tell. See docs/predict.md.";

/// Run your program on a cluster that is described only, and predict its time
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Numbers of nodes, from 1 to 4096
    /// [default: 2,4,8,16,32; those of a trace's ranks]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = nodes)]
    nodes: Vec<usize>,

    /// Rate of each port of the switch [default: as it was measured]
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    rate: Option<Rate>,

    /// Cores of each node; each has a rank
    #[arg(long, value_name = "CORES", default_value = "1", value_parser = cores)]
    cores: usize,

    /// What all ports of the switch carry together [default: all that they bring]
    #[arg(long, value_name = "RATE", value_parser = Rate::parse)]
    backplane: Option<Rate>,

    /// How many times as fast as one here a core computes
    #[arg(long, value_name = "TIMES", default_value = "1", value_parser = speed)]
    speed: f64,

    /// Weak scaling: each node has the same work on any number of nodes
    #[arg(long)]
    weak: bool,

    /// Which transports [default: all that were measured]
    #[arg(long, value_name = "LIST", value_parser = one_of(&MEASURED), value_delimiter = ',')]
    transports: Vec<Transport>,

    /// The parameters, as `wiglaf bench loggp` wrote them
    #[arg(long, value_name = "FILE", default_value = "wiglaf-bench/loggp.json")]
    loggp: PathBuf,

    /// Take this number of the program's output in place of its wall time
    #[arg(long, value_name = "REGEX", value_parser = pattern)]
    seconds: Option<Check>,

    /// How many rounds
    #[arg(long, value_name = "N", default_value = "1", value_parser = clap::value_parser!(u16).range(1..=1000))]
    repeats: u16,

    /// Write all that was predicted to this file, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Draw the speed-up into this file, as SVG
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,

    /// Replay this trace of `wiglaf profile --trace` in place of a program
    #[arg(long, value_name = "FILE", conflicts_with_all = ["argv", "seconds", "weak"])]
    trace: Option<PathBuf>,

    /// The program, as smpicc built it, and its arguments
    #[arg(required_unless_present = "trace", last = true, value_name = "PROGRAM")]
    argv: Vec<OsString>,
}

/// Transports that `wiglaf bench loggp` measures between nodes, in the order of the tables.
const MEASURED: [Transport; 4] =
    [Transport::Tcp, Transport::Ucx, Transport::OfiTcp, Transport::Wiglaf];
/// A simulation that takes longer is stuck.
const TIME_MAX: Duration = Duration::from_secs(7 * 86_400);
/// What programs are linked with that smpicc builds.
const LIBRARY: &[u8] = b"libsimgrid.so";

fn nodes(text: &str) -> std::result::Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=4096).contains(count));
    count.ok_or_else(|| "give a number from 1 to 4096".to_owned())
}

fn cores(text: &str) -> std::result::Result<usize, String> {
    let count = text.parse().ok().filter(|count| (1..=256).contains(count));
    count.ok_or_else(|| "give a number from 1 to 256".to_owned())
}

fn speed(text: &str) -> std::result::Result<f64, String> {
    let times = text.parse().ok().filter(|times| (0.001..=1000.0).contains(times));
    times.ok_or_else(|| "give a number such as 1.5, from 0.001 to 1000".to_owned())
}

fn pattern(text: &str) -> std::result::Result<Check, String> {
    // What ends in a number would be taken for a tolerance, which there is none of here.
    format!("{text}:0").parse()
}

/// A transport with its model.
struct Modelled {
    transport: Transport,
    model: Model,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let work = Work::of(args)?;
    let simulator = simulator()?;
    let measured = read(&args.loggp)?;
    let rate = args.rate.map(Rate::bits_per_second);
    if let (Some(there), Some(wanted)) = (measured.rate, rate.filter(|r| measured.rate != Some(*r)))
    {
        return Err(Error::new(format!(
            "the parameters in {} were measured on ports of {there} bit/s, and say nothing of {wanted} bit/s; \
             measure with `wiglaf bench loggp --rate {}`, or leave --rate out",
            args.loggp.display(),
            args.rate.as_ref().map(ToString::to_string).unwrap_or_default()
        )));
    }
    let ways = ways(args, &measured)?;
    interrupt::listen()?;
    let mut prediction = Prediction {
        schema: SCHEMA.to_owned(),
        command: work.command(args),
        typed: typed(),
        date: Facts::gather(Default::default()).date,
        cluster: cluster(args, &measured),
        simulator,
        is_replay: args.trace.is_some(),
        is_weak: args.weak,
        is_printed: args.seconds.is_some(),
        cores: args.cores,
        ways: ways
            .iter()
            .map(|one| Way {
                word: one.transport.word().to_owned(),
                label: one.transport.label().to_owned(),
            })
            .collect(),
        nodes: work.nodes(args)?,
        runs: Vec::new(),
        failures: Vec::new(),
    };
    let went = simulate(args, &work, &ways, &mut prediction);
    if !prediction.runs.is_empty() {
        publish(args, &prediction)?;
    }
    went?;
    interrupt::check()?;
    match prediction.failures.len() {
        0 => Ok(ExitCode::SUCCESS),
        _ if prediction.runs.is_empty() => {
            Err(Error::new("no simulation came to its end, as said above"))
        }
        failed => Err(Error::new(format!(
            "not all is in the tables: {failed} simulations did not come to their end, as said above"
        ))),
    }
}

/// What is simulated.
enum Work {
    /// A program, by its file.
    Program(PathBuf),
    Trace(Trace),
}

/// Unless the user says otherwise.
const NODES: [usize; 5] = [2, 4, 8, 16, 32];

impl Work {
    fn of(args: &Args) -> Result<Self> {
        let Some(file) = &args.trace else {
            return check_program(&args.argv[0]).map(Self::Program);
        };
        let text = std::fs::read_to_string(file).cannot(|| format!("read {}", file.display()))?;
        let trace = Trace::read(&text);
        trace.map(Self::Trace).map_err(|why| Error::new(format!("{} {why}", file.display())))
    }

    fn command(&self, args: &Args) -> Vec<String> {
        match self {
            Self::Program(_) => {
                args.argv.iter().map(|word| word.to_string_lossy().into_owned()).collect()
            }
            Self::Trace(trace) => trace.command.clone(),
        }
    }

    /// The numbers of nodes, fewest first; a trace has as many ranks as it has.
    fn nodes(&self, args: &Args) -> Result<Vec<usize>> {
        let mut counts = args.nodes.clone();
        counts.sort_unstable();
        counts.dedup();
        let Self::Trace(trace) = self else {
            return Ok(if counts.is_empty() { NODES.to_vec() } else { counts });
        };
        let (ranks, cores) = (trace.ranks.len(), args.cores);
        let fitting = ranks / cores;
        if fitting < 2 || fitting * cores != ranks {
            return Err(Error::new(format!(
                "the trace is of {ranks} ranks, which are not those of two nodes or more with {cores} cores; give \
                 other --cores, or record more ranks with `wiglaf profile -n`"
            )));
        }
        match counts.iter().find(|count| **count != fitting) {
            None => Ok(vec![fitting]),
            Some(count) => Err(Error::new(format!(
                "the trace is of {ranks} ranks, on {fitting} nodes, and says nothing of {count}; record one for \
                 each number, or build the program with smpicc"
            ))),
        }
    }

    /// What simulates it on a platform.
    fn simulation(
        &self,
        args: &Args,
        model: &Model,
        nodes: usize,
        machine: &Machine,
        folder: &Folder,
    ) -> Result<Command> {
        let platform = folder.write("platform.xml", &model.platform(nodes, machine))?;
        let hosts = folder.write("hosts", &simgrid::hostfile(nodes, args.cores))?;
        let ranks = nodes * args.cores;
        Ok(match self {
            Self::Program(found) => {
                let mut command = simgrid::command(ranks, &platform, &hosts, &folder.0);
                command.args(model.options()).arg(found).args(&args.argv[1..]);
                command
            }
            Self::Trace(trace) => {
                let mut list = String::new();
                for rank in 0..ranks {
                    let file = folder.write(&format!("rank{rank}"), &trace.replayed(rank))?;
                    list.push_str(&format!("{}\n", file.display()));
                }
                let list = folder.write("trace", &list)?;
                let mut command = simgrid::replay(ranks, &platform, &hosts, &folder.0, &list);
                command.args(model.options());
                command
            }
        })
    }
}

/// The program's file, if SimGrid can run it.
fn check_program(name: &OsString) -> Result<PathBuf> {
    let found = program::find_program(name).ok_or_else(|| program::no_program(name))?;
    let bytes = std::fs::read(&found).cannot(|| format!("read {}", found.display()))?;
    if bytes.windows(LIBRARY.len()).any(|window| window == LIBRARY) {
        return Ok(found);
    }
    let shown = name.display();
    Err(Error::new(match mpi::is_linked(&found) {
        true => format!(
            "`{shown}` is linked with an MPI for real nodes; build it for SimGrid too, as in `smpicc -O2 -o \
             prog.smpi prog.c` (smpif90 for Fortran), and give that program"
        ),
        false => format!(
            "`{shown}` is no MPI program that SimGrid's smpicc or smpif90 has built; build it as in `smpicc -O2 \
             -o prog.smpi prog.c`"
        ),
    }))
}

/// SimGrid's version, in words.
fn simulator() -> Result<String> {
    let missing = || {
        Error::not_found(format!(
            "{} is not here, which simulates; install SimGrid with `apt-get install {}`",
            simgrid::SMPIRUN,
            simgrid::PACKAGE
        ))
    };
    let smpirun = program::find_program(simgrid::SMPIRUN).ok_or_else(missing)?;
    let said = Command::new(smpirun).arg("-version").output().ok();
    let said = said.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let line = said.as_deref().and_then(|text| text.lines().find(|line| line.contains("ersion")));
    Ok(line.unwrap_or("SimGrid").trim().to_owned())
}

fn read(file: &Path) -> Result<loggp::Report> {
    if !file.is_file() {
        return Err(Error::not_found(format!(
            "there are no parameters in {}; measure them with `wiglaf bench loggp`, or name their file with --loggp",
            file.display()
        )));
    }
    let measured: loggp::Report = report::read(file).map_err(plain)?;
    match measured.schema == loggp::SCHEMA {
        true => Ok(measured),
        false => Err(Error::new(format!(
            "{} is of another kind ({}); measure with `wiglaf bench loggp`",
            file.display(),
            output::visible(&measured.schema)
        ))),
    }
}

fn ways(args: &Args, measured: &loggp::Report) -> Result<Vec<Modelled>> {
    let rate = args.rate.map(Rate::bits_per_second);
    let mut ways = Vec::new();
    let asked = !args.transports.is_empty();
    for one in MEASURED {
        if asked && !args.transports.contains(&one) {
            continue;
        }
        match Model::of(measured, one, rate) {
            Some(model) => ways.push(Modelled { transport: one, model }),
            None if asked => {
                return Err(Error::new(format!(
                    "{} has no parameters of {}; measure it with `wiglaf bench loggp`, or leave it out",
                    args.loggp.display(),
                    one.label()
                )));
            }
            None => {}
        }
    }
    match ways.is_empty() {
        false => Ok(ways),
        true => Err(Error::new(format!(
            "{} has no parameters of a transport between nodes, of two sizes or more; measure them with `wiglaf \
             bench loggp`",
            args.loggp.display()
        ))),
    }
}

/// The described cluster, in words.
fn cluster(args: &Args, measured: &loggp::Report) -> String {
    let rate = args.rate.map(Rate::bits_per_second).or(measured.rate);
    let ports = match rate {
        Some(bits) => format!("ports of {} Mbit/s", bits / 1_000_000),
        None => "ports as fast as was measured".to_owned(),
    };
    let backplane = args.backplane.map_or(String::new(), |rate| format!(", switch of {rate}"));
    let cores = match args.cores {
        1 => "1 core a node".to_owned(),
        many => format!("{many} cores a node"),
    };
    format!("{cores}, {} times as fast as here; {ports}{backplane}", args.speed)
}

/// Where the simulator's files are; it is gone when the simulations are.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self> {
        let name = format!("wiglaf-predict-{}", std::process::id());
        let folder = Self(std::env::temp_dir().join(name));
        std::fs::create_dir(&folder.0).cannot(|| format!("make {}", folder.0.display()))?;
        Ok(folder)
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let file = self.0.join(name);
        std::fs::write(&file, text).cannot(|| format!("write {}", file.display()))?;
        Ok(file)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Simulations that take less are not announced.
const SHORT_S: f64 = 10.0;

/// What a simulation takes at least, by the last on fewer nodes: each rank has its work.
fn least(runs: &[Simulated], way: usize, nodes: usize) -> Option<f64> {
    let fewer = runs.iter().filter(|run| run.way == way && run.nodes <= nodes);
    let last = fewer.max_by_key(|run| run.nodes)?;
    Some(last.took_s * nodes as f64 / last.nodes as f64)
}

/// All rounds. What fails for a number of nodes is not tried there again.
fn simulate(args: &Args, work: &Work, ways: &[Modelled], all: &mut Prediction) -> Result<()> {
    let folder = Folder::new()?;
    let machine = Machine {
        cores: args.cores,
        backplane: args.backplane.map(Rate::bits_per_second),
        speed: args.speed,
    };
    for order in interleave::rounds(ways.len(), args.repeats.into()) {
        for nodes in all.nodes.clone() {
            for &way in &order {
                if all.failures.iter().any(|(w, n, _)| (*w, *n) == (way, nodes)) {
                    continue;
                }
                let Modelled { transport, model } = &ways[way];
                let name = format!("{} on {nodes} nodes", transport.label());
                let command = work.simulation(args, model, nodes, &machine, &folder)?;
                if let Some(least_s) = least(&all.runs, way, nodes).filter(|s| *s >= SHORT_S) {
                    progress(&format!(
                        "{name}: simulating; by the nodes before it takes {least_s:.0} s or more; Ctrl-C keeps what \
                         is there"
                    ));
                }
                let start = Instant::now();
                let output = capture(command, TIME_MAX, &interrupt::is_wanted);
                if interrupt::is_wanted() {
                    return Ok(());
                }
                let took_s = start.elapsed().as_secs_f64();
                let seconds = output.map_err(|error| error.to_string()).and_then(|output| {
                    let simulated = simgrid::simulated_s(&output)?;
                    let Some(pattern) = &args.seconds else { return Ok(simulated) };
                    let said = String::from_utf8_lossy(&output.stdout);
                    pattern.find(&said).filter(|s| *s > 0.0).ok_or_else(|| {
                        format!(
                            "the program printed no number above 0 for --seconds `{}`",
                            pattern.pattern()
                        )
                    })
                });
                match seconds {
                    Ok(seconds) => {
                        progress(&format!("{name}: {seconds:.4} s, simulated in {took_s:.1} s"));
                        all.runs.push(Simulated { way, nodes, seconds, took_s });
                    }
                    Err(reason) => {
                        progress(&format!("{name}: {}", output::visible(&reason)));
                        all.failures.push((way, nodes, reason));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Prints the tables and what they cannot tell; writes the files.
fn publish(args: &Args, all: &Prediction) -> Result<()> {
    let notes: String = all.notes().iter().map(|note| format!("note: {note}\n")).collect();
    output::print(&format!("\n{}\n{}\n{notes}", all.cluster, all.tables()))?;
    if let Some(file) = &args.json {
        report::write(all, file).map_err(plain)?;
        eprintln!("wiglaf: written {}", file.display());
    }
    if let Some(file) = &args.plot {
        draw(all, file)?;
        eprintln!("wiglaf: written {}", file.display());
    }
    Ok(())
}

fn draw(all: &Prediction, file: &Path) -> Result<()> {
    let fewest = all.nodes.first().copied().unwrap_or(2);
    let curve = |(way, of): (usize, &Way)| {
        let points = all.nodes.iter().filter_map(|nodes| {
            // The line of a perfect speed-up passes through the first point.
            Some((*nodes, fewest as f64 * all.speed_up(way, *nodes)?))
        });
        let fit = all.fit(way).map(|fit| format!(", P = {:.2}", fit.serial_part));
        SpeedUpCurve {
            label: format!("{}{}", of.label, fit.unwrap_or_default()),
            transport: transport_of(&of.word),
            is_published: false,
            points: points.collect(),
        }
    };
    let curves: Vec<SpeedUpCurve> = all.ways.iter().enumerate().map(curve).collect();
    let curves: Vec<SpeedUpCurve> = curves.into_iter().filter(|c| !c.points.is_empty()).collect();
    let words = SpeedUpWords {
        title: &output::visible(&all.command.join(" ")).chars().take(60).collect::<String>(),
        subtitle: &format!(
            "predicted with {}; {fewest} nodes count as {fewest}; {}",
            all.simulator, all.date
        ),
        cores: all.nodes.last().copied().unwrap_or_default(),
    };
    report::draw_speed_up(&words, &curves, file).map_err(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_held_to_their_limits() {
        assert_eq!((nodes("1"), nodes("4096"), cores("1")), (Ok(1), Ok(4096), Ok(1)));
        for text in ["0", "4097", "-2", "two", ""] {
            assert!(nodes(text).is_err(), "{text}");
        }
        for text in ["0", "NaN", "inf", "-1", "1e9"] {
            assert!(speed(text).is_err(), "{text}");
        }
    }

    #[test]
    fn simulation_takes_as_many_times_as_long_as_there_are_more_nodes() {
        let run = |way, nodes, took_s| Simulated { way, nodes, seconds: 1.0, took_s };
        let runs = [run(0, 2, 1.0), run(0, 8, 6.0), run(1, 8, 2.0)];
        assert_eq!([least(&runs, 0, 32), least(&runs, 1, 16)], [Some(24.0), Some(4.0)]);
        assert_eq!((least(&runs, 0, 4), least(&runs, 2, 4)), (Some(2.0), None));
    }

    #[test]
    fn pattern_that_ends_in_a_number_keeps_it() {
        let check = pattern("t:8").unwrap();
        assert_eq!((check.pattern(), check.find("t:8 17")), ("t:8", Some(17.0)));
        assert!(pattern("(").is_err());
    }
}
