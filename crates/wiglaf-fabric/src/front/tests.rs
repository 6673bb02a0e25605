use super::*;

fn environment(providers: &str, hooked: bool) -> Environment {
    let providers = (!providers.is_empty()).then(|| providers.into());
    Environment { providers, hooked }
}

#[test]
fn a_query_is_ours_where_wiglaf_alone_is_meant() {
    let cases = [
        ("", None, Who::Wiglaf),
        ("", Some(c"wiglaf"), Who::Wiglaf),
        ("", Some(c"Wiglaf"), Who::Wiglaf),
        ("", Some(c"tcp"), Who::System),
        ("", Some(c"tcp;ofi_rxm"), Who::System),
        ("", Some(c"wiglaf;ofi_rxm"), Who::System),
        ("", Some(c"^shm"), Who::System),
        ("wiglaf", None, Who::Wiglaf),
        ("wiglaf", Some(c"tcp"), Who::Wiglaf),
        ("tcp", None, Who::System),
        ("tcp", Some(c"wiglaf"), Who::System),
        ("tcp,wiglaf", None, Who::System),
        ("^wiglaf", None, Who::System),
    ];
    for (providers, asked, who) in cases {
        assert_eq!(environment(providers, false).who(asked), who, "{providers} {asked:?}");
        assert_eq!(environment(providers, true).who(asked), Who::System);
    }
    assert_eq!(environment("", false).opens(c"wiglaf"), Who::Wiglaf);
    assert_eq!(environment("", false).opens(c"tcp"), Who::System);
    assert_eq!(environment("", true).opens(c"wiglaf"), Who::System);
}

#[test]
fn a_copy_shares_nothing() {
    // SAFETY: lists of this module's making, each freed once; parts are there where they are used.
    unsafe {
        let from = lists::copy(ptr::null()).unwrap();
        (*from).caps = fi::FI_TAGGED;
        (*(*from).domain_attr).name = lists::copy_text(c"a domain".as_ptr()).unwrap();
        (*(*from).domain_attr).mr_iov_limit = 7;
        (*(*from).fabric_attr).prov_name = lists::copy_text(c"somebody".as_ptr()).unwrap();
        (*(*from).ep_attr).auth_key = lists::copy_text(c"key".as_ptr()).unwrap().cast();
        (*(*from).ep_attr).auth_key_size = 4;
        (*from).next = lists::copy(ptr::null()).unwrap();
        let copy = dupinfo(from);
        freeinfo(from);
        assert!((*copy).next.is_null() && (*copy).src_addr.is_null() && (*copy).nic.is_null());
        assert_eq!((*copy).caps, fi::FI_TAGGED);
        assert_eq!((*(*copy).domain_attr).mr_iov_limit, 7);
        assert_eq!(CStr::from_ptr((*(*copy).domain_attr).name), c"a domain");
        assert_eq!(CStr::from_ptr((*(*copy).fabric_attr).prov_name), c"somebody");
        assert_eq!(CStr::from_ptr((*(*copy).ep_attr).auth_key.cast()), c"key");
        freeinfo(copy);
        freeinfo(ptr::null_mut());
    }
}

#[test]
fn every_error_has_words() {
    for number in [0, 1, -1, fi::FI_EOTHER, fi::FI_ETRUNC, -fi::FI_ENORX, 270, i32::MAX, i32::MIN] {
        // SAFETY: it answers a C string.
        assert!(!unsafe { CStr::from_ptr(strerror(number)) }.is_empty(), "{number}");
    }
}
