//! What can go wrong, each as one sentence with the next step in it.

use std::fmt;
use std::path::PathBuf;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why a measurement could not be made or written down.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// A program that is needed is not installed.
    ProgramMissing {
        /// What was looked for.
        program: String,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// A compiler refused one of the measuring programs.
    Compile {
        /// Which compiler.
        compiler: String,
        /// Which program.
        program: String,
        /// The compiler's last words.
        detail: String,
    },
    /// A run could not be started, failed, or did not end in time.
    Run {
        /// What was run, in the user's words.
        what: String,
        /// What happened.
        detail: String,
    },
    /// A program's output was not what it should be.
    Output {
        /// Whose output.
        what: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Two runs of one computation disagree.
    EnergiesDiffer {
        /// The application.
        application: String,
        /// One line: who found what.
        detail: String,
    },
    /// A file could not be read or written.
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The picture could not be drawn.
    Picture(String),
    /// There is nothing to compare.
    NoContender(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ProgramMissing { program, package } => {
                write!(f, "{program} was not found; install it with `apt-get install {package}`")
            }
            Self::Compile { compiler, program, detail } => {
                write!(f, "{compiler} could not build the measuring program {program}: {detail}")
            }
            Self::Run { what, detail } => write!(f, "{what} failed: {detail}"),
            Self::Output { what, detail } => {
                write!(f, "the output of {what} could not be understood: {detail}")
            }
            Self::EnergiesDiffer { application, detail } => {
                write!(f, "{application} gave different energies: {detail}")
            }
            Self::File { path, source } => write!(f, "{}: {source}", path.display()),
            Self::Picture(detail) => write!(f, "the picture could not be drawn: {detail}"),
            Self::NoContender(detail) => write!(f, "nothing to measure: {detail}"),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// Adds the path to an I/O error.
pub(crate) fn file_error(path: &std::path::Path) -> impl FnOnce(std::io::Error) -> BenchError {
    let path = path.to_owned();
    move |source| BenchError::File { path, source }
}
