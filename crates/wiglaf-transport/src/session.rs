//! What is known of one peer.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddrV4;

use wiglaf_wire::{Epoch, Transfer};

use crate::congestion::Control;
use crate::limits::{CREDIT_INITIAL, KEPT_CAPACITY, ORDERED_WINDOW};
use crate::one_way::OneWay;
use crate::receive_window::{ReceiveWindow, ReplayWindow};
use crate::rendezvous::Unasked;
use crate::returns::Returns;
use crate::rtt::Rtt;
use crate::send_lane::{BulkLane, SendLane};
use crate::sizing::Trials;
use crate::stats::Traffic;
use crate::time::Instant;

/// The body of an ordered datagram, kept until it is acknowledged.
#[derive(Clone, Default)]
pub(crate) struct Body {
    /// Room for the longest body, so that nothing is cleared before it is filled.
    pub(crate) room: Vec<u8>,
    /// How much of it is used.
    pub(crate) len: usize,
    /// Sends to report once the peer has this packet.
    pub(crate) tokens: Vec<u64>,
}

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Body({:?} for {:?})", self.bytes(), self.tokens)
    }
}

impl Body {
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.room[..self.len]
    }
}

/// A bulk segment in flight; its bytes stay in the user's buffer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Piece {
    pub(crate) send_id: u32,
    pub(crate) transfer: Transfer,
    pub(crate) offset: u64,
    pub(crate) len: u32,
}

/// A grant that is being served, or what goes without one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Job {
    pub(crate) send_id: u32,
    pub(crate) transfer: Transfer,
    pub(crate) offset: u64,
    pub(crate) end: u64,
}

/// What a lane owes its sender in acknowledgements.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct AckDebt {
    /// Packets that arrived since the last acknowledgement.
    pub(crate) packets: u32,
    /// One of those came a second time.
    pub(crate) twice: bool,
    /// To be sent by itself when nothing carries it before.
    pub(crate) due_at: Option<Instant>,
    /// To be sent at the next opportunity.
    pub(crate) now: bool,
    /// Frames were dropped for want of room.
    pub(crate) overrun: bool,
    /// When a duplicate called for an answer at once.
    pub(crate) repeated_at: Option<Instant>,
    /// When the newest packet came.
    pub(crate) newest_at: Instant,
    /// That is what the kernel says, not when it was found.
    pub(crate) is_exact: bool,
}

impl AckDebt {
    /// Turns a deadline that has passed into a debt to be paid at once.
    pub(crate) fn expire(&mut self, now: Instant) -> bool {
        if self.due_at.is_some_and(|at| at <= now) {
            self.due_at = None;
            self.now = true;
        }
        self.now
    }

    pub(crate) fn clear(&mut self) {
        self.packets = 0;
        self.twice = false;
        self.due_at = None;
        self.now = false;
        self.overrun = false;
    }
}

/// How a session stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// Usable.
    Open,
    /// The peer has said good-bye; only acknowledgements go out.
    Closed,
    /// The peer was given up.
    Gone,
}

/// Protocol state of one peer.
#[derive(Debug, Clone)]
pub(crate) struct Session {
    pub(crate) at: SocketAddrV4,
    pub(crate) path: usize,
    pub(crate) epoch: Epoch,
    pub(crate) state: State,
    /// Something was sent or received.
    pub(crate) used: bool,

    /// Longest datagram that is known to get there, in bytes, without a tag.
    pub(crate) frame_len: u32,
    /// The bulk lane has been used and has not come to rest since. With thousands of peers each cache
    /// line counts, and most messages never touch that lane.
    pub(crate) uses_bulk: bool,
    /// Both lanes take the same way.
    pub(crate) rtt: Rtt,
    pub(crate) returns: Returns,
    /// Times that the peer was told our clock without need.
    pub(crate) clock_told: u8,
    pub(crate) ordered: SendLane<Body>,
    pub(crate) bulk: BulkLane<Piece>,
    /// Bodies that have no number yet; the last may still grow.
    pub(crate) queue: VecDeque<Body>,
    pub(crate) jobs: VecDeque<Job>,
    /// Most unacknowledged bulk bytes that the peer can take.
    pub(crate) bulk_window_len: u32,
    /// Where the peer awaits trains; 0 until it has named us.
    pub(crate) bulk_port: u16,
    /// Ordered packets below this number went on the bulk lane; until they are
    /// acknowledged others follow them there, so that none overtakes.
    pub(crate) ordered_on_bulk_below: u64,

