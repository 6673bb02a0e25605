//! Starts measured programs on emulated nodes, with `wiglaf run` itself: what
//! is measured is what users get.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use wiglaf_base::paths::EXE;
use wiglaf_base::{HostList, Result, machine};
use wiglaf_bench::launch::{ActiveCommands, FloorCommand};
use wiglaf_bench::{Job, Launcher, Settings, Transport};
use wiglaf_cluster::shape::INTERFACE;
use wiglaf_link::LinkKind;
use wiglaf_mpi::{self as mpi, Choice, Family, Front, LibfabricChoice, provider};

use crate::choices::carrier;
use crate::floor::Part;
use crate::measuring::interrupt;
use crate::measuring::nodes::Cluster;
use crate::up::this_exe;

/// The user's own variables with these prefixes reach all ranks.
const INHERITED: [&str; 4] = ["OMPI_MCA_", "WIGLAF_", "FI_", "UCX_"];
/// These say nothing of a transport, or are a secret.
const NOT_RECORDED: [&str; 4] = ["WIGLAF_STATE", "WIGLAF_NODE", "WIGLAF_LIBDIR", "WIGLAF_KEY"];

/// The launcher for one cluster.
#[derive(Debug)]
pub(crate) struct Emulated<'a> {
    cluster: &'a Cluster,
    exe: PathBuf,
    nodes: usize,
    ranks: usize,
    link: LinkKind,
    folder: &'a Path,
}

impl<'a> Emulated<'a> {
    /// For jobs of `ranks` ranks on the first `nodes` nodes. `folder` is one
    /// that all nodes see.
    pub(crate) fn new(
        cluster: &'a Cluster,
        nodes: usize,
        ranks: usize,
        link: LinkKind,
        folder: &'a Path,
    ) -> Result<Self> {
        Ok(Self { cluster, exe: this_exe()?, nodes, ranks, link, folder })
    }

    fn wiglaf_run(&self, nodes: usize, ranks: usize) -> Command {
        let names: HostList = self.node_names().take(nodes).collect();
        let mut command = Command::new(&self.exe);
        command.arg("--state").arg(self.cluster.state.path()).arg("run");
        command.args(["-n", &ranks.to_string(), "--nodes", &names.to_string()]);
        command
    }

    fn node_names(&self) -> impl Iterator<Item = &str> {
        self.cluster.record.shape.nodes.iter().map(|node| node.name.as_str())
    }

    /// Whether ranks share cores; `wiglaf run` then tells Open MPI to yield.
    fn oversubscribed(&self) -> bool {
        let mut load = BTreeMap::new();
        for node in self.cluster.record.shape.nodes.iter().cycle().take(self.ranks) {
            *load.entry(node.core).or_insert(0) += 1;
        }
        let free = machine::cores().len();
        load.iter().any(|(core, ranks)| *ranks > if core.is_some() { 1 } else { free })
    }

    /// Two processes that find the link and each other in their environment.
    pub(crate) fn floor(&self, link: LinkKind, nodes: usize) -> FloorCommand {
        self.part_of_floor(link, nodes, Part::All)
    }

    fn part_of_floor(&self, link: LinkKind, nodes: usize, part: Part) -> FloorCommand {
        let mut command = self.wiglaf_run(nodes, 2);
        command.args(["--mpi", "none", "--link", link.name(), "--"]);
        command.arg(&self.exe).args(["floor", "--part", part.word()]);
        if nodes == 1 {
            // The node keeps to one core; a floor wants one for each side.
            let cores: Vec<String> = machine::cores().iter().map(ToString::to_string).collect();
            command.arg("--cores").arg(cores.join(","));
        }
        command.current_dir(self.folder);
        FloorCommand { link: link.name().to_owned(), command }
    }
}

/// The link of a contender: one of its own, or the one that was asked for.
pub(super) fn link_of(transport: Transport, asked: LinkKind) -> LinkKind {
    match transport {
        Transport::WiglafUdp => LinkKind::Udp,
        Transport::WiglafPacket => LinkKind::Packet,
        Transport::WiglafXdp => LinkKind::Xdp,
        Transport::WiglafXdpNative => LinkKind::XdpNative,
        _ => asked,
    }
}

