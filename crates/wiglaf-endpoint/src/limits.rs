//! Every number that steers an endpoint, in one place. Those of time and of counts of polls were measured on virtual
//! machines of two cores (X and E of docs/bounds.md), on veth; none was on a network card.

use std::time::Duration;

// Waiting (waiting.rs).

/// After so long without anything the thread blocks. Until then it costs others little, as those who share
/// the core get it with each yield; a wake-up costs much.
pub(crate) const BLOCK_AFTER: Duration = Duration::from_millis(3);
/// Beside a competing task, where something is outstanding, the thread blocks after so long without anything.
pub(crate) const CONTENDED_BLOCK_AFTER: Duration = Duration::from_micros(20);
/// A yield that takes longer has given the core to somebody who does not give it back before a time slice is over.
pub(crate) const LONG_YIELD: Duration = Duration::from_micros(500);
/// For how many waits that counts at most.
pub(crate) const CONTENDED_WAITS_MAX: u32 = 256;
/// Looks at the clock between yields where no ranks share the core.
pub(crate) const POLLS_PER_YIELD: u32 = 8;
/// A longer pause between polls, on average over those between two looks at the clock, means that
/// the caller does other things, which a block would hold up. Open MPI takes up to 6 us from poll to
/// poll on a machine that is shared.
pub(crate) const PAUSE: Duration = Duration::from_micros(10);
/// A pause between two polls right after a block that means other work: caches are cold, and what a caller puts off
/// while it polls comes first.
pub(crate) const PAUSE_AFTER_BLOCK: Duration = Duration::from_micros(50);
/// Polls in a row without such a pause after which one is taken for an interruption: a timer tick of
/// a virtual machine, the processor lent to others for a moment. Who does other things between polls
/// polls a few times at once at most.
pub(crate) const STEADY: u32 = 16;
/// Shortest and longest block, and the part of the silence so far that it may last: a caller that
/// polls has other things to look after, which are held up by no more than that part of the time that
/// has passed anyway.
pub(crate) const BLOCK_MIN: Duration = Duration::from_millis(1);
pub(crate) const BLOCK_MAX: Duration = Duration::from_millis(10);
pub(crate) const BLOCK_DIVISOR: u32 = 8;
/// For how long a caller that has shown that it tests is not blocked.
pub(crate) const TESTS_FOR: Duration = Duration::from_secs(1);
/// After a block that nothing ended the thread stays awake for such a part of it.
pub(crate) const AWAKE_DIVISOR: u32 = 128;

// How often a poll looks at each link (looks.rs).

/// Empty polls between two looks at the clock.
pub(crate) const POLLS_PER_CLOCK: u32 = 8;
/// After something came over the near lane, the other links are looked at less often
/// for so many polls.
pub(crate) const NEAR_POLLS: u32 = 64;
/// A look is due when polls add up to this: a look may be a system call, and
/// costs up to as much as a message.
pub(crate) const LOOK_DUE: u32 = 64;
/// What a poll that found nothing counts; one that found something counts 1.
pub(crate) const EMPTY_POLL: u32 = 4;
/// Looks between two at the timers.
pub(crate) const LOOKS_PER_TIMERS: u32 = 8;
/// So often a caller that waits looks at the lane before it is told that there
/// is nothing: the way through libfabric and MPI and back takes ten times as
/// long as a look.
pub(crate) const POLLS_IN_A_ROW: u32 = 16;

// One call of progress, sleeps and ends (endpoint.rs).

