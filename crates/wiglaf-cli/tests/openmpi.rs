//! What is Open MPI's own, on real clusters of two nodes: windows of every kind, ranks that start
//! ranks, and its own matching over the provider.
//!
//! Programs check their own results and print `passed`.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{Said, Site};

/// Where the provider's programs are, and what all programs include.
const PROVIDERS: &str = "../wiglaf-fabric/tests/mpi";
const OURS: &str = "tests/mpi";

struct Lab(Site);

impl Lab {
    fn up() -> Option<Self> {
        if Command::new("mpicc.openmpi").arg("-show").output().is_err() {
            eprintln!("skipped: it takes mpicc.openmpi (libopenmpi-dev)");
            return None;
        }
        Some(Self(Site::up(&[])?))
    }

    fn build(&self, folder: &str, name: &str) -> String {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let program = self.0.work().join(name);
        let mut command = Command::new("mpicc.openmpi");
        command.args(["-O1", "-I"]).arg(here.join(PROVIDERS)).arg("-o").arg(&program);
        let output =
            command.arg(here.join(folder).join(name).with_extension("c")).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        program.display().to_string()
    }

    fn run(&self, options: &[&str], argv: &[&str], env: &[(&str, &str)]) -> Said {
        let args = [&["run", "--mpi", "openmpi@4"], options, &["--"], argv].concat();
        self.0.command(&args).envs(env.iter().copied()).output().unwrap().into()
    }

    /// With 2 and with 4 ranks.
    #[track_caller]
    fn judge(&self, folder: &str, name: &str, env: &[(&str, &str)]) {
        let program = self.build(folder, name);
        for ranks in ["2", "4"] {
            assert_passed(&self.run(&["-n", ranks], &[&program], env));
        }
    }
}

#[track_caller]
fn assert_passed(said: &Said) {
    assert!(said.status == Some(0) && said.stdout.lines().any(|l| l == "passed"), "{said:?}");
}

#[test]
fn windows_over_remote_memory_between_nodes() {
    let Some(lab) = Lab::up() else { return };
    for name in ["window", "win_atomics", "win_epochs", "win_swap"] {
        lab.judge(PROVIDERS, name, &[("OMPI_MCA_osc", "rdma")]);
    }
}

/// The front stands before what Debian's Open MPI loads; whoever wants another provider gets it.
#[test]
fn ranks_load_the_libfabric_that_was_chosen() {
    let Some(lab) = Lab::up() else { return };
    let doctor = lab.0.wiglaf(&["doctor"]).stdout;
    if !doctor.contains("loads Wiglaf's own libfabric before") {
        eprintln!("skipped: Wiglaf's own libfabric cannot stand before this one\n{doctor}");
        return;
    }
    let program = lab.build(OURS, "loaded");
    let loaded = |options: &[&str], env: &[(&str, &str)]| {
        let said = lab.run(&[&["-n", "2"], options].concat(), &[&program], env).expect_success();
        said.stdout.split_once(" of 2 have loaded").unwrap().0.to_owned()
    };
    assert_eq!(loaded(&[], &[]), "0");
    assert_eq!(loaded(&["--libfabric", "system"], &[]), "2");
    // btl/ofi asks, too.
    assert_eq!(loaded(&[], &[("OMPI_MCA_osc", "rdma")]), "0");
    // A rival does not meet it, though the caller's environment is one for Wiglaf.
    let vars = lab.0.wiglaf(&["env", "openmpi@4", "--json"]).expect_success().stdout;
    let vars: serde_json::Value = serde_json::from_str(&vars).unwrap();
    let var = |name: &'static str| (name, vars[name].as_str().unwrap());
    let env = [var("LD_LIBRARY_PATH"), var("WIGLAF_LIBFABRIC")];
    assert_eq!(loaded(&["--transport", "ofi-tcp"], &env), "2");
    // A program that is linked to libfabric and names another provider.
    let said = lab.run(&["-n", "1"], &["fi_info", "-p", "tcp"], &[]).expect_success();
    assert!(said.stdout.contains("provider: tcp"), "{said:?}");
}

#[test]
fn ranks_of_a_node_share_windows() {
    let Some(lab) = Lab::up() else { return };
    lab.judge(OURS, "win_shared", &[]);
    lab.judge(OURS, "win_shared", &[("OMPI_MCA_osc", "sm,rdma")]);
}

#[test]
fn ranks_start_ranks() {
    let Some(lab) = Lab::up() else { return };
    let program = lab.build(OURS, "spawn");
    // One rank's children may be on both nodes, those of two on one node only (docs/mpis.md).
    assert_passed(&lab.run(&["-n", "1", "--places", "2"], &[&program, "3"], &[]));
    assert_passed(&lab.run(&["-n", "2"], &[&program, "4"], &[]));
    assert_passed(&lab.run(&["-n", "2"], &[&program, "4"], &[("OMPI_MCA_pml", "ob1")]));
    // Where there is no room, that is said, and nothing stays.
    let said = lab.run(&["-n", "2", "--places", "1"], &[&program, "4"], &[]);
    assert!(said.status != Some(0) && said.stderr.contains("already filled"), "{said:?}");
    assert_eq!(lab.0.strays(), 0);
}

#[test]
fn open_mpis_own_matching_goes_over_the_provider() {
    let Some(lab) = Lab::up() else { return };
    let ob1 = ("OMPI_MCA_pml", "ob1");
    lab.judge(OURS, "matching", &[ob1]);
    for name in ["collectives", "probe", "sizes", "ssend", "types", "window"] {
        lab.judge(PROVIDERS, name, &[ob1]);
    }
    // Nothing else carries it.
    let broken = lab.0.work().join("broken");
    fs::create_dir(&broken).unwrap();
    fs::write(broken.join("libwiglaf-fi.so"), "no library").unwrap();
    let env = [ob1, ("WIGLAF_LIBDIR", broken.to_str().unwrap())];
    let program = lab.build(OURS, "matching");
    assert_ne!(lab.run(&[], &[&program], &env).status, Some(0), "it ran without the provider");
    // By its option, and where that means nothing a sentence.
    assert_passed(&lab.run(&["--pml", "ob1"], &[&program], &[]));
    for (words, instead) in [
        (["--transport", "tcp"], "leave --transport out"),
        (["--mpi", "mpich"], "take --mpi openmpi"),
    ] {
        let said =
            lab.0.wiglaf(&[&["run", "--pml", "ob1"], &words[..], &["--", &program]].concat());
        assert_ne!(said.status, Some(0));
        assert!(said.stderr.contains(instead) && said.stderr.lines().count() == 1, "{said:?}");
    }
}
