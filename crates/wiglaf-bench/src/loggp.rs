//! LogGP's parameters of each transport, piecewise by the size of messages: latency L, overheads o_s and o_r of
//! sender and receiver, gap g between messages and G between bytes.
//!
//! The overheads are the times of single calls whose partner computes meanwhile (D. Culler, L. T. Liu, R. P. Martin
//! and C. Yoshikawa, Assessing fast network interfaces, IEEE Micro 16, 1996). The gaps are those of T. Hoefler,
//! A. Lichei and W. Rehm (Low-overhead LogGP parameter assessment for modern interconnection networks, IPDPS 2007,
//! the method of Netgauge): PRTT(n,0,s) is the time of n messages of s bytes and an empty answer, (PRTT(n,0,s) -
//! PRTT(1,0,s)) / (n - 1) = g + G s, a line by least squares in each segment. L is what half a round trip has
//! besides overheads and bytes; it may come out below 0 where the receiver's work overlaps the way of the message,
//! and on emulated nodes, where the sender's call carries a frame to the receiver.
//!
//! In a stream a message takes the greater of overhead and gap, so no overhead is above the gap between messages. One
//! that was timed by itself may seem so: after a pause a call finds cold caches. Then the gap is taken.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Progress;
use crate::compile::MeasuringProgram;
use crate::contender::{Absent, CONTENDERS, SAME_NODE};
use crate::course::{Admitted, Course, whole_ms};
use crate::error::{BenchError, Result};
use crate::facts::Facts;
use crate::interleave;
use crate::launch::{Job, Launcher, Settings, Transport};
use crate::stats::{Samples, median};
use crate::turns::results;

/// Names the layout of the result.
pub const SCHEMA: &str = "wiglaf-bench/loggp/1";

const RUN_TIME_MAX: Duration = Duration::from_secs(120);
/// The last length of each segment, where paths like to change.
const SEGMENT_ENDS: [u64; 4] = [1 << 10, 1 << 13, 1 << 16, u64::MAX];

/// What to measure.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Rounds; each contender runs once in each.
    pub rounds: usize,
    /// Message lengths in bytes.
    pub lens: Vec<u64>,
    /// Time for the round trips of each length in each run; the rest takes about three times as long.
    pub budget: Duration,
    /// Who takes part between nodes.
    pub contenders: Vec<Transport>,
    /// Who takes part within a node.
    pub same_node: Vec<Transport>,
    /// Cores for the two ranks of one node.
    pub cores: Vec<usize>,
    /// Where the measuring program is built and kept.
    pub cache: PathBuf,
}

impl Plan {
    /// Everybody, five rounds.
    #[must_use]
    pub fn new(cache: PathBuf) -> Self {
        let powers = [0, 4, 6, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21];
        Self {
            rounds: 5,
            lens: powers.map(|power| 1 << power).to_vec(),
            budget: Duration::from_millis(20),
            contenders: CONTENDERS.to_vec(),
            same_node: SAME_NODE.to_vec(),
            cores: Vec::new(),
            cache,
        }
    }
}

/// What was measured, as it is written down.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// Where and with what.
    pub facts: Facts,
    /// The rate of the ports between the nodes, in bits a second, where they have one.
    pub rate: Option<u64>,
    /// Rounds that every contender ran.
    pub rounds: usize,
    /// Who took part, and how they did: first those between nodes.
    pub contenders: Vec<Contender>,
    /// Who did not, and why.
    pub absent: Vec<Absent>,
}

/// One contender's parameters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contender {
    /// Who.
    pub transport: Transport,
    /// In words.
    pub label: String,
    /// Whether both ranks were on one node.
    pub same_node: bool,
    /// All that set it apart from the others.
    pub settings: Settings,
    /// What its MPI said it used.
    pub evidence: Option<String>,
    /// The greatest length that was sent to a receiver that was away; 0 if none was.
    pub eager_max: u64,
    /// One entry for each length.
    pub points: Vec<Point>,
    /// The parameters, one entry for each range of lengths.
    pub segments: Vec<Segment>,
}

