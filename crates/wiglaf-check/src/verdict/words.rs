//! Words for lists of hosts, for sizes and for times.

use std::collections::BTreeMap;

/// Host names, shortened: `pc[1-3]`, `pc1 and pc4`, `a, b and c`.
pub(super) fn listed<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut parts = Vec::new();
    // By what stands before the number and the number's width, so that 01 and 1 stay apart.
    let mut families: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut order = Vec::new();
    for name in names {
        let front = name.trim_end_matches(|c: char| c.is_ascii_digit());
        let digits = &name[front.len()..];
        match digits.parse() {
            Ok(number) => {
                let width = if digits.starts_with('0') { digits.len() } else { 0 };
                if !families.contains_key(&(front, width)) {
                    order.push((front, Some(width)));
                }
                families.entry((front, width)).or_default().push(number);
            }
            Err(_) => order.push((name, None)),
        }
    }
    for (front, width) in order {
        let Some(width) = width else {
            parts.push(front.to_owned());
            continue;
        };
        let mut numbers = families.remove(&(front, width)).unwrap_or_default();
        numbers.sort_unstable();
        numbers.dedup();
        parts.extend(ranges(&numbers).into_iter().map(|(first, last)| match last - first {
            0 => format!("{front}{first:0width$}"),
            _ => format!("{front}[{first:0width$}-{last:0width$}]"),
        }));
    }
    match parts.split_last() {
        None => String::new(),
        Some((last, [])) => last.clone(),
        Some((last, rest)) => format!("{} and {last}", rest.join(", ")),
    }
}

fn ranges(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    ranges
}

/// Ports or other numbers, shortened: `47000-47999`, `1, 3-5`.
pub(super) fn numbers(numbers: &[u64]) -> String {
    let parts = ranges(numbers).into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

/// `reaches` or `reach`.
pub(super) fn verb<'a>(count: usize, one: &'a str, many: &'a str) -> &'a str {
    if count == 1 { one } else { many }
}

/// Bytes: `3.9 GiB`, `512 MiB`.
pub(super) fn bytes(count: u64) -> String {
    match count {
        count if count >= 10 << 30 => format!("{} GiB", count >> 30),
        count if count >= 1 << 30 => format!("{:.1} GiB", count as f64 / f64::from(1 << 30)),
        count => format!("{} MiB", count >> 20),
    }
}

/// A time without its sign: `41 s`, `3 ms`, `2 h`.
pub(super) fn time(ns: i128) -> String {
    let seconds = ns.unsigned_abs() as f64 / 1e9;
    match seconds {
        s if s >= 7200.0 => format!("{:.0} h", s / 3600.0),
        s if s >= 120.0 => format!("{:.0} min", s / 60.0),
        s if s >= 10.0 => format!("{s:.0} s"),
        s if s >= 1.0 => format!("{s:.1} s"),
        s if s >= 1e-3 => format!("{:.0} ms", s * 1e3),
        s => format!("{:.0} us", s * 1e6),
    }
}

/// A rate or time with three digits at most: `117`, `94.2`, `8.13`.
pub(super) fn figure(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// The day, as `2026-11-27`, of a time in seconds since 1970.
pub(super) fn day(at_s: i64) -> String {
    // Days since 0000-03-01, so that leap days end years (Hinnant's civil_from_days).
    let days = at_s.div_euclid(86_400) + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_listed_shortly() {
        assert_eq!(listed(["pc1", "pc3", "pc2"]), "pc[1-3]");
        assert_eq!(listed(["pc1", "pc4"]), "pc1 and pc4");
        assert_eq!(listed(["a", "n09", "n10", "b"]), "a, n09, n10 and b");
        assert_eq!(listed(["a", "n08", "n09", "b"]), "a, n[08-09] and b");
        assert_eq!(listed([]), "");
        assert_eq!(numbers(&[1, 3, 4, 5]), "1, 3-5");
        assert_eq!(listed(["x99999999999999999999999"]), "x99999999999999999999999");
    }

    #[test]
    fn days_are_those_of_the_calendar() {
        for (at, expected) in [
            (0, "1970-01-01"),
            (951_782_399, "2000-02-28"),
            (951_868_799, "2000-02-29"),
            (1_795_737_600, "2026-11-27"),
            (-1, "1969-12-31"),
        ] {
            assert_eq!(day(at), expected, "{at}");
        }
    }

    #[test]
    fn times_and_figures_have_few_digits() {
        assert_eq!(time(-41_000_000_000), "41 s");
        assert_eq!(time(3_600_000_000_000), "60 min");
        assert_eq!((time(1_500_000), time(900)), ("2 ms".to_owned(), "1 us".to_owned()));
        assert_eq!(
            (figure(117.4), figure(94.25), figure(8.125)),
            ("117".into(), "94.2".into(), "8.12".into())
        );
        assert_eq!((bytes(16 << 30), bytes(64 << 20)), ("16 GiB".into(), "64 MiB".into()));
    }
}
