//! Finds what the dynamic linker would have taken without us.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::setting::fail;

/// A function behind ours, found when it is first needed.
pub(crate) struct Next {
    name_and_nul: &'static str,
    found: AtomicPtr<c_void>,
}

impl Next {
    /// The name must end in the one NUL that it has.
    pub(crate) const fn new(name_and_nul: &'static str) -> Self {
        Self { name_and_nul, found: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address, never null. Without it the process ends: it could not have
    /// been started without us either.
    pub(crate) fn address(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let found = self.find();
        if found.is_null() {
            let name = self.name_and_nul.trim_end_matches('\0');
            fail(&format!(
                "no library of this program has {name}; link it with MPI's Fortran library"
            ));
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }

    fn find(&self) -> *mut c_void {
        let Ok(name) = CStr::from_bytes_with_nul(self.name_and_nul.as_bytes()) else {
            return ptr::null_mut();
        };
        // SAFETY: the name is a C string, which dlsym only reads.
        unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
    }
}
