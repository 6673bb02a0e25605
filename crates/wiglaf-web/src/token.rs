//! Who may see the page: whoever has the token, which lies in a file that only its user reads, or a session that began with
//! it.

use std::fs::{self, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use ring::hmac;
use ring::rand::SystemRandom;
use rustix::process::geteuid;
use wiglaf_base::{Error, Result, random};

/// Hexadecimal digits of a token or a session.
const LEN: usize = 64;
/// Sessions at once; the oldest ends when one more begins.
const SESSIONS_MAX: usize = 32;

/// A token of the file, which is made where there is none, or anew.
///
/// # Errors
/// When the file cannot be read or made, is somebody else's, or others may read it.
pub fn of_file(path: &Path, anew: bool) -> Result<String> {
    let shown = path.display();
    let failed = |error: std::io::Error| Error::new(format!("cannot use {shown}: {error}"));
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(failed)?;
    }
    if anew
        && let Err(error) = fs::remove_file(path)
        && error.kind() != ErrorKind::NotFound
    {
        return Err(failed(error));
    }
    let no_link = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let new = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    match new {
        Ok(mut file) => {
            let token = random()?;
            file.write_all(format!("{token}\n").as_bytes()).map_err(failed)?;
            return Ok(token);
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
        Err(error) => return Err(failed(error)),
    }
    let file = OpenOptions::new().read(true).custom_flags(no_link).open(path).map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    if !about.is_file() || about.uid() != geteuid().as_raw() || about.mode() & 0o077 != 0 {
        return Err(Error::new(format!(
            "{shown} must be a file of yours that nobody else may read; run `wiglaf web --new-token`"
        )));
    }
    let mut text = String::new();
    file.take(1024).read_to_string(&mut text).map_err(failed)?;
    let token = text.trim();
    if token.len() != LEN || !token.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Err(Error::new(format!(
            "there is no token in {shown}; run `wiglaf web --new-token`"
        )));
    }
    Ok(token.to_owned())
}

fn random() -> Result<String> {
    Ok(random::key()? + &random::key()?)
}

/// Knows the token and the sessions.
pub(crate) struct Guard {
    key: hmac::Key,
    token: hmac::Tag,
    sessions: Mutex<Vec<hmac::Tag>>,
}

impl Guard {
    pub(crate) fn new(token: &str) -> Result<Self> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| Error::new("the kernel gives no random numbers"))?;
        let token = hmac::sign(&key, token.as_bytes());
        Ok(Self { key, token, sessions: Mutex::new(Vec::new()) })
    }

    /// Begins a session, where this is the token.
    pub(crate) fn begin(&self, token: &str) -> Option<String> {
        if self.is(&self.token, token) { self.begin_anyway() } else { None }
    }

    /// Begins a session of who has signed in by other means.
    pub(crate) fn begin_anyway(&self) -> Option<String> {
        let session = random().ok()?;
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if sessions.len() == SESSIONS_MAX {
            sessions.remove(0);
        }
        sessions.push(hmac::sign(&self.key, session.as_bytes()));
        Some(session)
    }

    /// Whether that session has begun.
    pub(crate) fn knows(&self, session: &str) -> bool {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().any(|known| self.is(known, session))
    }

    /// Takes as long whether it is, or nearly is, or is not.
    fn is(&self, tag: &hmac::Tag, text: &str) -> bool {
        hmac::verify(&self.key, text.as_bytes(), tag.as_ref()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_is_kept_in_a_private_file_and_no_other_file_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/token");
        let token = of_file(&path, false).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(of_file(&path, false).unwrap(), token);
        assert_ne!(of_file(&path, true).unwrap(), token);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert!(of_file(&path, false).unwrap_err().to_string().contains("--new-token"));
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &path).unwrap();
        assert!(of_file(&path, false).is_err());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "abc\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert!(of_file(&path, false).unwrap_err().to_string().contains("no token"));
    }

    #[test]
    fn sessions_begin_with_the_token_only_and_the_oldest_ends() {
        let guard = Guard::new("secret").unwrap();
        assert!(guard.begin("secre").is_none() && guard.begin("").is_none());
        let first = guard.begin("secret").unwrap();
        assert!(guard.knows(&first) && !guard.knows("secret") && !guard.knows(""));
        for _ in 0..SESSIONS_MAX {
            guard.begin("secret").unwrap();
        }
        assert!(!guard.knows(&first));
    }
}
