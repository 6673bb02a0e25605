//! Calls that must be refused.

use std::ptr;

use crate::node::Node;
use crate::ops::{self, Home, UNSPEC, call, fi};
use crate::{IOV_LIMIT, Outcome, expect, untagged_message};

/// How many calls `wrong` knows.
pub(crate) const WRONG: usize = 19;

/// A call that must be refused, and leave no trace.
pub(crate) fn wrong(node: &Node, home: &Home, what: usize) -> Outcome {
    let (ep, cq, av) = (node.ep, node.rx, node.av);
    let (none, fid, context) = (ptr::null_mut(), ep.cast::<fi::fid>(), ptr::null_mut());
    let mut byte = 7u8;
    let buf = (&raw mut byte).cast::<libc::c_void>();
    let iov = [libc::iovec { iov_base: buf, iov_len: 1 }; IOV_LIMIT + 1];
    let to = node.index[0];
    let nowhere = node.index[2] + 1000;
    let code = match what {
        0 => call!(ep, tagged.send(ep, ptr::null(), 1, none, to, 0, context)),
        1 => call!(ep, msg.recv(ep, none, 1, none, UNSPEC, context)),
        2 => call!(ep, msg.sendv(ep, iov.as_ptr(), ptr::null_mut(), iov.len(), to, context)),
        3 => call!(
            ep,
            tagged.recvv(ep, iov.as_ptr(), ptr::null_mut(), iov.len(), UNSPEC, 0, 0, context)
        ),
        4 => call!(ep, msg.sendv(ep, ptr::null(), ptr::null_mut(), 1, to, context)),
        5 => call!(ep, msg.sendmsg(ep, ptr::null(), 0)),
        6 => call!(ep, tagged.recvmsg(ep, ptr::null(), 0)),
        7 => call!(ep, msg.inject(ep, buf, 1, nowhere)),
        8 => call!(ep, tagged.senddata(ep, buf, 1, none, 1, UNSPEC, 0, context)),
        9 => call!(ep, msg.recv(ep, buf, 1, none, nowhere, context)),
        10 => call!(ep, tagged.inject(ptr::null_mut(), buf, 1, to, 0)),
        // Another object's handle in the place of an endpoint's.
        11 => call!(ep, msg.send(cq.cast(), buf, 1, none, to, context)),
        12 => call!(cq, ops.read(cq, ptr::null_mut(), 1)),
        13 => call!(cq, ops.read(ep.cast(), buf, 1)),
        14 => call!(cq, ops.readerr(cq, ptr::null_mut(), 0)),
        15 => {
            // Several messages into more than one buffer.
            let msg = untagged_message(&iov[..2], UNSPEC, context, 0);
            call!(ep, msg.recvmsg(ep, &raw const msg, fi::FI_MULTI_RECV | fi::FI_COMPLETION))
        }
        16 => {
            let garbage = [0xffu8; 16];
            let mut index = 0;
            let at = garbage.as_ptr().cast();
            let n = call!(av, ops.insert(av, at, 1, &raw mut index, 0, ptr::null_mut()));
            expect("garbage that was inserted", n as isize, 0)?;
            expect("its index", index as isize, UNSPEC as isize as i32)?;
            let mut removed = 0;
            return expect(
                "the removal of what was removed",
                call!(av, ops.remove(av, &raw mut removed, usize::from(node.index[0] > 0), 0))
                    as isize,
                if node.index[0] > 0 { -fi::FI_EINVAL } else { 0 },
            );
        }
        17 => {
            for (object, busy) in [
                (cq.cast::<fi::fid>(), "a bound queue"),
                (av.cast(), "a bound vector"),
                (home.domain.cast(), "a domain in use"),
                (home.fabric.cast(), "a fabric in use"),
            ] {
                expect(busy, ops::close(object) as isize, -fi::FI_EBUSY)?;
            }
            return Ok(());
        }
        _ => {
            expect("a second enabling", ops::enable(ep) as isize, -fi::FI_EOPBADSTATE)?;
            let bound = ops::bind(ep, cq, fi::FI_RECV);
            expect("binding an enabled endpoint", bound as isize, -fi::FI_EOPBADSTATE)?;
            let (attr, mut opened) = (&mut ops::zeroed::<fi::fi_cq_attr>(), ptr::null_mut());
            attr.format = 99;
            let domain = home.domain;
            let code = call!(domain, ops.cq_open(domain, attr, &raw mut opened, ptr::null_mut()));
            expect("a queue of no format", code as isize, -fi::FI_EINVAL)?;
            let code = call!(ep, ops.cancel(fid, buf));
            return expect("a cancel of nothing", code, -fi::FI_ENOENT);
        }
    };
    expect(&format!("wrong call {what}"), code, -fi::FI_EINVAL)
}
