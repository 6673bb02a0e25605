//! `wiglaf power` and real simulators of BMCs.

#[path = "../../wiglaf-power/tests/simulator/redfish.rs"]
mod redfish;
#[path = "../../wiglaf-power/tests/simulator/mod.rs"]
mod simulator;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

use redfish::Redfish;
use simulator::{PASSWORD, Sim, cluster_file, folder_or_skip, password};

#[test]
fn hosts_of_one_state_are_one_line_and_what_is_wrong_is_a_sentence() {
    let Some(folder) = folder_or_skip() else { return };
    let folder = folder.path();
    let [first, second] = ["first", "second"].map(|name| Sim::start(folder, name, false));
    // Bound and silent: a BMC that is not there.
    let absent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let absent = absent.local_addr().unwrap().port();
    password(folder, "right", PASSWORD);
    let bmcs = [(first.port, "right"), (second.port, "right"), (absent, "right")];
    let file = cluster_file(folder, &bmcs);
    let wiglaf = |line: &str| -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_wiglaf"));
        command.args(line.split(' ')).arg("--file").arg(&file);
        // What it learns and logs goes away with the test.
        command.env("XDG_STATE_HOME", folder.join("state")).output().unwrap()
    };
    let said = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = |output: &Output| String::from_utf8_lossy(&output.stderr).into_owned();
    let is_up = || wiglaf("power status -w pc[1-2]").status.success();
    assert!((0..50).any(|_| is_up()), "{:?}", wiglaf("power status"));

    let all = wiglaf("power status");
    assert_eq!((all.status.code(), said(&all).as_str()), (Some(1), "pc[1-2]: on\n"), "{all:?}");
    assert!(complaint(&all).contains("pc3: its BMC does not answer"), "{all:?}");
    let switched = || fs::read_to_string(folder.join("first.power")).unwrap().trim().to_owned();
    let dry = wiglaf("power off -w pc1 --dry-run");
    assert!(dry.status.success() && said(&dry).contains("by ipmi at 127.0.0.1"), "{dry:?}");
    assert_eq!(switched(), "1");
    let off = wiglaf("power off -w pc1");
    assert!(off.status.success() && said(&off).starts_with("pc1: off"), "{off:?}");
    assert_eq!(switched(), "0");
    let json = wiglaf("power status -w pc[1-2] --json");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!((json[0]["state"].as_str(), json[1]["state"].as_str()), (Some("off"), Some("on")));
    let unknown = wiglaf("power on -w pc9");
    assert!(
        !unknown.status.success() && complaint(&unknown).contains("no host pc9"),
        "{unknown:?}"
    );
    fs::set_permissions(folder.join("right"), fs::Permissions::from_mode(0o644)).unwrap();
    let open = wiglaf("power on -w pc1");
    assert!(!open.status.success() && complaint(&open).contains("chmod 600"), "{open:?}");
    assert_eq!(switched(), "0");
    let log = fs::read_to_string(folder.join("state/wiglaf/power/log")).unwrap();
    assert!(log.contains("power off") && !log.contains(PASSWORD), "{log}");
}

/// `wiglaf` with a cluster file; what it learns and logs goes away with the folder.
fn wiglaf(folder: &std::path::Path, line: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_wiglaf"));
    command.args(line.split(' ')).arg("--file").arg(folder.join("cluster.toml"));
    command.env("XDG_STATE_HOME", folder.join("state")).output().unwrap()
}

/// What it printed, both ways.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr].concat()).into_owned()
}

/// A cluster file with hosts pc1 and so on: the port of each one's BMC, and its password file.
fn redfish_file(folder: &std::path::Path, bmcs: &[(u16, &str)]) {
    let file = cluster_file(folder, bmcs);
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("\"ipmi\"", "\"redfish\"")).unwrap();
}

#[test]
fn redfish_bmcs_switch_with_one_session_or_with_the_password_and_liars_are_named() {
    let Ok(folder) = tempfile::tempdir() else { return };
    let folder = folder.path();
    let Some(modern) = Redfish::start(folder, "modern", &["sessions"]) else { return };
    let plain = Redfish::start(folder, "plain", &[]).unwrap();
    let liar = Redfish::start(folder, "liar", &["sessions", "lies"]).unwrap();
    // Nobody listens there any more.
    let absent = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    password(folder, "right", PASSWORD);
    password(folder, "wrong", "other");
    let bmcs = [
        (modern.port, "right"),
        (plain.port, "right"),
        (liar.port, "right"),
        (absent, "right"),
        (modern.port, "wrong"),
        (plain.port, "wrong"),
    ];
    redfish_file(folder, &bmcs);

    let all = wiglaf(folder, "power status");
    let text = said(&all);
    assert!(text.contains("pc[1-3]: on\n") && all.status.code() == Some(1), "{text}");
    assert!(text.contains("pc4: its BMC does not answer"), "{text}");
    assert!(text.contains("pc[5-6]: its BMC refuses user or password (HTTP 401)"), "{text}");
    let (_, _, _) = (modern.requests(), plain.requests(), liar.requests());

    // The host has no address: nobody is asked to shut down, and the power is cut. The state comes seconds later.
    let off = wiglaf(folder, "power off -w pc[1-2]");
    assert_eq!(said(&off), "pc[1-2]: off (power cut by its BMC)\n");
    let asked = modern.requests();
    let count = |asked: &[String], part: &str| asked.iter().filter(|r| r.contains(part)).count();
    assert_eq!(count(&asked, "POST /redfish/v1/SessionService/Sessions"), 1, "{asked:?}");
    assert_eq!(count(&asked, "DELETE /redfish/v1/SessionService/Sessions/token-"), 1, "{asked:?}");
    assert_eq!(count(&asked, "ComputerSystem.Reset token ForceOff"), 1, "{asked:?}");
    assert_eq!(count(&asked, "password"), 0, "{asked:?}");
    let asked = plain.requests();
    assert_eq!(count(&asked, "ComputerSystem.Reset password ForceOff"), 1, "{asked:?}");

    // A session that the BMC forgets is replaced by another.
    modern.forget_sessions();
    let on = wiglaf(folder, "power on -w pc1");
    assert_eq!(said(&on), "pc1: on (on by its BMC)\n");
    let asked = modern.requests();
    assert_eq!(count(&asked, "POST /redfish/v1/SessionService/Sessions"), 2, "{asked:?}");

    let reset = wiglaf(folder, "power reset -w pc1");
    assert_eq!(said(&reset), "pc1: on (reset by its BMC)\n");
    assert_eq!(count(&modern.requests(), "ComputerSystem.Reset token ForceRestart"), 1);

    let lie = wiglaf(folder, "power off -w pc3 --wait 2");
    let text = said(&lie);
    assert!(text.contains("took the command and still says \"on\" after 2 s"), "{text}");
    assert_eq!(count(&liar.requests(), "ComputerSystem.Reset token ForceOff"), 1);

    let sensors = wiglaf(folder, "sensors -w pc[1-2] --json");
    let sensors: serde_json::Value = serde_json::from_slice(&sensors.stdout).unwrap();
    for host in [0, 1] {
        let all = sensors[host]["sensors"].as_array().unwrap();
        let degrees = all.iter().filter(|s| s["unit"] == "C" && s["reading"].is_string()).count();
        assert!(degrees > 0, "{sensors}");
    }
}

