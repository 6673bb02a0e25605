//! `FI_WAIT_FD`: a descriptor that applications sleep on with a `poll` of their own.
//!
//! It is an epoll instance over what the endpoints sleep on, a timer for their deadlines, and a
//! signal. It says something only after `fi_trywait`, as fi_poll(3) demands of its users: that call
//! lies down for the sleeper, and the next look at the queue gets up for it.

use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::Mutex;
use std::time::Duration;

use rustix::event::epoll::{CreateFlags, EventData, EventFlags, add, create, delete};
use rustix::event::{EventfdFlags, eventfd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use wiglaf_endpoint::Nap;

use crate::bindings as fi;
use crate::engine::{Engine, Shared};
use crate::guard::{EAGAIN, EINVAL, ENOSYS, Errno, Fi, guard, lock, refuse};
use crate::object::{Object, object};
use crate::wait;

/// Wait objects that need nothing from the kernel.
const PLAIN: [fi::fi_wait_obj; 3] = [fi::FI_WAIT_NONE, fi::FI_WAIT_UNSPEC, fi::FI_WAIT_YIELD];

/// Whether a wait object is to be a descriptor.
pub(crate) fn is_wanted(call: &str, wait_obj: fi::fi_wait_obj) -> Fi<bool> {
    match wait_obj {
        fi::FI_WAIT_FD => Ok(true),
        plain if PLAIN.contains(&plain) => Ok(false),
        other => refuse!(ENOSYS, "{call}: wait object {other} is not offered; use FI_WAIT_FD"),
    }
}

/// An object that applications may sleep on.
pub(crate) trait Waitable: Object {
    /// Its descriptor, if it was opened with one.
    fn wait_fd(&self) -> Option<RawFd>;
}

/// Answers `FI_GETWAIT`, the one control command of queues and counters.
pub(crate) unsafe extern "C" fn control<T: Waitable>(
    fid: *mut fi::fid,
    command: libc::c_int,
    arg: *mut libc::c_void,
) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_control(3) demands a live handle.
        let fd = unsafe { object::<T, _>(fid)? }.wait_fd();
        if u32::try_from(command) != Ok(fi::FI_GETWAIT) {
            return Err(ENOSYS);
        }
        let fd = fd.ok_or(Errno(fi::FI_ENODATA))?;
        // SAFETY: fi_control(3) demands room for the descriptor; null is refused.
        *unsafe { arg.cast::<libc::c_int>().as_mut() }.ok_or(EINVAL)? = fd;
        Ok(())
    })
}

fn os_errno(error: rustix::io::Errno) -> Errno {
    Errno(error.raw_os_error())
}

/// A descriptor that is readable while it has been raised.
#[derive(Debug)]
pub(crate) struct Flag(OwnedFd);

impl Flag {
    pub(crate) fn new() -> Fi<Self> {
        eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map(Self).map_err(os_errno)
    }

    pub(crate) fn raise(&self) {
        // It fails only when it is raised beyond counting.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    pub(crate) fn lower(&self) {
        // It fails only when it is lowered already.
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// The descriptor of a completion queue or counter.
pub(crate) struct Descriptor {
    epoll: OwnedFd,
    timer: OwnedFd,
    signal: Flag,
    /// The engines that have lain down, and on what.
    asleep: Mutex<Vec<(Shared, Nap)>>,
}

impl Descriptor {
    pub(crate) fn new() -> Fi<Self> {
        let epoll = create(CreateFlags::CLOEXEC).map_err(os_errno)?;
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).map_err(os_errno)?;
        let signal = Flag::new()?;
        for fd in [&timer, &signal.0] {
            add(&epoll, fd, EventData::new_u64(0), EventFlags::IN).map_err(os_errno)?;
        }
        Ok(Self { epoll, timer, signal, asleep: Mutex::default() })
    }

    pub(crate) fn fd(&self) -> RawFd {
        self.epoll.as_raw_fd()
    }

    /// Makes the descriptor readable.
    pub(crate) fn signal(&self) {
        self.signal.raise();
    }

    /// From now on the descriptor tells when something happens at the engines. Not where one, the
    /// `n`-th, is `ready` already.
    pub(crate) fn arm(
        &self,
        engines: &[Shared],
        ready: impl Fn(usize, &mut Engine) -> bool,
    ) -> Fi<()> {
        // Others who ask at the same time wait: they would lie down on the same.
        let mut asleep = lock(&self.asleep)?;
        self.rouse(&mut asleep);
        self.signal.lower();
        let naps = wait::lie_down(engines, Duration::MAX, ready)?.ok_or(EAGAIN)?;
        let limit = naps.iter().map(Nap::limit).min().unwrap_or_default();
        asleep.extend(engines.iter().cloned().zip(naps));
        let mut fds = asleep.iter().flat_map(|(_, nap)| nap.fds());
        let armed = fds.try_for_each(|fd| self.watch(fd)).and_then(|()| self.set_timer(limit));
        drop(fds);
        if armed.is_err() {
            self.rouse(&mut asleep);
        }
        armed
    }

    fn watch(&self, fd: BorrowedFd<'_>) -> Fi<()> {
        add(&self.epoll, fd, EventData::new_u64(0), EventFlags::IN).map_err(os_errno)
    }

    fn set_timer(&self, limit: Duration) -> Fi<()> {
        // Zero would disarm it.
        let limit = limit.max(Duration::from_nanos(1));
        let none = Timespec { tv_sec: 0, tv_nsec: 0 };
        let it_value =
            Timespec { tv_sec: limit.as_secs() as _, tv_nsec: limit.subsec_nanos().into() };
        let timer = Itimerspec { it_interval: none, it_value };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &timer)
            .map(|_| ())
            .map_err(os_errno)
    }

