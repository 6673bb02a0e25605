//! The socket that the helper listens at: one of its own making, or one that systemd keeps for it
//! and hands to it as standard input (`StandardInput=socket`, systemd.exec(5)). That one is there
//! also while one helper has ended and the next is on its way: who asks then, waits.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketType, sockopt};

/// The socket that was given, or one at `path`, and where it is.
///
/// # Errors
/// A sentence.
pub(crate) fn listen(path: &Path) -> Result<(UnixListener, PathBuf), String> {
    match given(&io::stdin()) {
        Some(given) => Ok(given),
        None => Ok((make(path)?, path.to_owned())),
    }
}

/// A descriptor that is a Unix socket that listens. Nothing else is taken for one.
fn given(descriptor: &impl AsFd) -> Option<(UnixListener, PathBuf)> {
    let is_one = sockopt::socket_domain(descriptor) == Ok(AddressFamily::UNIX)
        && sockopt::socket_type(descriptor) == Ok(SocketType::STREAM)
        && sockopt::socket_acceptconn(descriptor) == Ok(true);
    if !is_one {
        return None;
    }
    let listener = UnixListener::from(descriptor.as_fd().try_clone_to_owned().ok()?);
    // systemd's own do not wait.
    listener.set_nonblocking(false).ok()?;
    let path = listener.local_addr().ok()?.as_pathname()?.to_owned();
    Some((listener, path))
}

fn make(path: &Path) -> Result<UnixListener, String> {
    let shown = path.display();
    let fail = |error: io::Error| format!("cannot listen at {shown}: {error}");
    // Users go through the folder, whatever root's shell has for a umask.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    if let Some(folder) = path.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o755).create(folder).map_err(fail)?;
    }
    if UnixStream::connect(path).is_ok() {
        return Err(format!("another helper listens at {shown}"));
    }
    // Made beside its place: nobody who asks meanwhile finds none, or one that is not open to all yet.
    let new = path.with_extension("new");
    let _ = fs::remove_file(&new);
    let listener = UnixListener::bind(&new).map_err(fail)?;
    // Everybody may ask; the policy decides.
    fs::set_permissions(&new, fs::Permissions::from_mode(0o666)).map_err(fail)?;
    fs::rename(&new, path).map_err(fail)?;
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixDatagram;

    use super::*;

    #[test]
    fn only_a_unix_socket_that_listens_is_taken_for_the_one_to_serve() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("socket");
        let listener = UnixListener::bind(&path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let (taken, at) = given(&listener).unwrap();
        let asks = UnixStream::connect(&at).unwrap();
        taken.accept().unwrap();
        listener.set_nonblocking(true).unwrap();
        assert!(listener.accept().is_err(), "it was the same");
        assert!(given(&asks).is_none(), "it is connected");
        assert!(given(&UnixDatagram::unbound().unwrap()).is_none());
        assert!(given(&std::net::TcpListener::bind("127.0.0.1:0").unwrap()).is_none());
        assert!(given(&fs::File::open("/dev/null").unwrap()).is_none());
    }

    #[test]
    fn one_that_is_made_is_where_it_was_wanted_and_no_other_takes_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("of/its/own/socket");
        let _listener = make(&path).unwrap();
        UnixStream::connect(&path).unwrap();
        assert!(make(&path).unwrap_err().starts_with("another helper listens at "));
    }
}
