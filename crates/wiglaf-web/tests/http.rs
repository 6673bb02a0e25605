//! What the server of the page answers, byte for byte over the loopback.

mod common;

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use common::{TOKEN, cluster, cookie_of, get, raw, serve, session};
use wiglaf_web::{Board, Part, Password, Server, Trouble};

#[track_caller]
fn assert_status(answer: &str, status: &str) {
    assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
}

#[test]
fn nothing_of_the_cluster_is_told_without_the_token() {
    let at = serve(cluster(5));
    for path in ["/", "/part", "/state.json", "/nothing", "/?token=", "/?token=5f1e0c0ffee1"] {
        for cookie in [None, Some("wiglaf-web=x"), Some(TOKEN)] {
            let answer = get(at, path, cookie);
            assert_status(&answer, "401");
            assert!(!answer.contains("pc1") && !answer.contains("seminar"), "{answer}");
            assert!(cookie_of(&answer).is_none(), "{answer}");
        }
    }
    // A session of another port is none of this one.
    let own = session(at);
    let (_, value) = own.split_once('=').unwrap();
    assert_status(&get(at, "/", Some(&format!("wiglaf-web-1={value}"))), "401");
    assert_status(&get(at, "/", Some(&own)), "200");
    assert_status(&get(at, "/nothing", Some(&own)), "404");
}

#[test]
fn token_begins_a_session_by_address_and_by_form_and_all_answers_have_the_policy() {
    let at = serve(cluster(5));
    let by_address = get(at, &format!("/?token={TOKEN}"), None);
    assert_status(&by_address, "303");
    assert!(by_address.contains("\r\nLocation: /\r\n"), "{by_address}");
    let form = |token: &str| {
        let body = format!("token={token}");
        let len = body.len();
        raw(at, format!("POST /sign-in HTTP/1.1\r\nContent-Length: {len}\r\n\r\n{body}").as_bytes())
    };
    assert_status(&form("wrong"), "401");
    let by_form = form(TOKEN);
    assert_status(&by_form, "303");
    for answer in [&by_address, &by_form] {
        let cookie = answer.lines().find(|line| line.starts_with("Set-Cookie: ")).unwrap();
        assert!(cookie.contains("; HttpOnly; SameSite=Strict; Path=/"), "{cookie}");
        assert!(!answer.contains(TOKEN), "{answer}");
    }
    let own = cookie_of(&by_form).unwrap();
    let page = get(at, "/", Some(own));
    for answer in [&by_address, &page, &get(at, "/style.css", None), &get(at, "/x", Some(own))] {
        assert!(answer.contains("\r\nContent-Security-Policy: default-src 'none'; "), "{answer}");
        assert!(answer.contains("\r\nX-Content-Type-Options: nosniff\r\n"), "{answer}");
    }
    // Nothing from elsewhere, and nothing that the policy would not run.
    assert!(!page.contains("://") && !page.contains("style="), "{page}");
    let head = raw(at, format!("HEAD / HTTP/1.1\r\nCookie: {own}\r\n\r\n").as_bytes());
    assert!(head.ends_with("\r\n\r\n") && head.contains("Content-Length: "), "{head}");
}

#[test]
fn password_of_the_user_begins_a_session_and_wrong_ones_are_slowed_down() {
    let user = "ann<b>".to_owned();
    let board = Arc::new(Board::new(cluster(5)));
    let server = Server::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)), TOKEN, board).unwrap();
    // Longer than any test takes.
    let password = Password::new(user, |text| text == "se cret+").waiting(Duration::from_hours(1));
    let server = server.with_password(password).unwrap();
    let at = server.address().unwrap();
    std::thread::spawn(move || server.run());
    let form = |body: &str| {
        let len = body.len();
        raw(at, format!("POST /sign-in HTTP/1.1\r\nContent-Length: {len}\r\n\r\n{body}").as_bytes())
    };
    let asked = get(at, "/", None);
    assert!(asked.contains("password of ann&lt;b&gt; on this machine"), "{asked}");
    // In the address line it would stay in the browser's history.
    assert_status(&get(at, "/?password=se+cret%2B", None), "401");
    let right = form("password=se+cret%2B");
    assert_status(&right, "303");
    assert_status(&get(at, "/", Some(cookie_of(&right).unwrap())), "200");
    let wrong = form("password=se+cret");
    assert_status(&wrong, "401");
    assert!(cookie_of(&wrong).is_none() && !wrong.contains("se cret"), "{wrong}");
    // So soon not even the right one is looked at.
    assert_status(&form("password=se+cret%2B"), "429");
    assert_status(&form(&format!("token={TOKEN}")), "303");
    // Where no password is known, none is asked for.
    let without = serve(cluster(5));
    assert!(!get(without, "/", None).contains("password\" name=\"password"));
}

