//! The program of a switch port's direction, assembled here: it has one
//! parameter per fault and a handful of instructions for each, so a compiler
//! for BPF would be a larger dependency than the program is.
//!
//! Instructions: RFC 9669. Helpers, context and verdicts: bpf-helpers(7) and
//! linux/bpf.h.

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

/// One instruction as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

/// Which way the frames go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hook {
    /// From the node into the switch.
    Ingress,
    /// From the switch to the node.
    Egress,
}

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

// Codes of instructions.
const LOAD_WORD: u8 = 0x61;
const LOAD_BYTE: u8 = 0x71;
const LOAD_IMMEDIATE: u8 = 0x18;
const STORE_WORD: u8 = 0x63;
const STORE_BYTE: u8 = 0x73;
const STORE_WORD_IMMEDIATE: u8 = 0x62;
const ATOMIC_DOUBLE: u8 = 0xdb;
const MOVE_IMMEDIATE: u8 = 0xb7;
const MOVE: u8 = 0xbf;
const ADD_IMMEDIATE: u8 = 0x07;
const XOR: u8 = 0xaf;
const AND_IMMEDIATE: u8 = 0x57;
const SHIFT_LEFT: u8 = 0x6f;
const MODULO_32: u8 = 0x9c;
const JUMP_NOT_EQUAL: u8 = 0x55;
const JUMP_EQUAL: u8 = 0x15;
const JUMP_LESS_IMMEDIATE: u8 = 0xa5;
/// Compares 32 bits without sign.
const JUMP_AT_LEAST_32: u8 = 0x36;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

const PSEUDO_MAP: u8 = 1;

// Helpers.
const MAP_LOOKUP: i32 = 1;
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
const STACK: u8 = 10;

/// The instructions for these faults at this place.
pub(super) fn assemble(faults: &Faults, site: &Site) -> Vec<Instruction> {
    let mut program = Assembler { code: Vec::new(), pass: Vec::new() };
    program.op(MOVE, CONTEXT, 1, 0, 0);
    program.op(LOAD_WORD, 1, CONTEXT, MARK, 0);
    program.pass_if(JUMP_EQUAL, 1, MARK_DONE as i32);
    program.op(LOAD_WORD, 1, CONTEXT, PROTOCOL, 0);
    program.pass_if(JUMP_NOT_EQUAL, 1, PROTOCOL_IPV4);
    program.count(site, Counter::Frames);
    program.with(faults.drop.threshold(), |program| {
        program.count(site, Counter::Dropped);
        program.give(LOST);
    });
    program.with(faults.corrupt.threshold(), |program| program.corrupt(site));
    program.with(faults.duplicate.threshold(), |program| program.duplicate(site));
    if let Some(detour) = site.detour {
        program.with(faults.reorder.threshold(), |program| {
            program.count(site, Counter::Reordered);
            program.set(1, detour as i32);
            program.set(2, 0);
            program.call(REDIRECT);
            program.op(EXIT, 0, 0, 0, 0);
        });
    }
    program.finish()
}

struct Assembler {
    code: Vec<Instruction>,
    /// Jumps to the end, where the frame passes.
    pass: Vec<usize>,
}

