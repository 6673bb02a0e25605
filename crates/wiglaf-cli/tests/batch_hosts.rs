//! Batch jobs on hosts: stand-ins with root, users, munge and Slurm of their own, set up by `wiglaf batch setup`.

mod common;

use std::path::Path;

use common::hosts::{HELLO, assert_same, put_program, put_program_of, sentence};
use common::{eventually, has_openmpi};
use wiglaf_testhosts::{Host, Hosts, Output, Plan};

/// Hosts that have joined, with sudo; nobody has used munge on them. None where Slurm is not installed here.
fn joined(plan: &Plan) -> Option<Hosts> {
    let hosts = joined_with(plan, "")?;
    write_batch(&hosts, "accounting = false");
    Some(hosts)
}

/// Writes the section `[batch]`, and what comes behind it.
fn write_batch(hosts: &Hosts, section: &str) {
    let file = hosts[0].read(FILE);
    let above = file.split("\n[batch]").next().unwrap();
    hosts[0].write(FILE, format!("{above}\n[batch]\n{section}\n"), "ann", 0o644);
}

/// Where environment-modules, if installed, has an administrator's files.
const MODULES: &str = "/etc/environment-modules/modules";
const FILE: &str = "/home/ann/.config/wiglaf/cluster.toml";

/// Hosts that have joined, with sudo, where jobs are noted. None where Slurm or the program `another` is not installed.
fn joined_with(plan: &Plan, another: &str) -> Option<Hosts> {
    if !another.is_empty() && !Path::new(another).exists() {
        eprintln!("skipped: {another} is not installed (`cargo xtask packages test`)");
        return None;
    }
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
const LISTING: &str = "find /etc /var/lib /var/spool /usr/sbin /usr/bin /usr/local -xdev -path /var/lib/sudo -prune -o \
    -printf '%p %y %m %u %l\\n' 2>/dev/null | LC_ALL=C sort; \
    find /etc /var/lib/wiglaf /var/lib/dpkg/status -xdev -type f | LC_ALL=C sort | xargs -d '\\n' sha256sum";

fn listing(host: &Host) -> String {
    host.as_root().run(LISTING).ok().to_owned()
}

/// Daemons of Slurm's and munge's on a host.
fn daemons(host: &Host) -> String {
    let said = host
        .as_root()
        .run("ps -eo comm= | grep -xE 'mariadbd|munged|slurmctld|slurmd|slurmdbd' | sort");
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
    let mut plan = plan(3);
    let mpich = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/mpi/mpich-5.0.2");
    let mpich = mpich.canonicalize().ok();
    for (host, from) in plan.hosts.iter_mut().zip(mpich.iter().cycle()) {
        host.binds.push((from.clone(), "/opt/mpich-5.0.2".into()));
    }
    let Some(hosts) = joined(&plan) else { return };
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
        "pc2: write /etc/wiglaf/batch/prolog",
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
    // What scripts for PBS look for, on the job's first host.
    let pbs = "echo $SLURM_JOB_ID $PBS_JOBID $WIGLAF_NODE.\ncat $PBS_NODEFILE";
    let said = job(&hosts, "pbs", pbs, "-w pc[2-3] -N 2 -n 3");
    assert_eq!(said, "2 2 .\npc2\npc2\npc3\n");
    let said = job(&hosts, "part", "wiglaf run -- /home/ann/hello", "-w pc[2-3] -N 2 -n 3");
    assert!(said.contains("rank 2 of 3 on pc2: 3") && !said.contains("on pc1"), "{said}");

    if Path::new(MODULES).exists() {
        // Found without a word about where they are.
        let shell =
            ". /usr/share/modules/init/bash; module load wiglaf/openmpi; mpirun /home/ann/hello";
        let said =
            job(&hosts, "modules", &format!("exec bash -c '{shell}'"), "-w pc[2-3] -N 2 -n 2");
        for line in ["rank 0 of 2 on pc2: 1", "rank 1 of 2 on pc3: 1"] {
            assert!(said.contains(line), "{said}");
        }
    } else {
        eprintln!("skipped in part: it takes environment-modules (`cargo xtask packages test`)");
    }

    if mpich.is_some() {
        put_program_of(&hosts, "mpicc.mpich", HELLO);
        let srun = "eval \"$(wiglaf env mpich@5.0.2)\"\nsrun /home/ann/hello";
        for (name, script) in
            [("mpich", "wiglaf run --mpi mpich@5.0.2 -- /home/ann/hello"), ("srun", srun)]
        {
            let said = job(&hosts, name, script, "-w pc[2-3] -N 2 -n 2");
            for line in ["rank 0 of 2 on pc2: 1", "rank 1 of 2 on pc3: 1"] {
                assert!(said.contains(line), "{name}: {said}");
            }
        }
    } else {
        eprintln!("skipped in part: it takes MPICH 5.0.2 (`cargo xtask packages test`)");
    }
    let removed = ann.run("wiglaf batch remove --yes");
    assert!(removed.ok().contains("pc[1-3]: no more batch jobs"), "{removed}");
    for (host, before) in hosts.iter().zip(&before) {
        assert_eq!(daemons(host), "", "{}", host.name());
        assert_same(before, &listing(host), host.name());
    }
    let twice = ann.run("wiglaf batch remove --yes");
    assert!(sentence(&twice).contains("nothing of batch jobs was set up"), "{twice}");
}

/// Nothing of these was touched.
#[track_caller]
fn assert_refused(hosts: &Hosts, part: &str, fix: &str) {
    let before: Vec<String> = hosts.iter().map(listing).collect();
    let said = hosts[0].as_user("ann").run("wiglaf batch setup --yes");
    assert!(!said.status.success(), "{said}");
    let all = said.complaint();
    assert!(all.contains(part) && all.contains(fix), "{part}: {said}");
    for (host, before) in hosts.iter().zip(&before) {
        assert_same(before, &listing(host), host.name());
    }
}

#[test]
fn what_stands_in_the_way_of_batch_jobs_is_a_sentence_and_nothing_is_touched() {
    let Some(hosts) = joined(&plan(2)) else { return };
    let (ann, pc2) = (hosts[0].as_user("ann"), hosts[1].as_root());
    // Somebody else's munge and Slurm.
    hosts[1].write("/etc/munge/munge.key", "x".repeat(1024), "root", 0o400);
    let fix = "`ssh pc2 sudo mv /etc/munge/munge.key /etc/munge/munge.key.before`";
    assert_refused(&hosts, "pc2 has a /etc/munge/munge.key of somebody else's", fix);
    let _ = pc2.run("rm /etc/munge/munge.key").ok();
    hosts[1].write("/etc/slurm/slurm.conf", "ClusterName=theirs\n", "root", 0o644);
    assert_refused(&hosts, "pc2 has a /etc/slurm/slurm.conf of somebody else's", "try again");
    let _ = pc2.run("rm /etc/slurm/slurm.conf").ok();
    // A release that does not talk to the head's: dpkg says so, and so does apt.
    let edit = "sed -i '/^Package: slurmd$/,/^$/s/^Version: 22.05.8-/Version: 24.11.5-/' /var/lib/dpkg/status";
    let _ = pc2.run(&format!("cp -p /var/lib/dpkg/status /root/status && {edit}")).ok();
    assert_refused(
        &hosts,
        "pc2 has Slurm 24.11 and the head pc1 has 22.05",
        "one release of Debian",
    );
    let _ = pc2.run("cp -p /root/status /var/lib/dpkg/status && rm /root/status").ok();
    // A clock that is an hour ahead.
    let clock = "#!/bin/sh\n[ \"$*\" = +%s ] && exec expr \"$(/bin/date +%s)\" + 3600\nexec /bin/date \"$@\"\n";
    hosts[1].write("/usr/local/bin/date", clock, "root", 0o755);
    assert_refused(&hosts, "s ahead of this host's", "timedatectl set-ntp true");
    let _ = pc2.run("rm /usr/local/bin/date").ok();
    // A node without memory for jobs, and a head that is nowhere.
    let write = |section: &str| {
        write_batch(&hosts, &format!("accounting = false\n{section}"));
    };
    write("memory_reserve = \"900TiB\"");
    assert_refused(
        &hosts,
        "MiB of memory, of which memory_reserve",
        "lower memory_reserve in [batch]",
    );
    write("head = \"pc9\"");
    assert_refused(&hosts, "the head pc9 is no node of the cluster", "pc[1-2]");
    write("");
    // Neither sudo nor Wiglaf.
    let _ = pc2.run("mv /etc/sudoers.d/ann /root/ann").ok();
    assert_refused(&hosts, "pc2: sudo takes a password there", "as for `wiglaf join`");
    let _ = pc2.run("mv /root/ann /etc/sudoers.d/ann && mv /usr/local/bin/wiglaf /root/").ok();
    assert_refused(&hosts, "pc2 has not joined", "run `wiglaf join pc2` first");
    let _ = pc2.run("mv /root/wiglaf /usr/local/bin/").ok();
    // With all that away it works.
    let dry = ann.run("wiglaf batch setup --dry-run");
    assert!(dry.ok().contains("pc2: start munged, slurmd"), "{dry}");
}

#[test]
fn hosts_that_fail_are_as_they_were_and_a_changed_file_is_told() {
    let Some(hosts) = joined(&plan(3)) else { return };
    let ann = hosts[0].as_user("ann");
    // What a look does not see.
    let broken = "#!/bin/sh\n[ \"$1\" = -C ] && exec /usr/sbin/slurmd.real -C\necho 'no such card' >&2\nexit 1\n";
    let _ = hosts[2].as_root().run("mv /usr/sbin/slurmd /usr/sbin/slurmd.real").ok();
    hosts[2].write("/usr/sbin/slurmd", broken, "root", 0o755);
    let before = listing(&hosts[2]);
    let done = ann.run("wiglaf batch setup --yes");
    assert!(done.stdout.contains("pc[1-2]: ready for jobs"), "{done}");
    assert!(sentence(&done).contains("pc3: slurmd does not start: no such card"), "{done}");
    assert!(sentence(&done).contains("is as it was"), "{done}");
    assert_eq!((daemons(&hosts[2]).as_str(), daemons(&hosts[1]).as_str()), ("", "munged slurmd"));
    assert_same(&before, &listing(&hosts[2]), "pc3");
    let conf = hosts[0].read("/etc/slurm/slurm.conf");
    assert!(conf.contains("Nodes=pc[1-2]") && !conf.contains("pc3"), "{conf}");
    let said = job(&hosts, "two", "srun hostname", "-N 2");
    assert!(said.contains("pc1") && said.contains("pc2"), "{said}");
    // Repaired, it comes in with the same command.
    let _ = hosts[2].as_root().run("mv /usr/sbin/slurmd.real /usr/sbin/slurmd").ok();
    set_up(&hosts);
    assert_eq!(status(&hosts).status.code(), Some(0), "{}", status(&hosts));

    // Somebody changes what was set up: status says so, and what it says to type helps.
    hosts[1].write("/etc/munge/munge.key", "x".repeat(1024), "munge", 0o400);
    let told = status(&hosts);
    assert_eq!(told.status.code(), Some(3), "{told}");
    assert!(told.stdout.contains("pc2 has another /etc/munge/munge.key than was set up"), "{told}");
    let refused = ann.run("wiglaf batch setup --yes");
    assert!(
        sentence(&refused).contains("that somebody has changed since it was set up"),
        "{refused}"
    );
    let fix = told.stdout.lines().find_map(|line| line.strip_prefix("  type: ")).unwrap();
    let _ = ann.run(&fix.replace("setup", "setup --yes")).ok();
    let sed = "sed -i s/SlurmdTimeout=60/SlurmdTimeout=61/ /etc/slurm/slurm.conf";
    let _ = hosts[0].as_root().run(sed).ok();
    let told = status(&hosts);
    assert!(
        told.stdout.contains("pc1 has another /etc/slurm/slurm.conf than was set up"),
        "{told}"
    );
    let fix = told.stdout.lines().find_map(|line| line.strip_prefix("  type: ")).unwrap();
    let _ = ann.run(&fix.replace("setup", "setup --yes")).ok();
    eventually("all is well", || status(&hosts).status.code() == Some(0));
    // A daemon that died is started by the same command.
    let _ = hosts[2].as_root().run("kill -KILL $(cat /run/slurmd.pid)").ok();
    let again = ann.run("wiglaf batch setup --yes");
    assert!(again.ok().contains("pc3: start slurmd"), "{again}");
    // Who leaves the cluster takes no more jobs, and the head stays while others do.
    let left = ann.run("wiglaf leave pc3 --yes");
    assert!(left.ok().contains("pc3: left") && daemons(&hosts[2]).is_empty(), "{left}");
    let without = ann.run("wiglaf batch setup --yes");
    assert!(without.ok().contains("pc[1-2]: ready"), "{without}");
}

#[test]
fn epilog_ends_what_is_left_of_the_job_and_nothing_of_anybody_else() {
    let mut plan = plan(2);
    plan.users.push(wiglaf_testhosts::User::new("bob", 2002));
    let Some(hosts) = joined(&plan) else { return };
    set_up(&hosts);
    // On pc1, where all jobs of this test run: ann's own, as a desktop's owner, one of hers with the job's number
    // alone as salloc gives it, and bob's with the whole mark.
    let (ann, bob) = (hosts[0].as_user("ann"), hosts[0].as_user("bob"));
    let mark = "SLURM_JOB_ID=1 SLURMD_NODENAME=pc1 WIGLAF_JOB=00000000000000ab00000001";
    let own = ann.start("exec sleep 40001");
    let shell = ann.start("SLURM_JOB_ID=1 exec sleep 40002");
    let bobs = bob.start(&format!("touch /dev/shm/wiglaf-bobs && exec env {mark} sleep 40003"));
    let script = "setsid sh -c 'sleep 40004 & sleep 0.2' </dev/null >/dev/null 2>&1 &\n\
                  WIGLAF_JOB=00000000000000ab00000001 setsid -f sleep 40005 </dev/null >/dev/null 2>&1\n\
                  touch /dev/shm/vader_segment.left /dev/shm/anns-own\nsleep 1";
    let id = submit(&hosts, "left", script, "-w pc1 -N 1 -n 1");
    assert_eq!(id, "1");
    is_over(&hosts, &id);
    let sleepers = || {
        let said = hosts[0].as_root().run("ps -eo args= | grep -x 'sleep 4000[0-9]' | sort");
        said.stdout
            .split_whitespace()
            .filter(|w| *w != "sleep")
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    eventually("the epilog is over", || sleepers() == ["40001", "40002", "40003"]);
    let log = hosts[0].as_root().run("cat /var/log/slurm/wiglaf-epilog.log");
    assert!(
        log.ok().contains("job 1: ended process") && log.stdout.contains("sleep 40004"),
        "{log}"
    );
    eventually("shared memory is gone", || {
        let shm = hosts[0].as_root().run("ls /dev/shm");
        shm.stdout.split_whitespace().collect::<Vec<_>>() == ["anns-own", "wiglaf-bobs"]
    });
    drop((own, shell, bobs));
    eventually("the node is well", || status(&hosts).status.code() == Some(0));
}

#[test]
fn node_that_fails_its_look_takes_no_jobs_and_says_why_and_what_helps() {
    let Some(hosts) = joined(&plan(2)) else { return };
    set_up(&hosts);
    let pc2 = hosts[1].as_root();
    // The head's clock is an hour behind, as pc2 sees it; then a memory module gone; then a full /dev/shm.
    let shifted = "#!/bin/sh\n[ \"$2\" = config ] || exec /usr/bin/scontrol.real \"$@\"\n\
                   echo \"Configuration data as of $(($(date +%s) - 3600))\"\n";
    let clock = [
        "mv /usr/bin/scontrol /usr/bin/scontrol.real; install -m 755 /dev/stdin /usr/bin/scontrol",
        "mv /usr/bin/scontrol.real /usr/bin/scontrol; rm -f /run/wiglaf-batch-clock",
        "its clock is 3600 s ahead of that of the head; run sudo timedatectl set-ntp true there",
    ];
    let memory = [
        "sed 's/^MemTotal: .*/MemTotal: 1048576 kB/' /proc/meminfo >/tmp/m; mount --bind /tmp/m /proc/meminfo",
        "umount /proc/meminfo",
        "it has 1024 MiB of memory and slurm.conf says",
    ];
    let shm = [
        "mount -o remount,size=1m /dev/shm",
        "mount -o remount,size=64m /dev/shm",
        "/dev/shm has 1 MiB left of the 16 that it takes; make room there",
    ];
    for (name, [breaks, repairs, says]) in [("clock", clock), ("memory", memory), ("shm", shm)] {
        // In mid-job, so that the epilog finds it. Slurm says RUNNING before the prolog has looked.
        let script = "touch /home/shared/runs; while [ ! -e /home/shared/go ]; do sleep 0.1; done";
        let id = submit(&hosts, name, script, "-w pc2 -N 1 -n 1");
        eventually("the job runs", || {
            hosts[0].as_user("ann").run("rm /home/shared/runs").status.success()
        });
        let _ = pc2.clone().input(shifted).run(breaks).ok();
        hosts[0].write("/home/shared/go", "", "ann", 0o644);
        is_over(&hosts, &id);
        let mut told = status(&hosts);
        eventually("the node is drained", || {
            told = status(&hosts);
            told.stdout.contains("pc2 takes no jobs")
        });
        assert_eq!(told.status.code(), Some(3), "{told}");
        assert!(told.stdout.contains(&format!("pc2 takes no jobs: {says}")), "{told}");
        let fix = told.stdout.lines().find_map(|line| line.strip_prefix("  type: ")).unwrap();
        assert_eq!(fix, "sudo scontrol update NodeName=pc2 State=RESUME");
        let _ = pc2.run(&format!("{repairs}; true")).ok();
        let _ = hosts[0].as_user("ann").run(&format!("rm /home/shared/go; {fix}")).ok();
        eventually("the node is well", || status(&hosts).status.code() == Some(0));
    }
    // Before a job: it does not start there, waits, and is not held.
    let _ = pc2.run(shm[0]).ok();
    let id = submit(&hosts, "waits", "hostname", "-N 2 -n 2");
    eventually("the node is drained", || {
        status(&hosts).stdout.contains(&format!("pc2 takes no jobs: {}", shm[2]))
    });
    let _ = pc2.run(shm[1]).ok();
    let resume = "sudo scontrol update NodeName=pc2 State=RESUME";
    let _ = hosts[0].as_user("ann").run(resume).ok();
    // After two minutes it would start by itself.
    let now = hosts[0].as_root().run(&format!("scontrol update JobId={id} StartTime=now"));
    let waited = hosts[0].as_user("ann").run(&format!("squeue -h -o '%T %r' -j {id}"));
    assert!(!waited.stdout.to_lowercase().contains("held"), "{now} {waited}");
    is_over(&hosts, &id);
    assert_eq!(hosts[0].read("/home/shared/waits.out").trim(), "pc1");
}

/// Packs installed packages again, as an archive of apt's below /srv/debs, and removes them from the host.
const REPACK: &str = r#"
set -e
torque=
if [ -e /usr/bin/qsub ]; then torque=slurm-wlm-torque; fi
mkdir -p /srv/debs && cd /srv/debs
for p in slurmd slurm-client munge $torque; do
    rm -rf /srv/p && mkdir -p /srv/p/DEBIAN
    dpkg-query -L $p | sed 's,^/lib,/usr/lib,' | sort -u | while read -r f; do
        if [ -d "$f" ] && [ ! -L "$f" ]; then mkdir -p "/srv/p$f"
        elif [ -e "$f" ] || [ -L "$f" ]; then mkdir -p "/srv/p${f%/*}"; cp -a "$f" "/srv/p$f"; fi
    done
    dpkg-query -s $p | sed '/^Status:/d;/^Conffiles:/,/^[^ ]/{/^Conffiles:/d;/^ \//d}' >/srv/p/DEBIAN/control
    for s in preinst postinst prerm postrm conffiles; do
        [ ! -e /var/lib/dpkg/info/$p.$s ] || cp /var/lib/dpkg/info/$p.$s /srv/p/DEBIAN/$s
    done
    dpkg-deb -Znone --root-owner-group -b /srv/p $p.deb
    { dpkg-deb -f $p.deb; echo "Filename: ./$p.deb"; echo "Size: $(stat -c %s $p.deb)"
      echo "SHA256: $(sha256sum $p.deb | cut -d' ' -f1)"; echo; } >>Packages
done
dpkg --purge --force-depends slurmdbd slurmctld slurmd slurm-client slurm-wlm-torque munge
rm -f /etc/apt/sources.list /etc/apt/sources.list.d/*
echo 'deb [trusted=yes] file:/srv/debs ./' >/etc/apt/sources.list
"#;

#[test]
fn packages_that_a_host_lacks_come_by_apt_and_go_again() {
    let Some(hosts) = joined(&plan(2)) else { return };
    let (ann, pc2) = (hosts[0].as_user("ann"), hosts[1].as_root());
    let _ = pc2.run(REPACK).ok();
    let has_qsub = Path::new("/usr/bin/qsub").exists();
    if has_qsub {
        write_batch(&hosts, "accounting = false\nqsub = true");
    } else {
        eprintln!("skipped in part: qsub is not installed (`cargo xtask packages test`)");
    }
    // apt has not read its lists yet.
    let _ = pc2.run("rm -rf /var/lib/apt/lists/*").ok();
    assert_refused(&hosts, "pc2 knows no package", "`ssh pc2 sudo apt-get update`");
    let _ = ann.run("ssh pc2 sudo apt-get update").ok();
    // A key that the package has made is nobody's, until somebody writes another one.
    let _ = pc2.run("apt-get install -y -qq munge && ls /etc/munge/munge.key").ok();
    let dry = ann.run("wiglaf batch setup --dry-run");
    assert!(dry.ok().contains("pc2: write /etc/munge/munge.key"), "{dry}");
    let _ = pc2.run("sleep 1.1 && head -c 1024 /dev/urandom >/etc/munge/munge.key").ok();
    assert_refused(&hosts, "pc2 has a /etc/munge/munge.key of somebody else's", "try again");
    let _ = pc2.run("dpkg --purge --force-depends munge && rm -rf /etc/munge").ok();
    let dry = ann.run("wiglaf batch setup --dry-run");
    let (more, count) = if has_qsub { (", slurm-wlm-torque", 4) } else { ("", 3) };
    let line = format!("pc2: install munge, slurmd, slurm-client{more} by apt (Slurm ");
    assert!(dry.ok().contains(&line), "{dry}");
    if has_qsub {
        // What somebody else has installed stays, also where it conflicts.
        let make = "mkdir -p /srv/t/DEBIAN && cd /srv && printf 'Package: torque-client\\nVersion: 6\\nArchitecture: all\\n\
                    Maintainer: x <x@x>\\nDescription: x\\n' >t/DEBIAN/control && dpkg-deb -b t t.deb && dpkg -i t.deb";
        let _ = pc2.run(make).ok();
        let refused = ann.run("wiglaf batch setup --yes");
        assert!(sentence(&refused).contains("remove is disabled"), "{refused}");
        assert!(pc2.run("dpkg-query -W torque-client && ! ls /usr/sbin/slurmd").status.success());
        let _ = pc2.run("dpkg --purge torque-client").ok();
    }
    set_up(&hosts);
    let said = job(&hosts, "two", "srun hostname", "-N 2");
    assert!(said.contains("pc1") && said.contains("pc2"), "{said}");
    if has_qsub {
        hosts[0].write("/home/shared/old", "#!/bin/sh\ncat $PBS_NODEFILE\n", "ann", 0o755);
        let id = ann
            .run("ssh pc2 'cd /home/shared && qsub -l nodes=2:ppn=1 old'")
            .ok()
            .trim()
            .to_owned();
        is_over(&hosts, &id);
        assert_eq!(hosts[0].read(&format!("/home/shared/old.o{id}")), "pc1\npc2\n");
    }
    let removed = ann.run("wiglaf batch remove --yes");
    let files = if Path::new(MODULES).exists() { 15 } else { 8 };
    let counts = format!("take back {files} files and {count} packages");
    assert!(removed.ok().contains(&counts), "{removed}");
    assert_eq!(removed.stderr, "wiglaf: jobs and daemons\n");
    let left =
        pc2.run("dpkg-query -W -f '${db:Status-Abbrev} ${Package}\\n' slurmd slurm-client munge slurm-wlm-torque");
    assert!(!left.stdout.contains("i "), "{left}");
    assert_eq!(
        pc2.run("ls /usr/sbin/slurmd /etc/munge/munge.key /var/lib/wiglaf/batch").stdout,
        ""
    );
}

/// What is noted of each job, also where one is noted twice.
fn noted(hosts: &Hosts, host: usize) -> Vec<String> {
    let sacct = "sacct -a -n -X -P -D -S now-1hour -o JobID,User,Account,State,NNodes | sort -n";
    let said = hosts[host].as_user("ann").run(sacct);
    said.ok().lines().map(str::to_owned).collect()
}

/// A job of a user's that runs until the file is there.
fn waiting(hosts: &Hosts, user: &str, go: &str) -> String {
    // sreport does not count jobs of less than a second.
    let script =
        format!("#!/bin/sh\nsleep 1.1\nwhile [ ! -e /home/shared/{go} ]; do sleep 0.1; done\n");
    hosts[0].write(&format!("/home/shared/{go}.sh"), script, user, 0o755);
    let line =
        format!("cd /tmp && sbatch --parsable -o /dev/null -N 1 -n 1 -w pc2 /home/shared/{go}.sh");
    let id = hosts[0].as_user(user).run(&line).ok().trim().to_owned();
    eventually("the job runs", || {
        let said = hosts[0].as_user(user).run(&format!("squeue -h -o %T -j {id}"));
        said.stdout.trim() == "RUNNING"
    });
    id
}

#[test]
fn accounting_has_no_hole_and_no_double_whatever_is_killed_and_stays_until_it_is_to_go() {
    let mut plan = plan(2);
    plan.users.push(wiglaf_testhosts::User::new("bob", 2002));
    let Some(hosts) = joined_with(&plan, "/usr/sbin/slurmdbd") else { return };
    let (ann, root) = (hosts[0].as_user("ann"), hosts[0].as_root());
    let before: Vec<String> = hosts.iter().map(listing).collect();
    set_up(&hosts);
    assert_eq!(daemons(&hosts[0]), "mariadbd munged slurmctld slurmd slurmdbd");
    assert_eq!(daemons(&hosts[1]), "munged slurmd");
    // There is no password, and nobody else gets at the database.
    let own = root.run(
        "stat -c '%U %a' /etc/slurm/slurmdbd.conf /var/lib/wiglaf/accounting; \
                        grep -i pass= /etc/slurm/slurmdbd.conf",
    );
    assert_eq!(own.stdout, "slurm 600\nslurm 700\n", "{own}");
    let ask =
        "mariadb --no-defaults --socket=/run/wiglaf-accounting/socket -u slurm -e 'SHOW DATABASES'";
    assert!(!ann.run(ask).status.success());
    let asked = root.run(&format!("{ask}; setpriv --reuid=slurm --clear-groups {ask}"));
    assert!(asked.stdout.contains("slurm_acct_db") && asked.stderr.contains("denied"), "{asked}");
    let shares = ann.run("sacctmgr -n -P show assoc format=User,Account");
    assert!(shares.ok().contains("ann|users") && shares.stdout.contains("bob|users"), "{shares}");

    let kill = |daemon: &str| {
        let line = format!("kill -KILL $(cat /run/{daemon}.pid) && rm -f /run/{daemon}.pid");
        let _ = root.run(&line).ok();
    };
    let go = |name: &str| hosts[0].write(&format!("/home/shared/{name}"), "", "ann", 0o644);
    // sreport counts whole hours.
    let hour = ann.run("date +%FT%H:00:00").ok().trim().to_owned();
    // slurmdbd dies in mid-job; that job ends without it, and another begins and ends.
    let first = waiting(&hosts, "ann", "first");
    kill("slurmdbd");
    go("first");
    is_over(&hosts, &first);
    let second = waiting(&hosts, "bob", "second");
    let told = status(&hosts);
    assert_eq!(told.status.code(), Some(3), "{told}");
    assert!(
        told.stdout.contains("slurmdbd has ended")
            && told.stdout.contains("  type: wiglaf batch setup"),
        "{told}"
    );
    go("second");
    is_over(&hosts, &second);
    let started = ann.run("wiglaf batch setup --yes");
    assert!(started.ok().contains("pc1: start slurmdbd"), "{started}");
    let want = |job: &str, user: &str| format!("{job}|{user}|users|COMPLETED|1");
    let mut all = vec![want(&first, "ann"), want(&second, "bob")];
    let noted_is = |all: &[String]| {
        eventually("all is noted", || noted(&hosts, 1) == *all);
    };
    noted_is(&all);
    // slurmctld dies in mid-job, and the job ends meanwhile; then both of them.
    for (name, both) in [("third", false), ("fourth", true)] {
        let id = waiting(&hosts, "bob", name);
        // slurmctld writes its state some seconds later; a job whose start is not in it would start again.
        let state = "/var/lib/wiglaf/batch/controller/job_state";
        let touch = format!("touch /run/mark && scontrol update JobId={id} Comment=x");
        let _ = root.run(&touch).ok();
        eventually("the state is written", || {
            root.run(&format!("[ {state} -nt /run/mark ]")).status.success()
        });
        if both {
            kill("slurmdbd");
        }
        kill("slurmctld");
        go(name);
        let _ = ann.run("wiglaf batch setup --yes").ok();
        // The node tells slurmctld every 15 s of an end that nobody has heard of.
        for _ in 0..100 {
            if ann.run(&format!("squeue -h -o %T -j {id}")).stdout.trim().is_empty() {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(500));
        }
        is_over(&hosts, &id);
        all.push(want(&id, "bob"));
        noted_is(&all);
    }
    assert_eq!(status(&hosts).status.code(), Some(0), "{}", status(&hosts));
    let report = format!(
        "sreport -n -P job SizesByAccount FlatView PrintJobCount start={hour} end=$(date -d 1hour +%FT%H:00:00)"
    );
    let report = ann.run(&report);
    // Where an hour has passed meanwhile, those of the first.
    assert!(report.ok().contains("lab|users|"), "{report}");

    // Taken back, it stays; set up again, it is there, and numbers go on.
    let removed = ann.run("wiglaf batch remove --yes");
    assert!(removed.ok().contains("pc1: keep /var/lib/wiglaf/accounting"), "{removed}");
    assert_eq!(daemons(&hosts[0]), "");
    set_up(&hosts);
    noted_is(&all);
    let fifth = job(&hosts, "fifth", "true", "-w pc2 -N 1 -n 1");
    assert_eq!(fifth, "");
    let last: u32 = all[3].split('|').next().unwrap().parse().unwrap();
    all.push(want(&(last + 1).to_string(), "ann"));
    noted_is(&all);

    // With `private`, bob sees nothing of ann's, on his page either.
    write_batch(&hosts, "private = true");
    let dry = ann.run("wiglaf batch setup --dry-run");
    assert!(dry.ok().contains("pc1: show users their own jobs alone"), "{dry}");
    set_up(&hosts);
    let sixth = waiting(&hosts, "ann", "sixth");
    let bob = hosts[0].as_user("bob");
    hosts[0].write("/home/bob/.config/wiglaf/cluster.toml", hosts[0].read(FILE), "bob", 0o644);
    let users = |of: &wiglaf_testhosts::Session<'_>, line: &str| {
        let said = of.run(line).stdout;
        said.split_whitespace().map(str::to_owned).collect::<std::collections::BTreeSet<_>>()
    };
    let (queue, past) = ("squeue -h -a -o %u", "sacct -a -n -X -P -D -S now-1hour -o User");
    assert_eq!((users(&ann, queue), users(&bob, queue)), (["ann".to_owned()].into(), [].into()));
    assert_eq!(
        (users(&ann, past), users(&bob, past)),
        (["ann".to_owned()].into(), ["bob".to_owned()].into())
    );
    for (user, sees) in [(&ann, true), (&bob, false)] {
        let told = user.run("wiglaf batch status --json");
        assert_eq!(told.ok().contains("\"user\": \"ann\""), sees, "{told}");
        let mut page = user.start("wiglaf web --port 0 --json");
        assert!(page.has_printed("token_file"));
        let [said, _] = page.so_far();
        let url = said.split('"').find(|word| word.starts_with("http://")).unwrap().to_owned();
        let state = format!(
            "curl -s -c jar -o /dev/null {url}; curl -s -b jar {}/state.json",
            url.rsplit_once('/').unwrap().0
        );
        eventually("the page has the queue", || {
            user.run(&state).stdout.contains("\"queue\":{\"is\"")
        });
        let state = user.run(&state);
        assert_eq!(state.ok().contains("sixth"), sees, "{state}");
    }
    go("sixth");
    is_over(&hosts, &sixth);
    let removed = ann.run("wiglaf batch remove --yes --forget-accounting");
    assert!(removed.ok().contains("pc1: remove /var/lib/wiglaf/accounting"), "{removed}");
    for (host, before) in hosts.iter().zip(&before) {
        assert_eq!(daemons(host), "", "{}", host.name());
        assert_same(before, &listing(host), host.name());
    }
}

#[test]
fn users_log_in_where_they_have_a_job_and_nobody_is_locked_out_without_slurm() {
    let mut plan = plan(2);
    for (name, uid) in [("bob", 2002), ("carl", 2003), ("dora", 2004)] {
        plan.users.push(wiglaf_testhosts::User::new(name, uid));
    }
    let Some(hosts) = joined(&plan) else { return };
    let (ann, pc2) = (hosts[0].as_user("ann"), hosts[1].as_root());
    let pam = |host: usize| hosts[host].read("/etc/pam.d/sshd");
    let before = (pam(0), pam(1));
    let gets_in = |user: &str, host: &str| {
        hosts[0].as_user(user).run(&format!("ssh -oBatchMode=yes {host} hostname"))
    };
    let _ = gets_in("bob", "pc2").ok();
    write_batch(
        &hosts,
        "accounting = false\nlogin = \"job\"\nadmins = [\"carl\"]\n[owner.pc2]\nuser = \"dora\"",
    );
    let dry = ann.run("wiglaf batch setup --dry-run");
    assert!(
        dry.ok().contains(
            "pc2: let in by ssh users with a job there, ann, carl, dora, and who may use sudo"
        ),
        "{dry}"
    );
    assert!(!dry.stdout.contains("pc1: let in"), "{dry}");
    set_up(&hosts);
    let again = ann.run("wiglaf batch setup --yes");
    assert!(again.ok().contains("set up already"), "{again}");
    let is_refused = |user: &str| {
        let said = gets_in(user, "pc2");
        let why = format!(
            "pc2 is for users who have a job there, and {user} has none now: salloc -w pc2"
        );
        assert!(!said.status.success() && said.stderr.contains(&why), "{said}");
    };
    is_refused("bob");
    for user in ["ann", "carl", "dora"] {
        assert_eq!(gets_in(user, "pc2").ok(), "pc2\n");
    }
    // Where jobs are submitted, everybody does.
    assert_eq!(gets_in("bob", "pc1").ok(), "pc1\n");
    let id = waiting(&hosts, "bob", "stay");
    assert_eq!(gets_in("bob", "pc2").ok(), "pc2\n");
    hosts[0].write("/home/shared/stay", "", "bob", 0o644);
    is_over(&hosts, &id);
    eventually("the epilog is over", || !gets_in("bob", "pc2").status.success());
    is_refused("bob");
    // Without Slurm's daemon, without the script, and without Wiglaf, nobody is locked out.
    let _ = pc2.run("kill -KILL $(cat /run/slurmd.pid)").ok();
    assert_eq!(gets_in("bob", "pc2").ok(), "pc2\n");
    set_up(&hosts);
    is_refused("bob");
    for gone in ["/etc/wiglaf/batch/login", "/usr/local/bin/wiglaf"] {
        let _ = pc2.run(&format!("mv {gone} /root/gone")).ok();
        assert_eq!(gets_in("bob", "pc2").ok(), "pc2\n", "{gone}");
        let _ = pc2.run(&format!("mv /root/gone {gone}")).ok();
        is_refused("bob");
    }
    // Stand-ins have no control groups.
    for line in ["login = \"adopt\"", "x11 = true"] {
        write_batch(&hosts, &format!("accounting = false\n{line}"));
        let refused = ann.run("wiglaf batch setup --dry-run");
        assert!(refused.stderr.contains(&format!("{line} takes control groups")), "{refused}");
    }
    // Taken back by a word in the file, or with all else.
    write_batch(&hosts, "accounting = false");
    let opened = ann.run("wiglaf batch setup --yes");
    assert!(opened.ok().contains("pc2: let everybody in by ssh again"), "{opened}");
    assert_eq!((pam(0), pam(1)), before);
    write_batch(&hosts, "accounting = false\nlogin = \"job\"");
    set_up(&hosts);
    is_refused("dora");
    let _ = ann.run("wiglaf batch remove --yes").ok();
    assert_eq!((pam(0), pam(1)), before);
    assert_eq!(gets_in("bob", "pc2").ok(), "pc2\n");
}

/// Two hosts with dora's account. Stand-ins have no logind: who(1) says who is there, once there is a file for it.
fn with_dora() -> Option<Hosts> {
    let mut plan = plan(2);
    plan.users.push(wiglaf_testhosts::User::new("dora", 2004));
    let hosts = joined(&plan)?;
    let _ = hosts[1].as_root().run("install -m 664 -g utmp /dev/null /run/utmp").ok();
    Some(hosts)
}

/// dora sits at a terminal of pc2 until there is that file.
fn dora_comes(hosts: &Hosts, until: &str) -> wiglaf_testhosts::Running {
    hosts[0].as_user("dora").start(&format!(
        "exec ssh -tt -oBatchMode=yes pc2 'while [ ! -e /home/shared/{until} ]; do sleep 0.1; done'"
    ))
}

fn state(hosts: &Hosts, id: &str) -> String {
    let said = hosts[0].as_user("ann").run(&format!("squeue -h -o %T -j {id}"));
    said.stdout.trim().to_owned()
}

fn touch(hosts: &Hosts, name: &str) {
    hosts[0].write(&format!("/home/shared/{name}"), "", "ann", 0o644);
}

#[test]
fn jobs_stand_still_while_a_pcs_owner_is_there_and_go_on_then() {
    let Some(hosts) = with_dora() else { return };
    let (ann, pc2) = (hosts[0].as_user("ann"), hosts[1].as_root());
    let owned = "accounting = false\n[owner.pc2]\nuser = \"dora\"\nwhen_back = \"suspend\"";
    write_batch(&hosts, owned);
    let dry = ann.run("wiglaf batch setup --dry-run");
    for line in [
        "pc2: let no job begin while dora is there or has been away for less than 15 min; others' jobs that run \
         stand still meanwhile",
        "pc2: start munged, slurmd, wiglaf-owner",
    ] {
        assert!(dry.ok().contains(line), "{dry}");
    }
    set_up(&hosts);
    let again = ann.run("wiglaf batch setup --yes");
    assert!(again.ok().contains("set up already"), "{again}");
    assert_eq!(status(&hosts).status.code(), Some(0), "{}", status(&hosts));

    let state = |id: &str| state(&hosts, id);
    // The ranks on pc2 are no processes of Slurm's.
    let ranks = || {
        let said = pc2.run("ps -eo stat=,args= | grep '/home/shared/[g]o'").stdout;
        said.lines().map(|line| line.starts_with('T')).collect::<Vec<_>>()
    };
    let comes = |until: &str| dora_comes(&hosts, until);
    let touch = |name: &str| touch(&hosts, name);
    let script = |go: &str| {
        format!(
            "export WIGLAF_HOST_LIMIT=2s\n\
             wiglaf run --mpi none -- sh -c 'while [ ! -e /home/shared/{go} ]; do sleep 0.1; done; hostname'"
        )
    };
    let id = submit(&hosts, "stays", &script("go"), "-w pc[1-2] -N 2 -n 2");
    eventually("its rank on pc2 runs", || !ranks().is_empty() && state(&id) == "RUNNING");
    // As a control group that is frozen: nobody is told. It lasts longer than a host may be silent.
    let pc1 = hosts[0].as_root();
    let _ = pc1.run("pkill -STOP -f 'wiglaf [r]un --mpi none'").ok();
    std::thread::sleep(std::time::Duration::from_secs(5));
    let _ = pc1.run("pkill -CONT -f 'wiglaf [r]un --mpi none'").ok();
    assert!(!ranks().is_empty() && state(&id) == "RUNNING", "{:?} {}", ranks(), state(&id));
    let came = std::time::Instant::now();
    let dora = comes("away");
    eventually("the job stands still", || {
        state(&id) == "SUSPENDED"
            && !ranks().is_empty()
            && ranks().into_iter().all(|stopped| stopped)
    });
    // The figure in docs/batch.md; the log in is part of it.
    eprintln!("owner back to job stands still: {:.1} s", came.elapsed().as_secs_f64());
    let told = status(&hosts);
    for line in [
        "pc2 makes way for its owner: dora is there; no job begins there\n",
        &format!("job {id} stands still: the owner of one of its PCs is there"),
    ] {
        assert!(told.ok().contains(line), "{told}");
    }
    // Longer than a host may be silent, as an owner who works.
    std::thread::sleep(std::time::Duration::from_secs(5));
    touch("away");
    eventually("the job goes on", || {
        state(&id) == "RUNNING" && ranks().into_iter().all(|stopped| !stopped)
    });
    touch("go");
    is_over(&hosts, &id);
    let mut said: Vec<String> =
        hosts[0].read("/home/shared/stays.out").lines().map(str::to_owned).collect();
    said.sort_unstable();
    assert_eq!(said, ["pc1", "pc2"]);
    eventually("pc2 is free", || !status(&hosts).ok().contains("its owner"));
    drop(dora);

    // What somebody else has said of the node stays; and without the section all goes on.
    let drain = "sudo scontrol update NodeName=pc2 State=DRAIN Reason=fan";
    let id = submit(&hosts, "more", &script("go-2"), "-w pc2 -N 1 -n 1");
    eventually("it runs", || state(&id) == "RUNNING");
    let _ = ann.run(drain).ok();
    let dora = comes("away-2");
    eventually("the job stands still", || state(&id) == "SUSPENDED");
    write_batch(&hosts, "accounting = false");
    let freed = ann.run("wiglaf batch setup --yes");
    let line = "pc2: let jobs begin whether or not the owner is there";
    assert!(freed.ok().contains(line), "{freed}");
    eventually("the job goes on", || state(&id) == "RUNNING");
    assert!(status(&hosts).stdout.contains("somebody said: fan"), "{}", status(&hosts));
    let watches = || pc2.run("cat /proc/[0-9]*/comm | grep -x wiglaf-owner").stdout;
    eventually("nobody watches", || watches().is_empty());
    touch("go-2");
    touch("away-2");
    is_over(&hosts, &id);
    drop(dora);
    write_batch(&hosts, owned);
    set_up(&hosts);
    assert_eq!(watches(), "wiglaf-owner\n");
    let removed = ann.run("wiglaf batch remove --yes");
    assert!(removed.ok().contains("pc[1-2]: no more batch jobs"), "{removed}");
    assert_eq!(watches(), "");
    let left = pc2.run("find /etc -name '*owner*.json' -o -name 'wiglaf-owner*'");
    assert_eq!(left.ok(), "");
}

#[test]
fn jobs_give_way_or_begin_again_when_the_owner_comes_back_as_the_file_says() {
    let Some(hosts) = with_dora() else { return };
    let (ann, pc2) = (hosts[0].as_user("ann"), hosts[1].as_root());
    let state = |id: &str| state(&hosts, id);
    let touch = |name: &str| touch(&hosts, name);
    let comes = |until: &str| dora_comes(&hosts, until);
    let owned = |what: &str| {
        write_batch(
            &hosts,
            &format!("accounting = false\n[owner.pc2]\nuser = \"dora\"\nwhen_back = \"{what}\""),
        );
        set_up(&hosts);
    };

    owned("nice");
    // The shell of the job, and what it starts later.
    let wait = "while [ ! -e /home/shared/go ]; do sleep 0.1; done";
    let id = submit(&hosts, "gives-way", wait, "-w pc2 -N 1 -n 1");
    eventually("it runs", || state(&id) == "RUNNING");
    let values = || -> Vec<i32> {
        let said = pc2.run(&format!("ps -eo user=,nice=,args= | grep '^ann.*[j]ob0*{id}/'")).stdout;
        said.lines().filter_map(|line| line.split_whitespace().nth(1)?.parse().ok()).collect()
    };
    eventually("its script is found", || values() == [0]);
    let dora = comes("away");
    eventually("it gives way", || values() == [19]);
    assert_eq!(state(&id), "RUNNING");
    touch("away");
    eventually("it is as before", || values() == [0]);
    touch("go");
    is_over(&hosts, &id);
    drop(dora);

    owned("requeue");
    let script =
        "date +%s%N >>/home/shared/begun; while [ ! -e /home/shared/go-2 ]; do sleep 0.1; done";
    let id = submit(&hosts, "again", script, "-w pc2 -N 1 -n 1");
    let begun = || hosts[0].as_root().run("cat /home/shared/begun").stdout.lines().count();
    eventually("it runs", || state(&id) == "RUNNING" && begun() == 1);
    let dora = comes("away-2");
    eventually("it is back in the queue", || state(&id) == "PENDING");
    assert!(status(&hosts).ok().contains("pc2 makes way for its owner"), "{}", status(&hosts));
    touch("away-2");
    // Slurm begins a job again two minutes after it was requeued, unless it is told to.
    // The node is silent for some seconds when it was resumed, which is told, with another status.
    eventually("the owner is away", || {
        let told = status(&hosts).stdout;
        told.contains("slurmctld on pc1") && !told.contains("its owner")
    });
    let _ = ann.run(&format!("scontrol update jobid={id} starttime=now")).ok();
    eventually("it has begun again", || begun() == 2);
    touch("go-2");
    is_over(&hosts, &id);
    drop(dora);
}

/// `WIGLAF_TEST_LMOD` names a folder with Debian's package lmod and those that it needs (`apt-get download`).
#[test]
#[ignore = "by hand: it takes Debian's lmod, which this machine's environment-modules excludes"]
fn hosts_with_lmod_find_wiglafs_modules() {
    let folder = std::env::var("WIGLAF_TEST_LMOD").expect("WIGLAF_TEST_LMOD names no folder");
    let Some(hosts) = joined(&plan(2)) else { return };
    for host in hosts.iter() {
        let packages = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        for package in packages.filter(|path| path.extension().is_some_and(|e| e == "deb")) {
            let name = package.file_name().unwrap().to_string_lossy().into_owned();
            host.copy(&package, &format!("/root/{name}"), 0o644);
        }
        let swap = "dpkg --purge environment-modules && dpkg --install /root/*.deb";
        let _ = host.as_root().run(swap).ok();
    }
    write_batch(&hosts, "accounting = false");
    set_up(&hosts);
    put_program_of(&hosts, "mpicc.openmpi", HELLO);
    for modules in ["wiglaf/openmpi", "tcp/openmpi"] {
        let line = format!("module load {modules} && mpirun /home/ann/hello; module list");
        let said = job(&hosts, "modules", &format!("exec bash -lc '{line}' 2>&1"), "-N 2 -n 2");
        for part in ["rank 0 of 2 on pc1: 1", "rank 1 of 2 on pc2: 1", modules] {
            assert!(said.contains(part), "{modules}: {said}");
        }
    }
    // One of them at a time.
    let both = "module load wiglaf/openmpi; module load tcp/openmpi; module list";
    let said = hosts[0].as_user("ann").run(&format!("bash -lc '{both}' 2>&1")).stdout;
    for part in ["Cannot load module \"tcp/openmpi\"", "1) wiglaf/openmpi"] {
        assert!(said.contains(part), "{said}");
    }
}

/// Holds a lock as systemd-inhibit does, for as long as it runs, and a program with it.
const INHIBIT: &str = r#"#!/bin/sh
while case $1 in --*) true ;; *) false ;; esac; do shift; done
"$@"
"#;

