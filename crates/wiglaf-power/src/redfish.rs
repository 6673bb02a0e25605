//! Redfish over HTTPS, carried by curl. Certificates of BMCs are self-signed: the key seen first is the key from
//! then on.

use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::power::Power;

use crate::bmc::{Bmc, Sensor, State};
use crate::outside;
use crate::{record, secret};

/// HTTPS's port.
const PORT: u16 = 443;
/// How long a BMC may take to accept a connection, and to answer, in seconds.
const CONNECT_S: u32 = 2;
const ANSWER_S: u32 = 15;
const LIMIT: Duration = Duration::from_secs(20);
/// curl's exit status for a key that is not the pinned one, and for those of a host that is not there.
const CURL_PINNED: i32 = 90;
const CURL_ABSENT: [i32; 3] = [6, 7, 28];

/// A BMC that speaks Redfish.
pub(crate) struct Redfish {
    base: String,
    key: String,
    user: String,
    password: String,
    system: Option<String>,
    insecure: bool,
}

impl Redfish {
    pub(crate) fn new(power: &Power) -> Result<Self> {
        let missing = || Error::new("the cluster file lacks address, user or password_file");
        let address = power.address.clone().ok_or_else(missing)?;
        let port = power.port.unwrap_or(PORT);
        Ok(Self {
            base: format!("https://{address}:{port}"),
            key: format!("{address}-{port}"),
            user: power.user.clone().ok_or_else(missing)?,
            password: secret::read(power.password_file.as_deref().ok_or_else(missing)?)?,
            system: power.system.clone(),
            insecure: power.insecure,
        })
    }

    /// The file with the BMC's public key. Learned before the password is ever sent.
    fn pinned(&self) -> Result<PathBuf> {
        let path = record::place("key", &self.key)?;
        if path.exists() {
            return Ok(path);
        }
        let url = format!("{}/redfish/v1/", self.base);
        let mut arguments = common();
        arguments.extend(["-o", "/dev/null", "-w", "%{certs}", &url].map(str::to_owned));
        let said = curl(&arguments, "")?;
        let openssl = outside::find("openssl", "openssl")?;
        let read = ["x509", "-noout", "-pubkey"].map(str::to_owned);
        let public = outside::run(openssl.as_os_str(), &read, &said, LIMIT)?;
        if !public.ok || !public.stdout.starts_with("-----BEGIN PUBLIC KEY") {
            return Err(Error::new("its BMC shows no certificate that openssl could read"));
        }
        record::keep("key", &self.key, &public.stdout);
        match path.exists() {
            true => Ok(path),
            false => Err(Error::new(format!("cannot keep the BMC's key in {}", path.display()))),
        }
    }

    /// Asks; a body makes it a POST. Answers status and JSON.
    fn ask(&self, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let mut arguments = common();
        if !self.insecure {
            arguments.extend(["--pinnedpubkey".to_owned(), self.pinned()?.display().to_string()]);
        }
        arguments.extend(["-K", "-", "-w", "\n%{http_code}"].map(str::to_owned));
        if let Some(body) = body {
            // -X would be kept on redirections of all kinds; --data is a POST again after 307 and 308 only.
            arguments.extend(["-H", "Content-Type: application/json", "--data"].map(str::to_owned));
            arguments.push(body.to_string());
        }
        // A path comes from the BMC, and is never another server's.
        if !path.starts_with('/') || path.bytes().any(|b| !b.is_ascii_graphic()) {
            return Err(Error::new(format!("its BMC names a path `{}`", path.escape_debug())));
        }
        arguments.push(format!("{}{path}", self.base));
        let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
        let config = format!("user = \"{}:{}\"\n", quoted(&self.user), quoted(&self.password));
        let said = curl(&arguments, &config)?;
        let (text, status) = said.rsplit_once('\n').unwrap_or_default();
        let status: u16 = status.trim().parse().cannot(|| "read what curl says".to_owned())?;
        let value = serde_json::from_str(text).unwrap_or(Value::Null);
        match status {
            401 | 403 => Err(Error::new(format!(
                "its BMC refuses user or password (HTTP {status}); correct `user` or the password file"
            ))),
            _ => Ok((status, value)),
        }
    }

    fn get(&self, path: &str) -> Result<Value> {
        match self.ask(path, None)? {
            (200, value) => Ok(value),
            (status, _) => Err(Error::new(format!("its BMC answers HTTP {status} to {path}"))),
        }
    }

    /// The host among the BMC's systems.
    fn system(&self) -> Result<Value> {
        let all = self.get("/redfish/v1/Systems")?;
        let members = all["Members"].as_array().map(Vec::as_slice).unwrap_or_default();
        let paths: Vec<&str> =
            members.iter().filter_map(|member| member["@odata.id"].as_str()).collect();
        match (&self.system, &paths[..]) {
            (None, [only]) => self.get(only),
            (Some(wanted), _) => {
                for path in &paths {
                    if path.rsplit('/').next() == Some(wanted) {
                        return self.get(path);
                    }
                }
                for path in &paths {
                    let system = self.get(path)?;
                    if system["Name"].as_str() == Some(wanted) {
                        return Ok(system);
                    }
                }
                Err(Error::new(format!(
                    "its BMC has no system {wanted}; it has {}",
                    paths.join(", ")
                )))
            }
            (None, _) => Err(Error::new(format!(
                "its BMC has {} systems; say which the host is with `system`: {}",
                paths.len(),
                paths.join(", ")
            ))),
        }
    }

