//! Real frames over a veth pair, against itself and against plain sockets.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use wiglaf_link_udp::{UdpLink, interface};
use wiglaf_testnet::{INTERFACE, Node, Pair};

use super::*;
use wiglaf_link::frame::{Ends, headers};

type Datagrams = Vec<(SocketAddrV4, Vec<u8>)>;

/// To be called on a thread of the node.
fn interface_of(node: &Node) -> Interface {
    interface::holding(node.ip).expect("readable").expect("the node has its address")
}

fn try_open(node: &Node, mode: Mode) -> Result<XdpLink, OpenError> {
    node.run(|| XdpLink::open(interface_of(node), SocketAddrV4::new(node.ip, 0), mode))
}

fn open(node: &Node) -> XdpLink {
    try_open(node, Mode::Best).expect("root may open AF_XDP sockets")
}

fn open_udp(node: &Node) -> UdpLink {
    node.run(|| UdpLink::open(SocketAddrV4::new(node.ip, 0))).expect("an address of the node")
}

/// How many datagrams a node's IP stack has received and sent.
fn stack_counts(node: &Node) -> (u64, u64) {
    let counters = node.run(|| std::fs::read_to_string("/proc/thread-self/net/snmp"));
    let counters = counters.expect("readable");
    let line = counters.lines().filter(|line| line.starts_with("Udp:")).nth(1);
    let fields: Vec<&str> = line.expect("UDP counters").split(' ').collect();
    let field = |at: usize| fields[at].parse().expect("a count");
    (field(1), field(4))
}

fn has_program(node: &Node) -> bool {
    node.ip(&["link", "show", INTERFACE]).expect("shown").contains("prog/xdp")
}

fn bulk_address(link: &dyn Link) -> SocketAddrV4 {
    SocketAddrV4::new(*link.local().ip(), link.bulk_port())
}

fn receive(link: &mut dyn Link, count: usize) -> Datagrams {
    let mut got = Datagrams::new();
    let give_up = Instant::now() + Duration::from_secs(5);
    while got.len() < count && Instant::now() < give_up {
        link.recv(&mut |from, bytes| got.push((from, bytes.to_vec()))).expect("the link works");
    }
    got
}

fn assert_carries(
    from: &mut dyn Link,
    to: &mut dyn Link,
    lane: Lane,
    segment_len: usize,
    len: usize,
) {
    let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
    let (target, source) = match lane {
        Lane::Latency => (to.local(), from.local()),
        Lane::Bulk => (bulk_address(to), bulk_address(from)),
    };
    let train = Train { to: target, lane, segment_len, bytes: &bytes };
    assert_eq!(from.send(&train).expect("the link works"), Sent::All);
    let got = receive(to, len.div_ceil(segment_len));
    let expected: Datagrams =
        bytes.chunks(segment_len).map(|segment| (source, segment.to_vec())).collect();
    assert_eq!(got, expected, "{lane:?}, {len} bytes in segments of {segment_len}");
}

/// Sends one datagram; whether it came, and as it was.
fn is_carried(from: &mut dyn Link, to: &mut dyn Link) -> bool {
    let train = Train { to: to.local(), lane: Lane::Latency, segment_len: 8, bytes: b"8 bytes!" };
    assert_eq!(from.send(&train).expect("the link works"), Sent::All);
    receive(to, 1).iter().any(|(source, bytes)| *source == from.local() && bytes == b"8 bytes!")
}

fn both_lanes(a: &mut dyn Link, b: &mut dyn Link) {
    let frame_len = a.limits().frame_len_max;
    let (small, train) = (BATCH_MAX, a.limits().bulk_train_max);
    for _ in 0..3 {
        assert_carries(a, b, Lane::Latency, 1, 1);
        assert_carries(b, a, Lane::Latency, 8, 8);
    }
    assert_carries(b, a, Lane::Latency, frame_len, frame_len);
    assert_carries(a, b, Lane::Latency, 100, 731);
    assert_carries(a, b, Lane::Latency, frame_len, frame_len * small);
    assert_carries(a, b, Lane::Latency, 8, 8 * 3 * BATCH_MAX - 1);
    assert_carries(a, b, Lane::Bulk, frame_len, frame_len * train);
    assert_carries(b, a, Lane::Bulk, frame_len, frame_len * (train - 1) + 1);
}