    pub(crate) ordered_in: ReceiveWindow,
    pub(crate) bulk_in: ReceiveWindow,
    pub(crate) control_in: ReplayWindow,
    /// Number of the next control datagram to this peer.
    pub(crate) control_next: u64,
    /// Ordered bodies that arrived ahead of a gap.
    pub(crate) ahead: BTreeMap<u64, Vec<u8>>,
    /// Length of the eager message that is arriving in parts, and what is here.
    pub(crate) partial: Option<(u64, u64)>,
    pub(crate) ordered_debt: AckDebt,
    pub(crate) bulk_debt: AckDebt,
    /// Sends that the peer has not wholly pulled.
    pub(crate) pending_sends: u32,
    /// Pulls that this side has under way.
    pub(crate) pulls: u32,
    /// Bytes of them that have not come.
    pub(crate) missing: u64,
    /// Answers that the upper side awaits.
    pub(crate) answers: u32,
    /// What the peer sends without having been asked.
    pub(crate) unasked: Option<Unasked>,
    /// So many long messages to the peer wait to be asked for; it had no buffers of late.
    pub(crate) unasked_pause: u8,
    /// Bytes that the peer was last told it may have unacknowledged on the bulk lane.
    pub(crate) bulk_granted_len: usize,

    /// Total of eager charges that the peer allows.
    pub(crate) credit_limit: u64,
    /// Total of eager charges so far.
    pub(crate) eager_sent: u64,
    /// Total of eager charges that this side has consumed.
    pub(crate) consumed: u64,
    /// The limit that the peer was told last.
    pub(crate) credit_told: u64,
    /// Charges of announced messages that were pulled before their receives; those are consumed, too.
    pub(crate) charged_ahead: u64,
    /// Credit that comes free is kept for such messages.
    pub(crate) credit_held: bool,
    /// What the peer may send unasked beyond the initial credit, in bytes of charges.
    pub(crate) credit_growth: u32,

    /// A valid datagram of the peer has come.
    pub(crate) heard: bool,
    /// When the peer was heard last, or began to owe an answer.
    pub(crate) heard_at: Instant,
    /// Whether anything that is sent gets there.
    pub(crate) one_way: OneWay,
    /// Longer datagrams may get there, which is to be tried when the peer is heard.
    pub(crate) may_grow: bool,
    /// Nothing that is sent to the bulk port gets there.
    pub(crate) is_bulk_blocked: bool,
    /// When it was last tried whether what is sent gets there at all.
    pub(crate) checked_at: Instant,
    pub(crate) trials: Option<Box<Trials>>,
    pub(crate) traffic: Traffic,
    pub(crate) in_ready: bool,
    /// If not 0, the last body that has no number yet waits for more messages, and those before
    /// it go so many at a time.
    pub(crate) linger_unit: usize,
    /// It is in the list of those who do, or did.
    pub(crate) in_lingering: bool,
    /// The link has no room for it.
    pub(crate) is_held: bool,
    /// Earliest entry of this session in the timer heap.
    pub(crate) timer_queued_at: Option<Instant>,
}

impl Session {
    pub(crate) fn new(at: SocketAddrV4, path: usize, epoch: Epoch, control: Control) -> Self {
        Self {
            at,
            path,
            epoch,
            state: State::Open,
            used: false,
            frame_len: 0,
            uses_bulk: false,
            rtt: Rtt::new(),
            returns: Returns::default(),
            clock_told: 0,
            ordered: SendLane::new(ORDERED_WINDOW, control),
            bulk: BulkLane::new(control),
            queue: VecDeque::new(),
            jobs: VecDeque::new(),
            bulk_window_len: 0,
            bulk_port: 0,
            ordered_on_bulk_below: 0,
            ordered_in: ReceiveWindow::default(),
            bulk_in: ReceiveWindow::default(),
            control_in: ReplayWindow::default(),
            control_next: 0,
            ahead: BTreeMap::new(),
            partial: None,
            ordered_debt: AckDebt::default(),
            bulk_debt: AckDebt::default(),
            pending_sends: 0,
            pulls: 0,
            missing: 0,
            answers: 0,
            unasked: None,
            unasked_pause: 0,
            bulk_granted_len: 0,
            credit_limit: CREDIT_INITIAL,
            eager_sent: 0,
            consumed: 0,
            credit_told: CREDIT_INITIAL,
            charged_ahead: 0,
            credit_held: false,
            credit_growth: 0,
            heard: false,
            heard_at: Instant::ZERO,
            one_way: OneWay::default(),
            may_grow: false,
            is_bulk_blocked: false,
            checked_at: Instant::ZERO,
            trials: None,
            traffic: Traffic::default(),
            in_ready: false,
            linger_unit: 0,
            in_lingering: false,
            is_held: false,
            timer_queued_at: None,
        }
    }

