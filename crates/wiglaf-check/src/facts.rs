//! What one host says of itself, without privilege and without a word to any other host but name
//! servers.
//!
//! [`collect`] asks everything at once on threads and takes well under two seconds: what answers
//! later (a name server, a hanging file server) is [`Known::Unknown`]. The result is JSON that hosts
//! of other versions of Wiglaf can read: fields may be missing.

mod ethtool;
mod interfaces;
mod machine;
mod names;
mod person;
mod programs;
mod software;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::known::Known;

pub use ethtool::{Card, Coalesce, Eee, PauseFrames, Rings};
pub use interfaces::{Counts, Interface, Route, device_counts};
pub use machine::{Cpu, Disk, IdleState, Limits, Memory, Power};
pub use names::Name;
pub use person::{FileId, FileSeen, FolderId, FolderSeen, User};
pub use software::{Mpi, Service, Versions};

/// Names the layout of [`Facts`].
pub const SCHEMA: &str = "wiglaf-facts/1";

/// What answers later than this counts as unknown.
const PATIENCE: Duration = Duration::from_millis(1500);

/// What is to be found out beyond what is always of interest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ask {
    /// The other hosts: their names are resolved, and routes to their addresses looked up.
    pub peers: Vec<Peer>,
    /// The folder that a job would start in.
    pub folder: Option<PathBuf>,
    /// Files that should be equal on all hosts, such as the program.
    pub files: Vec<PathBuf>,
    /// Where jobs write, beside the home.
    pub scratch: Option<PathBuf>,
    /// The MPIs here, as the caller's discovery finds them.
    pub mpis: Vec<Mpi>,
    /// The version of the running Wiglaf.
    pub wiglaf: String,
}

/// Another host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    /// As the cluster file names it; the host itself may be among them.
    pub name: String,
    /// On the network that jobs use.
    pub address: Option<Ipv4Addr>,
}

/// What a host says of itself.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Facts {
    /// [`SCHEMA`].
    pub schema: String,
    /// Its own name.
    pub host: String,
    /// What names mean here: its own, and those of the peers.
    pub names: Vec<Name>,
    /// All network interfaces.
    pub interfaces: Known<Vec<Interface>>,
    /// The way to each peer that has an address.
    pub routes: Vec<Route>,
    /// The calling user.
    pub user: User,
    /// The folder that was asked for.
    pub folder: Option<FolderSeen>,
    /// The files that were asked for.
    pub files: Vec<FileSeen>,
    /// Its clock.
    pub clock: Clock,
    /// Versions of what takes part in a job.
    pub versions: Versions,
    /// Processors, and how they save power.
    pub cpu: Cpu,
    /// Memory and swap.
    pub memory: Memory,
    /// Free space of home, scratch and /tmp.
    pub disks: Vec<Disk>,
    /// Whether it may fall asleep.
    pub power: Power,
    /// Firewalls that are installed.
    pub firewalls: Vec<Service>,
    /// What installs updates, or restarts services, by itself.
    pub updaters: Vec<Service>,
    /// The helper that opens packet sockets for users.
    pub helper: Known<Helper>,
    /// What a process of this user may have.
    pub limits: Limits,
    /// How long all this took, in milliseconds.
    pub took_ms: u64,
}

/// A host's clock.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Clock {
    /// CLOCK_REALTIME, in nanoseconds since 1970.
    pub realtime_ns: i64,
    /// Whether the kernel says that something keeps it right.
    pub synchronised: Known<bool>,
}

/// The helper of docs/helper.md.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Helper {
    /// Whether it opens packet sockets for this user.
    pub admits: bool,
    /// Whether it tunes this host for this user.
    pub tunes: bool,
    /// What it says.
    pub says: String,
}

impl Facts {
    /// The interface of that name.
    #[must_use]
    pub fn interface(&self, name: &str) -> Option<&Interface> {
        self.interfaces.get()?.iter().find(|interface| interface.name == name)
    }

    /// The interface that holds `ip`.
    #[must_use]
    pub fn holding(&self, ip: Ipv4Addr) -> Option<&Interface> {
        let all = self.interfaces.get()?;
        all.iter().find(|interface| interface.addresses.iter().any(|(own, _)| *own == ip))
    }

    /// The way to `ip`.
    #[must_use]
    pub fn route(&self, ip: Ipv4Addr) -> Option<&Route> {
        self.routes.iter().find(|route| route.to == ip)
    }
}

