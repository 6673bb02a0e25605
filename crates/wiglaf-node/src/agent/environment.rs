//! Which job a process belongs to, by its environment.
//!
//! Whoever owns a process decides what is to be read there: how long its environment is
//! (`PR_SET_MM_MAP` of prctl(2)), and how long a reader waits, who needs the lock of a memory that may
//! be backed by a file system of that user's own. So it is read in pieces, up to a limit; and where it
//! is another's process than the one that asks, in a thread that is waited for so long and no longer.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::sync::mpsc;
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::process::Pid;

use super::jobs::is_gone;
use crate::proto::JOB_VAR;

/// The kernel gives a program 6 MiB of arguments and environment at most (`bprm_stack_limits`).
const LEN_MAX: u64 = 6 << 20;
/// Longer marks of jobs are none of ours.
pub(super) const JOB_LEN_MAX: usize = 64;
const STACK: usize = 256 << 10;

/// The job that a process below /proc carries the mark of. None when the process has gone, or is not
/// ours to look at.
pub(super) fn job_of(folder: &str) -> io::Result<Option<String>> {
    match File::open(format!("{folder}/environ")).and_then(job_in) {
        Err(error) if is_gone(&error) => Ok(None),
        outcome => outcome,
    }
}

/// The values of these variables of a process below /proc; each is none where it is not set.
pub(super) fn variables_of<const N: usize>(
    folder: &str,
    names: [&str; N],
) -> io::Result<[Option<String>; N]> {
    match File::open(format!("{folder}/environ")).and_then(|file| variables_in(file, names)) {
        Err(error) if is_gone(&error) => Ok([const { None }; N]),
        outcome => outcome,
    }
}

fn job_in(environment: impl Read) -> io::Result<Option<String>> {
    variables_in(environment, [JOB_VAR]).map(|[job]| job)
}

fn variables_in<const N: usize>(
    environment: impl Read,
    names: [&str; N],
) -> io::Result<[Option<String>; N]> {
    let mut found = [const { None }; N];
    let mut left = BufReader::new(environment.take(LEN_MAX));
    let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
    let longest = (longest + 1 + JOB_LEN_MAX + 1) as u64;
    let mut variable = Vec::new();
    while found.iter().any(Option::is_none) {
        variable.clear();
        if left.by_ref().take(longest).read_until(0, &mut variable)? == 0 {
            break;
        }
        let is_whole = variable.pop_if(|last| *last == 0).is_some();
        if !is_whole {
            left.skip_until(0)?;
        }
        let text = std::str::from_utf8(&variable).ok();
        let Some((name, value)) = text.and_then(|text| text.split_once('=')) else { continue };
        // The first counts, as for getenv().
        for (known, found) in names.iter().zip(&mut found) {
            if *known == name && found.is_none() && value.len() <= JOB_LEN_MAX {
                *found = Some(value.to_owned());
            }
        }
    }
    Ok(found)
}

/// Whether the process is another user's than `uid`: by its real uid, as a process can have its folder
/// in /proc be root's.
pub(super) fn is_anothers(pid: Pid, uid: u32) -> bool {
    let status = std::fs::read(format!("/proc/{}/status", pid.as_raw_nonzero()));
    let status = String::from_utf8_lossy(&status.unwrap_or_default()).into_owned();
    let real = status.lines().find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().next());
    real.and_then(|real| real.parse().ok()) != Some(uid)
}

/// How much longer others may keep somebody waiting.
#[derive(Debug)]
pub(super) struct Patience {
    left: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { left: Duration::from_secs(2) }
    }
}

impl Patience {
    /// What `look` says of each, in a thread; of fewer when that takes too long, and of none when it
    /// did before.
    pub(super) fn look_at<A: Send + 'static, T: Send + 'static>(
        &mut self,
        all: Vec<A>,
        look: impl Fn(&A) -> T + Send + 'static,
    ) -> Vec<(A, T)> {
        let mut seen = Vec::new();
        if all.is_empty() || self.left.is_zero() {
            return seen;
        }
        let begin = Instant::now();
        let (tell, told) = mpsc::channel();
        let work = move || {
            for one in all {
                let outcome = look(&one);
                if tell.send((one, outcome)).is_err() {
                    return;
                }
            }
        };
        if Builder::new().stack_size(STACK).spawn(work).is_err() {
            return seen;
        }
        loop {
            match told.recv_timeout(self.left.saturating_sub(begin.elapsed())) {
                Ok(one) => seen.push(one),
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.left = Duration::ZERO;
                    return seen;
                }
            }
        }
        self.left = self.left.saturating_sub(begin.elapsed());
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_of_a_job_is_found() {
        let job = |text: &[u8]| job_in(text).unwrap();
        assert_eq!(job(b"A=1\0WIGLAF_JOB=00ff\0B=2\0").as_deref(), Some("00ff"));
        assert_eq!(job(b"WIGLAF_JOB=00ff").as_deref(), Some("00ff"), "without its end");
        assert_eq!(job(b"A=1\0WIGLAF_JOBS=00ff\0"), None);
        let both = |text: &[u8]| variables_in(text, ["SLURM_JOB_ID", "NODE"]).unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(both(b"NODE=pc1\0A=1\0SLURM_JOB_ID=7\0"), [some("7"), some("pc1")]);
        assert_eq!(both(b"SLURM_JOB_ID=7\0SLURM_JOB_ID=8\0X_NODE=pc1\0"), [some("7"), None]);
        assert_eq!(job(b""), None);
        let long = |len| [b"A=".repeat(len), b"\0WIGLAF_JOB=1\0".to_vec()].concat();
        assert_eq!(job(&long(1 << 20)).as_deref(), Some("1"));
        let mark = |len| {
            [b"WIGLAF_JOB=".to_vec(), b"x".repeat(len), b"\0WIGLAF_JOB=1\0".to_vec()].concat()
        };
        assert_eq!(job(&mark(JOB_LEN_MAX)).map(|job| job.len()), Some(JOB_LEN_MAX));
        assert_eq!(job(&mark(JOB_LEN_MAX + 1)).as_deref(), Some("1"));
    }

    #[test]
    fn an_environment_without_end_is_not_read_for_ever() {
        assert_eq!(job_in(io::repeat(b'x')).unwrap(), None);
        assert_eq!(job_in(io::repeat(0)).unwrap(), None);
    }

    #[test]
    fn who_makes_others_wait_does_so_once() {
        // Enough for the first look on a machine that is busy.
        let mut patience = Patience { left: Duration::from_secs(2) };
        let (hold, held) = mpsc::channel::<()>();
        let held = std::sync::Mutex::new(held);
        let look = move |n: &i32| assert!(*n != 2 || held.lock().unwrap().recv().is_err());
        let seen = patience.look_at(vec![1, 2, 3], look);
        assert_eq!(seen.iter().map(|(n, ())| *n).collect::<Vec<_>>(), [1]);
        assert!(patience.look_at(vec![1], |_| ()).is_empty());
        drop(hold);
        assert_eq!(Patience::default().look_at(vec![1, 2], |n| n * 2), [(1, 2), (2, 4)]);
    }
}
