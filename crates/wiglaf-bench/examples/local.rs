//! Runs the benchmarks on this machine alone, all ranks over loopback TCP:
//! a look at the rivals, and a try-out of the reports, without any node.
//!
//! ```text
//! cargo run -p wiglaf-bench --release --example local -- pingpong|ring|applications FOLDER
//! ```

use std::path::Path;
use std::process::ExitCode;

use wiglaf_bench::local::LocalMpirun;
use wiglaf_bench::report::{self, Picture};
use wiglaf_bench::{Result, applications, pingpong, ring};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [what, folder] = args.as_slice() else {
        eprintln!("usage: local pingpong|ring|applications FOLDER");
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
            Ok(report::ring_table(&report))
        }
        "applications" => {
            let plan = applications::Plan { rounds: 3, ..applications::Plan::new(cache) };
            let report = applications::measure(&launcher, &plan, &mut progress)?;
            report::write(&report, &json)?;
            Ok(report::applications_table(&report))
        }
        _ => {
            let plan = pingpong::Plan::new(cache);
            let report = pingpong::measure(&launcher, &plan, &mut progress)?;
            report::write(&report, &json)?;
            let picture = Picture::of(&report);
            report::draw_svg(&picture, &folder.join("pingpong.svg"))?;
            if let Err(error) = report::draw_png(&picture, &folder.join("pingpong.png")) {
                eprintln!("{error}");
            }
            Ok(report::pingpong_table(&report))
        }
    }
}
