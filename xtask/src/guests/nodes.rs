//! `xtask guests image`: an image of a node, made with this build and written by `wiglaf image serve` to the empty disks
//! of three guests, with BIOS, with UEFI and with Secure Boot, beside a fourth that is not admitted. All are on a bridge in a
//! namespace, with a DHCP server of the "institute" in another. Then they start from their disks, ssh reaches them, and they
//! join ann's cluster by themselves.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use wiglaf_testhosts::Namespace;

use super::machine::{said, ssh_from};

/// From power on to an answer over ssh, on emulated processors of a machine that is busy.
const LIMIT: Duration = Duration::from_mins(45);
/// The cluster file, in ann's home.
const FILE: &str = "home/.config/wiglaf/cluster.toml";
const DISK_LEN: u64 = 3 << 30;
/// UEFI's code, and the variables that a guest begins with: Debian's package ovmf.
const UEFI: [&str; 2] = ["/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"];
/// With Microsoft's keys, which Debian's shim is signed by, and Secure Boot on.
const SECURE: [&str; 2] =
    ["/usr/share/OVMF/OVMF_CODE_4M.secboot.fd", "/usr/share/OVMF/OVMF_VARS_4M.ms.fd"];
/// Whether it is on: the last byte, behind four of attributes.
const SECURE_BOOT: &str =
    "/sys/firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c";

/// For batch jobs: guests reach no archive.
const PACKAGES: &str = "\"slurmctld\", \"slurmd\", \"slurm-client\", \"munge\"";

/// What a guest starts by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Firmware {
    Bios,
    Uefi,
    Secure,
}

/// A guest: its name, the last number of its addresses, and its disk's serial number.
#[derive(Debug, Clone, Copy)]
struct Guest {
    name: &'static str,
    number: u8,
    serial: &'static str,
    firmware: Firmware,
}

const ADMITTED: [Guest; 3] = [
    Guest { name: "pc-bios", number: 11, serial: "WD-BIOS-1", firmware: Firmware::Bios },
    Guest { name: "pc-uefi", number: 12, serial: "WD-UEFI-2", firmware: Firmware::Uefi },
    Guest { name: "pc-secure", number: 14, serial: "WD-SECURE-4", firmware: Firmware::Secure },
];
const STRANGER: Guest =
    Guest { name: "pc-else", number: 13, serial: "WD-ELSE-3", firmware: Firmware::Bios };

impl Guest {
    fn mac(self) -> String {
        format!("52:54:00:00:00:{:02x}", self.number)
    }

    fn address(self) -> String {
        format!("192.168.77.{}", self.number)
    }
}

/// A process that ends with this value.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        for _ in 0..50 {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Where only ann, whose cluster it is, and an installed Wiglaf are others than outside: `passwd` and what lies at
/// /usr/local come first, then a command, called by ann through sudo.
const INSIDE: &str = "mount --bind \"$1\" /etc/passwd && mount --bind \"$2\" /usr/local && mount -t tmpfs tmpfs /tmp && \
    shift 2 && exec env SUDO_USER=ann /usr/local/bin/wiglaf \"$@\"";

fn inside(mut command: Command, folder: &Path) -> Command {
    command.args(["--mount", "--propagation", "private", "sh", "-c", INSIDE, "sh"]);
    command.arg(folder.join("passwd")).arg(folder.join("site/usr/local"));
    command.arg("--file").arg(folder.join(FILE));
    command
}

