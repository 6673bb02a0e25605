//! Records that processes of a job leave on their nodes, for whoever started the job to fetch: on real hosts
//! there is no folder that all see, and a launcher mixes what ranks print.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

use crate::error::Result;
use crate::random;

/// Tells the processes of a job how the files of their records begin.
pub const RECORDS_VAR: &str = "WIGLAF_RECORDS";
/// Where they are: each emulated node has a /tmp of its own.
const BEGIN: &str = "/tmp/wiglaf-records-";

/// A beginning of names that nobody can guess, and so has not put links there.
///
/// # Errors
/// When there is no randomness.
pub fn begin() -> Result<String> {
    Ok(format!("{BEGIN}{:016x}{:016x}", random::nonzero()?, random::nonzero()?))
}

/// Leaves the record of this process, which ends in a newline.
///
/// # Errors
/// When the file cannot be written, or is there already.
pub fn leave(begin: &str, text: &str) -> io::Result<()> {
    let path = format!("{begin}.{}", std::process::id());
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?
        .write_all(text.as_bytes())
}

/// A shell script that prints all records of a node and removes them.
#[must_use]
pub fn fetching(begin: &str) -> String {
    format!(
        "for f in {begin}.*; do if [ -f \"$f\" ]; then cat \"$f\"; rm -f \"$f\"; fi; done; exit 0"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_that_was_left_is_fetched_once() {
        let begin = begin().unwrap();
        leave(&begin, "one\n").unwrap();
        assert!(leave(&begin, "two\n").is_err(), "a record was written over");
        let fetch = || {
            let output = std::process::Command::new("sh").args(["-c", &fetching(&begin)]).output();
            String::from_utf8(output.unwrap().stdout).unwrap()
        };
        assert_eq!([fetch(), fetch()], ["one\n", ""]);
    }
}
