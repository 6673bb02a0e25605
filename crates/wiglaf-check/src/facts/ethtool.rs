//! What a card is set to, by ethtool's netlink family: reading it takes no privilege.

use std::io;

use serde::{Deserialize, Serialize};

use super::netlink::{Netlink, attribute, attributes, push, text, u16_at, u32_at, u64_at};
use crate::known::Known;

// Numbers of linux/ethtool_netlink.h.
const LINKMODES_GET: u8 = 4;
const FEATURES_GET: u8 = 11;
const RINGS_GET: u8 = 15;
const COALESCE_GET: u8 = 19;
const PAUSE_GET: u8 = 21;
const EEE_GET: u8 = 23;
/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;

/// What a card is set to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Card {
    /// Mbit/s; unknown also without a carrier.
    pub speed_mbit: Known<u32>,
    /// Whether it sends and receives at once.
    pub full_duplex: Known<bool>,
    /// The fastest that it can, in Mbit/s.
    pub speed_max_mbit: Known<u32>,
    /// The fastest that the other end of the cable says it can.
    pub peer_speed_max_mbit: Known<u32>,
    /// Energy Efficient Ethernet.
    pub eee: Known<Eee>,
    /// Interrupt moderation.
    pub coalesce: Known<Coalesce>,
    /// Descriptor rings.
    pub rings: Known<Rings>,
    /// Flow control on the cable.
    pub pause: Known<PauseFrames>,
    /// The offloads that are on, as ethtool names them.
    pub offloads: Known<Vec<String>>,
}

/// Energy Efficient Ethernet: a cable that sleeps in pauses, and takes time to wake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Eee {
    /// It is allowed.
    pub enabled: bool,
    /// Both ends agreed on it.
    pub active: bool,
}

/// Interrupt moderation: how long a card keeps an arrival to itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Coalesce {
    /// Longest delay of an arrival, in microseconds.
    pub rx_usecs: Option<u32>,
    /// Or so many frames.
    pub rx_frames: Option<u32>,
    /// Longest delay of the news that a frame was sent.
    pub tx_usecs: Option<u32>,
    /// The driver chooses by load.
    pub adaptive_rx: Option<bool>,
}

/// How many frames wait in the card's rings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rings {
    /// Arrivals.
    pub rx: Option<u32>,
    /// The most that it can have.
    pub rx_max: Option<u32>,
    /// Departures.
    pub tx: Option<u32>,
    /// The most that it can have.
    pub tx_max: Option<u32>,
}

/// Pause frames: a receiver that stops its senders, and with them all who share a queue.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PauseFrames {
    /// It obeys them.
    pub rx: bool,
    /// It sends them.
    pub tx: bool,
    /// It has obeyed so many, where the driver counts.
    pub rx_frames: Option<u64>,
    /// It has sent so many.
    pub tx_frames: Option<u64>,
}

/// ethtool's family of this kernel.
#[derive(Debug)]
pub(crate) struct Ethtool {
    netlink: Netlink,
    family: u16,
}

impl Ethtool {
    pub(crate) fn open() -> io::Result<Self> {
        /// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_NAME` and `_ID`.
        const CONTROL: u16 = 0x10;
        const GET_FAMILY: u8 = 3;
        const NAME: u16 = 2;
        const ID: u16 = 1;
        let mut netlink = Netlink::generic()?;
        let mut body = vec![GET_FAMILY, 1, 0, 0];
        push(&mut body, NAME, b"ethtool\0");
        let answer = netlink.ask(CONTROL, &body)?;
        let family = answer.body.get(4..).and_then(|body| u16_at(attribute(body, ID)?, 0));
        Ok(Self { netlink, family: family.ok_or(io::ErrorKind::InvalidData)? })
    }

    /// Everything about the interface of that number.
    pub(crate) fn card(&mut self, index: u32) -> Card {
        let mut card = Card::default();
        match self.get(LINKMODES_GET, index, 0) {
            Ok(body) => modes(&body, &mut card),
            Err(why) => {
                card.speed_mbit = Known::unknown(why.clone());
                card.full_duplex = Known::unknown(why.clone());
                card.speed_max_mbit = Known::unknown(why.clone());
                card.peer_speed_max_mbit = Known::unknown(why);
            }
        }
        card.eee = self.get(EEE_GET, index, 0).map(|body| eee(&body)).into();
        card.coalesce = self.get(COALESCE_GET, index, 0).map(|body| coalesce(&body)).into();
        card.rings = self.get(RINGS_GET, index, 0).map(|body| rings(&body)).into();
        // `ETHTOOL_FLAG_STATS`.
        card.pause = self.get(PAUSE_GET, index, 4).map(|body| pause(&body)).into();
        // `ETHTOOL_A_FEATURES_ACTIVE`.
        let active = |body: Vec<u8>| bits(attribute(&body, 4).unwrap_or_default()).on;
        card.offloads = self.get(FEATURES_GET, index, 0).map(active).into();
        card
    }

    fn get(&mut self, command: u8, index: u32, flags: u32) -> Result<Vec<u8>, String> {
        /// `ETHTOOL_A_*_HEADER`, `ETHTOOL_A_HEADER_DEV_INDEX` and `_FLAGS`.
        const HEADER: u16 = 1;
        const INDEX: u16 = 1;
        const FLAGS: u16 = 3;
        let mut header = Vec::new();
        push(&mut header, INDEX, &index.to_ne_bytes());
        push(&mut header, FLAGS, &flags.to_ne_bytes());
        let mut body = vec![command, 1, 0, 0];
        push(&mut body, HEADER | NESTED, &header);
        match self.netlink.ask(self.family, &body) {
            Ok(answer) => Ok(answer.body.get(4..).unwrap_or_default().to_vec()),
            Err(why) if why.kind() == io::ErrorKind::Unsupported => {
                Err("the driver does not tell".to_owned())
            }
            Err(why) => Err(why.to_string()),
        }
    }
}