/// Makes the image and tries it, on the guests whose names have one of these words, or on all.
pub(super) fn run(workspace: &Path, folder: &Path, words: &[String]) -> Result<(), String> {
    let folder = folder.join("nodes");
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let mut admitted = ADMITTED.to_vec();
    if !words.is_empty() {
        admitted.retain(|guest| words.iter().any(|word| guest.name.ends_with(word.as_str())));
    }
    if admitted.is_empty() {
        return Err(format!(
            "no guest is called {}; there are bios, uefi and secure",
            words.join(", ")
        ));
    }
    let admitted = &admitted[..];
    let key = prepare(workspace, &folder)?;
    let image = folder.join("node.img");
    eprintln!("== guests: an image by the release build");
    let mut build = inside(Command::new("unshare"), &folder);
    build.args(["image", "build", "--cache"]).arg(folder.join("cache"));
    finish(build.arg("--output").arg(&image))?;

    let namespace = Namespace::new()?;
    let institute = Namespace::new()?;
    let mut dhcp = network(&namespace, &institute, &folder)?;
    let log = folder.join("serve.log");
    let serve = in_namespace(&namespace, Path::new("unshare"), &log)?;
    let mut serve = inside(serve, &folder);
    serve
        .args(["image", "serve", "--image"])
        .arg(&image)
        .args(["--again", "pc-bios,pc-uefi,pc-secure"]);
    let serve = serve.spawn().map_err(|why| format!("wiglaf cannot be started: {why}"))?;
    let server = Running(serve);
    let began = Instant::now();
    let mut guests = Vec::new();
    for guest in admitted.iter().copied().chain([STRANGER]) {
        guests.push(start(guest, &namespace, &folder)?);
    }
    let mut pending = admitted.to_vec();
    while !pending.is_empty() {
        if began.elapsed() > LIMIT {
            let names: Vec<&str> = pending.iter().map(|guest| guest.name).collect();
            return Err(format!("{names:?} have not joined; see {}", folder.display()));
        }
        if !matches!(dhcp.0.try_wait(), Ok(None)) {
            return Err("the institute's DHCP server has ended".to_owned());
        }
        std::thread::sleep(Duration::from_secs(3));
        pending.retain(|guest| {
            let said = fs::read_to_string(&log).unwrap_or_default();
            let has_joined = said.contains(&format!("{}: has joined", guest.name));
            if has_joined {
                let seconds = began.elapsed().as_secs();
                eprintln!("{}: from power on to a host of the cluster {seconds} s", guest.name);
            }
            !has_joined
        });
    }
    let outcome = look(&namespace, &key, &folder, admitted)
        .and_then(|()| batch(workspace, &namespace, &key, &folder, admitted, began));
    if outcome.is_ok() {
        let seconds = began.elapsed().as_secs();
        eprintln!("{}: from power on to the end of a job of Slurm's {seconds} s", admitted[0].name);
    }
    drop(guests);
    drop(server);
    outcome?;
    println!(
        "the guests were installed from the network, started from their disks and joined by themselves"
    );
    Ok(())
}

