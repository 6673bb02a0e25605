//! What a host says of what batch jobs need: a script of sh that changes nothing, and what its answers mean.

use std::collections::BTreeMap;

use wiglaf_base::error::{Error, Result};
use wiglaf_base::shell::quoted;
use wiglaf_cluster::power::Mac;
use wiglaf_join::joined::Joined;

use crate::accounting;
use crate::modules::System;

/// Prints a line for each fact: its name, a space, its value. As root, where the user may: the key is nobody else's.
const LOOK: &str = r#"
PATH="$PATH:/usr/sbin:/usr/bin:/sbin:/bin"
LC_ALL=C
export PATH LC_ALL
say() { printf '%s %s\n' "$1" "$2"; }
sum() { [ -r "$2" ] && say "$1" "$(sha256sum <"$2" | cut -c1-64)"; }
# Whether munge's key was made while dpkg configured munge: then it is no cluster's.
by_package() {
    made=$(stat -c %Y /etc/munge/munge.key 2>/dev/null) && made=$(date -d "@$made" '+%F %T') || return
    cat /var/log/dpkg.log.1 /var/log/dpkg.log 2>/dev/null | awk -v made="$made" '
        $3 == "status" && $5 ~ /^munge(:|$)/ {
            now = $1 " " $2
            if ($4 == "half-configured") from = now
            if ($4 == "installed" && from != "" && from <= made && made <= now) found = 1
        }
        END { exit !found }'
}
# Whether an image of Wiglaf's made it when the host started for the first time.
by_image() { sha256sum 2>/dev/null </etc/munge/munge.key | cmp -s - /var/lib/wiglaf/first-munge-key; }
command -v apt-get >/dev/null && command -v dpkg-query >/dev/null && say debian yes
for package in $packages; do
    has=$(dpkg-query -W -f '${db:Status-Abbrev}${Version}' "$package" 2>/dev/null)
    case $has in
    ii*) say has "$package ${has#ii?}" ;;
    *) say offers "$package $(apt-cache policy "$package" 2>/dev/null | sed -n 's/^ *Candidate: //p')" ;;
    esac
done
sum key /etc/munge/munge.key
{ by_package || by_image; } && say fresh yes
sum conf /etc/slurm/slurm.conf
sum database /etc/slurm/slurmdbd.conf
[ -d "$accounting/db" ] && say kept yes
[ -r "$accounting/next" ] && say next "$(cat "$accounting/next")"
for folder in $modules; do [ -d "$folder" ] && say modules "$folder"; done
[ -d /run/systemd/system ] && say systemd yes
[ -S "$socket" ] && say helper yes
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then say cgroup 2
elif [ -d /sys/fs/cgroup/freezer ] && [ -d /sys/fs/cgroup/memory ]; then say cgroup 1; fi
[ -e /etc/pam.d/sshd ] && sshd -T 2>/dev/null | grep -qx 'usepam yes' && say pam yes
port=$(ip -o -4 addr show to "$address" 2>/dev/null | awk '{ sub(/@.*/, "", $2); print $2; exit }')
[ -n "$port" ] && say card "$(ip -o link show dev "$port" | sed -n 's|.* link/ether \([0-9a-f:]*\).*|\1|p')"
say memory "$(sed -n 's/^MemTotal: *\([0-9]*\) kB/\1/p' /proc/meminfo)"
for name in munged mariadbd slurmdbd slurmctld slurmd wiglaf-owner; do
    file=/run/$name.pid
    [ "$name" = munged ] && file=/run/munge/munged.pid
    [ "$name" = mariadbd ] && file=/run/wiglaf-accounting/pid
    read -r pid 2>/dev/null <"$file" && read -r comm 2>/dev/null <"/proc/$pid/comm" && [ "$comm" = "$name" ] &&
        say runs "$name"
    # Its folder is closed to all but its user.
    [ "$name" = mariadbd ] && [ ! -x "${file%/*}" ] && by=$(stat -c %U "${file%/*}" 2>/dev/null) &&
        ps -u "$by" -o comm= | grep -qx mariadbd && say runs "$name"
    case $name in munged) unit=munge ;; mariadbd) unit=wiglaf-accounting ;; *) unit=$name ;; esac
    [ -d /run/systemd/system ] && systemctl is-active --quiet "$unit" && say runs "$name"
