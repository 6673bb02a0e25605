//! From MPI_Init to MPI_Finalize, and what is told then: one line of JSON in a file of this process.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt;
use std::sync::{Mutex, OnceLock, PoisonError};

use crate::clock::Reading;
use crate::{table, trace};
use wiglaf_interpose::complain;

/// How the names of the records of this job begin; `wiglaf run` sets it.
const VARIABLE: &str = "WIGLAF_RECORDS";
/// Where launchers say a process's rank and the number of ranks.
const RANK: [&str; 3] = ["OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"];
const SIZE: [&str; 2] = ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE"];

static START: Mutex<Option<[Reading; 2]>> = Mutex::new(None);

fn begin() -> Option<&'static str> {
    static BEGIN: OnceLock<Option<String>> = OnceLock::new();
    BEGIN.get_or_init(|| std::env::var(VARIABLE).ok().filter(|text| !text.is_empty())).as_deref()
}

/// Whether anybody wants to know.
#[inline]
pub(crate) fn is_wanted() -> bool {
    begin().is_some()
}

/// MPI was initialised from `before` until now.
pub(crate) fn started(before: Reading) {
    *START.lock().unwrap_or_else(PoisonError::into_inner) = Some([before, Reading::take()]);
    trace::started();
}

/// MPI was finalised from `end` until now: tells all.
pub(crate) fn finished(end: Reading) {
    let start = START.lock().unwrap_or_else(PoisonError::into_inner).take();
    let (Some(begin), Some([before, start])) = (begin(), start) else { return };
    let text = text(before, start, end);
    let path = format!("{begin}.{}", std::process::id());
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        complain(crate::NAME, &format!("cannot write {path}: {error}"));
    }
}

fn number(names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| std::env::var(name).ok()?.parse::<u64>().ok())
}

/// This rank.
pub(crate) fn own_rank() -> Option<u64> {
    number(&RANK)
}

/// How many ranks there are.
pub(crate) fn all_ranks() -> Option<u64> {
    static ALL: OnceLock<Option<u64>> = OnceLock::new();
    *ALL.get_or_init(|| number(&SIZE))
}

fn text(before: Reading, start: Reading, end: Reading) -> String {
    let or_null = |found: Option<u64>| found.map_or("null".to_owned(), |number| number.to_string());
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String =
        host.trim().chars().filter(|c| c.is_ascii_alphanumeric() || "-._".contains(*c)).collect();
    let now = Reading::take();
    let (threads, sums) = table::sums();
    let mut text = format!(
        "{{\"rank\":{},\"size\":{},\"host\":\"{host}\",\"threads\":{threads},\"init_ns\":{},\"wall_ns\":{},\
         \"finalize_ns\":{},\"calls\":[",
        or_null(number(&RANK)),
        or_null(number(&SIZE)),
        before.ns_until(&start),
        start.ns_until(&end),
        end.ns_until(&now),
    );
    let scale = start.ns_per_tick(&end);
    for (place, (call, class, sum)) in sums.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        let ns = (sum.ticks as f64 * scale) as u64;
        let _ = write!(
            text,
            "{comma}{{\"call\":\"{}\",\"class\":{class},\"calls\":{},\"ns\":{ns},\"bytes\":{}}}",
            call.name(),
            sum.calls,
            sum.bytes
        );
    }
    text.push(']');
    if let Some((actions, gap)) = trace::finished(end.ticks(), scale) {
        let _ = write!(text, ",\"trace\":\"{actions}\"");
        if let Some(gap) = gap {
            let _ = write!(text, ",\"trace_gap\":\"{gap}\"");
        }
    }
    text + "}\n"
}
