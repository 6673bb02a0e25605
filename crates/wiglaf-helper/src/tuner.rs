//! What is tuned, for whom, and how it was before.
//!
//! A lease says what somebody wants of some cards. [`Tuner::settle`] makes cards be as the leases together
//! want them, and as they were before where nobody wants anything any more. What a card was is written down before
//! it is changed, so that whoever comes after a tuner that was killed can set it back.

mod cards;
mod process;
mod store;

use std::collections::BTreeMap;
use std::io;

use serde::{Deserialize, Serialize};
use wiglaf_netlink::{Card, Coalesce};

use crate::tuning::{Change, Holder, Note, Tuned, Wants};

pub(crate) use process::{Handle, Order, Outcome, Started, start};
pub(crate) use store::Kept;
use store::{State, Store};

/// Leases at a time: of one user, and of all.
const LEASES_OF_USER_MAX: usize = 16;
const LEASES_MAX: usize = 128;

/// A setting of a card.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Moderation,
    Eee,
    Rings,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Moderation, Self::Eee, Self::Rings];

    /// Whether somebody wants it changed.
    fn is_in(self, wants: &Wants) -> bool {
        match self {
            Self::Moderation => wants.rx_usecs.is_some(),
            Self::Eee => wants.eee_off,
            Self::Rings => wants.rings_max,
        }
    }

    /// What is said of a card without it.
    fn absence(self) -> &'static str {
        match self {
            Self::Moderation => "has no interrupt moderation setting",
            Self::Eee => "has no Energy Efficient Ethernet",
            Self::Rings => "has no ring sizes to set",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Moderation => "interrupt moderation",
            Self::Eee => "Energy Efficient Ethernet",
            Self::Rings => "ring sizes",
        }
    }
}

/// What it is set to. What is none the card has not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) enum Value {
    Moderation { adaptive_rx: Option<bool>, rx_usecs: Option<u32>, rx_frames: Option<u32> },
    Eee { enabled: bool },
    Rings { rx: Option<u32>, tx: Option<u32> },
}

impl Value {
    fn kind(&self) -> Kind {
        match self {
            Self::Moderation { .. } => Kind::Moderation,
            Self::Eee { .. } => Kind::Eee,
            Self::Rings { .. } => Kind::Rings,
        }
    }

    /// Whether the card has nothing of the kind.
    fn is_nothing(&self) -> bool {
        match self {
            Self::Moderation { adaptive_rx, rx_usecs, rx_frames } => {
                adaptive_rx.is_none() && rx_usecs.is_none() && rx_frames.is_none()
            }
            Self::Eee { .. } => false,
            Self::Rings { rx, tx } => rx.is_none() && tx.is_none(),
        }
    }

    /// What ethtool calls the parts, and their values.
    fn parts(&self) -> Vec<(&'static str, String)> {
        let on = |on: bool| if on { "on" } else { "off" }.to_owned();
        match self {
            Self::Moderation { adaptive_rx, rx_usecs, rx_frames } => adaptive_rx
                .map(|adaptive| ("adaptive-rx", on(adaptive)))
                .into_iter()
                .chain(rx_usecs.map(|usecs| ("rx-usecs", usecs.to_string())))
                .chain(rx_frames.map(|frames| ("rx-frames", frames.to_string())))
                .collect(),
            Self::Eee { enabled } => vec![("eee", on(*enabled))],
            Self::Rings { rx, tx } => [("rx ring", rx), ("tx ring", tx)]
                .into_iter()
                .filter_map(|(name, len)| Some((name, len.as_ref()?.to_string())))
                .collect(),
        }
    }
}

/// What a card is set to, and the most that it can be set to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) now: Value,
    /// Of rings.
    pub(crate) most: Option<Value>,
}

/// Cards and processors. Kernels and their drivers are behind the one that is real; of settings that no
/// driver of the machine that runs the tests has there are made-up ones.
pub(crate) trait Machine {
    fn look(&mut self, card: &Card, kind: Kind) -> io::Result<Seen>;
    /// Sets those parts of it that `now` has otherwise.
    fn set(&mut self, card: &Card, value: &Value, now: &Value) -> io::Result<()>;
    /// Processors wake within so many microseconds, or as they like.
    fn hold_awake(&mut self, latency_us: Option<u16>) -> io::Result<()>;
}

/// A setting that was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Held {
    card: Card,
    before: Value,
    /// What it was set to; compared with before it is set back.
    set: Value,
    /// It is not known whether that was done, and what the driver made of it.
    is_pending: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Lease {
    number: u64,
    kept: Kept,
    is_kept: bool,
}

/// Why there is no lease.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Full {
    OfUser,
    OfAll,
}

/// What is tuned, and for whom.
#[derive(Debug)]
pub(crate) struct Tuner<M> {
    machine: M,
    store: Store,
    held: Vec<Held>,
    leases: Vec<Lease>,
    next: u64,
    /// What processors were asked for last.
    awake: Option<u16>,
}

