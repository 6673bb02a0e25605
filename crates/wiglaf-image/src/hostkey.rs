//! The ssh host key of a node, made by the installer on that node: the private half goes to its disk alone, the public half
//! to the server, so that the first connection to it needs no fingerprint compared by hand.

use std::fmt;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{Ed25519KeyPair, KeyPair};
use wiglaf_base::error::{Error, Result};

const KIND: &str = "ssh-ed25519";
/// The public half of such a key begins so and has that length, in base64.
const PUBLIC_START: &str = "AAAAC3NzaC1lZDI1NTE5AAAAI";
const PUBLIC_LEN: usize = 68;
/// The first bytes of a private key (OpenSSH, PROTOCOL.key).
const MAGIC: &[u8] = b"openssh-key-v1\0";
/// A cipher's block where nothing is encrypted, in bytes.
const BLOCK: usize = 8;

/// A key with both halves.
#[derive(Clone, PartialEq, Eq)]
pub struct HostKey {
    private: String,
    public: String,
}

impl fmt::Debug for HostKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostKey({})", self.public)
    }
}

impl HostKey {
    /// A new one.
    ///
    /// # Errors
    /// When the kernel gives no random bytes.
    pub(crate) fn new() -> Result<Self> {
        let failed = || Error::new("cannot make an ssh host key: the kernel gives no random bytes");
        let (mut seed, mut check) = ([0; 32], [0; 4]);
        let random = SystemRandom::new();
        random.fill(&mut seed).and_then(|()| random.fill(&mut check)).map_err(|_| failed())?;
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|_| failed())?;
        let point = pair.public_key().as_ref();
        let mut public = Vec::new();
        string(&mut public, KIND.as_bytes());
        string(&mut public, point);
        // Twice the same number, the public half, both halves, a comment, and 1, 2, 3 up to a whole block.
        let mut secret = [check, check].concat();
        secret.extend(&public);
        string(&mut secret, &[&seed[..], point].concat());
        string(&mut secret, b"");
        let padding = (BLOCK - secret.len() % BLOCK) % BLOCK;
        secret.extend((1..).take(padding));
        let mut private = MAGIC.to_vec();
        string(&mut private, b"none");
        string(&mut private, b"none");
        string(&mut private, b"");
        private.extend(1u32.to_be_bytes());
        string(&mut private, &public);
        string(&mut private, &secret);
        Ok(Self { private: base64(&private), public: base64(&public) })
    }

    /// The private half as OpenSSH keeps it, in base64 without line breaks, head or foot.
    pub(crate) fn private(&self) -> &str {
        &self.private
    }

    /// The public half, in base64.
    pub(crate) fn public(&self) -> &str {
        &self.public
    }
}

/// Whether that is the public half of such a key.
pub(crate) fn is_public(text: &str) -> bool {
    let base64 = |b: u8| b.is_ascii_alphanumeric() || b"+/".contains(&b);
    text.len() == PUBLIC_LEN && text.starts_with(PUBLIC_START) && text.bytes().all(base64)
}

/// A public half as a line of ssh's known_hosts, for those names.
pub(crate) fn known_hosts(names: &[&str], public: &str) -> String {
    format!("{} {KIND} {public}\n", names.join(","))
}

/// Bytes with their length in front (RFC 4251, 5).
fn string(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend(bytes);
}

/// RFC 4648, 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let at = |index: usize| u32::from(part.get(index).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for place in 0..4 {
            match place <= part.len() {
                true => text.push(char::from(ALPHABET[(bits >> (18 - 6 * place)) as usize & 63])),
                false => text.push('='),
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn base64_is_as_others_write_it() {
        let all = ["", "f", "fo", "foo", "foob", "fooba", "foobar"];
        let wanted = ["", "Zg==", "Zm8=", "Zm9v", "Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"];
        assert_eq!(all.map(|text| base64(text.as_bytes())), wanted);
    }

    #[test]
    fn host_key_is_one_that_openssh_reads_and_each_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("key");
        let (key, other) = (HostKey::new().unwrap(), HostKey::new().unwrap());
        assert_ne!(key, other);
        assert!(is_public(key.public()), "{}", key.public());
        assert!(!format!("{key:?}").contains(key.private()));
        let text = format!(
            "-----BEGIN OPENSSH PRIVATE KEY-----\n{}\n-----END OPENSSH PRIVATE KEY-----\n",
            key.private()
        );
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
        let said = Command::new("ssh-keygen").arg("-y").arg("-f").arg(&file).output().unwrap();
        let said = String::from_utf8(said.stdout).unwrap();
        assert_eq!(said.trim(), format!("ssh-ed25519 {}", key.public()));
    }

    #[test]
    fn what_is_no_public_key_is_refused() {
        let key = HostKey::new().unwrap();
        assert!(!is_public(""));
        assert!(!is_public(&key.public().replace("AAAAC3", "AAAAB3")));
        assert!(!is_public(&format!("{}\n", &key.public()[..67])));
        assert!(!is_public(key.private()));
    }
}
