//! Posting one-sided operations, and answering those of peers.

use wiglaf_transport::{PeerId, Posted as Taken, SendError};
use wiglaf_wire::{Class, Envelope};

use super::{Endpoint, refused};
use crate::books::{Sending, Whose};
use crate::content::Content;
use crate::exposed::{Exposed, Refusal};
use crate::memory::{Region, Regions};
use crate::remote::{ATOMIC_LEN_MAX, ATOMIC_PREFIX_LEN, AtomicOp, RemoteOp, RemoteStats};
use crate::target::Reply;
use crate::{Outcome, PostError};

impl Endpoint {
    /// The memory that peers may reach through this endpoint.
    #[must_use]
    pub fn exposed(&self) -> &Exposed {
        &self.books.target.exposed
    }

    /// From now on peers reach `exposed`, which other endpoints may share.
    pub fn expose_all(&mut self, exposed: Exposed) {
        self.books.target.exposed = exposed;
    }

    /// Whether each operation of a peer is reported with a completion, or only
    /// writes that bring data.
    pub fn report_remote(&mut self, all: bool) {
        self.books.target.reports_all = all;
    }

    /// What was carried out and refused.
    #[must_use]
    pub fn remote_stats(&self) -> RemoteStats {
        let refused_answers = self.books.remote.stats_answers;
        RemoteStats { refused_answers, ..self.books.target.stats }
    }

    /// Posts a write of the regions to a peer's memory.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    ///
    /// # Safety
    /// Unless `op.inject`, the regions must stay valid and unchanged until
    /// the operation completes or the endpoint is dropped.
    pub unsafe fn post_write(
        &mut self,
        op: &RemoteOp,
        regions: &[Region],
    ) -> Result<(), PostError> {
        self.posts();
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        if op.inject && regions.len() > self.inject_len_max() {
            return Err(PostError::TooLong);
        }
        let len = regions.len();
        self.post_remote(op, Class::Write, len, Content::User(regions), Regions::EMPTY)
    }

    /// Posts a read of a peer's memory into the regions.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    ///
    /// # Safety
    /// The regions must stay valid and untouched until the operation
    /// completes or the endpoint is dropped.
    pub unsafe fn post_read(&mut self, op: &RemoteOp, regions: &[Region]) -> Result<(), PostError> {
        self.posts();
        // SAFETY: handed on from our caller.
        let regions = unsafe { Regions::new(regions) }.ok_or(PostError::TooLong)?;
        let len = regions.len();
        let wanted = Content::Owned((len as u64).to_le_bytes().to_vec());
        self.post_remote(op, Class::Read, len, wanted, regions)
    }

    /// Posts an atomic operation. As many elements are changed as `results`
    /// take if it fetches, else as there are operands.
    ///
    /// Operands and comparands have been read when the call returns.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    ///
    /// # Safety
    /// All regions must be valid now, and `results` stay so, and untouched,
    /// until the operation completes or the endpoint is dropped.
    pub unsafe fn post_atomic(
        &mut self,
        op: &RemoteOp,
        atomic: AtomicOp,
        operands: &[Region],
        comparands: &[Region],
        results: &[Region],
    ) -> Result<(), PostError> {
        self.posts();
        // SAFETY: handed on from our caller.
        let [operands, comparands, results] =
            unsafe { [Regions::new(operands), Regions::new(comparands), Regions::new(results)] };
        let operands = operands.ok_or(PostError::TooLong)?;
        let comparands = comparands.ok_or(PostError::TooLong)?;
        let results = results.ok_or(PostError::TooLong)?;
        let AtomicOp { element, function, fetch } = atomic;
        let len = if fetch { results.len() } else { operands.len() };
        let reads_only = function == crate::Function::Read;
        let lens_agree = (reads_only || operands.len() == len)
            && comparands.len() == if function.compares() { len } else { 0 }
            && len.is_multiple_of(element.len());
        if !function.takes(element) || (function.only_fetches() && !fetch) || !lens_agree {
            return Err(PostError::Unsupported);
        }
        let sent = if reads_only { 0 } else { operands.len() };
        let payload_len = ATOMIC_PREFIX_LEN + sent + comparands.len();
        if payload_len > ATOMIC_LEN_MAX || len > ATOMIC_LEN_MAX {
            return Err(PostError::TooLong);
        }
        let mut payload = vec![0; payload_len];
        payload[0] = function.code();
        payload[1] = element.code();
        let count = (len / element.len()) as u32;
        payload[4..ATOMIC_PREFIX_LEN].copy_from_slice(&count.to_le_bytes());
        operands.read(0, &mut payload[ATOMIC_PREFIX_LEN..][..sent]);
        comparands.read(0, &mut payload[ATOMIC_PREFIX_LEN + sent..]);
        let class = if fetch { Class::Fetch } else { Class::Atomic };
        let results = if fetch { results } else { Regions::EMPTY };
        self.post_remote(op, class, len, Content::Owned(payload), results)
    }

