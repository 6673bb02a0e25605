//! Redfish over HTTPS, carried by curl. Certificates of BMCs are self-signed: the key seen first is the key from
//! then on. A BMC takes up to a second to check a password, so that it is asked for a session, where it has any.

use std::cell::RefCell;
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
/// What curl writes behind the answer.
const MARKS: &str = "\n%{http_code}\n%header{x-auth-token}\n%header{location}";
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
    login: RefCell<Login>,
}

/// What a BMC is shown with each question.
#[derive(Debug, Clone)]
enum Login {
    /// Not asked yet whether it has sessions.
    Unknown,
    /// It has none, or no free one.
    Password,
    /// A session: its token, and what is deleted at its end.
    Session { token: String, path: Option<String> },
}

/// One question to a BMC.
struct Question<'a> {
    path: &'a str,
    /// Makes it a POST.
    body: Option<&'a Value>,
    /// Lines of curl's configuration that nobody else may see.
    secret: String,
    delete: bool,
}

/// What it answers.
struct Reply {
    status: u16,
    body: Value,
    token: String,
    location: String,
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
            login: RefCell::new(Login::Unknown),
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

    /// One exchange with the BMC.
    fn exchange(&self, question: &Question<'_>) -> Result<Reply> {
        let path = question.path;
        let mut arguments = common();
        if !self.insecure {
            arguments.extend(["--pinnedpubkey".to_owned(), self.pinned()?.display().to_string()]);
        }
        arguments.extend(["-K", "-", "-w", MARKS].map(str::to_owned));
        let mut config = question.secret.clone();
        if let Some(body) = question.body {
            // -X would be kept on redirections of all kinds; data is a POST again after 307 and 308 only. It is in
            // the configuration because it may be a password.
            arguments.extend(["-H", "Content-Type: application/json"].map(str::to_owned));
            config += &format!("data = \"{}\"\n", quoted(&body.to_string()));
        }
        if question.delete {
            arguments.extend(["-X", "DELETE"].map(str::to_owned));
        }
        // A path comes from the BMC, and is never another server's.
        if !path.starts_with('/') || path.bytes().any(|b| !b.is_ascii_graphic()) {
            return Err(Error::new(format!("its BMC names a path `{}`", path.escape_debug())));
        }
        arguments.push(format!("{}{path}", self.base));
        let said = curl(&arguments, &config)?;
        let mut marks = said.rsplitn(4, '\n');
        let mut next = || marks.next().unwrap_or_default().trim().to_owned();
        let (location, token, status, text) = (next(), next(), next(), next());
        let status: u16 = status.parse().cannot(|| "read what curl says".to_owned())?;
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Ok(Reply { status, body, token, location })
    }

    /// Opens a session, where the BMC has any. Its root says so without a password.
    fn log_in(&self) -> Result<Login> {
        let plain = |path| Question { path, body: None, secret: String::new(), delete: false };
        let root = self.exchange(&plain("/redfish/v1/"))?;
        let Some(sessions) = root.body["Links"]["Sessions"]["@odata.id"].as_str() else {
            return Ok(Login::Password);
        };
        let body = json!({ "UserName": self.user, "Password": self.password });
        let reply = self.exchange(&Question { body: Some(&body), ..plain(sessions) })?;
        match reply.status {
            400 | 401 | 403 => Err(refused(reply.status)),
            // It goes into a header.
            200..=204
                if !reply.token.is_empty() && reply.token.bytes().all(|b| b.is_ascii_graphic()) =>
            {
                let path = reply.location.strip_prefix(&self.base).unwrap_or(&reply.location);
                let path = Some(path.to_owned()).filter(|path| path.starts_with('/'));
                Ok(Login::Session { token: reply.token, path })
            }
            // Not there, or all in use.
            _ => Ok(Login::Password),
        }
    }

    /// What a question carries.
    fn secret(&self) -> Result<String> {
        if matches!(*self.login.borrow(), Login::Unknown) {
            let login = self.log_in()?;
            self.login.replace(login);
        }
        Ok(match &*self.login.borrow() {
            Login::Session { token, .. } => {
                format!("header = \"X-Auth-Token: {}\"\n", quoted(token))
            }
            _ => {
                format!("user = \"{}:{}\"\n", quoted(&self.user), quoted(&self.password))
            }
        })
    }

    /// Asks; a body makes it a POST. Answers status and JSON.
    fn ask(&self, path: &str, body: Option<&Value>) -> Result<(u16, Value)> {
        let once =
            || self.exchange(&Question { path, body, secret: self.secret()?, delete: false });
        let mut reply = once()?;
        if reply.status == 401 && matches!(*self.login.borrow(), Login::Session { .. }) {
            // A session that was ended by the BMC: one new one.
            self.login.replace(Login::Unknown);
            reply = once()?;
        }
        match reply.status {
            401 | 403 => Err(refused(reply.status)),
            status => Ok((status, reply.body)),
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

impl Drop for Redfish {
    fn drop(&mut self) {
        // BMCs have few sessions, and keep those that nobody ends for half an hour.
        if let Login::Session { token, path: Some(path) } = self.login.replace(Login::Unknown) {
            let secret = format!("header = \"X-Auth-Token: {}\"\n", quoted(&token));
            let _ = self.exchange(&Question { path: &path, body: None, secret, delete: true });
        }
    }
}

fn refused(status: u16) -> Error {
    Error::new(format!(
        "its BMC refuses user or password (HTTP {status}); correct `user` or the password file"
    ))
}

/// Within quotes of curl's configuration.
fn quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"")
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
