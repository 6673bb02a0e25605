//! The host list language: `node[01-64]`, `node[1-2,5]`, `a,b`.
//!
//! A list is a comma-separated sequence of names; a name may hold one or more
//! bracketed sets of numbers. Leading zeros fix the width. The expansion is
//! bounded, so that a slip such as `node[1-99999999]` is an error and not an
//! exhausted memory.

use std::collections::BTreeSet;
use std::fmt;

use crate::error::{Error, Result};

/// Most names one list may expand to.
pub const HOSTS_MAX: usize = 4096;
/// Longest host name, as in DNS.
const NAME_LEN_MAX: usize = 253;
/// Most digits of one number.
const DIGITS_MAX: usize = 9;

/// An ordered list of distinct host names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HostList(Vec<String>);

impl HostList {
    /// Reads a list; names that come twice are kept once.
    ///
    /// # Errors
    /// When the text is not a host list or expands to too many names.
    pub fn parse(text: &str) -> Result<Self> {
        let mut seen = BTreeSet::new();
        let mut names = Vec::new();
        for item in split_outside_brackets(text)? {
            for name in expand(item.trim(), text)? {
                if seen.insert(name.clone()) {
                    names.push(name);
                }
                if names.len() > HOSTS_MAX {
                    return Err(too_many(text));
                }
            }
        }
        Ok(Self(names))
    }

    /// `prefix1` to `prefixN`.
    #[must_use]
    pub fn numbered(prefix: &str, count: usize) -> Self {
        Self((1..=count).map(|i| format!("{prefix}{i}")).collect())
    }

    /// The names in order.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }
}

impl<S: Into<String>> FromIterator<S> for HostList {
    fn from_iter<I: IntoIterator<Item = S>>(names: I) -> Self {
        let mut seen = BTreeSet::new();
        Self(
            names.into_iter().map(Into::into).filter(|n: &String| seen.insert(n.clone())).collect(),
        )
    }
}

fn bad(text: &str, why: &str) -> Error {
    Error::new(format!("`{text}` is not a host list ({why}); write for example node[1-4] or a,b"))
}

fn too_many(text: &str) -> Error {
    Error::new(format!("the host list `{text}` names more than {HOSTS_MAX} hosts; make it shorter"))
}

/// Cuts at the commas that stand outside of brackets.
fn split_outside_brackets(text: &str) -> Result<Vec<&str>> {
    let mut items = Vec::new();
    let (mut inside, mut start) = (false, 0);
    for (at, c) in text.char_indices() {
        match c {
            '[' if inside => return Err(bad(text, "a bracket inside a bracket")),
            '[' => inside = true,
            ']' if !inside => return Err(bad(text, "`]` without `[`")),
            ']' => inside = false,
            ',' if !inside => {
                items.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err(bad(text, "`[` without `]`"));
    }
    items.push(&text[start..]);
    Ok(items)
}

/// All names of one item, which may hold several bracketed sets.
fn expand(item: &str, text: &str) -> Result<Vec<String>> {
    if item.is_empty() {
        return Err(bad(text, "an empty name"));
    }
    let mut names = vec![String::new()];
    let mut rest = item;
    while !rest.is_empty() {
        let (literal, set, tail) = next_part(rest);
        if !literal.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c)) {
            return Err(bad(text, "names consist of letters, digits, `-`, `_` and `.`"));
        }
        for name in &mut names {
            name.push_str(literal);
        }
        if let Some(set) = set {
            let numbers = expand_set(set, text)?;
            if names.len().saturating_mul(numbers.len()) > HOSTS_MAX {
                return Err(too_many(text));
            }
            names =
                names.iter().flat_map(|n| numbers.iter().map(move |k| format!("{n}{k}"))).collect();
        }
        // At once: 4096 names of any length, copied at each bracket, take gigabytes.
        if names.iter().any(|n| n.len() > NAME_LEN_MAX) {
            return Err(bad(text, "a name is too long"));
        }
        rest = tail;
    }
    Ok(names)
}

/// Literal text, the inside of the bracket behind it, and the rest.
fn next_part(text: &str) -> (&str, Option<&str>, &str) {
    let Some((literal, behind)) = text.split_once('[') else { return (text, None, "") };
    let (set, tail) = behind.split_once(']').unwrap_or((behind, ""));
    (literal, Some(set), tail)
}

/// The numbers of `1-3,07`, as text with their leading zeros.
fn expand_set(set: &str, text: &str) -> Result<Vec<String>> {
    let mut numbers = Vec::new();
    for range in set.split(',').map(str::trim) {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low_n, high_n) = (number(low, text)?, number(high, text)?);
        if low_n > high_n {
            return Err(bad(text, "a range runs backwards"));
        }
        if low.len() != high.len()
            && (low.starts_with('0') && low.len() > 1 || high.starts_with('0'))
        {
            return Err(bad(text, "both ends of a range with leading zeros need the same width"));
        }
        if (high_n - low_n) as usize >= HOSTS_MAX || numbers.len() > HOSTS_MAX {
            return Err(too_many(text));
        }
        let width = if low.starts_with('0') { low.len() } else { 1 };
        numbers.extend((low_n..=high_n).map(|n| format!("{n:0width$}")));
    }
    Ok(numbers)
}

fn number(digits: &str, text: &str) -> Result<u32> {
    if digits.is_empty() || digits.len() > DIGITS_MAX || !digits.bytes().all(|b| b.is_ascii_digit())
    {
        return Err(bad(text, "brackets hold numbers and ranges of numbers"));
    }
    digits.parse().map_err(|_| bad(text, "a number is too large"))
}

