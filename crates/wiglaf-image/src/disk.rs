//! The disk of a node as a file: a partition table, boot loaders for BIOS and UEFI, and the root file system. It takes
//! no loop device and mounts nothing.
//!
//! For BIOS, GRUB's first sector and its core are put where `grub-bios-setup` puts them on a disk with a GPT (GRUB
//! manual, "BIOS installation"; the offsets are in GRUB's include/grub/offsets.h and include/grub/i386/pc/boot.h). For
//! UEFI, Debian's signed shim and GRUB are at the removable medium's path, so that no firmware must remember them.

use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::random;

use crate::outside::{command, run};
use crate::root::{TOOLS, chroot};

pub(crate) const MIB: u64 = 1 << 20;
const SECTOR: u64 = 512;
/// Where the partitions begin, in MiB: GRUB's core, the EFI system partition, the node's settings, the root.
const BIOS_AT: u64 = 1;
const ESP_AT: u64 = 2;
const ESP_LEN: u64 = 16;
/// Where a node's settings are.
pub(crate) const SETTINGS_AT: u64 = (ESP_AT + ESP_LEN) * MIB;
const ROOT_AT: u64 = ESP_AT + ESP_LEN + 1;
/// In GRUB's first sector: its code's end, the number of the core's first sector, and a jump over a check of the drive
/// that BIOS names, which `grub-bios-setup` puts there for disks.
const BOOT_CODE_LEN: usize = 440;
const KERNEL_SECTOR_AT: usize = 0x5c;
const DRIVE_CHECK_AT: usize = 0x66;
/// In the core's first sector: the number of the sector behind it.
const BLOCKLIST_AT: usize = 0x1f4;
/// What GRUB's core needs to read its settings from the root file system.
const MODULES: &[&str] = &[
    "biosdisk",
    "part_gpt",
    "ext2",
    "normal",
    "configfile",
    "search",
    "search_fs_uuid",
    "linux",
    "echo",
    "minicmd",
    "test",
    "gzio",
];
/// Of the root file system of each node.
pub(crate) const LABEL: &str = "wiglaf-node";
/// Debian's signed files for starting from the network, below the tools, and their extensions beside the image.
const SIGNED: [(&str, &str); 2] = [
    ("usr/lib/shim/shimx64.efi.signed", "shim"),
    ("usr/lib/grub/x86_64-efi-signed/grubnetx64.efi.signed", "grub"),
];
/// For the first start, before the file system gets the disk, in MiB.
const SPARE: u64 = 20;

/// Makes the image of the tree at `root`, which keeps no tools, and beside it Debian's signed files for Secure Boot.
pub(crate) fn make(root: &Path, image: &Path) -> Result<()> {
    let uuid = uuid()?;
    grub_settings(root, &uuid)?;
    let (boot, core) = grub_for_bios(root, &uuid)?;
    let esp = image.with_extension("esp");
    let made = esp_for_uefi(root, &uuid, &esp);
    let tools = root.join(TOOLS);
    for (path, extension) in SIGNED {
        let to = image.with_extension(extension);
        fs::copy(tools.join(path), &to).cannot(|| format!("write {}", to.display()))?;
    }
    fs::remove_dir_all(&tools).cannot(|| format!("remove {}", tools.display()))?;
    let done = made.and_then(|()| assemble(root, image, &uuid, &boot, &core, &esp));
    let _ = fs::remove_file(&esp);
    done
}

/// What GRUB starts, the kernel that dpkg has linked at the top or the one before it, and what that mounts.
fn grub_settings(root: &Path, uuid: &str) -> Result<()> {
    let entry = |title: &str, old: &str| {
        format!(
            "menuentry '{title}' {{\n  linux /vmlinuz{old} root=UUID={uuid} ro quiet console=ttyS0,115200n8 \
             console=tty0\n  initrd /initrd.img{old}\n}}\n"
        )
    };
    let text = format!(
        "# Written by `wiglaf image build`; /vmlinuz is what was installed last.\nset timeout=1\nset default=0\n\
         search --no-floppy --fs-uuid --set=root {uuid}\n{}{}",
        entry("Debian", ""),
        entry("Debian, the kernel before", ".old")
    );
    // Without a line here systemd leaves the file system read-only, as the kernel has mounted it.
    let mounts = format!("UUID={uuid} / ext4 errors=remount-ro 0 1\n");
    fs::write(root.join("etc/fstab"), mounts).cannot(|| "write fstab".to_owned())?;
    let folder = root.join("boot/grub");
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(folder.join("grub.cfg"), text))
        .cannot(|| "write grub.cfg".to_owned())
}

