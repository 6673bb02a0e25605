//! Every knob of the protocol in one place, with the proofs that they fit together.

use std::time::Duration;

/// Most packets of the ordered lane that may be unacknowledged, and how far
/// ahead of the next expected one a receiver keeps packets.
pub const ORDERED_WINDOW: u64 = 256;
/// Most packets of the bulk lane that may be unacknowledged, and how far ahead of the next expected one a receiver
/// keeps packets.
pub const BULK_WINDOW: u64 = 1984;
/// Packets that a receiver's bitmap can speak of.
pub const BITMAP_BITS: u64 = 64 * wiglaf_wire::BITMAP_WORDS_MAX as u64;

/// A packet counts as lost once packets transmitted this much later have been
/// acknowledged (RFC 9002, section 6.1.1).
pub const REORDER_THRESHOLD: u64 = 3;
/// So many ordered datagrams on their way make a burst: a body that is not full may then wait for
/// more messages.
pub const BURST_MIN: u32 = 4;
/// What was sent longer ago is not part of a burst.
pub const BURST_GAP: Duration = Duration::from_micros(20);
/// So many messages of a burst wait for each other, to go as one train.
pub const LINGERING_MESSAGES: usize = 16;
/// Or as many datagrams as such a part of those that are under way, if that is more.
pub const LINGERING_FLIGHT_DIVISOR: usize = 4;
/// But no more datagrams than that.
pub const LINGERING_DATAGRAMS_MAX: usize = 8;
/// A datagram is made longer by such a part of those before it, if others can then follow in the same train.
pub const PADDING_DIVISOR: usize = 8;
/// What fits so many trains goes to the port of single datagrams, where that takes trains: the first
/// is there sooner. Of more, trains to the port for them are as soon there, and cost less.
pub const LATENCY_TRAINS_MAX: usize = 3;
/// So many trains at least does a congestion window hold.
pub const WINDOW_TRAINS: u32 = 3;
/// Congestion window to begin with, in packets.
pub const CWND_INITIAL: u32 = 64;
/// Congestion windows are counted in such parts of a packet.
pub const PARTS_PER_PACKET: u32 = 256;
/// A loss never takes the congestion window below this, in parts of a packet.
pub const CWND_MIN_PARTS: u32 = PARTS_PER_PACKET / 16;
/// A loss never takes the congestion window below this, in parts of a packet, where the network shows no delay: such
/// losses are the wire's, not a queue's.
pub const CWND_MIN_PARTS_UNDELAYED: u32 = PARTS_PER_PACKET * 8;
/// Delay of the way there that congestion control aims at. Far more than a
/// switch needs, because what the sender's scheduler and the receiver's interrupts add is in it.
pub const DELAY_TARGET: Duration = Duration::from_micros(200);
/// What is added to that for a window of one packet; less for wider ones, by
/// the root of their packets.
pub const DELAY_TARGET_FLOWS: Duration = Duration::from_micros(500);

/// A way that takes longer may be a queue.
pub const LONG_WAY: Duration = Duration::from_micros(400);
/// Such ways are looked at every so many rounds.
pub const LOOK_EVERY: u8 = 128;
/// The second look comes after so many rounds, each further one after twice as many, up to that.
pub const LOOK_FIRST: u8 = 8;
/// Unless the window is narrower than so many packets.
pub const LOOK_WINDOW_MIN: u32 = 4;

/// Absences of either end count up to this.
pub const ABSENCE_MAX: Duration = Duration::from_millis(1);
/// The longest absence is forgotten by such a part in each round.
pub const ABSENCE_FADING: u32 = 16;
/// So often is an absence added to what is added for a window of one packet.
pub const ABSENCE_FACTOR: u32 = 7;
/// So many first ordered datagrams carry an acknowledgement record for its clock alone.
pub const CLOCK_TOLD_FIRST: u8 = 8;
/// And those that acknowledge so many ordered packets.
pub const CLOCK_TOLD_AFTER: u32 = 5;

/// Ordered packets that may wait for one acknowledgement.
pub const ACK_EVERY_ORDERED: u32 = 64;
/// Part of the bulk window that may wait for one acknowledgement.
pub const ACK_EVERY_BULK_DIVISOR: u32 = 8;
/// Bulk packets that may wait for one acknowledgement at most.
pub const ACK_EVERY_BULK_MAX: u32 = 128;
/// Longest wait before an acknowledgement is sent by itself.
pub const ACK_DELAY_MAX: Duration = Duration::from_micros(50);

