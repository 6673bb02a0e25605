//! What this machine offers, found by trying, and the mend for what is missing.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::mount::{FsOpenFlags, fsopen};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use serde::Serialize;
use wiglaf_base::machine::{cores, has_privilege};
use wiglaf_base::program::{GET_IPROUTE2, find_tool};
use wiglaf_bpf::{Assembler, Kind, Map, Program};
use wiglaf_mpi::provider::{self, Provider};
use wiglaf_mpi::{self as mpi, Family, Front, Installation, Libfabric, discover};
use wiglaf_mpi::{fortran, ld};

/// What lets a frame go on to the IP stack.
const XDP_PASS: i32 = 2;

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It is there and works.
    Ok,
    /// It is not there, and something optional does without it.
    Limited,
    /// It is not there, and the main job needs it.
    Missing,
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub struct Check {
    /// What was looked at.
    pub name: &'static str,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub mend: Option<String>,
}

impl Check {
    fn ok(name: &'static str, found: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Ok, found: found.into(), mend: None }
    }

    fn lacks(name: &'static str, verdict: Verdict, found: impl Into<String>, mend: &str) -> Self {
        Self { name, verdict, found: found.into(), mend: Some(mend.to_owned()) }
    }
}

/// Looks at everything; `exe` is the running `wiglaf`.
#[must_use]
pub fn examine(exe: &Path) -> Vec<Check> {
    let libraries = ld::libraries();
    let mut checks = vec![
        kernel(),
        cpu_cores(),
        privilege(),
        user_namespaces(),
        overlayfs(),
        iproute2(),
        link_udp(),
        link_packet(),
        link_xdp(),
        link_shm(),
        cma(),
    ];
    checks.extend(mpis(&discover::all(), provider::find(exe).ok().as_ref()));
    checks.extend([libfabric(&libraries), ucx(&libraries), provider_library(exe), interposer(exe)]);
    checks
}

fn kernel() -> Check {
    Check::ok("kernel", rustix::system::uname().release().to_string_lossy())
}

fn cpu_cores() -> Check {
    const NAME: &str = "cores";
    match cores().len() {
        1 => Check::lacks(
            NAME,
            Verdict::Limited,
            "1: all nodes share it",
            "allow more cores, for example with `taskset`",
        ),
        count => Check::ok(NAME, format!("{count}")),
    }
}

fn privilege() -> Check {
    const NAME: &str = "privilege";
    if has_privilege() {
        return Check::ok(NAME, "can make namespaces (CAP_SYS_ADMIN, CAP_NET_ADMIN)");
    }
    let found = "cannot make namespaces: `up` and `down` will not work";
    Check::lacks(
        NAME,
        Verdict::Missing,
        found,
        "run `sudo wiglaf up` once; `run` needs no root then",
    )
}

fn user_namespaces() -> Check {
    const NAME: &str = "user namespaces";
    // The tool, because a process with threads cannot try it on itself.
    let works = silent(Command::new("unshare").args(["--user", "--map-root-user", "true"]));
    if works {
        return Check::ok(NAME, "ordinary users can make them");
    }
    Check::lacks(
        NAME,
        Verdict::Limited,
        "ordinary users cannot make them (only the rootless tests need them)",
        "sysctl -w kernel.unprivileged_userns_clone=1, where that exists",
    )
}

fn overlayfs() -> Check {
    const NAME: &str = "overlayfs";
    let listed = || {
        fs::read_to_string("/proc/filesystems")
            .is_ok_and(|text| text.lines().any(|line| line.ends_with("\toverlay")))
    };
    // Opening loads the module, but only root may; the list must do for others.
    if fsopen("overlay", FsOpenFlags::FSOPEN_CLOEXEC).is_ok() || listed() {
        return Check::ok(NAME, "works");
    }
    Check::lacks(NAME, Verdict::Missing, "this kernel has none", "modprobe overlay")
}

