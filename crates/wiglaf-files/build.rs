//! Link options of the library for C.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // A program may unload it while a thread of ours is still closing a socket: it stays mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
