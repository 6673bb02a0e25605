//! Remote files between two emulated nodes: the server is started through the
//! node's init, the client is the C example.

mod common;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime};

use common::{Guarded, Said, Site, eventually};

/// A C program of the file library, compiled, or nothing where there is no compiler.
fn compiled(site: &Site, source: &str) -> Option<PathBuf> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = site.work().join(Path::new(source).file_stem().unwrap());
    let compiled = Command::new("cc")
        .arg("-I")
        .arg(here.join("../wiglaf-files/include"))
        .arg(here.join(source))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&deps)
        .args(["-lwiglaf_files", &format!("-Wl,-rpath,{}", deps.display())])
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "{source} does not compile"),
        Err(why) => {
            println!("skipped: no C compiler ({why})");
            return None;
        }
    }
    Some(program)
}

fn example(site: &Site) -> Option<PathBuf> {
    compiled(site, "../wiglaf-files/examples/remote.c")
}

const ON_NODE1: [&str; 4] = ["exec", "-w", "node1", "--"];

/// Runs tests/files/fsx.c on node1 by such a command against node2 for so long, lets `trouble` do
/// something once it is under way, and compares what is on node2's disk in the end.
fn exercise(site: &Site, command: &[&str], seconds: u64, trouble: impl FnOnce()) {
    let Some(program) = compiled(site, "tests/files/fsx.c") else { return };
    let program = program.to_str().unwrap();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = std::env::var("WIGLAF_SEED").unwrap_or(now.subsec_nanos().to_string());
    println!("WIGLAF_SEED={seed}");
    let seconds = seconds.to_string();
    let words = [program, "node2", "/scratch/file", "/scratch/copy", &seconds, &seed];
    let mut command = site.command(&[command, &words[..]].concat());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "running");
    trouble();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(child.wait().unwrap().success(), "it failed");
    assert!(rest.len() == 1 && rest[0].starts_with("passed "), "{rest:?}");
    println!("{}", rest[0]);
    let sum = |node, file| site.sh(node, &format!("sha256sum < /scratch/{file}"));
    assert_eq!(sum("node2", "file"), sum("node1", "copy"));
    eventually("no server is left", || site.strays() == 0);
}

#[test]
fn every_byte_is_right_over_a_faulty_wire() {
    let Some(site) = Site::up(&[]) else { return };
    let faults = ["--drop", "1%", "--duplicate", "1%", "--corrupt", "1%", "--reorder", "1%"];
    site.wiglaf(&[&["fault", "set", "node1"], &faults[..]].concat()).expect_success();
    exercise(&site, &ON_NODE1, 3, || {});
    for way in ["from", "to"] {
        for what in ["dropped", "duplicated", "corrupted", "reordered"] {
            assert!(site.faults("node1", way, what) > 0, "{way} {what}");
        }
    }
}

#[test]
fn open_files_survive_a_link_that_flaps() {
    let Some(site) = Site::up(&[]) else { return };
    exercise(&site, &ON_NODE1, 4, || {
        for _ in 0..3 {
            site.wiglaf(&["fault", "set", "node1", "--down"]).expect_success();
            std::thread::sleep(Duration::from_millis(700));
            site.wiglaf(&["fault", "clear"]).expect_success();
            std::thread::sleep(Duration::from_millis(200));
        }
    });
}

#[test]
fn an_encrypted_jobs_server_has_no_key_in_its_environment() {
    let Some(site) = Site::up(&[]) else { return };
    let run = ["run", "--encrypt", "--mpi", "none", "-w", "node1", "-n", "1", "--"];
    exercise(&site, &run, 5, || {
        let pid = "$(pgrep -x -f '/usr/bin/wiglaf serve-files')";
        let variables = site.sh("node2", &format!("tr '\\0' '\\n' < /proc/{pid}/environ"));
        assert!(variables.contains("WIGLAF_ENCRYPT=on"), "{variables}");
        assert!(!variables.contains("WIGLAF_KEY"), "{variables}");
    });
}

