//! NWChem: many small messages, one-sided.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use super::Outcome;
use crate::error::{BenchError, Result, file_error};
use crate::facts::find_program;

const INPUT: &str = include_str!("../../../../examples/applications/nwchem/hcno.nw");

/// SCF energy of HCNO in the basis "Ahlrichs VTZ".
pub(super) const ENERGY_HARTREE: f64 = -167.597_717_8;

pub(super) fn program() -> Result<PathBuf> {
    find_program("nwchem.openmpi").ok_or_else(|| BenchError::ProgramMissing {
        program: "nwchem.openmpi".into(),
        package: "nwchem-openmpi",
    })
}

/// Says which kinds of MPI windows there are.
pub(super) const WINDOWS: &str = "OMPI_MCA_osc";

/// Debian's NWChem needs MPI windows, and those over point-to-point messages are
/// the only ones of Open MPI 4 that every transport can carry.
pub(super) fn env() -> Vec<(String, String)> {
    vec![(WINDOWS.to_owned(), "pt2pt".to_owned())]
}

pub(super) fn prepare(dir: &Path) -> Result<Vec<OsString>> {
    let file = dir.join("hcno.nw");
    fs::write(&file, INPUT).map_err(file_error(&file))?;
    Ok(vec![file.into()])
}

pub(super) fn parse(text: &str) -> Result<Outcome> {
    let bad = |detail: &str| BenchError::Output { what: "NWChem".into(), detail: detail.into() };
    let energy = text.lines().rfind(|l| l.trim_start().starts_with("Total SCF energy"));
    let energy = energy.and_then(|l| l.split('=').nth(1)?.trim().parse().ok());
    let energy = energy.ok_or_else(|| bad("it has no total SCF energy"))?;
    let times = text.lines().rfind(|l| l.trim_start().starts_with("Total times"));
    let times = times.and_then(|l| Some((seconds(l, "cpu:")?, seconds(l, "wall:")?)));
    let (cpu_s, wall_s) = times.ok_or_else(|| bad("it ends before its total times"))?;
    Ok(Outcome { energy, wall_s, cpu_s })
}

fn seconds(line: &str, name: &str) -> Option<f64> {
    let (_, rest) = line.split_once(name)?;
    rest.split_once('s')?.0.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_output_is_read() {
        let text = include_str!("samples/nwchem-tcp-2-ranks.out");
        let outcome = parse(text).unwrap();
        assert_eq!(outcome, Outcome { energy: -167.597717864916, wall_s: 5.1, cpu_s: 0.9 });
        assert!((outcome.energy - ENERGY_HARTREE).abs() < 1e-6);
    }

    #[test]
    fn a_truncated_output_is_an_error() {
        let text = include_str!("samples/nwchem-tcp-2-ranks.out");
        for marker in ["Total SCF energy", "Total times"] {
            let cut = &text[..text.find(marker).unwrap()];
            assert!(parse(cut).is_err(), "{marker}");
        }
        assert!(parse("").is_err());
    }
}
