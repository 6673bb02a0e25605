//! The door: the one symbol that libfabric looks for in a provider library.

use std::cell::UnsafeCell;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::ptr;

use crate::bindings as fi;
use crate::guard::guard_or;
use crate::{fabric, info};

/// The provider's own version, as libfabric encodes versions.
pub(crate) const VERSION: u32 = 1; // 0.1

/// An interface version above every one in use. A provider that reports less than an application
/// asks for is passed over, and applications ask for the version that they were built with.
const FI_VERSION_HIGH: u32 = 2 << 16 | 99;

struct Provider(UnsafeCell<fi::fi_provider>);

// SAFETY: this library writes to it only in `fi_prov_ini`, which libfabric calls once, under its
// own lock; afterwards libfabric alone uses it.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi::fi_provider {
    version: VERSION,
    fi_version: FI_VERSION_HIGH,
    context: fi::fi_context { internal: [ptr::null_mut(); 4] },
    name: info::NAME.as_ptr(),
    getinfo: Some(info::getinfo),
    fabric: Some(fabric::open),
    cleanup: Some(cleanup),
}));

/// What libfabric calls after loading the library.
///
/// # Safety
/// To be called by libfabric only: once, before it uses the provider.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fi_prov_ini() -> *mut fi::fi_provider {
    guard_or(ptr::null_mut(), || {
        let provider = PROVIDER.0.get();
        // SAFETY: nobody else uses the provider before this function has returned.
        unsafe { (*provider).fi_version = running_version() };
        provider
    })
}

/// The interface version of the libfabric that runs in this process, where it can be seen: Open MPI
/// and MPICH load it out of sight of others, and so does a program that loads its MPI by dlopen.
fn running_version() -> u32 {
    // SAFETY: the name is a C string; if the symbol is there, it is libfabric's `fi_version`,
    // which takes nothing and returns a number.
    unsafe {
        let symbol = libc::dlsym(libc::RTLD_DEFAULT, c"fi_version".as_ptr());
        if symbol.is_null() || is_of_this_library(symbol) {
            return FI_VERSION_HIGH;
        }
        let fi_version: unsafe extern "C" fn() -> u32 = std::mem::transmute(symbol);
        fi_version()
    }
}

/// Whether an address lies in this library. It exports a `fi_version` as well ([`crate::front`]), which
/// dlsym finds where no libfabric can be seen, and which is not that of the libfabric that asks.
fn is_of_this_library(address: *const c_void) -> bool {
    let base = |address: *const c_void| {
        let mut found = MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: dladdr reads no memory at the address, and fills `found` in when it answers not 0.
        let is_known = unsafe { libc::dladdr(address, found.as_mut_ptr()) } != 0;
        // SAFETY: all of it is pointers, for which zero is a value.
        is_known.then(|| unsafe { found.assume_init() }.dli_fbase)
    };
    let own = base(fi_prov_ini as *const c_void);
    own.is_some() && base(address) == own
}

/// There is no thread to join and nothing global to release.
unsafe extern "C" fn cleanup() {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_functions_are_told_from_those_of_other_libraries() {
        assert!(is_of_this_library(running_version as *const c_void));
        assert!(!is_of_this_library(libc::dlsym as *const c_void));
        assert!(!is_of_this_library(ptr::null()));
    }
}
