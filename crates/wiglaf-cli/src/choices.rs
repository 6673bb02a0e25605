//! What several commands let users choose: transport, link, hosts, MPI.

use clap::ValueEnum;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use wiglaf_base::{Error, HostList, Result};
use wiglaf_bench::Transport as Contender;
use wiglaf_cluster::launch::{Collectives, Mpi};
use wiglaf_cluster::shape::Wire;
use wiglaf_link::LinkKind;
use wiglaf_links::WaitPolicy;
use wiglaf_mpi::{Deal, Family, LibfabricChoice, Transport};

/// What users choose by a word, of a type that other crates know as well.
pub(crate) trait Word: Copy + Send + Sync + 'static {
    /// All that may be chosen, in the order of `--help`.
    const ALL: &'static [Self];

    /// As users write it.
    fn word(self) -> &'static str;

    /// Its line in `--help`; none says enough by its word.
    fn says(self) -> &'static str {
        ""
    }

    /// The one of this word.
    fn of(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|one| one.word() == word)
    }
}

/// Takes one of these by its word.
pub(crate) fn one_of<T: Word>(all: &[T]) -> impl TypedValueParser<Value = T> + use<T> {
    let values = all.iter().map(|one| {
        let value = PossibleValue::new(one.word());
        if one.says().is_empty() { value } else { value.help(one.says()) }
    });
    PossibleValuesParser::new(values).map(|word| T::of(&word).expect("no other word is possible"))
}

/// Takes any of them.
pub(crate) fn any<T: Word>() -> impl TypedValueParser<Value = T> {
    one_of(T::ALL)
}

impl Word for Transport {
    const ALL: &'static [Self] = &Self::ALL;

    fn word(self) -> &'static str {
        self.word()
    }

    fn says(self) -> &'static str {
        match self {
            Self::Wiglaf => "Wiglaf's libfabric provider",
            Self::Tcp => "The MPI's own TCP",
            Self::Ucx => "UCX over TCP",
            Self::OfiTcp => "libfabric's own TCP (tcp;ofi_rxm)",
            Self::OfiRxd => "libfabric's own reliable datagrams (udp;ofi_rxd)",
        }
    }
}

/// Those that whole programs are compared over.
impl Word for Contender {
    const ALL: &'static [Self] =
        &[Self::Wiglaf, Self::WiglafMulticast, Self::Tcp, Self::Ucx, Self::OfiTcp, Self::OfiRxd];

    fn word(self) -> &'static str {
        self.word()
    }

    fn says(self) -> &'static str {
        match self {
            Self::WiglafMulticast => "As with `wiglaf run --collectives multicast`",
            other => carrier(other).says(),
        }
    }
}

/// What `wiglaf run --transport` has for a contender.
pub(crate) fn carrier(contender: Contender) -> Transport {
    match contender {
        Contender::Wiglaf
        | Contender::WiglafUdp
        | Contender::WiglafPacket
        | Contender::WiglafXdp
        | Contender::WiglafXdpNative
        | Contender::WiglafMulticast => Transport::Wiglaf,
        // Open MPI's own TCP takes vader within a node.
        Contender::Tcp | Contender::Vader => Transport::Tcp,
        Contender::Ucx | Contender::UcxShm => Transport::Ucx,
        Contender::OfiTcp => Transport::OfiTcp,
        Contender::OfiRxd => Transport::OfiRxd,
    }
}

impl Word for WaitPolicy {
    const ALL: &'static [Self] = &Self::ALL;

    fn word(self) -> &'static str {
        self.name()
    }

    fn says(self) -> &'static str {
        match self {
            Self::Poll => "Never sleep: as other MPIs do, for nodes with a core for each rank",
            Self::Adaptive => "Poll, offer the core to others, and sleep after 3 ms of silence",
            Self::Block => "Sleep soon: for nodes that also have other work to do",
        }
    }
}

/// Who moves data while a program does other things, as `WIGLAF_PROGRESS` has it.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Progress {
    Caller,
    Thread,
}

impl Word for Progress {
    const ALL: &'static [Self] = &[Self::Caller, Self::Thread];

    fn word(self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Thread => "thread",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Caller => "The program, when it calls the MPI",
            Self::Thread => {
                "A thread of each rank, also meanwhile: for nodes with a core to spare, and programs that compute \
                 between MPI_Isend or MPI_Irecv and MPI_Wait"
            }
        }
    }
}

impl Word for LinkKind {
    const ALL: &'static [Self] = &Self::ALL;

    fn word(self) -> &'static str {
        self.name()
    }

    fn says(self) -> &'static str {
        match self {
            Self::Auto => "The best that works",
            Self::Udp => "Plain UDP sockets",
            Self::Packet => "AF_PACKET, past the IP stack",
            Self::Xdp => "AF_XDP, in the best mode that the interface has",
            Self::XdpGeneric => "AF_XDP behind the driver, with a copy",
            Self::XdpNative => "AF_XDP in the driver, with a copy",
            Self::XdpZeroCopy => "AF_XDP in the driver, without a copy",
            Self::Shm => "Shared memory: all ranks on one node",
        }
    }
}

impl Word for Wire {
    const ALL: &'static [Self] = &[Self::Bridge, Self::Direct];

    fn word(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Direct => "direct",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Bridge => "A switch",
            Self::Direct => "One cable between two nodes",
        }
    }
}

impl Word for LibfabricChoice {
    const ALL: &'static [Self] = &[Self::Auto, Self::System];

    fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::System => "system",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Auto => {
                "Wiglaf's own, which starts sooner, before the MPI's where it can stand there"
            }
            Self::System => "The MPI's alone, which also loads other providers",
        }
    }
}

impl Word for Collectives {
    const ALL: &'static [Self] = &[Self::Auto, Self::Mpi, Self::Multicast];

    fn word(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Mpi => "mpi",
            Self::Multicast => "multicast",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Auto => {
                "What `wiglaf links measure --collectives` has found for this MPI and shape"
            }
            Self::Mpi => "The MPI",
            Self::Multicast => "Wiglaf, by frames to all hosts at once, where it can",
        }
    }
}

impl Word for Deal {
    const ALL: &'static [Self] = &[Self::Cyclic, Self::Block];

    fn word(self) -> &'static str {
        match self {
            Self::Cyclic => "cyclic",
            Self::Block => "block",
        }
    }

    fn says(self) -> &'static str {
        match self {
            Self::Cyclic => "One to each node in turn",
            Self::Block => "Fill the first node, then the next",
        }
    }
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
    pub(crate) fn variable(self, mpi: &Mpi, transport: Transport) -> Result<(String, String)> {
        match (mpi, transport) {
            (Mpi::With(choice), Transport::Wiglaf) if choice.family == Family::OpenMpi => {}
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
