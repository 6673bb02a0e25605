//! `libwiglaf-logical.so`: preloaded, it makes MPI's logical reductions right
//! for a Fortran program whose compiler stores .TRUE. as -1.
//!
//! MPI libraries are built by a compiler that stores 1, and write 1 wherever
//! a logical reduction came out true. A program of the other kind takes that
//! for something else, without a word. Here the Fortran entry points of all
//! reductions stand before MPI's own and change nothing but handles: where
//! the datatype is LOGICAL and the operation MPI_LAND, MPI_LOR or MPI_LXOR,
//! the operation becomes one of ours, which reads any nonzero as true and
//! writes the program's own value. No buffer is touched, so nonblocking and
//! persistent reductions and MPI_IN_PLACE need no thought.
//!
//! Nothing of MPI is linked: all of it is found at run time, behind us.

mod entry;
mod handles;
mod operation;
mod setting;
mod substitute;

/// What it calls itself in what it says.
const NAME: &str = "libwiglaf-logical";
