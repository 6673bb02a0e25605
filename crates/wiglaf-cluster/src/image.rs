//! What a cluster file says of images of nodes, in its section `[image]`. What follows from it is above this, in
//! wiglaf-image.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Error, Result};

use crate::power::Mac;

/// The section `[image]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    /// Users of this machine who get an account and their ssh keys on each node.
    #[serde(default)]
    pub users: Vec<String>,
    /// Those of them who become root there by sudo without a password; all unless given.
    pub admins: Option<Vec<String>>,
    /// Debian packages besides those of each node.
    #[serde(default)]
    pub packages: Vec<String>,
    /// PCs that may start from the network, by the name that each gets.
    #[serde(default)]
    pub admit: BTreeMap<String, Admitted>,
}

/// A PC that may start from the network.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Admitted {
    /// The MAC address of the card that it starts by.
    pub mac: Mac,
    /// The serial number of the disk that may be overwritten. Without it the PC's disks stay as they are.
    pub disk: Option<String>,
    /// The address in the data network that it is to have besides what DHCP gives.
    pub address: Option<Ipv4Addr>,
    /// Whether its firmware has Secure Boot on, so that it starts signed files alone.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub secure_boot: bool,
}

impl Image {
    /// This section, if its words are such as commands and files may hold.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn checked(self) -> Result<Self> {
        for name in self.users.iter().chain(self.admins.iter().flatten()) {
            if !is_word(name, b"-_.") {
                return Err(Error::new(format!("`{name}` in [image] is no name of a user")));
            }
        }
        if let Some(name) = self.admins.iter().flatten().find(|name| !self.users.contains(name)) {
            return Err(Error::new(format!(
                "{name} is among the `admins` of [image] and not among its `users`; add it there"
            )));
        }
        if let Some(package) = self.packages.iter().find(|package| !is_word(package, b"-+.")) {
            return Err(Error::new(format!("`{package}` in [image] is no name of a package")));
        }
        for (name, admitted) in &self.admit {
            admitted.check(name)?;
            let twin =
                self.admit.iter().find(|(other, it)| *other != name && it.mac == admitted.mac);
            if let Some((other, _)) = twin {
                return Err(Error::new(format!(
                    "{name} and {other} in [image] have one MAC address, {}",
                    admitted.mac
                )));
            }
        }
        Ok(self)
    }
}

impl Admitted {
    /// Fails for a name that no host may have, and for a serial number that no disk has.
    ///
    /// # Errors
    /// A sentence that names what is wrong.
    pub fn check(&self, name: &str) -> Result<()> {
        if !is_word(name, b"-") || name.len() > 63 {
            return Err(Error::new(format!(
                "`{name}` cannot be a node's name; use at most 63 letters, digits and `-`"
            )));
        }
        if self.secure_boot && self.address.is_none() {
            return Err(Error::new(format!(
                "{name} has Secure Boot and no address; name the one in the data network that it starts with, with \
                 `--address` or as `address` in the cluster file"
            )));
        }
        match &self.disk {
            Some(serial) if !is_word(serial, b"-_.:+ ") => Err(Error::new(format!(
                "`{serial}` is no serial number of a disk; `lsblk -o NAME,SERIAL` there shows them"
            ))),
            _ => Ok(()),
        }
    }
}

/// Letters, digits and those others, a letter or digit first.
fn is_word(text: &str, others: &[u8]) -> bool {
    text.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || others.contains(&b))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> std::result::Result<Image, String> {
        let image: Image = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        image.checked().map_err(|error| error.to_string())
    }

    #[test]
    fn section_names_users_packages_and_admitted_pcs() {
        let image = read(
            "users = [\"ann\", \"bob\"]\nadmins = [\"ann\"]\npackages = [\"mpich\"]\n[admit.pc5]\n\
             mac = \"52:54:00:0a:0b:0c\"\ndisk = \"WD-1\"\naddress = \"192.168.77.15\"\nsecure_boot = true\n",
        )
        .unwrap();
        assert!(image.admit["pc5"].secure_boot);
        assert_eq!(image.admit["pc5"].mac.to_string(), "52:54:00:0a:0b:0c");
        assert_eq!(image.admit["pc5"].disk.as_deref(), Some("WD-1"));
    }

    #[test]
    fn what_commands_may_not_hold_is_refused() {
        for (text, part) in [
            ("users = [\"-ann\"]", "no name of a user"),
            ("users = [\"ann\"]\nadmins = [\"bob\"]", "not among its `users`"),
            ("packages = [\"a;b\"]", "no name of a package"),
            ("[admit.pc5]\nmac = \"52:54:00\"", "no MAC address"),
            ("[admit.pc_5]\nmac = \"52:54:00:0a:0b:0c\"", "cannot be a node's name"),
            ("[admit.pc5]\nmac = \"52:54:00:0a:0b:0c\"\ndisk = \"a\\nb\"", "no serial number"),
            (
                "[admit.a]\nmac = \"52:54:00:0a:0b:0c\"\n[admit.b]\nmac = \"52:54:00:0A:0B:0C\"",
                "one MAC address",
            ),
            (
                "[admit.pc5]\nmac = \"52:54:00:0a:0b:0c\"\nsecure_boot = true",
                "has Secure Boot and no address",
            ),
            ("user = []", "unknown field"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