/// Lets a program on node1 read from node2 until that fails by what `end` does; prints and answers how
/// many seconds that took since the time that `end` answers.
fn end_of_a_read(env: &str, end: impl FnOnce(&Site) -> f64) -> Option<f64> {
    let site = Site::up(&[])?;
    let program = compiled(&site, "tests/files/waits.c")?;
    let program = program.to_str().unwrap();
    let words = ["exec", "-w", "node1", "--", "env", env, program, "node2", "/scratch/f"];
    let mut child = Guarded(site.command(&words).stdout(Stdio::piped()).spawn().unwrap());
    let mut lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "running");
    let began = end(&site);
    let last = lines.next().unwrap().unwrap();
    let failed: f64 = last.strip_prefix("failed 5 ").expect(&last).parse().unwrap();
    println!("it failed after {:.1} ms", (failed - began) * 1e3);
    Some(failed - began)
}

fn now() -> f64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs_f64()
}

#[test]
fn a_read_ends_when_its_server_is_killed() {
    end_of_a_read("A=", |site| {
        let kill = "date +%s.%N; kill -9 $(pgrep -x -f '/usr/bin/wiglaf serve-files')";
        site.sh("node2", kill).trim().parse().unwrap()
    });
}

#[test]
fn a_read_ends_when_its_node_is_killed() {
    end_of_a_read("A=", |site| {
        let began = now();
        site.kill_node(1);
        began
    });
}

/// Where nothing tells that it is dead, as with a machine that has lost its power.
#[test]
fn a_read_from_a_silent_node_ends_after_the_silence_limit() {
    let took_s = end_of_a_read("WIGLAF_SILENCE_LIMIT=3s", |site| {
        site.wiglaf(&["fault", "set", "node2", "--down"]).expect_success();
        now()
    });
    // Not at once: it had been waited for.
    assert!(took_s.is_none_or(|s| s > 1.0), "{took_s:?}");
}

#[test]
fn a_program_on_one_node_works_on_the_disk_of_another() {
    let Some(site) = Site::up(&[]) else { return };
    let Some(program) = example(&site) else { return };
    let run = |host: &str| {
        let program = program.to_str().unwrap();
        site.wiglaf(&["exec", "-w", "node1", "--", program, host, "/scratch/example"])
    };
    let said = run("node2").expect_success();
    assert_eq!(
        said.stdout,
        "/scratch/example has 2400000 bytes on node2\n\
         /etc/passwd: Permission denied: the path is in no folder that its node exports; see \
         `export` in the cluster file\n\
         no-such-file: No such file or directory\n"
    );
    // The scratch folders are each node's own.
    site.sh("node2", "echo two > /scratch/name");
    assert_eq!(site.sh("node1", "ls /scratch"), "");
    let said = run("node9");
    assert!(said.stderr.contains("the cluster has no node node9; it has node[1-2]"), "{said:?}");
    eventually("no server is left", || site.strays() == 0);
}

#[test]
fn a_server_is_the_callers_and_sees_what_is_exported() {
    let file = "export = ['/var/tmp/out']\n";
    let Some(site) = Site::up(&[]) else { return };
    site.wiglaf(&["down"]).expect_success();
    let path = site.work().join("cluster.toml");
    std::fs::write(&path, file).unwrap();
    site.wiglaf(&["up", "--file", path.to_str().unwrap()]).expect_success();
    let Some(program) = example(&site) else { return };
    let program = program.to_str().unwrap();
    site.sh(
        "node2",
        "mkdir -m 777 /var/tmp/out; mkdir -m 700 /var/tmp/out/roots; mkdir /scratch/d",
    );
    let nobody = |path: &str| {
        let command =
            format!("setpriv --reuid=65534 --regid=65534 --clear-groups {program} node2 {path}");
        site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", &command])
    };
    let said = nobody("/var/tmp/out/mine").expect_success();
    assert!(said.stdout.starts_with("/var/tmp/out/mine has 2400000 bytes"), "{said:?}");
    let said = nobody("/var/tmp/out/roots/file");
    assert!(said.stderr.contains("ropen: Permission denied (errno 13)"), "{said:?}");
    // A relative path begins in the scratch folder, whatever else is exported.
    let said = nobody("d");
    assert!(said.stderr.contains("ropen: Is a directory"), "{said:?}");
    let said = nobody("/var/tmp/file");
    assert!(said.stderr.contains("ropen: Permission denied: the path is in no folder"), "{said:?}");
}

