//! `wiglaf capture`.

mod pcapng;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use wiglaf_base::{Error, HostList, Result, network, signals};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::{Record, StateDir, state as clusters};
use wiglaf_emulation::tap::{self, Tap};
use wiglaf_emulation::up;
use wiglaf_node::Node;

use crate::choices::parse_hosts;
use crate::options::Global;
use crate::stats;
use crate::which::Meant;
use pcapng::Writer;

const HELP: &str = "\
Examples:
  wiglaf capture -w job.pcapng               until Ctrl-C
  wiglaf capture -w job.pcapng --for 5       five seconds
  wiglaf capture -w - | wireshark -k -i -    look on
  tshark -X lua_script:wiglaf.lua -r job.pcapng -Y wiglaf.record.type==4

Every datagram of Wiglaf is seen once, where it enters the switch, before faults
that were set there. Trains that the kernel keeps together are cut into the
datagrams of a real wire; UDP checksums that a card would compute are 0. Ranks
of one node that talk through shared memory are not on the wire. A capture takes
processor time from the job. The dissector is in share/wireshark/wiglaf.lua.

Needs root. Comments name the ranks, as far as `wiglaf stats` sees them.";

/// What waits when the end is asked for is taken for so long at most.
const DRAIN_MAX: Duration = Duration::from_secs(1);
/// How every datagram of Wiglaf begins: magic and version.
const FIRST: [u8; 2] = [0x57, 1];
/// Where the IP addresses and the epochs are in a frame.
const FROM_AT: usize = 26;
const TO_AT: usize = 30;
const SOURCE_AT: usize = 42 + 16;
const DESTINATION_AT: usize = 42 + 24;
/// How often it is asked which ranks there are.
const NAMES_INTERVAL: Duration = Duration::from_secs(1);
/// How long a wait for frames lasts.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// Frames that are sorted by time before they are written.
const BATCH_MAX: usize = 4096;

/// Record Wiglaf's datagrams on the emulated wire, for Wireshark
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Where to: a pcapng file, or - for standard output
    #[arg(short = 'w', long, value_name = "FILE")]
    write: PathBuf,

    /// Only what these nodes send or are sent [default: all]
    #[arg(short = 'N', long, value_name = "HOSTLIST", value_parser = parse_hosts)]
    nodes: Option<HostList>,

    /// Only of the job whose mark begins so (see `wiglaf stats`)
    #[arg(short = 'J', long, value_name = "JOB")]
    job: Option<String>,

    /// Stop after so many seconds
    #[arg(long = "for", value_name = "SECONDS", value_parser = parse_seconds)]
    limit: Option<Duration>,

    /// Stop after so many datagrams
    #[arg(long, value_name = "DATAGRAMS")]
    count: Option<u64>,
}

/// What is wanted of what is seen, and what is known about it.
struct Picker {
    addresses: Vec<Ipv4Addr>,
    job: Option<String>,
    nodes: Vec<Node>,
    /// Rank and node, by epoch, of the job's endpoints.
    ranks: BTreeMap<u64, String>,
    asked_at: Option<Instant>,
}

fn parse_seconds(text: &str) -> Result<Duration> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| Error::new("give seconds, such as 5 or 0.5"))
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let state = &match global.meant()? {
        Meant::Emulated(state) => state,
        Meant::Hosts(hosts) => return Err(instead(&hosts)),
    };
    let record = state.running()?;
    up::check_is_here(state, &record)?;
    let held = signals::Held::new(&signals::ENDING);
    let mut taps = tap::open_all(&record, FIRST)?;
    let mut picker = Picker::new(args, state, &record)?;
    let mut writer = open(args, &record)?;
    let stop = Arc::new(AtomicBool::new(false));
    let asked = Arc::clone(&stop);
    held.pass_on(move |_| asked.store(true, Ordering::Relaxed))?;

    let (began, count_max) = (Instant::now(), args.count.unwrap_or(u64::MAX));
    eprintln!("wiglaf: recording; Ctrl-C ends it");
    let (mut written, mut ended) = (0, None);
    loop {
        // What waits when the end is asked for is still taken.
        let last = stop.load(Ordering::Relaxed) || args.limit.is_some_and(|l| began.elapsed() >= l);
        picker.ask_for_names();
        let seen = wait(&mut taps);
        let is_empty = seen.is_empty();
        for (tap, at, frame) in seen {
            if written < count_max && picker.wants(&frame) {
                let comment = picker.comment(&frame);
                writer.frame(tap, at, &frame, comment.as_deref()).map_err(|e| failed(args, &e))?;
                written += 1;
            }
        }
        writer.flush().map_err(|error| failed(args, &error))?;
        // Who sends without end keeps nobody here.
        let is_over = last && ended.get_or_insert_with(Instant::now).elapsed() >= DRAIN_MAX;
        if written == count_max || is_over || last && is_empty {
            break;
        }
        // Asked of the kernel for each node, so only when nothing comes.
        if is_empty && !up::is_whole(&record) {
            eprintln!("wiglaf: the cluster went down; what was recorded until then is written");
            break;
        }
    }
    let missed: u64 = taps.iter().map(Tap::missed).sum();
    eprintln!("wiglaf: {written} datagrams recorded, {missed} missed for want of room");
    Ok(ExitCode::SUCCESS)
}

