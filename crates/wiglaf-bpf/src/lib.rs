//! Small BPF programs: assembled here, loaded and attached by bpf(2). Ours
//! have a few dozen instructions, so a compiler for BPF, or a library that
//! reads what one has made, would be a larger dependency than the programs are.
//!
//! All that is made here belongs to its descriptor: a map, a program and an
//! attachment go when the last process that holds them does.

pub mod assembler;
mod object;
mod syscall;

pub use assembler::{Assembler, Instruction};
pub use object::{Attachment, Hook, Kind, Map, Mode, Program, attachments_of};
