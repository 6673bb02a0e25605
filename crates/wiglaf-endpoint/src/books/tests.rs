use super::*;

/// Its initiator would wait for ever: it has been granted nothing, and knows that no more will be.
#[test]
fn an_operation_that_cannot_be_pulled_is_answered() {
    const NO_ROOM: u64 = 5;
    let mut books = Books::default();
    for class in [Class::Write, Class::Fetch] {
        let envelope = Envelope { operation: 3, ..Envelope::new(class, 9, None) };
        let wanted = books.request(PeerId(1), &envelope, 20, 7).expect("operations are pulled");
        books.pulled(wanted.token, false);
        let reply = books.target.replies.pop_front().expect("an answer is owed");
        assert_eq!((reply.peer, reply.operation, reply.status), (PeerId(1), 3, NO_ROOM));
        assert!(reply.refund.is_none(), "what was announced was not charged");
    }
    assert_eq!(books.target.stats.performed, 0);
}
