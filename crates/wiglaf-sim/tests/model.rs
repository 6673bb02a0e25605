//! The state machines of credit and of sessions, checked exhaustively over small configurations:
//! the product's own transport, every order of deliveries, losses, doubles, timeouts, receives
//! and restarts (stateright, a model checker).
//!
//! In every state that can be reached, messages have come once, whole and in order, to the
//! incarnation they were meant for, and no more lies unread than credit allows; and from every
//! one a fair network leads to the end. Each property is also shown to fail where what keeps it
//! is taken away: flow control, and the new epoch of a new incarnation.

use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use stateright::{Checker, Model, Property};
use wiglaf_transport::limits::{CREDIT_INITIAL, CREDIT_PER_MESSAGE, EAGER_LEN_MAX};
use wiglaf_transport::{
    Config, Gone, Instant, Path, PeerId, Posted, Sink, Source, Transport, Wanted,
};
use wiglaf_wire::{Class, Envelope, Epoch, JobKey};

const FRAME_LEN: usize = 700;
/// The two ends, and the ports at which they are.
const SENDER: usize = 0;
const RECEIVER: usize = 1;

fn address(end: usize) -> SocketAddrV4 {
    SocketAddrV4::new(Ipv4Addr::LOCALHOST, 1 + end as u16)
}

/// What is checked: bounds of everything that could go on for ever.
#[derive(Debug, Clone)]
struct Bounds {
    /// Eager messages that fill the receiver's credit beforehand, by length.
    before: Vec<usize>,
    /// Messages to be sent, by length.
    messages: Vec<usize>,
    losses: u8,
    doubles: u8,
    timeouts: u8,
    restarts: u8,
    /// Off to see the property fail.
    flow_control: bool,
    /// Off to see the property fail.
    new_epochs: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Action {
    Send,
    Deliver(usize),
    Lose(usize),
    Double(usize),
    Timeout,
    Consume,
    Restart,
    Learn,
}

/// The application at an end.
#[derive(Debug, Clone, Default, Hash)]
struct App {
    incarnation: u64,
    expected: u64,
    unread: Vec<u64>,
    arriving: Option<(u64, u64)>,
    /// Length of what is sent, by token.
    pulled: Vec<(u64, u64)>,
    received: u64,
    sends: Vec<u64>,
    wrong: Option<String>,
}

impl App {
    fn begin(&mut self, envelope: &Envelope) {
        let wanted = self.incarnation << 32 | self.expected;
        if envelope.tag != wanted {
            self.wrong.get_or_insert(format!("{:x} came, not {wanted:x}", envelope.tag));
        }
        self.expected += 1;
    }

    fn unread_charges(&self) -> u64 {
        let arriving = self.arriving.map(|(total, _)| total);
        self.unread.iter().copied().chain(arriving).map(|len| len + CREDIT_PER_MESSAGE).sum()
    }

    fn check(&mut self, offset: u64, payload: &[u8]) {
        if payload.iter().zip(offset..).any(|(byte, at)| *byte != byte_at(at)) {
            self.wrong.get_or_insert("a byte was altered".to_owned());
        }
    }
}

/// What stands at that place of each message; no datagram's length is a multiple of the period.
fn byte_at(at: u64) -> u8 {
    (at % 251) as u8
}

impl Source for App {
    fn read(&self, _token: u64, offset: u64, out: &mut [u8]) {
        out.iter_mut().zip(offset..).for_each(|(byte, at)| *byte = byte_at(at));
    }
}

impl Sink for App {
    fn message(&mut self, _peer: PeerId, envelope: &Envelope, payload: &[u8]) -> bool {
        self.begin(envelope);
        self.check(0, payload);
        self.received += 1;
        self.unread.push(payload.len() as u64);
        false
    }

    fn first(&mut self, _peer: PeerId, envelope: &Envelope, total: u64, payload: &[u8]) {
        self.begin(envelope);
        self.check(0, payload);
        self.arriving = Some((total, payload.len() as u64));
    }

    fn next(&mut self, _peer: PeerId, payload: &[u8], last: bool) -> bool {
        self.check(self.arriving.map_or(0, |(_, got)| got), payload);
        let Some((total, got)) = &mut self.arriving else {
            self.wrong.get_or_insert("a part without its beginning".to_owned());
            return true;
        };
        *got += payload.len() as u64;
        if last {
            self.unread.push(*total);
            self.arriving = None;
            self.received += 1;
        }
        false
    }

    fn request(
        &mut self,
        _peer: PeerId,
        envelope: &Envelope,
        total: u64,
        _send_id: u32,
    ) -> Option<Wanted> {
        self.begin(envelope);
        let token = envelope.tag;
        self.pulled.push((token, total));
        Some(Wanted { len: total, token })
    }