/// Trains that go before arrivals are looked for again.
pub(crate) const TRAINS_PER_PROGRESS: usize = 8;
/// So often does one call of progress look for arrivals at most, while there is more to send.
pub(crate) const ROUNDS_PER_PROGRESS: usize = 8;
/// Longest sleep at all: links find the death of a peer only when they are asked.
pub(crate) const SLEEP_MAX: Duration = Duration::from_millis(100);
/// How much later than asked for a sleep ends: the slack of timers (50 us, prctl(2)) and getting up.
pub(crate) const GETTING_UP: Duration = Duration::from_micros(60);
/// How soon a train is offered again that its link had no room for. Who takes something off the near
/// lane does not ring either.
pub(crate) const STALL_RETRY: Duration = Duration::from_micros(50);
/// How long closing waits for what was sent to be acknowledged.
pub(crate) const DRAIN_LIMIT: Duration = Duration::from_secs(5);
/// How long closing waits for its good-bye to be acknowledged.
pub(crate) const CLOSE_LIMIT: Duration = Duration::from_millis(200);

// Trains that their link has no room for (stalled.rs).

/// Peers with a train that waits for room, before sending stops altogether: bounds the copies.
pub(crate) const STALLED_MAX: usize = 64;
/// So long is a datagram offered that not every path carries, in time of the clock. A queue of packets
/// drains in some milliseconds at 100 Mbit/s; what is refused for longer, the next port refuses for its
/// length: a veth's end says ENOBUFS (Linux from 6.6 on) for what its other end would not take.
pub(crate) const REFUSED_FOR_MAX: Duration = Duration::from_millis(50);

// Whether a machine is there (machines.rs).

/// A machine is asked so often within the limit.
pub(crate) const ASKED_PER_LIMIT: u32 = 8;
/// But not more often than that, in a job of many ranks.
pub(crate) const ASK_EVERY_MIN: Duration = Duration::from_millis(100);
/// Nor, if the limit is long, less often: a machine that has been back for a moment is to be found.
pub(crate) const ASK_EVERY_MAX: Duration = Duration::from_secs(1);
/// So many questions in a row without an answer are no chance, whatever the limit.
pub(crate) const ASKED_MIN: u32 = 4;
/// So many are asked of a machine to find out whether it answers at all, while its peers are heard.
pub(crate) const TRIED_MAX: u32 = 4;
/// Who was away for so much longer than from one look to the next has missed answers, and begins anew.
pub(crate) const AWAY: Duration = Duration::from_secs(1);
/// A peer that was never heard, on a machine that answers, but not to datagrams, is out of reach after so long. Its
/// kernel may answer one datagram a second only, of all that ranks of this machine send (`icmp_ratelimit`).
pub(crate) const UNHEARD_LIMIT: Duration = Duration::from_secs(30);

// Payload that is lent to links (trains.rs).

/// Length of a large page, which the kernel refers to as one: all rooms share it.
pub(crate) const ROOMS_LEN: usize = 2 << 20;
/// Of them each holds one train. Links with longer frames have fewer in a train ([`datagrams_max`]).
pub(crate) const ROOM_LEN: usize = 64 << 10;
/// From this length on, in bytes, a train is lent: a link's references to pages then cost less than a copy
/// where sender and receiver have no cache in common (docs/adr/0059-no-trials-while-programs-run.md).
pub(crate) const LENT_LEN_MIN: usize = 32 << 10;

// The queue of unexpected messages (matching.rs).

/// Places that the queue of unexpected messages keeps when it is empty.
pub(crate) const KEPT_PLACES: usize = 256;
/// A full queue gets an eighth of its places more: to double it would cost each message up to two.
pub(crate) const GROWTH_DIVISOR: usize = 8;
/// And at least so many, 512 KiB of addresses, which have no memory before a message comes to lie
/// there. In smaller steps the queue would move, again and again, and leave holes among the payloads
/// into which none of them fits: allocators map for itself only what is long, and how long that must
/// be grows with what a program frees (mallopt(3), M_MMAP_THRESHOLD).
pub(crate) const PLACES_MORE: usize = 8192;

// Lists and their chains (lists.rs).

/// So many are looked at one after the other.
pub(crate) const FEW: usize = 32;
/// A power of two.
pub(crate) const CHAIN_COUNT: usize = 4096;

// What is pulled ahead (ahead.rs).

/// Entries of messages that have been received otherwise are kept up to this, or as many as there are
/// others.
pub(crate) const STALE_MAX: usize = 64;
