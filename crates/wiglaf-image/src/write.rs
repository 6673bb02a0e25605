//! `wiglaf image write`: an image onto a disk, after every look that may refuse it.
//!
//! The first megabyte, with the partition table, is written last: a disk whose writing was cut off does not look like
//! a node's.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::Ipv4Addr;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_cluster::image::Admitted;
use wiglaf_cluster::power::Mac;

use crate::disk::{MIB, SETTINGS_AT};
use crate::hostkey::HostKey;
use crate::outside::command;

/// What is written at a time, in bytes.
const PIECE: usize = 4 << 20;
/// Longest text of a node's settings, in bytes.
const SETTINGS_LEN: usize = 4096;
/// A GPT's second sector begins so.
const GPT: &[u8] = b"EFI PART";
/// The name of the first partition of our images, in its entry of the table.
const MARK: &str = "wiglaf-bios";

/// Where a kernel shows its disks.
#[derive(Debug, Clone)]
pub struct Machine {
    proc: PathBuf,
    sys: PathBuf,
    run: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self { proc: "/proc".into(), sys: "/sys".into(), run: "/run".into() }
    }
}

/// What a node is told when it starts for the first time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct NodeSettings {
    /// Its host name; a part of its MAC address unless given.
    pub name: Option<String>,
    /// A further address, and the length of its network's prefix, of the card with that MAC address.
    pub address: Option<(Ipv4Addr, u8, Mac)>,
    /// Its ssh host key; one of its own making unless given.
    #[serde(skip)]
    pub host_key: Option<HostKey>,
}

impl NodeSettings {
    fn text(&self) -> String {
        let name = self.name.as_ref().map(|name| format!("name {name}\n"));
        let address = self.address.as_ref();
        let address =
            address.map(|(ip, prefix, mac)| format!("address {ip}/{prefix}\nmac {mac}\n"));
        let key = self.host_key.as_ref().map(|key| format!("key {}\n", key.private()));
        name.into_iter().chain(address).chain(key).collect()
    }
}

/// A disk that is to be written.
#[derive(Debug, Clone)]
pub struct Target {
    /// The disk, or a file that is one.
    pub disk: PathBuf,
    /// The serial number that it must have.
    pub serial: Option<String>,
    /// Whether a disk without a named serial number may be overwritten.
    pub wipe: bool,
}

/// A disk that has been looked at.
#[derive(Debug, Serialize)]
pub struct Checked {
    /// The disk.
    pub disk: PathBuf,
    /// Its serial number, if it says one.
    pub serial: Option<String>,
    /// Its length in bytes.
    pub bytes: u64,
    /// What it has now, a line.
    pub holds: String,
    #[serde(skip)]
    is_block: bool,
}

/// What has been written.
#[derive(Debug, Serialize)]
pub struct Written {
    /// The disk.
    pub disk: PathBuf,
    /// Bytes of the image.
    pub bytes: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

impl Target {
    /// Looks at the disk for an image of so many bytes.
    ///
    /// # Errors
    /// Why it must not be written.
    pub fn check(&self, machine: &Machine, image_len: u64) -> Result<Checked> {
        let shown = self.disk.display();
        let about = fs::metadata(&self.disk).cannot(|| format!("look at {shown}"))?;
        let is_block = about.file_type().is_block_device();
        if !is_block && !about.is_file() {
            return Err(Error::new(format!("{shown} is no disk; `lsblk` shows them")));
        }
        let mut serial = None;
        let mut holds = "what a file has".to_owned();
        if is_block {
            let number = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
            let disk = machine.disk(number).cannot(|| format!("find {shown} in sysfs"))?;
            if let Some(whole) = disk.whole {
                return Err(Error::new(format!(
                    "{shown} is a partition; name its disk, /dev/{whole}, and its serial number"
                )));
            }
            if let Some(why) = machine.user_of(&disk) {
                return Err(Error::new(format!("{shown} is in use: {why}")));
            }
            serial = machine.serial(&disk, number);
            holds = match &disk.parts[..] {
                [] => "no partitions".to_owned(),
                parts => format!("the partitions {}", parts.join(" ")),
            };
        }
        self.check_serial(serial.as_deref())?;
        let mut file = File::open(&self.disk).cannot(|| format!("open {shown}"))?;
        let bytes = file.seek(SeekFrom::End(0)).cannot(|| format!("measure {shown}"))?;
        if bytes < image_len {
            return Err(Error::new(format!(
                "{shown} has {} MB, and the image takes {}; take a larger disk",
                bytes / 1_000_000,
                image_len.div_ceil(1_000_000)
            )));
        }
        Ok(Checked { disk: self.disk.clone(), serial, bytes, holds, is_block })
    }

