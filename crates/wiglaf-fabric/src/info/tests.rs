use std::ptr;

use super::*;

/// Hints that an application fills in, as `fi_allocinfo` gives them.
struct Asked(*mut fi::fi_info);

impl Asked {
    fn new() -> Self {
        let everything = Offer::everything(0);
        let info = alloc::allocate(&everything).unwrap();
        // SAFETY: fresh from `allocate`; every attribute is there and zero is valid in each.
        unsafe {
            (*info).caps = 0;
            (*info).addr_format = 0;
            libc::free((*(*info).domain_attr).name.cast());
            libc::free((*(*info).fabric_attr).name.cast());
            (*info).tx_attr.write_bytes(0, 1);
            (*info).rx_attr.write_bytes(0, 1);
            (*info).ep_attr.write_bytes(0, 1);
            (*info).domain_attr.write_bytes(0, 1);
            (*info).fabric_attr.write_bytes(0, 1);
        }
        Self(info)
    }

    fn get(&mut self) -> &mut fi::fi_info {
        // SAFETY: owned by `self`.
        unsafe { &mut *self.0 }
    }
    fn tx(&mut self) -> &mut fi::fi_tx_attr {
        // SAFETY: owned by `self`, as in the following ones.
        unsafe { &mut *self.get().tx_attr }
    }
    fn ep(&mut self) -> &mut fi::fi_ep_attr {
        // SAFETY: see `tx`.
        unsafe { &mut *self.get().ep_attr }
    }
    fn domain(&mut self) -> &mut fi::fi_domain_attr {
        // SAFETY: see `tx`.
        unsafe { &mut *self.get().domain_attr }
    }

    fn negotiate(&self) -> Result<Offer, Refusal> {
        // SAFETY: owned by `self`, valid as long.
        let hints = unsafe { Hints::read(self.0) };
        negotiate(hints.as_ref(), 0x1_0005)
    }

    fn refused_for(&self) -> &'static str {
        self.negotiate().unwrap_err().0
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        // SAFETY: made by `allocate`, names freed with the rest or null.
        unsafe { alloc::free(self.0) };
    }
}

#[test]
fn no_hints_get_everything() {
    assert_eq!(negotiate(None, 7), Ok(Offer::everything(7)));
    assert_eq!(Asked::new().negotiate().unwrap().caps, CAPS);
}

#[test]
fn asked_capabilities_come_back_with_the_free_ones() {
    let mut asked = Asked::new();
    asked.get().caps = fi::FI_TAGGED | COMM | fi::FI_DIRECTED_RECV;
    let offer = asked.negotiate().unwrap();
    assert_eq!(offer.caps & (fi::FI_TAGGED | fi::FI_MSG), fi::FI_TAGGED);
    assert_eq!(offer.caps & SECONDARY, SECONDARY);
    assert_eq!(offer.caps & (fi::FI_SEND | fi::FI_RECV), fi::FI_SEND | fi::FI_RECV);
    assert_eq!(offer.tx_caps & fi::FI_RECV, 0);
    assert_eq!(offer.rx_caps & fi::FI_DIRECTED_RECV, fi::FI_DIRECTED_RECV);
}

#[test]
fn collective_operations_are_given_only_to_who_names_them() {
    for caps in [0, fi::FI_MSG | fi::FI_TAGGED] {
        let mut asked = Asked::new();
        asked.get().caps = caps;
        let offer = asked.negotiate().unwrap();
        let all = offer.caps | offer.tx_caps | offer.rx_caps;
        assert_eq!(all & fi::FI_COLLECTIVE, 0, "{caps:#x}");
    }
    for caps in [fi::FI_COLLECTIVE, fi::FI_COLLECTIVE | fi::FI_MSG] {
        let mut asked = Asked::new();
        asked.get().caps = caps;
        asked.tx().caps = fi::FI_COLLECTIVE;
        let offer = asked.negotiate().unwrap();
        let all = offer.caps & offer.tx_caps & offer.rx_caps;
        assert_eq!(all & fi::FI_COLLECTIVE, fi::FI_COLLECTIVE);
        assert_eq!(offer.caps & PRIMARY, caps & PRIMARY);
    }
}

#[test]
fn what_is_not_offered_is_refused() {
    for caps in [fi::FI_HMEM, fi::FI_TAGGED | fi::FI_FENCE, fi::FI_RMA | fi::FI_TRIGGER] {
        let mut asked = Asked::new();
        asked.get().caps = caps;
        assert_eq!(asked.refused_for(), "caps", "{caps:#x}");
    }
    let mut asked = Asked::new();
    asked.get().addr_format = fi::FI_SOCKADDR_IN6;
    assert_eq!(asked.refused_for(), "addr_format");
    for kind in [fi::FI_EP_MSG, fi::FI_EP_DGRAM] {
        let mut asked = Asked::new();
        asked.ep().type_ = kind;
        assert_eq!(asked.refused_for(), "endpoint type");
    }
    let mut asked = Asked::new();
    asked.ep().tx_ctx_cnt = 2;
    assert_eq!(asked.refused_for(), "tx_ctx_cnt");
    let mut asked = Asked::new();
    asked.tx().inject_size = INJECT_LEN + 1;
    assert_eq!(asked.refused_for(), "inject_size");
    let mut asked = Asked::new();
    asked.tx().msg_order = fi::FI_ORDER_SAS | fi::FI_ORDER_RAS;
    assert_eq!(asked.refused_for(), "tx_attr msg_order");
}

