//! The xdp link on a real cluster: beside the traffic of others on the same interface, and beside
//! nodes that use other links.

mod common;

use std::fs;
use std::process::{Child, Command, Stdio};

use common::{Site, eventually, has_openmpi};

const PORT: u16 = 2222;
const ADDRESS_2: &str = "10.77.0.2";
/// Lines that a session over ssh prints, ten in a second.
const LINES: usize = 40;

impl Site {
    /// A shell script on a node, in the background.
    fn start(&self, node: &str, script: &str) -> Child {
        let mut command = self.command(&["exec", "-w", node, "--", "sh", "-c", script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }

    /// Whether Wiglaf's XDP program is on a node's interface.
    fn has_program(&self, node: &str) -> bool {
        self.sh(node, "ip link show eth0").contains("prog/xdp")
    }

    /// Where an sshd of the node's own listens, with keys made for this test.
    fn start_sshd(&self) -> Child {
        for name in ["host", "user"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f", name]).current_dir(self.work());
            assert!(keygen.status().unwrap().success());
        }
        let work = self.work().display().to_string();
        let config = format!(
            "Port {PORT}\nListenAddress {ADDRESS_2}\nHostKey {work}/host\nStrictModes no\n\
             AuthorizedKeysFile {work}/user.pub\nUsePAM no\nPidFile none\nPermitRootLogin yes\n"
        );
        fs::write(self.work().join("sshd_config"), config).unwrap();
        self.start("node2", "mkdir -p /run/sshd && exec $(command -v sshd || echo /usr/sbin/sshd) -D -e -f sshd_config")
    }
}

fn is_installed(program: &str) -> bool {
    let found = ["/usr/bin", "/usr/sbin", "/bin", "/sbin"]
        .iter()
        .any(|dir| std::path::Path::new(dir).join(program).is_file());
    if !found {
        eprintln!("skipped: {program} is not installed");
    }
    found
}

fn end(mut child: Child) -> (bool, String) {
    // Commands of `wiglaf exec` end with it.
    let _ = child.kill();
    said(child)
}

fn said(child: Child) -> (bool, String) {
    let output = child.wait_with_output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

#[test]
fn ssh_and_tcp_go_on_over_the_same_interface() {
    if !has_openmpi() || !["iperf3", "sshd", "ssh"].iter().all(|program| is_installed(program)) {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    site.compile("sizes");
    for link in ["xdp-generic", "xdp-native"] {
        let sshd = if site.work().join("sshd_config").exists() {
            site.start("node2", "exec /usr/sbin/sshd -D -e -f sshd_config")
        } else {
            site.start_sshd()
        };
        let ssh = format!(
            "ssh -p {PORT} -i user -o BatchMode=yes -o StrictHostKeyChecking=no \
             -o UserKnownHostsFile=/dev/null {ADDRESS_2}"
        );
        eventually("sshd", || {
            site.wiglaf(&["exec", "-w", "node1", "--", "sh", "-c", &format!("{ssh} true")]).status
                == Some(0)
        });
        let server = site.start("node2", "exec iperf3 -s");
        let steps = format!("for i in $(seq {LINES}); do echo line $i; sleep 0.1; done");
        let mut session = site.start("node1", &format!("{ssh} '{steps}'"));
        eventually("iperf3", || site.sh("node2", "ss -tln").contains(":5201"));
        let iperf = site.start("node1", &format!("iperf3 -J -t 3 -c {ADDRESS_2}"));
        let (mut runs, mut seen) = (0, false);
        while session.try_wait().unwrap().is_none() {
            let mut job = site.command(&["run", "--link", link, "-n", "2", "--", "./sizes"]);
            let mut job = job.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
            while job.try_wait().unwrap().is_none() {
                seen |= site.has_program("node1") && site.has_program("node2");
            }
            let (passed, text) = said(job);
            assert!(passed && text.lines().any(|line| line == "passed"), "{link}: {text}");
            runs += 1;
        }
        assert!(runs > 0 && seen, "{link}: {runs} runs, program seen: {seen}");
        let (ok, text) = said(session);
        let lines = text.lines().filter(|line| line.starts_with("line ")).count();
        assert!(ok && lines == LINES, "{link}: {text}");
        let (ok, text) = said(iperf);
        assert!(ok, "{link}: {text}");
        let report: serde_json::Value = serde_json::from_str(&text).unwrap();
        let bytes = report["end"]["sum_received"]["bytes"].as_u64().unwrap();
        assert!(bytes > 0, "{link}: {text}");
        end(server);
        end(sshd);
        eventually("everybody is gone", || site.strays() == 0);
        assert!(!site.has_program("node1") && !site.has_program("node2"));
    }
}

#[test]
fn nodes_on_different_links_talk_to_each_other() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&["--nodes", "3"]) else { return };
    let script = "#!/bin/sh\ncase $WIGLAF_NODE in\n\
                  node1) WIGLAF_LINK=packet ;;\n\
                  node2) WIGLAF_LINK=xdp ;;\n\
                  node3) WIGLAF_LINK=udp ;;\nesac\n\
                  export WIGLAF_LINK FI_LOG_LEVEL=warn\nexec \"$@\"\n";
    fs::write(site.work().join("by-node"), script).unwrap();
    for program in ["exchange", "sizes", "collectives"] {
        site.compile(program);
        let program = format!("./{program}");
        for ranks in ["3", "6"] {
            let run = ["run", "-n", ranks, "--", "sh", "./by-node", &program];
            let said = site.wiglaf(&run).expect_success();
            assert!(said.stdout.lines().any(|line| line == "passed"), "{program}: {said:?}");
            // Of two ranks on node2 one finds no queue, and says so.
            let notes = said.stderr.lines().filter(|line| line.contains("not xdp: "));
            assert_eq!(notes.count(), usize::from(ranks == "6"), "{program}: {said:?}");
        }
    }
    assert_eq!(site.strays(), 0);
}

#[test]
fn a_mode_that_is_not_there_is_refused_with_its_reason() {
    if !has_openmpi() {
        return;
    }
    let Some(site) = Site::up(&[]) else { return };
    site.compile("exchange");
    let said = site.wiglaf(&["run", "--link", "xdp-zerocopy", "-n", "2", "--", "./exchange"]);
    assert_ne!(said.status, Some(0), "{said:?}");
    assert!(said.stderr.contains("has no zero-copy mode"), "{said:?}");
}
