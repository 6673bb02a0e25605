//! One side: reads requests, obeys, answers.

use std::fs::File;
use std::io::{self, BufRead, Write};
use std::net::Ipv4Addr;
use std::time::Duration;

use wiglaf_endpoint::JobKey;
use wiglaf_helper::{TuningLease, Wants};

use super::lines::next_line;
use super::link::LinkThread;
use super::plain::{Plain, Token};
use super::{Answer, Open, Opened, Request, SCHEMA};
use crate::facts::device_counts;
use crate::known::Known;

/// No step takes longer, whatever is asked.
const STEP_LIMIT: Duration = Duration::from_secs(30);
/// Most ports that are listened at or knocked at: each is a socket.
const PORTS_MAX: usize = 256;
const COPIES_MAX: u32 = 16;
const ROUNDS_MAX: u32 = 1 << 20;
/// Most datagrams of a flood, and most in a second.
const POUR_MAX: u32 = 1 << 20;

/// Obeys the requests that come as lines of JSON until there are no more.
///
/// # Errors
/// When answers cannot be written any more: the caller has gone.
pub fn serve(mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
    let mut session = None;
    while let Some(line) = next_line(&mut input) {
        let answer = match serde_json::from_str::<Request>(&line) {
            Ok(Request::Open(open)) => {
                // The ports of the last session are to be had again.
                session = None;
                match Session::open(&open) {
                    Ok((new, opened)) => {
                        session = Some(new);
                        Answer::Opened(opened)
                    }
                    Err(why) => Answer::Failed(why),
                }
            }
            Ok(Request::Close) => {
                session = None;
                Answer::Done
            }
            Ok(request) => match &mut session {
                Some(session) => session.obey(request),
                None => Answer::Failed("no session is open".to_owned()),
            },
            Err(why) => Answer::Failed(format!("this Wiglaf does not know the request: {why}")),
        };
        serde_json::to_writer(&mut output, &answer)?;
        output.write_all(b"\n")?;
        output.flush()?;
    }
    Ok(())
}

/// A session with one peer.
struct Session {
    own: Ipv4Addr,
    peer: Ipv4Addr,
    plain: Plain,
    link: Option<LinkThread>,
    /// The peer's plain socket.
    to: Option<u16>,
    /// The kernel, or the helper, believes it until it is closed.
    awake: Option<Awake>,
}

impl Session {
    fn open(open: &Open) -> Result<(Self, Opened), String> {
        if open.schema != SCHEMA {
            return Err(format!("the caller speaks {:?}, this Wiglaf {SCHEMA:?}", open.schema));
        }
        let peer = open.peer;
        if peer.is_broadcast() || peer.is_multicast() || peer.is_unspecified() {
            return Err(format!("{peer} is no host's address"));
        }
        if usize::from(open.samples) > PORTS_MAX {
            return Err(format!("{} ports are too many to listen at", open.samples));
        }
        let (token, key) =
            secrets(&open.secret).ok_or("the secret is not 64 hexadecimal digits")?;
        let plain = Plain::open(open, token)
            .map_err(|why| format!("no UDP socket at {}: {why}", open.own))?;
        let link = match &open.link {
            Some(name) => LinkThread::open(open, name, key),
            None => Err("it was not asked for".to_owned()),
        };
        let interface = wiglaf_link_udp::interface::holding(open.own).ok().flatten();
        let opened = Opened {
            plain: plain.at(),
            listening: plain.listening.clone(),
            busy: plain.busy.clone(),
            mtu: interface.map_or(1500, |interface| interface.mtu as u32),
            link: match &link {
                Ok(link) => Known::Is(link.opened.clone()),
                Err(why) => Known::unknown(why.clone()),
            },
        };
        Ok((Self { own: open.own, peer, plain, link: link.ok(), to: None, awake: None }, opened))
    }

    fn obey(&mut self, request: Request) -> Answer {
        let answer = self.try_to(request);
        answer.unwrap_or_else(|why| Answer::Failed(why.to_string()))
    }

    fn try_to(&mut self, request: Request) -> io::Result<Answer> {
        let limit = |ms: u64| Duration::from_millis(ms).min(STEP_LIMIT);
        let to = self.to.ok_or_else(|| io::Error::other("the peer has not been met"));
        Ok(match request {
            Request::Meet(peer) => self.meet(&peer),
            Request::Knock(ports) => self.plain.knock(&ports[..ports.len().min(PORTS_MAX)]),
            Request::Heard(after_ms) => Answer::Heard(self.plain.heard(limit(after_ms))),
            Request::Probe { id, len, copies } => {
                let len = len.min(u32::from(u16::MAX));
                Answer::Probed(self.plain.probe(to?, id, len, copies.min(COPIES_MAX))?)
            }
            Request::Seen { id, wait_ms } => Answer::Seen(self.plain.seen(id, limit(wait_ms))),
            Request::Shout { id, copies } => {
                to?;
                Answer::Probed(self.plain.shout(id, copies.min(COPIES_MAX))?)
            }
            Request::Ping { rounds, limit_ms } => {
                self.plain.ping(to?, rounds.min(ROUNDS_MAX), limit(limit_ms))?
            }
            Request::Pour { id, count, len, per_s } => {
                let (count, per_s) = (count.min(POUR_MAX), per_s.clamp(1, POUR_MAX));
                let len = len.min(1400);
                self.plain.pour(to?, (id, count, len, per_s), STEP_LIMIT)?
            }
            Request::Poured(id) => self.plain.poured(id),
            Request::Counts => Answer::Counts(device_counts(self.own)?),
            Request::LinkPing { rounds, pause_us, limit_ms } => {
                let pause_us = pause_us.min(1_000_000);
                let rounds = rounds.min(ROUNDS_MAX);
                let limit_ms = limit(limit_ms).as_millis() as u64;
                self.link(Request::LinkPing { rounds, pause_us, limit_ms }, limit(limit_ms))
            }
            Request::LinkMessage { limit_ms, len, seed } => {
                let limit_ms = limit(limit_ms).as_millis() as u64;
                self.link(Request::LinkMessage { len, seed, limit_ms }, limit(limit_ms))
            }
            Request::LinkStream { for_ms } => {
                let for_ms = limit(for_ms).as_millis() as u64;
                self.link(Request::LinkStream { for_ms }, 2 * limit(for_ms))
            }
            Request::HoldAwake(hold) => {
                self.awake = None;
                if hold {
                    self.awake = Some(hold_awake()?);
                }
                Answer::Done
            }
            Request::Open(_) | Request::Close => unreachable_request(),
        })
    }

