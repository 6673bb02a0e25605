//! Machines of peers: which of them is dead, as against a process that is stopped or computes
//! (docs/adr/0042-a-machine-is-asked-not-a-process.md).
//!
//! A peer that was not heard for a moment may be busy. Its machine is asked then, whose kernel answers
//! for it ([`Hosts`]). If nothing comes from there for the limit, neither frames of any peer nor an answer, the
//! machine has lost its power or its cable, and all of its peers are gone. A firewall may keep a machine
//! from answering: so its silence means nothing before it has answered once, or unless nobody on the
//! network knows its link address.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;

use wiglaf_link::hosts::{Answer, Hosts};
use wiglaf_transport::limits::START_LIMIT;
use wiglaf_transport::{Gone, Instant as Tick, PeerId, PeerView, Sink, Transport};

use crate::News;
use crate::limits::{
    ASK_EVERY_MAX, ASK_EVERY_MIN, ASKED_MIN, ASKED_PER_LIMIT, AWAY, TRIED_MAX, UNHEARD_LIMIT,
};

/// One machine.
#[derive(Debug, Default)]
struct Machine {
    peers: Vec<PeerId>,
    /// It has answered at some time, so that its silence means something.
    answers: bool,
    /// It takes datagrams, or a peer there was heard.
    takes_datagrams: bool,
    /// Nobody knows the way to it.
    has_no_way: bool,
    /// When it last answered, or was first known.
    answered_at: Tick,
    asked_at: Tick,
    /// Questions since it last answered, or its peers were heard.
    asked: u32,
    /// Questions in all.
    tried: u32,
    /// What was told of it already.
    told_unknown: bool,
    told_unheard: bool,
}

/// What can be seen of a machine's peers.
#[derive(Debug, Default)]
struct Seen {
    /// How long none of them was heard.
    silent: Duration,
    /// One of them owes something.
    owes: bool,
    /// One has been heard at some time.
    was_heard: bool,
    /// One has an epoch, so that it has begun, owes something, and was not heard for so long.
    unheard: Option<(PeerId, Duration)>,
}

/// All machines that there are peers on.
pub(crate) struct Machines {
    hosts: Box<dyn Hosts>,
    limit: Duration,
    every: Duration,
    looked_at: Tick,
    /// Peers that are known here.
    met: u32,
    known: HashMap<Ipv4Addr, Machine>,
    /// What users should know.
    news: VecDeque<(PeerId, Duration, News)>,
}

impl Machines {
    pub(crate) fn new(hosts: Box<dyn Hosts>, limit: Duration) -> Self {
        let every = (limit / ASKED_PER_LIMIT).clamp(ASK_EVERY_MIN, ASK_EVERY_MAX);
        let (known, news) = (HashMap::new(), VecDeque::new());
        Self { hosts, limit, every, looked_at: Tick::ZERO, met: 0, known, news }
    }

    /// How often it is to be looked at: between two questions, so that neither waits for long.
    pub(crate) fn every(&self) -> Duration {
        self.every / 2
    }

