//! What the ring has need not climb the IP stack, only to be dropped by the
//! filter of the socket beside it (docs/adr/0031-early-drop.md).
//!
//! A program at the ingress of an interface, behind the ring and before the
//! stack, drops datagrams for sockets with a mark. Marks are the kernel's: a
//! socket's ends with it, however its process ended, so there is nothing to
//! take back. Looking a socket up costs as much as a third of the stack, so
//! what was found is believed for the rest of the kernel's tick.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use wiglaf_bpf::assembler::{Assembler, Instruction, STACK, op};
use wiglaf_bpf::{Attachment, Hook, Kind, Map, Program};
use wiglaf_link::frame::{
    ETHERNET_LEN, ETHERTYPE_IPV4, FRAGMENT_MASK, PROTOCOL_UDP, VERSION_4_NO_OPTIONS,
};
use wiglaf_link_udp::{Interface, get_int, set_int};

/// The bits of a socket's mark that are ours. The others are the site's: its rules of routing and its
/// packet filter go on to see them as they were.
pub const MARK_MASK: u32 = 0xffff_0000;
/// In the highest bit: a ring has what comes for the socket. In those below it: the index of the
/// interface, because the ring sees nothing that comes over another.
const MARK: u32 = 0x8000_0000;
const INDEX_SHIFT: u32 = 16;
/// An interface with a higher index has no mark, and no program: 32,767 were made before it.
const INDEX_MAX: u32 = 0x7fff;

/// Places for what was found, each for the ports that end in the same bits.
const FOUND: u32 = 1 << 12;

/// Bits of the kernel's tick in what was found. It comes around in half a
/// minute or more; who was there a round ago is believed for one tick.
const TICK_MASK: i32 = 0x7fff;

// Helpers.
const LOAD_BYTES: i32 = 26;
const LOOK_UP_UDP: i32 = 85;
const RELEASE: i32 = 86;
const TICKS: i32 = 118;

// Fields of the context (struct __sk_buff), and of a socket (struct bpf_sock).
const PACKET_TYPE: i16 = 4;
const PROTOCOL: i16 = 16;
const VLAN_TAG: i16 = 24;
const SOCKET_MARK: i16 = 16;

const VLAN_NUMBER: i32 = 0x0fff;

/// Bytes of a frame that decide: the IPv4 header and the ports behind it.
const HEADERS_LEN: i16 = 24;
/// Where they are on the stack.
const HEADERS: i16 = -HEADERS_LEN;
// Offsets among them.
const VERSION: i16 = 0;
const FRAGMENT: i16 = 6;
const UPPER_PROTOCOL: i16 = 9;
/// Both addresses and both ports in a row, as a lookup takes them.
const ENDS: i16 = 12;
const ENDS_LEN: i32 = 12;
const TO_IP: i16 = 16;
const TO_PORT: i16 = 22;

const THIS_NAMESPACE: i32 = -1;

// Verdicts.
const NEXT: i32 = -1;
const DROP: i32 = 2;

// Registers that outlive calls.
const CONTEXT: u8 = 6;
const FOUND_MARK: u8 = 7;
const KEY: u8 = 8;
const PLACE: u8 = 9;

/// The program at work on an interface, until it is dropped.
#[derive(Debug)]
pub struct EarlyDrop(#[expect(dead_code, reason = "held for its end")] Attachment);

impl EarlyDrop {
    /// Attaches it. Takes CAP_BPF and CAP_NET_ADMIN, this once.
    ///
    /// # Errors
    /// `EPERM`; `EINVAL`: the kernel is older than Linux 6.6; `EOVERFLOW`: the interface's index is
    /// too high for a mark.
    pub fn attach(interface: &Interface) -> io::Result<Self> {
        let mark = mark_of(interface)?;
        let found = Map::array("wiglaf_found", FOUND)?;
        let program = assemble(mark, found.as_fd().as_raw_fd());
        let program = Program::load(Kind::TrafficControl, "wiglaf_early", &program)?;
        program.attach(interface.index, Hook::Ingress).map(Self)
    }
}

/// Tells that a ring has what comes for this UDP socket over the interface: bits of [`MARK_MASK`] in
/// the socket's mark, the others of which stay as they are. Takes CAP_NET_RAW.
///
/// # Errors
/// Where that is not permitted, or the interface's index is too high for a mark.
pub fn mark(socket: BorrowedFd<'_>, interface: &Interface) -> io::Result<()> {
    let mark = mark_of(interface)?
        | (get_int(socket, libc::SOL_SOCKET, libc::SO_MARK)? as u32 & !MARK_MASK);
    set_int(socket, libc::SOL_SOCKET, libc::SO_MARK, mark as libc::c_int)
}

fn mark_of(interface: &Interface) -> io::Result<u32> {
    match interface.index {
        index @ ..=INDEX_MAX => Ok(MARK | index << INDEX_SHIFT),
        _ => Err(io::Error::from_raw_os_error(libc::EOVERFLOW)),
    }
}

/// The instructions for sockets with this mark; `found` is the map's descriptor.
fn assemble(mark: u32, found: i32) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.op(op::MOVE, CONTEXT, 1, 0, 0);
    is_seen_by_rings(&mut program);
    make_key(&mut program);
    find_place(&mut program, found);
    program.op(op::LOAD_DOUBLE, 1, PLACE, 0, 0);
    program.op(op::XOR, 1, KEY, 0, 0);
    program.unless(op::JUMP_NOT_EQUAL, 1, 1, |program| program.give(DROP));
    program.pass_if(op::JUMP_EQUAL, 1, 0);
    look_up(&mut program);
    program.op(op::AND_IMMEDIATE, FOUND_MARK, 0, 0, MARK_MASK as i32);
    program.unless(op::JUMP_NOT_EQUAL_32, FOUND_MARK, mark as i32, |program| {
        program.op(op::ADD_IMMEDIATE, KEY, 0, 0, 1);
        program.op(op::STORE_DOUBLE, PLACE, KEY, 0, 0);
        program.give(DROP);
    });
    program.op(op::STORE_DOUBLE, PLACE, KEY, 0, 0);
    program.finish(NEXT)
}

