//! How a host's power is switched, as the cluster file says it: `power = { kind = "ipmi", … }`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Error, Result};

/// What switches a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A BMC that speaks IPMI over the network.
    Ipmi,
    /// A BMC that speaks Redfish.
    Redfish,
    /// A magic packet on; off over ssh.
    WakeOnLan,
    /// Off over ssh, and nothing turns it on.
    Ssh,
}

/// A MAC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Mac(pub [u8; 6]);

impl FromStr for Mac {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = || {
            Error::new(format!("`{text}` is no MAC address; write it such as 00:1b:21:0a:0b:0c"))
        };
        let parts: Vec<&str> = text.trim().split([':', '-']).collect();
        let byte = |part: &&str| match part.len() {
            2 => u8::from_str_radix(part, 16).ok(),
            _ => None,
        };
        let bytes: Option<Vec<u8>> = parts.iter().map(byte).collect();
        let bytes: [u8; 6] = bytes.and_then(|b| b.try_into().ok()).ok_or_else(wrong)?;
        // A group's address wakes nobody, and zeros are what tables have for "unknown".
        match bytes[0] & 1 == 0 && bytes != [0; 6] {
            true => Ok(Self(bytes)),
            false => Err(wrong()),
        }
    }
}

impl TryFrom<String> for Mac {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Mac> for String {
    fn from(mac: Mac) -> Self {
        mac.to_string()
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: Vec<String> = self.0.iter().map(|byte| format!("{byte:02x}")).collect();
        f.write_str(&bytes.join(":"))
    }
}

/// How one host's power is switched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// By what.
    pub kind: Kind,
    /// The BMC's name or address.
    pub address: Option<String>,
    /// Its port, if not the usual one.
    pub port: Option<u16>,
    /// The user there.
    pub user: Option<String>,
    /// The file with the password there.
    pub password_file: Option<PathBuf>,
    /// The host's MAC address in the data network.
    pub mac: Option<Mac>,
    /// Redfish: which of the BMC's systems the host is, if it has several.
    pub system: Option<String>,
    /// Redfish: whether the BMC's certificate is not looked at.
    #[serde(default)]
    pub insecure: bool,
}

impl Power {
    /// Fails for what no program could take. The password's file is below the cluster file's folder if its
    /// path is relative, and below the home if it begins with `~/`.
    pub(crate) fn checked(mut self, host: &str, file: &Path) -> Result<Self> {
        let wrong = |what: String| Err(Error::new(format!("[node.{host}] power: {what}")));
        let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._".contains(&b);
        if let Some(address) = &self.address
            && (address.is_empty() || !address.bytes().all(plain) || address.starts_with('-'))
        {
            return wrong(format!("`{address}` is no name or IPv4 address of a BMC"));
        }
        for text in [&self.user, &self.system].into_iter().flatten() {
            if text.is_empty() || !text.bytes().all(|b| plain(b) || b"@+".contains(&b)) {
                return wrong(format!("`{text}` may have letters, digits and `-._@+` only"));
            }
        }
        if matches!(self.kind, Kind::Ipmi | Kind::Redfish) {
            if self.address.is_none() {
                return wrong("the BMC's `address` is missing".to_owned());
            }
            if self.user.is_none() || self.password_file.is_none() {
                return wrong("`user` and `password_file` are missing".to_owned());
            }
        }
        if let Some(path) = &self.password_file {
            let home = std::env::var_os("HOME").map(PathBuf::from);
            self.password_file = Some(match (path.strip_prefix("~"), home) {
                (Ok(rest), Some(home)) => home.join(rest),
                _ => file.parent().unwrap_or(Path::new("/")).join(path),
            });
        }
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Power> {
        let power: Power = toml::from_str(text).map_err(|error| Error::new(error.message()))?;
        power.checked("pc1", Path::new("/etc/wiglaf/cluster.toml"))
    }

    #[test]
    fn password_files_are_beside_the_cluster_file() {
        let bmc = "kind = \"ipmi\"\naddress = \"10.9.1.1\"\nuser = \"admin\"\n";
        let power = read(&format!("{bmc}password_file = \"bmc.password\"")).unwrap();
        assert_eq!(power.password_file.unwrap(), Path::new("/etc/wiglaf/bmc.password"));
        let power = read(&format!("{bmc}password_file = \"/root/p\"")).unwrap();
        assert_eq!(power.password_file.unwrap(), Path::new("/root/p"));
    }

    #[test]
    fn mistakes_are_named() {
        for (text, part) in [
            ("kind = \"ipmi\"", "`address` is missing"),
            ("kind = \"redfish\"\naddress = \"bmc\"", "`password_file` are missing"),
            ("kind = \"ipmi\"\naddress = \"-oX\"", "no name or IPv4 address"),
            ("kind = \"ipmi\"\naddress = \"b\"\nuser = \"a\\nb\"", "letters"),
            ("kind = \"usb\"", "unknown variant"),
            ("kind = \"ssh\"\npassword = \"x\"", "unknown field"),
            ("kind = \"wake-on-lan\"\nmac = \"01:00:5e:00:00:01\"", "no MAC address"),
            ("kind = \"wake-on-lan\"\nmac = \"0:1:2:3:4:5\"", "no MAC address"),
        ] {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