fn iproute2() -> Check {
    const NAME: &str = "iproute2";
    let missing = ["ip", "tc"].into_iter().find(|tool| find_tool(tool).is_none());
    let version = find_tool("ip").and_then(|ip| first_line(&ip, &["-V"])).unwrap_or_default();
    match missing {
        Some(tool) => Check::lacks(
            NAME,
            Verdict::Missing,
            format!("`{tool}` is not in the PATH"),
            GET_IPROUTE2,
        ),
        None => Check::ok(NAME, version.trim_start_matches("ip utility, ").to_owned()),
    }
}

fn link_udp() -> Check {
    const NAME: &str = "link udp";
    let ping = || -> std::io::Result<()> {
        let (a, b) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
        b.set_read_timeout(Some(Duration::from_secs(2)))?;
        a.send_to(b"wiglaf", b.local_addr()?)?;
        b.recv_from(&mut [0; 16]).map(drop)
    };
    match ping() {
        Ok(()) => Check::ok(NAME, "a datagram crossed the loopback"),
        Err(error) => {
            let found = format!("no datagram crosses the loopback ({error})");
            Check::lacks(NAME, Verdict::Missing, found, "ip link set lo up")
        }
    }
}

fn link_packet() -> Check {
    const NAME: &str = "link packet";
    let opened = socket_with(AddressFamily::PACKET, SocketType::RAW, SocketFlags::CLOEXEC, None);
    match opened {
        Ok(_) => Check::ok(NAME, "an AF_PACKET socket opens"),
        Err(error) => Check::lacks(
            NAME,
            Verdict::Limited,
            format!("AF_PACKET sockets do not open here ({error}); `udp` is used"),
            "run as root, or give CAP_NET_RAW",
        ),
    }
}

