//! The checks themselves: of a compiler alone, and of one with an MPI.

use std::path::{Path, PathBuf};

use wiglaf_base::error::Result;
use wiglaf_mpi::fortran::{self, FortranTrue};
use wiglaf_mpi::{Family, Installation};

use super::child::Done;
use super::compilers::{Compiler, Kind, Language};
use super::workshop::{self, Linkage, Source, Workshop};
use super::{Check, Finding, Verdict};

/// What a check found, and the mend.
struct Found(Verdict, String, Option<String>);

impl Found {
    fn ok(found: impl Into<String>) -> Self {
        Self(Verdict::Ok, found.into(), None)
    }

    fn fails(found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self(Verdict::Fails, found.into(), Some(mend.into()))
    }

    /// A program that did not link for want of a library, or otherwise failed.
    fn not_linked(done: &Done, library: &str, package: &str, mend: &str) -> Self {
        let lacks = ["cannot find -l", "unable to find library -l"]
            .iter()
            .any(|words| done.text.contains(&format!("{words}{library}")));
        match lacks {
            true => {
                let mend = format!("apt-get install {package}");
                Self(Verdict::Absent, format!("there is no lib{library}"), Some(mend))
            }
            false => Self::fails(done.complaint(), mend),
        }
    }
}

/// A compiler by itself.
pub(super) struct Solo<'a> {
    pub(super) compiler: &'a Compiler,
    pub(super) findings: Vec<Finding>,
    /// What it needs to link anything.
    linkage: Linkage,
}

impl<'a> Solo<'a> {
    pub(super) fn examine(compiler: &'a Compiler) -> Result<Self> {
        let shop = Workshop::new()?;
        let mut solo = Self { compiler, findings: Vec::new(), linkage: Linkage::default() };
        let program = solo.link(&shop);
        if let Some(program) = program.filter(|_| compiler.language() == Language::Fortran) {
            solo.language(&shop, &program);
        }
        if solo.links() {
            let blas = solo.blas(&shop);
            solo.add(Check::Blas, blas);
        }
        Ok(solo)
    }

    /// Whether it is of any use.
    pub(super) fn links(&self) -> bool {
        self.findings.iter().any(|f| f.check == Check::Links && f.verdict != Verdict::Fails)
    }

    fn add(&mut self, check: Check, Found(verdict, found, mend): Found) {
        let compiler = self.compiler.title();
        self.findings.push(Finding { compiler, mpi: None, check, verdict, found, mend });
    }

    /// Links a program, with the compiler's own libraries where that takes it.
    fn link(&mut self, shop: &Workshop) -> Option<PathBuf> {
        let source = match self.compiler.language() {
            Language::C => &Source("main.c", "int main(void) { return 0; }\n"),
            Language::Fortran => &workshop::LANGUAGE,
        };
        let compile =
            |linkage: &Linkage| shop.compile(self.compiler, &[source], linkage, &[], "language");
        let failure = match compile(&self.linkage) {
            Ok(program) => {
                self.add(Check::Links, Found::ok("links a program"));
                return Some(program);
            }
            Err(failure) => failure,
        };
        if let Some(dir) = self.compiler.own_libraries() {
            let flag = format!("-L{}", dir.display());
            let linkage = Linkage::default().with(&flag);
            if let Ok(program) = compile(&linkage) {
                self.linkage = linkage;
                let mend = Some(format!("add {flag} where you link"));
                self.add(Check::Links, Found(Verdict::Mended, failure.complaint(), mend));
                return Some(program);
            }
        }
        self.add(Check::Links, Found::fails(failure.complaint(), "install the compiler anew"));
        None
    }

