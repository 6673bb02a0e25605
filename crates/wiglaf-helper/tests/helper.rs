//! The real helper in a network namespace, asked by several users: threads of
//! this test that have become them.

use std::io::{IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::net::{
    AddressFamily, Protocol, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketType,
    ipproto, sendmsg, sockopt,
};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};
use tempfile::TempDir;
use wiglaf_helper::{AskError, Refusal, SocketKind, ask_at, status_at};
use wiglaf_link::{Lane, Link, Train};
use wiglaf_link_packet::PacketLink;
use wiglaf_link_udp::{BulkSocket, FrameSocket, interface};
use wiglaf_testnet::{Node, Pair};

const ANN: u32 = 61_001;
const BOB: u32 = 61_002;
const POLICY: &str = "[[admit]]\nusers = [61001]\nlinks = ['packet']\n";

struct Helper {
    child: Child,
    folder: TempDir,
}

impl Helper {
    /// Starts it in the namespace, as root.
    fn start(node: &Node, policy: &str) -> Self {
        let folder = Self::folder(policy);
        let log = folder.path().join("log");
        let helper = Self::start_with_log(node, folder, &log);
        helper.wait_for_line("listening");
        helper
    }

    /// What is in the log was written after the answer, or will be.
    fn wait_for_line(&self, words: &str) {
        while !self.log().contains(words) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// A folder with that policy.
    fn folder(policy: &str) -> TempDir {
        let folder = TempDir::new().unwrap();
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        std::fs::write(folder.path().join("policy"), policy).unwrap();
        folder
    }

    /// Its policy is in the folder, and it writes its log there, or elsewhere.
    fn start_with_log(node: &Node, folder: TempDir, log: &Path) -> Self {
        let child = Self::spawn(node, folder.path(), log);
        Self { child, folder }
    }

    fn spawn(node: &Node, folder: &Path, log: &Path) -> Child {
        let log = std::fs::File::create(log).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiglaf-helper"));
        command.arg("--socket").arg(folder.join("socket"));
        command.arg("--policy").arg(folder.join("policy")).stderr(log);
        command.arg("--tuning").arg(folder.join("tuning"));
        node.run(|| command.stdin(Stdio::null()).spawn()).unwrap()
    }

    fn socket(&self) -> PathBuf {
        self.folder.path().join("socket")
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    fn status(&self) -> String {
        status_at(&self.socket()).unwrap()
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Does something in the namespace as that user, with no capability.
fn as_user<T: Send>(node: &Node, uid: u32, action: impl FnOnce() -> T + Send) -> T {
    node.run(|| {
        let (user, group) = (Uid::from_raw(uid), Gid::from_raw(uid));
        set_thread_groups(&[]).unwrap();
        set_thread_res_gid(group, group, group).unwrap();
        set_thread_res_uid(user, user, user).unwrap();
        action()
    })
}

fn refusal<T>(asked: Result<T, AskError>) -> (Refusal, String) {
    match asked {
        Err(AskError::Refused(refusal, why)) => (refusal, why),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("granted"),
    }
}

/// A link of what the helper gives.
fn link(helper: &Helper, node: &Node) -> Result<PacketLink, AskError> {
    let plain = FrameSocket::open(SocketAddrV4::new(node.ip, 0)).unwrap();
    let packet = ask_at(&helper.socket(), SocketKind::Packet, &plain)?;
    let bulk = BulkSocket::open(node.ip).unwrap();
    let interface = interface::holding(node.ip).unwrap().unwrap();
    Ok(PacketLink::from_sockets(packet, plain, bulk, interface).unwrap())
}

#[test]
fn an_admitted_user_has_a_packet_link_without_privilege_and_another_has_not() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helpers = [Helper::start(&pair.a, POLICY), Helper::start(&pair.b, POLICY)];
    let denied = as_user(&pair.a, ANN, || {
        rustix::net::socket_with(
            rustix::net::AddressFamily::PACKET,
            rustix::net::SocketType::RAW,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
    });
    assert!(denied.is_err(), "the user is privileged, and nothing would be shown");

    let mut a = as_user(&pair.a, ANN, || link(&helpers[0], &pair.a)).unwrap();
    let mut b = as_user(&pair.b, ANN, || link(&helpers[1], &pair.b)).unwrap();
    let to = b.local();
    let mut arrived = Vec::new();
    while arrived.is_empty() {
        let train = Train { to, lane: Lane::Latency, segment_len: 5, bytes: b"hello" };
        as_user(&pair.a, ANN, || a.send(&train)).unwrap();
        b.recv(&mut |from, bytes| arrived.push((from, bytes.to_vec()))).unwrap();
    }
    assert_eq!(arrived[0], (a.local(), b"hello".to_vec()));
    let early_drop = if helpers[1].log().contains("no early drop") {
        eprintln!("skipped: early drop, which this kernel has not");
        "no early drop"
    } else {
        assert_eq!(pair.b.udp_drops(to.port()), Some(0), "the IP stack had it, too");
        "early drop on wl0"
    };

    let (why, sentence) = refusal(as_user(&pair.a, BOB, || link(&helpers[0], &pair.a)));
    assert_eq!(why, Refusal::NotAdmitted);
    assert!(sentence.contains("does not admit user 61002 to the packet link"), "{sentence}");
    helpers[0].wait_for_line("user 61002 refused (not admitted)");
    assert!(helpers[0].status().contains("granted 1, malformed 0, not admitted 1"));
    // Who is not root learns nothing of others.
    let told = as_user(&pair.a, BOB, || helpers[0].status());
    assert_eq!(told, format!("user 61002 is not admitted; {early_drop}"));
}

#[test]
fn what_is_not_the_callers_own_port_is_refused() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helper = Helper::start(&pair.a, POLICY);
    let ask =
        |socket: &dyn AsFdDyn| refusal(ask_at(&helper.socket(), SocketKind::Packet, &socket.fd()));
    // Bound to the address of the helper's host, in another network namespace.
    let elsewhere = pair.b.run(|| {
        pair.b.ip(&["address", "add", "10.77.0.1/32", "dev", "lo"]).unwrap();
        UdpSocket::bind("10.77.0.1:7000").unwrap()
    });
    let wildcard = pair.a.run(|| UdpSocket::bind("0.0.0.0:0").unwrap());
    let loopback = pair.a.run(|| UdpSocket::bind("127.0.0.1:0").unwrap());
    let tcp = pair.a.run(|| TcpListener::bind("10.77.0.1:0").unwrap());
    let open = |protocol: Option<Protocol>, is_shared: bool, at: &str| {
        pair.a.run(|| {
            let socket =
                rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, protocol).ok()?;
            sockopt::set_socket_reuseaddr(&socket, is_shared).unwrap();
            rustix::net::bind(&socket, &at.parse::<SocketAddrV4>().unwrap()).unwrap();
            Some(socket)
        })
    };
    let shared = open(None, true, "10.77.0.1:7001").unwrap();
    // That it was bound to share its port cannot be asked later.
    let [unshared, _other] = [(); 2].map(|()| open(None, true, "10.77.0.1:7002").unwrap());
    sockopt::set_socket_reuseaddr(&unshared, false).unwrap();
    // UDP-Lite has ports of its own: that of another's UDP socket is free there.
    let _theirs = open(None, false, "10.77.0.1:7701").unwrap();
    let lite = open(Some(ipproto::UDPLITE), false, "10.77.0.1:7701");
    if lite.is_none() {
        eprintln!("skipped: sockets of UDP-Lite, which this kernel has not");
    }
    as_user(&pair.a, ANN, || {
        for (socket, words) in [
            (&elsewhere as &dyn AsFdDyn, "another network namespace"),
            (&wildcard, "no UDP socket that has its port alone"),
            (&loopback, "on no Ethernet interface"),
            (&tcp, "no UDP socket"),
            (&shared, "no UDP socket that has its port alone"),
            (&unshared, "no UDP socket that has its port alone"),
        ]
        .into_iter()
        .chain(lite.iter().map(|lite| (lite as &dyn AsFdDyn, "no UDP socket")))
        {
            let (why, sentence) = ask(socket);
            assert_eq!(why, Refusal::NotTheirs, "{sentence}");
            assert!(sentence.contains(words), "{sentence}");
        }
    });
    // Admitted or not, whoever asks for an xdp socket is told that there is none to be had.
    for user in [ANN, BOB] {
        as_user(&pair.a, user, || {
            let (why, sentence) = refusal(ask_at(&helper.socket(), SocketKind::Xdp, &wildcard));
            assert_eq!(why, Refusal::NotAdmitted);
            assert!(sentence.contains("no helper lends xdp"), "{sentence}");
        });
    }
    let refused = format!("not theirs {}", 6 + usize::from(lite.is_some()));
    assert!(helper.status().contains("granted 0") && helper.status().contains(&refused));
}

/// Sockets of several kinds in one list.
trait AsFdDyn: Sync {
    fn fd(&self) -> OwnedFd;
}

impl<T: AsFd + Sync> AsFdDyn for T {
    fn fd(&self) -> OwnedFd {
        self.as_fd().try_clone_to_owned().unwrap()
    }
}

#[test]
fn nonsense_and_too_much_are_refused_and_counted() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let policy = format!("requests_per_minute = 60\n{POLICY}");
    let helper = Helper::start(&pair.a, &policy);
    let say = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(helper.socket()).unwrap();
        // It may have refused already.
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        answer.first().copied()
    };
    as_user(&pair.a, BOB, || {
        for bytes in [&b""[..], b"W", b"WGHELP01", b"WGHELP02\x01\0\0\0\0\0\0\0", &[0xff; 16]] {
            assert_eq!(say(bytes), Some(1), "{bytes:?}");
        }
        let codes: Vec<_> = (0..40).map(|_| say(b"?").unwrap()).collect();
        assert!(codes.contains(&3), "nothing is too often: {codes:?}");
    });
    // It still serves others.
    as_user(&pair.a, ANN, || link(&helper, &pair.a).map(drop)).unwrap();
    let status = helper.status();
    assert!(status.contains("granted 1") && !status.contains("malformed 0"), "{status}");
}

