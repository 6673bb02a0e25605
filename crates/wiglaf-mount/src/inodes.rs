//! The kernel's numbers of files and where they lie: a tree of names, so that
//! renaming a folder renames all below it.
//!
//! A number stands for one name as long as the kernel refers to it. What is
//! found at a name must be the file that was found there first, by the file
//! system, number and type that its own node knows it by; otherwise somebody has
//! replaced it, and the number stands for a file without a name.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

use wiglaf_files::Attributes;

/// The root's number.
pub(crate) const ROOT: u64 = 1;

/// What makes a file the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    dev: u64,
    ino: u64,
    kind: u32,
}

impl From<&Attributes> for Identity {
    fn from(found: &Attributes) -> Self {
        Self { dev: found.dev, ino: found.ino, kind: found.mode & libc::S_IFMT }
    }
}

#[derive(Debug)]
struct Inode {
    parent: u64,
    name: OsString,
    /// The root has none: its server knows what it is.
    identity: Option<Identity>,
    /// When it was last asked for that was found to be this file.
    checked: Instant,
    /// How often the kernel was told of it.
    lookups: u64,
    /// Inodes whose parent it is.
    children: u64,
    /// It has lost its name.
    is_nameless: bool,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Inodes {
    inodes: HashMap<u64, Inode>,
    names: HashMap<(u64, OsString), u64>,
    next: u64,
}

impl Inodes {
    /// `root` is the absolute path of the folder that is mounted.
    pub(crate) fn new(root: &OsStr) -> Self {
        let inode = Inode {
            parent: ROOT,
            name: root.to_owned(),
            identity: None,
            checked: Instant::now(),
            lookups: 1,
            children: 0,
            is_nameless: false,
        };
        Self { inodes: HashMap::from([(ROOT, inode)]), names: HashMap::new(), next: ROOT + 1 }
    }

    /// Where a file lies; nothing if it has no name any more.
    pub(crate) fn path(&self, ino: u64) -> Option<OsString> {
        let mut components = Vec::new();
        let mut at = ino;
        loop {
            let inode = self.inodes.get(&at).filter(|inode| !inode.is_nameless)?;
            components.push(inode.name.as_bytes());
            if at == ROOT {
                break;
            }
            at = inode.parent;
        }
        components.reverse();
        Some(OsString::from_vec(components.join(&b'/')))
    }

    /// The path of a name in a folder.
    pub(crate) fn path_in(&self, parent: u64, name: &OsStr) -> Option<OsString> {
        let mut path = self.path(parent)?;
        path.push("/");
        path.push(name);
        Some(path)
    }

    /// The number of what was found at a name that was asked for at `asked`; the kernel refers to it
    /// once more.
    pub(crate) fn found(
        &mut self,
        (parent, name): (u64, &OsStr),
        identity: Identity,
        asked: Instant,
    ) -> u64 {
        let key = (parent, name.to_owned());
        if let Some(ino) = self.names.get(&key)
            && let Some(inode) = self.inodes.get_mut(ino)
            && inode.identity == Some(identity)
        {
            inode.lookups += 1;
            inode.checked = inode.checked.max(asked);
            return *ino;
        }
        self.lose(parent, name);
        let ino = self.next;
        self.next += 1;
        let inode = Inode {
            parent,
            name: name.to_owned(),
            identity: Some(identity),
            checked: asked,
            lookups: 1,
            children: 0,
            is_nameless: false,
        };
        self.inodes.insert(ino, inode);
        self.names.insert(key, ino);
        if let Some(parent) = self.inodes.get_mut(&parent) {
            parent.children += 1;
        }
        ino
    }

    /// Whether what was asked for at `asked` is the file that the number stands for.
    pub(crate) fn is(&mut self, ino: u64, identity: Identity, asked: Instant) -> bool {
        let known = self.inodes.get_mut(&ino).filter(|inode| inode.identity == Some(identity));
        if let Some(inode) = known {
            inode.checked = inode.checked.max(asked);
            return true;
        }
        ino == ROOT
    }

    /// Whether that was found out within `limit`.
    pub(crate) fn is_known_of_late(&self, ino: u64, limit: Duration) -> bool {
        ino == ROOT || self.inodes.get(&ino).is_some_and(|inode| inode.checked.elapsed() < limit)
    }

    /// The file system that a number's file lies on; nothing if that is not known.
    pub(crate) fn dev(&self, ino: u64) -> Option<u64> {
        self.inodes.get(&ino)?.identity.map(|identity| identity.dev)
    }

