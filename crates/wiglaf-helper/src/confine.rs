//! The helper gives up all that it does not need: its user, every capability
//! but CAP_NET_RAW, the way to new privileges, and most system calls. So does its
//! process that tunes, which keeps CAP_NET_ADMIN instead.

use std::collections::BTreeMap;

use rustix::process::{Gid, Uid, geteuid};
use rustix::thread::{
    CapabilitySet, CapabilitySets, remove_capability_from_bounding_set, set_capabilities,
    set_keep_capabilities, set_no_new_privs, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule,
};

/// The user and group that own nothing (Debian: nobody and nogroup).
const NOBODY: u32 = 65_534;

/// System calls that are allowed whatever their arguments are. With those of [`rules`] it is what it
/// takes to accept, read a policy, list interfaces, open a packet socket and pass it, and what Rust's
/// threads and memory take.
const SYSTEM_CALLS: &[libc::c_long] = &[
    libc::SYS_accept4,
    libc::SYS_bind,
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
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
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_newfstatat,
    libc::SYS_ppoll,
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
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_write,
    libc::SYS_writev,
];

/// System calls of the process that tunes: to take orders, to talk by the one socket to the kernel that it has
/// opened before, to write to the files that it has opened before, and what Rust's memory takes.
const TUNERS_CALLS: &[libc::c_long] = &[
    libc::SYS_brk,
    libc::SYS_clock_gettime,
    libc::SYS_close,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_fcntl,
    libc::SYS_ftruncate,
    libc::SYS_futex,
    libc::SYS_getpid,
    libc::SYS_getrandom,
    libc::SYS_gettid,
    libc::SYS_lseek,
    libc::SYS_madvise,
    libc::SYS_mremap,
    libc::SYS_munmap,
    libc::SYS_pipe2,
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_read,
    libc::SYS_recvfrom,
    libc::SYS_recvmsg,
    libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sendmsg,
    libc::SYS_sendto,
    libc::SYS_sigaltstack,
    libc::SYS_statx,
    libc::SYS_tgkill,
    libc::SYS_write,
    libc::SYS_writev,
];

/// Gives up all but CAP_NET_RAW. To be called before there is a second thread.
pub(crate) fn give_up_privileges() -> Result<(), String> {
    give_up(CapabilitySet::NET_RAW)?;
    filter_calls()
}

/// Gives up all but CAP_NET_ADMIN, which it may not even have: then the kernel refuses what it is asked for.
/// For the process that tunes.
pub(crate) fn keep_network_admin() -> Result<(), String> {
    give_up(CapabilitySet::NET_ADMIN).or_else(|_| give_up(CapabilitySet::empty()))?;
    let fail = |error: &dyn std::fmt::Display| format!("cannot filter system calls: {error}");
    let mut calls: BTreeMap<i64, _> = TUNERS_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    let rules = rules().map_err(|e| fail(&e))?;
    let memory = [libc::SYS_mmap, libc::SYS_mprotect];
    calls.extend(rules.into_iter().filter(|(call, _)| memory.contains(call)));
    let filter = allow_only(calls).map_err(|e| fail(&*e))?;
    seccompiler::apply_filter(&filter).map_err(|e| fail(&e))
}

fn give_up(kept: CapabilitySet) -> Result<(), String> {
    let fail = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
    if geteuid().is_root() {
        for number in 0..=40 {
            // A kernel that does not know the number has nothing to drop.
            let capability = CapabilitySet::from_bits_retain(1 << number);
            if capability == kept {
                continue;
            }
            let _ = remove_capability_from_bounding_set(capability);
        }
        set_keep_capabilities(true).map_err(|e| fail("keep a capability", &e))?;
        let (uid, gid) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
        set_thread_groups(&[]).map_err(|e| fail("leave root's groups", &e))?;
        set_thread_res_gid(gid, gid, gid).map_err(|e| fail("leave root's group", &e))?;
        set_thread_res_uid(uid, uid, uid).map_err(|e| fail("become nobody", &e))?;
    }
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    set_capabilities(None, sets)
        .map_err(|e| fail("keep the one capability that it is there for (CAP_NET_RAW)", &e))?;
    set_no_new_privs(true).map_err(|e| fail("renounce new privileges", &e))
}

/// From now on this thread and those that it starts make the system calls of [`filter`] only.
fn filter_calls() -> Result<(), String> {
    let fail = |what: &str, error: &dyn std::fmt::Display| format!("cannot {what}: {error}");
    // The second would refuse the call that sets the first.
    for filter in [without_clone3(), filter()] {
        let filter = filter.map_err(|e| fail("make the filter of system calls", &e))?;
        seccompiler::apply_filter(&filter).map_err(|e| fail("filter system calls", &e))?;
    }
    Ok(())
}

