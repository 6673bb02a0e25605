//! Runs of suites that take hours: how each ended is kept beside what it printed, so that a suite that was
//! interrupted goes on where it was.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::cluster::Ended;
use super::verdict::{NOT_ASKED, Verdict};
use super::{Context, output_of};

/// Runs an MPI program to its end, or takes over how the same run with the same provider ended where that is wanted.
/// None when there is no time left.
pub(super) fn run(
    context: &Context<'_>,
    log: &str,
    options: &[&str],
    env: &[(&str, &str)],
    argv: &[String],
    limit: Duration,
) -> Result<Option<(Ended, Duration)>, String> {
    let log_file = context.cluster.folder().join(format!("{log}.log"));
    let how_file = context.cluster.folder().join(format!("{log}.ended"));
    let what = format!("{} -- {}", options.join(" "), argv.join(" "));
    let what = format!("{}: {what}", context.provider_sum);
    if context.resume
        && let Some(kept) = read(&how_file, &log_file, &what)
    {
        return Ok(Some(kept));
    }
    if context.is_over() {
        return Ok(None);
    }
    let began = Instant::now();
    let ended = context.cluster.run(log, options, env, argv, limit)?;
    let took = began.elapsed();
    fs::write(&how_file, text(ended.status, took, &what))
        .map_err(|why| format!("{}: {why}", how_file.display()))?;
    Ok(Some((ended, took)))
}

/// What is said of a test that there was no time for.
pub(super) fn not_run() -> Verdict {
    Verdict::Skip("not run".to_owned())
}

/// What a document says of such a run as a whole.
pub(super) const ASKED_SHORT: &str = "TCP was asked only about tests that fail over Wiglaf.";

/// What is said of a rival where Wiglaf passes, in a run that asks no more than it must.
pub(super) fn not_asked() -> Verdict {
    Verdict::Skip(NOT_ASKED.to_owned())
}

/// Tells builds of the provider apart.
pub(super) fn provider_sum(folder: &Path) -> Result<String, String> {
    let provider = folder.join("libwiglaf-fi.so").display().to_string();
    let said = output_of("sha256sum", &[&provider])?;
    let sum = said.split_whitespace().next().map(str::to_owned);
    sum.ok_or_else(|| format!("{provider} cannot be read"))
}

fn text(status: Option<i32>, took: Duration, what: &str) -> String {
    let status = status.map_or("killed".to_owned(), |status| status.to_string());
    format!("{status} {}\n{what}\n", took.as_millis())
}

/// None where that was not run, or not to its end.
fn read(how_file: &Path, log_file: &Path, what: &str) -> Option<(Ended, Duration)> {
    let (status, took) = parse(&fs::read_to_string(how_file).ok()?, what)?;
    let text = String::from_utf8_lossy(&fs::read(log_file).ok()?).into_owned();
    Some((Ended { status, text }, took))
}

fn parse(text: &str, what: &str) -> Option<(Option<i32>, Duration)> {
    let (how, then) = text.split_once('\n')?;
    let (status, took) = how.split_once(' ')?;
    let took = Duration::from_millis(took.parse().ok()?);
    (then.trim_end() == what).then_some((status.parse().ok(), took))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_same_run_is_taken_over() {
        let took = Duration::from_millis(1250);
        for status in [Some(0), Some(124), None] {
            let kept = text(status, took, "commit a: -n 2 -- ./p");
            assert_eq!(parse(&kept, "commit a: -n 2 -- ./p"), Some((status, took)));
            assert_eq!(parse(&kept, "commit b: -n 2 -- ./p"), None);
        }
        assert_eq!(parse("", "commit a"), None);
    }
}