#[test]
fn a_file_is_copied_between_nodes_and_a_copy_goes_on_where_it_was() {
    let Some(site) = Site::up(&[]) else { return };
    site.sh("node1", "head -c 5000000 /dev/urandom > /scratch/a; chmod 640 /scratch/a");
    site.wiglaf(&["cp", "node1:/scratch/a", "node2:/scratch/b"]).expect_success();
    let sum = |node: &str, path: &str| site.sh(node, &format!("sha256sum < {path}"));
    let whole = sum("node1", "/scratch/a");
    assert_eq!(sum("node2", "/scratch/b"), whole);
    assert_eq!(site.sh("node2", "stat -c '%a %s' /scratch/b; ls /scratch"), "640 5000000\nb\n");

    // What an interrupted copy has left is kept if it is right, and replaced if not.
    site.sh("node2", "head -c 2000000 /scratch/b > /scratch/c.wiglaf-part");
    site.sh("node2", "head -c 2000000 /dev/urandom > /scratch/d.wiglaf-part");
    for (name, resumed) in [("c", 2_000_000), ("d", 0)] {
        let to = format!("node2:/scratch/{name}");
        let said = site.wiglaf(&["cp", "--json", "node1:/scratch/a", &to]).expect_success();
        let report: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
        assert_eq!(report["bytes"], 5_000_000);
        assert_eq!(report["resumed_bytes"], resumed, "{name}");
        assert_eq!(sum("node2", &format!("/scratch/{name}")), whole, "{name}");
    }

    // To and from the folder that the command is called in, into a folder of a node.
    std::fs::write(site.work().join("local"), "some bytes").unwrap();
    site.wiglaf(&["cp", "local", "node2:/scratch"]).expect_success();
    assert_eq!(site.sh("node2", "cat /scratch/local"), "some bytes");
    site.wiglaf(&["cp", "node2:/scratch/local", "back"]).expect_success();
    assert_eq!(std::fs::read(site.work().join("back")).unwrap(), b"some bytes");

    let refused = site.wiglaf(&["cp", "node1:/scratch/no", "node2:/scratch/x"]);
    refused.expect_sentence(1, "cannot copy node1:/scratch/no to node2:/scratch/x: No such file");
    let refused = site.wiglaf(&["cp", "node1:/scratch/a", "node2:/etc/x"]);
    refused.expect_sentence(1, "the path is in no folder that its node exports");
    let refused = site.wiglaf(&["cp", "node7:/scratch/a", "node2:/scratch/x"]);
    refused.expect_sentence(1, "the cluster `default` has no node node7");
    assert_eq!(site.strays(), 0);
}

/// On a wire where 24 MB take about two seconds, so that there is something to see.
fn slow_site() -> Option<Site> {
    let site = Site::up(&["--rate", "100mbit"])?;
    site.sh("node1", "head -c 24000000 /dev/urandom > /scratch/a");
    Some(site)
}