#[test]
fn threading_and_av_type_are_as_asked() {
    for threading in fi::FI_THREAD_SAFE..=fi::FI_THREAD_ENDPOINT {
        let mut asked = Asked::new();
        asked.domain().threading = threading;
        asked.domain().av_type = fi::FI_AV_MAP;
        let offer = asked.negotiate().unwrap();
        assert_eq!((offer.threading, offer.av_type), (threading, fi::FI_AV_MAP));
    }
}

#[test]
fn data_moves_by_itself_only_for_who_asks() {
    assert_eq!(Asked::new().negotiate().unwrap().data_progress, fi::FI_PROGRESS_MANUAL);
    let mut asked = Asked::new();
    asked.domain().data_progress = fi::FI_PROGRESS_AUTO;
    assert_eq!(asked.negotiate().unwrap().data_progress, fi::FI_PROGRESS_AUTO);
}

#[test]
fn directions_have_no_capabilities_of_the_domain() {
    let offer = negotiate(None, 7).unwrap();
    assert_eq!((offer.caps & COMM, (offer.tx_caps | offer.rx_caps) & COMM), (COMM, 0));
}

#[test]
fn what_mpich_never_relaxes_is_accepted() {
    let mut asked = Asked::new();
    asked.tx().op_flags = fi::FI_COMPLETION | fi::FI_DELIVERY_COMPLETE;
    assert_eq!(asked.negotiate().unwrap().tx_op_flags, asked.tx().op_flags);
}

#[test]
fn names_must_be_ours() {
    for (name, fits) in [(c"wiglaf", true), (c"^tcp", true), (c"tcp", false), (c"", false)] {
        let mut asked = Asked::new();
        let copy = name.to_owned().into_raw();
        // SAFETY: the structure is owned by `asked`; the name is taken out again below.
        unsafe { (*asked.get().fabric_attr).prov_name = copy };
        assert_eq!(asked.negotiate().is_ok(), fits, "{name:?}");
        // SAFETY: the pointer came from `into_raw`.
        unsafe {
            (*asked.get().fabric_attr).prov_name = ptr::null_mut();
            drop(std::ffi::CString::from_raw(copy));
        }
    }
}

#[test]
fn node_and_service_become_addresses() {
    let ask = |node: Option<&CStr>, service: Option<&CStr>, flags| {
        let mut info = ptr::null_mut();
        let text = |text: Option<&CStr>| text.map_or(ptr::null(), CStr::as_ptr);
        // SAFETY: C strings or null, no hints, and a place for the answer.
        let code = unsafe {
            getinfo(0x1_0011, text(node), text(service), flags, ptr::null(), &raw mut info)
        };
        if code != 0 {
            return Err(code);
        }
        // SAFETY: the answer is ours, and read before it is released.
        unsafe {
            let read = |at, len| addr::read(at, len).ok().map(|address: Address| address.at);
            let answer = (
                read((*info).src_addr, (*info).src_addrlen),
                read((*info).dest_addr, (*info).dest_addrlen),
            );
            alloc::free(info);
            Ok(answer)
        }
    };
    let at = |text: &str| Some(text.parse().unwrap());
    // Its own address is told unasked, whichever that is here.
    let own = own_address(Ipv4Addr::UNSPECIFIED).map(|address| address.at);
    assert_eq!(own.map(|at| (at.port(), at.ip().is_unspecified())), Some((0, false)));
    assert_eq!(ask(None, None, 0), Ok((own, None)));
    let (node, port) = (Some(c"127.0.0.1"), Some(c"4711"));
    assert_eq!(ask(node, port, fi::FI_SOURCE), Ok((at("127.0.0.1:4711"), None)));
    assert_eq!(ask(node, port, 0), Ok((own, at("127.0.0.1:4711"))));
    assert_eq!(ask(None, port, fi::FI_SOURCE), Ok((at("0.0.0.0:4711"), None)));
    assert_eq!(ask(Some(c"::1"), port, fi::FI_NUMERICHOST), Err(-fi::FI_ENODATA));
}

#[test]
fn a_null_answer_is_refused() {
    // SAFETY: null is what the function is to refuse.
    let code = unsafe { getinfo(0, ptr::null(), ptr::null(), 0, ptr::null(), ptr::null_mut()) };
    assert_eq!(code, -fi::FI_EINVAL);
}
