//! What has to be there before a way to remote files can be measured: the
//! programs, the rivals' servers, their keys, and mounts.
//!
//! All of it lies in folders of the run's own on the nodes, and goes with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::nodes::{CLIENT, Library, Nodes, Place, SERVER, Service};
use super::{Sizes, Way};
use crate::compile::Recipe;
use crate::error::{BenchError, Result};
use crate::facts::find_program;
use crate::launch::Settings;

const SOURCE: &str = include_str!("../../files/files.c");
/// For a run of the measuring program; who needs longer is stuck.
const RUN_TIME_MAX: Duration = Duration::from_secs(1200);
pub(crate) const WAIT_TIME_MAX: Duration = Duration::from_secs(30);
/// Where the other side of the raw stream listens; the program knows it, too.
const TCP_PORT: &str = "7799";
pub(crate) const SSH_PORT: &str = "2299";
pub(crate) const NFS_PORT: &str = "2049";
pub(crate) const SSHD: &str = "/usr/sbin/sshd";
pub(crate) const SFTP_SERVER: &str = "/usr/lib/openssh/sftp-server";
/// The cipher that OpenSSH moves most bytes with on processors with AES
/// instructions.
pub(crate) const FAST_CIPHER: &str = "aes128-gcm@openssh.com";

/// NFS 3, because libnfs 4.0.0 cannot encode a write of 64 KiB for NFS 4, and
/// nothing else of the server that costs time.
pub(crate) const GANESHA: &str = "\
NFS_CORE_PARAM { Protocols = 3; NFS_Port = 2049; MNT_Port = 20048; Enable_NLM = false;
    Enable_RQUOTA = false; Enable_UDP = false; }
EXPORT { Export_Id = 1; Path = /scratch; Pseudo = /scratch; Access_Type = RW; Squash = None;
    SecType = sys; Protocols = 3; Transports = TCP; FSAL { Name = VFS; } }
LOG { Default_Log_Level = WARN; }
";

pub(crate) const RPCBIND_PORT: &str = "111";
pub(crate) const START_RPCBIND: &str = "mkdir -p /run/rpcbind; exec rpcbind -f -w";
/// With the run's own folder and the configuration.
pub(crate) const START_GANESHA: &str = "\
mkdir -p /run/ganesha /var/lib/nfs/ganesha; printf %s \"$2\" > \"$1/conf\"
exec ganesha.nfsd -F -L STDERR -f \"$1/conf\" -p \"$1/pid\"";
/// With the run's own folder, which has the keys, the port, and two programs.
pub(crate) const START_SSHD: &str = "\
mkdir -p /run/sshd
exec \"$3\" -D -e -f /dev/null -p \"$2\" -h \"$1/host\" -o PidFile=none -o PasswordAuthentication=no \
    -o StrictModes=no -o \"AuthorizedKeysFile=$1/authorized\" -o \"Subsystem=sftp $4\"";

/// Programs, folders and services of one comparison. Dropping it takes all of
/// it away.
pub(super) struct Stage<'a> {
    place: Place<'a>,
    sizes: Sizes,
    /// On both nodes, for keys and mounts.
    own: String,
    /// On the files' node, below `/scratch`.
    files: String,
    plain: PathBuf,
    services: Vec<Service>,
    ssh: Option<String>,
}

/// What a way needs to be measured.
pub(super) struct Ready {
    program: PathBuf,
    way: String,
    mount: Option<Vec<String>>,
    /// What sets it apart, and what its caches do.
    pub(super) settings: Settings,
    /// What shows that it is what it says.
    pub(super) evidence: Option<String>,
}

pub(crate) type Why<T> = std::result::Result<T, String>;

impl<'a> Stage<'a> {
    /// Prepares what all ways need: the measuring program and the small files.
    pub(super) fn set(nodes: &'a dyn Nodes, cache: &'a Path, sizes: Sizes) -> Result<Self> {
        let plain = build_plain(cache)?;
        let pid = std::process::id();
        let stage = Self {
            place: Place { nodes, shared: cache },
            sizes,
            own: format!("/tmp/wiglaf-bench-files-{pid}"),
            files: format!("/scratch/wiglaf-bench-files-{pid}"),
            plain,
            services: Vec::new(),
            ssh: None,
        };
        for node in [CLIENT, SERVER] {
            stage.place.script(node, "rm -rf \"$1\"; mkdir -m 700 \"$1\"", &[&stage.own])?;
        }
        let count = sizes.small_files.to_string();
        let program = path(&stage.plain);
        let argv = [&program, "prepare", &stage.files, &count];
        stage.place.run(SERVER, "making the small files", &argv, RUN_TIME_MAX)?;
        Ok(stage)
    }