/// Loads the settings, from wherever.
fn stub(uuid: &str) -> String {
    format!(
        "search --no-floppy --fs-uuid --set=root {uuid}\nset prefix=($root)/boot/grub\nconfigfile \
         ($root)/boot/grub/grub.cfg\n"
    )
}

/// GRUB's first sector and core.
fn grub_for_bios(root: &Path, uuid: &str) -> Result<(Vec<u8>, Vec<u8>)> {
    let tools = root.join(TOOLS);
    fs::write(tools.join("core.cfg"), stub(uuid)).cannot(|| "write GRUB's settings".to_owned())?;
    let mut make = chroot(root, "env");
    make.arg(format!(
        "LD_LIBRARY_PATH=/{TOOLS}/lib/x86_64-linux-gnu:/{TOOLS}/usr/lib/x86_64-linux-gnu"
    ));
    make.arg(format!("/{TOOLS}/usr/bin/grub-mkimage"));
    make.arg(format!("--directory=/{TOOLS}/usr/lib/grub/i386-pc"));
    make.arg(format!("--output=/{TOOLS}/core.img"));
    make.arg(format!("--config=/{TOOLS}/core.cfg"));
    make.args(["--format=i386-pc", "--prefix=/boot/grub"]);
    run(make.args(MODULES), "")?;
    let read = |path: &str| fs::read(tools.join(path)).cannot(|| format!("read GRUB's {path}"));
    let (mut boot, mut core) = (read("usr/lib/grub/i386-pc/boot.img")?, read("core.img")?);
    place_grub(&mut boot, &mut core, BIOS_AT * MIB / SECTOR)?;
    Ok((boot, core))
}

/// Tells GRUB's first sector where its core is, and the core's first where the rest of it is.
fn place_grub(boot: &mut Vec<u8>, core: &mut [u8], at: u64) -> Result<()> {
    let fits = boot.len() as u64 == SECTOR
        && (SECTOR..=(ESP_AT - BIOS_AT) * MIB).contains(&(core.len() as u64));
    if !fits {
        return Err(Error::new(
            "GRUB's files for BIOS are not as this Wiglaf knows them; report it",
        ));
    }
    boot[KERNEL_SECTOR_AT..KERNEL_SECTOR_AT + 8].copy_from_slice(&at.to_le_bytes());
    boot[DRIVE_CHECK_AT..DRIVE_CHECK_AT + 2].copy_from_slice(&[0x90, 0x90]);
    boot.truncate(BOOT_CODE_LEN);
    core[BLOCKLIST_AT..BLOCKLIST_AT + 8].copy_from_slice(&(at + 1).to_le_bytes());
    Ok(())
}

fn esp_for_uefi(root: &Path, uuid: &str, esp: &Path) -> Result<()> {
    let _ = fs::remove_file(esp);
    File::create(esp)
        .and_then(|file| file.set_len(ESP_LEN * MIB))
        .cannot(|| format!("write {}", esp.display()))?;
    run(command("mkfs.fat").args(["-F", "16", "-n", "EFI"]).arg(esp), "")?;
    run(command("mmd").arg("-i").arg(esp).args(["::EFI", "::EFI/BOOT", "::EFI/debian"]), "")?;
    let tools = root.join(TOOLS);
    let settings = tools.join("grub.cfg");
    fs::write(&settings, stub(uuid)).cannot(|| "write GRUB's settings".to_owned())?;
    for (from, to) in [
        (tools.join("usr/lib/shim/shimx64.efi.signed"), "::EFI/BOOT/BOOTX64.EFI"),
        (tools.join("usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed"), "::EFI/BOOT/grubx64.efi"),
        (settings, "::EFI/debian/grub.cfg"),
    ] {
        run(command("mcopy").arg("-i").arg(esp).arg(from).arg(to), "")?;
    }
    Ok(())
}

