//! Quantum ESPRESSO's plane-wave program: bandwidth, all-to-all transposes.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::Outcome;
use crate::error::{BenchError, Result, file_error};
use crate::facts::find_program;

const INPUT: &str = include_str!("../../../../examples/applications/espresso/si8.in");
const PSEUDOPOTENTIAL: &str = "Si.pz-vbc.UPF";
/// Where Debian's quantum-espresso-data keeps them.
const PSEUDO_DIR: &str = "/usr/share/espresso/pseudo";

pub(super) fn program() -> Result<PathBuf> {
    find_program("pw.x").ok_or_else(|| BenchError::ProgramMissing {
        program: "pw.x".into(),
        package: "quantum-espresso",
    })
}

pub(super) fn prepare(dir: &Path) -> Result<Vec<OsString>> {
    if !Path::new(PSEUDO_DIR).join(PSEUDOPOTENTIAL).is_file() {
        return Err(BenchError::ProgramMissing {
            program: PSEUDOPOTENTIAL.into(),
            package: "quantum-espresso-data",
        });
    }
    let outdir = dir.join("out");
    let input =
        INPUT.replace("@PSEUDO_DIR@", PSEUDO_DIR).replace("@OUTDIR@", &outdir.to_string_lossy());
    let file = dir.join("si8.in");
    fs::write(&file, input).map_err(file_error(&file))?;
    Ok(vec!["-in".into(), file.into()])
}

pub(super) fn parse(text: &str) -> Result<Outcome> {
    let bad = |detail: &str| BenchError::Output { what: "pw.x".into(), detail: detail.into() };
    let energy = text.lines().rfind(|l| l.starts_with("!    total energy"));
    let energy = energy.and_then(|l| l.split('=').nth(1)?.split_whitespace().next()?.parse().ok());
    let energy = energy.ok_or_else(|| bad("it has no total energy"))?;
    if !text.contains("JOB DONE.") {
        return Err(bad("it ends before JOB DONE"));
    }
    let times = text.lines().rfind(|l| l.trim_start().starts_with("PWSCF ") && l.contains("WALL"));
    let times = times.and_then(|l| l.split_once(':')).and_then(|(_, rest)| {
        let (cpu, rest) = rest.split_once("CPU")?;
        let (wall, _) = rest.split_once("WALL")?;
        Some((seconds(cpu)?, seconds(wall)?))
    });
    let (cpu_s, wall_s) = times.ok_or_else(|| bad("it has no PWSCF times"))?;
    Ok(Outcome { energy, wall_s, cpu_s })
}

/// Reads `1.32s`, `2m 3.45s` and `1h 2m`.
fn seconds(text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut number = String::new();
    for c in text.chars().filter(|c| !c.is_whitespace()) {
        let unit = match c {
            'd' => 86_400.0,
            'h' => 3600.0,
            'm' => 60.0,
            's' => 1.0,
            _ => {
                number.push(c);
                continue;
            }
        };
        total += number.parse::<f64>().ok()? * unit;
        number.clear();
    }
    number.is_empty().then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_in_every_form() {
        assert_eq!(seconds("      0.63s "), Some(0.63));
        assert_eq!(seconds(" 1m 3.5s "), Some(63.5));
        assert_eq!(seconds("2h 5m"), Some(7500.0));
        assert_eq!(seconds("12"), None);
        assert_eq!(seconds("xs"), None);
    }

    #[test]
    fn a_real_output_is_read() {
        let text = include_str!("samples/pw-tcp-2-ranks.out");
        let outcome = parse(text).unwrap();
        assert_eq!(outcome, Outcome { energy: -63.31444345, wall_s: 2.89, cpu_s: 0.97 });
    }

    #[test]
    fn a_truncated_output_is_an_error() {
        let text = include_str!("samples/pw-tcp-2-ranks.out");
        for marker in ["!    total energy", "JOB DONE"] {
            let cut = &text[..text.find(marker).unwrap()];
            assert!(parse(cut).is_err(), "{marker}");
        }
        assert!(parse("").is_err());
    }

    #[test]
    fn nothing_is_left_to_substitute() {
        let dir = tempfile::tempdir().unwrap();
        match prepare(dir.path()) {
            Ok(args) => {
                let input = fs::read_to_string(&args[1]).unwrap();
                assert!(input.contains(PSEUDO_DIR) && !input.contains('@'));
            }
            Err(error) => eprintln!("skipped: {error}"),
        }
    }
}
