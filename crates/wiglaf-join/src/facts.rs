//! What a look at a host tells: a script of sh that changes nothing, and what its answers mean.

use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use wiglaf_base::error::{Error, Result};
use wiglaf_base::network::Cidr;
use wiglaf_base::shell::quoted;

use crate::manifest::{BATCH, Manifest, ROOTS, USERS};
use crate::remote::Remote;

/// Prints a line for each fact: its name, a space, its value.
const LOOK: &str = r#"
PATH="$PATH:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
say() { printf '%s %s\n' "$1" "$2"; }
one() { tr -d '\n' < "$1" 2>/dev/null; }
say system "$(uname -s)"
say arch "$(uname -m)"
say machine "$(uname -n)"
say release "$(. /etc/os-release 2>/dev/null; printf %s "$PRETTY_NAME")"
say glibc "$(getconf GNU_LIBC_VERSION 2>/dev/null)"
say uid "$(id -u)"
say user "$(id -un)"
say home "$HOME"
[ -e "$HOME/$probe" ] && say shared yes
say clock "$(date +%s)"
if [ -d /run/systemd/system ]; then
    say systemd yes
    systemctl is-enabled --quiet wiglaf-helper.socket 2>/dev/null && say helper yes
fi
command -v apt-get >/dev/null && say apt yes
if [ "$(id -u)" = 0 ]; then say sudo root
elif command -v sudo >/dev/null && sudo -n true >/dev/null 2>&1; then say sudo yes; fi
ip -o -4 addr show 2>/dev/null | while read -r number name family address rest; do say address "$address"; done
for key in /etc/ssh/ssh_host_*_key.pub; do [ -r "$key" ] && say hostkey "$(cut -d' ' -f1,2 "$key")"; done
grep -qs '^ENABLED=yes' /etc/ufw/ufw.conf && say firewall ufw
for unit in firewalld nftables; do
    systemctl is-active --quiet "$unit" 2>/dev/null && say firewall "$unit"
done
say which "$(PATH="$PATH:$HOME/.local/bin"; command -v wiglaf)"
[ -r "$HOME/.local/share/wiglaf/manifest.json" ] && say manifest "$(one "$HOME/.local/share/wiglaf/manifest.json")"
[ -r /var/lib/wiglaf/manifest.json ] && say rootmanifest "$(one /var/lib/wiglaf/manifest.json)"
[ -r /var/lib/wiglaf/batch/manifest.json ] && say batchmanifest "$(one /var/lib/wiglaf/batch/manifest.json)"
[ -e /var/lib/wiglaf/monitor.json ] && say watched yes
file="$HOME/.config/wiglaf/cluster.toml"
[ -f "$file" ] && say clusterfile "$(sha256sum < "$file" | cut -c1-64)"
if [ -f /etc/wiglaf/helper.toml ]; then
    say policy yes
    grep -Eqs "everybody *= *true|\"$(id -un)\"|[^0-9]$(id -u)[^0-9]" /etc/wiglaf/helper.toml && say admitted yes
fi
at() {
    dir="$1"
    while [ ! -d "$dir" ]; do dir="${dir%/*}"; [ -n "$dir" ] || dir=/; done
    say "$2" "$(df -Pk "$dir" 2>/dev/null | tail -n 1 | tr -s ' ' | cut -d' ' -f4)"
}
at "$prefix" free
for file in bin/wiglaf lib/wiglaf/libwiglaf-fi.so; do
    [ -f "$prefix/$file" ] && say sum "$(sha256sum < "$prefix/$file" | cut -c1-64) $file"
done
[ -x "$prefix/bin/wiglaf" ] && say version "$("$prefix/bin/wiglaf" --version 2>/dev/null)"
say end yes
"#;

/// What a user may become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Privilege {
    #[default]
    None,
    Sudo,
    Root,
}

/// What a host said of itself.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    pub(crate) system: String,
    pub(crate) arch: String,
    pub(crate) machine: String,
    pub(crate) release: String,
    pub(crate) glibc: Option<(u32, u32)>,
    pub(crate) uid: u32,
    pub(crate) user: String,
    pub(crate) home: PathBuf,
    /// Whether the home is this host's, too.
    pub(crate) shares_home: bool,
    /// Seconds that its clock is ahead of this host's.
    pub(crate) clock_ahead_s: i64,
    pub(crate) has_systemd: bool,
    /// Whether systemd starts wiglaf-helper there.
    pub(crate) has_helper: bool,
    /// Whether Debian's packages can be installed there.
    pub(crate) has_apt: bool,
    pub(crate) privilege: Privilege,
    pub(crate) addresses: Vec<Ipv4Addr>,
    pub(crate) host_keys: Vec<String>,
    pub(crate) firewalls: Vec<String>,
    pub(crate) which: Option<PathBuf>,
    pub(crate) manifest: Option<Manifest>,
    pub(crate) root_manifest: Option<Manifest>,
    /// What batch jobs took there.
    pub(crate) batch_manifest: Option<Manifest>,
    /// Whether watching was set up there.
    pub(crate) is_watched: bool,
    pub(crate) cluster_file: Option<String>,
    pub(crate) has_policy: bool,
    pub(crate) is_admitted: bool,
    pub(crate) free_kib: Option<u64>,
    /// Digests of what is installed, by path below the prefix.
    pub(crate) sums: Vec<(String, String)>,
    pub(crate) version: Option<String>,
}

