//! What has to be there before the program can read the files of other nodes:
//! on every node the rivals' servers, their keys, and mounts of all others.
//!
//! All of it lies in folders of the run's own, and goes with it. Every run's
//! files have names of their own, so that no client's cache knows them.

use std::path::{Path, PathBuf};

use super::Way;
use crate::error::Result;
use crate::files::nodes::{Nodes, Place, Service};
use crate::files::stage::{
    FAST_CIPHER, GANESHA, NFS_PORT, RPCBIND_PORT, SFTP_SERVER, SSH_PORT, SSHD, START_GANESHA,
    START_RPCBIND, START_SSHD, WAIT_TIME_MAX, Why, build_plain, installed, path,
};

/// Folders, services and mounts on the nodes. Dropping it takes them away.
pub(super) struct Stage<'a> {
    place: Place<'a>,
    nodes: usize,
    /// On every node.
    own: String,
    /// Waits for ports and mounts.
    waiter: PathBuf,
    servers: Vec<Service>,
    /// They go before the servers.
    mounts: Vec<Service>,
    mount_points: Vec<(usize, String)>,
}

impl<'a> Stage<'a> {
    pub(super) fn set(nodes: &'a dyn Nodes, cache: &'a Path, count: usize) -> Result<Self> {
        let stage = Self {
            place: Place { nodes, shared: cache },
            nodes: count,
            own: format!("/tmp/wiglaf-bench-transformation-{}", std::process::id()),
            waiter: build_plain(cache)?,
            servers: Vec::new(),
            mounts: Vec::new(),
            mount_points: Vec::new(),
        };
        for node in 0..count {
            stage.place.script(node, "rm -rf \"$1\"; mkdir -m 700 \"$1\"", &[&stage.own])?;
        }
        Ok(stage)
    }

    /// Gets a way ready; answers what the program calls it.
    ///
    /// # Errors
    /// Why it cannot take part.
    pub(super) fn ready(&mut self, way: Way) -> Why<String> {
        match way {
            Way::Local => Ok("none".to_owned()),
            Way::Wiglaf => self.place.nodes.library().map(|_| "wiglaf".to_owned()),
            Way::Nfs => self.nfs(),
            Way::Sshfs => self.sshfs(),
            Way::WiglafMount => self.wiglaf_mount(),
        }
    }

    fn ip(&self, node: usize) -> String {
        self.place.nodes.address(node).to_string()
    }

    /// Starts a service and waits until it listens.
    fn serve(&mut self, node: usize, argv: &[&str], port: &str) -> Why<()> {
        let service = self.place.start(node, argv).map_err(|e| e.to_string())?;
        let wait = [&path(&self.waiter), "wait-port", &self.ip(node), port];
        if self.place.run(node, "waiting", &wait, WAIT_TIME_MAX).is_err() {
            return Err(service.last_line());
        }
        self.servers.push(service);
        Ok(())
    }

    /// On each node a mount of each other one in `FOLDER/NAME`, by the command
    /// that `argv` makes of node, other node and mount point.
    fn mount_all(
        &mut self,
        folder: &str,
        argv: impl Fn(&Self, usize, &str) -> Vec<String>,
    ) -> Why<String> {
        let root = format!("{}/{folder}", self.own);
        for node in 0..self.nodes {
            for other in (0..self.nodes).filter(|other| *other != node) {
                let point = format!("{root}/{}", self.place.nodes.name(other));
                self.mount(node, &argv(self, other, &point), &point)?;
            }
        }
        Ok(format!("path:{root}/%n"))
    }

    fn mount(&mut self, node: usize, argv: &[String], point: &str) -> Why<()> {
        self.place.script(node, "mkdir -p \"$1\"", &[point]).map_err(|e| e.to_string())?;
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let service = self.place.start(node, &argv).map_err(|e| e.to_string())?;
        self.mount_points.push((node, point.to_owned()));
        let wait = [&path(&self.waiter), "wait-mount", point];
        match self.place.run(node, "waiting", &wait, WAIT_TIME_MAX) {
            Ok(_) => {
                self.mounts.push(service);
                Ok(())
            }
            Err(_) => Err(service.last_line()),
        }
    }

