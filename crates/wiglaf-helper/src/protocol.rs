//! What goes over the helper's socket: one request of 16 bytes with one
//! descriptor, one answer with one descriptor or a reason.

use crate::tuning::Wants;

/// Version of the request.
const MAGIC: &[u8; 8] = b"WGHELP01";
/// Length of a request in bytes.
pub(crate) const REQUEST_LEN: usize = 16;
/// Longest answer in bytes.
pub(crate) const ANSWER_LEN_MAX: usize = 512;
/// Longest answer to a question about tuning, which is JSON.
pub(crate) const TUNED_LEN_MAX: usize = 32 << 10;

/// What sort of descriptor is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SocketKind {
    /// An AF_PACKET socket.
    Packet,
    /// An AF_XDP socket; no helper lends these (docs/adr/0021), but says why.
    Xdp,
}

impl SocketKind {
    /// Its name in policies.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Packet => "packet",
            Self::Xdp => "xdp",
        }
    }
}

/// What is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Request {
    /// How the helper is, and what it would do for the caller.
    Status,
    /// A descriptor for the UDP socket that comes along.
    Open(SocketKind),
    /// Cards and processors tuned as long as the descriptor of the answer is open.
    Hold(Wants),
    /// Cards and processors tuned until that is undone.
    Keep(Wants),
    /// What the caller has kept is undone.
    Undo,
    /// How it is tuned.
    Tuned,
}

// Which of a tuning is wanted.
const MODERATION: u8 = 1;
const EEE_OFF: u8 = 2;
const RINGS_MAX: u8 = 4;
const AWAKE: u8 = 8;

impl Request {
    pub(crate) fn emit(self) -> [u8; REQUEST_LEN] {
        let mut bytes = [0; REQUEST_LEN];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8] = match self {
            Self::Status => 0,
            Self::Open(SocketKind::Packet) => 1,
            Self::Open(SocketKind::Xdp) => 2,
            Self::Hold(_) => 3,
            Self::Keep(_) => 4,
            Self::Undo => 5,
            Self::Tuned => 6,
        };
        if let Self::Hold(wants) | Self::Keep(wants) = self {
            let flag = |is_wanted: bool, flag: u8| if is_wanted { flag } else { 0 };
            bytes[9] = flag(wants.rx_usecs.is_some(), MODERATION)
                | flag(wants.eee_off, EEE_OFF)
                | flag(wants.rings_max, RINGS_MAX)
                | flag(wants.awake_us.is_some(), AWAKE);
            bytes[10..12].copy_from_slice(&wants.rx_usecs.unwrap_or(0).to_le_bytes());
            bytes[12..14].copy_from_slice(&wants.awake_us.unwrap_or(0).to_le_bytes());
        }
        bytes
    }

    /// Longest answer to it.
    pub(crate) fn answer_len_max(self) -> usize {
        match self {
            Self::Status | Self::Open(_) => ANSWER_LEN_MAX,
            Self::Hold(_) | Self::Keep(_) | Self::Undo | Self::Tuned => TUNED_LEN_MAX,
        }
    }

    /// Reserved bytes must be zero: what is not understood is refused.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(MAGIC)?;
        let [kind, rest @ ..] = <[u8; REQUEST_LEN - 8]>::try_from(rest).ok()?;
        if let 3 | 4 = kind {
            let wants = parse_wants(rest)?;
            return Some(if kind == 3 { Self::Hold(wants) } else { Self::Keep(wants) });
        }
        if rest != [0; REQUEST_LEN - 9] {
            return None;
        }
        match kind {
            0 => Some(Self::Status),
            1 => Some(Self::Open(SocketKind::Packet)),
            2 => Some(Self::Open(SocketKind::Xdp)),
            5 => Some(Self::Undo),
            6 => Some(Self::Tuned),
            _ => None,
        }
    }
}

fn parse_wants(bytes: [u8; REQUEST_LEN - 9]) -> Option<Wants> {
    let [flags, a, b, c, d, 0, 0] = bytes else { return None };
    // A number that goes with no flag is not understood.
    let number = |flag: u8, bytes: [u8; 2]| match (flags & flag != 0, u16::from_le_bytes(bytes)) {
        (true, number) => Some(Some(number)),
        (false, 0) => Some(None),
        (false, _) => None,
    };
    let wants = Wants {
        rx_usecs: number(MODERATION, [a, b])?,
        eee_off: flags & EEE_OFF != 0,
        rings_max: flags & RINGS_MAX != 0,
        awake_us: number(AWAKE, [c, d])?,
    };
    (flags & !(MODERATION | EEE_OFF | RINGS_MAX | AWAKE) == 0 && wants.is_sane()).then_some(wants)
}

