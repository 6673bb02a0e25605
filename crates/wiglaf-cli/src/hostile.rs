//! `wiglaf hostile`: what a stranger on the wire does, for tests and `wiglaf bench hostile`. It
//! runs on an emulated node that is not of the job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_cluster::shape::INTERFACE;
use wiglaf_hostile::{Attack, Injector, Recorded, decoy, frames, of_corpus, read};

use crate::output;

/// How often the flood looks at the clock.
const BATCH_LEN: usize = 16;
/// Behind each batch of what fuzzers have found.
const CORPUS_PAUSE: Duration = Duration::from_micros(200);

/// Send recorded, forged and malformed frames; only on a node of an emulated cluster
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// What `wiglaf capture` has recorded
    #[arg(long, value_name = "FILE")]
    frames: PathBuf,

    /// What fuzzers have found: every file of this folder, as frames, datagrams and bodies on the
    /// recorded ways; may be given several times
    #[arg(long, value_name = "FOLDER", conflicts_with = "flood")]
    corpus: Vec<PathBuf>,

    /// Only these attacks, again and again
    #[arg(long, value_name = "ATTACK", value_delimiter = ',', value_parser = attack)]
    flood: Vec<Attack>,

    /// Frames a second in a flood
    #[arg(long, default_value_t = 10_000.0, value_name = "RATE")]
    rate: f64,

    /// How long a flood lasts, in seconds
    #[arg(long = "for", default_value_t = 1.0, value_name = "SECONDS")]
    seconds: f64,

    /// Only frames to this address
    #[arg(long, value_name = "IP")]
    to: Option<std::net::Ipv4Addr>,

    /// To a port where nobody listens: what the flood costs by itself
    #[arg(long)]
    decoy: bool,
}

fn attack(name: &str) -> std::result::Result<Attack, String> {
    let found = Attack::ALL.into_iter().find(|attack| attack.name() == name);
    found.ok_or_else(|| format!("choose among {}", Attack::ALL.map(Attack::name).join(", ")))
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if std::env::var_os("WIGLAF_NODE").is_none() {
        return Err(Error::new("run it on an emulated node: `wiglaf exec -w node3 -- …`"));
    }
    let file = std::fs::read(&args.frames).cannot(|| format!("read {}", args.frames.display()))?;
    let mut recorded = read(&file);
    recorded.retain(|frame| args.to.is_none_or(|to| frame.is_to(to)));
    if recorded.is_empty() {
        return Err(Error::new("the recording holds no datagram of Wiglaf to there"));
    }
    let injector = Injector::open(INTERFACE).cannot(|| format!("open {INTERFACE}"))?;
    let sent = if !args.corpus.is_empty() {
        corpora(args, &injector, &recorded)?
    } else if args.flood.is_empty() {
        let attacks = Attack::ALL.map(|attack| {
            let mut made = frames(attack, &recorded);
            let sent = made.iter_mut().map(|frame| u64::from(injector.send(frame))).sum();
            (attack.name().to_owned(), sent)
        });
        attacks.into()
    } else {
        flood(args, &injector, args.flood.iter().flat_map(|a| frames(*a, &recorded)).collect())
    };
    output::print_json(&sent)?;
    Ok(ExitCode::SUCCESS)
}

/// Sends what is in the folders, with pauses in which it is received.
fn corpora(
    args: &Args,
    injector: &Injector,
    recorded: &[Recorded],
) -> Result<BTreeMap<String, u64>> {
    let mtu = std::fs::read_to_string(format!("/sys/class/net/{INTERFACE}/mtu"));
    let mtu = mtu.cannot(|| format!("read the MTU of {INTERFACE}"))?.trim().parse().unwrap_or(1500);
    let (mut files, mut sent) = (0, 0);
    for folder in &args.corpus {
        let reading = || format!("read {}", folder.display());
        for entry in std::fs::read_dir(folder).cannot(reading)? {
            let file = std::fs::read(entry.cannot(reading)?.path()).cannot(reading)?;
            for batch in of_corpus(&file, recorded, mtu).chunks_mut(BATCH_LEN) {
                sent += batch.iter_mut().map(|frame| u64::from(injector.send(frame))).sum::<u64>();
                std::thread::sleep(CORPUS_PAUSE);
            }
            files += 1;
        }
    }
    Ok([("files".to_owned(), files), ("frames".to_owned(), sent)].into())
}

/// Sends at the rate that was asked for, or as fast as it can.
fn flood(args: &Args, injector: &Injector, mut frames: Vec<Vec<u8>>) -> BTreeMap<String, u64> {
    if args.decoy {
        frames.iter_mut().for_each(|frame| *frame = decoy(frame));
    }
    let (began, limit) = (Instant::now(), Duration::from_secs_f64(args.seconds.max(0.0)));
    let mut sent = 0_u64;
    while began.elapsed() < limit {
        for batch in frames.chunks_mut(BATCH_LEN) {
            let due = began + Duration::from_secs_f64(sent as f64 / args.rate.max(1.0));
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if began.elapsed() >= limit {
                break;
            }
            sent += batch.iter_mut().map(|frame| u64::from(injector.send(frame))).sum::<u64>();
        }
    }
    [("flood".to_owned(), sent), ("us".to_owned(), began.elapsed().as_micros() as u64)].into()
}
