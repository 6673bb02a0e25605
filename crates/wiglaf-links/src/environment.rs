//! The configuration that the environment asks for.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use rustix::process::geteuid;
use wiglaf_endpoint::{Config, JobKey, Lengths, LinkKind, Ports, WaitPolicy};
use wiglaf_endpoint::{EAGER_LEN_MAX, UNASKED_LEN_MAX};
use wiglaf_link_udp::{Interface, Network, interface};

/// How long a peer may be silent when the environment does not say: longer than
/// any pause of a debugger or a stopped process that should be survived.
const SILENCE_LIMIT: Duration = Duration::from_secs(600);

/// How long a machine may be silent when the environment does not say: a cable that is out for 5 s and the link's
/// negotiation after it pass, and a job on a machine without power ends within 10 s.
const HOST_LIMIT: Duration = Duration::from_secs(8);

/// More is in no file of a secret, in bytes.
const KEY_FILE_LEN_MAX: u64 = 128;

const LINKS: &str = "give auto, udp, packet, xdp, xdp-generic, xdp-native, xdp-zerocopy or shm";

/// What is wrong with a variable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VariableError {
    name: &'static str,
    value: String,
    reason: String,
}

impl std::fmt::Display for VariableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, value, reason } = self;
        write!(f, "environment variable {name} is {value:?}: {reason}")
    }
}

impl std::error::Error for VariableError {}

/// The configuration that the environment asks for:
///
/// | variable | value | default |
/// |---|---|---|
/// | `WIGLAF_LINK` | `auto`, `udp`, `packet`, `xdp` (also with `-generic`, `-native` or `-zerocopy`) or `shm` | `auto` |
/// | `WIGLAF_KEY` | 32 hexadecimal digits, or `@` and the path of a file with them | all zero |
/// | `WIGLAF_IP` | an IPv4 address of this machine | the first that is up |
/// | `WIGLAF_IF` | an interface of this machine, in place of `WIGLAF_IP` | |
/// | `WIGLAF_NET` | a network such as `192.168.77.0/24`, in which this machine has an address | |
/// | `WIGLAF_PORT` | a UDP port | any |
/// | `WIGLAF_PORTS` | a range of UDP ports, such as `47000-47999` | any |
/// | `WIGLAF_SILENCE_LIMIT` | such as `500ms`, `60s` or `5min` | `10min` |
/// | `WIGLAF_HOST_LIMIT` | a time of at least a second, or `off` | `8s` |
/// | `WIGLAF_FLOW_CONTROL` | `on` or `off` | `on` |
/// | `WIGLAF_ENCRYPT` | `on` or `off` | `off` |
/// | `WIGLAF_CMA` | `on` or `off` | `on` |
/// | `WIGLAF_STATS` | `on` or `off` | `on` |
/// | `WIGLAF_LATE_PEEKS` | `on` or `off` | `off` |
/// | `WIGLAF_WAIT` | `poll`, `adaptive` or `block` | `adaptive` |
/// | `WIGLAF_PROGRESS` | `caller` or `thread` | `caller` |
/// | `WIGLAF_EAGER_MAX` | a length in bytes such as `64K`, `256K` at most | `128K` |
/// | `WIGLAF_UNASKED_MAX` | the same | `256K` |
/// | `WIGLAF_OVERSUBSCRIBED` | `on` or `off` | `on` where the MPI's launcher counts more ranks here than cores |
///
/// # Errors
/// When a variable holds something that cannot be meant.
pub fn config_from_env() -> Result<Config, VariableError> {
    config_from(|name| std::env::var_os(name))
}

