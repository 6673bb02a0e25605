use super::*;

fn completion(outcome: Outcome) -> Completion {
    Completion {
        side: Side::Recv,
        class: Class::Tagged,
        context: 0x1000,
        len: 3,
        buf: ptr::null_mut(),
        data: Some(9),
        tag: 7,
        source: None,
        is_multi: false,
        multi_released: false,
        outcome,
    }
}

#[test]
fn every_format_is_a_prefix_of_the_tagged_one() {
    use std::mem::offset_of;
    assert_eq!(offset_of!(fi::fi_cq_tagged_entry, buf), size_of::<fi::fi_cq_msg_entry>());
    assert_eq!(offset_of!(fi::fi_cq_tagged_entry, tag), size_of::<fi::fi_cq_data_entry>());
    assert_eq!(offset_of!(fi::fi_cq_tagged_entry, flags), size_of::<fi::fi_cq_entry>());
}

#[test]
fn flags_tell_side_class_and_data() {
    let mut entry = completion(Outcome::Done);
    let recv = fi::FI_RECV | fi::FI_TAGGED | fi::FI_REMOTE_CQ_DATA;
    assert_eq!(entry_flags(&entry), recv);
    entry.side = Side::Send;
    entry.class = Class::Untagged;
    assert_eq!(entry_flags(&entry), fi::FI_SEND | fi::FI_MSG);
    entry.multi_released = true;
    assert_eq!(entry_flags(&entry) & fi::FI_MULTI_RECV, fi::FI_MULTI_RECV);
}

/// An entry and what lies behind it in newer versions.
#[repr(C)]
struct Newer {
    entry: fi::fi_cq_err_entry,
    source: fi::fi_addr_t,
}

fn written(outcome: Outcome, api_version: u32) -> Newer {
    let mut newer: Newer =
        // SAFETY: all fields are numbers or pointers.
        unsafe { std::mem::zeroed() };
    newer.entry.err_data_size = 77;
    newer.source = 55;
    let errno = outcome_errno(outcome).unwrap();
    let failure = Failure { completion: completion(outcome), errno, source: 4, loss: None };
    // SAFETY: `newer` is as large as any version's entry; the pointer covers all of it.
    unsafe { write_failure(&failure, (&raw mut newer).cast(), api_version) };
    newer
}

#[test]
fn an_error_entry_says_what_was_cut_off() {
    let newer = written(Outcome::Truncated(5), 1 << 16 | 17);
    assert_eq!(newer.entry.err, fi::FI_ETRUNC);
    assert_eq!((newer.entry.len, newer.entry.olen, newer.entry.tag), (3, 5, 7));
    assert_eq!(newer.entry.data, 9);
    assert_eq!(newer.entry.op_context.addr(), 0x1000);
}

#[test]
fn an_error_entry_ends_where_its_version_ends() {
    let old = written(Outcome::Canceled, 1 << 16 | 4);
    assert_eq!((old.entry.err, old.entry.err_data_size, old.source), (fi::FI_ECANCELED, 77, 55));
    let middle = written(Outcome::NoMessage, 1 << 16 | 19);
    assert_eq!(
        (middle.entry.err, middle.entry.err_data_size, middle.source),
        (fi::FI_ENOMSG, 0, 55)
    );
    let newest = written(Outcome::PeerGone, 1 << 16 | 20);
    assert_eq!((newest.entry.err, newest.source), (fi::FI_ECONNRESET, 4));
}

#[test]
fn error_texts_fit_their_buffer() {
    let mut buf = [1 as libc::c_char; 4];
    // SAFETY: no queue is looked at; the buffer has the length given.
    let text = unsafe {
        strerror(ptr::null_mut(), fi::FI_ETRUNC, ptr::null(), buf.as_mut_ptr(), buf.len())
    };
    assert!(!text.is_null());
    assert_eq!(buf, [b't' as libc::c_char, b'h' as _, b'e' as _, 0]);
}
