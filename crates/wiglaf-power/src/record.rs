//! What is kept between calls, in the user's state folder, and the log of what was asked.

use std::fs::{self, DirBuilder};
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::{machine, paths};

/// The folder; made if needed.
fn folder() -> Result<PathBuf> {
    let state = paths::user_state()
        .ok_or_else(|| Error::new("there is no folder for what is to be kept; set HOME"))?;
    let folder = state.join("wiglaf/power");
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
    made.cannot(|| format!("make the folder {}", folder.display()))?;
    Ok(folder)
}

/// Where something of that kind is kept of a BMC or host. Names were checked when the cluster file was read.
pub(crate) fn place(kind: &str, name: &str) -> Result<PathBuf> {
    Ok(folder()?.join(format!("{kind}-{name}")))
}

/// What is kept, if there is something.
pub(crate) fn recall(kind: &str, name: &str) -> Option<String> {
    let text = fs::read_to_string(place(kind, name).ok()?).ok()?;
    Some(text.trim().to_owned())
}

/// Keeps it. That it could not is found out the next time, by asking again.
pub(crate) fn keep(kind: &str, name: &str, text: &str) {
    if recall(kind, name).as_deref() == Some(text) {
        return;
    }
    if let Ok(path) = place(kind, name) {
        // Whole or not at all: another call may be reading.
        let new = path.with_added_extension(std::process::id().to_string());
        let _ = fs::write(&new, text).and_then(|()| fs::rename(&new, &path));
    }
}

/// The log.
///
/// # Errors
/// When there is no folder for it.
pub fn log_file() -> Result<PathBuf> {
    Ok(folder()?.join("log"))
}

/// Writes down what was asked, and by whom: into the log of the user, and into the machine's by `logger`.
///
/// # Errors
/// When the user's log cannot be written: then nothing is to be done.
pub fn note(what: &str) -> Result<()> {
    let uid = rustix::process::getuid().as_raw();
    let mut who =
        wiglaf_base::user::User::find(&uid.to_string()).map_or(uid.to_string(), |u| u.name);
    if let Ok(name) = std::env::var("SUDO_USER")
        && uid == 0
    {
        who = format!("{who} (for {})", name.escape_default());
    }
    let line = format!("{who} on {}: {what}", machine::name());
    let path = log_file()?;
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let seconds = now.map_or(0, |now| now.as_secs());
    fs::OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut log| log.write_all(format!("{seconds} {line}\n").as_bytes()))
        .cannot(|| format!("write the log {}", path.display()))?;
    // Without a syslog, the file is all there is.
    let _ = Command::new("logger")
        .args(["-t", "wiglaf-power", "--", &line])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    Ok(())
}
