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
/// them one by one.
#[derive(Debug, Default)]
pub(crate) struct Trial {
    pause: u32,
}

/// How many trains go as single frames after one was refused.
const PAUSE: u32 = 1024;

impl Trial {
    /// To be asked once for each train.
    pub(crate) fn is_due(&mut self) -> bool {
        let due = self.pause == 0;
        self.pause = self.pause.saturating_sub(1);
        due
    }

    /// The train was refused.
    pub(crate) fn refused(&mut self) {
        self.pause = PAUSE;
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
    fn a_refused_train_is_tried_again_much_later() {
        let mut trial = Trial::default();
        assert!(trial.is_due() && trial.is_due());
        trial.refused();
        assert_eq!((0..3000).filter(|_| trial.is_due()).count(), 3000 - PAUSE as usize);
    }
}
