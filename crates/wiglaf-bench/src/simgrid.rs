//! A cluster of many nodes in SimGrid's SMPI, with the parameters that [`crate::loggp`] has measured.
//!
//! SMPI (H. Casanova, A. Giersch, A. Legrand, M. Quinson and F. Suter, Versatile, scalable, and accurate simulation
//! of distributed applications and platforms, J. Parallel Distrib. Comput. 74, 2014; A. Degomme et al., Simulating
//! MPI applications: the SMPI approach, IEEE TPDS 28, 2017) charges a message o_s at its sender, o_r at its
//! receiver, and between them a latency and a rate that depend on its size; links are shared fairly. All of them are
//! straight lines between the lengths that were measured, so that two simulated ranks have the measured ping-pong.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::launch::Transport;
use crate::loggp::{Contender, Point, Report};

/// The Debian package that brings SMPI.
pub const PACKAGE: &str = "libsimgrid-dev";
/// What starts a simulation.
pub const SMPIRUN: &str = "smpirun";

/// SMPI counts so many bytes of a header to each message (seen with 3.32).
const HEADER: u64 = 16;
/// What latency factors are multiples of, in seconds; a way through the switch passes two links.
const LATENCY_UNIT_S: f64 = 1e-6;
/// Faster than any memory: for lengths between which no difference was measured.
const SECONDS_PER_BYTE_MIN: f64 = 1e-12;
/// A full frame of Ethernet on the wire, with its preamble and gap, and what it carries of a message.
const FRAME: f64 = 1538.0;
const FRAME_CARRIES: f64 = 1448.0;
/// What overheads may take of half a round trip at most: one byte needs some time on its way.
const OVERHEADS_MAX: f64 = 0.95;
/// How SimGrid says that ranks wait for ever, that one aborted, and that one did not finalise.
const DEADLOCK: &str = "Deadlock detected";
const ABORT: &str = "MPI_Abort was called";
const STALLING: &str = "Stalling SMPI instance";
/// A time that is no time, which SimGrid takes as one.
const TINY_S: f64 = 1e-9;

/// The cluster that is described.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Machine {
    /// Cores of a node; each has a rank.
    pub cores: usize,
    /// What all ports together can do, in bits a second, where that is less than they bring.
    pub backplane: Option<u64>,
    /// How much faster a core is than one here.
    pub speed: f64,
}

/// One transport in SimGrid's terms.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// o_s of each length, in seconds.
    send: Vec<(u64, f64)>,
    /// That of a send that does not wait.
    isend: Vec<(u64, f64)>,
    /// o_r.
    recv: Vec<(u64, f64)>,
    /// Time on the way.
    way: Vec<Line>,
    eager_max: u64,
    bytes_per_s: f64,
    /// Latency and rate within a node as multiples of those between nodes.
    within: [f64; 2],
}

/// A time that grows with the length, from a length on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Line {
    from: u64,
    base_s: f64,
    per_byte_s: f64,
}

/// Who takes the messages within a node that somebody carries between nodes.
fn partner(transport: Transport) -> Transport {
    match transport {
        Transport::Tcp | Transport::OfiTcp => Transport::Vader,
        Transport::Ucx => Transport::UcxShm,
        other => other,
    }
}