#[test]
fn frames_tell_how_long_they_have_been_here() {
    const PAUSE: Duration = Duration::from_millis(20);
    for mode in [Mode::Generic, Mode::Native] {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let open = |node| try_open(node, mode).expect("a veth has both");
        let (mut a, mut b) = (open(&pair.a), open(&pair.b));
        assert!(is_carried(&mut a, &mut b), "learns the Ethernet address");
        let train =
            Train { to: b.local(), lane: Lane::Latency, segment_len: 8, bytes: b"8 bytes!" };
        for _ in 0..3 {
            let began = Instant::now();
            a.send(&train).expect("sent");
            std::thread::sleep(PAUSE);
            let mut told = Vec::new();
            b.recv_trains(&mut |train| told.push(train.waited)).expect("the link works");
            let waited = told[0].expect("the program tells");
            assert!(waited >= PAUSE && waited <= began.elapsed(), "{mode:?}: {waited:?}");
        }
    }
}

#[test]
fn plain_sockets_understand_it() {
    for mtu in [1500, 9000] {
        let Some(pair) = Pair::or_skip(mtu) else { return };
        let (mut xdp, mut udp) = (open(&pair.a), open_udp(&pair.b));
        both_lanes(&mut xdp, &mut udp);
        both_lanes(&mut udp, &mut xdp);
    }
}

#[test]
fn ranks_on_one_address_reach_each_other() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open_udp(&pair.a));
    both_lanes(&mut a, &mut b);
    both_lanes(&mut b, &mut a);
}

#[test]
fn gateways_are_the_stacks_business() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let beyond = std::net::Ipv4Addr::new(10, 99, 0, 1);
    pair.b.ip(&["address", "add", "10.99.0.1/32", "dev", INTERFACE]).expect("an address");
    pair.a.ip(&["route", "add", "10.99.0.0/24", "via", "10.77.0.2"]).expect("a route");
    let mut a = open(&pair.a);
    let mut b = pair.b.run(|| UdpLink::open(SocketAddrV4::new(beyond, 0))).expect("bound");
    both_lanes(&mut a, &mut b);
    assert_eq!(a.routes.way(a.plain.as_fd(), beyond), Way::Stack);
}

#[test]
fn a_changed_ethernet_address_is_learnt() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut udp) = (open(&pair.a), open_udp(&pair.b));
    assert_carries(&mut a, &mut udp, Lane::Latency, 8, 8);
    assert_carries(&mut a, &mut udp, Lane::Latency, 8, 8);
    let Way::Ring(old) = a.routes.way(a.plain.as_fd(), pair.b.ip) else { panic!("not resolved") };
    pair.b.ip(&["link", "set", INTERFACE, "address", "02:00:00:00:00:42"]).expect("set");
    // What the peer announces, or the kernel finds out, ends up here.
    let change = ["neigh", "replace", "10.77.0.2", "lladdr", "02:00:00:00:00:42", "dev", INTERFACE];
    pair.a.ip(&change).expect("replaced");
    let give_up = Instant::now() + Duration::from_secs(10);
    loop {
        let train = Train { to: udp.local(), lane: Lane::Latency, segment_len: 8, bytes: &[1; 8] };
        a.send(&train).expect("the link works");
        let mut got = 0;
        udp.recv(&mut |_, _| got += 1).expect("the link works");
        if got > 0 {
            break;
        }
        assert!(Instant::now() < give_up, "still sending to the old address");
        std::thread::sleep(Duration::from_millis(10));
    }
    let Way::Ring(new) = a.routes.way(a.plain.as_fd(), pair.b.ip) else { panic!("not resolved") };
    assert_ne!(new, old);
}

