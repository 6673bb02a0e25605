//! Versions of what takes part in a job, and what on the host may get in its way.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::{pairs, programs};
use crate::known::Known;

/// Debian packages whose version says something.
const PACKAGES: &[&str] = &[
    "libfabric1",
    "openmpi-bin",
    "libopenmpi3",
    "libopenmpi3t64",
    "libopenmpi40",
    "mpich",
    "libmpich12",
    "slurmd",
    "slurm-client",
    "wiglaf",
    "openssh-server",
];

/// Versions of what takes part in a job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Versions {
    /// Of Wiglaf.
    pub wiglaf: String,
    /// Of the kernel.
    pub kernel: String,
    /// The distribution, such as `Debian GNU/Linux 12 (bookworm)`.
    pub system: String,
    /// The instruction set, such as `x86_64`.
    pub machine: String,
    /// Of the C library.
    pub glibc: Known<String>,
    /// Of Debian's libfabric.
    pub libfabric: Known<String>,
    /// Of Slurm, where it is installed.
    pub slurm: Option<String>,
    /// Of Debian packages, those above and others.
    pub packages: BTreeMap<String, String>,
    /// The MPIs, as the caller's discovery found them.
    pub mpis: Vec<Mpi>,
}

/// An MPI.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Mpi {
    /// As behind `--mpi`: `openmpi`, `mpich`, `intel`.
    pub family: String,
    /// Its version.
    pub version: String,
    /// Where it is installed.
    pub prefix: String,
    /// The command that brings it, or one of its family, from the Python index.
    pub install: String,
}

impl Mpi {
    /// Whether it is the distribution's.
    pub(crate) fn is_packaged(&self) -> bool {
        self.prefix == "/usr"
    }
}

/// A service that is installed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// Whether it is switched on, as far as files tell that everybody may read.
    pub enabled: bool,
}

/// What is known without asking anybody.
pub(super) fn kernel_only() -> Versions {
    let uname = rustix::system::uname();
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = pairs(&release, '=').remove("PRETTY_NAME").unwrap_or_default();
    Versions {
        kernel: uname.release().to_string_lossy().into_owned(),
        machine: uname.machine().to_string_lossy().into_owned(),
        system: name.trim_matches('"').to_owned(),
        ..Versions::default()
    }
}

/// All versions but Wiglaf's own and the MPIs'.
pub(super) fn installed() -> Versions {
    let glibc = programs::output("getconf", &["GNU_LIBC_VERSION"]);
    let glibc = glibc.map(|text| text.trim().trim_start_matches("glibc ").to_owned());
    let packages = packages();
    let libfabric = match &packages {
        Ok(packages) => packages.get("libfabric1").cloned().ok_or("libfabric1 is not installed"),
        Err(_) => Err("this is no Debian"),
    };
    let packages = packages.unwrap_or_default();
    let slurm = packages.get("slurmd").or_else(|| packages.get("slurm-client"));
    Versions {
        glibc: glibc.into(),
        libfabric: libfabric.map(|version| upstream(&version)).into(),
        slurm: slurm.map(|version| upstream(version)),
        packages,
        ..kernel_only()
    }
}

fn packages() -> Result<BTreeMap<String, String>, String> {
    let format = "-f=${db:Status-Abbrev}\t${Package}\t${Version}\n";
    let args: Vec<&str> = ["-W", format].into_iter().chain(PACKAGES.iter().copied()).collect();
    let table = programs::output("dpkg-query", &args)?;
    let installed = table.lines().filter_map(|line| {
        let mut fields = line.split('\t');
        let (status, package, version) = (fields.next()?, fields.next()?, fields.next()?);
        status.starts_with("ii").then(|| (package.to_owned(), version.to_owned()))
    });
    Ok(installed.collect())
}

/// A Debian version without epoch and revision.
fn upstream(version: &str) -> String {
    let version = version.split_once(':').map_or(version, |(_, rest)| rest);
    version.rsplit_once('-').map_or(version, |(front, _)| front).to_owned()
}

/// Whether something keeps the clock right: the kernel knows, and systemd tells everybody.
pub(super) fn is_synchronised() -> Known<bool> {
    let answer = programs::output("timedatectl", &["show", "-p", "NTPSynchronized", "--value"]);
    match answer.as_deref().map(str::trim) {
        Ok("yes") => Known::Is(true),
        Ok("no") => Known::Is(false),
        Ok(other) => Known::unknown(format!("timedatectl says {other:?}")),
        Err(why) => Known::unknown(why),
    }
}

/// Firewalls that are installed.
pub(super) fn firewalls() -> Vec<Service> {
    let mut found = services(&["nftables", "ufw", "firewalld", "netfilter-persistent"]);
    // ufw's unit is enabled from its installation on; its own switch is what counts.
    let ufw = fs::read_to_string("/etc/ufw/ufw.conf").unwrap_or_default();
    let is_on = pairs(&ufw, '=').get("ENABLED").is_some_and(|value| value == "yes");
    for service in &mut found {
        service.enabled &= service.name != "ufw" || is_on;
    }
    let modules = fs::read_to_string("/proc/modules").unwrap_or_default();
    let loaded = |name: &str| modules.lines().any(|line| line.split(' ').next() == Some(name));
    for (module, name) in [("nf_tables", "nf_tables (module)"), ("ip_tables", "ip_tables (module)")]
    {
        if loaded(module) {
            found.push(Service { name: name.to_owned(), enabled: true });
        }
    }
    found
}

/// What installs updates, or restarts services, by itself.
pub(super) fn updaters() -> Vec<Service> {
    let mut found = services(&["unattended-upgrades", "packagekit"]);
    if Path::new("/usr/sbin/needrestart").exists() {
        let config = fs::read_to_string("/etc/needrestart/needrestart.conf").unwrap_or_default();
        let is_automatic = config.lines().any(|line| {
            let line = line.trim();
            line.starts_with("$nrconf{restart}") && line.contains("'a'")
        });
        found.push(Service { name: "needrestart".to_owned(), enabled: is_automatic });
    }
    found
}

/// The display manager, if one is switched on.
pub(super) fn desktop() -> Option<String> {
    let target = fs::read_link("/etc/systemd/system/display-manager.service").ok()?;
    Some(target.file_stem()?.to_string_lossy().into_owned())
}

/// Whether a unit is masked.
pub(super) fn is_masked(unit: &str) -> bool {
    fs::read_link(Path::new("/etc/systemd/system").join(unit))
        .is_ok_and(|target| target == Path::new("/dev/null"))
}

fn services(names: &[&str]) -> Vec<Service> {
    let unit_exists = |name: &str| {
        ["/lib/systemd/system", "/usr/lib/systemd/system", "/etc/systemd/system"]
            .into_iter()
            .any(|folder| Path::new(folder).join(format!("{name}.service")).exists())
    };
    let is_wanted = |name: &str| {
        let folders = fs::read_dir("/etc/systemd/system").into_iter().flatten().flatten();
        let mut wants = folders.filter(|f| f.file_name().to_string_lossy().ends_with(".wants"));
        wants.any(|folder| folder.path().join(format!("{name}.service")).symlink_metadata().is_ok())
    };
    let found = names.iter().filter(|name| unit_exists(name));
    found.map(|name| Service { name: (*name).to_owned(), enabled: is_wanted(name) }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debian_revisions_do_not_count() {
        assert_eq!(upstream("1.17.0-3"), "1.17.0");
        assert_eq!(upstream("1:4.1.4-3+b1"), "4.1.4");
        assert_eq!(upstream("22.05.8"), "22.05.8");
    }
}
