//! Where programs are, as a shell would find them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::error::Error;

/// How to get `ip` and `tc`.
pub const GET_IPROUTE2: &str = "apt-get install iproute2";

/// Finds a program as a shell does.
#[must_use]
pub fn find_program(name: impl AsRef<OsStr>) -> Option<PathBuf> {
    find_in(name.as_ref(), std::env::var_os("PATH").as_deref(), is_executable)
}

/// The file that a shell with this PATH would take for that program, if it `fits`.
#[must_use]
pub fn find_in(name: &OsStr, path: Option<&OsStr>, fits: fn(&Path) -> bool) -> Option<PathBuf> {
    if name.as_encoded_bytes().contains(&b'/') {
        return Some(PathBuf::from(name)).filter(|path| fits(path));
    }
    std::env::split_paths(path?).map(|dir| dir.join(name)).find(|path| fits(path))
}

/// Where a tool such as `ip` or `tc` is. A PATH often lacks the folders of what only root calls, also
/// root's after `su`.
#[must_use]
pub fn find_tool(tool: &str) -> Option<PathBuf> {
    let roots = || ["/usr/sbin", "/sbin"].iter().map(|dir| Path::new(dir).join(tool));
    find_program(tool).or_else(|| roots().find(|path| path.exists()))
}

/// Whether it is a file that somebody may execute.
#[must_use]
pub fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

/// Why a program is not found.
#[must_use]
pub fn no_program(name: &OsStr) -> Error {
    let shown = name.display();
    match find_in(name, std::env::var_os("PATH").as_deref(), Path::is_file) {
        Some(file) => Error::not_executable(format!(
            "`{shown}` is not executable; compile it if it is a source, or run `chmod +x {}`",
            file.display()
        )),
        None => {
            Error::not_found(format!("there is no program `{shown}`; check its name and the PATH"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_as_shells_do() {
        assert!(find_program("sh").is_some() && find_program("/bin/sh").is_some());
        assert!(find_program("no-such-program").is_none() && find_program("/etc").is_none());
    }
}