    fn nfs(&mut self) -> Why<String> {
        installed("ganesha.nfsd", "/usr/bin/ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs")?;
        installed("rpcbind", "/usr/sbin/rpcbind", "rpcbind")?;
        let own = self.own.clone();
        for node in 0..self.nodes {
            self.serve(node, &["/bin/sh", "-ec", START_RPCBIND], RPCBIND_PORT)?;
            let ganesha = ["/bin/sh", "-ec", START_GANESHA, "sh", &own, GANESHA];
            self.serve(node, &ganesha, NFS_PORT)?;
        }
        Ok("nfs://%n/scratch".to_owned())
    }

    fn sshfs(&mut self) -> Why<String> {
        installed("sshfs", "/usr/bin/sshfs", "sshfs")?;
        installed("sshd", SSHD, "openssh-server")?;
        installed("the sftp server", SFTP_SERVER, "openssh-sftp-server")?;
        self.exchange_keys().map_err(|e| e.to_string())?;
        let own = self.own.clone();
        for node in 0..self.nodes {
            let argv = ["/bin/sh", "-ec", START_SSHD, "sh", &own, SSH_PORT, SSHD, SFTP_SERVER];
            self.serve(node, &argv, SSH_PORT)?;
        }
        self.mount_all("ssh", |stage, other, point| {
            let own = &stage.own;
            let from = format!("{}:/scratch", stage.ip(other));
            let fixed = ["sshfs", "-f", &from, point, "-F", "/dev/null", "-p", SSH_PORT];
            let mut argv: Vec<String> = fixed.map(str::to_owned).into();
            argv.extend([
                format!("-oIdentityFile={own}/client"),
                "-oIdentitiesOnly=yes".to_owned(),
                format!("-oUserKnownHostsFile={own}/known"),
                "-oBatchMode=yes".to_owned(),
                format!("-oCiphers={FAST_CIPHER}"),
            ]);
            argv
        })
    }

    /// Each node makes its keys; all know the public ones of all.
    fn exchange_keys(&self) -> Result<()> {
        let make = "ssh-keygen -q -t ed25519 -N '' -f \"$1/$2\"; cat \"$1/$2.pub\"";
        let (mut clients, mut hosts) = (String::new(), String::new());
        for node in 0..self.nodes {
            clients += &self.place.script(node, make, &[&self.own, "client"])?;
            let host = self.place.script(node, make, &[&self.own, "host"])?;
            hosts += &format!("[{}]:{SSH_PORT} {host}", self.ip(node));
        }
        let put = "printf %s \"$2\" > \"$1/authorized\"; printf %s \"$3\" > \"$1/known\"";
        for node in 0..self.nodes {
            self.place.script(node, put, &[&self.own, &clients, &hosts])?;
        }
        Ok(())
    }

    fn wiglaf_mount(&mut self) -> Why<String> {
        const WIGLAF: &str = "/usr/bin/wiglaf";
        let help = [WIGLAF, "mount", "--help"];
        let has = self.place.run(0, "wiglaf mount", &help, WAIT_TIME_MAX);
        has.map_err(|_| "this wiglaf has no command `mount`".to_owned())?;
        self.mount_all("wiglaf", |stage, other, point| {
            let from = format!("{}:/scratch", stage.place.nodes.name(other));
            [WIGLAF, "mount", &from, point].map(str::to_owned).into()
        })
    }
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.mounts.clear();
        for (node, point) in &self.mount_points {
            // Most are gone with their daemons, and perhaps the node is, too.
            let unmount = "umount \"$1\" 2>&- || umount -l \"$1\" 2>&- || true";
            let _ = self.place.script(*node, unmount, &[point]);
        }
        self.servers.clear();
        for node in 0..self.nodes {
            let _ = self.place.remove(node, &self.own);
        }
    }
}