impl Facts {
    /// Looks at a host where Wiglaf would be below `prefix`, and perhaps a file `probe` in the home.
    pub(crate) fn look(remote: &Remote, prefix: &Path, probe: &str) -> Result<Self> {
        let prefix = quoted(&prefix.display().to_string());
        let script = format!("prefix={prefix}\nprobe={}\n{LOOK}", quoted(probe));
        let now = || {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
            i64::try_from(now).unwrap_or(i64::MAX)
        };
        let asked = now();
        let said = remote.run(&script, |_| Ok(()))?;
        Self::parse(&said, asked..=now())
            .map_err(|error| Error::new(format!("{}: {error}", remote.name)))
    }

    /// Whether its user can have systemd start the helper there, which does not yet; and nobody has disabled it since
    /// an earlier `join` did so.
    pub(crate) fn may_get_helper(&self) -> bool {
        let was_given = self.root_manifest.as_ref().is_some_and(|manifest| manifest.has_units);
        let may = self.has_systemd && self.privilege != Privilege::None;
        may && !self.has_helper && !was_given
    }

    /// Reads what the script printed, which ran within this time of this host's clock.
    fn parse(said: &str, ran: RangeInclusive<i64>) -> Result<Self> {
        let mut facts = Self::default();
        let mut is_whole = false;
        for line in said.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim();
            let text = || value.to_owned();
            match name {
                "system" => facts.system = text(),
                "arch" => facts.arch = text(),
                "machine" => facts.machine = text(),
                "release" => facts.release = text(),
                "glibc" => facts.glibc = version(value.trim_start_matches("glibc ")),
                "uid" => facts.uid = value.parse().unwrap_or(u32::MAX),
                "user" => facts.user = text(),
                "home" => facts.home = PathBuf::from(value),
                "shared" => facts.shares_home = true,
                "clock" => {
                    // A login to a host that is busy takes as long as clocks may be apart.
                    let ahead = |clock: i64| match clock > *ran.end() {
                        true => clock.saturating_sub(*ran.end()),
                        false => clock.saturating_sub(*ran.start()).min(0),
                    };
                    facts.clock_ahead_s = value.parse().map_or(0, ahead);
                }
                "watched" => facts.is_watched = true,
                "systemd" => facts.has_systemd = true,
                "helper" => facts.has_helper = true,
                "apt" => facts.has_apt = true,
                "sudo" if value == "root" => facts.privilege = Privilege::Root,
                "sudo" => facts.privilege = Privilege::Sudo,
                "address" => {
                    let address = value.split('/').next();
                    let address: Option<Ipv4Addr> = address.and_then(|text| text.parse().ok());
                    facts.addresses.extend(address);
                }
                "hostkey" if value.split(' ').count() == 2 => facts.host_keys.push(text()),
                "firewall" => facts.firewalls.push(text()),
                "which" => facts.which = (!value.is_empty()).then(|| PathBuf::from(value)),
                "manifest" => facts.manifest = Some(Manifest::parse(value, Path::new(USERS))?),
                "rootmanifest" => {
                    facts.root_manifest = Some(Manifest::parse(value, Path::new(ROOTS))?);
                }
                "batchmanifest" => {
                    facts.batch_manifest = Some(Manifest::parse(value, Path::new(BATCH))?);
                }
                "clusterfile" => facts.cluster_file = Some(text()),
                "policy" => facts.has_policy = true,
                "admitted" => facts.is_admitted = true,
                "free" => facts.free_kib = value.parse().ok(),
                "sum" => {
                    let sum = value.split_once(' ');
                    facts.sums.extend(sum.map(|(sum, file)| (file.to_owned(), sum.to_owned())));
                }
                "version" => facts.version = value.split(' ').nth(1).map(str::to_owned),
                "end" => is_whole = true,
                _ => {}
            }
        }
        match is_whole && facts.home.is_absolute() && facts.uid != u32::MAX {
            true => Ok(facts),
            false => Err(Error::new("it does not say what it is; is its `sh` a POSIX shell?")),
        }
    }

    /// Its address in that network.
    pub(crate) fn address_in(&self, network: Cidr) -> Option<Ipv4Addr> {
        self.addresses.iter().copied().find(|address| network.contains(*address))
    }

    /// Whether this build, which was made for `arch` and takes that glibc, runs there.
    pub(crate) fn may_run(&self, arch: &str, glibc: Option<(u32, u32)>) -> Result<()> {
        if self.system != "Linux" {
            return Err(Error::new(format!("it runs {}, and Wiglaf takes Linux", self.system)));
        }
        if self.arch != arch {
            return Err(Error::new(format!(
                "it is {}, and this host's Wiglaf is for {arch}; leave it out, as one job cannot span both",
                self.arch
            )));
        }
        let Some(needed) = glibc else { return Ok(()) };
        match self.glibc {
            Some(has) if has >= needed => Ok(()),
            Some((major, minor)) => Err(Error::new(format!(
                "its glibc is {major}.{minor} ({}), and this build of Wiglaf takes {}.{}; build it on that \
                 host, the one with the oldest system, and join from there",
                self.release, needed.0, needed.1
            ))),
            None => Err(Error::new(format!(
                "it has no glibc ({}), and this build of Wiglaf takes {}.{}; install Debian there",
                self.release, needed.0, needed.1
            ))),
        }
    }
}

