//! What a card is set to, by ethtool's netlink family: reading it takes no privilege.

use std::io;

use serde::{Deserialize, Serialize};

pub use wiglaf_netlink::{Coalesce, Eee, Rings};
use wiglaf_netlink::{Command, Ethtool, attribute, attributes, text, u32_at, u64_at};

use crate::known::Known;

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

/// Everything about the interface of that number.
pub(crate) fn card(ethtool: &mut Ethtool, index: u32) -> Card {
    let mut get = |command, flags| {
        ethtool.get(command, index, flags).map_err(|why| match why.kind() {
            io::ErrorKind::Unsupported => "the driver does not tell".to_owned(),
            _ => why.to_string(),
        })
    };
    let mut card = Card::default();
    match get(Command::LinkModes, 0) {
        Ok(body) => modes(&body, &mut card),
        Err(why) => {
            card.speed_mbit = Known::unknown(why.clone());
            card.full_duplex = Known::unknown(why.clone());
            card.speed_max_mbit = Known::unknown(why.clone());
            card.peer_speed_max_mbit = Known::unknown(why);
        }
    }
    card.eee = get(Command::Eee, 0).map(|body| Eee::read(&body)).into();
    card.coalesce = get(Command::Coalesce, 0).map(|body| Coalesce::read(&body)).into();
    card.rings = get(Command::Rings, 0).map(|body| Rings::read(&body)).into();
    // `ETHTOOL_FLAG_STATS`.
    card.pause = get(Command::Pause, 4).map(|body| pause(&body)).into();
    // `ETHTOOL_A_FEATURES_ACTIVE`.
    let active = |body: Vec<u8>| bits(attribute(&body, 4).unwrap_or_default()).on;
    card.offloads = get(Command::Features, 0).map(active).into();
    card
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
    use wiglaf_netlink::push;

    use super::*;

    /// `NLA_F_NESTED`.
    const NESTED: u16 = 0x8000;

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
        assert_eq!((Eee::read(&[]), Rings::read(&[]), pause(&[])), Default::default());
    }
}