done
[ -r /etc/slurm/slurmdbd.conf ] && [ -n "$cluster" ] && say lacking "$(lacking "$cluster" 2>/dev/null)"
slurmd -C 2>/dev/null | sed -n 's/^NodeName=/processors NodeName=/p'
[ -r /etc/slurm/slurm.conf ] && say private "$(grep -c '^PrivateData=' /etc/slurm/slurm.conf)"
say end yes
"#;

/// A Debian package on a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// Its version.
    pub(crate) version: String,
    /// Or apt would install it.
    pub(crate) is_installed: bool,
}

/// What a host says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Facts {
    pub(crate) is_debian: bool,
    pub(crate) packages: BTreeMap<String, Package>,
    /// Digest of munge's key.
    pub(crate) key: Option<String>,
    /// Whether Debian's package or an image of ours has made it, so that no cluster has it.
    pub(crate) is_key_fresh: bool,
    /// Digest of slurm.conf.
    pub(crate) conf: Option<String>,
    /// Whether that has users see their own jobs alone; nothing where there is none.
    pub(crate) is_private: Option<bool>,
    pub(crate) has_systemd: bool,
    pub(crate) has_helper: bool,
    /// Who reads module files there.
    pub(crate) modules: Vec<System>,
    /// The address of its card in the data network.
    pub(crate) card: Option<Mac>,
    /// Whether its SSH server asks PAM who logs in.
    pub(crate) has_pam: bool,
    /// Digest of slurmdbd.conf.
    pub(crate) database: Option<String>,
    /// Whether there is a database of accounting.
    pub(crate) has_kept: bool,
    /// The number of the first job that the database does not have yet.
    pub(crate) next_job: Option<u32>,
    /// People of the host without a share.
    pub(crate) lacking: Vec<String>,
    /// The version of its control groups, where Slurm can use them.
    pub(crate) cgroup: Option<u8>,
    pub(crate) memory_mib: u64,
    /// Which daemons run.
    pub(crate) running: Vec<String>,
    /// Processors, sockets, cores of each, threads of each: as its slurmd counts them.
    pub(crate) processors: [usize; 4],
}

impl Facts {
    /// What a host says, which is asked for these packages; the head is asked for users' shares of a cluster.
    pub(crate) fn look(host: &Joined, packages: &[&str], cluster: Option<&str>) -> Result<Self> {
        let script = format!(
            "socket={} packages={} accounting={} cluster={} modules={} address={}\n{}\n{LOOK}",
            wiglaf_helper::SOCKET,
            quoted(&packages.join(" ")),
            accounting::FOLDER,
            quoted(cluster.unwrap_or_default()),
            quoted(&System::ALL.map(System::folder).join(" ")),
            host.address().map_or_else(|_| "none".to_owned(), |address| address.to_string()),
            accounting::LACKING,
        );
        let said = host.run(&script, host.has_root(), b"")?;
        Self::parse(&said).ok_or_else(|| {
            Error::new(format!(
                "{} does not say what it has; see what `ssh {} sh -c true` prints",
                host.name(),
                host.login()
            ))
        })
    }

    /// What slurmd counts.
    pub(crate) fn processors(host: &Joined) -> Result<[usize; 4]> {
        let said = host.run("PATH=$PATH:/usr/sbin slurmd -C", false, b"")?;
        processors(&said).ok_or_else(|| {
            Error::new(format!("{}: `slurmd -C` there does not count its processors", host.name()))
        })
    }

