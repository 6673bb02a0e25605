//! The ring against a model, against nonsense, and between two threads.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;
use crate::layout::{SEGMENT_LEN, TRAIN_MAX, slot};
use crate::mapping::tests::Shared;

const FROM: Writer = Writer { port: 4000, epoch: 0x1234_5678_9abc_def0 };

fn mapping() -> Mapping {
    mappings().0
}

/// One piece of memory, mapped twice, as two processes have it.
fn mappings() -> (Mapping, Mapping) {
    let file = memfd_create("ring", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&file, SEGMENT_LEN as u64).expect("memory");
    (Mapping::new(file.as_fd()).expect("memory"), Mapping::new(file.as_fd()).expect("memory"))
}

fn buffer() -> Box<[u8; FRAME_LEN_MAX]> {
    Box::new([0; FRAME_LEN_MAX])
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed.wrapping_mul(131) + i * 7) as u8).collect()
}

#[test]
fn a_full_ring_says_so_and_recovers() {
    let map = mapping();
    let mut producer = Producer::resume(&map, slot(3)).expect("fresh");
    let mut consumer = Consumer::new(slot(3));
    let train = pattern(1, FRAME_LEN_MAX * TRAIN_MAX);
    for _ in 0..5 {
        let mut trains = 0;
        while producer.push(&map, FROM, FRAME_LEN_MAX, &train).expect("sane") {
            trains += 1;
        }
        assert!(trains >= 1, "a train fits an empty ring");
        let mut buffer = buffer();
        for i in 0..trains * TRAIN_MAX {
            let (from, len) = consumer.pop(&map, &mut buffer).expect("sane").expect("a frame");
            assert_eq!((from, len), (FROM, FRAME_LEN_MAX));
            let begin = (i % TRAIN_MAX) * FRAME_LEN_MAX;
            assert!(buffer[..len] == train[begin..begin + len], "frame {i}");
        }
        assert_eq!(consumer.pop(&map, &mut buffer), Ok(None));
    }
}

#[test]
fn the_next_sender_goes_on_where_the_last_one_stopped() {
    let map = mapping();
    let mut consumer = Consumer::new(slot(0));
    let mut buffer = buffer();
    for sender in 0..50 {
        let mut producer = Producer::resume(&map, slot(0)).expect("sane");
        let frame = pattern(sender, 9000);
        assert_eq!(producer.push(&map, FROM, 9000, &frame), Ok(true));
        if sender % 2 == 1 {
            for expected in [sender - 1, sender] {
                let (_, len) = consumer.pop(&map, &mut buffer).expect("sane").expect("a frame");
                assert_eq!(buffer[..len], pattern(expected, 9000));
            }
        }
    }
}

#[test]
fn two_threads_see_every_byte_in_order() {
    let (map, senders_map) = mappings();
    hand_over(&map, &senders_map, 200_000);
}

/// ThreadSanitizer knows memory by its address: only over one mapping does it see both ends.
#[test]
fn two_threads_on_one_mapping_do_not_race() {
    let map = mapping();
    hand_over(&map, &map, 20_000);
}

fn hand_over(map: &Mapping, senders_map: &Mapping, frames: usize) {
    let (map, senders_map) = (Shared(map), Shared(senders_map));
    let len_of = |i: usize| (i * 7919) % 700 + usize::from(i.is_multiple_of(97)) * 15_000;
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let map = senders_map.get();
            let mut producer = Producer::resume(map, slot(0)).expect("fresh");
            for i in 0..frames {
                let frame = pattern(i, len_of(i));
                while !producer.push(map, FROM, FRAME_LEN_MAX, &frame).expect("sane") {
                    std::thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::new(slot(0));
        let mut buffer = buffer();
        for i in 0..frames {
            let len = loop {
                match consumer.pop(map.get(), &mut buffer).expect("sane") {
                    Some((_, len)) => break len,
                    None => std::thread::yield_now(),
                }
            };
            assert!(buffer[..len] == pattern(i, len_of(i)), "frame {i}");
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_like_a_queue(steps in vec((0usize..40_000, 1usize..FRAME_LEN_MAX, 0usize..12), 1..120)) {
        let map = mapping();
        let mut producer = Producer::resume(&map, slot(1)).expect("fresh");
        let mut consumer = Consumer::new(slot(1));
        let mut buffer = buffer();
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        for (i, (len, segment_len, pops)) in steps.into_iter().enumerate() {
            let len = len.min(segment_len * TRAIN_MAX);
            let bytes = pattern(i, len);
            if producer.push(&map, FROM, segment_len, &bytes).expect("sane") {
                if bytes.is_empty() {
                    model.push_back(Vec::new());
                }
                model.extend(bytes.chunks(segment_len).map(<[u8]>::to_vec));
            } else {
                prop_assert!(!model.is_empty(), "an empty ring takes any train");
            }
            for _ in 0..pops {
                let got = consumer.pop(&map, &mut buffer).expect("sane");
                let got = got.map(|(_, len)| buffer[..len].to_vec());
                prop_assert_eq!(&got, &model.pop_front());
            }
        }
    }

    #[test]
    fn nonsense_is_found_without_a_panic(
        tail in prop_oneof![any::<u64>(), 0..=RING_LEN as u64, (0..=RING_LEN as u64 / 16).prop_map(|n| n * 16)],
        words in vec((0usize..RING_LEN / 4, prop_oneof![any::<u32>(), Just(SKIP), 0u32..20_000]), 0..64),
        at_start in vec(prop_oneof![any::<u32>(), Just(SKIP), 0u32..600], 64),
    ) {
        let map = mapping();
        for (at, word) in words {
            map.write(slot(2) + AT_RING + at * 4, &word.to_ne_bytes());
        }
        for (i, word) in at_start.iter().enumerate() {
            map.write(slot(2) + AT_RING + i * 16, &word.to_ne_bytes());
        }
        map.word(slot(2) + AT_TAIL).store(tail, Ordering::Release);
        let mut consumer = Consumer::new(slot(2));
        let mut buffer = buffer();
        let mut frames = 0;
        while let Ok(Some((_, len))) = consumer.pop(&map, &mut buffer) {
            prop_assert!(len <= FRAME_LEN_MAX);
            frames += 1;
            prop_assert!(frames <= RING_LEN / RECORD_HEAD_LEN, "it ends");
        }
    }

    #[test]
    fn a_lying_receiver_is_found(head in any::<u64>()) {
        let map = mapping();
        let mut producer = Producer::resume(&map, slot(0)).expect("fresh");
        map.word(slot(0) + AT_HEAD).store(head, Ordering::Release);
        let frame = pattern(0, FRAME_LEN_MAX);
        let outcomes: Vec<_> =
            (0..40).map(|_| producer.push(&map, FROM, FRAME_LEN_MAX, &frame)).collect();
        // Room is only looked for once it is needed.
        prop_assert_eq!(&outcomes[0], &Ok(true));
        prop_assert!(outcomes.iter().any(|outcome| *outcome != Ok(true)));
        if head != 0 {
            prop_assert!(Producer::resume(&map, slot(0)).is_ok() == used(head, producer.tail).is_some());
        }
    }
}
