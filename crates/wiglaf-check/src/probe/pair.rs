//! The caller's side: which steps are taken with a pair, and what follows from the answers.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use rustix::rand::{GetRandomFlags, getrandom};

use super::lines::Side;
use super::plan::Plan;
use super::{
    Answer, Beyond, Delivery, Latency, Loss, Open, Opened, PairResult, PathMtu, Ports, Request,
    SCHEMA, Sent, Way,
};
use crate::facts::Counts;
use crate::known::Known;

/// What a step may take beyond its own limit: ssh, and a busy host.
const GRACE: Duration = Duration::from_secs(10);
/// How long a probe may take to arrive, in ms, one try after the other: what has not come is sent again, because a
/// host that is busy for some hundred milliseconds must not be blamed for a firewall.
const PROBE_WAITS_MS: [u64; 3] = [150, 500, 2000];
/// Shortest path MTU that is looked for: below it nothing useful gets through.
const MTU_MIN: u32 = 128;

/// One end of a pair.
pub struct End<'a> {
    /// The host's name, for sentences.
    pub name: &'a str,
    /// Its address on the network that jobs use.
    pub address: Ipv4Addr,
    /// How it is asked.
    pub side: &'a mut (dyn Side + 'static),
}

/// Measures a pair. However much fails, there is a result, within the sum of the steps' limits.
#[must_use]
pub fn measure(a: End<'_>, b: End<'_>, plan: &Plan) -> PairResult {
    with_session(a, b, plan, |pair, result| {
        pair.ports(result)?;
        pair.path_mtu(result)?;
        pair.multicast(result)?;
        pair.pings(result)?;
        pair.messages(result)?;
        pair.link_pings(result)?;
        pair.streams(result)?;
        pair.losses(result)
    })
}

/// Streams in both directions at once, for `plan.stream_ms`: to be called for several pairs at a
/// time, each with processes of its own.
#[must_use]
pub fn stream_together(a: End<'_>, b: End<'_>, plan: &Plan) -> PairResult {
    with_session(a, b, plan, Pair::both_streams)
}

fn with_session<'a, 'p>(
    a: End<'a>,
    b: End<'a>,
    plan: &'p Plan,
    run: impl FnOnce(&mut Pair<'a, 'p>, &mut PairResult) -> Result<(), String>,
) -> PairResult {
    let began = Instant::now();
    let mut result = unmeasured(a.name, b.name);
    result.at_once = plan.at_once;
    let outcome = Pair::open(a, b, plan, &mut result).and_then(|mut pair| {
        let outcome = run(&mut pair, &mut result);
        pair.close();
        outcome
    });
    result.failure = outcome.err();
    result.took_ms = began.elapsed().as_millis() as u64;
    result
}

const NOT_MEASURED: &str = "it was not measured";

/// A pair of which nothing is known yet.
fn unmeasured(a: &str, b: &str) -> PairResult {
    PairResult {
        a: a.to_owned(),
        b: b.to_owned(),
        a_link: Known::unknown(NOT_MEASURED),
        b_link: Known::unknown(NOT_MEASURED),
        a_to_b: not_measured(),
        b_to_a: not_measured(),
        plain: Known::unknown(NOT_MEASURED),
        link: Known::unknown(NOT_MEASURED),
        after_pause: Known::unknown(NOT_MEASURED),
        after_pause_awake: Known::unknown(NOT_MEASURED),
        clock: Known::unknown(NOT_MEASURED),
        ..PairResult::default()
    }
}

/// A pair of which one side could not even be asked.
pub(super) fn unreached(a: &str, b: &str, why: String) -> PairResult {
    PairResult { failure: Some(why), ..unmeasured(a, b) }
}

fn not_measured() -> Way {
    Way {
        ports: Known::unknown(NOT_MEASURED),
        mtu: Known::unknown(NOT_MEASURED),
        frame: Known::unknown(NOT_MEASURED),
        long: Known::unknown(NOT_MEASURED),
        stream_mb_s: Known::unknown(NOT_MEASURED),
        stream_both_mb_s: Known::unknown(NOT_MEASURED),
        loss: Known::unknown(NOT_MEASURED),
        multicast: Known::unknown(NOT_MEASURED),
    }
}

/// Which way something goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    A,
    B,
}

impl From {
    const BOTH: [Self; 2] = [Self::A, Self::B];

    fn other(self) -> Self {
        if self == Self::A { Self::B } else { Self::A }
    }

    fn way(self, result: &mut PairResult) -> &mut Way {
        if self == Self::A { &mut result.a_to_b } else { &mut result.b_to_a }
    }
}

