//! Address vectors: many addresses, and garbage.

#[path = "common/ops.rs"]
mod ops;

use std::net::Ipv4Addr;
use std::ptr;

use ops::{Home, UNSPEC, call, fi};
use proptest::collection::vec;
use proptest::prelude::*;

const MANY: usize = 10_000;

fn address(n: usize) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&4711u16.to_be_bytes());
    bytes[4..8].copy_from_slice(&(0x0a00_0001 + n as u32).to_be_bytes());
    bytes[8..].copy_from_slice(&(n as u64 + 1).to_be_bytes());
    bytes
}

fn open(home: &Home, count: usize) -> *mut fi::fid_av {
    let (mut attr, mut av) = (ops::zeroed::<fi::fi_av_attr>(), ptr::null_mut());
    attr.count = count;
    let domain = home.domain;
    let code = call!(domain, ops.av_open(domain, &raw mut attr, &raw mut av, ptr::null_mut()));
    assert_eq!((code, attr.type_), (0, fi::FI_AV_TABLE));
    av
}

fn look_up(av: *mut fi::fid_av, index: fi::fi_addr_t) -> Result<[u8; 16], i32> {
    let (mut bytes, mut len) = ([0; 16], 16);
    match call!(av, ops.lookup(av, index, bytes.as_mut_ptr().cast(), &raw mut len)) {
        0 => Ok(bytes),
        code => Err(code),
    }
}

fn text(av: *mut fi::fid_av, address: &[u8; 16]) -> Option<String> {
    let (mut buf, mut len) = ([0u8; 64], 64);
    let at = address.as_ptr().cast();
    let told = call!(av, ops.straddr(av, at, buf.as_mut_ptr().cast(), &raw mut len));
    (!told.is_null()).then(|| String::from_utf8_lossy(&buf[..len - 1]).into_owned())
}

#[test]
fn ten_thousand_addresses() {
    let home = Home::open(Ipv4Addr::LOCALHOST);
    // A hint may be wrong in both directions, and absurd.
    for hint in [0, 1, MANY, usize::MAX] {
        let av = open(&home, hint);
        let all: Vec<u8> = (0..MANY).flat_map(address).collect();
        let mut indices = vec![UNSPEC; MANY];
        let at = all.as_ptr().cast();
        let indices_at = indices.as_mut_ptr();
        let inserted = call!(av, ops.insert(av, at, MANY, indices_at, 0, ptr::null_mut()));
        assert_eq!(inserted as usize, MANY);
        for (n, &index) in indices.iter().enumerate() {
            assert_eq!((index, look_up(av, index)), (n as u64, Ok(address(n))));
        }
        assert_eq!(text(av, &address(258)).as_deref(), Some("fi_sockaddr_in://10.0.1.3:4711"));
        let removed = call!(av, ops.remove(av, indices.as_mut_ptr(), MANY / 2, 0));
        assert_eq!(removed, 0);
        assert_eq!(look_up(av, 0), Err(-fi::FI_EINVAL));
        assert_eq!(look_up(av, MANY as u64 / 2), Ok(address(MANY / 2)));
        assert_eq!(call!(av, ops.remove(av, indices.as_mut_ptr(), 1, 0)), -fi::FI_EINVAL);
        // An index is not given again: an endpoint may still remember it.
        let (again, mut index) = (address(0), UNSPEC);
        let at = again.as_ptr().cast();
        call!(av, ops.insert(av, at, 1, &raw mut index, 0, ptr::null_mut()));
        assert_eq!(index, MANY as u64);
        assert_eq!(ops::close(av), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes are inserted or refused; what was inserted comes back, and can be sent to.
    #[test]
    fn any_bytes(family in prop_oneof![Just(libc::AF_INET as u16), any::<u16>()],
                 tail in vec(any::<[u8; 14]>(), 1..40)) {
        let home = Home::open(Ipv4Addr::LOCALHOST);
        let av = open(&home, tail.len());
        let mut bytes = Vec::new();
        for tail in &tail {
            bytes.extend_from_slice(&family.to_ne_bytes());
            bytes.extend_from_slice(tail);
        }
        let (mut indices, mut errors) = (vec![7; tail.len()], vec![-1; tail.len()]);
        let inserted = call!(av, ops.insert(
            av,
            bytes.as_ptr().cast(),
            tail.len(),
            indices.as_mut_ptr(),
            fi::FI_SYNC_ERR,
            errors.as_mut_ptr().cast(),
        ));
        let mut fit = 0;
        for (n, tail) in tail.iter().enumerate() {
            let is_ip = family == libc::AF_INET as u16;
            let somewhere = tail[..2] != [0, 0] && tail[2..6] != [0; 4] && tail[2..6] != [255; 4];
            if is_ip && somewhere {
                prop_assert_eq!((indices[n], errors[n]), (fit, 0));
                let back = look_up(av, fit).expect("just inserted");
                prop_assert_eq!(&back[2..], &tail[..]);
                fit += 1;
            } else {
                prop_assert_eq!((indices[n], errors[n]), (UNSPEC, fi::FI_EINVAL));
            }
        }
        prop_assert_eq!(inserted as u64, fit);
        prop_assert_eq!(ops::close(av), 0);
    }
}
