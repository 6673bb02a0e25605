//! What a card is set to, by ethtool's netlink family: reading it takes no privilege.

use std::io;

use serde::{Deserialize, Serialize};

use crate::{Netlink, attribute, push, text, u16_at, u32_at};

/// `NLA_F_NESTED`.
const NESTED: u16 = 0x8000;
/// `ETHTOOL_A_*_HEADER` of all commands, `ETHTOOL_A_HEADER_DEV_INDEX`, `_DEV_NAME` and `_FLAGS`.
const HEADER: u16 = 1;
const INDEX: u16 = 1;
const NAME: u16 = 2;
const FLAGS: u16 = 3;
// `ETHTOOL_A_COALESCE_*`, `_RINGS_*` and `_EEE_*`.
const RX_USECS: u16 = 2;
const RX_FRAMES: u16 = 3;
const TX_USECS: u16 = 6;
const ADAPTIVE_RX: u16 = 11;
const RINGS_RX: u16 = 6;
const RINGS_TX: u16 = 9;
const EEE_ENABLED: u16 = 5;

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

/// What is asked of a card; its numbers are those of linux/ethtool_netlink.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// Speeds.
    LinkModes = 4,
    /// Offloads.
    Features = 11,
    /// [`Rings`].
    Rings = 15,
    /// [`Coalesce`].
    Coalesce = 19,
    /// Flow control.
    Pause = 21,
    /// [`Eee`].
    Eee = 23,
}

/// A card, by its number and the name that it has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// Its number in the network namespace.
    pub index: u32,
    /// The interface's name.
    pub name: String,
}

/// ethtool's family of this kernel.
#[derive(Debug)]
pub struct Ethtool {
    netlink: Netlink,
    family: u16,
}

impl Ethtool {
    /// # Errors
    /// When this kernel has none (before Linux 5.6).
    pub fn open() -> io::Result<Self> {
        /// `GENL_ID_CTRL`, `CTRL_CMD_GETFAMILY`, `CTRL_ATTR_FAMILY_NAME` and `_ID`.
        const CONTROL: u16 = 0x10;
        const GET_FAMILY: u8 = 3;
        const FAMILY_NAME: u16 = 2;
        const FAMILY_ID: u16 = 1;
        let mut netlink = Netlink::generic()?;
        let mut body = vec![GET_FAMILY, 1, 0, 0];
        push(&mut body, FAMILY_NAME, b"ethtool\0");
        let answer = netlink.ask(CONTROL, &body)?;
        let family = answer.body.get(4..).and_then(|body| u16_at(attribute(body, FAMILY_ID)?, 0));
        Ok(Self { netlink, family: family.ok_or(io::ErrorKind::InvalidData)? })
    }

    /// The attributes of the answer about the interface of that number.
    ///
    /// # Errors
    /// `Unsupported`: the driver does not tell.
    pub fn get(&mut self, command: Command, index: u32, flags: u32) -> io::Result<Vec<u8>> {
        let body = request(command as u8, index, flags);
        let answer = self.netlink.ask(self.family, &body)?;
        Ok(answer.body.get(4..).unwrap_or_default().to_vec())
    }

    /// The attributes of the answer about `card`, if the interface of its number still has its name.
    fn of(&mut self, card: &Card, command: Command) -> io::Result<Vec<u8>> {
        let body = self.get(command, card.index, 0)?;
        let name = attribute(&body, HEADER).and_then(|header| attribute(header, NAME)).map(text);
        if name.as_ref() == Some(&card.name) {
            Ok(body)
        } else {
            Err(io::Error::from_raw_os_error(NO_SUCH_DEVICE))
        }
    }

    /// Interrupt moderation.
    ///
    /// # Errors
    /// `Unsupported`: it has none.
    pub fn coalesce(&mut self, card: &Card) -> io::Result<Coalesce> {
        self.of(card, Command::Coalesce).map(|body| Coalesce::read(&body))
    }