    fn segment(&mut self, token: u64, offset: u64, payload: &[u8]) {
        self.check(offset, payload);
        match self.pulled.iter_mut().find(|(known, _)| *known == token) {
            Some((_, left)) if *left >= payload.len() as u64 => *left -= payload.len() as u64,
            _ => drop(self.wrong.get_or_insert("a segment too many".to_owned())),
        }
    }

    fn pulled(&mut self, token: u64, complete: bool) {
        let before = self.pulled.len();
        self.pulled.retain(|(known, left)| *known != token || (complete && *left > 0));
        if self.pulled.len() + 1 != before {
            self.wrong.get_or_insert("a transfer ended that is not known or not whole".to_owned());
        }
        self.received += u64::from(complete);
    }

    fn sent(&mut self, token: u64, _complete: bool) {
        let before = self.sends.len();
        self.sends.retain(|known| *known != token);
        if self.sends.len() + 1 != before {
            self.wrong.get_or_insert("a send was reported twice".to_owned());
        }
    }

    fn gone(&mut self, _peer: PeerId, _why: Gone) {}
}

#[derive(Clone)]
struct State {
    ends: [Transport; 2],
    apps: [App; 2],
    /// The receiver, as the sender knows it, and which incarnation that is.
    peer: PeerId,
    known: u64,
    /// Where to, and the datagram; sorted, as their order means nothing.
    network: Vec<(usize, Vec<u8>)>,
    now: Instant,
    /// How many messages went to the incarnation that is known.
    sent: u64,
    next_message: usize,
    left: [u8; 4],
}

const LOSSES: usize = 0;
const DOUBLES: usize = 1;
const TIMEOUTS: usize = 2;
const RESTARTS: usize = 3;

impl fmt::Debug for State {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let under_way: Vec<_> = self.network.iter().map(|(to, d)| (to, d[2], d.len())).collect();
        write!(f, "at {:?}: under way {under_way:?}, {:?}", self.now, self.apps[RECEIVER])
    }
}

struct Fingerprint<'a, H>(&'a mut H);

impl<H: Hasher> fmt::Write for Fingerprint<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.apps, self.peer.0, self.known, &self.network).hash(state);
        (self.now.as_nanos(), self.sent, self.next_message, self.left).hash(state);
        for end in &self.ends {
            end.write_state(&mut Fingerprint(state)).expect("a hasher takes everything");
        }
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        let hash = |state: &Self| {
            let mut hasher = std::hash::DefaultHasher::new();
            state.hash(&mut hasher);
            hasher.finish()
        };
        hash(self) == hash(other)
    }
}

fn transport(epoch: u64, flow_control: bool) -> Transport {
    let path = Path {
        frame_len_max: FRAME_LEN,
        latency_train_max: 1,
        bulk_train_max: 4,
        bulk_window_len: 16 * 1024,
        bulk_port: 9,
    };
    Transport::new(Config {
        epoch: Epoch(epoch),
        key: JobKey([1; 16]),
        paths: vec![path],
        silence_limit: Duration::from_secs(60),
        flow_control,
        encrypt: false,
    })
}

impl State {
    fn new(bounds: &Bounds) -> Self {
        let mut ends = [SENDER, RECEIVER].map(|end| transport(1 + end as u64, bounds.flow_control));
        let peer = ends[SENDER].connect(address(RECEIVER), Epoch(2), 0);
        ends[RECEIVER].connect(address(SENDER), Epoch(1), 0);
        let left = [bounds.losses, bounds.doubles, bounds.timeouts, bounds.restarts];
        let mut state = Self {
            ends,
            apps: [App::default(), App::default()],
            peer,
            known: 0,
            network: Vec::new(),
            now: Instant::from_nanos(1),
            sent: 0,
            next_message: 0,
            left,
        };
        for len in &bounds.before {
            state.send(*len);
            state.calm(&[], false);
        }
        assert_eq!(state.apps[RECEIVER].wrong, None);
        state.now = Instant::from_nanos(1_000_000_000);
        state
    }

    fn send(&mut self, len: usize) -> bool {
        let tag = self.known << 32 | self.sent;
        let envelope = Envelope::new(Class::Tagged, tag, None);
        let app = &mut self.apps[SENDER];
        let posted = self.ends[SENDER].send(self.peer, envelope, len, tag, false, app);
        if posted == Ok(Posted::Pending) {
            app.sends.push(tag);
        }
        self.sent += u64::from(posted.is_ok());
        posted.is_ok()
    }

    /// Whatever both ends have to say goes to the network.
    fn flush(&mut self) {
        let mut out = [0; 4 * FRAME_LEN];
        for end in [SENDER, RECEIVER] {
            while let Some(t) = self.ends[end].poll_transmit(self.now, &self.apps[end], &mut out) {
                let datagrams = out[..t.len].chunks(t.segment_len);
                self.network.extend(datagrams.map(|datagram| (1 - end, datagram.to_vec())));
            }
        }
        self.network.sort();
    }