    /// As if `number` packets of each lane and that much credit had gone both ways already.
    pub(crate) fn begin_at(&mut self, number: u64) {
        self.ordered.begin_at(number);
        self.bulk.begin_at(number);
        self.ordered_in.begin_at(number);
        self.bulk_in.begin_at(number);
        self.control_in.begin_at(number);
        self.control_next = number;
        self.ordered_on_bulk_below = number;
        self.eager_sent = number;
        self.consumed = number;
        (self.credit_limit, self.credit_told) = (number + CREDIT_INITIAL, number + CREDIT_INITIAL);
    }

    /// Nothing waits to be sent or acknowledged.
    pub(crate) fn is_drained(&self) -> bool {
        self.queue.is_empty()
            && self.ordered.is_idle()
            && (!self.uses_bulk || (self.jobs.is_empty() && self.bulk.is_idle()))
    }

    /// Whether the peer owes something that is no acknowledgement: bytes, a grant, or an answer.
    pub(crate) fn awaits(&self) -> bool {
        let asked = self.pulls > 0 || self.pending_sends > 0 || self.answers > 0;
        (asked || self.partial.is_some()) && self.state == State::Open
    }

    /// Nothing goes on: gives back the memory that a burst has made it take.
    pub(crate) fn rest(&mut self) {
        self.ordered.rest();
        self.bulk.rest();
        self.ordered_in.rest();
        self.bulk_in.rest();
        release(&mut self.queue);
        release(&mut self.jobs);
        self.uses_bulk = self.has_bulk();
        self.rest_parts();
    }

    /// Whether the bulk lane has anything to send or to acknowledge.
    fn has_bulk(&self) -> bool {
        let debt = &self.bulk_debt;
        let owes = debt.now || debt.packets > 0 || debt.due_at.is_some();
        owes || !self.jobs.is_empty() || !self.bulk.is_idle()
    }

    /// Bodies that may go now.
    pub(crate) fn due(&self) -> usize {
        let waiting = self.queue.len();
        match self.linger_unit {
            0 => waiting,
            unit => waiting.saturating_sub(1) / unit * unit,
        }
    }

    /// No message is announced and not complete, and nothing waits for a number.
    pub(crate) fn has_nothing_to_send(&self) -> bool {
        self.pending_sends == 0 && self.queue.is_empty()
    }

    /// What is sent next on the ordered lane must follow what went on the bulk lane there.
    pub(crate) fn is_behind_bulk(&self) -> bool {
        self.ordered_on_bulk_below > self.ordered.base()
    }

    /// When the session next wants attention without being spoken to.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        debug_assert!(self.uses_bulk || !self.has_bulk(), "what goes on there is forgotten");
        let ordered = [self.ordered.timeout(&self.rtt), self.ordered_debt.due_at];
        let bulk = self.uses_bulk.then(|| [self.bulk.timeout(&self.rtt), self.bulk_debt.due_at]);
        let lanes = ordered.into_iter().chain(bulk.into_iter().flatten()).flatten().min();
        match &self.trials {
            None => lanes,
            Some(trials) => lanes.into_iter().chain(trials.due_at()).min(),
        }
    }
}

/// Gives an empty queue's memory back, if it is more than a few messages need.
pub(crate) fn release<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() && queue.capacity() > KEPT_CAPACITY {
        *queue = VecDeque::new();
    }
}

/// Lets an empty queue begin at the front of its memory again: a few messages in turn then
/// touch one place of it, not each in turn. With thousands of peers each cache line counts.
pub(crate) fn from_the_front<T>(queue: &mut VecDeque<T>) {
    if queue.is_empty() {
        queue.clear();
    }
}
