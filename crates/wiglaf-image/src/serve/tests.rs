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
