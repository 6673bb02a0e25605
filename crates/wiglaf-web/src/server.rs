//! Listens, admits whoever has the token or knows the user's password, and answers with the page.

use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use wiglaf_base::{Error, Result};

use crate::http::{self, Answer, Method, Refused, Request, field, unescaped};
use crate::password::{Password, Tried};
use crate::token::Guard;
use crate::{Board, page};

/// Connections at once, of all and of one address: each has a thread.
const CONNECTIONS_MAX: usize = 64;
const OF_ADDRESS_MAX: usize = 24;
const STACK: usize = 512 << 10;

const HTML: &str = "text/html; charset=utf-8";

/// Serves one page.
pub struct Server {
    listener: TcpListener,
    guard: Guard,
    /// A session's cookie. Browsers keep those of all ports of an address together.
    cookie: String,
    password: Option<Password>,
    board: Arc<Board>,
    connections: Mutex<HashMap<IpAddr, usize>>,
}

impl Server {
    /// Listens there. Who has the token is shown what is on the board.
    ///
    /// # Errors
    /// When the address is that of all networks, or cannot be listened at.
    pub fn bind(address: SocketAddr, token: &str, board: Arc<Board>) -> Result<Self> {
        if address.ip().is_unspecified() {
            return Err(Error::new(
                "the page is served at one address, never at all of the machine",
            ));
        }
        let listener = TcpListener::bind(address).map_err(|error| {
            Error::new(format!(
                "cannot listen at {address}: {error}; add --port with another number, or --port 0 for any"
            ))
        })?;
        let port = listener.local_addr().map_or(0, |own| own.port());
        let (guard, cookie) = (Guard::new(token)?, format!("wiglaf-web-{port}"));
        let connections = Mutex::new(HashMap::new());
        Ok(Self { listener, guard, cookie, password: None, board, connections })
    }