    fn language(&mut self, shop: &Workshop, program: &Path) {
        let mangling = mangling(&std::fs::read(program).unwrap_or_default());
        let names = match mangling {
            Some(mangling) => Found::ok(mangling),
            None => Found::fails("a way that no MPI has", "choose lower case and one underscore"),
        };
        self.add(Check::Names, names);
        let said = shop.run(program);
        let stored = said.behind("true").unwrap_or_default();
        let truth = match stored.split(' ').collect::<Vec<_>>()[..] {
            ["1", "1", "1", "1"] => Found::ok("1"),
            ["-1", "-1", "-1", "-1"] => {
                let mend = Some("wiglaf run --fortran-true=-1".to_owned());
                Found(Verdict::Mended, "-1".to_owned(), mend)
            }
            _ => Found::fails(
                format!("stores `{stored}` in kinds 1, 2, 4 and 8; {}", said.complaint()),
                "choose the compiler's option for standard LOGICALs",
            ),
        };
        self.add(Check::True, truth);
        let read = said.behind("reads -1").unwrap_or_default();
        self.add(
            Check::MinusOne,
            match read {
                "1 0" => Found::ok("true"),
                "0 1" => Found::ok("false"),
                "1 1" => {
                let mend = "a LOGICAL that holds -1 is .TRUE. here and so is its .not.: convert \
                            what other compilers stored";
                Found(Verdict::Ok, "both".to_owned(), Some(mend.to_owned()))
            }
                _ => Found::fails("neither true nor false", "keep foreign LOGICALs out"),
            },
        );
    }

    fn blas(&self, shop: &Workshop) -> Found {
        const MEND: &str = "link a BLAS that was built for this compiler's calls";
        let source = match self.compiler.language() {
            Language::C => &workshop::BLAS_C,
            Language::Fortran => &workshop::BLAS,
        };
        let linkage = self.linkage.clone().with("-lblas");
        match shop.compile(self.compiler, &[source], &linkage, &[], "blas") {
            Err(done) => Found::not_linked(&done, "blas", "libopenblas-dev", MEND),
            Ok(program) => match shop.run(&program) {
                done if done.behind("ok").is_some() => Found::ok("dot products and dgemm"),
                done => Found::fails(done.complaint(), MEND),
            },
        }
    }
}

/// How the name of `probe_name` stands in a program's table of symbols.
fn mangling(code: &[u8]) -> Option<&'static str> {
    let has = |name: &[u8]| {
        let wanted = [b"\0", name, b"\0"].concat();
        code.windows(wanted.len()).any(|window| window == wanted)
    };
    let known: [(&[u8], &str); 4] = [
        (b"probe_name_", "name_"),
        (b"probe_name__", "name__"),
        (b"PROBE_NAME", "NAME"),
        (b"probe_name", "name"),
    ];
    known.into_iter().find(|(name, _)| has(name)).map(|(_, shown)| shown)
}

/// A compiler, the MPI that a program is built for, and the one that runs it.
pub(super) struct Pair<'a> {
    pub(super) solo: &'a Solo<'a>,
    pub(super) builder: &'a Installation,
    pub(super) runner: &'a Installation,
}

/// A pair at work.
struct Trial<'a> {
    pair: &'a Pair<'a>,
    shop: Workshop,
    linkage: Linkage,
    exe: &'a Path,
    findings: Vec<Finding>,
}

impl Pair<'_> {
    pub(super) fn examine(&self, exe: &Path) -> Result<Vec<Finding>> {
        let Some(mut linkage) = self.linkage() else { return Ok(Vec::new()) };
        linkage.libraries.extend(self.solo.linkage.libraries.iter().cloned());
        let shop = Workshop::new()?;
        let mut trial = Trial { pair: self, shop, linkage, exe, findings: Vec::new() };
        match self.solo.compiler.language() {
            Language::Fortran => trial.fortran(),
            Language::C => trial.c(),
        }
        Ok(trial.findings)
    }

    /// C programs that call by Fortran's names need that library too.
    fn linkage(&self) -> Option<Linkage> {
        let fortran = Linkage::of(self.builder, Language::Fortran)?;
        if self.solo.compiler.language() == Language::Fortran {
            return Some(fortran);
        }
        let mut linkage = Linkage::of(self.builder, Language::C)?;
        linkage.libraries.splice(..0, fortran.libraries);
        Some(linkage)
    }

    fn is_swapped(&self) -> bool {
        self.builder != self.runner
    }

    fn mpi_title(&self) -> String {
        format!("{} {}", self.runner.family, self.runner.version)
    }
}

