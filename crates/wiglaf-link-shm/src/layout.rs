//! Where everything lies in a segment.
//!
//! A head page, then one slot per sender: a control page, a byte ring for
//! datagrams, and the near lane: a ring of cells and a byte ring for what does
//! not fit a cell. Words that different processes write all the time lie on
//! cache lines of their own.
//!
//! The head page has memory as long as there is a segment, a slot from when it
//! was claimed: until then nothing in it is touched, for without room in
//! shared memory that would be a signal.
//!
//! For loom all is small: it follows every order in which a ring can be filled and emptied.

/// Tells a finished segment of this layout from anything else. The last two
/// digits are the layout's version.
pub(crate) const MAGIC: u64 = 0x5769_676c_6166_0004;

const PAGE_LEN: usize = if cfg!(loom) { 512 } else { 4096 };

/// Senders that a receiver has room for.
pub(crate) const SLOTS: usize = if cfg!(loom) { 1 } else { 64 };

/// Bytes of one sender's ring.
pub(crate) const RING_LEN: usize = if cfg!(loom) { 64 } else { 256 << 10 };

/// Cells of one sender's near lane, each a cache line. Where ranks share a core, a sender that has filled
/// them goes on when it has the core again, which may take a millisecond each time.
pub(crate) const CELLS: usize = if cfg!(loom) { 2 } else { 4096 };
pub(crate) const CELL_LEN: usize = 64;

/// Bytes of one sender's near lane for payloads that no cell holds.
pub(crate) const BYTES_LEN: usize = if cfg!(loom) { 256 } else { 256 << 10 };

/// Longest payload of one record of the near lane.
pub(crate) const PAYLOAD_LEN_MAX: usize = if cfg!(loom) { 64 } else { 32 << 10 };

/// Bytes of one slot.
pub(crate) const SLOT_LEN: usize = PAGE_LEN + RING_LEN + CELLS * CELL_LEN + BYTES_LEN;

/// Bytes of the head page.
pub(crate) const HEAD_LEN: usize = PAGE_LEN;

/// Bytes of a segment. It is sparse: slots cost nothing until claimed.
pub(crate) const SEGMENT_LEN: usize = HEAD_LEN + SLOTS * SLOT_LEN;

/// Longest payload of one frame.
pub(crate) const FRAME_LEN_MAX: usize = if cfg!(loom) { 16 } else { (16 << 10) - RECORD_HEAD_LEN };

/// Most frames of one train.
pub(crate) const TRAIN_MAX: usize = if cfg!(loom) { 1 } else { 8 };

/// Bytes in front of each frame in a ring, and the alignment of records.
pub(crate) const RECORD_HEAD_LEN: usize = 16;

/// [`MAGIC`], written last by the owner.
pub(crate) const AT_MAGIC: usize = 0;
/// One bit per slot that was ever claimed: those the receiver looks at.
pub(crate) const AT_CLAIMED: usize = 64;
/// Not 0 when the receiver is about to block and wants a signal.
pub(crate) const AT_ARMED: usize = 128;

/// Not 0 when the receiver polls near lanes.
pub(crate) const AT_TAKES_NEAR: usize = 192;

/// Which sender (its epoch; 0: none) holds each slot.
const AT_OWNERS: usize = 256;

/// Offsets within a slot: how far the sender has written, and how far the
/// receiver has read.
pub(crate) const AT_TAIL: usize = 0;
pub(crate) const AT_HEAD: usize = 128;
/// For the near lane, all written by the receiver: how many cells and bytes it
/// has taken out, and how much which sender may send.
pub(crate) const AT_CELLS_TAKEN: usize = 384;
pub(crate) const AT_BYTES_TAKEN: usize = 392;
pub(crate) const AT_LIMIT: usize = 400;
pub(crate) const AT_LIMIT_OF: usize = 408;
/// The rings within a slot.
pub(crate) const AT_RING: usize = PAGE_LEN;
pub(crate) const AT_CELLS: usize = AT_RING + RING_LEN;
pub(crate) const AT_BYTES: usize = AT_CELLS + CELLS * CELL_LEN;

/// Where slot `index` begins.
pub(crate) const fn slot(index: usize) -> usize {
    HEAD_LEN + index * SLOT_LEN
}

/// Where it stands who holds slot `index`.
pub(crate) const fn owner(index: usize) -> usize {
    AT_OWNERS + 8 * index
}

const _: () = assert!(owner(SLOTS) <= HEAD_LEN);
const _: () = assert!(RING_LEN.is_power_of_two() && (SLOTS == 64 || cfg!(loom)));
const _: () = assert!(CELLS.is_power_of_two() && BYTES_LEN.is_power_of_two());
// Payloads do not wrap: two of the longest fit wherever the ring stands.
const _: () = assert!(4 * PAYLOAD_LEN_MAX <= BYTES_LEN);
// The longest train fits an empty ring wherever that begins: a record that
// does not fit before the end wastes less than its own length.
const _: () = assert!((TRAIN_MAX + 1) * (FRAME_LEN_MAX + RECORD_HEAD_LEN) <= RING_LEN);