impl Assembler {
    fn op(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: from << 4 | to, offset, immediate });
    }

    fn set(&mut self, register: u8, value: i32) {
        self.op(MOVE_IMMEDIATE, register, 0, 0, value);
    }

    fn call(&mut self, helper: i32) {
        self.op(CALL, 0, 0, 0, helper);
    }

    fn give(&mut self, verdict: i32) {
        self.set(0, verdict);
        self.op(EXIT, 0, 0, 0, 0);
    }

    fn pass_if(&mut self, jump: u8, register: u8, value: i32) {
        self.pass.push(self.code.len());
        self.op(jump, register, 0, 0, value);
    }

    /// Jumps over `block` by the instruction that is appended first.
    fn unless(&mut self, jump: u8, register: u8, value: i32, block: impl FnOnce(&mut Self)) {
        let at = self.code.len();
        self.op(jump, register, 0, 0, value);
        block(self);
        self.code[at].offset = (self.code.len() - at - 1) as i16;
    }

    /// Does `block` for a share of the frames; nothing for none.
    fn with(&mut self, threshold: u32, block: impl FnOnce(&mut Self)) {
        match threshold {
            0 => {}
            u32::MAX => block(self),
            _ => {
                self.call(RANDOM_U32);
                self.unless(JUMP_AT_LEAST_32, 0, threshold as i32, block);
            }
        }
    }

    fn count(&mut self, site: &Site, counter: Counter) {
        const KEY: i16 = -4;
        self.op(STORE_WORD_IMMEDIATE, STACK, 0, KEY, counter as i32);
        // Takes the space of two instructions.
        self.op(LOAD_IMMEDIATE, 1, PSEUDO_MAP, 0, site.counters);
        self.op(0, 0, 0, 0, 0);
        self.op(MOVE, 2, STACK, 0, 0);
        self.op(ADD_IMMEDIATE, 2, 0, 0, KEY.into());
        self.call(MAP_LOOKUP);
        self.unless(JUMP_EQUAL, 0, 0, |program| {
            program.set(1, 1);
            program.op(ATOMIC_DOUBLE, 0, 1, 0, 0);
        });
    }

    /// Turns one random bit behind the Ethernet header over.
    fn corrupt(&mut self, site: &Site) {
        const BYTE: i16 = -8;
        self.call(RANDOM_U32);
        self.op(MOVE, OFFSET, 0, 0, 0);
        self.op(LOAD_WORD, 1, CONTEXT, LEN, 0);
        self.op(ADD_IMMEDIATE, 1, 0, 0, -ETHERNET_HEADER_LEN);
        self.unless(JUMP_LESS_IMMEDIATE, 1, 1, |program| {
            program.op(MODULO_32, OFFSET, 1, 0, 0);
            program.op(ADD_IMMEDIATE, OFFSET, 0, 0, ETHERNET_HEADER_LEN);
            program.call(RANDOM_U32);
            program.op(AND_IMMEDIATE, 0, 0, 0, 7);
            program.set(SAVED, 1);
            program.op(SHIFT_LEFT, SAVED, 0, 0, 0);
            program.transfer(LOAD_BYTES, BYTE);
            program.unless(JUMP_NOT_EQUAL, 0, 0, |program| {
                program.op(LOAD_BYTE, 1, STACK, BYTE, 0);
                program.op(XOR, 1, SAVED, 0, 0);
                program.op(STORE_BYTE, STACK, 1, BYTE, 0);
                program.transfer(STORE_BYTES, BYTE);
                program.count(site, Counter::Corrupted);
            });
        });
    }

    /// Copies the byte at OFFSET between frame and stack.
    fn transfer(&mut self, helper: i32, at: i16) {
        self.op(MOVE, 1, CONTEXT, 0, 0);
        self.op(MOVE, 2, OFFSET, 0, 0);
        self.op(MOVE, 3, STACK, 0, 0);
        self.op(ADD_IMMEDIATE, 3, 0, 0, at.into());
        self.set(4, 1);
        self.set(5, 0);
        self.call(helper);
    }

    fn duplicate(&mut self, site: &Site) {
        // The mark keeps the copy from being copied.
        self.set(1, MARK_DONE as i32);
        self.op(STORE_WORD, CONTEXT, 1, MARK, 0);
        self.op(MOVE, 1, CONTEXT, 0, 0);
        self.set(2, site.port as i32);
        self.set(3, if site.hook == Hook::Ingress { FLAG_INGRESS } else { 0 });
        self.call(CLONE_REDIRECT);
        self.set(1, 0);
        self.op(STORE_WORD, CONTEXT, 1, MARK, 0);
        self.count(site, Counter::Duplicated);
    }

    fn finish(mut self) -> Vec<Instruction> {
        let end = self.code.len();
        self.give(NEXT);
        for at in self.pass {
            self.code[at].offset = (end - at - 1) as i16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fault::Probability;

    const SITE: Site = Site { hook: Hook::Ingress, port: 3, detour: Some(9), counters: 5 };

    #[test]
    fn a_port_without_faults_only_counts() {
        let program = assemble(&Faults::default(), &SITE);
        let calls: Vec<i32> =
            program.iter().filter(|i| i.code == CALL).map(|i| i.immediate).collect();
        assert_eq!(calls, [MAP_LOOKUP]);
    }

    #[test]
    fn every_jump_stays_inside() {
        let half = Probability::parse("50%").unwrap();
        let faults = Faults { drop: half, corrupt: half, duplicate: half, reorder: half };
        let program = assemble(&faults, &SITE);
        for (at, instruction) in program.iter().enumerate() {
            if matches!(instruction.code, 0x15 | 0x36 | 0x55 | 0xa5) {
                let target = at as i64 + 1 + i64::from(instruction.offset);
                assert!(target > at as i64 && (target as usize) < program.len(), "{at}");
            }
        }
    }
}
