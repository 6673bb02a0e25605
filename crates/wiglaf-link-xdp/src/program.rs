//! The XDP program: it hands datagrams for registered ports to their AF_XDP
//! sockets and lets all else pass to the IP stack untouched.
//!
//! Two maps with a place for every UDP port say what is registered: the
//! address and queue that a frame must have, and the socket. A socket leaves
//! its place when it is closed, however its process ended; frames for its port
//! pass from then on, whatever the other map still says.

use std::net::SocketAddrV4;

use wiglaf_bpf::assembler::{Assembler, Instruction, STACK, op};
use wiglaf_link::frame::{
    ETHERTYPE_IPV4, FRAGMENT_MASK, HEADERS_LEN, PROTOCOL_UDP, VERSION_4_NO_OPTIONS,
};

/// Entries of both maps: one for each port.
pub(crate) const PORTS: u32 = 1 << 16;

/// What stands before each frame that a socket gets: when it came, in nanoseconds of CLOCK_MONOTONIC, where the driver
/// leaves room for that (XDP metadata).
pub(crate) const STAMP_LEN: usize = 8;

// Helpers.
const TIME: i32 = 5;
const REDIRECT_MAP: i32 = 51;
const ADJUST_META: i32 = 54;

const PASS: i32 = 2;

// Fields of the context (struct xdp_md).
const DATA: i16 = 0;
const DATA_END: i16 = 4;
const DATA_META: i16 = 8;
const QUEUE: i16 = 16;

// Offsets in a frame.
const TO_MAC: i16 = 0;
const ETHERTYPE: i16 = 12;
const IP_VERSION: i16 = 14;
const IP_LEN: i16 = 16;
const FRAGMENT: i16 = 20;
const PROTOCOL: i16 = 23;
const TO_IP: i16 = 30;
const TO_PORT: i16 = 36;

// Registers that outlive calls.
const CONTEXT: u8 = 6;
const WHERE: u8 = 7;
const PORT: u8 = 8;

/// What a program is made for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Site {
    /// The interface's Ethernet address.
    pub(crate) mac: [u8; 6],
    /// Longest IP packet that a socket takes.
    pub(crate) ip_len_max: u16,
    /// The descriptor of the map of what is registered.
    pub(crate) ports: i32,
    /// The descriptor of the map of sockets.
    pub(crate) sockets: i32,
}

/// What the map holds for a port: the address in the order of the frame, and
/// the queue.
pub(crate) fn entry(local: SocketAddrV4, queue: u32) -> u64 {
    u64::from(u32::from_ne_bytes(local.ip().octets())) | u64::from(queue) << 32
}

/// The instructions of the program.
pub(crate) fn assemble(site: &Site) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.op(op::MOVE, CONTEXT, 1, 0, 0);
    program.op(op::LOAD_WORD, 2, CONTEXT, DATA, 0);
    program.op(op::LOAD_WORD, 3, CONTEXT, DATA_END, 0);
    program.op(op::MOVE, 1, 2, 0, 0);
    program.op(op::ADD_IMMEDIATE, 1, 0, 0, HEADERS_LEN as i32);
    program.pass_if_registers(op::JUMP_MORE_REGISTER, 1, 3);
    is_plain_datagram(&mut program, site);
    program.op(op::LOAD_WORD, WHERE, 2, TO_IP, 0);
    program.op(op::LOAD_HALF, PORT, 2, TO_PORT, 0);
    program.op(op::FROM_NETWORK, PORT, 0, 0, 16);
    program.op(op::LOAD_WORD, 1, CONTEXT, QUEUE, 0);
    program.op(op::SHIFT_LEFT_IMMEDIATE, 1, 0, 0, 32);
    program.op(op::OR, WHERE, 1, 0, 0);
    is_registered(&mut program, site);
    stamp(&mut program);
    program.set_map(1, site.sockets);
    program.op(op::MOVE, 2, PORT, 0, 0);
    // The verdict where the place is empty.
    program.set(3, PASS);
    program.call(REDIRECT_MAP);
    program.op(op::EXIT, 0, 0, 0, 0);
    program.finish(PASS)
}

/// Goes on with an unfragmented UDP/IPv4 datagram without IP options, for this
/// Ethernet address, that a socket has room for. Register 2 points at it.
fn is_plain_datagram(program: &mut Assembler, site: &Site) {
    let [a, b, c, d, e, f] = site.mac;
    let differs = |program: &mut Assembler, load, at, value| {
        program.op(load, 1, 2, at, 0);
        program.pass_if(op::JUMP_NOT_EQUAL, 1, value);
    };
    differs(program, op::LOAD_HALF, ETHERTYPE, i32::from(ETHERTYPE_IPV4.to_be()));
    differs(program, op::LOAD_BYTE, PROTOCOL, PROTOCOL_UDP.into());
    differs(program, op::LOAD_BYTE, IP_VERSION, VERSION_4_NO_OPTIONS.into());
    differs(program, op::LOAD_HALF, TO_MAC + 4, i32::from(u16::from_ne_bytes([e, f])));
    // Compared as 32 bits: the constant would be extended by its sign else.
    program.op(op::LOAD_WORD, 1, 2, TO_MAC, 0);
    program.pass_if(op::JUMP_NOT_EQUAL_32, 1, i32::from_ne_bytes([a, b, c, d]));
    program.op(op::LOAD_HALF, 1, 2, FRAGMENT, 0);
    program.pass_if(op::JUMP_ANY_BIT, 1, i32::from(FRAGMENT_MASK.to_be()));
    program.op(op::LOAD_HALF, 1, 2, IP_LEN, 0);
    program.op(op::FROM_NETWORK, 1, 0, 0, 16);
    program.pass_if(op::JUMP_MORE, 1, i32::from(site.ip_len_max));
}

/// Puts the time before the frame, if there is room.
fn stamp(program: &mut Assembler) {
    program.op(op::MOVE, 1, CONTEXT, 0, 0);
    program.set(2, -(STAMP_LEN as i32));
    program.call(ADJUST_META);
    program.unless(op::JUMP_NOT_EQUAL, 0, 0, |program| {
        program.call(TIME);
        program.op(op::LOAD_WORD, 1, CONTEXT, DATA_META, 0);
        program.op(op::LOAD_WORD, 2, CONTEXT, DATA, 0);
        program.op(op::MOVE, 3, 1, 0, 0);
        program.op(op::ADD_IMMEDIATE, 3, 0, 0, STAMP_LEN as i32);
        program.unless_registers(op::JUMP_MORE_REGISTER, (3, 2), |program| {
            program.op(op::STORE_DOUBLE, 1, 0, 0, 0);
        });
    });
}

/// Goes on when the port's entry names this address and queue.
fn is_registered(program: &mut Assembler, site: &Site) {
    const KEY: i16 = -4;
    program.op(op::STORE_WORD, STACK, PORT, KEY, 0);
    program.look_up(site.ports, KEY);
    program.pass_if(op::JUMP_EQUAL, 0, 0);
    program.op(op::LOAD_DOUBLE, 1, 0, 0, 0);
    program.pass_if_registers(op::JUMP_NOT_EQUAL_REGISTER, 1, WHERE);
}
