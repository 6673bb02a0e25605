//! The application's signals: threads of the provider take none of them.

#[path = "common/ops.rs"]
mod ops;

use std::mem::MaybeUninit;
use std::net::Ipv4Addr;
use std::process::Command;
use std::ptr;
use std::time::{Duration, Instant};

use ops::{Home, Side, fi};

/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn set_of(signal: libc::c_int) -> libc::sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes a set of what it gets room for.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), signal);
        set.assume_init()
    }
}

/// Blocks a signal in this thread, or unblocks it; says whether it was blocked.
fn change(how: libc::c_int, signal: libc::c_int) -> bool {
    let (change, mut before) = (set_of(signal), set_of(signal));
    // SAFETY: two sets.
    unsafe {
        assert_eq!(libc::pthread_sigmask(how, &raw const change, &raw mut before), 0);
        libc::sigismember(&raw const before, signal) == 1
    }
}

/// Waits until the provider's thread runs: before it has named itself it takes no signals anyway.
fn until_a_thread_runs() {
    let began = Instant::now();
    let runs = || {
        let threads = std::fs::read_dir("/proc/self/task").expect("we have threads");
        let names =
            threads.flatten().map(|thread| std::fs::read_to_string(thread.path().join("comm")));
        names.flatten().any(|name| name.trim_end() == "wiglaf")
    };
    while !runs() {
        assert!(began.elapsed() < PATIENCE, "there is no such thread");
        std::thread::yield_now();
    }
}

/// An application that waits for its signals with sigwait, having opened an endpoint before it
/// blocked them.
fn signals_reach_who_waits(progress: fi::fi_progress) {
    const SIGNAL: libc::c_int = libc::SIGUSR1;
    assert!(change(libc::SIG_UNBLOCK, SIGNAL), "the whole process was started with it blocked");
    let home = Home::open_with(Ipv4Addr::LOCALHOST, |domain| domain.data_progress = progress);
    let side = Side::open(&home);
    until_a_thread_runs();
    assert!(!change(libc::SIG_BLOCK, SIGNAL), "the caller's signals stay as they were");
    // SAFETY: a signal to ourselves, a set, and no wish for more than its number.
    let came = unsafe {
        assert_eq!(libc::kill(libc::getpid(), SIGNAL), 0);
        let limit = libc::timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
        libc::sigtimedwait(&set_of(SIGNAL), ptr::null_mut(), &raw const limit)
    };
    assert_eq!(came, SIGNAL);
    side.close();
}

#[test]
#[ignore = "run by the test below, with the signal blocked in all threads"]
fn beside_the_attendant() {
    signals_reach_who_waits(fi::FI_PROGRESS_MANUAL);
}

#[test]
#[ignore = "run by the test below, with the signal blocked in all threads"]
fn beside_the_helper() {
    signals_reach_who_waits(fi::FI_PROGRESS_AUTO);
}

#[test]
fn threads_of_the_provider_take_no_signals() {
    for test in ["beside_the_attendant", "beside_the_helper"] {
        let output = Command::new("env")
            .arg("--block-signal=USR1")
            .arg(std::env::current_exe().expect("a test knows where it is"))
            .args(["--exact", test, "--ignored", "--nocapture"])
            .env("WIGLAF_LINK", "udp")
            .output()
            .expect("run this test");
        let said = String::from_utf8_lossy(&output.stdout);
        let failed = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{test}: {}\n{said}\n{failed}",
            output.status
        );
    }
}