#[test]
fn unreachable_ports_are_found() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut a = open(&pair.a);
    let mut b = open(&pair.b);
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    let gone = open_udp(&pair.b);
    let to = gone.local();
    drop(gone);
    let train = Train { to, lane: Lane::Latency, segment_len: 4, bytes: b"lost" };
    assert!(matches!(a.routes.way(a.plain.as_fd(), pair.b.ip), Way::Ring(_)));
    assert_eq!(a.send(&train).expect("no error of the link"), Sent::All);
    let give_up = Instant::now() + Duration::from_secs(5);
    let found = loop {
        if let Some(found) = a.take_unreachable() {
            break found.at;
        }
        assert!(Instant::now() < give_up, "never found");
    };
    assert_eq!(found, to);
    both_lanes(&mut a, &mut b);
}

#[test]
fn no_listener_is_answered_for_an_open_port() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut udp, mut xdp) = (open_udp(&pair.a), open(&pair.b));
    for _ in 0..50 {
        assert_carries(&mut udp, &mut xdp, Lane::Latency, 8, 8);
    }
    // Over a veth pair an answer is there before the send returns.
    udp.recv(&mut |_, _| {}).expect("the link works");
    assert_eq!(udp.take_unreachable(), None);
}

fn interface_of_in(node: &Node) -> Interface {
    node.run(|| interface_of(node))
}

#[test]
fn waiting_descriptors_tell_of_frames() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    for _ in 0..1000 {
        b.recv(&mut |_, _| {}).expect("the link works");
    }
    assert!(!b.arm(true));
    let is_readable = |link: &XdpLink| {
        let mut fds: Vec<libc::pollfd> = link
            .wait_fds()
            .iter()
            .map(|&fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 })
            .collect();
        // SAFETY: the array is live and of the stated length.
        unsafe { libc::poll(fds.as_mut_ptr(), fds.len() as libc::nfds_t, 0) > 0 }
    };
    assert!(!is_readable(&b));
    for lane in [Lane::Latency, Lane::Bulk] {
        let to = if lane == Lane::Bulk { bulk_address(&b) } else { b.local() };
        let train = Train { to, lane, segment_len: 3, bytes: b"abc" };
        assert_eq!(a.send(&train).expect("sent"), Sent::All);
        assert!(is_readable(&b), "{lane:?}");
        assert_eq!(b.arm(true), lane == Lane::Latency, "the ring can be looked into");
        assert_eq!(b.recv(&mut |_, _| {}).expect("the link works"), 1);
        assert!(!is_readable(&b), "{lane:?}");
    }
}

#[test]
fn carries_both_lanes_in_each_mode() {
    for (mode, name) in [(Mode::Generic, "xdp-generic"), (Mode::Native, "xdp-native")] {
        for mtu in [1500, 3000, 9000] {
            let Some(pair) = Pair::or_skip(mtu) else { return };
            let mut a = try_open(&pair.a, mode).expect("a veth has both modes");
            let mut b = try_open(&pair.b, mode).expect("a veth has both modes");
            assert_eq!(a.name(), name);
            both_lanes(&mut a, &mut b);
            assert!(matches!(a.routes.way(a.plain.as_fd(), pair.b.ip), Way::Ring(_)));
            assert_eq!((a.malformed(), a.lost(), b.malformed()), (0, 0, 0));
        }
    }
}

#[test]
fn frames_do_not_pass_through_the_stack() {
    for mode in [Mode::Generic, Mode::Native] {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let mut a = try_open(&pair.a, mode).expect("a veth has both modes");
        let mut b = try_open(&pair.b, mode).expect("a veth has both modes");
        assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
        let before = (stack_counts(&pair.a), stack_counts(&pair.b));
        // More than there are chunks, so that they go round.
        for _ in 0..5000 {
            assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
        }
        assert_carries(&mut a, &mut b, Lane::Latency, 100, 100 * BATCH_MAX);
        assert_eq!((stack_counts(&pair.a), stack_counts(&pair.b)), before);
    }
}