/// What becomes possible when a socket is closed. It may stay open for a moment in a process that another test is about
/// to start: a fork has all descriptors until it executes its program.
fn once_closed<T, E: std::fmt::Debug>(mut attempt: impl FnMut() -> Result<T, E>) -> T {
    for _ in 0..20 {
        if let Ok(done) = attempt() {
            return done;
        }
        std::thread::sleep(Duration::from_millis(250));
    }
    attempt().unwrap()
}

/// Whoever collected sockets would hear the jobs that others start later on those ports.
#[test]
fn a_user_has_a_bounded_number_of_sockets_and_none_for_a_port_that_another_hears() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let policy = "sockets_per_user = 3\n[[admit]]\nusers = [61001, 61002]\nlinks = ['packet']\n";
    let helper = Helper::start(&pair.a, policy);
    let bind = |port| once_closed(|| UdpSocket::bind(SocketAddrV4::new(pair.a.ip, port)));
    let ask = |udp: &UdpSocket| ask_at(&helper.socket(), SocketKind::Packet, udp);
    let mut kept = as_user(&pair.a, ANN, || {
        let kept: Vec<_> = (0..3).map(|_| ask(&bind(0)).unwrap()).collect();
        let (why, sentence) = refusal(ask(&bind(0)));
        assert_eq!(why, Refusal::TooMany, "{sentence}");
        assert!(sentence.contains("user 61001 has 3 packet sockets open"), "{sentence}");
        kept
    });
    // Another user has as many, and one that is closed makes room.
    as_user(&pair.a, BOB, || drop(ask(&bind(0)).unwrap()));
    kept.pop();
    let (socket, port) = as_user(&pair.a, ANN, || {
        let udp = bind(0);
        (once_closed(|| ask(&udp)), udp.local_addr().unwrap().port())
    });
    // The UDP socket is closed, so that its port is anybody's; the packet socket is not.
    as_user(&pair.a, BOB, || {
        let (why, sentence) = refusal(ask(&bind(port)));
        assert_eq!(why, Refusal::Overheard, "{sentence}");
    });
    drop(socket);
    as_user(&pair.a, BOB, || drop(once_closed(|| ask(&bind(port)))));
}

