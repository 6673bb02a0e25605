//! Whose accounts and keys an image gets: users of this machine, with their numbers, so that these are equal on all nodes.

use std::fs;
use std::path::Path;

use serde::Serialize;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::user::User;
use wiglaf_cluster::image::Image;

/// The longest file of keys that is read, in bytes.
const KEYS_LEN_MAX: u64 = 1 << 20;

/// An account of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Account {
    /// The name.
    pub name: String,
    /// Its number here and there.
    pub uid: u32,
    /// The number of its group.
    pub gid: u32,
    /// Its home there.
    pub home: String,
    /// Whether it becomes root by sudo without a password.
    pub is_admin: bool,
    /// Public keys that let it in, a line each.
    pub keys: Vec<String>,
}

/// The accounts that a cluster file asks for. Without a word of it that of `caller`.
///
/// # Errors
/// When one does not exist here, or has no key.
pub(crate) fn accounts(image: &Image, caller: &str) -> Result<Vec<Account>> {
    let names = match image.users.is_empty() {
        true => vec![caller.to_owned()],
        false => image.users.clone(),
    };
    let account = |name: &String| {
        let user = User::find(name)?;
        let is_admin = image.admins.as_ref().is_none_or(|admins| admins.contains(name));
        let keys = keys(Path::new(&user.home));
        if keys.is_empty() {
            return Err(Error::new(format!(
                "{name} has no ssh key in {}/.ssh here, and could not log in; run `ssh-keygen` as {name}, or name \
                 other `users` in the section [image] of the cluster file",
                user.home
            )));
        }
        let User { name, uid, gid, home } = user;
        Ok(Account { name, uid, gid, home, is_admin: is_admin && uid != 0, keys })
    };
    names.iter().map(account).collect()
}

/// The public keys in a home: its own, and those that may log in to it here. Lines that are no keys are left out, so
/// that a link to a file of somebody else's gives nothing away.
fn keys(home: &Path) -> Vec<String> {
    let folder = home.join(".ssh");
    let own = fs::read_dir(&folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut files: Vec<_> =
        own.filter(|path| path.extension().is_some_and(|e| e == "pub")).collect();
    files.sort();
    files.push(folder.join("authorized_keys"));
    let mut keys: Vec<String> = Vec::new();
    for file in files {
        let is_short = fs::metadata(&file).is_ok_and(|m| m.is_file() && m.len() <= KEYS_LEN_MAX);
        let text = if is_short { fs::read_to_string(&file).unwrap_or_default() } else { continue };
        for line in text.lines().map(str::trim).filter(|line| is_key(line)) {
            if !keys.iter().any(|key| key == line) {
                keys.push(line.to_owned());
            }
        }
    }
    keys
}

/// A type, and its number in base64.
fn is_key(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let kind = words.next().unwrap_or_default();
    let base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/=".contains(&b);
    let is_kind = ["ssh-", "ecdsa-sha2-", "sk-"].iter().any(|start| kind.starts_with(start));
    is_kind && words.next().is_some_and(|key| key.starts_with("AAAA") && key.bytes().all(base64))
}

impl Account {
    /// Its line of /etc/group here, for a group of the same name and number there.
    pub(crate) fn group(&self) -> Result<String> {
        let groups = fs::read_to_string("/etc/group").cannot(|| "read /etc/group".to_owned())?;
        let entry = groups.lines().find_map(|line| {
            let mut fields = line.split(':');
            let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
            (gid.parse() == Ok(self.gid)).then(|| name.to_owned())
        });
        Ok(entry.unwrap_or_else(|| self.name.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_are_public_keys_are_taken_and_each_once() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join(".ssh");
        fs::create_dir(&folder).unwrap();
        let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBxV ann@pc1";
        fs::write(folder.join("id_ed25519.pub"), format!("{key}\n")).unwrap();
        fs::write(folder.join("id_ed25519"), "-----BEGIN OPENSSH PRIVATE KEY-----\n").unwrap();
        let others = format!("# x\n{key}\nroot:$6$secret:1:0\nssh-rsa AAAAB3Nza+/= b\nssh-rsa x\n");
        fs::write(folder.join("authorized_keys"), others).unwrap();
        assert_eq!(keys(home.path()), [key, "ssh-rsa AAAAB3Nza+/= b"]);
        assert!(keys(&home.path().join("nobody")).is_empty());
    }

    #[test]
    fn user_without_a_key_and_one_who_is_not_here_are_told() {
        let image = Image { users: vec!["daemon".to_owned()], ..Image::default() };
        let error = accounts(&image, "root").unwrap_err().to_string();
        assert!(error.starts_with("daemon has no ssh key in "), "{error}");
        let image = Image { users: vec!["nobody-of-that-name".to_owned()], ..Image::default() };
        assert!(accounts(&image, "root").is_err());
    }
}