/// A run of names that share a prefix and the width of their last number.
struct Run<'a> {
    prefix: &'a str,
    width: usize,
    ranges: Vec<(u64, u64)>,
}

/// Prefix, number and width (0: no leading zeros) of a name that ends in digits.
fn dissect(name: &str) -> Option<(&str, u64, usize)> {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    // More digits than the parser reads stay literal text.
    let digits = digits.min(DIGITS_MAX);
    let (prefix, tail) = name.split_at(name.len() - digits);
    let number = tail.parse().ok()?;
    let width = if tail.len() > 1 && tail.starts_with('0') { tail.len() } else { 0 };
    Some((prefix, number, width))
}

impl fmt::Display for HostList {
    /// The compact form. Order is kept: only neighbours are joined.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = Vec::new();
        let mut run: Option<Run<'_>> = None;
        for name in &self.0 {
            let Some((prefix, number, width)) = dissect(name) else {
                parts.extend(run.take().map(|r| r.to_string()));
                parts.push(name.clone());
                continue;
            };
            match &mut run {
                Some(r) if r.prefix == prefix && r.takes(number, width) => r.add(number),
                _ => {
                    parts.extend(run.take().map(|r| r.to_string()));
                    run = Some(Run { prefix, width, ranges: vec![(number, number)] });
                }
            }
        }
        parts.extend(run.map(|r| r.to_string()));
        f.write_str(&parts.join(","))
    }
}

impl Run<'_> {
    /// Whether a number of this width would be printed back as it was.
    fn takes(&self, number: u64, width: usize) -> bool {
        if width == self.width {
            return true;
        }
        // 10 behind 09 has no leading zero but fits the width.
        width == 0 && self.width > 0 && number.to_string().len() == self.width
    }

    fn add(&mut self, number: u64) {
        match self.ranges.last_mut() {
            Some((_, high)) if *high + 1 == number => *high = number,
            _ => self.ranges.push((number, number)),
        }
    }
}

impl fmt::Display for Run<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { prefix, width, ranges } = self;
        if let [(only, last)] = ranges[..]
            && only == last
        {
            return write!(f, "{prefix}{only:0width$}");
        }
        let set: Vec<String> = ranges
            .iter()
            .map(|&(low, high)| match low == high {
                true => format!("{low:0width$}"),
                false => format!("{low:0width$}-{high:0width$}"),
            })
            .collect();
        write!(f, "{prefix}[{}]", set.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn names(text: &str) -> Vec<String> {
        HostList::parse(text).unwrap().names().to_vec()
    }

    #[test]
    fn lists_expand_in_order() {
        assert_eq!(names("node[1-2,5]"), ["node1", "node2", "node5"]);
        assert_eq!(names("b,a"), ["b", "a"]);
        assert_eq!(names("n[08-10]"), ["n08", "n09", "n10"]);
        assert_eq!(names("r[1-2]n[3-4].x"), ["r1n3.x", "r1n4.x", "r2n3.x", "r2n4.x"]);
        assert_eq!(names("a,a"), ["a"]);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in [
            "", ",", "a,", "n[", "n]", "n[]", "n[a]", "n[2-1]", "n[1-]", "n[[1]]", "a b", "ä",
            "n[01-2]",
        ] {
            assert!(HostList::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_expansion_is_bounded() {
        for text in ["n[1-4097]", "n[0-999999999]", "n[1-65][1-64]", "n[1-4096],m"] {
            let error = HostList::parse(text).unwrap_err().to_string();
            assert!(error.contains("more than 4096"), "{error}");
        }
        assert_eq!(names("n[1-64]x[1-64]").len(), 4096);
    }

    #[test]
    fn names_too_long_are_refused_before_they_have_grown() {
        // Expanded as a whole first, this is 4 GB of names, copied a million times.
        let text = format!("[0-4095]{}", "[1]".repeat(1_000_000));
        let error = HostList::parse(&text).unwrap_err().to_string();
        assert!(error.contains("a name is too long"), "{}", &error[error.len() - 200..]);
        assert_eq!(names(&"n".repeat(NAME_LEN_MAX)).len(), 1);
        assert!(HostList::parse(&"n".repeat(NAME_LEN_MAX + 1)).is_err());
    }

    #[test]
    fn printing_is_compact() {
        for text in
            ["node[1-2,5]", "a,b", "n[08-10]", "n[8-10]", "node7", "x1,y[2-3]", "n[1,3]", "n1,n01"]
        {
            assert_eq!(HostList::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(HostList::from_iter(["n1", "n2", "n3", "m"]).to_string(), "n[1-3],m");
    }

    proptest! {
        #[test]
        fn printed_lists_read_back(list in prop::collection::vec("[a-z]{0,2}[0-9]{0,3}[a-z]?[0-9]{0,11}", 1..12)) {
            let list: HostList = list.into_iter().filter(|n| !n.is_empty()).collect();
            prop_assume!(!list.names().is_empty());
            prop_assert_eq!(HostList::parse(&list.to_string()).unwrap(), list);
        }

        #[test]
        fn any_text_is_an_answer_and_not_a_panic(text in "[a-c0-9,\\[\\]\\-. é]{0,40}") {
            if let Ok(list) = HostList::parse(&text) {
                prop_assert!(list.names().len() <= HOSTS_MAX);
                prop_assert_eq!(HostList::parse(&list.to_string()).unwrap(), list);
            }
        }
    }
}
