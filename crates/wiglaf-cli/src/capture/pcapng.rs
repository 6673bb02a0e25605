//! Files that Wireshark and tshark read: pcapng, as far as it is needed here
//! (draft-ietf-opsawg-pcapng: section header, interface description, name
//! resolution and enhanced packet blocks). Numbers are little-endian.

use std::io::{self, Write};
use std::net::Ipv4Addr;

const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const NAMES: u32 = 4;
const PACKET: u32 = 6;
const BYTE_ORDER: u32 = 0x1a2b_3c4d;
const ETHERNET: u16 = 1;
const SNAP_LEN: u32 = 262_144;
// Options.
const COMMENT: u16 = 1;
const APPLICATION: u16 = 4;
const IF_NAME: u16 = 2;
const IF_TSRESOL: u16 = 9;
/// Times are in units of 10^-9 s.
const NANOSECONDS: u8 = 9;
const RECORD_IPV4: u16 = 1;

/// Writes one section.
#[derive(Debug)]
pub(super) struct Writer<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins a section with interfaces of these names, numbered from 0, and
    /// with names of addresses.
    pub(super) fn new(
        out: W,
        comment: &str,
        interfaces: &[&str],
        names: &[(Ipv4Addr, &str)],
    ) -> io::Result<Self> {
        let mut writer = Self { out, block: Vec::new() };
        writer.put(&BYTE_ORDER.to_le_bytes());
        writer.put(&1_u16.to_le_bytes()); // version 1.0
        writer.put(&0_u16.to_le_bytes());
        writer.put(&(-1_i64).to_le_bytes()); // of a length that is not known yet
        writer.option(COMMENT, comment.as_bytes());
        writer.option(APPLICATION, concat!("wiglaf ", env!("CARGO_PKG_VERSION")).as_bytes());
        writer.end_options();
        writer.flush_block(SECTION)?;
        for name in interfaces {
            writer.put(&ETHERNET.to_le_bytes());
            writer.put(&[0; 2]);
            writer.put(&SNAP_LEN.to_le_bytes());
            writer.option(IF_NAME, name.as_bytes());
            writer.option(IF_TSRESOL, &[NANOSECONDS]);
            writer.end_options();
            writer.flush_block(INTERFACE)?;
        }
        for (address, name) in names {
            let value = [&address.octets()[..], name.as_bytes(), &[0]].concat();
            writer.option(RECORD_IPV4, &value);
        }
        writer.end_options();
        writer.flush_block(NAMES)?;
        Ok(writer)
    }

    /// Writes a frame that was seen at `at_ns` of Unix time.
    pub(super) fn frame(
        &mut self,
        interface: u32,
        at_ns: u64,
        frame: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.put(&interface.to_le_bytes());
        self.put(&((at_ns >> 32) as u32).to_le_bytes());
        self.put(&(at_ns as u32).to_le_bytes());
        self.put(&(frame.len() as u32).to_le_bytes());
        self.put(&(frame.len() as u32).to_le_bytes());
        self.put(frame);
        self.pad();
        if let Some(comment) = comment {
            self.option(COMMENT, comment.as_bytes());
            self.end_options();
        }
        self.flush_block(PACKET)
    }

    /// Hands all that was written to the file.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn end_options(&mut self) {
        self.put(&[0; 4]);
    }

    fn flush_block(&mut self, kind: u32) -> io::Result<()> {
        let len = (self.block.len() as u32 + 12).to_le_bytes();
        self.out.write_all(&kind.to_le_bytes())?;
        self.out.write_all(&len)?;
        self.out.write_all(&self.block)?;
        self.block.clear();
        self.out.write_all(&len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_says_its_length_twice_and_is_aligned() {
        let mut out = Vec::new();
        let names = [(Ipv4Addr::new(10, 0, 0, 1), "node1")];
        let mut writer = Writer::new(&mut out, "a test", &["node1", "n2"], &names).unwrap();
        writer.frame(1, (7 << 32) + 5, &[9; 43], Some("a to b")).unwrap();
        writer.frame(0, 6, &[9; 44], None).unwrap();
        let mut kinds = Vec::new();
        let mut rest = &out[..];
        let word = |at: &[u8]| u32::from_le_bytes(at[..4].try_into().unwrap());
        while !rest.is_empty() {
            kinds.push(word(rest));
            let len = word(&rest[4..]) as usize;
            assert_eq!((len % 4, word(&rest[len - 4..]) as usize), (0, len));
            rest = &rest[len..];
        }
        assert_eq!(kinds, [SECTION, INTERFACE, INTERFACE, NAMES, PACKET, PACKET]);
    }
}
