//! What the program stores for .TRUE., as `WIGLAF_FORTRAN_TRUE` says.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use wiglaf_interpose::complain;

/// Carries the value; `wiglaf run --fortran-true` sets it.
const VARIABLE: &str = "WIGLAF_FORTRAN_TRUE";

/// Whether .TRUE. is -1 in this process. A value that cannot be meant ends
/// the process: going on would be the silent error that we are here against.
pub(crate) fn true_is_minus_one() -> bool {
    static SETTING: OnceLock<bool> = OnceLock::new();
    *SETTING.get_or_init(|| {
        let value = std::env::var_os(VARIABLE).unwrap_or_default();
        parse(&value).unwrap_or_else(|| {
            let value = value.to_string_lossy();
            fail(&format!("{VARIABLE} is `{value}`; a compiler's .TRUE. is 1 or -1"))
        })
    })
}

fn parse(value: &OsStr) -> Option<bool> {
    match value.as_bytes() {
        b"" | b"1" => Some(false),
        b"-1" => Some(true),
        _ => None,
    }
}

/// Says one sentence and ends the process; the launcher ends the others.
pub(crate) fn fail(sentence: &str) -> ! {
    complain(crate::NAME, sentence);
    std::process::exit(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_two_values_are_meant() {
        let parsed = ["", "1", "-1", "0", "true", "-1 ", "2"].map(|v| parse(OsStr::new(v)));
        assert_eq!(parsed, [Some(false), Some(false), Some(true), None, None, None, None]);
    }
}
