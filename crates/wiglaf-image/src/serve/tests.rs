use super::*;

const FILE: &str = "nodes = \"pc1\"\n[network]\ndata = \"192.168.77.0/24\"\n[image.admit.pc5]\n\
                    mac = \"52:54:00:00:00:05\"\ndisk = \"WD-1\"\naddress = \"192.168.77.15\"\n\
                    [image.admit.pc6]\nmac = \"52:54:00:00:00:06\"\n";

fn serving(folder: &Path) -> (Serving, Arc<Mutex<Vec<String>>>) {
    let hosts = Hosts::parse(FILE, &folder.join("cluster.toml")).unwrap();
    let image = folder.join("node.img");
    for (name, text) in [("img", "image"), ("vmlinuz", "kernel"), ("initrd", "initrd")] {
        fs::write(image.with_extension(name), text).unwrap();
    }
    let said = Arc::new(Mutex::new(Vec::new()));
    let copy = Arc::clone(&said);
    let plan = ServePlan {
        interface: "lo".to_owned(),
        address: Ipv4Addr::LOCALHOST,
        dnsmasq: String::new(),
        admitted: Vec::new(),
        options: ServeOptions { image, port: 8077, again: Vec::new() },
        hosts: hosts.clone(),
        image_bytes: 5,
    };
    let serving = Serving {
        plan,
        hosts: Mutex::new(hosts),
        installed: Mutex::default(),
        state: folder.join("node.installed"),
        refused: Mutex::default(),
        tftp: folder.join("tftp"),
        say: Box::new(move |text| copy.lock().unwrap().push(text.to_owned())),
        waiting: Some(Waiting::load(&folder.join("node.joining"), &[])),
    };
    (serving, said)
}

#[test]
fn configuration_is_one_that_dnsmasq_takes_and_answers_the_admitted_alone() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("tftp")).unwrap();
    let hosts = Hosts::parse(FILE, Path::new("cluster.toml")).unwrap();
    let text = configuration(&hosts, "lo", Ipv4Addr::new(192, 168, 77, 1), 8077, folder.path());
    let file = folder.path().join("dnsmasq.conf");
    fs::write(&file, &text).unwrap();
    fs::write(folder.path().join("admitted"), admitted_macs(&hosts)).unwrap();
    test(&file).unwrap();
    assert!(text.contains("dhcp-range=192.168.77.0,proxy,255.255.255.0\n"), "{text}");
    assert!(
        text.contains("dhcp-ignore=tag:!admitted\n") && text.contains("interface=lo\n"),
        "{text}"
    );
    let macs = "52:54:00:00:00:05,set:admitted\n52:54:00:00:00:06,set:admitted\n";
    assert_eq!(admitted_macs(&hosts), macs);
    // One that it does not take is told.
    fs::write(&file, text + "no-such-word\n").unwrap();
    assert!(test(&file).is_err());
}

#[test]
fn who_is_not_admitted_gets_nothing_but_a_line_in_the_log_once() {
    let folder = tempfile::tempdir().unwrap();
    let (serving, said) = serving(folder.path());
    // No card is known for this address.
    let answer = serving.answer(Ipv4Addr::new(192, 168, 77, 99), "GET", "/image");
    assert!(matches!(answer, Answer::Refused(403, _)));
    let line = "dnsmasq-dhcp: 123 PXE(br0) 52:54:00:00:00:07 proxy-ignored";
    serving.heard(line);
    serving.heard(line);
    serving.heard("dnsmasq-dhcp: 123 PXE(br0) 52:54:00:00:00:05 proxy");
    let said = said.lock().unwrap();
    let [one] = &said[..] else { panic!("{said:?}") };
    assert!(one.contains("`wiglaf image admit 52:54:00:00:00:07 NAME"), "{one}");
}

#[test]
fn addresses_are_cards_by_the_kernels_table_of_that_interface() {
    let table = "IP address HW type Flags HW address Mask Device\n\
                 192.168.77.9 0x1 0x2 52:54:00:00:00:05 * br0\n\
                 192.168.77.8 0x1 0x2 52:54:00:00:00:06 * wlan0\n";
    let mac = |last: u8, on: &str| mac_of(table, Ipv4Addr::new(192, 168, 77, last), on);
    assert_eq!(mac(9, "br0").unwrap().to_string(), "52:54:00:00:00:05");
    assert_eq!((mac(9, "eth0"), mac(8, "br0"), mac(7, "br0")), (None, None, None));
}