    /// Gets a way ready.
    ///
    /// # Errors
    /// Why it cannot take part.
    pub(super) fn ready(&mut self, way: Way) -> Why<Ready> {
        let posix = |mount, settings, evidence| Ready {
            program: self.plain.clone(),
            way: "posix".to_owned(),
            mount,
            settings,
            evidence,
        };
        match way {
            Way::Local => Ok(posix(None, Settings::new(), None)),
            Way::Tcp => self.tcp(),
            Way::Sshfs | Way::SshfsFast | Way::SshfsDirect => {
                let mount = self.sshfs(way)?;
                let cipher = self.cipher(way)?;
                Ok(self.mounted(mount, SSHFS_CACHES, Some(cipher)))
            }
            Way::Nfs => self.nfs(),
            Way::Wiglaf => self.wiglaf(0),
            Way::WiglafBuffered => self.wiglaf(2 << 20),
            Way::WiglafMount => {
                let help = ["/usr/bin/wiglaf", "mount", "--help"];
                let has = self.place.run(CLIENT, "wiglaf mount", &help, WAIT_TIME_MAX);
                has.map_err(|_| "this wiglaf has no command `mount`".to_owned())?;
                let from = format!("{}:{}", self.place.nodes.name(SERVER), self.files);
                let mount =
                    vec!["/usr/bin/wiglaf".into(), "mount".into(), from, self.mount_point()];
                Ok(self.mounted(mount, MOUNT_CACHES, None))
            }
        }
    }

    fn mounted(&self, mount: Vec<String>, caches: &str, evidence: Option<String>) -> Ready {
        let settings =
            [("command", mount.join(" ").replace(&self.own, "OWN")), ("caches", caches.into())];
        Ready {
            program: self.plain.clone(),
            way: "posix".to_owned(),
            mount: Some(mount),
            settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
            evidence,
        }
    }

    fn mount_point(&self) -> String {
        format!("{}/mnt", self.own)
    }

    fn server_ip(&self) -> String {
        self.place.nodes.address(SERVER).to_string()
    }

    /// The least that shows whether a way works here.
    pub(super) fn try_out(&self, way: Way, ready: &Ready) -> Why<()> {
        let small_files = self.sizes.small_files.min(1);
        let sizes = Sizes { stream_bytes: 1 << 20, reads: 1, small_files };
        self.run(way, ready, sizes).map(drop).map_err(|e| e.to_string())
    }

    /// One run of the measuring program: its output.
    pub(super) fn measure(&self, way: Way, ready: &Ready) -> Result<String> {
        self.run(way, ready, self.sizes)
    }

    fn run(&self, way: Way, ready: &Ready, sizes: Sizes) -> Result<String> {
        let what = format!("files by {}", way.label());
        let node = if way == Way::Local { SERVER } else { CLIENT };
        let mount = ready.mount.as_ref().map(|argv| self.mount(&what, argv)).transpose()?;
        let folder = if mount.is_some() { self.mount_point() } else { self.files.clone() };
        let Sizes { stream_bytes, reads, small_files } = sizes;
        let numbers = [stream_bytes, reads, small_files].map(|n| n.to_string());
        let program = path(&ready.program);
        let [stream, reads, files] = &numbers;
        let argv = [&program, "measure", &ready.way, &folder, stream, reads, files];
        let measured = self.place.run(node, &what, &argv, RUN_TIME_MAX);
        if mount.is_some() {
            let unmount = "umount \"$1\" || umount -l \"$1\"";
            self.place.script(CLIENT, unmount, &[&self.mount_point()])?;
        }
        Ok(measured?.0)
    }

    /// Mounts anew: nothing is cached of an earlier run.
    fn mount(&self, what: &str, argv: &[String]) -> Result<Service> {
        let failed = |detail| BenchError::Run { what: what.to_owned(), detail };
        self.place.script(CLIENT, "mkdir -p \"$1\"", &[&self.mount_point()])?;
        let argv: Vec<&str> = argv.iter().map(String::as_str).collect();
        let service = self.place.start(CLIENT, &argv).map_err(|e| failed(e.to_string()))?;
        let program = path(&self.plain);
        let wait = [&program, "wait-mount", &self.mount_point()];
        match self.place.run(CLIENT, what, &wait, WAIT_TIME_MAX) {
            Ok(_) => Ok(service),
            Err(_) => Err(failed(service.last_line())),
        }
    }

