//! The benchmarks on real nodes. No figure is judged here, only that there are
//! figures, that they are of what they claim to be, and that nothing is left.

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use common::{Said, Site, has_openmpi, why_not};
use serde_json::Value;

fn report(site: &Site, name: &str) -> Value {
    let text = std::fs::read_to_string(site.work().join("out").join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn names(list: &Value, key: &str) -> Vec<String> {
    list.as_array().unwrap().iter().map(|one| one[key].as_str().unwrap().to_owned()).collect()
}

/// The folder of the cluster that a benchmark with this pid starts.
fn own_state(pid: u32) -> String {
    format!("/run/wiglaf/bench-{pid}")
}

#[test]
fn a_ping_pong_measures_everybody_and_the_floors() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let args = ["bench", "pingpong", "--sizes", "8,64K", "--repeats", "2", "--output", "out"];
    let said = site.wiglaf(&args).expect_success();
    assert!(said.stderr.contains("using the cluster that is up"), "{said:?}");
    assert!(said.stdout.contains("64 KiB"), "{said:?}");

    let report = report(&site, "pingpong.json");
    let here = names(&report["contenders"], "transport");
    let absent = names(&report["absent"], "transport");
    for transport in ["wiglaf", "tcp"] {
        let reason = &report["absent"];
        assert!(here.iter().any(|t| t == transport), "{transport} is absent: {reason}");
    }
    assert_eq!(here.len() + absent.len(), 4);
    for contender in report["contenders"].as_array().unwrap() {
        let points = contender["points"].as_array().unwrap();
        let lens: Vec<u64> = points.iter().map(|p| p["len"].as_u64().unwrap()).collect();
        assert_eq!(lens, [8, 65_536]);
        assert!(points.iter().all(|p| p["round_p50_us"].as_array().unwrap().len() == 2));
        assert!(contender["evidence"].is_string() && contender["settings"].is_object());
        assert!(contender["settings"]["WIGLAF_KEY"].is_null(), "the secret is written down");
    }
    assert_eq!(
        names(&report["floors"], "link"),
        ["udp", "packet", "xdp-generic", "shm"],
        "{report}"
    );
    let active = report["active_messages"].as_array().unwrap();
    assert_eq!(names(&report["active_messages"], "link"), ["packet", "udp"], "{report}");
    for one in active {
        for of_rounds in ["p50_us", "bare_p50_us"] {
            let times = one[of_rounds].as_array().unwrap();
            assert!(times.len() == 2 && times.iter().all(|t| t.as_f64().unwrap() > 0.0), "{one}");
        }
    }
    for ending in ["md", "svg"] {
        assert!(site.work().join("out/pingpong").with_extension(ending).is_file());
    }
    assert_eq!(site.strays(), 0);
    assert!(!site.inits().is_empty(), "the user's cluster was taken down");
}

/// Bytes and frames that node1 has sent.
fn sent(site: &Site) -> [u64; 2] {
    ["bytes", "packets"].map(|what| {
        let file = format!("/sys/class/net/eth0/statistics/tx_{what}");
        let said = site.wiglaf(&["exec", "-w", "node1", "--", "cat", &file]).expect_success();
        said.stdout.trim().parse().unwrap()
    })
}

#[test]
fn without_offloads_nodes_send_single_frames_and_have_them_back_afterwards() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let run = |more: &[&str]| {
        let [bytes, frames] = sent(&site);
        let mut args = vec!["bench", "bandwidth", "--sizes", "1M", "--quick", "--repeats", "1"];
        args.extend(["--output", "out"].iter().chain(more));
        let said = site.wiglaf(&args).expect_success();
        let [bytes_after, frames_after] = sent(&site);
        (said, (bytes_after - bytes) as f64 / (frames_after - frames) as f64)
    };
    let (said, mean_len) = run(&["--single-frames"]);
    assert!(said.stdout.contains("single frames"), "{said:?}");
    assert_eq!(report(&site, "bandwidth.json")["facts"]["nodes"]["offloads"], "off");
    assert!(mean_len <= 1514.0, "frames of {mean_len} bytes on average");
    let (_, mean_len) = run(&[]);
    assert!(mean_len > 3000.0, "frames of {mean_len} bytes on average");
}

#[test]
fn a_backlog_is_measured_beside_the_rivals() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let args = ["bench", "backlog", "--messages", "100", "--quick", "--repeats", "1"];
    let said = site.wiglaf(&[&args[..], &["--output", "out"]].concat()).expect_success();
    assert!(said.stdout.contains("as they come"), "{said:?}");
    let report = report(&site, "backlog.json");
    assert_eq!((&report["ranks"], &report["away_ms"]), (&4.into(), &20.into()));
    let loads = report["loads"].as_array().unwrap();
    assert_eq!(loads.len(), 1, "{report}");
    let here = names(&loads[0]["until_all"], "transport");
    for transport in ["wiglaf", "tcp"] {
        assert!(here.iter().any(|t| t == transport), "{transport}: {}", report["absent"]);
    }
    for until_all in loads[0]["until_all"].as_array().unwrap() {
        let median = until_all["round_p50_us"][0].as_f64().unwrap();
        assert!(median > 0.0 && until_all["max_us"].as_f64().unwrap() >= median, "{until_all}");
    }
}

