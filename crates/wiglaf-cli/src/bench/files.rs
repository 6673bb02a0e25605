//! `wiglaf bench files`: commands on nodes of the cluster, by `wiglaf exec`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;

use wiglaf_base::Result;
use wiglaf_bench::files::{self, Library, Nodes, Plan, Sizes, WAYS, Way};
use wiglaf_cluster::launch;
use wiglaf_mpi::provider;

use super::{Common, size};
use crate::choices::{Word, any};
use crate::measuring::nodes::Cluster;
use crate::measuring::{interrupt, make_folder, plain, progress, work_folder};
use crate::options::Global;
use crate::up::this_exe;

const HELP: &str = "\
Examples:
  wiglaf bench files                     everybody, 1 GiB, 100000 small files
  wiglaf bench files --quick             64 MiB and 1000 small files
  wiglaf bench files --ways sshfs,wiglaf --stream 256M --small-files 5000

The files are on the second node, in its /scratch, which is in memory; the first
node reads and writes them, calls of 1 MiB for the stream. Whole runs count from
the opening of the file to its close. Mounts are made anew for each run; each
page is read and each small file visited once, so no client's cache serves one
again. sshfs takes part as it is installed, with OpenSSH's fastest cipher, and
with that and without page cache; of the three the best counts. The keys and
servers are the run's own. Needs the Debian packages sshfs, openssh-server,
nfs-ganesha, nfs-ganesha-vfs and libnfs-dev; who lacks one does not take part.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(super) struct FilesArgs {
    #[command(flatten)]
    common: Common,

    /// Length of the file that is written and read [default: 1024M, quick 64M]
    #[arg(long, value_name = "BYTES", value_parser = size)]
    stream: Option<u64>,

    /// How many small files [default: 100000, quick 1000]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    small_files: Option<u64>,

    /// Who takes part [default: all]
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = any::<Way>())]
    ways: Vec<Way>,
}

impl Word for Way {
    const ALL: &'static [Self] = &WAYS;

    fn word(self) -> &'static str {
        match self {
            Self::Local => "local",
            Self::Tcp => "tcp",
            Self::Sshfs => "sshfs",
            Self::SshfsFast => "sshfs-fast",
            Self::SshfsDirect => "sshfs-direct",
            Self::Nfs => "nfs",
            Self::Wiglaf => "wiglaf",
            Self::WiglafBuffered => "wiglaf-buffered",
            Self::WiglafMount => "wiglaf-mount",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Local => "The disk where it is",
            Self::Tcp => "One raw TCP stream",
            Self::Sshfs => "As it is installed",
            Self::SshfsFast => "With the fastest cipher",
            Self::SshfsDirect => "With the fastest cipher and without page cache",
            Self::Nfs => "libnfs and nfs-ganesha",
            Self::Wiglaf => "Wiglaf's library",
            Self::WiglafBuffered => "Wiglaf's library with read-ahead and write-behind",
            Self::WiglafMount => "`wiglaf mount`",
        }
    }
}

/// The first nodes of a cluster.
pub(super) struct Emulated<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) exe: PathBuf,
    pub(super) link: &'static str,
    /// So many of them.
    pub(super) nodes: usize,
}

impl Emulated<'_> {
    fn node(&self, place: usize) -> &wiglaf_cluster::shape::NodeShape {
        &self.cluster.record.shape.nodes[place]
    }
}

impl Nodes for Emulated<'_> {
    fn command(&self, node: usize, argv: &[OsString], folder: &Path) -> Command {
        let mut command = Command::new(&self.exe);
        command.arg("--state").arg(self.cluster.state.path());
        command.args(["exec", "-w", self.name(node), "--"]).args(argv);
        command.env("WIGLAF_LINK", self.link).current_dir(folder);
        command
    }

    fn name(&self, node: usize) -> &str {
        &self.node(node).name
    }

    fn address(&self, node: usize) -> Ipv4Addr {
        self.node(node).address
    }

    fn library(&self) -> std::result::Result<Library, String> {
        let folder = provider::files_library(&self.exe).map_err(|error| error.to_string())?;
        if launch::may_share() {
            let node = self.cluster.state.node(self.name(0));
            node.share(std::slice::from_ref(&folder)).map_err(|error| error.to_string())?;
        }
        Ok(Library { header: wiglaf_files::C_HEADER, folder })
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let shape = &self.cluster.record.shape;
        let core = |core: Option<usize>| core.map_or("any".to_owned(), |core| core.to_string());
        let cores: Vec<String> =
            shape.nodes.iter().take(self.nodes).map(|n| core(n.core)).collect();
        [
            ("nodes", "emulated, on one machine".to_owned()),
            ("cluster", shape.summary()),
            ("wire", shape.wire.to_string()),
            ("mtu", shape.mtu.to_string()),
            ("core of each node", cores.join(", ")),
            ("link asked for", self.link.to_owned()),
            ("disk", "each node's /scratch: tmpfs, always in memory".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn is_interrupted(&self) -> bool {
        interrupt::is_wanted()
    }
}

pub(super) fn run(args: &FilesArgs, global: &Global) -> Result<()> {
    let common = &args.common;
    make_folder(&common.output)?;
    let cache = work_folder(&common.output)?;
    let cluster = Cluster::find_or_start(global, &common.wish(2))?;
    let link = common.link.name();
    let nodes = Emulated { cluster: &cluster, exe: this_exe()?, link, nodes: 2 };
    let usual = if common.quick { Sizes::QUICK } else { Sizes::FULL };
    let stream_bytes = args.stream.map_or(usual.stream_bytes, |len| len.max(1 << 20));
    let plan = Plan {
        rounds: common.rounds(3, 2),
        sizes: Sizes {
            stream_bytes,
            reads: usual.reads.min(stream_bytes / 4096),
            small_files: args.small_files.unwrap_or(usual.small_files),
        },
        ways: match args.ways.as_slice() {
            [] => WAYS.to_vec(),
            some => some.to_vec(),
        },
        cache,
    };
    let measured = files::measure(&nodes, &plan, &mut progress);
    interrupt::check()?;
    common.publish(&measured.map_err(plain)?)
}
