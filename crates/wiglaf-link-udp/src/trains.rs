//! Receiving trains: several datagrams of one sender that the kernel, or the network interface, has
//! put together (UDP_GRO, udp(7)).

use std::io;
use std::mem;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, BorrowedFd};

use wiglaf_link::{Arrived, Deliver};

use crate::sys::{self, Control, SOCKADDR_LEN};

/// Room for one train, however long the kernel has made it.
pub(crate) const SLOT_LEN: usize = 1 << 16;

/// Most trains of one system call, once datagrams come alone: so a peer without segmentation
/// offload costs less, and so does a stranger, who need not send trains.
pub(crate) const TRAINS_MAX: usize = 8;

/// What was received by one system call.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// Datagrams.
    pub(crate) count: usize,
    /// Any came alone.
    pub(crate) alone: bool,
    /// Those among them that were longer than a slot, and are lost.
    pub(crate) cut: usize,
}

/// Hands over at most `N` trains, received by one system call each into a slot of `slot_len` bytes.
pub(crate) fn recv<const N: usize>(
    socket: BorrowedFd<'_>,
    (slots, slot_len): (&mut [u8], usize),
    deliver: &mut Deliver<'_>,
) -> io::Result<Received> {
    let mut arrivals = [Arrival::NONE; N];
    let trains = recv_many(socket, (slots, slot_len), &mut arrivals)?;
    let mut received = Received::default();
    let now_ns = wiglaf_link::now_ns();
    for (arrival, slot) in arrivals[..trains].iter().zip(slots.chunks(slot_len)) {
        received.alone |= arrival.segment_len >= arrival.len;
        let segment_len = arrival.segment_len.max(1);
        // Also what is lost: there may be more behind it.
        received.count += arrival.len.div_ceil(segment_len).max(1);
        if arrival.is_cut {
            received.cut += 1;
            continue;
        }
        deliver(&Arrived {
            from: arrival.from,
            bytes: &slot[..arrival.len],
            segment_len,
            waited: arrival.at_ns.and_then(|at_ns| wiglaf_link::waited(now_ns, at_ns)),
        });
    }
    Ok(received)
}

/// A received train.
#[derive(Clone, Copy)]
struct Arrival {
    from: SocketAddrV4,
    len: usize,
    segment_len: usize,
    /// When the kernel had it, see [`wiglaf_link::waited`].
    at_ns: Option<i64>,
    /// There was more of it.
    is_cut: bool,
}

impl Arrival {
    const NONE: Self = Self {
        from: SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0),
        len: 0,
        segment_len: 0,
        at_ns: None,
        is_cut: false,
    };
}

/// Receives at most `N` trains, each into a slot of its own, and says how many.
fn recv_many<const N: usize>(
    socket: BorrowedFd<'_>,
    (slots, slot_len): (&mut [u8], usize),
    arrivals: &mut [Arrival; N],
) -> io::Result<usize> {
    let mut names = [sys::to_sockaddr(Arrival::NONE.from); N];
    let mut iovs = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; N];
    let mut controls = [Control([0; 128]); N];
    // SAFETY: all-zero bytes are a valid `mmsghdr`.
    let mut msgs: [libc::mmsghdr; N] = unsafe { mem::zeroed() };
    for (i, slot) in slots.chunks_exact_mut(slot_len).take(N).enumerate() {
        iovs[i] = libc::iovec { iov_base: slot.as_mut_ptr().cast(), iov_len: slot_len };
        let msg = &mut msgs[i].msg_hdr;
        msg.msg_name = (&raw mut names[i]).cast();
        msg.msg_namelen = SOCKADDR_LEN;
        msg.msg_iov = &raw mut iovs[i];
        msg.msg_iovlen = 1;
        msg.msg_control = controls[i].0.as_mut_ptr().cast();
        msg.msg_controllen = controls[i].0.len() as _;
    }
    // SAFETY: each message points at its own live address, vector, control room and slot, of the
    // lengths stated; without a slot, at none.
    let status = unsafe {
        libc::recvmmsg(
            socket.as_raw_fd(),
            msgs.as_mut_ptr(),
            N as libc::c_uint,
            libc::MSG_DONTWAIT,
            std::ptr::null_mut(),
        )
    };
    let count = usize::try_from(status).map_err(|_| io::Error::last_os_error())?;
    for (i, msg) in msgs.iter().take(count).enumerate() {
        let len = (msg.msg_len as usize).min(slot_len);
        // SAFETY: the kernel has filled the message, whose control room is live.
        let (segment_len, at_ns) = unsafe { told_of(&msg.msg_hdr) };
        let segment_len = segment_len.unwrap_or(len);
        let is_cut = msg.msg_hdr.msg_flags & libc::MSG_TRUNC != 0;
        arrivals[i] =
            Arrival { from: sys::from_sockaddr(&names[i]), len, segment_len, at_ns, is_cut };
    }
    Ok(count)
}

/// How long the datagrams of a received train are, and when it came, if the kernel says so.
///
/// # Safety
/// The kernel has filled `msg`, and its control buffer is live.
unsafe fn told_of(msg: &libc::msghdr) -> (Option<usize>, Option<i64>) {
    let (mut segment_len, mut at_ns) = (None, None);
    // SAFETY: the walk stays within the control buffer, and a payload is read unaligned and only
    // when the header's length covers it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(msg);
        while !at.is_null() {
            let len = ((*at).cmsg_len as usize).saturating_sub(libc::CMSG_LEN(0) as usize);
            let payload = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_UDP, libc::UDP_GRO) if len >= mem::size_of::<libc::c_int>() => {
                    let raw = payload.cast::<libc::c_int>().read_unaligned();
                    segment_len = usize::try_from(raw).ok();
                }
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS)
                    if len >= mem::size_of::<libc::timespec>() =>
                {
                    let raw = payload.cast::<libc::timespec>().read_unaligned();
                    at_ns = Some(raw.tv_sec.wrapping_mul(1_000_000_000).wrapping_add(raw.tv_nsec));
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(msg, at);
        }
    }
    (segment_len, at_ns)
}
