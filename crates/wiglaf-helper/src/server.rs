//! The helper itself.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use wiglaf_door::{Door, Limits};
use wiglaf_link_packet::{EarlyDrop, mark, open_packet_socket};
use wiglaf_link_udp::interface;
use wiglaf_netlink::Card;

use crate::lent::{Full, Lent, are_open};
use crate::listen::listen;
use crate::policy::{Caller, NO_XDP, Policy};
use crate::protocol::{
    ANSWER_LEN_MAX, REQUEST_LEN, Refusal, Request, SocketKind, emit_long_answer,
};
use crate::rate::Allowances;
use crate::tuner::{self, Kept, Order, Outcome};
use crate::tuning::{Note, Tuned, Wants};
use crate::{confine, sys};

/// Who says nothing for so long is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// Connections served at once, and of one user.
const CONNECTIONS_MAX: usize = 64;
const CONNECTIONS_OF_USER_MAX: usize = 8;
const STACK: usize = 256 << 10;
/// Descriptors of a connection that is served: itself, what came along, files and sockets.
const DESCRIPTORS_EACH: usize = 4;
/// Cards of a host that are tuned, and holders that are told of.
const CARDS_MAX: usize = 8;
const HOLDERS_TOLD_MAX: usize = 32;
/// Lines of the log in a minute.
const LINES_PER_MINUTE: u32 = 120;
/// Lines that wait to be written, and the stack of the thread that writes them.
const LINES_WAITING_MAX: usize = 256;
const LOG_STACK: usize = 64 << 10;

/// Where the helper finds and puts things.
#[derive(Debug, Clone)]
pub struct Places {
    /// Its socket, if standard input is none.
    pub socket: PathBuf,
    /// The policy.
    pub policy: PathBuf,
    /// The folder for what tuning has changed; none: nothing is tuned.
    pub tuning: Option<PathBuf>,
}

/// What all connections share.
#[derive(Debug)]
struct Helper {
    policy: PathBuf,
    /// The network that packet sockets are opened in.
    network: u64,
    requests: Mutex<Allowances>,
    lent: Lent,
    lines: Mutex<Allowances>,
    log: SyncSender<String>,
    door: Arc<Door>,
    /// What spares the IP stack the frames of rings.
    early_drop: EarlyDrops,
    /// The process that tunes, or why there is none.
    tuner: Result<tuner::Handle, String>,
    granted: AtomicU64,
    refused: [AtomicU64; Refusal::ALL.len()],
}

/// The interfaces that have the program, by their names, and why others have not.
#[derive(Debug, Default)]
struct EarlyDrops {
    at_work: Vec<(String, EarlyDrop)>,
    absent: Vec<String>,
}

impl EarlyDrops {
    /// Attaches it wherever packet sockets may be opened.
    fn attach() -> Self {
        let mut drops = Self::default();
        let mut seen = BTreeSet::new();
        let interfaces = interface::list().unwrap_or_default().into_iter();
        for at in interfaces.filter(|at| at.mac.is_some() && seen.insert(at.index)) {
            match EarlyDrop::attach(&at) {
                Ok(drop) => drops.at_work.push((at.name, drop)),
                Err(why) => drops.absent.push(format!("no early drop on {}: {why}", at.name)),
            }
        }
        drops
    }

    fn describe(&self) -> String {
        let names: Vec<&str> = self.at_work.iter().map(|(name, _)| name.as_str()).collect();
        match names.is_empty() {
            true => "no early drop".to_owned(),
            false => format!("early drop on {}", names.join(", ")),
        }
    }
}

/// Serves for ever, with CAP_NET_RAW and no other privilege.
///
/// # Errors
/// A sentence, when it cannot listen, or cannot give its privileges up.
pub fn serve(places: &Places) -> Result<(), String> {
    let (listener, at) = listen(&places.socket)?;
    let limits = limits(sys::raise_descriptors());
    let tuner = match &places.tuning {
        Some(folder) => tuner::start(folder, &listener),
        None => Err("this helper tunes nothing".to_owned()),
    };
    // Whoever connects now is served, and connecting to systemd is not possible later. Without
    // this word systemd ends the service, so nothing is gained by ending it here.
    let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
    let early_drop = EarlyDrops::attach();
    confine::give_up_privileges()?;
    let probe = std::net::UdpSocket::bind("0.0.0.0:0");
    let network = probe.and_then(|probe| sys::network_of(&probe));
    let network = network.map_err(|error| format!("the kernel names no networks: {error}"))?;
    let log = start_log()?;
    let tuner = tuner.and_then(|started| listen_to_tuner(started, log.clone()));
    let helper = Arc::new(Helper {
        policy: places.policy.clone(),
        network,
        requests: Mutex::default(),
        lent: Lent::default(),
        lines: Mutex::default(),
        log,
        door: Door::new(limits),
        early_drop,
        tuner,
        granted: AtomicU64::new(0),
        refused: Default::default(),
    });
    let drops = &helper.early_drop;
    drops.absent.iter().for_each(|line| helper.say(line.clone()));
    helper.say(format!("listening at {}, {}", at.display(), drops.describe()));
    loop {
        match listener.accept() {
            Ok((stream, _)) => helper.accept(stream),
            Err(_) => std::thread::sleep(Duration::from_millis(50)), // no descriptors left
        }
    }
}