#[test]
fn streams_are_measured_both_ways() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let args = ["bench", "bandwidth", "--sizes", "8,64K", "--quick", "--repeats", "1"];
    let mut args = args.to_vec();
    args.extend(["--output", "out"]);
    let said = site.wiglaf(&args).expect_success();
    assert!(said.stdout.contains("64 KiB both"), "{said:?}");
    let report = report(&site, "bandwidth.json");
    let here = names(&report["contenders"], "transport");
    for transport in ["wiglaf", "tcp"] {
        assert!(here.iter().any(|t| t == transport), "{transport}: {}", report["absent"]);
    }
    for contender in report["contenders"].as_array().unwrap() {
        assert_eq!(names(&contender["points"], "ways"), ["one", "both", "one", "both"]);
        assert!(contender["points"][0]["messages_per_s"].as_f64().unwrap() > 0.0);
    }
    for ending in ["md", "svg"] {
        assert!(site.work().join("out/bandwidth").with_extension(ending).is_file());
    }
}

#[test]
fn remote_files_are_measured_beside_their_rivals() {
    let Some(site) = Site::up(&[]) else { return };
    if !Path::new("/usr/bin/cc").exists() {
        return eprintln!("skipped: no C compiler");
    }
    let args = ["bench", "files", "--stream", "2M", "--small-files", "30", "--repeats", "1"];
    let said = site.wiglaf(&[&args[..], &["--output", "out"]].concat()).expect_success();
    assert!(said.stdout.contains("read 4 KiB"), "{said:?}");
    let report = report(&site, "files.json");
    let here = names(&report["contenders"], "way");
    let has = |file: &str| Path::new(file).exists();
    let mut wanted = vec!["local", "tcp", "wiglaf", "wiglaf-buffered"];
    if has("/usr/bin/sshfs") && has("/usr/sbin/sshd") && has("/dev/fuse") {
        wanted.extend(["sshfs", "sshfs-fast", "sshfs-direct"]);
    }
    if has("/usr/bin/ganesha.nfsd") && has("/usr/include/nfsc/libnfs.h") {
        wanted.push("nfs");
    }
    for way in wanted {
        assert!(here.iter().any(|one| one == way), "{way} is absent: {}", report["absent"]);
    }
    assert_eq!(here.len() + names(&report["absent"], "way").len(), 9);
    for contender in report["contenders"].as_array().unwrap() {
        let rows = ["write", "read", "read-4k", "small-files"];
        let rows = if contender["way"] == "tcp" { &rows[..3] } else { &rows[..] };
        assert_eq!(names(&contender["points"], "row"), rows);
    }
    for ending in ["md", "svg"] {
        assert!(site.work().join("out/files").with_extension(ending).is_file());
    }
    // Neither servers nor mounts nor files stay.
    assert_eq!(site.strays(), 0);
    for node in ["node1", "node2"] {
        let left =
            site.sh(node, "ls /scratch; ls /tmp | grep bench-files; mount | grep fuse; true");
        assert_eq!(left, "", "{node}");
    }
}

#[test]
fn a_cluster_of_another_shape_is_left_alone() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let args = ["bench", "ring", "--ranks", "3", "--nodes", "3", "--quick", "--repeats", "1"];
    let mut command = site.command(&args);
    let child = child_of(command.args(["--json", "--output", "out"])).spawn().unwrap();
    let own = own_state(child.id());
    let said = Said::from(child.wait_with_output().unwrap()).expect_success();
    assert!(said.stderr.contains("has not the shape wanted"), "{said:?}");
    assert!(said.stderr.contains("a cluster of its own: node[1-3]"), "{said:?}");
    let printed: Value = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(printed, report(&site, "ring.json"));
    assert_eq!(printed["nodes"], 3);
    assert!(!Path::new(&own).exists() && common::processes_with(Path::new(&own)).is_empty());
    assert!(!site.inits().is_empty(), "the user's cluster was taken down");
}

#[test]
fn collectives_are_measured_beside_every_rival() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    let args = ["bench", "collectives", "--quick", "--repeats", "1", "--output", "out"];
    let what = ["--operations", "barrier,halo,iallreduce", "--sizes", "8,64K"];
    let said = Said::from(site.command(&args).args(what).output().unwrap()).expect_success();
    let rows: Vec<&str> = said.stdout.lines().filter(|l| l.starts_with("halo")).collect();
    assert_eq!(rows.len(), 1, "{said:?}");
    assert!(
        said.stdout.contains("of 5\n") && said.stdout.contains("overlap of iallreduce, 64 KiB")
    );
    let written = report(&site, "collectives.json");
    let contenders = written["contenders"].as_array().unwrap();
    assert!(contenders.len() >= 2, "{written}");
    for contender in contenders {
        let cells = contender["cells"].as_array().unwrap();
        // A barrier has no length.
        assert_eq!(cells.len(), 5, "{contender}");
        let is_timed = |cell: &Value| cell["mean_us"].as_f64().is_some_and(|us| us > 0.0);
        assert!(cells.iter().all(is_timed), "{contender}");
        assert!(cells[4]["overlap"].is_f64() && cells[0]["overlap"].is_null(), "{contender}");
    }
}

