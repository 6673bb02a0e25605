//! What a reader must know to judge a measurement, or to repeat it.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Where and with what something was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// When, in UTC, as `2026-01-31T12:00:00Z`.
    pub date: String,
    /// The command line of the measuring process.
    pub command_line: Vec<String>,
    /// This program's version.
    pub wiglaf_version: String,
    /// Cores of the machine.
    pub cores: usize,
    /// Processor model.
    pub cpu: String,
    /// Kernel name and release.
    pub kernel: String,
    /// Operating system.
    pub system: String,
    /// Versions of the software measured; `null` for what is not installed.
    pub versions: BTreeMap<String, Option<String>>,
    /// What the launcher says of its nodes.
    pub nodes: BTreeMap<String, String>,
}

impl Facts {
    /// Gathers them; what cannot be found out is said to be unknown.
    pub fn gather(nodes: BTreeMap<String, String>) -> Self {
        let uname = rustix::system::uname();
        let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
        let kernel = format!("{} {}", word(uname.sysname()), word(uname.release()));
        Self {
            date: utc(SystemTime::now()),
            command_line: std::env::args().collect(),
            wiglaf_version: env!("CARGO_PKG_VERSION").to_owned(),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            cpu: field("/proc/cpuinfo", "model name", ':').unwrap_or_else(unknown),
            kernel,
            system: field("/etc/os-release", "PRETTY_NAME", '=').unwrap_or_else(unknown),
            versions: versions(),
            nodes,
        }
    }
}

impl Facts {
    /// The nodes in a few words: what they looked like, and the core of each; nothing where the
    /// launcher did not say.
    pub fn place(&self) -> Option<String> {
        let fact = |name: &str| self.nodes.get(name);
        let shape = fact("cluster")?;
        let cores = fact("core of each node").map(|cores| match cores.contains("any") {
            true => ", nodes keep to no core".to_owned(),
            false => format!(", nodes on cores {cores}"),
        });
        Some(format!("{shape}{}", cores.unwrap_or_default()))
    }
}

fn unknown() -> String {
    "unknown".to_owned()
}

fn field(path: &str, name: &str, separator: char) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(separator)?.1.trim().trim_matches('"').to_owned())
}

fn versions() -> BTreeMap<String, Option<String>> {
    [
        ("mpi", first_line("mpirun", "--version")),
        ("mpi compiler", first_line("mpicc", "--version")),
        ("libfabric", first_line("fi_info", "--version")),
        ("ucx", debian_version("libucx0")),
        ("quantum-espresso", debian_version("quantum-espresso")),
        ("nwchem", debian_version("nwchem-openmpi")),
    ]
    .map(|(name, version)| (name.to_owned(), version))
    .into()
}

fn first_line(program: &str, argument: &str) -> Option<String> {
    let output = Command::new(find_program(program)?).arg(argument).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find(|line| !line.trim().is_empty()).map(|line| line.trim().to_owned())
}

pub(crate) fn debian_version(package: &str) -> Option<String> {
    let query = find_program("dpkg-query")?;
    let output = Command::new(query).args(["-W", "-f", "${Version}", package]).output().ok()?;
    let version = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    (output.status.success() && !version.is_empty()).then_some(version)
}

/// Looks a program up on the PATH.
pub(crate) fn find_program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(name)).find(|file| is_executable(file))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

fn utc(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// Year, month and day of a day counted from 1970-01-01.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let leap = |y: u64| y.is_multiple_of(4) && !y.is_multiple_of(100) || y.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_as_date_1_prints_them() {
        let at = |s| utc(UNIX_EPOCH + Duration::from_secs(s));
        assert_eq!(at(0), "1970-01-01T00:00:00Z");
        assert_eq!(at(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(at(1_767_225_599), "2025-12-31T23:59:59Z");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00Z");
    }

    #[test]
    fn the_place_says_what_the_nodes_looked_like() {
        let of = |nodes: &[(&str, &str)]| Facts {
            nodes: nodes.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect(),
            ..Facts::gather(BTreeMap::new())
        };
        let cluster = ("cluster", "node[1-2], wire bridge, rate unlimited, mtu 9000");
        assert_eq!(
            of(&[cluster, ("core of each node", "0, 1")]).place().as_deref(),
            Some("node[1-2], wire bridge, rate unlimited, mtu 9000, nodes on cores 0, 1")
        );
        let free = of(&[cluster, ("core of each node", "any, any")]).place().unwrap();
        assert!(free.ends_with("nodes keep to no core"), "{free}");
        assert_eq!(of(&[]).place(), None);
    }

    #[test]
    fn this_machine_has_a_kernel_and_a_shell() {
        let facts = Facts::gather(BTreeMap::new());
        assert!(facts.kernel.starts_with("Linux "));
        assert!(facts.cores > 0);
        assert!(find_program("sh").is_some());
        assert!(find_program("no such program").is_none());
    }
}
