//! The lane against a model, against nonsense, after deaths, and between threads.

use std::collections::VecDeque;
use std::os::fd::AsFd;

use proptest::collection::vec;
use proptest::prelude::*;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use super::*;
use crate::layout::{SEGMENT_LEN, slot};

/// One piece of memory, mapped twice, as two processes have it.
fn mappings() -> (Mapping, Mapping) {
    let file = memfd_create("lane", MemfdFlags::CLOEXEC).expect("memory");
    ftruncate(&file, SEGMENT_LEN as u64).expect("memory");
    (Mapping::new(file.as_fd()).expect("memory"), Mapping::new(file.as_fd()).expect("memory"))
}

fn pattern(seed: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (seed.wrapping_mul(131) + i * 7) as u8).collect()
}

fn push(producer: &mut Producer, map: &Mapping, seed: usize, len: usize) -> bool {
    let bytes = pattern(seed, len);
    let (a, b) = bytes.split_at(len / 3);
    producer.push(map, &[seed as u64, 1, 2], &[a, b]).expect("sane")
}

fn pop(consumer: &mut Consumer, map: &Mapping) -> Result<Option<(Head, Vec<u8>)>, Nonsense> {
    let Some((cell, end)) = consumer.peek(map)? else { return Ok(None) };
    let bytes = match consumer.outside(map, &cell) {
        Some(outside) => {
            let mut bytes = vec![0; outside.len()];
            map.read(outside.offset, &mut bytes);
            bytes
        }
        None => cell.inside().bytes().to_vec(),
    };
    let head = cell.head();
    consumer.take(map, end);
    Ok(Some((head, bytes)))
}

fn expected(seed: usize, len: usize) -> Result<Option<(Head, Vec<u8>)>, Nonsense> {
    Ok(Some(([seed as u64, 1, 2], pattern(seed, len))))
}

/// Around every border: what fits a cell, what fits a line, the longest.
const LENS: [usize; 9] = [0, 1, INLINE_LEN, INLINE_LEN + 1, 64, 65, 4096, 4097, PAYLOAD_LEN_MAX];

#[test]
fn a_full_lane_says_so_and_recovers() {
    let (map, _) = mappings();
    let mut producer = Producer::resume(&map, slot(3)).expect("fresh");
    let mut consumer = Consumer::new(slot(3));
    for len in LENS.into_iter().cycle().take(40) {
        let mut records = 0;
        while push(&mut producer, &map, records, len) {
            records += 1;
        }
        assert!(records <= CELLS && records * len <= BYTES_LEN && records > 0);
        for seed in 0..records {
            assert_eq!(pop(&mut consumer, &map), expected(seed, len));
        }
        assert_eq!(pop(&mut consumer, &map), Ok(None));
    }
    assert_eq!(producer.push(&map, &[0; 3], &[&[0; PAYLOAD_LEN_MAX + 1]]), Ok(false));
}

#[test]
fn the_next_sender_goes_on_where_the_last_one_died() {
    let (map, _) = mappings();
    let mut consumer = Consumer::new(slot(0));
    let mut waiting = VecDeque::new();
    for sender in 0..3000 {
        let mut producer = Producer::resume(&map, slot(0)).expect("sane");
        for (i, len) in LENS.iter().enumerate().skip(sender % LENS.len()).take(2) {
            if push(&mut producer, &map, sender + i, *len) {
                waiting.push_back((sender + i, *len));
            }
        }
        // It died while it wrote another: whatever is there was not published.
        let at = cell_offset(slot(0), producer.cell);
        if producer.cell - consumer.cell < CELLS as u64 {
            map.write(at + 8, &[0xee; 8 * BODY_WORDS]);
        }
        for _ in 0..sender % 4 {
            let Some((seed, len)) = waiting.pop_front() else { break };
            assert_eq!(pop(&mut consumer, &map), expected(seed, len));
        }
    }
    for (seed, len) in waiting {
        assert_eq!(pop(&mut consumer, &map), expected(seed, len));
    }
    assert_eq!(pop(&mut consumer, &map), Ok(None));
}

/// Found by loom: a receiver tells of the bytes first, and a sender may come in between. Its first
/// payload then went where the receiver had been already, which made the slot nonsense.
#[test]
fn the_next_sender_comes_while_a_record_is_taken_out() {
    let (map, _) = mappings();
    let mut first = Producer::resume(&map, slot(0)).expect("fresh");
    let mut consumer = Consumer::new(slot(0));
    assert!(push(&mut first, &map, 1, 100));
    assert_eq!(pop(&mut consumer, &map), expected(1, 100));
    map.word(slot(0) + AT_CELLS_TAKEN).store(0, Ordering::Release);
    let mut second = Producer::resume(&map, slot(0)).expect("sane");
    map.word(slot(0) + AT_CELLS_TAKEN).store(1, Ordering::Release);
    assert!(push(&mut second, &map, 2, 100));
    assert_eq!(pop(&mut consumer, &map), expected(2, 100));
}

