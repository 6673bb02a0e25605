//! Files as an archive that kernels unpack over the initrd before it ("newc", in the kernel's
//! Documentation/driver-api/early-userspace/buffer-format.rst).

use std::io::{self, Write};

/// An archive that is being written.
pub(crate) struct Archive<W> {
    to: W,
    count: u32,
}

impl<W: Write> Archive<W> {
    /// Begins one, where so many bytes are there already; an archive begins at a multiple of four.
    pub(crate) fn behind(mut to: W, len: u64) -> io::Result<Self> {
        to.write_all(&[0; 4][..(4 - len as usize % 4) % 4])?;
        Ok(Self { to, count: 0 })
    }

    /// Adds a folder; one that is there already stays.
    pub(crate) fn folder(&mut self, path: &str) -> io::Result<()> {
        self.entry(path, 0o040_755, &[])
    }

    /// Adds a file.
    pub(crate) fn file(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.entry(path, 0o100_000 | mode, content)
    }

    /// Ends it.
    pub(crate) fn end(mut self) -> io::Result<()> {
        self.entry("TRAILER!!!", 0, &[])?;
        self.to.flush()
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) -> io::Result<()> {
        self.count += 1;
        let too_long = |_| io::Error::other(format!("{path} is too long for an initrd"));
        let len = u32::try_from(content.len()).map_err(too_long)?;
        // Number, mode, owner, group, links, time, length, four of devices, length of the name, checksum.
        let name_len = path.len() as u32 + 1;
        let fields = [self.count, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name_len, 0];
        let fields = fields.map(|field| format!("{field:08x}")).concat();
        let pad = |len: usize| &[0u8; 4][..(4 - len % 4) % 4];
        write!(self.to, "070701{fields}{path}\0")?;
        self.to.write_all(pad(110 + path.len() + 1))?;
        self.to.write_all(content)?;
        self.to.write_all(pad(content.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn archive_is_one_that_cpio_unpacks() {
        let mut bytes = b"12345".to_vec();
        let mut archive = Archive::behind(&mut bytes, 5).unwrap();
        archive.folder("a").unwrap();
        archive.file("a/script", 0o755, b"echo ok\n").unwrap();
        archive.end().unwrap();
        assert!(bytes[5..8] == [0; 3] && bytes[8..14] == *b"070701");
        let folder = tempfile::tempdir().unwrap();
        let mut unpack = Command::new("cpio");
        unpack.args(["--extract", "--quiet"]).current_dir(folder.path()).stdin(Stdio::piped());
        let Ok(mut child) = unpack.spawn() else {
            println!("skipped: there is no cpio here");
            return;
        };
        child.stdin.take().unwrap().write_all(&bytes[8..]).unwrap();
        assert!(child.wait().unwrap().success());
        let said = Command::new(folder.path().join("a/script")).output();
        // No interpreter is named, so a shell takes it.
        let text = std::fs::read(folder.path().join("a/script")).unwrap();
        assert!(text == b"echo ok\n" && said.is_err(), "{said:?}");
    }
}
