//! Classic BPF filters: what the ring shall see, and what the ordinary socket
//! beside it shall not.

use std::io;
use std::mem;
use std::net::SocketAddrV4;
use std::os::fd::{AsRawFd, BorrowedFd};

use libc::sock_filter;

// The parts of an instruction's code that are used here.
const LOAD_WORD: u16 = 0x20;
const LOAD_HALF: u16 = 0x28;
const LOAD_BYTE: u16 = 0x30;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_ANY_BIT: u16 = 0x45;
const RETURN: u16 = 0x06;

// Offsets that mean something other than a byte of the packet.
const ANCILLARY: u32 = 0xffff_f000;
const PACKET_TYPE: u32 = ANCILLARY + 4;
const INTERFACE_INDEX: u32 = ANCILLARY + 8;
const VLAN_TAG: u32 = ANCILLARY + 44;

/// The part of a tag that names a VLAN.
const VLAN_NUMBER: u32 = 0x0fff;

const WHOLE: u32 = u32::MAX;
const NOTHING: u32 = 0;

/// A condition on a loaded value.
struct Check {
    load: u16,
    at: u32,
    test: Test,
}

enum Test {
    Is(u32),
    HasNoBitOf(u32),
}

/// Unfragmented UDP/IPv4 datagrams without IP options for `local`, addressed
/// to this host, on no VLAN: a tag with number 0 says only how urgent a frame is. The port comes
/// first: it tells most strangers.
pub(crate) fn for_datagrams_to(local: SocketAddrV4) -> Vec<sock_filter> {
    let checks = [
        Check { load: LOAD_HALF, at: 36, test: Test::Is(u32::from(local.port())) },
        Check { load: LOAD_WORD, at: 30, test: Test::Is(u32::from(*local.ip())) },
        Check { load: LOAD_HALF, at: 12, test: Test::Is(0x0800) },
        Check { load: LOAD_BYTE, at: 14, test: Test::Is(0x45) },
        Check { load: LOAD_BYTE, at: 23, test: Test::Is(17) },
        Check { load: LOAD_HALF, at: 20, test: Test::HasNoBitOf(0x3fff) },
        Check { load: LOAD_WORD, at: PACKET_TYPE, test: Test::Is(0) },
        Check { load: LOAD_WORD, at: VLAN_TAG, test: Test::HasNoBitOf(VLAN_NUMBER) },
    ];
    let mut program = Vec::with_capacity(checks.len() * 2 + 2);
    for (done, check) in checks.iter().enumerate() {
        // From behind this jump to the last instruction, "nothing".
        let to_nothing = u8::try_from((checks.len() - done - 1) * 2 + 1).unwrap_or(u8::MAX);
        program.push(statement(check.load, check.at));
        program.push(match check.test {
            Test::Is(k) => sock_filter { code: JUMP_EQUAL, jt: 0, jf: to_nothing, k },
            Test::HasNoBitOf(k) => sock_filter { code: JUMP_ANY_BIT, jt: to_nothing, jf: 0, k },
        });
    }
    program.push(statement(RETURN, WHOLE));
    program.push(statement(RETURN, NOTHING));
    program
}

/// Everything but what came in over one interface: there the ring sees it.
pub(crate) fn not_from_interface(index: u32) -> Vec<sock_filter> {
    vec![
        statement(LOAD_WORD, INTERFACE_INDEX),
        sock_filter { code: JUMP_EQUAL, jt: 0, jf: 1, k: index },
        statement(RETURN, NOTHING),
        statement(RETURN, WHOLE),
    ]
}

/// Puts a filter on a socket.
pub(crate) fn attach(socket: BorrowedFd<'_>, program: &[sock_filter]) -> io::Result<()> {
    let len =
        u16::try_from(program.len()).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    let program = libc::sock_fprog { len, filter: program.as_ptr().cast_mut() };
    // SAFETY: the program and its instructions are live; the kernel copies them.
    let status = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const program).cast(),
            mem::size_of::<libc::sock_fprog>() as libc::socklen_t,
        )
    };
    if status == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn statement(code: u16, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k }
}