/// When that process ends, the helper does, so that the next one sets back what is left: it says so itself, as
/// there is no time for the log.
fn listen_to_tuner(
    started: tuner::Started,
    log: SyncSender<String>,
) -> Result<tuner::Handle, String> {
    let say = move |note: Note| {
        let of = note.card.map(|card| format!("{card} ")).unwrap_or_default();
        let _ = log.try_send(format!("{of}{}", note.text));
    };
    started.listen(say, || {
        let _ =
            writeln!(io::stderr(), "wiglaf-helper: the process that tunes has ended, so this ends");
        std::process::exit(1);
    })
}

/// So many connections as these descriptors are enough for.
fn limits(descriptors: usize) -> Limits {
    let closing = descriptors.saturating_sub(CONNECTIONS_MAX * DESCRIPTORS_EACH) / 2;
    Limits {
        all: CONNECTIONS_MAX,
        of_user: CONNECTIONS_OF_USER_MAX,
        closing_of_user: closing / 2,
        closing,
        stack: STACK,
    }
}

/// Starts the thread that writes the log. A log that takes nothing, such as a full disk, is no reason
/// to end, and one that is not read, such as a full pipe, none to wait.
fn start_log() -> Result<SyncSender<String>, String> {
    let (log, lines) = sync_channel::<String>(LINES_WAITING_MAX);
    let write = move || {
        for line in lines {
            let _ = writeln!(io::stderr(), "wiglaf-helper: {line}");
        }
    };
    let started = Builder::new().stack_size(LOG_STACK).spawn(write);
    started.map(|_| log).map_err(|error| format!("cannot start a thread: {error}"))
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Helper {
    /// Serves a connection in a thread of its own, if there are not too many. It is not closed here.
    fn accept(self: &Arc<Self>, stream: UnixStream) {
        let Ok(caller) = sys::caller(&stream) else {
            return self.door.close(u32::MAX, stream);
        };
        let uid = caller.uid;
        let (helper, served) = (Arc::clone(self), caller.clone());
        let serve = move |stream: UnixStream| helper.serve(&stream, &served);
        if let Err(stream) = self.door.admit(uid, stream, serve) {
            self.refuse(&stream, &caller, Refusal::TooOften, "too many connections at once");
            self.door.close(uid, stream);
        }
    }

    fn serve(&self, stream: &UnixStream, caller: &Caller) {
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        let policy = Policy::read(&self.policy);
        let per_minute = policy.as_ref().map_or(60, |policy| policy.requests_per_minute);
        let now = Instant::now();
        if !locked(&self.requests).take(caller.uid, per_minute, now) {
            let why = format!("more than {per_minute} requests in a minute; wait a little");
            return self.refuse(stream, caller, Refusal::TooOften, &why);
        }
        let Some((request, descriptor)) = receive(stream) else {
            return self.refuse(stream, caller, Refusal::Malformed, "this is no request");
        };
        let kind = match request {
            Request::Status => return self.tell_status(stream, caller, &policy),
            Request::Open(kind) => kind,
            Request::Hold(_) | Request::Keep(_) | Request::Undo | Request::Tuned => {
                return self.tune(stream, caller, &policy, request);
            }
        };
        let opened = policy
            .map_err(|why| (Refusal::NotAdmitted, why))
            .and_then(|policy| self.open(&policy, caller, kind, descriptor));
        match opened {
            Ok((socket, at)) => {
                self.granted.fetch_add(1, Ordering::Relaxed);
                self.log(caller, &format!("user {} has a packet socket for {at}", caller.uid));
                answer(stream, Ok(()), "", Some(&socket));
            }
            Err((refusal, why)) => self.refuse(stream, caller, refusal, &why),
        }
    }

    /// Opens what is asked for, if the caller may have it.
    fn open(
        &self,
        policy: &Policy,
        caller: &Caller,
        kind: SocketKind,
        descriptor: Option<OwnedFd>,
    ) -> Result<(OwnedFd, std::net::SocketAddrV4), (Refusal, String)> {
        if kind == SocketKind::Xdp {
            return Err((Refusal::NotAdmitted, NO_XDP.to_owned()));
        }
        if !policy.admits(caller, kind) {
            let why = format!(
                "its policy does not admit user {} to the {} link; ask the administrator, see {}",
                caller.uid,
                kind.name(),
                self.policy.display()
            );
            return Err((Refusal::NotAdmitted, why));
        }
        let not_theirs = |why: &str| (Refusal::NotTheirs, why.to_owned());
        let socket = descriptor.ok_or_else(|| not_theirs("no socket came with the request"))?;
        let not_alone = || not_theirs("this is no UDP socket that has its port alone");
        let at = sys::sole_udp_address(&socket).ok_or_else(not_alone)?;
        // In a network of one's own one may bind any address.
        if sys::network_of(&socket).ok() != Some(self.network) {
            return Err(not_theirs("the socket belongs to another network namespace"));
        }
        if !sys::has_port_alone(&socket, at) {
            return Err(not_alone());
        }
        let interface = interface::holding(*at.ip()).ok().flatten();
        let interface = interface
            .filter(|interface| interface.mac.is_some() && interface.ip == *at.ip())
            .ok_or_else(|| not_theirs("the address is on no Ethernet interface"))?;
        let limit = policy.sockets_per_user;
        let reserved = self
            .lent
            .reserve(self.door.person(caller.uid), at, limit, are_open)
            .map_err(|full| match full {
                Full::OfUser => {
                    let why = format!(
                        "user {} has {limit} packet sockets open, and its policy allows no more; end \
                         a job, or ask the administrator for a higher sockets_per_user in {}",
                        caller.uid,
                        self.policy.display()
                    );
                    (Refusal::TooMany, why)
                }
                Full::OfPort => {
                    let why = format!("another user still has a packet socket for {at}; take another port");
                    (Refusal::Overheard, why)
                }
            })?;
        let (packet, inode) = open_packet_socket(&interface, at)
            .and_then(|packet| sys::lock_filter(&packet).map(|()| packet))
            .and_then(|packet| sys::inode_of(&packet).map(|inode| (packet, inode)))
            .map_err(|error| {
                (Refusal::Failed, format!("the kernel opens no packet socket: {error}"))
            })?;
        reserved.opened(inode);
        // Only now has a ring what the stack is spared.
        if policy.early_drop {
            let _ = mark(socket.as_fd(), &interface);
        }
        // `socket` is held until now: the port was the caller's all the time.
        Ok((packet, at))
    }

    /// Has cards and processors tuned, if the caller may.
    fn tune(
        &self,
        stream: &UnixStream,
        caller: &Caller,
        policy: &Result<Policy, String>,
        request: Request,
    ) {
        match self.try_tune(caller, policy, request) {
            Ok((mut tuned, descriptor)) => {
                if !matches!(request, Request::Tuned) {
                    self.granted.fetch_add(1, Ordering::Relaxed);
                    self.log(caller, &format!("user {} {}", caller.uid, deed(request)));
                }
                tuned.holders.truncate(HOLDERS_TOLD_MAX);
                let json = serde_json::to_string(&tuned).unwrap_or_default();
                answer_long(stream, Ok(()), &json, descriptor.as_ref(), request.answer_len_max());
            }
            Err((refusal, why)) => self.refuse(stream, caller, refusal, &why),
        }
    }

    fn try_tune(
        &self,
        caller: &Caller,
        policy: &Result<Policy, String>,
        request: Request,
    ) -> Result<(Tuned, Option<OwnedFd>), (Refusal, String)> {
        let kept = |wants| self.kept(caller, policy, wants);
        let order = match request {
            Request::Hold(wants) => Order::Hold(kept(wants)?),
            Request::Keep(wants) => Order::Keep(kept(wants)?),
            // Who was admitted once may take it back.
            Request::Undo => Order::Undo(caller.uid),
            Request::Tuned | Request::Status | Request::Open(_) => Order::Tell,
        };
        let failed = |why: String| (Refusal::Failed, why);
        let tuner = self.tuner.as_ref().map_err(|why| failed(why.clone()))?;
        let full = |what: &str| {
            let why = format!("{what}; end a job, or wait until others have");
            Err((Refusal::TooMany, why))
        };
        match tuner.ask(&order).map_err(failed)? {
            (Outcome::Tuned(tuned), descriptor) => Ok((tuned, descriptor)),
            (Outcome::FullOfUser, _) => full("this user holds as many tunings as one may"),
            (Outcome::FullOfAll, _) => full("all the tunings that this host has are held"),
            (Outcome::Failed(why), _) => Err(failed(why)),
        }
    }

    /// Which cards are meant: those of the policy's networks, whatever the caller says.
    fn kept(
        &self,
        caller: &Caller,
        policy: &Result<Policy, String>,
        wants: Wants,
    ) -> Result<Kept, (Refusal, String)> {
        let at = self.policy.display();
        let policy = policy.as_ref().map_err(|why| (Refusal::NotAdmitted, why.clone()))?;
        if !policy.admits_to_tune(caller) {
            let why = format!("the policy {at} does not admit user {} to tune", caller.uid);
            return Err((Refusal::NotAdmitted, why));
        }
        let mut cards = BTreeMap::new();
        for found in interface::list().unwrap_or_default() {
            if found.mac.is_some() && policy.tunes(caller, found.ip) && cards.len() < CARDS_MAX {
                cards.insert(found.index, Card { index: found.index, name: found.name });
            }
        }
        if cards.is_empty() && (wants.rx_usecs.is_some() || wants.eee_off || wants.rings_max) {
            let why = format!(
                "no Ethernet card of this host has an address in a network that {at} lets user {} tune",
                caller.uid
            );
            return Err((Refusal::NotTheirs, why));
        }
        Ok(Kept { uid: caller.uid, wants, cards: cards.into_values().collect() })
    }

    fn refuse(&self, stream: &UnixStream, caller: &Caller, refusal: Refusal, why: &str) {
        self.refused[usize::from(refusal.code()) - 1].fetch_add(1, Ordering::Relaxed);
        self.log(caller, &format!("user {} refused ({}): {why}", caller.uid, refusal.name()));
        answer(stream, Err(refusal), why, None);
    }

    fn tell_status(&self, stream: &UnixStream, caller: &Caller, policy: &Result<Policy, String>) {
        let admitted = match policy {
            Ok(policy) if policy.admits(caller, SocketKind::Packet) => {
                "admitted to packet".to_owned()
            }
            Ok(_) => "not admitted".to_owned(),
            Err(why) => format!("not admitted: {why}"),
        };
        let mut text = format!("user {} is {admitted}; {}", caller.uid, self.early_drop.describe());
        if policy.as_ref().is_ok_and(|policy| policy.admits_to_tune(caller)) && self.tuner.is_ok() {
            text += "; may tune";
        }
        // Of others root alone learns.
        if caller.uid == 0 {
            text += &format!("; granted {}", self.granted.load(Ordering::Relaxed));
            for refusal in Refusal::ALL {
                let count = self.refused[usize::from(refusal.code()) - 1].load(Ordering::Relaxed);
                text += &format!(", {} {count}", refusal.name());
            }
        }
        answer(stream, Ok(()), &text, None);
    }

    /// One line, unless there were too many; no user can use up another's.
    fn log(&self, caller: &Caller, line: &str) {
        if locked(&self.lines).take(caller.uid, LINES_PER_MINUTE, Instant::now()) {
            self.say(line.to_owned());
        }
    }

    /// What the log has no room for is lost.
    fn say(&self, line: String) {
        let _ = self.log.try_send(line);
    }
}

/// What a request does, for the log.
fn deed(request: Request) -> &'static str {
    match request {
        Request::Hold(_) => "holds a tuning",
        Request::Keep(_) => "keeps a tuning",
        _ => "undoes a tuning",
    }
}

