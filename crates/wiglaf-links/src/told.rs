//! What users are told of peers: sentences that name the peer, what is wrong and what to do.

use std::fmt;
use std::net::Ipv4Addr;

use wiglaf_endpoint::{Gone, News, PeerNews, Ports, WayNews};

/// IPv4 and UDP headers of a datagram, in bytes: what an MTU is more than a datagram.
const HEADERS_LEN: usize = 28;

/// The name of the machine at `ip` in /etc/hosts; other ways to find it may take long.
fn name_of(hosts: &str, ip: Ipv4Addr) -> Option<&str> {
    hosts.lines().find_map(|line| {
        let mut words = line.split('#').next()?.split_whitespace();
        let is_it = words.next()?.parse() == Ok(ip);
        words.next().filter(|_| is_it)
    })
}

/// A sentence about a peer.
pub struct Told<'a> {
    news: &'a PeerNews,
    ports: Option<Ports>,
    name: Option<String>,
}

/// What to tell of a peer, to ranks that have these ports. It is `None` of a good-bye.
#[must_use]
pub fn told(news: &PeerNews, ports: Option<Ports>) -> Option<Told<'_>> {
    if news.news == News::Gone(Gone::Closed) {
        return None;
    }
    let hosts = std::fs::read_to_string("/etc/hosts").unwrap_or_default();
    let name = name_of(&hosts, *news.address.at.ip()).map(str::to_owned);
    Some(Told { news, ports, name })
}

