//! Log lines for users, on stderr.
//!
//! libfabric's own logger is out of reach (the provider links none of its symbols), so this one
//! honours the same variable, `FI_LOG_LEVEL`, and limits itself to a few lines a second: a
//! provider that floods the terminal of every rank helps nobody.

use std::fmt;
use std::io::Write;
use std::sync::{LazyLock, Mutex};
use std::time::{Duration, Instant};

/// How much a line matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Shown always.
    Error,
    /// Shown always, for what is no error and should not be overlooked: a caller says it once.
    Notice,
    Warn,
    Info,
    Debug,
}

/// Lines that may be written within [`PERIOD`].
const LINES_MAX: u32 = 20;
const PERIOD: Duration = Duration::from_secs(1);

static LEVEL: LazyLock<Level> =
    LazyLock::new(|| level_named(&std::env::var("FI_LOG_LEVEL").unwrap_or_default()));
static LIMIT: Mutex<Limit> = Mutex::new(Limit::new());

fn level_named(name: &str) -> Level {
    match name.to_ascii_lowercase().as_str() {
        "warn" => Level::Warn,
        "trace" | "info" => Level::Info,
        "debug" => Level::Debug,
        _ => Level::Error,
    }
}

/// Counts the lines of the current period.
struct Limit {
    since: Option<Instant>,
    written: u32,
    dropped: u32,
}

impl Limit {
    const fn new() -> Self {
        Self { since: None, written: 0, dropped: 0 }
    }

    /// Whether a line may be written now, and how many were dropped before it.
    fn admit(&mut self, now: Instant) -> Option<u32> {
        if self.since.is_none_or(|since| now.duration_since(since) >= PERIOD) {
            self.since = Some(now);
            self.written = 0;
        }
        if self.written == LINES_MAX {
            self.dropped += 1;
            return None;
        }
        self.written += 1;
        Some(std::mem::take(&mut self.dropped))
    }
}

/// Writes a line; use the macros.
pub(crate) fn write(level: Level, text: fmt::Arguments<'_>) {
    if level > (*LEVEL).max(Level::Notice) {
        return;
    }
    let Ok(mut limit) = LIMIT.lock() else { return };
    let Some(dropped) = limit.admit(Instant::now()) else { return };
    // One write per line keeps the lines of many ranks apart. Nobody can be told of its failure.
    let mut line = format!("wiglaf[{}]: ", std::process::id());
    if dropped > 0 {
        line += &format!("({dropped} lines left out) ");
    }
    line += &format!("{text}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

macro_rules! error {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Error, format_args!($($arg)*)) };
}
macro_rules! notice {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Notice, format_args!($($arg)*)) };
}
macro_rules! warning {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Warn, format_args!($($arg)*)) };
}
macro_rules! info {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Info, format_args!($($arg)*)) };
}
macro_rules! debug {
    ($($arg:tt)*) => { $crate::log::write($crate::log::Level::Debug, format_args!($($arg)*)) };
}
pub(crate) use {debug, error, info, notice, warning};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_by_name() {
        assert_eq!(level_named("INFO"), Level::Info);
        assert_eq!(level_named("debug"), Level::Debug);
        assert_eq!(level_named(""), Level::Error);
    }

    #[test]
    fn a_flood_is_cut_and_counted() {
        let mut limit = Limit::new();
        let start = Instant::now();
        let admitted = (0..LINES_MAX + 7).filter(|_| limit.admit(start).is_some()).count();
        assert_eq!(admitted, LINES_MAX as usize);
        assert_eq!(limit.admit(start + PERIOD), Some(7));
    }
}
