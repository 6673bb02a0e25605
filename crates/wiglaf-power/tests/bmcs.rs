//! Power through real simulators of BMCs: ipmi_sim, whose hook switches what the test looks at. The hosts
//! themselves have no address, so that nobody is asked to shut down.

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use wiglaf_cluster::hosts::Hosts;
use wiglaf_power::{Limits, State, Wanted, status, switch};

const PASSWORD: &str = "sec#ret";
const LIMITS: Limits =
    Limits { change: Duration::from_secs(10), shutdown: Duration::from_secs(10) };

/// One simulated BMC. It ends with this value.
struct Sim {
    child: Child,
    port: u16,
}

impl Drop for Sim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What was learned of it is kept for good.
        if let Ok(log) = wiglaf_power::log_file() {
            let _ = fs::remove_file(log.with_file_name(format!("cipher-127.0.0.1-{}", self.port)));
        }
    }
}

impl Sim {
    /// `lies`: it takes every command, and does nothing.
    fn start(folder: &Path, name: &str, lies: bool) -> Self {
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
             user 2 true \"admin\" \"{PASSWORD}\" admin 10 {auth}\n",
            hook_file.display()
        );
        let commands = "mc_setbmc 0x20\nmc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr\n\
                        sel_enable 0x20 1000 0x0a\nmc_enable 0x20\n";
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

/// Whether the programs are there. State and secrets go into the folder.
fn folder_or_skip() -> Option<tempfile::TempDir> {
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

fn password(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, format!("{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

fn hosts(folder: &Path, bmcs: &[(u16, &str)]) -> Hosts {
    let mut text =
        format!("nodes = \"pc[1-{}]\"\n[network]\ndata = \"203.0.113.0/24\"\n", bmcs.len());
    for (index, (port, password)) in bmcs.iter().enumerate() {
        text += &format!(
            "[node.pc{0}]\nhost = \"pc{0}.invalid\"\npower = {{ kind = \"ipmi\", address = \"127.0.0.1\", \
             port = {port}, user = \"admin\", password_file = \"{password}\" }}\n",
            index + 1
        );
    }
    Hosts::parse(&text, &folder.join("cluster.toml")).unwrap()
}

#[test]
fn simulated_bmcs_switch_their_hosts_and_liars_absent_and_wrong_ones_are_named() {
    let Some(folder) = folder_or_skip() else { return };
    let folder = folder.path();
    let [good, liar] =
        [("good", false), ("liar", true)].map(|(n, lies)| Sim::start(folder, n, lies));
    // Bound and silent: a BMC that is not there.
    let absent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let absent = absent.local_addr().unwrap().port();
    password(folder, "right", PASSWORD);
    password(folder, "wrong", "other");
    fs::set_permissions(password(folder, "open", PASSWORD), fs::Permissions::from_mode(0o644))
        .unwrap();
    let hosts = hosts(
        folder,
        &[
            (good.port, "right"),
            (liar.port, "right"),
            (absent, "right"),
            (good.port, "wrong"),
            (good.port, "open"),
        ],
    );
    let spec = |number: usize| &hosts.nodes[number - 1];
    let ready = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        status(spec(1)).is_ok() && status(spec(2)).is_ok()
    });
    assert!(ready, "{:?} {:?}", status(spec(1)), status(spec(2)));
    let change = |number, wanted| switch(spec(number), &hosts.network, wanted, LIMITS, false);
    let power = || fs::read_to_string(folder.join("good.power")).unwrap().trim().to_owned();

    assert_eq!(status(spec(1)), Ok(State::On));
    let off = change(1, Wanted::Off).unwrap();
    assert_eq!((off.state, off.steps), (State::Off, vec!["power cut by its BMC"]));
    assert_eq!(power(), "0");
    let reset = change(1, Wanted::Reset).unwrap_err().to_string();
    assert!(reset.contains("it is off"), "{reset}");
    assert_eq!(change(1, Wanted::On).unwrap().state, State::On);
    assert_eq!(power(), "1");
    let cycle = change(1, Wanted::Cycle).unwrap();
    assert_eq!(cycle.steps, ["power cut by its BMC", "on by its BMC"]);
    assert_eq!(change(1, Wanted::Reset).unwrap().state, State::On);
    let calls = fs::read_to_string(folder.join("good.calls")).unwrap();
    let sets: Vec<&str> = calls.lines().filter(|line| line.contains(" set ")).collect();
    let expected = ["power 0", "power 1", "power 0", "power 1", "reset 1"];
    assert_eq!(sets, expected.map(|what| format!("good set {what}")));

    let lie = change(2, Wanted::Off).unwrap_err().to_string();
    assert!(lie.contains("took the command and still says \"on\""), "{lie}");
    let gone = status(spec(3)).unwrap_err().to_string();
    assert!(gone.contains("does not answer"), "{gone}");
    let refused = status(spec(4)).unwrap_err().to_string();
    assert!(refused.contains("refuses user or password"), "{refused}");
    let open = status(spec(5)).unwrap_err().to_string();
    assert!(open.contains("chmod 600"), "{open}");
}
