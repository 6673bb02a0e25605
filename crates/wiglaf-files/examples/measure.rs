//! How fast remote files are, beside the floors: the local disk and one raw TCP
//! stream between the same nodes.
//!
//! ```text
//! wiglaf exec -w node2 -- measure tcp-server &
//! wiglaf exec -w node1 -- measure node2 /scratch/measured 10.77.0.2
//! ```

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use wiglaf_files::{File, Files, SeekFrom};

const TCP_PORT: u16 = 7799;
const CALL_LEN: usize = 1 << 20;
const STREAM_LEN: usize = 256 << 20;
const ROUNDS: usize = 20_000;
const REPEATS: usize = 3;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["tcp-server"] => serve_tcp(),
        [node, path, ip] => measure(node, path, Some(ip)),
        [node, path] => measure(node, path, None),
        _ => panic!("usage: measure NODE PATH [IP of a tcp-server] | measure tcp-server"),
    }
}

/// Takes a length, then so many bytes; or sends them. One connection, then it ends.
fn serve_tcp() {
    let listener = TcpListener::bind(("0.0.0.0", TCP_PORT)).expect("the port is free");
    let (mut stream, _) = listener.accept().expect("a client");
    let mut bytes = vec![1; CALL_LEN];
    let mut what = [0];
    while stream.read_exact(&mut what).is_ok() {
        for _ in 0..STREAM_LEN / CALL_LEN {
            match what[0] {
                b'w' => stream.read_exact(&mut bytes).expect("bytes"),
                _ => stream.write_all(&bytes).expect("a reader"),
            }
        }
        if what[0] == b'w' {
            stream.write_all(b".").expect("a reader");
        }
    }
}

fn rate(what: &str, run: impl FnOnce()) {
    let began = Instant::now();
    run();
    let rate = STREAM_LEN as f64 / 1e6 / began.elapsed().as_secs_f64();
    println!("{what:30} {rate:8.0} MB/s");
}

fn tcp(stream: &mut TcpStream) {
    let mut bytes = vec![1; CALL_LEN];
    rate("tcp, one stream, to the node", || {
        stream.write_all(b"w").expect("a server");
        for _ in 0..STREAM_LEN / CALL_LEN {
            stream.write_all(&bytes).expect("a server");
        }
        stream.read_exact(&mut [0]).expect("a server");
    });
    rate("tcp, one stream, from the node", || {
        stream.write_all(b"r").expect("a server");
        for _ in 0..STREAM_LEN / CALL_LEN {
            stream.read_exact(&mut bytes).expect("a server");
        }
    });
}

fn sequential(file: &File, how: &str) {
    let mut bytes = vec![7; CALL_LEN];
    file.seek(SeekFrom::Start(0)).expect("a position");
    rate(&format!("write, 1 MiB calls{how}"), || {
        for _ in 0..STREAM_LEN / CALL_LEN {
            assert_eq!(file.write(&bytes).expect("written"), CALL_LEN);
        }
        file.attributes().expect("what was behind is there");
    });
    file.seek(SeekFrom::Start(0)).expect("a position");
    rate(&format!("read, 1 MiB calls{how}"), || {
        for _ in 0..STREAM_LEN / CALL_LEN {
            assert_eq!(file.read(&mut bytes).expect("read"), CALL_LEN);
        }
    });
}

fn latency(file: &File, len: usize) {
    let mut bytes = vec![0; len];
    let mut times: Vec<u64> = (0..ROUNDS)
        .map(|i| {
            let offset = (i * 7919 % (STREAM_LEN / len) * len) as u64;
            let began = Instant::now();
            assert_eq!(file.read_at(&mut bytes, offset).expect("read"), len);
            began.elapsed().as_nanos() as u64
        })
        .collect();
    times.sort_unstable();
    let us = |part: f64| times[(times.len() as f64 * part) as usize] as f64 / 1e3;
    println!("read of {len:5} B, cached         {:8.1} us p50 {:8.1} us p99", us(0.5), us(0.99));
}

fn measure(node: &str, path: &str, ip: Option<&str>) {
    let node = Files::new().attach(node).expect("the node attached");
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_TRUNC;
    let file = node.open(path, flags, 0o644).expect("the file opened");
    let mut stream = ip.map(|ip| TcpStream::connect((ip, TCP_PORT)).expect("a tcp-server"));
    for _ in 0..REPEATS {
        if let Some(stream) = &mut stream {
            tcp(stream);
        }
        sequential(&file, "");
        if !node.is_local() {
            file.set_read_ahead(2 << 20).expect("set");
            file.set_write_behind(2 << 20).expect("set");
            sequential(&file, ", buffered");
            file.set_read_ahead(0).expect("set");
            file.set_write_behind(0).expect("set");
        }
        latency(&file, 8);
        latency(&file, 4096);
    }
    file.close().expect("closed");
    node.unlink(path).expect("removed");
}