#[test]
fn sleep_is_held_off_while_a_job_runs() {
    let Some(hosts) = joined(&plan(2)) else { return };
    let pc2 = hosts[1].as_root();
    // Stand-ins have no logind.
    let _ = pc2.run("mkdir -p /run/systemd/seats").ok();
    hosts[1].write("/usr/bin/systemd-inhibit", INHIBIT, "root", 0o755);
    set_up(&hosts);
    let held =
        || pc2.run("ps -eo args= | grep -e '[-]-why=batch' -e '[s]leep infinity' | sort").stdout;
    let wait = "while [ ! -e /home/shared/go ]; do sleep 0.1; done";
    let id = submit(&hosts, "waits", wait, "-w pc[1-2] -N 2 -n 2");
    eventually("sleep is held off", || held().lines().count() == 2);
    let line = format!(
        "--what=sleep:idle --mode=block --who=Wiglaf --why=batch job {id} runs sleep infinity\n"
    );
    assert!(held().contains(&line), "{}", held());
    // Neither is it by a process of the job's, which the epilog would list, nor on a host without logind.
    let left = hosts[0]
        .as_root()
        .run("ps -eo args= | grep -e '[-]-why=batch'; ls /run/wiglaf-batch/awake");
    assert_eq!(left.stdout, "");
    hosts[0].write("/home/shared/go", "", "ann", 0o644);
    is_over(&hosts, &id);
    eventually("nothing holds it", || held().is_empty());
    assert_eq!(pc2.run("ls /run/wiglaf-batch/awake").ok(), "");
    assert_eq!(pc2.run("cat /var/log/slurm/wiglaf-epilog.log").stdout, "");
}

