//! Link options of the provider library.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // libfabric dlcloses its providers at exit, when threads and destructors of the process may
    // still be about to run code of ours: the library stays mapped.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
    // The versions of libfabric's interface that `src/front` exports. rustc hands the linker a
    // nameless version script of its own, beside which LLD takes this one and GNU ld takes none; LLD
    // is what Rust links with on x86-64, and the front is for x86-64 only.
    if std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64") {
        println!("cargo::rerun-if-changed=libfabric.map");
        let folder = std::env::var("CARGO_MANIFEST_DIR").expect("Cargo sets it");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={folder}/libfabric.map");
    }
}
