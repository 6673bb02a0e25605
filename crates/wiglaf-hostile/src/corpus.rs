//! What fuzzers have found, on the ways of recorded frames.

use wiglaf_wire::HEADER_LEN;

use crate::forge::{models, with_checksum};
use crate::packet::{ETHERNET_LEN, HEADERS_LEN, IP_LEN, Recorded, mend_ip_sum};

/// What [`with_checksum`] adds.
const PATCH_LEN: usize = 4;

/// The frames of one file: for each class of recorded frames the bytes as a frame, as one to the
/// same port, as a datagram, and as a body behind the recorded header, with its proof and checksum.
/// What is longer than the MTU is cut.
#[must_use]
pub fn of_corpus(file: &[u8], recorded: &[Recorded], mtu: usize) -> Vec<Vec<u8>> {
    let cut = |room: usize| &file[..file.len().min(room)];
    let payload_max = mtu.saturating_sub(HEADERS_LEN - ETHERNET_LEN);
    let mut made = vec![cut(mtu + ETHERNET_LEN).to_vec()];
    for model in models(recorded, 1) {
        made.push(aimed(cut(mtu + ETHERNET_LEN), model));
        made.push(model.with(cut(payload_max)));
        let datagram = model.datagram();
        let body = cut(payload_max.saturating_sub(HEADER_LEN + PATCH_LEN)).to_vec();
        let forged = [&datagram[..HEADER_LEN], &with_checksum(body, model.checksum())].concat();
        made.push(model.with(&forged));
    }
    made
}

/// The bytes as a frame to where the model went, as far as they reach.
fn aimed(bytes: &[u8], model: &Recorded) -> Vec<u8> {
    const TO: [std::ops::Range<usize>; 3] = [0..6, 30..34, 36..38];
    let mut frame = bytes.to_vec();
    for field in TO {
        if let Some(place) = frame.get_mut(field.clone()) {
            place.copy_from_slice(&model.0[field]);
        }
    }
    if frame.len() >= ETHERNET_LEN + IP_LEN {
        mend_ip_sum(&mut frame);
    }
    frame
}

#[cfg(test)]
mod tests {
    use wiglaf_wire::{JobKey, open};

    use super::*;
    use crate::forge::tests::{KEY, recorded};

    #[test]
    fn a_file_goes_every_way_and_none_is_too_long() {
        let file = [0xa5; 4000];
        let made = of_corpus(&file, &[recorded()], 1500);
        assert_eq!(made.len(), 4);
        assert!(made.iter().all(|frame| frame.len() == 1500 + ETHERNET_LEN));
        assert_eq!(made[0], file[..made[0].len()]);
        assert_eq!(made[1][36..38], recorded().0[36..38]);
        assert_eq!(made[2][HEADERS_LEN..], file[..1500 - 28]);
        let (_, body) = open(&KEY, &made[3][HEADERS_LEN..]).unwrap();
        assert!(body.starts_with(&file[..1000]));
        let other: JobKey = JobKey([4; 16]);
        assert!(open(&other, &made[3][HEADERS_LEN..]).is_err());
    }

    #[test]
    fn short_files_are_sent_as_they_are() {
        for len in 0..100 {
            let made = of_corpus(&vec![7; len], &[recorded()], 1500);
            assert_eq!((made[0].len(), made[1].len()), (len, len));
        }
    }
}