    /// Starts a service on the files' node and waits until it listens.
    fn serve(&mut self, argv: &[&str], port: &str) -> Why<()> {
        let service = self.place.start(SERVER, argv).map_err(|e| e.to_string())?;
        let program = path(&self.plain);
        let wait = [&program, "wait-port", &self.server_ip(), port];
        if self.place.run(CLIENT, "waiting", &wait, WAIT_TIME_MAX).is_err() {
            return Err(service.last_line());
        }
        self.services.push(service);
        Ok(())
    }

    fn tcp(&mut self) -> Why<Ready> {
        let program = path(&self.plain);
        self.serve(&[&program, "serve", TCP_PORT], TCP_PORT)?;
        let way = format!("tcp:{}", self.server_ip());
        let settings = Settings::from([("caches".to_owned(), "nothing is stored".to_owned())]);
        Ok(Ready { program: self.plain.clone(), way, mount: None, settings, evidence: None })
    }

    fn nfs(&mut self) -> Why<Ready> {
        installed("ganesha.nfsd", "/usr/bin/ganesha.nfsd", "nfs-ganesha nfs-ganesha-vfs")?;
        installed("rpcbind", "/usr/sbin/rpcbind", "rpcbind")?;
        let arguments = vec!["-DWITH_NFS".into(), "-lnfs".into()];
        let program = build(self.place.shared, "files-nfs", arguments, None)
            .map_err(|why| format!("{why}; `apt-get install libnfs-dev`"))?;
        self.serve(&["/bin/sh", "-ec", START_RPCBIND], RPCBIND_PORT)?;
        let own = self.own.clone();
        self.serve(&["/bin/sh", "-ec", START_GANESHA, "sh", &own, GANESHA], NFS_PORT)?;
        let settings = [
            ("server", GANESHA.to_owned()),
            (
                "caches",
                "libnfs keeps nothing: its page cache and read-ahead are off, as by default".into(),
            ),
        ];
        Ok(Ready {
            program,
            way: format!("nfs:{}", self.server_ip()),
            mount: None,
            settings: settings.map(|(name, value)| (name.to_owned(), value)).into(),
            evidence: None,
        })
    }

    fn wiglaf(&self, buffer_len: u64) -> Why<Ready> {
        let library = self.place.nodes.library()?;
        let folder = path(&library.folder);
        let arguments = vec![
            "-DWITH_WIGLAF".into(),
            format!("-L{folder}"),
            "-lwiglaf_files".into(),
            format!("-Wl,-rpath,{folder}"),
        ];
        let program = build(self.place.shared, "files-wiglaf", arguments, Some(&library))
            .map_err(|e| e.to_string())?;
        let caches = match buffer_len {
            0 => "nothing is kept on the client's side".to_owned(),
            len => format!("{len} bytes are read ahead and written behind"),
        };
        Ok(Ready {
            program,
            way: format!("wiglaf:{}:{buffer_len}", self.place.nodes.name(SERVER)),
            mount: None,
            settings: Settings::from([("caches".to_owned(), caches)]),
            evidence: None,
        })
    }

    /// The mount's command, the ssh server having been started.
    fn sshfs(&mut self, way: Way) -> Why<Vec<String>> {
        installed("sshfs", "/usr/bin/sshfs", "sshfs")?;
        let known = match &self.ssh {
            Some(known) => known.clone(),
            None => self.start_sshd()?,
        };
        self.ssh = Some(known);
        let from = format!("{}:{}", self.server_ip(), self.files);
        let mut argv = vec!["sshfs".to_owned(), "-f".into(), from, self.mount_point()];
        argv.extend(self.ssh_options(way));
        if way == Way::SshfsDirect {
            argv.extend(["-o".into(), "direct_io".into()]);
        }
        Ok(argv)
    }

    /// The user's own configuration could change ciphers: it is left out.
    fn ssh_options(&self, way: Way) -> Vec<String> {
        let own = &self.own;
        let mut options = vec![
            "-F".to_owned(),
            "/dev/null".into(),
            "-p".into(),
            SSH_PORT.into(),
            format!("-oIdentityFile={own}/client"),
            "-oIdentitiesOnly=yes".into(),
            format!("-oUserKnownHostsFile={own}/known"),
            "-oBatchMode=yes".into(),
        ];
        if way != Way::Sshfs {
            options.push(format!("-oCiphers={FAST_CIPHER}"));
        }
        options
    }

