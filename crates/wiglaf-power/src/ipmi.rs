//! IPMI over the network, spoken by FreeIPMI or, where it is not installed, by ipmitool.

use std::ffi::OsStr;
use std::time::Duration;

use wiglaf_base::error::{Error, Result};
use wiglaf_base::program::find_tool;
use wiglaf_cluster::power::Power;

use crate::bmc::{Bmc, Sensor, State};
use crate::outside::{self, Said};
use crate::{record, secret};

/// RMCP's port.
const PORT: u16 = 623;
/// Cipher suites, the first one first: what nearly all BMCs have, and what some new ones want in its place.
const SUITES: [u8; 2] = [3, 17];
/// How long a BMC may be silent; FreeIPMI's own 20 s are long where four of 64 are absent.
const SESSION_MS: u32 = 2000;
const RETRANSMISSION_MS: u32 = 400;
/// A program that is not done then hangs.
const LIMIT: Duration = Duration::from_secs(20);
/// A program that reads all sensors of a BMC, whose list it reads once, and is not done then hangs.
const SENSORS_LIMIT: Duration = Duration::from_secs(90);

/// A BMC that speaks IPMI.
pub(crate) struct Ipmi {
    address: String,
    port: u16,
    user: String,
    password: String,
}

impl Ipmi {
    pub(crate) fn new(power: &Power) -> Result<Self> {
        let missing = || Error::new("the cluster file lacks address, user or password_file");
        Ok(Self {
            address: power.address.clone().ok_or_else(missing)?,
            port: power.port.unwrap_or(PORT),
            user: power.user.clone().ok_or_else(missing)?,
            password: secret::read(power.password_file.as_deref().ok_or_else(missing)?)?,
        })
    }

    /// What is remembered is remembered of this.
    fn key(&self) -> String {
        format!("{}-{}", self.address, self.port)
    }

    /// Whether FreeIPMI's file can hold the password: what it does with quotes is not written down.
    fn fits_freeipmi(&self) -> bool {
        self.password.bytes().all(|b| b.is_ascii_graphic() && !b"\"'\\".contains(&b))
    }

    /// The file that FreeIPMI's programs read.
    fn freeipmi_file(&self) -> Result<secret::Lent> {
        // Not in quotes: those do not keep a `#` from starting a comment; a backslash does.
        let password = self.password.replace('#', "\\#");
        secret::Lent::new(&format!("username {}\npassword {password}\n", self.user))
    }

    fn freeipmi_arguments(&self, file: &secret::Lent, suite: u8) -> Vec<String> {
        vec![
            format!("--config-file={}", file.path().display()),
            format!("--hostname={}:{}", self.address, self.port),
            "--driver-type=LAN_2_0".to_owned(),
            "--workaround-flags=opensesspriv".to_owned(),
            format!("--session-timeout={SESSION_MS}"),
            format!("--retransmission-timeout={RETRANSMISSION_MS}"),
            format!("--cipher-suite-id={suite}"),
        ]
    }

    /// Asks with the suite that is known to work, or with each until one does, and remembers it.
    fn with_suite<T>(&self, ask: impl Fn(u8) -> Answer<T>) -> Result<T> {
        let known = record::recall("cipher", &self.key()).and_then(|text| text.parse().ok());
        let others = SUITES.into_iter().filter(|suite| Some(*suite) != known);
        let mut first = None;
        for suite in known.into_iter().chain(others) {
            match ask(suite) {
                Answer::Is(value) => {
                    record::keep("cipher", &self.key(), &suite.to_string());
                    return Ok(value);
                }
                Answer::Fails(error) => return Err(error),
                Answer::OtherSuite(error) => {
                    first.get_or_insert(error);
                }
            }
        }
        Err(first.unwrap_or_else(|| Error::new("its BMC takes none of our cipher suites")))
    }

    /// One command about the power; the words are FreeIPMI's and ipmitool's. The answer is in small letters.
    fn power(&self, freeipmi: &str, ipmitool: &str) -> Result<String> {
        match find_tool("ipmipower").filter(|_| self.fits_freeipmi()) {
            Some(program) => {
                let file = self.freeipmi_file()?;
                self.with_suite(|suite| {
                    let mut arguments = self.freeipmi_arguments(&file, suite);
                    arguments.push(format!("--{freeipmi}"));
                    match outside::run(program.as_os_str(), &arguments, "", LIMIT) {
                        Ok(said) => of_ipmipower(&said),
                        Err(error) => Answer::Fails(error),
                    }
                })
            }
            None => {
                let program = outside::find("ipmitool", "freeipmi-tools")?;
                let file = secret::Lent::new(&self.password)?;
                self.with_suite(|suite| {
                    let file = file.path().display().to_string();
                    let (port, suite) = (self.port.to_string(), suite.to_string());
                    let arguments = [
                        "-I",
                        "lanplus",
                        "-C",
                        &suite,
                        "-N",
                        "1",
                        "-R",
                        "1",
                        "-H",
                        &self.address,
                        "-p",
                        &port,
                        "-U",
                        &self.user,
                        "-f",
                        &file,
                        "chassis",
                        "power",
                        ipmitool,
                    ];
                    let arguments = arguments.map(str::to_owned);
                    match outside::run(program.as_os_str(), &arguments, "", LIMIT) {
                        Ok(said) => of_ipmitool(&said),
                        Err(error) => Answer::Fails(error),
                    }
                })
            }
        }
    }
}