    /// The kernel refers to a number so many times less.
    pub(crate) fn forget(&mut self, ino: u64, lookups: u64) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(lookups);
        }
        self.drop_unused(ino);
    }

    fn drop_unused(&mut self, mut ino: u64) {
        while ino != ROOT
            && let Some(inode) = self.inodes.get(&ino)
            && inode.lookups == 0
            && inode.children == 0
        {
            let Some(inode) = self.inodes.remove(&ino) else { return };
            if !inode.is_nameless {
                self.names.remove(&(inode.parent, inode.name));
            }
            if let Some(parent) = self.inodes.get_mut(&inode.parent) {
                parent.children -= 1;
            }
            ino = inode.parent;
        }
    }

    /// A name has gone; who has it open keeps the file.
    pub(crate) fn lose(&mut self, parent: u64, name: &OsStr) {
        let Some(ino) = self.names.remove(&(parent, name.to_owned())) else { return };
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.is_nameless = true;
        }
    }

    /// The name of this number is another file's now.
    pub(crate) fn lose_name_of(&mut self, ino: u64) {
        let Some(inode) = self.inodes.get_mut(&ino).filter(|inode| !inode.is_nameless) else {
            return;
        };
        inode.is_nameless = true;
        self.names.remove(&(inode.parent, inode.name.clone()));
    }

    /// A file has another name; what had that before has none.
    pub(crate) fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr)) {
        let moved = self.names.remove(&(from.0, from.1.to_owned()));
        self.lose(to.0, to.1);
        self.place(moved, to);
    }

    /// Two files have changed names.
    pub(crate) fn exchange(&mut self, one: (u64, &OsStr), other: (u64, &OsStr)) {
        let first = self.names.remove(&(one.0, one.1.to_owned()));
        let second = self.names.remove(&(other.0, other.1.to_owned()));
        self.place(first, other);
        self.place(second, one);
    }

    fn place(&mut self, ino: Option<u64>, (parent, name): (u64, &OsStr)) {
        let Some(ino) = ino else { return };
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        let old = std::mem::replace(&mut inode.parent, parent);
        inode.name = name.to_owned();
        self.names.insert((parent, name.to_owned()), ino);
        if let Some(parent) = self.inodes.get_mut(&parent) {
            parent.children += 1;
        }
        if let Some(old) = self.inodes.get_mut(&old) {
            old.children -= 1;
        }
        self.drop_unused(old);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(ino: u64) -> Identity {
        Identity { dev: 1, ino, kind: libc::S_IFREG }
    }

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    fn found(inodes: &mut Inodes, at: (u64, &OsStr), identity: Identity) -> u64 {
        inodes.found(at, identity, Instant::now())
    }

    fn path(inodes: &Inodes, ino: u64) -> Option<String> {
        inodes.path(ino).map(|path| path.into_string().unwrap())
    }

    #[test]
    fn a_number_follows_its_file() {
        let mut inodes = Inodes::new(name("/scratch"));
        let a = found(&mut inodes, (ROOT, name("a")), file(10));
        let b = found(&mut inodes, (a, name("b")), file(11));
        assert_eq!(path(&inodes, b).unwrap(), "/scratch/a/b");
        assert_eq!(found(&mut inodes, (a, name("b")), file(11)), b);
        inodes.rename((ROOT, name("a")), (ROOT, name("c")));
        assert_eq!(path(&inodes, b).unwrap(), "/scratch/c/b");
        let d = found(&mut inodes, (ROOT, name("d")), file(12));
        inodes.exchange((ROOT, name("d")), (a, name("b")));
        assert_eq!(path(&inodes, b).unwrap(), "/scratch/d");
        assert_eq!(path(&inodes, d).unwrap(), "/scratch/c/b");
    }

    #[test]
    fn what_was_replaced_has_no_name() {
        let mut inodes = Inodes::new(name("/s"));
        let old = found(&mut inodes, (ROOT, name("a")), file(10));
        let new = found(&mut inodes, (ROOT, name("a")), file(11));
        assert_ne!(old, new);
        assert_eq!((path(&inodes, old), path(&inodes, new)), (None, Some("/s/a".into())));
        let other = found(&mut inodes, (ROOT, name("b")), file(12));
        inodes.rename((ROOT, name("b")), (ROOT, name("a")));
        assert_eq!((path(&inodes, new), path(&inodes, other)), (None, Some("/s/a".into())));
        let now = Instant::now();
        assert!(inodes.is(other, file(12), now) && !inodes.is(other, file(10), now));
        assert!(!inodes.is(other, Identity { dev: 2, ..file(12) }, now));
    }

    #[test]
    fn what_was_found_is_believed_for_a_while() {
        let mut inodes = Inodes::new(name("/s"));
        let long_ago = Instant::now() - Duration::from_secs(100);
        let a = inodes.found((ROOT, name("a")), file(10), long_ago);
        let limit = Duration::from_secs(50);
        assert!(!inodes.is_known_of_late(a, limit));
        assert!(!inodes.is(a, file(11), Instant::now()) && !inodes.is_known_of_late(a, limit));
        assert!(inodes.is(a, file(10), Instant::now()) && inodes.is_known_of_late(a, limit));
        // An answer that comes late says nothing of the present, nor takes anything back.
        assert!(inodes.is(a, file(10), long_ago) && inodes.is_known_of_late(a, limit));
        let b = inodes.found((ROOT, name("b")), file(12), long_ago);
        inodes.found((ROOT, name("b")), file(12), Instant::now());
        assert!(inodes.is_known_of_late(b, limit) && inodes.is_known_of_late(ROOT, Duration::ZERO));
    }

    #[test]
    fn what_the_kernel_forgets_is_forgotten() {
        let mut inodes = Inodes::new(name("/s"));
        let a = found(&mut inodes, (ROOT, name("a")), file(10));
        let b = found(&mut inodes, (a, name("b")), file(11));
        found(&mut inodes, (a, name("b")), file(11));
        // A folder stays while something in it is referred to.
        inodes.forget(a, 1);
        inodes.forget(b, 1);
        assert_eq!(path(&inodes, b).unwrap(), "/s/a/b");
        inodes.lose(a, name("b"));
        inodes.forget(b, 1);
        assert_eq!((inodes.inodes.len(), inodes.names.len()), (1, 0));
        inodes.forget(ROOT, 1);
        assert_eq!(path(&inodes, ROOT).unwrap(), "/s");
    }
}
