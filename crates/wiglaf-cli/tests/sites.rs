//! Batch jobs at other clusters, over ssh: stand-in hosts, each cluster with Slurm and slurmrestd of its own.

mod common;

use std::path::Path;

use common::eventually;
use common::hosts::sentence;
use wiglaf_testhosts::{Host, Hosts, Output, Plan, Session, User};

const SITES: &str = "/home/ann/.config/wiglaf/sites.toml";

/// `pc1` and `pc2` are one cluster, `pc3` is another, of another release of Debian where `cargo xtask debians 13 --sites`
/// names its root; ann reaches each head by ssh. None where Slurm is missing here.
fn two_clusters() -> Option<Hosts> {
    for program in [
        "/usr/sbin/slurmctld",
        "/usr/sbin/slurmd",
        "/usr/sbin/munged",
        "/usr/bin/sbatch",
        "/usr/sbin/slurmrestd",
    ] {
        if !Path::new(program).exists() {
            eprintln!("skipped: {program} is not installed (`cargo xtask packages test`)");
            return None;
        }
    }
    let mut plan = Plan::new(3).with_sudo();
    plan.shared.push("/home/shared".into());
    plan.users.push(User::new("bob", 2002));
    plan.users[1].authorized = false;
    plan.hosts[2].root = std::env::var_os("WIGLAF_TEST_SITE_ROOT").map(Into::into);
    let hosts = Hosts::or_skip(&plan);
    // `cargo xtask debians --sites` is not to pass by skipping.
    assert!(hosts.is_some() || plan.hosts[2].root.is_none(), "the root makes no host");
    let hosts = hosts?;
    let tree = hosts.install_tree().expect("a release build");
    for head in [&hosts[0], &hosts[2]] {
        head.install(&tree).expect("room on a head");
    }
    for host in hosts.iter() {
        let _ = host.as_root().run("rm -f /etc/munge/munge.key").ok();
    }
    for (head, name) in [(&hosts[0], "lab"), (&hosts[2], "attic")] {
        let ann = head.as_user("ann");
        let _ = ann.run(&format!("wiglaf init --network 192.168.77.0/24 --name {name}")).ok();
        if name == "lab" {
            let _ = ann.run("wiglaf join --yes pc2").ok();
        }
        let file = "/home/ann/.config/wiglaf/cluster.toml";
        head.write(file, head.read(file) + "\n[batch]\naccounting = false\n", "ann", 0o644);
        let done = ann.run("wiglaf batch setup --yes");
        assert!(done.ok().contains("ready for jobs"), "{done}");
    }
    let sites = "[site.lab]\nhost = \"pc1\"\nfolder = \"/home/shared/jobs\"\n[site.attic]\nhost = \"pc3\"\n\
                 [site.nowhere]\nhost = \"pc9\"\n[site.bobs]\nhost = \"pc1\"\nuser = \"bob\"\n\
                 [site.bare]\nhost = \"pc1\"\nslurmrestd = \"/opt/slurmrestd\"\n";
    for head in [&hosts[0], &hosts[2]] {
        head.write(SITES, sites, "ann", 0o644);
    }
    Some(hosts)
}

/// Writes a script of ann's.
fn script(host: &Host, name: &str, text: &str) {
    host.write(&format!("/home/ann/{name}"), format!("#!/bin/sh\n{text}\n"), "ann", 0o755);
}

fn jobs(ann: &Session<'_>, site: &str) -> serde_json::Value {
    let said = ann.run(&format!("wiglaf jobs --site {site} --json"));
    serde_json::from_str(said.ok()).unwrap_or_else(|_| panic!("{said}"))
}

/// What is said of a job in the list.
fn state(ann: &Session<'_>, site: &str, id: &str) -> String {
    let all = jobs(ann, site);
    let job = all["jobs"].as_array().unwrap().iter().find(|job| job["id"] == id);
    job.map_or_else(String::new, |job| job["state"].as_str().unwrap().to_owned())
}

