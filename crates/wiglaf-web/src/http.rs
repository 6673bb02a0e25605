//! Requests of browsers within bounds, and answers with the headers that keep other pages out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Longest head of a request, in bytes.
const HEAD_LEN_MAX: usize = 8 << 10;
/// So many headers.
const HEADERS_MAX: usize = 64;
/// Longest path with its query.
const TARGET_LEN_MAX: usize = 512;
/// Longest body: a form with a token.
const BODY_LEN_MAX: usize = 1 << 10;
/// A request has to be there by then, and its answer taken in as much again, however slowly bytes come.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the page needs: of this server alone, and never shown in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      form-action 'self'; base-uri 'none'; frame-ancestors 'none'";

/// What may be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
}

/// A request.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) cookies: Vec<String>,
    pub(crate) body: Vec<u8>,
}

/// Why there is no request: a status and what it means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused(pub(crate) u16, pub(crate) &'static str);

const BAD: Refused = Refused(400, "Bad Request");
const TOO_LARGE: Refused = Refused(431, "Request Header Fields Too Large");

/// What a form or a query gives a name, where that needs no unescaping.
pub(crate) fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.split('&')
        .find_map(|part| part.split_once('=').filter(|(key, _)| *key == name))
        .map(|(_, value)| value)
}

/// The value that a form or a query gives a name, with a form's escapes undone (URL standard,
/// application/x-www-form-urlencoded). None where it is no text.
pub(crate) fn unescaped(text: &str, name: &str) -> Option<String> {
    let mut bytes = Vec::new();
    let mut rest = field(text, name)?.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
                u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}

/// A stream that ends at a time, not only when it has been silent for long.
struct Until<'a>(&'a TcpStream, Instant);

impl Until<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.1.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
    }
}

impl Read for Until<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.set_read_timeout(Some(self.left()?))?;
        self.0.read(into)
    }
}

impl Write for Until<'_> {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.0.set_write_timeout(Some(self.left()?))?;
        self.0.write(from)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Reads a request. Nothing is answered to one who went away.
pub(crate) fn read(stream: &TcpStream) -> io::Result<Result<Request, Refused>> {
    let mut stream = Until(stream, Instant::now() + PATIENCE);
    let mut text = vec![0; HEAD_LEN_MAX + BODY_LEN_MAX];
    let mut len = 0;
    loop {
        let read = match stream.read(&mut text[len..]) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), ErrorKind::TimedOut | ErrorKind::WouldBlock) => {
                return Ok(Err(Refused(408, "Request Timeout")));
            }
            Err(error) => return Err(error),
        };
        len += read;
        match parse(&text[..len]) {
            Ok(None) if len == text.len() => return Ok(Err(TOO_LARGE)),
            Ok(None) => {}
            Ok(Some(request)) => return Ok(Ok(request)),
            Err(refused) => return Ok(Err(refused)),
        }
    }
}

/// A whole request, or nothing yet.
fn parse(text: &[u8]) -> Result<Option<Request>, Refused> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut head = httparse::Request::new(&mut headers);
    let head_len = match head.parse(text) {
        Ok(httparse::Status::Complete(len)) if len <= HEAD_LEN_MAX => len,
        Ok(httparse::Status::Partial) if text.len() <= HEAD_LEN_MAX => return Ok(None),
        Ok(_) | Err(httparse::Error::TooManyHeaders) => return Err(TOO_LARGE),
        Err(_) => return Err(BAD),
    };
    let method = match head.method {
        Some("GET") => Method::Get,
        Some("HEAD") => Method::Head,
        Some("POST") => Method::Post,
        _ => return Err(Refused(405, "Method Not Allowed")),
    };
    let target = head.path.unwrap_or_default();
    if target.len() > TARGET_LEN_MAX {
        return Err(Refused(414, "URI Too Long"));
    }
    if !target.starts_with('/') {
        return Err(BAD);
    }
    let (path, query) = target.split_once('?').unwrap_or((target, ""));
    let mut body_len: Option<usize> = None;
    let mut cookies = Vec::new();
    for header in &*head.headers {
        let value = || std::str::from_utf8(header.value).map_err(|_| BAD);
        if header.name.eq_ignore_ascii_case("content-length") {
            let given = value()?;
            // Two of them, a sign, a list: whoever sends such means no good.
            if body_len.is_some() || !given.bytes().all(|byte| byte.is_ascii_digit()) {
                return Err(BAD);
            }
            body_len = Some(given.parse().map_err(|_| Refused(413, "Content Too Large"))?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Refused(411, "Length Required"));
        } else if header.name.eq_ignore_ascii_case("cookie") {
            cookies.extend(value()?.split(';').map(|cookie| cookie.trim().to_owned()));
        }
    }
    let body_len = body_len.unwrap_or(0);
    if body_len > BODY_LEN_MAX {
        return Err(Refused(413, "Content Too Large"));
    }
    let Some(body) = text.get(head_len..head_len + body_len) else { return Ok(None) };
    Ok(Some(Request {
        method,
        path: path.to_owned(),
        query: query.to_owned(),
        cookies,
        body: body.to_vec(),
    }))
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) why: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) body: Vec<u8>,
    /// Further headers, none of which holds what somebody else has said.
    pub(crate) headers: Vec<(&'static str, String)>,
}