/// What came of asking with one suite.
enum Answer<T> {
    Is(T),
    Fails(Error),
    /// It may be for the suite.
    OtherSuite(Error),
}

/// Its exit status says nothing: it is 0 for "BMC error", too.
fn of_ipmipower(said: &Said) -> Answer<String> {
    let line = said.stdout.lines().chain(said.stderr.lines()).next().unwrap_or_default();
    let word = line.rsplit_once(": ").map_or(line, |(_, word)| word).trim();
    let error = match word {
        "on" | "off" | "ok" => return Answer::Is(word.to_owned()),
        "connection timeout" | "session timeout" => {
            return Answer::Fails(Error::new(
                "its BMC does not answer; is its address right, and its cable in?",
            ));
        }
        "password invalid" | "username invalid" => Error::new(format!(
            "its BMC refuses user or password ({word}); correct `user` or the password file"
        )),
        "" => Error::new("ipmipower said nothing"),
        other => {
            Error::new(format!("its BMC cannot be used (ipmipower: {})", other.escape_debug()))
        }
    };
    match word {
        "BMC error" | "cipher suite id unavailable" => Answer::OtherSuite(error),
        _ => Answer::Fails(error),
    }
}

fn of_ipmitool(said: &Said) -> Answer<String> {
    if said.ok {
        let text = said.stdout.trim().to_lowercase();
        let last = text.split_whitespace().last().unwrap_or_default();
        return Answer::Is(if ["on", "off"].contains(&last) { last } else { "ok" }.to_owned());
    }
    let line = said.stderr.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
    Answer::OtherSuite(Error::new(format!(
        "its BMC does not answer, or refuses user or password (ipmitool: {})",
        line.trim().escape_debug()
    )))
}

impl Bmc for Ipmi {
    fn state(&self) -> Result<State> {
        match self.power("stat", "status")?.as_str() {
            "on" => Ok(State::On),
            "off" => Ok(State::Off),
            other => Err(Error::new(format!("its BMC says neither on nor off, but {other}"))),
        }
    }

    fn on(&self) -> Result<()> {
        self.power("on", "on").map(drop)
    }

    fn off(&self) -> Result<()> {
        self.power("off", "off").map(drop)
    }

    fn soft_off(&self) -> Result<()> {
        self.power("soft", "soft").map(drop)
    }

    fn reset(&self) -> Result<bool> {
        self.power("reset", "reset").map(|_| true)
    }

    fn sensors(&self) -> Result<Vec<Sensor>> {
        let program = outside::find("ipmi-sensors", "freeipmi-tools")?;
        if !self.fits_freeipmi() {
            return Err(Error::new(
                "ipmi-sensors takes no password with spaces, quotes or backslashes",
            ));
        }
        let file = self.freeipmi_file()?;
        let cache = record::place("sdr", &self.key())?;
        let _ = std::fs::create_dir(&cache);
        self.with_suite(|suite| {
            let mut arguments = self.freeipmi_arguments(&file, suite);
            arguments.extend(
                [
                    "--comma-separated-output",
                    "--no-header-output",
                    "--quiet-cache",
                    "--sdr-cache-recreate",
                ]
                .map(str::to_owned),
            );
            arguments.push(format!("--sdr-cache-directory={}", cache.display()));
            match outside::run(OsStr::new(&program), &arguments, "", SENSORS_LIMIT) {
                Ok(said) if said.ok => Answer::Is(readings(&said.stdout)),
                Ok(said) => {
                    let line = said.stderr.lines().last().unwrap_or_default();
                    let sentence = format!("ipmi-sensors: {}", line.escape_debug());
                    Answer::OtherSuite(Error::new(sentence))
                }
                Err(error) => Answer::Fails(error),
            }
        })
    }
}

/// Lines of `ID,Name,Type,Reading,Units,Event`.
fn readings(text: &str) -> Vec<Sensor> {
    let known = |word: &str| !["N/A", "", "Unknown"].contains(&word);
    text.lines()
        .filter_map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let [id, name, _, reading, unit, ..] = fields[..] else { return None };
            Some(Sensor {
                id: id.trim().to_owned(),
                name: name.trim().to_owned(),
                reading: Some(reading.trim().to_owned()).filter(|reading| known(reading)),
                unit: Some(unit.trim()).filter(|unit| known(unit)).unwrap_or_default().to_owned(),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_of_ipmi_sensors_are_read() {
        let text = "1,CPU Temp,Temperature,41.00,C,'OK'\n2,Fan 1,Fan,N/A,RPM,N/A\nnothing\n";
        let read = readings(text);
        assert_eq!(read.len(), 2);
        assert_eq!((read[0].reading.as_deref(), read[0].unit.as_str()), (Some("41.00"), "C"));
        assert_eq!((read[1].reading.as_deref(), read[1].name.as_str()), (None, "Fan 1"));
    }
}
