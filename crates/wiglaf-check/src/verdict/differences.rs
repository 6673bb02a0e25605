//! Where hosts differ that should be alike.

use std::collections::{BTreeMap, BTreeSet};

use super::words::{bytes, listed, verb};
use super::{Checked, Finding, Host, Severity};
use crate::facts::{Facts, FileId, FolderId};

/// Instruction sets whose names users know, by the flag of /proc/cpuinfo.
const INSTRUCTIONS: &[(&str, &str)] = &[
    ("avx512f", "AVX-512"),
    ("avx2", "AVX2"),
    ("avx", "AVX"),
    ("fma", "FMA"),
    ("amx_tile", "AMX"),
    ("sse4_2", "SSE4.2"),
    ("asimd", "NEON"),
    ("sve", "SVE"),
];
/// What x86-64-v2, v3 and v4 take of flags.
const LEVELS: &[(&str, &[&str])] = &[
    ("x86-64-v4", &["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl", "avx2", "fma"]),
    ("x86-64-v3", &["avx2", "bmi1", "bmi2", "f16c", "fma", "movbe"]),
    ("x86-64-v2", &["sse4_2", "ssse3", "popcnt"]),
];

type Known<'a> = (&'a Host, &'a Facts);

pub(super) fn judge(checked: &Checked, findings: &mut Vec<Finding>) {
    let hosts: Vec<Known<'_>> = checked.known().collect();
    user(&hosts, findings);
    folders(&hosts, findings);
    files(&hosts, findings);
    versions(&hosts, findings);
    mpis(&hosts, findings);
    instructions(&hosts, findings);
    memory(&hosts, findings);
    mtu(checked, &hosts, findings);
}

/// Hosts by the value that they have, the most frequent first; hosts without one are left out.
fn groups<'a, V: Ord>(
    hosts: &[Known<'a>],
    value: impl Fn(&Facts) -> Option<V>,
) -> Vec<(V, Vec<&'a str>)> {
    let mut groups: BTreeMap<V, Vec<&str>> = BTreeMap::new();
    for (host, facts) in hosts {
        if let Some(value) = value(facts) {
            groups.entry(value).or_default().push(&host.name);
        }
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, hosts)| std::cmp::Reverse(hosts.len()));
    groups
}

/// One sentence about a value that is not the same everywhere.
struct Differing<'s> {
    code: &'s str,
    severity: Severity,
    what: &'s str,
    fix: &'s dyn Fn(&[&str]) -> String,
}

impl Differing<'_> {
    fn look<V: Ord + std::fmt::Display>(
        &self,
        hosts: &[Known<'_>],
        value: impl Fn(&Facts) -> Option<V>,
        findings: &mut Vec<Finding>,
    ) {
        let groups = groups(hosts, value);
        if groups.len() < 2 {
            return;
        }
        let parts: Vec<String> = groups
            .iter()
            .map(|(value, hosts)| format!("{value} on {}", listed(hosts.iter().copied())))
            .collect();
        let (last, rest) = parts.split_last().expect("there are two");
        let sentence = format!("{} is {} and {last}", self.what, rest.join(", "));
        // Those that differ from most.
        let odd: Vec<&str> = groups[1..].iter().flat_map(|(_, hosts)| hosts.clone()).collect();
        let fix = (self.fix)(&odd);
        findings.push(Finding::between(self.code, self.severity, odd, sentence, fix));
    }
}

fn user(hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    // Where a file server knows users by number, files belong to somebody else.
    let shares = |facts: &Facts| {
        let folder = facts.folder.as_ref().and_then(|folder| folder.is.get());
        folder.is_some_and(|folder| is_network(&folder.kind))
            || facts.disks.iter().any(|disk| disk.kind.as_deref().is_some_and(is_network))
    };
    let severity = match hosts.iter().any(|(_, facts)| shares(facts)) {
        true => Severity::Slows,
        false => Severity::Note,
    };
    let fix =
        |odd: &[&str]| format!("on {}: sudo usermod -u NUMBER USER", listed(odd.iter().copied()));
    let uid = Differing { code: "uid", severity, what: "the user", fix: &fix };
    uid.look(hosts, |facts| Some(facts.user.uid), findings);
    let fix =
        |odd: &[&str]| format!("on {}: sudo usermod -g NUMBER USER", listed(odd.iter().copied()));
    let gid = Differing { code: "gid", severity, what: "the user's group", fix: &fix };
    gid.look(hosts, |facts| Some(facts.user.gid), findings);
    let fix = |_: &[&str]| "set user in the [node.NAME] tables of the cluster file".to_owned();
    let name =
        Differing { code: "user", severity: Severity::Note, what: "the user's name", fix: &fix };
    name.look(hosts, |facts| facts.user.name.get().cloned(), findings);
    let fix = |_: &[&str]| "give absolute paths that exist on all hosts".to_owned();
    let home = Differing { code: "home", severity: Severity::Note, what: "the home", fix: &fix };
    home.look(hosts, |facts| Some(facts.user.home.clone()), findings);
    let fix = |odd: &[&str]| format!("on {}: umask, in ~/.profile", listed(odd.iter().copied()));
    let mask = Differing { code: "umask", severity: Severity::Note, what: "umask", fix: &fix };
    mask.look(hosts, |facts| facts.user.umask.map(|mask| format!("{mask:04o}")), findings);
}

