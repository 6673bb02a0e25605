//! Programs of Debian's packages that are compared by themselves: their inputs, and the energy that each must
//! find. A fast wrong answer is a failure.

use std::path::Path;

use crate::Report;

/// Where Debian's quantum-espresso-data has pseudopotentials.
const PSEUDO_DIR: &str = "/usr/share/espresso/pseudo";

/// A program and its input.
#[derive(Debug)]
pub struct Program {
    /// Its name in files.
    pub word: &'static str,
    /// Program and input in words.
    pub title: &'static str,
    /// What starts it.
    pub program: &'static str,
    /// Arguments; the last is the input's file.
    pub args: &'static [&'static str],
    /// Programs and files that must be there, and the package that brings each.
    pub needs: &'static [(&'static str, &'static str)],
    /// The energy in its output, and by how much it may differ, as `--check` takes it.
    pub check: &'static str,
    /// The energy, where it is known beforehand.
    pub expected: Option<f64>,
    /// The kind of MPI windows that it needs, where the MPI has it.
    pub windows: Option<&'static str>,
    input: &'static str,
}

/// Quantum ESPRESSO's plane waves: bandwidth, all-to-all transposes.
pub const ESPRESSO: Program = Program {
    word: "espresso",
    title: "Quantum ESPRESSO pw.x: 8-atom silicon cell, LDA, 24 Ry, 4x4x4 k-points",
    program: "pw.x",
    args: &["-in", "si8.in"],
    needs: &[
        ("pw.x", "quantum-espresso"),
        ("/usr/share/espresso/pseudo/Si.pz-vbc.UPF", "quantum-espresso-data"),
    ],
    check: r"(?m)^!\s+total energy\s+=\s+(\S+) Ry:1e-6",
    expected: None,
    windows: None,
    input: include_str!("../../../examples/applications/espresso/si8.in"),
};

/// NWChem: many small messages, one-sided. Debian's needs MPI windows, and those over messages are the only ones
/// of Open MPI 4 that every transport can carry.
pub const NWCHEM: Program = Program {
    word: "nwchem",
    title: "NWChem: HCNO, SCF, basis Ahlrichs VTZ",
    program: "nwchem.openmpi",
    args: &["hcno.nw"],
    needs: &[("nwchem.openmpi", "nwchem-openmpi")],
    check: r"Total SCF energy\s*=\s*(\S+):1e-6",
    expected: Some(-167.597_717_8),
    windows: Some("pt2pt"),
    input: include_str!("../../../examples/applications/nwchem/hcno.nw"),
};

impl Program {
    /// Both.
    pub const ALL: [Self; 2] = [ESPRESSO, NWCHEM];

    /// The input's text, for runs that write into that folder.
    #[must_use]
    pub fn input(&self, folder: &Path) -> String {
        let out = folder.join("out");
        self.input.replace("@PSEUDO_DIR@", PSEUDO_DIR).replace("@OUTDIR@", &out.to_string_lossy())
    }

    /// Why a report of equal energies is wrong all the same, in one sentence.
    #[must_use]
    pub fn objection(&self, report: &Report) -> Option<String> {
        let expected = self.expected?;
        let off = |value: f64| value.is_nan() || (value - expected).abs() > 1e-6;
        let wrong = report.runs.iter().find(|run| run.value.is_none_or(off))?;
        let found = wrong.value.map_or("no energy".to_owned(), |value| format!("{value:.8}"));
        Some(format!(
            "{}: {} found {found}, where {expected:.8} is right",
            self.title,
            report.name(wrong)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Check;
    use crate::report::tests::sample;

    const ESPRESSO_OUTPUT: &str = include_str!("samples/pw-tcp-2-ranks.out");
    const NWCHEM_OUTPUT: &str = include_str!("samples/nwchem-tcp-2-ranks.out");

    #[test]
    fn energies_of_real_outputs_are_found() {
        for (program, output, energy) in [
            (ESPRESSO, ESPRESSO_OUTPUT, -63.314_443_45),
            (NWCHEM, NWCHEM_OUTPUT, -167.597_717_864_916),
        ] {
            let check: Check = program.check.parse().unwrap();
            assert_eq!(check.tolerance(), 1e-6);
            assert_eq!(check.find(output), Some(energy), "{}", program.word);
            assert_eq!(check.find(&output[..output.len() / 4]), None, "{}", program.word);
        }
    }

    #[test]
    fn equal_energies_may_still_be_wrong() {
        let mut report = sample();
        report.runs.iter_mut().for_each(|run| run.value = NWCHEM.expected);
        assert_eq!(NWCHEM.objection(&report), None);
        report.runs[3].value = Some(-167.6);
        let said = NWCHEM.objection(&report).unwrap();
        assert!(said.contains("round 2 over TCP on 2 nodes found -167.60000000"), "{said}");
        report.runs[3].value = Some(f64::NAN);
        assert!(NWCHEM.objection(&report).is_some());
        assert_eq!(ESPRESSO.objection(&report), None);
    }

    #[test]
    fn nothing_is_left_to_substitute() {
        for program in Program::ALL {
            let input = program.input(Path::new("/somewhere"));
            assert!(!input.contains('@') && program.args.last().is_some(), "{input}");
        }
        assert!(ESPRESSO.input(Path::new("/somewhere")).contains("'/somewhere/out'"));
    }
}
