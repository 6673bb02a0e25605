//! One error type: a sentence that names the cause and the next step.

use std::fmt;

/// What went wrong, as one sentence for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    sentence: String,
    status: u8,
    is_not_up: bool,
}

/// A result with the crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Exit status of a failed step.
const STATUS_FAILED: u8 = 1;
/// Exit status for a program that is there and cannot be run, as shells have it.
const STATUS_NOT_EXECUTABLE: u8 = 126;
/// Exit status for a program that is not there, as shells have it.
const STATUS_NOT_FOUND: u8 = 127;

impl Error {
    /// An error that says `sentence`.
    pub fn new(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), status: STATUS_FAILED, is_not_up: false }
    }

    /// A program that is not there: exit status 127, as from a shell.
    pub fn not_found(sentence: impl Into<String>) -> Self {
        Self { status: STATUS_NOT_FOUND, ..Self::new(sentence) }
    }

    /// A program that is none: exit status 126, as from a shell.
    pub fn not_executable(sentence: impl Into<String>) -> Self {
        Self { status: STATUS_NOT_EXECUTABLE, ..Self::new(sentence) }
    }

    /// A node that is down: nothing runs on it.
    pub fn not_up(sentence: impl Into<String>) -> Self {
        Self { is_not_up: true, ..Self::new(sentence) }
    }

    /// Whether it is that the node is down, and no other failure.
    #[must_use]
    pub fn is_not_up(&self) -> bool {
        self.is_not_up
    }

    /// This error with another exit status.
    #[must_use]
    pub fn with_status(self, status: u8) -> Self {
        Self { status, ..self }
    }

    /// The status a command should exit with.
    #[must_use]
    pub fn exit_status(&self) -> u8 {
        self.status
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}

impl std::error::Error for Error {}

/// Says which step failed.
pub trait Context<T> {
    /// "cannot STEP: cause".
    ///
    /// # Errors
    /// The cause, with the step in front.
    fn cannot(self, step: impl FnOnce() -> String) -> Result<T>;
}

impl<T, E: fmt::Display> Context<T> for std::result::Result<T, E> {
    fn cannot(self, step: impl FnOnce() -> String) -> Result<T> {
        self.map_err(|cause| Error::new(format!("cannot {}: {cause}", step())))
    }
}
