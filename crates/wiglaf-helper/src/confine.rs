//! The helper gives up all that it does not need: its user, every capability
//! but CAP_NET_RAW, the way to new privileges, and most system calls.

use std::collections::BTreeMap;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

/// The user and group that own nothing (Debian: nobody and nogroup).
const NOBODY: u32 = 65_534;

/// What it takes to accept, read a policy, list interfaces, open a packet
/// socket and pass it; and what Rust's threads and memory take.
const SYSTEM_CALLS: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_clone,
    libc::SYS_clone3,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_fstat,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_getsockname,
    libc::SYS_getsockopt,
    libc::SYS_gettid,
    libc::SYS_ioctl,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_openat,
    libc::SYS_ppoll,
    libc::SYS_prctl,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rseq,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_yield,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_set_robust_list,
    libc::SYS_setsockopt,
    libc::SYS_sigaltstack,
    libc::SYS_socket,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_write,
    libc::SYS_writev,
];

/// To be called before there is a second thread.
pub(crate) fn give_up_privileges() -> Result<(), String> {
    let fail = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
    if geteuid().is_root() {
        for number in 0..=40 {
            // A kernel that does not know the number has nothing to drop.
            let Some(capability) = capability(number) else { continue };
            let _ = remove_capability_from_bounding_set(capability);
        }
        set_keep_capabilities(true).map_err(|e| fail("keep CAP_NET_RAW", &e))?;
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_groups(&[]).map_err(|e| fail("leave root's groups", &e))?;
        set_thread_res_gid(gid, gid, gid).map_err(|e| fail("leave root's group", &e))?;
        set_thread_res_uid(uid, uid, uid).map_err(|e| fail("become nobody", &e))?;
    }
    let sets = CapabilitySets {
        effective: CapabilitySet::NET_RAW,
        permitted: CapabilitySet::NET_RAW,
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, sets)
        .map_err(|e| fail("keep CAP_NET_RAW, which the helper is there for", &e))?;
    set_no_new_privs(true).map_err(|e| fail("renounce new privileges", &e))?;
    let filter = filter().map_err(|e| fail("make the filter of system calls", &e))?;
    seccompiler::apply_filter(&filter).map_err(|e| fail("filter system calls", &e))
}

/// The capability with that number, but for the one that is kept.
fn capability(number: u32) -> Option<CapabilitySet> {
    let set = CapabilitySet::from_bits_retain(1 << number);
    (set != CapabilitySet::NET_RAW).then_some(set)
}

fn filter() -> Result<BpfProgram, Box<dyn std::error::Error>> {
    let calls: BTreeMap<i64, _> = SYSTEM_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let filter = SeccompFilter::new(
        calls,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}