impl Model {
    /// The model of a transport on ports of a rate; nothing where it was not measured.
    #[must_use]
    pub fn of(report: &Report, transport: Transport, rate: Option<u64>) -> Option<Self> {
        let find = |transport, same_node| {
            let is = |one: &&Contender| (one.transport, one.same_node) == (transport, same_node);
            report.contenders.iter().find(is).filter(|one| one.points.len() > 1)
        };
        let measured = find(transport, false)?;
        // Also where ports of that rate were measured: an emulated one lets short bursts pass at once, as those of a
        // ping-pong are, and holds what follows them to its rate.
        let rate = rate.or(report.rate);
        let points: Vec<Point> = measured.points.iter().map(|point| fitting(*point)).collect();
        let way = lines(&ways(&points, rate));
        let last = way.last()?;
        let wire = |rate: u64| rate as f64 / 8.0;
        let bytes_per_s = rate.map_or(1.0 / last.per_byte_s, wire);
        let of =
            |value: fn(&Point) -> f64| points.iter().map(|p| (p.len, value(p) / 1e6)).collect();
        let within = find(partner(transport), true).map_or([1.0; 2], |shared| {
            let shared: Vec<Point> = shared.points.iter().map(|point| fitting(*point)).collect();
            let here = lines(&ways(&shared, None));
            let short = |lines: &[Line]| lines[0].base_s + lines[0].per_byte_s;
            let long = |lines: &[Line]| lines[lines.len() - 1].per_byte_s;
            [short(&here) / short(&way), long(&way) / long(&here)]
        });
        Some(Self {
            send: of(|p| p.send_us),
            isend: of(|p| p.isend_us),
            recv: of(|p| p.recv_us),
            eager_max: measured.eager_max,
            bytes_per_s,
            within,
            way,
        })
    }

    /// The platform file.
    #[must_use]
    pub fn platform(&self, nodes: usize, machine: &Machine) -> String {
        let link = LATENCY_UNIT_S / 2.0;
        let [latency, rate] = self.within;
        let backplane = machine.backplane.map_or(String::new(), |bits| {
            format!(" bb_bw=\"{:.0}Bps\" bb_lat=\"0s\"", bits as f64 / 8.0)
        });
        format!(
            "<?xml version='1.0'?>\n<!DOCTYPE platform SYSTEM \"https://simgrid.org/simgrid.dtd\">\n\
             <platform version=\"4.1\">\n<cluster id=\"cluster\" prefix=\"node\" suffix=\"\" radical=\"1-{nodes}\" \
             speed=\"{:.6e}f\" core=\"{}\" bw=\"{:.0}Bps\" lat=\"{link:e}s\"{backplane} loopback_bw=\"{:.0}Bps\" \
             loopback_lat=\"{:e}s\"/>\n</platform>\n",
            machine.speed * 1e9,
            machine.cores,
            self.bytes_per_s,
            self.bytes_per_s * rate,
            LATENCY_UNIT_S * latency,
        )
    }

    /// The options of a simulation.
    #[must_use]
    pub fn options(&self) -> Vec<String> {
        let factors = |of: &dyn Fn(&Line) -> f64| {
            let mut text = String::new();
            for (place, line) in self.way.iter().enumerate() {
                let from = if place == 0 { 0 } else { line.from + HEADER };
                let separator = if place == 0 { "" } else { ";" };
                // Writing to a string cannot fail.
                let _ = write!(text, "{separator}{from}:{:.6e}", of(line));
            }
            text
        };
        let latency = factors(&|line| line.base_s / LATENCY_UNIT_S);
        let rate = factors(&|line| 1.0 / (line.per_byte_s * self.bytes_per_s));
        [
            "smpi/simulate-computation:yes".to_owned(),
            "smpi/host-speed:1Gf".to_owned(),
            "smpi/coll-selector:ompi".to_owned(),
            "smpi/display-timing:yes".to_owned(),
            // Acknowledgements are in what was measured.
            "network/crosstraffic:no".to_owned(),
            "network/weight-S:0".to_owned(),
            "network/TCP-gamma:0".to_owned(),
            format!("smpi/async-small-thresh:{}", self.eager_max),
            format!("smpi/send-is-detached-thresh:{}", self.eager_max),
            format!("smpi/os:{}", overheads(&self.send)),
            format!("smpi/ois:{}", overheads(&self.isend)),
            format!("smpi/or:{}", overheads(&self.recv)),
            format!("smpi/lat-factor:{latency}"),
            format!("smpi/bw-factor:{rate}"),
        ]
        .map(|option| format!("--cfg={option}"))
        .into_iter()
        .chain(
            ["--log=root.thresh:warning", "--log=smpi.thresh:info", "--log=smpi_utils.thresh:info"]
                .map(str::to_owned),
        )
        .collect()
    }