/// One length: medians of the rounds' medians, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Bytes a message.
    pub len: u64,
    /// Half a round trip.
    pub half_us: f64,
    /// o_s of MPI_Send; of MPI_Isend where the send waits for the receiver.
    pub send_us: f64,
    /// MPI_Isend.
    pub isend_us: f64,
    /// o_r: MPI_Recv of a message that has come; 0 where it cannot come before.
    pub recv_us: f64,
    /// g + G s.
    pub gap_us: f64,
    /// Whether MPI_Send returned while the receiver was away.
    pub is_eager: bool,
}

impl Point {
    /// What half a round trip has besides the overheads.
    #[must_use]
    pub fn way_us(&self) -> f64 {
        self.half_us - self.send_us - self.recv_us
    }
}

/// A range of lengths.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Segment {
    /// The first length.
    pub from: u64,
    /// The last.
    pub to: u64,
    /// L, the median over the lengths.
    pub latency_us: f64,
    /// o_s of the first length and of the last.
    pub send_us: [f64; 2],
    /// o_r alike.
    pub recv_us: [f64; 2],
    /// g.
    pub gap_us: f64,
    /// G.
    pub gap_ns_per_byte: f64,
}

/// Where somebody runs.
struct Seat<'a> {
    course: Course<'a>,
    who: Admitted,
    same_node: bool,
    rounds: BTreeMap<u64, Vec<Point>>,
}

/// Runs the plan: between the nodes of one launcher, and within the node of the other, if there is one.
///
/// # Errors
/// When nobody can take part, or a contender that passed its first run fails later.
pub fn measure(
    between: &dyn Launcher,
    within: Option<&dyn Launcher>,
    plan: &Plan,
    progress: Progress<'_>,
) -> Result<Report> {
    let program = MeasuringProgram::LogGp.build(&plan.cache)?;
    let pingpong = MeasuringProgram::Pingpong.build(&plan.cache)?;
    let within = within.map(OneNode);
    let mut absent = Vec::new();
    let mut seats: Vec<Seat<'_>> = Vec::new();
    let mut places = vec![(between, &plan.contenders, &[][..], false)];
    if let Some(within) = &within {
        places.push((within, &plan.same_node, &plan.cores[..], true));
    }
    for (launcher, transports, cores, same_node) in places {
        let course = |program: &Path| Course {
            launcher,
            program: program.to_owned(),
            cores,
            dir: &plan.cache,
        };
        let (admitted, not) = course(&pingpong).admit(transports, &[5, 8], progress)?;
        absent.extend(not);
        seats.extend(admitted.into_iter().map(|who| Seat {
            course: course(&program),
            who,
            same_node,
            rounds: BTreeMap::new(),
        }));
    }
    let args: Vec<u64> =
        std::iter::once(whole_ms(plan.budget)).chain(plan.lens.iter().copied()).collect();
    for (round, turns) in interleave::rounds(seats.len(), plan.rounds).iter().enumerate() {
        for &turn in turns {
            let seat = &mut seats[turn];
            let label = seat.who.transport.label();
            let place = if seat.same_node { " within a node" } else { "" };
            progress(&format!("round {} of {}: {label}{place}", round + 1, plan.rounds));
            let output =
                seat.course.run(seat.who.transport, &seat.who.settings, &args, RUN_TIME_MAX)?;
            seat.take(&String::from_utf8_lossy(&output.stdout), &plan.lens)?;
        }
    }
    Ok(Report {
        schema: SCHEMA.to_owned(),
        facts: Facts::gather(between.facts()),
        rate: None,
        rounds: plan.rounds,
        contenders: seats.into_iter().map(Seat::finish).collect(),
        absent,
    })
}

#[derive(Deserialize)]
struct Line {
    len: u64,
    burst: u64,
    away_ns: u64,
    round_trip_ns: Vec<(u64, u64)>,
    send_ns: Vec<(u64, u64)>,
    isend_ns: Vec<(u64, u64)>,
    recv_ns: Vec<(u64, u64)>,
    single_ns: Vec<(u64, u64)>,
    burst_ns: Vec<(u64, u64)>,
}