#[track_caller]
fn assert_says(said: &Output, parts: &[&str]) {
    assert!(!said.status.success(), "{said}");
    for part in parts {
        assert!(sentence(said).contains(part), "{part}: {said}");
    }
}

#[test]
fn jobs_go_to_another_cluster_with_their_files_and_what_they_write_comes_back() {
    let Some(hosts) = two_clusters() else { return };
    let (lab, attic) = (hosts[0].as_user("ann"), hosts[2].as_user("ann"));
    // From the attic to the lab: two nodes, options of the script, a folder among the files, an exit status.
    let _ = attic.run("mkdir data && echo seven >data/number && echo untouched >table").ok();
    let text = "#SBATCH -N 2 --ntasks=2 -J pair\nsrun hostname | sort >out/hosts\ncp data/number number\n\
                echo \"$HOME $USER $(pwd)\"\nexit 3";
    script(&hosts[2], "job.sh", &text.replace("srun", "mkdir out; srun"));
    let dry =
        attic.run("wiglaf submit --site lab --in data --in table --dry-run job.sh -- -t 1:00:00");
    for line in [
        "lab: ann on pc1, slurm-wlm 22.05.8, REST v0.0.38",
        "copy /home/ann/data to a new folder in /home/shared/jobs",
        "submit job.sh there: --nodes=2 --ntasks=2 --job-name=pair --time=60",
    ] {
        assert!(dry.ok().contains(line), "{dry}");
    }
    assert!(!hosts[0].as_root().run("ls /home/shared/jobs").status.success());
    let done =
        attic.run("wiglaf submit --site lab --in data --in table --wait job.sh -- -t 1:00:00");
    assert_eq!(done.status.code(), Some(3), "{done}");
    assert!(done.stdout.contains("job 1 submitted at lab"), "{done}");
    assert!(done.stdout.contains("job 1 is over; what it has written is in lab-1"), "{done}");
    let fetched =
        attic.run("cd lab-1 && find . -type f | sort && cat out/hosts number slurm-1.out");
    let expected = "./number\n./out/hosts\n./slurm-1.out\npc1\npc2\nseven\n/home/ann ann /home/shared/jobs/job-";
    assert!(fetched.ok().starts_with(expected), "{fetched}");
    let listed = attic.run("wiglaf jobs --site lab");
    assert!(listed.ok().contains("failed (3)") && listed.stdout.contains("pc[1-2]"), "{listed}");
    // What is there is written over by nothing.
    assert_says(
        &attic.run("wiglaf jobs --site lab --fetch 1"),
        &["lab-1 is there already", "--into"],
    );
    let _ = attic.run("wiglaf jobs --site lab --fetch 1 --into again && diff -r lab-1 again").ok();
    let _ = attic.run("wiglaf jobs --site lab --forget 1").ok();
    assert_eq!(hosts[0].as_root().run("ls -A /home/shared/jobs").ok(), "");
    assert_says(
        &attic.run("wiglaf jobs --site lab --fetch 1 --into more"),
        &["lab: job 1 has no folder there"],
    );
    assert!(!attic.run("ls more more.wiglaf-part").status.success());

    // The other way, with an array, and one that is cancelled.
    script(
        &hosts[0],
        "array.sh",
        "#SBATCH --array=1-2 -o out-%a\necho \"element $SLURM_ARRAY_TASK_ID\"",
    );
    let done = lab.run("wiglaf submit --site attic --wait --into both --json array.sh");
    let said: serde_json::Value = serde_json::from_str(done.ok()).unwrap();
    assert_eq!(
        (&said["id"], &said["status"], &said["fetched"]),
        (&1.into(), &0.into(), &"both".into())
    );
    assert_eq!(lab.run("cat both/out-1 both/out-2").ok(), "element 1\nelement 2\n");
    script(&hosts[0], "long.sh", "exec sleep 1000");
    let done = lab.run("wiglaf submit --site attic --json long.sh");
    let said: serde_json::Value = serde_json::from_str(done.ok()).unwrap();
    let id = said["id"].to_string();
    eventually("the job runs", || state(&lab, "attic", &id) == "running");
    let fix = format!("--cancel {id}");
    assert_says(
        &lab.run(&format!("wiglaf jobs --site attic --forget {id}")),
        &["is not over", &fix],
    );
    let _ = lab.run(&format!("wiglaf jobs --site attic {fix}")).ok();
    eventually("the job is over", || state(&lab, "attic", &id) == "cancelled");
    let _ = lab.run(&format!("wiglaf jobs --site attic --forget {id}")).ok();
    // Nothing of it is left running.
    let left = hosts[2].as_root().run("cat /proc/[0-9]*/comm | grep -c slurmrestd");
    assert_eq!(left.stdout, "0\n");
}

