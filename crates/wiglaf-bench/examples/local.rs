//! Runs the benchmarks on this machine alone, all ranks over loopback TCP:
//! a look at the rivals, and a try-out of the reports, without any node.
//!
//! ```text
//! cargo run -p wiglaf-bench --release --example local -- pingpong|ring FOLDER
//! cargo run -p wiglaf-bench --release --example local -- redraw FOLDER
//! ```
//!
//! `redraw` makes table and pictures anew from the `pingpong.json` in FOLDER.

use std::path::Path;
use std::process::ExitCode;

use wiglaf_bench::local::LocalMpirun;
use wiglaf_bench::report::{self, Reported as _};
use wiglaf_bench::{Result, pingpong, ring};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, folder] = args.as_slice() else {
        eprintln!("usage: local pingpong|ring|redraw FOLDER");
        return ExitCode::FAILURE;
    };
    match run(what, Path::new(folder)) {
        Ok(table) => {
            print!("{table}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run(what: &str, folder: &Path) -> Result<String> {
    let launcher = LocalMpirun::new()?;
    let mut progress = |line: &str| eprintln!("{line}");
    let cache = folder.join("cache");
    let json = folder.join(format!("{what}.json"));
    match what {
        "ring" => {
            let report = ring::measure(&launcher, &ring::Plan::new(4, cache), &mut progress)?;
            report::write(&report, &json)?;
            Ok(report.table())
        }
        "redraw" => {
            let report: pingpong::Report = report::read(&folder.join("pingpong.json"))?;
            report.write(folder)?;
            Ok(report.table())
        }
        _ => {
            let plan = pingpong::Plan::new(cache);
            let report = pingpong::measure(&launcher, &plan, &mut progress)?;
            for note in report.write(folder)?.notes {
                eprintln!("{note}");
            }
            Ok(report.table())
        }
    }
}