fn assemble(
    root: &Path,
    image: &Path,
    uuid: &str,
    boot: &[u8],
    core: &[u8],
    esp: &Path,
) -> Result<()> {
    let cannot = || format!("write {}", image.display());
    let (used, files) = used(root).cannot(|| "count the image's files".to_owned())?;
    // ext4 has tables of inodes for 1 / 64 of its size, and a journal of 16 MiB.
    let root_len = (used + used / 64) / MIB + 16 + SPARE + 256 * files / MIB;
    let len = (ROOT_AT + root_len + 1) * MIB;
    let _ = fs::remove_file(image);
    File::create(image).and_then(|file| file.set_len(len)).cannot(cannot)?;
    run(command("sfdisk").arg("--quiet").arg(image), &table(root_len))?;
    let mut make = command("mke2fs");
    make.args(["-q", "-t", "ext4", "-L", LABEL, "-m", "1", "-J", "size=16", "-U", uuid]);
    make.arg("-E").arg(format!("offset={},lazy_itable_init=1", ROOT_AT * MIB));
    run(make.arg("-d").arg(root).arg(image).arg(format!("{root_len}M")), "")?;
    let mut file = File::options().write(true).open(image).cannot(cannot)?;
    let mut put = |at: u64, from: &mut dyn Read| -> io::Result<()> {
        file.seek(SeekFrom::Start(at))?;
        io::copy(from, &mut file).map(drop)
    };
    put(0, &mut &boot[..])
        .and_then(|()| put(BIOS_AT * MIB, &mut &core[..]))
        .and_then(|()| put(ESP_AT * MIB, &mut File::open(esp)?))
        .cannot(cannot)?;
    file.flush().and_then(|()| file.sync_all()).cannot(cannot)
}

/// The partition table as sfdisk reads it; `root_len` in MiB.
fn table(root_len: u64) -> String {
    let part = |at: u64, len: u64, kind: &str, name: &str| {
        let (start, size) = (at * MIB / SECTOR, len * MIB / SECTOR);
        format!("start={start}, size={size}, type={kind}, name={name}\n")
    };
    "label: gpt\n".to_owned()
        + &part(BIOS_AT, 1, "21686148-6449-6E6F-744E-656564454649", "wiglaf-bios")
        + &part(ESP_AT, ESP_LEN, "C12A7328-F81F-11D2-BA4B-00A0C93EC93B", "wiglaf-efi")
        + &part(ESP_AT + ESP_LEN, 1, "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "wiglaf-settings")
        + &part(ROOT_AT, root_len, "0FC63DAF-8483-4772-8E79-3D69D8477DE4", "wiglaf-root")
}

/// Bytes of blocks that a tree takes, and how many files it has.
fn used(root: &Path) -> io::Result<(u64, u64)> {
    let (mut bytes, mut files) = (0, 0);
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder)? {
            let entry = entry?;
            let about = entry.metadata()?;
            files += 1;
            bytes += about.size().div_ceil(4096) * 4096;
            if about.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    Ok((bytes, files))
}

/// A random UUID of version 4 (RFC 9562, 5.4).
fn uuid() -> Result<String> {
    let hex = random::key()?;
    let (a, b, c, d, e) = (&hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..]);
    Ok(format!("{a}-{b}-4{c}-a{d}-{e}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_is_one_that_sfdisk_writes_and_partitions_do_not_overlap() {
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("image");
        File::create(&image).unwrap().set_len((ROOT_AT + 100 + 1) * MIB).unwrap();
        run(command("sfdisk").arg("--quiet").arg(&image), &table(100)).unwrap();
        let dump = run(command("sfdisk").arg("--dump").arg(&image), "").unwrap();
        let parts: Vec<&str> = dump.lines().filter(|line| line.contains("start=")).collect();
        assert_eq!(parts.len(), 4, "{dump}");
        assert!(parts[2].contains(&format!("start={:>12}", SETTINGS_AT / SECTOR)), "{dump}");
        assert!(parts[3].contains("wiglaf-root"), "{dump}");
    }

    #[test]
    fn grub_is_told_where_it_lies_and_other_files_are_refused() {
        let (mut boot, mut core) = (vec![0; 512], vec![0; 2048]);
        place_grub(&mut boot, &mut core, 2048).unwrap();
        assert_eq!((boot.len(), boot[0x5c..0x64].to_vec()), (440, 2048u64.to_le_bytes().to_vec()));
        assert_eq!(core[0x1f4..0x1fc], 2049u64.to_le_bytes());
        assert!(place_grub(&mut vec![0; 511], &mut core, 2048).is_err());
        assert!(place_grub(&mut vec![0; 512], &mut vec![0; 2 << 20], 2048).is_err());
    }

    #[test]
    fn uuids_are_of_version_4_and_differ() {
        let (one, other) = (uuid().unwrap(), uuid().unwrap());
        assert!(one != other && one.len() == 36 && one.as_bytes()[14] == b'4', "{one}");
    }
}
