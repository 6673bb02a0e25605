use super::*;
use crate::atomics::{Element, Function};
use crate::exposed::{Access, Exposed};
use crate::memory::Region;
use crate::remote::{ATOMIC_LEN_MAX, ATOMIC_PREFIX_LEN};
use wiglaf_transport::limits::CREDIT_INITIAL;

/// Its initiator would wait for ever: it has been granted nothing, and knows that no more will be.
#[test]
fn an_operation_that_cannot_be_pulled_is_answered() {
    const NO_ROOM: u64 = 5;
    let mut books = Books::default();
    for class in [Class::Write, Class::Fetch] {
        let envelope = Envelope { operation: 3, ..Envelope::new(class, 9, None) };
        let wanted = books.request(PeerId(1), &envelope, 20, 7).expect("operations are pulled");
        books.pulled(wanted.token, false);
        let (reply, content) = books.target.next_reply().expect("an answer is owed");
        let envelope = reply.envelope();
        assert_eq!((reply.peer(), envelope.operation, envelope.tag), (PeerId(1), 3, NO_ROOM));
        books.target.replied(reply, &content);
        assert!(books.next_refund().is_none(), "what was announced was not charged");
    }
    assert_eq!(books.target.stats().performed, 0);
}

/// The message of an atomic read of so many bytes: its answer is that long, and itself 8.
fn reads(len: usize) -> (Envelope, Vec<u8>) {
    let envelope = Envelope { address: 0, ..Envelope::new(Class::Fetch, 9, None) };
    let count = (len / 8) as u32;
    let mut payload = vec![Function::Read.code(), Element::U64.code(), 0, 0];
    payload.extend(count.to_le_bytes());
    assert_eq!(payload.len(), ATOMIC_PREFIX_LEN);
    (envelope, payload)
}

/// Books with memory to read from, of at least an answer's length.
fn exposing(memory: &mut [u8]) -> Books {
    let books = Books::default();
    let region = Region { ptr: memory.as_mut_ptr(), len: memory.len() };
    let access = Access { read: true, write: true };
    // SAFETY: the memory outlives the books.
    unsafe { Exposed::expose(books.exposed(), 9, 0, access, &[region]).unwrap() };
    books
}

const MEASURE: usize = CREDIT_INITIAL as usize + ATOMIC_LEN_MAX;

/// More operations than `MEASURE` holds answers; hardly more under Miri, where a hundred take minutes.
const COUNT: u32 = if cfg!(miri) { 24 } else { 100 };
const _: () = assert!(COUNT as usize * ATOMIC_LEN_MAX > MEASURE + ATOMIC_LEN_MAX);

#[test]
fn answers_that_nobody_takes_are_bounded_however_short_the_questions() {
    let mut memory = vec![7; ATOMIC_LEN_MAX];
    let mut books = exposing(&mut memory);
    let (envelope, payload) = reads(ATOMIC_LEN_MAX);
    let (greedy, modest) = (PeerId(1), PeerId(2));
    for _ in 0..COUNT {
        assert!(!books.message(greedy, &envelope, &payload), "its credit is not given back yet");
    }
    assert!(books.target.owed().bytes(greedy) <= MEASURE);
    let count = books.target.reply_count();
    assert!(count < COUNT as usize);
    books.message(modest, &envelope, &payload);
    assert_eq!(books.target.reply_count(), count + 1);
    // As answers leave, the others follow.
    let (mut answered, mut refunded) = (0, 0);
    while let Some((reply, content)) = books.target.next_reply() {
        assert_eq!((reply.envelope().tag, content.len()), (0, ATOMIC_LEN_MAX));
        let token = books.begin_send(Whose::Answer(reply), content);
        books.end_send(token, Outcome::Done);
        answered += usize::from(reply.peer() == greedy);
        refunded += std::iter::from_fn(|| books.next_refund()).map(|(_, len)| len).sum::<u64>();
        assert!(books.resume().is_none(), "none of them was announced");
        assert!(books.target.owed().bytes(greedy) <= MEASURE);
    }
    assert_eq!((answered, refunded), (COUNT as usize, 8 * (u64::from(COUNT) + 1)));
    assert!(books.target.is_idle());
}