impl Line {
    fn point(self) -> Option<Point> {
        let us = |pairs| Some(Samples::from_pairs(pairs).percentile_ns(50)? as f64 / 1000.0);
        let (half_us, sent_us) = (us(self.round_trip_ns)? / 2.0, us(self.send_ns)?);
        let (isend_us, received_us) = (us(self.isend_ns)?, us(self.recv_ns)?);
        // Who waits does so until the receiver is back.
        let is_eager = sent_us < self.away_ns as f64 / 2000.0;
        let burst = self.burst.checked_sub(1).filter(|more| *more > 0)? as f64;
        let gap_us = ((us(self.burst_ns)? - us(self.single_ns)?) / burst).max(0.0);
        let within_gap = |us: f64| if gap_us > 0.0 { us.min(gap_us) } else { us };
        Some(Point {
            len: self.len,
            half_us,
            send_us: within_gap(if is_eager { sent_us } else { isend_us }),
            isend_us: within_gap(isend_us),
            recv_us: if is_eager { within_gap(received_us) } else { 0.0 },
            gap_us,
            is_eager,
        })
    }
}

impl Seat<'_> {
    fn take(&mut self, text: &str, lens: &[u64]) -> Result<()> {
        let what = "the LogGP program";
        let bad = |detail: String| BenchError::Output { what: what.to_owned(), detail };
        let mut missing: BTreeSet<u64> = lens.iter().copied().collect();
        for line in results::<Line>(what, text)? {
            let len = line.len;
            let point = line.point().ok_or_else(|| bad(format!("no samples for {len} bytes")))?;
            missing.remove(&len);
            self.rounds.entry(len).or_default().push(point);
        }
        match missing.first() {
            Some(len) => Err(bad(format!("nothing about {len} bytes"))),
            None => Ok(()),
        }
    }

    fn finish(self) -> Contender {
        let points: Vec<Point> =
            self.rounds.values().filter_map(|rounds| of_rounds(rounds)).collect();
        let eager = points.iter().take_while(|point| point.is_eager).last();
        Contender {
            transport: self.who.transport,
            label: self.who.transport.label().to_owned(),
            same_node: self.same_node,
            settings: self.who.settings,
            evidence: self.who.evidence,
            eager_max: eager.map_or(0, |point| point.len),
            segments: segments(&points),
            points,
        }
    }
}

/// Medians of the rounds.
fn of_rounds(rounds: &[Point]) -> Option<Point> {
    let of = |value: fn(&Point) -> f64| median(&rounds.iter().map(value).collect::<Vec<_>>());
    Some(Point {
        len: rounds.first()?.len,
        half_us: of(|p| p.half_us)?,
        send_us: of(|p| p.send_us)?,
        isend_us: of(|p| p.isend_us)?,
        recv_us: of(|p| p.recv_us)?,
        gap_us: of(|p| p.gap_us)?,
        is_eager: 2 * rounds.iter().filter(|p| p.is_eager).count() > rounds.len(),
    })
}

/// The parameters of each range of lengths that has two or more.
fn segments(points: &[Point]) -> Vec<Segment> {
    let mut segments = Vec::new();
    let mut from = 0;
    for end in SEGMENT_ENDS {
        let within: Vec<Point> =
            points.iter().filter(|p| (from..=end).contains(&p.len)).copied().collect();
        from = end.saturating_add(1);
        let [first, .., last] = &within[..] else { continue };
        let gaps: Vec<(f64, f64)> = within.iter().map(|p| (p.len as f64, p.gap_us)).collect();
        let (gap_us, per_byte_us) = line(&gaps);
        let latencies: Vec<f64> =
            within.iter().map(|p| p.way_us() - per_byte_us * p.len as f64).collect();
        segments.push(Segment {
            from: first.len,
            to: last.len,
            latency_us: median(&latencies).unwrap_or_default(),
            send_us: [first.send_us, last.send_us],
            recv_us: [first.recv_us, last.recv_us],
            gap_us,
            gap_ns_per_byte: per_byte_us * 1000.0,
        });
    }
    segments
}

/// Intercept and slope by least squares; neither is below 0.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let count = points.len().max(1) as f64;
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (mean_x, mean_y) = (mean(|p| p.0), mean(|p| p.1));
    let sxx: f64 = points.iter().map(|p| (p.0 - mean_x).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let slope = if sxx > 0.0 { (sxy / sxx).max(0.0) } else { 0.0 };
    let intercept = mean_y - slope * mean_x;
    match intercept < 0.0 && mean_x > 0.0 {
        true => (0.0, mean_y / mean_x),
        false => (intercept, slope),
    }
}

/// A launcher of which one node is used.
struct OneNode<'a>(&'a dyn Launcher);