/// The arguments of clone3 are in memory, where no filter sees them. The C library takes this for a
/// kernel without that call, and starts threads by clone.
fn without_clone3() -> Result<BpfProgram, Box<dyn std::error::Error>> {
    let filter = SeccompFilter::new(
        BTreeMap::from([(libc::SYS_clone3, Vec::new())]),
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS as u32),
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

fn filter() -> Result<BpfProgram, Box<dyn std::error::Error>> {
    let mut calls: BTreeMap<i64, _> = SYSTEM_CALLS.iter().map(|call| (*call, Vec::new())).collect();
    calls.extend(rules()?);
    allow_only(calls)
}

fn allow_only(
    calls: BTreeMap<i64, Vec<SeccompRule>>,
) -> Result<BpfProgram, Box<dyn std::error::Error>> {
    let filter = SeccompFilter::new(
        calls,
        SeccompAction::Errno(libc::EPERM as u32),
        SeccompAction::Allow,
        std::env::consts::ARCH.try_into()?,
    )?;
    Ok(filter.try_into()?)
}

/// An argument's number, and what it must be.
type Argument = (u8, SeccompCmpOp, u64);

fn equal(argument: u8, value: libc::c_int) -> Argument {
    (argument, SeccompCmpOp::Eq, u64::from(value as u32))
}

/// Of the bits of `mask`, the argument has none but those of `value`, and all of these.
fn bits(argument: u8, mask: libc::c_int, value: libc::c_int) -> Argument {
    (argument, SeccompCmpOp::MaskedEq(u64::from(mask as u32)), u64::from(value as u32))
}

/// System calls that are allowed with some arguments only: one of the lists must be met.
fn rules() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    const NAMESPACES: libc::c_int = libc::CLONE_NEWNS
        | libc::CLONE_NEWCGROUP
        | libc::CLONE_NEWUTS
        | libc::CLONE_NEWIPC
        | libc::CLONE_NEWUSER
        | libc::CLONE_NEWPID
        | libc::CLONE_NEWNET;
    const WRITING: libc::c_int = libc::O_ACCMODE | libc::O_CREAT | libc::O_TRUNC | libc::O_APPEND;
    const RAW: libc::c_int = libc::SOCK_RAW | libc::SOCK_CLOEXEC;
    let option = |level, name| vec![equal(1, level), equal(2, name)];
    let allowed: [(libc::c_long, Vec<Vec<Argument>>); 8] = [
        // Threads of its own, and no program.
        (libc::SYS_clone, vec![vec![bits(0, libc::CLONE_THREAD | NAMESPACES, libc::CLONE_THREAD)]]),
        // Questions about interfaces, and nothing that changes one.
        (
            libc::SYS_ioctl,
            [libc::SIOCGIFINDEX, libc::SIOCGIFNAME, libc::SIOCGIFMTU, libc::SIOCGIFHWADDR]
                .map(|request| vec![equal(1, request as libc::c_int)])
                .into(),
        ),
        (libc::SYS_mmap, vec![vec![bits(2, libc::PROT_EXEC, 0)]]),
        (libc::SYS_mprotect, vec![vec![bits(2, libc::PROT_EXEC, 0)]]),
        (libc::SYS_openat, vec![vec![bits(2, WRITING, libc::O_RDONLY)]]),
        (libc::SYS_prctl, vec![vec![equal(0, libc::PR_SET_NAME)]]),
        (
            libc::SYS_setsockopt,
            vec![
                option(libc::SOL_SOCKET, libc::SO_RCVTIMEO),
                option(libc::SOL_SOCKET, libc::SO_SNDTIMEO),
                option(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER),
                option(libc::SOL_SOCKET, libc::SO_LOCK_FILTER),
                option(libc::SOL_SOCKET, libc::SO_MARK),
                option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING),
                option(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS),
            ],
        ),
        (
            libc::SYS_socket,
            vec![
                // Of no protocol: nothing arrives before the filter is there.
                vec![equal(0, libc::AF_PACKET), equal(1, RAW), equal(2, 0)],
                // To ask about interfaces.
                vec![
                    equal(0, libc::AF_INET),
                    bits(1, !(libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK), libc::SOCK_DGRAM),
                ],
                vec![equal(0, libc::AF_NETLINK), equal(2, libc::NETLINK_ROUTE)],
            ],
        ),
    ];
    let condition = |(argument, operation, value): Argument| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operation, value)
    };
    let rule = |arguments: Vec<Argument>| {
        SeccompRule::new(arguments.into_iter().map(condition).collect::<Result<_, _>>()?)
    };
    allowed
        .into_iter()
        .map(|(call, lists)| Ok((call, lists.into_iter().map(rule).collect::<Result<_, _>>()?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    /// The filter is a thread's for good, so the test runs in a process of its own.
    const CONFINED: &str = "WIGLAF_TEST_CONFINED";

    /// How a system call that takes integers only ended.
    fn call(number: libc::c_long, arguments: [libc::c_long; 4]) -> Option<i32> {
        let [a, b, c, d] = arguments;
        // SAFETY: no pointer among the arguments is one that the call would write through.
        let status = unsafe { libc::syscall(number, a, b, c, d, -1_i64, 0_i64) };
        (status < 0).then(|| io::Error::last_os_error().raw_os_error()).flatten()
    }

    fn refused_calls() -> Vec<(&'static str, Option<i32>)> {
        let long = |value: libc::c_int| libc::c_long::from(value);
        let path = c"/dev/null".as_ptr() as libc::c_long;
        let [exec, private] =
            [libc::PROT_EXEC | libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS];
        vec![
            (
                "an IPv6 socket",
                call(libc::SYS_socket, [long(libc::AF_INET6), long(libc::SOCK_DGRAM), 0, 0]),
            ),
            (
                "a TCP socket",
                call(libc::SYS_socket, [long(libc::AF_INET), long(libc::SOCK_STREAM), 0, 0]),
            ),
            (
                "a raw IP socket",
                call(libc::SYS_socket, [long(libc::AF_INET), long(libc::SOCK_RAW), 1, 0]),
            ),
            (
                "a packet socket that sees all",
                call(
                    libc::SYS_socket,
                    [long(libc::AF_PACKET), long(libc::SOCK_RAW | libc::SOCK_CLOEXEC), 0x300, 0],
                ),
            ),
            (
                "writing",
                call(libc::SYS_openat, [long(libc::AT_FDCWD), path, long(libc::O_WRONLY), 0]),
            ),
            (
                "setting flags of an interface",
                call(libc::SYS_ioctl, [0, libc::SIOCSIFFLAGS as libc::c_long, 0, 0]),
            ),
            ("being traced", call(libc::SYS_prctl, [long(libc::PR_SET_DUMPABLE), 1, 0, 0])),
            ("memory to execute", call(libc::SYS_mmap, [0, 4096, long(exec), long(private)])),
            (
                "an option of IP",
                call(libc::SYS_setsockopt, [0, long(libc::SOL_IP), long(libc::IP_TTL), 0]),
            ),
            ("a process", call(libc::SYS_clone, [long(libc::SIGCHLD), 0, 0, 0])),
            ("a program", call(libc::SYS_execve, [path, 0, 0, 0])),
        ]
    }

    #[test]
    fn process_that_tunes_opens_and_starts_nothing() {
        if std::env::var_os(CONFINED).is_none() {
            let name = "confine::tests::process_that_tunes_opens_and_starts_nothing";
            let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
            let said = itself.args(["--exact", name]).env(CONFINED, "1").output().unwrap();
            let shown = String::from_utf8_lossy(&said.stdout);
            assert!(said.status.success() && shown.contains("1 passed"), "{shown}");
            return;
        }
        let mut already = wiglaf_netlink::Ethtool::open().unwrap();
        keep_network_admin().unwrap();
        let long = |value: libc::c_int| libc::c_long::from(value);
        let path = c"/dev/null".as_ptr() as libc::c_long;
        let netlink = [long(libc::AF_NETLINK), long(libc::SOCK_RAW), 0, 0];
        for (what, error) in [
            ("another netlink socket", call(libc::SYS_socket, netlink)),
            (
                "reading a file",
                call(libc::SYS_openat, [long(libc::AT_FDCWD), path, long(libc::O_RDONLY), 0]),
            ),
            ("a thread", call(libc::SYS_clone, [long(libc::CLONE_THREAD), 0, 0, 0])),
            ("a program", call(libc::SYS_execve, [path, 0, 0, 0])),
            ("a device's setting", call(libc::SYS_ioctl, [0, libc::SIOCSIFFLAGS as _, 0, 0])),
        ] {
            assert_eq!(error, Some(libc::EPERM), "{what}");
        }
        // The loopback interface has none, which the kernel says.
        let card = wiglaf_netlink::Card { index: 1, name: "lo".to_owned() };
        assert!(already.rings(&card).is_err_and(|why| why.kind() == io::ErrorKind::Unsupported));
    }

    #[test]
    fn the_filter_lets_the_helpers_calls_through_and_no_others_arguments() {
        if std::env::var_os(CONFINED).is_none() {
            let name =
                "confine::tests::the_filter_lets_the_helpers_calls_through_and_no_others_arguments";
            let mut itself = std::process::Command::new(std::env::current_exe().unwrap());
            let said = itself.args(["--exact", name]).env(CONFINED, "1").output().unwrap();
            let shown = String::from_utf8_lossy(&said.stdout);
            assert!(said.status.success() && shown.contains("1 passed"), "{shown}");
            return;
        }
        filter_calls().unwrap();
        for (what, error) in refused_calls() {
            assert_eq!(error, Some(libc::EPERM), "{what}");
        }
        assert_eq!(std::thread::spawn(|| 7).join().unwrap(), 7);
        std::fs::read_to_string("/proc/self/net/udp").unwrap();
        let mine = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        assert!(crate::sys::has_port_alone(
            &mine,
            mine.local_addr().unwrap().to_string().parse().unwrap()
        ));
        assert!(wiglaf_link_udp::interface::list().unwrap().iter().any(|found| found.is_loopback));
    }
}