/// Reads the variables of [`config_from_env`] by `look_up`.
///
/// # Errors
/// When a variable holds something that cannot be meant.
pub fn config_from(look_up: impl Fn(&str) -> Option<OsString>) -> Result<Config, VariableError> {
    // An empty variable counts as none, as shells leave them behind.
    let value_of = |name: &'static str| match look_up(name).map(OsString::into_string) {
        None => Ok(None),
        Some(Ok(value)) => Ok(Some(value).filter(|value| !value.is_empty())),
        Some(Err(value)) => {
            let value = value.to_string_lossy().into_owned();
            Err(VariableError { name, value, reason: "it is not valid UTF-8".to_owned() })
        }
    };
    let read = Reader { value_of };
    let key = read.try_parse("WIGLAF_KEY", key)?;
    let encrypt = read.parse("WIGLAF_ENCRYPT", "give on or off", switch)?.unwrap_or(false);
    if encrypt && key.unwrap_or_default() == JobKey::default() {
        let reason = "everybody knows the all-zero key; set WIGLAF_KEY for all ranks".to_owned();
        return Err(VariableError { name: "WIGLAF_ENCRYPT", value: "on".to_owned(), reason });
    }
    let port = read.parse("WIGLAF_PORT", "give a port from 0 to 65535", |v| v.parse().ok())?;
    let advice = "give the first and the last of two or more ports, such as 47000-47999";
    let ports = read.parse("WIGLAF_PORTS", advice, Ports::named)?;
    if let (Some(port), Some(ports)) = (port, ports)
        && port != 0
        && !ports.has(port)
    {
        let reason = format!("it is not one of {ports}, as WIGLAF_PORTS says; unset one");
        return Err(VariableError { name: "WIGLAF_PORT", value: port.to_string(), reason });
    }
    Ok(Config {
        ip: address(&read)?,
        port: port.unwrap_or(0),
        ports,
        epoch: None,
        key: key.unwrap_or_default(),
        encrypt,
        link: read.parse("WIGLAF_LINK", LINKS, LinkKind::named)?.unwrap_or_default(),
        silence_limit: read
            .parse("WIGLAF_SILENCE_LIMIT", "give a time such as 500ms, 60s or 5min", duration)?
            .unwrap_or(SILENCE_LIMIT),
        host_limit: read
            .parse(
                "WIGLAF_HOST_LIMIT",
                "give a time such as 8s, of at least 1s, or off",
                host_limit,
            )?
            .unwrap_or(Some(HOST_LIMIT)),
        flow_control: read.parse("WIGLAF_FLOW_CONTROL", "give on or off", switch)?.unwrap_or(true),
        memory_access: read.parse("WIGLAF_CMA", "give on or off", switch)?.unwrap_or(true),
        publish: read.parse("WIGLAF_STATS", "give on or off", switch)?.unwrap_or(true),
        late_peeks: read.parse("WIGLAF_LATE_PEEKS", "give on or off", switch)?.unwrap_or(false),
        wait: read
            .parse("WIGLAF_WAIT", "give poll, adaptive or block", WaitPolicy::named)?
            .unwrap_or_default(),
        progress_thread: read
            .parse("WIGLAF_PROGRESS", "give caller or thread", |value| match value {
                "caller" => Some(false),
                "thread" => Some(true),
                _ => None,
            })?
            .unwrap_or(false),
        lengths: Lengths::new(
            read.parse("WIGLAF_EAGER_MAX", LENGTH, length)?.unwrap_or(EAGER_LEN_MAX as u64),
            read.parse("WIGLAF_UNASKED_MAX", LENGTH, length)?.unwrap_or(UNASKED_LEN_MAX),
        ),
        oversubscribed: read
            .parse("WIGLAF_OVERSUBSCRIBED", "give on or off", switch)?
            .unwrap_or_else(|| ranks_here(&look_up) > cores()),
    })
}

const LENGTH: &str = "give a length in bytes such as 65536 or 64K, 256K at most";

fn length(text: &str) -> Option<u64> {
    let (number, unit) = match text.strip_suffix(['k', 'K']) {
        Some(number) => (number, 1024),
        None => (text, 1),
    };
    number.parse::<u64>().ok()?.checked_mul(unit).filter(|len| *len <= UNASKED_LEN_MAX)
}

/// Where launchers say how many ranks of a job are on this host: mpirun of Open MPI, mpiexec of MPICH and Intel MPI.
const RANKS_HERE: [&str; 2] = ["OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"];

fn ranks_here(look_up: impl Fn(&str) -> Option<OsString>) -> usize {
    let said = RANKS_HERE.iter().find_map(|name| look_up(name)?.to_str()?.parse().ok());
    said.unwrap_or(1)
}

