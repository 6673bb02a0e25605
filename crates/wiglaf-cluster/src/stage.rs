//! Jobs without a shared folder: the program and its inputs are copied to each host's own disk, and results
//! are brought back.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::{program, random};
use wiglaf_node::client::{NodeCommand, null};

use crate::cluster::{self, Member};

/// Makes a folder for its user alone, and a file in it of what it reads.
const PUT: &str = "umask 077; mkdir -p -- \"$1\" && cat > \"$1/$2\" && chmod \"$3\" \"$1/$2\"";

/// Files of a job on the disks of its hosts. They go when this is dropped.
#[derive(Debug)]
pub struct Staged {
    members: Vec<Member>,
    folder: PathBuf,
    program: String,
}

impl Staged {
    /// Copies a program and its inputs to a folder of that job on each host, which has the same path on
    /// all. `on_file` is told what is copied.
    ///
    /// # Errors
    /// When a file is not here, two have one name, hosts have different scratch folders, or a disk is full;
    /// then nothing is left.
    pub fn put(
        members: Vec<Member>,
        name: &Path,
        inputs: &[PathBuf],
        on_file: &dyn Fn(&Path),
    ) -> Result<Self> {
        let found =
            program::find_program(name).ok_or_else(|| program::no_program(name.as_os_str()))?;
        let scratch = members.first().map(|member| member.scratch.clone());
        let scratch = scratch.ok_or_else(|| Error::new("there are no hosts"))?;
        if let Some(other) = members.iter().find(|member| member.scratch != scratch) {
            return Err(Error::new(format!(
                "{} and {} have different scratch folders, and a job needs one path on all hosts; name \
                 one as `scratch` in the cluster file",
                members[0].name(),
                other.name()
            )));
        }
        let folder = scratch.join(format!("wiglaf-stage-{:016x}", random::nonzero()?));
        let mut files = vec![found.clone()];
        files.extend(inputs.iter().cloned());
        let mut names: Vec<String> = Vec::new();
        for file in &files {
            let name =
                file.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_owned();
            if !file.is_file() {
                return Err(Error::new(format!(
                    "{} is no file to copy to the hosts",
                    file.display()
                )));
            }
            if name.is_empty() || names.contains(&name) {
                return Err(Error::new(format!(
                    "two files to copy are called `{name}`; they would be one on the hosts"
                )));
            }
            names.push(name);
        }
        let staged = Self { members, folder, program: names[0].clone() };
        for (file, name) in files.iter().zip(&names) {
            on_file(file);
            let copied =
                cluster::ask_all(&staged.members, |member| staged.put_on(member, file, name));
            cluster::all_or_error(&staged.members, copied)?;
        }
        Ok(staged)
    }

    fn put_on(&self, member: &Member, file: &Path, name: &str) -> Result<()> {
        let cannot = || format!("read {}", file.display());
        let opened = File::open(file).cannot(cannot)?;
        let mode = opened.metadata().cannot(cannot)?.permissions().mode() & 0o777;
        let mode = format!("{mode:o}");
        let words = ["sh", "-c", PUT, "sh"].map(std::ffi::OsStr::new);
        let argv = words.into_iter().chain([self.folder.as_os_str(), name.as_ref(), mode.as_ref()]);
        let command = NodeCommand::new(argv).cwd("/");
        member.node.run(&command, opened.into(), &mut std::io::sink()).map_err(|why| {
            Error::new(format!("cannot copy {} to {}: {why}", file.display(), member.name()))
        })
    }

    /// The folder on the hosts, where the job is to start.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The program there, as it is called in that folder.
    #[must_use]
    pub fn program(&self) -> PathBuf {
        Path::new(".").join(&self.program)
    }

    /// Brings a result of the job to a folder here: one file where one host has it or all have the same,
    /// else one a host, with its name behind. Says what it wrote.
    ///
    /// # Errors
    /// When no host has it, or it cannot be written.
    pub fn fetch(&self, name: &str, to: &Path) -> Result<Vec<PathBuf>> {
        if name.is_empty() || name.contains('/') || name == ".." {
            return Err(Error::new(format!("`{name}` is no file of the job's folder")));
        }
        let from = self.folder.join(name);
        let wanted = std::slice::from_ref(&from);
        let seen =
            cluster::ask_all(&self.members, |member| Ok(member.node.look(wanted)?.pop().flatten()));
        let seen = cluster::all_or_error(&self.members, seen)?;
        let there: Vec<(&Member, &wiglaf_node::proto::Seen)> = self
            .members
            .iter()
            .zip(&seen)
            .filter_map(|(member, seen)| Some((member, seen.as_ref()?)))
            .collect();
        let Some((_, first)) = there.first() else {
            return Err(Error::new(format!(
                "no host has a result `{name}`; did the program write it?"
            )));
        };
        let is_one = there.iter().all(|(_, seen)| {
            seen.digest.is_some() && (seen.len, seen.digest) == (first.len, first.digest)
        });
        let mut written = Vec::new();
        for (member, _) in there.iter().take(if is_one { 1 } else { there.len() }) {
            let own = if is_one { name.to_owned() } else { format!("{name}.{}", member.name()) };
            let path = to.join(own);
            let mut file = File::create(&path).cannot(|| format!("write {}", path.display()))?;
            let argv = ["cat".as_ref(), "--".as_ref(), from.as_os_str()];
            member.node.run(&NodeCommand::new(argv).cwd("/"), null()?, &mut file).map_err(
                |why| Error::new(format!("cannot bring {name} from {}: {why}", member.name())),
            )?;
            written.push(path);
        }
        Ok(written)
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        let folder = self.folder.as_os_str();
        let _ = cluster::ask_all(&self.members, |member| {
            let argv = ["rm".as_ref(), "-rf".as_ref(), "--".as_ref(), folder];
            member.node.run(&NodeCommand::new(argv).cwd("/"), null()?, &mut std::io::sink())
        });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use wiglaf_node::{Node, Place};

    fn member(name: &str, scratch: &str) -> Member {
        let place = Place::Emulated { folder: PathBuf::from("/nonexistent"), cluster: None };
        Member {
            node: Node::new(name, place),
            address: None,
            core: None,
            slots: None,
            scratch: PathBuf::from(scratch),
            exports: Vec::new(),
        }
    }

    #[test]
    fn what_cannot_be_staged_is_refused_before_any_host_is_asked() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("sh"), "x").unwrap();
        let put = |members, inputs: &[PathBuf]| {
            Staged::put(members, Path::new("/bin/sh"), inputs, &|_| ()).unwrap_err().to_string()
        };
        let two = vec![member("pc1", "/scratch"), member("pc2", "/data")];
        assert!(put(two, &[]).contains("different scratch folders"));
        let one = || vec![member("pc1", "/scratch")];
        assert!(put(one(), &[dir.path().join("none")]).contains("is no file"));
        assert!(put(one(), &[dir.path().join("sh")]).contains("are called `sh`"));
    }
}
