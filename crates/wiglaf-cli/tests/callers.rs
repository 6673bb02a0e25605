//! What a command on a node has of whoever asks for it, and what another user's has not.

mod common;

use std::process::{Command, Stdio};

use common::{Said, Site, eventually};

const ANN: &str = "61001";

impl Site {
    /// A shell script of the machine's, in the site's folder.
    fn shell(&self, script: &str) -> Said {
        let mut shell = Command::new("sh");
        shell.args(["-c", script, env!("CARGO_BIN_EXE_wiglaf")]);
        self.started_by(shell, &[]).output().unwrap().into()
    }
}

#[test]
fn a_command_has_its_callers_umask_and_limits() {
    let Some(site) = Site::up(&[]) else { return };
    let asked = "ulimit -S -s 4096; ulimit -S -n 200; umask 027; \
                 \"$0\" exec -w node1 -- sh -c 'umask; ulimit -s; ulimit -n; ulimit -H -n'; ulimit -H -n";
    let said = site.shell(asked).expect_success();
    let lines: Vec<&str> = said.stdout.lines().collect();
    assert_eq!(lines[..3], ["0027", "4096", "200"], "{said:?}");
    assert_eq!(lines[3], lines[4], "hard limits are the caller's, too: {said:?}");
    // From node to node, as MPIs start their daemons.
    let nested = "ulimit -n 300; wiglaf exec -w node2 -- sh -c 'ulimit -H -n'";
    assert_eq!(site.sh("node1", nested).trim(), "300");
}

#[test]
fn a_folder_that_was_made_again_is_the_new_one_on_nodes() {
    let Some(site) = Site::up(&[]) else { return };
    let build = site.work().join("build");
    for text in ["old", "new"] {
        let _ = std::fs::remove_dir_all(&build);
        std::fs::create_dir(&build).unwrap();
        std::fs::write(build.join("text"), text).unwrap();
        let cat = ["exec", "-w", "node1", "--", "cat", "text"];
        let said: Said = site.command(&cat).current_dir(&build).output().unwrap().into();
        assert_eq!(said.expect_success().stdout, text);
    }
}

#[test]
fn every_user_may_enter_what_roots_umask_would_have_closed() {
    if let Some(reason) = common::why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    let site = Site::new();
    site.shell("umask 077; exec \"$0\" up").expect_success();
    let as_ann = format!(
        "exec setpriv --reuid {ANN} --regid {ANN} --clear-groups \"$0\" exec -w node1 -- id -u"
    );
    let said = site.shell(&format!("cd /; {as_ann}")).expect_success();
    assert_eq!(said.stdout.trim(), ANN);
}

#[test]
fn another_users_job_has_neither_roots_terminal_nor_roots_environment() {
    let Some(site) = Site::up(&[]) else { return };
    let job = format!(
        "$0 run --user {ANN} --mpi none -n 1 -- sh -c \
         'test -t 0 || test -t 1 || test -t 2 || echo no terminal; env; exit 3'"
    );
    let job = job.replace("$0", env!("CARGO_BIN_EXE_wiglaf"));
    // `script` plays the terminal.
    let mut terminal = Command::new("script");
    terminal.args(["-qec", &job, "/dev/null"]).env("A_SECRET", "x").env("OMP_NUM_THREADS", "7");
    let mut played = site.started_by(terminal, &[]);
    // Held open: `script` would type the end of its input into the terminal.
    let mut played = played.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let typed = played.stdin.take();
    let said: Said = played.wait_with_output().unwrap().into();
    drop(typed);
    assert_eq!(said.status, Some(3), "{said:?}");
    assert!(said.stdout.contains("no terminal"), "{said:?}");
    assert!(said.stdout.contains("OMP_NUM_THREADS=7") && said.stdout.contains("WIGLAF_RANK=0"));
    assert!(!said.stdout.contains("A_SECRET"), "{said:?}");
}

#[test]
fn a_helper_that_a_job_has_ended_is_there_again() {
    let Some(site) = Site::up(&[]) else { return };
    // Nobody's: until it has given its privileges up, it is root's, and the job below cannot end it.
    let pid = || site.sh("node1", "pgrep -u 65534 -f '[w]iglaf helper' || true");
    eventually("the helper has nothing of root's any more", || !pid().trim().is_empty());
    let before = pid();
    site.wiglaf(&[
        "run",
        "--user",
        "65534",
        "--mpi",
        "none",
        "-w",
        "node1",
        "-n",
        "1",
        "--",
        "sh",
        "-c",
        "kill -9 -1",
    ]);
    eventually("another helper runs", || !pid().trim().is_empty() && pid() != before);
    assert_eq!(site.strays(), 0, "it counts as one of the job's");
}
