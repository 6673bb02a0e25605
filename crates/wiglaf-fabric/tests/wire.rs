//! Endpoints on a real wire that something is wrong with: interfaces of different MTU, a firewall, a machine that
//! is no longer there, a process that stands still.

use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use wiglaf_endpoint::{
    Class, CompleteWhen, Config, Endpoint, Gone, JobKey, LinkKind, News, Outcome, PeerId, PeerNews,
    RecvOp, Region, SendOp, Side, WayNews,
};
use wiglaf_testnet::{INTERFACE, Node, Pair};

/// A hang becomes a failure after so long.
const PATIENCE: Duration = Duration::from_secs(60);
/// For machines in these tests.
const HOST_LIMIT: Duration = Duration::from_secs(2);
const LEN: usize = 2 << 20;

fn config(ip: Ipv4Addr, link: LinkKind, host_limit: Option<Duration>) -> Config {
    Config {
        ip,
        port: 0,
        ports: None,
        epoch: None,
        key: JobKey([7; 16]),
        link,
        silence_limit: Duration::from_secs(600),
        host_limit,
        flow_control: true,
        encrypt: false,
        memory_access: true,
        publish: false,
        late_peeks: false,
        wait: wiglaf_endpoint::WaitPolicy::default(),
        oversubscribed: false,
        progress_thread: false,
        lengths: wiglaf_endpoint::Lengths::default(),
    }
}

/// Two endpoints that know each other. The first one watches machines, from the thread that calls this.
struct Ends {
    ends: [Endpoint; 2],
    peers: [PeerId; 2],
    news: Vec<PeerNews>,
}

impl Ends {
    /// To be called in the namespace of `a`.
    fn open(pair: &Pair, link: LinkKind) -> Self {
        let a = wiglaf_links::open(&config(pair.a.ip, link, Some(HOST_LIMIT))).expect("a link");
        let open_b = || wiglaf_links::open(&config(pair.b.ip, link, None)).expect("a link");
        let mut ends = [a, pair.b.run(open_b)];
        let (at_a, at_b) = (ends[0].name(), ends[1].name());
        let peers = [ends[0].insert(at_b), ends[1].insert(at_a)];
        Self { ends, peers, news: Vec::new() }
    }

    fn send(&mut self, from: usize, bytes: &mut [u8]) {
        let op = SendOp {
            peer: self.peers[from],
            class: Class::Tagged,
            tag: 7,
            data: None,
            context: 1,
            complete: CompleteWhen::Delivery,
            report: true,
            inject: false,
        };
        let region = Region { ptr: bytes.as_mut_ptr(), len: bytes.len() };
        // SAFETY: the bytes live until the message has arrived, or the endpoint is dropped.
        unsafe { self.ends[from].post_send(&op, &[region]) }.expect("posted");
    }

    fn recv(&mut self, at: usize, bytes: &mut [u8]) {
        let op = RecvOp {
            class: Class::Tagged,
            from: Some(self.peers[at]),
            tag: 7,
            ignore: 0,
            context: 2,
            report: true,
            multi_min_free: None,
        };
        let region = Region { ptr: bytes.as_mut_ptr(), len: bytes.len() };
        // SAFETY: as above.
        unsafe { self.ends[at].post_recv(&op, &[region]) }.expect("posted");
    }

    /// Lets those ends work until one of them has completed something.
    fn completion(&mut self, of: (usize, Side), working: &[usize]) -> Outcome {
        let began = Instant::now();
        loop {
            if let Some(completion) = self.ends[of.0].pop_completion(of.1) {
                return completion.outcome;
            }
            assert!(began.elapsed() < PATIENCE, "nothing completes: {:?}", self.ends[0].stats());
            self.work(working);
        }
    }

    fn work(&mut self, working: &[usize]) {
        for end in working {
            self.ends[*end].progress();
        }
        self.news.extend(std::iter::from_fn(|| self.ends[0].pop_news()));
    }

    fn work_for(&mut self, time: Duration, working: &[usize]) {
        let began = Instant::now();
        while began.elapsed() < time {
            self.work(working);
        }
    }

    /// A message each way, each byte of which is compared.
    fn exchange(&mut self, len: usize) {
        let mut bytes: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        for from in [0, 1] {
            let mut got = vec![0; len];
            self.recv(1 - from, &mut got);
            self.send(from, &mut bytes);
            assert_eq!(self.completion((1 - from, Side::Recv), &[0, 1]), Outcome::Done);
            assert_eq!(self.completion((from, Side::Send), &[0, 1]), Outcome::Done);
            assert!(got == bytes, "{len} bytes are others");
        }
    }

    fn ways(&self) -> Vec<WayNews> {
        let way = |news: &PeerNews| match news.news {
            News::Way(way) => Some(way),
            _ => None,
        };
        self.news.iter().filter_map(way).collect()
    }
}