impl Launcher for OneNode<'_> {
    fn settings(&self, transport: Transport) -> std::result::Result<Settings, String> {
        self.0.settings(transport)
    }

    fn command(&self, job: &Job<'_>) -> Result<Command> {
        self.0.command(job)
    }

    fn node_count(&self) -> usize {
        1
    }

    fn facts(&self) -> BTreeMap<String, String> {
        self.0.facts()
    }

    fn is_interrupted(&self) -> bool {
        self.0.is_interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the program prints of a transport with L = 10, o_s = 2, o_r = 3, g = 4 us and G = 8 ns.
    fn said(len: u64) -> String {
        let ns = 8 * len;
        let (half, gap) = (15_000 + ns, 4_000 + ns);
        let (send, recv, away) = match len {
            ..=65536 => (2_000, 3_000, 100_000),
            _ => (120_000, 600_000, 100_000),
        };
        format!(
            "{{\"len\":{len},\"burst\":5,\"away_ns\":{away},\"round_trip_ns\":[[{},3]],\"send_ns\":[[{send},3]],\
             \"isend_ns\":[[2000,3]],\"recv_ns\":[[{recv},3]],\"single_ns\":[[{half},3]],\"burst_ns\":[[{},3]]}}\n",
            2 * half,
            half + 4 * gap
        )
    }

    fn points(lens: &[u64]) -> Vec<Point> {
        let text: String = lens.iter().map(|len| said(*len)).collect();
        let lines = results::<Line>("it", &text).unwrap();
        lines.into_iter().map(|line| line.point().unwrap()).collect()
    }

    #[test]
    fn parameters_are_those_that_the_times_were_made_of() {
        let points = points(&[1, 512, 1024, 4096, 8192, 1 << 17, 1 << 20]);
        let found = segments(&points);
        assert_eq!(
            found.iter().map(|s| (s.from, s.to)).collect::<Vec<_>>(),
            [(1, 1024), (4096, 8192), (1 << 17, 1 << 20)]
        );
        for (segment, (latency, recv)) in found.iter().zip([(10.0, 3.0), (10.0, 3.0), (13.0, 0.0)])
        {
            assert!((segment.gap_us - 4.0).abs() < 1e-6, "{segment:?}");
            assert!((segment.gap_ns_per_byte - 8.0).abs() < 1e-6, "{segment:?}");
            assert!((segment.latency_us - latency).abs() < 1e-6, "{segment:?}");
            assert_eq!((segment.send_us, segment.recv_us), ([2.0; 2], [recv; 2]));
        }
        assert_eq!(points.iter().filter(|point| point.is_eager).count(), 5);
    }

    #[test]
    fn overhead_after_a_pause_is_not_above_the_gap_of_a_stream() {
        let slow = said(8).replace("\"recv_ns\":[[3000,3]]", "\"recv_ns\":[[9000,3]]");
        let point = results::<Line>("it", &slow).unwrap().remove(0).point().unwrap();
        assert!((point.recv_us - 4.064).abs() < 1e-9 && (point.send_us - 2.0).abs() < 1e-9);
    }

    #[test]
    fn lines_have_nothing_below_0() {
        assert_eq!(line(&[(1.0, 3.0), (2.0, 5.0)]), (1.0, 2.0));
        assert_eq!(line(&[(1.0, 5.0), (2.0, 3.0)]), (4.0, 0.0));
        assert_eq!(line(&[(1.0, 1.0), (3.0, 5.0)]), (0.0, 1.5));
        assert_eq!(line(&[(8.0, 5.0)]), (5.0, 0.0));
        assert_eq!(line(&[]), (0.0, 0.0));
    }

    #[test]
    fn rounds_are_of_the_same_weight() {
        let mut rounds = points(&[8, 8, 8]);
        (rounds[0].half_us, rounds[1].half_us, rounds[2].half_us) = (1.0, 9.0, 4.0);
        rounds[0].is_eager = false;
        let one = of_rounds(&rounds).unwrap();
        assert!(one.is_eager && (one.half_us - 4.0).abs() < 1e-12);
        assert_eq!(of_rounds(&[]), None);
    }

    #[test]
    fn output_without_samples_is_none() {
        let empty = said(8).replace("[[2000,3]]", "[]");
        let line = results::<Line>("it", &empty).unwrap().remove(0);
        assert!(line.point().is_none());
    }
}