/// Whether files of such a file system may be on another host.
fn is_network(kind: &str) -> bool {
    ["nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "glusterfs", "afs", "9p"].contains(&kind)
        || kind.starts_with("fuse")
}

fn folders(hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    let id = |facts: &Facts| {
        let FolderId { inode, ctime_ns, .. } = facts.folder.as_ref()?.is.get()?;
        Some((*inode, *ctime_ns))
    };
    let groups = groups(hosts, id);
    if groups.len() < 2 {
        return;
    }
    let path = hosts.iter().find_map(|(_, facts)| facts.folder.as_ref());
    let path = path.map(|folder| folder.path.display().to_string()).unwrap_or_default();
    let all = groups.iter().flat_map(|(_, hosts)| hosts.iter().copied());
    findings.push(Finding::between(
        "folder",
        Severity::Note,
        all.clone(),
        format!(
            "{path} is not one folder on {}: a file written on one is not seen on another",
            listed(all)
        ),
        "wiglaf run --share or --stage, where ranks read or write files there",
    ));
}

fn files(hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    let paths: BTreeSet<_> =
        hosts.iter().flat_map(|(_, facts)| &facts.files).map(|file| file.path.clone()).collect();
    for path in paths {
        let id = |facts: &Facts| -> Option<(String, u64)> {
            let file = facts.files.iter().find(|file| file.path == path)?;
            let FileId { len, sha256, .. } = file.is.get()?;
            Some((sha256.clone(), *len))
        };
        let groups = groups(hosts, id);
        let [(_, first), rest @ ..] = &groups[..] else { continue };
        if rest.is_empty() {
            continue;
        }
        let odd: Vec<&str> = rest.iter().flat_map(|(_, hosts)| hosts.iter().copied()).collect();
        let (path, from) = (path.display(), first[0]);
        findings.push(Finding::between(
            "file",
            Severity::Fatal,
            odd.iter().copied(),
            format!(
                "{path} has another content on {} than on {}",
                listed(odd.iter().copied()),
                listed(first.iter().copied())
            ),
            format!("wiglaf cp {from}:{path} {}:{path}", odd[0]),
        ));
    }
}

fn versions(hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    let some = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let join = |odd: &[&str]| format!("wiglaf join {}", odd.join(" "));
    let wiglaf =
        Differing { code: "wiglaf", severity: Severity::Fatal, what: "Wiglaf", fix: &join };
    wiglaf.look(hosts, |facts| some(&facts.versions.wiglaf), findings);
    let leave = |odd: &[&str]| format!("leave {} out: wiglaf run -w", listed(odd.iter().copied()));
    let machine = Differing {
        code: "machine",
        severity: Severity::Fatal,
        what: "the processor",
        fix: &leave,
    };
    machine.look(hosts, |facts| some(&facts.versions.machine), findings);
    let upgrade = |odd: &[&str]| {
        format!("on {}: sudo apt-get update && sudo apt-get upgrade", listed(odd.iter().copied()))
    };
    let slurm =
        Differing { code: "slurm", severity: Severity::Fatal, what: "Slurm", fix: &upgrade };
    slurm.look(hosts, |facts| facts.versions.slurm.as_deref().map(release), findings);
    let systems = groups(hosts, |facts| some(&facts.versions.system));
    if systems.len() > 1 {
        // Each has its release's own libfabric and kernel: no upgrade makes them alike, and jobs do not need it.
        let one_mpi =
            |_: &[&str]| "one MPI in one version for all of them, as said here".to_owned();
        let system = Differing {
            code: "system",
            severity: Severity::Note,
            what: "the system",
            fix: &one_mpi,
        };
        system.look(hosts, |facts| some(&facts.versions.system), findings);
    } else {
        let note = |code, what| Differing { code, severity: Severity::Note, what, fix: &upgrade };
        note("libfabric", "libfabric").look(
            hosts,
            |facts| facts.versions.libfabric.get().cloned(),
            findings,
        );
        note("kernel", "the kernel").look(hosts, |facts| some(&facts.versions.kernel), findings);
    }

    // The C library's versions are compatible upwards only.
    let groups = groups(hosts, |facts| facts.versions.glibc.get().cloned());
    let newest = groups.iter().max_by_key(|(version, _)| order(version));
    let oldest = groups.iter().min_by_key(|(version, _)| order(version));
    if let (Some((new, there)), Some((old, here))) = (newest, oldest)
        && new != old
    {
        findings.push(Finding::between(
            "glibc",
            Severity::Slows,
            here.iter().copied(),
            format!(
                "programs built on {} (glibc {new}) may not start on {} (glibc {old})",
                listed(there.iter().copied()),
                listed(here.iter().copied())
            ),
            format!("build programs on {}", here[0]),
        ));
    }
}

/// Slurm's releases are named by their first two numbers.
fn release(version: &str) -> String {
    version.split('.').take(2).collect::<Vec<_>>().join(".")
}

fn mpis(hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    let families: BTreeSet<&str> = hosts
        .iter()
        .flat_map(|(_, facts)| &facts.versions.mpis)
        .map(|mpi| &mpi.family[..])
        .collect();
    for family in families {
        let versions = |facts: &Facts| -> Option<String> {
            let mut versions: Vec<&str> = versions_of(facts, family).into_iter().collect();
            versions.sort_by_key(|version| order(version));
            (!versions.is_empty()).then(|| versions.join(" and "))
        };
        match common_version(hosts, family) {
            Some(version) => only_some_have(hosts, family, version, findings),
            None => {
                let install = |odd: &[&str]| install_mpi(hosts, family, odd);
                let differing = Differing {
                    code: "mpi",
                    severity: Severity::Fatal,
                    what: family,
                    fix: &install,
                };
                differing.look(hosts, versions, findings);
            }
        }
        let without: Vec<&str> = hosts
            .iter()
            .filter(|(_, facts)| versions(facts).is_none())
            .map(|(host, _)| &host.name[..])
            .collect();
        if !without.is_empty() {
            findings.push(Finding::between(
                "mpi",
                Severity::Slows,
                without.iter().copied(),
                format!(
                    "{} {} no {family}: its programs do not start there",
                    listed(without.iter().copied()),
                    verb(without.len(), "has", "have")
                ),
                install_mpi(hosts, family, &without),
            ));
        }
    }
}

/// Which versions of the family a host has.
fn versions_of<'a>(facts: &'a Facts, family: &str) -> BTreeSet<&'a str> {
    let of_family = facts.versions.mpis.iter().filter(|mpi| mpi.family == family);
    of_family.map(|mpi| &mpi.version[..]).collect()
}

