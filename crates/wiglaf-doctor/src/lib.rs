//! What this machine offers to Wiglaf (`doctor`), and what its compilers make of its MPIs (`toolchain`).

pub mod doctor;
pub mod toolchain;