impl<M: Machine> Tuner<M> {
    /// Goes on where an earlier one has ended: what was kept stays, and what processes held, which have lost
    /// it, is set back. Says what it could not do.
    pub(crate) fn new(machine: M, mut store: Store) -> (Self, Vec<Note>) {
        let State { held, kept } = store.load();
        let mut tuner = Self { machine, store, held, leases: Vec::new(), next: 0, awake: None };
        for kept in kept {
            tuner.add(kept, true);
        }
        let notes = tuner.settle();
        (tuner, notes)
    }

    fn add(&mut self, kept: Kept, is_kept: bool) -> u64 {
        self.next += 1;
        self.leases.push(Lease { number: self.next, kept, is_kept });
        self.next
    }

    /// Tunes until the lease is released.
    pub(crate) fn hold(&mut self, kept: Kept) -> Result<(u64, Tuned), Full> {
        let of_user = self.leases.iter().filter(|lease| lease.kept.uid == kept.uid).count();
        if self.leases.len() >= LEASES_MAX {
            return Err(Full::OfAll);
        }
        if of_user >= LEASES_OF_USER_MAX {
            return Err(Full::OfUser);
        }
        let number = self.add(kept, false);
        let notes = self.settle();
        Ok((number, self.tell(notes)))
    }

    /// Tunes until that user undoes it; in place of what the user has kept before.
    pub(crate) fn keep(&mut self, kept: Kept) -> Result<Tuned, Full> {
        let uid = kept.uid;
        let own = |lease: &Lease| lease.is_kept && lease.kept.uid == uid;
        if self.leases.len() >= LEASES_MAX && !self.leases.iter().any(own) {
            return Err(Full::OfAll);
        }
        self.leases.retain(|lease| !own(lease));
        self.add(kept, true);
        let notes = self.settle();
        Ok(self.tell(notes))
    }

    /// Takes back what that user has kept; for root, what anybody has.
    pub(crate) fn undo(&mut self, uid: u32) -> Tuned {
        self.leases.retain(|lease| !(lease.is_kept && (uid == 0 || lease.kept.uid == uid)));
        let notes = self.settle();
        self.tell(notes)
    }

    /// The holder has gone.
    pub(crate) fn release(&mut self, numbers: &[u64]) -> Vec<Note> {
        self.leases.retain(|lease| !numbers.contains(&lease.number));
        self.settle()
    }

    /// All processes that held something are gone.
    pub(crate) fn release_all(&mut self) -> Vec<Note> {
        self.leases.retain(|lease| lease.is_kept);
        self.settle()
    }

    /// How it is now.
    pub(crate) fn tell(&self, notes: Vec<Note>) -> Tuned {
        let of_cards = self.held.iter().flat_map(|held| {
            let pairs = held.before.parts().into_iter().zip(held.set.parts());
            pairs.filter(|((_, before), (_, now))| before != now).map(
                |((setting, before), (_, now))| Change {
                    card: Some(held.card.name.clone()),
                    setting: setting.to_owned(),
                    before,
                    now,
                },
            )
        });
        let awake = self.awake.map(|latency| Change {
            card: None,
            setting: "time to wake".to_owned(),
            before: "any".to_owned(),
            now: format!("{latency} us"),
        });
        let holders = self.leases.iter().map(|lease| Holder {
            uid: lease.kept.uid,
            is_kept: lease.is_kept,
            wants: lease.kept.wants,
        });
        Tuned { changes: of_cards.chain(awake).collect(), notes, holders: holders.collect() }
    }

    /// Makes everything be as the leases want it, or as it was.
    fn settle(&mut self) -> Vec<Note> {
        let mut notes = Vec::new();
        let mut wanted: BTreeMap<(Card, Kind), Option<u16>> = BTreeMap::new();
        for Kept { wants, cards, .. } in self.leases.iter().map(|lease| &lease.kept) {
            for (card, kind) in cards.iter().flat_map(|card| Kind::ALL.map(|kind| (card, kind))) {
                if kind.is_in(wants) {
                    let usecs = wanted.entry((card.clone(), kind)).or_insert(wants.rx_usecs);
                    // Who wants the shortest delay gets it.
                    *usecs = (*usecs).into_iter().chain(wants.rx_usecs).min();
                }
            }
        }
        for held in self.held.clone() {
            if !wanted.contains_key(&(held.card.clone(), held.before.kind())) {
                notes.extend(self.set_back(&held));
            }
        }
        for ((card, kind), usecs) in wanted {
            if let Err(text) = self.tune(&card, kind, usecs) {
                notes.push(Note { card: Some(card.name), text });
            }
        }
        notes.extend(self.settle_awake());
        // Also what is kept.
        notes.extend(self.save().err());
        notes
    }

