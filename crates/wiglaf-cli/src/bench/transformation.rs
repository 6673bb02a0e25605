//! `wiglaf bench transformation`: `examples/transformation` by `wiglaf run`,
//! the rivals' servers and mounts by `wiglaf exec`.

use std::path::{Path, PathBuf};

use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_bench::Launcher;
use wiglaf_bench::transformation::{self, Input, Plan, WAYS, Way};

use super::launcher::Emulated;
use super::{Common, files, need_openmpi};
use crate::choices::{Word, any};
use crate::measuring::nodes::Cluster;
use crate::measuring::{interrupt, make_folder, plain, progress, work_folder};
use crate::options::Global;
use crate::up::this_exe;

/// As in the measurements of 1999.
const NODES: usize = 3;

const HELP: &str = "\
Examples:
  wiglaf bench transformation            3 rounds, 161 functions
  wiglaf bench transformation --quick    1 round, 104 functions
  wiglaf bench transformation --ways wiglaf,nfs --repeats 5

The program is examples/transformation, to be built before:
  make -C examples/transformation CINT=$PWD/target/libcint/deps
It runs on one node, with its own disk, and on two and three nodes by each way
to the files of the others. All servers and keys are the run's own. Every
energy must be NWChem's. Needs the Debian packages sshfs, openssh-server,
nfs-ganesha, nfs-ganesha-vfs and libnfs-dev; who lacks one does not take part.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct TransformationArgs {
    #[command(flatten)]
    common: Common,

    /// The built program [default: target/transformation/transformation]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Who takes part on several nodes [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = any::<Way>())]
    ways: Vec<Way>,
}

impl Word for Way {
    const ALL: &'static [Self] = &WAYS;

    fn word(self) -> &'static str {
        match self {
            Self::Wiglaf => "wiglaf",
            Self::WiglafMount => "wiglaf-mount",
            Self::Nfs => "nfs",
            Self::Sshfs => "sshfs",
            Self::Local => "local",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Wiglaf => "Wiglaf's library",
            Self::WiglafMount => "`wiglaf mount`",
            Self::Nfs => "libnfs and nfs-ganesha",
            Self::Sshfs => "With the fastest cipher",
            Self::Local => "The disk where it is",
        }
    }
}

/// The program that was named, or that stands in the build tree of `exe`.
fn program(named: Option<&Path>, exe: &Path) -> Result<PathBuf> {
    if let Some(file) = named {
        return file.canonicalize().cannot(|| format!("find {}", file.display()));
    }
    let target = exe.parent().and_then(Path::parent);
    let built = target.map(|dir| dir.join("transformation/transformation"));
    built.filter(|file| file.is_file()).ok_or_else(|| {
        Error::not_found(
            "examples/transformation is not built; run `make -C examples/transformation \
             CINT=$PWD/target/libcint/deps`, or name the program with --program",
        )
    })
}

pub(super) fn run(args: &TransformationArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    need_openmpi()?;
    let exe = this_exe()?;
    let program = program(args.program.as_deref(), &exe)?;
    make_folder(&common.output)?;
    let cache = work_folder(&common.output)?;
    let cluster = Cluster::find_or_start(global, &common.wish(NODES))?;
    let link = common.link;
    let jobs = (1..=NODES)
        .map(|nodes| Emulated::new(&cluster, nodes, nodes, link, &cache))
        .collect::<Result<Vec<_>>>()?;
    let launchers: Vec<&dyn Launcher> = jobs.iter().map(|job| job as &dyn Launcher).collect();
    let nodes = files::Emulated { cluster: &cluster, exe, link: link.name(), nodes: NODES };
    let plan = Plan {
        rounds: common.rounds(3, 1),
        input: if common.quick { Input::CcPvtz } else { Input::AugCcPvtz },
        ways: match args.ways.as_slice() {
            [] => WAYS.to_vec(),
            some => some.to_vec(),
        },
        nodes_max: NODES,
        program,
        cache: cache.clone(),
    };
    let measured = transformation::measure(&launchers, &nodes, &plan, &mut progress);
    interrupt::check()?;
    common.publish(&measured.map_err(plain)?)
}