    /// What half a round trip takes in the model, in seconds.
    #[must_use]
    pub fn half_round_trip_s(&self, len: u64) -> f64 {
        let line = self.way.iter().rev().find(|line| line.from <= len).or(self.way.first());
        let way = line.map_or(0.0, |line| line.base_s + line.per_byte_s * len as f64);
        way + at(&self.send, len) + at(&self.recv, len)
    }
}

/// Overheads and way add up to what was measured; where they overlapped, overheads are scaled down.
fn fitting(mut point: Point) -> Point {
    let most = OVERHEADS_MAX * point.half_us;
    let sum = point.send_us + point.recv_us;
    if sum > most && sum > 0.0 {
        point.send_us *= most / sum;
        point.recv_us *= most / sum;
    }
    point.isend_us = point.isend_us.min(most);
    point
}

/// Time on the way by length, in seconds; not below what a wire of that rate takes: the first frame passes the port
/// of the sender and that of the switch one after the other, the others follow it at the wire's rate.
fn ways(points: &[Point], rate: Option<u64>) -> Vec<(u64, f64)> {
    let start = points.first().map_or(0.0, Point::way_us) / 1e6;
    let mut last = 0.0_f64;
    let mut ways = Vec::new();
    for point in points {
        let wire = rate.map_or(0.0, |rate| {
            let bytes = point.len as f64 * FRAME / FRAME_CARRIES;
            start + (bytes + bytes.min(FRAME)) * 8.0 / rate as f64
        });
        // A longer message is not sooner there; where it seems so, it was the machine.
        last = last.max(point.way_us() / 1e6).max(wire).max(TINY_S);
        ways.push((point.len, last));
    }
    ways
}

/// Straight lines between points; a line's base is never below 0.
fn lines(points: &[(u64, f64)]) -> Vec<Line> {
    let between = |pair: &[(u64, f64)]| {
        let [(from, one_s), (to, other_s)] = [pair[0], pair[1]];
        let (from_b, to_b) = (from as f64, to as f64);
        let per_byte_s = ((other_s - one_s) / (to_b - from_b)).max(SECONDS_PER_BYTE_MIN);
        let base_s = one_s - per_byte_s * from_b;
        match base_s < TINY_S {
            true => Line { from, base_s: TINY_S, per_byte_s: (other_s - TINY_S) / to_b },
            false => Line { from, base_s, per_byte_s },
        }
    };
    points.windows(2).map(between).collect()
}

/// A value between lengths, and beyond the last as it grew before it.
fn at(points: &[(u64, f64)], len: u64) -> f64 {
    let pair = points.windows(2).rev().find(|pair| pair[0].0 <= len).or(points.windows(2).next());
    let Some([(from, one), (to, other)]) = pair.map(|pair| [pair[0], pair[1]]) else {
        return points.first().map_or(0.0, |point| point.1);
    };
    let slope = (other - one) / (to as f64 - from as f64);
    one + slope * (len as f64 - from as f64)
}

/// "from:base:per byte" for each line.
fn overheads(points: &[(u64, f64)]) -> String {
    let mut text = String::new();
    for (place, pair) in points.windows(2).enumerate() {
        let [(from, one), (to, other)] = [pair[0], pair[1]];
        let per_byte = (other - one) / (to as f64 - from as f64);
        let base = one - per_byte * from as f64;
        let (from, separator) = if place == 0 { (0, "") } else { (from, ";") };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{from}:{base:.6e}:{per_byte:.6e}");
    }
    text
}

/// The hosts of a simulation: each node as often as it has cores.
#[must_use]
pub fn hostfile(nodes: usize, cores: usize) -> String {
    (1..=nodes).map(|node| format!("node{node}\n").repeat(cores)).collect()
}

