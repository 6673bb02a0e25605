//! Has a copy of this program make changes on a host.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::shell::quoted;

use crate::host::{Answer, Request, write_request};
use crate::remote::Remote;
use crate::tree::Bytes;

/// Finds a folder where programs may be put and run, receives this one there, and calls it.
const CALL: &str = r#"
for base in /tmp /var/tmp "$HOME"; do
    d=$(mktemp -d "$base/.wiglaf-join.XXXXXX" 2>/dev/null) || continue
    free=$(df -Pk "$d" 2>/dev/null | tail -n 1 | tr -s ' ' | cut -d' ' -f4)
    echo 'exit 0' > "$d/try" 2>/dev/null && chmod 755 "$d" "$d/try" && "$d/try" 2>/dev/null &&
        [ "${free:-0}" -gt "$kib" ] && break
    rm -rf "$d"
    d=
done
[ -n "$d" ] || { echo 'its disks are full: there is no room for a program in /tmp, /var/tmp or the home' >&2; exit 1; }
trap 'rm -rf "$d"' EXIT
trap 'exit 1' HUP INT TERM
head -c "$len" > "$d/wiglaf" && chmod 755 "$d/wiglaf" || exit 1
$sudo "$d/wiglaf" join-host
"#;

/// Asks a host, as its user or as root. `installed` is this very program, where it is there already.
pub(crate) fn ask(
    remote: &Remote,
    as_root: bool,
    installed: Option<&Path>,
    request: &Request,
    contents: &[Bytes],
) -> Result<Answer> {
    let exe = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
    let sudo = if as_root { "sudo -n" } else { "" };
    let there = if remote.target.is_here { Some(exe.as_path()) } else { installed };
    let len = exe.metadata().cannot(|| format!("read {}", exe.display()))?.len();
    let script = match there {
        Some(there) => format!("{sudo} {} join-host", quoted(&there.display().to_string())),
        None => format!("sudo={}\nlen={len}\nkib={}\n{CALL}", quoted(sudo), len / 1024 + 1),
    };
    let said = remote.run(&script, |to: &mut dyn Write| {
        if there.is_none() {
            io::copy(&mut File::open(&exe)?, &mut &mut *to)?;
        }
        write_request(request, to)?;
        contents.iter().try_for_each(|bytes| bytes.write(to))
    })?;
    let last = said.lines().last().unwrap_or_default();
    let answer: Answer = serde_json::from_str(last).map_err(|_| {
        Error::new(format!(
            "{} does not answer as Wiglaf does (`{}`); try again",
            remote.name,
            last.chars().take(80).collect::<String>()
        ))
    })?;
    match answer.error {
        Some(why) => Err(Error::new(format!("{}: {why}", remote.name))),
        None => Ok(answer),
    }
}
