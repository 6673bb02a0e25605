//! Passwords: from files that only their owner reads, to programs by files that only we read.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_node::ssh::runtime_dir;

/// Longer ones are no BMC's.
const LEN_MAX: u64 = 256;

/// The password in that file: its first line.
///
/// # Errors
/// When others may read the file, or it holds none.
pub(crate) fn read(path: &Path) -> Result<String> {
    let shown = path.display();
    let file = File::open(path).cannot(|| format!("read the password in {shown}"))?;
    let about = file.metadata().cannot(|| format!("look at {shown}"))?;
    if !about.is_file() || about.uid() != rustix::process::geteuid().as_raw() {
        return Err(Error::new(format!(
            "the password file {shown} is not yours; have one of your own, of mode 0600"
        )));
    }
    if about.mode() & 0o077 != 0 {
        return Err(Error::new(format!(
            "others may read or change the password file {shown}; run `chmod 600 {shown}`, and change the \
             password if others have read it"
        )));
    }
    let mut text = String::new();
    file.take(LEN_MAX).read_to_string(&mut text).cannot(|| format!("read {shown}"))?;
    let line = text.lines().next().unwrap_or_default();
    match !line.is_empty() && line.chars().all(|c| !c.is_control()) {
        true => Ok(line.to_owned()),
        false => Err(Error::new(format!("there is no password in the first line of {shown}"))),
    }
}

/// A file that only this user reads, for as long as this value lives.
#[derive(Debug)]
pub(crate) struct Lent(PathBuf);

impl Lent {
    pub(crate) fn new(text: &str) -> Result<Self> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = runtime_dir()?.join(format!("power-{}-{number}", std::process::id()));
        let _ = fs::remove_file(&path);
        let file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        let lent = Self(path);
        file.and_then(|mut file| file.write_all(text.as_bytes()))
            .cannot(|| format!("write {}", lent.0.display()))?;
        Ok(lent)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn password_files_that_others_read_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p");
        fs::write(&path, "s#cret word\nnext\n").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(read(&path).unwrap(), "s#cret word");
        for mode in [0o640, 0o604, 0o620] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert!(read(&path).unwrap_err().to_string().contains("chmod 600"), "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, "\n").unwrap();
        assert!(read(&path).is_err());
        assert!(read(folder.path()).is_err());
    }

    #[test]
    fn lent_file_is_private_and_gone_afterwards() {
        let lent = Lent::new("x").unwrap();
        let path = lent.path().to_path_buf();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        drop(lent);
        assert!(!path.exists());
    }
}