/// The newest version that all hosts have which have any of the family.
fn common_version<'a>(hosts: &[Known<'a>], family: &str) -> Option<&'a str> {
    let of_family = hosts.iter().map(|(_, facts)| versions_of(facts, family));
    let common = of_family
        .filter(|versions| !versions.is_empty())
        .reduce(|common, versions| common.intersection(&versions).copied().collect())?;
    common.into_iter().max_by_key(|version| order(version))
}

/// Says which versions not all have, beside one that all have: whichever comes first in a PATH need not be that.
fn only_some_have(hosts: &[Known<'_>], family: &str, common: &str, findings: &mut Vec<Finding>) {
    let mut having: Vec<&str> = Vec::new();
    let mut others: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (host, facts) in hosts {
        let versions = versions_of(facts, family);
        having.extend((!versions.is_empty()).then_some(&host.name[..]));
        for version in versions {
            others.entry(version).or_default().push(&host.name);
        }
    }
    others.retain(|_, there| there.len() < having.len());
    if others.is_empty() {
        return;
    }
    let parts: Vec<String> = others
        .iter()
        .map(|(version, there)| format!("{version} only on {}", listed(there.iter().copied())))
        .collect();
    findings.push(Finding::between(
        "mpi",
        Severity::Slows,
        others.into_values().flatten().collect::<BTreeSet<_>>(),
        format!("{family} {common} is on {}, {}", listed(having), parts.join(", ")),
        format!("wiglaf run --mpi {family}@{common}"),
    ));
}

/// How the hosts come to one version: from the packages of their release where they are of one, else from the
/// Python index, which has one build for all releases.
fn install_mpi(hosts: &[Known<'_>], family: &str, odd: &[&str]) -> String {
    let systems: BTreeSet<&str> =
        hosts.iter().map(|(_, facts)| &facts.versions.system[..]).collect();
    let mpis = hosts.iter().flat_map(|(_, facts)| &facts.versions.mpis);
    let newest = mpis
        .filter(|mpi| mpi.family == family)
        .max_by_key(|mpi| (!mpi.is_packaged(), order(&mpi.version)));
    match newest {
        Some(mpi) if mpi.is_packaged() && systems.len() > 1 => {
            format!("on {}: {}", listed(hosts.iter().map(|(host, _)| &host.name[..])), mpi.install)
        }
        Some(mpi) if mpi.is_packaged() => {
            let package = if family == "openmpi" { "openmpi-bin" } else { family };
            format!(
                "on {}: sudo apt-get update && sudo apt-get install {package}",
                listed(odd.iter().copied())
            )
        }
        Some(mpi) => format!("on {}: {}", listed(odd.iter().copied()), mpi.install),
        None => format!("install {family} there"),
    }
}

/// The numbers of a version, for comparing.
fn order(version: &str) -> Vec<u32> {
    version.split('.').map(|part| part.parse().unwrap_or(0)).collect()
}

fn instructions(hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    let with_flags: Vec<_> = hosts.iter().filter(|(_, f)| !f.cpu.flags.is_empty()).collect();
    let has = |facts: &Facts, flag: &str| facts.cpu.flags.contains(flag);
    // One sentence for all that the same hosts lack.
    let mut lacking: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    for (flag, name) in INSTRUCTIONS {
        let lack: Vec<&str> = with_flags
            .iter()
            .filter(|(_, facts)| !has(facts, flag))
            .map(|(host, _)| &host.name[..])
            .collect();
        if lack.is_empty() || lack.len() == with_flags.len() {
            continue;
        }
        match lacking.iter_mut().find(|(hosts, _)| *hosts == lack) {
            Some((_, names)) => names.push(name),
            None => lacking.push((lack, vec![name])),
        }
    }
    let all_have = |flags: &[&str]| {
        with_flags.iter().all(|(_, facts)| flags.iter().all(|flag| has(facts, flag)))
    };
    let level = LEVELS.iter().find(|(_, flags)| all_have(flags)).map(|(level, _)| *level);
    for (hosts, names) in lacking {
        findings.push(Finding::between(
            "cpu",
            Severity::Slows,
            hosts.iter().copied(),
            format!(
                "programs built with {} will die on {}",
                listed(names),
                listed(hosts.iter().copied())
            ),
            format!("build with -march={} in place of -march=native", level.unwrap_or("x86-64")),
        ));
    }
}

fn memory(hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    let mut sizes: Vec<u64> = hosts.iter().map(|(_, facts)| facts.memory.total).collect();
    sizes.sort_unstable();
    let Some(median) = sizes.get(sizes.len() / 2).copied() else { return };
    for (host, facts) in hosts {
        let own = facts.memory.total;
        // Firmware keeps some; a module that is missing or dead is a quarter at least.
        if own > 0 && own < median / 4 * 3 {
            findings.push(Finding::of(
                "memory",
                Severity::Note,
                &host.name,
                format!(
                    "{} has {} of memory, others have {}",
                    host.name,
                    bytes(own),
                    bytes(median)
                ),
                format!("set slots of {} in the cluster file by its memory", host.name),
            ));
        }
    }
}

/// Different interfaces' MTU, also where no probe has shown what comes of it.
fn mtu(checked: &Checked, hosts: &[Known<'_>], findings: &mut Vec<Finding>) {
    let of = |name: &str| {
        let (host, facts) = hosts.iter().find(|(host, _)| host.name == name)?;
        super::hosts::data_interface(&checked.expected, host, facts)
    };
    let mut sizes: BTreeMap<u32, Vec<&str>> = BTreeMap::new();
    for (host, _) in hosts {
        if let Some(interface) = of(&host.name) {
            sizes.entry(interface.mtu).or_default().push(&host.name);
        }
    }
    let (Some((small, few)), Some((large, many))) =
        (sizes.first_key_value(), sizes.last_key_value())
    else {
        return;
    };
    if small == large {
        return;
    }
    let card = of(many[0]).map_or("INTERFACE", |interface| &interface.name);
    findings.push(Finding::between(
        "mtu-differs",
        Severity::Slows,
        many.iter().chain(few).copied(),
        format!(
            "the MTU is {large} on {} and {small} on {}",
            listed(many.iter().copied()),
            listed(few.iter().copied())
        ),
        format!("on {}: sudo ip link set {card} mtu {small}", listed(many.iter().copied())),
    ));
}
