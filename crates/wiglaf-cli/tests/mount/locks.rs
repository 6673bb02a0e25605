//! Locks of programs that use one mount, whether the file's node keeps them or, with `--local-locks`, the
//! mount's own machine.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use crate::common::Guarded;
use crate::{Mount, site};

/// Who keeps the locks.
const KEEPERS: [&[&str]; 2] = [&[], &["--local-locks"]];

/// `python3 -c LOCK flock|lockf FILE what to do`.
const LOCK: &str = "
import fcntl, os, sys
lock = getattr(fcntl, sys.argv[1])
f = open(sys.argv[2], 'r+b', 0)
if sys.argv[3] == 'try':
    try:
        lock(f, getattr(fcntl, sys.argv[4]) | fcntl.LOCK_NB, *map(int, sys.argv[5:]))
        print('has it')
    except BlockingIOError:
        print('refused')
elif sys.argv[3] == 'hold':
    lock(f, getattr(fcntl, sys.argv[4]), *map(int, sys.argv[5:]))
    print('has it', flush=True)
    sys.stdin.read()
else:
    print('ready', flush=True)
    sys.stdin.readline()
    for _ in range(int(sys.argv[4])):
        lock(f, fcntl.LOCK_EX)
        n = int(os.pread(f.fileno(), 20, 0))
        os.pwrite(f.fileno(), b'%d' % (n + 1), 0)
        lock(f, fcntl.LOCK_UN)
";

fn python(kind: &str, file: &Path, words: &[&str]) -> Command {
    let mut python = Command::new("python3");
    python.args(["-c", LOCK, kind]).arg(file).args(words);
    python.stdin(Stdio::piped()).stdout(Stdio::piped());
    python
}

/// Whether a process of its own gets a lock at once.
fn gets(kind: &str, file: &Path, words: &[&str]) -> bool {
    let out = python(kind, file, &[&["try"], words].concat()).output().unwrap();
    match String::from_utf8_lossy(&out.stdout).trim() {
        "has it" => true,
        "refused" => false,
        _ => panic!("{kind} {words:?}: {out:?}"),
    }
}

/// A process, once it has said its first line.
fn once_it_says(line: &str, mut command: Command) -> Guarded {
    let mut child = Guarded(command.spawn().unwrap());
    assert_eq!(next_line(&mut child.0), line);
    child
}

fn next_line(child: &mut Child) -> String {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    line.trim().to_owned()
}

pub(crate) fn has_python() -> bool {
    let found = Command::new("python3").arg("--version").output().is_ok();
    if !found {
        println!("skipped: there is no python3");
    }
    found
}

#[test]
fn a_lock_of_one_process_keeps_another_out() {
    let Some(site) = site() else { return };
    if !has_python() {
        return;
    }
    for keeper in KEEPERS {
        let mut mount = Mount::new(&site, "node2:/scratch", keeper);
        let file = mount.path("f");
        fs::write(&file, "0").unwrap();
        for kind in ["flock", "lockf"] {
            assert!(gets(kind, &file, &["LOCK_EX"]), "{kind}: nobody has it");
            let mut holder = once_it_says("has it", python(kind, &file, &["hold", "LOCK_EX"]));
            assert!(!gets(kind, &file, &["LOCK_EX"]), "{kind}: another has it");
            assert!(!gets(kind, &file, &["LOCK_SH"]), "{kind}: another has it alone");
            // Who waits for it has it when the holder is killed.
            let mut waiter = Guarded(python(kind, &file, &["hold", "LOCK_EX"]).spawn().unwrap());
            holder.0.kill().unwrap();
            holder.0.wait().unwrap();
            assert_eq!(next_line(&mut waiter.0), "has it");
            assert!(!gets(kind, &file, &["LOCK_EX"]), "{kind}: who waited has it");
            drop(waiter.0.stdin.take());
            assert!(waiter.0.wait().unwrap().success());
            let shared = once_it_says("has it", python(kind, &file, &["hold", "LOCK_SH"]));
            assert!(gets(kind, &file, &["LOCK_SH"]), "{kind}: it is shared");
            assert!(!gets(kind, &file, &["LOCK_EX"]), "{kind}: another shares it");
            drop(shared);
        }
        // Records of a file: as many bytes, from there on.
        let held = once_it_says("has it", python("lockf", &file, &["hold", "LOCK_EX", "10", "5"]));
        assert!(gets("lockf", &file, &["LOCK_EX", "5", "0"]), "before the record");
        assert!(!gets("lockf", &file, &["LOCK_EX", "1", "14"]), "the record's last byte");
        assert!(gets("lockf", &file, &["LOCK_EX", "1", "15"]), "behind the record");
        drop(held);
        mount.umount();
    }
}

#[test]
fn what_two_processes_count_under_a_lock_is_all_there() {
    const TIMES: usize = 1000;
    let Some(site) = site() else { return };
    if !has_python() {
        return;
    }
    for keeper in KEEPERS {
        let mut mount = Mount::new(&site, "node2:/scratch", keeper);
        let file = mount.path("count");
        for kind in ["flock", "lockf"] {
            fs::write(&file, "0").unwrap();
            let count = ["count", &TIMES.to_string()];
            let mut both = [(); 2].map(|()| once_it_says("ready", python(kind, &file, &count)));
            for child in &mut both {
                child.0.stdin.take().unwrap().write_all(b"go\n").unwrap();
            }
            for mut child in both {
                assert!(child.0.wait().unwrap().success());
            }
            assert_eq!(fs::read_to_string(&file).unwrap(), (2 * TIMES).to_string(), "{kind}");
        }
        mount.umount();
    }
}

#[test]
fn two_databases_on_one_file_lose_nothing() {
    const ROWS: usize = 50;
    let Some(site) = site() else { return };
    if Command::new("sqlite3").arg("--version").output().is_err() {
        println!("skipped: there is no sqlite3");
        return;
    }
    for keeper in KEEPERS {
        let name = format!("db{}", keeper.concat());
        let mut mount = Mount::new(&site, "node2:/scratch", keeper);
        let sqlite = |text: &str| {
            let mut sqlite = Command::new("sqlite3");
            sqlite.args(["-cmd", ".timeout 60000"]).arg(mount.path(&name)).arg(text);
            sqlite.stdout(Stdio::piped()).stderr(Stdio::piped());
            sqlite
        };
        let said = |out: Output| {
            assert!(out.status.success() && out.stderr.is_empty(), "{out:?}");
            String::from_utf8(out.stdout).unwrap()
        };
        said(sqlite("create table t(n); insert into t values(0);").output().unwrap());
        // Each transaction reads what the other has written, and adds to it.
        let add = "begin immediate; insert into t select max(n) + 1 from t; commit;".repeat(ROWS);
        let both = [(); 2].map(|()| sqlite(&add).spawn().unwrap());
        for child in both {
            said(child.wait_with_output().unwrap());
        }
        let check = "pragma integrity_check; select count(*), count(distinct n), max(n) from t;";
        let (rows, last) = (2 * ROWS + 1, 2 * ROWS);
        assert_eq!(said(sqlite(check).output().unwrap()), format!("ok\n{rows}|{rows}|{last}\n"));
        mount.umount();
    }
}
