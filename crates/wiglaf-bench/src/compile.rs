//! Builds the measuring programs with the user's own `mpicc`.
//!
//! They are plain MPI and shipped as source, so they are linked against
//! whatever MPI the user measures, exactly like the user's own programs.

use std::collections::hash_map::DefaultHasher;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{BenchError, Result, file_error};
use crate::facts::find_program;

const COMMON: &str = include_str!("../mpi/common.h");

/// One of the measuring programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuringProgram {
    /// Two ranks, one message back and forth.
    Pingpong,
    /// Any number of ranks in a circle.
    Ring,
    /// Two ranks, windows of messages.
    Stream,
}

impl MeasuringProgram {
    fn name(self) -> &'static str {
        match self {
            Self::Pingpong => "pingpong",
            Self::Ring => "ring",
            Self::Stream => "stream",
        }
    }

    fn source(self) -> &'static str {
        match self {
            Self::Pingpong => include_str!("../mpi/pingpong.c"),
            Self::Ring => include_str!("../mpi/ring.c"),
            Self::Stream => include_str!("../mpi/stream.c"),
        }
    }

    /// Builds it into `cache`, or finds what an earlier call built there from
    /// the same source with the same compiler.
    ///
    /// # Errors
    /// When there is no `mpicc`, it fails, or the folder is not writable.
    pub fn build(self, cache: &Path) -> Result<PathBuf> {
        let mpicc = find_program("mpicc").ok_or_else(|| BenchError::ProgramMissing {
            program: "mpicc".into(),
            package: "libopenmpi-dev",
        })?;
        fs::create_dir_all(cache).map_err(file_error(cache))?;
        let program = cache.join(format!("{}-{:016x}", self.name(), self.key(&mpicc)));
        if program.is_file() {
            return Ok(program);
        }
        let work = cache.join(format!("build-{}-{}", self.name(), std::process::id()));
        let built = self.build_in(&work, &mpicc);
        let placed =
            built.and_then(|from| fs::rename(&from, &program).map_err(file_error(&program)));
        // Whatever became of the build, its folder must not stay.
        let _ = fs::remove_dir_all(&work);
        placed.map(|()| program)
    }

    /// Changes with the source, the wrapper and the compiler line behind it,
    /// which names the MPI's own folders.
    fn key(self, mpicc: &Path) -> u64 {
        let line = Command::new(mpicc).arg("-show").output().map(|o| o.stdout).unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        (COMMON, self.source(), mpicc, line).hash(&mut hasher);
        hasher.finish()
    }

    fn build_in(self, work: &Path, mpicc: &Path) -> Result<PathBuf> {
        fs::create_dir_all(work).map_err(file_error(work))?;
        let source = work.join(format!("{}.c", self.name()));
        let header = work.join("common.h");
        fs::write(&header, COMMON).map_err(file_error(&header))?;
        fs::write(&source, self.source()).map_err(file_error(&source))?;
        let program = work.join(self.name());
        let compile_error =
            |detail| BenchError::Compile { program: self.name().to_owned(), detail };
        let output = Command::new(mpicc)
            .args(["-O2", "-o"])
            .arg(&program)
            .arg(&source)
            .output()
            .map_err(|e| compile_error(e.to_string()))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            let line = text.lines().find(|l| l.contains("error")).or(text.lines().next());
            return Err(compile_error(line.unwrap_or("no message").to_owned()));
        }
        Ok(program)
    }
}
