//! What a node says of itself for `wiglaf top`, and the table of it.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};
use wiglaf_base::heat::{FOLDER, readings};
use wiglaf_base::network::{self, Cidr};

/// What a machine is like now.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Here {
    /// Processes that run or wait to, over a minute.
    pub(crate) load: Option<f64>,
    pub(crate) cores: usize,
    pub(crate) memory_used_kib: Option<u64>,
    pub(crate) memory_total_kib: Option<u64>,
    /// Of the hottest sensor.
    pub(crate) temperature_c: Option<f64>,
    /// The card of the data network, and its speed.
    pub(crate) interface: Option<String>,
    pub(crate) link_mbit_per_s: Option<u64>,
    /// Programs of jobs that may be seen.
    pub(crate) programs: BTreeSet<String>,
    pub(crate) endpoints: usize,
    pub(crate) bytes_sent: u64,
    pub(crate) retransmitted: u64,
}

/// A node in the table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) node: String,
    #[serde(flatten)]
    pub(crate) here: Option<Here>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

/// Looks at this machine.
pub(crate) fn here(data: Option<Cidr>) -> Here {
    let seen = wiglaf_counters::here();
    let peers = || seen.iter().flat_map(|one| &one.peers);
    let interface = network::addresses()
        .into_iter()
        .find(|own| match data {
            Some(data) => data.contains(own.address),
            None => !own.address.is_loopback(),
        })
        .map(|own| own.interface);
    let speed = interface.as_ref().and_then(|name| {
        // -1: not known. Then reading it may fail as well.
        let text = fs::read_to_string(format!("/sys/class/net/{name}/speed")).ok()?;
        text.trim().parse().ok()
    });
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let (total, free) = (kib(&memory, "MemTotal:"), kib(&memory, "MemAvailable:"));
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    Here {
        load: load.split(' ').next().and_then(|text| text.parse().ok()),
        cores: std::thread::available_parallelism().map_or(1, Into::into),
        memory_used_kib: total.zip(free).map(|(total, free)| total.saturating_sub(free)),
        memory_total_kib: total,
        temperature_c: readings(Path::new(FOLDER)).iter().map(|r| r.degrees).reduce(f64::max),
        interface,
        link_mbit_per_s: speed,
        programs: seen.iter().map(|one| one.identity.program.clone()).collect(),
        endpoints: seen.len(),
        bytes_sent: peers().map(|peer| peer.bytes_sent).sum(),
        retransmitted: peers().map(|peer| peer.retransmitted).sum(),
    }
}

fn kib(memory: &str, name: &str) -> Option<u64> {
    let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// A heading and a row for each node. With an earlier look and the seconds since, what is sent is per second.
pub(crate) fn table(rows: &[Row], before: Option<(&[Row], f64)>) -> Vec<Vec<String>> {
    let (sent, again) = match before {
        Some(_) => ("MB/s", "resent/s"),
        None => ("MB sent", "resent"),
    };
    let heading =
        ["node", "load", "memory", "temp", "card", "Mbit/s", "jobs", sent, again, "state"];
    let mut table = vec![heading.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(|row| cells(row, before)));
    table
}

/// What a node has counted since an earlier look, by the seconds since.
#[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
pub(crate) fn per_second(
    row: &Row,
    (rows, seconds): (&[Row], f64),
    of: fn(&Here) -> u64,
) -> Option<f64> {
    let now = of(row.here.as_ref()?);
    let earlier = rows.iter().find(|earlier| earlier.node == row.node);
    let earlier = earlier.and_then(|row| row.here.as_ref()).map_or(now, of);
    // Jobs that have ended take their counters with them.
    Some(now.saturating_sub(earlier) as f64 / seconds.max(0.001))
}

#[allow(clippy::cast_precision_loss, reason = "shown with one digit")]
fn cells(row: &Row, before: Option<(&[Row], f64)>) -> Vec<String> {
    let dash = || "-".to_owned();
    let Some(here) = &row.here else {
        let mut cells = vec![row.node.clone()];
        cells.extend((0..8).map(|_| dash()));
        cells.push("does not tell".to_owned());
        return cells;
    };
    let memory = here.memory_used_kib.zip(here.memory_total_kib).map(|(used, total)| {
        format!("{:.1}/{:.0}G", used as f64 / 1_048_576.0, total as f64 / 1_048_576.0)
    });
    let counted = |of: fn(&Here) -> u64| match before {
        None => of(here) as f64,
        Some(before) => per_second(row, before, of).unwrap_or_default(),
    };
    vec![
        row.node.clone(),
        here.load.map_or_else(dash, |load| format!("{load:.2}/{}", here.cores)),
        memory.unwrap_or_else(dash),
        here.temperature_c.map_or_else(dash, |degrees| format!("{degrees:.0}C")),
        here.interface.clone().unwrap_or_else(dash),
        here.link_mbit_per_s.map_or_else(dash, |speed| speed.to_string()),
        match here.programs.is_empty() {
            true => dash(),
            false => here.programs.iter().cloned().collect::<Vec<_>>().join(","),
        },
        format!("{:.1}", counted(|here| here.bytes_sent) / 1e6),
        format!("{:.0}", counted(|here| here.retransmitted)),
        "up".to_owned(),
    ]
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(node: &str, bytes_sent: u64, retransmitted: u64) -> Row {
        let here = Here {
            load: Some(1.5),
            cores: 4,
            memory_used_kib: Some(2 << 20),
            memory_total_kib: Some(16 << 20),
            temperature_c: Some(61.2),
            interface: Some("enp3s0".to_owned()),
            link_mbit_per_s: Some(1000),
            programs: BTreeSet::from(["hello".to_owned()]),
            endpoints: 2,
            bytes_sent,
            retransmitted,
        };
        Row { node: node.to_owned(), here: Some(here), error: None }
    }

    #[test]
    fn second_look_has_rates_and_a_silent_node_dashes() {
        let silent =
            Row { node: "pc2".to_owned(), here: None, error: Some("no answer".to_owned()) };
        let first = [row("pc1", 5_000_000, 7), silent.clone()];
        let once = table(&first, None);
        assert_eq!(once[1][..3], ["pc1", "1.50/4", "2.0/16G"]);
        assert_eq!(once[1][3..], ["61C", "enp3s0", "1000", "hello", "5.0", "7", "up"]);
        assert_eq!((once[2][1].as_str(), once[2][9].as_str()), ("-", "does not tell"));
        let second = [row("pc1", 9_000_000, 27), silent];
        let rates = table(&second, Some((&first, 2.0)));
        assert_eq!((rates[0][8].as_str(), rates[1][7].as_str()), ("resent/s", "2.0"));
        assert_eq!(rates[1][8], "10");
        // Its job has ended.
        let third = table(&first, Some((&second, 2.0)));
        assert_eq!(third[1][7], "0.0");
    }
}
