//! Jobs on hosts that share no folder: this host's working folder is mounted on the others for the job's
//! time, without root and without an ssh back to this host. `wiglaf mount` runs on each, and its file server here; the
//! two hear of each other's end over the connection that this process has to the host.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths::EXE;
use wiglaf_base::random;
use wiglaf_node::client::{NodeCommand, Running, Streams, working_folder};

use crate::cluster::{self, Member};
use crate::hosts::Hosts;

/// What `wiglaf mount` says on standard error when such a mount can be used.
pub const READY: &str = "wiglaf: mounted";
/// What a host has at a path: `same` as here, `free` to mount on, something of its own (`full`), or nothing
/// that the user may make (`denied`). Then the folders that are to be made, the deepest first.
const LOOK: &str = "d=$1; if [ -n \"$2\" ] && [ -e \"$d/$2\" ]; then echo same; \
    elif [ -d \"$d\" ] && [ -O \"$d\" ] && [ -z \"$(ls -A -- \"$d\")\" ]; then echo free; \
    elif [ -e \"$d\" ] || [ -L \"$d\" ]; then echo full; \
    else p=$d; made=; while ! [ -e \"$p\" ]; do made=\"$made$p\n\"; p=$(dirname -- \"$p\"); done; \
    if [ -d \"$p\" ] && [ -w \"$p\" ] && [ -x \"$p\" ]; then echo free; printf %s \"$made\"; else echo denied; fi; fi";
/// Makes a folder for its user alone.
const MAKE: &str = "umask 077; mkdir -p -- \"$1\"";
/// A mount on a host, and its server here.
#[derive(Debug)]
struct Mount {
    member: Member,
    running: Option<Running>,
    server: Child,
}

/// This host's working folder on other hosts. It is taken away when this is dropped.
#[derive(Debug)]
pub struct Shared {
    mounts: Vec<Mount>,
    folder: PathBuf,
}

/// What a host has where the folder is to be.
enum Found {
    Same,
    Free(Vec<PathBuf>),
    Full,
    Denied,
}

impl Shared {
    /// Mounts this host's working folder on these hosts: where it is here, if that hides nothing on any, else
    /// in a scratch folder on all. Served by `exe`. `say` is told what the user should know.
    ///
    /// # Errors
    /// When this is none of the cluster's hosts, or a host cannot mount; then nothing is left.
    pub fn put(
        hosts: &Hosts,
        members: Vec<Member>,
        exe: &Path,
        say: &dyn Fn(&str),
    ) -> Result<Self> {
        let here = hosts.nodes.iter().find(|spec| spec.target.is_here);
        let here = here.ok_or_else(|| {
            Error::new(format!(
                "this machine is none of the hosts in {} ({}), so its folders cannot be shared with them; \
                 run the job from one of them",
                hosts.file.display(),
                hosts.names()
            ))
        })?;
        let data = hosts.network.data;
        let own = wiglaf_base::network::own_in(data).ok_or_else(|| {
            Error::new(format!("this host has no address in the data network {data}"))
        })?;
        let here = Here { name: &here.name, address: own.address, exe, hosts };
        let folder = working_folder()?;
        let mark = Mark::new(&folder)?;
        let (here_too, others): (Vec<Member>, Vec<Member>) = members
            .into_iter()
            .partition(|member| member.node.target().is_some_and(|target| target.is_here));
        let found = cluster::ask_all(&others, |member| look(member, &folder, &mark.name));
        drop(mark);
        let found = cluster::all_or_error(&others, found)?;
        let is_hindered = |found: &&Found| matches!(found, Found::Full | Found::Denied);
        if let Some((member, found)) = others.iter().zip(&found).find(|(_, f)| is_hindered(f)) {
            let why = match found {
                Found::Full => "has something of its own at",
                _ => "does not let you make",
            };
            let scratch = scratch(&others, &here_too)?;
            let at = scratch.join(format!("wiglaf-share-{:016x}", random::nonzero()?));
            say(&format!(
                "{} {why} {}, so this folder is at {} on all hosts while the job runs",
                member.name(),
                folder.display(),
                at.display()
            ));
            let all = others.into_iter().chain(here_too);
            let all: Vec<_> = all.map(|member| (member, vec![at.clone()])).collect();
            return Self::mount(&here, &all, &folder, &at);
        }
        let free: Vec<_> = others
            .into_iter()
            .zip(found)
            .filter_map(|(member, found)| match found {
                Found::Free(made) => Some((member, made)),
                _ => None,
            })
            .collect();
        Self::mount(&here, &free, &folder, &folder)
    }

