//! Which peers were lost, and why, for who asks for the text of an error.

use std::ffi::CStr;
use std::sync::Arc;

/// So many different texts are kept; further losses have the last one's.
const LOSSES_MAX: usize = 64;

/// Texts of losses that were read. Applications may look at them for as long as there is the queue.
#[derive(Default)]
pub(super) struct Losses(Vec<Arc<CStr>>);

impl Losses {
    /// A loss has been read.
    pub(super) fn note(&mut self, loss: Option<&Arc<CStr>>) {
        let Some(loss) = loss else { return };
        match self.0.iter().position(|known| known == loss) {
            Some(at) => {
                let last = self.0.len() - 1;
                self.0.swap(at, last);
            }
            None if self.0.len() < LOSSES_MAX => self.0.push(Arc::clone(loss)),
            None => {}
        }
    }

    /// The one that was read last.
    pub(super) fn last(&self) -> Option<&CStr> {
        self.0.last().map(|loss| &**loss)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_that_was_read_last_is_told_and_no_text_is_ever_let_go() {
        let mut losses = Losses::default();
        losses.note(None);
        assert_eq!(losses.last(), None);
        let [one, two] = [c"one", c"two"].map(Arc::<CStr>::from);
        losses.note(Some(&one));
        let first = losses.last().expect("one").as_ptr();
        losses.note(Some(&two));
        assert_eq!(losses.last(), Some(c"two"));
        losses.note(Some(&one));
        assert_eq!(losses.last().map(CStr::as_ptr), Some(first));
        for n in 0..1000 {
            let text = std::ffi::CString::new(n.to_string()).expect("digits");
            losses.note(Some(&Arc::from(text)));
        }
        assert_eq!(losses.0.len(), LOSSES_MAX);
        assert!(losses.0.iter().any(|loss| loss.as_ptr() == first));
    }
}