impl Answer {
    pub(crate) fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Self {
        Self { status: 200, why: "OK", kind, body: body.into(), headers: Vec::new() }
    }

    pub(crate) fn refused(Refused(status, why): Refused) -> Self {
        let body = format!("{status} {why}\n");
        Self { status, why, ..Self::new("text/plain; charset=utf-8", body) }
    }

    pub(crate) fn with(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// Writes it, and ends the connection.
    pub(crate) fn write(&self, stream: &TcpStream, wants_body: bool) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\
             Content-Security-Policy: {POLICY}\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
             Referrer-Policy: no-referrer\r\nCross-Origin-Resource-Policy: same-origin\r\nCache-Control: no-store\r\n",
            self.status,
            self.why,
            self.kind,
            self.body.len()
        );
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += "\r\n";
        let mut stream = Until(stream, Instant::now() + PATIENCE);
        stream.write_all(head.as_bytes())?;
        if wants_body {
            stream.write_all(&self.body)?;
        }
        stream.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &[u8]) -> u16 {
        parse(text).unwrap_err().0
    }

    #[test]
    fn requests_out_of_bounds_are_refused_with_their_status() {
        assert_eq!(refused(b"DELETE / HTTP/1.1\r\n\r\n"), 405);
        assert_eq!(refused(b"GET http://other/ HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused(b"GET /\x01 HTTP/1.1\r\n\r\n"), 400);
        assert_eq!(refused(b"nonsense\r\n\r\n"), 400);
        assert_eq!(
            refused(format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(TARGET_LEN_MAX)).as_bytes()),
            414
        );
        let many = "A: b\r\n".repeat(HEADERS_MAX + 1);
        assert_eq!(refused(format!("GET / HTTP/1.1\r\n{many}\r\n").as_bytes()), 431);
        let long = format!("GET / HTTP/1.1\r\nA: {}", "b".repeat(HEAD_LEN_MAX));
        assert_eq!(refused(long.as_bytes()), 431);
        for (headers, status) in [
            ("Content-Length: 99999", 413),
            ("Content-Length: 99999999999999999999999", 413),
            ("Content-Length: +1", 400),
            ("Content-Length: 1\r\nContent-Length: 1", 400),
            ("Transfer-Encoding: chunked", 411),
            ("Cookie: \u{ff}", 200),
        ] {
            let text = format!("POST /in HTTP/1.1\r\n{headers}\r\n\r\n");
            let seen = parse(text.as_bytes()).map_or_else(|refused| refused.0, |_| 200);
            assert_eq!(seen, status, "{headers}");
        }
        assert_eq!(refused(b"GET / HTTP/1.1\r\nCookie: \xff\r\n\r\n"), 400);
    }

    #[test]
    fn form_is_unescaped_and_what_is_no_text_is_none() {
        let value = |text: &str| unescaped(text, "password");
        assert_eq!(value("password=a+b%2B%26%c3%A9").as_deref(), Some("a b+&\u{e9}"));
        assert_eq!(value("password=").as_deref(), Some(""));
        for odd in ["password=%", "password=%4", "password=%zz", "password=%ff", "token=x"] {
            assert_eq!(value(odd), None, "{odd}");
        }
    }

    #[test]
    fn request_is_whole_with_its_body_only() {
        let text = b"POST /in?next=1 HTTP/1.1\r\nContent-Length: 9\r\nCookie: a=1; wiglaf=xy\r\n\r\ntoken=abc";
        for len in 0..text.len() {
            assert!(parse(&text[..len]).unwrap().is_none(), "{len}");
        }
        let request = parse(text).unwrap().unwrap();
        assert_eq!((request.method, request.path.as_str()), (Method::Post, "/in"));
        assert_eq!(request.cookies, ["a=1", "wiglaf=xy"]);
        assert_eq!(field(&String::from_utf8_lossy(&request.body), "token"), Some("abc"));
        assert_eq!((field(&request.query, "next"), field("a&b=", "a")), (Some("1"), None));
    }
}