/// Why somebody gets nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// No request of this version.
    Malformed,
    /// The policy does not admit the user to this link.
    NotAdmitted,
    /// Too many requests of this user.
    TooOften,
    /// What came along is no UDP socket that is bound, alone, to an address
    /// of an Ethernet interface in the helper's own network.
    NotTheirs,
    /// The kernel did not open the socket.
    Failed,
    /// The user has as many packet sockets open as one may have.
    TooMany,
    /// Another user has a packet socket for this port.
    Overheard,
}

impl Refusal {
    pub(crate) const ALL: [Self; 7] = [
        Self::Malformed,
        Self::NotAdmitted,
        Self::TooOften,
        Self::NotTheirs,
        Self::Failed,
        Self::TooMany,
        Self::Overheard,
    ];

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Malformed => 1,
            Self::NotAdmitted => 2,
            Self::TooOften => 3,
            Self::NotTheirs => 4,
            Self::Failed => 5,
            Self::TooMany => 6,
            Self::Overheard => 7,
        }
    }

    fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|refusal| refusal.code() == code)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::NotAdmitted => "not admitted",
            Self::TooOften => "too often",
            Self::NotTheirs => "not theirs",
            Self::Failed => "failed",
            Self::TooMany => "too many",
            Self::Overheard => "overheard",
        }
    }
}

/// An answer: granted, or why not; and a sentence.
pub(crate) fn emit_answer(outcome: Result<(), Refusal>, sentence: &str) -> Vec<u8> {
    emit_long_answer(outcome, sentence, ANSWER_LEN_MAX)
}

/// An answer of `len_max` bytes at most: granted, or why not; and a sentence.
pub(crate) fn emit_long_answer(
    outcome: Result<(), Refusal>,
    sentence: &str,
    len_max: usize,
) -> Vec<u8> {
    let code = outcome.err().map_or(0, Refusal::code);
    let mut bytes = vec![code];
    let sentence: String = sentence.chars().filter(|c| !c.is_control()).collect();
    bytes.extend(sentence.bytes().take(len_max - 1));
    bytes
}

/// Reads an answer; `None` when it is none.
pub(crate) fn parse_answer(bytes: &[u8]) -> Option<(Result<(), Refusal>, String)> {
    let (code, sentence) = bytes.split_first()?;
    let outcome = match code {
        0 => Ok(()),
        code => Err(Refusal::from_code(*code)?),
    };
    Some((outcome, String::from_utf8_lossy(sentence).into_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_and_answers_come_back() {
        for request in [
            Request::Status,
            Request::Open(SocketKind::Packet),
            Request::Open(SocketKind::Xdp),
            Request::Hold(Wants::FOR_A_JOB),
            Request::Keep(Wants { rx_usecs: Some(1000), ..Wants::ALL }),
            Request::Hold(Wants::AWAKE),
            Request::Undo,
            Request::Tuned,
        ] {
            assert_eq!(Request::parse(&request.emit()), Some(request));
        }
        for refusal in Refusal::ALL {
            let answer = emit_answer(Err(refusal), "be\ncause");
            assert_eq!(parse_answer(&answer), Some((Err(refusal), "because".to_owned())));
        }
        assert_eq!(emit_answer(Ok(()), &"x".repeat(1000)).len(), ANSWER_LEN_MAX);
    }

    #[test]
    fn tunings_out_of_bounds_and_of_nothing_are_refused() {
        let refused = [
            Wants::default(),
            Wants { rx_usecs: Some(1001), ..Wants::default() },
            Wants { awake_us: Some(u16::MAX), ..Wants::ALL },
        ];
        for wants in refused {
            assert_eq!(Request::parse(&Request::Keep(wants).emit()), None, "{wants:?}");
        }
        // An unknown flag, a number without its flag, something behind.
        for (at, byte) in [(9, 16), (9, 2), (15, 1)] {
            let mut bytes = Request::Hold(Wants { rx_usecs: Some(5), ..Wants::default() }).emit();
            bytes[at] = byte;
            assert_eq!(Request::parse(&bytes), None, "{at} {byte}");
        }
    }

    proptest! {
        #[test]
        fn what_is_not_understood_is_refused(at in 0usize..REQUEST_LEN, flip in 7u8..) {
            let mut bytes = Request::Status.emit();
            bytes[at] ^= flip;
            prop_assert_eq!(Request::parse(&bytes), None);
            prop_assert_eq!(Request::parse(&bytes[..at]), None);
            let _ = parse_answer(&bytes);
        }
    }
}
