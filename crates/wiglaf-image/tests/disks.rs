//! Real block devices: loop devices, which take root. Without it the test is skipped.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use wiglaf_image::{Machine, NodeSettings, Target, image_len};

const MIB: usize = 1 << 20;

/// A loop device on a file. It goes away with this value.
struct Loop {
    device: PathBuf,
}

impl Loop {
    fn on(file: &Path) -> Result<Self, String> {
        let made = Command::new("losetup").args(["--find", "--show"]).arg(file).output();
        let made = made.map_err(|why| format!("losetup: {why}"))?;
        match made.status.success() {
            true => Ok(Self { device: String::from_utf8(made.stdout).unwrap().trim().into() }),
            false => Err(String::from_utf8_lossy(&made.stderr).trim().to_owned()),
        }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.device).status();
    }
}

/// An image of no use but its partition table's head.
fn image(path: &Path) {
    let mut image = vec![0x5a; 21 * MIB];
    image[512..520].copy_from_slice(b"EFI PART");
    let name: Vec<u8> = "wiglaf-bios".encode_utf16().flat_map(u16::to_le_bytes).collect();
    image[1080..1080 + name.len()].copy_from_slice(&name);
    fs::write(path, image).unwrap();
}

#[test]
fn devices_in_use_are_refused_and_a_free_one_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (backing, at) = (folder.path().join("backing"), folder.path().join("at"));
    fs::create_dir(&at).unwrap();
    File::create(&backing).unwrap().set_len(24 * MIB as u64).unwrap();
    let made = Command::new("mke2fs").args(["-q", "-F", "-t", "ext4"]).arg(&backing).status();
    assert!(made.is_ok_and(|status| status.success()));
    let file = folder.path().join("node.img");
    image(&file);
    let len = image_len(&file).unwrap();
    let device = match Loop::on(&backing) {
        Ok(device) => device,
        Err(why) => return println!("skipped: no loop device ({why})"),
    };
    let target = Target { disk: device.device.clone(), serial: None, wipe: true };
    let write = || {
        let checked = target.check(&Machine::default(), len).map_err(|error| error.to_string())?;
        let mut image = File::open(&file).unwrap();
        let settings = NodeSettings { name: Some("pc5".to_owned()), ..NodeSettings::default() };
        checked.write(&mut image, len, &settings, &mut |_| ()).map_err(|error| error.to_string())
    };

    // Only the kernel knows of this mount.
    let mut holder = Command::new("unshare");
    holder.args(["--mount", "--propagation", "private", "sh", "-c"]);
    holder.arg("mount \"$1\" \"$2\" && echo mounted && read -r end").arg("sh");
    holder.arg(&device.device).arg(&at).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut holder = holder.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let hidden = (line == "mounted\n").then(&write);
    // This one everybody sees, and this process too.
    let seen = Command::new("mount").arg(&device.device).arg(&at).status().unwrap().success();
    let shown = seen.then(&write);
    if seen {
        assert!(Command::new("umount").arg(&at).status().unwrap().success());
    }
    holder.stdin.take().unwrap().write_all(b"end\n").unwrap();
    holder.wait().unwrap();
    let (Some(hidden), Some(shown)) = (hidden, shown) else {
        return println!("skipped: nothing may be mounted here");
    };
    let (hidden, shown) = (hidden.unwrap_err(), shown.unwrap_err());
    assert!(
        hidden.contains("is in use by something that holds it; nothing was written"),
        "{hidden}"
    );
    assert!(shown.contains(&format!("is mounted at {}", at.display())), "{shown}");
    let magic = |path: &Path| fs::read(path).unwrap()[1080..1082].to_vec();
    assert_eq!(magic(&backing), [0x53, 0xef], "the file system must be as it was");

    let unnamed = Target { wipe: false, ..target.clone() };
    let error = unnamed.check(&Machine::default(), len).unwrap_err().to_string();
    assert!(error.contains("`--wipe` overwrites it"), "{error}");
    let large = target.check(&Machine::default(), 25 * MIB as u64).unwrap_err().to_string();
    assert!(large.contains("take a larger disk"), "{large}");
    write().unwrap();
    drop(device);
    let disk = fs::read(&backing).unwrap();
    assert!(disk[512..520] == *b"EFI PART" && disk[18 * MIB..].starts_with(b"name pc5\n\0"));
}
