//! The client's side: one endpoint for all servers of a process, and the calls
//! that are under way.
//!
//! There is no thread: whoever waits for a call runs the endpoint, and lets
//! go of it to yield or sleep, so that several threads may wait at once.
//!
//! A server's death is noticed in three ways, whichever comes first: the pipe
//! of its standard output ends, the network says that nobody listens any more,
//! or it owed an answer for longer than the silence limit.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use wiglaf_endpoint::{Address, Endpoint, Pause, PeerId, PostError, Region};

use crate::error::{Error, Reason, Result};
use crate::launch::Launched;
use crate::port::{Ended, Label, Lent, Port};
use crate::wire::{ANSWER_LEN_MAX, Request, unpack};

/// How often the servers' pipes are looked at while somebody waits.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Answer buffers that are kept for the next call.
const SPARE_MAX: usize = 16;

/// A call that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CallId(usize);

/// An attached server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct ServerId(u64);

/// What came back.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The count of a call that went well.
    pub(crate) count: u64,
    /// Bytes that went to the caller's regions, if it gave any.
    pub(crate) len: usize,
    /// The rest of the answer, if it gave none.
    pub(crate) bytes: Vec<u8>,
}

#[derive(Debug)]
struct Call {
    peer: PeerId,
    /// The request's number on the wire.
    id: u64,
    /// Posts that have not ended yet.
    left: u8,
    /// Status and length of the answer.
    answer: Option<(u64, usize)>,
    /// Where the answer goes, unless to the caller's regions.
    into: Option<Lent>,
    /// The head of a request that is sent from where it is.
    head: Option<Lent>,
    /// Nobody waits for it.
    is_forgotten: bool,
}

#[derive(Debug)]
struct Attached {
    peer: PeerId,
    launched: Launched,
    gone: bool,
}

