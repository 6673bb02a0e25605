//! The provider as libfabric drives it: through its operation tables, within this process. No
//! libfabric takes part, so that what is tested is this library's code alone.

#![allow(dead_code, reason = "not every test needs all of it")]

#[path = "../../src/bindings.rs"]
#[allow(missing_docs, unreachable_pub, dead_code, non_camel_case_types, clippy::all)]
pub(crate) mod fi;

use std::ffi::CString;
use std::net::Ipv4Addr;
use std::process::Command;
use std::ptr;

/// "Any" for a receive.
pub(crate) const UNSPEC: fi::fi_addr_t = fi::fi_addr_t::MAX;
/// The interface version that these tests speak.
pub(crate) const API_VERSION: u32 = 1 << 16 | 20;

/// Calls a slot of one of an object's tables: `call!(ep, msg.send(ep, ...))`.
macro_rules! call {
    ($object:expr, $table:ident . $slot:ident ( $($argument:expr),* $(,)? )) => {{
        // SAFETY: the object is open, and the arguments are what its manual page demands, or what
        // it says is refused.
        unsafe { ((*(*$object).$table).$slot.expect("no slot is null"))($($argument),*) }
    }};
}
#[allow(unused_imports, reason = "as above")]
pub(crate) use call;

/// Closes any object; 0 or the negative error.
pub(crate) fn close<T>(object: *mut T) -> i32 {
    let fid = object.cast::<fi::fid>();
    call!(fid, ops.close(fid))
}

/// The provider.
pub(crate) fn provider() -> *mut fi::fi_provider {
    // SAFETY: this test is what libfabric would be.
    unsafe { wiglaf_fabric::prov::fi_prov_ini() }.cast()
}

/// What the provider offers at an address.
pub(crate) fn info(ip: Ipv4Addr) -> *mut fi::fi_info {
    let node = CString::new(ip.to_string()).expect("no zero byte");
    let mut info = ptr::null_mut();
    // SAFETY: a C string, null or room for an answer, as fi_getinfo(3) demands.
    let code = unsafe {
        ((*provider()).getinfo.expect("never null"))(
            API_VERSION,
            node.as_ptr(),
            ptr::null(),
            fi::FI_SOURCE,
            ptr::null(),
            &raw mut info,
        )
    };
    assert_eq!(code, 0, "getinfo");
    info
}

/// A fabric with a domain in it, and what it was opened from.
pub(crate) struct Home {
    pub(crate) info: *mut fi::fi_info,
    pub(crate) fabric: *mut fi::fid_fabric,
    pub(crate) domain: *mut fi::fid_domain,
}

// SAFETY: the provider may be called by any thread (FI_THREAD_SAFE).
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

impl Home {
    pub(crate) fn open(ip: Ipv4Addr) -> Self {
        Self::open_with(ip, |_| {})
    }

    /// Opens a fabric, and a domain in it with the attributes that `ask` has changed.
    pub(crate) fn open_with(ip: Ipv4Addr, ask: impl FnOnce(&mut fi::fi_domain_attr)) -> Self {
        let info = info(ip);
        // SAFETY: the provider has made the attributes, and nobody else has them.
        ask(unsafe { &mut *(*info).domain_attr });
        let (mut fabric, mut domain) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: attributes that the provider has made, and room for the handle.
        let code = unsafe {
            ((*provider()).fabric.expect("never null"))(
                (*info).fabric_attr,
                &raw mut fabric,
                ptr::null_mut(),
            )
        };
        assert_eq!(code, 0, "fabric");
        let opened = call!(fabric, ops.domain(fabric, info, &raw mut domain, ptr::null_mut()));
        assert_eq!(opened, 0, "domain");
        Self { info, fabric, domain }
    }

    pub(crate) fn cq(&self, format: fi::fi_cq_format) -> *mut fi::fid_cq {
        let mut attr = zeroed::<fi::fi_cq_attr>();
        attr.format = format;
        let mut cq = ptr::null_mut();
        let domain = self.domain;
        let opened =
            call!(domain, ops.cq_open(domain, &raw mut attr, &raw mut cq, ptr::null_mut()));
        assert_eq!(opened, 0, "cq_open");
        cq
    }

    pub(crate) fn av(&self) -> *mut fi::fid_av {
        let mut attr = zeroed::<fi::fi_av_attr>();
        let mut av = ptr::null_mut();
        let domain = self.domain;
        let opened =
            call!(domain, ops.av_open(domain, &raw mut attr, &raw mut av, ptr::null_mut()));
        assert_eq!(opened, 0, "av_open");
        av
    }

    pub(crate) fn cntr(&self) -> *mut fi::fid_cntr {
        let mut attr = zeroed::<fi::fi_cntr_attr>();
        let mut cntr = ptr::null_mut();
        let domain = self.domain;
        let opened =
            call!(domain, ops.cntr_open(domain, &raw mut attr, &raw mut cntr, ptr::null_mut()));
        assert_eq!(opened, 0, "cntr_open");
        cntr
    }

    pub(crate) fn eq(&self) -> *mut fi::fid_eq {
        let mut attr = zeroed::<fi::fi_eq_attr>();
        let mut eq = ptr::null_mut();
        let fabric = self.fabric;
        let opened =
            call!(fabric, ops.eq_open(fabric, &raw mut attr, &raw mut eq, ptr::null_mut()));
        assert_eq!(opened, 0, "eq_open");
        eq
    }

