//! `wiglaf bench hostile`: what a stranger's flood costs the job that it is aimed at.
//!
//! One stream runs without pause, so that all is compared within one job; what it receives is
//! read from its counters. By turns there is no flood, those that the job sees, and for each of those
//! one that it never sees (a decoy: the same frames to a port where nobody listens, for what they
//! take of the wire, and cost an emulated machine by themselves). Their rate is that of the job's own packets,
//! or what both got out in a turn before, if that is less: a job that yields lets more of them onto the line.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde::Serialize;
use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_bench::compile::MeasuringProgram;
use wiglaf_bench::interleave;

use super::{Common, size};
use crate::measuring::nodes::Cluster;
use crate::measuring::{interrupt, plain, progress};
use crate::options::Global;
use crate::stats;
use crate::up::this_exe;

/// How long each turn lasts, and how long before it is looked at.
const TURN: Duration = Duration::from_millis(1500);
const SETTLE: Duration = Duration::from_millis(300);
/// Packets that a recording holds.
const RECORDED: &str = "2000";
const WINDOW: &str = "64";
const START_MAX: u32 = 200;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    common: Common,

    /// Message sizes, such as 8,64K,1M [default: 8,4K,1M]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = size)]
    sizes: Vec<u64>,

    /// Rate of the floods, as a part of the job's own packets: where both do not fit on the line, who gets
    /// how much of it is chance
    #[arg(long, value_name = "PART", default_value_t = 1.0, value_parser = part)]
    part: f64,
}

fn part(text: &str) -> std::result::Result<f64, &'static str> {
    let part = text.parse().ok().filter(|part| (0.01..=1.0).contains(part));
    part.ok_or("give a number from 0.01 to 1")
}

/// The turns: name, attacks, and which turn is its decoy, if it has one: a decoy is its own.
const TURNS: [(&str, &str, Option<usize>); 5] = [
    ("none", "", None),
    ("decoy of forged", FORGED, Some(1)),
    ("forged", FORGED, Some(1)),
    ("decoy of replayed", "replay", Some(3)),
    ("replayed", "replay", Some(3)),
];
const FORGED: &str = "forge,invent,mutate";

#[derive(Debug, Serialize)]
struct Report {
    schema: &'static str,
    cluster: String,
    link: &'static str,
    rounds: usize,
    /// Rate wanted of the floods, as a part of the job's packets.
    part: f64,
    sizes: Vec<Measured>,
}

/// One message size.
#[derive(Debug, Serialize)]
struct Measured {
    len: u64,
    /// Packets a second of the job without a flood.
    packets_per_s: f64,
    turns: Vec<Turn>,
}

/// One kind of turn.
#[derive(Debug, Serialize)]
struct Turn {
    flood: &'static str,
    /// Frames a second that were asked of the stranger.
    asked_per_s: f64,
    /// Payload that came through, by the median of the rounds, in 10^6 bytes a second.
    megabytes_per_s: f64,
    round_megabytes_per_s: Vec<f64>,
    /// Frames a second that the stranger got out, by the median.
    flood_per_s: f64,
    /// Throughput by that without a flood, and by that with the decoy, if it has one.
    of_none: f64,
    of_decoy: Option<f64>,
}

/// What the receiver had counted at one time.
#[derive(Clone, Copy)]
struct Reading {
    at_ns: u64,
    bytes: u64,
    packets: u64,
}

pub(super) fn run(args: &Args, global: &Global) -> Result<()> {
    let common = &args.common;
    let work = common.prepare()?;
    let cluster = Cluster::find_or_start(global, &common.wish(3))?;
    let program = MeasuringProgram::Flow.build(&work).map_err(plain)?;
    let rounds = common.rounds(5, 2);
    let sizes = if args.sizes.is_empty() { vec![8, 4096, 1 << 20] } else { args.sizes.clone() };
    let link = common.link.name();
    let bench = Bench { cluster: &cluster, program: &program, work: &work, link, part: args.part };
    let measured = sizes.iter().map(|len| bench.measure(*len, rounds)).collect::<Result<_>>();
    interrupt::check()?;
    let report = Report {
        schema: "wiglaf-bench/hostile/3",
        cluster: cluster.record.shape.summary(),
        link,
        rounds,
        part: args.part,
        sizes: measured?,
    };
    let table = table(&report);
    let files = common.write("hostile", &report, &table)?;
    common.show(&report, &table, &files)
}