#[derive(Debug)]
struct Inner {
    port: Port,
    /// By context - 1: context 0 is what nobody waits for.
    calls: Vec<Option<Call>>,
    servers: HashMap<ServerId, Attached>,
    next_server: u64,
    next_request: u64,
    looked: Instant,
    spare: Vec<Vec<u8>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Client(Mutex<Inner>);

/// Ends the process if a thread unwinds while an endpoint holds the address of
/// memory that unwinding frees.
pub(crate) struct NoUnwinding;

impl Drop for NoUnwinding {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

impl Client {
    pub(crate) fn new(port: Port) -> Self {
        Self(Mutex::new(Inner {
            port,
            calls: Vec::new(),
            servers: HashMap::new(),
            next_server: 0,
            next_request: 0,
            looked: Instant::now(),
            spare: Vec::new(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where this client's endpoint is.
    pub(crate) fn name(&self) -> Address {
        self.lock().port.endpoint.name()
    }

    pub(crate) fn attach(&self, at: Address, launched: Launched) -> ServerId {
        let mut inner = self.lock();
        let peer = inner.port.endpoint.insert(at);
        let id = ServerId(inner.next_server);
        inner.next_server += 1;
        inner.servers.insert(id, Attached { peer, launched, gone: false });
        id
    }

    /// Ends the server. All its calls must have ended.
    pub(crate) fn detach(&self, server: ServerId) {
        let attached = self.lock().servers.remove(&server);
        if let Some(attached) = attached {
            // Waits for it to end, which is no reason to hold up the others.
            drop(attached.launched);
            self.lock().port.endpoint.give_up(attached.peer);
        }
    }

    pub(crate) fn is_gone(&self, server: ServerId) -> bool {
        let mut inner = self.lock();
        inner.look_at_servers();
        inner.servers.get(&server).is_none_or(|attached| attached.gone)
    }

    /// Carries a request out that moves no file content.
    pub(crate) fn call(&self, server: ServerId, request: &Request<'_>) -> Result<Answer> {
        // SAFETY: no memory of ours is lent.
        let call = unsafe { self.start(server, request, &[], &[]) }?;
        self.wait(call)
    }

    /// Sends a request whose outcome nobody wants to know.
    pub(crate) fn tell(&self, server: ServerId, request: &Request<'_>) {
        let mut inner = self.lock();
        // SAFETY: no memory of ours is lent.
        if let Ok(call) = unsafe { inner.start(server, request, &[], &[]) } {
            inner.forget(call);
        }
    }

    /// Reads into `into`.
    pub(crate) fn call_into(
        &self,
        server: ServerId,
        request: &Request<'_>,
        into: &mut [u8],
    ) -> Result<Answer> {
        let guard = NoUnwinding;
        let region = Region { ptr: into.as_mut_ptr(), len: into.len() };
        // SAFETY: `into` is borrowed until the call has ended, which is awaited
        // here, and unwinding ends the process.
        let outcome =
            unsafe { self.start(server, request, &[], &[region]) }.and_then(|call| self.wait(call));
        drop(guard);
        outcome
    }

    /// Writes `content`.
    pub(crate) fn call_with(
        &self,
        server: ServerId,
        request: &Request<'_>,
        content: &[u8],
    ) -> Result<Answer> {
        let guard = NoUnwinding;
        let region = Region { ptr: content.as_ptr().cast_mut(), len: content.len() };
        // SAFETY: as in `call_into`; sends only read.
        let outcome =
            unsafe { self.start(server, request, &[region], &[]) }.and_then(|call| self.wait(call));
        drop(guard);
        outcome
    }

    /// Starts a call. `content` goes behind the head of a WRITE, or follows a
    /// WRITE BULK; the answer's bytes go to `into` if that holds any.
    ///
    /// # Safety
    /// `content` must stay valid and unchanged, and `into` valid and untouched,
    /// until [`Client::wait`] has returned for this call.
    pub(crate) unsafe fn start(
        &self,
        server: ServerId,
        request: &Request<'_>,
        content: &[Region],
        into: &[Region],
    ) -> Result<CallId> {
        // SAFETY: handed on from our caller.
        unsafe { self.lock().start(server, request, content, into) }
    }

    /// The number of a call's request; 0 when the call has ended.
    pub(crate) fn request_id(&self, call: CallId) -> u64 {
        self.lock().calls.get(call.0).and_then(Option::as_ref).map_or(0, |call| call.id)
    }

    /// Nobody wants to know how the call ends.
    pub(crate) fn forget(&self, call: CallId) {
        self.lock().forget(call);
    }

    /// Whether the call has ended.
    pub(crate) fn has_ended(&self, call: CallId) -> bool {
        let mut inner = self.lock();
        inner.progress();
        inner.look_now_and_then();
        inner.has_ended(call)
    }

    /// Waits for the end of a call, which the caller wants soon.
    pub(crate) fn wait(&self, call: CallId) -> Result<Answer> {
        self.wait_by(call, Endpoint::begin_wait)
    }

    /// Waits for the end of a call, asleep, for a caller that has had other work meanwhile. Ranks and file servers
    /// share the cores of a node, and polling for content that comes by and by takes from them the time that it gains.
    pub(crate) fn wait_asleep(&self, call: CallId) -> Result<Answer> {
        self.wait_by(call, |endpoint| Some(endpoint.begin_sleep(LOOK_EVERY)))
    }

    fn wait_by(
        &self,
        call: CallId,
        begin: impl Fn(&mut Endpoint) -> Option<Pause>,
    ) -> Result<Answer> {
        let mut inner = self.lock();
        loop {
            let busy = inner.progress();
            if inner.has_ended(call) {
                return inner.finish(call);
            }
            if busy {
                // Also while something comes all the time, be it from strangers.
                inner.look_now_and_then();
                continue;
            }
            if let Some(pause) = begin(&mut inner.port.endpoint) {
                drop(inner);
                pause.pass();
                inner = self.lock();
                inner.port.endpoint.end_idle(&pause);
                inner.look_now_and_then();
            }
        }
    }
}

impl Inner {
    /// See [`Client::start`].
    unsafe fn start(
        &mut self,
        server: ServerId,
        request: &Request<'_>,
        content: &[Region],
        into: &[Region],
    ) -> Result<CallId> {
        let attached = self.servers.get(&server).filter(|attached| !attached.gone);
        let peer = attached.ok_or_else(Error::gone)?.peer;
        let id = self.next_request;
        self.next_request += 1;
        let slot = self.free_slot();
        let context = slot + 1;
        let answer_buffer = into.is_empty().then(|| self.buffer());
        let mut call = Call {
            peer,
            id,
            left: 1,
            answer: None,
            into: answer_buffer.map(Lent::new),
            head: None,
            is_forgotten: false,
        };
        let own = call.into.as_mut().map(|lent| lent.region(ANSWER_LEN_MAX));
        let into = own.as_ref().map_or(into, std::slice::from_ref);
        // SAFETY: our caller keeps `into` until the call has ended; a buffer of
        // ours stays in `calls` until then.
        if unsafe { self.port.receive(peer, id, into, context) }.is_err() {
            return Err(Error::gone());
        }
        let label = Label { to: peer, is_request: true, tag: request.tag(), data: id };
        // Its node may lose power when it has acknowledged the request.
        self.port.endpoint.owe(peer, true);
        // Kept from here on: whatever ends while it is sent is noted.
        self.calls[slot] = Some(call);
        // SAFETY: as for `into`.
        let sent = unsafe { self.send(label, request, content, slot) };
        if sent.is_err() {
            // The receive ends now, and with it the call.
            self.port.endpoint.cancel(context);
        }
        Ok(CallId(slot))
    }

    /// Sends a request with what belongs to it.
    ///
    /// # Safety
    /// As for [`Client::start`].
    unsafe fn send(
        &mut self,
        label: Label,
        request: &Request<'_>,
        content: &[Region],
        slot: usize,
    ) -> std::result::Result<(), PostError> {
        let mut head = request.head();
        let context = slot + 1;
        let (inline, follows): (&[u8], _) = match request {
            Request::Write { bytes, .. } => (bytes, &[][..]),
            _ => (&[], content),
        };
        if head.len() + inline.len() <= self.port.inject_len_max() {
            head.extend_from_slice(inline);
            self.again(|port| port.inject(label, &head))?;
        } else {
            // Content, or a path that is longer than a frame.
            let len = head.len();
            let mut lent = Lent::new(head);
            let mut regions = vec![lent.region(len)];
            if !inline.is_empty() {
                regions.extend(content);
            }
            // SAFETY: the head is kept in the call below, or here if nothing was sent;
            // the content stays with our caller.
            self.again(|port| unsafe { port.send(label, &regions, context) })?;
            self.also(slot, Some(lent));
        }
        if !follows.is_empty() {
            let label = Label { is_request: false, tag: label.data, data: 0, ..label };
            // SAFETY: our caller keeps the content until the call has ended.
            self.again(|port| unsafe { port.send(label, follows, context) })?;
            self.also(slot, None);
        }
        Ok(())
    }

    /// A call has one post more, which may need its head.
    fn also(&mut self, slot: usize, head: Option<Lent>) {
        if let Some(Some(call)) = self.calls.get_mut(slot) {
            call.left += 1;
            call.head = head.or(call.head.take());
        }
    }

    /// Posts, and waits for room while there is none.
    fn again(
        &mut self,
        mut post: impl FnMut(&mut Port) -> std::result::Result<(), PostError>,
    ) -> std::result::Result<(), PostError> {
        loop {
            match post(&mut self.port) {
                Err(PostError::Again) => {
                    self.progress();
                    self.look_now_and_then();
                }
                other => return other,
            }
        }
    }

    fn free_slot(&mut self) -> usize {
        match self.calls.iter().position(Option::is_none) {
            Some(slot) => slot,
            None => {
                self.calls.push(None);
                self.calls.len() - 1
            }
        }
    }

    fn buffer(&mut self) -> Vec<u8> {
        self.spare.pop().unwrap_or_else(|| vec![0; ANSWER_LEN_MAX])
    }

    /// Runs the endpoint and takes note of what has ended.
    fn progress(&mut self) -> bool {
        let mut busy = self.port.endpoint.progress();
        while let Some(ended) = self.port.next_end() {
            self.note(&ended);
            busy = true;
        }
        while let Some((peer, _)) = self.port.endpoint.pop_gone() {
            for attached in self.servers.values_mut().filter(|a| a.peer == peer) {
                attached.gone = true;
            }
        }
        busy
    }

    fn note(&mut self, ended: &Ended) {
        let slot = ended.context.checked_sub(1);
        let Some(call) = slot.and_then(|slot| self.calls.get_mut(slot)?.as_mut()) else { return };
        call.left = call.left.saturating_sub(1);
        if ended.is_receive {
            self.port.endpoint.owe(call.peer, false);
        }
        if ended.is_receive && ended.ok {
            call.answer = Some((ended.data, ended.len));
        }
        if call.left == 0 && call.is_forgotten {
            let _ = self.finish(CallId(ended.context - 1));
        }
    }

    /// The call ends by itself, when its answer comes.
    fn forget(&mut self, call: CallId) {
        if self.has_ended(call) {
            let _ = self.finish(call);
        } else if let Some(Some(call)) = self.calls.get_mut(call.0) {
            call.is_forgotten = true;
        }
    }

    fn has_ended(&self, call: CallId) -> bool {
        self.calls.get(call.0).is_none_or(|call| call.as_ref().is_none_or(|call| call.left == 0))
    }

    fn finish(&mut self, call: CallId) -> Result<Answer> {
        let call = self.calls.get_mut(call.0).and_then(Option::take);
        let call = call.ok_or_else(|| Error::from(Errno::INVAL))?;
        let buffer = call.into.map(Lent::back);
        let outcome = match call.answer {
            Some((status, len)) => unpack(status).map(|count| {
                let bytes =
                    buffer.as_ref().map_or_else(Vec::new, |b| b[..len.min(b.len())].to_vec());
                Answer { count, len, bytes }
            }),
            None => Err(Error::gone()),
        };
        if let Some(buffer) = buffer.filter(|_| self.spare.len() < SPARE_MAX) {
            self.spare.push(buffer);
        }
        outcome
    }

    fn look_now_and_then(&mut self) {
        let now = Instant::now();
        if now.duration_since(self.looked) >= LOOK_EVERY {
            self.looked = now;
            self.look_at_servers();
        }
    }

    /// Gives up the servers whose pipe has ended: every call to them ends now.
    fn look_at_servers(&mut self) {
        //= docs/files-protocol.md#2-sessions
        //# A client MUST end every pending call with EIO when the server's output ends.
        let mut gone = Vec::new();
        for attached in self.servers.values_mut().filter(|attached| !attached.gone) {
            if attached.launched.has_ended() {
                attached.gone = true;
                gone.push(attached.peer);
            }
        }
        for peer in gone {
            self.port.endpoint.give_up(peer);
        }
        self.progress();
    }
}

/// The answer that a count makes sense for.
pub(crate) fn checked_count(answer: &Answer, most: usize) -> Result<usize> {
    //= docs/files-protocol.md#4-file-content
    //# A client MUST refuse an answer whose count is larger than what was asked for.
    let count = usize::try_from(answer.count).ok().filter(|count| *count <= most);
    count.ok_or_else(|| Error::new(Errno::PROTO, Reason::BadAnswer))
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use wiglaf_endpoint::{Config, JobKey, LinkKind};

    use super::*;
    use crate::testing::flooded;

    #[test]
    fn a_flood_keeps_nobody_waiting_for_a_dead_server() {
        let (endpoint, server, _silent) = flooded();
        let client = Client::new(Port::new(endpoint));
        let (pulse, dead) = rustix::pipe::pipe().unwrap();
        drop(dead);
        let server = client.attach(server, Launched::of_tests(pulse));
        let (done, end) = std::sync::mpsc::channel();
        std::thread::spawn(move || done.send(client.call(server, &Request::Counters)));
        // Only bounds how long a broken test hangs.
        let end = end.recv_timeout(Duration::from_secs(60)).expect("the call ends");
        assert_eq!(end.unwrap_err().reason(), Reason::ServerGone);
    }

    fn endpoint() -> Endpoint {
        let config = Config {
            ip: Ipv4Addr::LOCALHOST,
            port: 0,
            ports: None,
            epoch: None,
            key: JobKey([9; 16]),
            link: LinkKind::Udp,
            silence_limit: Duration::from_secs(600),
            host_limit: None,
            flow_control: true,
            encrypt: false,
            memory_access: true,
            publish: false,
            late_peeks: false,
            wait: wiglaf_endpoint::WaitPolicy::default(),
            oversubscribed: false,
            progress_thread: false,
            lengths: wiglaf_endpoint::Lengths::default(),
        };
        wiglaf_links::open(&config).expect("udp works on loopback")
    }

    /// Its node has lost power: no pipe ends, and nothing is sent that nobody would listen to.
    #[test]
    fn a_call_that_was_acknowledged_ends_with_its_server() {
        let mut server = endpoint();
        let client = Client::new(Port::new(endpoint()));
        let (launched, output) = Launched::without_end();
        let id = client.attach(server.name(), launched);
        let peer = client.lock().servers[&id].peer;
        // SAFETY: no memory of ours is lent.
        let call = unsafe { client.start(id, &Request::Close { handle: 1 }, &[], &[]) };
        let call = call.expect("the server is attached");
        let began = Instant::now();
        let in_time = || assert!(began.elapsed() < Duration::from_secs(20), "it hangs");
        while client.lock().port.endpoint.peer(peer).expect("attached").in_flight > 0 {
            client.lock().progress();
            server.progress();
            in_time();
        }
        drop(server);
        while !client.has_ended(call) {
            in_time();
        }
        assert_eq!(client.wait(call).unwrap_err().reason(), Reason::ServerGone);
        drop(output);
    }

    #[test]
    fn a_count_that_is_too_large_is_refused() {
        let answer = |count| Answer { count, len: 0, bytes: Vec::new() };
        assert_eq!(checked_count(&answer(7), 7), Ok(7));
        for count in [8, u64::MAX] {
            let error = checked_count(&answer(count), 7).unwrap_err();
            assert_eq!(error.reason(), Reason::BadAnswer);
        }
    }
}
