//! `make install` and `make uninstall`: that everything arrives, finds its own parts, and goes again.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What `make release` builds besides the command. `install` only copies them.
const BUILT: [&str; 9] = [
    "wiglaf-helper",
    "libwiglaf_fabric.so",
    "libwiglaf_logical.so",
    "libwiglaf_profile.so",
    "libwiglaf_profile_mpi4.so",
    "libwiglaf_multicast.so",
    "libwiglaf_multicast_mpi4.so",
    "libwiglaf.so",
    "libwiglaf_files.so",
];

fn make(target: &str, built: &Path, stage: &Path) -> Output {
    let set = |name: &str, path: &Path| format!("{name}={}", path.display());
    Command::new("make")
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        // What stands in for the libraries has nothing to strip.
        .args([
            target,
            &set("BUILT", built),
            &set("DESTDIR", stage),
            "PREFIX=/opt/wiglaf",
            "STRIP=:",
        ])
        .output()
        .unwrap()
}

/// All that is no folder below `folder`.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(files(&entry.path())),
            false => found.push(entry.path()),
        }
    }
    found
}

#[test]
fn what_is_installed_works_and_is_uninstalled() {
    let folder = tempfile::tempdir().unwrap();
    let built = folder.path().join("built");
    let stage = folder.path().join("stage");
    std::fs::create_dir(&built).unwrap();

    let early = make("install", &built, &stage);
    assert!(!early.status.success(), "nothing is built yet");
    assert!(String::from_utf8_lossy(&early.stderr).contains("make release"), "{early:?}");

    std::fs::copy(env!("CARGO_BIN_EXE_wiglaf"), built.join("wiglaf")).unwrap();
    // Of what `make demo` builds, and of more, nothing is installed until all is there.
    for name in BUILT {
        let early = make("install", &built, &stage);
        assert!(!early.status.success(), "{name} is not built yet");
        let said = String::from_utf8_lossy(&early.stderr);
        assert!(said.contains(name) && said.contains("make release"), "{said}");
        assert!(!stage.exists(), "half is installed");
        std::fs::write(built.join(name), name).unwrap();
    }
    let said = make("install", &built, &stage);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));

    let prefix = stage.join("opt/wiglaf");
    let front = std::fs::read(prefix.join("lib/wiglaf/wiglaf-libfabric/libfabric.so.1")).unwrap();
    assert_eq!(front, b"libwiglaf_fabric.so", "the link leads to the provider");
    let unit = prefix.join("lib/systemd/system/wiglaf-helper.service");
    let unit = std::fs::read_to_string(unit).unwrap();
    assert!(unit.contains("ExecStart=/opt/wiglaf/sbin/wiglaf-helper\n"), "{unit}");
    assert!(prefix.join("lib/systemd/system/wiglaf-helper.socket").exists());
    for page in [
        "man/man1/wiglaf.1",
        "man/man1/wiglaf-run.1",
        "man/man8/wiglaf-helper.8",
        "zsh/site-functions/_wiglaf",
    ] {
        assert!(prefix.join("share").join(page).metadata().unwrap().len() > 0, "{page} is empty");
    }
    let doctor = Command::new(prefix.join("bin/wiglaf")).arg("doctor").output().unwrap();
    let doctor = String::from_utf8_lossy(&doctor.stdout).into_owned();
    let provider = doctor.lines().find(|line| line.starts_with("provider")).unwrap();
    assert!(provider.contains("opt/wiglaf/lib/wiglaf"), "{provider}");

    std::fs::write(prefix.join("lib/libother.so"), "somebody else's").unwrap();
    let said = make("uninstall", &built, &stage);
    assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
    let left = files(&stage);
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].file_name(), Some(OsStr::new("libother.so")));
}
