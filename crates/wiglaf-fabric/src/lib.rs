//! The libfabric provider "wiglaf": what lets unmodified MPI programs run over Wiglaf.
//!
//! libfabric finds the library through `FI_PROVIDER_PATH`, loads it and calls [`prov::fi_prov_ini`],
//! the only symbol that it exports. It links no libfabric symbol: Open MPI loads libfabric itself,
//! and MPICH hides it. There is one module per libfabric object. In each, the functions of the
//! operation table are a thin shell (pointers → safe call → error number) around [`guard::guard`];
//! no panic crosses into the MPI process.
//!
//! Objects that C sees are boxes that begin with libfabric's own structure; what they share lies
//! behind `Arc`s, whose counts tell whether an object is still in use when it is closed.

mod addr;
mod atomic;
mod attendant;
mod attended;
mod av;
mod av_set;
#[allow(missing_docs, unreachable_pub, dead_code, non_camel_case_types, clippy::all)]
mod bindings;
mod cm;
mod cntr;
mod collective;
mod cq;
mod descriptor;
mod domain;
mod engine;
mod ep;
mod eq;
mod fabric;
#[cfg(target_arch = "x86_64")]
mod front;
mod groups;
mod guard;
mod info;
mod log;
mod mc;
mod mr;
mod msg;
mod object;
mod ops;
mod peers;
mod poll;
pub mod prov;
mod rma;
mod tagged;
mod tokens;
mod wait;
mod watched;
