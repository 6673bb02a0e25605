//! A node's init serves everybody: what one user does to it must not be felt by others.

mod common;

use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::{Said, Site, eventually};

const NOBODY: &str = "65534";
/// Only turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(15);

impl Site {
    /// `wiglaf` on node1 as nobody.
    fn as_nobody(&self, args: &[&str]) -> Command {
        let them = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"];
        self.command(&[&["exec", "-w", "node1", "--"], &them[..], &["wiglaf"], args].concat())
    }

    /// Whether root's command on node1 ends in time.
    fn serves_root(&self) -> bool {
        let mut command = self.command(&["exec", "-w", "node1", "--", "true"]);
        let mut child = command.stderr(Stdio::null()).spawn().unwrap();
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if let Some(status) = child.try_wait().unwrap() {
                return status.success();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        false
    }

    /// A process of node1's init that is nobody's and not yet another program.
    fn one_that_starts(&self) -> Option<String> {
        let mark = self.state().display().to_string();
        let pids =
            fs::read_dir("/proc").unwrap().filter_map(|e| e.ok()?.file_name().into_string().ok());
        pids.filter(|pid| pid.bytes().all(|b| b.is_ascii_digit())).find(|pid| {
            let read =
                |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            read("status").contains(&format!("Uid:\t{NOBODY}\t{NOBODY}"))
                && read("cmdline").contains(&mark)
                && read("cmdline").contains("node-init")
        })
    }
}

#[test]
fn a_start_that_its_user_stops_keeps_nobody_waiting() {
    let Some(site) = Site::up(&[]) else { return };
    // The program is looked for, as its user, in 60000 folders: time to stop it.
    let path = "a:".repeat(60_000);
    let start = || -> Child {
        let set = format!("PATH={path}");
        let mut command = site.command(&["exec", "-w", "node1", "--", "setpriv"]);
        command.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"]);
        // The client is found by its whole path, and gives its own PATH to its command.
        command.args(["env", &set, "/usr/bin/wiglaf", "exec", "-w", "node1", "--", "true"]);
        command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let mut stopped = None;
    eventually("a start was stopped", || {
        let mut child = start();
        while child.try_wait().unwrap().is_none() {
            let Some(pid) = site.one_that_starts() else { continue };
            // As its user could: it is theirs already.
            let _ = Command::new("kill").args(["-STOP", &pid]).stderr(Stdio::null()).status();
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            if site.one_that_starts().as_ref() == Some(&pid) && stat.contains(") T ") {
                stopped = Some((child, pid));
                return true;
            }
        }
        false
    });
    let (child, pid) = stopped.unwrap();
    let served = site.serves_root() && site.wiglaf(&["reset", "-w", "node1"]).status == Some(0);
    if !served {
        let _ = Command::new("kill").args(["-KILL", &pid]).status();
    }
    assert!(served, "root waits for another's start");
    // It is not waited for without end either.
    let said: Said = child.wait_with_output().unwrap().into();
    assert!(said.status != Some(0) && said.stderr.contains("did not start"), "{said:?}");
    assert_eq!(site.strays(), 0);
}

#[test]
fn commands_have_no_key_of_whoever_brought_the_cluster_up() {
    if Command::new("keyctl").arg("--version").output().is_err() {
        eprintln!("skipped: keyctl is not installed (keyutils)");
        return;
    }
    if let Some(reason) = common::why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    let site = Site::new();
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    let script = "keyctl add user wiglaf-test secret @s > /dev/null && \
                  keyctl search @s user wiglaf-test && exec \"$0\" up";
    let args = ["session", "-", "sh", "-c", script, exe];
    let mut session = site.started_by(Command::new("keyctl"), &args);
    let said: Said = session.output().unwrap().into();
    if said.stderr.contains("Operation not permitted") {
        eprintln!("skipped: keys are not permitted here");
        return;
    }
    let said = said.expect_success();
    let key = said.stdout.lines().next().unwrap().to_owned();
    let search = "keyctl search @s user wiglaf-test";
    for mut command in [
        site.command(&["exec", "-w", "node1", "--", "sh", "-c", search]),
        site.as_nobody(&["exec", "-w", "node1", "--", "sh", "-c", search]),
        site.as_nobody(&["exec", "-w", "node1", "--", "keyctl", "print", &key]),
    ] {
        let said: Said = command.output().unwrap().into();
        assert!(said.status != Some(0) && !said.stdout.contains("secret"), "{said:?}");
    }
    // Nor do they share one with each other.
    let add = "keyctl add user mine x @s";
    let said = site.as_nobody(&["exec", "-w", "node1", "--", "sh", "-c", add]).output().unwrap();
    Said::from(said).expect_success();
    let theirs = "keyctl search @s user mine";
    let said: Said =
        site.as_nobody(&["exec", "-w", "node1", "--", "sh", "-c", theirs]).output().unwrap().into();
    assert!(said.status != Some(0), "{said:?}");
}

#[test]
fn connections_of_one_user_are_bounded_and_root_gets_in() {
    if let Some(reason) = common::why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    let site = Site::new();
    // An init with few descriptors, so that few connections are too many.
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    let mut limited = site.started_by(Command::new("prlimit"), &["--nofile=400:400", exe, "up"]);
    Said::from(limited.output().unwrap()).expect_success();
    // Asks for nothing whole on as many connections as it gets.
    let script = "\
import socket, sys, time
held = []
for _ in range(900):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(2)
    try:
        s.connect(sys.argv[1])
    except OSError:
        break
    held.append(s)
    s.settimeout(None)
print('held', flush=True)
time.sleep(1000)
";
    fs::write(site.work().join("hold.py"), script).unwrap();
    let socket = site.state().join("nodes/node1/exec.sock");
    let mut them = Command::new("setpriv");
    them.args(["--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "/usr/bin/python3"]);
    them.arg(site.work().join("hold.py")).arg(socket);
    let mut holder = them.stdout(Stdio::piped()).spawn().unwrap();
    let mut line = [0; 4];
    holder.stdout.as_mut().unwrap().read_exact(&mut line).unwrap();
    let served = site.serves_root();
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(served, "root is not served beside another's connections");
}

#[test]
fn who_says_nothing_is_not_waited_for() {
    let Some(site) = Site::up(&[]) else { return };
    let connect = || UnixStream::connect(site.state().join("nodes/node1/exec.sock")).unwrap();
    let mut silent = connect();
    let mut half = connect();
    half.write_all(&[200, 0]).unwrap();
    for stream in [&mut silent, &mut half] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert_eq!(stream.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn clients_that_go_are_not_worth_a_line() {
    let Some(site) = Site::up(&[]) else { return };
    let node = site.state().join("nodes/node1");
    let request = b"\x07\0\0\0\"Hello\"";
    for _ in 0..100 {
        UnixStream::connect(node.join("exec.sock")).unwrap().write_all(request).unwrap();
    }
    // It has dealt with these when it has dealt with one more a hundred times over.
    for _ in 0..10 {
        assert!(site.serves_root());
    }
    assert_eq!(fs::read_to_string(node.join("log")).unwrap(), "");
}
