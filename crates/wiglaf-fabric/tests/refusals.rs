//! What the provider does not do, and what cannot be meant: the error code, and the reason under
//! `FI_LOG_LEVEL=warn`. And that there is a function behind every slot of every table.

#[path = "common/ops.rs"]
mod ops;

use std::net::Ipv4Addr;
use std::process::Command;
use std::ptr;

use ops::{Home, Side, UNSPEC, call, fi};

/// A refused call: the words that its reason must hold, and its answer.
type Refused = (&'static str, i32, fn(&Home, &Side) -> isize);

fn cq_open(home: &Home, change: impl Fn(&mut fi::fi_cq_attr)) -> isize {
    let (mut attr, mut cq) = (ops::zeroed(), ptr::null_mut());
    change(&mut attr);
    let domain = home.domain;
    call!(domain, ops.cq_open(domain, &raw mut attr, &raw mut cq, ptr::null_mut())) as isize
}

fn av_open(home: &Home, change: impl Fn(&mut fi::fi_av_attr)) -> isize {
    let (mut attr, mut av) = (ops::zeroed(), ptr::null_mut());
    change(&mut attr);
    let domain = home.domain;
    call!(domain, ops.av_open(domain, &raw mut attr, &raw mut av, ptr::null_mut())) as isize
}

fn cntr_open(home: &Home, change: impl Fn(&mut fi::fi_cntr_attr)) -> isize {
    let (mut attr, mut cntr) = (ops::zeroed(), ptr::null_mut());
    change(&mut attr);
    let domain = home.domain;
    call!(domain, ops.cntr_open(domain, &raw mut attr, &raw mut cntr, ptr::null_mut())) as isize
}

/// Opens a poll set for the time of a call.
fn with_set(home: &Home, call: impl FnOnce(*mut fi::fid_poll) -> i32) -> isize {
    let (mut attr, mut set) = (ops::zeroed(), ptr::null_mut());
    let domain = home.domain;
    assert_eq!(call!(domain, ops.poll_open(domain, &raw mut attr, &raw mut set)), 0);
    let code = call(set);
    assert_eq!(ops::close(set), 0);
    code as isize
}

fn try_wait(home: &Home, mut object: *mut fi::fid) -> isize {
    call!(home.fabric, ops.trywait(home.fabric, &raw mut object, 1)) as isize
}

/// Exposes a byte that nobody reaches for under that key.
fn region(home: &Home, key: u64) -> (isize, *mut fi::fid_mr) {
    let (domain, mut mr, none) = (home.domain, ptr::null_mut(), ptr::null_mut());
    let (fid, at) = (domain.cast::<fi::fid>(), ptr::without_provenance(4096));
    let access = fi::FI_REMOTE_READ;
    let code = call!(domain, mr.reg(fid, at, 1, access, 0, key, 0, &raw mut mr, none));
    (code as isize, mr)
}

/// Opening objects, and taking them apart in the wrong order.
const OBJECTS: &[Refused] = &[
    ("wait object 2", -fi::FI_ENOSYS, |home, _| {
        cq_open(home, |attr| attr.wait_obj = fi::FI_WAIT_SET)
    }),
    ("another provider owns", -fi::FI_ENOSYS, |home, _| {
        cq_open(home, |attr| attr.flags = fi::FI_PEER)
    }),
    ("no format 99", -fi::FI_EINVAL, |home, _| cq_open(home, |attr| attr.format = 99)),
    ("shared by name", -fi::FI_ENOSYS, |home, _| {
        av_open(home, |attr| attr.name = c"FI_NAMED_AV_0".as_ptr())
    }),
    ("flags 0x10000", -fi::FI_ENOSYS, |home, _| av_open(home, |attr| attr.flags = fi::FI_EVENT)),
    ("no type 77", -fi::FI_EINVAL, |home, _| av_open(home, |attr| attr.type_ = 77)),
    ("one receive context", -fi::FI_EINVAL, |home, _| av_open(home, |attr| attr.rx_ctx_bits = 4)),
    ("counts completions", -fi::FI_EINVAL, |home, _| cntr_open(home, |attr| attr.events = 9)),
    ("cntr_open: wait object", -fi::FI_ENOSYS, |home, _| {
        cntr_open(home, |attr| attr.wait_obj = fi::FI_WAIT_MUTEX_COND)
    }),
    ("scalable_ep is not offered", -fi::FI_ENOSYS, |home, _| {
        let (domain, mut ep) = (home.domain, ptr::null_mut());
        call!(domain, ops.scalable_ep(domain, home.info, &raw mut ep, ptr::null_mut())) as isize
    }),
    ("endpoint2: flags 0x1", -fi::FI_EBADFLAGS, |home, _| {
        let (domain, mut ep) = (home.domain, ptr::null_mut());
        call!(domain, ops.endpoint2(domain, home.info, &raw mut ep, 1, ptr::null_mut())) as isize
    }),
    ("domain is still in use", -fi::FI_EBUSY, |home, _| ops::close(home.domain) as isize),
    ("fabric is still in use", -fi::FI_EBUSY, |home, _| ops::close(home.fabric) as isize),
    ("completion queue is still in use", -fi::FI_EBUSY, |_, side| ops::close(side.rx) as isize),
    ("address vector is still in use", -fi::FI_EBUSY, |_, side| ops::close(side.av) as isize),
    ("flags or capabilities 0x1", -fi::FI_EINVAL, |home, side| {
        with_set(home, |set| call!(set, ops.poll_add(set, side.rx.cast(), 1)))
    }),
    ("poll_add: a set takes no object of class", -fi::FI_EINVAL, |home, side| {
        with_set(home, |set| call!(set, ops.poll_add(set, side.av.cast(), 0)))
    }),
    ("nobody waits for objects of class", -fi::FI_EINVAL, |home, side| {
        try_wait(home, side.av.cast())
    }),
];

/// Binding, enabling, options.
const ENDPOINTS: &[Refused] = &[
    ("no address vector is bound", -fi::FI_ENOAV, |home, _| {
        let ep = home.ep();
        let code = ops::enable(ep);
        assert_eq!(ops::close(ep), 0);
        code as isize
    }),
    ("no completion queue and no counter", -fi::FI_ENOCQ, |home, side| {
        let ep = home.ep();
        assert_eq!(ops::bind(ep, side.av, 0), 0);
        let code = ops::enable(ep);
        assert_eq!(ops::close(ep), 0);
        code as isize
    }),
    ("has an address vector already", -fi::FI_EINVAL, |home, side| {
        let ep = home.ep();
        assert_eq!(ops::bind(ep, side.av, 0), 0);
        let code = ops::bind(ep, side.av, 0);
        assert_eq!(ops::close(ep), 0);
        code as isize
    }),
    ("belongs to another domain", -fi::FI_EDOMAIN, |_, side| {
        let elsewhere = Home::open(Ipv4Addr::LOCALHOST);
        let ep = elsewhere.ep();
        let code = ops::bind(ep, side.av, 0);
        assert_eq!(ops::close(ep), 0);
        code as isize
    }),
    ("needs FI_TRANSMIT or FI_RECV", -fi::FI_EINVAL, |home, side| {
        let ep = home.ep();
        let code = ops::bind(ep, side.rx, 0);
        assert_eq!(ops::close(ep), 0);
        code as isize
    }),
    ("no object of class", -fi::FI_EINVAL, |home, _| {
        let ep = home.ep();
        let code = ops::bind(ep, home.domain, 0);
        assert_eq!(ops::close(ep), 0);
        code as isize
    }),
    ("bind: the endpoint is enabled already", -fi::FI_EOPBADSTATE, |_, side| {
        ops::bind(side.ep, side.rx, fi::FI_RECV) as isize
    }),
    ("enable: the endpoint is enabled already", -fi::FI_EOPBADSTATE, |_, side| {
        ops::enable(side.ep) as isize
    }),
    ("command 12345", -fi::FI_ENOSYS, |_, side| {
        let fid = side.ep.cast::<fi::fid>();
        call!(fid, ops.control(fid, 12345, ptr::null_mut())) as isize
    }),
    ("option 77", -fi::FI_ENOPROTOOPT, |_, side| {
        let value = 1usize;
        let fid = side.ep.cast();
        let at = (&raw const value).cast();
        call!(side.ep, ops.setopt(fid, fi::FI_OPT_ENDPOINT as i32, 77, at, 8)) as isize
    }),
    ("tx_size_left is not offered", -fi::FI_ENOSYS, |_, side| {
        call!(side.ep, ops.tx_size_left(side.ep))
    }),
    ("connect is not offered", -fi::FI_ENOSYS, |_, side| {
        call!(side.ep, cm.connect(side.ep, ptr::null(), ptr::null(), 0)) as isize
    }),
    ("without capability 0x40", -fi::FI_EOPNOTSUPP, |_, side| {
        call!(side.ep, collective.barrier(side.ep, 0, ptr::null_mut()))
    }),
    ("join: multicast groups", -fi::FI_ENOSYS, |_, side| {
        let (mut mc, none): (*mut fi::fid_mc, _) = (ptr::null_mut(), ptr::null_mut());
        let at = (&raw const mc).cast();
        call!(side.ep, cm.join(side.ep, at, fi::FI_SEND, &raw mut mc, none)) as isize
    }),
];

/// Messages and addresses.
const CALLS: &[Refused] = &[
    ("flags 0x200000 of a message", -fi::FI_EBADFLAGS, |_, side| {
        let msg = ops::zeroed::<fi::fi_msg>();
        call!(side.ep, msg.sendmsg(side.ep, &raw const msg, fi::FI_FENCE))
    }),
    ("2000 bytes are too long", -fi::FI_EMSGSIZE, |_, side| {
        let (name, buf) = (side.name(), [0u8; 2000]);
        let to = side.insert(&name);
        call!(side.ep, msg.inject(side.ep, buf.as_ptr().cast(), buf.len(), to))
    }),
    ("no address 4711", -fi::FI_EINVAL, |_, side| {
        call!(side.ep, msg.inject(side.ep, ptr::null(), 0, 4711))
    }),
    ("5 bytes is null", -fi::FI_EINVAL, |_, side| {
        let (ep, none) = (side.ep, ptr::null_mut());
        call!(ep, tagged.recv(ep, none, 5, none, UNSPEC, 0, 0, none))
    }),
    ("9 pieces, more than 4", -fi::FI_EINVAL, |_, side| {
        let iov = [libc::iovec { iov_base: ptr::null_mut(), iov_len: 0 }; 9];
        let (ep, none) = (side.ep, ptr::null_mut());
        call!(ep, msg.recvv(ep, iov.as_ptr(), ptr::null_mut(), iov.len(), UNSPEC, none))
    }),
    ("vector of 2 pieces is null", -fi::FI_EINVAL, |_, side| {
        let (ep, none) = (side.ep, ptr::null_mut());
        call!(ep, msg.recvv(ep, ptr::null(), ptr::null_mut(), 2, UNSPEC, none))
    }),
    ("a handle is null", -fi::FI_EINVAL, |_, side| {
        call!(side.ep, msg.inject(ptr::null_mut(), ptr::null(), 0, 0))
    }),
    ("a handle is of class", -fi::FI_EINVAL, |_, side| {
        call!(side.ep, msg.inject(side.rx.cast(), ptr::null(), 0, 0))
    }),
    ("a pointer is null", -fi::FI_EINVAL, |_, side| {
        call!(side.rx, ops.readerr(side.rx, ptr::null_mut(), 0))
    }),
    ("is not a sockaddr_in", 0, |_, side| {
        let garbage = [0xffu8; 16];
        let (av, at) = (side.av, garbage.as_ptr().cast());
        call!(av, ops.insert(av, at, 1, ptr::null_mut(), 0, ptr::null_mut())) as isize
    }),
    ("nobody can be at 0.0.0.0:0", 0, |_, side| {
        let mut nowhere = [0u8; 16];
        nowhere[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
        let (av, at) = (side.av, nowhere.as_ptr().cast());
        call!(av, ops.insert(av, at, 1, ptr::null_mut(), 0, ptr::null_mut())) as isize
    }),
    ("has the key 77", -fi::FI_ENOKEY, |home, _| {
        let first = region(home, 77);
        assert_eq!(first.0, 0);
        let second = region(home, 77);
        assert_eq!(ops::close(first.1), 0);
        second.0
    }),
    ("av_set: flags 0x1", -fi::FI_EBADFLAGS, |_, side| {
        let mut attr = fi::fi_av_set_attr { flags: 1, ..ops::zeroed() };
        let (mut set, none) = (ptr::null_mut(), ptr::null_mut());
        call!(side.av, ops.av_set(side.av, &raw mut attr, &raw mut set, none)) as isize
    }),
    ("there is no collective operation 99", -fi::FI_EOPNOTSUPP, |home, _| {
        let (domain, mut attr) = (home.domain, ops::zeroed());
        call!(domain, ops.query_collective(domain, 99, &raw mut attr, 0)) as isize
    }),
    ("insertsym is not offered", -fi::FI_ENOSYS, |_, side| {
        let (av, none) = (side.av, ptr::null());
        call!(av, ops.insertsym(av, none, 1, none, 1, ptr::null_mut(), 0, ptr::null_mut())) as isize
    }),
];

const GROUPS: [&[Refused]; 3] = [OBJECTS, ENDPOINTS, CALLS];

#[test]
#[ignore = "run by the test below, which reads what it logs"]
fn refused() {
    let group: usize = std::env::var("WIGLAF_GROUP").expect("set").parse().expect("a number");
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let side = Side::open(&home);
    for (words, code, call) in GROUPS[group] {
        eprintln!("== {words}");
        assert_eq!(call(&home, &side), *code as isize, "{words}");
    }
    eprintln!("== end");
    side.close();
}

#[test]
fn a_refusal_says_why() {
    for (group, refused) in GROUPS.iter().enumerate() {
        // A log is cut at 20 lines a second.
        assert!(refused.len() < 20);
        let output = Command::new(std::env::current_exe().expect("a test knows where it is"))
            .args(["--exact", "refused", "--ignored", "--nocapture"])
            .env("FI_LOG_LEVEL", "warn")
            .env("WIGLAF_GROUP", group.to_string())
            .output()
            .expect("run this test");
        let log = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{log}");
        for (words, ..) in *refused {
            let told = log.split("== ").find(|part| part.starts_with(words)).unwrap_or_default();
            let reason = told.lines().nth(1).unwrap_or_default();
            assert!(reason.starts_with("wiglaf[") && reason.contains(words), "{words}: {told:?}");
        }
    }
}

/// Without `FI_LOG_LEVEL` the same calls say nothing: applications try what is there.
#[test]
fn a_refusal_is_silent_by_default() {
    let output = Command::new(std::env::current_exe().expect("a test knows where it is"))
        .args(["--exact", "refused", "--ignored", "--nocapture"])
        .env_remove("FI_LOG_LEVEL")
        .env("WIGLAF_GROUP", "2")
        .output()
        .expect("run this test");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !log.contains("wiglaf["), "{log}");
}

#[test]
#[ignore = "run by the test below, which reads what it logs"]
fn known() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let side = Side::open(&home);
    let (cntr, eq) = (home.cntr(), home.eq());
    for object in [side.rx.cast::<fi::fid>(), cntr.cast()] {
        let code = with_set(&home, |set| {
            call!(set, ops.poll_add(set, object, 0)) + call!(set, ops.poll_del(set, object, 0))
        });
        assert_eq!(code, 0);
    }
    for object in [side.rx.cast::<fi::fid>(), cntr.cast(), eq.cast()] {
        assert_eq!(try_wait(&home, object), 0);
    }
    assert_eq!((ops::close(cntr), ops::close(eq)), (0, 0));
    side.close();
}