/// One request and the first descriptor that came with it.
fn receive(stream: &UnixStream) -> Option<(Request, Option<OwnedFd>)> {
    let mut bytes = [0; REQUEST_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut iov = [IoSliceMut::new(&mut bytes)];
    let got = recvmsg(stream, &mut iov, &mut control, RecvFlags::CMSG_CLOEXEC).ok()?.bytes;
    let mut descriptor = None;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(mut rights) = message {
            descriptor = rights.next();
        }
    }
    Some((Request::parse(&bytes[..got])?, descriptor))
}

/// A caller that has gone is its own loss.
fn answer(
    stream: &UnixStream,
    outcome: Result<(), Refusal>,
    sentence: &str,
    socket: Option<&OwnedFd>,
) {
    answer_long(stream, outcome, sentence, socket, ANSWER_LEN_MAX);
}

fn answer_long(
    stream: &UnixStream,
    outcome: Result<(), Refusal>,
    sentence: &str,
    socket: Option<&OwnedFd>,
    len_max: usize,
) {
    let bytes = emit_long_answer(outcome, sentence, len_max);
    let rights: Vec<_> = socket.into_iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !rights.is_empty() {
        control.push(SendAncillaryMessage::ScmRights(&rights));
    }
    let _ = sendmsg(stream, &[IoSlice::new(&bytes)], &mut control, SendFlags::NOSIGNAL);
}