    /// Resets in the first of these ways that the BMC says it knows, and does. `false` where it knows none.
    fn act(&self, ways: &[&str]) -> Result<bool> {
        const ALLOWED: &str = "ResetType@Redfish.AllowableValues";
        let system = self.system()?;
        let action = &system["Actions"]["#ComputerSystem.Reset"];
        let Some(target) = action["target"].as_str() else {
            return Err(Error::new("its BMC knows no way to switch the system"));
        };
        let allowed = action[ALLOWED].as_array();
        let is_allowed = |way: &&&str| allowed.is_none_or(|all| all.iter().any(|v| v == **way));
        for way in ways.iter().filter(is_allowed) {
            match self.ask(target, Some(&json!({ "ResetType": way })))? {
                (200..=204, _) => return Ok(true),
                // It does not know what it has listed.
                (400 | 404 | 405 | 501, _) => {}
                (status, _) => {
                    return Err(Error::new(format!("its BMC answers HTTP {status} to {way}")));
                }
            }
        }
        Ok(false)
    }

    fn must(&self, ways: &[&str]) -> Result<()> {
        match self.act(ways)? {
            true => Ok(()),
            false => Err(Error::new(format!("its BMC does not know {}", ways.join(" or ")))),
        }
    }
}

/// Options of every call. No file of the user's, no proxy: BMCs are near.
fn common() -> Vec<String> {
    let connect = CONNECT_S.to_string();
    let answer = ANSWER_S.to_string();
    let words = [
        "-q",
        "-sS",
        "-k",
        "--noproxy",
        "*",
        "--proto",
        "=https",
        "-L",
        "--max-redirs",
        "4",
        "--connect-timeout",
        &connect,
        "--max-time",
        &answer,
    ];
    words.map(str::to_owned).to_vec()
}

fn curl(arguments: &[String], config: &str) -> Result<String> {
    let program = outside::find("curl", "curl")?;
    let said = outside::run(program.as_os_str(), arguments, config, LIMIT)?;
    match said.code {
        Some(0) => Ok(said.stdout),
        Some(CURL_PINNED) => Err(Error::new(
            "its BMC shows another key than before; if it was replaced or renewed, remove the old one from \
             ~/.local/state/wiglaf/power, else somebody stands between",
        )),
        Some(code) if CURL_ABSENT.contains(&code) => {
            Err(Error::new("its BMC does not answer; is its address right, and its cable in?"))
        }
        _ => {
            let line = said.stderr.lines().next().unwrap_or_default();
            Err(Error::new(format!("its BMC cannot be asked ({})", line.escape_debug())))
        }
    }
}

impl Bmc for Redfish {
    fn state(&self) -> Result<State> {
        let system = self.system()?;
        match system["PowerState"].as_str() {
            Some("On" | "PoweringOff" | "Paused") => Ok(State::On),
            Some("Off" | "PoweringOn") => Ok(State::Off),
            other => Err(Error::new(format!("its BMC says neither on nor off, but {other:?}"))),
        }
    }

    fn on(&self) -> Result<()> {
        self.must(&["On", "ForceOn"])
    }

    fn off(&self) -> Result<()> {
        self.must(&["ForceOff"])
    }

    fn soft_off(&self) -> Result<()> {
        self.must(&["GracefulShutdown", "PushPowerButton"])
    }

    fn reset(&self) -> Result<bool> {
        self.act(&["ForceRestart", "PowerCycle"])
    }

    fn sensors(&self) -> Result<Vec<Sensor>> {
        let system = self.system()?;
        let chassis = system["Links"]["Chassis"].as_array().map(Vec::as_slice).unwrap_or_default();
        let mut sensors = Vec::new();
        for chassis in chassis.iter().filter_map(|chassis| chassis["@odata.id"].as_str()) {
            let chassis = self.get(chassis)?;
            let Some(path) = chassis["Thermal"]["@odata.id"].as_str() else { continue };
            let thermal = self.get(path)?;
            for (list, reading) in [("Temperatures", "ReadingCelsius"), ("Fans", "Reading")] {
                for found in thermal[list].as_array().map(Vec::as_slice).unwrap_or_default() {
                    let text = |name: &str| found[name].as_str().unwrap_or_default().to_owned();
                    let is_celsius = list == "Temperatures";
                    sensors.push(Sensor {
                        id: text("MemberId"),
                        name: text("Name"),
                        reading: found[reading].as_f64().map(|value| value.to_string()),
                        unit: if is_celsius { "C".to_owned() } else { text("ReadingUnits") },
                    });
                }
            }
        }
        Ok(sensors)
    }
}
