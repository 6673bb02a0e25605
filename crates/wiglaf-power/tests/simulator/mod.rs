//! Simulators of BMCs, real ones: ipmi_sim, whose hook switches what the test looks at. The hosts themselves have no
//! address, so that nobody is asked to shut down.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Of the user `admin` of each.
pub(crate) const PASSWORD: &str = "sec#ret";

/// One simulated BMC. It ends with this value.
pub(crate) struct Sim {
    child: Child,
    /// Where it listens, on the loopback.
    pub(crate) port: u16,
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Sim {
    /// `lies`: it takes every command, and does nothing.
    pub(crate) fn start(folder: &Path, name: &str, lies: bool) -> Self {
        Self::start_with(folder, name, lies, PASSWORD)
    }

    /// The password of its user is `password`. `lies`: it takes every command, and does nothing. Its one sensor reads
    /// degrees from the file `NAME.temperature`.
    pub(crate) fn start_with(folder: &Path, name: &str, lies: bool, password: &str) -> Self {
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let shown = folder.display();
        let on = if lies { ":" } else { "echo $2 > $file" };
        let hook = format!(
            "#!/bin/sh\nfile={shown}/$1.power\necho \"$*\" >> {shown}/$1.calls\naction=$2; shift 2\n\
             while [ $# -gt 0 ]; do case $action-$1 in\n\
             get-power) echo power:$(cat $file); shift;;\nget-*) echo $1:none; shift;;\n\
             set-power) {on}; shift 2;;\n*) shift 2;;\nesac; done\n"
        );
        let hook_file = folder.join(format!("{name}.hook"));
        fs::write(&hook_file, hook).unwrap();
        fs::set_permissions(&hook_file, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join(format!("{name}.power")), "1\n").unwrap();
        let auth = "none md2 md5 straight";
        let conf = format!(
            "name \"{name}\"\nset_working_mc 0x20\nstartlan 1\naddr 127.0.0.1 {port}\npriv_limit admin\n\
             allowed_auths_callback {auth}\nallowed_auths_user {auth}\nallowed_auths_operator {auth}\n\
             allowed_auths_admin {auth}\nguid a123456789abcdefa123456789abcdef\nendlan\n\
             chassis_control \"{} {name}\"\n\
             user 2 true \"admin\" \"{password}\" admin 10 {auth}\n",
            hook_file.display()
        );
        fs::write(folder.join(format!("{name}.temperature")), "41\n").unwrap();
        let commands = format!(
            "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
             main_sdr_add 0x20 {}\n\
             sensor_add 0x20 0 1 1 1 poll 1000 file \"{shown}/{name}.temperature\"\n\
             sel_enable 0x20 1000 0x0a\nmc_enable 0x20\n",
            sensor_record("CPU Temp")
        );
        let [conf_file, command_file, state] =
            ["conf", "emu", "state"].map(|ending| folder.join(format!("{name}.{ending}")));
        fs::write(&conf_file, conf).unwrap();
        fs::write(&command_file, commands).unwrap();
        fs::create_dir_all(&state).unwrap();
        let child = Command::new("ipmi_sim")
            .args(["-n", "-c"])
            .arg(&conf_file)
            .arg("-f")
            .arg(&command_file)
            .arg("-s")
            .arg(&state)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self { child, port }
    }
}

/// A full sensor record (IPMI 2.0, table 43-1): sensor 1 of the BMC, of a processor, in degrees as they are.
fn sensor_record(name: &str) -> String {
    const LEN: usize = 43;
    let mut body = [0_u8; LEN];
    // Owner, entity and instance; all is initialized and re-armed; a temperature with thresholds.
    (body[0], body[2], body[3], body[4]) = (0x20, 1, 3, 1);
    (body[5], body[6], body[7], body[8]) = (0x7f, 0x40, 1, 1);
    // Degrees of Celsius; M is 1, and all else of the formula 0; the highest reading; the kind of the name.
    (body[16], body[19], body[30]) = (1, 1, 0xff);
    body[LEN - 1] = 0xc0 | u8::try_from(name.len()).unwrap();
    let len = u8::try_from(LEN + name.len()).unwrap();
    let bytes = [1, 0, 0x51, 1, len].into_iter().chain(body).chain(name.bytes());
    bytes.map(|byte| format!("{byte:#04x}")).collect::<Vec<_>>().join(" ")
}

/// Whether the programs are there. State and secrets go into the folder.
pub(crate) fn folder_or_skip() -> Option<tempfile::TempDir> {
    for (program, package) in
        [("/usr/bin/ipmi_sim", "openipmi"), ("/usr/sbin/ipmipower", "freeipmi-tools")]
    {
        if !Path::new(program).exists() {
            eprintln!("skipped: {package} is not installed; run: cargo xtask packages test");
            return None;
        }
    }
    Some(tempfile::tempdir().unwrap())
}

/// A password file of mode 0600.
pub(crate) fn password(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

/// A cluster file with a host for each BMC: its port, and the name of the password file.
pub(crate) fn cluster_file(folder: &Path, bmcs: &[(u16, &str)]) -> PathBuf {
    let mut text =
        format!("nodes = \"pc[1-{}]\"\n[network]\ndata = \"203.0.113.0/24\"\n", bmcs.len());
    for (index, (port, password)) in bmcs.iter().enumerate() {
        text += &format!(
            "[node.pc{0}]\nhost = \"pc{0}.invalid\"\npower = {{ kind = \"ipmi\", address = \"127.0.0.1\", \
             port = {port}, user = \"admin\", password_file = \"{password}\" }}\n",
            index + 1
        );
    }
    let path = folder.join("cluster.toml");
    fs::write(&path, text).unwrap();
    path
}