    pub(crate) fn ep(&self) -> *mut fi::fid_ep {
        let mut ep = ptr::null_mut();
        let domain = self.domain;
        let opened = call!(domain, ops.endpoint(domain, self.info, &raw mut ep, ptr::null_mut()));
        assert_eq!(opened, 0, "endpoint");
        ep
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // objects may still be open
        }
        assert_eq!(close(self.domain), 0, "domain");
        assert_eq!(close(self.fabric), 0, "fabric");
        free_info(self.info);
    }
}

/// What fi_freeinfo does.
pub(crate) fn free_info(info: *mut fi::fi_info) {
    // SAFETY: all parts of what getinfo made are null or made with the C allocator, and the objects
    // that were made of it are closed.
    unsafe {
        for part in [
            (*(*info).domain_attr).name.cast(),
            (*(*info).fabric_attr).name.cast(),
            (*info).src_addr,
            (*info).dest_addr,
            (*info).tx_attr.cast(),
            (*info).rx_attr.cast(),
            (*info).ep_attr.cast(),
            (*info).domain_attr.cast(),
            (*info).fabric_attr.cast(),
            info.cast(),
        ] {
            libc::free(part);
        }
    }
}

/// An enabled endpoint with a queue for each direction and a vector.
pub(crate) struct Side {
    pub(crate) ep: *mut fi::fid_ep,
    pub(crate) tx: *mut fi::fid_cq,
    pub(crate) rx: *mut fi::fid_cq,
    pub(crate) av: *mut fi::fid_av,
}

// SAFETY: as for `Home`.
unsafe impl Send for Side {}
// SAFETY: as for `Home`.
unsafe impl Sync for Side {}

impl Side {
    pub(crate) fn open(home: &Home) -> Self {
        let side = Self {
            ep: home.ep(),
            tx: home.cq(fi::FI_CQ_FORMAT_TAGGED),
            rx: home.cq(fi::FI_CQ_FORMAT_TAGGED),
            av: home.av(),
        };
        assert_eq!(bind(side.ep, side.av, 0), 0, "bind av");
        assert_eq!(bind(side.ep, side.tx, fi::FI_SEND), 0, "bind tx");
        assert_eq!(bind(side.ep, side.rx, fi::FI_RECV), 0, "bind rx");
        assert_eq!(enable(side.ep), 0, "enable");
        side
    }

    pub(crate) fn name(&self) -> [u8; 16] {
        let (mut name, mut len) = ([0; 16], 16);
        let fid = self.ep.cast::<fi::fid>();
        let code = call!(self.ep, cm.getname(fid, name.as_mut_ptr().cast(), &raw mut len));
        assert_eq!((code, len), (0, 16), "getname");
        name
    }

    pub(crate) fn insert(&self, name: &[u8; 16]) -> fi::fi_addr_t {
        let mut index = UNSPEC;
        let av = self.av;
        let name = name.as_ptr().cast();
        let inserted = call!(av, ops.insert(av, name, 1, &raw mut index, 0, ptr::null_mut()));
        assert_eq!(inserted, 1, "av_insert");
        index
    }

    /// Moves data without reading what completes.
    pub(crate) fn progress(&self) {
        for cq in [self.tx, self.rx] {
            call!(cq, ops.read(cq, ptr::null_mut(), 0));
        }
    }

    pub(crate) fn close(self) {
        assert_eq!(close(self.ep), 0, "ep");
        assert_eq!(close(self.tx), 0, "tx");
        assert_eq!(close(self.rx), 0, "rx");
        assert_eq!(close(self.av), 0, "av");
    }
}

/// Binds `other` to an endpoint; 0 or the negative error.
pub(crate) fn bind<T>(ep: *mut fi::fid_ep, other: *mut T, flags: u64) -> i32 {
    let fid = ep.cast::<fi::fid>();
    call!(fid, ops.bind(fid, other.cast(), flags))
}

/// Enables an endpoint; 0 or the negative error.
pub(crate) fn enable(ep: *mut fi::fid_ep) -> i32 {
    let fid = ep.cast::<fi::fid>();
    call!(fid, ops.control(fid, fi::FI_ENABLE, ptr::null_mut()))
}

/// A structure of C whose fields are numbers, pointers and slots.
pub(crate) fn zeroed<T>() -> T {
    // SAFETY: zero is a valid value of each such field.
    unsafe { std::mem::zeroed() }
}

/// Runs an ignored test of this program in a process of its own, where endpoints use `link`: the
/// environment is the same for all threads of a process.
pub(crate) fn in_child(test: &str, link: &str, environment: &[(&str, &str)]) {
    let this = std::env::current_exe().expect("a running test knows where it is");
    let output = Command::new("timeout")
        .arg("300")
        .arg(this)
        .args(["--exact", test, "--ignored", "--nocapture", "--test-threads=1"])
        .env("WIGLAF_LINK", link)
        .envs(environment.iter().copied())
        .output()
        .expect("run timeout");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success() && out.contains("1 passed"),
        "{test} over {link}: {}\n{out}\n{err}",
        output.status,
    );
    for line in err.lines().filter(|line| line.starts_with("skipped")) {
        eprintln!("{line}");
    }
}
