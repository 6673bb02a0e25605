//! Words for shells.

/// A word as every shell reads it back.
#[must_use]
pub fn quoted(word: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./,:=+@%".contains(&b);
    if !word.is_empty() && word.bytes().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_read_back_what_is_quoted() {
        for value in ["", "plain", "two words", "a;b", "it's", "^ofi", "$HOME `x` \"y\" \\"] {
            let script = format!("printf %s {}", quoted(value));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), value);
        }
    }
}