#[test]
fn the_helper_keeps_one_capability_and_its_filters_stay() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helper = Helper::start(&pair.a, POLICY);
    let status = std::fs::read_to_string(format!("/proc/{}/status", helper.child.id())).unwrap();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    const NET_RAW: &str = "0000000000002000";
    assert_eq!([field("CapPrm:"), field("CapEff:"), field("CapBnd:")], [NET_RAW; 3]);
    assert_eq!(field("CapInh:"), "0000000000000000");
    assert_eq!(field("Uid:"), "65534 65534 65534 65534");
    assert_eq!(field("Gid:"), "65534 65534 65534 65534");
    assert_eq!([field("NoNewPrivs:"), field("Seccomp:")], ["1", "2"]);

    let socket = as_user(&pair.a, ANN, || {
        let udp = UdpSocket::bind(SocketAddrV4::new(pair.a.ip, 0)).unwrap();
        ask_at(&helper.socket(), SocketKind::Packet, &udp).unwrap()
    });
    let on: i32 = 1;
    // SAFETY: the option takes an integer, which is live and of the stated length.
    let detached = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_DETACH_FILTER,
            (&raw const on).cast(),
            size_of::<i32>() as libc::socklen_t,
        )
    };
    assert_eq!(detached, -1, "the filter came off");
    assert_eq!(std::io::Error::last_os_error().raw_os_error(), Some(libc::EPERM));
}