/// Stands for a PC that sleeps: what Slurm and Wiglaf run there stands still until a magic packet comes for its card.
const SLEEPER: &str = r#"#!/usr/bin/python3
import os, signal, socket, subprocess, sys
if sys.argv[1:2] != ["suspend"]:
    sys.exit(1)
links = subprocess.run(["ip", "-o", "link", "show", "dev", "@card@"], capture_output=True, text=True).stdout
card = bytes.fromhex(links.split("link/ether ")[1].split()[0].replace(":", ""))
wake = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
wake.bind(("", 9))
if os.fork():
    sys.exit(0)
os.setsid()
for number in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), number)
def all(number):
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if open(f"/proc/{pid}/comm").read().strip() in ("slurmd", "wiglaf-owner"):
                os.kill(int(pid), number)
        except OSError:
            pass
all(signal.SIGSTOP)
open("/run/asleep", "w").close()
while wake.recv(2000) != b"\xff" * 6 + card * 16:
    pass
os.rename("/run/asleep", "/run/woken")
all(signal.SIGCONT)
"#;

#[test]
fn pc_without_jobs_sleeps_and_a_job_wakes_it() {
    let plan = plan(2);
    let Some(hosts) = joined(&plan) else { return };
    let (ann, pc2) = (hosts[0].as_user("ann"), hosts[1].as_root());
    let before: Vec<String> = hosts.iter().map(listing).collect();
    let sleeper = SLEEPER.replace("@card@", &plan.hosts[1].data.interface);
    let systemctl = "test -e /usr/bin/systemctl && cp -p /usr/bin/systemctl /root/systemctl";
    let _ = pc2.run(systemctl);
    write_batch(&hosts, "accounting = false\nsleep = { nodes = \"pc2\", after = \"30min\" }");
    let dry = ann.run("wiglaf batch setup --dry-run");
    for line in [
        "pc1: have pc2 sleep when no job has run there for 30 min, and wake them for jobs (/etc/wiglaf/batch/sleep.json",
        "pc2: go to sleep when Slurm says so and nobody is logged in (/etc/wiglaf/batch/owner.json)",
        "pc2: start munged, slurmd, wiglaf-owner",
    ] {
        assert!(dry.ok().contains(line), "{line}: {dry}");
    }
    set_up(&hosts);
    let again = ann.run("wiglaf batch setup --yes");
    assert!(again.ok().contains("set up already"), "{again}");
    hosts[1].write("/usr/bin/systemctl", sleeper, "root", 0o755);
    let conf = hosts[0].read("/etc/slurm/slurm.conf");
    assert!(conf.contains("\nSuspendTime=1800\nSuspendExcNodes=pc1\n"), "{conf}");
    // As if half an hour were over.
    let _ = ann.run("sudo scontrol update NodeName=pc2 State=POWER_DOWN_ASAP").ok();
    eventually("pc2 sleeps", || pc2.run("test -e /run/asleep").status.success());
    eventually("Slurm knows", || ann.run("sinfo -h -n pc2 -o %T").stdout.trim() == "idle~");
    let told = status(&hosts);
    assert!(told.ok().contains("asleep"), "{told}");
    let said = job(&hosts, "wakes", "srun hostname", "-w pc2 -N 1 -n 1");
    assert_eq!(said, "pc2\n");
    assert!(pc2.run("test -e /run/woken").status.success());
    eventually("pc2 is awake", || ann.run("sinfo -h -n pc2 -o %T").stdout.trim() == "idle");
    let removed = ann.run("wiglaf batch remove --yes");
    assert!(removed.ok().contains("pc[1-2]: no more batch jobs"), "{removed}");
    let _ =
        pc2.run("test -e /root/systemctl && mv /root/systemctl /usr/bin/ || rm /usr/bin/systemctl");
    for (host, before) in hosts.iter().zip(&before) {
        assert_same(before, &listing(host), host.name());
    }
}

