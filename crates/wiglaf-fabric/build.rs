//! Link options of the provider library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // libfabric dlcloses its providers at exit, when threads and destructors of the process may
    // still be about to run code of ours: the library stays mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