    /// The next thing that users should know of a peer, and for how long it was not heard.
    pub(crate) fn pop_news(&mut self) -> Option<(PeerId, Duration, News)> {
        self.news.pop_front()
    }

    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Looks at all machines: asks those that peers are on which were not heard, and gives those up that have been
    /// silent for the limit. `awaits` if a message of any peer is awaited; of a peer that `is_here` the death is this
    /// machine's. True when any was given up.
    #[cold]
    pub(crate) fn look(
        &mut self,
        now: Tick,
        (transport, sink): (&mut Transport, &mut dyn Sink),
        awaits: bool,
        is_here: impl Fn(&PeerView) -> bool,
    ) -> bool {
        self.note_absence(now);
        self.take_answers(now);
        self.meet(now, transport, is_here);
        let (timing, mut any_lost) = ((self.limit, self.every), false);
        for (ip, machine) in &mut self.known {
            let Some(seen) = seen_of(&machine.peers, transport, now) else { continue };
            machine.takes_datagrams |= seen.was_heard;
            if seen.silent < self.every {
                machine.asked = 0;
            }
            match machine.judge(now, &seen, awaits, timing) {
                Verdict::Wait => {}
                Verdict::Ask => {
                    machine.asked_at = now;
                    (machine.asked, machine.tried) = (machine.asked + 1, machine.tried + 1);
                    self.hosts.ask(*ip);
                }
                Verdict::Dead => {
                    for peer in machine.peers.drain(..) {
                        transport.give_up(peer, Gone::MachineSilent, sink);
                    }
                    any_lost = true;
                    continue;
                }
                Verdict::Unknown => {
                    machine.told_unknown = true;
                    let first = machine.peers.first();
                    self.news.extend(first.map(|peer| (*peer, seen.silent, News::MachineUnknown)));
                }
            }
            let Some((peer, unheard)) = seen.unheard.filter(|_| !machine.takes_datagrams) else {
                continue;
            };
            if !machine.answers || unheard < START_LIMIT {
                continue;
            }
            if !std::mem::replace(&mut machine.told_unheard, true) {
                self.news.push_back((peer, unheard, News::Unheard));
            }
            if unheard >= UNHEARD_LIMIT {
                transport.give_up(peer, Gone::Blocked, sink);
                any_lost = true;
            }
        }
        any_lost
    }

    /// Notes where peers are that have become known.
    fn meet(&mut self, now: Tick, transport: &Transport, is_here: impl Fn(&PeerView) -> bool) {
        while let Some(view) = transport.peer(PeerId(self.met)) {
            let peer = PeerId(self.met);
            self.met += 1;
            if is_here(&view) {
                continue;
            }
            let unmet = || Machine { answered_at: now, ..Machine::default() };
            self.known.entry(*view.at.ip()).or_insert_with(unmet).peers.push(peer);
        }
    }

    /// Takes what machines have answered.
    fn take_answers(&mut self, now: Tick) {
        while let Some((ip, answer)) = self.hosts.take() {
            let Some(machine) = self.known.get_mut(&ip) else { continue };
            machine.has_no_way = answer == Answer::NoWay;
            if answer == Answer::NoWay {
                continue;
            }
            machine.takes_datagrams |= answer == Answer::TakesDatagrams;
            machine.answers = true;
            machine.answered_at = now;
            machine.asked = 0;
        }
    }

    /// Who was away has heard nobody.
    fn note_absence(&mut self, now: Tick) {
        let away = now.since(self.looked_at) > self.every + AWAY;
        self.looked_at = now;
        if away {
            for machine in self.known.values_mut() {
                (machine.asked, machine.answered_at) = (0, now);
            }
        }
    }
}

/// What follows from how long a machine was silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Wait,
    Ask,
    Dead,
    /// It never answers, so nobody knows.
    Unknown,
}

impl Machine {
    fn judge(
        &self,
        now: Tick,
        seen: &Seen,
        awaits: bool,
        (limit, every): (Duration, Duration),
    ) -> Verdict {
        let silent = seen.silent.min(now.since(self.answered_at));
        // The processes of a job do not start at the same moment, nor do machines after a power cut.
        let limit = if seen.was_heard { limit } else { limit.max(START_LIMIT) };
        if self.asked >= ASKED_MIN && silent >= limit {
            //= docs/protocol.md#8-ending
            //# An endpoint MUST NOT give up a peer for the silence of its machine unless that machine has answered before or its link address cannot be found.
            return match self.answers || self.has_no_way {
                true => Verdict::Dead,
                false if !self.told_unknown && seen.owes => Verdict::Unknown,
                false => self.ask(now, every),
            };
        }
        let is_untried = !self.answers && self.tried < TRIED_MAX && seen.was_heard;
        let is_doubted = silent >= every && (seen.owes || awaits);
        if is_untried || is_doubted { self.ask(now, every) } else { Verdict::Wait }
    }