    /// Rings.
    ///
    /// # Errors
    /// `Unsupported`: the driver tells nothing of them.
    pub fn rings(&mut self, card: &Card) -> io::Result<Rings> {
        self.of(card, Command::Rings).map(|body| Rings::read(&body))
    }

    /// Energy Efficient Ethernet.
    ///
    /// # Errors
    /// `Unsupported`: it has none.
    pub fn eee(&mut self, card: &Card) -> io::Result<Eee> {
        self.of(card, Command::Eee).map(|body| Eee::read(&body))
    }

    /// Sets those values that are given.
    ///
    /// # Errors
    /// What the kernel or the driver says.
    pub fn set_coalesce(&mut self, card: &Card, values: &Coalesce) -> io::Result<()> {
        self.set(card, Command::Coalesce, |body| {
            let numbers = [
                (RX_USECS, values.rx_usecs),
                (RX_FRAMES, values.rx_frames),
                (TX_USECS, values.tx_usecs),
            ];
            for (number, value) in numbers {
                if let Some(value) = value {
                    push(body, number, &value.to_ne_bytes());
                }
            }
            if let Some(adaptive) = values.adaptive_rx {
                push(body, ADAPTIVE_RX, &[u8::from(adaptive)]);
            }
        })
    }

    /// Sets the lengths that are given.
    ///
    /// # Errors
    /// What the kernel or the driver says.
    pub fn set_rings(&mut self, card: &Card, rx: Option<u32>, tx: Option<u32>) -> io::Result<()> {
        self.set(card, Command::Rings, |body| {
            for (number, len) in [(RINGS_RX, rx), (RINGS_TX, tx)] {
                if let Some(len) = len {
                    push(body, number, &len.to_ne_bytes());
                }
            }
        })
    }

    /// Allows Energy Efficient Ethernet, or not.
    ///
    /// # Errors
    /// What the kernel or the driver says.
    pub fn set_eee(&mut self, card: &Card, enabled: bool) -> io::Result<()> {
        self.set(card, Command::Eee, |body| push(body, EEE_ENABLED, &[u8::from(enabled)]))
    }

    fn set(
        &mut self,
        card: &Card,
        command: Command,
        values: impl FnOnce(&mut Vec<u8>),
    ) -> io::Result<()> {
        // Of each of them the command that sets is the next.
        let mut body = request(command as u8 + 1, card.index, 0);
        values(&mut body);
        self.netlink.tell(self.family, &body)
    }
}

/// `ENODEV`.
const NO_SUCH_DEVICE: i32 = 19;

fn request(command: u8, index: u32, flags: u32) -> Vec<u8> {
    let mut header = Vec::new();
    push(&mut header, INDEX, &index.to_ne_bytes());
    push(&mut header, FLAGS, &flags.to_ne_bytes());
    let mut body = vec![command, 1, 0, 0];
    push(&mut body, HEADER | NESTED, &header);
    body
}

fn number(body: &[u8], number: u16) -> Option<u32> {
    attribute(body, number).and_then(|value| u32_at(value, 0))
}

impl Eee {
    /// Of an answer's attributes.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        let flag = |number| attribute(body, number).is_some_and(|value| value.first() == Some(&1));
        Self { active: flag(4), enabled: flag(EEE_ENABLED) }
    }
}

impl Coalesce {
    /// These settings with arrivals kept back for `rx_usecs` microseconds, whatever the load. A setting that the card
    /// does not have stays unset.
    #[must_use]
    pub fn with_delay(&self, rx_usecs: u32) -> Self {
        // Without a delay each frame interrupts; 0 would mean that none does (linux/ethtool.h).
        let frames = |now: u32| if rx_usecs == 0 { now.min(1) } else { now };
        Self {
            rx_usecs: self.rx_usecs.map(|_| rx_usecs),
            rx_frames: self.rx_frames.map(frames),
            tx_usecs: self.tx_usecs,
            adaptive_rx: self.adaptive_rx.map(|_| false),
        }
    }

