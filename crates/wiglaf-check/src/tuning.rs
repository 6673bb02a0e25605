//! What tuning would change on this host, as far as one can see without privilege, and what to type where no
//! helper does it.

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};
use wiglaf_helper::{Change, Wants};
use wiglaf_link_udp::interface;
use wiglaf_netlink::{Card, Coalesce, Eee, Ethtool, Rings};

/// Processors that wake sooner need not be kept awake, in microseconds; as in [`crate::verdict`].
const IDLE_LATENCY_MAX_US: u32 = 20;

/// What would be changed, and the lines to type instead.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Each value that would be another.
    pub changes: Vec<Change>,
    /// Commands that do so.
    pub commands: Vec<String>,
}

/// What it would change on cards whose address `is_meant`.
#[must_use]
pub fn plan(wants: &Wants, is_meant: impl Fn(Ipv4Addr) -> bool) -> Plan {
    let mut plan = Plan::default();
    let mut seen = std::collections::BTreeSet::new();
    if let Ok(mut ethtool) = Ethtool::open() {
        for at in interface::list().unwrap_or_default() {
            if at.mac.is_some() && is_meant(at.ip) && seen.insert(at.index) {
                let card = Card { index: at.index, name: at.name };
                plan.card(wants, &mut ethtool, &card);
            }
        }
    }
    if wants.awake_us.is_some() && crate::facts::rests_longer_than(IDLE_LATENCY_MAX_US) {
        plan.changes.push(Change {
            card: None,
            setting: "time to wake".to_owned(),
            before: "any".to_owned(),
            now: format!("{} us", wants.awake_us.unwrap_or(0)),
        });
        plan.commands.push(format!("sudo cpupower idle-set -D {}", IDLE_LATENCY_MAX_US + 1));
    }
    plan
}

impl Plan {
    fn card(&mut self, wants: &Wants, ethtool: &mut Ethtool, card: &Card) {
        if let (Some(usecs), Ok(now)) = (wants.rx_usecs, ethtool.coalesce(card)) {
            self.coalesce(&card.name, &now, &now.with_delay(usecs.into()));
        }
        if let (true, Ok(Eee { enabled: true, .. })) = (wants.eee_off, ethtool.eee(card)) {
            self.change(&card.name, "eee", "on".to_owned(), "off".to_owned());
            self.commands.push(format!("sudo ethtool --set-eee {} eee off", card.name));
        }
        if let (true, Ok(now)) = (wants.rings_max, ethtool.rings(card)) {
            self.rings(&card.name, &now, &now.longest());
        }
    }

    fn change(&mut self, card: &str, setting: &str, before: String, now: String) {
        let (card, setting) = (Some(card.to_owned()), setting.to_owned());
        self.changes.push(Change { card, setting, before, now });
    }

    fn coalesce(&mut self, card: &str, now: &Coalesce, then: &Coalesce) {
        let mut command = format!("sudo ethtool -C {card}");
        if now.adaptive_rx == Some(true) {
            self.change(card, "adaptive-rx", "on".to_owned(), "off".to_owned());
            command += " adaptive-rx off";
        }
        let numbers = [
            ("rx-usecs", now.rx_usecs, then.rx_usecs),
            ("rx-frames", now.rx_frames, then.rx_frames),
        ];
        for (name, before, after) in numbers {
            if let (Some(before), Some(after)) = (before, after.filter(|_| before != after)) {
                self.change(card, name, before.to_string(), after.to_string());
                command += &format!(" {name} {after}");
            }
        }
        if now != then {
            self.commands.push(command);
        }
    }

    fn rings(&mut self, card: &str, now: &Rings, then: &Rings) {
        let mut command = format!("sudo ethtool -G {card}");
        let mut is_longer = false;
        for (name, before, after) in [("rx", now.rx, then.rx), ("tx", now.tx, then.tx)] {
            if let (Some(before), Some(after)) = (before, after.filter(|_| before != after)) {
                self.change(card, &format!("{name} ring"), before.to_string(), after.to_string());
                command += &format!(" {name} {after}");
                is_longer = true;
            }
        }
        if is_longer {
            self.commands.push(command);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_changed_and_typed() {
        let mut plan = Plan::default();
        let now = Coalesce { rx_usecs: Some(50), adaptive_rx: Some(true), ..Coalesce::default() };
        plan.coalesce("eth0", &now, &now.with_delay(0));
        let frames = Coalesce { rx_frames: Some(9), ..Coalesce::default() };
        plan.coalesce("tap0", &frames, &frames.with_delay(0));
        let tuned = Coalesce { rx_usecs: Some(0), rx_frames: Some(1), ..Coalesce::default() };
        plan.coalesce("eth1", &tuned, &tuned.with_delay(0));
        let rings = Rings { rx: Some(256), rx_max: Some(4096), tx: Some(512), tx_max: Some(512) };
        plan.rings("eth0", &rings, &rings.longest());
        let unsaid = Rings { rx: Some(64), ..Rings::default() };
        plan.rings("eth1", &unsaid, &unsaid.longest());
        assert_eq!(
            plan.commands,
            [
                "sudo ethtool -C eth0 adaptive-rx off rx-usecs 0",
                "sudo ethtool -C tap0 rx-frames 1",
                "sudo ethtool -G eth0 rx 4096"
            ]
        );
        let values = plan.changes.iter().map(|change| (&change.before[..], &change.now[..]));
        assert_eq!(
            values.collect::<Vec<_>>(),
            [("on", "off"), ("50", "0"), ("9", "1"), ("256", "4096")]
        );
    }
}
