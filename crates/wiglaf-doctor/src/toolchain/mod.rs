//! What compilers and MPIs of this machine make of each other, found by
//! compiling and running small programs.
//!
//! The traps are old: a compiler that stores .TRUE. as -1 meets an MPI that
//! writes 1, module files that only one compiler reads, INTEGERs of another
//! width, functions that return complex numbers in another place. None of them
//! says a word at run time; so here each is tried.

mod child;
mod compilers;
mod probes;
mod workshop;

pub use compilers::{Compiler, Language, all as compilers};

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde::Serialize;
use wiglaf_base::error::Result;
use wiglaf_base::machine;
use wiglaf_mpi::{Family, Installation, discover};

use probes::{Pair, Solo};

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It works as it is.
    Ok,
    /// It fails as it is, and was tried with the mend: then it works.
    Mended,
    /// It fails.
    Fails,
    /// Something that it needs is not installed.
    Absent,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Check {
    /// The compiler links a program.
    #[serde(rename = "links")]
    Links,
    /// How it writes the names of procedures.
    #[serde(rename = "names")]
    Names,
    /// What it stores for .TRUE..
    #[serde(rename = ".TRUE.")]
    True,
    /// What it takes -1 for.
    #[serde(rename = "-1 is")]
    MinusOne,
    /// A call of BLAS, for each type of result.
    #[serde(rename = "BLAS")]
    Blas,
    /// Through `mpif.h`; for C, through `mpi.h`.
    #[serde(rename = "mpif.h")]
    Header,
    /// Through the module `mpi`.
    #[serde(rename = "mpi")]
    Module,
    /// Through the module `mpi_f08`.
    #[serde(rename = "mpi_f08")]
    Module08,
    /// Logical reductions of a program that stores 1 for .TRUE..
    #[serde(rename = "true=1")]
    ReduceOne,
    /// Of one that stores -1.
    #[serde(rename = "true=-1")]
    ReduceMinusOne,
    /// INTEGERs are as wide as MPI's.
    #[serde(rename = "INTEGER")]
    Integer,
    /// A system is solved on two ranks.
    #[serde(rename = "ScaLAPACK")]
    Scalapack,
}

/// One finding.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The compiler.
    pub compiler: String,
    /// The MPI, where one had to do with it.
    pub mpi: Option<String>,
    /// What was looked at.
    pub check: Check,
    /// How it came out.
    pub verdict: Verdict,
    /// What was found.
    pub found: String,
    /// What to do about it.
    pub mend: Option<String>,
}

/// All findings.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Whether nothing failed.
    pub sound: bool,
    /// In the order of compilers and MPIs.
    pub findings: Vec<Finding>,
    /// Compilers and MPIs that are not here, and the commands that bring them.
    pub absent: Vec<(String, String)>,
}

/// Tries everything with everything; `exe` is the running `wiglaf`.
///
/// # Errors
/// When there is no place for small programs.
pub fn examine(exe: &Path) -> Result<Report> {
    let compilers = compilers();
    let mpis = discover::all();
    let mut absent: Vec<(String, String)> =
        compilers::absent(&compilers).into_iter().map(|(n, m)| (n.to_owned(), m)).collect();
    for (family, mend) in [
        (Family::OpenMpi, "apt-get install libopenmpi-dev openmpi-bin"),
        (Family::Mpich, "apt-get install libmpich-dev mpich"),
    ] {
        if !mpis.iter().any(|mpi| mpi.family == family && mpi.wrappers.fortran.is_some()) {
            absent.push((format!("{family} with Fortran"), mend.to_owned()));
        }
    }
    let findings = examine_these(&compilers, &mpis, exe)?;
    let sound = findings.iter().all(|finding| finding.verdict != Verdict::Fails);
    Ok(Report { sound, findings, absent })
}

/// Tries some compilers with some MPIs.
///
/// # Errors
/// When there is no place for small programs.
pub fn examine_these(
    compilers: &[Compiler],
    mpis: &[Installation],
    exe: &Path,
) -> Result<Vec<Finding>> {
    let solos = solos(compilers)?;
    let mut findings: Vec<Finding> = solos.iter().flat_map(|solo| solo.findings.clone()).collect();
    findings.extend(in_parallel(pairs(&solos, mpis), |pair| pair.examine(exe))?);
    Ok(findings)
}

/// Each compiler by itself.
fn solos(compilers: &[Compiler]) -> Result<Vec<Solo<'_>>> {
    in_parallel(compilers.iter().collect(), |compiler| Ok(vec![Solo::examine(compiler)?]))
}

/// Which compilers are tried with which MPIs: with all that have a Fortran
/// library; and the first of Fortran with programs that run on another MPI of
/// the same binary interface.
fn pairs<'a>(solos: &'a [Solo<'a>], mpis: &'a [Installation]) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    let mut swapped = false;
    for solo in solos.iter().filter(|solo| solo.links()) {
        let complete = mpis.iter().filter(|mpi| mpi.wrappers.fortran.is_some());
        pairs.extend(complete.clone().map(|mpi| Pair { solo, builder: mpi, runner: mpi }));
        if solo.compiler.language() != Language::Fortran || std::mem::replace(&mut swapped, true) {
            continue;
        }
        let interface = |mpi: &Installation| mpi.family == Family::OpenMpi;
        for runner in mpis.iter().filter(|mpi| mpi.wrappers.fortran.is_none()) {
            let builder = complete.clone().find(|mpi| interface(mpi) == interface(runner));
            pairs.extend(builder.map(|builder| Pair { solo, builder, runner }));
        }
    }
    pairs
}

/// Does work on all cores; the results are in the order of the work.
fn in_parallel<T: Send, R: Send>(
    work: Vec<T>,
    each: impl Fn(&T) -> Result<Vec<R>> + Sync,
) -> Result<Vec<R>> {
    let count = work.len();
    let queue = Mutex::new(work.into_iter().enumerate().collect::<VecDeque<_>>());
    let results = Mutex::new((0..count).map(|_| None).collect::<Vec<_>>());
    let worker = || {
        loop {
            let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
            let Some((index, item)) = next else { return };
            let result = each(&item);
            results.lock().unwrap_or_else(PoisonError::into_inner)[index] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..machine::cores().len().min(count) {
            scope.spawn(worker);
        }
    });
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results
        .into_iter()
        .flatten()
        .collect::<Result<Vec<_>>>()
        .map(|r| r.into_iter().flatten().collect())
}

#[cfg(test)]
mod tests;
