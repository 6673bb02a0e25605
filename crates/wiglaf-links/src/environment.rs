//! The configuration that the environment asks for.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::net::Ipv4Addr;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, open};
use wiglaf_endpoint::{Config, JobKey, LinkChoice};
use wiglaf_link_udp::interface;

/// How long a peer may be silent when the environment does not say: longer than
/// any pause of a debugger or a stopped process that should be survived.
const SILENCE_LIMIT: Duration = Duration::from_secs(600);

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
/// | `WIGLAF_PORT` | a UDP port | any |
/// | `WIGLAF_SILENCE_LIMIT` | such as `500ms`, `60s` or `5min` | `10min` |
/// | `WIGLAF_FLOW_CONTROL` | `on` or `off` | `on` |
/// | `WIGLAF_ENCRYPT` | `on` or `off` | `off` |
/// | `WIGLAF_CMA` | `on` or `off` | `on` |
/// | `WIGLAF_STATS` | `on` or `off` | `on` |
/// | `WIGLAF_LATE_PEEKS` | `on` or `off` | `off` |
///
/// # Errors
/// When a variable holds something that cannot be meant.
pub fn config_from_env() -> Result<Config, VariableError> {
    config_from(|name| std::env::var_os(name))
}

/// The same with variables from elsewhere.
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
    let advice = "give 32 hexadecimal digits, or @ and the path of a file with them";
    let key = read.parse("WIGLAF_KEY", advice, key)?;
    let encrypt = read.parse("WIGLAF_ENCRYPT", "give on or off", switch)?.unwrap_or(false);
    if encrypt && key.unwrap_or_default() == JobKey::default() {
        let reason = "everybody knows the all-zero key; set WIGLAF_KEY for all ranks".to_owned();
        return Err(VariableError { name: "WIGLAF_ENCRYPT", value: "on".to_owned(), reason });
    }
    Ok(Config {
        ip: address(&read)?,
        port: read
            .parse("WIGLAF_PORT", "give a port from 0 to 65535", |v| v.parse().ok())?
            .unwrap_or(0),
        epoch: None,
        key: key.unwrap_or_default(),
        encrypt,
        link: read.parse("WIGLAF_LINK", LINKS, LinkChoice::named)?.unwrap_or_default(),
        silence_limit: read
            .parse("WIGLAF_SILENCE_LIMIT", "give a time such as 500ms, 60s or 5min", duration)?
            .unwrap_or(SILENCE_LIMIT),
        flow_control: read.parse("WIGLAF_FLOW_CONTROL", "give on or off", switch)?.unwrap_or(true),
        memory_access: read.parse("WIGLAF_CMA", "give on or off", switch)?.unwrap_or(true),
        publish: read.parse("WIGLAF_STATS", "give on or off", switch)?.unwrap_or(true),
        late_peeks: read.parse("WIGLAF_LATE_PEEKS", "give on or off", switch)?.unwrap_or(false),
    })
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
        let Some(value) = (self.value_of)(name)? else { return Ok(None) };
        match parse(value.trim()) {
            Some(parsed) => Ok(Some(parsed)),
            None => {
                Err(VariableError { name, value: shown(name, value), reason: advice.to_owned() })
            }
        }
    }
}

/// A secret is not repeated in a message, not even a misspelt one.
fn shown(name: &str, value: String) -> String {
    let is_secret = name == "WIGLAF_KEY" && !value.trim().starts_with('@');
    if is_secret { format!("<{} characters>", value.chars().count()) } else { value }
}

/// The secret, or what the file has that it names: nothing but a plain file, which keeps nobody waiting.
fn key(value: &str) -> Option<JobKey> {
    let Some(path) = value.strip_prefix('@') else { return JobKey::from_hex(value) };
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).ok()?);
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    file.take(KEY_FILE_LEN_MAX).read_to_string(&mut text).ok()?;
    JobKey::from_hex(text.trim())
}

fn address<F: Fn(&'static str) -> Result<Option<String>, VariableError>>(
    read: &Reader<F>,
) -> Result<Ipv4Addr, VariableError> {
    let ip =
        read.parse("WIGLAF_IP", "give an IPv4 address such as 10.0.0.1", |v| v.parse().ok())?;
    let Some(name) = (read.value_of)("WIGLAF_IF")? else {
        return Ok(ip.unwrap_or(Ipv4Addr::UNSPECIFIED));
    };
    let refuse = |reason| VariableError { name: "WIGLAF_IF", value: name.clone(), reason };
    let all = interface::list()
        .map_err(|e| refuse(format!("the kernel does not list its interfaces: {e}")))?;
    let of_interface = |ip: &Ipv4Addr| all.iter().any(|i| i.name == name && i.ip == *ip);
    if let Some(ip) = ip {
        return if of_interface(&ip) {
            Ok(ip)
        } else {
            Err(refuse(format!("that interface does not hold {ip}, as WIGLAF_IP says; unset one")))
        };
    }
    all.iter().find(|i| i.name == name).map(|i| i.ip).ok_or_else(|| {
        let mut names: Vec<&str> = all.iter().map(|i| i.name.as_str()).collect();
        names.dedup();
        refuse(format!(
            "no interface of that name has an IPv4 address; choose one of: {}",
            names.join(", ")
        ))
    })
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

fn switch(text: &str) -> Option<bool> {
    match text {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
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
            assert_eq!(config.link, LinkChoice::Auto);
            assert_eq!((config.ip, config.port), (Ipv4Addr::UNSPECIFIED, 0));
            assert_eq!((config.key, config.silence_limit), (JobKey::default(), SILENCE_LIMIT));
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
            ("WIGLAF_ENCRYPT", "on"),
        ])
        .expect("nothing wrong");
        assert_eq!((config.link, config.port), (LinkChoice::Packet, 4000));
        assert_eq!((config.key.0[15], config.encrypt), (15, true));
        assert_eq!(config.ip, Ipv4Addr::LOCALHOST);
        assert_eq!(config.silence_limit, Duration::from_millis(1500));
        assert_eq!(from(&[("WIGLAF_IF", "lo")]).expect("lo exists").ip, Ipv4Addr::LOCALHOST);
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
        ] {
            let error = from(&[(name, value)]).expect_err("a mistake");
            assert_eq!(error, format!("environment variable {message}"));
        }
        let error = from(&[("WIGLAF_IF", "nosuch0")]).expect_err("no such interface");
        assert!(error.contains("nosuch0") && error.contains("choose one of: lo"), "{error}");
        let error =
            from(&[("WIGLAF_IF", "lo"), ("WIGLAF_IP", "192.0.2.1")]).expect_err("not there");
        assert!(error.contains("does not hold 192.0.2.1"), "{error}");
    }

    #[test]
    fn a_secret_may_be_in_a_file() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = dir.path().join("key");
        let value = format!("@{}", path.display());
        let key = || config_from(|name| (name == "WIGLAF_KEY").then(|| value.clone().into()));
        assert!(key().is_err(), "there is none yet");
        std::fs::write(&path, "000102030405060708090a0b0c0d0e0f\n").expect("written");
        assert_eq!(key().expect("a secret").key, JobKey(std::array::from_fn(|i| i as u8)));
        std::fs::write(&path, "0".repeat(1 << 20)).expect("written");
        let error = key().expect_err("not a secret").to_string();
        assert!(error.contains(&value) && !error.contains("000"), "{error}");
    }
}
