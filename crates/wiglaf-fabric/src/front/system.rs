//! The system's libfabric, loaded when something is asked that concerns other providers.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::bindings as fi;
use crate::log;

/// Names the system's libfabric: its name alone would lead back here.
const PATH_VAR: &str = "WIGLAF_LIBFABRIC";

type GetInfo = unsafe extern "C" fn(
    u32,
    *const c_char,
    *const c_char,
    u64,
    *const fi::fi_info,
    *mut *mut fi::fi_info,
) -> c_int;
type Fabric =
    unsafe extern "C" fn(*mut fi::fi_fabric_attr, *mut *mut fi::fid_fabric, *mut c_void) -> c_int;
type Open = unsafe extern "C" fn(
    u32,
    *const c_char,
    *mut c_void,
    usize,
    u64,
    *mut *mut fi::fid,
    *mut c_void,
) -> c_int;

/// A loaded libfabric. It is never unloaded.
#[derive(Debug)]
pub(super) struct System(NonNull<c_void>);

// SAFETY: it is a handle of the dynamic linker's, whose functions any thread may call.
unsafe impl Send for System {}
// SAFETY: as above.
unsafe impl Sync for System {}

static SYSTEM: OnceLock<Option<System>> = OnceLock::new();

/// The system's libfabric, loaded now if it has not been; says why it cannot be, once.
pub(super) fn get() -> Option<&'static System> {
    let loaded = SYSTEM.get_or_init(|| match load() {
        Ok(system) => Some(system),
        Err(why) => {
            log::error!("another provider than wiglaf is asked for, and {why}");
            None
        }
    });
    loaded.as_ref()
}

/// Whether it has been loaded.
pub(super) fn is_loaded() -> bool {
    SYSTEM.get().is_some_and(Option::is_some)
}

fn load() -> Result<System, String> {
    let path = std::env::var_os(PATH_VAR).filter(|path| !path.is_empty());
    let path = path.ok_or_else(|| format!("{PATH_VAR} does not name the system's libfabric"))?;
    let shown = path.to_string_lossy().into_owned();
    let name = CString::new(path.into_vec()).map_err(|_| format!("{shown:?} is no path"))?;
    // SAFETY: the name is a C string; what the library does when it is loaded is what it would have
    // done had it been linked.
    let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    let system = NonNull::new(handle).map(System).ok_or_else(|| {
        // SAFETY: it returns null, or a C string that lasts until this thread's next call.
        let why = unsafe { libc::dlerror().as_ref() };
        // SAFETY: as above.
        let why = why.map(|why| unsafe { CStr::from_ptr(why) }.to_string_lossy().into_owned());
        why.unwrap_or_else(|| format!("{shown} cannot be loaded"))
    })?;
    // What is a provider as well is this library, which would ask itself for ever.
    // SAFETY: the handle is live, and the name a C string.
    let is_front = !unsafe { libc::dlsym(handle, c"fi_prov_ini".as_ptr()) }.is_null();
    if is_front || system.getinfo().is_none() {
        return Err(format!("{shown} is not the system's libfabric"));
    }
    Ok(system)
}

impl System {
    /// One of its functions.
    pub(super) fn symbol(&self, name: &CStr, version: &CStr) -> Option<NonNull<c_void>> {
        // SAFETY: the handle is live, and both are C strings.
        NonNull::new(unsafe { libc::dlvsym(self.0.as_ptr(), name.as_ptr(), version.as_ptr()) })
    }

    pub(super) fn getinfo(&self) -> Option<GetInfo> {
        let found = self.symbol(c"fi_getinfo", c"FABRIC_1.3")?;
        // SAFETY: that version of the function has this type.
        Some(unsafe { std::mem::transmute::<NonNull<c_void>, GetInfo>(found) })
    }

    pub(super) fn fabric(&self) -> Option<Fabric> {
        let found = self.symbol(c"fi_fabric", c"FABRIC_1.1")?;
        // SAFETY: as above.
        Some(unsafe { std::mem::transmute::<NonNull<c_void>, Fabric>(found) })
    }

    pub(super) fn open(&self) -> Option<Open> {
        let found = self.symbol(c"fi_open", c"FABRIC_1.5")?;
        // SAFETY: as above.
        Some(unsafe { std::mem::transmute::<NonNull<c_void>, Open>(found) })
    }
}