#[test]
fn a_wire_with_faults_is_not_measured() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    Said::from(site.command(&["fault", "set", "--drop", "1%"]).output().unwrap()).expect_success();
    let said = Said::from(site.command(&["bench", "pingpong", "--sizes", "8"]).output().unwrap());
    assert!(said.stderr.contains("run `wiglaf fault clear` first"), "{said:?}");
}

fn child_of(command: &mut Command) -> &mut Command {
    command.stdout(Stdio::piped()).stderr(Stdio::piped())
}

#[test]
fn an_interrupted_benchmark_leaves_nothing() {
    if let Some(reason) = why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    if !has_openmpi() {
        return;
    }
    let site = Site::new();
    let mut command = site.command(&["bench", "ring", "--repeats", "50", "--output", "out"]);
    let mut child = child_of(&mut command).spawn().unwrap();
    let own = own_state(child.id());
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("round 1 of 50")));
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    let rest: Vec<String> = lines.collect();
    assert_eq!(child.wait().unwrap().code(), Some(143), "{rest:?}");
    assert_eq!(rest.last().unwrap(), "wiglaf: interrupted by signal 15", "{rest:?}");
    assert!(!Path::new(&own).exists() && common::processes_with(Path::new(&own)).is_empty());
}

/// What `bench all` runs ends with it.
#[test]
fn an_interrupted_set_leaves_nothing() {
    if let Some(reason) = why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    if !has_openmpi() {
        return;
    }
    let site = Site::new();
    let mut command = site.command(&["bench", "all", "--minutes", "2", "--output", "out"]);
    let mut child = child_of(&mut command).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains(": round 1 of ")));
    let steps = format!("bench --parent {} ", child.id());
    // More than one: what a step forks has the step's command line until it executes its own.
    assert!(!common::processes_with(Path::new(&steps)).is_empty());
    let kill = Command::new("kill").args(["-TERM", &child.id().to_string()]).status();
    assert!(kill.unwrap().success());
    child.wait().unwrap();
    // Its steps have the same standard error: it ends when they have.
    let rest: Vec<String> = lines.collect();
    assert_eq!(rest.last().unwrap(), "wiglaf: interrupted by signal 15", "{rest:?}");
    common::eventually("the step ends", || common::processes_with(Path::new(&steps)).is_empty());
}

#[test]
fn a_step_of_a_set_that_has_ended_does_not_begin() {
    let said = Site::new().wiglaf(&["bench", "--parent", "1", "pingpong"]);
    said.expect_sentence(143, "bench all has ended");
}

#[test]
fn the_demo_finds_equal_energies() {
    if let Some(reason) = why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    let has = |file: &str| Path::new(file).exists();
    let data = "/usr/share/espresso/pseudo/Si.pz-vbc.UPF";
    if !has_openmpi() || !has("/usr/bin/pw.x") || !has("/usr/bin/nwchem.openmpi") || !has(data) {
        eprintln!("skipped: quantum-espresso, quantum-espresso-data or nwchem-openmpi is missing");
        return;
    }
    let site = Site::new();
    let said = site.wiglaf(&["demo", "--repeats", "1"]).expect_success();
    for program in ["Quantum ESPRESSO", "NWChem"] {
        let at = said.stdout.find(&format!("\n{program}")).unwrap();
        for transport in ["TCP", "Wiglaf"] {
            let name = format!("{transport}  ");
            let row = said.stdout[at..].lines().find_map(|line| line.trim().strip_prefix(&name));
            let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
            let seconds = |cell: &str| cell.parse::<f64>().unwrap();
            assert!(seconds(cells[0]) > 0.0 && seconds(cells[1]) > 0.0, "{said:?}");
        }
    }
    for energy in ["total energy", "gives -167.5977178"] {
        let is_it = |line: &&str| line.starts_with("check: ") && line.contains(energy);
        let line = said.stdout.lines().find(is_it);
        assert!(line.is_some_and(|line| line.contains("in all 2 runs")), "{said:?}");
    }
}

#[test]
fn what_the_demo_lacks_comes_with_its_mend() {
    let site = Site::new();
    let said: Said = site.command(&["demo"]).env("PATH", "/nowhere").output().unwrap().into();
    assert_eq!(said.status, Some(127), "{said:?}");
    assert!(said.stderr.contains("pw.x is missing: apt-get install quantum-espresso"), "{said:?}");
    let last = said.stderr.lines().last().unwrap();
    assert!(last.contains("run `apt-get install ") && last.contains("openmpi-bin"), "{said:?}");
}

#[test]
fn a_floor_needs_its_peers() {
    Site::new().wiglaf(&["floor"]).expect_sentence(1, "WIGLAF_RANK is not set");
}
