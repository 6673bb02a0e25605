//! Instructions and their making: RFC 9669. Helpers, contexts and verdicts:
//! bpf-helpers(7) and linux/bpf.h.

/// One instruction as the kernel takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

impl Instruction {
    /// What it does: one of [`op`].
    #[must_use]
    pub fn code(&self) -> u8 {
        self.code
    }

    /// Its constant.
    #[must_use]
    pub fn immediate(&self) -> i32 {
        self.immediate
    }
}

/// The register that points behind the stack.
pub const STACK: u8 = 10;

const PSEUDO_MAP: u8 = 1;

/// The helper that looks a key up.
pub const MAP_LOOKUP: i32 = 1;

/// Codes of instructions.
#[allow(missing_docs, reason = "the names are RFC 9669's, spelt out")]
pub mod op {
    pub const LOAD_WORD: u8 = 0x61;
    pub const LOAD_HALF: u8 = 0x69;
    pub const LOAD_BYTE: u8 = 0x71;
    pub const LOAD_DOUBLE: u8 = 0x79;
    /// Takes the space of two instructions.
    pub const LOAD_IMMEDIATE: u8 = 0x18;
    pub const STORE_WORD: u8 = 0x63;
    pub const STORE_BYTE: u8 = 0x73;
    pub const STORE_DOUBLE: u8 = 0x7b;
    pub const STORE_WORD_IMMEDIATE: u8 = 0x62;
    pub const ATOMIC_DOUBLE: u8 = 0xdb;
    pub const MOVE_IMMEDIATE: u8 = 0xb7;
    pub const MOVE: u8 = 0xbf;
    pub const ADD_IMMEDIATE: u8 = 0x07;
    pub const OR: u8 = 0x4f;
    pub const XOR: u8 = 0xaf;
    pub const AND_IMMEDIATE: u8 = 0x57;
    pub const SHIFT_LEFT: u8 = 0x6f;
    pub const SHIFT_LEFT_IMMEDIATE: u8 = 0x67;
    pub const MODULO_32: u8 = 0x9c;
    /// Turns network order, of as many bits as the immediate says, into ours.
    pub const FROM_NETWORK: u8 = 0xdc;
    pub const JUMP_NOT_EQUAL: u8 = 0x55;
    pub const JUMP_NOT_EQUAL_REGISTER: u8 = 0x5d;
    /// Compares 32 bits.
    pub const JUMP_NOT_EQUAL_32: u8 = 0x56;
    pub const JUMP_EQUAL: u8 = 0x15;
    pub const JUMP_ANY_BIT: u8 = 0x45;
    pub const JUMP_LESS_IMMEDIATE: u8 = 0xa5;
    pub const JUMP_MORE: u8 = 0x25;
    pub const JUMP_MORE_REGISTER: u8 = 0x2d;
    /// Compares 32 bits without sign.
    pub const JUMP_AT_LEAST_32: u8 = 0x36;
    pub const CALL: u8 = 0x85;
    pub const EXIT: u8 = 0x95;
}

/// A program that is being written.
#[derive(Debug, Default)]
pub struct Assembler {
    code: Vec<Instruction>,
    /// Jumps to the end, where the frame passes.
    pass: Vec<usize>,
}

impl Assembler {
    /// Appends an instruction.
    pub fn op(&mut self, code: u8, to: u8, from: u8, offset: i16, immediate: i32) {
        self.code.push(Instruction { code, registers: from << 4 | to, offset, immediate });
    }

    /// Sets a register to a constant.
    pub fn set(&mut self, register: u8, value: i32) {
        self.op(op::MOVE_IMMEDIATE, register, 0, 0, value);
    }

    /// Puts a map, by its descriptor, into a register.
    pub fn set_map(&mut self, register: u8, map: i32) {
        self.op(op::LOAD_IMMEDIATE, register, PSEUDO_MAP, 0, map);
        self.op(0, 0, 0, 0, 0);
    }

    /// Calls a helper.
    pub fn call(&mut self, helper: i32) {
        self.op(op::CALL, 0, 0, 0, helper);
    }

    /// Points a register at this offset of the stack.
    pub fn set_stack(&mut self, register: u8, at: i16) {
        self.op(op::MOVE, register, STACK, 0, 0);
        self.op(op::ADD_IMMEDIATE, register, 0, 0, at.into());
    }

    /// Looks a key that lies on the stack up in a map: register 0 points at the value, or is 0.
    pub fn look_up(&mut self, map: i32, key_at: i16) {
        self.set_map(1, map);
        self.set_stack(2, key_at);
        self.call(MAP_LOOKUP);
    }

    /// Ends with this verdict.
    pub fn give(&mut self, verdict: i32) {
        self.set(0, verdict);
        self.op(op::EXIT, 0, 0, 0, 0);
    }

    /// Jumps to the end of the program on a comparison with a constant.
    pub fn pass_if(&mut self, jump: u8, register: u8, value: i32) {
        self.pass.push(self.code.len());
        self.op(jump, register, 0, 0, value);
    }

    /// Jumps to the end of the program on a comparison of two registers.
    pub fn pass_if_registers(&mut self, jump: u8, left: u8, right: u8) {
        self.pass.push(self.code.len());
        self.op(jump, left, right, 0, 0);
    }

    /// Jumps over `block` by the instruction that is appended first.
    pub fn unless(&mut self, jump: u8, register: u8, value: i32, block: impl FnOnce(&mut Self)) {
        let at = self.code.len();
        self.op(jump, register, 0, 0, value);
        block(self);
        self.code[at].offset = (self.code.len() - at - 1) as i16;
    }

    /// Jumps over `block` by the instruction that is appended first, on a comparison of two registers.
    pub fn unless_registers(
        &mut self,
        jump: u8,
        (left, right): (u8, u8),
        block: impl FnOnce(&mut Self),
    ) {
        let at = self.code.len();
        self.unless(jump, left, 0, block);
        self.code[at].registers = right << 4 | left;
    }

    /// The whole program; frames that come to its end get `verdict`.
    #[must_use]
    pub fn finish(mut self, verdict: i32) -> Vec<Instruction> {
        let end = self.code.len();
        self.give(verdict);
        for at in self.pass {
            self.code[at].offset = (end - at - 1) as i16;
        }
        self.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_reach_what_they_should() {
        let mut program = Assembler::default();
        program.pass_if(op::JUMP_EQUAL, 1, 7);
        program.unless(op::JUMP_NOT_EQUAL, 2, 0, |program| {
            program.set(3, 1);
            program.set(4, 1);
        });
        program.pass_if_registers(op::JUMP_MORE_REGISTER, 1, 2);
        let program = program.finish(-1);
        let offsets: Vec<i16> = program.iter().map(|i| i.offset).collect();
        assert_eq!(offsets, [4, 2, 0, 0, 0, 0, 0]);
        assert_eq!((program[5].code, program[5].immediate), (op::MOVE_IMMEDIATE, -1));
        assert_eq!(program[4].registers, 0x21);
    }
}
