//! A server that is no emulated node's init, as on a real host.
//!
//! What it ends it looks for among all processes and in /dev/shm: so it has a PID namespace and a /dev/shm of its
//! own here.

use std::fs;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use wiglaf_base::End;
use wiglaf_node::agent::{About, Server};
use wiglaf_node::proto::{self, JOB_VAR, Reply, Request, Spawn};

/// Says that this process has namespaces of its own.
const ALONE: &str = "WIGLAF_TEST_ALONE";
const NAME: &str = "a_host_runs_commands_and_ends_what_has_the_mark_of_a_job_and_nothing_else";

fn ask(server: &Server, request: &Request, fds: &[OwnedFd]) -> (UnixStream, Reply) {
    let (client, served) = UnixStream::pair().unwrap();
    server.accept(served);
    let fds: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
    proto::send(&client, request, &fds).unwrap();
    let reply = proto::recv(&client).unwrap().0;
    (client, reply)
}

/// A command whose end is awaited, and what it prints.
fn run(server: &Server, script: &str) -> (End, String) {
    let null = || OwnedFd::from(fs::File::open("/dev/null").unwrap());
    let (mut printed, stdout) = std::io::pipe().unwrap();
    let argv = ["sh", "-c", script].map(Into::into).to_vec();
    let spawn = Spawn { argv, cwd: "/".into(), ..Spawn::default() };
    let (client, reply) = ask(server, &Request::Spawn(spawn), &[null(), stdout.into(), null()]);
    assert!(matches!(reply, Reply::Started), "{reply:?}");
    let mut text = String::new();
    printed.read_to_string(&mut text).unwrap();
    match proto::recv(&client).unwrap().0 {
        Reply::Ended(end) => (end, text),
        other => panic!("{other:?}"),
    }
}

fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[test]
fn a_host_runs_commands_and_ends_what_has_the_mark_of_a_job_and_nothing_else() {
    if std::env::var_os(ALONE).is_none() {
        if !rustix::process::geteuid().is_root() {
            println!("skipped: only root makes namespaces");
            return;
        }
        let mut itself = Command::new("unshare");
        itself.args(["--fork", "--pid", "--mount-proc", "--kill-child", "sh", "-c"]);
        itself.args(["mount -t tmpfs tmpfs /dev/shm && exec \"$@\"", "sh"]);
        itself.arg(std::env::current_exe().unwrap()).args(["--exact", NAME]).env(ALONE, "1");
        let said = itself.output().unwrap();
        let shown = String::from_utf8_lossy(&said.stdout) + String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success() && shown.contains("1 passed"), "{shown}");
        return;
    }
    let dir = tempfile::tempdir_in("/dev/shm").unwrap();
    let keys = dir.path().join("keys");
    let about = About {
        name: "host".to_owned(),
        address: None,
        state: None,
        libdir: None,
        keys: keys.clone(),
    };
    let server = Server::new(about, None);
    server.reap().unwrap();

    let (_, reply) = ask(&server, &Request::Hello, &[]);
    assert!(matches!(&reply, Reply::Hello(hello) if hello.node == "host"), "{reply:?}");
    // What tells programs that they are on an emulated node is not set.
    let (end, printed) =
        run(&server, "echo ${WIGLAF_NODE-no node}${WIGLAF_STATE-, no state}; exit 3");
    assert_eq!((end, printed.as_str()), (End::Status(3), "no node, no state\n"));

    // Nothing here is an emulated node's.
    let of_emulated = [
        Request::Share(vec![]),
        Request::SetFaults(vec![], std::time::Duration::ZERO),
        Request::Faults(vec![]),
    ];
    for request in of_emulated {
        let (_, reply) = ask(&server, &request, &[]);
        let is_refused =
            matches!(&reply, Reply::Failed { sentence, .. } if sentence.contains("real host"));
        assert!(is_refused, "{request:?}: {reply:?}");
    }

    // A job's secret is there as long as its lease, and its processes are.
    let sleep = |job: Option<&str>| {
        let mut command = Command::new("sleep");
        command.arg("600").env_remove(JOB_VAR).envs(job.map(|job| (JOB_VAR, job)));
        command.spawn().unwrap().id()
    };
    let key = Some("00112233445566778899aabbccddeeff".to_owned());
    let lease = Request::Lease { job: "1a".to_owned(), key, limit: None };
    let (lease, reply) = ask(&server, &lease, &[]);
    assert!(matches!(reply, Reply::Done), "{reply:?}");
    assert!(keys.join("1a").exists());
    let (bystander, leased, left) = (sleep(None), sleep(Some("1a")), sleep(Some("2b")));
    // Processes have their environment only once they are their program.
    let is_program = |pid: &u32| {
        fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "sleep")
    };
    while ![bystander, leased, left].iter().all(is_program) {
        std::thread::yield_now();
    }
    let (_, reply) = ask(&server, &Request::Reset, &[]);
    let Reply::Reset(remains) = reply else { panic!("{reply:?}") };
    let ended: Vec<_> = remains.processes.iter().map(|process| process.pid as u32).collect();
    assert_eq!(ended, [left]);
    assert!(is_alive(bystander) && is_alive(leased) && !is_alive(left));
    proto::send(&lease, &Request::Release, &[]).unwrap();
    let reply = proto::recv::<Reply>(&lease).unwrap().0;
    assert!(matches!(&reply, Reply::Released(stuck) if stuck.is_empty()), "{reply:?}");
    assert!(is_alive(bystander) && !is_alive(leased));
    assert!(proto::recv::<Reply>(&lease).is_err(), "the connection is closed last");
    assert!(!keys.join("1a").exists());

    // Files are looked at when no job is leased: those that may be another program's stay.
    for name in ["wiglaf-left", "of-another-program"] {
        fs::write(Path::new("/dev/shm").join(name), "").unwrap();
    }
    let (_, reply) = ask(&server, &Request::Reset, &[]);
    let Reply::Reset(remains) = reply else { panic!("{reply:?}") };
    assert_eq!(remains.shared_memory, ["wiglaf-left"]);
    assert!(Path::new("/dev/shm/of-another-program").exists() && is_alive(bystander));
}