struct Bench<'a> {
    cluster: &'a Cluster,
    program: &'a Path,
    work: &'a Path,
    link: &'static str,
    part: f64,
}

impl Bench<'_> {
    fn wiglaf(&self) -> Result<Command> {
        let mut command = Command::new(this_exe()?);
        command.arg("--state").arg(self.cluster.state.path()).current_dir(self.work);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(command)
    }

    fn measure(&self, len: u64, rounds: usize) -> Result<Measured> {
        let names: Vec<&str> =
            self.cluster.record.shape.nodes.iter().map(|node| node.name.as_str()).collect();
        let seconds = TURN.as_secs() * 4 * (rounds as u64 + 1) * TURNS.len() as u64;
        let mut job = self.wiglaf()?;
        job.args(["run", "--link", self.link, "-n", "2", "-w", &names[..2].join(","), "--"]);
        job.arg(self.program).args([&seconds.to_string(), WINDOW, &len.to_string()]);
        let _job = Ended(job.spawn().cannot(|| "start the stream".to_owned())?);
        self.await_stream()?;
        let frames = self.work.join("hostile.pcapng");
        let recording =
            self.wiglaf()?.args(["capture", "--count", RECORDED, "-w"]).arg(&frames).status();
        if !recording.is_ok_and(|status| status.success()) {
            return Err(Error::new("the stream's frames could not be recorded; only root can"));
        }
        let (packets_per_s, ..) = self.turn(0, 0.0, &frames)?;
        let asked = self.rates(self.part * packets_per_s, &frames)?;
        let mut found = vec![Vec::new(); TURNS.len()];
        for (round, order) in interleave::rounds(TURNS.len(), rounds).iter().enumerate() {
            for &turn in order {
                progress(&format!("{len} B, round {} of {rounds}: {}", round + 1, TURNS[turn].0));
                let (_, rate, flood) = self.turn(turn, asked[turn], &frames)?;
                found[turn].push((rate, flood));
            }
        }
        let median = |turn: usize, pick: fn(&(f64, f64)) -> f64| {
            let values: Vec<f64> = found[turn].iter().map(pick).collect();
            wiglaf_bench::stats::median(&values).unwrap_or(f64::NAN)
        };
        let turns = TURNS.iter().enumerate().map(|(turn, (flood, _, decoy))| Turn {
            flood,
            asked_per_s: asked[turn],
            megabytes_per_s: median(turn, |f| f.0),
            round_megabytes_per_s: found[turn].iter().map(|f| f.0).collect(),
            flood_per_s: median(turn, |f| f.1),
            of_none: median(turn, |f| f.0) / median(0, |f| f.0),
            of_decoy: decoy.map(|decoy| median(turn, |f| f.0) / median(decoy, |f| f.0)),
        });
        Ok(Measured { len, packets_per_s, turns: turns.collect() })
    }

    /// What to ask of each turn's flood: as much as is wanted, and no more than the flood and its decoy both get out.
    fn rates(&self, wanted: f64, frames: &Path) -> Result<[f64; TURNS.len()]> {
        progress("what the floods get out");
        let mut asked = TURNS.map(|(.., decoy)| decoy.map_or(0.0, |_| wanted));
        for (turn, (.., decoy)) in TURNS.into_iter().enumerate() {
            if decoy.is_none() {
                continue;
            }
            let (.., reached) = self.turn(turn, wanted, frames)?;
            for (asked, (.., its)) in asked.iter_mut().zip(TURNS) {
                if its == decoy {
                    *asked = asked.min(reached);
                }
            }
        }
        Ok(asked)
    }

    /// One turn: the receiver's packets a second, its 10^6 bytes a second, the flood's frames.
    fn turn(&self, turn: usize, rate: f64, frames: &Path) -> Result<(f64, f64, f64)> {
        interrupt::check()?;
        let (_, attacks, decoy) = TURNS[turn];
        let is_decoy = decoy == Some(turn);
        let receiver = &self.cluster.record.shape.nodes[1];
        let lasts = (SETTLE + TURN + SETTLE).as_secs_f64();
        let flood = match attacks {
            "" => None,
            attacks => {
                let mut command = self.wiglaf()?;
                let stranger = &self.cluster.record.shape.nodes[2].name;
                command.args(["exec", "-w", stranger, "--"]).arg(this_exe()?).arg("hostile");
                command.arg("--frames").arg(frames).args(["--flood", attacks]);
                command.args(["--to", &receiver.address.to_string(), "--rate", &rate.to_string()]);
                command.args(["--for", &lasts.to_string()]).args(is_decoy.then_some("--decoy"));
                let flood = command.stdout(Stdio::piped()).spawn();
                Some(Ended(flood.cannot(|| "start the flood".to_owned())?))
            }
        };
        std::thread::sleep(SETTLE);
        let before = self.read(&receiver.name)?;
        std::thread::sleep(TURN);
        let after = self.read(&receiver.name)?;
        let sent = flood.map_or(Ok(0.0), flood_rate)?;
        let seconds = (after.at_ns.saturating_sub(before.at_ns)) as f64 / 1e9;
        if seconds <= 0.0 {
            return Err(Error::new("the stream stands still"));
        }
        let per_s = |count: u64| count as f64 / seconds;
        Ok((per_s(after.packets - before.packets), per_s(after.bytes - before.bytes) / 1e6, sent))
    }

    fn await_stream(&self) -> Result<()> {
        let receiver = &self.cluster.record.shape.nodes[1].name;
        for _ in 0..START_MAX {
            interrupt::check()?;
            if self.read(receiver).is_ok_and(|reading| reading.bytes > 0) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Err(Error::new("the stream did not begin; try `wiglaf run` with any program"))
    }

    fn read(&self, node: &str) -> Result<Reading> {
        let seen = stats::ask_all(&[self.cluster.state.node(node)])?;
        let snapshot = seen.iter().map(|seen| &seen.snapshot).next();
        let snapshot = snapshot.ok_or_else(|| Error::new("the stream has ended"))?;
        Ok(Reading {
            at_ns: snapshot.updated_at_ns,
            bytes: snapshot.peers.iter().map(|peer| peer.bytes_received).sum(),
            packets: snapshot.counter("datagrams_received"),
        })
    }
}