#[test]
fn a_policy_that_others_can_write_admits_nobody() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helper = Helper::start(&pair.a, POLICY);
    let file = helper.folder.path().join("policy");
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    let (why, sentence) = refusal(as_user(&pair.a, ANN, || link(&helper, &pair.a)));
    assert_eq!(why, Refusal::NotAdmitted);
    assert!(sentence.contains("is not believed"), "{sentence}");
    // A change of the policy counts at once.
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    as_user(&pair.a, ANN, || link(&helper, &pair.a).map(drop)).unwrap();
}

/// A TCP socket that takes so long to close: its peer does not read, and something is to be sent.
fn lingering(listener: &TcpListener) -> (TcpStream, TcpStream) {
    let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (theirs, _) = listener.accept().unwrap();
    ours.set_nonblocking(true).unwrap();
    while ours.write(&[0; 1 << 16]).is_ok() {}
    sockopt::set_socket_linger(&ours, Some(Duration::from_secs(30))).unwrap();
    (ours, theirs)
}

#[test]
fn a_connection_that_is_slow_to_close_keeps_nobody_waiting() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helper = Helper::start(&pair.a, POLICY);
    let _held = as_user(&pair.a, BOB, || {
        let listener = TcpListener::bind("10.77.0.1:0").unwrap();
        let connect = || UnixStream::connect(helper.socket()).unwrap();
        // All of a user's places, so that all others are refused.
        let mut held: Vec<_> = (0..8).map(|_| (connect(), None)).collect();
        for _ in 0..16 {
            let (socket, peer) = lingering(&listener);
            let stream = connect();
            let fds = [socket.as_fd()];
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&fds));
            // It may have refused already.
            let bytes = [IoSlice::new(b"?")];
            let _ = sendmsg(&stream, &bytes, &mut control, SendFlags::NOSIGNAL);
            // The one in flight is the last now, unless it was too late to fly.
            std::thread::spawn(move || drop(socket));
            held.push((stream, Some(peer)));
        }
        held
    });
    as_user(&pair.a, ANN, || link(&helper, &pair.a).map(drop)).unwrap();
    assert!(helper.status().contains("granted 1"));
}

#[test]
fn a_log_that_takes_nothing_keeps_nobody_from_an_answer() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helper = Helper::start_with_log(&pair.a, Helper::folder(POLICY), Path::new("/dev/full"));
    let started = Instant::now();
    while status_at(&helper.socket()).is_err() {
        assert!(started.elapsed() < Duration::from_secs(20), "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    for _ in 0..20 {
        let (why, _) = refusal(as_user(&pair.a, BOB, || link(&helper, &pair.a)));
        assert_eq!(why, Refusal::NotAdmitted);
    }
}

