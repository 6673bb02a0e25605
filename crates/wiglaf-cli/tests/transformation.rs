//! examples/transformation on two emulated nodes: its MP2 energy is NWChem's, from the same input.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Said, Site};
use serde_json::Value;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/transformation");
/// Bytes of an integral in a file.
const INTEGRAL_BYTES: u64 = 16;

/// What must be here, and the package or command that brings it; says what is missing.
fn is_possible() -> bool {
    let has = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let needed = [
        (has("make"), "make"),
        (has("mpicc.openmpi"), "libopenmpi-dev"),
        (which("nwchem.openmpi"), "nwchem-openmpi"),
        (libcint().is_some(), "libcint (`cargo xtask packages test`)"),
    ];
    let missing = needed.iter().find(|(is_here, _)| !is_here);
    if let Some((_, what)) = missing {
        eprintln!("skipped: it takes {what}");
    }
    missing.is_none()
}

fn which(program: &str) -> bool {
    std::env::var_os("PATH")
        .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(program).is_file()))
}

/// The folder that the Makefile calls CINT: the wheel's, or nothing for an installed package.
fn libcint() -> Option<PathBuf> {
    let wheel = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("libcint").join("deps");
    let package = Path::new("/usr");
    [wheel, package.to_owned()].into_iter().find(|dir| dir.join("include/cint.h").is_file())
}

/// The program, built into the site.
fn build(site: &Site) -> String {
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let made = Command::new("make")
        .args(["-s", "-C", EXAMPLE, "MPICC=mpicc.openmpi", "CFLAGS=-O2 -Werror"])
        .arg(format!("CINT={}", libcint().unwrap().display()))
        .arg(format!("WIGLAF={}", deps.display()))
        .arg(format!("OUT={}", site.work().display()))
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    site.work().join("transformation").display().to_string()
}

fn input() -> String {
    format!("{EXAMPLE}/hcno.nw")
}

/// SCF and correlation energy in hartree, as NWChem computes them now.
fn nwchem(site: &Site) -> [f64; 2] {
    let args = ["run", "-n", "1", "--transport", "tcp", "--", "nwchem.openmpi", &input()];
    let said = site.wiglaf(&args).expect_success();
    let value = |name: &str| {
        let line = said.stdout.lines().find_map(|line| line.trim().strip_prefix(name));
        let line = line.unwrap_or_else(|| panic!("no `{name}` in {}", said.stdout));
        line.trim_start_matches([' ', '=']).parse().unwrap()
    };
    [value("Total SCF energy"), value("Correlation energy")]
}

fn transform(site: &Site, program: &str, options: &[&str]) -> Said {
    let input = input();
    let args = [&["run", "-n", "2", "--", program], options, &[&input]].concat();
    site.wiglaf(&args)
}

#[track_caller]
fn assert_energies(report: &Value, expected: [f64; 2]) {
    for (name, expected) in ["scf_hartree", "mp2_correlation_hartree"].into_iter().zip(expected) {
        let found = report[name].as_f64().unwrap();
        assert!((found - expected).abs() < 1e-6, "{name}: {found}, NWChem has {expected}");
    }
}

/// A number of one phase of one rank.
fn phase(report: &Value, rank: usize, name: &str, what: &str) -> u64 {
    let phases = report["ranks"][rank]["phases"].as_array().unwrap();
    let phase = phases.iter().find(|phase| phase["name"] == name).unwrap();
    phase[what].as_f64().unwrap() as u64
}

#[test]
fn the_energy_is_nwchems_whichever_way_the_files_are_read() {
    if !is_possible() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let program = build(&site);
    let expected = nwchem(&site);

    // Little memory, so that there are many buckets; short reads, so that there are many of them.
    let little = ["--remote", "wiglaf", "--memory", "0.5", "--read", "16", "--json"];
    let said = transform(&site, &program, &little).expect_success();
    let report: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_energies(&report, expected);
    let integrals = report["integrals"].as_u64().unwrap();
    for (rank, node) in ["node1", "node2"].into_iter().enumerate() {
        assert_eq!(report["ranks"][rank]["node"], node);
        // Each rank reads all integrals once, a part of them on the other node.
        let [local, remote] =
            ["local_bytes", "remote_bytes"].map(|what| phase(&report, rank, "sort 1", what));
        assert_eq!(local + remote, integrals * INTEGRAL_BYTES);
        assert_eq!(phase(&report, 1 - rank, "sort 1", "local_bytes"), remote);
        for name in ["sort 2", "mp2"] {
            assert!(phase(&report, rank, name, "remote_bytes") > 0, "{name}");
        }
        assert_eq!(site.sh(node, "ls /scratch"), "");
    }

    // The folder of the test is one that both nodes see.
    let folders = format!("{}/%n", site.work().display());
    for node in ["node1", "node2"] {
        std::fs::create_dir(site.work().join(node)).unwrap();
    }
    let path = format!("path:{folders}");
    let shared = ["--remote", &path, "--scratch", &folders, "--memory", "0.5", "--json"];
    let said = transform(&site, &program, &shared).expect_success();
    assert_energies(&serde_json::from_str(&said.stdout).unwrap(), expected);

    let said = transform(&site, &program, &[]);
    assert!(said.status == Some(1) && said.stderr.contains("--remote says how"), "{said:?}");
    let said = transform(&site, &program, &["--remote", "wiglaf", "--memory", "0.01"]);
    assert!(said.status == Some(1) && said.stderr.contains("--memory is too little"), "{said:?}");
    assert_eq!(site.strays(), 0);
}
