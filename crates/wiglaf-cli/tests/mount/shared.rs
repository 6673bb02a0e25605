//! Locks that programs of several nodes take on one file: node1 and node3 have node2's folder mounted, node2
//! has it on its disk.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};

use crate::common::{Guarded, Site, eventually};
use crate::locks::has_python;
use crate::{Place, site_of};

/// Where every node has the folder, so that one name will do.
const AT: &str = "/tmp/m";
const NODES: [&str; 3] = ["node1", "node2", "node3"];

/// Does what each line asks for, and says in a line how it went.
const WORKER: &str = r"
import fcntl, os, signal, struct, sys
path = sys.argv[1]
TYPES = {'r': fcntl.F_RDLCK, 'w': fcntl.F_WRLCK, 'u': fcntl.F_UNLCK}
FLOCKS = {'r': fcntl.LOCK_SH, 'w': fcntl.LOCK_EX, 'u': fcntl.LOCK_UN}
OFD_GETLK, OFD_SETLK, OFD_SETLKW = 36, 37, 38
f = os.open(path, os.O_RDWR)
class Alarm(Exception): pass
def alarm(*_): raise Alarm()
signal.signal(signal.SIGALRM, alarm)
def posix(command, kind, start, length):
    return fcntl.fcntl(f, command, struct.pack('hhqqi4x', TYPES[kind], 0, int(start), int(length), 0))
def run(words):
    global f
    what, rest = words[0], words[1:]
    if what in ('posix', 'wait', 'ofd', 'ofdwait'):
        command = {'posix': fcntl.F_SETLK, 'wait': fcntl.F_SETLKW, 'ofd': OFD_SETLK, 'ofdwait': OFD_SETLKW}
        posix(command[what], *rest)
    elif what == 'test':
        kind, _, start, length, pid = struct.unpack('hhqqi4x', posix(fcntl.F_GETLK, *rest))
        return 'free' if kind == fcntl.F_UNLCK else 'taken'
    elif what == 'who':
        kind, _, start, length, pid = struct.unpack('hhqqi4x', posix(fcntl.F_GETLK, *rest))
        return '%d %d %d' % (pid, start, length)
    elif what == 'flock':
        fcntl.flock(f, FLOCKS[rest[0]] | fcntl.LOCK_NB)
    elif what == 'flockwait':
        fcntl.flock(f, FLOCKS[rest[0]])
    elif what == 'close':
        # POSIX: any descriptor of the file will do.
        os.close(os.open(path, os.O_RDONLY))
    elif what == 'reopen':
        os.close(f)
        f = os.open(path, os.O_RDWR)
    elif what == 'alarm':
        signal.setitimer(signal.ITIMER_REAL, float(rest[0]))
    elif what == 'add':
        for _ in range(int(rest[0])):
            fcntl.lockf(f, fcntl.LOCK_EX)
            n = int(os.pread(f, 20, 0) or b'0')
            os.pwrite(f, b'%d' % (n + 1), 0)
            fcntl.lockf(f, fcntl.LOCK_UN)
    else:
        return 'what?'
    return 'done'
print(os.getpid(), flush=True)
for line in sys.stdin:
    try:
        said = run(line.split())
    except Alarm:
        said = 'interrupted'
    except OSError as e:
        said = 'EAGAIN' if e.errno in (11, 13) else 'errno %d' % e.errno
    print(said, flush=True)
";

/// A process that locks.
struct Worker {
    process: Guarded,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    /// On its node.
    pid: u32,
}

impl Worker {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = Guarded(command.spawn().unwrap());
        let input = process.0.stdin.take().unwrap();
        let output = BufReader::new(process.0.stdout.take().unwrap());
        let mut worker = Self { process, input, output, pid: 0 };
        worker.pid = worker.hear().parse().expect("its number");
        worker
    }

    fn on(site: &Site, node: &str, file: &str) -> Self {
        let path = format!("{AT}/{file}");
        Self::start(site.command(&["exec", "-w", node, "--", "python3", "-c", WORKER, &path]))
    }

    fn here(file: &Path) -> Self {
        let mut python = Command::new("python3");
        python.args(["-c", WORKER]).arg(file);
        Self::start(python)
    }

    fn ask(&mut self, what: &str) {
        writeln!(self.input, "{what}").unwrap();
    }

    fn hear(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn say(&mut self, what: &str) -> String {
        self.ask(what);
        self.hear()
    }
}