/// A session of both sides.
struct Pair<'a, 'p> {
    a: End<'a>,
    b: End<'a>,
    opened: [Opened; 2],
    plan: &'p Plan,
    id: u32,
}

impl<'a, 'p> Pair<'a, 'p> {
    fn open(
        mut a: End<'a>,
        mut b: End<'a>,
        plan: &'p Plan,
        result: &mut PairResult,
    ) -> Result<Self, String> {
        let secret = secret()?;
        let open = |own, peer| {
            Request::Open(Open {
                schema: SCHEMA.to_owned(),
                own,
                peer,
                ports: plan.ports,
                samples: plan.samples,
                secret: secret.clone(),
                link: plan.link.clone(),
            })
        };
        let requests = [open(a.address, b.address), open(b.address, a.address)];
        let answers = both(&mut a, &mut b, &requests, Duration::ZERO)?;
        let [of_a, of_b] = answers;
        let opened = [opened(of_a, a.name)?, opened(of_b, b.name)?];
        (result.a_link, result.b_link) = (opened[0].link.clone(), opened[1].link.clone());
        let meet = [Request::Meet(opened[1].clone()), Request::Meet(opened[0].clone())];
        let [met_a, met_b] = both(&mut a, &mut b, &meet, Duration::ZERO)?;
        for (answer, name) in [(met_a, a.name), (met_b, b.name)] {
            if answer != Answer::Done {
                return Err(unexpected(name, answer));
            }
        }
        Ok(Self { a, b, opened, plan, id: 0 })
    }

    fn close(&mut self) {
        // Their sockets are closed when this returns, for the next session.
        let _ = both(&mut self.a, &mut self.b, &[Request::Close, Request::Close], Duration::ZERO);
    }

