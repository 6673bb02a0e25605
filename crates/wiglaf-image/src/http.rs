//! As much of HTTP/1.1 (RFC 9112) as iPXE and our own installer speak: one request on each connection, no body but the
//! answer's.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use wiglaf_base::error::{Context, Error, Result};

/// Longest head of a request or an answer, in bytes.
const HEAD_LEN_MAX: u64 = 8192;
/// Until a peer that says nothing is given up.
const PATIENCE: Duration = Duration::from_secs(60);

/// What is answered.
pub(crate) enum Answer {
    /// A short text.
    Text(String),
    /// A file of that length.
    File(std::fs::File, u64),
    /// Nothing: a status and why.
    Refused(u16, &'static str),
}

/// Reads a request's method and path.
pub(crate) fn request(stream: &TcpStream) -> io::Result<(String, String)> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.take(HEAD_LEN_MAX));
    let mut first = String::new();
    reader.read_line(&mut first)?;
    // Its headers do not matter.
    let mut line = String::new();
    while reader.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = first.split(' ');
    match (words.next(), words.next()) {
        (Some(method), Some(path)) => Ok((method.to_owned(), path.to_owned())),
        _ => Err(io::Error::other("no request")),
    }
}

/// Answers.
pub(crate) fn answer(mut stream: &TcpStream, with: Answer, wants_body: bool) -> io::Result<()> {
    let mut head = |status: &str, len: u64| {
        write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {len}\r\nConnection: close\r\n\r\n")
    };
    match with {
        Answer::Text(text) => {
            head("200 OK", text.len() as u64)?;
            if wants_body { stream.write_all(text.as_bytes()) } else { Ok(()) }
        }
        Answer::File(file, len) => {
            head("200 OK", len)?;
            if wants_body { io::copy(&mut file.take(len), &mut stream).map(drop) } else { Ok(()) }
        }
        Answer::Refused(status, why) => head(&format!("{status} {why}"), 0),
    }
}

/// Asks a server, `http://ADDRESS:PORT`, for a path. Answers the body and its length.
pub(crate) fn ask(server: &str, method: &str, path: &str) -> Result<(impl Read, u64)> {
    let address = server.strip_prefix("http://").and_then(|text| text.parse::<SocketAddr>().ok());
    let address = address.ok_or_else(|| {
        Error::new(format!("`{server}` is no server; name one such as http://192.168.77.1:8077"))
    })?;
    let cannot = || format!("ask {server} for {path}");
    let stream = TcpStream::connect_timeout(&address, PATIENCE).cannot(cannot)?;
    let talk = || -> io::Result<(BufReader<TcpStream>, String, u64)> {
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        (&stream).write_all(
            format!("{method} {path} HTTP/1.1\r\nHost: {address}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                .as_bytes(),
        )?;
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut line = || -> io::Result<String> {
            let mut text = String::new();
            (&mut reader).take(HEAD_LEN_MAX).read_line(&mut text)?;
            Ok(text.trim_end().to_owned())
        };
        let status = line()?;
        let mut len = 0;
        for _ in 0..100 {
            let text = line()?;
            if text.is_empty() {
                break;
            }
            if let Some((name, value)) = text.split_once(':')
                && name.eq_ignore_ascii_case("content-length")
            {
                len = value.trim().parse().map_err(io::Error::other)?;
            }
        }
        Ok((reader, status, len))
    };
    let (reader, status, len) = talk().cannot(cannot)?;
    match status.split_once(' ') {
        Some((_, code)) if code.starts_with("200") => Ok((reader.take(len), len)),
        Some((_, why)) => Err(Error::new(format!("{server} refuses {path}: {why}"))),
        None => Err(Error::new(format!("{server} does not speak HTTP"))),
    }
}