/// What ends the holder of a lock.
type End<'a> = &'a dyn Fn(&Worker);

/// A cluster of three nodes that share node2's folder, and an empty file `f` in it.
fn shared() -> Option<Place> {
    if !has_python() {
        return None;
    }
    let site = site_of(&["--nodes", "3"])?;
    for node in ["node1", "node3"] {
        let mount = format!("mkdir {AT}; wiglaf mount --background node2:/scratch {AT}");
        assert!(site.sh(node, &mount).contains("is mounted on"));
    }
    site.sh("node2", &format!("ln -s /scratch {AT}; : > /scratch/f"));
    Some(site)
}

/// Small numbers that a seed draws.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }

    fn one_of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len() as u64) as usize]
    }

    fn command(&mut self) -> String {
        let what =
            self.one_of(&["posix", "posix", "posix", "ofd", "test", "flock", "close", "reopen"]);
        let kind = self.one_of(&["r", "w", "u"]);
        let (start, len) = (self.below(8), self.below(5));
        match what {
            "posix" | "ofd" => format!("{what} {kind} {start} {len}"),
            "test" => format!("test {} {start} {len}", self.one_of(&["r", "w"])),
            "flock" => format!("flock {kind}"),
            other => other.to_owned(),
        }
    }
}

#[test]
fn locks_of_processes_on_three_nodes_are_those_of_processes_on_one() {
    let Some(site) = shared() else { return };
    let local = tempfile::tempdir_in("/dev/shm").unwrap();
    let file = local.path().join("f");
    fs::write(&file, "").unwrap();
    let nodes = ["node1", "node1", "node2", "node3"];
    let mut there = nodes.map(|node| Worker::on(&site, node, "f"));
    let mut here = nodes.map(|_| Worker::here(&file));
    let seed = std::env::var("WIGLAF_SEED").map_or(1, |seed| seed.parse().unwrap());
    let mut draw = Draw(seed);
    let mut said = Vec::new();
    for number in 0..1500 {
        let (who, command) = (draw.below(nodes.len() as u64) as usize, draw.command());
        let (mut given, wanted) = (there[who].say(&command), here[who].say(&command));
        if command.starts_with("flock") && wanted == "done" {
            // As below.
            eventually("a flock of an open file ends with it", || {
                given == wanted || {
                    given = there[who].say(&command);
                    false
                }
            });
        }
        said.push(format!("{} {command}: {wanted}", nodes[who]));
        let before = &said[said.len().saturating_sub(40)..];
        assert_eq!(given, wanted, "call {number} of WIGLAF_SEED={seed}: {before:#?}");
        if command == "reopen" || command == "close" {
            // The end of an open file is told after the call has returned (docs/files.md).
            eventually("locks of an open file end with it", || {
                ["r", "w"].iter().all(|kind| {
                    let test = format!("test {kind} 0 0");
                    (0..nodes.len()).all(|one| there[one].say(&test) == here[one].say(&test))
                })
            });
        }
    }
}

