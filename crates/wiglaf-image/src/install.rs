//! `wiglaf image install`: on a PC that has started from the network, the image onto the one disk whose serial number
//! the server names.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};

use crate::hostkey::HostKey;
use crate::http;
use crate::serve::Job;
use crate::write::{Machine, NodeSettings, Target};

/// Longest job, in bytes.
const JOB_LEN_MAX: u64 = 64 << 10;

/// Does what the server says; tells `say` about it.
///
/// # Errors
/// Why nothing was written, or what failed.
pub fn install(server: &str, say: &dyn Fn(&str)) -> Result<()> {
    let (body, _) = http::ask(server, "GET", "/job")?;
    let mut text = String::new();
    body.take(JOB_LEN_MAX).read_to_string(&mut text).cannot(|| "read the job".to_owned())?;
    let job: Job = serde_json::from_str(&text).cannot(|| "understand the job".to_owned())?;
    let machine = Machine::default();
    let disk = find(&machine, &job.disk)?;
    let target = Target { disk: disk.clone(), serial: Some(job.disk.clone()), wipe: false };
    let checked = target.check(&machine, job.image_bytes)?;
    // Made here, so that its private half never travels.
    let key = HostKey::new()?;
    let public = key.public().to_owned();
    let settings = NodeSettings { host_key: Some(key), ..job.settings()? };
    let (mut image, len) = http::ask(server, "GET", "/image")?;
    if len != job.image_bytes {
        return Err(Error::new("the server has another image by now"));
    }
    say(&format!("{}: the image is being written to {}", job.name, disk.display()));
    let mut last = 0;
    let mut progress = |done: u64| {
        let tenth = done * 10 / len.max(1);
        if tenth > last {
            last = tenth;
            say(&format!("{} % written", tenth * 10));
        }
    };
    checked.write(&mut image, len, &settings, &mut progress)?;
    http::ask(server, "POST", &format!("/done?{public}")).map(drop)
}

/// The one disk of that serial number.
fn find(machine: &Machine, serial: &str) -> Result<PathBuf> {
    let mut seen = Vec::new();
    for entry in fs::read_dir("/sys/block").cannot(|| "look for disks".to_owned())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = Path::new("/dev").join(&name);
        if let Some(has) = machine.serial_of(&path) {
            seen.push((path, has));
        }
    }
    let fits: Vec<_> = seen.iter().filter(|(_, has)| has == serial).collect();
    match fits[..] {
        [(path, _)] => Ok(path.clone()),
        [] => {
            let seen: Vec<_> =
                seen.iter().map(|(path, has)| format!("{} {has}", path.display())).collect();
            Err(Error::new(format!(
                "no disk here has the serial number {serial}; there are: {}",
                if seen.is_empty() { "none with one".to_owned() } else { seen.join(", ") }
            )))
        }
        _ => Err(Error::new(format!("several disks here have the serial number {serial}"))),
    }
}