    fn parse(said: &str) -> Option<Self> {
        let mut facts = Self { processors: [1; 4], ..Self::default() };
        let mut is_whole = false;
        for line in said.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim();
            match name {
                "debian" => facts.is_debian = true,
                "has" | "offers" => {
                    let (package, version) = value.split_once(' ').unwrap_or((value, ""));
                    let is_installed = name == "has";
                    if !["", "(none)"].contains(&version) {
                        let version = version.to_owned();
                        facts
                            .packages
                            .insert(package.to_owned(), Package { version, is_installed });
                    }
                }
                "key" => facts.key = Some(value.to_owned()),
                "database" => facts.database = Some(value.to_owned()),
                "fresh" => facts.is_key_fresh = true,
                "pam" => facts.has_pam = true,
                "kept" => facts.has_kept = true,
                "next" => facts.next_job = value.parse().ok(),
                "lacking" => {
                    let names = value.split(',').filter(|name| !name.is_empty());
                    facts.lacking = names.map(str::to_owned).collect();
                }
                "conf" => facts.conf = Some(value.to_owned()),
                "private" => facts.is_private = Some(value != "0"),
                "card" => facts.card = value.parse().ok(),
                "systemd" => facts.has_systemd = true,
                "modules" => facts
                    .modules
                    .extend(System::ALL.into_iter().filter(|system| system.folder() == value)),
                "helper" => facts.has_helper = true,
                "cgroup" => facts.cgroup = value.parse().ok(),
                "memory" => facts.memory_mib = value.parse::<u64>().unwrap_or(0) >> 10,
                "runs" => facts.running.push(value.to_owned()),
                "processors" => facts.processors = processors(value).unwrap_or([1; 4]),
                "end" => is_whole = true,
                _ => {}
            }
        }
        is_whole.then_some(facts)
    }

    /// The release of Slurm that a package has or would bring, such as 22.05.
    pub(crate) fn release_of(&self, package: &str) -> Option<&str> {
        let version = &self.packages.get(package)?.version;
        let ends = version.match_indices('.').map(|(at, _)| at);
        Some(ends.take(2).last().map_or(version.as_str(), |at| &version[..at]))
    }
}

/// What `slurmd -C` counts.
fn processors(said: &str) -> Option<[usize; 4]> {
    let value = |key: &str| {
        let word =
            said.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
        word?.parse::<usize>().ok().filter(|count| *count > 0)
    };
    let boards = value("Boards").unwrap_or(1);
    Some([
        value("CPUs")?,
        boards * value("SocketsPerBoard")?,
        value("CoresPerSocket")?,
        value("ThreadsPerCore")?,
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "debian yes\nhas munge 0.5.15-2+deb12u1\nhas slurmd 22.05.8-4+deb12u3\n\
                        offers slurm-client 22.05.8-4+deb12u3\noffers slurmctld (none)\nkey 00ff\nmemory 16301552\n\
                        runs munged\nkept yes\nnext 12\nlacking ann,bob\nprocessors NodeName=pc1 CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=4 \
                        ThreadsPerCore=2 RealMemory=15919\nend yes\n";

    #[test]
    fn facts_are_what_the_host_said() {
        let facts = Facts::parse(SAID).unwrap();
        assert_eq!((facts.memory_mib, facts.processors), (15_919, [8, 1, 4, 2]));
        assert_eq!(facts.release_of("slurmd"), Some("22.05"));
        assert!(facts.packages["slurmd"].is_installed);
        assert!(!facts.packages["slurm-client"].is_installed);
        assert_eq!(facts.release_of("slurmctld"), None, "nothing to install");
        assert_eq!((facts.key.as_deref(), facts.conf), (Some("00ff"), None));
        assert_eq!((facts.has_kept, facts.next_job), (true, Some(12)));
        assert_eq!(facts.lacking, ["ann", "bob"]);
        assert_eq!((facts.cgroup, facts.running), (None, vec!["munged".to_owned()]));
    }

    #[test]
    fn half_an_answer_is_none() {
        assert_eq!(Facts::parse(&SAID.replace("end yes\n", "")), None);
        assert_eq!(processors("NodeName=pc1 CPUs=0"), None);
        assert_eq!(processors("CPUs=99999999999999999999999"), None);
    }
}
