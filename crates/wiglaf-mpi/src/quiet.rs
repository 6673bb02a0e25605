//! Takes one harmless warning out of mpirun's standard error.
//!
//! When it starts an agent, mpirun puts the child into a process group of its
//! own, from both sides of the fork. On a node that keeps to one core the child
//! often comes first, and mpirun then warns that the parent came second. Four
//! nodes on two busy cores show the warning in every other run.

use std::os::fd::OwnedFd;

use wiglaf_base::error::Result;
use wiglaf_base::passing::Passing;

/// What follows the host and the process, as versions 4 and 5 say it, and what ends it.
const STARTS: [&[u8]; 2] = [b"plm:rsh: Warning: setpgid(", b"plm:ssh: Warning: setpgid("];
const ENDS: &[u8] = b"failed in parent with errno=";
/// Longer lines of Open MPI's own do not exist.
const HELD_LEN_MAX: usize = 4096;

/// A stream for mpirun to complain to, which passes all but the warning on to `to`.
pub fn filter(to: OwnedFd) -> Result<(OwnedFd, Passing)> {
    let mut filter = Filter::default();
    Passing::begin(to, move |bytes| match bytes {
        Some(bytes) => filter.feed(bytes),
        None => std::mem::take(&mut filter.held),
    })
}

/// Holds back a line only while it may still become the warning.
#[derive(Debug, Default)]
struct Filter {
    held: Vec<u8>,
    inside_line: bool,
}

impl Filter {
    /// Takes what has come, gives what may go.
    fn feed(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            let ends = piece.ends_with(b"\n");
            if self.inside_line {
                out.extend_from_slice(piece);
                self.inside_line = !ends;
                continue;
            }
            self.held.extend_from_slice(piece);
            if ends && is_warning(&self.held) {
                self.held.clear();
            } else if ends || !may_become_warning(&self.held) || self.held.len() > HELD_LEN_MAX {
                out.append(&mut self.held);
                self.inside_line = !ends;
            }
        }
        out
    }
}

/// Whether a line may still become `[HOST:PID]` and the warning's words.
fn may_become_warning(line: &[u8]) -> bool {
    let Some(rest) = line.strip_prefix(b"[") else { return line.is_empty() };
    let len = |is_of: fn(&u8) -> bool, text: &[u8]| text.iter().take_while(|b| is_of(b)).count();
    let host = len(|b| b.is_ascii_alphanumeric() || b".-".contains(b), rest);
    // What is not all of the line so far must be followed by what comes next.
    let rest = match rest[host..].split_first() {
        None => return true,
        Some((b':', rest)) if host > 0 => rest,
        Some(_) => return false,
    };
    let pid = len(u8::is_ascii_digit, rest);
    let Some(rest) = rest[pid..].strip_prefix(b"] ").filter(|_| pid > 0) else {
        return b"]".starts_with(&rest[pid..]) && (pid > 0 || rest.is_empty());
    };
    STARTS.iter().any(|start| rest.starts_with(start) || start.starts_with(rest))
}

fn is_warning(line: &[u8]) -> bool {
    let ends = |line: &[u8]| line.windows(ENDS.len()).any(|window| window == ENDS);
    may_become_warning(line) && ends(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LINE: &str =
        "[node1:33] plm:rsh: Warning: setpgid(39,39) failed in parent with errno=13\n";

    fn through(text: &[u8], chunk_len: usize) -> Vec<u8> {
        let mut filter = Filter::default();
        let mut out: Vec<u8> = text.chunks(chunk_len).flat_map(|c| filter.feed(c)).collect();
        out.append(&mut filter.held);
        out
    }

    #[test]
    fn only_the_warning_is_taken_out() {
        let of_5 = LINE.replace("plm:rsh", "plm:ssh");
        let text = format!("before\n{LINE}[node1:1] other\nprompt: {LINE}{LINE}{of_5}");
        let expected = format!("before\n[node1:1] other\nprompt: {LINE}");
        for chunk_len in [1, 7, 1000] {
            assert_eq!(String::from_utf8(through(text.as_bytes(), chunk_len)).unwrap(), expected);
        }
    }

    #[test]
    fn a_prompt_is_not_held_back() {
        for text in ["name? ", "[y/N] ", "[#####     ] 50%", "[node1:33] busy", "[node1:] ", "[:1"]
        {
            let out = Filter::default().feed(text.as_bytes());
            assert_eq!(String::from_utf8(out).unwrap(), text);
        }
        for text in ["[", "[node1.lan", "[node1:3", "[node1:33] plm:rsh: Warning: setpgid(39"] {
            assert_eq!(Filter::default().feed(text.as_bytes()), b"", "it may become the warning");
        }
    }

    proptest! {
        #[test]
        fn everything_else_passes(text in "[a\\[\n]{0,40}", chunk_len in 1_usize..9) {
            prop_assert_eq!(through(text.as_bytes(), chunk_len), text.as_bytes());
        }
    }
}