    fn end(&mut self, of: From) -> &mut End<'a> {
        if of == From::A { &mut self.a } else { &mut self.b }
    }

    fn ask(&mut self, of: From, request: &Request, limit: Duration) -> Result<Answer, String> {
        let end = self.end(of);
        let named = |why: String| format!("{}: {why}", end.name);
        let posted = end.side.post(request).map_err(named);
        posted.and_then(|()| end.side.take(limit + GRACE).map_err(named))
    }

    fn next_id(&mut self) -> u32 {
        self.id += 1;
        self.id
    }

    fn opened(&self, of: From) -> &Opened {
        &self.opened[usize::from(of == From::B)]
    }

    fn ports(&mut self, result: &mut PairResult) -> Result<(), String> {
        if self.plan.samples == 0 {
            return Ok(());
        }
        for from in From::BOTH {
            from.way(result).ports = match self.knock(from)? {
                Ok(ports) => Known::Is(ports),
                Err(why) => Known::unknown(why),
            };
        }
        Ok(())
    }

    /// Which of the peer's ports can be reached: those that were not are tried again.
    fn knock(&mut self, from: From) -> Result<Result<Ports, String>, String> {
        let to = self.opened(from.other()).clone();
        let mut ports = Ports {
            range: self.plan.ports,
            asked: to.listening.clone(),
            arrived: Vec::new(),
            refused: Vec::new(),
            busy: to.busy,
        };
        for wait_ms in PROBE_WAITS_MS {
            let left = to.listening.iter().filter(|port| !ports.arrived.contains(port));
            let knock = Request::Knock(left.copied().collect());
            match self.ask(from, &knock, Duration::ZERO)? {
                Answer::Knocked(refused) => ports.refused.extend(refused),
                other => return Ok(Err(reason(other))),
            }
            ports.arrived =
                match self.ask(from.other(), &Request::Heard(wait_ms), Duration::ZERO)? {
                    Answer::Heard(arrived) => arrived,
                    other => return Ok(Err(reason(other))),
                };
            // A refusal is an answer, not silence.
            let is_settled =
                |port: &u16| ports.arrived.contains(port) || ports.refused.contains(port);
            if to.listening.iter().all(is_settled) {
                break;
            }
        }
        ports.refused.sort_unstable();
        ports.refused.dedup();
        Ok(Ok(ports))
    }

    fn path_mtu(&mut self, result: &mut PairResult) -> Result<(), String> {
        if !self.plan.mtu {
            return Ok(());
        }
        for from in From::BOTH {
            from.way(result).mtu = match self.search_mtu(from)? {
                Ok(mtu) => Known::Is(mtu),
                Err(why) => Known::unknown(why),
            };
        }
        Ok(())
    }

    fn multicast(&mut self, result: &mut PairResult) -> Result<(), String> {
        if !self.plan.multicast {
            return Ok(());
        }
        for from in From::BOTH {
            from.way(result).multicast = self.shout(from)?;
        }
        Ok(())
    }

    /// Whether what one side sends to the session's group comes to the other.
    fn shout(&mut self, from: From) -> Result<Known<bool>, String> {
        let id = self.next_id();
        for wait_ms in PROBE_WAITS_MS {
            match self.ask(from, &Request::Shout { id, copies: 3 }, Duration::ZERO)? {
                Answer::Probed(_) => {}
                other => return Ok(Known::unknown(reason(other))),
            }
            match self.ask(from.other(), &Request::Seen { id, wait_ms }, Duration::ZERO)? {
                Answer::Seen(0) => {}
                Answer::Seen(_) => return Ok(Known::Is(true)),
                other => return Ok(Known::unknown(reason(other))),
            }
        }
        Ok(Known::Is(false))
    }

    /// The inner result is the figure, or why there is none; the outer one a side that is silent.
    fn search_mtu(&mut self, from: From) -> Result<Result<PathMtu, String>, String> {
        let interface = self.opened(from).mtu.min(u32::from(u16::MAX));
        let (whole, _) = match self.probe(from, interface)? {
            Ok(outcome) => outcome,
            Err(why) => return Ok(Err(why)),
        };
        let (mut passes, mut fails) = (MTU_MIN, interface + 1);
        let mut beyond = Beyond::Vanishes;
        if whole {
            passes = interface;
        } else {
            match self.probe(from, MTU_MIN)? {
                Ok((true, _)) => {}
                Ok((false, _)) => return Ok(Err("not even short datagrams arrive".to_owned())),
                Err(why) => return Ok(Err(why)),
            }
            fails = interface;
        }
        loop {
            let next = if whole { fails } else { passes + (fails - passes) / 2 };
            if !whole && next == passes {
                break;
            }
            match self.probe(from, next)? {
                Ok((true, _)) => passes = next,
                Ok((false, sent)) => {
                    fails = next;
                    beyond = match sent {
                        Sent::Left => Beyond::Vanishes,
                        Sent::TooLongHere => Beyond::Told,
                        Sent::TooLongThere => Beyond::ToldByRouter,
                    };
                }
                Err(why) => return Ok(Err(why)),
            }
            if whole {
                break;
            }
        }
        Ok(Ok(PathMtu { interface, largest: passes, beyond }))
    }

    /// Whether a packet of that length arrives, and what the sender's kernel said.
    fn probe(&mut self, from: From, len: u32) -> Result<Result<(bool, Sent), String>, String> {
        for wait_ms in &PROBE_WAITS_MS[..2] {
            let id = self.next_id();
            let probe = Request::Probe { id, len, copies: 3 };
            match self.ask(from, &probe, Duration::ZERO)? {
                Answer::Probed(Sent::Left) => {}
                Answer::Probed(sent) => return Ok(Ok((false, sent))),
                other => return Ok(Err(reason(other))),
            }
            let seen = Request::Seen { id, wait_ms: *wait_ms };
            match self.ask(from.other(), &seen, Duration::ZERO)? {
                Answer::Seen(0) => {}
                Answer::Seen(_) => return Ok(Ok((true, Sent::Left))),
                other => return Ok(Err(reason(other))),
            }
        }
        Ok(Ok((false, Sent::Left)))
    }

    fn pings(&mut self, result: &mut PairResult) -> Result<(), String> {
        if self.plan.pings == 0 {
            return Ok(());
        }
        let limit = Duration::from_secs(2);
        let ping = Request::Ping { rounds: self.plan.pings, limit_ms: limit.as_millis() as u64 };
        match self.ask(From::A, &ping, limit)? {
            Answer::Pinged { latency, clock } => {
                let silent = "no datagram was answered";
                result.plain = Some(latency).filter(|l| l.rounds > 0).ok_or(silent).into();
                result.clock = clock.ok_or(silent).into();
            }
            other => result.plain = Known::unknown(reason(other)),
        }
        Ok(())
    }

    /// Why nothing can be measured over the link.
    fn no_link(&self) -> Option<String> {
        let ends = [(&self.a, &self.opened[0]), (&self.b, &self.opened[1])];
        ends.into_iter().find_map(|(end, opened)| {
            Some(format!("{} has no link: {}", end.name, opened.link.reason()?))
        })
    }

    fn messages(&mut self, result: &mut PairResult) -> Result<(), String> {
        if self.plan.long_len == 0 {
            return Ok(());
        }
        for from in From::BOTH {
            if let Some(why) = self.no_link() {
                let way = from.way(result);
                (way.frame, way.long) = (Known::unknown(why.clone()), Known::unknown(why));
                continue;
            }
            let frame = self.message(from, 0)?;
            // What is stuck before it would be in its way, and tells enough.
            let long = match &frame {
                Known::Is(Delivery::Intact(_)) => self.message(from, self.plan.long_len)?,
                _ => Known::unknown("a shorter message did not arrive"),
            };
            let way = from.way(result);
            (way.frame, way.long) = (frame, long);
        }
        Ok(())
    }

    fn message(&mut self, from: From, len: u32) -> Result<Known<Delivery>, String> {
        let limit = Duration::from_secs(3);
        let seed = u64::from(self.next_id()) << 32 | u64::from(len | 1);
        let message = Request::LinkMessage { len, seed, limit_ms: limit.as_millis() as u64 };
        Ok(match self.ask(from, &message, limit)? {
            Answer::LinkMessage(delivery) => Known::Is(delivery),
            other => Known::unknown(reason(other)),
        })
    }

    /// Whether messages get through both ways, as far as that was tried.
    fn link_works(&self, result: &PairResult) -> Result<(), String> {
        if let Some(why) = self.no_link() {
            return Err(why);
        }
        let is_stuck = |way: &Way| {
            [&way.frame, &way.long].iter().any(|delivery| {
                delivery.get().is_some_and(|delivery| !matches!(delivery, Delivery::Intact(_)))
            })
        };
        match is_stuck(&result.a_to_b) || is_stuck(&result.b_to_a) {
            true => Err("messages do not get through the link".to_owned()),
            false => Ok(()),
        }
    }

    fn link_pings(&mut self, result: &mut PairResult) -> Result<(), String> {
        let (rounds, paused) = (self.plan.link_pings, self.plan.paused_pings);
        if let Err(why) = self.link_works(result) {
            for latency in [&mut result.link, &mut result.after_pause] {
                *latency = Known::unknown(why.clone());
            }
            return Ok(());
        }
        if rounds > 0 {
            result.link = self.link_ping(rounds, 0)?;
        }
        if paused > 0 {
            result.after_pause = self.link_ping(paused, self.plan.pause_us)?;
            result.after_pause_awake = match self.hold_awake()? {
                Some(why) => Known::unknown(why),
                None => self.link_ping(paused, self.plan.pause_us)?,
            };
            let let_go = [Request::HoldAwake(false), Request::HoldAwake(false)];
            both(&mut self.a, &mut self.b, &let_go, Duration::ZERO)?;
        }
        Ok(())
    }

    /// Has both hosts keep their processors awake; says why, if one may not.
    fn hold_awake(&mut self) -> Result<Option<String>, String> {
        let hold = [Request::HoldAwake(true), Request::HoldAwake(true)];
        let answers = both(&mut self.a, &mut self.b, &hold, Duration::ZERO)?;
        let names = [self.a.name, self.b.name];
        let refused = answers.into_iter().zip(names).find(|(answer, _)| *answer != Answer::Done);
        Ok(refused.map(|(answer, name)| unexpected(name, answer)))
    }

    fn link_ping(&mut self, rounds: u32, pause_us: u64) -> Result<Known<Latency>, String> {
        let limit = Duration::from_secs(2);
        let ping = Request::LinkPing { rounds, pause_us, limit_ms: limit.as_millis() as u64 };
        Ok(match self.ask(From::A, &ping, limit)? {
            Answer::LinkPinged(latency) => Known::Is(latency),
            other => Known::unknown(reason(other)),
        })
    }

    fn streams(&mut self, result: &mut PairResult) -> Result<(), String> {
        if self.plan.stream_ms == 0 {
            return Ok(());
        }
        for from in From::BOTH {
            let rate = match self.link_works(result) {
                Err(why) => Known::unknown(why),
                Ok(()) => {
                    let limit = 2 * Duration::from_millis(self.plan.stream_ms);
                    let stream = Request::LinkStream { for_ms: self.plan.stream_ms };
                    rate(self.ask(from, &stream, limit)?)
                }
            };
            from.way(result).stream_mb_s = rate;
        }
        self.both_streams(result)
    }

    fn both_streams(&mut self, result: &mut PairResult) -> Result<(), String> {
        if let Err(why) = self.link_works(result) {
            for from in From::BOTH {
                from.way(result).stream_both_mb_s = Known::unknown(why.clone());
            }
            return Ok(());
        }
        let stream = || Request::LinkStream { for_ms: self.plan.stream_ms };
        let limit = 2 * Duration::from_millis(self.plan.stream_ms);
        let requests = [stream(), stream()];
        let [of_a, of_b] = both(&mut self.a, &mut self.b, &requests, limit)?;
        result.a_to_b.stream_both_mb_s = rate(of_a);
        result.b_to_a.stream_both_mb_s = rate(of_b);
        Ok(())
    }

    fn losses(&mut self, result: &mut PairResult) -> Result<(), String> {
        /// Payload of each datagram, in bytes.
        const LEN: u32 = 200;
        let Plan { loss_count: count, loss_per_s: per_s, .. } = *self.plan;
        if count == 0 {
            return Ok(());
        }
        for from in From::BOTH {
            let id = self.next_id();
            let before = [self.counts(From::A)?, self.counts(From::B)?];
            let pour = Request::Pour { id, count, len: LEN, per_s };
            let length = Duration::from_secs(u64::from(count / per_s.max(1)));
            let (sent, took_ms) = match self.ask(from, &pour, 4 * length)? {
                Answer::Pouring(sent, took_ms) => (sent, took_ms),
                other => {
                    from.way(result).loss = Known::unknown(reason(other));
                    continue;
                }
            };
            // The last of them may still be under way, or wait for the receiver's thread.
            std::thread::sleep(Duration::from_millis(100));
            let (arrived, reordered) =
                match self.ask(from.other(), &Request::Poured(id), Duration::ZERO)? {
                    Answer::Poured(arrived, reordered) => (arrived, reordered),
                    other => {
                        from.way(result).loss = Known::unknown(reason(other));
                        continue;
                    }
                };
            let after = [self.counts(From::A)?, self.counts(From::B)?];
            let [of_a, of_b] = [0, 1].map(|at| since(&after[at], &before[at]));
            let (sender, receiver) = if from == From::A { (of_a, of_b) } else { (of_b, of_a) };
            from.way(result).loss =
                Known::Is(Loss { sent, arrived, reordered, took_ms, sender, receiver });
        }
        Ok(())
    }

    fn counts(&mut self, of: From) -> Result<Known<Counts>, String> {
        Ok(match self.ask(of, &Request::Counts, Duration::ZERO)? {
            Answer::Counts(counts) => Known::Is(counts),
            other => Known::unknown(reason(other)),
        })
    }
}