/// Round-trip time assumed before the first measurement.
pub const RTT_INITIAL: Duration = Duration::from_millis(1);
/// For at least so long the variation of the round-trip time waits for a peak.
pub const RTT_ROUND_MIN: Duration = Duration::from_millis(1);
/// So often at most is the variation of the round-trip time halved because probes were called for.
pub const HASTE_MAX: u8 = 8;
/// Shortest probe timeout.
pub const PTO_MIN: Duration = Duration::from_micros(150);
/// How long a peer that was never heard may have no listener: the processes of
/// a job do not start at the same moment.
pub const START_LIMIT: Duration = Duration::from_secs(10);
/// A peer that is heard, and has acknowledged nothing of a session for so long, does not get what is sent to it:
/// bursts of loss end within seconds, and who stands still is not heard.
pub const ONE_WAY_LIMIT: Duration = Duration::from_secs(30);
/// In so many seconds at least it must have been heard, so that it is not one datagram that came late. It repeats
/// what we acknowledge in vain five times a second ([`PTO_MAX`]).
pub const ONE_WAY_HEARD_MIN: u8 = 10;
/// After so much silence a peer that owes bytes, a grant or an answer, and no acknowledgement, is asked for one.
pub const SILENCE_CHECK: Duration = Duration::from_secs(1);
/// Longest probe timeout, after backing off.
pub const PTO_MAX: Duration = Duration::from_millis(200);

/// Eager credit that both sides assume when a session begins, in bytes.
pub const CREDIT_INITIAL: u64 = 512 * 1024;
/// What the limit of a peer can grow by, in bytes.
pub const CREDIT_GROWTH_MAX: u64 = 3 * CREDIT_INITIAL;
/// Most that the limits of all peers of an endpoint can grow by together, in bytes.
pub const CREDIT_GROWTH_TOTAL_MAX: u64 = 32 * 1024 * 1024;
/// So much more than that may be pulled ahead of a peer whose messages are being received, in bytes of
/// charges: credit that the peer was told, and does not use, cannot be taken back.
pub const PULLED_AHEAD_MAX: u64 = CREDIT_INITIAL / 2;
/// It grows for messages up to that length: longer ones lose less by being announced, and are so
/// also where there is credit.
pub const CREDIT_GROWTH_LEN_MAX: u64 = QUEUED_LEN_MAX as u64;
/// What each eager message is charged beyond its payload, in bytes: its place
/// in the receiver's books.
pub const CREDIT_PER_MESSAGE: u64 = 64;
/// Tagged and untagged messages of up to that many bytes are sent whatever the credit: an announcement
/// takes as much of the receiver's memory, and a round trip for nothing.
pub const UNCREDITED_LEN_MAX: usize = CREDIT_PER_MESSAGE as usize;
/// Longest message that is sent eagerly, in bytes, unless [`crate::Lengths`] says otherwise.
pub const EAGER_LEN_MAX: usize = 128 * 1024;

/// Longest message that goes as a whole before anybody has asked for it, in bytes, unless [`crate::Lengths`] says
/// less; and what that may say at most, of either.
pub const UNASKED_LEN_MAX: u64 = 256 * 1024;
/// So many trains of a longer one go before anybody has asked for it: meanwhile somebody has.
pub const UNASKED_TRAINS: usize = 2;
/// So many long messages wait to be asked for after one for whose first bytes there was no buffer.
pub const UNASKED_PAUSE: u8 = 16;

/// Ordered bodies that may wait for a number before a send is put off.
pub const QUEUE_MAX: usize = 1024;
/// So much may wait in them, in bytes, before a message of more than [`QUEUED_LEN_MAX`] is announced
/// that could go eagerly: what waits long has left the caches when it goes, and what is asked for is
/// copied less.
pub const QUEUE_LEN_MAX: usize = 192 * 1024;
/// See there.
pub const QUEUED_LEN_MAX: usize = 24 * 1024;
/// Empty buffers that are kept for reuse.
pub const POOL_MAX: usize = 512;
/// Places that the queues of an idle peer keep.
pub const KEPT_CAPACITY: usize = 8;
/// Shortest frame of a usable path: header and both lanes' acknowledgements.
pub const FRAME_LEN_MIN: usize = 640;

/// Most sessions that strangers with a valid proof can make an endpoint keep.
pub const SESSIONS_MAX: usize = 1 << 20;

// Overruns (overrun.rs).

/// Peers are not told more often than that of losses.
pub(crate) const TELL_EVERY: Duration = Duration::from_millis(1);
/// Nor more often than that for each of them: 20,000 datagrams a second.
pub(crate) const TELL_EVERY_PER_PEER: Duration = Duration::from_micros(50);
/// Nor more often than that where nothing but such news comes, each time half as often as before:
/// many who tell each other might overrun each other with that.
pub(crate) const TELL_EVERY_IN_VAIN_MAX: Duration = Duration::from_millis(200);

// Lanes that are stuck (send_lane.rs).

/// So many probes in a row are not chance, nor a peer that was away for a moment: with their growing
/// intervals they take half a second, where datagrams take less than a millisecond.
pub(crate) const STUCK_PROBES: u32 = 10;

// The search for what a path carries (sizing.rs).