#[test]
fn a_lock_ends_with_its_process_its_mount_and_its_node() {
    let Some(site) = shared() else { return };
    let mut on_disk = Worker::on(&site, "node2", "f");
    let mut beside = Worker::on(&site, "node3", "f");
    let kinds =
        [("posix w 5 1", "posix r 0 0"), ("ofd w 5 1", "posix r 0 0"), ("flock w", "flock r")];
    let ends: [(&str, End<'_>); 3] = [
        ("its process", &|holder| drop(site.sh("node1", &format!("kill -9 {}", holder.pid)))),
        ("its mount", &|_| drop(site.sh("node1", "kill -9 $(pgrep -f '[m]ount --detached')"))),
        ("its node", &|_| site.kill_node(0)),
    ];
    for (what, end) in ends {
        let holders = kinds.map(|(take, _)| {
            let mut holder = Worker::on(&site, "node1", "f");
            assert_eq!(holder.say(take), "done", "{what}: {take}");
            for other in [&mut on_disk, &mut beside] {
                let refused = kinds.iter().find(|kind| kind.0 == take).unwrap().1;
                assert_eq!(other.say(refused), "EAGAIN", "{what}: {take}");
            }
            if take.starts_with("posix") {
                // Another owner's, which the next kind would meet.
                assert_eq!(holder.say("posix u 0 0"), "done");
                assert_eq!(holder.say("posix w 100 1"), "done");
            }
            holder
        });
        // Who waits has it as soon as it is free.
        on_disk.ask("wait r 0 0");
        beside.ask("flockwait r");
        match what {
            "its process" => holders.iter().for_each(end),
            _ => end(&holders[0]),
        }
        let freed = (on_disk.hear(), beside.hear());
        assert_eq!(freed, ("done".into(), "done".into()), "{what}");
        let given_back = (on_disk.say("posix u 0 0"), beside.say("flock u"));
        assert_eq!(given_back, ("done".into(), "done".into()));
        drop(holders);
        if what == "its mount" {
            let mount = format!("wiglaf mount --background node2:/scratch {AT}");
            assert!(site.sh("node1", &mount).contains("is mounted on"));
        }
    }
}

#[test]
fn a_call_that_waits_for_a_lock_can_be_interrupted_and_killed() {
    let Some(site) = shared() else { return };
    let mut holder = Worker::on(&site, "node2", "f");
    for (take, wait) in [
        ("posix w 0 0", "wait w 3 1"),
        ("posix w 0 0", "ofdwait r 3 1"),
        ("flock w", "flockwait r"),
    ] {
        assert_eq!(holder.say(take), "done");
        let mut waiter = Worker::on(&site, "node1", "f");
        assert_eq!(waiter.say("alarm 0.2"), "done");
        assert_eq!(waiter.say(wait), "interrupted", "{wait}");
        // It does not get it afterwards, either.
        assert_eq!(waiter.say("test r 3 1"), if take == "flock w" { "free" } else { "taken" });
        waiter.ask(wait);
        // It says nothing while it waits; the node counts as idle then.
        std::thread::sleep(std::time::Duration::from_millis(200));
        site.sh("node1", &format!("kill -9 {}", waiter.pid));
        assert_eq!(waiter.hear(), "", "{wait}");
        waiter.process.0.wait().unwrap();
        assert_eq!(holder.say("posix u 0 0"), "done");
        assert_eq!(holder.say("flock u"), "done");
        // Nothing is left of the waits.
        assert_eq!(holder.say(take), "done");
        assert_eq!(
            (holder.say("posix u 0 0"), holder.say("flock u")),
            ("done".into(), "done".into())
        );
    }
}

#[test]
fn two_that_wait_for_each_other_through_one_mount_are_told() {
    let Some(site) = shared() else { return };
    let [mut one, mut other] = [(); 2].map(|()| Worker::on(&site, "node1", "f"));
    assert_eq!((one.say("posix w 1 1"), other.say("posix w 2 1")), ("done".into(), "done".into()));
    // Whose lock it is is known within a mount, and no number elsewhere.
    assert_eq!(other.say("who w 0 0"), format!("{} 1 1", one.pid));
    assert_eq!(Worker::on(&site, "node3", "f").say("who w 0 2"), "0 1 1");
    let deadlock = format!("errno {}", rustix::io::Errno::DEADLK.raw_os_error());
    let waits = [(&mut one, "wait w 2 1"), (&mut other, "wait w 1 1")];
    let mut said = std::thread::scope(|scope| {
        let threads = waits.map(|(worker, wait)| {
            let deadlock = &deadlock;
            scope.spawn(move || {
                let said = worker.say(wait);
                if said == *deadlock {
                    assert_eq!(worker.say("posix u 0 0"), "done");
                }
                said
            })
        });
        threads.map(|thread| thread.join().unwrap())
    });
    said.sort();
    assert_eq!(said, ["done".to_owned(), deadlock]);
}

#[test]
fn counts_of_three_nodes_under_a_lock_lose_nothing() {
    const TIMES: u64 = 300;
    let Some(site) = shared() else { return };
    let mut workers = ["node1", "node2", "node3", "node1"].map(|node| Worker::on(&site, node, "f"));
    workers.iter_mut().for_each(|worker| worker.ask(&format!("add {TIMES}")));
    for worker in &mut workers {
        assert_eq!(worker.hear(), "done");
    }
    assert_eq!(site.sh("node2", "cat /scratch/f"), (4 * TIMES).to_string());
}

#[test]
fn databases_and_repositories_of_several_nodes_lose_nothing() {
    const ROWS: usize = 30;
    let Some(site) = shared() else { return };
    if Command::new("sqlite3").arg("--version").output().is_ok() {
        let sqlite = |node, text: &str| {
            let command = format!("cd {AT}; sqlite3 -cmd '.timeout 60000' db \"{text}\"");
            let mut sqlite = site.command(&["exec", "-w", node, "--", "sh", "-c", &command]);
            sqlite.stdout(Stdio::piped()).stderr(Stdio::piped());
            Guarded(sqlite.spawn().unwrap())
        };
        let said = |mut child: Guarded| {
            let mut text = String::new();
            let out = child.0.stdout.as_mut().unwrap();
            std::io::Read::read_to_string(out, &mut text).unwrap();
            let mut complaint = String::new();
            std::io::Read::read_to_string(child.0.stderr.as_mut().unwrap(), &mut complaint)
                .unwrap();
            assert!(child.0.wait().unwrap().success() && complaint.is_empty(), "{complaint}");
            text
        };
        said(sqlite("node1", "create table t(n); insert into t values(0);"));
        let add = "begin immediate; insert into t select max(n) + 1 from t; commit;".repeat(ROWS);
        for child in NODES.map(|node| sqlite(node, &add)) {
            said(child);
        }
        let check = "pragma integrity_check; select count(*), count(distinct n), max(n) from t;";
        let (rows, last) = (3 * ROWS + 1, 3 * ROWS);
        assert_eq!(said(sqlite("node3", check)), format!("ok\n{rows}|{rows}|{last}\n"));
    } else {
        println!("skipped: its part with sqlite3, which is not installed");
    }
    if Command::new("git").arg("--version").output().is_ok() {
        let git = "git -c user.name=n -c user.email=e@x -c safe.directory='*' -c gc.auto=0";
        site.sh(
            "node1",
            &format!("cd {AT}; {git} init -q r; cd r; {git} commit -q --allow-empty -m 0"),
        );
        // git itself asks again after a moment where another commits.
        let commits = format!(
            "cd {AT}/r; for i in 1 2 3 4 5; do echo $i > $(hostname)-$i; \
             until {git} add $(hostname)-$i && {git} commit -qm $i $(hostname)-$i; do sleep 0.1; done; \
             done 2> /dev/null"
        );
        let all = NODES.map(|node| {
            let command = ["exec", "-w", node, "--", "sh", "-c", &commits];
            Guarded(site.command(&command).spawn().unwrap())
        });
        for mut child in all {
            assert!(child.0.wait().unwrap().success());
        }
        let script = format!(
            "cd {AT}/r; {git} fsck --full --no-dangling; {git} log --oneline | wc -l; ls | wc -l; {git} status --short"
        );
        assert_eq!(site.sh("node2", &script), "16\n15\n");
    } else {
        println!("skipped: its part with git, which is not installed");
    }
}
