//! The hello examples, really run: three processes on loopback.

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

const RANKS: usize = 3;

/// Starts the ranks and returns what each printed.
fn run(program: &Path, link: &str) -> Vec<String> {
    let sockets: Vec<_> = (0..RANKS).map(|_| UdpSocket::bind("127.0.0.1:0").unwrap()).collect();
    let peers: Vec<String> = sockets
        .iter()
        .enumerate()
        .map(|(rank, s)| format!("{}:{:x}", s.local_addr().unwrap(), 0xbee0 + rank))
        .collect();
    drop(sockets);
    // Those who greet first start first: nobody listens yet at rank 0.
    let mut children: Vec<_> = (0..RANKS)
        .rev()
        .map(|rank| {
            if rank == 0 {
                std::thread::sleep(Duration::from_millis(200));
            }
            Command::new(program)
                .env("WIGLAF_RANK", rank.to_string())
                .env("WIGLAF_PEERS", peers.join(","))
                .env("WIGLAF_LINK", link)
                .env("WIGLAF_KEY", "00112233445566778899aabbccddeeff")
                .stdout(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    children.reverse();
    let ended: Vec<_> = children.into_iter().map(ended).collect();
    ended
        .into_iter()
        .map(|out| {
            assert!(out.status.success(), "{:?}", out.status);
            String::from_utf8(out.stdout).unwrap()
        })
        .collect()
}

/// Waits for a rank, and ends it when it takes far longer than it may.
fn ended(mut child: Child) -> Output {
    let began = Instant::now();
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

fn check(outputs: &[String]) {
    let mut greetings: Vec<&str> = outputs[0].lines().collect();
    greetings.sort_unstable();
    assert_eq!(greetings, ["rank 0: hello from rank 1", "rank 0: hello from rank 2"]);
    assert_eq!(outputs[1], "rank 1: answered with 42\n");
    assert_eq!(outputs[2], "rank 2: answered with 42\n");
}

/// Where cargo put this crate's artifacts: `target/PROFILE`.
fn target() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    deps.parent().and_then(Path::parent).unwrap().to_owned()
}

#[test]
fn rust_over_udp_and_shared_memory() {
    for link in ["udp", "auto"] {
        check(&run(&target().join("examples/hello"), link));
    }
}

#[test]
fn c_over_udp() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = target().join("hello-c");
    // Where cargo builds it before any copy: there in every kind of build.
    let library = target().join("deps");
    let compiled = Command::new("cc")
        .args(["-Wall", "-Wextra", "-Werror", "-I"])
        .arg(crate_dir.join("include"))
        .arg(crate_dir.join("examples/hello.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .args(["-lwiglaf", &format!("-Wl,-rpath,{}", library.display())])
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "hello.c does not compile"),
        Err(why) => return println!("skipped: no C compiler ({why}); apt-get install gcc"),
    }
    check(&run(&program, "udp"));
}

#[test]
fn the_examples_stay_short() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    for name in ["hello.rs", "hello.c"] {
        let lines = std::fs::read_to_string(dir.join(name)).unwrap().lines().count();
        assert!(lines < 40, "{name} has {lines} lines");
    }
}
