//! Processors, memory, disks, limits, and whether the host may fall asleep.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use super::{line_of, pairs, software};
use crate::known::Known;

/// What processors can rest in, of one for all.
const IDLE_STATES: &str = "/sys/devices/system/cpu/cpu0/cpuidle";

/// Processors, and how they save power.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Cpu {
    /// As the first calls itself.
    pub model: String,
    /// How many this process may use.
    pub count: u32,
    /// What their instructions are: the flags of /proc/cpuinfo.
    pub flags: BTreeSet<String>,
    /// Who sets the clock rate, such as `powersave`.
    pub governor: Known<String>,
    /// States of rest, the lightest first.
    pub idle_states: Known<Vec<IdleState>>,
    /// Whether this user may hold processors awake (/dev/cpu_dma_latency).
    pub may_hold_awake: Known<bool>,
}

/// A state of rest.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct IdleState {
    /// Its name, such as `C6`.
    pub name: String,
    /// How long it takes to wake, in microseconds.
    pub latency_us: u32,
    /// Whether it is switched off.
    pub disabled: bool,
}

/// Memory.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Memory {
    /// In bytes, as all that follows.
    pub total: u64,
    /// What programs could have now.
    pub available: u64,
    /// On disk.
    pub swap_total: u64,
    /// Of that, what is free.
    pub swap_free: u64,
    /// Size of /dev/shm, where ranks of one host exchange messages.
    pub shm_size: Known<u64>,
    /// What is free of it.
    pub shm_free: Known<u64>,
}

/// A place for files.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Disk {
    /// Where.
    pub path: PathBuf,
    /// What this user can have, in bytes.
    pub free: Known<u64>,
    /// The kind of file system.
    pub kind: Option<String>,
}

/// Whether a host may fall asleep in mid-job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Power {
    /// The kernel can suspend.
    pub can_suspend: bool,
    /// Systemd's sleep target is masked, so nobody can ask for it.
    pub is_masked: bool,
    /// It has a lid.
    pub has_lid: bool,
    /// It has a battery.
    pub has_battery: bool,
    /// What logind does when nobody is there, if something is set.
    pub idle_action: Option<String>,
    /// A graphical login, whose session may suspend the host.
    pub desktop: Option<String>,
    /// Logind is there to take an inhibitor.
    pub takes_inhibitors: bool,
}

/// What a process of this user may have; `None`: as much as it likes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Memory that it may lock, in bytes.
    pub memlock: Option<u64>,
    /// Open files, as it begins.
    pub files: Option<u64>,
    /// Open files, as far as it can raise them.
    pub files_max: Option<u64>,
    /// Processes.
    pub processes: Option<u64>,
}

pub(super) fn cpu() -> Cpu {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    // The first processor's; all are alike, or the kernel would not run on them.
    let first = pairs(text.split("\n\n").next().unwrap_or_default(), ':');
    let flags = first.get("flags").or_else(|| first.get("Features")).cloned().unwrap_or_default();
    Cpu {
        model: first
            .get("model name")
            .or_else(|| first.get("CPU part"))
            .cloned()
            .unwrap_or_default(),
        count: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        flags: flags.split_whitespace().map(str::to_owned).collect(),
        governor: line_of("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
            .ok_or("the kernel does not set the clock rate here")
            .into(),
        idle_states: idle_states(Path::new(IDLE_STATES))
            .ok_or("the kernel does not choose states of rest here")
            .into(),
        may_hold_awake: match rustix::fs::access(
            "/dev/cpu_dma_latency",
            rustix::fs::Access::WRITE_OK,
        ) {
            Ok(()) => Known::Is(true),
            Err(rustix::io::Errno::ACCESS | rustix::io::Errno::PERM) => Known::Is(false),
            Err(why) => Known::unknown(format!("/dev/cpu_dma_latency: {why}")),
        },
    }
}

/// Whether processors of this host rest in states from which they wake later than that, in microseconds.
pub(super) fn rests_longer_than(latency_us: u32) -> bool {
    let states = idle_states(Path::new(IDLE_STATES)).unwrap_or_default();
    states.iter().any(|state| !state.disabled && state.latency_us > latency_us)
}

fn idle_states(folder: &Path) -> Option<Vec<IdleState>> {
    let mut states = Vec::new();
    for number in 0..32 {
        let state = folder.join(format!("state{number}"));
        let read = |name: &str| fs::read_to_string(state.join(name)).ok();
        let Some(name) = read("name") else { break };
        states.push(IdleState {
            name: name.trim().to_owned(),
            latency_us: read("latency").and_then(|text| text.trim().parse().ok()).unwrap_or(0),
            disabled: read("disable").is_some_and(|text| text.trim() == "1"),
        });
    }
    (!states.is_empty()).then_some(states)
}

pub(super) fn memory() -> Memory {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let table = pairs(&text, ':');
    let bytes = |key: &str| {
        let kib =
            table.get(key).and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok());
        kib.unwrap_or(0) << 10
    };
    let shm = rustix::fs::statvfs("/dev/shm");
    Memory {
        total: bytes("MemTotal"),
        available: bytes("MemAvailable"),
        swap_total: bytes("SwapTotal"),
        swap_free: bytes("SwapFree"),
        shm_size: shm.as_ref().map(|shm| shm.f_blocks.saturating_mul(shm.f_frsize)).into(),
        shm_free: shm.as_ref().map(|shm| shm.f_bavail.saturating_mul(shm.f_frsize)).into(),
    }
}