/// What ipmi_sim calls: `power` is whether the host has power. The test is the host's power supply.
const CHASSIS: &str = "#!/bin/sh\naction=$2; shift 2\nwhile [ $# -gt 0 ]; do case $action-$1 in\n\
    get-power) echo power:$(cat /run/bmc/power); shift;;\nget-*) echo $1:none; shift;;\n\
    set-power) echo $2 >/run/bmc/power; echo $2 >>/run/bmc/calls; shift 2;;\n*) shift 2;;\nesac; done\n";

/// What units would start with the host.
const DAEMONS: &str = "mkdir -p /run/munge && chown munge: /run/munge && \
    setpriv --reuid=munge --regid=munge --init-groups munged && \
    slurmd --conf-server 192.168.77.1:6817 -N pc2";

#[test]
fn host_that_hangs_is_switched_off_and_on_once_and_takes_jobs_when_it_is_well() {
    if !Path::new("/usr/bin/ipmi_sim").exists() || !Path::new("/usr/sbin/ipmipower").exists() {
        eprintln!("skipped: openipmi or freeipmi-tools is missing; run: cargo xtask packages test");
        return;
    }
    let Some(hosts) = joined(&plan(2)) else { return };
    let (ann, pc1, pc2) = (hosts[0].as_user("ann"), hosts[0].as_root(), hosts[1].as_root());
    write_batch(&hosts, "accounting = false\ncycle = true");
    let without = ann.run("wiglaf batch setup --yes");
    assert!(sentence(&without).contains("no host but the head has a BMC"), "{without}");

    let auth = "none md2 md5 straight";
    let conf = format!(
        "name \"pc2\"\nset_working_mc 0x20\nstartlan 1\naddr 127.0.0.1 9623\npriv_limit admin\n\
         allowed_auths_callback {auth}\nallowed_auths_user {auth}\nallowed_auths_operator {auth}\n\
         allowed_auths_admin {auth}\nguid a123456789abcdefa123456789abcdef\nendlan\n\
         chassis_control \"/root/chassis pc2\"\nuser 2 true \"admin\" \"secret\" admin 10 {auth}\n"
    );
    hosts[0].write("/root/chassis", CHASSIS, "root", 0o755);
    hosts[0].write("/root/bmc.conf", conf, "root", 0o644);
    let emu =
        "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02\nmc_enable 0x20\n";
    hosts[0].write("/root/bmc.emu", emu, "root", 0o644);
    let power = "mkdir -p /run/bmc /root/bmc && echo 1 >/run/bmc/power && : >/run/bmc/calls";
    let _ = pc1.run(power).ok();
    let _bmc = pc1.start("ipmi_sim -n -c /root/bmc.conf -f /root/bmc.emu -s /root/bmc");
    hosts[0].write("/home/ann/.config/wiglaf/bmc.password", "secret\n", "ann", 0o600);
    let node = "[node.pc2]\npower = { kind = \"ipmi\", address = \"127.0.0.1\", port = 9623, user = \"admin\", \
                password_file = \"bmc.password\" }\n";
    let file = hosts[0].read(FILE);
    assert!(file.contains("[node.pc2]\n"), "{file}");
    hosts[0].write(FILE, file.replace("[node.pc2]\n", node), "ann", 0o644);
    eventually("the BMC answers", || ann.run("wiglaf power status -w pc2").status.success());
    let dry = ann.run("wiglaf batch setup --dry-run");
    assert!(
        dry.ok().contains("pc1: switch pc2 off and on, once a day at most, when they hang"),
        "{dry}"
    );
    set_up(&hosts);

    let slurm = || ann.run("sinfo -h -n pc2 -o '%T|%E'").stdout.trim().to_owned();
    let calls = || pc1.run("cat /run/bmc/calls").stdout.split_whitespace().collect::<String>();
    // As slurmctld says it after a minute of silence.
    let silent = "sudo scontrol update NodeName=pc2 State=DOWN Reason='Not responding'";
    let log = || pc1.run("cat /var/log/slurm/wiglaf-owner.log").stdout;

    // One that its user has switched off is not switched on.
    let _ = pc1.run("echo 0 >/run/bmc/power").ok();
    hosts[1].cut();
    let _ = ann.run(silent).ok();
    eventually("it was looked at", || pc1.run("cat /run/wiglaf-batch/cycled.json").stdout == "{}");
    assert!(slurm().starts_with("down") && slurm().ends_with("Not responding"), "{}", slurm());
    assert_eq!(calls(), "");
    let _ = pc1.run("echo 1 >/run/bmc/power").ok();
    hosts[1].restore();
    let _ = ann.run("sudo scontrol update NodeName=pc2 State=RESUME").ok();
    eventually("it is well", || slurm().starts_with("idle|"));

    // One that hangs is, and is not well afterwards.
    let settings = hosts[1].read("/etc/wiglaf/batch/node.json");
    let more = settings.replace("\"memory_mib\": ", "\"memory_mib\": 9");
    assert_ne!(more, settings);
    hosts[1].write("/etc/wiglaf/batch/node.json", more, "root", 0o644);
    // The service asks Slurm every ten seconds, and must have seen that it is well.
    std::thread::sleep(std::time::Duration::from_secs(11));
    hosts[1].cut();
    let _ = ann.run(silent).ok();
    eventually("its power is cut", || calls().starts_with('0'));
    let reason = "wiglaf: it hung and was switched off and on";
    assert!(slurm().starts_with("drain") && slurm().ends_with(reason), "{} {}", slurm(), log());
    hosts[1].power_off();
    eventually("it has power again", || calls() == "01");
    hosts[1].restore();
    hosts[1].power_on().unwrap();
    let _ = pc2.run(DAEMONS).ok();
    eventually("it says why it takes no jobs", || slurm().contains("on: it has "));
    let told = status(&hosts);
    let line = "pc2 takes no jobs: it hung and was switched off and on: it has ";
    assert!(told.stdout.contains(line) && told.stdout.contains("State=RESUME"), "{told}");

    // It takes jobs as soon as it is well.
    hosts[1].write("/etc/wiglaf/batch/node.json", settings, "root", 0o644);
    let _ = pc2.run("/etc/wiglaf/batch/look").ok();
    eventually("it takes jobs", || slurm().starts_with("idle|"));
    assert_eq!(job(&hosts, "well", "hostname", "-w pc2 -N 1 -n 1"), "pc2\n");

    // A second time it is left to people.
    hosts[1].cut();
    let _ = ann.run(silent).ok();
    eventually("it is left", || slurm().contains("hangs again"));
    assert_eq!(calls(), "01", "{}", log());
    hosts[1].restore();
    let _ = ann.run("sudo scontrol update NodeName=pc2 State=RESUME").ok();
    eventually("it is well", || slurm().starts_with("idle|"));

    // Too hot at two looks in turn.
    hosts[1].show_sensor(91, 90);
    let _ = pc2.run("/etc/wiglaf/batch/look").ok();
    assert!(slurm().starts_with("idle|"), "{}", slurm());
    let _ = pc2.run("/etc/wiglaf/batch/look").ok();
    let hot = "wiglaf: coretemp temp1 is at 91 degrees, and its limit is 90; see to its fans and its room";
    assert!(slurm().starts_with("drain") && slurm().ends_with(hot), "{}", slurm());
    write_batch(&hosts, "accounting = false");
    let done = ann.run("wiglaf batch setup --yes");
    assert!(done.status.success(), "{done}");
    eventually("nobody watches", || pc1.run("cat /run/wiglaf-owner.pid").stdout.is_empty());
}
