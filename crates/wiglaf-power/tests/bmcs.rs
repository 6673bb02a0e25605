//! Power through real simulators of BMCs.

mod simulator;

use std::fs;
use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use simulator::{PASSWORD, Sim, cluster_file, folder_or_skip, password};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_power::{Leave, Limits, State, Wanted, status, switch};

const LIMITS: Limits =
    Limits { change: Duration::from_secs(10), shutdown: Duration::from_secs(10) };

/// What was learned of it is kept for good.
fn forget(sim: &Sim) {
    if let Ok(log) = wiglaf_power::log_file() {
        let _ = fs::remove_file(log.with_file_name(format!("cipher-127.0.0.1-{}", sim.port)));
    }
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
    let file = cluster_file(
        folder,
        &[
            (good.port, "right"),
            (liar.port, "right"),
            (absent, "right"),
            (good.port, "wrong"),
            (good.port, "open"),
        ],
    );
    let hosts = Hosts::parse(&fs::read_to_string(&file).unwrap(), &file).unwrap();
    let spec = |number: usize| &hosts.nodes[number - 1];
    let ready = (0..50).any(|_| {
        std::thread::sleep(Duration::from_millis(100));
        status(spec(1)).is_ok() && status(spec(2)).is_ok()
    });
    assert!(ready, "{:?} {:?}", status(spec(1)), status(spec(2)));
    let change =
        |number, wanted| switch(spec(number), &hosts.network, wanted, LIMITS, Leave::InUse);
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
    forget(&good);
    forget(&liar);
}
