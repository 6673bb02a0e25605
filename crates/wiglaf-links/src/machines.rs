//! Asks machines whether they are there, without privilege: their kernels answer, whatever their processes
//! do (docs/adr/0042-a-machine-is-asked-not-a-process.md).
//!
//! Three questions, as firewalls and settings keep kernels from one or the other: an ICMP echo, where
//! `net.ipv4.ping_group_range` lets users send one; a datagram to a port without a listener, which comes back as
//! "port unreachable"; and from the second time on a TCP connection to such a port, which is refused. Who does not
//! find the machine's link address is told so by the latter.

use std::collections::{HashMap, VecDeque};
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::sockopt::socket_error;
use rustix::net::{
    AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, connect,
    getpeername, ipproto, recv, send, socket_with,
};
use wiglaf_endpoint::{Answer, Hosts, Ports};

/// Where nobody listens: that of a service which no system has any longer (RFC 863).
const NOBODYS_PORT: u16 = 9;
/// Type, code, checksum, identifier and number of an ICMP echo (RFC 792); the kernel fills in the rest.
const ECHO: [u8; 8] = [8, 0, 0, 0, 0, 0, 0, 1];
/// Type of its answer.
const ECHO_REPLY: u8 = 0;

/// Machines whose answers are awaited at a time: each takes three descriptors. Others wait for less long.
const ASKED_MAX: usize = 64;

/// Machines that were asked and have not answered.
pub(crate) struct Machines {
    from: Ipv4Addr,
    /// Where datagrams may go, in turn: a firewall lets only those pass.
    ports: Option<Vec<u16>>,
    asked: HashMap<Ipv4Addr, Asked>,
    answers: VecDeque<(Ipv4Addr, Answer)>,
}

/// The questions to one of them.
#[derive(Default)]
struct Asked {
    times: usize,
    echo: Option<OwnedFd>,
    datagram: Option<OwnedFd>,
    connection: Option<OwnedFd>,
}

impl Machines {
    /// Nobody was asked yet. Questions leave from that address.
    pub(crate) fn new(from: Ipv4Addr, ports: Option<Ports>) -> Self {
        let ports = ports.map(|ports| ports.each().collect());
        Self { from, ports, asked: HashMap::new(), answers: VecDeque::new() }
    }

    /// A socket that talks to `to` only, and does not block.
    fn open(
        &self,
        kind: SocketType,
        protocol: Option<Protocol>,
        to: SocketAddrV4,
    ) -> Result<OwnedFd, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(AddressFamily::INET, kind, flags, protocol)?;
        bind(&socket, &SocketAddrV4::new(self.from, 0))?;
        match connect(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(why) => Err(why),
        }
    }

    /// A datagram socket on which that was sent.
    fn sent(&self, protocol: Option<Protocol>, to: SocketAddrV4, bytes: &[u8]) -> Option<OwnedFd> {
        let socket = self.open(SocketType::DGRAM, protocol, to).ok()?;
        send(&socket, bytes, SendFlags::DONTWAIT).ok()?;
        Some(socket)
    }
}

impl Hosts for Machines {
    fn ask(&mut self, ip: Ipv4Addr) {
        let mut asked = self.asked.remove(&ip).unwrap_or_default();
        let port = match &self.ports {
            Some(ports) => ports[asked.times % ports.len()],
            None => NOBODYS_PORT,
        };
        asked.echo = self.sent(Some(ipproto::ICMP), SocketAddrV4::new(ip, 0), &ECHO);
        asked.datagram = self.sent(None, SocketAddrV4::new(ip, port), &[]);
        // Its question is repeated by the kernel, until somebody answers or the link address is given up.
        if asked.times > 0 && asked.connection.is_none() {
            let to = SocketAddrV4::new(ip, NOBODYS_PORT);
            match self.open(SocketType::STREAM, None, to) {
                Ok(connection) => asked.connection = Some(connection),
                Err(why) => self.answers.extend(meaning(why).map(|answer| (ip, answer))),
            }
        }
        asked.times += 1;
        if self.asked.len() >= ASKED_MAX
            && let Some(other) = self.asked.keys().next().copied()
        {
            self.asked.remove(&other);
        }
        self.asked.insert(ip, asked);
    }

