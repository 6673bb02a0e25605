//! The programs that Wiglaf has inputs for, compared as users compare theirs: for `wiglaf demo` and `wiglaf bench`.

use std::path::Path;

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result, program};
use wiglaf_bench::{Settings, Transport};
use wiglaf_compare::Report;
use wiglaf_compare::programs::Program;
use wiglaf_link::LinkKind;
use wiglaf_mpi::Deal;

use super::{Args, Nodes, checked, complete, measure, text, transports};
use crate::measuring::{interrupt, progress};

/// Says which windows an Open MPI takes.
const WINDOWS: &str = "OMPI_MCA_osc";

/// How the programs are run.
pub(crate) struct Plan<'a> {
    /// Numbers of nodes, with a rank on each.
    pub(crate) nodes: &'a [usize],
    pub(crate) repeats: usize,
    /// All that are here, if none is named.
    pub(crate) transports: &'a [Transport],
    pub(crate) link: LinkKind,
    /// A folder that all nodes see.
    pub(crate) work: &'a Path,
    /// What an MPI is given here, over whichever transport.
    pub(crate) settings: Settings,
}

/// Says all that is missing, each with the package that brings it.
pub(crate) fn check_needed(needs: &[(&str, &str)], who: &str) -> Result<()> {
    let is_there = |what: &str| Path::new(what).is_absolute() && Path::new(what).exists();
    let missing: Vec<_> = needs
        .iter()
        .filter(|(what, _)| !is_there(what) && program::find_program(what).is_none())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for (what, package) in &missing {
        eprintln!("wiglaf: {what} is missing: apt-get install {package}");
    }
    let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
    Err(Error::not_found(format!(
        "{who} needs more programs; run `apt-get install {}`",
        packages.join(" ")
    )))
}

/// What was found of a program.
pub(crate) struct Compared {
    pub(crate) report: Report,
    /// Its title, its tables, and the energy of all runs.
    pub(crate) text: String,
    /// Whether all energies are right.
    pub(crate) energies: Result<()>,
}

impl Compared {
    /// The report, and whether all ran and all energies are right.
    pub(crate) fn verdict(self) -> (Report, Result<()>) {
        let verdict = self.energies.and_then(|()| complete(&self.report));
        (self.report, verdict)
    }
}

/// The program over each transport.
pub(crate) fn compare(program: &Program, plan: &Plan<'_>, nodes: &Nodes) -> Result<Compared> {
    progress(program.title);
    let folder = Folder::new(plan.work, program)?;
    let takes = |kind: &&str| {
        let listed = plan.settings.get(WINDOWS);
        listed.is_none_or(|list| list.split(',').any(|one| one == *kind))
    };
    let windows = program.windows.filter(takes);
    let args = Args {
        nodes: plan.nodes.to_vec(),
        ranks: None,
        per_node: None,
        weak: false,
        repeats: plan.repeats,
        transports: plan.transports.to_vec(),
        check: Some(program.check.parse().map_err(|why: String| Error::new(why))?),
        json: None,
        plot: None,
        mpi: "openmpi".to_owned(),
        link: plan.link,
        deal: Deal::Cyclic,
        stage: false,
        share: false,
        input: Vec::new(),
        env: windows.map(|kind| (WINDOWS.to_owned(), kind.to_owned())).into_iter().collect(),
        argv: [program.program].iter().chain(program.args).map(Into::into).collect(),
    };
    let (report, went) = measure(&args, &transports(&args)?, nodes, Some(&folder.0))?;
    went?;
    interrupt::check()?;
    let mut said = format!("{}\n{}", program.title, text(&report));
    let energies = checked(&args, &report).and_then(|line| {
        said.push_str(&line);
        program.objection(&report).map_or(Ok(()), |why| Err(Error::new(why)))
    });
    Ok(Compared { report, text: said, energies })
}

/// Where a program runs; it is gone when the runs are.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(work: &Path, program: &Program) -> Result<Self> {
        let folder = work.join(format!("{}-{}", program.word, std::process::id()));
        std::fs::create_dir_all(&folder)
            .cannot(|| format!("make the folder {}", folder.display()))?;
        let folder = Self(folder);
        let file = folder.0.join(program.args.last().copied().unwrap_or("input"));
        std::fs::write(&file, program.input(&folder.0))
            .cannot(|| format!("write {}", file.display()))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