    fn deliver(&mut self, at: usize) {
        let (to, datagram) = self.network.remove(at);
        let (end, app) = (&mut self.ends[to], &mut self.apps[to]);
        end.handle_datagram(self.now, address(1 - to), 0, &datagram, app);
    }

    fn timeout(&mut self) -> bool {
        let Some(at) = self.ends.iter().filter_map(Transport::poll_timeout).min() else {
            return false;
        };
        self.now = self.now.max(at);
        for (end, app) in self.ends.iter_mut().zip(&mut self.apps) {
            end.handle_timeout(self.now, app);
        }
        true
    }

    /// All that is unread at once: one by one, the orders of eight messages would be all that there
    /// is to see.
    fn consume(&mut self) {
        for len in std::mem::take(&mut self.apps[RECEIVER].unread) {
            // Whoever sent it last is known under the last number.
            self.ends[RECEIVER].consume(PeerId(0), len);
        }
    }

    /// How much may lie unread.
    fn granted(&self) -> u64 {
        let sender = self.ends[RECEIVER].peer(PeerId(0));
        sender.map_or(CREDIT_INITIAL, |sender| sender.credit_granted)
    }

    fn restart(&mut self, bounds: &Bounds) {
        let incarnation = self.apps[RECEIVER].incarnation + 1;
        let epoch = if bounds.new_epochs { 2 + incarnation } else { 2 };
        self.ends[RECEIVER] = transport(epoch, bounds.flow_control);
        self.ends[RECEIVER].connect(address(SENDER), Epoch(1), 0);
        self.apps[RECEIVER] = App { incarnation, ..App::default() };
    }

    fn learn(&mut self, bounds: &Bounds) {
        self.known = self.apps[RECEIVER].incarnation;
        let epoch = if bounds.new_epochs { 2 + self.known } else { 2 };
        self.peer = self.ends[SENDER].connect(address(RECEIVER), Epoch(epoch), 0);
        self.sent = 0;
    }

    /// A network without faults, and a receiver that reads if `reads`: true once the messages
    /// are all sent and all that went to the living incarnation is there.
    fn calm(&mut self, messages: &[usize], reads: bool) -> bool {
        for _ in 0..400 {
            self.flush();
            while !self.network.is_empty() {
                self.deliver(0);
            }
            if reads {
                self.consume();
            }
            self.flush();
            let is_known = self.known == self.apps[RECEIVER].incarnation;
            if let Some(len) = messages.get(self.next_message).filter(|_| is_known) {
                self.next_message += usize::from(self.send(*len));
                continue;
            }
            let is_quiet = self.network.is_empty() && self.ends[RECEIVER].is_drained();
            let is_there = self.apps[RECEIVER].received == self.sent || !is_known;
            let is_acknowledged = self.apps[SENDER].sends.iter().all(|tag| tag >> 32 != self.known);
            if is_quiet && is_there && is_acknowledged {
                return true;
            }
            if self.network.is_empty() && !self.timeout() {
                return false;
            }
        }
        false
    }
}

impl Model for Bounds {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.next_message < self.messages.len() {
            actions.push(Action::Send);
        }
        for (at, datagram) in state.network.iter().enumerate() {
            // Of equal datagrams, one.
            if at > 0 && state.network[at - 1] == *datagram {
                continue;
            }
            actions.push(Action::Deliver(at));
            if state.left[LOSSES] > 0 {
                actions.push(Action::Lose(at));
            }
            if state.left[DOUBLES] > 0 {
                actions.push(Action::Double(at));
            }
        }
        if state.left[TIMEOUTS] > 0 {
            actions.push(Action::Timeout);
        }
        if !state.apps[RECEIVER].unread.is_empty() {
            actions.push(Action::Consume);
        }
        if state.left[RESTARTS] > 0 {
            actions.push(Action::Restart);
        }
        if state.known != state.apps[RECEIVER].incarnation {
            actions.push(Action::Learn);
        }
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Send => {
                if !next.send(self.messages[next.next_message]) {
                    return None;
                }
                next.next_message += 1;
            }
            Action::Deliver(at) => next.deliver(at),
            Action::Lose(at) => {
                next.network.remove(at);
                next.left[LOSSES] -= 1;
            }
            Action::Double(at) => {
                let datagram = next.network[at].clone();
                next.network.push(datagram);
                next.left[DOUBLES] -= 1;
            }
            Action::Timeout => {
                if !next.timeout() {
                    return None;
                }
                next.left[TIMEOUTS] -= 1;
            }
            Action::Consume => next.consume(),
            Action::Restart => {
                next.restart(self);
                next.left[RESTARTS] -= 1;
            }
            Action::Learn => next.learn(self),
        }
        next.flush();
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(RIGHT, |_, state: &State| {
                state.apps.iter().all(|app| app.wrong.is_none())
            }),
            Property::always(BOUNDED, |_, state: &State| {
                state.apps[RECEIVER].unread_charges() <= state.granted()
            }),
            Property::always(OWNED, |_, state: &State| {
                let view = state.ends[SENDER].peer(state.peer).expect("it was connected");
                let is_known = state.known == state.apps[RECEIVER].incarnation;
                let charges = state.apps[RECEIVER].unread_charges();
                !is_known || view.credit_left + charges <= state.granted()
            }),
            Property::always(ENDS, |bounds: &Bounds, state: &State| {
                let mut state = state.clone();
                if state.known != state.apps[RECEIVER].incarnation {
                    state.learn(bounds);
                }
                state.calm(&bounds.messages, true)
            }),
        ]
    }
}