impl Trial<'_> {
    fn add(&mut self, check: Check, Found(verdict, found, mend): Found) {
        let compiler = self.pair.solo.compiler.title();
        let mpi = Some(self.pair.mpi_title());
        self.findings.push(Finding { compiler, mpi, check, verdict, found, mend });
    }

    fn fortran(&mut self) {
        let header = self.header();
        let usable = header.0 == Verdict::Ok || header.0 == Verdict::Mended;
        self.add(Check::Header, header);
        let module = self.module();
        self.add(Check::Module, module);
        let module = self.module08();
        self.add(Check::Module08, module);
        if !usable {
            return;
        }
        for (check, truth) in [(Check::ReduceOne, 1), (Check::ReduceMinusOne, -1)] {
            let found = self.reductions(truth);
            self.add(check, found);
        }
        if !self.pair.is_swapped() {
            let width = self.width();
            self.add(Check::Integer, width);
            let solved = self.scalapack();
            self.add(Check::Scalapack, solved);
        }
    }

    fn c(&mut self) {
        let width = self.width();
        self.add(Check::Integer, width);
        for (check, truth) in [(Check::ReduceOne, 1), (Check::ReduceMinusOne, -1)] {
            let found = self.reductions(truth);
            self.add(check, found);
        }
        let solved = self.scalapack();
        self.add(Check::Scalapack, solved);
    }

    fn compile(
        &self,
        sources: &[&Source],
        flags: &[&str],
        program: &str,
    ) -> std::result::Result<PathBuf, Done> {
        self.shop.compile(self.pair.solo.compiler, sources, &self.linkage, flags, program)
    }

    fn run(&self, program: &Path, vars: &[(String, String)]) -> Done {
        self.shop.run_ranks(self.pair.runner, program, vars)
    }

    /// Compiles the probe of an interface and runs it.
    fn interface(&self, way: u8, before: &[&Source]) -> std::result::Result<(), Found> {
        let sources: Vec<&Source> = before.iter().copied().chain([&workshop::INTERFACE]).collect();
        let flags = [&*format!("-DWAY={way}"), "-I."];
        let program = self.compile(&sources, &flags, "interface").map_err(|done| {
            Found::fails(done.complaint(), "see what the compiler says of the same line")
        })?;
        let done = self.run(&program, &[]);
        match done.behind("ok on 2 ranks") {
            Some(_) => Ok(()),
            None => Err(Found::fails(done.complaint(), self.mend_run())),
        }
    }

    fn mend_run(&self) -> String {
        match (self.pair.is_swapped(), self.pair.runner.family) {
            (true, Family::OpenMpi) => format!(
                "Fortran programs need an MPI with a Fortran library of its own; take {}",
                self.pair.builder.summary()
            ),
            _ => format!("try `{} -n 2 hostname`", self.pair.runner.launcher.display()),
        }
    }

    /// `mpif.h`. Open MPI's has a part that not every compiler understands,
    /// and that few programs need: MPI_Sizeof.
    fn header(&mut self) -> Found {
        let failed = match self.interface(1, &[]) {
            Ok(()) => return Found::ok("works"),
            Err(failed) => failed,
        };
        if !failed.1.contains("mpif-sizeof.h") {
            return failed;
        }
        let dirs = self.linkage.includes.iter().filter_map(|flag| flag.strip_prefix("-I"));
        let Some(header) = dirs.map(|dir| Path::new(dir).join("mpif.h")).find(|p| p.is_file())
        else {
            return failed;
        };
        let header = header.canonicalize().unwrap_or(header);
        let text = std::fs::read_to_string(&header).unwrap_or_default();
        let rest = text.lines().filter(|line| !line.contains("mpif-sizeof.h"));
        self.shop.write("mpif.h", &rest.map(|line| format!("{line}\n")).collect::<String>());
        match self.interface(1, &[]) {
            Ok(()) => {
                let mend =
                    format!("sed /mpif-sizeof/d {} > mpif.h, beside the sources", header.display());
                Found(Verdict::Mended, failed.1, Some(mend))
            }
            Err(failed) => failed,
        }
    }

    /// The module `mpi`: the MPI's own, or one made of `mpif.h`.
    fn module(&self) -> Found {
        let failed = match self.interface(2, &[]) {
            Ok(()) => return Found::ok("works"),
            Err(failed) => failed,
        };
        match self.interface(2, &[&workshop::MODULE]) {
            Ok(()) => {
                let mend =
                    "compile a module of your own first: module mpi; include 'mpif.h'; end module";
                Found(Verdict::Mended, failed.1, Some(mend.to_owned()))
            }
            Err(_) => failed,
        }
    }

    fn module08(&self) -> Found {
        match self.interface(3, &[]) {
            Ok(()) => Found::ok("works"),
            Err(Found(verdict, found, _)) if !self.pair.is_swapped() => {
                let mend = "take mpif.h or the module mpi; or build the MPI with this compiler";
                Found(verdict, found, Some(mend.to_owned()))
            }
            Err(failed) => failed,
        }
    }

    /// Logical reductions of a program that stores `truth`.
    fn reductions(&self, truth: i8) -> Found {
        let truth_flag = format!("-DTRUTH={truth}");
        let (source, mut flags) = match self.pair.solo.compiler.language() {
            Language::C => (&workshop::REDUCTIONS_C, vec![&*truth_flag]),
            Language::Fortran => (&workshop::REDUCTIONS, vec![&*truth_flag, "-DWAY=1", "-I."]),
        };
        if self.pair.builder.family == Family::OpenMpi {
            flags.push("-DKINDS");
        }
        let program = match self.compile(&[source], &flags, "reductions") {
            Ok(program) => program,
            Err(done) => return Found::fails(done.complaint(), "see what the compiler says"),
        };
        let right =
            |done: &Done| done.behind("0 of ").is_some_and(|rest| rest.contains("wrong on"));
        let alone = self.run(&program, &[]);
        if right(&alone) {
            return Found::ok("LAND, LOR and LXOR are right");
        }
        let wrong = alone.complaint();
        if truth == 1 {
            return Found::fails(wrong, self.mend_run());
        }
        match fortran::preload_here(FortranTrue::MinusOne, self.exe) {
            Ok(Some(preload)) => match self.run(&program, &preload.vars) {
                done if right(&done) => {
                    let mend =
                        "wiglaf run --fortran-true=-1, for programs whose compiler stores -1";
                    Found(Verdict::Mended, wrong, Some(mend.to_owned()))
                }
                done => Found::fails(done.complaint(), "build the program with .TRUE. as 1"),
            },
            Ok(None) => Found::fails(wrong, "build the program with .TRUE. as 1"),
            Err(error) => Found::fails(wrong, error.to_string()),
        }
    }

    /// INTEGERs as they are by default, and by the option that doubles them.
    fn width(&self) -> Found {
        let (source, option) = match self.pair.solo.compiler.kind {
            Kind::Gfortran | Kind::Flang => (&workshop::WIDTH, Some("-fdefault-integer-8")),
            Kind::Gcc | Kind::Clang => (&workshop::WIDTH_C, None),
        };
        let width = |flags: &[&str]| match self.compile(&[source], flags, "width") {
            Ok(program) => {
                let done = self.run(&program, &[]);
                done.behind("width").map_or_else(|| done.complaint(), str::to_owned)
            }
            Err(done) => done.complaint(),
        };
        let plain = width(&["-I."]);
        let Some((ours, theirs)) = plain.split_once(" of MPI ").filter(|(a, b)| a == b) else {
            return Found::fails(plain, "give MPI INTEGERs of its own width");
        };
        let found = format!("{ours} bytes, MPI's {theirs}");
        let Some(option) = option else { return Found::ok(found) };
        let wide = width(&["-I.", option]);
        match wide.as_str() {
            "8 of MPI 8" => Found::ok(format!("{found}; 8 and 8 with {option}")),
            _ => {
                let mend = format!("leave {option} away: MPI fills {theirs} bytes of each 8");
                Found(Verdict::Ok, format!("{found}; with {option} {wide}"), Some(mend))
            }
        }
    }

    fn scalapack(&self) -> Found {
        let family = self.pair.builder.family.name();
        let library = format!("scalapack-{family}");
        let linkage = self.linkage.clone().with(&format!("-l{library}"));
        let compiler = self.pair.solo.compiler;
        let (source, linkage) = match compiler.language() {
            Language::C => (&workshop::SCALAPACK_C, linkage.and("-lm")),
            Language::Fortran => (&workshop::SCALAPACK, linkage),
        };
        let mend = "link the ScaLAPACK that was built for this MPI";
        match self.shop.compile(compiler, &[source], &linkage, &[], "scalapack") {
            Err(done) => Found::not_linked(&done, &library, &format!("lib{library}-dev"), mend),
            Ok(program) => match self.run(&program, &[]) {
                done if done.behind("ok on 2 ranks").is_some() => Found::ok("PDGESV on 2 ranks"),
                done => Found::fails(done.complaint(), mend),
            },
        }
    }
}