/// Finds out everything about this host.
#[must_use]
pub fn collect(ask: &Ask) -> Facts {
    let began = Instant::now();
    let until = began + PATIENCE;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();

    // Each of these may hang: on a name server, a file server, D-Bus.
    let names = names::Lookups::begin(
        std::iter::once(host.clone()).chain(ask.peers.iter().map(|peer| peer.name.clone())),
    );
    let user = person::user();
    let folder = ask.folder.clone().map(|path| later(move || person::folder(path)));
    let hashed = |path: &PathBuf| {
        let asked = path.clone();
        (path.clone(), later(move || person::file(asked)))
    };
    let files: Vec<_> = ask.files.iter().map(hashed).collect();
    let mut places = vec![PathBuf::from(&user.home)];
    places.extend(ask.scratch.clone());
    places.push("/tmp".into());
    let disks = later(move || machine::disks(&places));
    let helper = later(helper);
    let synchronised = later(software::is_synchronised);
    let versions = later(software::installed);
    let interfaces = interfaces::all();
    let peers = ask.peers.iter().filter_map(|peer| peer.address);

    Facts {
        schema: SCHEMA.to_owned(),
        routes: interfaces::routes(peers),
        interfaces: interfaces.into(),
        cpu: machine::cpu(),
        memory: machine::memory(),
        power: machine::power(),
        limits: machine::limits(),
        firewalls: software::firewalls(),
        updaters: software::updaters(),
        names: names.end(until),
        folder: folder.map(|folder| match wait(&folder, until) {
            Some(folder) => folder,
            None => FolderSeen {
                path: ask.folder.clone().unwrap_or_default(),
                is: Known::unknown(LATE),
            },
        }),
        files: files
            .into_iter()
            .map(|(path, file)| {
                wait(&file, until).unwrap_or(FileSeen { path, is: Known::unknown(LATE) })
            })
            .collect(),
        disks: wait(&disks, until).unwrap_or_default(),
        helper: wait(&helper, until).unwrap_or(Known::unknown(LATE)),
        versions: Versions {
            wiglaf: ask.wiglaf.clone(),
            mpis: ask.mpis.clone(),
            ..wait(&versions, until).unwrap_or_else(software::kernel_only)
        },
        clock: Clock {
            synchronised: wait(&synchronised, until).unwrap_or(Known::unknown(LATE)),
            realtime_ns: realtime_ns(),
        },
        user,
        host,
        took_ms: began.elapsed().as_millis() as u64,
    }
}

/// Why a fact is not known that was asked for on a thread.
const LATE: &str = "no answer came in time";

/// Begins something that may hang; its thread is left behind if it does.
fn later<T: Send + 'static>(run: impl FnOnce() -> T + Send + 'static) -> mpsc::Receiver<T> {
    let (give, take) = mpsc::channel();
    // Without a thread there is no answer either.
    let _ = std::thread::Builder::new().name("fact".to_owned()).spawn(move || {
        let _ = give.send(run());
    });
    take
}

fn wait<T>(from: &mpsc::Receiver<T>, until: Instant) -> Option<T> {
    from.recv_timeout(until.saturating_duration_since(Instant::now())).ok()
}

fn helper() -> Known<Helper> {
    match wiglaf_helper::status() {
        Ok(says) => Known::Is(Helper {
            admits: says.contains("is admitted to packet"),
            tunes: says.ends_with("; may tune") || says.contains("; may tune;"),
            says,
        }),
        Err(why) => Known::unknown(why.to_string()),
    }
}

/// Whether processors of this host rest in states from which they wake later than that, in microseconds.
pub(crate) fn rests_longer_than(latency_us: u32) -> bool {
    machine::rests_longer_than(latency_us)
}

/// CLOCK_REALTIME in nanoseconds since 1970.
pub(crate) fn realtime_ns() -> i64 {
    match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => since.as_nanos() as i64,
        Err(before) => -(before.duration().as_nanos() as i64),
    }
}

/// Whether a name means this machine alone, wherever it is looked up.
pub(crate) fn is_loopback(address: &IpAddr) -> bool {
    address.is_loopback()
}

/// A small file as one trimmed line.
fn line_of(path: &str) -> Option<String> {
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Lines such as `KEY: value` or `KEY=value` by their keys.
fn pairs(text: &str, separator: char) -> BTreeMap<String, String> {
    let split = text.lines().filter_map(|line| line.split_once(separator));
    split.map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned())).collect()
}

#[cfg(test)]
mod tests;
