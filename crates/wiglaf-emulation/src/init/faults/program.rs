//! The program of a switch port's direction: it has one parameter per fault
//! and a handful of instructions for each.

use wiglaf_bpf::Hook;
use wiglaf_bpf::assembler::{Assembler, Instruction, STACK, op};

use crate::fault::Faults;

/// Frames with this mark have met their fault: duplicates, and frames that
/// come back from the detour.
pub(super) const MARK_DONE: u32 = 0x7769_676c;

/// What is counted, in the order of the map's entries.
#[derive(Debug, Clone, Copy)]
pub(super) enum Counter {
    Frames,
    Dropped,
    Corrupted,
    Duplicated,
    Reordered,
}

/// Entries of the map.
pub(super) const COUNTERS: u32 = 5;

/// What a program is made for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Site {
    pub(super) hook: Hook,
    /// The port's index.
    pub(super) port: u32,
    /// The index of the interface that leads to the detour, if there is one.
    pub(super) detour: Option<u32>,
    /// The descriptor of the map that counts.
    pub(super) counters: i32,
}

// Helpers.
const RANDOM_U32: i32 = 7;
const STORE_BYTES: i32 = 9;
const CLONE_REDIRECT: i32 = 13;
const REDIRECT: i32 = 23;
const LOAD_BYTES: i32 = 26;

// Fields of the context.
const LEN: i16 = 0;
const MARK: i16 = 8;
const PROTOCOL: i16 = 16;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERNET_HEADER_LEN: i32 = 14;
/// The context compares big-endian values in memory order.
const PROTOCOL_IPV4: i32 = ETHERTYPE_IPV4.to_be() as i32;
const FLAG_INGRESS: i32 = 1;

// Verdicts.
const NEXT: i32 = -1;
const LOST: i32 = 2;

// Registers: the context, and a value that outlives calls.
const CONTEXT: u8 = 6;
const SAVED: u8 = 7;
const OFFSET: u8 = 8;

/// The instructions for these faults at this place.
pub(super) fn assemble(faults: &Faults, site: &Site) -> Vec<Instruction> {
    let mut program = Assembler::default();
    program.op(op::MOVE, CONTEXT, 1, 0, 0);
    program.op(op::LOAD_WORD, 1, CONTEXT, MARK, 0);
    program.pass_if(op::JUMP_EQUAL, 1, MARK_DONE as i32);
    program.op(op::LOAD_WORD, 1, CONTEXT, PROTOCOL, 0);
    program.pass_if(op::JUMP_NOT_EQUAL, 1, PROTOCOL_IPV4);
    count(&mut program, site, Counter::Frames);
    with(&mut program, faults.drop.threshold(), |program| {
        count(program, site, Counter::Dropped);
        program.give(LOST);
    });
    with(&mut program, faults.corrupt.threshold(), |program| corrupt(program, site));
    with(&mut program, faults.duplicate.threshold(), |program| duplicate(program, site));
    if let Some(detour) = site.detour {
        with(&mut program, faults.reorder.threshold(), |program| {
            count(program, site, Counter::Reordered);
            program.set(1, detour as i32);
            program.set(2, 0);
            program.call(REDIRECT);
            program.op(op::EXIT, 0, 0, 0, 0);
        });
    }
    program.finish(NEXT)
}

/// Does `block` for a share of the frames; nothing for none.
fn with(program: &mut Assembler, threshold: u32, block: impl FnOnce(&mut Assembler)) {
    match threshold {
        0 => {}
        u32::MAX => block(program),
        _ => {
            program.call(RANDOM_U32);
            program.unless(op::JUMP_AT_LEAST_32, 0, threshold as i32, block);
        }
    }
}

fn count(program: &mut Assembler, site: &Site, counter: Counter) {
    const KEY: i16 = -4;
    program.op(op::STORE_WORD_IMMEDIATE, STACK, 0, KEY, counter as i32);
    program.look_up(site.counters, KEY);
    program.unless(op::JUMP_EQUAL, 0, 0, |program| {
        program.set(1, 1);
        program.op(op::ATOMIC_DOUBLE, 0, 1, 0, 0);
    });
}

/// Turns one random bit behind the Ethernet header over.
fn corrupt(program: &mut Assembler, site: &Site) {
    const BYTE: i16 = -8;
    program.call(RANDOM_U32);
    program.op(op::MOVE, OFFSET, 0, 0, 0);
    program.op(op::LOAD_WORD, 1, CONTEXT, LEN, 0);
    program.op(op::ADD_IMMEDIATE, 1, 0, 0, -ETHERNET_HEADER_LEN);
    program.unless(op::JUMP_LESS_IMMEDIATE, 1, 1, |program| {
        program.op(op::MODULO_32, OFFSET, 1, 0, 0);
        program.op(op::ADD_IMMEDIATE, OFFSET, 0, 0, ETHERNET_HEADER_LEN);
        program.call(RANDOM_U32);
        program.op(op::AND_IMMEDIATE, 0, 0, 0, 7);
        program.set(SAVED, 1);
        program.op(op::SHIFT_LEFT, SAVED, 0, 0, 0);
        transfer(program, LOAD_BYTES, BYTE);
        program.unless(op::JUMP_NOT_EQUAL, 0, 0, |program| {
            program.op(op::LOAD_BYTE, 1, STACK, BYTE, 0);
            program.op(op::XOR, 1, SAVED, 0, 0);
            program.op(op::STORE_BYTE, STACK, 1, BYTE, 0);
            transfer(program, STORE_BYTES, BYTE);
            count(program, site, Counter::Corrupted);
        });
    });
}

/// Copies the byte at OFFSET between frame and stack.
fn transfer(program: &mut Assembler, helper: i32, at: i16) {
    program.op(op::MOVE, 1, CONTEXT, 0, 0);
    program.op(op::MOVE, 2, OFFSET, 0, 0);
    program.set_stack(3, at);
    program.set(4, 1);
    program.set(5, 0);
    program.call(helper);
}

fn duplicate(program: &mut Assembler, site: &Site) {
    // The mark keeps the copy from being copied.
    program.set(1, MARK_DONE as i32);
    program.op(op::STORE_WORD, CONTEXT, 1, MARK, 0);
    program.op(op::MOVE, 1, CONTEXT, 0, 0);
    program.set(2, site.port as i32);
    program.set(3, if site.hook == Hook::Ingress { FLAG_INGRESS } else { 0 });
    program.call(CLONE_REDIRECT);
    program.set(1, 0);
    program.op(op::STORE_WORD, CONTEXT, 1, MARK, 0);
    count(program, site, Counter::Duplicated);
}

#[cfg(test)]
mod tests {
    use wiglaf_bpf::assembler::MAP_LOOKUP;

    use super::*;

    const SITE: Site = Site { hook: Hook::Ingress, port: 3, detour: Some(9), counters: 5 };

    #[test]
    fn a_port_without_faults_only_counts() {
        let program = assemble(&Faults::default(), &SITE);
        let calls: Vec<i32> =
            program.iter().filter(|i| i.code() == op::CALL).map(Instruction::immediate).collect();
        assert_eq!(calls, [MAP_LOOKUP]);
    }
}