/// All that needs no interface; whether a driver bears the program, only a
/// rank on its interface finds out.
fn link_xdp() -> Check {
    const NAME: &str = "link xdp";
    let tried = || -> std::io::Result<()> {
        let family = AddressFamily::from_raw(libc::AF_XDP as u16);
        socket_with(family, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
        Map::sockets("wiglaf_doctor", 1)?;
        let program = Assembler::default().finish(XDP_PASS);
        Program::load(Kind::Xdp, "wiglaf_doctor", &program).map(drop)
    };
    let Err(error) = tried() else {
        return Check::ok(NAME, "an AF_XDP socket opens, an XDP program loads");
    };
    let mend = match error.kind() {
        std::io::ErrorKind::PermissionDenied => {
            "run as root, or give CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF"
        }
        _ => "take a kernel of Linux 5.18 or later with CONFIG_XDP_SOCKETS and CONFIG_BPF_SYSCALL",
    };
    let found = format!("no AF_XDP here ({error}); other links are used");
    Check::lacks(NAME, Verdict::Limited, found, mend)
}

fn link_shm() -> Check {
    const NAME: &str = "link shm";
    let path = format!("/dev/shm/wiglaf-doctor-{}", std::process::id());
    let tried = fs::File::options().create_new(true).write(true).open(&path);
    let _ = fs::remove_file(&path);
    match tried {
        Ok(_) => {
            let free = rustix::fs::statvfs("/dev/shm").map_or(0, |s| s.f_bavail * s.f_frsize);
            Check::ok(NAME, format!("/dev/shm takes files, {} MiB are free", free >> 20))
        }
        Err(error) => Check::lacks(
            NAME,
            Verdict::Limited,
            format!("/dev/shm takes no files ({error}); ranks of one node use `udp`"),
            "mount -t tmpfs -o mode=1777 tmpfs /dev/shm",
        ),
    }
}

/// Whether a process may read another's memory: one copy instead of two.
fn cma() -> Check {
    const NAME: &str = "CMA";
    let scope = fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope").unwrap_or_default();
    match (reads_own_memory(), scope.trim()) {
        (Err(error), _) => Check::lacks(
            NAME,
            Verdict::Limited,
            format!("process_vm_readv fails ({error}); ranks of one node copy twice"),
            "allow the system call, for example with `docker run --cap-add SYS_PTRACE`",
        ),
        (Ok(()), "" | "0") => Check::ok(NAME, "process_vm_readv works between processes"),
        (Ok(()), scope) => Check::lacks(
            NAME,
            Verdict::Limited,
            format!("ptrace_scope is {scope}: unrelated processes cannot; they copy twice"),
            "sysctl -w kernel.yama.ptrace_scope=0",
        ),
    }
}

fn reads_own_memory() -> std::io::Result<()> {
    let source = *b"wiglaf";
    let mut copy = [0_u8; 6];
    let local = libc::iovec { iov_base: copy.as_mut_ptr().cast(), iov_len: copy.len() };
    let remote = libc::iovec { iov_base: source.as_ptr().cast_mut().cast(), iov_len: source.len() };
    let pid = std::process::id() as libc::pid_t;
    // SAFETY: both vectors describe live buffers of ours of the given length;
    // the kernel reads `source` and writes `copy`.
    let count =
        unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
    match count {
        6 if copy == source => Ok(()),
        -1 => Err(std::io::Error::last_os_error()),
        _ => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

fn family_name(family: Family) -> &'static str {
    match family {
        Family::OpenMpi => "Open MPI",
        Family::Mpich => "MPICH",
        Family::Intel => "Intel MPI",
    }
}

/// Every MPI that is here, and those that could be.
fn mpis(found: &[Installation], provider: Option<&Provider>) -> Vec<Check> {
    let able: Vec<bool> = found.iter().map(|mpi| mpi.libfabric().is_there()).collect();
    let any = able.contains(&true);
    let mut checks = Vec::new();
    for family in Family::ALL {
        let of_family: Vec<_> =
            found.iter().zip(&able).filter(|(mpi, _)| mpi.family == family).collect();
        let other = of_family.iter().find(|(_, able)| **able).map(|(mpi, _)| *mpi);
        checks.extend(of_family.iter().map(|(mpi, _)| installed(mpi, other, provider)));
        if of_family.is_empty() {
            // One is enough, and Open MPI is the one that `run` takes by default.
            let needed = !any && family == Family::OpenMpi;
            let verdict = if needed { Verdict::Missing } else { Verdict::Limited };
            let name = family_name(family);
            checks.push(Check::lacks(
                name,
                verdict,
                "not installed",
                &family.install_command(None),
            ));
        }
    }
    checks
}

/// One MPI; `other` is the one of its family that `run` takes.
fn installed(
    mpi: &Installation,
    other: Option<&Installation>,
    provider: Option<&Provider>,
) -> Check {
    let name = family_name(mpi.family);
    let here = format!("{} ({})", mpi.version, mpi.prefix.display());
    let libfabric = mpi.libfabric();
    let found = match &libfabric {
        Libfabric::Loads(path) => {
            let path = path.display();
            // A few releases need another way for windows, which is slower for long messages.
            let windows = match mpi::windows_need_ob1(mpi) {
                true => "; messages go through pml/ob1, without which its MPI windows fail",
                false => "",
            };
            let here = match mpi::never_ends_stdin(mpi) {
                true => format!(
                    "{here}; programs wait for ever at the end of `< FILE`, name it as an argument"
                ),
                false => here,
            };
            return Check::ok(
                name,
                match provider.map(|p| Front::before(&libfabric, p)) {
                    Some(Ok(_)) => {
                        format!("{here}, loads Wiglaf's own libfabric before {path}{windows}")
                    }
                    Some(Err(why)) => format!("{here}, loads {path} ({why}){windows}"),
                    None => format!("{here}, loads {path}{windows}"),
                },
            );
        }
        Libfabric::BuiltIn => return Check::ok(name, format!("{here}, libfabric built in")),
        Libfabric::NotFound => {
            let found = format!("{here} finds no libfabric to load");
            return Check::lacks(name, Verdict::Limited, found, "apt-get install libfabric1");
        }
        Libfabric::Never if mpi.has_ucx() => {
            format!("{here} is built on UCX and never loads libfabric")
        }
        Libfabric::Never => format!("{here} is built without libfabric"),
    };
    let word = mpi.family.name();
    let mend = match other {
        Some(other) => format!(
            "nothing: `wiglaf run --mpi {word}` runs its programs unchanged on {} {}",
            other.family, other.version
        ),
        None => format!(
            "{}; then `wiglaf run --mpi {word}` runs its programs unchanged",
            mpi.family.install_command(None)
        ),
    };
    Check::lacks(name, Verdict::Limited, found, &mend)
}

fn libfabric(libraries: &BTreeMap<String, String>) -> Check {
    const NAME: &str = "libfabric";
    let Some(path) = libraries.get("libfabric.so.1") else {
        return Check::lacks(NAME, Verdict::Missing, "not installed", "apt-get install libfabric1");
    };
    let version = first_line("fi_info", &["--version"]).map(|l| l.replace("fi_info: ", ""));
    Check::ok(NAME, version.map_or_else(|| path.clone(), |v| format!("{v} ({path})")))
}

fn ucx(libraries: &BTreeMap<String, String>) -> Check {
    const NAME: &str = "UCX";
    match libraries.get("libucp.so.0") {
        Some(path) => Check::ok(NAME, path.clone()),
        None => {
            let found = "not installed (only `--transport ucx` needs it)";
            Check::lacks(NAME, Verdict::Limited, found, "apt-get install libucx0")
        }
    }
}

fn provider_library(exe: &Path) -> Check {
    const NAME: &str = "provider";
    match provider::find(exe) {
        Ok(provider) => Check::ok(NAME, provider.dir.display().to_string()),
        Err(_) => Check::lacks(
            NAME,
            Verdict::Missing,
            "libwiglaf-fi.so is not beside this program",
            "cargo build --release -p wiglaf-fabric, or set WIGLAF_LIBDIR",
        ),
    }
}

fn interposer(exe: &Path) -> Check {
    const NAME: &str = "interposer";
    match fortran::interposer(exe) {
        Ok(folder) => Check::ok(NAME, folder.display().to_string()),
        Err(_) => Check::lacks(
            NAME,
            Verdict::Limited,
            "libwiglaf-logical.so is not beside this program (--fortran-true=-1 needs it)",
            "cargo build --release -p wiglaf-logical, or set WIGLAF_LIBDIR",
        ),
    }
}

fn silent(command: &mut Command) -> bool {
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn first_line(program: impl AsRef<OsStr>, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().next().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lacking_has_a_mend() {
        // What users can type, or a setting that the sentence names.
        const COMMANDS: [&str; 10] = [
            "apt-get ",
            "cargo ",
            "docker ",
            "ip link ",
            "modprobe ",
            "mount ",
            "pip ",
            "sysctl ",
            "taskset",
            "wiglaf ",
        ];
        let checks = examine(Path::new("/no/such/wiglaf"));
        let of = |name: &str| checks.iter().find(|check| check.name == name).unwrap();
        // Beside that executable there is none.
        assert_eq!(of("provider").verdict, Verdict::Missing);
        for check in &checks {
            assert!(!check.found.is_empty() && !check.found.contains('\n'), "{check:?}");
            let Some(mend) = &check.mend else { continue };
            let names_one = COMMANDS.iter().any(|command| mend.contains(command));
            assert!(names_one || mend.contains("WIGLAF_") || mend.contains("root"), "{check:?}");
        }
    }

    #[test]
    fn a_process_reads_its_own_memory() {
        reads_own_memory().unwrap();
    }
}