    fn settle_awake(&mut self) -> Option<Note> {
        let latency = self.leases.iter().filter_map(|lease| lease.kept.wants.awake_us).min();
        if latency == self.awake {
            return None;
        }
        match self.machine.hold_awake(latency) {
            Ok(()) => {
                self.awake = latency;
                None
            }
            Err(why) => {
                Some(Note { card: None, text: format!("cannot keep its processors awake: {why}") })
            }
        }
    }

    /// Has a card be as it is wanted. An error is the rest of a sentence about the card.
    fn tune(&mut self, card: &Card, kind: Kind, usecs: Option<u16>) -> Result<(), String> {
        let seen = self.machine.look(card, kind).map_err(|why| refused(kind, &why))?;
        if seen.now.is_nothing() {
            return Err(kind.absence().to_owned());
        }
        let target = match seen.now {
            Value::Moderation { adaptive_rx, rx_usecs, rx_frames } => {
                let now = Coalesce { adaptive_rx, rx_usecs, rx_frames, tx_usecs: None };
                let Coalesce { adaptive_rx, rx_usecs, rx_frames, .. } =
                    now.with_delay(usecs.map_or(0, u32::from));
                Value::Moderation { adaptive_rx, rx_usecs, rx_frames }
            }
            Value::Eee { .. } => Value::Eee { enabled: false },
            Value::Rings { .. } => seen.most.unwrap_or(seen.now),
        };
        let known = self.held.iter().position(|held| held.is(card, kind));
        let mut before = seen.now;
        if let Some(known) = known {
            let held = &self.held[known];
            if held.set == seen.now || held.is_pending {
                before = held.before;
            }
            // Else somebody has changed it since: from now on that is what it was.
            if held.set == seen.now && seen.now == target {
                return Ok(());
            }
        } else if seen.now == target {
            return Ok(());
        }
        let held = Held { card: card.clone(), before, set: target, is_pending: true };
        self.put(known, held);
        self.save().map_err(|note| format!("stays as it is: this host {}", note.text))?;
        if let Err(why) = self.machine.set(card, &target, &seen.now) {
            self.held.retain(|held| !held.is(card, kind) || held.before != seen.now);
            return Err(refused(kind, &why));
        }
        // A driver may have made something else of it.
        let set = self.machine.look(card, kind).map_or(target, |seen| seen.now);
        if let Some(held) = self.held.iter_mut().find(|held| held.is(card, kind)) {
            (held.set, held.is_pending) = (set, false);
        }
        Ok(())
    }

    fn put(&mut self, known: Option<usize>, held: Held) {
        match known {
            Some(known) => self.held[known] = held,
            None => self.held.push(held),
        }
    }

    /// Has a card be as it was, unless somebody else has changed it since.
    fn set_back(&mut self, held: &Held) -> Option<Note> {
        let kind = held.before.kind();
        let note = |text: String| Some(Note { card: Some(held.card.name.clone()), text });
        let name = kind.name();
        let said = match self.machine.look(&held.card, kind) {
            Err(why) => note(format!("is not as it was: its {name} cannot be read ({why})")),
            Ok(seen) if seen.now == held.before => None,
            Ok(seen) if seen.now != held.set && !held.is_pending => note(format!(
                "keeps its {name}, which somebody else has changed since: {}",
                words(&seen.now)
            )),
            Ok(seen) => match self.machine.set(&held.card, &held.before, &seen.now) {
                Ok(()) => None,
                Err(why) => {
                    // It stays known, and is tried again.
                    return note(format!("cannot have its {name} set back: {why}"));
                }
            },
        };
        self.held.retain(|other| !other.is(&held.card, kind));
        said
    }

    fn save(&mut self) -> Result<(), Note> {
        let kept = self.leases.iter().filter(|lease| lease.is_kept).map(|lease| &lease.kept);
        let state = State { held: self.held.clone(), kept: kept.cloned().collect() };
        let note = |why: io::Error| Note {
            card: None,
            text: format!("cannot write down how its cards were: {why}"),
        };
        self.store.save(state).map_err(note)
    }
}

impl Held {
    fn is(&self, card: &Card, kind: Kind) -> bool {
        self.card == *card && self.before.kind() == kind
    }
}

fn words(value: &Value) -> String {
    let parts = value.parts().into_iter().map(|(name, value)| format!("{name} {value}"));
    parts.collect::<Vec<_>>().join(", ")
}

fn refused(kind: Kind, why: &io::Error) -> String {
    match why.kind() {
        io::ErrorKind::Unsupported => kind.absence().to_owned(),
        io::ErrorKind::PermissionDenied => format!(
            "keeps its {}: the helper has not the privilege (CAP_NET_ADMIN) to change it",
            kind.name()
        ),
        _ => format!("keeps its {}: {why}", kind.name()),
    }
}

#[cfg(test)]
mod tests;
