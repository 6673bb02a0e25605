//! The `wiglaf-helper` daemon. It takes no options but where its socket and
//! its policy are; `docs/helper.md` specifies what it does.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::process::ExitCode;

use wiglaf_helper::{POLICY, Places, SOCKET, TUNING, serve};

const USAGE: &str = "\
wiglaf-helper [--socket PATH] [--policy PATH] [--tuning PATH]

Opens packet sockets for users whom the policy admits, so that MPI ranks need no
privilege, and tunes cards for those who may have that done. Start it as root, or
with CAP_NET_RAW: it keeps nothing else, and its process that tunes CAP_NET_ADMIN,
until all is set back. See docs/helper.md, and wiglaf-helper.service for systemd, whose socket it takes
where that is its standard input.

Whoever has a packet socket can send any frame, with any source address, on any
interface of this machine, and may keep it after the job. Admit only users whom you
trust so far, or give MPI a network of its own. The udp link has none of this.

The policy (/etc/wiglaf/helper.toml, root's, mode 644) admits nobody until it says:

    [[admit]]
    users = [\"ann\", 1001]
    links = [\"packet\"]
    tune = [\"192.168.77.0/24\"]    # they may also have cards of that network tuned";

fn main() -> ExitCode {
    let (mut socket, mut policy, mut tuning) =
        (PathBuf::from(SOCKET), PathBuf::from(POLICY), PathBuf::from(TUNING));
    let mut words = std::env::args_os().skip(1);
    while let Some(word) = words.next() {
        let place = match word.to_str() {
            Some("--socket") => &mut socket,
            Some("--policy") => &mut policy,
            Some("--tuning") => &mut tuning,
            Some("--help" | "-h") => {
                println!("{USAGE}");
                return ExitCode::SUCCESS;
            }
            _ => return refuse("that option is not known; see wiglaf-helper --help"),
        };
        match words.next() {
            Some(value) => *place = value.into(),
            None => return refuse("a path is missing; see wiglaf-helper --help"),
        }
    }
    match serve(&Places { socket, policy, tuning: Some(tuning) }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => refuse(&why),
    }
}

fn refuse(why: &str) -> ExitCode {
    eprintln!("wiglaf-helper: {why}");
    ExitCode::FAILURE
}
