//! A real job's datagrams are recorded, and tshark reads them with our dissector.

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::tshark::{expect_well_formed, has_tshark, set, tshark};
use common::{Site, eventually, has_openmpi};

/// Messages of all kinds: short, of several datagrams, long; then good-byes.
const PROGRAM: &str = r#"
#include <mpi.h>
#include <stdio.h>
#include <unistd.h>
static char buffer[300000];
int main(void) {
    MPI_Init(0, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    int lengths[] = {8, 5000, 300000, 300000}, rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    fclose(fopen("ready", "w"));
    for (int go = 0; !go;) {
        usleep(1000); // else more is sent than can be recorded
        go = access("go", F_OK) == 0;
        MPI_Bcast(&go, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    for (int i = 0; i < 4; i++)
        MPI_Sendrecv_replace(buffer, lengths[i], MPI_CHAR, 1 - rank, 7, 1 - rank, 7, MPI_COMM_WORLD,
                             MPI_STATUS_IGNORE);
    MPI_Finalize();
    return 0;
}
"#;

/// Changes the last byte of the first bulk segment in the file; says which frame it was in.
fn damage(file: &Path) -> usize {
    let mut bytes = fs::read(file).unwrap();
    let (mut at, mut frame) = (0, 0);
    while at < bytes.len() {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize;
        let (kind, len) = (word(at), word(at + 4));
        if kind == 6 {
            frame += 1;
            let (start, frame_len) = (at + 28, word(at + 20));
            if bytes[start + 42 + 2] == 2 {
                bytes[start + frame_len - 1] ^= 1;
                fs::write(file, bytes).unwrap();
                return frame;
            }
        }
        at += len;
    }
    panic!("no bulk segment was recorded");
}

#[test]
fn a_real_job_is_recorded_and_tshark_names_every_field() {
    if !has_tshark() || !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    fs::write(site.work().join("p.c"), PROGRAM).unwrap();
    let cc = Command::new("mpicc").args(["-o", "p", "p.c"]).current_dir(site.work()).status();
    assert!(cc.unwrap().success());

    let mut job = site.command(&["run", "--", "./p"]).spawn().unwrap();
    eventually("the job has begun", || site.work().join("ready").exists());
    eventually("it can be seen", || site.wiglaf(&["stats"]).stdout.contains("1 node2"));
    let file = site.work().join("job.pcapng");
    let mut capture =
        site.interruptible(&["capture", "-w", "job.pcapng"]).stderr(Stdio::null()).spawn().unwrap();
    eventually("frames are recorded", || fs::metadata(&file).is_ok_and(|m| m.len() > 10_000));
    fs::write(site.work().join("go"), "").unwrap();
    assert!(job.wait().unwrap().success());
    Command::new("kill").args(["-INT", &capture.id().to_string()]).status().unwrap();
    assert!(capture.wait().unwrap().success());

    let all = tshark(&file, "frame", "wiglaf.kind").len();
    assert_eq!(tshark(&file, "wiglaf.checksum.status == 1", "frame.number").len(), all);
    expect_well_formed(&file);
    let kinds = set(tshark(&file, "wiglaf", "wiglaf.kind"));
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), ["1", "2", "3"]);
    let types = set(tshark(&file, "wiglaf", "wiglaf.record.type"));
    for (code, name) in [
        (1, "MESSAGE"),
        (2, "FIRST"),
        (3, "NEXT"),
        (4, "REQUEST"),
        (5, "PULL"),
        (6, "CLOSE"),
        (7, "PADDING"),
        (0x10, "ACK"),
    ] {
        assert!(types.contains(&format!("0x{code:02x}")), "no {name}: {types:?}");
    }
    // The message of 300,000 bytes was announced by both, pulled and came whole; a packet may have
    // been sent again, and short messages may share it.
    for what in ["record.type == 4 and wiglaf.total", "record.type == 5 and wiglaf.pull.length"] {
        let from = set(tshark(&file, &format!("wiglaf.{what} == 300000"), "ip.src"));
        assert_eq!(from.into_iter().collect::<Vec<_>>(), ["10.77.0.1", "10.77.0.2"], "{what}");
    }
    for node in 1..=2 {
        let from = format!("wiglaf.kind == 2 and ip.src == 10.77.0.{node} and wiglaf.transfer_id");
        let lens = tshark(&file, &from, "wiglaf.payload.length");
        let sum: u64 = lens.iter().map(|len| len.parse::<u64>().unwrap()).sum();
        assert!(sum >= 300_000, "{sum} bytes from node{node}");
    }
    // Of the second, the first train went with its announcement.
    let unasked = "wiglaf.unasked == 1 and wiglaf.send_id";
    let from = set(tshark(&file, unasked, "ip.src"));
    assert_eq!(from.into_iter().collect::<Vec<_>>(), ["10.77.0.1", "10.77.0.2"]);
    assert!(!tshark(&file, "wiglaf.unasked.length > 8000", "frame.number").is_empty());
    // Frames say between which ranks they went, and where they were seen.
    let comments = set(tshark(&file, "wiglaf", "frame.comment"));
    assert!(comments.contains("rank 0 on node1 to rank 1 on node2"), "{comments:?}");
    let seen_at = set(tshark(&file, "wiglaf", "frame.interface_name"));
    assert_eq!(seen_at.into_iter().collect::<Vec<_>>(), ["node1", "node2"]);

    // The dissector notices what is damaged.
    let frame = damage(&file);
    let bad = tshark(&file, "wiglaf.checksum.bad", "frame.number");
    assert_eq!(bad, [frame.to_string()]);
}

/// A recording in pcap's format with one well-formed datagram of ours to each port, and one from it.
fn datagrams_at(ports: &[u16]) -> Vec<u8> {
    const OTHER_PORT: u16 = 50_001;
    // A header, and padding of 4 bytes behind it.
    let mut datagram = [0_u8; 48 + 8];
    datagram[..3].copy_from_slice(&[0x57, 1, 1]);
    datagram[48..50].copy_from_slice(&[7, 0]);
    datagram[50..52].copy_from_slice(&4_u16.to_le_bytes());
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 2 | 4 << 16, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (from, to) in ports.iter().flat_map(|port| [(OTHER_PORT, *port), (*port, OTHER_PORT)]) {
        let mut frame = vec![2; 12];
        frame.extend([8, 0, 0x45, 0, 0, 20 + 8 + 56, 0, 0, 0, 0, 64, 17, 0, 0]);
        frame.extend([10, 77, 0, 1, 10, 77, 0, 2]);
        for half in [from, to, 8 + 56, 0] {
            frame.extend(half.to_be_bytes());
        }
        frame.extend(datagram);
        for word in [0, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// Ranks get any port of the ephemeral range, and Wireshark's tables give some of these to others.
#[test]
fn datagrams_at_ports_of_other_protocols_are_dissected_as_wiglaf() {
    if !has_tshark() {
        return;
    }
    let tables = Command::new("tshark").args(["-G", "decodes"]).output().unwrap();
    let tables = String::from_utf8_lossy(&tables.stdout).into_owned();
    let ports =
        tables.lines().filter_map(|line| line.strip_prefix("udp.port\t")?.split('\t').next());
    let ports: Vec<u16> =
        ports.filter_map(|port| port.parse().ok()).filter(|p| *p > 1023).collect();
    assert!(ports.iter().any(|port| *port >= 32_768), "none is in the ephemeral range: {ports:?}");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ports.pcap");
    fs::write(&file, datagrams_at(&ports)).unwrap();
    assert_eq!(tshark(&file, "wiglaf.kind == 1", "frame.number").len(), 2 * ports.len());
    assert_eq!(tshark(&file, "not wiglaf", "udp.port"), [""; 0]);
}

#[test]
fn what_cannot_be_recorded_is_said_in_a_sentence() {
    let site = Site::new();
    site.wiglaf(&["capture", "-w", "x"]).expect_sentence(1, "no cluster is up");
    let Some(site) = Site::up(&["--wire", "direct"]) else { return };
    site.wiglaf(&["capture", "-w", "/no/such/x", "--for", "0"])
        .expect_sentence(1, "cannot write /no/such/x");
    let said = site.wiglaf(&["capture", "-w", "x", "--for", "0"]).expect_success();
    assert!(said.stderr.contains("0 datagrams recorded, 0 missed"), "{said:?}");
}
