//! The kinds of links that there are, by name.

/// The kinds of links, and which to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LinkKind {
    /// The best that works here.
    #[default]
    Auto,
    /// Plain UDP sockets only.
    Udp,
    /// AF_PACKET between nodes.
    Packet,
    /// AF_XDP between nodes, in the best mode that the interface has.
    Xdp,
    /// AF_XDP in generic mode.
    XdpGeneric,
    /// AF_XDP in native mode, with a copy.
    XdpNative,
    /// AF_XDP in native mode, without a copy.
    XdpZeroCopy,
    /// Shared memory only: all ranks on one node.
    Shm,
}

impl LinkKind {
    /// All there are.
    pub const ALL: [Self; 8] = [
        Self::Auto,
        Self::Udp,
        Self::Packet,
        Self::Xdp,
        Self::XdpGeneric,
        Self::XdpNative,
        Self::XdpZeroCopy,
        Self::Shm,
    ];

    /// As users and `WIGLAF_LINK` write it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Udp => "udp",
            Self::Packet => "packet",
            Self::Xdp => "xdp",
            Self::XdpGeneric => "xdp-generic",
            Self::XdpNative => "xdp-native",
            Self::XdpZeroCopy => "xdp-zerocopy",
            Self::Shm => "shm",
        }
    }

    /// The one of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|choice| choice.name() == name)
    }
}
