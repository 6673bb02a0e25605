//! `wiglaf web` on emulated nodes.

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Stdio};
use std::time::Duration;

use common::Site;
use serde_json::Value;

/// Only bounds how long a broken test hangs.
const PATIENCE: Duration = Duration::from_secs(60);

/// Ends with the test.
struct Page(Child);

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn get(at: &str, path: &str, cookie: &str) -> String {
    let mut stream = TcpStream::connect(at).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nCookie: {cookie}\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn page_shows_the_nodes_to_whoever_has_the_token_and_says_what_is_missing() {
    // No job runs, so no provider is needed.
    if let Some(reason) = common::why_not() {
        eprintln!("skipped: {reason}");
        return;
    }
    let site = Site::new();
    site.wiglaf(&["up", "--nodes", "2"]).expect_success();
    site.wiglaf(&["web", "--network"]).expect_sentence(1, "leave --network out");
    let mut web = site.command(&["web", "--port", "0", "--json"]);
    let mut page = Page(web.stdout(Stdio::piped()).spawn().unwrap());
    let mut said = String::new();
    let mut out = BufReader::new(page.0.stdout.take().unwrap());
    while !said.ends_with("}\n") {
        assert_ne!(out.read_line(&mut said).unwrap(), 0, "{said}");
    }
    let place: Value = serde_json::from_str(&said).unwrap();
    let file = std::fs::metadata(place["token_file"].as_str().unwrap()).unwrap();
    assert_eq!(file.permissions().mode() & 0o777, 0o600);
    let url = place["url"].as_str().unwrap().strip_prefix("http://").unwrap();
    let (at, token) = url.split_once('/').unwrap();
    assert!(at.starts_with("127.0.0.1:"), "{at}");

    let stranger = get(at, "/state.json", "");
    assert!(stranger.starts_with("HTTP/1.1 401 ") && !stranger.contains("node1"), "{stranger}");
    let signed_in = get(at, &format!("/{token}"), "");
    let cookie = signed_in.lines().find_map(|line| line.strip_prefix("Set-Cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let state = || -> Value {
        let answer = get(at, "/state.json", cookie);
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        serde_json::from_str(body).unwrap()
    };
    let nodes = state()["nodes"].clone();
    for (node, name) in nodes.as_array().unwrap().iter().zip(["node1", "node2"]) {
        assert_eq!(node["name"], name);
        assert!(node["load"].is_f64() && node["memory_total_kib"].as_u64() > Some(0), "{node}");
    }
    // Each part that cannot be known says what to type.
    let not = |part: &str| state()[part]["not"].as_str().unwrap_or_default().to_owned();
    common::eventually("all has been asked for", || !not("history").contains("not asked yet"));
    assert!(not("check").contains("`wiglaf check`"), "{}", not("check"));
    assert!(not("queue").contains("--batch"), "{}", not("queue"));
    assert!(not("history").contains("`wiglaf monitor`"), "{}", not("history"));

    // The next one has the same token, and another port says which one is taken.
    let port = at.split_once(':').unwrap().1;
    site.wiglaf(&["web", "--port", port]).expect_sentence(1, "add --port");
    site.kill_node(1);
    let is_told = || {
        let state = state();
        state["nodes"][1]["error"].as_str().is_some_and(|error| error.contains("node2"))
    };
    common::eventually("the node is seen to be down", is_told);
    let page = get(at, "/", cookie);
    assert!(page.contains("1 of 2 nodes up") && page.contains("What is wrong"), "{page}");
}
