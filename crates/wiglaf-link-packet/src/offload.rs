//! What stands before each frame of the packet socket and tells of trains: the network interface,
//! or the kernel before it, cuts what is sent as one, and what has not been cut on its way, as
//! between virtual interfaces, is received as one. The layout is that of virtual machines
//! (Virtual I/O Device 1.3, section 5.1.6, `struct virtio_net_hdr`), in the machine's byte order.

use wiglaf_link::frame::{HEADERS_LEN, UDP_AT};

/// Its length.
pub(crate) const OFFLOAD_LEN: usize = 10;

/// Before a frame that is a datagram.
pub(crate) const NONE: [u8; OFFLOAD_LEN] = [0; OFFLOAD_LEN];

// The fields that are used here.
const FLAGS: usize = 0;
const KIND: usize = 1;
const HEADERS: usize = 2;
const SEGMENT: usize = 4;
const CHECKSUM_FROM: usize = 6;
const CHECKSUM_OFFSET: usize = 8;

const NEEDS_CHECKSUM: u8 = 1;
const KIND_NONE: u8 = 0;
const KIND_UDP_TRAIN: u8 = 5;
/// Where the checksum is in a UDP header.
const UDP_CHECKSUM: u16 = 6;

/// Before a train whose datagrams carry `segment_len` bytes each.
pub(crate) fn train(segment_len: u16) -> [u8; OFFLOAD_LEN] {
    let mut bytes = NONE;
    bytes[FLAGS] = NEEDS_CHECKSUM;
    bytes[KIND] = KIND_UDP_TRAIN;
    for (at, value) in [
        (HEADERS, HEADERS_LEN as u16),
        (SEGMENT, segment_len),
        (CHECKSUM_FROM, UDP_AT as u16),
        (CHECKSUM_OFFSET, UDP_CHECKSUM),
    ] {
        bytes[at..at + 2].copy_from_slice(&value.to_ne_bytes());
    }
    bytes
}

/// How long each datagram of the frame behind it is, except the last; `whole` where it is one.
/// `None` when it is neither.
pub(crate) fn segment_len(bytes: &[u8; OFFLOAD_LEN], whole: usize) -> Option<usize> {
    match bytes[KIND] {
        KIND_NONE => Some(whole),
        KIND_UDP_TRAIN => {
            let len = u16::from_ne_bytes([bytes[SEGMENT], bytes[SEGMENT + 1]]);
            (len > 0).then_some(len.into())
        }
        _ => None,
    }
}

/// Whether trains are worth a try: where the interface does not cut them, the kernel refuses
/// them one by one, and does not say that this is why. A queue that is full is soon another.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    /// Trains that are not tried before the next one is.
    pause: u32,
    /// How many there were when one was refused last; 0 since one was taken.
    last_pause: u32,
}

/// How many trains go another way after one was refused, and after many were.
const PAUSE_MIN: u32 = 8;
const PAUSE_MAX: u32 = 1024;

impl Trial {
    /// Whether the next train is not to be tried.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause > 0
    }

    /// A train went another way.
    pub(crate) fn passed(&mut self) {
        self.pause = self.pause.saturating_sub(1);
    }

    /// A train was taken, or refused.
    pub(crate) fn found(&mut self, taken: bool) {
        if taken {
            self.last_pause = 0;
        } else {
            self.pause = (2 * self.last_pause).clamp(PAUSE_MIN, PAUSE_MAX);
            self.last_pause = self.pause;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_of_a_train_is_read() {
        assert_eq!(segment_len(&train(1472), 9), Some(1472));
        assert_eq!(segment_len(&NONE, 9), Some(9));
        assert_eq!(segment_len(&train(0), 9), None);
        let mut tcp = train(1448);
        tcp[KIND] = 1;
        assert_eq!(segment_len(&tcp, 9), None);
    }

    #[test]
    fn trains_that_are_refused_are_tried_less_and_less() {
        let mut trial = Trial::default();
        let mut tries = |taken: bool, trains: u32| {
            let mut tries = 0;
            for _ in 0..trains {
                if trial.is_paused() {
                    trial.passed();
                } else {
                    tries += 1;
                    trial.found(taken);
                }
            }
            tries
        };
        assert_eq!(tries(true, 100), 100);
        assert_eq!(tries(false, 1 + 8 + 1 + 16), 2);
        let seldom = 10 * (PAUSE_MAX + 1);
        assert!((10..20).contains(&tries(false, seldom)));
        // What was a full queue costs little.
        assert!(tries(true, PAUSE_MAX + 100) >= 100);
        assert_eq!(tries(false, 1), 1);
        assert_eq!(tries(true, PAUSE_MIN + 10), 10);
    }
}
