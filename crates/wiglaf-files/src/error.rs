//! Why a call failed: an errno, as programs expect, and what lies behind it.

use rustix::io::Errno;

/// What lies behind an errno. Its number travels in replies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u16)]
pub enum Reason {
    /// The kernel of the file's node said so.
    Kernel = 0,
    /// The path is in none of the exported folders.
    NotExported = 1,
    /// The path leads out of its exported folder.
    Escape = 2,
    /// A device, a pipe or a socket.
    SpecialFile = 3,
    /// The message could not be understood.
    Malformed = 4,
    /// The request is not known to this version.
    Unknown = 5,
    /// The handle is not open.
    BadHandle = 6,
    /// Too many files are open, or a length is above its limit.
    Limit = 7,
    /// An open flag that has no meaning across nodes.
    Flag = 8,
    /// The server of that node has ended.
    ServerGone = 9,
    /// There is no such node, or it is not attached.
    NoNode = 10,
    /// The server could not be started.
    NotStarted = 11,
    /// The call was made before `fsinit`, or after `fsend`.
    NotInitialized = 12,
    /// The answer made no sense.
    BadAnswer = 13,
}

impl Reason {
    const ALL: [Self; 14] = [
        Self::Kernel,
        Self::NotExported,
        Self::Escape,
        Self::SpecialFile,
        Self::Malformed,
        Self::Unknown,
        Self::BadHandle,
        Self::Limit,
        Self::Flag,
        Self::ServerGone,
        Self::NoNode,
        Self::NotStarted,
        Self::NotInitialized,
        Self::BadAnswer,
    ];

    pub(crate) fn from_number(number: u16) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or(Self::BadAnswer)
    }

    /// One sentence with the cause, or nothing where the errno says it all.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Kernel => "",
            Self::NotExported => {
                "the path is in no folder that its node exports; see `export` in the cluster file"
            }
            Self::Escape => "the path leads out of its exported folder by a link or `..`",
            Self::SpecialFile => "devices, pipes and sockets are not opened across nodes",
            Self::Malformed => "the server could not understand the message",
            Self::Unknown => "the server does not know this request; it is of another version",
            Self::BadHandle => "the handle is not open",
            Self::Limit => "a limit of the server is reached",
            Self::Flag => "this open flag has no meaning across nodes",
            Self::ServerGone => "the node's file server has ended; attach the node again",
            Self::NoNode => "there is no such node, or it is not attached",
            Self::NotStarted => "the node's file server could not be started",
            Self::NotInitialized => "fsinit has not been called",
            Self::BadAnswer => "the server's answer makes no sense",
        }
    }
}

/// A failed call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    errno: i32,
    reason: Reason,
    detail: String,
}

/// What calls return.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn new(errno: Errno, reason: Reason) -> Self {
        Self::from_numbers(errno.raw_os_error(), reason)
    }

    pub(crate) fn from_numbers(errno: i32, reason: Reason) -> Self {
        Self { errno, reason, detail: String::new() }
    }

    pub(crate) fn with_detail(errno: Errno, reason: Reason, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..Self::new(errno, reason) }
    }

    pub(crate) fn gone() -> Self {
        Self::new(Errno::IO, Reason::ServerGone)
    }

    /// The errno, as Linux numbers it.
    #[must_use]
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// What lies behind it.
    #[must_use]
    pub fn reason(&self) -> Reason {
        self.reason
    }
}

impl From<Errno> for Error {
    fn from(errno: Errno) -> Self {
        Self::new(errno, Reason::Kernel)
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = std::io::Error::from_raw_os_error(self.errno).to_string();
        let text = text.split(" (os error").next().unwrap_or_default();
        match (self.detail.as_str(), self.reason.sentence()) {
            ("", "") => f.write_str(text),
            ("", sentence) => write!(f, "{text}: {sentence}"),
            (detail, _) => write!(f, "{text}: {detail}"),
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for std::io::Error {
    fn from(error: Error) -> Self {
        Self::from_raw_os_error(error.errno)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_reasons_come_back() {
        for (number, reason) in Reason::ALL.iter().enumerate() {
            assert_eq!(*reason as usize, number);
            assert_eq!(Reason::from_number(number as u16), *reason);
        }
        assert_eq!(Reason::from_number(999), Reason::BadAnswer);
    }

    #[test]
    fn an_error_names_cause_and_reason() {
        let error = Error::new(Errno::ACCESS, Reason::Escape);
        assert_eq!(
            error.to_string(),
            "Permission denied: the path leads out of its exported folder by a link or `..`"
        );
        assert_eq!(Error::from(Errno::NOENT).to_string(), "No such file or directory");
    }
}
