//! What a command does where something is amiss: a node that is down, a reader or a terminal that
//! has gone, a cluster of which a record is all that is left.

mod common;

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use common::{Guarded, Said, Site, eventually, has_openmpi};
use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

#[test]
fn the_others_are_served_when_a_node_is_down() {
    let Some(site) = Site::up(&[]) else { return };
    site.wiglaf(&["fault", "set", "node2", "--down"]).expect_success();
    site.kill_node(0);
    let said = site.wiglaf(&["exec", "--", "hostname"]).expect_sentence(1, "node1 is not up");
    assert!(said.stdout.contains("node2"), "{said:?}");
    let said = site.wiglaf(&["stats"]);
    assert_eq!(said.status, Some(0), "{said:?}");
    assert!(said.stderr.starts_with("wiglaf: node1 is not up"), "{said:?}");
    site.wiglaf(&["stats", "-w", "node1"]).expect_sentence(1, "node1 is not up");
    site.wiglaf(&["fault", "set", "node1", "--down"]).expect_sentence(1, "of these nodes is up");
    // Its cable can be put in.
    site.wiglaf(&["fault", "clear"]).expect_success();
    let said = site.wiglaf(&["fault", "show", "node2"]).expect_success();
    assert!(said.stdout.contains("sound"), "{said:?}");
    // Nothing runs on a node that is down.
    let said = site.wiglaf(&["reset"]).expect_success();
    assert!(said.stdout.contains("node1: is not up"), "{said:?}");
}