#[test]
fn what_keeps_a_job_from_another_cluster_is_a_sentence_and_leaves_nothing_there() {
    let Some(hosts) = two_clusters() else { return };
    let ann = hosts[2].as_user("ann");
    script(&hosts[2], "job.sh", "hostname");
    let submit = |words: &str| ann.run(&format!("wiglaf submit --site {words}"));
    for (words, parts) in [
        ("none job.sh", &["there is no site none; there are attic, bare", "`[site.none]`"][..]),
        ("nowhere job.sh", &["there is no host pc9"]),
        ("bobs job.sh", &["bobs lets bob in by no key of yours", "ssh-copy-id bob@pc1"]),
        ("bare job.sh", &["bare has no /opt/slurmrestd", "[site.bare] slurmrestd"]),
        ("lab none.sh", &["cannot read none.sh"]),
        ("lab --in none job.sh", &["cannot read none"]),
        ("lab --in job.sh job.sh", &["job.sh: all files of a job are in one folder there"]),
        ("lab job.sh -- -p nope", &["lab: Invalid partition name specified"]),
        ("lab job.sh -- --exclusive", &["behind --: `--exclusive` cannot be passed on"]),
        ("lab job.sh -- -t soon", &["--time=soon: give minutes"]),
    ] {
        assert_says(&submit(words), parts);
    }
    hosts[2].write("/home/ann/odd.sh", "echo hello\n", "ann", 0o755);
    assert_says(&submit("lab odd.sh"), &["odd.sh: it is no job script", "#!/bin/sh"]);
    script(&hosts[2], "line.sh", "#SBATCH --gpus=1");
    assert_says(&submit("lab line.sh"), &["line.sh: line 2: `--gpus=1` cannot be passed on"]);
    hosts[2].write("/home/ann/bytes.sh", b"#!/bin/sh\n\xff\xfe\n".to_vec(), "ann", 0o755);
    assert_says(&submit("lab bytes.sh"), &["cannot read the job script bytes.sh"]);
    let cancel = |id: &str| ann.run(&format!("wiglaf jobs --site lab --cancel={id}"));
    assert_says(&cancel("7"), &["lab: job 7: ", "Invalid job id specified"]);
    assert_says(&cancel("../jobs"), &["`../jobs` is no job's number"]);
    // Nobody's folder is removed, whatever the name says.
    let _ =
        hosts[0].as_user("ann").run("mkdir -p /home/shared/jobs/job-x /home/shared/jobs/5").ok();
    assert_says(&ann.run("wiglaf jobs --site lab --forget 5"), &["job 5 has no folder there"]);
    let _ = hosts[0].as_user("ann").run("ln -s ../jobs /home/shared/jobs/6").ok();
    assert_says(&ann.run("wiglaf jobs --site lab --forget 6"), &["is no link of ours"]);
    // A controller that is gone.
    let _ = hosts[0].as_root().run("kill $(cat /run/slurmctld.pid)").ok();
    eventually("slurmctld is gone", || {
        !hosts[0].as_root().run("cat /proc/[0-9]*/comm | grep -x slurmctld").status.success()
    });
    assert_says(&submit("lab job.sh"), &["lab: ", "Unable to contact slurm controller"]);
    let left = hosts[0].as_root().run("ls /home/shared/jobs");
    assert_eq!(left.ok(), "5\n6\njob-x\n");
}
