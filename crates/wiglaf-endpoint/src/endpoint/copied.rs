//! Sends of which the endpoint keeps a copy, for callers without unsafe code.

use wiglaf_transport::PeerId;
use wiglaf_wire::Class;

use super::Endpoint;
use crate::memory::{Region, Regions};
use crate::{ACTIVE_LEN_MAX, CompleteWhen, PostError, SendOp};

impl Endpoint {
    /// Posts an active message whose payload is copied as far as it cannot go at once. Its
    /// completion, with this context, comes when the peer has acknowledged all of it.
    ///
    /// # Errors
    /// [`PostError`]; nothing was taken.
    pub fn send_copy(
        &mut self,
        peer: PeerId,
        handler: u64,
        context: usize,
        payload: &[u8],
    ) -> Result<(), PostError> {
        if payload.len() > ACTIVE_LEN_MAX {
            return Err(PostError::TooLong);
        }
        let op = SendOp {
            peer,
            class: Class::Active,
            tag: handler,
            data: None,
            context,
            complete: CompleteWhen::Delivery,
            report: true,
            inject: true,
        };
        let region = Region { ptr: payload.as_ptr().cast_mut(), len: payload.len() };
        self.posts();
        // SAFETY: sends only read. The payload is borrowed for this call, and what has not gone when
        // the call returns is read from a copy, because the operation is an inject.
        let regions = unsafe { Regions::new(&[region]) }.ok_or(PostError::TooLong)?;
        self.post_regions(&op, regions)
    }
}