    /// Somebody looks: the sleep is over. The timer stays, for others who may sleep on.
    pub(crate) fn disarm(&self) {
        if let Ok(mut asleep) = lock(&self.asleep) {
            self.rouse(&mut asleep);
        }
    }

    fn rouse(&self, asleep: &mut Vec<(Shared, Nap)>) {
        for (engine, nap) in asleep.drain(..) {
            for fd in nap.fds() {
                // Watched since `arm`, if all went well; the entry would outlive the descriptor otherwise.
                let _ = delete(&self.epoll, fd);
            }
            if let Ok(mut engine) = lock(&engine) {
                engine.endpoint.get_up();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::attended::Attended;

    fn is_readable(fd: RawFd) -> bool {
        use rustix::event::{PollFd, PollFlags, poll};
        // SAFETY: the tests keep what owns it.
        let fd = unsafe { BorrowedFd::borrow_raw(fd) };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)) == Ok(1)
    }

    #[test]
    fn a_signal_can_be_seen_until_it_is_armed_again() {
        let descriptor = Descriptor::new().unwrap();
        assert!(!is_readable(descriptor.fd()));
        descriptor.signal();
        assert!(is_readable(descriptor.fd()));
        descriptor.signal.lower();
        assert!(!is_readable(descriptor.fd()));
    }

    fn engine() -> Shared {
        Arc::new(Attended::on_loopback())
    }

    fn sleepers(engine: &Shared) -> u32 {
        lock(engine).unwrap().endpoint.sleepers()
    }

    #[test]
    fn threads_may_ask_at_once() {
        let (descriptor, engine) = (Descriptor::new().unwrap(), engine());
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let armed = descriptor.arm(std::slice::from_ref(&engine), |_, _| false);
                        assert!(matches!(armed, Ok(()) | Err(EAGAIN)), "{armed:?}");
                    }
                });
            }
        });
        assert!(sleepers(&engine) <= 1, "one for the descriptor");
        descriptor.disarm();
        assert_eq!(sleepers(&engine), 0);
    }

    #[test]
    fn who_cannot_be_told_does_not_lie_down() {
        let (descriptor, engine) = (Descriptor::new().unwrap(), engine());
        let nap = lock(&engine).unwrap().endpoint.lie_down(Duration::MAX).unwrap();
        nap.fds().for_each(|fd| descriptor.watch(fd).unwrap()); // once is all that is allowed
        let armed = descriptor.arm(std::slice::from_ref(&engine), |_, _| false);
        assert_eq!(armed, Err(Errno(libc::EEXIST)));
        assert_eq!(sleepers(&engine), 1);
        lock(&engine).unwrap().endpoint.get_up();
    }

    #[test]
    fn only_known_wait_objects_are_accepted() {
        assert_eq!(is_wanted("cq_open", fi::FI_WAIT_FD), Ok(true));
        assert_eq!(is_wanted("cq_open", fi::FI_WAIT_UNSPEC), Ok(false));
        assert_eq!(is_wanted("cq_open", fi::FI_WAIT_SET), Err(ENOSYS));
    }
}