/// So long after a try its answers are there, if its short probe was answered: a peer that polls answers
/// within a millisecond, and one that is away for longer answers none of them.
pub(crate) const SIZE_ANSWER_WAIT: Duration = Duration::from_millis(100);
/// So many tries of a length in which only the short probe was answered make it too long (RFC 8899: 3;
/// a network that loses a third of all datagrams would too often pass for one that drops long ones).
pub(crate) const SIZE_TRIES_MAX: u8 = 5;
/// After so many tries in which only the short probe was answered, a port counts as closed: by error once in 10 000
/// times on a network that loses a third of all datagrams, of the few in which a lane has probed in vain before.
pub(crate) const CLOSED_TRIES: u8 = 12;
/// After so many tries in which only the short probe was answered, a path that carried longer datagrams counts as
/// narrowed. An error does no harm: the search that follows finds that they arrive.
pub(crate) const NARROW_TRIES: u8 = 12;
/// After so many tries with an answer to the short probe only, a peer counts as out of reach: 3 s, because a switch's
/// queue that is full to some hundred bytes lets short datagrams pass and no long ones, though hardly for so long.
pub(crate) const BLOCKED_TRIES: u8 = 30;
/// After so many tries without any answer the peer is one that does not know of probes.
pub(crate) const UNHEARD_MAX: u8 = 16;
/// After so many in a row a peer that has answered some is away.
pub(crate) const UNHEARD_CHECK_MAX: u8 = 4;
/// The search ends when it is known so exactly, in bytes.
pub(crate) const SIZE_STEP_MIN: u16 = 128;
/// A peer's probes that wait for their answer; more are dropped, as the network may.
pub(crate) const SIZE_OWED_MAX: usize = 8;
/// Most datagrams in a train that every kernel with segmentation offload takes.
pub(crate) const SIZE_TRAIN_MAX: usize = 64;

// Packets in parts (outgrown.rs).

/// So often parts of a packet go in vain on a way that is good, a second apart, before the peer is given up.
pub(crate) const PARTS_IN_VAIN_MAX: u8 = 10;

// Clocks of two machines (returns.rs).

/// Clocks may drift apart by a ten thousandth. So fast does what counts as prompt grow, lest it be
/// what it was when the other clock was slower.
pub(crate) const CLOCK_DRIFT: u32 = 10_000;
/// So often it grows, by whole microseconds.
pub(crate) const CLOCK_DRIFT_STEP: Duration = Duration::from_millis(10);
/// Nothing is under way for so long: a clock has jumped, as that of a machine that was asleep does.
pub(crate) const CLOCK_JUMP: Duration = Duration::from_secs(1);

// Swift (congestion/swift.rs).

/// How much of what is missed is taken off the window (Swift's beta).
pub(crate) const SWIFT_DECREASE: f32 = 0.8;
/// Most that one round may take off for delay (Swift's `max_mdf`).
pub(crate) const SWIFT_DECREASE_MAX: f32 = 0.5;
/// A step is so many bytes: a packet at an MTU of 1500.
pub(crate) const SWIFT_STEP_LEN: usize = 1472;
/// And at least one in so many of a packet.
pub(crate) const SWIFT_STEPS_MAX: usize = 8;
/// Most steps that are added in a round.
pub(crate) const SWIFT_STEP_COUNT_MAX: u32 = 4;
/// What a loss leaves of the window (RFC 9438, section 4.6).
pub(crate) const SWIFT_AFTER_LOSS: f32 = 0.7;

const _: () = assert!(ORDERED_WINDOW < BITMAP_BITS && BULK_WINDOW < BITMAP_BITS);
const _: () = assert!(ORDERED_WINDOW.is_power_of_two());
const _: () = assert!(EAGER_LEN_MAX as u64 + CREDIT_PER_MESSAGE < CREDIT_INITIAL);
const _: () = assert!(UNASKED_LEN_MAX + CREDIT_PER_MESSAGE < CREDIT_INITIAL);
const _: () = assert!(CREDIT_INITIAL + CREDIT_GROWTH_MAX < 1 << 31);
const _: () = assert!(
    wiglaf_wire::HEADER_LEN + 2 * (16 + 8 * wiglaf_wire::BITMAP_WORDS_MAX) <= FRAME_LEN_MIN
);
const _: () = assert!(ACK_DELAY_MAX.as_nanos() < PTO_MIN.as_nanos());
// In nanoseconds they are kept in 32 bits, and added.
const _: () = assert!(
    DELAY_TARGET.as_nanos()
        + DELAY_TARGET_FLOWS.as_nanos()
        + ABSENCE_FACTOR as u128 * ABSENCE_MAX.as_nanos()
        < 1 << 31
);
const _: () = assert!(8 * 2 * PTO_MAX.as_nanos() < 1 << 32);
const _: () = assert!((BULK_WINDOW * PARTS_PER_PACKET as u64) < 1 << 31);
