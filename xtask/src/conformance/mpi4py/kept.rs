//! What a start of the runner found, kept so that a run that was interrupted goes on where it was:
//! all of them take hours.
//!
//! Beside the ranks' texts lies a file that says what was run and how it ended. It is written when
//! the start is over, so one that was interrupted has none and is run again.

use std::fs;
use std::path::Path;

const FILE: &str = "ended";
const BY_ITSELF: &str = "by itself";
const SILENT: &str = "silent";

/// Writes down that `what` is over; `by_itself`: it was not ended for its silence.
pub(super) fn keep(folder: &Path, what: &str, by_itself: bool) -> Result<(), String> {
    let path = folder.join(FILE);
    let how = if by_itself { BY_ITSELF } else { SILENT };
    fs::write(&path, format!("{how}\n{what}\n")).map_err(|why| format!("{}: {why}", path.display()))
}

/// How `what` ended there, if it is over; `None` also for anything else that was run there.
pub(super) fn kept(folder: &Path, what: &str) -> Option<bool> {
    let text = fs::read_to_string(folder.join(FILE)).ok()?;
    let (how, then) = text.split_once('\n')?;
    (then.trim_end() == what).then_some(how == BY_ITSELF)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_that_is_over_is_taken() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(kept(dir.path(), "commit a, test_x"), None);
        keep(dir.path(), "commit a, test_x", true).unwrap();
        assert_eq!(kept(dir.path(), "commit a, test_x"), Some(true));
        assert_eq!(kept(dir.path(), "commit b, test_x"), None);
        keep(dir.path(), "commit a, test_x", false).unwrap();
        assert_eq!(kept(dir.path(), "commit a, test_x"), Some(false));
    }
}