/// What `wiglaf run` is going to set, without what only starts the ranks, and
/// what it is going to pass on.
fn settings(table: Vec<(String, String)>) -> Settings {
    let inherited = std::env::vars()
        .filter(|(name, _)| INHERITED.iter().any(|prefix| name.starts_with(prefix)));
    let recorded = |(name, _): &(String, String)| !NOT_RECORDED.contains(&name.as_str());
    inherited.chain(table).filter(recorded).collect()
}

/// The environment for a transport, or why it is not to be had here.
pub(super) fn settings_of(
    exe: &Path,
    transport: Transport,
    link: LinkKind,
    interface: Option<String>,
    oversubscribed: bool,
) -> std::result::Result<Settings, String> {
    let error = |error: wiglaf_base::Error| error.to_string();
    let mpi =
        mpi::installation(&Choice::any(Family::OpenMpi), carrier(transport)).map_err(error)?;
    let provider = match carrier(transport) {
        mpi::Transport::Wiglaf => Some(provider::find(exe).map_err(error)?),
        _ => None,
    };
    let environment = mpi::Settings {
        transport: carrier(transport),
        link,
        interface,
        oversubscribed,
        // As `wiglaf run` does by itself.
        front: provider.as_ref().and_then(|p| Front::choose(LibfabricChoice::Auto, p, &mpi)),
        provider_dir: provider.map(|p| p.dir),
        ..mpi::Settings::default()
    };
    let user = |name: &str| std::env::var(name).ok();
    environment.environment(&mpi, &user).map(settings).map_err(error)
}

impl Launcher for Emulated<'_> {
    fn settings(&self, transport: Transport) -> std::result::Result<Settings, String> {
        let link = link_of(transport, self.link);
        let interface = Some(INTERFACE.to_owned());
        settings_of(&self.exe, transport, link, interface, self.oversubscribed())
    }

    fn command(&self, job: &Job<'_>) -> wiglaf_bench::Result<Command> {
        let mut command = self.wiglaf_run(job.nodes, job.ranks);
        command.args([
            "--transport",
            carrier(job.transport).word(),
            "--link",
            link_of(job.transport, self.link).name(),
        ]);
        if job.transport == Transport::WiglafMulticast {
            command.args(["--collectives", "multicast"]);
        }
        command.arg("--").arg(job.program).args(job.args).current_dir(job.dir);
        // For the programs that report counters.
        command.env("WIGLAF_BENCH_STATS", format!("{EXE} stats --here --json"));
        command.envs(job.settings).envs(job.env.iter().map(|(name, value)| (name, value)));
        Ok(command)
    }

    fn node_count(&self) -> usize {
        self.nodes
    }

    fn facts(&self) -> BTreeMap<String, String> {
        let shape = &self.cluster.record.shape;
        let core = |core: Option<usize>| core.map_or("any".to_owned(), |core| core.to_string());
        let cores: Vec<String> =
            shape.nodes.iter().take(self.nodes).map(|node| core(node.core)).collect();
        [
            ("nodes", "emulated, on one machine".to_owned()),
            ("cluster", shape.summary()),
            ("wire", shape.wire.to_string()),
            ("mtu", shape.mtu.to_string()),
            ("nodes used", self.nodes.to_string()),
            ("core of each node", cores.join(", ")),
            ("interface", INTERFACE.to_owned()),
            ("link asked for", self.link.name().to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    fn floors(&self) -> Vec<FloorCommand> {
        if self.nodes == 1 {
            return vec![self.floor(LinkKind::Shm, 1)];
        }
        [LinkKind::Udp, LinkKind::Packet, LinkKind::Xdp]
            .map(|link| self.floor(link, 2))
            .into_iter()
            .chain([self.floor(LinkKind::Shm, 1)])
            .collect()
    }

    fn active_messages(&self) -> Vec<ActiveCommands> {
        if self.nodes == 1 {
            return Vec::new(); // over shared memory they take another way than the transport
        }
        let both = |link| ActiveCommands {
            bare: self.part_of_floor(link, 2, Part::Ping),
            messages: self.part_of_floor(link, 2, Part::Messages),
        };
        [LinkKind::Packet, LinkKind::Udp].map(both).into()
    }

    fn is_interrupted(&self) -> bool {
        interrupt::is_wanted()
    }
}
