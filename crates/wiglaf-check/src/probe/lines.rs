//! Requests and answers as lines of JSON: what ssh carries well.

use std::io::{BufRead, BufReader, Read, Write};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use super::{Answer, Request};

/// No request and no answer is longer, in bytes.
pub(super) const LINE_LEN_MAX: u64 = 1 << 20;
/// Lines before the first answer that are no answers: a login shell may greet.
const GREETING_LINES_MAX: usize = 1000;

/// One side of a pair, as the caller has it.
pub trait Side {
    /// Sends a request, without waiting for the answer.
    ///
    /// # Errors
    /// Why the side cannot be asked any more.
    fn post(&mut self, request: &Request) -> Result<(), String>;

    /// Takes the next answer.
    ///
    /// # Errors
    /// Why there is none; the side is of no use any more.
    fn take(&mut self, limit: Duration) -> Result<Answer, String>;
}

/// A side at the other end of two streams, such as the standard input and output of an ssh.
#[derive(Debug)]
pub struct Lines<W> {
    to: W,
    answers: mpsc::Receiver<Result<Answer, String>>,
    /// Why it is of no use any more: an answer that comes too late would be taken for the next.
    broken: Option<String>,
}

impl<W: Write> Lines<W> {
    /// Reads answers on a thread, which ends with `from`.
    ///
    /// # Panics
    /// When the system has no more threads.
    pub fn new(from: impl Read + Send + 'static, to: W) -> Self {
        let (give, answers) = mpsc::channel();
        let read = move || {
            let mut from = BufReader::new(from);
            let mut greeting = Some(0);
            while let Some(line) = next_line(&mut from) {
                let answer = match (serde_json::from_str(&line), &mut greeting) {
                    (Ok(answer), _) => Ok(answer),
                    (Err(_), Some(lines)) if *lines < GREETING_LINES_MAX => {
                        *lines += 1;
                        continue;
                    }
                    (Err(why), _) => Err(format!("it says {:?} ({why})", shortened(&line))),
                };
                greeting = None;
                if give.send(answer).is_err() {
                    break;
                }
            }
        };
        std::thread::Builder::new().name("answers".to_owned()).spawn(read).expect("a thread");
        Self { to, answers, broken: None }
    }
}

impl<W: Write> Side for Lines<W> {
    fn post(&mut self, request: &Request) -> Result<(), String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let mut line = serde_json::to_vec(request).map_err(|why| why.to_string())?;
        line.push(b'\n');
        let sent = self.to.write_all(&line).and_then(|()| self.to.flush());
        sent.map_err(|why| format!("its wiglaf host-probe has ended ({why})"))
    }

    fn take(&mut self, limit: Duration) -> Result<Answer, String> {
        if let Some(why) = &self.broken {
            return Err(why.clone());
        }
        let answer = match self.answers.recv_timeout(limit) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => {
                Err(format!("it was silent for {} s", limit.as_secs()))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err("its wiglaf host-probe has ended".to_owned())
            }
        };
        answer.inspect_err(|why| self.broken = Some(why.clone()))
    }
}

/// The next line; `None` after the last, and when one is too long.
pub(super) fn next_line(from: &mut impl BufRead) -> Option<String> {
    let mut line = Vec::new();
    from.by_ref().take(LINE_LEN_MAX).read_until(b'\n', &mut line).ok()?;
    if line.is_empty() || (line.len() as u64 == LINE_LEN_MAX && line.last() != Some(&b'\n')) {
        return None;
    }
    Some(String::from_utf8_lossy(&line).trim().to_owned())
}

fn shortened(line: &str) -> String {
    line.chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_greeting_is_skipped_and_rubbish_between_answers_is_named() {
        let text =
            "Welcome!\nYou have \"mail\".\n\"done\"\n{\"seen\":3}\nSegmentation fault\n\"done\"\n";
        let mut side = Lines::new(text.as_bytes(), Vec::new());
        assert_eq!(side.take(LIMIT), Ok(Answer::Done));
        assert_eq!(side.take(LIMIT), Ok(Answer::Seen(3)));
        assert!(side.take(LIMIT).unwrap_err().contains("Segmentation fault"));
        // What it says later may be the answer to anything.
        assert!(side.take(LIMIT).is_err() && side.post(&Request::Close).is_err());
    }

    #[test]
    fn an_end_and_a_silence_are_told_apart() {
        let mut ended = Lines::new(&b""[..], Vec::new());
        assert!(ended.take(LIMIT).unwrap_err().contains("has ended"));
        let (_kept, from) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut silent = Lines::new(from, Vec::new());
        assert!(silent.take(Duration::from_millis(10)).unwrap_err().contains("was silent"));
    }

    #[test]
    fn a_line_without_an_end_is_not_read_for_ever() {
        assert_eq!(next_line(&mut BufReader::new(std::io::repeat(b'x'))), None);
        assert_eq!(next_line(&mut &b"last"[..]).as_deref(), Some("last"));
    }
}