#[test]
fn operations_that_were_announced_wait_with_their_initiator() {
    const LEN: usize = ATOMIC_PREFIX_LEN + ATOMIC_LEN_MAX;
    let mut memory = vec![0; ATOMIC_LEN_MAX];
    let mut books = exposing(&mut memory);
    let peer = PeerId(1);
    let envelope = Envelope::new(Class::Fetch, 9, None);
    let total = ATOMIC_LEN_MAX as u64;
    let mut fetching: VecDeque<Wanted> =
        (0..COUNT).filter_map(|id| books.request(peer, &envelope, total, id)).collect();
    let first = fetching.len();
    assert!(first < COUNT as usize && books.target.owed().bytes(peer) <= MEASURE, "{first}");
    assert!(books.request(PeerId(2), &envelope, total, COUNT).is_some(), "another peer's");
    let mut ended = 0;
    while let Some(wanted) = fetching.pop_front() {
        assert_eq!(wanted.len, total);
        books.pulled(wanted.token, true);
        // What came makes no sense: there is nothing but the answer.
        books.target.next_reply().expect("an answer is owed");
        ended += 1;
        while let Some((_, id, wanted)) = books.resume() {
            assert_eq!(id as usize, first + fetching.len() + ended - first, "in their order");
            fetching.push_back(wanted);
        }
        assert!(books.target.owed().bytes(peer) <= MEASURE + LEN);
    }
    assert_eq!(ended, COUNT as usize);
    // Whose peer has gone waits for nothing.
    for id in 0..COUNT {
        books.request(peer, &envelope, total, id);
    }
    books.gone(peer, Gone::Silent);
    assert!(books.resume().is_none());
    assert!(books.target.owed().may_begin(peer, true));
}

/// Initiators that keep an order send what is not announced one behind the other.
#[test]
fn what_comes_behind_an_operation_that_waits_is_not_carried_out_before_it() {
    const LONG: usize = 20_000;
    for in_parts in [false, true] {
        let mut memory = vec![0; ATOMIC_LEN_MAX];
        let mut books = exposing(&mut memory);
        let peer = PeerId(1);
        let (read, payload) = reads(ATOMIC_LEN_MAX);
        while books.target.owed().may_begin(peer, true) {
            books.message(peer, &read, &payload);
        }
        // Adds 1 to the first element, and is to find what was there before the write.
        let add = Envelope { operation: 77, ..read };
        let mut operand = vec![Function::Sum.code(), Element::U64.code(), 0, 0];
        operand.extend(1u32.to_le_bytes());
        operand.extend(1u64.to_le_bytes());
        books.message(peer, &add, &operand);
        let write = Envelope { class: Class::Write, operation: 78, ..read };
        let bytes = vec![9; LONG];
        if in_parts {
            books.first(peer, &write, LONG as u64, &bytes[..1000]);
            assert!(!books.next(peer, &bytes[1000..], true));
        } else {
            assert!(!books.message(peer, &write, &bytes));
        }
        assert!(books.request(peer, &write, LONG as u64, 5).is_none(), "nor is what was announced");
        assert!(memory.iter().all(|byte| *byte == 0), "neither was done");
        let mut answers = Vec::new();
        let mut fetched = 0;
        while let Some((reply, content)) = books.target.next_reply() {
            let mut first = [0; 8];
            content.read(0, &mut first);
            answers.push((reply.envelope().operation, first));
            let token = books.begin_send(Whose::Answer(reply), content);
            books.end_send(token, Outcome::Done);
            while let Some((_, send_id, _)) = books.resume() {
                fetched += send_id;
            }
        }
        assert_eq!(fetched, 5);
        assert!(answers.contains(&(77, [0; 8])), "the addition came before the write");
        assert!(memory[..LONG].iter().all(|byte| *byte == 9), "and is gone");
    }
}
