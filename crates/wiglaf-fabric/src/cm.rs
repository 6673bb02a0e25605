//! Names of endpoints. There are no connections.

use crate::addr;
use crate::av::copy_out;
use crate::bindings as fi;
use crate::ep::{Ep, open_engine};
use crate::guard::{EINVAL, Errno, guard, lock, unsupported};
use crate::mc;
use crate::object::{not_null, object};

pub(crate) static OPS: fi::fi_ops_cm = fi::fi_ops_cm {
    size: size_of::<fi::fi_ops_cm>(),
    setname: Some(setname),
    getname: Some(getname),
    getpeer: Some(getpeer),
    connect: Some(connect),
    listen: Some(listen),
    accept: Some(accept),
    reject: Some(reject),
    shutdown: Some(shutdown),
    join: Some(mc::join),
};

unsupported! {
    getpeer(*mut fi::fid_ep, *mut libc::c_void, *mut usize) -> libc::c_int;
    connect(*mut fi::fid_ep, *const libc::c_void, *const libc::c_void, usize) -> libc::c_int;
    listen(*mut fi::fid_pep) -> libc::c_int;
    accept(*mut fi::fid_ep, *const libc::c_void, usize) -> libc::c_int;
    reject(*mut fi::fid_pep, fi::fid_t, *const libc::c_void, usize) -> libc::c_int;
    shutdown(*mut fi::fid_ep, u64) -> libc::c_int;
}

/// Gives the address; with too little room, the part that fits and how long the whole is.
unsafe extern "C" fn getname(
    fid: fi::fid_t,
    addr: *mut libc::c_void,
    addrlen: *mut usize,
) -> libc::c_int {
    guard(|| {
        not_null(addrlen)?;
        // SAFETY: fi_cm(3) demands a live handle and a buffer of `*addrlen` bytes.
        unsafe {
            let ep = object::<Ep, _>(fid)?;
            let name = addr::to_bytes(&lock(&ep.engine)?.endpoint.name());
            let room = addrlen.read();
            copy_out(&name, addr, addrlen)?;
            if room < name.len() { Err(Errno(fi::FI_ETOOSMALL)) } else { Ok(()) }
        }
    })
}

/// Moves an endpoint that is not enabled yet to another address.
unsafe extern "C" fn setname(
    fid: fi::fid_t,
    addr: *mut libc::c_void,
    addrlen: usize,
) -> libc::c_int {
    guard(|| {
        // SAFETY: fi_cm(3) demands a live handle and a buffer of `addrlen` bytes.
        let (ep, address) = unsafe { (object::<Ep, _>(fid)?, addr::read(addr, addrlen)?) };
        ep.not_enabled("setname")?;
        if address.at.ip().is_broadcast() {
            return Err(EINVAL);
        }
        let mut engine = lock(&ep.engine)?;
        let (own, ip) = (engine.endpoint.name().at, address.at.ip());
        if own.port() == address.at.port() && (own.ip() == ip || ip.is_unspecified()) {
            return Ok(());
        }
        // Who cannot move stays where he is.
        let mut moved = open_engine(Some(address))?.endpoint;
        moved.expose_all(ep.domain.exposed().clone());
        std::mem::replace(&mut engine.endpoint, moved).close();
        Ok(())
    })
}