    fn take(&mut self) -> Option<(Ipv4Addr, Answer)> {
        if self.answers.is_empty() {
            let Self { asked, answers, .. } = self;
            asked.retain(|ip, asked| {
                let Some(answer) = asked.answer() else { return true };
                answers.push_back((*ip, answer));
                answer == Answer::NoWay
            });
        }
        self.answers.pop_front()
    }
}

impl Asked {
    /// What has come back. Of what says that there is no way nothing more is heard, and of the rest no more
    /// is wanted.
    fn answer(&mut self) -> Option<Answer> {
        let mut bytes = [0; 64];
        if let Some(socket) = &self.datagram {
            match recv(socket, &mut bytes, RecvFlags::DONTWAIT) {
                Err(Errno::CONNREFUSED) => return Some(Answer::TakesDatagrams),
                Ok(_) => return Some(Answer::Alive), // somebody listens, and answers to nothing
                Err(_) => {}
            }
        }
        if let Some(socket) = &self.echo
            && recv(socket, &mut bytes, RecvFlags::DONTWAIT).is_ok()
            && bytes[0] == ECHO_REPLY
        {
            return Some(Answer::Alive);
        }
        let connection = self.connection.as_ref()?;
        let answer = match socket_error(connection) {
            Ok(Err(why)) => meaning(why),
            Ok(Ok(())) => getpeername(connection).ok().map(|_| Answer::Alive),
            Err(_) => None,
        };
        if answer.is_some() {
            self.connection = None;
        }
        answer
    }
}

/// What the failure of a connection says.
fn meaning(why: Errno) -> Option<Answer> {
    match why {
        Errno::CONNREFUSED | Errno::CONNRESET => Some(Answer::Alive),
        Errno::HOSTUNREACH | Errno::NETUNREACH | Errno::HOSTDOWN => Some(Answer::NoWay),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use wiglaf_testnet::Pair;

    use super::*;

    /// A hang becomes a failure after so long.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn until(machines: &mut Machines, ip: Ipv4Addr, wanted: Answer) {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            machines.ask(ip);
            std::thread::sleep(Duration::from_millis(200));
            while let Some(answer) = machines.take() {
                if answer == (ip, wanted) {
                    return;
                }
            }
        }
        panic!("{ip} has not answered: {wanted:?}");
    }

    #[test]
    fn a_kernel_answers_and_a_machine_that_is_not_there_is_not_found() {
        let Some(pair) = Pair::or_skip(1500) else { return };
        pair.a.run(|| {
            let mut machines = Machines::new(pair.a.ip, None);
            until(&mut machines, pair.b.ip, Answer::TakesDatagrams);
            assert!(machines.asked.is_empty(), "nothing is left of it");
            until(&mut machines, Ipv4Addr::new(10, 77, 0, 9), Answer::NoWay);
        });
    }

    #[test]
    fn a_firewall_against_datagrams_does_not_make_a_machine_silent() {
        let Some(pair) = Pair::or_skip(1500) else { return };
        let rules =
            ["add table inet f", "add chain inet f i { type filter hook input priority 0; }"]
                .into_iter()
                .chain(["add rule inet f i meta l4proto { udp, icmp } drop"]);
        for rule in rules {
            if let Err(why) = pair.b.command("nft", &[rule]) {
                return eprintln!("skipped: no firewall here: {why}");
            }
        }
        pair.a.run(|| {
            let mut machines = Machines::new(pair.a.ip, Ports::named("47000-47001"));
            until(&mut machines, pair.b.ip, Answer::Alive);
        });
    }

    #[test]
    fn users_that_may_send_echoes_have_their_answer() {
        let Some(pair) = Pair::or_skip(1500) else { return };
        pair.a.run(|| {
            let setting = "/proc/sys/net/ipv4/ping_group_range";
            if let Err(why) = std::fs::write(setting, "0 2147483647") {
                return eprintln!("skipped: {setting}: {why}");
            }
            let mut machines = Machines::new(pair.a.ip, None);
            machines.ask(pair.b.ip);
            let asked = machines.asked.get_mut(&pair.b.ip).expect("asked");
            (asked.datagram, asked.connection) = (None, None);
            let began = Instant::now();
            loop {
                if let Some(answer) = machines.take() {
                    return assert_eq!(answer, (pair.b.ip, Answer::Alive));
                }
                assert!(began.elapsed() < PATIENCE, "no echo");
            }
        });
    }
}