    fn check_serial(&self, has: Option<&str>) -> Result<()> {
        let shown = self.disk.display();
        match (&self.serial, has) {
            (Some(named), Some(has)) if named == has => Ok(()),
            (Some(named), Some(has)) => Err(Error::new(format!(
                "{shown} has the serial number {has}, not {named}; nothing was written: see `lsblk -o \
                 NAME,SIZE,SERIAL,MODEL`"
            ))),
            (Some(_), None) => Err(Error::new(format!(
                "{shown} says no serial number, so it cannot be the one that was named; `--wipe` without \
                 --serial overwrites it whichever it is"
            ))),
            (None, _) if self.wipe => Ok(()),
            (None, Some(has)) => Err(Error::new(format!(
                "{shown} would lose all that it has; name it with `--serial '{has}'` if that is the one"
            ))),
            (None, None) => Err(Error::new(format!(
                "{shown} would lose all that it has, and says no serial number; `--wipe` overwrites it"
            ))),
        }
    }
}

/// The length of an image, after a look at it.
///
/// # Errors
/// When it cannot be read or is none.
pub fn image_len(image: &Path) -> Result<u64> {
    let shown = image.display();
    let mut file = File::open(image).cannot(|| format!("open the image {shown}"))?;
    let mut head = Vec::new();
    (&mut file).take(MIB).read_to_end(&mut head).cannot(|| format!("read {shown}"))?;
    check_head(&head).map_err(|_| {
        Error::new(format!("{shown} is no image of `wiglaf image build`; make one"))
    })?;
    file.metadata().map(|about| about.len()).cannot(|| format!("look at {shown}"))
}

/// Fails for the first megabyte of something else.
fn check_head(head: &[u8]) -> Result<()> {
    let name: Vec<u8> = MARK.encode_utf16().flat_map(u16::to_le_bytes).collect();
    // A GPT's entries begin in the third sector, and a name stands 56 bytes into one.
    let at = 1024 + 56;
    let is_ours =
        head.len() as u64 == MIB && head[512..].starts_with(GPT) && head[at..].starts_with(&name);
    match is_ours {
        true => Ok(()),
        false => Err(Error::new("this is no image of `wiglaf image build`")),
    }
}

impl Checked {
    /// Writes `len` bytes of an image and a node's settings; tells `progress` how many are written. Before the first
    /// megabyte, which is the last that is written, `is_whole` says whether all has come.
    ///
    /// # Errors
    /// What failed; the disk then has no partition table.
    pub fn write(
        &self,
        image: &mut dyn Read,
        len: u64,
        settings: &NodeSettings,
        progress: &mut dyn FnMut(u64),
    ) -> Result<Written> {
        let began = std::time::Instant::now();
        let shown = self.disk.display();
        let settings = settings.text();
        if settings.len() > SETTINGS_LEN {
            return Err(Error::new("the node's settings are too long; give it a shorter name"));
        }
        let mut head = Vec::new();
        image.take(MIB).read_to_end(&mut head).cannot(|| "read the image".to_owned())?;
        check_head(&head)?;
        let mut options = File::options();
        options.write(true);
        if self.is_block {
            // The kernel refuses it for a disk that a mount or another driver holds.
            options.custom_flags(rustix::fs::OFlags::EXCL.bits().cast_signed());
        }
        let mut disk = options.open(&self.disk).map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::BUSY.raw_os_error() => Error::new(format!(
                "{shown} is in use by something that holds it; nothing was written"
            )),
            _ => Error::new(format!("cannot open {shown}: {error}")),
        })?;
        let cannot = || format!("write {shown}");
        let zeros = vec![0; MIB as usize];
        disk.write_all(&zeros).and_then(|()| disk.sync_data()).cannot(cannot)?;
        let mut done = MIB;
        let mut piece = vec![0; PIECE];
        while done < len {
            let want = piece.len().min(usize::try_from(len - done).unwrap_or(piece.len()));
            let count = image.read(&mut piece[..want]).cannot(|| "read the image".to_owned())?;
            if count == 0 {
                return Err(Error::new(format!(
                    "the image ended after {done} of {len} bytes; {shown} is empty now; write it once more"
                )));
            }
            disk.write_all(&piece[..count]).cannot(cannot)?;
            done += count as u64;
            progress(done);
        }
        // A copy of an older partition table, or the mark of a RAID.
        if self.bytes >= len + MIB {
            disk.write_all_at(&zeros, self.bytes - MIB).cannot(cannot)?;
        }
        let mut text = settings.into_bytes();
        text.resize(SETTINGS_LEN, 0);
        disk.write_all_at(&text, SETTINGS_AT)
            .and_then(|()| disk.sync_data())
            .and_then(|()| disk.write_all_at(&head, 0))
            .and_then(|()| disk.sync_all())
            .cannot(cannot)?;
        drop(disk);
        if self.is_block {
            // For who mounts it at once; a kernel that is asked again later reads it anyway.
            let _ = command("blockdev").arg("--rereadpt").arg(&self.disk).output();
        }
        Ok(Written { disk: self.disk.clone(), bytes: done, seconds: began.elapsed().as_secs_f64() })
    }
}