#[test]
fn state_is_json_and_text_of_others_is_text() {
    let mut view = cluster(3);
    let hostile = "<img src=x onerror=alert(1)>\"'\u{1b}[2J\u{202e}";
    view.cluster = hostile.to_owned();
    view.nodes[0].name = hostile.to_owned();
    view.nodes[0].programs = vec![hostile.to_owned()];
    view.nodes[1].error = Some(hostile.to_owned());
    view.troubles = vec![Trouble { says: hostile.to_owned(), fix: hostile.to_owned() }];
    if let Part::Is(queue) = &mut view.queue {
        queue.user = hostile.to_owned();
        queue.jobs[0].name = hostile.to_owned();
    }
    if let Part::Is(check) = &mut view.check {
        check.pairs[0].failure = Some(hostile.to_owned());
        check.pairs[0].a = hostile.to_owned();
    }
    let at = serve(view);
    let own = session(at);
    let json = get(at, "/state.json", Some(&own));
    let (head, body) = json.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("Content-Type: application/json"), "{head}");
    let state: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(state["nodes"][0]["name"], hostile);
    assert_eq!(state["check"]["is"]["pairs"].as_array().unwrap().len(), 3);
    for path in ["/", "/part"] {
        let page = get(at, path, Some(&own));
        assert!(page.contains("&lt;img src=x onerror=alert(1)&gt;&quot;&#39;\\u{1b}[2J\\u{202e}"));
        assert!(!page.contains("<img") && !page.contains(['\u{1b}', '\u{202e}']), "{page}");
    }
}

#[test]
fn requests_out_of_bounds_are_answered_and_the_server_goes_on() {
    let at = serve(cluster(2));
    for (request, status) in [
        (&b"nonsense\r\n\r\n"[..], "400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "400"),
        (b"PUT / HTTP/1.1\r\n\r\n", "405"),
        (b"POST / HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "405"),
        (b"GET /../../etc/passwd HTTP/1.1\r\n\r\n", "401"),
        (b"POST /sign-in HTTP/1.1\r\nContent-Length: 99999\r\n\r\n", "413"),
        (b"POST /sign-in HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "411"),
    ] {
        assert_status(&raw(at, request), status);
    }
    let long = format!("GET / HTTP/1.1\r\nCookie: {}", "a".repeat(9000));
    assert_status(&raw(at, long.as_bytes()), "431");
    assert_status(&get(at, &format!("/{}", "a".repeat(600)), None), "414");
    // Some hold their connections, until no more of them are taken; all are free again once they have gone.
    let held: Vec<TcpStream> = (0..200).filter_map(|_| TcpStream::connect(at).ok()).collect();
    drop(held);
    let answers = || {
        let mut stream = TcpStream::connect(at).unwrap();
        use std::io::{Read, Write};
        let mut answer = String::new();
        let asked = stream.write_all(b"GET /icon.svg HTTP/1.1\r\n\r\n");
        asked.and_then(|()| stream.read_to_string(&mut answer)).is_ok() && answer.contains(" 200 ")
    };
    let begin = std::time::Instant::now();
    while !answers() {
        assert!(begin.elapsed().as_secs() < 60, "it takes no connections any more");
        std::thread::yield_now();
    }
}

#[test]
fn no_page_is_served_at_all_addresses() {
    let board = Arc::new(Board::new(cluster(1)));
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, 0));
    let refused = Server::bind(everywhere, TOKEN, board.clone()).err().unwrap();
    assert!(refused.to_string().contains("one address"), "{refused}");
    let taken = Server::bind(serve(cluster(1)), TOKEN, board).err().unwrap();
    assert!(taken.to_string().contains("--port"), "{taken}");
}

#[test]
fn first_view_of_64_nodes_is_small() {
    let at = serve(cluster(64));
    let own = session(at);
    let paths = ["/", "/style.css", "/page.js", "/icon.svg"];
    let len: usize = paths.iter().map(|path| get(at, path, Some(&own)).len()).sum();
    println!("{len} bytes");
    assert!(len <= 300_000, "{len} bytes");
}
