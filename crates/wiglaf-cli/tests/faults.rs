//! A faulty wire: the faults are real, and MPI programs over Wiglaf do not
//! notice them.

mod common;

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use common::{Site, eventually, has_openmpi};

/// Programs that check all that they receive, from the provider's tests.
const PROGRAMS: [&str; 3] = ["exchange", "sizes", "unordered"];
const ADDRESS_2: &str = "10.77.0.2";

impl Site {
    fn fault(&self, args: &[&str]) {
        self.wiglaf(&[&["fault"], args].concat()).expect_success();
    }

    /// How many of the frames that node1 sent met `what`.
    fn count(&self, what: &str) -> u64 {
        let said = self.wiglaf(&["fault", "show", "node1", "--json"]).expect_success();
        let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        report[0]["from"]["counts"][what].as_u64().unwrap()
    }

    /// How many of ten pings from node1 to node2 are answered, and how often.
    fn pings(&self) -> (usize, usize) {
        let script = format!("ping -n -c 10 -i 0.01 -W 1 {ADDRESS_2} || true");
        let text = self.sh("node1", &script);
        let answers = text.lines().filter(|line| line.contains("icmp_seq="));
        let (again, first): (Vec<_>, Vec<_>) = answers.partition(|line| line.contains("DUP!"));
        (first.len(), again.len())
    }

    /// The program runs over `link` and finds all in order.
    #[track_caller]
    fn passes(&self, program: &str, link: &str) {
        let program = format!("./{program}");
        let said = self.wiglaf(&["run", "--link", link, "-n", "2", "--", &program]);
        let said = said.expect_success();
        assert!(said.stdout.lines().any(|line| line == "passed"), "{said:?}");
    }
}

#[test]
fn frames_meet_the_faults_that_are_set() {
    let Some(site) = Site::up(&[]) else { return };
    if Command::new("ping").arg("-V").output().is_err() {
        eprintln!("skipped: ping is not installed (iputils-ping)");
        return;
    }
    assert_eq!(site.pings(), (10, 0));

    site.fault(&["set", "node1", "--from", "--drop", "100%"]);
    assert_eq!(site.pings(), (0, 0));
    assert_eq!((site.count("frames"), site.count("dropped")), (10, 10));

    site.fault(&["set", "node1", "--from", "--duplicate", "100%"]);
    // ping leaves at the tenth answer and does not see it doubled.
    let (answers, again) = site.pings();
    assert!(answers == 10 && again >= 9, "{answers} {again}");
    assert_eq!(site.count("duplicated"), 10);

    site.fault(&["set", "node1", "--from", "--reorder", "100%", "--hold", "1us"]);
    assert_eq!(site.pings(), (10, 0));
    assert_eq!(site.count("reordered"), 10);

    // The checksums of IPv4 and ICMP cover all bits behind the Ethernet header.
    site.fault(&["set", "node1", "--from", "--corrupt", "100%"]);
    assert_eq!(site.pings(), (0, 0));
    assert_eq!(site.count("corrupted"), 10);

    site.fault(&["set", "node1", "--down"]);
    assert_eq!(site.pings(), (0, 0));

    site.fault(&["clear"]);
    eventually("a sound wire", || site.pings() == (10, 0));
}

#[test]
fn mpi_programs_do_not_notice() {
    let Some(site) = Site::up(&[]) else { return };
    if !has_openmpi() {
        return;
    }
    PROGRAMS.iter().for_each(|program| site.compile(program));
    for faults in [
        &["--drop", "1%"][..],
        &["--drop", "5%", "--duplicate", "5%", "--reorder", "5%"],
        &["--corrupt", "2%"],
    ] {
        site.fault(&[&["set"], faults].concat());
        for link in ["udp", "packet", "xdp"] {
            PROGRAMS.iter().for_each(|program| site.passes(program, link));
        }
        let hit: u64 = ["dropped", "duplicated", "reordered", "corrupted"]
            .iter()
            .map(|what| site.count(what))
            .sum();
        assert!(hit > 0, "no frame met {faults:?}");
    }
}

#[test]
fn mpi_programs_outlive_a_flapping_link() {
    let Some(site) = Site::up(&[]) else { return };
    if !has_openmpi() {
        return;
    }
    site.compile("sizes");
    for link in ["udp", "packet", "xdp"] {
        let done = AtomicBool::new(false);
        let flaps = thread::scope(|scope| {
            let flapping = scope.spawn(|| {
                let mut flaps = 0;
                // Not while the launcher's daemons call home: Open MPI gives such a connection up.
                let runs = || !site.sh("node2", "pgrep -x sizes || true").is_empty();
                eventually("its ranks run", || done.load(Ordering::Relaxed) || runs());
                while !done.load(Ordering::Relaxed) {
                    site.fault(&["set", "node2", "--down"]);
                    thread::sleep(Duration::from_millis(30));
                    site.fault(&["clear"]);
                    thread::sleep(Duration::from_millis(30));
                    flaps += 1;
                }
                flaps
            });
            // The scope waits for the thread, whatever becomes of the program.
            let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                site.passes("sizes", link);
            }));
            done.store(true, Ordering::Relaxed);
            let flaps = flapping.join().unwrap();
            outcome.map(|()| flaps)
        });
        assert!(flaps.unwrap_or_else(|panic| std::panic::resume_unwind(panic)) > 2);
    }
}

#[test]
fn refusals_are_one_sentence() {
    let Some(site) = Site::up(&["--wire", "direct"]) else { return };
    site.wiglaf(&["fault", "set", "--drop", "1%"])
        .expect_sentence(1, "a direct wire has no switch");
    site.wiglaf(&["fault", "set"]).expect_sentence(1, "there is no fault to set");
    site.wiglaf(&["fault", "set", "--drop", "2"]).expect_sentence(2, "for 2 percent write 2%");
    site.wiglaf(&["--name", "none-such", "--state", "/nonexistent/x", "fault", "show"])
        .expect_sentence(1, "no cluster is up");
}
