//! The user, the folder that a job would start in, and files that should be equal everywhere.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use ring::digest::{Context, SHA256};
use serde::{Deserialize, Serialize};

use super::{pairs, programs};
use crate::known::Known;

/// As much of a file is hashed: facts are to be had soon.
const HASHED_LEN_MAX: u64 = 256 << 20;

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct User {
    /// By number.
    pub uid: u32,
    /// The group's number.
    pub gid: u32,
    /// By name, as the host's user database (files, LDAP, SSSD) has it.
    pub name: Known<String>,
    /// The home.
    pub home: String,
    /// Bits that new files lack.
    pub umask: Option<u32>,
}

/// A folder.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FolderSeen {
    /// Its path.
    pub path: PathBuf,
    /// What is there.
    pub is: Known<FolderId>,
}

/// What tells whether two hosts see one folder: number and time of change are the file server's.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FolderId {
    /// Its number on its device.
    pub inode: u64,
    /// When it was last changed, in nanoseconds since 1970.
    pub ctime_ns: i64,
    /// The kind of its file system, such as `nfs4` or `ext4`.
    pub kind: String,
    /// Whether this user can make files in it.
    pub writable: bool,
}

/// A file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileSeen {
    /// Its path.
    pub path: PathBuf,
    /// What is there.
    pub is: Known<FileId>,
}

/// A file's content.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct FileId {
    /// Its length in bytes.
    pub len: u64,
    /// SHA-256 of its first 256 MiB, in hexadecimal.
    pub sha256: String,
    /// Whether it can be executed.
    pub executable: bool,
}

/// The calling user.
pub(super) fn user() -> User {
    let uid = rustix::process::getuid().as_raw();
    // The program asks LDAP and SSSD, too.
    let entry = programs::output("getent", &["passwd", &uid.to_string()]).and_then(|line| {
        let fields: Vec<String> = line.trim().split(':').map(str::to_owned).collect();
        if fields.len() < 7 {
            Err(format!("user {uid} is in no user database"))
        } else {
            Ok(fields)
        }
    });
    let home = entry.as_ref().map_or_else(|_| std::env::var("HOME"), |entry| Ok(entry[5].clone()));
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let umask = pairs(&status, ':').get("Umask").and_then(|mask| u32::from_str_radix(mask, 8).ok());
    User {
        uid,
        gid: rustix::process::getgid().as_raw(),
        name: entry.map(|entry| entry[0].clone()).into(),
        home: home.unwrap_or_default(),
        umask,
    }
}

/// What is seen of a folder.
pub(super) fn folder(path: PathBuf) -> FolderSeen {
    let look = || -> Result<FolderId, String> {
        let metadata = fs::metadata(&path).map_err(|why| reason(&why))?;
        if !metadata.is_dir() {
            return Err("it is not a folder".to_owned());
        }
        let access = rustix::fs::access(&path, rustix::fs::Access::WRITE_OK);
        Ok(FolderId {
            inode: metadata.ino(),
            ctime_ns: metadata
                .ctime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.ctime_nsec()),
            kind: super::machine::kind_of(&path).unwrap_or_default(),
            writable: access.is_ok(),
        })
    };
    FolderSeen { is: look().into(), path }
}

/// What is seen of a file.
pub(super) fn file(path: PathBuf) -> FileSeen {
    let look = || -> Result<FileId, String> {
        let metadata = fs::metadata(&path).map_err(|why| reason(&why))?;
        // A named pipe would keep us waiting.
        if !metadata.is_file() {
            return Err("it is not a plain file".to_owned());
        }
        let mut file = File::open(&path).map_err(|why| reason(&why))?.take(HASHED_LEN_MAX);
        let (mut context, mut buffer) = (Context::new(&SHA256), vec![0; 256 << 10]);
        loop {
            match file.read(&mut buffer).map_err(|why| reason(&why))? {
                0 => break,
                count => context.update(&buffer[..count]),
            }
        }
        let digest = context.finish();
        Ok(FileId {
            len: metadata.len(),
            sha256: digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect(),
            executable: metadata.mode() & 0o111 != 0,
        })
    };
    FileSeen { is: look().into(), path }
}

fn reason(why: &std::io::Error) -> String {
    match why.kind() {
        std::io::ErrorKind::NotFound => "it does not exist".to_owned(),
        std::io::ErrorKind::PermissionDenied => "this user may not see it".to_owned(),
        _ => why.to_string(),
    }
}