#[test]
fn two_threads_see_every_byte_in_order() {
    const RECORDS: usize = 200_000;
    let (map, senders_map) = mappings();
    let len_of = |i: usize| {
        if i.is_multiple_of(97) { PAYLOAD_LEN_MAX - i % 50 } else { (i * 7919) % 200 }
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut producer = Producer::resume(&senders_map, slot(0)).expect("fresh");
            for i in 0..RECORDS {
                while !push(&mut producer, &senders_map, i, len_of(i)) {
                    std::thread::yield_now();
                }
            }
        });
        let mut consumer = Consumer::new(slot(0));
        for i in 0..RECORDS {
            let got = loop {
                match pop(&mut consumer, &map) {
                    Ok(None) => std::thread::yield_now(),
                    got => break got,
                }
            };
            assert!(got == expected(i, len_of(i)), "record {i}");
        }
    });
}

#[test]
fn introductions_keep_their_place() {
    let (map, _) = mappings();
    let mut producer = Producer::resume(&map, slot(0)).expect("fresh");
    let mut consumer = Consumer::new(slot(0));
    assert!(push(&mut producer, &map, 1, 5000));
    assert_eq!(producer.push_hello(&map, &[7; BODY_WORDS]), Ok(true));
    assert!(push(&mut producer, &map, 2, 8));
    assert_eq!(pop(&mut consumer, &map), expected(1, 5000));
    let (cell, end) = consumer.peek(&map).expect("sane").expect("there");
    assert_eq!(cell.hello(), Some(&[7; BODY_WORDS]));
    consumer.take(&map, end);
    assert_eq!(pop(&mut consumer, &map), expected(2, 8));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn behaves_like_a_queue(steps in vec((0usize..=PAYLOAD_LEN_MAX, 0usize..40, 0usize..40), 1..120)) {
        let (map, _) = mappings();
        let mut producer = Producer::resume(&map, slot(1)).expect("fresh");
        let mut consumer = Consumer::new(slot(1));
        let mut model = VecDeque::new();
        for (i, (len, pushes, pops)) in steps.into_iter().enumerate() {
            for n in 0..pushes {
                let len = if n == 0 { len } else { len % 100 };
                if push(&mut producer, &map, i + n, len) {
                    model.push_back((i + n, len));
                } else {
                    prop_assert!(!model.is_empty(), "an empty lane takes any record");
                }
            }
            for _ in 0..pops {
                let want = model.pop_front().map_or(Ok(None), |(seed, len)| expected(seed, len));
                prop_assert_eq!(pop(&mut consumer, &map), want);
            }
        }
    }

    #[test]
    fn nonsense_is_found_without_a_panic(
        cells in vec((0u64..8, prop_oneof![any::<u32>(), 0u32..70_000, Just(HELLO)],
                      prop_oneof![any::<u64>(), (0u64..10_000).prop_map(|n| n * 64)]), 0..8),
        taken in prop_oneof![any::<u64>(), 0u64..1000, (0u64..1000).prop_map(|n| n * 64)],
    ) {
        let (map, _) = mappings();
        for (number, len, byte) in &cells {
            let at = cell_offset(slot(2), *number);
            map.write(at + 8 + 8 * HEAD_WORDS, &byte.to_ne_bytes());
            map.word(at).store(word(*number, *len), Ordering::Release);
        }
        let mut consumer = Consumer::new(slot(2));
        let mut records = 0;
        while let Ok(Some((_, bytes))) = pop(&mut consumer, &map) {
            prop_assert!(bytes.len() <= PAYLOAD_LEN_MAX);
            records += 1;
        }
        prop_assert!(records <= cells.len());
        // A lying receiver: found, or harmless.
        let mut producer = Producer::resume(&map, slot(3)).expect("fresh");
        map.word(slot(3) + AT_CELLS_TAKEN).store(taken, Ordering::Release);
        map.word(slot(3) + AT_BYTES_TAKEN).store(taken, Ordering::Release);
        let _ = Producer::resume(&map, slot(3));
        for _ in 0..2 * CELLS {
            if producer.push(&map, &[0; 3], &[&[0; 1000]]).is_err() {
                break;
            }
        }
    }
}
