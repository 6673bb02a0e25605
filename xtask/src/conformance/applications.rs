//! Whole programs: the numbers that they print must be those of the serial run.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::cluster::Ended;
use super::verdict::{Column, Findings, Judge, Row, Verdict};
use super::{Context, timed, version};

const LIMIT: Duration = Duration::from_secs(300);
/// The transports, and the ranks over two nodes.
const RUNS: [(&str, usize); 4] = [("wiglaf", 2), ("tcp", 2), ("wiglaf", 4), ("tcp", 4)];
/// How far two numbers may be apart. All are of order 1 to 100.
const TOLERANCE: f64 = 1e-6;
/// Where Debian's quantum-espresso-data keeps its pseudopotentials.
const PSEUDO_DIR: &str = "/usr/share/espresso/pseudo";

/// A program, its input and the numbers to look at.
struct Application {
    name: &'static str,
    /// The input, as a path from the repository or from the root.
    input: &'static str,
    command: &'static str,
    /// What is known beforehand.
    known: Option<f64>,
    numbers: fn(&str) -> Vec<f64>,
}

const APPLICATIONS: [Application; 4] = [
    Application {
        name: "Quantum ESPRESSO, 8 Si atoms: total energy in Ry",
        input: "examples/applications/espresso/si8.in",
        command: "pw.x -in input",
        known: None,
        numbers: |text| last(text, "!    total energy"),
    },
    Application {
        name: "NWChem, HCNO, SCF: total energy in hartree",
        input: "examples/applications/nwchem/hcno.nw",
        command: "nwchem.openmpi input",
        known: Some(-167.597_717_8),
        numbers: |text| last(text, "Total SCF energy"),
    },
    Application {
        name: "NWChem, HCNO, tce CCSD: total energy in hartree",
        input: "examples/applications/nwchem/hcno-ccsd.nw",
        command: "nwchem.openmpi input",
        known: Some(-168.022_434_9),
        numbers: |text| last(text, "CCSD total energy"),
    },
    Application {
        name: "LAMMPS, Lennard-Jones melt: thermodynamic table of 250 steps",
        input: "/usr/share/lammps/examples/melt/in.melt",
        command: "lmp -in input -log none",
        known: None,
        numbers: thermodynamics,
    },
];

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let mut rows = Vec::new();
    for application in APPLICATIONS.iter().filter(|application| context.wants(application.name)) {
        let reference = application.run(context, "tcp", 1)?;
        let reference = reference.succeeded().then(|| (application.numbers)(&reference.text));
        let reference = reference.filter(|numbers| !numbers.is_empty());
        let known = match (application.known, &reference) {
            (Some(known), Some(numbers)) => numbers.iter().all(|&number| is_same(number, known)),
            (_, reference) => reference.is_some(),
        };
        let mut cells = Vec::new();
        for (transport, ranks) in RUNS {
            let began = Instant::now();
            let ended = application.run(context, transport, ranks)?;
            let verdict = match &reference {
                Some(reference) if known => compare(&ended, application.numbers, reference),
                _ => Verdict::Fail("the serial run is wrong already".to_owned()),
            };
            cells.push(timed(application.name, &heading(transport, ranks), verdict, began));
        }
        rows.push(Row { name: application.name.to_owned(), cells });
    }
    let columns = RUNS.iter().map(|&(transport, ranks)| match transport {
        "wiglaf" => Column::ours(heading(transport, ranks), Judge::Nobody),
        _ => Column::rival(heading(transport, ranks)),
    });
    let about = vec![
        format!(
            "Quantum ESPRESSO {}, NWChem {}, LAMMPS {}.",
            version("quantum-espresso")?,
            version("nwchem-openmpi")?,
            version("lammps")?
        ),
        format!(
            "Each number must be that of the serial run, and the known one where there is one, to {TOLERANCE:e}."
        ),
    ];
    Ok(Some(Findings { about, columns: columns.collect(), rows }))
}

fn heading(transport: &str, ranks: usize) -> String {
    format!("{transport}, {ranks} ranks")
}

