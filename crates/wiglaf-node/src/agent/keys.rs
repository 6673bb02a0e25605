//! The secrets of jobs, each in a file that only the job's user reads.
//!
//! Launchers of MPIs send their environment to their daemons over TCP, in the clear: so ranks have the
//! file's name there, and the secret itself from their node's init, which has it past the network.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use super::environment::JOB_LEN_MAX;

/// Hexadecimal digits of a secret.
const KEY_LEN: usize = 32;

/// A secret in its file, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct KeyFile(PathBuf);

impl KeyFile {
    /// Keeps the secret of that job for its user, in this folder.
    ///
    /// # Errors
    /// When the job's name or the secret is none of ours, the job has one already, or there is no room.
    pub(super) fn make(
        folder: &Path,
        job: &str,
        key: &str,
        uid: u32,
        gid: u32,
    ) -> io::Result<Self> {
        let is_hex = |text: &str, len| {
            (1..=len).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
        };
        if !is_hex(job, JOB_LEN_MAX) || !is_hex(key, KEY_LEN) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        DirBuilder::new().recursive(true).mode(0o711).create(folder)?;
        fs::set_permissions(folder, Permissions::from_mode(0o711))?;
        let path = folder.join(job);
        let mut file = File::options().write(true).create_new(true).mode(0o400).open(&path)?;
        let made = Self(path);
        file.write_all(key.as_bytes())?;
        fchown(&file, Some(uid), Some(gid))?;
        Ok(made)
    }
}

impl Drop for KeyFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn a_secret_is_its_users_and_goes_with_the_job() {
        let dir = tempfile::tempdir().unwrap();
        let about = fs::metadata(dir.path()).unwrap();
        let make = |job: &str, key: &str| {
            KeyFile::make(&dir.path().join("keys"), job, key, about.uid(), about.gid())
        };
        let key = "00112233445566778899aabbccddeeff";
        let kept = make("00ff", key).unwrap();
        let file = dir.path().join("keys/00ff");
        assert_eq!(fs::metadata(&file).unwrap().mode() & 0o777, 0o400);
        assert_eq!(fs::read_to_string(&file).unwrap(), key);
        assert_eq!(make("00ff", key).unwrap_err().kind(), io::ErrorKind::AlreadyExists);
        for (job, key) in
            [("../00ff", key), ("", key), ("1", "xyz"), ("1", ""), ("1", &key.repeat(2))]
        {
            assert_eq!(
                make(job, key).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{job} {key}"
            );
        }
        drop(kept);
        assert!(!file.exists());
    }
}
