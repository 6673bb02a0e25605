//! Simulators of BMCs that speak Redfish: sushy-tools, with sessions before it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::simulator::PASSWORD;

/// A Redfish BMC of the fake kind, whose requests are in the file `requests` of its folder.
pub(crate) struct Redfish {
    child: Child,
    /// Where it listens, on the loopback.
    pub(crate) port: u16,
    folder: PathBuf,
}

impl Drop for Redfish {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Redfish {
    /// `wants`: `sessions`, `lies`. Says why there is none.
    pub(crate) fn start(folder: &Path, name: &str, wants: &[&str]) -> Option<Self> {
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
        let sushy = workspace.join("target/sushy");
        if !sushy.is_dir() {
            eprintln!("skipped: sushy-tools is not there; run: cargo xtask packages test");
            return None;
        }
        let folder = folder.join(name);
        fs::create_dir(&folder).unwrap();
        let made = Command::new("openssl")
            .args([
                "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=bmc",
            ])
            .args(["-keyout", "key.pem", "-out", "cert.pem"])
            .current_dir(&folder)
            .output();
        assert!(made.is_ok_and(|out| out.status.success()), "openssl");
        let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let log = fs::File::create(folder.join("log")).unwrap();
        let child = Command::new("python3")
            .arg(workspace.join("crates/wiglaf-power/tests/simulator/bmc.py"))
            .arg(&folder)
            .args([&port.to_string(), PASSWORD])
            .args(wants)
            .env("PYTHONPATH", &sushy)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut bmc = Self { child, port, folder };
        while std::net::TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = bmc.child.try_wait().unwrap();
            let log = || fs::read_to_string(bmc.folder.join("log")).unwrap();
            assert!(ended.is_none(), "{}", log());
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        Some(bmc)
    }

    /// What it was asked since the last time.
    pub(crate) fn requests(&self) -> Vec<String> {
        let file = self.folder.join("requests");
        let lines = fs::read_to_string(&file).unwrap_or_default();
        let _ = fs::remove_file(file);
        lines.lines().map(|line| line.trim().to_owned()).collect()
    }

    /// It forgets all sessions with the next request.
    pub(crate) fn forget_sessions(&self) {
        fs::write(self.folder.join("forget"), "").unwrap();
    }
}