#[test]
fn key_of_a_redfish_bmc_is_kept_and_another_is_not_told_the_password() {
    let Ok(folder) = tempfile::tempdir() else { return };
    let folder = folder.path();
    let Some(bmc) = Redfish::start(folder, "first", &["sessions"]) else { return };
    password(folder, "right", PASSWORD);
    redfish_file(folder, &[(bmc.port, "right")]);
    let first = wiglaf(folder, "power status");
    assert_eq!(said(&first), "pc1: on\n");
    // Another BMC in its place, as somebody between would be.
    let other = Redfish::start(folder, "other", &["sessions"]).unwrap();
    let keys = folder.join("state/wiglaf/power");
    let [kept, asked] = [bmc.port, other.port].map(|p| keys.join(format!("key-127.0.0.1-{p}")));
    fs::rename(kept, asked).unwrap();
    redfish_file(folder, &[(other.port, "right")]);
    let second = wiglaf(folder, "power status");
    assert!(said(&second).contains("shows another key than before"), "{}", said(&second));
    assert_eq!(other.requests(), [""; 0]);
}

#[test]
fn sensors_of_ipmi_are_read_anew_each_time() {
    let Some(folder) = folder_or_skip() else { return };
    let folder = folder.path();
    let sim = Sim::start(folder, "warm", false);
    password(folder, "right", PASSWORD);
    let _ = cluster_file(folder, &[(sim.port, "right")]);
    let shows = |degrees: &str| {
        (0..100).any(|_| {
            let shown = said(&wiglaf(folder, "sensors"));
            std::thread::sleep(std::time::Duration::from_millis(100));
            let row = shown.lines().find(|line| line.starts_with("pc1 "));
            row.is_some_and(|row| row.contains("CPU Temp") && row.contains(degrees))
        })
    };
    assert!(shows("41.00 C"), "{}", said(&wiglaf(folder, "sensors")));
    fs::write(folder.join("warm.temperature"), "72\n").unwrap();
    assert!(shows("72.00 C"), "{}", said(&wiglaf(folder, "sensors")));
    let json = wiglaf(folder, "sensors --json");
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json[0]["sensors"][0]["reading"], "72.00", "{json}");
}

#[test]
fn ipmitool_is_asked_where_freeipmi_cannot_hold_the_password() {
    const ODD: &str = "sec'ret";
    let Some(folder) = folder_or_skip() else { return };
    if !std::path::Path::new("/usr/bin/ipmitool").exists() {
        eprintln!("skipped: ipmitool is not installed; run: cargo xtask packages test");
        return;
    }
    let folder = folder.path();
    let sim = Sim::start_with(folder, "odd", false, ODD);
    password(folder, "right", ODD);
    password(folder, "wrong", "it's other");
    let _ = cluster_file(folder, &[(sim.port, "right"), (sim.port, "wrong")]);
    let is_up = || said(&wiglaf(folder, "power status -w pc1")) == "pc1: on\n";
    assert!((0..50).any(|_| is_up()), "{}", said(&wiglaf(folder, "power status -w pc1")));
    assert_eq!(said(&wiglaf(folder, "power off -w pc1")), "pc1: off (power cut by its BMC)\n");
    assert_eq!(fs::read_to_string(folder.join("odd.power")).unwrap().trim(), "0");
    assert_eq!(said(&wiglaf(folder, "power on -w pc1")), "pc1: on (on by its BMC)\n");
    assert_eq!(said(&wiglaf(folder, "power reset -w pc1")), "pc1: on (reset by its BMC)\n");
    let wrong = wiglaf(folder, "power off -w pc2");
    assert!(said(&wrong).contains("refuses user or password (ipmitool: "), "{}", said(&wrong));
    assert_eq!(fs::read_to_string(folder.join("odd.power")).unwrap().trim(), "1");
    let sensors = wiglaf(folder, "sensors -w pc1");
    assert!(said(&sensors).contains("takes no password with spaces"), "{}", said(&sensors));
}