/// All cores of this host, not those that this process may use: a rank that its launcher has bound has its own. As
/// many as there can be where the kernel does not tell.
fn cores() -> usize {
    let online = std::fs::read_to_string("/sys/devices/system/cpu/online").ok();
    online.as_deref().and_then(count).unwrap_or(usize::MAX)
}

/// How many numbers a list such as `0-3,6` has.
fn count(list: &str) -> Option<usize> {
    let len = |range: &str| {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        Some(last.parse::<usize>().ok()?.checked_sub(first.parse().ok()?)? + 1)
    };
    list.trim().split(',').map(len).sum()
}

struct Reader<F> {
    value_of: F,
}

impl<F: Fn(&'static str) -> Result<Option<String>, VariableError>> Reader<F> {
    fn parse<T>(
        &self,
        name: &'static str,
        advice: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, VariableError> {
        self.try_parse(name, |value| parse(value).ok_or_else(|| advice.to_owned()))
    }

    fn try_parse<T>(
        &self,
        name: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, VariableError> {
        let Some(value) = (self.value_of)(name)? else { return Ok(None) };
        let parsed = parse(value.trim());
        parsed.map(Some).map_err(|reason| VariableError { name, value: shown(name, value), reason })
    }
}

/// A secret is not repeated in a message, not even a misspelt one.
fn shown(name: &str, value: String) -> String {
    let is_secret = name == "WIGLAF_KEY" && !value.trim().starts_with('@');
    if is_secret { format!("<{} characters>", value.chars().count()) } else { value }
}

/// The secret, or what the file has that it names: nothing but a plain file, which keeps nobody waiting.
fn key(value: &str) -> Result<JobKey, String> {
    let advice = || "give 32 hexadecimal digits, or @ and the path of a file with them".to_owned();
    let Some(path) = value.strip_prefix('@') else {
        return JobKey::from_hex(value).ok_or_else(advice);
    };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|_| advice())?;
    let file = File::from(file);
    let found = file.metadata().map_err(|_| advice())?;
    if !found.is_file() {
        return Err(advice());
    }
    // Of the open file: what stands under the name may be exchanged meanwhile.
    let (owner, user) = (found.uid(), geteuid().as_raw());
    if owner != user {
        return Err(format!(
            "that file belongs to user {owner}, who may know it, and this is user {user}; \
             keep the secret in a file of one's own"
        ));
    }
    let mode = found.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(format!("its mode {mode:04o} lets others read or change it: chmod 600 {path}"));
    }
    let mut text = String::new();
    file.take(KEY_FILE_LEN_MAX).read_to_string(&mut text).map_err(|_| advice())?;
    JobKey::from_hex(text.trim()).ok_or_else(advice)
}

/// The address that the variables choose; unspecified where none does.
fn address<F: Fn(&'static str) -> Result<Option<String>, VariableError>>(
    read: &Reader<F>,
) -> Result<Ipv4Addr, VariableError> {
    let ip =
        read.parse("WIGLAF_IP", "give an IPv4 address such as 10.0.0.1", |v| v.parse().ok())?;
    let advice = "give a network such as 192.168.77.0/24";
    let network = read.parse("WIGLAF_NET", advice, Network::named)?;
    let name = (read.value_of)("WIGLAF_IF")?;
    let chooser = if name.is_some() { "WIGLAF_IF" } else { "WIGLAF_NET" };
    let value = name.clone().or_else(|| network.map(|network| network.to_string()));
    let Some(value) = value else { return Ok(ip.unwrap_or(Ipv4Addr::UNSPECIFIED)) };
    let refuse = |reason| VariableError { name: chooser, value: value.clone(), reason };
    let all = interface::list()
        .map_err(|e| refuse(format!("the kernel does not list its interfaces: {e}")))?;
    chosen(&all, (ip, name.as_deref(), network)).map_err(refuse)
}