    fn meet(&mut self, peer: &Opened) -> Answer {
        // Whatever the caller says: nothing goes to anybody else.
        let is_peer = |ip: Ipv4Addr| ip == self.peer;
        let link = peer.link.get();
        if !is_peer(*peer.plain.ip()) || link.is_some_and(|link| !is_peer(*link.at.ip())) {
            return Answer::Failed(format!("that is not {}", self.peer));
        }
        self.to = Some(peer.plain.port());
        match (&self.link, link) {
            (Some(own), Some(peer)) => match own.meet(peer) {
                Ok(()) => Answer::Done,
                Err(why) => Answer::Failed(why),
            },
            _ => Answer::Done,
        }
    }

    fn link(&self, request: Request, limit: Duration) -> Answer {
        match &self.link {
            Some(link) => link.ask(request, limit),
            None => Answer::Failed("this side has no link".to_owned()),
        }
    }
}

/// Processors are kept awake while it lives.
enum Awake {
    Own { _file: File },
    Helpers { _lease: TuningLease },
}

/// Asks for no latency of waking at all, as docs/admin-guide/pm/cpuidle.rst of the kernel has it: itself where
/// the user may, else the helper.
fn hold_awake() -> io::Result<Awake> {
    const PATH: &str = "/dev/cpu_dma_latency";
    let named = |why: io::Error| io::Error::new(why.kind(), format!("{PATH}: {why}"));
    let own = || -> io::Result<File> {
        let mut file = File::options().write(true).open(PATH)?;
        file.write_all(&0_i32.to_ne_bytes())?;
        Ok(file)
    };
    match own() {
        Ok(file) => Ok(Awake::Own { _file: file }),
        Err(why) => match wiglaf_helper::hold_tuning(Wants::AWAKE) {
            Ok((tuned, lease)) if tuned.notes.is_empty() => Ok(Awake::Helpers { _lease: lease }),
            // The kernel's reason is the one that is always true.
            _ => Err(named(why)),
        },
    }
}

/// Requests about sessions never reach one.
fn unreachable_request() -> Answer {
    Answer::Failed("that is no request within a session".to_owned())
}

/// The token of plain datagrams and the link's key.
fn secrets(hex: &str) -> Option<(Token, JobKey)> {
    let (token, key) = hex.split_at_checked(32)?;
    Some((JobKey::from_hex(token)?.0, JobKey::from_hex(key)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answers(requests: &str) -> Vec<Answer> {
        let mut output = Vec::new();
        serve(requests.as_bytes(), &mut output).unwrap();
        let text = String::from_utf8(output).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn every_mistake_of_a_caller_is_answered_with_a_reason() {
        let open = |peer: &str, schema: &str, secret: &str| {
            format!(
                r#"{{"open":{{"schema":"{schema}","own":"127.0.0.1","peer":"{peer}","ports":[1,2],"samples":0,"secret":"{secret}","link":null}}}}"#
            )
        };
        let secret = "ab".repeat(32);
        for (request, reason) in [
            ("rubbish".to_owned(), "does not know the request"),
            (r#"{"knock":[1]}"#.to_owned(), "no session is open"),
            (open("127.0.0.1", "wiglaf-probe/9", &secret), "speaks"),
            (open("255.255.255.255", SCHEMA, &secret), "no host's address"),
            (open("224.0.0.1", SCHEMA, &secret), "no host's address"),
            (open("127.0.0.1", SCHEMA, "ab"), "64 hexadecimal digits"),
        ] {
            let [Answer::Failed(why)] = &answers(&request)[..] else { panic!("{request}") };
            assert!(why.contains(reason), "{request}: {why}");
        }
    }

    #[test]
    fn nothing_is_sent_to_anybody_but_the_peer() {
        let secret = "ab".repeat(32);
        let requests = format!(
            "{{\"open\":{{\"schema\":\"{SCHEMA}\",\"own\":\"127.0.0.1\",\"peer\":\"127.0.0.2\",\"ports\":[40000,50000],\"samples\":2,\"secret\":\"{secret}\",\"link\":null}}}}\n\
             {{\"ping\":{{\"rounds\":1,\"limit_ms\":1}}}}\n\
             {{\"meet\":{{\"plain\":\"127.0.0.3:9\",\"listening\":[],\"busy\":[],\"mtu\":1500,\"link\":{{\"unknown\":\"x\"}}}}}}\n\
             \"close\"\n"
        );
        let [Answer::Opened(opened), Answer::Failed(early), Answer::Failed(other), Answer::Done] =
            &answers(&requests)[..]
        else {
            panic!("other answers")
        };
        assert!(opened.listening.len() + opened.busy.len() == 2, "{opened:?}");
        assert!(early.contains("not been met") && other.contains("not 127.0.0.2"), "{other}");
    }
}
