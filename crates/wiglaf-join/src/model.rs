//! What of a configured host an image of others gets: the packages that somebody has installed there, in their versions,
//! and what the administrator has changed or added to files; without what tells that host from others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use serde::Serialize;
use wiglaf_base::error::{Error, Result};
use wiglaf_base::machine;
use wiglaf_base::shell::quoted;
use wiglaf_cluster::hosts::Hosts;
use wiglaf_node::ssh::Target;

use crate::listing::{
    self, At, Has, IDENTITY, LISTING_LEN_MAX, NEVER, OWN_PACKAGES, chosen, is_below, is_common,
};
use crate::names;
use crate::remote::{Remote, Shell};

/// What is looked at besides /etc: the administrator's own programs, and keys of archives.
const FOLDERS: [&str; 2] = ["/usr/local", "/usr/share/keyrings"];
/// Longest contents of files together, in bytes.
const CONTENTS_LEN_MAX: u64 = 512 << 20;
/// What packages' programs make from other files that an image gets, or for one machine.
const GENERATED: [&str; 15] = [
    "/etc/alternatives",
    "/etc/init.d/.depend.boot",
    "/etc/init.d/.depend.start",
    "/etc/init.d/.depend.stop",
    "/etc/ld.so.cache",
    "/etc/rc0.d",
    "/etc/rc1.d",
    "/etc/rc2.d",
    "/etc/rc3.d",
    "/etc/rc4.d",
    "/etc/rc5.d",
    "/etc/rc6.d",
    "/etc/rcS.d",
    "/etc/ssl/certs",
    "/usr/local/share/mime",
];
/// Users' and daemons' own below folders that --path may name: homes, logs, leases, mails, secrets.
const PRIVATE: [&str; 15] = [
    "/etc/security/opasswd",
    "/home",
    "/root",
    "/tmp",
    "/var/backups",
    "/var/cache",
    "/var/lib/NetworkManager",
    "/var/lib/dbus",
    "/var/lib/dhcp",
    "/var/lib/munge",
    "/var/lib/systemd",
    "/var/log",
    "/var/mail",
    "/var/spool",
    "/var/tmp",
];

/// Besides the listing, tab by tab: the release, what apt offers, conffiles, files that packages have brought, and what
/// may be no other host's.
const LOOK: &str = r#"
. /etc/os-release
printf 'release\t%s\t%s\n' "$ID" "$VERSION_ID"
printf 'arch\t%s\n' "$(dpkg --print-architecture)"
own=$(uname -n); own=${own%%.*}
printf 'host\t%s\n' "$own"
printf 'size\t%s\n' "$(dpkg-query -W -f '${Installed-Size}\n' | awk '{ sum += $1 } END { print sum + 0 }')"
dpkg-query -W -f '${db:Status-Abbrev} ${Package}\n' | sed -n 's/^.i  *//p' | sort -u | xargs -r apt-cache madison 2>/dev/null |
    awk -F ' *[|] *' '/ Packages$/ { sub(/^ */, "", $1); print "offer\t" $1 "\t" $2 }'
confs=$(dpkg-query -W -f '${Conffiles}\n' | sed -n 's/^ \(\/.*\) \([0-9a-f]\{32\}\)\( .*\)\{0,1\}$/\2  \1/p'
    cat /var/lib/ucf/hashfile 2>/dev/null)