/// Goes on with what the filter of a ring may let through (`for_datagrams_to` in filter.rs), with
/// the headers on the stack.
fn is_seen_by_rings(program: &mut Assembler) {
    program.op(op::LOAD_WORD, 1, CONTEXT, PROTOCOL, 0);
    program.pass_if(op::JUMP_NOT_EQUAL, 1, i32::from(ETHERTYPE_IPV4.to_be()));
    program.op(op::LOAD_WORD, 1, CONTEXT, PACKET_TYPE, 0);
    program.pass_if(op::JUMP_NOT_EQUAL, 1, 0);
    program.op(op::LOAD_WORD, 1, CONTEXT, VLAN_TAG, 0);
    program.pass_if(op::JUMP_ANY_BIT, 1, VLAN_NUMBER);
    program.op(op::MOVE, 1, CONTEXT, 0, 0);
    program.set(2, ETHERNET_LEN as i32);
    program.set_stack(3, HEADERS);
    program.set(4, HEADERS_LEN.into());
    program.call(LOAD_BYTES);
    program.pass_if(op::JUMP_NOT_EQUAL, 0, 0);
    program.op(op::LOAD_BYTE, 1, STACK, HEADERS + UPPER_PROTOCOL, 0);
    program.pass_if(op::JUMP_NOT_EQUAL, 1, PROTOCOL_UDP.into());
    program.op(op::LOAD_BYTE, 1, STACK, HEADERS + VERSION, 0);
    program.pass_if(op::JUMP_NOT_EQUAL, 1, VERSION_4_NO_OPTIONS.into());
    program.op(op::LOAD_HALF, 1, STACK, HEADERS + FRAGMENT, 0);
    program.pass_if(op::JUMP_ANY_BIT, 1, i32::from(FRAGMENT_MASK.to_be()));
}

/// The address, the port and the tick, with a last bit of 0: nobody is there who has a ring.
fn make_key(program: &mut Assembler) {
    program.op(op::LOAD_WORD, KEY, STACK, HEADERS + TO_IP, 0);
    program.op(op::SHIFT_LEFT_IMMEDIATE, KEY, 0, 0, 16);
    program.op(op::LOAD_HALF, PLACE, STACK, HEADERS + TO_PORT, 0);
    program.op(op::OR, KEY, PLACE, 0, 0);
    program.op(op::SHIFT_LEFT_IMMEDIATE, KEY, 0, 0, 16);
    program.call(TICKS);
    program.op(op::AND_IMMEDIATE, 0, 0, 0, TICK_MASK);
    program.op(op::SHIFT_LEFT_IMMEDIATE, 0, 0, 0, 1);
    program.op(op::OR, KEY, 0, 0, 0);
}

/// Where what was found for the port is; the register has the port.
fn find_place(program: &mut Assembler, found: i32) {
    const AT: i16 = HEADERS - 4;
    program.op(op::FROM_NETWORK, PLACE, 0, 0, 16);
    program.op(op::AND_IMMEDIATE, PLACE, 0, 0, FOUND as i32 - 1);
    program.op(op::STORE_WORD, STACK, PLACE, AT, 0);
    program.look_up(found, AT);
    program.pass_if(op::JUMP_EQUAL, 0, 0);
    program.op(op::MOVE, PLACE, 0, 0, 0);
}

/// The mark of the socket that the datagram is for; 0 without one.
fn look_up(program: &mut Assembler) {
    program.op(op::MOVE, 1, CONTEXT, 0, 0);
    program.set_stack(2, HEADERS + ENDS);
    program.set(3, ENDS_LEN);
    program.set(4, THIS_NAMESPACE);
    program.set(5, 0);
    program.call(LOOK_UP_UDP);
    program.set(FOUND_MARK, 0);
    program.unless(op::JUMP_EQUAL, 0, 0, |program| {
        program.op(op::LOAD_WORD, FOUND_MARK, 0, SOCKET_MARK, 0);
        program.op(op::MOVE, 1, 0, 0, 0);
        program.call(RELEASE);
    });
}
