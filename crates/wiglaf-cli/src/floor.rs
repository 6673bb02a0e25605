//! `wiglaf floor`: one side of a measurement of a bare link, started twice by
//! `wiglaf bench` as `wiglaf run --mpi none -n 2 --link LINK -- wiglaf floor`;
//! or one of active messages, to be held against that.

mod messages;

use std::collections::BTreeMap;
use std::net::SocketAddrV4;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use rustix::thread::{CpuSet, sched_setaffinity};
use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_bench::floor::{Floor, FloorLatency};
use wiglaf_links::{floor, remembered};

use crate::output;

/// Frame lengths; the longest fits the smallest usual MTU.
const LENS: [usize; 3] = [8, 64, 1400];
const ROUNDS: usize = 50_000;
/// Where it is measured again and again, and of the first length only.
const ROUNDS_OF_PART: usize = 20_000;
const STREAM_LEN: u64 = 2 << 30;

/// Measure a bare link; rank, peers and link come from `wiglaf run --mpi none`
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Cores to use, the first for rank 0
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    cores: Vec<usize>,

    /// What to measure
    #[arg(long, value_enum, default_value_t = Part::All)]
    part: Part,
}

/// What is measured in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Frames of several lengths, and a stream
    All,
    /// Frames of 8 bytes
    Ping,
    /// Active messages of 8 bytes
    Messages,
}

impl Part {
    /// As the option has it.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Ping => "ping",
            Self::Messages => "messages",
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let rank: usize = variable("WIGLAF_RANK")?.parse().cannot(|| "read WIGLAF_RANK".to_owned())?;
    let peers = peers(&variable("WIGLAF_PEERS")?)?;
    let (own, peer) = match (rank, peers) {
        (0, [first, second]) => (first, second),
        (1, [first, second]) => (second, first),
        _ => return Err(Error::new("a floor is measured by two ranks; use `run -n 2`")),
    };
    if !args.cores.is_empty() {
        let mut set = CpuSet::new();
        set.set(args.cores[rank % args.cores.len()]);
        sched_setaffinity(None, &set).cannot(|| "keep to one core".to_owned())?;
    }
    if args.part == Part::Messages {
        return run_messages(rank);
    }
    let choice = wiglaf_links::config_from_env().map_err(|e| Error::new(e.to_string()))?.link;
    let mut link = floor::open(own, peer, choice).cannot(|| "open the link".to_owned())?;
    if rank == 1 {
        floor::serve(link.as_mut(), peer).cannot(|| "serve the floor".to_owned())?;
        return Ok(ExitCode::SUCCESS);
    }
    let measured =
        measure(link.as_mut(), peer, args.part).cannot(|| "measure the floor".to_owned())?;
    print(&measured)
}

fn print(measured: &Floor) -> Result<ExitCode> {
    let line = serde_json::to_string(measured).cannot(|| "write JSON".to_owned())?;
    output::print(&(line + "\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn run_messages(rank: usize) -> Result<ExitCode> {
    if rank == 1 {
        messages::serve()?;
        return Ok(ExitCode::SUCCESS);
    }
    let times = messages::ping(LENS[0], ROUNDS_OF_PART)?;
    let (p50, p99) = (times[times.len() / 2], times[times.len() * 99 / 100]);
    let latency = FloorLatency { len: LENS[0] as u64, p50_us: us(p50), p99_us: us(p99) };
    let (link, place) = ("active messages".to_owned(), BTreeMap::new());
    print(&Floor { link, latency: vec![latency], stream_megabytes_per_s: None, place })
}

fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

fn measure(
    link: &mut dyn wiglaf_link::Link,
    peer: SocketAddrV4,
    part: Part,
) -> std::io::Result<Floor> {
    let (lens, rounds) = match part {
        Part::All => (LENS.as_slice(), ROUNDS),
        Part::Ping | Part::Messages => (&LENS[..1], ROUNDS_OF_PART),
    };
    let mut latency = Vec::new();
    for len in lens {
        let len = (*len).min(link.limits().frame_len_max);
        let found = floor::ping(link, peer, len, rounds)?;
        latency.push(FloorLatency {
            len: len as u64,
            p50_us: us(found.p50),
            p99_us: us(found.p99),
        });
    }
    let rate = match part {
        Part::All => Some(floor::stream(link, peer, STREAM_LEN)? / 1e6),
        Part::Ping | Part::Messages => None,
    };
    floor::bye(link, peer)?;
    let interface = wiglaf_links::interface_for(*link.local().ip()).ok();
    Ok(Floor {
        link: link.name().to_owned(),
        latency,
        stream_megabytes_per_s: rate,
        place: interface.as_ref().map(remembered::place).unwrap_or_default(),
    })
}

fn variable(name: &str) -> Result<String> {
    std::env::var(name).map_err(|_| {
        Error::new(format!(
            "{name} is not set; use `wiglaf run --mpi none -n 2 --link udp -- wiglaf floor`"
        ))
    })
}

/// Reads `IP:PORT:EPOCH,IP:PORT:EPOCH`.
fn peers(text: &str) -> Result<[SocketAddrV4; 2]> {
    let address = |peer: &str| peer.rsplit_once(':')?.0.parse().ok();
    let all: Option<Vec<SocketAddrV4>> = text.split(',').map(address).collect();
    all.and_then(|all| all.try_into().ok())
        .ok_or_else(|| Error::new("WIGLAF_PEERS does not hold two peers; use `run -n 2`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peers_are_two_addresses_with_epochs() {
        let found = peers("10.77.0.1:7701:00ff,10.77.0.2:7702:1").unwrap();
        assert_eq!(found.map(|peer| peer.port()), [7701, 7702]);
        for text in ["", "10.77.0.1:7701:1", "a,b", "1.2.3.4:5:6,1.2.3.4:5:6,1.2.3.4:5:6"] {
            assert!(peers(text).is_err(), "{text}");
        }
    }
}
