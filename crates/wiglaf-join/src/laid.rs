//! This build of Wiglaf below a root that does not run: that of an image.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use toml_edit::{DocumentMut, Item, Table, value};
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::image::Admitted;

use crate::host::{Content, Step};
use crate::tree::Tree;

/// Where programs of the machine's administrator are.
const PREFIX: &str = "/usr/local";

/// This build.
#[derive(Debug)]
pub struct Build {
    exe: PathBuf,
    tree: Tree,
}

impl Build {
    /// Finds what belongs to the running program.
    ///
    /// # Errors
    /// When it is neither installed nor in the folder of a whole build.
    pub fn find() -> Result<Self> {
        let exe = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
        let tree = Tree::find(&exe)?;
        Ok(Self { exe, tree })
    }

    /// The glibc that it takes.
    #[must_use]
    pub fn glibc(&self) -> Option<(u32, u32)> {
        self.tree.glibc
    }

    /// Lays all of it below `root`/usr/local, the helper and its units too.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn lay_down(&self, root: &Path) -> Result<Vec<PathBuf>> {
        let (steps, contents) = self.tree.steps(Path::new(PREFIX), true)?;
        let mut contents = contents.into_iter();
        let mut laid = Vec::new();
        for step in steps {
            let below = |path: &Path| root.join(path.strip_prefix("/").unwrap_or(path));
            let cannot = |path: &Path| format!("write {}", path.display());
            let folder = |path: &Path| -> io::Result<()> {
                path.parent().map_or(Ok(()), fs::create_dir_all)
            };
            match step {
                Step::File { path, mode, content, .. } => {
                    let to = below(&path);
                    let mut write = || -> io::Result<()> {
                        folder(&to)?;
                        let mut file = File::create(&to)?;
                        match content {
                            Content::Program => {
                                io::copy(&mut File::open(&self.exe)?, &mut file).map(drop)?;
                            }
                            Content::Sent(_) => {
                                contents.next().map_or(Ok(()), |bytes| bytes.write(&mut file))?;
                            }
                        }
                        file.flush()?;
                        fs::set_permissions(&to, fs::Permissions::from_mode(mode))
                    };
                    write().cannot(|| cannot(&to))?;
                    laid.push(to);
                }
                Step::Link { path, target } => {
                    let to = below(&path);
                    let _ = fs::remove_file(&to);
                    folder(&to).and_then(|()| symlink(target, &to)).cannot(|| cannot(&to))?;
                }
                Step::Block { .. } | Step::Folder { .. } | Step::Gone { .. } => {}
            }
        }
        Ok(laid)
    }
}

/// A cluster file's text with that PC admitted, in place of an earlier word on it; all else stays as it was written.
///
/// # Errors
/// When the file is malformed, or `image` in it no section.
pub fn admit(text: &str, path: &Path, name: &str, admitted: &Admitted) -> Result<String> {
    let shown = path.display();
    let mut document: DocumentMut = text.parse().map_err(|error: toml_edit::TomlError| {
        Error::new(format!("{shown}: {}", error.message().replace('\n', ", ")))
    })?;
    let wrong = || Error::new(format!("{shown}: [image.admit] is no section; write it as one"));
    let implicit = || {
        let mut table = Table::new();
        table.set_implicit(true);
        Item::Table(table)
    };
    let image = document.entry("image").or_insert_with(implicit);
    let image = image.as_table_like_mut().ok_or_else(wrong)?;
    let all = image.entry("admit").or_insert_with(implicit);
    let all = all.as_table_like_mut().ok_or_else(wrong)?;
    let mut entry = Table::new();
    entry.insert("mac", value(admitted.mac.to_string()));
    if let Some(disk) = &admitted.disk {
        entry.insert("disk", value(disk));
    }
    if let Some(address) = admitted.address {
        entry.insert("address", value(address.to_string()));
    }
    if admitted.secure_boot {
        entry.insert("secure_boot", value(true));
    }
    all.insert(name, Item::Table(entry));
    Ok(document.to_string())
}

/// Replaces a cluster file whole, through links, with the mode that it has.
///
/// # Errors
/// When it cannot be written; then it is as it was.
pub fn write_file(path: &Path, text: &str) -> Result<()> {
    crate::sync::write_file(path, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiglaf_cluster::hosts::Hosts;

    #[test]
    fn admitted_pc_is_in_the_file_and_comments_stay() {
        let text = "nodes = \"pc1\" # ours\n[network]\ndata = \"192.168.77.0/24\"\n";
        let path = Path::new("cluster.toml");
        let mut admitted = Admitted {
            mac: "52:54:00:0a:0b:0c".parse().unwrap(),
            disk: Some("WD-1".to_owned()),
            address: Some([192, 168, 77, 15].into()),
            secure_boot: true,
        };
        let once = admit(text, path, "pc5", &admitted).unwrap();
        assert!(once.starts_with(text), "{once}");
        admitted.disk = None;
        let twice = admit(&once, path, "pc5", &admitted).unwrap();
        let hosts = Hosts::parse(&twice, path).unwrap();
        assert_eq!(hosts.image.unwrap().admit["pc5"], admitted);
        assert!(admit("image = 1\n", path, "pc5", &admitted).is_err());
    }
}