#[test]
fn malformed_frames_are_dropped_and_those_of_others_pass() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut b = open(&pair.b);
    let mut injector = pair.a.run(|| Socket::new(1500)).expect("root may");
    injector.bind(interface_of_in(&pair.a).index, 0, socket::Way::Copy).expect("a free queue");
    let from = SocketAddrV4::new(pair.a.ip, 777);
    let ends = Ends {
        from_mac: interface_of_in(&pair.a).mac.expect("Ethernet"),
        to_mac: interface_of_in(&pair.b).mac.expect("Ethernet"),
        from,
        to: b.local(),
    };
    let mut good = headers(&ends, 5).expect("it fits").to_vec();
    good.extend_from_slice(b"hello");
    let with = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let refused_by_parser = [
        with(16, 0x05),               // IP length beyond the frame
        with(24, good[24] ^ 1),       // IP checksum
        with(38, 0xff),               // UDP length beyond the packet
        with(39, 3),                  // UDP length below its header
        good[..HEADERS_LEN].to_vec(), // cut behind the headers
    ];
    let left_to_the_stack = [
        with(14, 0x46),         // IP options
        with(20, 0x20),         // fragment
        with(23, 6),            // TCP
        with(0, good[0] ^ 4),   // another host's Ethernet address
        with(33, 9),            // another host's IP address
        with(37, good[37] ^ 1), // another port
        good[..30].to_vec(),    // cut within the headers
    ];
    for frame in refused_by_parser.iter().chain(&left_to_the_stack).chain([&good]) {
        let sent = injector.send(1, [(frame.as_slice(), &[][..])].into_iter());
        assert!(sent.expect("sent"));
    }
    assert_eq!(receive(&mut b, 1), [(from, b"hello".to_vec())]);
    assert_eq!(b.malformed(), refused_by_parser.len() as u64);
}

#[test]
fn an_overflown_ring_loses_frames_and_goes_on() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let (mut a, mut b) = (open_udp(&pair.a), open(&pair.b));
    let train = Train { to: b.local(), lane: Lane::Latency, segment_len: 8, bytes: &[1; 8 * 32] };
    for _ in 0..200 {
        assert_eq!(a.send(&train).expect("sent"), Sent::All);
    }
    let mut kept = 0;
    while b.recv(&mut |_, _| kept += 1).expect("the link works") > 0 {}
    assert!((512..200 * 32).contains(&kept), "{kept} frames kept");
    for _ in 0..5000 {
        assert_carries(&mut a, &mut b, Lane::Latency, 8, 8);
    }
}

#[test]
fn tcp_and_other_ports_go_on_beside_it() {
    const LEN: usize = 32 << 20;
    for mode in [Mode::Generic, Mode::Native] {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let mut a = try_open(&pair.a, mode).expect("a veth has both modes");
        let mut b = try_open(&pair.b, mode).expect("a veth has both modes");
        let (near, far) = (
            pair.a.run(|| UdpSocket::bind((pair.a.ip, 0)).expect("bound")),
            pair.b.run(|| UdpSocket::bind((pair.b.ip, 0)).expect("bound")),
        );
        far.set_read_timeout(Some(Duration::from_secs(1))).expect("set");
        let listener = pair.b.run(|| TcpListener::bind((pair.b.ip, 0)).expect("bound"));
        let at = listener.local_addr().expect("known");
        let byte = |i: usize| (i * 31 + i / 251) as u8;
        std::thread::scope(|scope| {
            let receiving = scope.spawn(|| {
                let (mut stream, _) = listener.accept().expect("connected");
                let mut bytes = Vec::new();
                stream.read_to_end(&mut bytes).expect("received");
                bytes
            });
            let sending = scope.spawn(|| {
                let mut stream = pair.a.run(|| TcpStream::connect(at)).expect("connected");
                let bytes: Vec<u8> = (0..LEN).map(byte).collect();
                stream.write_all(&bytes).expect("sent");
            });
            while !receiving.is_finished() {
                // A queue that the stream has filled may lose one, and another.
                assert!((0..5).any(|_| is_carried(&mut a, &mut b)), "five datagrams were lost");
                let mut got = [0; 16];
                let is_heard = (0..5).any(|_| {
                    near.send_to(b"ours", far.local_addr().expect("known")).expect("sent");
                    far.recv(&mut got).is_ok_and(|len| got[..len] == *b"ours")
                });
                assert!(is_heard, "five datagrams of another port were lost");
            }
            sending.join().expect("sent");
            let bytes = receiving.join().expect("received");
            assert!(bytes.len() == LEN && bytes.iter().enumerate().all(|(i, b)| *b == byte(i)));
        });
    }
}

