//! What the dynamic linker knows.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The libraries that it finds without being told where: name and path.
#[must_use]
pub fn libraries() -> BTreeMap<String, String> {
    let tool = if Path::new("/sbin/ldconfig").exists() { "/sbin/ldconfig" } else { "ldconfig" };
    let output = Command::new(tool).arg("-p").output();
    let text = output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).unwrap_or_default();
    text.lines()
        .filter_map(|line| {
            let (name, path) = line.split_once(" => ")?;
            Some((name.split_whitespace().next()?.to_owned(), path.trim().to_owned()))
        })
        .collect()
}
