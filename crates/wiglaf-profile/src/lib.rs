//! `libwiglaf-profile.so`: preloaded, it counts and times a program's calls of MPI, for `wiglaf profile`.
//!
//! One library serves every MPI. Handles are pointers in Open MPI and numbers in MPICH, but both travel in a
//! register or a slot of eight bytes on x86-64, so arguments are handed on unseen; only counts, roots and the
//! sizes of datatypes are looked at, the latter by asking MPI itself (`PMPI_Type_size`). No MPI is linked: the
//! functions behind ours are found at run time.
//!
//! The entry points of C and of Fortran are both here, because some MPIs' Fortran calls `PMPI_` functions,
//! which nobody can stand before, and others' calls C's. A call within a call is not counted.
//!
//! Without `WIGLAF_RECORDS` in the environment nothing is counted.

mod clock;
mod entry;
mod record;
mod size;
mod table;
mod trace;

/// What it calls itself in what it says.
const NAME: &str = "libwiglaf-profile";
