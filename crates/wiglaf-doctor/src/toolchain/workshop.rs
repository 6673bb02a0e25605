//! A folder where probes are compiled and run; it goes with its owner.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tempfile::TempDir;
use wiglaf_base::error::{Context, Result};
use wiglaf_base::machine;
use wiglaf_mpi::{Family, Installation, Settings, Transport, carries};

use super::child::{self, Done};
use super::compilers::{Compiler, Language};

/// Longest compilation. Only bounds what a broken compiler costs.
const COMPILE_LIMIT: Duration = Duration::from_secs(60);
/// Longest run of a probe.
const RUN_LIMIT: Duration = Duration::from_secs(30);

/// A probe: its file and its text.
pub(super) struct Source(pub(super) &'static str, pub(super) &'static str);

macro_rules! source {
    ($name:literal) => {
        Source($name, include_str!(concat!("sources/", $name)))
    };
}

pub(super) const LANGUAGE: Source = source!("language.f90");
pub(super) const INTERFACE: Source = source!("interface.F90");
pub(super) const MODULE: Source = source!("module.f90");
pub(super) const REDUCTIONS: Source = source!("reductions.F90");
pub(super) const REDUCTIONS_C: Source = source!("reductions.c");
pub(super) const WIDTH: Source = source!("width.f90");
pub(super) const WIDTH_C: Source = source!("width.c");
pub(super) const BLAS: Source = source!("blas.f90");
pub(super) const BLAS_C: Source = source!("blas.c");
pub(super) const SCALAPACK: Source = source!("scalapack.f90");
pub(super) const SCALAPACK_C: Source = source!("scalapack.c");

/// What a program is compiled and linked with.
#[derive(Debug, Clone, Default)]
pub(super) struct Linkage {
    /// Before the sources.
    pub(super) includes: Vec<String>,
    /// Behind them.
    pub(super) libraries: Vec<String>,
}

impl Linkage {
    /// What the wrapper of an MPI would add to its own compiler's line. Flags
    /// of that compiler itself stay away: another one may not know them.
    pub(super) fn of(mpi: &Installation, language: Language) -> Option<Self> {
        let wrapper = match language {
            Language::C => mpi.wrappers.c.as_ref()?,
            Language::Fortran => mpi.wrappers.fortran.as_ref()?,
        };
        let mut command = Command::new(wrapper);
        command.arg("-show").envs(mpi.own_variables());
        let shown = child::run(&mut command, RUN_LIMIT);
        let mut linkage = Self::default();
        for word in shown.text.split_whitespace().skip(1) {
            if word.starts_with("-I") {
                linkage.includes.push(word.to_owned());
            } else if ["-L", "-l", "-Wl,"].iter().any(|start| word.starts_with(start)) {
                linkage.libraries.push(word.to_owned());
            }
        }
        shown.succeeded.then_some(linkage)
    }

    /// Links a library behind the others.
    pub(super) fn and(mut self, library: &str) -> Self {
        self.libraries.push(library.to_owned());
        self
    }

    /// Links a library, before the others.
    pub(super) fn with(mut self, library: &str) -> Self {
        self.libraries.insert(0, library.to_owned());
        self
    }
}

/// The folder.
pub(super) struct Workshop {
    dir: TempDir,
}

impl Workshop {
    pub(super) fn new() -> Result<Self> {
        let dir = tempfile::Builder::new().prefix("wiglaf-toolchain-").tempdir();
        Ok(Self { dir: dir.cannot(|| "make a folder for small programs".to_owned())? })
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a file. A failure shows when a compiler does not find it.
    pub(super) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        let _ = fs::write(&path, text);
        path
    }

    /// Compiles sources into a program of this name, or says what was wrong.
    pub(super) fn compile(
        &self,
        compiler: &Compiler,
        sources: &[&Source],
        linkage: &Linkage,
        flags: &[&str],
        program: &str,
    ) -> std::result::Result<PathBuf, Done> {
        let path = self.path().join(program);
        let mut command = Command::new(&compiler.path);
        command.current_dir(self.path()).args(compiler.flags()).args(flags);
        command.args(&linkage.includes).arg("-o").arg(&path);
        command.args(sources.iter().map(|source| self.write(source.0, source.1)));
        command.args(&linkage.libraries);
        let mut done = child::run(&mut command, COMPILE_LIMIT);
        // The folder means nothing to a reader, and is another one each time.
        done.text = done.text.replace(&format!("{}/", self.path().display()), "");
        if done.succeeded { Ok(path) } else { Err(done) }
    }

    /// Runs a program by itself.
    pub(super) fn run(&self, program: &Path) -> Done {
        child::run(Command::new(program).current_dir(self.path()), RUN_LIMIT)
    }

    /// Runs two ranks of a program on this machine, over its loopback.
    pub(super) fn run_ranks(
        &self,
        mpi: &Installation,
        program: &Path,
        vars: &[(String, String)],
    ) -> Done {
        let transport = if carries(mpi, Transport::Tcp) { Transport::Tcp } else { Transport::Ucx };
        // From version 5 on Open MPI's launcher counts no loopback as a network.
        let loopback = mpi.family != Family::OpenMpi || !mpi.is_at_least(&[5]);
        let settings = Settings {
            transport,
            interface: loopback.then(|| "lo".to_owned()),
            as_root: machine::is_root(),
            leased: false,
            oversubscribed: true,
            name_dirs: vec![self.path().to_path_buf()],
            ..Settings::default()
        };
        let mut environment = match settings.environment(mpi, &|name| std::env::var(name).ok()) {
            Ok(environment) => environment,
            Err(error) => return Done { succeeded: false, text: format!("error: {error}\n") },
        };
        environment.extend(vars.iter().cloned());
        let mut command = Command::new(&mpi.launcher);
        command.args(["-n", "2"]);
        if mpi.family == Family::OpenMpi {
            // It starts no more ranks than there are cores, unless told.
            command.args(["--host", "localhost:2"]);
        }
        command.arg(program).current_dir(self.path()).envs(environment);
        child::run(&mut command, RUN_LIMIT)
    }
}
