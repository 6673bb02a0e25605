//! The unit file under a real systemd: PID 1 of namespaces of its own, over a
//! root folder that forgets what is written. Inside, an ordinary user asks the
//! helper for a packet socket.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use wiglaf_helper::{
    SocketKind, Tuned, Wants, ask, hold_tuning, keep_tuning, status, tuned, undo_tuning,
};
use wiglaf_link_udp::FrameSocket;
use wiglaf_netlink::{Card, Coalesce, Ethtool};

const SYSTEMD: &str = "/lib/systemd/systemd";
/// A boot that takes longer hangs.
const BOOT_LIMIT: Duration = Duration::from_secs(60);
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);

/// A machine within this one that systemd has booted.
struct Machine {
    unshare: Child,
    /// Where systemd's root folder is made, seen by it alone.
    _folder: TempDir,
}

impl Machine {
    fn boot() -> Option<Self> {
        if !rustix::process::geteuid().is_root() || !Path::new(SYSTEMD).exists() {
            eprintln!("skipped: takes root and systemd");
            return None;
        }
        let folder = TempDir::new().unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut command = Command::new("unshare");
        command.args(["-m", "-p", "-u", "-i", "-n", "-C", "--fork", "--kill-child", "--", "sh"]);
        command.arg(here.join("tests/systemd.sh")).arg(folder.path());
        command.arg(env!("CARGO_BIN_EXE_wiglaf-helper"));
        command.arg(here.join("../../share/systemd"));
        command.arg(std::env::current_exe().unwrap());
        let unshare = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let machine = Self { unshare, _folder: folder };
        machine.wait("systemd has not booted", |m| {
            m.says("systemctl is-system-running").is_some_and(|state| state != "offline")
        });
        Some(machine)
    }