#[test]
fn a_copy_says_how_far_it_is_where_somebody_looks() {
    let Some(site) = slow_site() else { return };
    site.sh("node1", "head -c 8000000 /scratch/a > /scratch/half");
    site.wiglaf(&["cp", "--no-verify", "node1:/scratch/half", "node2:/scratch/half"])
        .expect_success();
    site.sh("node2", "mv /scratch/half /scratch/b.wiglaf-part");
    // `script` plays the terminal.
    let copy = format!("{} cp node1:/scratch/a node2:/scratch/b", env!("CARGO_BIN_EXE_wiglaf"));
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &copy, "/dev/null"]);
    let mut played = site.started_by(terminal, &[]);
    let mut played = played.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    // Held open: `script` would type the end of its input into the terminal.
    let typed = played.stdin.take();
    let said = Said::from(played.wait_with_output().unwrap()).expect_success();
    drop(typed);
    let mut lines: Vec<&str> = said.stdout.split('\r').collect();
    // It leaves nothing behind.
    assert_eq!(lines.pop(), Some(""), "{said:?}");
    assert!(lines.pop().is_some_and(|line| line.len() == 60 && line.trim().is_empty()), "{said:?}");
    assert_eq!(lines.remove(0), "", "{said:?}");
    // Comparing goes through one side, and then the other.
    let mut before = ("", 0);
    let mut stages = Vec::new();
    for line in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [stage, percent, "%", done, "of", all, "MB"] = words[..] else { panic!("{line}") };
        let (percent, done): (u32, f64) = (percent.parse().unwrap(), done.parse().unwrap());
        assert_eq!(all, if stage == "comparing" { "8.0" } else { "24.0" }, "{line}");
        let exact = 100.0 * done / all.parse::<f64>().unwrap();
        assert!(percent <= 100 && (f64::from(percent) - exact).abs() < 2.0, "{line}");
        if stage != before.0 {
            stages.push(stage);
        } else if stage != "comparing" {
            assert!(percent >= before.1, "{said:?}");
        }
        before = (stage, percent);
    }
    assert_eq!(stages, ["comparing", "copying", "verifying"], "{said:?}");

    let said = site.wiglaf(&["cp", "--no-verify", "node1:/scratch/a", "node2:/scratch/c"]);
    let said = said.expect_success();
    assert_eq!((&*said.stdout, &*said.stderr), ("", ""), "nobody looks");
}

#[test]
fn a_copy_that_another_program_alters_is_removed() {
    let Some(site) = slow_site() else { return };
    let mut copy = site.command(&["cp", "node1:/scratch/a", "node2:/scratch/b"]);
    let copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // What lies 4 MiB behind the end is no more written to.
    site.sh(
        "node2",
        "cd /scratch; size() { stat -c %s b.wiglaf-part 2> /dev/null || echo 0; }; \
         until [ -e b ] || [ $(size) -gt 8000000 ]; do sleep 0.01; done; \
         printf wrong | dd of=b.wiglaf-part bs=1 seek=1000000 conv=notrunc status=none",
    );
    let said = Said::from(copy.wait_with_output().unwrap());
    said.expect_sentence(1, "the copy is not what was read, and was removed; copy it again");
    assert_eq!(site.sh("node2", "ls /scratch"), "");
}

#[test]
fn files_of_proc_and_sys_are_copied_to_their_end() {
    let Some(site) = Site::up(&[]) else { return };
    // Of no length, and of a page's, whatever is in them.
    let made_up = ["/proc/version", "/sys/kernel/mm/transparent_hugepage/enabled"];
    for file in made_up.into_iter().filter(|file| Path::new(file).exists()) {
        let wanted = std::fs::read_to_string(file).unwrap();
        assert_ne!(wanted.len() as u64, std::fs::metadata(file).unwrap().len(), "{file}");
        for from in [file.to_owned(), format!("node1:{file}")] {
            site.wiglaf(&["cp", &from, "node2:/scratch/copy"]).expect_success();
            assert_eq!(site.sh("node2", "cat /scratch/copy; rm /scratch/copy"), wanted, "{from}");
        }
    }
    assert_eq!(site.sh("node2", "ls /scratch"), "");
}

#[test]
fn a_file_whose_name_has_a_colon_is_named_with_its_folder() {
    let Some(site) = Site::up(&[]) else { return };
    std::fs::write(site.work().join("a:b"), "colon\n").unwrap();
    let hint = "for the file of that name here write ./a:b";
    site.wiglaf(&["cp", "a:b", "node2:/scratch"]).expect_sentence(1, hint);
    site.wiglaf(&["cp", "node2:/scratch/x", "a:b"]).expect_sentence(1, hint);
    let on_node = ["exec", "-w", "node1", "--", "wiglaf", "cp", "a:b", "node2:/scratch"];
    site.wiglaf(&on_node).expect_sentence(1, hint);
    site.wiglaf(&["cp", "./a:b", "node2:/scratch"]).expect_success();
    assert_eq!(site.sh("node2", "cat /scratch/a:b"), "colon\n");
}

