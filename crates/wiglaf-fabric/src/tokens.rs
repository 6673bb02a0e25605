//! Stand-ins for contexts.
//!
//! An operation usually carries the application's context through the endpoint and back. A few need
//! more to be known when they complete: with counters, a silent operation is counted but not shown,
//! a peek is shown but not counted; and a peek that discards takes two steps, one of which nobody
//! asked for. These carry a token, an address that no context of the application can equal.

use std::collections::HashMap;

/// What is to be known when an operation completes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Counted, and shown only if it fails.
    Silent,
    /// Counted, and never shown: what was injected has no context.
    Nobodys,
    /// Counted, and shown only if it fails: a receive, which its user may cancel.
    SilentRecv,
    /// Shown, not counted.
    Peek,
    /// Shown, not counted; the message found waits under the same token.
    PeekClaim,
    /// Shown, not counted; the message found is to be discarded.
    PeekDiscard,
    /// A message claimed under this token: its receive is counted and shown.
    Claimed,
    /// The discarding itself: neither.
    Discard,
}

#[derive(Debug)]
struct Token {
    context: usize,
    meaning: Meaning,
    /// What makes the token's address unique while it lives.
    _place: Box<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Tokens {
    live: HashMap<usize, Token>,
}

impl Tokens {
    /// A token for an operation with that context.
    pub(crate) fn issue(&mut self, context: usize, meaning: Meaning) -> usize {
        let place = Box::new(0);
        let key = std::ptr::from_ref::<u8>(&place).addr();
        self.live.insert(key, Token { context, meaning, _place: place });
        key
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.live.is_empty()
    }

    /// What the token stands for; `None` for a plain context.
    pub(crate) fn get(&self, key: usize) -> Option<(usize, Meaning)> {
        if self.live.is_empty() {
            return None;
        }
        self.live.get(&key).map(|token| (token.context, token.meaning))
    }

    /// Gives a live token another meaning.
    pub(crate) fn turn(&mut self, key: usize, meaning: Meaning) {
        if let Some(token) = self.live.get_mut(&key) {
            token.meaning = meaning;
        }
    }

    /// Withdraws a token.
    pub(crate) fn drop_token(&mut self, key: usize) {
        self.live.remove(&key);
    }

    /// The tokens that stand for `context` with that meaning.
    pub(crate) fn find(&self, context: usize, meaning: Meaning) -> impl Iterator<Item = usize> {
        let fits = move |token: &Token| token.context == context && token.meaning == meaning;
        self.live.iter().filter(move |(_, token)| fits(token)).map(|(&key, _)| key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_lead_back_to_contexts() {
        let mut tokens = Tokens::default();
        assert_eq!(tokens.get(5), None);
        let first = tokens.issue(5, Meaning::Silent);
        let second = tokens.issue(5, Meaning::PeekClaim);
        assert_ne!(first, second);
        assert_eq!(tokens.get(first), Some((5, Meaning::Silent)));
        assert_eq!(tokens.find(5, Meaning::Claimed).next(), None);
        tokens.turn(second, Meaning::Claimed);
        assert_eq!(tokens.find(5, Meaning::Claimed).next(), Some(second));
        tokens.drop_token(second);
        assert_eq!(tokens.get(second), None);
        assert_eq!(tokens.get(5), None);
    }
}