fn modes(body: &[u8], card: &mut Card) {
    /// `SPEED_UNKNOWN` and `DUPLEX_FULL`.
    const UNKNOWN: u32 = u32::MAX;
    let silent = || "the driver does not tell";
    let speed = attribute(body, 5).and_then(|value| u32_at(value, 0));
    let speed = speed.filter(|speed| *speed != UNKNOWN && *speed != 0);
    card.speed_mbit = speed.ok_or_else(silent).into();
    let duplex = attribute(body, 6).and_then(|value| value.first().copied());
    card.full_duplex =
        duplex.filter(|duplex| *duplex <= 1).map(|duplex| duplex == 1).ok_or_else(silent).into();
    let fastest = |names: &[String]| names.iter().filter_map(|name| mode_speed(name)).max();
    let ours = bits(attribute(body, 3).unwrap_or_default());
    card.speed_max_mbit = fastest(&ours.all).ok_or_else(silent).into();
    let theirs = bits(attribute(body, 4).unwrap_or_default());
    card.peer_speed_max_mbit = fastest(&theirs.on).ok_or_else(silent).into();
}

fn eee(body: &[u8]) -> Eee {
    let flag = |number| attribute(body, number).is_some_and(|value| value.first() == Some(&1));
    Eee { active: flag(4), enabled: flag(5) }
}

fn coalesce(body: &[u8]) -> Coalesce {
    let number = |number| attribute(body, number).and_then(|value| u32_at(value, 0));
    Coalesce {
        rx_usecs: number(2),
        rx_frames: number(3),
        tx_usecs: number(6),
        adaptive_rx: attribute(body, 11).map(|value| value.first() == Some(&1)),
    }
}

fn rings(body: &[u8]) -> Rings {
    let number = |number| attribute(body, number).and_then(|value| u32_at(value, 0));
    Rings { rx_max: number(2), tx_max: number(5), rx: number(6), tx: number(9) }
}

fn pause(body: &[u8]) -> PauseFrames {
    let flag = |number| attribute(body, number).is_some_and(|value| value.first() == Some(&1));
    let counts = attribute(body, 5).unwrap_or_default();
    let count = |number| attribute(counts, number).and_then(|value| u64_at(value, 0));
    PauseFrames { rx: flag(3), tx: flag(4), tx_frames: count(2), rx_frames: count(3) }
}

/// The names in a bit set: all of its mask, and those whose bit is on.
#[derive(Debug, Default)]
struct Bits {
    all: Vec<String>,
    on: Vec<String>,
}

fn bits(set: &[u8]) -> Bits {
    // `ETHTOOL_A_BITSET_NOMASK`, `_BITS`, `ETHTOOL_A_BITSET_BIT_NAME` and `_VALUE`.
    let is_list = attribute(set, 1).is_some();
    let mut found = Bits::default();
    for (_, bit) in attributes(attribute(set, 3).unwrap_or_default()) {
        let Some(name) = attribute(bit, 2).map(text) else { continue };
        if is_list || attribute(bit, 3).is_some() {
            found.on.push(name.clone());
        }
        found.all.push(name);
    }
    found
}

/// `1000baseT/Full` has 1000.
fn mode_speed(name: &str) -> Option<u32> {
    let (digits, _) = name.split_once("base")?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn link_modes_say_what_both_ends_can() {
        let bit = |name: &str, on: bool| {
            let mut bit = Vec::new();
            push(&mut bit, 2, format!("{name}\0").as_bytes());
            if on {
                push(&mut bit, 3, &[]);
            }
            bit
        };
        let set = |is_list: bool, all: &[(&str, bool)]| {
            let (mut set, mut list) = (Vec::new(), Vec::new());
            for (name, on) in all {
                push(&mut list, 1 | NESTED, &bit(name, *on));
            }
            if is_list {
                push(&mut set, 1, &[]);
            }
            push(&mut set, 3 | NESTED, &list);
            set
        };
        let mut body = Vec::new();
        let ours = [("TP", true), ("100baseT/Full", true), ("1000baseT/Full", false)];
        push(&mut body, 3 | NESTED, &set(false, &ours));
        push(&mut body, 4 | NESTED, &set(true, &[("100baseT/Full", false)]));
        push(&mut body, 5, &100_u32.to_ne_bytes());
        push(&mut body, 6, &[1]);
        let mut card = Card::default();
        modes(&body, &mut card);
        assert_eq!(card.speed_mbit, Known::Is(100));
        assert_eq!(card.full_duplex, Known::Is(true));
        assert_eq!(card.speed_max_mbit, Known::Is(1000));
        assert_eq!(card.peer_speed_max_mbit, Known::Is(100));
    }

    #[test]
    fn a_driver_that_tells_nothing_is_no_error() {
        let mut card = Card::default();
        modes(&[], &mut card);
        assert_eq!(card.speed_mbit.reason(), Some("the driver does not tell"));
        assert_eq!((eee(&[]), rings(&[]), pause(&[])), Default::default());
    }
}