const RIGHT: &str = "each message comes once, in order, to whom it was meant for";
const BOUNDED: &str = "no more lies unread than credit allows";
const OWNED: &str = "what a sender may send fits beside what lies unread";
const ENDS: &str = "a fair network leads to the end";

/// Nearly all of the credit used up: 1024 bytes of charges are left.
fn nearly_full() -> Vec<usize> {
    let mut before = vec![EAGER_LEN_MAX / 2; 7];
    let charge = |len: usize| len as u64 + CREDIT_PER_MESSAGE;
    let left = CREDIT_INITIAL - 7 * charge(EAGER_LEN_MAX / 2) - 1024;
    before.push(left as usize - CREDIT_PER_MESSAGE as usize);
    before
}

fn credit() -> Bounds {
    Bounds {
        before: nearly_full(),
        messages: vec![600, 600],
        losses: 0,
        doubles: 0,
        timeouts: 1,
        restarts: 0,
        flow_control: true,
        new_epochs: true,
    }
}

fn sessions() -> Bounds {
    Bounds {
        before: Vec::new(),
        messages: vec![8, 8],
        losses: 1,
        doubles: 0,
        timeouts: 1,
        restarts: 1,
        flow_control: true,
        new_epochs: true,
    }
}

/// How many states there are, and which properties fail in some of them.
fn explore(bounds: Bounds) -> (usize, Vec<&'static str>) {
    let checker = bounds.checker().threads(2).spawn_bfs().join();
    let found: HashMap<_, _> = checker.discoveries();
    for (name, path) in &found {
        println!("not so: {name}, after {:?}", path.clone().into_actions());
    }
    (checker.unique_state_count(), found.into_keys().collect())
}

fn credit_holds(bounds: Bounds) {
    let (states, broken) = explore(bounds);
    println!("{states} states");
    assert!(broken.is_empty() && states > 1000, "{broken:?} in {states} states");
}

/// A shortage of credit, a rendezvous, and a grant or anything else that is lost and sent again.
#[test]
fn credit_holds_in_every_order_of_events() {
    credit_holds(Bounds { losses: 1, timeouts: 2, ..credit() });
}

/// The message that is pulled comes in two segments.
#[test]
fn segments_come_to_their_places_in_every_order_of_events() {
    credit_holds(Bounds { messages: vec![600, 700], losses: 1, ..credit() });
}

/// What is lost, or comes twice and late, may have been for a receiver that is dead by then.
#[test]
fn credit_holds_in_every_order_of_events_with_a_restart() {
    credit_holds(Bounds { losses: 1, restarts: 1, ..credit() });
    credit_holds(Bounds { doubles: 1, restarts: 1, ..credit() });
}

#[test]
#[ignore = "takes half a minute: cargo test -p wiglaf-sim --test model -- --ignored"]
fn credit_holds_in_every_order_of_losses_and_doubles() {
    credit_holds(Bounds { losses: 1, doubles: 1, ..credit() });
}

#[test]
fn sessions_hold_in_every_order_of_events() {
    let (states, broken) = explore(sessions());
    println!("{states} states");
    assert!(broken.is_empty() && states > 100, "{broken:?} in {states} states");
}

#[test]
fn without_flow_control_the_checker_finds_too_much_unread() {
    let (_, broken) = explore(Bounds { flow_control: false, ..credit() });
    assert!(broken.contains(&BOUNDED), "{broken:?}");
}

#[test]
fn without_new_epochs_the_checker_finds_messages_of_the_dead() {
    let (_, broken) = explore(Bounds { new_epochs: false, ..sessions() });
    assert!(broken.contains(&RIGHT) || broken.contains(&ENDS), "{broken:?}");
}
