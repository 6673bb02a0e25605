//! Reads what `wiglaf capture` has written: enhanced packet blocks of a little-endian pcapng file
//! (draft-ietf-opsawg-pcapng, section 4.3).

use crate::Recorded;

const ENHANCED_PACKET: u32 = 6;
const FRAME_AT: usize = 28;

/// All frames of a recording that carry datagrams of Wiglaf. What is cut short ends it.
#[must_use]
pub fn read(file: &[u8]) -> Vec<Recorded> {
    let mut found = Vec::new();
    let mut rest = file;
    while let (Some(kind), Some(len)) = (word(rest, 0), word(rest, 4)) {
        let Some((block, behind)) = rest.split_at_checked(len as usize).filter(|_| len >= 12)
        else {
            break;
        };
        if kind == ENHANCED_PACKET
            && let Some(frame_len) = word(block, 20)
            && let Some(frame) = block.get(FRAME_AT..FRAME_AT + frame_len as usize)
        {
            found.extend(Recorded::new(frame.to_vec()));
        }
        rest = behind;
    }
    found
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