printf '%s\n' "$confs" | sed -n 's/^[0-9a-f]\{32\}  \//conf\t&/p'
printf '%s\n' "$confs" | sed -n 's/^[0-9a-f]\{32\}  //p' | tr '\n' '\0' | xargs -0 -r md5sum 2>/dev/null | sed 's/^/md5\t/'
for at in "$@"; do
    cat /var/lib/dpkg/info/*.list | awk -v at="$at/" 'index($0, at) == 1 { print "of\t" $0 }' | sort -u
    find "$at" -xdev -type f -size -64k -print0 2>/dev/null |
        xargs -0 -r grep -lIE -e '-----BEGIN [A-Z0-9 ]*PRIVATE KEY( BLOCK)?-----' 2>/dev/null | sed 's/^/private\t/'
    find "$at" -xdev -type f -size -64k -print0 2>/dev/null |
        xargs -0 -r grep -lIwF -e "$own" 2>/dev/null | sed 's/^/named\t/'
done
systemctl --root=/ list-unit-files --no-legend --no-pager --state=disabled 2>/dev/null | awk '{ print "disabled\t" $1 }'
printf 'whole\t\n'
"#;

/// What is asked for.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The configured host: one of the cluster file, this one by its name, or another that ssh knows.
    pub from: String,
    /// Whose ssh reaches it, where that is not this process's user.
    pub caller: Option<String>,
    /// Further folders and files than those below /etc and /usr/local. A file that is named itself is taken whatever it is.
    pub paths: Vec<PathBuf>,
    /// Files, and folders with what is below them, that are left out.
    pub excluded: Vec<PathBuf>,
}

/// A package that somebody has installed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Package {
    /// Its name.
    pub name: String,
    /// The version there.
    pub version: String,
    /// Whether apt there offers that version; else it gets the one that is offered.
    pub is_offered: bool,
}

/// Why a file is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A package's configuration, which somebody has changed.
    Changed,
    /// It is no package's.
    Added,
}

/// A file or link that is taken.
#[derive(Debug, Clone, Serialize)]
pub struct Taken {
    /// Where.
    pub path: String,
    /// Why.
    pub kind: Kind,
    /// Where a link leads.
    pub target: Option<String>,
    /// A file's mode.
    pub mode: u32,
    /// Its owner and group, by name.
    pub owner: String,
    /// Its length in bytes.
    pub len: u64,
    /// The digest of its content.
    #[serde(skip)]
    pub digest: String,
}

/// What is not taken.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// A package, a file, or a folder with what is below it.
    pub what: String,
    /// Why.
    pub why: String,
}

/// What an image gets of a host.
#[derive(Debug, Default, Serialize)]
pub struct Model {
    /// The host.
    pub name: String,
    /// Debian's release there, such as 12.
    pub release: String,
    /// What somebody has installed.
    pub packages: Vec<Package>,
    /// Versions of all packages there that apt offers, also of those that these need.
    #[serde(skip)]
    pub versions: BTreeMap<String, String>,
    /// Files and links.
    pub files: Vec<Taken>,
    /// Packages' configuration that somebody has removed.
    pub removed: Vec<String>,
    /// Units of systemd that do not start by themselves there.
    pub disabled: Vec<String>,
    /// What is left out, and why.
    pub left_out: Vec<LeftOut>,
    /// What else is to be known.
    pub notes: Vec<String>,
    /// What all packages take on its disk, in bytes.
    pub installed_bytes: u64,
    /// The modes and owners of folders.
    #[serde(skip)]
    pub folders: BTreeMap<String, (u32, String)>,
    #[serde(skip)]
    shell: Option<Shell>,
}

/// What the second script says.
#[derive(Debug, Default, PartialEq, Eq)]
struct More {
    release: Option<(String, String)>,
    arch: String,
    host: String,
    size_kib: u64,
    offers: BTreeSet<(String, String)>,
    confs: BTreeMap<String, Vec<String>>,
    sums: BTreeMap<String, String>,
    of_packages: BTreeSet<String>,
    private: BTreeSet<String>,
    named: BTreeSet<String>,
    disabled: Vec<String>,
}

impl More {
    fn parse(said: &str) -> Option<Self> {
        let mut more = Self::default();
        let mut is_whole = false;
        for line in said.lines() {
            let (what, rest) = line.split_once('\t')?;
            match what {
                "release" => {
                    more.release = rest.split_once('\t').map(|(a, b)| (a.to_owned(), b.to_owned()));
                }
                "arch" => rest.clone_into(&mut more.arch),
                "host" => rest.clone_into(&mut more.host),
                "size" => more.size_kib = rest.parse().ok()?,
                "offer" => {
                    let (name, version) = rest.split_once('\t')?;
                    more.offers.insert((name.to_owned(), version.to_owned()));
                }
                "conf" => {
                    let (sum, path) = rest.split_once("  ")?;
                    more.confs.entry(path.to_owned()).or_default().push(sum.to_owned());
                }
                "md5" => {
                    // A name with a backslash is written otherwise, and counts as changed.
                    if let Some((sum, path)) = rest.split_once("  ") {
                        more.sums.insert(path.to_owned(), sum.to_owned());
                    }
                }
                "of" => drop(more.of_packages.insert(rest.to_owned())),
                "private" => drop(more.private.insert(rest.to_owned())),
                "named" => drop(more.named.insert(rest.to_owned())),
                "disabled" => more.disabled.push(rest.to_owned()),
                "whole" => is_whole = true,
                _ => {}
            }
        }
        is_whole.then_some(more)
    }
}

/// Looks at a host; changes nothing.
///
/// # Errors
/// When it cannot be looked at, or is none that images are made of.
pub fn look(hosts: Option<&Hosts>, options: &Options) -> Result<Model> {
    let mut paths = chosen(&options.paths)?;
    paths.extend(FOLDERS.map(str::to_owned));
    let remote = remote(hosts, &options.from)?;
    let caller = options.caller.clone().filter(|_| !remote.target.is_here);
    let shell = Shell::open(remote, caller)?;
    let has = Has::look(&shell, &paths)?;
    let words: Vec<String> = paths.iter().map(|path| quoted(path)).collect();
    let script = format!("LC_ALL=C; export LC_ALL\nset -- {}\n{LOOK}", words.join(" "));
    let said = shell.run(&script, LISTING_LEN_MAX, b"")?;
    let more = More::parse(&String::from_utf8_lossy(&said))
        .ok_or_else(|| Error::new(format!("{}: it is no Debian", shell.name())))?;
    if let Some(path) = options.paths.iter().find(|path| {
        path.to_str().is_none_or(|path| !has.at.contains_key(path.trim_end_matches('/')))
    }) {
        return Err(Error::new(format!(
            "{} has no {}; name what it has with --path",
            shell.name(),
            path.display()
        )));
    }
    let excluded: Vec<String> = options.excluded.iter().map(|p| p.display().to_string()).collect();
    model(shell, &has, more, &paths, &excluded)
}

/// How a host is reached.
fn remote(hosts: Option<&Hosts>, name: &str) -> Result<Remote> {
    let known = hosts.and_then(|hosts| hosts.nodes.iter().find(|spec| spec.name == name));
    if let Some(spec) = known {
        return Ok(Remote { name: name.to_owned(), target: spec.target.clone() });
    }
    let own = machine::name();
    let is_here =
        [own.as_str(), own.split('.').next().unwrap_or_default(), "localhost"].contains(&name);
    let parsed = names::parse(&[name.to_owned()])?;
    let [named] = &parsed[..] else {
        return Err(Error::new(format!("`{name}` is not one host; name one with --from")));
    };
    let target = Target {
        host: named.host.clone(),
        user: named.user.clone(),
        exe: None,
        is_here,
        is_watched: false,
    };
    Ok(Remote { name: named.host.clone(), target })
}

fn model(
    shell: Shell,
    has: &Has,
    more: More,
    named: &[String],
    excluded: &[String],
) -> Result<Model> {
    let name = shell.name().to_owned();
    let release = more.release.as_ref().filter(|(id, _)| id == "debian");
    let release = release.map(|(_, version)| version.clone()).ok_or_else(|| {
        Error::new(format!("{name} has no Debian, and images are Debian's; choose another host"))
    })?;
    if more.arch != "amd64" {
        return Err(Error::new(format!("{name} is {}, and images are for amd64", more.arch)));
    }
    let mut left_out: BTreeSet<LeftOut> = BTreeSet::new();
    let mut leave = |what: &str, why: &str| {
        left_out.insert(LeftOut { what: what.to_owned(), why: why.to_owned() });
    };
    let mut packages = Vec::new();
    let mut versions = BTreeMap::new();
    for (package, version) in &has.packages {
        let is_offered = more.offers.contains(&(package.clone(), version.clone()));
        let is_kernel = ["linux-image-", "linux-headers-"].iter().any(|start| {
            package.strip_prefix(start).is_some_and(|r| r.starts_with(|c: char| c.is_ascii_digit()))
        });
        let why = match () {
            () if is_kernel => Some("each node gets the newest kernel"),
            () if has.own_packages.contains(package) => Some("Wiglaf has installed it there"),
            () if OWN_PACKAGES.iter().any(|own| package.starts_with(own)) => {
                Some("it depends on the machine, or comes with this Wiglaf")
            }
            () if package.contains(':') => Some("it is of another architecture"),
            () if !more.offers.iter().any(|(name, _)| name == package) => {
                Some("no archive that is known there offers it")
            }
            () => None,
        };
        let is_manual = !has.autos.contains(package);
        match why {
            Some(why) if is_manual => leave(package, why),
            Some(_) => {}
            None => {
                if is_offered {
                    versions.insert(package.clone(), version.clone());
                }
                if is_manual {
                    let (name, version) = (package.clone(), version.clone());
                    packages.push(Package { name, version, is_offered });
                }
            }
        }
    }
    let mut files = Vec::new();
    for (path, at) in has.at.iter().filter(|(_, at)| at.kind != 'd') {
        let is_named = named.iter().any(|one| one == path);
        let kind = match more.confs.get(path) {
            // A link in its place is somebody's.
            Some(sums) => match more.sums.get(path) {
                Some(sum) if at.kind == 'f' && sums.contains(sum) => continue,
                _ => Kind::Changed,
            },
            None if more.of_packages.contains(path) => continue,
            None => Kind::Added,
        };
        if let Some(one) = excluded.iter().find(|one| is_below(path, one)) {
            leave(one, "you have excluded it");
        } else if let Some((what, why)) = reason(path, has, named).filter(|_| !is_named) {
            leave(&what, why);
        } else if more.private.contains(path) && !is_named {
            leave(path, "it has a private key; --path with the file itself takes it");
        } else {
            files.push(taken(path, at, kind));
        }
    }
    let removed = more.confs.keys().filter(|path| {
        !has.at.contains_key(*path)
            && !more.sums.contains_key(*path)
            && named.iter().any(|folder| is_below(path, folder))
            && is_common(path, &[])
    });
    let removed: Vec<String> = removed.cloned().collect();
    let mut notes = Vec::new();
    let old: Vec<&Package> = packages.iter().filter(|package| !package.is_offered).collect();
    notes.extend(old.iter().map(|package| {
        format!(
            "{} {} is offered by no archive that {name} knows; the image gets the version that is",
            package.name, package.version
        )
    }));
    let naming = files.iter().filter(|file| more.named.contains(&file.path));
    notes.extend(naming.map(|file| {
        format!("{} names {}; if that is itself, leave it out with --exclude", file.path, more.host)
    }));
    let folders = has.at.iter().filter(|(_, at)| at.kind == 'd');
    let folders = folders.map(|(path, at)| (path.clone(), (at.mode, at.owner.clone()))).collect();
    Ok(Model {
        release,
        packages,
        versions,
        files,
        removed,
        disabled: more.disabled,
        left_out: left_out.into_iter().collect(),
        notes,
        installed_bytes: more.size_kib.saturating_mul(1024),
        folders,
        shell: Some(shell),
        name,
    })
}

fn taken(path: &str, at: &At, kind: Kind) -> Taken {
    let is_link = at.kind == 'l';
    Taken {
        path: path.to_owned(),
        kind,
        target: is_link.then(|| at.content.clone()),
        mode: at.mode,
        owner: at.owner.clone(),
        len: if is_link { 0 } else { at.len },
        digest: if is_link { String::new() } else { at.content.clone() },
    }
}

/// What a path is left out with, and why, if no other host may have it.
fn reason(path: &str, has: &Has, named: &[String]) -> Option<(String, &'static str)> {
    let among =
        |list: &[&str]| list.iter().find(|own| is_below(path, own)).map(|own| (*own).to_owned());
    if let Some(what) = among(&GENERATED) {
        return Some((what, "packages make it anew"));
    }
    if let Some(what) = among(&IDENTITY) {
        return Some((what, "it tells that host from others, or depends on it"));
    }
    // A home that was asked for is still a user's.
    if let Some(what) = among(&PRIVATE) {
        return Some((what, "it is a user's, a daemon's or a log"));
    }
    if has.own.contains(path) || is_wiglafs(path) {
        return Some((path.to_owned(), "it is Wiglaf's own: the image gets this build"));
    }
    if let Some(what) = among(&NEVER) {
        return Some((what, "it is no file of a disk, or a record of that host"));
    }
    (!is_common(path, named))
        .then(|| (path.to_owned(), "it tells that host from others, or depends on it"))
}

/// Whether `make install` has laid it down.
fn is_wiglafs(path: &str) -> bool {
    let below = path.strip_prefix("/usr/local/").unwrap_or_default();
    let own = ["wiglaf", "libwiglaf", "_wiglaf"];
    below.split('/').any(|part| own.iter().any(|own| part.starts_with(own)))
}

impl Taken {
    /// Whether it is a link by which systemd starts a unit of a package.
    fn is_start(&self) -> bool {
        let is_units =
            |target: &String| ["/lib/", "/usr/lib/"].iter().any(|lib| target.starts_with(lib));
        self.path.starts_with("/etc/systemd/system/") && self.target.as_ref().is_some_and(is_units)
    }
}

impl Model {
    /// The contents of its files, by digest.
    ///
    /// # Errors
    /// When they are too large together, or one was changed meanwhile.
    pub fn contents(&self) -> Result<BTreeMap<String, Vec<u8>>> {
        let wanted: BTreeMap<&str, (&str, u64)> = self
            .files
            .iter()
            .filter(|file| file.target.is_none())
            .map(|file| (&file.digest[..], (&file.path[..], file.len)))
            .collect();
        let len: u64 = wanted.values().map(|(_, len)| len).sum();
        if len > CONTENTS_LEN_MAX {
            let mut largest: Vec<&Taken> = self.files.iter().collect();
            largest.sort_by_key(|file| std::cmp::Reverse(file.len));
            return Err(Error::new(format!(
                "{} MB of files would go into the image, and {} MB may; leave large ones out with --exclude, such as {}",
                len / 1_000_000,
                CONTENTS_LEN_MAX / 1_000_000,
                largest.first().map_or("/usr/local", |file| &file.path)
            )));
        }
        let wanted: Vec<_> =
            wanted.into_iter().map(|(sum, (path, len))| (sum, path, len)).collect();
        let none = || Ok(BTreeMap::new());
        self.shell.as_ref().map_or_else(none, |shell| listing::contents(shell, &wanted))
    }

    /// A line for each thing that is taken or left out.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let mut lines = vec![format!(
            "as {}: {} packages that somebody has installed, {} files",
            self.name,
            self.packages.len(),
            self.files.len()
        )];
        let version = |one: &Package| match one.is_offered {
            true => one.version.clone(),
            false => format!("(there {})", one.version),
        };
        lines.extend(
            self.packages.iter().map(|one| format!("take package {} {}", one.name, version(one))),
        );
        let (starts, files): (Vec<&Taken>, Vec<&Taken>) =
            self.files.iter().partition(|file| file.is_start());
        if !starts.is_empty() {
            lines.push(format!("take {} links of units that start by themselves", starts.len()));
        }
        lines.extend(files.iter().map(|file| match file.kind {
            Kind::Changed => format!("take {}, a package's, changed there", file.path),
            Kind::Added => format!("take {}", file.path),
        }));
        lines.extend(
            self.removed.iter().map(|path| format!("remove {path}, a package's, as there")),
        );
        lines
            .extend(self.left_out.iter().map(|one| format!("leave out {}: {}", one.what, one.why)));
        lines.extend(self.notes.iter().map(|note| format!("note: {note}")));
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTED: &str = "package\tii \tnano\t7.2\npackage\tii \tlibx\t1\npackage\tii \town-tool\t3\n\
        package\tii \tgrub-pc\t2\npackage\tii \tlinux-image-6.1.0-1-amd64\t6\npackage\tii \tstale\t1\n\
        auto\tlibx\nat\td\t755\troot:root\t0\t\t/etc\nat\tf\t600\troot:root\t3\t\t/etc/nanorc\nsum\taa  /etc/nanorc\n\
        at\tf\t644\troot:root\t3\t\t/etc/same\nsum\tbb  /etc/same\nat\tf\t644\troot:root\t3\t\t/etc/hostname\n\
        sum\tcc  /etc/hostname\nat\tf\t600\troot:root\t3\t\t/etc/tls.pem\nsum\tdd  /etc/tls.pem\n\
        at\tl\t777\troot:root\t3\t../x\t/etc/link\nat\tf\t644\troot:root\t1\t\t/etc/big\nsum\tee  /etc/big\n\
        at\tf\t644\troot:root\t1\t\t/usr/local/lib/wiglaf/x.so\nsum\tff  /usr/local/lib/wiglaf/x.so\n\
        at\tf\t644\troot:root\t1\t\t/etc/ssh/ssh_host_rsa_key\nsum\t11  /etc/ssh/ssh_host_rsa_key\n\
        at\tf\t644\troot:root\t1\t\t/etc/shipped\nsum\t12  /etc/shipped\nend\t\n";
    const MORE: &str = "release\tdebian\t12\narch\tamd64\nhost\tpc1\nsize\t10\noffer\tnano\t7.2\noffer\tlibx\t1\n\
        offer\tstale\t2\nconf\t0123  /etc/nanorc\nconf\t4567  /etc/same\nconf\t89ab  /etc/gone\nmd5\t9999  /etc/nanorc\n\
        md5\t4567  /etc/same\nof\t/etc/shipped\nprivate\t/etc/tls.pem\nnamed\t/etc/nanorc\ndisabled\tx.service\nwhole\t\n";

    fn made(named: &[&str], excluded: &[&str]) -> Model {
        let remote = remote(None, "localhost").unwrap();
        let strings = |list: &[&str]| list.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        let (has, more) = (Has::parse(LISTED).unwrap(), More::parse(MORE).unwrap());
        let named = strings(&[&["/etc", "/usr/local"], named].concat());
        model(Shell::new(remote, false), &has, more, &named, &strings(excluded)).unwrap()
    }

    #[test]
    fn model_has_packages_changes_and_additions_and_no_identity() {
        let model = made(&[], &["/etc/big"]);
        let packages: Vec<_> =
            model.packages.iter().map(|one| (&one.name[..], one.is_offered)).collect();
        assert_eq!(packages, [("nano", true), ("stale", false)]);
        let versions: Vec<_> = model.versions.keys().map(String::as_str).collect();
        assert_eq!(versions, ["libx", "nano"]);
        let files: Vec<_> = model.files.iter().map(|file| (&file.path[..], file.kind)).collect();
        assert_eq!(files, [("/etc/link", Kind::Added), ("/etc/nanorc", Kind::Changed)]);
        assert_eq!(model.removed, ["/etc/gone"]);
        let left: Vec<_> = model.left_out.iter().map(|one| &one.what[..]).collect();
        let wanted = [
            "/etc/big",
            "/etc/hostname",
            "/etc/ssh/ssh_host_rsa_key",
            "/etc/tls.pem",
            "/usr/local/lib/wiglaf/x.so",
            "grub-pc",
            "linux-image-6.1.0-1-amd64",
            "own-tool",
        ];
        assert_eq!(left, wanted);
        assert_eq!(model.notes.len(), 2, "{:?}", model.notes);
        let named = made(&["/etc/tls.pem"], &[]);
        assert!(named.files.iter().any(|file| file.path == "/etc/tls.pem"));
    }

    #[test]
    fn answer_that_was_cut_off_is_none() {
        assert!(More::parse(MORE.strip_suffix("whole\t\n").unwrap()).is_none());
        assert!(More::parse("x\nwhole\t\n").is_none());
    }

    #[test]
    fn host_is_named_as_ssh_may_take_it() {
        assert!(remote(None, "localhost").unwrap().target.is_here);
        assert!(!remote(None, "ann@pc7").unwrap().target.is_here);
        assert!(remote(None, "pc[1-2]").is_err());
        assert!(remote(None, "-oProxyCommand=x").is_err());
    }
}