#[test]
fn installed_nodes_are_remembered_and_their_settings_handed_on() {
    let folder = tempfile::tempdir().unwrap();
    let (serving, _) = serving(folder.path());
    let mac: Mac = "52:54:00:00:00:05".parse().unwrap();
    let (name, admitted, prefix) = serving.admitted(mac).unwrap();
    let job = Job {
        name,
        disk: admitted.disk.unwrap(),
        mac,
        address: admitted.address,
        prefix,
        image_bytes: 5,
    };
    let settings = job.settings().unwrap();
    assert_eq!(settings.name.as_deref(), Some("pc5"));
    assert_eq!(settings.address, Some((Ipv4Addr::new(192, 168, 77, 15), 24, mac)));
    serving.installed.lock().unwrap().insert(format!("{mac} {}", job.disk));
    serving.remember().unwrap();
    assert_eq!(fs::read_to_string(&serving.state).unwrap(), "52:54:00:00:00:05 WD-1\n");
    let script = serving.script(mac);
    assert!(script.contains("BOOTIF=01-52-54-00-00-00-05 ") && script.starts_with("#!ipxe\n"));
}

#[test]
fn dnsmasq_ends_with_a_server_that_is_killed_and_its_folder_goes_with_the_next() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: a namespace for dnsmasq takes root");
    }
    let run = tempfile::tempdir().unwrap();
    let folder = run.path().join(format!("{FOLDER}{}", u32::MAX));
    fs::create_dir_all(folder.join("tftp")).unwrap();
    let hosts = Hosts::parse(FILE, Path::new("cluster.toml")).unwrap();
    let text = configuration(&hosts, "lo", Ipv4Addr::new(192, 168, 77, 1), 8077, &folder);
    fs::write(folder.join("dnsmasq.conf"), text.replace("except-interface=lo\n", "")).unwrap();
    fs::write(folder.join("admitted"), admitted_macs(&hosts)).unwrap();
    let daemon = daemon(&folder);
    // A shell stands for the server: a test cannot be killed.
    let script =
        "ip link set lo up && ip address add 192.168.77.1/24 dev lo && { \"$@\" & echo $!; wait; }";
    let mut server = Command::new("unshare")
        .args(["--net", "sh", "-c", script, "sh"])
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pid = String::new();
    BufReader::new(server.stdout.take().unwrap()).read_line(&mut pid).unwrap();
    let log = BufReader::new(server.stderr.take().unwrap());
    // It says so when it has become who it stays.
    let mut lines = log.lines().map_while(std::io::Result::ok);
    assert!(lines.any(|line| line.contains("started, version")), "dnsmasq does not start");
    let pid = pid.trim().parse().ok().and_then(rustix::process::Pid::from_raw).unwrap();
    let ended = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).unwrap();
    server.kill().unwrap();
    server.wait().unwrap();
    let mut wait = [rustix::event::PollFd::new(&ended, rustix::event::PollFlags::IN)];
    let limit = rustix::event::Timespec { tv_sec: 60, tv_nsec: 0 };
    let has_ended = rustix::event::poll(&mut wait, Some(&limit)).unwrap() == 1;
    let _ = rustix::process::pidfd_send_signal(&ended, rustix::process::Signal::KILL);
    assert!(has_ended, "dnsmasq lives on");
    let own = run.path().join(format!("{FOLDER}{}", std::process::id()));
    fs::create_dir(&own).unwrap();
    clear(run.path());
    assert!(!folder.exists() && own.exists());
}

/// What a PC's firmware asks for first (RFC 2131; PXE 2.1, 2.2), or any other client of DHCP.
fn discover(mac: Mac, is_firmware: bool) -> Vec<u8> {
    let mut packet = vec![0; 236];
    packet[..4].copy_from_slice(&[1, 1, 6, 0]);
    packet[4..8].copy_from_slice(&mac.0[2..]);
    // The answer is to be broadcast.
    packet[10] = 0x80;
    packet[28..34].copy_from_slice(&mac.0);
    packet.extend([99, 130, 83, 99, 53, 1, 1, 55, 3, 1, 60, 67]);
    if is_firmware {
        packet.extend([60, 32]);
        packet.extend(b"PXEClient:Arch:00007:UNDI:003000");
        packet.extend([93, 2, 0, 7, 94, 3, 1, 3, 0, 97, 17, 0]);
        packet.extend([7; 16]);
    }
    packet.push(255);
    packet
}

/// The address and the file that a packet offers.
fn offered(packet: &[u8]) -> (Ipv4Addr, String) {
    let address = <[u8; 4]>::try_from(&packet[16..20]).unwrap().into();
    let mut options = &packet[240..];
    let mut file = String::new();
    while let [code, len, rest @ ..] = options
        && *code != 255
    {
        let (value, behind) = rest.split_at(usize::from(*len));
        if *code == 67 {
            file = String::from_utf8_lossy(value).trim_end_matches('\0').to_owned();
        }
        options = behind;
    }
    (address, file)
}

