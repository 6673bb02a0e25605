//! A decorator that records what is sent and received, for `tcpdump` and its
//! kin. Each datagram gets Ethernet, IPv4 and UDP headers of our making, so
//! that links which have none on the way can be looked at as well.
//!
//! The file is classic pcap with nanoseconds. What is received is shown as
//! sent to the link's own address: links do not tell by which lane it came.

use std::io::{self, Write};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::RawFd;
use std::time::{SystemTime, UNIX_EPOCH};

use crate::frame::{Ends, HEADERS_LEN, headers};
use crate::{Deliver, Drops, Limits, Link, Sent, Train, Unreachable};

/// Classic pcap, times in nanoseconds.
const MAGIC_NANOSECONDS: u32 = 0xa1b2_3c4d;
const VERSION: (u16, u16) = (2, 4);
const LINK_TYPE_ETHERNET: u32 = 1;
/// Longest frame in a record: any IPv4 packet.
const SNAP_LEN: u32 = 65_535 + 14;

/// A link that is recorded.
#[derive(Debug)]
pub struct Pcap<L, W> {
    inner: L,
    recorder: Recorder<W>,
}

/// Stops at the first error: a full disk must not stop a job.
#[derive(Debug)]
struct Recorder<W> {
    out: Option<W>,
    error: Option<io::Error>,
}

impl<L: Link, W: Write + Send> Pcap<L, W> {
    /// Records `inner` to `out`, which should be buffered.
    ///
    /// # Errors
    /// When nothing can be written.
    pub fn new(inner: L, mut out: W) -> io::Result<Self> {
        let mut head = Vec::with_capacity(24);
        head.extend_from_slice(&MAGIC_NANOSECONDS.to_ne_bytes());
        head.extend_from_slice(&VERSION.0.to_ne_bytes());
        head.extend_from_slice(&VERSION.1.to_ne_bytes());
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&SNAP_LEN.to_ne_bytes());
        head.extend_from_slice(&LINK_TYPE_ETHERNET.to_ne_bytes());
        out.write_all(&head)?;
        Ok(Self { inner, recorder: Recorder { out: Some(out), error: None } })
    }

    /// What stopped the recording, if anything did.
    pub fn error(&self) -> Option<&io::Error> {
        self.recorder.error.as_ref()
    }
}

impl<W: Write> Recorder<W> {
    fn record(&mut self, from: SocketAddrV4, to: SocketAddrV4, payload: &[u8]) {
        let Some(out) = &mut self.out else { return };
        if let Err(error) = write_record(out, from, to, payload) {
            self.error = Some(error);
            self.out = None;
        }
    }
}

fn write_record(
    out: &mut impl Write,
    from: SocketAddrV4,
    to: SocketAddrV4,
    payload: &[u8],
) -> io::Result<()> {
    let ends = Ends { from_mac: mac_of(*from.ip()), to_mac: mac_of(*to.ip()), from, to };
    let headers = headers(&ends, payload.len())
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "longer than a datagram"))?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let len = (HEADERS_LEN + payload.len()) as u32;
    let mut head = [0; 16];
    head[0..4].copy_from_slice(&(now.as_secs() as u32).to_ne_bytes());
    head[4..8].copy_from_slice(&now.subsec_nanos().to_ne_bytes());
    head[8..12].copy_from_slice(&len.to_ne_bytes());
    head[12..16].copy_from_slice(&len.to_ne_bytes());
    out.write_all(&head)?;
    out.write_all(&headers)?;
    out.write_all(payload)
}

/// A locally administered Ethernet address that shows the IPv4 address.
fn mac_of(ip: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = ip.octets();
    [0x02, 0, a, b, c, d]
}