/// A node's settings for a name and perhaps an address in a network.
///
/// # Errors
/// When no node may be called so.
pub fn settings(
    name: Option<&str>,
    admitted: Option<&Admitted>,
    prefix: u8,
) -> Result<NodeSettings> {
    if let Some(name) = name {
        let nobody = Admitted {
            mac: Mac([2, 0, 0, 0, 0, 0]),
            disk: None,
            address: None,
            secure_boot: false,
        };
        admitted.unwrap_or(&nobody).check(name)?;
    }
    let address = admitted.and_then(|it| it.address.map(|address| (address, prefix, it.mac)));
    Ok(NodeSettings { name: name.map(str::to_owned), address, host_key: None })
}

/// A disk as sysfs shows it.
#[derive(Debug)]
struct Disk {
    folder: PathBuf,
    /// The disk of which this is a partition.
    whole: Option<String>,
    /// Its partitions.
    parts: Vec<String>,
}

impl Machine {
    fn disk(&self, (major, minor): (u32, u32)) -> io::Result<Disk> {
        let folder = self.sys.join(format!("dev/block/{major}:{minor}")).canonicalize()?;
        let name = |path: &Path| path.file_name().map(|n| n.to_string_lossy().into_owned());
        let whole = folder.join("partition").exists().then(|| folder.parent().and_then(name));
        let entries = fs::read_dir(&folder)?.flatten().map(|entry| entry.path());
        let mut parts: Vec<String> = entries
            .filter(|path| path.join("partition").exists())
            .filter_map(|p| name(&p))
            .collect();
        parts.sort();
        Ok(Disk { folder, whole: whole.flatten(), parts })
    }

    /// The serial number of a disk, by the path of its device.
    pub(crate) fn serial_of(&self, path: &Path) -> Option<String> {
        let about = fs::metadata(path).ok().filter(|about| about.file_type().is_block_device())?;
        let number = (rustix::fs::major(about.rdev()), rustix::fs::minor(about.rdev()));
        self.serial(&self.disk(number).ok()?, number)
    }

    /// Who uses a disk or a partition of it.
    fn user_of(&self, disk: &Disk) -> Option<String> {
        let read = |path: PathBuf| fs::read_to_string(path).unwrap_or_default();
        let mounts = read(self.proc.join("self/mountinfo"));
        let swaps = read(self.proc.join("swaps"));
        let folders = std::iter::once(disk.folder.clone())
            .chain(disk.parts.iter().map(|part| disk.folder.join(part)));
        for folder in folders {
            let number = read(folder.join("dev")).trim().to_owned();
            let name = folder.file_name()?.to_string_lossy().into_owned();
            let mount = mounts.lines().find_map(|line| {
                let mut fields = line.split(' ');
                (fields.nth(2)? == number).then(|| fields.nth(1).unwrap_or_default().to_owned())
            });
            if let Some(at) = mount {
                return Some(format!(
                    "{name} is mounted at {at}; unmount it, if it is the right disk"
                ));
            }
            let is_swap =
                |line: &str| line.split_whitespace().next() == Some(&format!("/dev/{name}"));
            if swaps.lines().any(is_swap) {
                return Some(format!(
                    "{name} is swap; run `swapoff /dev/{name}`, if it is the right disk"
                ));
            }
            let holder =
                fs::read_dir(folder.join("holders")).ok().and_then(|mut all| all.next()?.ok());
            if let Some(holder) = holder {
                let holder = holder.file_name().to_string_lossy().into_owned();
                return Some(format!("{holder} (LVM, RAID or encryption) is made of {name}"));
            }
        }
        None
    }

    /// The serial number: the driver's own word, SCSI's page 0x80, or what udev has asked for.
    fn serial(&self, disk: &Disk, (major, minor): (u32, u32)) -> Option<String> {
        for file in ["serial", "device/serial"] {
            let text = fs::read_to_string(disk.folder.join(file)).unwrap_or_default();
            if !text.trim().is_empty() {
                return Some(text.trim().to_owned());
            }
        }
        // Four bytes of head, then text (SPC-4, 7.8.18).
        let page = fs::read(disk.folder.join("device/vpd_pg80")).unwrap_or_default();
        let text = String::from_utf8_lossy(page.get(4..).unwrap_or_default()).trim().to_owned();
        if !text.is_empty() {
            return Some(text);
        }
        let known = self.run.join(format!("udev/data/b{major}:{minor}"));
        let known = fs::read_to_string(known).unwrap_or_default();
        let serial = known.lines().find_map(|line| line.strip_prefix("E:ID_SERIAL_SHORT="));
        serial.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty())
    }
}

#[cfg(test)]
mod tests;