fn drops_datagrams(node: &Node) -> bool {
    for rule in [
        "add table inet f",
        "add chain inet f i { type filter hook input priority 0; }",
        "add rule inet f i meta l4proto udp drop",
    ] {
        if let Err(why) = node.command("nft", &[rule]) {
            eprintln!("skipped: no firewall here: {why}");
            return false;
        }
    }
    true
}

#[test]
fn ends_with_different_mtus_exchange_long_messages_and_say_so_once() {
    for link in [LinkKind::Udp, LinkKind::Packet] {
        let Some(pair) = Pair::or_skip(9000) else { return };
        pair.b.ip(&["link", "set", INTERFACE, "mtu", "1500"]).expect("set");
        pair.a.run(|| {
            let mut ends = Ends::open(&pair, link);
            ends.exchange(LEN);
            ends.exchange(LEN);
            let narrow = WayNews::Narrow { frame_len: 1472, own_len_max: 8972, peer_len_max: 1472 };
            assert_eq!(ends.ways(), [narrow], "{link:?}");
        });
    }
}

#[test]
fn two_ends_with_long_frames_find_out_that_they_may_use_them() {
    for link in [LinkKind::Udp, LinkKind::Packet] {
        let Some(pair) = Pair::or_skip(9000) else { return };
        pair.a.run(|| {
            let mut ends = Ends::open(&pair, link);
            ends.exchange(8);
            ends.work_for(Duration::from_millis(500), &[0, 1]);
            let before = ends.ends[0].stats().datagrams_sent;
            ends.exchange(LEN);
            let sent = ends.ends[0].stats().datagrams_sent - before;
            // 234 of 8972 bytes; it would be 1462 of 1472.
            assert!((234..1000).contains(&sent), "{link:?}: {sent} datagrams");
            assert_eq!(ends.ways(), []);
        });
    }
}

#[test]
fn a_firewall_that_lets_frames_past_the_ip_stack_only_is_got_around_and_named() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    if !drops_datagrams(&pair.b) {
        return;
    }
    pair.a.run(|| {
        let mut ends = Ends::open(&pair, LinkKind::Packet);
        ends.exchange(8);
        ends.exchange(LEN);
        let ways = ends.ways();
        assert!(matches!(ways[..], [WayNews::BulkBlocked { .. }]), "{ways:?}");
        ends.exchange(LEN);
        assert_eq!(ends.ways().len(), 1, "it is told once");
    });
}

#[test]
fn a_machine_that_is_no_longer_there_ends_what_waits_for_it() {
    for side in [Side::Send, Side::Recv] {
        let Some(pair) = Pair::or_skip(1500) else { return };
        pair.a.run(|| {
            let mut ends = Ends::open(&pair, LinkKind::Udp);
            ends.exchange(8);
            // Time for a question and its answer.
            ends.work_for(Duration::from_secs(1), &[0, 1]);
            pair.b.ip(&["link", "set", INTERFACE, "down"]).expect("its cable is out");
            let mut bytes = [1; 100];
            match side {
                Side::Send => ends.send(0, &mut bytes),
                Side::Recv => ends.recv(0, &mut bytes),
            }
            assert_eq!(ends.completion((0, side), &[0]), Outcome::PeerGone);
            ends.work(&[0]);
            let [lost] = &ends.news[..] else { panic!("{:?}", ends.news) };
            assert_eq!(lost.news, News::Gone(Gone::MachineSilent));
            assert!(lost.silent >= HOST_LIMIT, "after {:?}", lost.silent);
            assert_eq!(*lost.address.at.ip(), pair.b.ip);
        });
    }
}

#[test]
fn a_cable_that_is_out_for_less_than_the_limit_and_a_process_that_stands_still_end_nothing() {
    let Some(pair) = Pair::or_skip(1500) else { return };
    pair.a.run(|| {
        let mut ends = Ends::open(&pair, LinkKind::Udp);
        ends.exchange(8);
        ends.work_for(Duration::from_secs(1), &[0, 1]);
        let (mut bytes, mut got) = ([1; 100], [0; 100]);
        ends.recv(1, &mut got);
        ends.send(0, &mut bytes);
        // `b` is not called: it stands still. Its kernel answers.
        ends.work_for(2 * HOST_LIMIT, &[0]);
        pair.b.ip(&["link", "set", INTERFACE, "down"]).expect("its cable is out");
        ends.work_for(HOST_LIMIT / 4, &[0]);
        pair.b.ip(&["link", "set", INTERFACE, "up"]).expect("it is in again");
        ends.work_for(2 * HOST_LIMIT, &[0]);
        assert_eq!(ends.completion((0, Side::Send), &[0, 1]), Outcome::Done);
        assert_eq!(ends.completion((1, Side::Recv), &[0, 1]), Outcome::Done);
        assert_eq!(ends.news, []);
    });
}
