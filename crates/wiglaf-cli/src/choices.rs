//! What several commands let users choose: transport, link, hosts, MPI.

use clap::ValueEnum;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::launch::Mpi;
use wiglaf_mpi::{Family, LibfabricChoice, Link, Transport};

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum TransportArg {
    /// Wiglaf's libfabric provider
    Wiglaf,
    /// The MPI's own TCP
    Tcp,
    /// UCX over TCP
    Ucx,
    /// libfabric's own TCP (tcp;ofi_rxm)
    OfiTcp,
    /// libfabric's own reliable datagrams (udp;ofi_rxd)
    OfiRxd,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum WaitArg {
    /// Never sleep: as other MPIs do, for nodes with a core for each rank
    Poll,
    /// Poll, offer the core to others, and sleep after 3 ms of silence
    Adaptive,
    /// Sleep soon: for nodes that also have other work to do
    Block,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LinkArg {
    /// The best that works
    Auto,
    /// Plain UDP sockets
    Udp,
    /// AF_PACKET, past the IP stack
    Packet,
    /// AF_XDP, in the best mode that the interface has
    Xdp,
    /// AF_XDP behind the driver, with a copy
    XdpGeneric,
    /// AF_XDP in the driver, with a copy
    XdpNative,
    /// AF_XDP in the driver, without a copy
    #[value(name = "xdp-zerocopy")]
    XdpZeroCopy,
    /// Shared memory: all ranks on one node
    Shm,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum LibfabricArg {
    /// Wiglaf's own, which starts sooner, before the MPI's where it can stand there
    Auto,
    /// The MPI's alone, which also loads other providers
    System,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum PmlArg {
    /// The provider, below pml/cm and mtl/ofi: the fastest
    Cm,
    /// Open MPI itself, as over TCP, above btl/ofi: right where cm is not, and
    /// slower from some KiB on
    Ob1,
}

impl PmlArg {
    /// The variable by which Open MPI knows it.
    pub(crate) fn variable(self, mpi: &Mpi, transport: TransportArg) -> Result<(String, String)> {
        match (mpi, transport) {
            (Mpi::With(choice), TransportArg::Wiglaf) if choice.family == Family::OpenMpi => {}
            (Mpi::With(choice), _) if choice.family == Family::OpenMpi => {
                return Err(Error::new(
                    "--pml says how Open MPI matches messages over Wiglaf; leave --transport out, or --pml",
                ));
            }
            _ => {
                return Err(Error::new(
                    "--pml is Open MPI's alone; leave it out, or take --mpi openmpi",
                ));
            }
        }
        let value = match self {
            Self::Cm => "cm",
            Self::Ob1 => "ob1",
        };
        Ok(("OMPI_MCA_pml".to_owned(), value.to_owned()))
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CollectivesArg {
    /// What `wiglaf links measure --collectives` has found for this MPI and shape
    Auto,
    /// The MPI
    Mpi,
    /// Wiglaf, by frames to all hosts at once, where each has one rank
    Multicast,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum DealArg {
    /// One to each node in turn
    Cyclic,
    /// Fill the first node, then the next
    Block,
}

impl From<TransportArg> for Transport {
    fn from(arg: TransportArg) -> Self {
        match arg {
            TransportArg::Wiglaf => Self::Wiglaf,
            TransportArg::Tcp => Self::Tcp,
            TransportArg::Ucx => Self::Ucx,
            TransportArg::OfiTcp => Self::OfiTcp,
            TransportArg::OfiRxd => Self::OfiRxd,
        }
    }
}

impl From<LinkArg> for Link {
    fn from(arg: LinkArg) -> Self {
        match arg {
            LinkArg::Auto => Self::Auto,
            LinkArg::Udp => Self::Udp,
            LinkArg::Packet => Self::Packet,
            LinkArg::Xdp => Self::Xdp,
            LinkArg::XdpGeneric => Self::XdpGeneric,
            LinkArg::XdpNative => Self::XdpNative,
            LinkArg::XdpZeroCopy => Self::XdpZeroCopy,
            LinkArg::Shm => Self::Shm,
        }
    }
}

impl From<LibfabricArg> for LibfabricChoice {
    fn from(arg: LibfabricArg) -> Self {
        match arg {
            LibfabricArg::Auto => Self::Auto,
            LibfabricArg::System => Self::System,
        }
    }
}

pub(crate) fn parse_variable(text: &str) -> Result<(String, String)> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, value.to_owned()),
        None => {
            let unset = |_| Error::new(format!("`{text}` is not set here; write {text}=VALUE"));
            (text, std::env::var(text).map_err(unset)?)
        }
    };
    match name.is_empty() {
        true => Err(Error::new(format!("`{text}` names no variable; write NAME=VALUE"))),
        false => Ok((name.to_owned(), value)),
    }
}

pub(crate) fn parse_mpi(text: &str) -> Result<Mpi> {
    if text == "none" {
        return Ok(Mpi::None);
    }
    let is_known = Family::ALL.iter().any(|family| text.starts_with(family.name()));
    text.parse().map(Mpi::With).map_err(|error: Error| match is_known {
        true => error,
        false => Error::new(format!("{error}, and none for programs without MPI")),
    })
}

pub(crate) fn parse_hosts(text: &str) -> Result<HostList> {
    HostList::parse(text)
}