/// A call that takes several kinds of objects tells them apart without a warning.
#[test]
fn a_kind_that_is_known_is_not_complained_of() {
    let output = Command::new(std::env::current_exe().expect("a test knows where it is"))
        .args(["--exact", "known", "--ignored", "--nocapture"])
        .env("FI_LOG_LEVEL", "warn")
        .output()
        .expect("run this test");
    let log = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && !log.contains("wiglaf["), "{log}");
}

/// Asserts that every slot behind the table's size is a function.
fn whole<T>(name: &str, table: *const T) -> usize {
    assert!(!table.is_null(), "{name}");
    let table = table.cast::<usize>();
    // SAFETY: each table begins with its size in bytes, and consists of pointers behind it.
    unsafe {
        let slots = table.read() / size_of::<usize>();
        assert_eq!(slots, size_of::<T>() / size_of::<usize>(), "{name}: its size");
        for slot in 1..slots {
            assert_ne!(table.add(slot).read(), 0, "{name}: slot {slot} is null");
        }
        slots - 1
    }
}

#[test]
fn no_slot_of_any_table_is_null() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    let side = Side::open(&home);
    let (cntr, eq, mut mr) = (home.cntr(), home.eq(), ptr::null_mut());
    let (domain, mut byte) = (home.domain, 0u8);
    let fid = domain.cast::<fi::fid>();
    let buf = (&raw mut byte).cast();
    let context = ptr::null_mut();
    let code = call!(domain, mr.reg(fid, buf, 1, fi::FI_SEND, 0, 1, 0, &raw mut mr, context));
    assert_eq!(code, 0);
    let mut attr = fi::fi_av_set_attr { flags: fi::FI_UNIVERSE, ..ops::zeroed() };
    let (av, mut set) = (side.av, ptr::null_mut());
    assert_eq!(call!(av, ops.av_set(av, &raw mut attr, &raw mut set, context)), 0);
    let mut slots = 0;
    for (name, object) in [
        ("fabric", home.fabric.cast::<fi::fid>()),
        ("domain", domain.cast()),
        ("ep", side.ep.cast()),
        ("cq", side.rx.cast()),
        ("av", side.av.cast()),
        ("cntr", cntr.cast()),
        ("eq", eq.cast()),
        ("mr", mr.cast()),
    ] {
        // SAFETY: all of them are open.
        slots += whole(&format!("{name}: fid"), unsafe { (*object).ops });
    }
    // SAFETY: as above.
    unsafe {
        slots += whole("fabric", (*home.fabric).ops);
        slots += whole("domain", (*domain).ops) + whole("domain: mr", (*domain).mr);
        slots += whole("av", (*side.av).ops) + whole("cq", (*side.rx).ops);
        slots += whole("cntr", (*cntr).ops) + whole("eq", (*eq).ops);
        let ep = &*side.ep;
        slots += whole("ep", ep.ops) + whole("cm", ep.cm) + whole("msg", ep.msg);
        slots += whole("rma", ep.rma) + whole("tagged", ep.tagged) + whole("atomic", ep.atomic);
        slots += whole("collective", ep.collective);
        slots += whole("av_set", (*set).ops) + whole("av_set: fid", (*set).fid.ops);
    }
    assert!(slots > 150, "{slots} slots are too few to be all");
    for object in [cntr.cast::<fi::fid>(), eq.cast(), mr.cast(), set.cast()] {
        assert_eq!(ops::close(object), 0);
    }
    side.close();
}

/// What waits for a bound event queue keeps it open.
#[test]
fn a_bound_event_queue_is_busy() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    for bound in ["av", "domain", "ep"] {
        let eq = home.eq();
        let object: *mut fi::fid = match bound {
            "av" => home.av().cast(),
            "domain" => home.domain.cast(),
            _ => home.ep().cast(),
        };
        assert_eq!(call!(object, ops.bind(object, eq.cast(), 0)), 0, "{bound}");
        assert_eq!(ops::close(eq), -fi::FI_EBUSY, "{bound}");
        if bound == "domain" {
            assert_eq!(ops::close(home.domain), 0);
            assert_eq!(ops::close(eq), 0);
            assert_eq!(ops::close(home.fabric), 0);
            ops::free_info(home.info);
            std::mem::forget(home);
            return;
        }
        assert_eq!(ops::close(object), 0);
        assert_eq!(ops::close(eq), 0, "{bound}");
    }
}
