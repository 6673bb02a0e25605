//! Words of a page, as HTML.

use std::fmt::Write as _;

/// So much of a name or a sentence of others is shown.
const CHARS_MAX: usize = 300;

/// Text as HTML, also within an attribute in double quotes.
pub(crate) fn text(from: &str) -> String {
    let mut html = String::with_capacity(from.len());
    for (at, c) in from.chars().enumerate() {
        match c {
            _ if at == CHARS_MAX => {
                html.push('…');
                break;
            }
            '&' => html += "&amp;",
            '<' => html += "&lt;",
            '>' => html += "&gt;",
            '"' => html += "&quot;",
            '\'' => html += "&#39;",
            // Also those that turn the direction of what is written after them.
            '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => {
                let _ = write!(html, "{}", c.escape_unicode());
            }
            c if c.is_control() => {
                let _ = write!(html, "{}", c.escape_default());
            }
            c => html.push(c),
        }
    }
    html
}

/// A speed in words.
pub(crate) fn speed(mbit_per_s: u64) -> String {
    match mbit_per_s {
        0..1000 => format!("{mbit_per_s} Mbit/s"),
        #[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
        _ => format!("{} Gbit/s", mbit_per_s as f64 / 1000.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_makes_no_marks_and_turns_nothing_around() {
        assert_eq!(text("<b a=\"x\" c='y'>&"), "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;");
        assert_eq!(text("a\u{1b}[2J\u{202e}b"), "a\\u{1b}[2J\\u{202e}b");
        assert_eq!(text(&"x".repeat(9999)).chars().count(), CHARS_MAX + 1);
    }
}
