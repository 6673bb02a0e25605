//! A page of a made-up cluster, served on the loopback.

#![allow(dead_code, reason = "every test program uses a part of it")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use wiglaf_web::{Board, Check, Job, Node, Pair, Part, Queue, Series, Server, Trouble, View};

pub(crate) const TOKEN: &str = "5f1e0c0ffee0";
/// Only bounds how long a broken test hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves that until the test ends.
pub(crate) fn serve(view: View) -> SocketAddr {
    let board = Arc::new(Board::new(view));
    let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0)), TOKEN, board).unwrap();
    let address = server.address().unwrap();
    std::thread::spawn(move || server.run());
    address
}

/// What is answered to those bytes.
pub(crate) fn raw(to: SocketAddr, request: &[u8]) -> String {
    let mut stream = TcpStream::connect(to).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(request).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8(answer).unwrap()
}

/// What a browser that has that cookie is answered.
pub(crate) fn get(to: SocketAddr, path: &str, cookie: Option<&str>) -> String {
    let cookie = cookie.map(|cookie| format!("Cookie: other=1; {cookie}\r\n")).unwrap_or_default();
    raw(to, format!("GET {path} HTTP/1.1\r\nHost: {to}\r\n{cookie}\r\n").as_bytes())
}

/// The cookie of a session that begins now.
pub(crate) fn session(to: SocketAddr) -> String {
    let answer = get(to, &format!("/?token={TOKEN}"), None);
    cookie_of(&answer).unwrap_or_else(|| panic!("no session: {answer}")).to_owned()
}

pub(crate) fn cookie_of(answer: &str) -> Option<&str> {
    let line = answer.lines().find_map(|line| line.strip_prefix("Set-Cookie: "))?;
    line.split(';').next()
}

/// So many nodes, of which one is silent, one has a slow cable and one is drained.
pub(crate) fn cluster(count: usize) -> View {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let part = |at: usize, of: usize| (at * 7919 % of) as f64;
    let nodes: Vec<Node> = (1..=count)
        .map(|at| Node {
            name: format!("pc{at}"),
            error: None,
            load: Some(part(at, 800) / 100.0),
            cores: 8,
            memory_used_kib: Some(((1 + at * 31 % 14) << 20) as u64),
            memory_total_kib: Some(16 << 20),
            temperature_c: Some(38.0 + part(at, 40)),
            interface: Some("enp3s0".to_owned()),
            link_mbit_per_s: Some(if at == 3 { 100 } else { 1000 }),
            programs: if at % 3 == 0 { vec![] } else { vec!["staggered".to_owned()] },
            sent_mb_per_s: Some(part(at, 1100) / 10.0),
            retransmitted_per_s: Some(if at == 3 { 31.0 } else { 0.0 }),
        })
        .map(|node| match node.name.as_str() {
            "pc4" => Node {
                name: node.name,
                error: Some("pc4 does not answer: No route to host; look at its cable".to_owned()),
                ..Node::default()
            },
            _ => node,
        })
        .collect();
    let pairs = (1..=count).flat_map(|b| (1..b).map(move |a| (a, b)));
    let pairs = pairs.filter(|(a, b)| *a != 4 && *b != 4).map(|(a, b)| Pair {
        a: format!("pc{a}"),
        b: format!("pc{b}"),
        mb_per_s: Some(match (a, b) {
            (3, _) | (_, 3) => 11.7,
            (2, 5) => 83.0,
            _ => 116.0 + part(a + b, 2),
        }),
        failure: None,
    });
    let from_to_s = (now - 6 * 3600, now);
    let series = |name: &str, unit: &str, of: &dyn Fn(usize, u64) -> f64| Series {
        name: name.to_owned(),
        unit: unit.to_owned(),
        from_to_s,
        nodes: (1..=count)
            .filter(|at| *at != 4)
            .map(|at| {
                let points = (0..=48).map(|step| (from_to_s.0 + step * 450, of(at, step)));
                (format!("pc{at}"), points.collect())
            })
            .collect(),
    };
    let job = |id: usize, state: &str, nodes: &str, says: Option<&str>| Job {
        id: id.to_string(),
        name: "hadron-masses".to_owned(),
        user: "ann".to_owned(),
        state: state.to_owned(),
        time: "1:02:11".to_owned(),
        nodes: nodes.to_owned(),
        says: says.map(str::to_owned),
    };
    View {
        cluster: "seminar".to_owned(),
        at_s: now,
        nodes,
        troubles: vec![
            Trouble {
                says: "pc5 takes no jobs: / has less than 1 % left".to_owned(),
                fix: "sudo scontrol update NodeName=pc5 State=RESUME".to_owned(),
            },
            Trouble {
                says: "pc3's cable gives 100 Mbit/s, its card can 1000".to_owned(),
                fix: "try another cable or another port of the switch".to_owned(),
            },
        ],
        check: Part::Is(Check { at_s: now - 7000, pairs: pairs.collect() }),
        queue: Part::Is(Queue {
            user: "ann".to_owned(),
            jobs: vec![
                job(41, "running", "pc[1-2]", None),
                job(42, "pending", "6", Some("waits until enough nodes are free")),
            ],
        }),
        history: Part::Is(vec![
            series("load", "", &|at, step| wave(at, step, 0.5, 7.5)),
            series("temperature", "°C", &|at, step| wave(at, step, 38.0, 71.0)),
            series("sent", "MB/s", &|at, step| wave(at + 9, step, 0.0, 110.0)),
            series("sent again", "/s", &|at, step| {
                if at == 3 { wave(5, step, 0.0, 40.0) } else { 0.0 }
            }),
        ]),
    }
}

/// Up and down between two values, for each node at another time.
fn wave(at: usize, step: u64, low: f64, high: f64) -> f64 {
    let phase = (step as f64 / 9.0 + at as f64 * 1.7).sin() * (at as f64 + step as f64 / 5.0).cos();
    low + (high - low) * (0.5 + phase / 2.0)
}
