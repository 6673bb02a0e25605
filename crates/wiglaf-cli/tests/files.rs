//! Remote files between two emulated nodes: the server is started through the
//! node's init, the client is the C example.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Site, eventually};

/// The C example, compiled, or nothing where there is no compiler.
fn example(site: &Site) -> Option<PathBuf> {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("../wiglaf-files");
    let deps = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    let program = site.work().join("remote");
    let compiled = Command::new("cc")
        .arg("-I")
        .arg(files.join("include"))
        .arg(files.join("examples/remote.c"))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&deps)
        .args(["-lwiglaf_files", &format!("-Wl,-rpath,{}", deps.display())])
        .status();
    match compiled {
        Ok(status) => assert!(status.success(), "remote.c does not compile"),
        Err(why) => {
            println!("skipped: no C compiler ({why})");
            return None;
        }
    }
    Some(program)
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
    site.sh("node2", "mkdir -m 777 /var/tmp/out; mkdir -m 700 /var/tmp/out/roots");
    let nobody = |path: &str| {
        let command =
            format!("setpriv --reuid=65534 --regid=65534 --clear-groups {program} node2 {path}");
        site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", &command])
    };
    let said = nobody("/var/tmp/out/mine").expect_success();
    assert!(said.stdout.starts_with("/var/tmp/out/mine has 2400000 bytes"), "{said:?}");
    let said = nobody("/var/tmp/out/roots/file");
    assert!(said.stderr.contains("ropen: Permission denied (errno 13)"), "{said:?}");
    let said = nobody("/var/tmp/file");
    assert!(said.stderr.contains("ropen: Permission denied: the path is in no folder"), "{said:?}");
}