/// The ranks of a job on one node start together, and may be more than are served at once.
#[test]
fn all_ranks_of_a_job_that_ask_at_once_are_served() {
    const RANKS: usize = 32;
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helper = Helper::start(&pair.a, POLICY);
    let barrier = std::sync::Barrier::new(RANKS);
    let refused: Vec<String> = as_user(&pair.a, ANN, || {
        std::thread::scope(|scope| {
            let rank = || {
                let udp = UdpSocket::bind(SocketAddrV4::new(pair.a.ip, 0)).unwrap();
                barrier.wait();
                ask_at(&helper.socket(), SocketKind::Packet, &udp).err().map(|why| why.to_string())
            };
            let ranks: Vec<_> = (0..RANKS).map(|_| scope.spawn(rank)).collect();
            ranks.into_iter().filter_map(|rank| rank.join().unwrap()).collect()
        })
    });
    assert!(refused.is_empty(), "{} of {RANKS}: {refused:?}", refused.len());
    assert!(helper.status().contains(&format!("granted {RANKS}")));
}

/// Whoever decides whom to admit may never see docs/helper.md.
#[test]
fn its_help_says_what_whoever_is_admitted_can_do() {
    let help = Command::new(env!("CARGO_BIN_EXE_wiglaf-helper")).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    assert!(help.contains("can send any frame, with any source address"), "{help}");
}

/// The socket of one that was killed stays, and shows that there was one.
#[test]
fn who_asks_a_helper_that_has_ended_waits_for_the_next() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut helper = Helper::start(&pair.a, POLICY);
    let (folder, socket) = (helper.folder.path().to_owned(), helper.socket());
    let ask = |socket: &Path| {
        as_user(&pair.a, ANN, || {
            let udp = UdpSocket::bind(SocketAddrV4::new(pair.a.ip, 0)).unwrap();
            ask_at(socket, SocketKind::Packet, &udp).map(drop)
        })
    };
    helper.child.kill().unwrap();
    helper.child.wait().unwrap();
    assert!(matches!(ask(&folder.join("none")), Err(AskError::None)), "none was ever there");
    assert!(matches!(ask(&socket), Err(AskError::Ended)), "nobody starts it again");
    let (sender, asked) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            sender.send(()).unwrap();
            ask(&socket)
        });
        asked.recv().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        helper.child = Helper::spawn(&pair.a, &folder, &folder.join("log"));
        asking.join().unwrap().unwrap();
    });
}

/// The kernel's table of them is anybody's to make long.
#[test]
fn the_sockets_of_a_node_cost_the_helper_no_memory() {
    const SOCKETS_MAX: u64 = 20_000;
    const GROWTH_KB_MAX: u64 = 512;
    let Some(pair) = Pair::or_skip(1500) else { return };
    let helper = Helper::start(&pair.a, POLICY);
    let peak_kb = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", helper.child.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    // Tests that run beside this one have descriptors, too.
    let sockets = maximum.map_or(SOCKETS_MAX, |maximum| SOCKETS_MAX.min(maximum - maximum / 4));
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    as_user(&pair.a, ANN, || link(&helper, &pair.a).map(drop)).unwrap();
    let usual = peak_kb();
    let bind = || UdpSocket::bind(SocketAddrV4::new(pair.a.ip, 0)).unwrap();
    let held: Vec<_> = pair.a.run(|| (0..sockets).map(|_| bind()).collect());
    as_user(&pair.a, ANN, || link(&helper, &pair.a).map(drop)).unwrap();
    let grown = peak_kb() - usual;
    drop(held);
    setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
    assert!(grown < GROWTH_KB_MAX, "{grown} kB for {sockets} sockets");
}

#[test]
fn a_log_that_nobody_reads_keeps_nobody_from_an_answer() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let folder = Helper::folder(POLICY);
    let pipe = folder.path().join("pipe");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, kind, 0o600.into(), 0).unwrap();
    let reader = std::fs::File::options().read(true).write(true).open(&pipe).unwrap();
    // Room for less than two users may write at once.
    rustix::pipe::fcntl_setpipe_size(&reader, 4096).unwrap();
    let helper = Helper::start_with_log(&pair.a, folder, &pipe);
    let started = Instant::now();
    while status_at(&helper.socket()).is_err() {
        assert!(started.elapsed() < Duration::from_secs(20), "it does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    for uid in [BOB, BOB + 1, BOB + 2] {
        for _ in 0..40 {
            let (why, _) = refusal(as_user(&pair.a, uid, || link(&helper, &pair.a)));
            assert_eq!(why, Refusal::NotAdmitted);
        }
    }
}
