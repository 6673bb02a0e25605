//! Batch jobs on hosts: stand-ins with root, users, munge and Slurm of their own, set up by `wiglaf batch setup`.

mod common;

use std::path::Path;

use common::hosts::{HELLO, put_program};
use common::{eventually, has_openmpi};
use wiglaf_testhosts::{Host, Hosts, Output, Plan};

/// Hosts that have joined, with sudo; nobody has used munge on them. None where Slurm is not installed here.
fn joined(plan: &Plan) -> Option<Hosts> {
    for program in
        ["/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "/usr/bin/sbatch"]
    {
        if !Path::new(program).exists() {
            eprintln!("skipped: {program} is not installed (`cargo xtask packages test`)");
            return None;
        }
    }
    if !has_openmpi() {
        return None;
    }
    let hosts = Hosts::or_skip(plan)?;
    let tree = hosts.install_tree().expect("a release build");
    hosts[0].install(&tree).expect("room on pc1");
    for host in hosts.iter() {
        let _ = host.as_root().run("rm -f /etc/munge/munge.key").ok();
    }
    let ann = hosts[0].as_user("ann");
    let _ = ann.run("wiglaf init --network 192.168.77.0/24 --name lab").ok();
    let names: Vec<&str> = hosts.iter().skip(1).map(Host::name).collect();
    let _ = ann.run(&format!("wiglaf join --yes {}", names.join(" "))).ok();
    Some(hosts)
}

fn plan(count: usize) -> Plan {
    let mut plan = Plan::new(count).with_sudo();
    plan.shared.push("/home/shared".into());
    plan
}

/// What is compared before batch jobs are set up on a host and after they were taken back.
const LISTING: &str = "find / -xdev \\( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp \
    -o -path /var/log -o -path /var/lib/sudo \\) -prune -o -printf '%p %y %m %u %l\\n' 2>/dev/null | \
    LC_ALL=C sort; find /etc /var/lib/wiglaf /usr/local -xdev -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum";

fn listing(host: &Host) -> String {
    host.as_root().run(LISTING).ok().to_owned()
}

#[track_caller]
fn assert_same(before: &str, after: &str, host: &str) {
    let lines =
        |text: &str| text.lines().map(str::to_owned).collect::<std::collections::BTreeSet<_>>();
    let (before, after) = (lines(before), lines(after));
    let more: Vec<_> = after.difference(&before).take(20).collect();
    let less: Vec<_> = before.difference(&after).take(20).collect();
    assert!(more.is_empty() && less.is_empty(), "{host} has more {more:#?}, less {less:#?}");
}

/// The last sentence of a command that failed.
#[track_caller]
fn sentence(output: &Output) -> &str {
    output.complaint().lines().last().unwrap_or_default()
}

/// Daemons of Slurm's and munge's on a host.
fn daemons(host: &Host) -> String {
    let said = host.as_root().run("ps -eo comm= | grep -xE 'munged|slurmctld|slurmd' | sort");
    said.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn set_up(hosts: &Hosts) {
    let done = hosts[0].as_user("ann").run("wiglaf batch setup --yes");
    assert!(done.ok().contains("ready for jobs"), "{done}");
}

/// Submits a script of ann's from a folder that all hosts see, and says which job it is.
fn submit(hosts: &Hosts, name: &str, script: &str, options: &str) -> String {
    let file = format!("/home/shared/{name}");
    hosts[0].write(&file, format!("#!/bin/sh\n{script}\n"), "ann", 0o755);
    let line = format!("cd /home/shared && sbatch --parsable -o {name}.out {options} {name}");
    hosts[0].as_user("ann").run(&line).ok().trim().to_owned()
}

/// What a job prints, when it is over.
fn job(hosts: &Hosts, name: &str, script: &str, options: &str) -> String {
    let id = submit(hosts, name, script, options);
    is_over(hosts, &id);
    hosts[0].read(&format!("/home/shared/{name}.out"))
}

fn is_over(hosts: &Hosts, id: &str) {
    eventually("the job is over", || {
        let said = hosts[0].as_user("ann").run(&format!("squeue -h -o %T -j {id}"));
        said.stdout.trim().is_empty()
    });
}

fn status(hosts: &Hosts) -> Output {
    hosts[0].as_user("ann").run("wiglaf batch status")
}

#[test]
fn hosts_get_from_nothing_to_a_job_over_wiglaf_and_remove_takes_it_back() {
    let Some(hosts) = joined(&plan(3)) else { return };
    put_program(&hosts, HELLO);
    let before: Vec<String> = hosts.iter().map(listing).collect();
    let ann = hosts[0].as_user("ann");
    let early = status(&hosts);
    assert!(sentence(&early).contains("run `wiglaf batch setup`"), "{early}");
    let dry = ann.run("wiglaf batch setup --dry-run");
    for line in [
        "pc1: write /etc/munge/munge.key, the secret of this cluster's daemons",
        "pc1: write /etc/slurm/slurm.conf and /etc/slurm/cgroup.conf, which all hosts fetch",
        "pc1: start munged, slurmctld, slurmd",
        "pc3: start munged, slurmd",
    ] {
        assert!(dry.ok().contains(line), "{dry}");
    }
    for (host, before) in hosts.iter().zip(&before) {
        assert_same(before, &listing(host), host.name());
        assert_eq!(daemons(host), "");
    }
    let unsaid = ann.run("wiglaf batch setup");
    assert!(sentence(&unsaid).contains("--yes"), "{unsaid}");
    set_up(&hosts);
    assert_eq!(daemons(&hosts[0]), "munged slurmctld slurmd");
    assert_eq!(daemons(&hosts[2]), "munged slurmd");
    assert_eq!(status(&hosts).status.code(), Some(0), "{}", status(&hosts));
    let again = ann.run("wiglaf batch setup --yes");
    assert_eq!(again.ok(), "all of it is set up already; see `wiglaf batch status`\n", "{again}");
    // The secret is one, root's and munge's alone.
    let keys: Vec<String> = hosts
        .iter()
        .map(|host| {
            let look = "cd /etc/munge && sha256sum munge.key && stat -c '%U %a' munge.key";
            host.as_root().run(look).ok().to_owned()
        })
        .collect();
    assert!(keys.iter().all(|key| *key == keys[0]) && keys[0].ends_with("munge 400\n"), "{keys:?}");

    let said = job(&hosts, "hello", "wiglaf run -- /home/ann/hello", "-N 3 -n 3");
    for (rank, host) in ["pc1", "pc2", "pc3"].iter().enumerate() {
        assert!(said.contains(&format!("rank {rank} of 3 on {host}: 3")), "{said}");
    }
    let said = job(&hosts, "part", "wiglaf run -- /home/ann/hello", "-w pc[2-3] -N 2 -n 3");
    assert!(said.contains("rank 2 of 3 on pc2: 3") && !said.contains("on pc1"), "{said}");

    let removed = ann.run("wiglaf batch remove --yes");
    assert!(removed.ok().contains("pc[1-3]: no more batch jobs"), "{removed}");
    for (host, before) in hosts.iter().zip(&before) {
        assert_eq!(daemons(host), "", "{}", host.name());
        assert_same(before, &listing(host), host.name());
    }
    let twice = ann.run("wiglaf batch remove --yes");
    assert!(sentence(&twice).contains("nothing of batch jobs was set up"), "{twice}");
}