    fn post_remote(
        &mut self,
        op: &RemoteOp,
        class: Class,
        len: usize,
        content: Content,
        results: Regions,
    ) -> Result<(), PostError> {
        if self.peer(op.peer).is_none_or(|peer| peer.is_gone) {
            return Err(PostError::PeerGone);
        }
        let (id, starts) = self.books.remote.begin(op, class, len, content, results);
        if starts {
            if let Err(why) = self.start(id) {
                self.books.remote.abort(id);
                return Err(refused(why));
            }
            self.flush(self.now());
        } else if op.inject
            && let Some((_, _, content)) = self.books.remote.start(id)
        {
            self.books.remote.put_back(id, own(content));
        }
        // Whoever sleeps here knows nothing of its timers.
        self.tell_sleepers();
        Ok(())
    }

    /// Hands the message of an operation to the transport.
    fn start(&mut self, id: u32) -> Result<(), SendError> {
        let Some((peer, envelope, content)) = self.books.remote.start(id) else { return Ok(()) };
        let token = match self.hand_over(peer, envelope, Whose::Operation(id), content) {
            Ok(token) => token,
            Err((why, content)) => {
                self.books.remote.put_back(id, content);
                return Err(why);
            }
        };
        self.books.remote.started(id, token.is_some());
        self.transport.owe(peer, true);
        if let Some(token) = token
            && self.books.remote.is_inject(id)
            && let Some(sending) = self.books.sending_mut(token)
        {
            // Its buffer is the caller's again in a moment.
            let content = std::mem::replace(&mut sending.content, Content::EMPTY);
            sending.content = own(content);
        }
        Ok(())
    }

    /// Sends a message of our own; answers its token if it is still read.
    fn hand_over(
        &mut self,
        peer: PeerId,
        envelope: Envelope,
        whose: Whose,
        content: Content,
    ) -> Result<Option<u64>, (SendError, Content)> {
        let len = content.len();
        let is_answer = matches!(whose, Whose::Answer(..));
        let token = self.books.begin_send(Sending { whose, content });
        match self.transport.send(peer, envelope, len, token, false, &self.books) {
            Ok(Taken::Pending) => Ok(Some(token)),
            Ok(Taken::Buffered) => {
                if is_answer {
                    self.books.end_send(token, Outcome::Done);
                } else {
                    self.books.abort_send(token);
                }
                Ok(None)
            }
            Err(why) => Err((why, self.books.abort_send(token))),
        }
    }

    /// Sends the answers that are owed to peers, gives their credit back, and
    /// starts operations of our own that were held back.
    pub(super) fn serve(&mut self) {
        if !self.books.target.is_idle() {
            self.answer();
        }
        while let Some(peer) = self.books.remote.ended.pop() {
            self.transport.owe(peer, false);
        }
        let mut full = Vec::new();
        while let Some(id) = self.books.remote.next_due() {
            match self.start(id) {
                Ok(()) => self.books.remote.unhold(id),
                Err(SendError::Again) => full.extend(self.books.remote.postpone()),
                // What is left of it ends with its peer.
                Err(SendError::PeerGone) => _ = self.books.remote.postpone(),
            }
        }
        for peer in full {
            self.books.remote.make_due(peer);
        }
    }

    /// Each answer that leaves may make room for an operation, whose answer may leave, too.
    fn answer(&mut self) {
        loop {
            while let Some((peer, send_id, wanted)) = self.books.resume() {
                self.pull(peer, send_id, wanted);
            }
            let waited = self.books.target.replies.len();
            self.send_replies();
            if waited == 0 || self.books.target.replies.len() == waited {
                break;
            }
        }
        while let Some((peer, len)) = self.books.target.refunds.pop() {
            self.transport.consume(peer, len);
            self.pull_more(peer);
        }
    }

    fn send_replies(&mut self) {
        for _ in 0..self.books.target.replies.len() {
            let Some(mut reply) = self.books.target.replies.pop_front() else { break };
            if reply.content.is_withdrawn() {
                (reply.status, reply.content) = (Refusal::Key.status(), Content::EMPTY);
                self.books.target.stats.refused_key += 1;
            }
            let envelope = Envelope {
                operation: reply.operation,
                ..Envelope::new(Class::Answer, reply.status, None)
            };
            let whose = Whose::Answer(reply.peer, reply.refund);
            let sent = self.hand_over(reply.peer, envelope, whose, reply.content);
            match sent {
                Ok(_) => {}
                Err((SendError::Again, content)) => {
                    self.books.target.replies.push_back(Reply { content, ..reply });
                }
                Err((SendError::PeerGone, content)) => {
                    self.books.target.owed.release(reply.peer, content.kept_len());
                }
            }
        }
    }

    /// Whether no operation is under way in either direction.
    pub(crate) fn is_one_sided_idle(&self) -> bool {
        self.books.is_one_sided_idle()
    }
}

/// Copies the user's bytes into memory of our own; other content stays as it is.
fn own(content: Content) -> Content {
    match content {
        Content::User(regions) => Content::Owned(regions.copied()),
        other => other,
    }
}