/// What records on a real host. Frames of its cards are root's to see, and every host sees its own alone.
fn instead(hosts: &Hosts) -> Error {
    let own = network::own_in(hosts.network.data);
    let interface = own.map_or_else(|| "INTERFACE".to_owned(), |own| own.interface);
    Error::new(format!(
        "capture records the wire of emulated nodes (add --name for one that is up); between real hosts \
         run `sudo tcpdump -i {interface} -w job.pcapng udp` on one of them, and open that with \
         `wireshark -X lua_script:wiglaf.lua`"
    ))
}

fn failed(args: &Args, error: &std::io::Error) -> Error {
    Error::new(format!("cannot write {}: {error}", args.write.display()))
}

fn open(args: &Args, record: &Record) -> Result<Writer<Box<dyn Write>>> {
    let out: Box<dyn Write> = if args.write.as_os_str() == "-" {
        Box::new(BufWriter::new(std::io::stdout()))
    } else {
        Box::new(BufWriter::new(File::create(&args.write).map_err(|error| failed(args, &error))?))
    };
    let nodes = &record.shape.nodes;
    let comment = format!("cluster {}: {}", record.shape.name, record.shape.summary());
    let interfaces: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let names: Vec<_> = nodes.iter().map(|node| (node.address, node.name.as_str())).collect();
    Writer::new(out, &comment, &interfaces, &names).map_err(|error| failed(args, &error))
}

/// What has come to any tap, in the order of time: tap, time, frame.
fn wait(taps: &mut [Tap]) -> Vec<(u32, u64, Vec<u8>)> {
    let mut fds: Vec<_> = taps.iter().map(|tap| PollFd::new(tap, PollFlags::IN)).collect();
    // A failed or interrupted poll only means to look.
    let _ = poll(&mut fds, Some(&POLL));
    for fd in fds.iter().filter(|fd| fd.revents().contains(PollFlags::ERR)) {
        // An interface that went down says so until it is asked, and each poll would return at once.
        let _ = rustix::net::sockopt::socket_error(fd);
    }
    let mut seen = Vec::new();
    for (number, tap) in taps.iter_mut().enumerate() {
        let full = seen.len() + BATCH_MAX;
        while seen.len() < full
            && let Some((at, frames)) = tap.receive()
        {
            seen.extend(frames.into_iter().map(|frame| (number as u32, at, frame)));
        }
    }
    seen.sort_by_key(|(_, at, _)| *at);
    seen
}

impl Picker {
    fn new(args: &Args, state: &StateDir, record: &Record) -> Result<Self> {
        let wanted = clusters::select(record, &args.nodes.clone().unwrap_or_default())?;
        let all = record.shape.nodes.iter();
        Ok(Self {
            addresses: wanted.iter().map(|node| node.address).collect(),
            job: args.job.clone(),
            nodes: all.map(|node| state.node(&node.name)).collect(),
            ranks: BTreeMap::new(),
            asked_at: None,
        })
    }

    /// Learns which ranks there are. Who does not answer has no names.
    fn ask_for_names(&mut self) {
        if self.asked_at.is_some_and(|at| at.elapsed() < NAMES_INTERVAL) {
            return;
        }
        let wanted =
            |job: &str| self.job.as_ref().is_none_or(|wanted| job.starts_with(wanted.as_str()));
        for (job, epoch, name) in stats::names(&self.nodes) {
            if wanted(&job) {
                self.ranks.insert(epoch, name);
            }
        }
        self.asked_at = Some(Instant::now());
    }

    fn wants(&self, frame: &[u8]) -> bool {
        let ours = |at: usize| {
            let octets = frame.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok());
            octets.is_some_and(|octets| self.addresses.contains(&Ipv4Addr::from(octets)))
        };
        let known = |at: usize| self.ranks.contains_key(&epoch(frame, at));
        (ours(FROM_AT) || ours(TO_AT))
            && (self.job.is_none() || known(SOURCE_AT) || known(DESTINATION_AT))
    }

    fn comment(&self, frame: &[u8]) -> Option<String> {
        let name = |at: usize| self.ranks.get(&epoch(frame, at));
        match (name(SOURCE_AT), name(DESTINATION_AT)) {
            (Some(from), Some(to)) => Some(format!("{from} to {to}")),
            (Some(from), None) => Some(format!("from {from}")),
            (None, Some(to)) => Some(format!("to {to}")),
            (None, None) => None,
        }
    }
}

/// An epoch of the header; 0 in a frame that is too short.
fn epoch(frame: &[u8], at: usize) -> u64 {
    let bytes = frame.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}
