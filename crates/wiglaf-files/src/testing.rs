//! What tests of several modules need: endpoints, a wire that is never quiet, and a server that lies.

use std::io;
use std::net::SocketAddrV4;
use std::os::fd::{OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use wiglaf_endpoint::{Address, Endpoint, JobKey, PeerId, Setup};
use wiglaf_link::loopback::{Hub, LoopbackLink};
use wiglaf_link::{Arrived, Deliver, Limits, Link, Sent, Train};
use wiglaf_links::random_epoch;

use crate::client::Client;
use crate::launch::Launched;
use crate::node::Node;
use crate::port::{Label, Lent, Port};
use crate::server::words::open_endpoint;
use crate::wire::{Request, status};

const KEY: JobKey = JobKey([7; 16]);

/// An endpoint on loopback.
pub(crate) fn endpoint() -> Endpoint {
    // SAFETY: only Rust code, under the standard library's lock, reads the
    // environment in this program.
    unsafe {
        std::env::set_var("WIGLAF_IP", "127.0.0.1");
        std::env::set_var("WIGLAF_LINK", "udp");
    }
    open_endpoint(KEY, Duration::from_secs(60)).unwrap()
}

/// A link on which something that makes no sense arrives whenever it is looked at.
struct Flood(LoopbackLink);

impl Link for Flood {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn local(&self) -> SocketAddrV4 {
        self.0.local()
    }

    fn bulk_port(&self) -> u16 {
        self.0.bulk_port()
    }

    fn limits(&self) -> Limits {
        self.0.limits()
    }

    fn reaches(&self, to: SocketAddrV4) -> bool {
        self.0.reaches(to)
    }

    fn send(&mut self, train: &Train<'_>) -> io::Result<Sent> {
        self.0.send(train)
    }

    fn recv_trains(&mut self, deliver: &mut Deliver<'_>) -> io::Result<usize> {
        deliver(&Arrived::alone("10.9.9.9:9".parse().unwrap(), &[0x5a; 64]));
        Ok(1 + self.0.recv_trains(deliver)?)
    }

    fn wait_fds(&self) -> Vec<RawFd> {
        self.0.wait_fds()
    }
}

/// An endpoint that is flooded, and a peer of its that hears and says nothing.
pub(crate) fn flooded() -> (Endpoint, Address, LoopbackLink) {
    let hub = Hub::new();
    let [own, other] = ["10.0.0.1:7", "10.0.0.2:7"].map(|at| at.parse().unwrap());
    let links: Vec<Box<dyn Link>> = vec![Box::new(Flood(hub.link(own, 64).unwrap()))];
    let silent = hub.link(other, 4096).unwrap();
    let silence_limit = Duration::from_secs(3600);
    let endpoint = Endpoint::new(Setup {
        epoch: random_epoch(),
        key: KEY,
        links,
        silence_limit,
        flow_control: true,
        encrypt: false,
    });
    (endpoint, Address { at: other, epoch: random_epoch() }, silent)
}

/// A node whose server says of every call that it moved one byte more than it was asked to.
pub(crate) struct Lying {
    pub(crate) node: Node,
    _line: OwnedFd,
    end: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Lying {
    pub(crate) fn new() -> Self {
        let (at_client, mut at_server) = (endpoint(), endpoint());
        let server = at_server.name();
        let client = Client::new(Port::new(at_client));
        let peer = at_server.insert(client.name());
        let (pulse, line) = rustix::pipe::pipe().unwrap();
        let server = client.attach(server, Launched::of_tests(pulse));
        let end = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&end);
        let thread = std::thread::spawn(move || lie(Port::new(at_server), peer, &told));
        let node = Node::of_tests(Arc::new(client), server);
        Self { node, _line: line, end, thread: Some(thread) }
    }
}

impl Drop for Lying {
    fn drop(&mut self) {
        self.end.store(true, Ordering::Relaxed);
        self.thread.take().map(std::thread::JoinHandle::join);
    }
}

fn lie(mut port: Port, client: PeerId, end: &AtomicBool) {
    // Nothing of what is under way is freed before the endpoint.
    let mut kept = Vec::new();
    while !end.load(Ordering::Relaxed) {
        port.endpoint.wait(Duration::from_millis(1));
        while port.next_end().is_some() {}
        let Some(message) = port.endpoint.pop_active() else { continue };
        let id = message.data.unwrap();
        let mut content = |len: u32| {
            let mut lent = Lent::new(vec![1; len as usize]);
            let region = lent.region(len as usize);
            kept.push(lent);
            region
        };
        let label =
            |count| Label { to: client, is_request: false, tag: id, data: status(&Ok(count)) };
        match Request::parse(message.handler, &message.payload) {
            Ok(Some(Request::Read { len, .. })) => {
                let region = content(len);
                // SAFETY: the memory is kept until the endpoint is gone.
                unsafe { port.send(label(u64::from(len) + 1), &[region], 1) }.unwrap();
            }
            Ok(Some(Request::WriteBulk { len, .. })) => {
                let region = content(len);
                // SAFETY: as above.
                unsafe { port.receive(client, id, &[region], 1) }.unwrap();
                port.inject(label(u64::from(len) + 1), &[]).unwrap();
            }
            Ok(Some(Request::Write { bytes, .. })) => {
                port.inject(label(bytes.len() as u64 + 1), &[]).unwrap();
            }
            _ => port.inject(label(0), &[]).unwrap(),
        }
    }
    drop(port);
}