    /// Makes keys for this run and starts the server that knows them.
    fn start_sshd(&mut self) -> Why<String> {
        installed("sshd", SSHD, "openssh-server")?;
        installed("the sftp server", SFTP_SERVER, "openssh-sftp-server")?;
        let own = self.own.clone();
        let key = "ssh-keygen -q -t ed25519 -N '' -f \"$1/$2\"; cat \"$1/$2.pub\"";
        let say = |e: BenchError| e.to_string();
        let client = self.place.script(CLIENT, key, &[&own, "client"]).map_err(say)?;
        let host = self.place.script(SERVER, key, &[&own, "host"]).map_err(say)?;
        let known = format!("[{}]:{SSH_PORT} {host}", self.server_ip());
        let put = "printf %s \"$3\" > \"$1/$2\"";
        self.place.script(SERVER, put, &[&own, "authorized", &client]).map_err(say)?;
        self.place.script(CLIENT, put, &[&own, "known", &known]).map_err(say)?;
        let argv = ["/bin/sh", "-ec", START_SSHD, "sh", &own, SSH_PORT, SSHD, SFTP_SERVER];
        self.serve(&argv, SSH_PORT)?;
        Ok(known)
    }

    /// What ssh itself says of the cipher of its connection.
    fn cipher(&self, way: Way) -> Why<String> {
        let (options, ip) = (self.ssh_options(way), self.server_ip());
        let mut argv = vec!["ssh", "-v"];
        argv.extend(options.iter().map(String::as_str));
        argv.extend([ip.as_str(), "true"]);
        let said =
            self.place.run(CLIENT, "ssh", &argv, WAIT_TIME_MAX).map_err(|e| e.to_string())?;
        let sign = "kex: server->client cipher: ";
        let mut lines = said.1.lines();
        let rest = lines.find_map(|line| Some(&line[line.find(sign)? + sign.len()..]));
        let cipher = rest.and_then(|rest| rest.split_whitespace().next());
        cipher.map(str::to_owned).ok_or_else(|| "ssh does not say which cipher it uses".to_owned())
    }
}

const SSHFS_CACHES: &str = "mounted anew for each run; the kernel keeps pages while a file is open, \
                            and sshfs attributes for 20 s; every page is read and every small file \
                            visited once only, so neither serves one again; sshfs reads ahead and \
                            writes behind";
const MOUNT_CACHES: &str = "mounted anew for each run; every page is read and every small file \
                            visited once only";

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        self.services.clear();
        for (node, folder) in [(CLIENT, &self.own), (SERVER, &self.own), (SERVER, &self.files)] {
            // The nodes may be gone already, and their folders with them.
            let _ = self.place.remove(node, folder);
        }
    }
}

pub(crate) fn path(path: &Path) -> String {
    path.display().to_string()
}

pub(crate) fn installed(what: &str, file: &str, packages: &str) -> Why<()> {
    match Path::new(file).exists() {
        true => Ok(()),
        false => Err(format!("{what} is missing: `apt-get install {packages}`")),
    }
}

/// The measuring program for files that are in a file system; it also waits for
/// ports and mounts.
pub(crate) fn build_plain(cache: &Path) -> Result<PathBuf> {
    build(cache, "files", vec![], None)
}

fn build(
    cache: &Path,
    name: &str,
    arguments: Vec<String>,
    library: Option<&Library>,
) -> Result<PathBuf> {
    let compiler = find_program("cc")
        .ok_or_else(|| BenchError::ProgramMissing { program: "cc".into(), package: "gcc" })?;
    let header = library.map_or("", |library| library.header);
    Recipe {
        name,
        compiler,
        arguments: arguments.into_iter().map(Into::into).collect(),
        sources: &[("files.c", SOURCE), ("wiglaf_files.h", header)],
        besides: Vec::new(),
    }
    .build(cache)
}

/// What was measured with, as Debian numbers it.
pub(crate) fn versions() -> BTreeMap<String, Option<String>> {
    ["sshfs", "openssh-server", "nfs-ganesha", "libnfs13", "fuse3"]
        .map(|package| (package.to_owned(), crate::facts::debian_version(package)))
        .into()
}
