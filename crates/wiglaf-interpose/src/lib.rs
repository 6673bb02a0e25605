//! What a library of ours needs in a process that is not ours: the functions behind those that it stands before, and
//! threads that take none of the program's signals.

pub mod threads;

use std::ffi::{CStr, CString, c_void};
use std::io::Write as _;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function behind ours, found when it is first needed.
#[derive(Debug)]
pub struct Next {
    library: &'static str,
    name_and_nul: &'static str,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// `library` is the one that asks, such as `libwiglaf-profile`. The name must end in the one NUL that it has.
    #[must_use]
    pub const fn new(library: &'static str, name_and_nul: &'static str) -> Self {
        Self { library, name_and_nul, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address, never null. Without it the process ends: it could not have been started without us
    /// either.
    #[inline]
    pub fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if known.is_null() { self.first() } else { known }
    }

    /// Its address, or null.
    pub fn or_null(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = self.find();
        self.found.store(found, Ordering::Relaxed);
        found
    }

    #[cold]
    fn first(&self) -> *mut c_void {
        let found = self.or_null();
        if found.is_null() {
            let name = self.name_and_nul.trim_end_matches('\0');
            complain(
                self.library,
                &format!("no library of this program has {name}; its MPI is not to be found"),
            );
            std::process::exit(1);
        }
        found
    }

    fn find(&self) -> *mut c_void {
        let Ok(name) = CStr::from_bytes_with_nul(self.name_and_nul.as_bytes()) else {
            return ptr::null_mut();
        };
        // SAFETY: the name is a C string, which dlsym only reads.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        if found.is_null() { in_loaded(name) } else { found }
    }
}

/// The address of an object, not a function, of the MPI's that the whole process uses, or null. That is the first of
/// the name: a program that was linked for a fixed address has a copy of its own (`R_X86_64_COPY`), and the MPI uses
/// that one, not the one behind us.
#[must_use]
pub fn object(name: &CStr) -> *mut c_void {
    // SAFETY: the name is a C string, which dlsym only reads.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    if found.is_null() { in_loaded(name) } else { found }
}

/// In an MPI that a plugin has brought along for itself, as Python's does: such libraries are not behind us.
fn in_loaded(name: &CStr) -> *mut c_void {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps.lines().filter_map(|line| line.find('/').map(|at| &line[at..]));
    let mut paths: Vec<&str> = paths.filter(|path| path.contains("/libmpi")).collect();
    paths.dedup();
    for path in paths {
        let Ok(path) = CString::new(path) else { continue };
        // SAFETY: the path is a C string; a library that is loaded is not loaded anew.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_LAZY | libc::RTLD_NOLOAD) };
        if library.is_null() {
            continue;
        }
        // SAFETY: the library was opened just now and is never closed; the name is a C string.
        let found = unsafe { libc::dlsym(library, name.as_ptr()) };
        if !found.is_null() {
            return found;
        }
    }
    ptr::null_mut()
}

/// Says one sentence of that library's, as a whole although other ranks speak too.
pub fn complain(library: &str, sentence: &str) {
    // Where nobody listens there is nobody to tell.
    let _ = std::io::stderr().write_all(format!("{library}: {sentence}\n").as_bytes());
}