#[test]
fn a_node_that_does_not_answer_is_not_taken_for_one_that_is_down() {
    let Some(site) = Site::up(&[]) else { return };
    let folder = site.state().join("nodes/node1");
    fs::rename(folder.join("exec.sock"), folder.join("own.sock")).unwrap();
    let listener = UnixListener::bind(folder.join("exec.sock")).unwrap();
    // Takes every request and says nothing.
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            let mut len = [0; 4];
            let _ = client.read_exact(&mut len);
            let _ = client.read_exact(&mut vec![0; u32::from_le_bytes(len) as usize]);
        }
    });
    let said = site.wiglaf(&["reset"]);
    assert_eq!(said.status, Some(1), "{said:?}");
    assert!(said.stderr.contains("wiglaf: node1 went down"), "{said:?}");
    assert_eq!(said.stdout, "node2: nothing was left\n");
    let said = site.wiglaf(&["reset", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    assert!(json[0]["error"].as_str().unwrap().contains("went down"), "{json}");
    assert_eq!((&json[1]["error"], said.status), (&serde_json::Value::Null, Some(1)));
    let said = site.wiglaf(&["status"]);
    assert!(said.stderr.contains("wiglaf: node1 went down"), "{said:?}");
    assert_eq!(said.status, Some(3));
}

#[test]
fn an_mtu_that_is_too_short_for_mpi_is_told_with_the_one_that_is_not() {
    if !has_openmpi() {
        return;
    }
    for (mtu, is_enough) in [("1435", false), ("1436", true)] {
        let Some(site) = Site::up(&["--mtu", mtu]) else { return };
        site.compile("exchange");
        let up = site.wiglaf(&["up", "--mtu", mtu]).expect_success();
        assert_eq!(up.stderr.contains("needs an MTU of 1436"), !is_enough, "{up:?}");
        let run = site.wiglaf(&["run", "--link", "packet", "-n", "2", "--", "./exchange"]);
        assert_eq!(run.status == Some(0), is_enough, "{run:?}");
        assert_eq!(run.stderr.contains("raise the interface's MTU by 1 at"), !is_enough, "{run:?}");
        site.wiglaf(&["run", "--transport", "tcp", "--", "./exchange"]).expect_success();
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_commands() {
    let Some(site) = Site::up(&[]) else { return };
    let script = "while :; do echo line; sleep 0.01; done";
    let mut command = site.command(&["exec", "-L", "--", "sh", "-c", script]);
    let mut exec = Guarded(command.stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(exec.0.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().ends_with(": line"));
    drop(lines);
    eventually("it ends", || exec.0.try_wait().unwrap().is_some());
    assert!(exec.0.wait().unwrap().success());
    eventually("the commands end", || site.strays() == 0);
}

#[test]
fn lines_that_cannot_be_written_are_no_success() {
    let Some(site) = Site::up(&[]) else { return };
    for script in ["echo hi", "while :; do echo line; done"] {
        let mut exec = site.command(&["exec", "-L", "--", "sh", "-c", script]);
        let full = File::options().write(true).open("/dev/full").unwrap();
        let said: Said = exec.stdout(full).output().unwrap().into();
        said.expect_sentence(1, "cannot write the output: No space left");
    }
    eventually("the commands end", || site.strays() == 0);
}

#[test]
fn nothing_runs_elsewhere_because_its_folder_is_gone() {
    let Some(site) = Site::up(&[]) else { return };
    let exe = env!("CARGO_BIN_EXE_wiglaf");
    for command in ["exec -w node1", "exec", "run --mpi none", "run --transport tcp"] {
        let script = format!("mkdir gone; cd gone; rmdir ../gone; exec {exe} {command} -- pwd");
        let mut sh = site.started_by(Command::new("sh"), &["-c", &script]);
        let said = Said::from(sh.output().unwrap());
        let said = said.expect_sentence(1, "is gone; run the command from your home or a folder");
        assert_eq!(said.stdout, "", "{command}");
    }
}

#[test]
fn a_home_that_may_not_be_entered_is_no_obstacle_or_told() {
    let Some(site) = Site::up(&[]) else { return };
    let (exe, closed) = (site.work().join("wiglaf"), site.work().join("closed"));
    // The build folder may lie where others cannot read.
    fs::copy(env!("CARGO_BIN_EXE_wiglaf"), &exe).unwrap();
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, Permissions::from_mode(0o700)).unwrap();
    // The nodes see it now.
    site.wiglaf(&["exec", "--", "true"]).expect_success();
    let run = |folder: &str, mpi: &str| -> Said {
        let script = format!(
            "cd {folder}; HOME={} exec setpriv --reuid 65534 --regid 65534 --clear-groups {} run {mpi} \
             -- hostname",
            closed.display(),
            exe.display()
        );
        site.started_by(Command::new("sh"), &["-c", &script]).output().unwrap().into()
    };
    for mpi in ["--mpi none", "--transport tcp"] {
        if mpi != "--mpi none" && !has_openmpi() {
            return;
        }
        let said = run(".", mpi).expect_success();
        assert!(said.stdout.contains("node1\n") && said.stdout.contains("node2\n"), "{said:?}");
        run("closed", mpi).expect_sentence(1, "you may enter neither HOME, which is");
    }
}

#[test]
fn a_program_that_is_there_and_does_not_start_is_not_called_missing() {
    let Some(site) = Site::up(&[]) else { return };
    let write = |name: &str, text: &str, mode: u32| {
        fs::write(site.work().join(name), text).unwrap();
        fs::set_permissions(site.work().join(name), Permissions::from_mode(mode)).unwrap();
    };
    write("hello.c", "int main(void) { return 0; }\n", 0o644);
    write("script", "#!/no/such/interpreter\n", 0o755);
    if has_openmpi() {
        site.wiglaf(&["run", "--transport", "tcp", "--", "./hello.c"])
            .expect_sentence(126, "`./hello.c` is not executable");
        let mut run = site.command(&["run", "--transport", "tcp", "--", "hello.c"]);
        let path = format!("{}:{}", site.work().display(), std::env::var("PATH").unwrap());
        Said::from(run.env("PATH", path).output().unwrap())
            .expect_sentence(126, "`hello.c` is not executable");
    }
    for start in [&["exec", "-w", "node1"][..], &["run", "--mpi", "none", "-n", "1"]] {
        let start = |program| site.wiglaf(&[start, &["--", program]].concat());
        start("./script").expect_sentence(127, "node1: the interpreter of `./script` is missing");
        start("./none").expect_sentence(127, "node1: there is no program `./none`");
    }
    let mut exec = site.command(&["exec", "-w", "node1", "--", "script"]);
    let path = format!("/no/such/folder:{}", site.work().display());
    Said::from(exec.env("PATH", path).output().unwrap())
        .expect_sentence(127, "node1: the interpreter of `script` is missing");
}

/// Nodes are to be seen by their pids, which are the machine's.
#[test]
fn what_only_works_on_the_clusters_machine_says_so_on_a_node() {
    let Some(site) = Site::up(&[]) else { return };
    for command in
        [&["capture", "-w", "file"][..], &["fault", "set", "--drop", "1%"], &["fault", "clear"]]
    {
        let on_node = ["exec", "-w", "node1", "--", "wiglaf"];
        site.wiglaf(&[&on_node, command].concat())
            .expect_sentence(1, "brought up outside of this node or container");
    }
    assert!(!site.work().join("file").exists());
}

#[test]
fn a_capture_that_is_refused_empties_no_file() {
    let Some(site) = Site::up(&[]) else { return };
    let file = site.work().join("kept");
    fs::write(&file, "kept").unwrap();
    for bad in ["--for=-1", "--for=abc", "--for=inf"] {
        site.wiglaf(&["capture", bad, "-w", "kept"])
            .expect_sentence(2, "give seconds, such as 5 or 0.5");
    }
    assert_eq!(fs::read_to_string(&file).unwrap(), "kept");
}

/// A pseudo-terminal: its user's end, and the other.
fn terminal() -> (OwnedFd, OwnedFd) {
    let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&ours).unwrap();
    unlockpt(&ours).unwrap();
    let name = ptsname(&ours, Vec::new()).unwrap();
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
    let theirs = openat(CWD, name.as_c_str(), flags, Mode::empty()).unwrap();
    (ours, theirs)
}

#[test]
fn the_switch_is_named_alone() {
    let Some(site) = Site::up(&[]) else { return };
    site.wiglaf(&["exec", "-w", "node1,switch", "--", "true"])
        .expect_sentence(1, "the switch is none of the nodes; name it alone");
}

#[test]
fn tools_that_only_root_has_in_the_path_are_told_with_their_version() {
    let site = Site::new();
    let said = site.command(&["doctor", "--json"]).env("PATH", "/none").output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&said.stdout).unwrap();
    let checks = report["checks"].as_array().unwrap();
    let tools = checks.iter().find(|check| check["name"] == "iproute2").unwrap();
    assert!(tools["found"] != "", "{tools}");
}

#[test]
fn who_waits_at_a_terminal_that_hung_up_sleeps() {
    let Some(site) = Site::up(&[]) else { return };
    let (ours, theirs) = terminal();
    let script = "trap '' HUP; touch ready; sleep 1000";
    let mut command = site.command(&["exec", "-w", "node1", "--", "sh", "-c", script]);
    let copy = || theirs.try_clone().unwrap();
    command.stdin(copy()).stdout(copy()).stderr(Stdio::null()).process_group(0);
    let exec = Guarded(command.spawn().unwrap());
    drop((command, theirs));
    eventually("it runs", || site.work().join("ready").exists());
    drop(ours);
    // Who spins is seen running, sooner or later.
    let sleeps = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", exec.0.id())).unwrap();
        stat.rsplit(") ").next().unwrap().starts_with('S')
    };
    eventually("it sleeps", || (0..200).all(|_| sleeps()));
}