#[test]
fn firmware_with_secure_boot_gets_an_address_and_signed_files_and_nobody_else_an_address() {
    if !rustix::process::geteuid().is_root() {
        return eprintln!("skipped: a namespace for dnsmasq takes root");
    }
    let folder = tempfile::tempdir().unwrap();
    let (mut serving, _) = serving(folder.path());
    let text = FILE.replace("address = ", "secure_boot = true\naddress = ");
    let hosts = Hosts::parse(&text, &folder.path().join("cluster.toml")).unwrap();
    *serving.hosts.get_mut().unwrap() = hosts.clone();
    serving.plan.address = Ipv4Addr::new(192, 168, 77, 1);
    serving.plan.interface = "data".to_owned();
    fs::create_dir(&serving.tftp).unwrap();
    // An image of an earlier build has no signed files beside it.
    let error = serving.prepare(folder.path()).unwrap_err().to_string();
    assert!(error.contains("node.shim") && error.contains("wiglaf image build"), "{error}");
    for extension in ["shim", "grub"] {
        fs::write(folder.path().join("node").with_extension(extension), extension).unwrap();
    }
    serving.prepare(folder.path()).unwrap();
    let mac: Mac = "52:54:00:00:00:05".parse().unwrap();
    let grub = || fs::read_to_string(serving.tftp.join("grub/grub.cfg")).unwrap();
    let start = format!("= \"{mac}\" ]; then\n  linux /vmlinuz boot=wiglaf ");
    assert!(grub().contains(&start), "{}", grub());
    serving.installed.lock().unwrap().insert(mark(mac, "WD-1"));
    serving.remember().unwrap();
    assert!(!grub().contains("linux") && grub().contains("wiglaf-node"), "{}", grub());

    let daemon = daemon(folder.path());
    // Both ends of a cable in one namespace: what comes from an own address is taken at this one.
    let script = "ip link set lo up; ip link add data type veth peer name cable; ip link set data up; \
         ip link set cable up; ip address add 192.168.77.1/24 dev data; ip route add 255.255.255.255 dev cable; \
         for c in all cable; do echo 0 >/proc/sys/net/ipv4/conf/$c/rp_filter; \
         echo 1 >/proc/sys/net/ipv4/conf/$c/accept_local; done; exec \"$@\"";
    let mut server = Command::new("unshare")
        .args(["--net", "sh", "-c", script, "sh"])
        .arg(daemon.get_program())
        .args(daemon.get_args())
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let log = BufReader::new(server.stderr.take().unwrap());
    let mut lines = log.lines().map_while(std::io::Result::ok);
    assert!(lines.any(|line| line.contains("started, version")), "dnsmasq does not start");
    let log = std::thread::spawn(move || lines.collect::<Vec<_>>());
    let namespace = File::open(format!("/proc/{}/ns/net", server.id())).unwrap();
    let answers = std::thread::spawn(move || {
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&namespace),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )
        .unwrap();
        let client = std::net::UdpSocket::bind("0.0.0.0:68").unwrap();
        client.set_broadcast(true).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let ask = |last: u8, is_firmware| {
            let mac = Mac([0x52, 0x54, 0, 0, 0, last]);
            client.send_to(&discover(mac, is_firmware), "255.255.255.255:67").unwrap();
        };
        // Who gets nothing asks first: that answers come in turn shows that there was none.
        let mut answers: Vec<(u8, _)> = Vec::new();
        for last in [5, 6] {
            for (last, is_firmware) in [(7, true), (5, false), (6, false), (last, true)] {
                ask(last, is_firmware);
            }
            // What is broadcast comes at both ends of the cable.
            while answers.last().is_none_or(|(of, _)| *of != last) {
                let mut packet = [0; 1500];
                let (len, _) = client.recv_from(&mut packet).unwrap();
                answers.push((packet[33], offered(&packet[..len])));
            }
        }
        answers.dedup();
        answers
    });
    let answers = answers.join();
    server.kill().unwrap();
    server.wait().unwrap();
    let log = log.join().unwrap();
    let [signed, other] = &answers.unwrap_or_else(|_| panic!("{log:#?}"))[..] else { panic!() };
    assert_eq!(*signed, (5, (Ipv4Addr::new(192, 168, 77, 15), "shimx64.efi".to_owned())));
    assert_eq!((other.0, other.1.0), (6, Ipv4Addr::UNSPECIFIED));
    let ignored: Vec<_> = log.iter().filter_map(|line| ignored(line)).collect();
    assert_eq!(ignored, ["52:54:00:00:00:07".parse::<Mac>().unwrap(); 2]);
}