impl Told<'_> {
    fn machine(&self) -> String {
        let ip = self.news.address.at.ip();
        match &self.name {
            Some(name) => format!("{name} ({ip})"),
            None => ip.to_string(),
        }
    }

    /// The peer, and not its machine.
    fn peer(&self) -> String {
        format!("the rank at port {} of {}", self.news.address.at.port(), self.machine())
    }

    /// What to open in firewalls.
    fn ports(&self) -> String {
        match self.ports {
            Some(ports) => format!("UDP ports {ports}"),
            None => "all UDP ports, or those of a range that you give in WIGLAF_PORTS,".to_owned(),
        }
    }

    fn way(&self, f: &mut fmt::Formatter<'_>, way: &WayNews) -> fmt::Result {
        let machine = self.machine();
        match way {
            WayNews::Narrow { frame_len, own_len_max, peer_len_max } => {
                let (mtu, own) = (frame_len + HEADERS_LEN, own_len_max + HEADERS_LEN);
                write!(f, "{machine}: ")?;
                if peer_len_max < own_len_max {
                    let there = peer_len_max + HEADERS_LEN;
                    write!(f, "its MTU is {there} and this machine's {own}")?;
                } else {
                    write!(
                        f,
                        "frames above {mtu} bytes vanish on the way, and the MTU here is {own}"
                    )?;
                }
                write!(
                    f,
                    "; {mtu} bytes are used, which costs speed: set the MTU that all machines and the \
                     switch have (ip link set dev INTERFACE mtu {mtu}), and see wiglaf check"
                )
            }
            WayNews::BulkBlocked { port } => write!(
                f,
                "{machine}: nothing that is sent to its UDP port {port} arrives, and other ports are \
                 reached: a firewall, it seems; all goes to the other port, which costs speed: open {} \
                 between all machines",
                self.ports()
            ),
        }
    }
}

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let silent = self.news.silent.as_secs_f64();
        let machine = self.machine();
        match &self.news.news {
            News::Way(way) => self.way(f, way),
            News::MachineUnknown => write!(
                f,
                "{} has not been heard for {silent:.1} s, and its machine answers nothing, as it never has: a \
                 firewall keeps it from that, or it is dead; it is waited for until WIGLAF_SILENCE_LIMIT. Let \
                 machines answer ICMP echoes, so that a dead one is found within seconds",
                self.peer()
            ),
            News::Unheard => write!(
                f,
                "{} has never been heard, for {silent:.1} s, though {machine} answers other questions: if it is \
                 not held by a debugger, a firewall drops datagrams: open {} between all machines",
                self.peer(),
                self.ports()
            ),
            News::Gone(Gone::Closed) => write!(f, "{} has closed", self.peer()),
            News::Gone(Gone::Unreachable) => write!(
                f,
                "{} is lost: its process has ended, as nobody listens at its port any more",
                self.peer()
            ),
            News::Gone(Gone::Silent) => write!(
                f,
                "{} is lost: it has not been heard for {silent:.1} s, longer than WIGLAF_SILENCE_LIMIT \
                 allows: its process is stopped, or it does not call MPI",
                self.peer()
            ),
            News::Gone(Gone::MachineSilent) => write!(
                f,
                "{} is lost: {machine} has not been heard for {silent:.1} s and its machine does not answer: \
                 power or cable, there or here (WIGLAF_HOST_LIMIT says for how long that is waited for)",
                self.peer()
            ),
            News::Gone(Gone::Blocked) => write!(
                f,
                "{} is lost: {machine} is there, but what is sent to it does not arrive: a firewall drops it, \
                 or the MTU on the way is below that of this machine's interface; open {} between all \
                 machines, and see wiglaf check",
                self.peer(),
                self.ports()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV4;
    use std::time::Duration;

    use wiglaf_endpoint::{Address, Epoch};

    use super::*;

    fn text(news: News, ports: Option<&str>) -> String {
        let at = SocketAddrV4::new(Ipv4Addr::new(192, 168, 77, 3), 47_001);
        let address = Address { at, epoch: Epoch(1) };
        let news = PeerNews { address, silent: Duration::from_millis(8249), news };
        let ports = ports.and_then(Ports::named);
        Told { news: &news, ports, name: Some("pc3".to_owned()) }.to_string()
    }

    #[test]
    fn each_sentence_names_the_peer_and_what_to_do() {
        let narrow =
            |peer_len_max| WayNews::Narrow { frame_len: 1472, own_len_max: 8972, peer_len_max };
        for (news, parts) in [
            (News::Way(narrow(8972)), ["frames above 1500 bytes vanish", "the MTU here is 9000"]),
            (News::Way(narrow(1472)), ["its MTU is 1500", "this machine's 9000"]),
            (News::Way(WayNews::BulkBlocked { port: 47_002 }), ["port 47002", "firewall"]),
            (News::MachineUnknown, ["not been heard for 8.2 s", "ICMP"]),
            (News::Unheard, ["never been heard, for 8.2 s", "firewall drops datagrams"]),
            (News::Gone(Gone::Unreachable), ["nobody listens", "port 47001"]),
            (News::Gone(Gone::Silent), ["for 8.2 s", "WIGLAF_SILENCE_LIMIT"]),
            (
                News::Gone(Gone::MachineSilent),
                ["for 8.2 s and its machine does not answer", "power"],
            ),
            (News::Gone(Gone::Blocked), ["firewall", "wiglaf check"]),
        ] {
            let text = text(news, Some("47000-47999"));
            assert!(text.contains("pc3 (192.168.77.3)"), "{text}");
            assert!(parts.iter().all(|part| text.contains(part)), "{text}");
            let is_firewall = text.contains("firewall") && !text.contains("ICMP");
            assert_eq!(text.contains("UDP ports 47000-47999"), is_firewall, "{text}");
        }
        assert!(text(News::Unheard, None).contains("WIGLAF_PORTS"));
    }

    #[test]
    fn a_machine_has_the_name_that_the_table_of_hosts_gives_it() {
        let table = "127.0.0.1 localhost\n# 10.0.0.1 no\n10.0.0.1\tpc1.lab pc1 # first\n10.0.0.2\n";
        assert_eq!(name_of(table, Ipv4Addr::new(10, 0, 0, 1)), Some("pc1.lab"));
        for other in [2, 3] {
            assert_eq!(name_of(table, Ipv4Addr::new(10, 0, 0, other)), None);
        }
    }
}
