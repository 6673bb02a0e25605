//! Whether a program can make MPI windows.
//!
//! Open MPI 5 takes windows over a network from a btl alone, and its btl/ofi sleeps for a second when it is closed, in
//! every `MPI_Finalize` (findings/openmpi-btl-ofi-sleep.sh). So btl/ofi is left out where a program provably calls no
//! function of windows: it is linked with MPI, and neither it nor a library that it needs names such a function, or
//! loads others. When in doubt it can.

use std::cell::LazyCell;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::{installation, ld};

/// The C library of Open MPI, which a program must need for us to say anything.
const OPEN_MPI: &[u8] = b"libmpi.so.40";
/// How names of functions that make or use windows begin, in C and in Fortran, and those that load libraries.
/// (Every program's debug information names the type `ompi_win_t`.)
const TELLING: [&[u8]; 6] =
    [b"\0MPI_Win_", b"\0PMPI_Win_", b"\0mpi_win_", b"\0pmpi_win_", b"dlopen\0", b"dlmopen\0"];
/// The compiler's and the C library's own, and MPI's: they name such functions, and do not call them for the program.
const INNOCENT: [&str; 18] = [
    "libc.",
    "libm.",
    "libdl.",
    "libpthread.",
    "librt.",
    "libutil.",
    "ld-linux",
    "libgcc_s.",
    "libstdc++.",
    "libgfortran.",
    "libquadmath.",
    "libgomp.",
    "libmpi",
    "libopen-",
    "libpmix.",
    "libprrte.",
    "libhwloc.",
    "libevent",
];
/// Of a file; a longer one is not looked at.
const LOOKED_AT_LEN_MAX: u64 = 64 << 20;
/// Libraries that are looked at.
const LIBRARIES_MAX: usize = 64;

/// Whether `program`, or a library that it needs, may call functions of windows. `preload` says whether others are
/// loaded before them.
#[must_use]
pub fn may_be_made(program: &Path, preload: bool) -> bool {
    preload || !provably_not(program).unwrap_or(false)
}

/// None where that cannot be told.
fn provably_not(program: &Path) -> Option<bool> {
    let bytes = elf(program)?;
    if !contains(&bytes, &[OPEN_MPI]) || contains(&bytes, &TELLING) {
        return None;
    }
    let mut wanted = needed(&bytes);
    let known = LazyCell::new(ld::libraries);
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        let is_innocent = INNOCENT.iter().any(|start| name.starts_with(start));
        if is_innocent || !seen.insert(name.clone()) {
            continue;
        }
        if seen.len() > LIBRARIES_MAX {
            return None;
        }
        let bytes = elf(&PathBuf::from(known.get(&name)?))?;
        if contains(&bytes, &TELLING) {
            return None;
        }
        wanted.extend(needed(&bytes));
    }
    Some(true)
}

/// The bytes of an ELF file.
fn elf(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = fs::File::open(path).ok()?;
    file.take(LOOKED_AT_LEN_MAX + 1).read_to_end(&mut bytes).ok()?;
    let is_whole = bytes.len() as u64 <= LOOKED_AT_LEN_MAX;
    (is_whole && bytes.starts_with(b"\x7fELF")).then_some(bytes)
}

/// Strings that are names of libraries: those that the file needs, and perhaps some more.
fn needed(bytes: &[u8]) -> Vec<String> {
    let strings = bytes.split(|byte| *byte == 0).filter(|text| text.len() < 256);
    strings
        .filter(|text| text.starts_with(b"lib") || text.starts_with(b"ld-"))
        .filter_map(|text| std::str::from_utf8(text).ok())
        .filter(|text| text.contains(".so") && !text.contains(['/', ' ', '%']))
        .map(str::to_owned)
        .collect()
}

fn contains(bytes: &[u8], any_of: &[&[u8]]) -> bool {
    any_of.iter().any(|word| installation::contains(bytes, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn program(dir: &Path, content: &[u8]) -> PathBuf {
        let path = dir.join("program");
        fs::write(&path, [b"\x7fELF\0", content].concat()).unwrap();
        path
    }

    #[test]
    fn only_what_is_linked_with_mpi_and_names_no_window_has_provably_none() {
        let dir = tempfile::tempdir().unwrap();
        let may = |content: &[u8]| may_be_made(&program(dir.path(), content), false);
        assert!(!may(b"libmpi.so.40\0libc.so.6\0MPI_Send\0ompi_win_t\0"));
        for doubtful in [
            &b"libmpi.so.40\0libc.so.6\0MPI_Win_create\0"[..],
            b"libmpi_mpifh.so.40\0libmpi.so.40\0mpi_win_fence_\0",
            b"libmpi.so.40\0libc.so.6\0dlopen\0",
            // A shell, or Python.
            b"libc.so.6\0",
            // It is not where the loader would find it.
            b"libmpi.so.40\0libnot_on_this_machine.so.1\0",
        ] {
            assert!(may(doubtful), "{}", String::from_utf8_lossy(doubtful));
        }
        let path = program(dir.path(), b"libmpi.so.40\0");
        assert!(!may_be_made(&path, false) && may_be_made(&path, true));
        fs::write(&path, "#!/bin/sh\nexec libmpi.so.40\n").unwrap();
        assert!(may_be_made(&path, false) && may_be_made(Path::new("/no/such"), false));
    }
}
