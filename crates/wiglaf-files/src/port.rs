//! An endpoint with buffers of its own: the one module of this crate that
//! hands memory to an endpoint.
//!
//! A buffer that is under way is kept here until the endpoint is done with it,
//! so its users are safe code. The client also lends its callers' memory, by
//! the `unsafe` calls, whose callers wait.

use wiglaf_endpoint::{
    Class, CompleteWhen, Completion, Endpoint, Outcome, PeerId, PostError, RecvOp, Region, SendOp,
    Side,
};

/// What ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// What it was posted with.
    pub(crate) context: usize,
    /// Whether it was a receive.
    pub(crate) is_receive: bool,
    /// Whether it went well; a receive for which too much came did not.
    pub(crate) ok: bool,
    /// Length and immediate data of what was received.
    pub(crate) len: usize,
    pub(crate) data: u64,
}

/// What a message is sent as.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Label {
    pub(crate) to: PeerId,
    /// Requests are active messages, everything else is tagged.
    pub(crate) is_request: bool,
    pub(crate) tag: u64,
    pub(crate) data: u64,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) endpoint: Endpoint,
    inject_len_max: usize,
}

impl Port {
    pub(crate) fn new(endpoint: Endpoint) -> Self {
        let inject_len_max = endpoint.inject_len_max();
        Self { endpoint, inject_len_max }
    }

    /// Longest payload of [`Port::inject`], in bytes.
    pub(crate) fn inject_len_max(&self) -> usize {
        self.inject_len_max
    }

    fn op(label: Label, context: usize, inject: bool) -> SendOp {
        SendOp {
            peer: label.to,
            class: if label.is_request { Class::Active } else { Class::Tagged },
            tag: label.tag,
            data: Some(label.data),
            context,
            complete: CompleteWhen::Transmit,
            report: !inject,
            inject,
        }
    }

    /// Sends a short payload, whose memory is free at once; its end is not
    /// reported.
    pub(crate) fn inject(&mut self, label: Label, payload: &[u8]) -> Result<(), PostError> {
        let region = Region { ptr: payload.as_ptr().cast_mut(), len: payload.len() };
        // SAFETY: with `inject` the endpoint has read the payload when it returns.
        unsafe { self.endpoint.post_send(&Self::op(label, 0, true), &[region]) }
    }

    /// Sends; the end is reported with `context`.
    ///
    /// # Safety
    /// The regions must stay valid and unchanged until the end is reported.
    pub(crate) unsafe fn send(
        &mut self,
        label: Label,
        regions: &[Region],
        context: usize,
    ) -> Result<(), PostError> {
        // SAFETY: handed on from our caller.
        unsafe { self.endpoint.post_send(&Self::op(label, context, false), regions) }
    }

    /// Receives the tagged message `tag` of `from`; the end is reported with
    /// `context`.
    ///
    /// # Safety
    /// The regions must stay valid and untouched until the end is reported.
    pub(crate) unsafe fn receive(
        &mut self,
        from: PeerId,
        tag: u64,
        regions: &[Region],
        context: usize,
    ) -> Result<(), PostError> {
        let op = RecvOp {
            class: Class::Tagged,
            from: Some(from),
            tag,
            ignore: 0,
            context,
            report: true,
            multi_min_free: None,
        };
        // SAFETY: handed on from our caller.
        unsafe { self.endpoint.post_recv(&op, regions) }
    }

    /// What has ended since the last call.
    pub(crate) fn next_end(&mut self) -> Option<Ended> {
        let done = self.endpoint.pop_completion(Side::Recv);
        let done = done.or_else(|| self.endpoint.pop_completion(Side::Send))?;
        Some(ended(&done))
    }
}

fn ended(done: &Completion) -> Ended {
    Ended {
        context: done.context,
        is_receive: done.side == Side::Recv,
        ok: done.outcome == Outcome::Done,
        len: done.len,
        data: done.data.unwrap_or(0),
    }
}

/// A buffer that an endpoint may be using: it is moved, but not touched, until
/// it is taken out again.
#[derive(Debug)]
pub(crate) struct Lent(Vec<u8>);

impl Lent {
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// The first `len` bytes of it.
    pub(crate) fn region(&mut self, len: usize) -> Region {
        Region { ptr: self.0.as_mut_ptr(), len: len.min(self.0.len()) }
    }

    /// The end was reported: it is ordinary memory again.
    pub(crate) fn back(self) -> Vec<u8> {
        self.0
    }
}