    /// Who knows this password is shown the page as well. Nothing encrypts it on its way here.
    ///
    /// # Errors
    /// When the server listens elsewhere than on the loopback.
    pub fn with_password(self, password: Password) -> Result<Self> {
        match self.address()?.ip().is_loopback() {
            true => Ok(Self { password: Some(password), ..self }),
            false => Err(Error::new("a password is asked for at 127.0.0.1 alone")),
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// When the kernel does not tell.
    pub fn address(&self) -> Result<SocketAddr> {
        self.listener.local_addr().map_err(|error| Error::new(format!("cannot listen: {error}")))
    }

    /// Serves as long as the process lives.
    pub fn run(self) -> ! {
        let server = Arc::new(self);
        loop {
            // Out of descriptors, or the peer has gone already: neither ends the server.
            let Ok((stream, from)) = server.listener.accept() else {
                thread::sleep(Duration::from_millis(50));
                continue;
            };
            let Some(place) = server.clone().admit(from.ip()) else {
                // Its connection is closed without a word, which costs least.
                continue;
            };
            let serve = move || {
                let place = place;
                place.server.serve(&stream);
            };
            // Where there is no thread, the closure and with it the connection is dropped.
            drop(thread::Builder::new().stack_size(STACK).spawn(serve));
        }
    }

    fn admit(self: Arc<Self>, from: IpAddr) -> Option<Connection> {
        let mut connections = self.connections.lock().unwrap_or_else(PoisonError::into_inner);
        let all: usize = connections.values().sum();
        let own = connections.get(&from).copied().unwrap_or_default();
        if all >= CONNECTIONS_MAX || own >= OF_ADDRESS_MAX {
            return None;
        }
        connections.insert(from, own + 1);
        drop(connections);
        Some(Connection { server: self, from })
    }

    fn serve(&self, stream: &TcpStream) {
        let Ok(request) = http::read(stream) else { return };
        let (answer, wants_body) = match request {
            Ok(request) => (self.answer(&request), request.method != Method::Head),
            Err(refused) => (Answer::refused(refused), true),
        };
        if answer.write(stream, wants_body).is_err() {
            return;
        }
        // What is still unread would have the kernel reset the connection, and the answer lost with it.
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
        let _ = stream.take(64 << 10).read_to_end(&mut Vec::new());
    }

    fn answer(&self, request: &Request) -> Answer {
        let is_read = request.method != Method::Post;
        // These tell nothing of the cluster.
        match request.path.as_str() {
            "/style.css" if is_read => {
                return Answer::new("text/css; charset=utf-8", page::STYLE);
            }
            "/page.js" if is_read => {
                return Answer::new("text/javascript; charset=utf-8", page::SCRIPT);
            }
            "/icon.svg" if is_read => return Answer::new("image/svg+xml", page::ICON),
            "/sign-in" if !is_read => {
                let body = String::from_utf8_lossy(&request.body);
                return match (field(&body, "password"), &self.password) {
                    (Some(_), Some(password)) => {
                        self.sign_in_by(password, &unescaped(&body, "password").unwrap_or_default())
                    }
                    _ => self.sign_in(field(&body, "token").unwrap_or_default()),
                };
            }
            _ => {}
        }
        if !is_read {
            return Answer::refused(Refused(405, "Method Not Allowed"));
        }
        if request.path == "/"
            && let Some(token) = field(&request.query, "token")
        {
            return self.sign_in(token);
        }
        let mut cookies = request.cookies.iter().filter_map(|cookie| cookie.split_once('='));
        if !cookies.any(|(name, value)| name == self.cookie && self.guard.knows(value)) {
            return match request.path.as_str() {
                "/" => self.asks("", Refused(401, "Unauthorized")),
                _ => Answer::refused(Refused(401, "Unauthorized")),
            };
        }
        match request.path.as_str() {
            "/" => Answer::new(HTML, page::whole(&self.board.look())),
            "/part" => Answer::new(HTML, page::part(&self.board.look())),
            "/state.json" => match serde_json::to_vec(&*self.board.look()) {
                Ok(json) => Answer::new("application/json", json),
                Err(_) => Answer::refused(Refused(500, "Internal Server Error")),
            },
            _ => Answer::refused(Refused(404, "Not Found")),
        }
    }

    /// The page that asks who it is.
    fn asks(&self, wrong: &str, Refused(status, why): Refused) -> Answer {
        let user = self.password.as_ref().map(Password::user);
        Answer { status, why, ..Answer::new(HTML, page::sign_in(wrong, user)) }
    }

    fn sign_in(&self, token: &str) -> Answer {
        match self.guard.begin(token) {
            Some(session) => self.signed_in(&session),
            None => self.asks("This is not the token.", Refused(401, "Unauthorized")),
        }
    }

    fn sign_in_by(&self, password: &Password, text: &str) -> Answer {
        match password.try_one(text) {
            Tried::Right => match self.guard.begin_anyway() {
                Some(session) => self.signed_in(&session),
                None => Answer::refused(Refused(500, "Internal Server Error")),
            },
            Tried::Wrong => self.asks(
                "This is not the password, or another machine keeps it. The token lets you in.",
                Refused(401, "Unauthorized"),
            ),
            Tried::TooSoon => self.asks(
                "A wrong password was given just before: try again in two seconds, after five wrong ones in ten minutes. \
                 The token lets you in.",
                Refused(429, "Too Many Requests"),
            ),
        }
    }

    fn signed_in(&self, session: &str) -> Answer {
        // Another address, so that the token does not stay in the browser's line.
        Answer { status: 303, why: "See Other", ..Answer::new(HTML, "") }
            .with("Location", "/")
            .with(
                "Set-Cookie",
                format!("{}={session}; HttpOnly; SameSite=Strict; Path=/", self.cookie),
            )
    }
}

/// Counted until it is dropped, also by a panic.
struct Connection {
    server: Arc<Server>,
    from: IpAddr,
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut connections =
            self.server.connections.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = connections.get_mut(&self.from) {
            *own -= 1;
            if *own == 0 {
                connections.remove(&self.from);
            }
        }
    }
}