impl Application {
    fn run(&self, context: &Context<'_>, transport: &str, ranks: usize) -> Result<Ended, String> {
        let slug: String =
            self.input.chars().map(|c| if c.is_alphanumeric() { c } else { '-' }).collect();
        let log = format!("applications/{slug}/{transport}-{ranks}");
        let folder = context.cluster.folder().join(&log);
        let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
        // A run must not find the files of the one before.
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).map_err(failed)?;
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."));
        let path = root.join(self.input);
        let input =
            fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
        let input = input
            .replace("@PSEUDO_DIR@", PSEUDO_DIR)
            .replace("@OUTDIR@", &folder.join("out").display().to_string());
        fs::write(folder.join("input"), input).map_err(failed)?;
        let script = format!("cd '{}' && exec {}", folder.display(), self.command);
        let argv = ["sh", "-c", &script].map(str::to_owned);
        let ranks = ranks.to_string();
        let options = ["-n", ranks.as_str(), "--transport", transport];
        // Debian's NWChem needs MPI windows that every transport can carry. Later than version 4 of Open
        // MPI there is one kind only.
        let env: &[_] =
            if has_windows_over_messages() { &[("OMPI_MCA_osc", "pt2pt")] } else { &[] };
        context.cluster.run(&format!("{log}/run"), &options, env, &argv, LIMIT)
    }
}

/// Whether the machine's Open MPI has osc=pt2pt.
fn has_windows_over_messages() -> bool {
    let output = Command::new("ompi_info").arg("--parsable").output();
    output.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).contains("mca:osc:pt2pt:"))
}

fn compare(ended: &Ended, numbers: fn(&str) -> Vec<f64>, reference: &[f64]) -> Verdict {
    if !ended.succeeded() {
        return Verdict::Fail(ended.reason());
    }
    let found = numbers(&ended.text);
    if found.len() != reference.len() {
        return Verdict::Fail(format!("{} numbers, not {}", found.len(), reference.len()));
    }
    match found.iter().zip(reference).find(|&(&a, &b)| !is_same(a, b)) {
        Some((found, wanted)) => Verdict::Fail(format!("{found}, not {wanted}")),
        None if found.len() == 1 => Verdict::Pass(found[0].to_string()),
        None => Verdict::Pass(format!("{} numbers", found.len())),
    }
}

fn is_same(a: f64, b: f64) -> bool {
    (a - b).abs() <= TOLERANCE
}

/// The first number behind the equals sign of the last line that begins so.
fn last(text: &str, begin: &str) -> Vec<f64> {
    let line = text.lines().rfind(|line| line.trim_start().starts_with(begin));
    let value = line.and_then(|line| line.split('=').nth(1)?.split_whitespace().next());
    value.and_then(|value| value.parse().ok()).into_iter().collect()
}

/// All numbers of the table that LAMMPS prints.
fn thermodynamics(text: &str) -> Vec<f64> {
    let lines = text.lines().skip_while(|line| !line.trim_start().starts_with("Step ")).skip(1);
    let lines = lines.take_while(|line| !line.starts_with("Loop time"));
    lines.flat_map(str::split_whitespace).filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found() {
        assert_eq!(last("a = 1\n  a = 2.5 Ry\nb = 3\n", "a"), [2.5]);
        assert!(last("", "a").is_empty());
        let table = "Step Temp\n   0  3\n  50 -1.5e-2\nLoop time of 1 on 4\n7 8\n";
        assert_eq!(thermodynamics(table), [0.0, 3.0, 50.0, -0.015]);
    }

    #[test]
    fn another_number_is_no_pass() {
        let ended = |status, text: &str| Ended { status: Some(status), text: text.into() };
        let numbers: fn(&str) -> Vec<f64> = |text| last(text, "e");
        assert!(compare(&ended(0, "e = -168.02243490"), numbers, &[-168.0224349]).passed());
        assert!(!compare(&ended(0, "e = -168.0234"), numbers, &[-168.0224349]).passed());
        assert!(!compare(&ended(1, "e = -168.0224349"), numbers, &[-168.0224349]).passed());
        assert!(!compare(&ended(0, ""), numbers, &[-168.0224349]).passed());
        assert!(!is_same(f64::NAN, 1.0));
    }
}