/// What simulates: the files were written before.
#[must_use]
pub fn command(ranks: usize, platform: &Path, hosts: &Path, folder: &Path) -> Command {
    let mut command = Command::new(SMPIRUN);
    // Its option -tmpdir does not work (3.32); what it asks for the folder knows the variable.
    command.env("TMPDIR", folder).args(["-np", &ranks.to_string()]);
    command.arg("-platform").arg(platform).arg("-hostfile").arg(hosts);
    command
}

/// The command that replays the trace whose ranks' files are listed in `list`: the files were written before.
#[must_use]
pub fn replay(ranks: usize, platform: &Path, hosts: &Path, folder: &Path, list: &Path) -> Command {
    let mut command = command(ranks, platform, hosts, folder);
    command.arg("-replay").arg(list);
    command
}

/// The simulated time that a simulation tells, in seconds.
///
/// # Errors
/// When it failed, the reason in its words.
pub fn simulated_s(output: &Output) -> std::result::Result<f64, String> {
    let said = String::from_utf8_lossy(&output.stderr);
    // A deadlock and MPI_Abort have a time and status 0 (3.32).
    let is_whole = ![DEADLOCK, ABORT, STALLING].iter().any(|sign| said.contains(sign));
    if !is_whole || !output.status.success() {
        return Err(format!("{} ({})", reason(&said), output.status));
    }
    let found = said.lines().rev().find_map(|line| line.split_once("Simulated time: "));
    let seconds = found.and_then(|(_, rest)| rest.split_whitespace().next()?.parse().ok());
    let seconds = seconds.filter(|s: &f64| s.is_finite() && *s > 0.0);
    seconds.ok_or_else(|| "the simulation told no time".to_owned())
}