    /// What is true in the end.
    #[track_caller]
    fn wait(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let asked = Instant::now();
        while !is_so(self) {
            assert!(asked.elapsed() < BOOT_LIMIT, "{what}: {:?}", self.says(STATUS));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// systemd's pid: the one child of `unshare`.
    fn pid(&self) -> Option<String> {
        let pid = self.unshare.id();
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).ok()?;
        children.split_ascii_whitespace().next().map(str::to_owned)
    }

    /// What a command prints in there.
    fn says(&self, script: &str) -> Option<String> {
        let mut command = Command::new("nsenter");
        command.args(["-t", &self.pid()?, "-m", "-p", "-u", "-i", "-n", "-C", "-r", "-w"]);
        let output = command.args(["sh", "-c", script]).stderr(Stdio::null()).output().unwrap();
        Some(String::from_utf8(output.stdout).unwrap().trim_end().to_owned())
    }

    /// What [`client`] says as that user.
    fn client(&self, uid: u32) -> String {
        self.says(&format!(
            "setpriv --reuid {uid} --regid {uid} --clear-groups \
             /usr/local/bin/client --exact client --ignored --nocapture"
        ))
        .unwrap()
    }
}

const STATUS: &str = "systemctl status --no-pager --full wiglaf-helper";

impl Drop for Machine {
    fn drop(&mut self) {
        // Its child goes with it, all other processes with their PID 1, and then the mounts.
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
    }
}

#[test]
#[ignore = "what the other test runs inside, as root: gives the card something to tune"]
fn prepare() {
    let index = std::fs::read_to_string("/sys/class/net/tap0/ifindex").unwrap();
    let card = Card { index: index.trim().parse().unwrap(), name: "tap0".to_owned() };
    let values = Coalesce { rx_frames: Some(9), ..Coalesce::default() };
    Ethtool::open().unwrap().set_coalesce(&card, &values).unwrap();
}

#[test]
#[ignore = "what the other test runs inside, as an ordinary user"]
fn client() {
    println!("status: {}", status().unwrap());
    let udp = FrameSocket::open(SocketAddrV4::new(ADDRESS, 0)).unwrap();
    match ask(SocketKind::Packet, &udp) {
        Ok(_) => println!("it has a packet socket"),
        Err(why) => println!("it has none: {why}"),
    }
    match hold_tuning(Wants::AWAKE) {
        Ok((tuned, _)) if tuned.notes.is_empty() => println!("held: ok"),
        // Where the machine has no such device.
        Ok((tuned, _)) if !Path::new("/dev/cpu_dma_latency").exists() => {
            println!("held: ok, but {:?}", tuned.notes);
        }
        Ok((tuned, _)) => println!("held: with {:?}", tuned.notes),
        Err(why) => println!("held: {why}"),
    }
    let shown = |tuned: &Tuned| {
        let cards = tuned.changes.iter().filter_map(|change| {
            let card = change.card.as_ref()?;
            Some(format!("{card} {} {} -> {}", change.setting, change.before, change.now))
        });
        cards.collect::<Vec<_>>().join(", ")
    };
    let before = tuned().unwrap();
    if !shown(&before).is_empty() {
        println!("still: {}", shown(&before));
        println!("undone: {}", undo_tuning().as_ref().map(shown).unwrap_or_default());
    } else if let Ok(tuned) = keep_tuning(Wants { awake_us: None, ..Wants::FOR_A_JOB }) {
        println!("kept: {}", shown(&tuned));
    }
}

/// Whether this kernel takes programs at the ingress as links.
fn has_tcx() -> bool {
    wiglaf_link_udp::kernel_is_from((6, 6))
}

#[test]
fn the_unit_serves_under_systemd() {
    let Some(machine) = Machine::boot() else { return };
    let is_active = |m: &Machine| m.says("systemctl is-active wiglaf-helper").unwrap() == "active";
    machine.wait("the unit is not active", is_active);

    machine.says("/usr/local/bin/client --exact prepare --ignored");
    let ann = machine.client(61_001);
    assert!(ann.contains("user 61001 is admitted to packet"), "{ann}");
    assert!(ann.contains("it has a packet socket"), "{ann}\n{:?}", machine.says(STATUS));
    let bob = machine.client(61_002);
    assert!(bob.contains("it has none") && bob.contains("does not admit user 61002"), "{bob}");
    let log = machine.says(STATUS).unwrap();
    assert!(log.contains("user 61001 has a packet socket"), "{log}");

    assert!(ann.contains("; early drop on wl0") || !has_tcx(), "{ann}");
    // Its only capability is CAP_NET_RAW (13), its user neither root nor nobody. CAP_DAC_OVERRIDE (1),
    // CAP_NET_ADMIN (12) and CAP_BPF (39) are bounds that nothing leads to.
    let main = "/proc/$(systemctl show --property MainPID --value wiglaf-helper)";
    let held = machine.says(&format!(
        "grep -E '^(Uid|CapPrm|CapEff|CapBnd|CapAmb|NoNewPrivs|Seccomp):' {main}/status"
    ));
    let held = held.unwrap();
    for line in [
        "CapPrm:\t0000000000002000",
        "CapEff:\t0000000000002000",
        "CapBnd:\t0000008000003002",
        "CapAmb:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(held.contains(line), "{held}");
    }
    let user: u32 = held.lines().next().unwrap().split('\t').nth(1).unwrap().parse().unwrap();
    assert!(user != 0 && user != 65_534, "{held}");

    // Its process that tunes has CAP_NET_ADMIN alone, keeps processors awake for who may have that, and finds
    // what it has changed when it is started again.
    let tuner = machine
        .says(&format!("grep -h CapEff /proc/$(cat {main}/task/*/children | tr -d ' ')/status"));
    assert_eq!(tuner.as_deref(), Some("CapEff:\t0000000000001000"));
    assert!(ann.contains("held: ok") && bob.contains("held: the helper refuses"), "{ann} {bob}");
    if machine.says("ls -d /sys/class/net/tap0").as_deref() == Some("/sys/class/net/tap0") {
        assert!(ann.contains("kept: tap0 rx-frames 9 -> 1"), "{ann}");
        machine.says("systemctl restart wiglaf-helper.service");
        let again = machine.client(61_001);
        assert!(again.contains("still: tap0 rx-frames 9 -> 1"), "{again}");
        assert!(again.contains("undone: \n"), "{again}");
    } else {
        eprintln!("skipped: no tap here, so no card that is tuned");
    }

    // Enabled with its socket, and both were started.
    let enabled = machine.says("systemctl is-enabled wiglaf-helper.service wiglaf-helper.socket");
    assert_eq!(enabled.as_deref(), Some("enabled\nenabled"));

    // Killed, it comes back; who asks meanwhile waits.
    let first =
        machine.says(&format!("readlink -f {main}; kill -KILL $(basename {main})")).unwrap();
    machine.wait("it did not come back", |m| {
        // Between the two there is none, which systemd calls 0.
        let now = m.says(&format!("readlink -f {main}")).unwrap();
        is_active(m) && now != first && now != "/proc/0"
    });
    for _ in 0..5 {
        machine.says(&format!("kill -KILL $(basename $(readlink -f {main}))"));
        let ann = machine.client(61_001);
        assert!(ann.contains("it has a packet socket"), "{ann}\n{:?}", machine.says(STATUS));
    }
    // With its socket alone it comes when somebody asks. Stopped with it, it leaves nothing.
    machine.says("systemctl stop wiglaf-helper.service");
    let ann = machine.client(61_001);
    assert!(ann.contains("it has a packet socket"), "{ann}\n{:?}", machine.says(STATUS));
    let left =
        "systemctl stop wiglaf-helper.socket wiglaf-helper.service; ls -d /run/wiglaf-helper";
    assert_eq!(machine.says(left).as_deref(), Some(""));
}
