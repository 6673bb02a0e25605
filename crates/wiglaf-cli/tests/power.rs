//! `wiglaf power` and real simulators of BMCs.

#[path = "../../wiglaf-power/tests/simulator/mod.rs"]
mod simulator;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output};

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
