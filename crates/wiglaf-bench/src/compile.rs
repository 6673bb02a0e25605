//! Builds the measuring programs with the user's own `mpicc`, or `cc` where no
//! message is passed.
//!
//! They are plain C and shipped as source, so they are linked against whatever
//! the user measures, exactly like the user's own programs.

use std::collections::hash_map::DefaultHasher;
use std::ffi::OsString;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{BenchError, Result, file_error};
use crate::facts::find_program;

const COMMON: &str = include_str!("../mpi/common.h");
const COUNTERS: &str = include_str!("../mpi/counters.h");

/// One of the measuring programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuringProgram {
    /// Two ranks, one message back and forth.
    Pingpong,
    /// Any number of ranks in a circle.
    Ring,
    /// Any number of ranks, collectives and exchanges by length.
    Collectives,
    /// Any number of ranks, each algorithm of each collective.
    Algorithms,
    /// Everybody sends to rank 0, which is away meanwhile.
    Backlog,
    /// Two ranks, windows of messages.
    Stream,
    /// Two ranks, messages after silence.
    Echo,
    /// Everybody sends to rank 0, for a while.
    Incast,
    /// Everybody sends to rank 0, a fixed number of messages.
    Funnel,
    /// Two ranks, what memory they hold.
    Memory,
    /// Two ranks, one way without pause.
    Flow,
    /// Any number of ranks, all patterns, every byte checked.
    Soak,
    /// Two ranks, what LogGP's parameters are computed from.
    LogGp,
}

impl MeasuringProgram {
    fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Ring => "ring",
            Self::Backlog => "backlog",
            Self::Collectives => "collectives",
            Self::Algorithms => "algorithms",
            Self::Stream => "stream",
            Self::Soak => "soak",
            Self::Flow => "flow",
            Self::Echo => "echo",
            Self::Incast => "incast",
            Self::Funnel => "funnel",
            Self::Memory => "memory",
            Self::LogGp => "loggp",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Pingpong => include_str!("../mpi/pingpong.c"),
            Self::Ring => include_str!("../mpi/ring.c"),
            Self::Backlog => include_str!("../mpi/backlog.c"),
            Self::Collectives => include_str!("../mpi/collectives.c"),
            Self::Algorithms => include_str!("../mpi/algorithms.c"),
            Self::Stream => include_str!("../mpi/stream.c"),
            Self::Soak => include_str!("../mpi/soak.c"),
            Self::Flow => include_str!("../mpi/flow.c"),
            Self::Echo => include_str!("../mpi/echo.c"),
            Self::Incast => include_str!("../mpi/incast.c"),
            Self::Funnel => include_str!("../mpi/funnel.c"),
            Self::Memory => include_str!("../mpi/memory.c"),
            Self::LogGp => include_str!("../mpi/loggp.c"),
        }
    }

    /// Builds it into `cache`, or finds what an earlier call built there from
    /// the same source with the same compiler.
    ///
    /// # Errors
    /// When there is no `mpicc`, it fails, or the folder is not writable.
    pub fn build(self, cache: &Path) -> Result<PathBuf> {
        self.build_by(None, cache)
    }

    /// Builds it by that compiler, or by the `mpicc` that is found.
    ///
    /// # Errors
    /// As for [`Self::build`].
    pub fn build_by(self, compiler: Option<PathBuf>, cache: &Path) -> Result<PathBuf> {
        let mpicc = compiler.or_else(|| find_program("mpicc")).ok_or_else(|| {
            BenchError::ProgramMissing { program: "mpicc".into(), package: "libopenmpi-dev" }
        })?;
        let line = Command::new(&mpicc).arg("-show").output().map(|o| o.stdout).unwrap_or_default();
        let file = format!("{}.c", self.name());
        Recipe {
            name: self.name(),
            compiler: mpicc,
            arguments: vec![],
            sources: &[(&file, self.source()), ("common.h", COMMON), ("counters.h", COUNTERS)],
            // The line behind the wrapper names the MPI's own folders.
            besides: line,
        }
        .build(cache)
    }
}

/// A program that a C compiler makes of one source file and its headers.
#[derive(Debug)]
pub(crate) struct Recipe<'a> {
    pub(crate) name: &'a str,
    pub(crate) compiler: PathBuf,
    /// Behind the source, so that libraries are found.
    pub(crate) arguments: Vec<OsString>,
    /// Names and texts; the first one is compiled.
    pub(crate) sources: &'a [(&'a str, &'a str)],
    /// What else the program changes with.
    pub(crate) besides: Vec<u8>,
}

impl Recipe<'_> {
    /// Builds it into `cache`, or finds what an earlier call built there from
    /// the same.
    pub(crate) fn build(&self, cache: &Path) -> Result<PathBuf> {
        fs::create_dir_all(cache).map_err(file_error(cache))?;
        let program = cache.join(format!("{}-{:016x}", self.name, self.key()));
        if program.is_file() {
            return Ok(program);
        }
        let work = cache.join(format!("build-{}-{}", self.name, std::process::id()));
        let built = self.build_in(&work);
        let placed =
            built.and_then(|from| fs::rename(&from, &program).map_err(file_error(&program)));
        // Whatever became of the build, its folder must not stay.
        let _ = fs::remove_dir_all(&work);
        placed.map(|()| program)
    }

    fn key(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.sources, &self.compiler, &self.arguments, &self.besides).hash(&mut hasher);
        hasher.finish()
    }

    fn build_in(&self, work: &Path) -> Result<PathBuf> {
        fs::create_dir_all(work).map_err(file_error(work))?;
        for (name, text) in self.sources {
            let source = work.join(name);
            fs::write(&source, text).map_err(file_error(&source))?;
        }
        let program = work.join(self.name);
        let compiler = self.compiler.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let program_name = self.name.to_owned();
        let compile_error =
            |detail| BenchError::Compile { compiler, program: program_name, detail };
        let output = Command::new(&self.compiler)
            .args(["-O2", "-o"])
            .arg(&program)
            .args(self.sources.first().map(|(name, _)| work.join(name)))
            .args(&self.arguments)
            .output();
        let output = match output {
            Ok(output) if output.status.success() => return Ok(program),
            Ok(output) => output,
            Err(error) => return Err(compile_error(error.to_string())),
        };
        let text = String::from_utf8_lossy(&output.stderr);
        let line = text.lines().find(|l| l.contains("error")).or(text.lines().next());
        Err(compile_error(line.unwrap_or("no message").to_owned()))
    }
}