fn flood_rate(mut flood: Ended) -> Result<f64> {
    let mut output = Vec::new();
    if let Some(stdout) = &mut flood.0.stdout {
        stdout.read_to_end(&mut output).cannot(|| "read what the flood says".to_owned())?;
    }
    let told: serde_json::Value = serde_json::from_slice(&output)
        .map_err(|_| Error::new("the flood failed; only root can send raw frames"))?;
    let number = |name: &str| told[name].as_f64().unwrap_or(0.0);
    Ok(number("flood") / (number("us") / 1e6).max(1e-6))
}

fn table(report: &Report) -> String {
    let mut out = format!(
        "{:>9} {:>12} {:<17} {:>10} {:>10} {:>10} {:>9} {:>9}\n",
        "bytes", "packets/s", "flood", "asked", "frames/s", "MB/s", "of none", "of decoy"
    );
    for measured in &report.sizes {
        for turn in &measured.turns {
            out += &format!(
                "{:>9} {:>12.0} {:<17} {:>10.0} {:>10.0} {:>10.1} {:>9.2} {:>9}\n",
                measured.len,
                measured.packets_per_s,
                turn.flood,
                turn.asked_per_s,
                turn.flood_per_s,
                turn.megabytes_per_s,
                turn.of_none,
                turn.of_decoy.map_or_else(String::new, |part| format!("{part:.2}"))
            );
        }
    }
    let fell_short = |turn: &Turn| turn.flood_per_s < 0.95 * turn.asked_per_s;
    if report.sizes.iter().flat_map(|measured| &measured.turns).any(fell_short) {
        out += "A flood did not reach what was asked of it, so it and its decoy have not sent the \
                same: try a smaller --part.\n";
    }
    out += "decoy: the same frames to a port of the same node where nobody listens, which is what \
            they take of the wire and cost this machine\n";
    out
}

/// A job or a flood that does not outlive its measurement, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_ends_with_a_turn_that_fails() {
        let turn = || -> Result<f64> {
            let flood = Command::new("sleep").arg("600").stdout(Stdio::piped()).spawn();
            let flood = Some(Ended(flood.unwrap()));
            let pid = flood.as_ref().map_or(0, |flood| flood.0.id());
            Err::<(), _>(Error::new(pid.to_string()))?;
            flood.map_or(Ok(0.0), flood_rate)
        };
        let pid = turn().unwrap_err().to_string();
        assert!(!Path::new("/proc").join(&pid).exists(), "{pid} still floods");
    }
}
