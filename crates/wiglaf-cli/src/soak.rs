//! `wiglaf soak`: jobs of all kinds for as long as wanted, and whether something grows.

mod course;
mod watch;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_bench::report;
use wiglaf_bench::soak::{Trend, Verdict};

use crate::measuring::nodes::{Cluster, Wish};
use crate::measuring::{interrupt, plain, work_folder};
use crate::options::Global;
use crate::output;

const HELP: &str = "\
Examples:
  wiglaf soak --for 24h                 a day; leave it alone
  wiglaf soak --for 30m --link udp      the long job on plain UDP sockets
  wiglaf soak --for 10m --seed 7        the same course as another time
  wiglaf soak --for 1h --no-faults      on a sound wire

One job runs all the time. Beside it others begin and end, over every link, some
of them killed, while the wire loses, doubles, damages and reorders frames and
its cable is pulled now and then. All check every byte that they receive. After
each the long job's memory and descriptors are looked at, those of what keeps
the nodes, and /dev/shm.

Whether something grows is judged by the second half of the run: by the median
of all slopes and its 99 % interval (Sen 1968). Caches and pools fill for some
minutes: some memory more in a run of less than eight is no growth. The exit
status is 1 if something grew, a byte was wrong, or a job failed that nobody
killed. The table goes to standard output, soak.json and soak.svg to --output.
Needs root and Open MPI.";

/// Run mixed jobs under faults for a long time, and look for growth
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// How long, such as 90s, 30m or 24h
    #[arg(long = "for", value_name = "TIME", value_parser = parse_time)]
    time: Duration,

    /// Begins the course of jobs and faults [default: another one each time]
    #[arg(long, value_name = "NUMBER")]
    seed: Option<u64>,

    /// Which link the long job takes
    #[arg(long, value_name = "LINK", default_value = "packet")]
    #[arg(value_parser = ["packet", "udp", "xdp"])]
    link: String,

    /// Leave the wire sound
    #[arg(long)]
    no_faults: bool,

    /// Folder for the results
    #[arg(long, short, value_name = "DIR", default_value = "wiglaf-soak")]
    output: PathBuf,

    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
}

fn parse_time(text: &str) -> std::result::Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "d" => 86400.0,
        _ => f64::NAN,
    };
    let seconds = digits.parse::<f64>().map(|n| n * unit).ok().filter(|s| *s > 0.0 && *s < 1e8);
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| "give a time such as 90s, 30m or 24h".to_owned())
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    std::fs::create_dir_all(&args.output)
        .cannot(|| format!("make the folder {}", args.output.display()))?;
    let work = work_folder(&args.output)?;
    let wish = Wish { nodes: 2, ..Wish::default() };
    let cluster = Cluster::find_or_start(global, &wish)?;
    let seed = args.seed.unwrap_or_else(|| std::process::id().into());
    let report = course::run(args, &cluster, &work, seed);
    interrupt::check()?;
    let report = report?;
    let [json, svg] = ["soak.json", "soak.svg"].map(|name| args.output.join(name));
    report::write(&report, &json).map_err(plain)?;
    report::draw_soak(&report.samples, &svg).map_err(plain)?;
    match args.json {
        true => output::print_json(&report)?,
        false => {
            output::print(&report::soak_table(&report.samples, &report.trends))?;
            output::print(&report.summary())?;
        }
    }
    eprintln!("wiglaf: written {} and {}", json.display(), svg.display());
    if let Some(error) = report.errors.first() {
        return Err(Error::new(format!("{} errors; the first: {error}", report.errors.len())));
    }
    judge(&report.trends)
}

/// An error if something grows.
fn judge(trends: &[Trend]) -> Result<ExitCode> {
    let with = |verdict| {
        let with = trends.iter().filter(|trend| trend.verdict == verdict);
        with.map(|trend| trend.what.as_str()).collect::<Vec<_>>().join(", ")
    };
    let (grown, untold) = (with(Verdict::Grows), with(Verdict::TooShort));
    if !untold.is_empty() {
        eprintln!("wiglaf: whether these grow, a longer run tells: {untold}");
    }
    match grown.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => Err(Error::new(format!("there is growth: {grown}"))),
    }
}

#[cfg(test)]
mod tests {
    use wiglaf_bench::soak::{Sample, trends};

    use super::*;

    #[test]
    fn what_grows_is_an_error_that_names_it() {
        let long = |leak: u64| {
            let sample =
                |i: u64| Sample { at_s: i as f64, job_fds: 7 + i * leak, ..Sample::default() };
            trends(&(0..1800).map(sample).collect::<Vec<_>>())
        };
        assert_eq!(judge(&long(0)).unwrap(), ExitCode::SUCCESS);
        let why = judge(&long(1)).unwrap_err().to_string();
        assert_eq!(why, "there is growth: descriptors of the job");
        assert_eq!(judge(&trends(&[])).unwrap(), ExitCode::SUCCESS, "too short is no failure");
    }

    #[test]
    fn times_are_read_as_people_write_them() {
        for (text, seconds) in
            [("10", 10), ("90s", 90), ("30m", 1800), ("24h", 86400), ("2d", 172_800)]
        {
            assert_eq!(parse_time(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        for text in ["", "h", "-1s", "0", "1y", "nan", "1e99h"] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }
}