#[test]
fn one_queue_has_one_socket() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let first = open(&pair.a);
    let error = try_open(&pair.a, Mode::Best).expect_err("the queue is taken");
    assert!(matches!(error, OpenError::NoQueue { queues: 1 }), "{error}");
    drop(first);
    open(&pair.a);
}

/// Beside the one of the pair, an interface with two queues on either side.
fn with_two_queues() -> Option<Pair> {
    let pair = Pair::or_skip(1500)?;
    for node in [&pair.a, &pair.b] {
        node.ip(&["link", "set", INTERFACE, "name", "old"]).expect("renamed");
        node.ip(&["address", "flush", "dev", "old"]).expect("flushed");
    }
    let queues = ["numrxqueues", "2", "numtxqueues", "2"];
    let ends = ["type", "veth", "peer", "name", "other"];
    let add = [&["link", "add", INTERFACE][..], &queues, &ends, &queues].concat();
    pair.a.ip(&add).expect("added");
    // `ip` takes a namespace by the process in it.
    let mut holder = pair.b.run(|| {
        Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().expect("started")
    });
    pair.a.ip(&["link", "set", "other", "netns", &holder.id().to_string()]).expect("moved");
    drop(holder.stdin.take());
    holder.wait().expect("ended");
    pair.b.ip(&["link", "set", "other", "name", INTERFACE]).expect("renamed");
    for node in [&pair.a, &pair.b] {
        node.ip(&["address", "add", &format!("{}/24", node.ip), "dev", INTERFACE]).expect("added");
        node.ip(&["link", "set", INTERFACE, "up"]).expect("up");
    }
    Some(pair)
}

#[test]
fn ranks_share_the_program_and_the_last_takes_it_along() {
    let Some(pair) = with_two_queues() else { return };
    // In generic mode a veth calls every queue the first.
    let open = |node| try_open(node, Mode::Native).expect("a veth has native mode");
    let (mut a0, mut a1) = (open(&pair.a), open(&pair.a));
    let (mut b0, mut b1) = (open(&pair.b), open(&pair.b));
    let error = try_open(&pair.b, Mode::Native).expect_err("both queues are taken");
    assert!(matches!(error, OpenError::NoQueue { queues: 2 }), "{error}");
    both_lanes(&mut a0, &mut b0);
    both_lanes(&mut a1, &mut b1);
    // A veth delivers on the sender's queue: these meet the stack, and come all the same.
    both_lanes(&mut a0, &mut b1);
    both_lanes(&mut a1, &mut b0);
    drop((a0, b0));
    let before = stack_counts(&pair.b);
    for _ in 0..100 {
        assert_carries(&mut a1, &mut b1, Lane::Latency, 8, 8);
    }
    assert_eq!(stack_counts(&pair.b), before);
    assert!(has_program(&pair.b));
    drop((a1, b1));
    // A process that another test starts just now holds the descriptors until it becomes another program.
    let is_gone = || !has_program(&pair.a) && !has_program(&pair.b);
    let waited = (0..1000).take_while(|_| !is_gone());
    waited.for_each(|_| std::thread::sleep(Duration::from_millis(10)));
    assert!(is_gone());
}

/// The other half of the next test; does nothing by itself.
#[test]
fn child_that_waits_to_be_killed() {
    let Ok(ip) = std::env::var("WIGLAF_TEST_XDP_CHILD") else { return };
    let ip: Ipv4Addr = ip.parse().expect("an address");
    let interface = interface::holding(ip).expect("readable").expect("there");
    let link = XdpLink::open(interface, SocketAddrV4::new(ip, 0), Mode::Best).expect("opened");
    println!("\nready {}", link.local().port());
    std::thread::sleep(Duration::from_secs(60));
}