/// The most telling line of a simulation that failed.
fn reason(said: &str) -> String {
    if said.contains(DEADLOCK) {
        return "ranks wait for each other for ever (deadlock)".to_owned();
    }
    if said.contains(ABORT) {
        return "a rank called MPI_Abort".to_owned();
    }
    if said.contains(STALLING) {
        return "a rank ended without MPI_Finalize".to_owned();
    }
    let telling = ["Abort", "abort", "rror", "cannot", "not found", "No such", "ignal"];
    let lines =
        || said.lines().map(str::trim).filter(|line| line.chars().any(char::is_alphanumeric));
    let line = lines().find(|line| telling.iter().any(|word| line.contains(word)));
    line.or(lines().next_back()).unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Facts;
    use crate::loggp::SCHEMA;

    fn contender(transport: Transport, same_node: bool, half: fn(u64) -> f64) -> Contender {
        let point = |len| Point {
            len,
            half_us: half(len),
            send_us: 2.0,
            isend_us: 1.5,
            recv_us: if len > 65536 { 0.0 } else { 3.0 },
            gap_us: 3.0,
            is_eager: len <= 65536,
        };
        Contender {
            transport,
            label: transport.label().into(),
            same_node,
            settings: Default::default(),
            evidence: None,
            eager_max: 65536,
            points: [1, 1024, 65536, 131_072, 1 << 20].map(point).to_vec(),
            segments: vec![],
        }
    }

    fn report(rate: Option<u64>) -> Report {
        Report {
            schema: SCHEMA.into(),
            facts: Facts::gather(Default::default()),
            rate,
            rounds: 1,
            contenders: vec![
                contender(Transport::Tcp, false, |len| 20.0 + len as f64 / 1000.0),
                contender(Transport::Vader, true, |len| 6.5 + len as f64 / 4000.0),
            ],
            absent: vec![],
        }
    }

    #[test]
    fn model_has_the_measured_ping_pong() {
        let model = Model::of(&report(None), Transport::Tcp, None).unwrap();
        for len in [1, 1024, 30_000, 65536, 131_072, 1 << 20, 1 << 22] {
            let (half, expected) = (model.half_round_trip_s(len), 20e-6 + len as f64 * 1e-9);
            assert!((half / expected - 1.0).abs() < 0.01, "{len}: {half} {expected}");
        }
        assert!((model.bytes_per_s / 1e9 - 1.0).abs() < 0.01, "{model:?}");
        // 1.5 us of the 15 within a node, and four times the rate.
        let [latency, rate] = model.within;
        assert!((latency - 0.1).abs() < 0.001 && (rate - 4.0).abs() < 0.1, "{model:?}");
        assert_eq!(Model::of(&report(None), Transport::Wiglaf, None), None);
    }

    #[test]
    fn wire_bounds_long_messages_whether_it_was_there_when_they_were_measured_or_not() {
        let gigabit = Some(1_000_000_000);
        let described = Model::of(&report(None), Transport::Tcp, gigabit).unwrap();
        let measured = Model::of(&report(gigabit), Transport::Tcp, None).unwrap();
        for model in [described, measured] {
            let long = model.half_round_trip_s(1 << 20);
            assert!((long / ((1 << 20) as f64 * 8.5e-9) - 1.0).abs() < 0.01, "{long}");
            assert!((model.bytes_per_s - 125e6).abs() < 1.0);
            let short = model.half_round_trip_s(1);
            assert!((short - 20e-6).abs() < 1e-6, "{short}");
        }
    }

    #[test]
    fn overheads_that_overlap_are_scaled() {
        let point = Point {
            len: 8,
            half_us: 4.0,
            send_us: 3.0,
            isend_us: 5.0,
            recv_us: 3.0,
            gap_us: 1.0,
            is_eager: true,
        };
        let fitted = fitting(point);
        assert!((fitted.send_us + fitted.recv_us - 3.8).abs() < 1e-12 && fitted.isend_us < 4.0);
        assert!(ways(&[fitted], None)[0].1 > 0.0);
    }

    #[test]
    fn options_are_ordered_and_without_what_simgrid_cannot_read() {
        let model = Model::of(&report(None), Transport::Tcp, None).unwrap();
        let options: Vec<String> = model.options();
        let options = options.iter().filter(|option| option.starts_with("--cfg"));
        let options: String = options.map(|option| format!("{option}\n")).collect();
        assert!(!options.contains("NaN") && !options.contains(":inf"), "{options}");
        assert!(options.contains("smpi/lat-factor:0:") && options.contains(";1040:"), "{options}");
        assert!(options.contains("async-small-thresh:65536"), "{options}");
        let machine = Machine { cores: 2, backplane: Some(8_000), speed: 2.0 };
        let platform = model.platform(16, &machine);
        for part in ["radical=\"1-16\"", "speed=\"2.000000e9f\"", "core=\"2\"", "bb_bw=\"1000Bps\""]
        {
            assert!(platform.contains(part), "{part}: {platform}");
        }
        assert_eq!(hostfile(2, 2), "node1\nnode1\nnode2\nnode2\n");
    }

    #[test]
    fn time_is_read_and_failures_are_told() {
        let output = |status: i32, said: &str| Output {
            status: std::os::unix::process::ExitStatusExt::from_raw(status),
            stdout: vec![],
            stderr: said.into(),
        };
        let said =
            "[2.63] [smpi_utils/INFO] Simulated time: 2.63413 seconds. \n\nThe simulation took 0.2";
        assert_eq!(simulated_s(&output(0, said)), Ok(2.63413));
        assert!(simulated_s(&output(0, "nothing")).is_err());
        for (sign, words) in [
            ("Oops! Deadlock detected, some activities", "for ever"),
            ("MPI_Abort was called, something went", "MPI_Abort"),
            ("Stalling SMPI instance: smpirun.", "without MPI_Finalize"),
        ] {
            let error = simulated_s(&output(0, &format!("{sign}\n{said}"))).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        assert!(simulated_s(&output(256, "Aborted")).unwrap_err().contains("Aborted"));
    }
}
