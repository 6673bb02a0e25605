//! A number that a program prints, which must be the same in all runs.

use std::str::FromStr;

use regex_automata::meta::Regex;
use serde::Serialize;

/// Which number, and by how much it may differ.
#[derive(Debug, Clone)]
pub struct Check {
    text: String,
    pattern: Regex,
    tolerance: f64,
}

impl FromStr for Check {
    type Err = String;

    /// Reads `REGEX` or `REGEX:TOL`.
    fn from_str(text: &str) -> Result<Self, String> {
        let tolerance = |text: &str| number(text).filter(|tolerance| *tolerance >= 0.0);
        let split = text.rsplit_once(':').and_then(|(head, tail)| Some((head, tolerance(tail)?)));
        let (pattern, tolerance) = split.unwrap_or((text, 0.0));
        if pattern.is_empty() {
            return Err(
                "the pattern is empty; write one such as 'total energy = (\\S+):1e-8'".into()
            );
        }
        let compiled = Regex::new(pattern).map_err(|error| {
            let cause = error.syntax_error().map_or_else(|| error.to_string(), ToString::to_string);
            let cause = cause.lines().last().unwrap_or_default();
            format!("`{pattern}` is no regular expression: {}", cause.trim_start_matches("error: "))
        })?;
        Ok(Self { text: pattern.to_owned(), pattern: compiled, tolerance })
    }
}

impl Check {
    /// The number in the last match: that of its first group, or else the first number after or in it.
    #[must_use]
    pub fn find(&self, output: &str) -> Option<f64> {
        let found = self.pattern.captures_iter(output).last()?;
        match found.get_group(1) {
            Some(group) => number(&output[group.range()]),
            None => {
                let whole = found.get_match()?;
                let line = output[whole.end()..].lines().next().unwrap_or_default();
                first_number(line).or_else(|| first_number(&output[whole.range()]))
            }
        }
    }

    /// The pattern, as it was written.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.text
    }

    /// By how much numbers may differ.
    #[must_use]
    pub fn tolerance(&self) -> f64 {
        self.tolerance
    }

    /// The numbers that lie farthest apart, if they do so by more than the tolerance.
    #[must_use]
    pub fn difference(&self, values: &[f64]) -> Option<Difference> {
        let at = |better: fn(&f64, &f64) -> bool| {
            (0..values.len()).reduce(|a, b| if better(&values[b], &values[a]) { b } else { a })
        };
        let least = at(|a, b| a < b)?;
        let greatest = at(|a, b| a > b)?;
        let is_far = values[greatest] - values[least] > self.tolerance;
        let strange = values.iter().position(|value| !value.is_finite());
        match strange {
            Some(strange) => Some(Difference { runs: [strange, strange] }),
            None => is_far.then_some(Difference { runs: [least, greatest] }),
        }
    }
}

/// Two runs whose numbers differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Their places in the list; twice the same for what is no number.
    pub runs: [usize; 2],
}

/// The first word of a line that is a number.
fn first_number(line: &str) -> Option<f64> {
    let words = line.split(|c: char| c.is_whitespace() || "=:,;()[]".contains(c));
    words.filter(|word| word.bytes().any(|b| b.is_ascii_digit())).find_map(number)
}

/// A number as C or Fortran prints it: `1.5`, `-2E3`, `-2.0D+03`.
fn number(text: &str) -> Option<f64> {
    text.trim().replace(['d', 'D'], "e").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_found_as_programs_print_it() {
        for (check, output, expected) in [
            ("energy = *(\\S+)", "energy =  -1.5\nenergy = -2.0D+01 Ry\n", Some(-20.0)),
            ("!.*energy", "!    total energy              =     -15.85 Ry", Some(-15.85)),
            ("sum 42", "sum 42\n", Some(42.0)),
            ("E=(\\d+):1e-6", "E=7", Some(7.0)),
            ("energy", "no such line", None),
            ("energy", "energy unknown", None),
            ("energy (\\w+)", "energy unknown", None),
        ] {
            assert_eq!(check.parse::<Check>().unwrap().find(output), expected, "{check}");
        }
    }

    #[test]
    fn tolerance_stands_behind_the_last_colon() {
        let of = |text: &str| {
            let check: Check = text.parse().unwrap();
            (check.pattern().to_owned(), check.tolerance())
        };
        assert_eq!(of("a:1e-8"), ("a".to_owned(), 1e-8));
        assert_eq!(of("a: b"), ("a: b".to_owned(), 0.0));
        assert_eq!(of("step:1:0"), ("step:1".to_owned(), 0.0));
        assert_eq!(of("a:-1"), ("a:-1".to_owned(), 0.0));
    }

    #[test]
    fn what_is_no_pattern_is_a_sentence() {
        for text in ["", "(", ":1", "a{9999999999}"] {
            let error = text.parse::<Check>().unwrap_err();
            assert!(!error.contains('\n') && !error.is_empty(), "{error}");
        }
    }

    #[test]
    fn numbers_that_differ_by_more_than_the_tolerance_are_named() {
        let check: Check = "x:0.5".parse().unwrap();
        assert_eq!(check.difference(&[]), None);
        assert_eq!(check.difference(&[1.0, 1.5, 1.2]), None);
        assert_eq!(check.difference(&[1.0, 1.6, 0.9]), Some(Difference { runs: [2, 1] }));
        assert_eq!(check.difference(&[1.0, f64::NAN]), Some(Difference { runs: [1, 1] }));
    }
}