/// A version of two numbers.
fn version(text: &str) -> Option<(u32, u32)> {
    let (major, minor) = text.trim().split_once('.')?;
    let minor = minor.split('.').next()?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// The glibc that a program takes: the highest version among its symbols'.
pub(crate) fn glibc_of(program: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let at = |(start, window): (usize, &[u8])| (window == MARK).then_some(start + MARK.len());
    let starts = program.windows(MARK.len()).enumerate().filter_map(at);
    let versions = starts.filter_map(|start| {
        let text = &program[start..program.len().min(start + 12)];
        let end = text.iter().position(|b| !b.is_ascii_digit() && *b != b'.')?;
        version(std::str::from_utf8(&text[..end]).ok()?)
    });
    versions.max()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SAID: &str = "system Linux\narch x86_64\nmachine pc2\nrelease Debian GNU/Linux 12 (bookworm)\n\
                        glibc glibc 2.36\nuid 1001\nuser ann\nhome /home/ann\nclock 1030\nsudo yes\n\
                        address 192.168.77.2/24\naddress 10.9.0.2/24\nhostkey ssh-ed25519 AAAA\n\
                        hostkey \nfree 1000\nversion wiglaf 0.1.0\nend yes\n";

    #[test]
    fn facts_are_what_the_host_said() {
        let facts = Facts::parse(SAID, 995..=1000).unwrap();
        assert_eq!((facts.glibc, facts.uid, facts.clock_ahead_s), (Some((2, 36)), 1001, 30));
        for (ran, ahead) in
            [(1000..=1030, 0), (1030..=1090, 0), (1025..=1029, 1), (1031..=1120, -1)]
        {
            assert_eq!(Facts::parse(SAID, ran.clone()).unwrap().clock_ahead_s, ahead, "{ran:?}");
        }
        assert_eq!(facts.privilege, Privilege::Sudo);
        let data = "192.168.77.0/24".parse().unwrap();
        assert_eq!(facts.address_in(data), Some(Ipv4Addr::new(192, 168, 77, 2)));
        assert_eq!(facts.host_keys, ["ssh-ed25519 AAAA"]);
        assert_eq!(facts.version.as_deref(), Some("0.1.0"));
        assert_eq!(facts.may_run("x86_64", Some((2, 36))), Ok(()));
    }

    #[test]
    fn build_that_would_not_run_there_is_refused_in_a_sentence() {
        let facts = |from, to| Facts::parse(&SAID.replace(from, to), 0..=0).unwrap();
        for (facts, part) in [
            (facts("x86_64", "aarch64"), "it is aarch64"),
            (facts("glibc 2.36", "glibc 2.31"), "its glibc is 2.31 (Debian"),
            (facts("glibc glibc 2.36", "glibc "), "it has no glibc"),
            (facts("Linux\n", "FreeBSD\n"), "it runs FreeBSD"),
        ] {
            let error = facts.may_run("x86_64", Some((2, 34))).unwrap_err().to_string();
            assert!(error.contains(part), "{error}");
        }
        assert!(Facts::parse(&SAID.replace("end yes\n", ""), 0..=0).is_err());
    }

    #[test]
    fn glibc_is_the_highest_that_a_symbol_takes() {
        let program = b"\0GLIBC_2.2.5\0x\0GLIBC_2.34\0GLIBC_PRIVATE\0GLIBC_2.9\0GLIBC_";
        assert_eq!(glibc_of(program), Some((2, 34)));
        assert_eq!(glibc_of(b"static"), None);
    }

    proptest! {
        #[test]
        fn any_text_is_an_answer_and_not_a_panic(text in "(?s).{0,200}") {
            let _ = Facts::parse(&format!("{text}\n{SAID}"), i64::MIN..=i64::MIN);
            let _ = glibc_of(text.as_bytes());
        }
    }
}