#[test]
fn what_a_restart_has_left_of_a_cluster_is_in_nobodys_way() {
    let Some(site) = Site::up(&[]) else { return };
    let file = site.state().join("cluster.json");
    let elsewhere = || {
        let text = fs::read_to_string(&file).unwrap();
        let mut record: serde_json::Value = serde_json::from_str(&text).unwrap();
        record["pid_namespace"] = "pid:[1]".into();
        fs::write(&file, record.to_string()).unwrap();
    };
    let kept = fs::read_to_string(&file).unwrap();
    elsewhere();
    // Another container's cluster, which is up.
    for command in ["up", "down"] {
        site.wiglaf(&[command]).expect_sentence(1, "was brought up outside of this node");
    }
    fs::write(&file, kept).unwrap();
    for (command, words) in [
        (&["run", "--mpi", "none", "--", "hostname"][..], "node1"),
        (&["up"], "after the remains"),
        (&["down"], "the cluster is down"),
    ] {
        let record: serde_json::Value =
            serde_json::from_str(&fs::read_to_string(&file).unwrap()).unwrap();
        let inits = record["nodes"].as_array().unwrap().iter().chain([&record["switch"]]);
        let pids: Vec<String> = inits.map(|init| init["pid"].to_string()).collect();
        for pid in &pids {
            assert!(Command::new("kill").args(["-9", pid]).status().unwrap().success());
        }
        // Their sockets are closed by the last of their threads.
        let has_ended = |pid| match fs::read_to_string(format!("/proc/{pid}/status")) {
            Ok(status) => status.contains("State:\tZ") && status.contains("Threads:\t1\n"),
            Err(_) => true,
        };
        eventually("all inits are gone", || pids.iter().all(has_ended));
        elsewhere();
        let said = site.wiglaf(command).expect_success();
        assert!(said.stdout.contains(words), "{said:?}");
    }
    assert!(!site.state().exists());
}
