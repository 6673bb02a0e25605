//! Users that jobs run as.

use std::ffi::CString;
use std::fs;

use crate::error::{Context, Error, Result};

/// An ordinary user of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its number.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its home.
    pub home: String,
}

/// Prefixes and names of variables that a job of another user takes over: what programs, MPIs and we
/// are told by. Whatever else root has in its environment is not for others.
const PASSED_ON_PREFIXES: [&str; 14] = [
    "WIGLAF_", "FI_", "UCX_", "OMPI_", "OPAL_", "PMIX_", "PRTE_", "MPIR_", "MPICH_", "HYDRA_",
    "I_MPI_", "OMP_", "LC_", "MPIEXEC_",
];
const PASSED_ON: [&str; 8] =
    ["PATH", "LANG", "LANGUAGE", "TERM", "TZ", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"];

/// Whether a job that root starts as another user has this variable of root's.
#[must_use]
pub fn is_passed_on(name: &str) -> bool {
    PASSED_ON.contains(&name) || PASSED_ON_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

impl User {
    /// The user with that name or number. Numbers need no entry anywhere.
    ///
    /// # Errors
    /// When there is none of that name.
    pub fn find(text: &str) -> Result<Self> {
        let passwd = fs::read_to_string("/etc/passwd").cannot(|| "read /etc/passwd".to_owned())?;
        Self::find_in(&passwd, text)
    }

    fn find_in(passwd: &str, text: &str) -> Result<Self> {
        let number = text.parse::<u32>().ok();
        let entry = |line: &str| {
            let fields: Vec<&str> = line.split(':').collect();
            let [name, _, uid, gid, _, home, ..] = fields[..] else { return None };
            let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
            (name == text || number == Some(uid)).then(|| Self {
                name: name.to_owned(),
                uid,
                gid,
                home: home.to_owned(),
            })
        };
        match (passwd.lines().find_map(entry), number) {
            (Some(user), _) => Ok(user),
            (None, Some(uid)) => {
                Ok(Self { name: uid.to_string(), uid, gid: uid, home: "/".to_owned() })
            }
            (None, None) => Err(Error::new(format!(
                "there is no user `{text}`; give a name of /etc/passwd, or a number"
            ))),
        }
    }

    /// Makes this process the user's, for good, with the user's groups and no
    /// privilege.
    ///
    /// # Errors
    /// When this process is not root's.
    pub fn become_it(&self) -> Result<()> {
        let shown = || format!("run as {}; start it as root", self.name);
        let name = CString::new(self.name.as_bytes()).cannot(shown)?;
        // SAFETY: plain calls of libc, which change all threads of the process; the name is
        // live and ends with a zero byte. Groups go first, while that is permitted.
        let done = unsafe {
            libc::initgroups(name.as_ptr(), self.gid) == 0
                && libc::setresgid(self.gid, self.gid, self.gid) == 0
                && libc::setresuid(self.uid, self.uid, self.uid) == 0
        };
        if done { Ok(()) } else { Err(std::io::Error::last_os_error()).cannot(shown) }
    }

    /// Variables that name the user.
    #[must_use]
    pub fn vars(&self) -> [(&'static str, String); 3] {
        [("HOME", self.home.clone()), ("USER", self.name.clone()), ("LOGNAME", self.name.clone())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_found_by_name_and_number() {
        let passwd = "root:x:0:0:root:/root:/bin/bash\nann:x:1000:50:Ann:/home/ann:/bin/sh\n";
        let ann = User::find_in(passwd, "ann").unwrap();
        assert_eq!((ann.uid, ann.gid, ann.home.as_str()), (1000, 50, "/home/ann"));
        assert_eq!(User::find_in(passwd, "1000").unwrap(), ann);
        assert_eq!(User::find_in(passwd, "7").unwrap().uid, 7);
        let error = User::find_in(passwd, "bob").unwrap_err().to_string();
        assert!(error.contains("no user `bob`"), "{error}");
    }
}