/// The address of one of those interfaces that is what is asked for in every respect, or why there is none.
fn chosen(
    all: &[Interface],
    (ip, name, network): (Option<Ipv4Addr>, Option<&str>, Option<Network>),
) -> Result<Ipv4Addr, String> {
    let named = || all.iter().filter(|i| name.is_none_or(|name| i.name == name));
    if named().next().is_none() {
        let mut names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
        names.dedup();
        return Err(format!(
            "no interface of that name has an IPv4 address; choose one of: {}",
            names.join(", ")
        ));
    }
    if let Some(ip) = ip {
        if !named().any(|i| i.ip == ip) && name.is_some() {
            return Err(format!("that interface does not hold {ip}, as WIGLAF_IP says; unset one"));
        }
        return match network.filter(|network| !network.holds(ip)) {
            None => Ok(ip),
            Some(network) => {
                Err(format!("{ip}, as WIGLAF_IP says, is not in {network}; unset one"))
            }
        };
    }
    let mut fitting = named().filter(|i| network.is_none_or(|network| network.holds(i.ip)));
    let (first, up) = (fitting.clone().next(), fitting.find(|i| i.is_up));
    match (up, first, network) {
        (Some(up), ..) => Ok(up.ip),
        // It was named, and says itself what is wrong when it is opened.
        (None, Some(first), None) => Ok(first.ip),
        (None, Some(first), Some(_)) => Err(format!(
            "{} has the address {} in it, but is down: bring it up",
            first.name, first.ip
        )),
        (None, None, _) => {
            let there = named().map(|i| format!("{} on {}", i.network(), i.name));
            Err(format!(
                "no interface has an address in that network; there are: {}",
                there.collect::<Vec<_>>().join(", ")
            ))
        }
    }
}

