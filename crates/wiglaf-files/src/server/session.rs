//! How a server begins: what it hears and says on its standard streams.
//!
//! The client writes one line: `wiglaf-files 1 KEY IP:PORT:EPOCH`. The server
//! answers with one: `wiglaf-files 1 IP:PORT:EPOCH PID`, or `refused: ` and a
//! sentence. Then its standard input stays open as long as the client lives.

use std::io::{BufRead, Read, Write};
use std::net::SocketAddrV4;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::Duration;

use wiglaf_endpoint::{Address, Endpoint, Epoch, JobKey, Setup, WaitPolicy};
use wiglaf_links::{Place, config_from, open_links, place_of, random_epoch};

use super::Server;
use crate::roots::Roots;

/// What a greeting begins with: name and version of the exchange.
pub(crate) const GREETING: &str = "wiglaf-files 1";
/// What the server's answer begins with when it does not serve.
pub(crate) const REFUSED: &str = "refused: ";
/// Longest line that is read.
const LINE_LEN_MAX: u64 = 512;
/// A client that computes for hours owes us acknowledgements meanwhile, and
/// has not gone: the pipe says when it has.
const SILENCE_LIMIT: Duration = Duration::from_secs(10 * 365 * 24 * 3600);

/// The folders that a server lets its client reach.
#[derive(Debug, Clone, Default)]
pub struct Exports(pub Vec<PathBuf>);

/// Serves the client on the other end of standard input and output; returns
/// when that has gone.
///
/// # Errors
/// One sentence, which the client has been told, too.
pub fn run(exports: &Exports) -> Result<(), String> {
    crate::setup::prepare_server();
    let (stdin, mut stdout) = (std::io::stdin(), std::io::stdout());
    let mut line = String::new();
    let read = stdin.lock().take(LINE_LEN_MAX).read_line(&mut line);
    read.map_err(|error| format!("cannot read the greeting: {error}"))?;
    let mut say = |text: &str| {
        let said = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
        said.map_err(|error| format!("cannot answer the greeting: {error}"))
    };
    match begin(&line, exports) {
        Ok((mut server, at)) => {
            say(&format!("{GREETING} {} {}\n", spell(at), std::process::id()))?;
            server.run(stdin.as_fd());
            Ok(())
        }
        Err(why) => {
            say(&format!("{REFUSED}{why}\n"))?;
            Err(why)
        }
    }
}

fn begin(line: &str, exports: &Exports) -> Result<(Server, Address), String> {
    let greeting = line.strip_prefix(GREETING).map(str::split_whitespace);
    let mut words = greeting.ok_or("the client is of another version")?;
    let key = words.next().and_then(JobKey::from_hex).ok_or("the greeting has no key")?;
    let client = words.next().and_then(read_address).ok_or("the greeting has no address")?;
    let (roots, missing) = Roots::open(&exports.0);
    for (path, errno) in &missing {
        eprintln!("wiglaf: the exported folder {} cannot be used: {errno}", path.display());
    }
    if roots.paths().next().is_none() {
        return Err("the node exports no folder; see `export` in the cluster file".to_owned());
    }
    let mut endpoint = open_endpoint(key, SILENCE_LIMIT)?;
    // It shares its node's cores with the ranks there.
    endpoint.set_wait(WaitPolicy::Adaptive, true);
    let peer = endpoint.insert(client);
    let at = endpoint.name();
    Ok((Server::new(endpoint, peer, roots), at))
}

/// An endpoint without shared memory: who shares memory with a server shares
/// its files as well.
pub(crate) fn open_endpoint(key: JobKey, silence_limit: Duration) -> Result<Endpoint, String> {
    // The key is what we were told, not what the environment may have for others.
    let variable = |name: &str| match name {
        "WIGLAF_KEY" => Some(key.to_hex().into()),
        name => std::env::var_os(name),
    };
    let config = config_from(variable).map_err(|why| why.to_string())?;
    let epoch = random_epoch();
    let place = Place { port: 0, ..place_of(&config) };
    let opened = open_links(place, epoch.0, config.link).map_err(|why| why.to_string())?;
    let Some(net) = opened.net else {
        return Err("the shm link does not lead to other nodes; unset WIGLAF_LINK".to_owned());
    };
    Ok(Endpoint::new(Setup {
        epoch,
        key,
        links: vec![net],
        silence_limit,
        flow_control: config.flow_control,
        encrypt: config.encrypt,
    }))
}

/// `IP:PORT:EPOCH`.
pub(crate) fn spell(address: Address) -> String {
    format!("{}:{:016x}", address.at, address.epoch.0)
}

pub(crate) fn read_address(text: &str) -> Option<Address> {
    let (at, epoch) = text.rsplit_once(':')?;
    let epoch = Epoch(u64::from_str_radix(epoch, 16).ok()?);
    let at: SocketAddrV4 = at.parse().ok()?;
    epoch.is_known().then_some(Address { at, epoch })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_come_back() {
        let address = Address { at: "10.77.0.1:7701".parse().unwrap(), epoch: Epoch(0xabc) };
        assert_eq!(read_address(&spell(address)), Some(address));
        for text in ["", "10.77.0.1:7701", "10.77.0.1:7701:0", "x:1:2", "10.77.0.1:7701:zz"] {
            assert_eq!(read_address(text), None, "{text}");
        }
    }

    #[test]
    fn a_greeting_that_is_none_is_refused() {
        let exports = Exports(vec![PathBuf::from("/tmp")]);
        for line in ["", "\n", "wiglaf-files 2 x", "wiglaf-files 1 00 10.0.0.1:1:1"] {
            assert!(begin(line, &exports).is_err(), "{line:?}");
        }
        let key = "00112233445566778899aabbccddeeff";
        let line = format!("{GREETING} {key} 127.0.0.1:9:1\n");
        let none = begin(&line, &Exports::default()).unwrap_err();
        assert!(none.contains("exports no folder"), "{none}");
    }
}
