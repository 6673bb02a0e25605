//! What can go wrong, each with its next step.

use wiglaf_endpoint::ACTIVE_LEN_MAX;

/// Why a call failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// A variable of the environment is missing or cannot be meant.
    Environment(String),
    /// The endpoint could not be opened.
    Open(String),
    /// There is no such rank in the job.
    NoSuchRank(usize),
    /// The payload is longer than a message may be, in bytes.
    TooLong(usize),
    /// The rank has ended or cannot be reached any more.
    RankGone(usize),
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment(why) => {
                write!(f, "{why}; start the program with: wiglaf run --mpi none -- PROGRAM")
            }
            Self::Open(why) => write!(f, "no endpoint could be opened: {why}"),
            Self::NoSuchRank(rank) => write!(f, "the job has no rank {rank}"),
            Self::TooLong(len) => write!(
                f,
                "a message of {len} bytes is too long; send it in pieces of {ACTIVE_LEN_MAX}"
            ),
            Self::RankGone(rank) => write!(f, "rank {rank} has ended"),
        }
    }
}

impl std::error::Error for Error {}