#[test]
fn a_copy_is_masked_as_its_caller_masks_files() {
    let Some(site) = Site::up(&[]) else { return };
    site.sh("node1", "echo a > /scratch/a; chmod 666 /scratch/a");
    for (mask, wanted) in [("077", "600"), ("027", "640"), ("002", "664")] {
        for to in ["node2:/scratch/b", "node1:/scratch/b", "b"] {
            let masked = r#"umask "$0"; exec "$@""#;
            let mut sh = Command::new("sh");
            sh.args(["-c", masked, mask, env!("CARGO_BIN_EXE_wiglaf")]);
            let said: Said =
                site.started_by(sh, &["cp", "node1:/scratch/a", to]).output().unwrap().into();
            said.expect_success();
            let mode = match to.split_once(':') {
                Some((node, path)) => site.sh(node, &format!("stat -c %a {path}")),
                None => {
                    let about = std::fs::metadata(site.work().join(to)).unwrap();
                    let mode = std::os::unix::fs::PermissionsExt::mode(&about.permissions());
                    format!("{:o}\n", mode & 0o7777)
                }
            };
            assert_eq!(mode, format!("{wanted}\n"), "{mask} {to}");
        }
    }
}

/// Where it is on this machine, and not in a node's folder of the same name.
#[test]
fn a_path_of_this_machine_is_this_machines() {
    let Some(site) = Site::up(&[]) else { return };
    let other = tempfile::tempdir().unwrap();
    let at = |name: &str| other.path().join(name);
    let text = |name: &str| at(name).to_str().unwrap().to_owned();
    site.sh("node2", "echo theirs > /scratch/r");
    // The node has a folder of the same name, which is another.
    let folder = text("");
    site.sh("node2", &format!("mkdir -p {folder}; echo wrong > {folder}/back"));
    site.wiglaf(&["cp", "node2:/scratch/r", &text("r")]).expect_success();
    assert_eq!(std::fs::read_to_string(at("r")).unwrap(), "theirs\n");
    // Into a folder, also one that a link leads to.
    std::fs::create_dir(at("folder")).unwrap();
    std::os::unix::fs::symlink(at("folder"), at("to-folder")).unwrap();
    site.wiglaf(&["cp", "node2:/scratch/r", &text("to-folder")]).expect_success();
    assert_eq!(std::fs::read_to_string(at("folder/r")).unwrap(), "theirs\n");

    std::fs::write(at("back"), "ours\n").unwrap();
    std::os::unix::fs::symlink(at("back"), at("link")).unwrap();
    for name in ["back", "link"] {
        site.wiglaf(&["cp", &text(name), "node2:/scratch"]).expect_success();
        assert_eq!(site.sh("node2", &format!("cat /scratch/{name}")), "ours\n");
    }
    let refused = site.wiglaf(&["cp", &text("no"), "node2:/scratch"]);
    refused.expect_sentence(1, &format!("cannot copy {} to node2:/scratch", text("no")));
    let refused = site.wiglaf(&["cp", "node2:/scratch/r", &text("no/r")]);
    refused.expect_sentence(1, "no: No such file");
}

#[test]
fn a_command_does_not_start_in_another_folder_of_the_same_name() {
    let Some(site) = Site::up(&[]) else { return };
    let other = tempfile::tempdir().unwrap();
    std::fs::set_permissions(other.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
        .unwrap();
    site.sh("node2", &format!("mkdir -p {}", other.path().display()));
    // The build folder may lie where others cannot read.
    let exe = site.work().join("wiglaf");
    std::fs::copy(env!("CARGO_BIN_EXE_wiglaf"), &exe).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups"]).arg(exe);
    command.args(["exec", "-w", "node2", "--", "pwd"]).env("WIGLAF_STATE", site.state());
    let said: Said = command.current_dir(other.path()).output().unwrap().into();
    said.expect_sentence(1, "of its own, which is not yours");
    let mut run = site.command(&["run", "--mpi", "none", "--", "true"]);
    let said: Said = run.current_dir("/tmp").output().unwrap().into();
    said.expect_sentence(1, "a folder /tmp of its own");
}