    fn ask(&self, now: Tick, every: Duration) -> Verdict {
        let is_due = self.tried == 0 || now.since(self.asked_at) >= every;
        if is_due { Verdict::Ask } else { Verdict::Wait }
    }
}

/// What can be seen of peers of one machine; `None`: all of them are gone, or nothing was exchanged.
fn seen_of(peers: &[PeerId], transport: &Transport, now: Tick) -> Option<Seen> {
    let mut all: Option<Seen> = None;
    for peer in peers {
        let Some(silence) = transport.silence(*peer, now) else { continue };
        let all = all.get_or_insert(Seen { silent: silence.lasts, ..Seen::default() });
        all.silent = all.silent.min(silence.lasts);
        all.owes |= silence.owes;
        all.was_heard |= silence.was_heard;
        if silence.owes && !silence.was_heard && silence.has_begun {
            let longest = all.unheard.map_or(Duration::ZERO, |(_, lasts)| lasts);
            if silence.lasts >= longest {
                all.unheard = Some((*peer, silence.lasts));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const TIMING: (Duration, Duration) = (Duration::from_secs(8), SECOND);

    fn at(seconds: u64) -> Tick {
        Tick::from_nanos(seconds * 1_000_000_000)
    }

    fn seen(silent: u64, owes: bool) -> Seen {
        Seen { silent: Duration::from_secs(silent), owes, was_heard: true, unheard: None }
    }

    /// Asks as often as it is called for; answers what comes in the end.
    fn until(machine: &mut Machine, seconds: std::ops::Range<u64>, owes: bool) -> Verdict {
        for second in seconds {
            match machine.judge(at(second), &seen(second, owes), !owes, TIMING) {
                Verdict::Ask => {
                    machine.asked_at = at(second);
                    (machine.asked, machine.tried) = (machine.asked + 1, machine.tried + 1);
                }
                Verdict::Wait => {}
                verdict => return verdict,
            }
        }
        Verdict::Wait
    }

    #[test]
    fn a_machine_that_has_answered_before_is_dead_after_the_limit_and_not_before() {
        for owes in [true, false] {
            let mut machine = Machine { answers: true, ..Machine::default() };
            assert_eq!(until(&mut machine, 0..8, owes), Verdict::Wait);
            assert!(machine.asked >= ASKED_MIN, "asked {} times", machine.asked);
            assert_eq!(until(&mut machine, 8..9, owes), Verdict::Dead);
        }
    }

    #[test]
    fn a_machine_that_never_answers_is_not_taken_for_dead() {
        let mut machine = Machine::default();
        assert_eq!(until(&mut machine, 0..60, true), Verdict::Unknown);
        machine.told_unknown = true;
        assert_eq!(until(&mut machine, 9..600, true), Verdict::Wait);
        machine.has_no_way = true;
        assert_eq!(until(&mut machine, 600..601, true), Verdict::Dead);
    }

    #[test]
    fn an_answer_or_a_frame_begins_the_silence_anew() {
        let mut machine = Machine { answers: true, ..Machine::default() };
        assert_eq!(until(&mut machine, 0..8, true), Verdict::Wait);
        (machine.answered_at, machine.asked) = (at(7), 0);
        assert_eq!(until(&mut machine, 8..15, true), Verdict::Wait);
        assert_eq!(until(&mut machine, 15..16, true), Verdict::Dead);
        let frame = machine.judge(at(16), &seen(0, true), false, TIMING);
        assert_eq!(frame, Verdict::Wait);
    }

    #[test]
    fn nobody_asks_while_nothing_is_awaited_but_to_know_whether_it_answers() {
        let mut machine = Machine { answers: true, ..Machine::default() };
        let quiet = machine.judge(at(100), &seen(100, false), false, TIMING);
        assert_eq!(quiet, Verdict::Wait);
        machine.answers = false;
        assert_eq!(machine.judge(at(100), &seen(0, false), false, TIMING), Verdict::Ask);
        machine.tried = TRIED_MAX;
        assert_eq!(machine.judge(at(101), &seen(0, false), false, TIMING), Verdict::Wait);
    }
}