/// Each place once.
pub(super) fn disks(places: &[PathBuf]) -> Vec<Disk> {
    let mut seen = BTreeSet::new();
    let places = places.iter().filter(|path| !path.as_os_str().is_empty() && seen.insert(*path));
    let look = |path: &PathBuf| Disk {
        path: path.clone(),
        free: rustix::fs::statvfs(path).map(|fs| fs.f_bavail.saturating_mul(fs.f_frsize)).into(),
        kind: kind_of(path),
    };
    places.map(look).collect()
}

/// The kind of the file system that a path is on: that of the mount with the longest path above it.
pub(super) fn kind_of(path: &Path) -> Option<String> {
    let path = fs::canonicalize(path).ok()?;
    let table = fs::read_to_string("/proc/self/mounts").ok()?;
    let mut best: Option<(usize, String)> = None;
    for line in table.lines() {
        let mut fields = line.split(' ').skip(1);
        let (Some(at), Some(kind)) = (fields.next(), fields.next()) else { continue };
        let at = at.replace("\\040", " ");
        // Of two mounts at one place the later one is seen.
        if path.starts_with(&at) && best.as_ref().is_none_or(|(len, _)| at.len() >= *len) {
            best = Some((at.len(), kind.to_owned()));
        }
    }
    best.map(|(_, kind)| kind)
}

pub(super) fn power() -> Power {
    let supplies = fs::read_dir("/sys/class/power_supply").into_iter().flatten().flatten();
    let is_battery = |folder: fs::DirEntry| {
        // The batteries of mice are devices' own.
        let of = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap_or_default();
        of("type").trim() == "Battery" && of("scope").trim() != "Device"
    };
    let logind = fs::read_to_string("/etc/systemd/logind.conf").unwrap_or_default();
    let action = pairs(&logind, '=').get("IdleAction").cloned();
    Power {
        can_suspend: line_of("/sys/power/state").is_some_and(|states| states.contains("mem")),
        is_masked: ["sleep.target", "suspend.target"].into_iter().any(software::is_masked),
        has_lid: fs::read_dir("/proc/acpi/button/lid").is_ok_and(|mut all| all.next().is_some()),
        has_battery: supplies.into_iter().any(is_battery),
        idle_action: action.filter(|action| action != "ignore"),
        desktop: software::desktop(),
        takes_inhibitors: Path::new("/run/systemd/seats").exists()
            && Path::new("/run/dbus/system_bus_socket").exists(),
    }
}

pub(super) fn limits() -> Limits {
    let files = getrlimit(Resource::Nofile);
    Limits {
        memlock: getrlimit(Resource::Memlock).current,
        files: files.current,
        files_max: files.maximum,
        processes: getrlimit(Resource::Nproc).current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_states_come_in_their_order() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(idle_states(dir.path()), None);
        for (number, name, latency, off) in [(0, "POLL", "0", "0"), (1, "C6", "133", "1")] {
            let state = dir.path().join(format!("state{number}"));
            fs::create_dir(&state).unwrap();
            fs::write(state.join("name"), format!("{name}\n")).unwrap();
            fs::write(state.join("latency"), format!("{latency}\n")).unwrap();
            fs::write(state.join("disable"), format!("{off}\n")).unwrap();
        }
        let states = idle_states(dir.path()).unwrap();
        let seen: Vec<_> = states.iter().map(|s| (&s.name[..], s.latency_us, s.disabled)).collect();
        assert_eq!(seen, [("POLL", 0, false), ("C6", 133, true)]);
    }

    #[test]
    fn the_kind_of_a_file_system_is_that_of_the_nearest_mount() {
        assert_eq!(kind_of(Path::new("/proc/self")).as_deref(), Some("proc"));
        assert_eq!(kind_of(Path::new("/no/such/path")), None);
    }
}
