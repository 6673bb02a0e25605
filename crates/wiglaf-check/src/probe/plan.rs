//! What is measured of a pair, and how thoroughly.

/// What is measured, and how thoroughly.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// First and last of the UDP ports that jobs use.
    pub ports: (u16, u16),
    /// How many of them are tried; 0: none.
    pub samples: u16,
    /// The link, as `WIGLAF_LINK` names it; none: plain sockets only.
    pub link: Option<String>,
    /// Whether the path's MTU is looked for.
    pub mtu: bool,
    /// Whether what is sent to a multicast group is looked for.
    pub multicast: bool,
    /// Round trips of plain datagrams, which also compare the clocks.
    pub pings: u32,
    /// Length of the long message, in bytes; 0: no messages.
    pub long_len: u32,
    /// Round trips over the link.
    pub link_pings: u32,
    /// Round trips over the link after a pause.
    pub paused_pings: u32,
    /// How long that pause is, in microseconds.
    pub pause_us: u64,
    /// How long each stream lasts, in milliseconds; 0: no streams.
    pub stream_ms: u64,
    /// Datagrams that are sent each way to count losses; 0: none.
    pub loss_count: u32,
    /// How many of them in a second.
    pub loss_per_s: u32,
    /// How many pairs are measured at this time, for the record.
    pub at_once: u32,
}

impl Plan {
    /// All that [`measure`](super::measure) can do: about 8 s a pair.
    #[must_use]
    pub fn full(ports: (u16, u16)) -> Self {
        Self {
            ports,
            samples: 16,
            link: Some("auto".to_owned()),
            mtu: true,
            multicast: true,
            pings: 200,
            long_len: 4 << 20,
            link_pings: 2000,
            paused_pings: 100,
            pause_us: 3000,
            stream_ms: 700,
            loss_count: 20_000,
            loss_per_s: 20_000,
            at_once: 1,
        }
    }

    /// What shows whether jobs can run at all, and little of how fast: about 1 s a pair, for clusters
    /// of many hosts or of emulated ones.
    #[must_use]
    pub fn quick(ports: (u16, u16)) -> Self {
        Self {
            samples: 3,
            pings: 20,
            long_len: 1 << 20,
            link_pings: 100,
            paused_pings: 0,
            stream_ms: 100,
            loss_count: 0,
            ..Self::full(ports)
        }
    }

    /// What tuning changes: round trips back to back and after pauses, and losses.
    #[must_use]
    pub fn tuning(ports: (u16, u16)) -> Self {
        Self {
            samples: 0,
            mtu: false,
            multicast: false,
            long_len: 0,
            paused_pings: 300,
            stream_ms: 0,
            ..Self::full(ports)
        }
    }

    /// Streams alone: for many pairs at once.
    #[must_use]
    pub fn streams(ports: (u16, u16)) -> Self {
        Self { link: Some("auto".to_owned()), stream_ms: 1500, ..Self::nothing(ports) }
    }

    /// Nothing, to add to.
    #[must_use]
    pub fn nothing(ports: (u16, u16)) -> Self {
        Self {
            samples: 0,
            link: None,
            mtu: false,
            multicast: false,
            pings: 0,
            long_len: 0,
            link_pings: 0,
            paused_pings: 0,
            loss_count: 0,
            stream_ms: 0,
            ..Self::full(ports)
        }
    }
}
