//! Two guests, their network cards and the bridges between these, in a network namespace of their own.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use wiglaf_testhosts::Namespace;

use super::image::Image;

/// A kind of network card: how QEMU calls it, the name that the guest gives it, and its network.
#[derive(Debug, Clone, Copy)]
pub(super) struct Card {
    device: &'static str,
    pub(super) name: &'static str,
    network: [u8; 3],
}

/// What jobs are tried on.
pub(super) const CARDS: [Card; 4] = [
    Card { device: "e1000e", name: "e1000e", network: [192, 168, 81] },
    Card { device: "virtio-net-pci", name: "virtio", network: [192, 168, 82] },
    Card { device: "rtl8139", name: "rtl8139", network: [192, 168, 83] },
    Card { device: "vmxnet3", name: "vmxnet3", network: [192, 168, 84] },
];
/// What ssh goes over.
const ADMIN: Card = Card { device: "virtio-net-pci", name: "admin", network: [10, 9, 0] };
/// Longest frames on the bridges.
const MTU: u32 = 9216;
/// Until a guest of an emulated processor has started, on a machine that is busy.
const START_LIMIT: Duration = Duration::from_mins(10);

impl Card {
    /// The address of a guest's card.
    pub(super) fn address(self, guest: u8) -> String {
        let [a, b, c] = self.network;
        format!("{a}.{b}.{c}.{guest}")
    }

    fn mac(self, guest: u8) -> String {
        let [a, b, c] = self.network;
        format!("02:00:{a:02x}:{b:02x}:{c:02x}:{guest:02x}")
    }

    /// The machine's end of the cable.
    fn tap(self, guest: u8) -> String {
        format!("{}{guest}", self.name)
    }
}

/// The guests `g1` and `g2`.
#[derive(Debug)]
pub(super) struct Lab {
    namespace: Namespace,
    image: Image,
    folder: PathBuf,
    guests: [Option<Child>; 2],
}

impl Lab {
    /// Starts both and waits until ssh reaches them.
    pub(super) fn up(image: Image, folder: &Path) -> Result<Self, String> {
        let namespace = Namespace::new()?;
        for card in CARDS.iter().chain([&ADMIN]) {
            let bridge = card.name;
            let mut batch = format!("link add {bridge} type bridge forward_delay 0\n");
            for tap in [1, 2].map(|guest| card.tap(guest)) {
                batch += &format!(
                    "tuntap add {tap} mode tap\nlink set {tap} mtu {MTU} master {bridge} up\n"
                );
            }
            namespace.ip(&format!("{batch}link set {bridge} up\n"))?;
        }
        namespace.ip("address add 10.9.0.254/24 dev admin\n")?;
        let folder = folder.to_owned();
        let mut lab = Self { namespace, image, folder, guests: [None, None] };
        for guest in [1, 2] {
            lab.start(guest)?;
        }
        for guest in [1, 2] {
            lab.wait_for(guest)?;
        }
        Ok(lab)
    }

    /// Powers a guest on.
    pub(super) fn start(&mut self, guest: u8) -> Result<(), String> {
        let _ = std::fs::remove_file(self.monitor(guest));
        // With the end of its standard input QEMU is killed, and with QEMU the shell, PID 1 there, ends.
        let mut command = self.namespace.command();
        command.args(["unshare", "--pid", "--fork", "--kill-child", "--", "bash", "-c"]);
        command.args([
            "exec 3<&0; (read -r <&3; kill -KILL -1) & \"$@\" </dev/null",
            "guest",
            "qemu-system-x86_64",
        ]);
        command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-m", "768"]);
        command.args(["-nodefaults", "-display", "none", "-no-reboot"]);
        command.arg("-serial").arg(format!("file:{}", self.console(guest).display()));
        command
            .arg("-qmp")
            .arg(format!("unix:{},server=on,wait=off", self.monitor(guest).display()));
        command.arg("-kernel").arg(&self.image.kernel).arg("-initrd").arg(&self.image.initrd);
        command.args([
            "-append",
            "console=ttyS0 quiet no_timer_check mitigations=off random.trust_cpu=on tsc=reliable \
             nowatchdog panic=-1",
        ]);
        for disk in [&self.image.root, &self.image.site] {
            command.arg("-drive");
            command.arg(format!("if=virtio,format=raw,snapshot=on,file={}", disk.display()));
        }
        for card in CARDS.iter().chain([&ADMIN]) {
            let Card { device, name, .. } = card;
            command.arg("-netdev");
            command.arg(format!(
                "tap,id=net-{name},ifname={},script=no,downscript=no",
                card.tap(guest)
            ));
            command.arg("-device");
            command.arg(format!(
                "{device},id={name},netdev=net-{name},mac={},romfile=",
                card.mac(guest)
            ));
        }
        for card in CARDS.iter().chain([&ADMIN]) {
            self.namespace.ip(&format!("link set {} up\n", card.tap(guest)))?;
        }
        let log = self.folder.join(format!("g{guest}.qemu.log"));
        let log = File::create(&log).map_err(|why| format!("{}: {why}", log.display()))?;
        let again = log.try_clone().map_err(|why| why.to_string())?;
        command.stdin(Stdio::piped()).stdout(log).stderr(again);
        let child = command.spawn().map_err(|why| format!("nsenter cannot be started: {why}"))?;
        self.guests[usize::from(guest - 1)] = Some(child);
        Ok(())
    }

