//! The memory of a peer process, read in one copy (process_vm_readv(2),
//! "cross-memory attach").
//!
//! Whether that works is found out by trying: the kernel may lack it, a
//! container's filter or yama may forbid it, and in another PID namespace the
//! peer's number means somebody else. Every process therefore keeps a secret
//! word at an address that it tells, and every read fetches that word along:
//! only when it is right were the other bytes those of the peer. That also
//! covers a peer that died and whose number was given to another process.

use std::io;
use std::mem::MaybeUninit;

use wiglaf_link::near::Remote;

/// Most pieces of one read, on either side.
const PIECES_MAX: usize = 8;

/// The word that proves this process's memory to be its own.
#[derive(Debug)]
pub(crate) struct Token(Box<u64>);

impl Token {
    pub(crate) fn new(secret: u64) -> Self {
        Self(Box::new(secret))
    }

    /// Where it is, for as long as this lives.
    pub(crate) fn address(&self) -> u64 {
        std::ptr::from_ref::<u64>(&self.0).expose_provenance() as u64
    }
}

/// The memory of another process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Foreign {
    pid: i32,
    token_at: u64,
    token: u64,
}

impl Foreign {
    /// The memory of process `pid`, if it can be read.
    pub(crate) fn probe(pid: i32, token_at: u64, token: u64) -> Option<Self> {
        let this = Self { pid, token_at, token };
        this.read(&[], &mut []).then_some(this)
    }

    /// Copies `pieces` to `into`, which is as long; says whether that was
    /// allowed and went well. If not, `into` may hold anything.
    pub(crate) fn read(&self, pieces: &[Remote], into: &mut [&mut [MaybeUninit<u8>]]) -> bool {
        let len: u64 = pieces.iter().map(|piece| piece.len).sum();
        let room: u64 = into.iter().map(|piece| piece.len() as u64).sum();
        if len != room || pieces.len() > PIECES_MAX || into.len() > PIECES_MAX {
            return false;
        }
        let mut done = 0;
        loop {
            match self.read_some(pieces, into, done) {
                Ok(count) => done += count,
                Err(_) => return false,
            }
            if done >= len {
                return true;
            }
        }
    }

    /// Copies what one call copies, from byte `skip` on; more than nothing.
    fn read_some(
        &self,
        pieces: &[Remote],
        into: &mut [&mut [MaybeUninit<u8>]],
        skip: u64,
    ) -> io::Result<u64> {
        const EMPTY: libc::iovec = libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 };
        let mut found = 0u64;
        let (mut local, mut remote) = ([EMPTY; PIECES_MAX + 1], [EMPTY; PIECES_MAX + 1]);
        local[0] = libc::iovec { iov_base: (&raw mut found).cast(), iov_len: size_of::<u64>() };
        remote[0] = at(self.token_at, size_of::<u64>());
        let mut left = skip;
        for (to, piece) in local[1..].iter_mut().zip(into.iter_mut()) {
            let over = (piece.len() as u64).min(left) as usize;
            left -= over as u64;
            let rest = &mut piece[over..];
            *to = libc::iovec { iov_base: rest.as_mut_ptr().cast(), iov_len: rest.len() };
        }
        left = skip;
        for (from, piece) in remote[1..].iter_mut().zip(pieces) {
            let over = piece.len.min(left);
            left -= over;
            *from = at(piece.address.wrapping_add(over), (piece.len - over) as usize);
        }
        let counts = (into.len() + 1, pieces.len() + 1);
        // SAFETY: the local pieces are exclusive borrows, valid for writes of
        // their lengths. The remote ones are addresses in another process,
        // which the kernel checks.
        let copied = unsafe {
            libc::process_vm_readv(
                self.pid,
                local.as_ptr(),
                counts.0 as libc::c_ulong,
                remote.as_ptr(),
                counts.1 as libc::c_ulong,
                0,
            )
        };
        let copied = u64::try_from(copied).map_err(|_| io::Error::last_os_error())?;
        let payload = copied.checked_sub(size_of::<u64>() as u64);
        //= docs/protocol.md#11-the-near-lane
        //# A receiver MUST take bytes for the sender's only if the word that the sender named was read along with them and was right.
        match payload {
            // A short copy stopped at a bad address, unless it is just very long.
            Some(payload) if found == self.token && (payload > 0 || pieces.is_empty()) => {
                Ok(payload)
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

fn at(address: u64, len: usize) -> libc::iovec {
    // Not a pointer of ours: the kernel takes it as the peer's.
    libc::iovec { iov_base: std::ptr::without_provenance_mut(address as usize), iov_len: len }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn own() -> (Token, Foreign) {
        let token = Token::new(0x1234_5678_9abc_def0);
        let pid = std::process::id() as i32;
        let foreign = Foreign { pid, token_at: token.address(), token: *token.0 };
        (token, foreign)
    }

    #[test]
    fn gathers_and_scatters() {
        let (_token, foreign) = own();
        let from: Vec<u8> = (0..1000).map(|i| (i * 7) as u8).collect();
        let address = from.as_ptr().expose_provenance() as u64;
        let pieces = [Remote { address, len: 300 }, Remote { address: address + 300, len: 700 }];
        let mut to = vec![MaybeUninit::new(0u8); 1000];
        let (a, b) = to.split_at_mut(555);
        assert!(foreign.read(&pieces, &mut [a, b]));
        let to: Vec<u8> = to
            .iter()
            // SAFETY: initialized above.
            .map(|byte| unsafe { byte.assume_init() })
            .collect();
        assert_eq!(to, from);
    }

    #[test]
    fn another_process_under_that_number_is_noticed() {
        let (token, foreign) = own();
        assert!(Foreign::probe(foreign.pid, token.address(), foreign.token).is_some());
        // What another process has there, or that it has nothing there.
        assert!(Foreign::probe(foreign.pid, token.address(), foreign.token + 1).is_none());
        assert!(Foreign::probe(foreign.pid, 8, foreign.token).is_none());
        assert!(Foreign::probe(i32::MAX, token.address(), foreign.token).is_none());
    }

    #[test]
    fn a_bad_address_and_a_wrong_length_are_refused() {
        let (_token, foreign) = own();
        let mut to = [MaybeUninit::new(0u8); 16];
        assert!(!foreign.read(&[Remote { address: 8, len: 16 }], &mut [&mut to]));
        let address = to.as_ptr().expose_provenance() as u64;
        assert!(!foreign.read(&[Remote { address, len: 17 }], &mut [&mut to]));
    }
}
