//! Whether others want the core on which somebody waits.
//!
//! Who polls answers sooner than who sleeps, and takes from a rank on the same core what it wins. To
//! yield is not enough: a yield that finds nobody eligible returns at once. The kernel counts how long
//! a thread was ready and did not run (proc(5), `/proc/pid/schedstat`): that is company.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How often it is judged, so that reading the file costs nothing to speak of.
const JUDGED_EVERY: Duration = Duration::from_millis(1);
/// Who has waited for more than this part of the time has company. Kernel threads take less.
const PART: u32 = 8;
/// How long it is remembered: who sleeps meanwhile sees none.
const REMEMBERED: Duration = Duration::from_millis(100);

/// See the module; of the thread that made it.
#[derive(Debug)]
pub(crate) struct Company {
    /// None where the kernel does not count.
    schedstat: Option<File>,
    /// Since when it is being judged, and what had been waited until then.
    since: Option<(Instant, Duration)>,
    /// How long it is believed to be there.
    until: Instant,
}

impl Company {
    pub(crate) fn new() -> Self {
        let schedstat = File::open("/proc/thread-self/schedstat").ok();
        Self { schedstat, since: None, until: Instant::now() }
    }

    /// Whether there has been any of late.
    pub(crate) fn is_here(&mut self, now: Instant) -> bool {
        if now < self.until {
            return true;
        }
        if self.since.is_some_and(|(began, _)| now.saturating_duration_since(began) < JUDGED_EVERY)
        {
            return false;
        }
        let Some(waited) = self.schedstat.as_ref().and_then(waited) else { return false };
        self.judge(now, waited)
    }

    fn judge(&mut self, now: Instant, waited: Duration) -> bool {
        let before = self.since.replace((now, waited));
        let is_here = before.is_some_and(|(began, before)| {
            waited.saturating_sub(before) > now.saturating_duration_since(began) / PART
        });
        if is_here {
            self.until = now + REMEMBERED;
            self.since = None; // what is slept away meanwhile says nothing
        }
        is_here
    }
}

/// How long the thread of this file was ready and did not run.
fn waited(schedstat: &File) -> Option<Duration> {
    let mut text = [0; 96];
    let len = schedstat.read_at(&mut text, 0).ok()?;
    let text = std::str::from_utf8(text.get(..len)?).ok()?;
    Some(Duration::from_nanos(text.split_whitespace().nth(1)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn who_waits_for_its_core_has_company_for_a_while() {
        let began = Instant::now();
        let mut company = Company { schedstat: None, since: None, until: began };
        assert!(!company.judge(began, 9 * MS), "whatever was before");
        assert!(!company.judge(began + 8 * MS, 10 * MS), "an eighth, as a kernel thread may take");
        let now = began + 16 * MS;
        assert!(company.judge(now, 14 * MS));
        assert!(company.is_here(now + REMEMBERED - MS) && !company.is_here(now + REMEMBERED));
        assert!(!company.judge(now + REMEMBERED, 90 * MS), "and is forgotten");
    }

    #[test]
    fn the_kernel_counts_how_long_a_thread_waits() {
        let file = File::open("/proc/thread-self/schedstat").expect("the kernel counts");
        let before = waited(&file).expect("readable");
        // Two threads that are never idle on one core: each waits for the other.
        let mut core = rustix::thread::sched_getaffinity(None).expect("a set of cores");
        let first = (0..rustix::thread::CpuSet::MAX_CPU).find(|cpu| core.is_set(*cpu));
        core.clear();
        core.set(first.expect("a thread has a core"));
        let set = || rustix::thread::sched_setaffinity(None, &core).expect("one of its own");
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                set();
                while !done.load(std::sync::atomic::Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
            set();
            let began = Instant::now();
            while waited(&file).expect("readable") < before + MS {
                assert!(began.elapsed() < Duration::from_secs(60), "it is not counted");
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
        });
    }
}