fn since(after: &Known<Counts>, before: &Known<Counts>) -> Known<Counts> {
    match (after, before) {
        (Known::Is(after), Known::Is(before)) => Known::Is(after.since(before)),
        (Known::Is(_), unknown) | (unknown, _) => unknown.clone(),
    }
}

/// Asks both sides at once.
fn both(
    a: &mut End<'_>,
    b: &mut End<'_>,
    requests: &[Request; 2],
    limit: Duration,
) -> Result<[Answer; 2], String> {
    let named = |name: &str, why: String| format!("{name}: {why}");
    a.side.post(&requests[0]).map_err(|why| named(a.name, why))?;
    let posted = b.side.post(&requests[1]);
    // An answer is taken in any case, or it would be taken for that to the next request.
    let of_a = a.side.take(limit + GRACE).map_err(|why| named(a.name, why));
    let of_b = posted.and_then(|()| b.side.take(limit + GRACE)).map_err(|why| named(b.name, why));
    Ok([of_a?, of_b?])
}

fn opened(answer: Answer, name: &str) -> Result<Opened, String> {
    match answer {
        Answer::Opened(opened) => Ok(opened),
        other => Err(unexpected(name, other)),
    }
}

fn unexpected(name: &str, answer: Answer) -> String {
    format!("{name}: {}", reason(answer))
}

fn rate(answer: Answer) -> Known<f64> {
    match answer {
        Answer::LinkStream(rate) if rate.is_finite() => Known::Is(rate),
        other => Known::unknown(reason(other)),
    }
}

fn reason(answer: Answer) -> String {
    match answer {
        Answer::Failed(why) => why,
        other => format!("its Wiglaf gave an answer to another request ({other:?})"),
    }
}

/// 64 hexadecimal digits that nobody knows.
fn secret() -> Result<String, String> {
    let mut bytes = [0; 32];
    let got = getrandom(&mut bytes, GetRandomFlags::empty());
    if got != Ok(bytes.len()) {
        return Err("the kernel gives no random bytes".to_owned());
    }
    let mut hex = String::with_capacity(64);
    for byte in bytes {
        let _ = write!(hex, "{byte:02x}");
    }
    Ok(hex)
}