    fn mount(
        here: &Here<'_>,
        members: &[(Member, Vec<PathBuf>)],
        folder: &Path,
        at: &Path,
    ) -> Result<Self> {
        let only: Vec<Member> = members.iter().map(|(member, _)| member.clone()).collect();
        let made_of = |name: &str| {
            let found = members.iter().find(|(member, _)| member.name() == name);
            found.map(|(_, made)| made.clone()).unwrap_or_default()
        };
        let mounted = cluster::ask_all(&only, |member| {
            here.mount_on(member, folder, at, &made_of(member.name()))
        });
        // Those that are there go when this does.
        let mut shared = Self { mounts: Vec::new(), folder: at.to_path_buf() };
        let mut errors = Vec::new();
        for mounted in mounted {
            errors.push(mounted.map(|mount| shared.mounts.push(mount)));
        }
        cluster::all_or_error(&only, errors)?;
        Ok(shared)
    }

    /// Where it is, on all hosts.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let folder = &self.folder;
        std::thread::scope(|scope| {
            for mount in &mut self.mounts {
                scope.spawn(move || mount.end(folder));
            }
        });
    }
}

impl Mount {
    /// Takes it away while its server is there, so that all that was written arrives.
    fn end(&mut self, at: &Path) {
        if let Some(running) = self.running.take() {
            let argv =
                [EXE.as_ref(), "umount".as_ref(), "--lazy".as_ref(), "--".as_ref(), at.as_os_str()];
            let _ = run(&self.member, &argv);
            let _ = running.wait();
        }
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}

/// This host, for those that mount its folder.
struct Here<'a> {
    name: &'a str,
    address: Ipv4Addr,
    exe: &'a Path,
    hosts: &'a Hosts,
}

impl Here<'_> {
    fn mount_on(
        &self,
        member: &Member,
        folder: &Path,
        at: &Path,
        made: &[PathBuf],
    ) -> Result<Mount> {
        run(member, &["sh".as_ref(), "-c".as_ref(), MAKE.as_ref(), "sh".as_ref(), at.as_os_str()])?;
        let pipe = || std::io::pipe().cannot(|| "make a pipe".to_owned());
        let ((stdin, answers), (questions, stdout), (said, stderr)) = (pipe()?, pipe()?, pipe()?);
        let mut server = Command::new(self.exe);
        for name in ["WIGLAF_IF", "WIGLAF_NET", "WIGLAF_PORT", "WIGLAF_RANK", "WIGLAF_KEY"] {
            server.env_remove(name);
        }
        server.args(["serve-files", "--export"]).arg(folder);
        server.env("WIGLAF_IP", self.address.to_string()).current_dir("/");
        server.stdin(Stdio::from(OwnedFd::from(questions)));
        server.stdout(Stdio::from(OwnedFd::from(answers)));
        // Ctrl-C is for the job, which still writes then.
        server.process_group(0);
        let mut argv: Vec<std::ffi::OsString> = vec![EXE.into(), "mount".into(), "--line".into()];
        made.iter().for_each(|dir| argv.extend(["--made".into(), dir.into()]));
        let mut from = std::ffi::OsString::from(format!("{}:", self.name));
        from.push(folder);
        argv.extend(["--".into(), from, at.into()]);
        let network = &self.hosts.network;
        let mut command =
            NodeCommand::new(argv).cwd("/").env("WIGLAF_NET", network.data.to_string());
        if let Some(ports) = network.ports {
            server.env("WIGLAF_PORTS", String::from(ports));
            command = command.env("WIGLAF_PORTS", String::from(ports));
        }
        let streams = Streams { stdin: stdin.into(), stdout: stdout.into(), stderr: stderr.into() };
        let running = member.node.spawn(&command, streams)?;
        let server = server.spawn().cannot(|| format!("start {}", self.exe.display()))?;
        let mut mount = Mount { member: member.clone(), running: Some(running), server };
        match is_ready(File::from(OwnedFd::from(said))) {
            Ok(()) => Ok(mount),
            Err(why) => {
                let _ = mount.server.kill();
                mount.end(at);
                let name = member.name();
                Err(Error::new(format!("{name} cannot mount this folder: {why}")))
            }
        }
    }
}