    /// Waits until ssh reaches a guest.
    pub(super) fn wait_for(&mut self, guest: u8) -> Result<(), String> {
        let begin = Instant::now();
        loop {
            if self.ssh(guest, "ann", "true").output().is_ok_and(|output| output.status.success()) {
                return Ok(());
            }
            let child = self.guests[usize::from(guest - 1)].as_mut();
            let has_ended = child.is_none_or(|child| !matches!(child.try_wait(), Ok(None)));
            if has_ended || begin.elapsed() > START_LIMIT {
                let console = self.console(guest);
                return Err(format!("g{guest} does not start; see {}", console.display()));
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Cuts all cables of a guest, then its power.
    pub(super) fn power_off(&mut self, guest: u8) {
        for card in CARDS.iter().chain([&ADMIN]) {
            let _ = self.set_cable(*card, guest, false);
        }
        if let Some(mut child) = self.guests[usize::from(guest - 1)].take() {
            drop(child.stdin.take());
            let _ = child.wait();
        }
    }

    /// Whether frames pass between a card and its bridge. The guest sees its carrier all the while.
    pub(super) fn set_cable(&self, card: Card, guest: u8, is_whole: bool) -> Result<(), String> {
        let state = if is_whole { "up" } else { "down" };
        self.namespace.ip(&format!("link set {} {state}\n", card.tap(guest)))
    }

    /// Pulls a cable out of a guest's card, or plugs it in: the card loses its carrier.
    pub(super) fn set_link(&self, card: Card, guest: u8, is_up: bool) -> Result<(), String> {
        let failed = |why: std::io::Error| format!("QEMU's monitor: {why}");
        let mut stream = UnixStream::connect(self.monitor(guest)).map_err(failed)?;
        let mut answers = BufReader::new(stream.try_clone().map_err(failed)?).lines();
        let set = format!(
            "{{\"execute\":\"set_link\",\"arguments\":{{\"name\":\"{}\",\"up\":{is_up}}}}}\n",
            card.name
        );
        for command in ["{\"execute\":\"qmp_capabilities\"}\n", &set] {
            stream.write_all(command.as_bytes()).map_err(failed)?;
            // Greetings and events come in between.
            let answer = answers
                .by_ref()
                .map_while(Result::ok)
                .find(|line| line.starts_with("{\"return\"") || line.starts_with("{\"error\""));
            match answer {
                Some(answer) if answer.starts_with("{\"return\"") => {}
                other => return Err(format!("QEMU's monitor: {other:?}")),
            }
        }
        Ok(())
    }

    /// A command for a line of a user's shell on a guest.
    pub(super) fn ssh(&self, guest: u8, user: &str, line: &str) -> Command {
        let mut command = ssh_from(&self.namespace);
        command.args(["-oServerAliveInterval=10", "-oServerAliveCountMax=12"]);
        command.arg("-i").arg(&self.image.key).arg(format!("{user}@{}", ADMIN.address(guest)));
        command.arg(line).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs a line and answers what it printed, or what went wrong.
    pub(super) fn run(&self, guest: u8, user: &str, line: &str) -> Result<String, String> {
        let output = self.ssh(guest, user, line).output();
        said(&output.map_err(|why| format!("ssh cannot be started: {why}"))?)
    }

    fn console(&self, guest: u8) -> PathBuf {
        self.folder.join(format!("g{guest}.console"))
    }

    fn monitor(&self, guest: u8) -> PathBuf {
        self.folder.join(format!("g{guest}.qmp"))
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        for guest in [1, 2] {
            self.power_off(guest);
            let _ = std::fs::remove_file(self.monitor(guest));
        }
    }
}

/// ssh from a namespace to a guest, whose keys nobody knows, and which may be off.
pub(super) fn ssh_from(namespace: &Namespace) -> Command {
    let mut command = namespace.command();
    command.args([
        "ssh",
        "-F",
        "none",
        "-oBatchMode=yes",
        "-oConnectTimeout=30",
        "-oLogLevel=ERROR",
    ]);
    command.args(["-oStrictHostKeyChecking=no", "-oUserKnownHostsFile=/dev/null"]);
    command
}

/// What a command printed, or how it failed in one line.
pub(super) fn said(output: &Output) -> Result<String, String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let all = text(&output.stdout) + &text(&output.stderr);
    let lines: Vec<&str> = all.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let shown = lines[lines.len().saturating_sub(4)..].join(" / ");
    match output.status.code() {
        Some(124 | 137) => Err(format!("still running at the time limit: {shown}")),
        _ => Err(format!("{}: {shown}", output.status)),
    }
}
