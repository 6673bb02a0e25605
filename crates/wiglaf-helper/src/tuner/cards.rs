//! The real cards and processors.

use std::fs::File;
use std::io::{self, Write};

use wiglaf_netlink::{Card, Coalesce, Ethtool};

use super::{Kind, Machine, Seen, Value};

/// Whoever holds it open has written how long waking may take (docs/admin-guide/pm/cpuidle.rst of the kernel).
const LATENCY: &str = "/dev/cpu_dma_latency";
/// `PM_QOS_DEFAULT_VALUE`: the kernel may do as it likes.
const ANY: i32 = -1;

/// What is open before privileges are given up.
#[derive(Debug)]
pub(super) struct Cards {
    ethtool: io::Result<Ethtool>,
    latency: io::Result<File>,
}

impl Cards {
    pub(super) fn open() -> Self {
        Self { ethtool: Ethtool::open(), latency: File::options().write(true).open(LATENCY) }
    }

    fn ethtool(&mut self) -> io::Result<&mut Ethtool> {
        self.ethtool.as_mut().map_err(|why| same(why))
    }
}

impl Machine for Cards {
    fn look(&mut self, card: &Card, kind: Kind) -> io::Result<Seen> {
        let ethtool = self.ethtool()?;
        Ok(match kind {
            Kind::Moderation => {
                let Coalesce { adaptive_rx, rx_usecs, rx_frames, .. } = ethtool.coalesce(card)?;
                Seen { now: Value::Moderation { adaptive_rx, rx_usecs, rx_frames }, most: None }
            }
            Kind::Eee => {
                let enabled = ethtool.eee(card)?.enabled;
                Seen { now: Value::Eee { enabled }, most: None }
            }
            Kind::Rings => {
                let rings = ethtool.rings(card)?;
                let most = rings.longest();
                let now = Value::Rings { rx: most.rx.and(rings.rx), tx: most.tx.and(rings.tx) };
                Seen { now, most: Some(Value::Rings { rx: most.rx, tx: most.tx }) }
            }
        })
    }

    fn set(&mut self, card: &Card, value: &Value, now: &Value) -> io::Result<()> {
        let ethtool = self.ethtool()?;
        // A driver refuses all of it where it does not know a part.
        match (*value, *now) {
            (
                Value::Moderation { adaptive_rx, rx_usecs, rx_frames },
                Value::Moderation { adaptive_rx: adapts, rx_usecs: delay, rx_frames: frames },
            ) => {
                let changed = Coalesce {
                    adaptive_rx: adaptive_rx.filter(|adaptive| Some(*adaptive) != adapts),
                    rx_usecs: rx_usecs.filter(|usecs| Some(*usecs) != delay),
                    rx_frames: rx_frames.filter(|new| Some(*new) != frames),
                    tx_usecs: None,
                };
                ethtool.set_coalesce(card, &changed)
            }
            (Value::Rings { rx, tx }, Value::Rings { rx: rx_now, tx: tx_now }) => ethtool
                .set_rings(
                    card,
                    rx.filter(|len| Some(*len) != rx_now),
                    tx.filter(|len| Some(*len) != tx_now),
                ),
            (Value::Eee { enabled }, _) => ethtool.set_eee(card, enabled),
            _ => Err(io::ErrorKind::InvalidInput.into()),
        }
    }

    fn hold_awake(&mut self, latency_us: Option<u16>) -> io::Result<()> {
        let named = |why: io::Error| io::Error::new(why.kind(), format!("{LATENCY}: {why}"));
        let file = self.latency.as_mut().map_err(|why| named(same(why)))?;
        let value = latency_us.map_or(ANY, i32::from);
        file.write_all(&value.to_ne_bytes()).map_err(named)
    }
}

/// An error once more.
fn same(why: &io::Error) -> io::Error {
    why.raw_os_error().map_or_else(|| why.kind().into(), io::Error::from_raw_os_error)
}
