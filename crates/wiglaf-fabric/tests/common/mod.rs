//! Where the tests find the provider library and what is installed here.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Whether all these programs are installed; says which is not.
pub(crate) fn installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = |name: &&&str| std::env::split_paths(&path).any(|dir| dir.join(name).is_file());
    match programs.iter().find(|name| !found(name)) {
        Some(name) => {
            eprintln!("skipped: {name} is not installed");
            false
        }
        None => true,
    }
}

/// The provider library as Cargo built it for this test.
pub(crate) fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a running test knows where it is");
    let deps = test.parent().expect("a test lies in a folder");
    let library = deps.join("libwiglaf_fabric.so");
    assert!(library.is_file(), "{} was not built", library.display());
    library
}

/// A folder that holds the library under the name that libfabric looks for.
pub(crate) fn provider_dir() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = scratch("provider");
        // Renaming keeps a library whole that another test is loading.
        let fresh = dir.join(format!("fresh.{}", std::process::id()));
        std::fs::copy(library(), &fresh).expect("copy the library");
        std::fs::rename(&fresh, dir.join("libwiglaf-fi.so")).expect("name the library");
        dir
    })
}

/// A folder of ours in the build's folder for test files.
pub(crate) fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fabric").join(name);
    std::fs::create_dir_all(&dir).expect("make a folder for test files");
    dir
}

/// Whether the C compiler finds this header; says if not.
#[allow(dead_code, reason = "not every test compiles against libfabric")]
pub(crate) fn has_header(name: &str) -> bool {
    let found = Path::new("/usr/include").join(name).is_file();
    if !found {
        eprintln!("skipped: {name} is not installed (Debian: libfabric-dev)");
    }
    found
}
