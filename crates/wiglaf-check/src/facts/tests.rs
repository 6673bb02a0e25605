use super::*;

#[test]
fn facts_of_this_host_survive_json_and_name_what_is_there() {
    let program = std::env::current_exe().unwrap();
    let ask = Ask {
        peers: vec![
            Peer { name: "localhost".to_owned(), address: Some(Ipv4Addr::LOCALHOST) },
            Peer { name: "no-such-host.invalid".to_owned(), address: None },
        ],
        folder: Some("/tmp".into()),
        files: vec![program.clone(), "/no/such/file".into(), "/dev/zero".into()],
        wiglaf: "1.2.3".to_owned(),
        ..Ask::default()
    };
    let facts = collect(&ask);
    let text = serde_json::to_string(&facts).unwrap();
    assert_eq!(serde_json::from_str::<Facts>(&text).unwrap(), facts);

    assert_eq!((&facts.schema[..], &facts.versions.wiglaf[..]), (SCHEMA, "1.2.3"));
    let uname = rustix::system::uname();
    assert_eq!(facts.versions.kernel, uname.release().to_string_lossy());
    let lo = facts.holding(Ipv4Addr::LOCALHOST).expect("every host has lo");
    assert!(lo.is_loopback && lo.is_up && lo.mtu > 0, "{lo:?}");
    let route = facts.route(Ipv4Addr::LOCALHOST).unwrap();
    assert_eq!(route.interface, Known::Is("lo".to_owned()));
    let name = facts.names.iter().find(|name| name.name == "localhost").unwrap();
    assert!(name.addresses.iter().any(is_loopback), "{name:?}");
    let name = facts.names.iter().find(|name| name.name.ends_with(".invalid")).unwrap();
    assert!(name.addresses.is_empty() && name.trouble.is_some(), "{name:?}");
    assert!(facts.folder.as_ref().unwrap().is.get().unwrap().writable);
    let program = facts.files[0].is.get().unwrap();
    assert!(program.executable && program.sha256.len() == 64, "{program:?}");
    assert_eq!(facts.files[1].is.reason(), Some("it does not exist"));
    assert_eq!(facts.files[2].is.reason(), Some("it is not a plain file"));
    assert!(facts.cpu.count > 0 && facts.memory.total > 0 && facts.limits.files.is_some());
    assert!(facts.clock.realtime_ns > 1_700_000_000_000_000_000);
    assert!(!facts.disks.is_empty() && facts.user.umask.is_some());
}

#[test]
fn what_another_version_says_or_leaves_out_is_read() {
    let facts: Facts = serde_json::from_str(r#"{"host":"pc9","news":1,"user":{"uid":7}}"#).unwrap();
    assert_eq!((&facts.host[..], facts.user.uid), ("pc9", 7));
    assert!(facts.interfaces.reason().unwrap().contains("nothing is said"));
}

#[test]
fn interfaces_of_another_network_are_those_of_that_network() {
    let Some(pair) = wiglaf_testnet::Pair::or_skip(9000) else { return };
    pair.a.ip(&["link", "set", wiglaf_testnet::INTERFACE, "mtu", "1500"]).unwrap();
    let peer = |address| Peer { name: String::new(), address: Some(address) };
    let elsewhere = Ipv4Addr::new(192, 0, 2, 1);
    let ask = Ask { peers: vec![peer(pair.b.ip), peer(elsewhere)], ..Ask::default() };
    let facts = pair.a.run(|| collect(&ask));
    let own = facts.holding(pair.a.ip).expect("the veth");
    assert_eq!((&own.name[..], own.mtu, own.kind.as_deref()), ("wl0", 1500, Some("veth")));
    assert_eq!(own.addresses, [(pair.a.ip, 24)]);
    assert_eq!((own.carrier, own.is_virtual, own.is_wireless), (Some(true), true, false));
    assert_eq!(own.card.speed_mbit, Known::Is(10_000), "what a veth pretends");
    assert!(own.card.offloads.get().is_some_and(|all| all.iter().any(|o| o.starts_with("tx-"))));
    assert_eq!(own.card.eee.reason(), Some("the driver does not tell"));
    let route = facts.route(pair.b.ip).unwrap();
    assert_eq!((&route.interface, route.source), (&Known::Is("wl0".to_owned()), Some(pair.a.ip)));
    let lost = facts.route(elsewhere).unwrap().interface.reason().unwrap();
    assert_eq!(lost, "there is no route to 192.0.2.1");
}

#[test]
fn a_device_counts_what_has_passed() {
    let Some(pair) = wiglaf_testnet::Pair::or_skip(1500) else { return };
    let before = pair.b.run(|| device_counts(pair.b.ip)).unwrap();
    pair.a.run(|| {
        let socket = std::net::UdpSocket::bind((pair.a.ip, 0)).unwrap();
        for _ in 0..10 {
            socket.send_to(b"x", (pair.b.ip, 9)).unwrap();
        }
    });
    // They wait until the other has told its address.
    let passed = || pair.b.run(|| device_counts(pair.b.ip)).unwrap().since(&before).rx_packets;
    let start = std::time::Instant::now();
    while passed() < 10 {
        assert!(start.elapsed().as_secs() < 60, "{} have passed", passed());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert!(pair.a.run(|| device_counts(pair.b.ip)).is_err(), "the address is the other's");
}