impl<L: Link, W: Write + Send> Link for Pcap<L, W> {
    fn name(&self) -> &'static str {
        self.inner.name()
    }

    fn local(&self) -> SocketAddrV4 {
        self.inner.local()
    }

    fn bulk_port(&self) -> u16 {
        self.inner.bulk_port()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn reaches(&self, to: SocketAddrV4) -> bool {
        self.inner.reaches(to)
    }

    fn add_peer(&mut self, at: SocketAddrV4, epoch: u64) {
        self.inner.add_peer(at, epoch);
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        let sent = self.inner.send(train)?;
        if sent == Sent::All {
            for segment in train.segments() {
                self.recorder.record(self.inner.local(), train.to, segment);
            }
        }
        Ok(sent)
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        let local = self.inner.local();
        let recorder = &mut self.recorder;
        self.inner.recv_trains(&mut |train| {
            for datagram in train.datagrams() {
                recorder.record(train.from, local, datagram);
            }
            deliver(train);
        })
    }

    fn take_unreachable(&mut self) -> Option<Unreachable> {
        self.inner.take_unreachable()
    }

    fn drops(&self) -> Drops {
        self.inner.drops()
    }

    fn was_overrun(&mut self) -> bool {
        self.inner.was_overrun()
    }

    fn is_quiet(&mut self) -> bool {
        self.inner.is_quiet()
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.inner.wait_fds()
    }

    fn expect_bulk(&mut self) {
        self.inner.expect_bulk();
    }

    fn arm(&mut self, armed: bool) -> bool {
        self.inner.arm(armed)
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufWriter;
    use std::process::Command;

    use super::*;
    use crate::Lane;
    use crate::loopback::Hub;

    fn at(last: u8, port: u16) -> SocketAddrV4 {
        SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, last), port)
    }

    fn exchange(out: impl Write + Send) {
        let hub = Hub::new();
        let a = hub.link(at(1, 1000), 8).expect("free");
        let mut b = hub.link(at(2, 2000), 8).expect("free");
        let mut a = Pcap::new(a, out).expect("written");
        let train = |to, bytes| Train { to, lane: Lane::Latency, segment_len: 5, bytes };
        a.send(&train(b.local(), b"hello world")).expect("sent");
        b.send(&train(at(1, 1000), b"bye")).expect("sent");
        a.recv(&mut |_, _| {}).expect("received");
        assert!(a.error().is_none());
    }

    #[test]
    fn tcpdump_reads_it() {
        let name = format!("wiglaf-pcap-{}.pcap", std::process::id());
        let path = std::env::temp_dir().join(name);
        exchange(BufWriter::new(std::fs::File::create(&path).expect("created")));
        let output = Command::new("tcpdump").args(["-nnvr"]).arg(&path).output();
        std::fs::remove_file(&path).expect("removed");
        let Ok(output) = output else {
            eprintln!("skipped: tcpdump is not installed");
            return;
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let expected = [
            "10.0.0.1.1000 > 10.0.0.2.2000: UDP, length 5",
            "10.0.0.1.1000 > 10.0.0.2.2000: UDP, length 5",
            "10.0.0.1.1000 > 10.0.0.2.2000: UDP, length 1",
            "10.0.0.2.2000 > 10.0.0.1.1000: UDP, length 3",
        ];
        let lines: Vec<&str> =
            text.lines().map(str::trim).filter(|line| line.starts_with("10.")).collect();
        assert_eq!(lines, expected, "{text}");
        assert!(!text.contains("bad cksum"), "{text}");
    }

    #[test]
    fn every_record_is_whole() {
        let mut out = Vec::new();
        exchange(&mut out);
        let mut rest = &out[24..];
        let mut payloads = Vec::new();
        while let Some((head, after)) = rest.split_at_checked(16) {
            let len = u32::from_ne_bytes([head[8], head[9], head[10], head[11]]) as usize;
            let (frame, after) = after.split_at(len);
            let to = if payloads.len() < 3 { at(2, 2000) } else { at(1, 1000) };
            payloads.push(crate::frame::parse(frame, to).expect("well formed").1.to_vec());
            rest = after;
        }
        assert!(rest.is_empty());
        assert_eq!(payloads, [b"hello".as_slice(), b" worl", b"d", b"bye"]);
    }

    #[test]
    fn a_full_disk_stops_the_recording_only() {
        #[derive(Debug)]
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let hub = Hub::new();
        let mut a = Pcap::new(hub.link(at(1, 1), 8).expect("free"), Full(100)).expect("head");
        let mut b = hub.link(at(2, 2), 8).expect("free");
        let train = Train { to: b.local(), lane: Lane::Bulk, segment_len: 9, bytes: &[3; 27] };
        assert_eq!(a.send(&train).expect("works"), Sent::All);
        assert_eq!(a.error().map(io::Error::kind), Some(io::ErrorKind::StorageFull));
        assert_eq!(b.recv(&mut |_, _| {}).expect("works"), 3);
        Pcap::new(hub.link(at(3, 3), 8).expect("free"), Full(5)).expect_err("no room at all");
    }
}