fn duration(value: &str) -> Option<Duration> {
    let digits = value.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = value.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let millis = match unit {
        "ms" => 1,
        "s" | "" => 1000,
        "m" | "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    number.checked_mul(millis).filter(|&total| total > 0).map(Duration::from_millis)
}

/// A machine has time for some questions.
fn host_limit(value: &str) -> Option<Option<Duration>> {
    if value == "off" {
        return Some(None);
    }
    duration(value).filter(|limit| *limit >= Duration::from_secs(1)).map(Some)
}

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn from(variables: &[(&str, &str)]) -> Result<Config, String> {
        config_from(|name| {
            variables.iter().find(|(n, _)| *n == name).map(|(_, value)| value.into())
        })
        .map_err(|error| error.to_string())
    }

    #[test]
    fn nothing_asked_for_means_the_defaults() {
        for variables in [&[][..], &[("WIGLAF_LINK", ""), ("WIGLAF_IP", "")]] {
            let config = from(variables).expect("nothing wrong");
            assert_eq!((config.link, config.wait), (LinkKind::Auto, WaitPolicy::Adaptive));
            assert_eq!((config.ip, config.port), (Ipv4Addr::UNSPECIFIED, 0));
            assert_eq!((config.key, config.silence_limit), (JobKey::default(), SILENCE_LIMIT));
            assert_eq!(config.host_limit, Some(HOST_LIMIT));
        }
    }

    #[test]
    fn everything_can_be_asked_for() {
        let config = from(&[
            ("WIGLAF_LINK", "packet"),
            ("WIGLAF_KEY", "000102030405060708090a0b0c0d0e0f"),
            ("WIGLAF_IP", "127.0.0.1"),
            ("WIGLAF_IF", "lo"),
            ("WIGLAF_PORT", "4000"),
            ("WIGLAF_SILENCE_LIMIT", "1500ms"),
            ("WIGLAF_HOST_LIMIT", "off"),
            ("WIGLAF_ENCRYPT", "on"),
            ("WIGLAF_WAIT", "block"),
            ("WIGLAF_EAGER_MAX", "64K"),
            ("WIGLAF_UNASKED_MAX", "100000"),
        ])
        .expect("nothing wrong");
        assert_eq!(config.wait, WaitPolicy::Block);
        assert_eq!(config.lengths, Lengths::new(65_536, 100_000));
        assert_eq!((config.link, config.port), (LinkKind::Packet, 4000));
        assert_eq!((config.key.0[15], config.encrypt), (15, true));
        assert_eq!(config.ip, Ipv4Addr::LOCALHOST);
        assert_eq!((config.silence_limit, config.host_limit), (Duration::from_millis(1500), None));
        assert_eq!(from(&[("WIGLAF_IF", "lo")]).expect("lo exists").ip, Ipv4Addr::LOCALHOST);
    }

    #[test]
    fn more_ranks_here_than_cores_share_them_unless_it_is_said_otherwise() {
        assert_eq!(
            (count("0-3,6\n"), count("0"), count("3-1"), count("")),
            (Some(5), Some(1), None, None)
        );
        for name in RANKS_HERE {
            for (ranks, said, shared) in [
                ("1", "", false),
                ("100000", "", true),
                ("100000", "off", false),
                ("1", "on", true),
            ] {
                let config = from(&[(name, ranks), ("WIGLAF_OVERSUBSCRIBED", said)]);
                assert_eq!(config.expect("nothing wrong").oversubscribed, shared, "{ranks} {said}");
            }
        }
    }

    #[test]
    fn times_have_units() {
        let seconds = |s| Some(Duration::from_secs(s));
        for (text, expected) in
            [("60s", seconds(60)), ("7", seconds(7)), ("5min", seconds(300)), ("2h", seconds(7200))]
        {
            assert_eq!(duration(text), expected, "{text}");
        }
        for text in ["", "s", "-1s", "0s", "1.5s", "1 s", "99999999999999999999s", "1d"] {
            assert_eq!(duration(text), None, "{text}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (name, value, message) in [
            (
                "WIGLAF_LINK",
                "tcp",
                r#"WIGLAF_LINK is "tcp": give auto, udp, packet, xdp, xdp-generic, xdp-native, xdp-zerocopy or shm"#,
            ),
            (
                "WIGLAF_ENCRYPT",
                "on",
                r#"WIGLAF_ENCRYPT is "on": everybody knows the all-zero key; set WIGLAF_KEY for all ranks"#,
            ),
            (
                "WIGLAF_EAGER_MAX",
                "257K",
                r#"WIGLAF_EAGER_MAX is "257K": give a length in bytes such as 65536 or 64K, 256K at most"#,
            ),
            ("WIGLAF_WAIT", "spin", r#"WIGLAF_WAIT is "spin": give poll, adaptive or block"#),
            ("WIGLAF_PORT", "65536", r#"WIGLAF_PORT is "65536": give a port from 0 to 65535"#),
            ("WIGLAF_IP", "::1", r#"WIGLAF_IP is "::1": give an IPv4 address such as 10.0.0.1"#),
            (
                "WIGLAF_KEY",
                "s3cret",
                r#"WIGLAF_KEY is "<6 characters>": give 32 hexadecimal digits, or @ and the path of a file with them"#,
            ),
            (
                "WIGLAF_KEY",
                "@/dev/null",
                r#"WIGLAF_KEY is "@/dev/null": give 32 hexadecimal digits, or @ and the path of a file with them"#,
            ),
            (
                "WIGLAF_SILENCE_LIMIT",
                "soon",
                r#"WIGLAF_SILENCE_LIMIT is "soon": give a time such as 500ms, 60s or 5min"#,
            ),
            (
                "WIGLAF_HOST_LIMIT",
                "999ms",
                r#"WIGLAF_HOST_LIMIT is "999ms": give a time such as 8s, of at least 1s, or off"#,
            ),
        ] {
            let error = from(&[(name, value)]).expect_err("a mistake");
            assert_eq!(error, format!("environment variable {message}"));
        }
        for (ports, port) in [("47000", "0"), ("47000-47999", "46999")] {
            let error = from(&[("WIGLAF_PORTS", ports), ("WIGLAF_PORT", port)]);
            let error = error.expect_err("a mistake");
            assert!(error.contains("47000") && error.contains("WIGLAF_PORTS"), "{error}");
        }
        let error = from(&[("WIGLAF_IF", "nosuch0")]).expect_err("no such interface");
        assert!(error.contains("nosuch0") && error.contains("choose one of: lo"), "{error}");
        let error =
            from(&[("WIGLAF_IF", "lo"), ("WIGLAF_IP", "192.0.2.1")]).expect_err("not there");
        assert!(error.contains("does not hold 192.0.2.1"), "{error}");
        let error = from(&[("WIGLAF_NET", "250.0.0.0/8")]).expect_err("not there");
        assert!(error.contains("in that network; there are: 127.0.0.0/8 on lo"), "{error}");
        let error = from(&[("WIGLAF_NET", "192.0.2.1")]).expect_err("no network");
        assert!(error.ends_with("give a network such as 192.168.77.0/24"), "{error}");
    }

    #[test]
    fn an_address_is_chosen_by_its_network_on_each_machine() {
        let on = |name: &str, ip: [u8; 4], is_up| Interface {
            name: name.to_owned(),
            index: 1,
            ip: ip.into(),
            netmask: Ipv4Addr::new(255, 255, 255, 0),
            mtu: 1500,
            mac: None,
            is_up,
            has_carrier: is_up,
            is_loopback: false,
        };
        let all = [
            on("eth0", [10, 9, 0, 3], true),
            on("eth1", [192, 168, 77, 3], true),
            on("eth1", [192, 168, 78, 3], true),
            on("eth2", [172, 16, 0, 3], false),
        ];
        let by = |ip: Option<[u8; 4]>, name, net: Option<&str>| {
            chosen(&all, (ip.map(Into::into), name, net.and_then(Network::named)))
        };
        assert_eq!(by(None, None, Some("192.168.77.0/24")), Ok(all[1].ip));
        assert_eq!(by(None, Some("eth1"), Some("192.168.78.0/24")), Ok(all[2].ip));
        assert_eq!(by(Some([10, 9, 0, 3]), None, Some("10.9.0.0/16")), Ok(all[0].ip));
        let down = by(None, None, Some("172.16.0.0/12")).expect_err("down");
        assert!(down.contains("eth2") && down.ends_with("is down: bring it up"), "{down}");
        let other = by(Some([10, 9, 0, 3]), None, Some("192.168.77.0/24")).expect_err("another");
        assert!(other.contains("10.9.0.3") && other.contains("192.168.77.0/24"), "{other}");
        let wrong = by(None, Some("eth0"), Some("192.168.77.0/24")).expect_err("not on that one");
        assert!(wrong.ends_with("there are: 10.9.0.0/24 on eth0"), "{wrong}");
    }

    #[test]
    fn a_secret_that_others_may_read_is_refused() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("key");
        std::fs::write(&path, "000102030405060708090a0b0c0d0e0f\n").expect("written");
        let value = format!("@{}", path.display());
        let key = || config_from(|name| (name == "WIGLAF_KEY").then(|| value.clone().into()));
        let mode = |mode| {
            std::fs::set_permissions(&path, Permissions::from_mode(mode)).expect("one's own file");
        };
        for looser in [0o644, 0o640, 0o604, 0o620] {
            mode(looser);
            let error = key().expect_err("not secret").to_string();
            assert!(error.contains(&format!("mode {looser:04o}")), "{error}");
            assert!(error.ends_with(&format!("chmod 600 {}", path.display())), "{error}");
        }
        for tight in [0o600, 0o400] {
            mode(tight);
            assert_eq!(key().expect("a secret").key.0[15], 15);
        }
        if !geteuid().is_root() {
            return eprintln!("skipped: files of others can be made by root only");
        }
        std::os::unix::fs::chown(&path, Some(12_345), None).expect("root may");
        let error = key().expect_err("another's").to_string();
        assert!(error.contains("belongs to user 12345"), "{error}");
    }

    #[test]
    fn a_secret_may_be_in_a_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("key");
        let value = format!("@{}", path.display());
        let key = || config_from(|name| (name == "WIGLAF_KEY").then(|| value.clone().into()));
        assert!(key().is_err(), "there is none yet");
        std::fs::write(&path, "000102030405060708090a0b0c0d0e0f\n").expect("written");
        std::fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("one's own file");
        assert_eq!(key().expect("a secret").key, JobKey(std::array::from_fn(|i| i as u8)));
        std::fs::write(&path, "0".repeat(1 << 20)).expect("written");
        let error = key().expect_err("not a secret").to_string();
        assert!(error.contains(&value) && !error.contains("000"), "{error}");
    }
}
