//! Measures a bare link between two addresses:
//! `floor serve LINK OWN PEER` on one side, `floor measure LINK OWN PEER` on
//! the other, where OWN and PEER are `IP:PORT` and LINK is udp, packet, xdp (also
//! xdp-generic, xdp-native) or shm.

use std::net::SocketAddrV4;
use std::process::ExitCode;

use wiglaf_endpoint::LinkKind;
use wiglaf_links::floor;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("floor: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [role, link, own, peer] = args.as_slice() else {
        return Err("usage: floor serve|measure udp|packet|xdp|shm OWN_IP:PORT PEER_IP:PORT".into());
    };
    let choice = LinkKind::named(link)
        .ok_or_else(|| format!("no link is called {link}; choose udp, packet, xdp or shm"))?;
    let (own, peer): (SocketAddrV4, SocketAddrV4) = (own.parse()?, peer.parse()?);
    let mut link = floor::open(own, peer, choice)?;
    let link = link.as_mut();
    match role.as_str() {
        "serve" => floor::serve(link, peer)?,
        "measure" => {
            for len in [8, 64, 1400] {
                let latency = floor::ping(link, peer, len, 50_000)?;
                println!(
                    "{:12} {len:5} B half round trip: p50 {:.2} us, p99 {:.2} us",
                    link.name(),
                    latency.p50.as_nanos() as f64 / 1e3,
                    latency.p99.as_nanos() as f64 / 1e3
                );
            }
            let rate = floor::stream(link, peer, 2 << 30)?;
            println!("{:12} stream: {:.2} GB/s", link.name(), rate / 1e9);
            floor::bye(link, peer)?;
        }
        other => return Err(format!("no role is called {other}; choose serve or measure").into()),
    }
    Ok(())
}
