use super::*;

/// A kernel that shows a disk sda with two partitions.
fn machine(folder: &Path) -> Machine {
    let put = |path: &str, text: &str| {
        let path = folder.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    for (path, number) in [("sda", "8:0"), ("sda/sda1", "8:1"), ("sda/sda2", "8:2")] {
        put(&format!("sys/devices/{path}/dev"), &format!("{number}\n"));
        fs::create_dir_all(folder.join(format!("sys/devices/{path}/holders"))).unwrap();
        fs::create_dir_all(folder.join("sys/dev/block")).unwrap();
        let link = folder.join(format!("sys/dev/block/{number}"));
        std::os::unix::fs::symlink(format!("../../devices/{path}"), link).unwrap();
    }
    put("sys/devices/sda/sda1/partition", "1\n");
    put("sys/devices/sda/sda2/partition", "2\n");
    put("proc/self/mountinfo", "22 1 9:0 / / rw - ext4 /dev/md0 rw\n");
    put("proc/swaps", "Filename Type Size Used Priority\n");
    Machine { proc: folder.join("proc"), sys: folder.join("sys"), run: folder.join("run") }
}

#[test]
fn disk_in_use_is_refused_with_its_use() {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(folder.path());
    let disk = machine.disk((8, 0)).unwrap();
    assert_eq!(disk.parts, ["sda1", "sda2"]);
    assert_eq!(machine.disk((8, 1)).unwrap().whole.as_deref(), Some("sda"));
    assert_eq!(machine.user_of(&disk), None);

    let holder = folder.path().join("sys/devices/sda/sda2/holders/dm-0");
    fs::write(&holder, "").unwrap();
    assert!(machine.user_of(&disk).unwrap().starts_with("dm-0 (LVM"));
    fs::remove_file(holder).unwrap();
    fs::write(folder.path().join("proc/swaps"), "head\n/dev/sda1 partition 1 0 -2\n").unwrap();
    assert!(machine.user_of(&disk).unwrap().starts_with("sda1 is swap"));
    fs::write(folder.path().join("proc/self/mountinfo"), "1 1 8:2 / /home rw - ext4 x rw\n")
        .unwrap();
    fs::write(folder.path().join("proc/swaps"), "head\n").unwrap();
    assert!(machine.user_of(&disk).unwrap().starts_with("sda2 is mounted at /home"));
}

#[test]
fn serial_numbers_are_found_where_drivers_put_them() {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(folder.path());
    let disk = machine.disk((8, 0)).unwrap();
    let serial = || machine.serial(&disk, (8, 0));
    assert_eq!(serial(), None);
    let udev = folder.path().join("run/udev/data");
    fs::create_dir_all(&udev).unwrap();
    fs::write(udev.join("b8:0"), "E:ID_SERIAL=WDC_X\nE:ID_SERIAL_SHORT=WD-U\n").unwrap();
    assert_eq!(serial().as_deref(), Some("WD-U"));
    let device = folder.path().join("sys/devices/sda/device");
    fs::create_dir_all(&device).unwrap();
    fs::write(device.join("vpd_pg80"), b"\0\x80\0\x08    WD-P").unwrap();
    assert_eq!(serial().as_deref(), Some("WD-P"));
    fs::write(device.join("serial"), "S3-N  \n").unwrap();
    assert_eq!(serial().as_deref(), Some("S3-N"));
}

#[test]
fn only_the_disk_that_was_named_may_be_overwritten() {
    let target = |serial: Option<&str>, wipe| Target {
        disk: "/dev/sda".into(),
        serial: serial.map(str::to_owned),
        wipe,
    };
    let why = |target: Target, has| target.check_serial(has).unwrap_err().to_string();
    assert!(target(Some("A"), false).check_serial(Some("A")).is_ok());
    assert!(target(None, true).check_serial(None).is_ok());
    assert!(why(target(Some("A"), true), Some("B")).contains("the serial number B, not A"));
    assert!(why(target(Some("A"), true), None).contains("says no serial number"));
    assert!(why(target(None, false), Some("B")).contains("--serial 'B'"));
    assert!(why(target(None, false), None).contains("`--wipe` overwrites it"));
}

/// An image of no use but its head, of 21 MiB.
fn image() -> Vec<u8> {
    let mut image: Vec<u8> = (0..21 * MIB).map(|at| (at / 4096) as u8 ^ 0x5a).collect();
    image[512..520].copy_from_slice(GPT);
    let name: Vec<u8> = MARK.encode_utf16().flat_map(u16::to_le_bytes).collect();
    image[1080..1080 + name.len()].copy_from_slice(&name);
    image
}

#[test]
fn image_is_on_the_disk_with_the_settings_and_the_last_table_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::write(&path, vec![0xee; 23 << 20]).unwrap();
    let target = Target { disk: path.clone(), serial: None, wipe: true };
    let image = image();
    let len = image.len() as u64;
    let checked = target.check(&Machine::default(), len).unwrap();
    let settings = settings(Some("pc5"), None, 24).unwrap();
    let mut seen = 0;
    let written = checked.write(&mut &image[..], len, &settings, &mut |done| seen = done).unwrap();
    assert_eq!((written.bytes, seen), (len, len));
    let disk = fs::read(&path).unwrap();
    let at = SETTINGS_AT as usize;
    assert!(disk[..at] == image[..at] && disk[at + 4096..image.len()] == image[at + 4096..]);
    assert!(disk[at..].starts_with(b"name pc5\n\0"));
    assert!(disk[22 << 20..].iter().all(|b| *b == 0) && disk[image.len()] == 0xee);
}

#[test]
fn small_disk_is_refused_and_a_cut_image_leaves_no_partition_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    fs::write(&path, vec![0xee; 22 << 20]).unwrap();
    let target = Target { disk: path.clone(), serial: None, wipe: true };
    let error = target.check(&Machine::default(), 23 << 20).unwrap_err().to_string();
    assert!(error.contains("take a larger disk"), "{error}");
    let no_image = target.check(&Machine::default(), 1).unwrap();
    let nothing = NodeSettings::default();
    assert!(no_image.write(&mut &vec![7; 2 << 20][..], 2 << 20, &nothing, &mut |_| ()).is_err());
    assert!(fs::read(&path).unwrap().iter().all(|b| *b == 0xee), "nothing may be written");

    let image = image();
    let len = image.len() as u64;
    let checked = target.check(&Machine::default(), len).unwrap();
    let error = checked.write(&mut &image[..15 << 20], len, &nothing, &mut |_| ()).unwrap_err();
    assert!(error.to_string().contains("the image ended after"), "{error}");
    assert!(fs::read(&path).unwrap()[..1 << 20].iter().all(|b| *b == 0));
}

#[test]
fn folder_is_no_disk() {
    let folder = Target { disk: "/".into(), serial: None, wipe: true };
    let error = folder.check(&Machine::default(), 1).unwrap_err().to_string();
    assert!(error.contains("is no disk"), "{error}");
}