/// The key, the user, the cluster file, an installed Wiglaf.
fn prepare(workspace: &Path, folder: &Path) -> Result<PathBuf, String> {
    let mut make = Command::new("make");
    make.args(["--silent", "install", "PREFIX=/usr/local"]);
    make.arg(format!("DESTDIR={}", folder.join("site").display()));
    finish(make.current_dir(workspace))?;
    let home = folder.join("home");
    let ssh = home.join(".ssh");
    let key = ssh.join("id_ed25519");
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    fs::create_dir_all(&ssh).map_err(failed)?;
    if !key.exists() {
        finish(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
    }
    let passwd = fs::read_to_string("/etc/passwd").map_err(failed)?;
    // As on the nodes, the home is named; here it must be where the key is.
    let line = format!("ann:x:2001:2001::{}:/bin/bash\n", home.display());
    fs::write(folder.join("passwd"), passwd + &line).map_err(failed)?;
    let mut text =
        "name = \"nodes\"\nnodes = \"head\"\n[network]\ndata = \"192.168.77.0/24\"\n[node.head]\n\
                    address = \"192.168.77.1\"\n[image]\nusers = [\"ann\"]\npackages = [{PACKAGES}]\n"
            .replace("{PACKAGES}", PACKAGES);
    for guest in ADMITTED {
        text += &format!(
            "[image.admit.{}]\nmac = \"{}\"\ndisk = \"{}\"\naddress = \"{}\"\nsecure_boot = {}\n",
            guest.name,
            guest.mac(),
            guest.serial,
            guest.address(),
            guest.firmware == Firmware::Secure
        );
    }
    let file = folder.join(FILE);
    file.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
    fs::write(file, text).map_err(failed)?;
    // Earlier guests' keys are not to be known.
    let _ = fs::remove_file(ssh.join("known_hosts"));
    finish(Command::new("chown").args(["-R", "2001:2001"]).arg(&home))?;
    Ok(key)
}

/// A bridge with this host's address, and the institute's DHCP server on it.
fn network(namespace: &Namespace, institute: &Namespace, folder: &Path) -> Result<Running, String> {
    let mut server = in_namespace(institute, Path::new("sh"), &folder.join("dhcp.log"))?;
    // It begins with its card, and ends with its input.
    server.args([
        "-c",
        "read -r go; exec 3<&0; dnsmasq --keep-in-foreground --conf-file=/dev/null --port=0 --interface=dhcp \
         --bind-interfaces --dhcp-range=192.168.77.100,192.168.77.200,1h --log-facility=- --pid-file= \
         --dhcp-leasefile=\"$1\" --user=root & while read -r line <&3; do :; done; kill $!",
        "sh",
    ]);
    server.arg(folder.join("leases"));
    let _ = fs::remove_file(folder.join("leases"));
    let child = server.spawn().map_err(|why| format!("sh cannot be started: {why}"))?;
    let mut server = Running(child);
    let pid = server.0.id();
    let taps = ADMITTED.into_iter().chain([STRANGER]).map(|guest| {
        let tap = format!("tap{}", guest.number);
        format!("tuntap add {tap} mode tap\nlink set {tap} master data up\n")
    });
    // nsenter is still on its way there.
    std::thread::sleep(Duration::from_secs(1));
    namespace.ip(&format!(
        "link set lo up\nlink add data type bridge forward_delay 0\nlink set data up\naddress add 192.168.77.1/24 dev \
         data\nlink add cable type veth peer name dhcp\nlink set cable master data up\nlink set dhcp netns {pid}\n{}",
        taps.collect::<String>()
    ))?;
    institute.ip("link set lo up\naddress add 192.168.77.2/24 dev dhcp\nlink set dhcp up\n")?;
    server
        .0
        .stdin
        .as_mut()
        .ok_or("no input")?
        .write_all(b"go\n")
        .map_err(|why| format!("the DHCP server: {why}"))?;
    Ok(server)
}

fn in_namespace(namespace: &Namespace, program: &Path, log: &Path) -> Result<Command, String> {
    let file = File::create(log).map_err(|why| format!("{}: {why}", log.display()))?;
    let again = file.try_clone().map_err(|why| why.to_string())?;
    let mut command = namespace.command();
    command.arg(program).stdin(Stdio::piped()).stdout(file).stderr(again);
    Ok(command)
}

/// QEMU with emulated processors, which is killed with the end of its standard input, and its console in a file.
pub(super) fn qemu(namespace: &Namespace, name: &str, folder: &Path) -> Result<Command, String> {
    let log = folder.join(format!("{name}.qemu.log"));
    let mut command = in_namespace(namespace, Path::new("unshare"), &log)?;
    command.args(["--pid", "--fork", "--kill-child", "--", "bash", "-c"]);
    command.args([
        "exec 3<&0; (read -r <&3; kill -KILL -1) & \"$@\" </dev/null",
        "guest",
        "qemu-system-x86_64",
    ]);
    command.args(["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]);
    command.args(["-nodefaults", "-display", "none"]);
    let console = folder.join(format!("{name}.console"));
    command.arg("-serial").arg(format!("file:{}", console.display()));
    Ok(command)
}

/// Powers a guest with an empty disk on.
fn start(guest: Guest, namespace: &Namespace, folder: &Path) -> Result<Running, String> {
    let disk = disk(guest, folder);
    let make = || -> std::io::Result<()> {
        let _ = fs::remove_file(&disk);
        File::create(&disk)?.set_len(DISK_LEN)
    };
    make().map_err(|why| format!("{}: {why}", disk.display()))?;
    let mut command = qemu(namespace, guest.name, folder)?;
    command.args(["-m", "1024"]);
    command
        .arg("-netdev")
        .arg(format!("tap,id=net,ifname=tap{},script=no,downscript=no", guest.number));
    command.arg("-drive").arg(format!("if=none,id=disk,format=raw,file={}", disk.display()));
    let (mac, serial) = (guest.mac(), guest.serial);
    if guest.firmware == Firmware::Bios {
        command.arg("-device").arg(format!("e1000e,netdev=net,mac={mac},bootindex=1"));
        command.args(["-device", "ahci,id=ahci"]);
        command
            .arg("-device")
            .arg(format!("ide-hd,drive=disk,bus=ahci.0,serial={serial},bootindex=2"));
    } else {
        let [code, variables] = if guest.firmware == Firmware::Secure { SECURE } else { UEFI };
        if guest.firmware == Firmware::Secure {
            // Its variables are the firmware's alone.
            command.args(["-machine", "smm=on"]);
            command.args(["-global", "driver=cfi.pflash01,property=secure,value=on"]);
        }
        let vars = folder.join(format!("{}.vars", guest.name));
        fs::copy(variables, &vars).map_err(|why| format!("{variables}: {why}"))?;
        command.arg("-drive").arg(format!("if=pflash,format=raw,readonly=on,file={code}"));
        command.arg("-drive").arg(format!("if=pflash,format=raw,file={}", vars.display()));
        // Without iPXE in the card: the firmware's own PXE loads ours. There is no IPv6 to try after it.
        command.args(["-fw_cfg", "name=opt/org.tianocore/IPv6PXESupport,string=n"]);
        command
            .arg("-device")
            .arg(format!("virtio-net-pci,netdev=net,mac={mac},bootindex=1,romfile="));
        command
            .arg("-device")
            .arg(format!("virtio-blk-pci,drive=disk,serial={serial},bootindex=2"));
    }
    command.spawn().map(Running).map_err(|why| format!("nsenter cannot be started: {why}"))
}

fn disk(guest: Guest, folder: &Path) -> PathBuf {
    folder.join(format!("{}.disk", guest.name))
}

fn ssh(namespace: &Namespace, key: &Path, guest: Guest, line: &str) -> Result<String, String> {
    let mut command = ssh_from(namespace);
    command
        .arg("-i")
        .arg(key)
        .arg(format!("ann@{}", guest.address()))
        .arg(line)
        .stdin(Stdio::null());
    said(&command.output().map_err(|why| format!("ssh cannot be started: {why}"))?)
}

/// The guests take a job of Slurm's, which ann has set up on the first.
fn batch(
    workspace: &Path,
    namespace: &Namespace,
    key: &Path,
    folder: &Path,
    admitted: &[Guest],
    began: Instant,
) -> Result<(), String> {
    let hello = folder.join("hello");
    let source = workspace.join("xtask/src/guests/hello.c");
    finish(Command::new("mpicc.openmpi").args(["-O2", "-o"]).arg(&hello).arg(source))?;
    let put = |guest: Guest, file: &Path, line: &str| -> Result<(), String> {
        let from = File::open(file).map_err(|why| format!("{}: {why}", file.display()))?;
        let mut command = ssh_from(namespace);
        command.arg("-i").arg(key).arg(format!("ann@{}", guest.address())).arg(line);
        said(&command.stdin(from).output().map_err(|why| format!("ssh: {why}"))?).map(drop)
    };
    for guest in admitted.iter().copied() {
        put(guest, &hello, "cat >hello && chmod 755 hello")?;
        put(guest, key, "umask 77 && cat >.ssh/id_ed25519")?;
    }
    let head = admitted[0];
    let joins = admitted[1..].iter().map(|guest| {
        format!(
            "ssh -oStrictHostKeyChecking=accept-new {0} true && wiglaf join {0} --yes && ",
            guest.address()
        )
    });
    let count = admitted.len();
    let line = format!(
        "rm -f ~/.config/wiglaf/cluster.toml; wiglaf init --network 192.168.77.0/24 --name lab && {}\
         printf '\\n[batch]\\naccounting = false\\n' >>.config/wiglaf/cluster.toml && \
         wiglaf batch setup --yes && sinfo -h -o '%D %T'",
        joins.collect::<String>()
    );
    let told = ssh(namespace, key, head, &format!("({line}) 2>&1; true"))?;
    eprintln!("{}: {}", head.name, told.trim().replace('\n', ", "));
    if !told.contains(&format!("{count} idle")) {
        return Err(format!("{} is not idle in Slurm", head.name));
    }
    let seconds = began.elapsed().as_secs();
    eprintln!("{}: from power on to idle in Slurm {seconds} s", head.name);
    // A guest has one processor.
    let job = r"#!/bin/bash -l\nexport WIGLAF_HOST_LIMIT=2min\nwiglaf run -- ./hello\n";
    let line = format!(
        "printf '{job}' >job.sh; sbatch --wait -N {count} -n {count} -o out job.sh; cat out"
    );
    let told = ssh(namespace, key, head, &format!("({line}) 2>&1; true"))?;
    let agreed = format!(" agrees on {}", count * (count + 1) / 2);
    match told.matches(&agreed).count() == count {
        true => Ok(()),
        false => Err(format!("{} ran no job of Slurm's: {told}", head.name)),
    }
}

/// What must be so of guests that are up.
fn look(
    namespace: &Namespace,
    key: &Path,
    folder: &Path,
    admitted: &[Guest],
) -> Result<(), String> {
    let mut identities = Vec::new();
    let file = fs::read_to_string(folder.join(FILE)).map_err(|why| why.to_string())?;
    for guest in admitted.iter().copied() {
        if !file.contains(&format!("[node.{}]", guest.name)) {
            return Err(format!("the cluster file has no {}: {file}", guest.name));
        }
        let ask = |line: &str| ssh(namespace, key, guest, line);
        let name = ask("hostname")?;
        if name.trim() != guest.name {
            return Err(format!("{} calls itself {name}", guest.name));
        }
        let size = ask("df --output=size -B1 / | tail -1")?;
        let size: u64 = size.trim().parse().map_err(|_| format!("df said {size}"))?;
        if size < DISK_LEN * 8 / 10 {
            return Err(format!("{}: its file system has {size} bytes of its disk's", guest.name));
        }
        let facts = ask(&format!(
            "wiglaf --version; sudo -n id -u; systemctl is-active wiglaf-helper; systemctl --failed --no-legend; \
             ls -d /sys/firmware/efi 2>/dev/null; od -An -tu1 -j4 {SECURE_BOOT} 2>/dev/null | sed 's/.*1$/Secure Boot/'; true",
        ))?;
        eprintln!("{}: {}", guest.name, facts.trim().replace('\n', ", "));
        if facts.contains("/sys/firmware/efi") != (guest.firmware != Firmware::Bios)
            || facts.contains("Secure Boot") != (guest.firmware == Firmware::Secure)
        {
            return Err(format!("{} has started by the other firmware", guest.name));
        }
        identities
            .push(ask("cat /etc/machine-id; cut -d' ' -f2 /etc/ssh/ssh_host_ed25519_key.pub")?);
    }
    let lines: Vec<Vec<&str>> = identities.iter().map(|text| text.lines().collect()).collect();
    if lines.iter().any(|own| own.len() != 2) {
        return Err(format!("a guest has no identity: {identities:?}"));
    }
    let has_twin = |at: usize| {
        lines[..at].iter().any(|other| other[0] == lines[at][0] || other[1] == lines[at][1])
    };
    if (0..lines.len()).any(has_twin) {
        return Err(format!("the guests are one: {identities:?}"));
    }
    let log = fs::read_to_string(folder.join("serve.log")).unwrap_or_default();
    if !log.contains(&format!("{} asks for a start and is not admitted", STRANGER.mac())) {
        return Err(format!("the log says nothing of {}: {log}", STRANGER.mac()));
    }
    let stranger = fs::read(disk(STRANGER, folder)).map_err(|why| why.to_string())?;
    match stranger.iter().all(|byte| *byte == 0) {
        true => Ok(()),
        false => Err(format!("the disk of {} was written", STRANGER.name)),
    }
}

fn finish(command: &mut Command) -> Result<(), String> {
    let status = command.stdin(Stdio::null()).status();
    let status = status.map_err(|why| format!("{command:?} cannot be started: {why}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?} failed: {status}")) }
}