#[test]
fn a_killed_process_leaves_nothing_on_the_interface() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    let mut child = pair.b.run(|| {
        Command::new(std::env::current_exe().expect("known"))
            .args(["--exact", "tests::child_that_waits_to_be_killed", "--nocapture"])
            .env("WIGLAF_TEST_XDP_CHILD", pair.b.ip.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started")
    });
    let said = BufReader::new(child.stdout.take().expect("piped")).lines();
    let is_ready =
        |line: &std::io::Result<String>| line.as_ref().is_ok_and(|line| line.starts_with("ready "));
    assert!(said.into_iter().any(|line| is_ready(&line)), "it has not opened a link");
    assert!(has_program(&pair.b));
    child.kill().expect("killed");
    child.wait().expect("ended");
    let give_up = Instant::now() + Duration::from_secs(5);
    while has_program(&pair.b) {
        assert!(Instant::now() < give_up, "the program is still there");
        std::thread::sleep(Duration::from_millis(10));
    }
    let (mut a, mut b) = (open(&pair.a), open(&pair.b));
    both_lanes(&mut a, &mut b);
}

#[test]
fn refusals_say_why() {
    let lo = interface::holding(Ipv4Addr::LOCALHOST).expect("readable").expect("there");
    let result = XdpLink::open(lo, SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0), Mode::Best);
    assert!(matches!(result, Err(OpenError::NotEthernet)));
    let Some(pair) = Pair::or_skip(1500) else { return };
    let error = try_open(&pair.a, Mode::ZeroCopy).expect_err("no veth can");
    assert!(matches!(error, OpenError::NoZeroCopy(_)), "{error}");
    assert!(!has_program(&pair.a));
    let pass_all = wiglaf_bpf::Assembler::default().finish(2);
    let stranger = wiglaf_bpf::Program::load(wiglaf_bpf::Kind::Xdp, "stranger", &pass_all)
        .expect("root may load programs");
    let generic = wiglaf_bpf::Hook::Xdp(wiglaf_bpf::Mode::Generic);
    let attached = pair.a.run(|| stranger.attach(interface_of(&pair.a).index, generic));
    let error = try_open(&pair.a, Mode::Best).expect_err("the place is taken");
    assert!(matches!(error, OpenError::Occupied), "{error}");
    drop(attached);
    let error = pair.a.run(|| {
        let none = CapabilitySet::empty();
        let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
        set_capabilities(None, sets).expect("capabilities can be given up");
        let at = SocketAddrV4::new(pair.a.ip, 0);
        XdpLink::open(interface_of(&pair.a), at, Mode::Best).expect_err("not permitted")
    });
    assert!(matches!(error, OpenError::NotPermitted), "{error}");
}

/// No card with zero-copy is at hand: what each mode answers is given.
#[test]
fn ranks_beyond_the_last_zero_copy_queue_are_told_that_there_is_none() {
    let full = |mode| match mode {
        Mode::ZeroCopy => Err(OpenError::NoQueue { queues: 4 }),
        _ => Err(OpenError::OtherMode),
    };
    assert!(matches!(open_best::<Mode>(true, full), Err(OpenError::NoQueue { queues: 4 })));
    let copies = |mode| match mode {
        Mode::ZeroCopy => Err(OpenError::NoZeroCopy(io::ErrorKind::Unsupported.into())),
        mode => Ok(mode),
    };
    assert!(matches!(open_best(true, copies), Ok(Mode::Generic)));
    assert!(matches!(open_best(true, Ok), Ok(Mode::ZeroCopy)));
    assert!(matches!(open_best(false, Ok), Ok(Mode::Generic)));
}

#[test]
fn modes_do_not_mix_on_one_interface() {
    let Some(pair) = with_two_queues() else { return };
    let _generic = try_open(&pair.a, Mode::Generic).expect("opened");
    let error = try_open(&pair.a, Mode::Native).expect_err("there is a generic one");
    assert!(matches!(error, OpenError::OtherMode), "{error}");
}