    /// Of an answer's attributes.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        Self {
            rx_usecs: number(body, RX_USECS),
            rx_frames: number(body, RX_FRAMES),
            tx_usecs: number(body, TX_USECS),
            adaptive_rx: attribute(body, ADAPTIVE_RX).map(|value| value.first() == Some(&1)),
        }
    }
}

impl Rings {
    /// As long as they can be. A ring whose maximum the driver does not tell is none.
    #[must_use]
    pub fn longest(&self) -> Self {
        let most = |now: Option<u32>, max: Option<u32>| max.filter(|max| Some(*max) >= now);
        Self { rx: most(self.rx, self.rx_max), tx: most(self.tx, self.tx_max), ..self.clone() }
    }

    /// Of an answer's attributes.
    #[must_use]
    pub fn read(body: &[u8]) -> Self {
        Self {
            rx_max: number(body, 2),
            tx_max: number(body, 5),
            rx: number(body, RINGS_RX),
            tx: number(body, RINGS_TX),
        }
    }
}

#[cfg(test)]
mod tests {
    use wiglaf_testnet::Pair;

    use super::*;

    fn card(name: &str) -> Card {
        let socket = Netlink::route().unwrap().socket;
        let index = rustix::net::netdevice::name_to_index(socket, name).unwrap();
        Card { index, name: name.to_owned() }
    }

    /// Of what is here, a tap's driver has a setting of moderation: after so many frames.
    #[test]
    fn what_is_set_is_read_again_and_the_rest_stays() {
        let Some(pair) = Pair::or_skip(1500) else { return };
        if let Err(why) = pair.a.ip(&["tuntap", "add", "tap0", "mode", "tap"]) {
            eprintln!("skipped: no tap here: {why:?}");
            return;
        }
        pair.a.run(|| {
            let (tap, mut ethtool) = (card("tap0"), Ethtool::open().unwrap());
            for frames in [1, 7] {
                let wanted = Coalesce { rx_frames: Some(frames), ..Coalesce::default() };
                ethtool.set_coalesce(&tap, &wanted).unwrap();
                assert_eq!(ethtool.coalesce(&tap).unwrap(), wanted);
            }
            let both = Coalesce { rx_usecs: Some(3), rx_frames: Some(9), ..Coalesce::default() };
            let why = ethtool.set_coalesce(&tap, &both).unwrap_err();
            assert_eq!(why.kind(), io::ErrorKind::InvalidInput, "a part that it has not: {why}");
            assert_eq!(ethtool.coalesce(&tap).unwrap().rx_frames, Some(7), "all or nothing");
        });
    }

    /// What a kernel says of a veth, whose driver has none of these settings.
    #[test]
    fn kernel_names_what_a_virtual_cable_has_not() {
        let Some(pair) = Pair::or_skip(1500) else { return };
        pair.a.run(|| {
            let card = card("wl0");
            let mut ethtool = Ethtool::open().unwrap();
            assert!(ethtool.get(Command::LinkModes, card.index, 0).is_ok());
            let is_unsupported = |why: io::Error| why.kind() == io::ErrorKind::Unsupported;
            assert!(ethtool.coalesce(&card).is_err_and(is_unsupported));
            assert!(ethtool.eee(&card).is_err_and(is_unsupported));
            let none = Coalesce { rx_usecs: Some(0), ..Coalesce::default() };
            assert!(ethtool.set_coalesce(&card, &none).is_err_and(is_unsupported));
            assert!(ethtool.set_rings(&card, Some(64), None).is_err_and(is_unsupported));
            assert!(ethtool.set_eee(&card, false).is_err_and(is_unsupported));
            let other = Card { name: "wl7".to_owned(), ..card };
            let why = ethtool.of(&other, Command::LinkModes).unwrap_err();
            assert_eq!(why.raw_os_error(), Some(NO_SUCH_DEVICE), "another has that number");
        });
    }
}
