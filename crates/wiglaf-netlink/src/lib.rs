//! Questions to the kernel over netlink: it answers about the caller's own network namespace and
//! needs no privilege, which neither sysfs (mounted for another namespace, at times) nor programs
//! (not installed, at times) can promise. [`Ethtool`] also changes what a card is set to, which takes
//! CAP_NET_ADMIN.

#![forbid(unsafe_code)]

mod ethtool;
mod sockets;

pub use ethtool::{Card, Coalesce, Command, Eee, Ethtool, Rings};
pub use sockets::Connection;

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with,
};

/// `NLM_F_REQUEST`.
const REQUEST: u16 = 1;
/// `NLM_F_ROOT | NLM_F_MATCH`: all of the table.
const DUMP: u16 = 0x300;
/// `NLM_F_ACK`: say also that it was done.
const ACK: u16 = 4;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER_LEN: usize = 16;
/// The kernel answers at once; this bounds a surprise.
const PATIENCE: Duration = Duration::from_secs(1);
/// Answers to one question that are read at most.
const MESSAGES_MAX: usize = 1 << 16;

/// A netlink socket.
#[derive(Debug)]
pub struct Netlink {
    socket: OwnedFd,
    sequence: u32,
}

/// One answer.
#[derive(Debug)]
pub struct Message {
    /// Its number in the family.
    pub kind: u16,
    /// What stands behind the header.
    pub body: Vec<u8>,
}

impl Netlink {
    /// Links, addresses, routes.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn route() -> io::Result<Self> {
        Self::open(None)
    }

    /// Generic netlink: families by name.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn generic() -> io::Result<Self> {
        Self::open(Some(netlink::GENERIC))
    }

    fn open(protocol: Option<rustix::net::Protocol>) -> io::Result<Self> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        set_socket_timeout(&socket, Timeout::Recv, Some(PATIENCE))?;
        Ok(Self { socket, sequence: 0 })
    }

    /// Asks for one thing.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn ask(&mut self, kind: u16, body: &[u8]) -> io::Result<Message> {
        let answers = self.talk(kind, 0, body)?;
        answers.into_iter().next().ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Has something done.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn tell(&mut self, kind: u16, body: &[u8]) -> io::Result<()> {
        self.talk(kind, ACK, body).map(drop)
    }

    /// Asks for all of a table.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn dump(&mut self, kind: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        self.talk(kind, DUMP, body)
    }

    fn talk(&mut self, kind: u16, flags: u16, body: &[u8]) -> io::Result<Vec<Message>> {
        self.sequence += 1;
        let mut request = Vec::with_capacity(HEADER_LEN + body.len());
        request.extend(((HEADER_LEN + body.len()) as u32).to_ne_bytes());
        request.extend(kind.to_ne_bytes());
        request.extend((REQUEST | flags).to_ne_bytes());
        request.extend(self.sequence.to_ne_bytes());
        request.extend(0_u32.to_ne_bytes());
        request.extend(body);
        send(&self.socket, &request, SendFlags::empty())?;
        let mut answers = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while answers.len() < MESSAGES_MAX {
            let (got, _) = recv(&self.socket, &mut buffer[..], RecvFlags::empty())?;
            if self.take(&buffer[..got], &mut answers)?
                || (flags & DUMP == 0 && !answers.is_empty())
            {
                break;
            }
        }
        Ok(answers)
    }

    /// Takes the messages of one datagram; true after the last.
    fn take(&self, mut bytes: &[u8], answers: &mut Vec<Message>) -> io::Result<bool> {
        while let Some(len) = u32_at(bytes, 0).map(|len| len as usize) {
            let message = bytes.get(..len).filter(|m| m.len() >= HEADER_LEN);
            let message = message.ok_or(io::ErrorKind::InvalidData)?;
            bytes = bytes.get(aligned(len)..).unwrap_or_default();
            if u32_at(message, 8) != Some(self.sequence) {
                continue;
            }
            let body = &message[HEADER_LEN..];
            match u16_at(message, 4).unwrap_or_default() {
                DONE => return Ok(true),
                ERROR => match u32_at(body, 0).unwrap_or_default() as i32 {
                    0 => return Ok(true),
                    code => return Err(io::Error::from_raw_os_error(-code)),
                },
                kind => answers.push(Message { kind, body: body.to_vec() }),
            }
        }
        Ok(false)
    }
}

/// The attributes of a message's body, from `at` on: number and value.
pub fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    /// Above it are flags of the attribute.
    const NUMBER: u16 = 0x3fff;
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let len = usize::from(u16_at(rest, 0)?);
        let value = rest.get(4..len)?;
        let number = u16_at(rest, 2)? & NUMBER;
        rest = rest.get(aligned(len)..).unwrap_or_default();
        Some((number, value))
    })
}

/// The attribute of that number.
#[must_use]
pub fn attribute(bytes: &[u8], number: u16) -> Option<&[u8]> {
    attributes(bytes).find(|(found, _)| *found == number).map(|(_, value)| value)
}

/// Writes an attribute.
pub fn push(to: &mut Vec<u8>, number: u16, value: &[u8]) {
    to.extend(((4 + value.len()) as u16).to_ne_bytes());
    to.extend(number.to_ne_bytes());
    to.extend(value);
    to.resize(aligned(to.len()), 0);
}

fn aligned(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// An integer of the processor's order at that place.
#[must_use]
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// An integer of 32 bits, in the processor's order, at that place.
#[must_use]
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// An integer of 64 bits, in the processor's order, at that place.
#[must_use]
pub fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// A string that may end with a zero byte.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_attributes_end_the_list() {
        let mut bytes = Vec::new();
        push(&mut bytes, 3, b"eth0\0");
        push(&mut bytes, 4, &1500_u32.to_ne_bytes());
        assert_eq!(attribute(&bytes, 3).map(text).as_deref(), Some("eth0"));
        assert_eq!(attribute(&bytes, 4).and_then(|v| u32_at(v, 0)), Some(1500));
        for len in 0..bytes.len() {
            assert!(attributes(&bytes[..len]).count() <= 2);
        }
        // A length of 0 would keep a careless reader in its loop for ever.
        assert_eq!(attributes(&[0; 64]).count(), 0);
        assert_eq!(attributes(&[255; 64]).count(), 0);
    }

    #[test]
    fn the_kernel_says_which_request_it_refuses() {
        let mut netlink = Netlink::generic().unwrap();
        let mut body = vec![3, 1, 0, 0];
        push(&mut body, 2, b"no-such-family\0");
        let why = netlink.ask(0x10, &body).unwrap_err();
        assert_eq!(why.kind(), io::ErrorKind::NotFound, "{why}");
    }
}