/// Waits until a mount can be used; else says why not. What it says later on is the user's.
fn is_ready(said: File) -> std::result::Result<(), String> {
    let mut said = BufReader::new(said);
    let mut last = String::new();
    loop {
        let mut line = String::new();
        match said.read_line(&mut line) {
            Ok(1..) if line.trim_end() == READY => break,
            Ok(1..) => last = line,
            _ if last.is_empty() => return Err("its `wiglaf mount` ended at once".to_owned()),
            _ => {
                let last = last.trim();
                return Err(last.strip_prefix("wiglaf: ").unwrap_or(last).to_owned());
            }
        }
    }
    std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
    Ok(())
}

/// A scratch folder that all have at one path.
fn scratch(others: &[Member], here_too: &[Member]) -> Result<PathBuf> {
    let mut all = others.iter().chain(here_too);
    let first = all.next().ok_or_else(|| Error::new("there are no hosts"))?;
    match all.find(|member| member.scratch != first.scratch) {
        None => Ok(first.scratch.clone()),
        Some(other) => Err(Error::new(format!(
            "{} and {} have different scratch folders, and a job needs one path on all hosts; name one as \
             `scratch` in the cluster file",
            first.name(),
            other.name()
        ))),
    }
}

/// A file by which this folder is known on hosts that see the same one. Where none can be made, none does.
struct Mark {
    path: PathBuf,
    name: String,
}

impl Mark {
    fn new(folder: &Path) -> Result<Self> {
        let name = format!(".wiglaf-share-{:016x}", random::nonzero()?);
        let path = folder.join(&name);
        let is_made = File::create_new(&path).is_ok();
        Ok(Self { path, name: if is_made { name } else { String::new() } })
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        if !self.name.is_empty() {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

fn look(member: &Member, folder: &Path, mark: &str) -> Result<Found> {
    let argv = [
        "sh".as_ref(),
        "-c".as_ref(),
        LOOK.as_ref(),
        "sh".as_ref(),
        folder.as_os_str(),
        mark.as_ref(),
    ];
    let said = run(member, &argv)?;
    let mut lines = said.lines();
    match lines.next() {
        Some("same") => Ok(Found::Same),
        Some("free") => Ok(Found::Free(lines.map(PathBuf::from).collect())),
        Some("full") => Ok(Found::Full),
        Some("denied") => Ok(Found::Denied),
        _ => Err(Error::new(format!("{} does not say what it has there", member.name()))),
    }
}

/// Runs a command, and says what it said.
fn run(member: &Member, argv: &[&std::ffi::OsStr]) -> Result<String> {
    let said = member.node.output(&NodeCommand::new(argv.to_vec()).cwd("/"), &[]);
    let said = said.map_err(|error| Error::new(format!("{}: {error}", member.name())))?;
    Ok(String::from_utf8_lossy(&said).into_owned())
}
