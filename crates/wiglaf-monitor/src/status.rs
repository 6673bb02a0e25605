//! Whether it works: each host's exporter asked, and the alerts that Prometheus raises.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use wiglaf_base::error::{Error, Result};
use wiglaf_cluster::hosts::Hosts;

use crate::files::{NODE_PORT, SERVER_PORT};

/// How long a daemon may take to answer, and how much it may say.
const LIMIT: Duration = Duration::from_secs(5);
const ANSWER_LEN_MAX: u64 = 32 << 20;

/// How a host is watched.
#[derive(Debug, Clone, Serialize)]
pub struct HostState {
    /// The host.
    pub host: String,
    /// Whether node_exporter answers.
    pub is_watched: bool,
    /// Seconds since Wiglaf's counters were written there.
    pub age_s: Option<u64>,
    /// Why it does not answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// An alert that fires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Alert {
    /// Its name.
    pub name: String,
    /// What is wrong.
    pub summary: String,
    /// What to do.
    pub fix: String,
}

/// Asks the exporters of all hosts whose addresses the file says.
#[must_use]
pub fn hosts(cluster: &Hosts) -> Vec<HostState> {
    let look = |host: &str, address: Option<Ipv4Addr>| {
        let asked = match address {
            Some(address) => get(address, NODE_PORT, "/metrics"),
            None => Err(Error::new("the cluster file does not say its address")),
        };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
        let written = asked.as_ref().ok().and_then(|text| {
            let line = |line: &str| {
                let value = line.strip_prefix("wiglaf_export_time_seconds ")?;
                value.trim().parse::<f64>().ok()
            };
            text.lines().find_map(line)
        });
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a time in seconds"
        )]
        let age_s = written.map(|written| now.saturating_sub(written as u64));
        HostState {
            host: host.to_owned(),
            is_watched: asked.is_ok(),
            age_s,
            error: asked.err().map(|error| error.to_string()),
        }
    };
    std::thread::scope(|scope| {
        let all: Vec<_> = cluster
            .nodes
            .iter()
            .map(|spec| scope.spawn(move || look(&spec.name, spec.address)))
            .collect();
        all.into_iter().filter_map(|one| one.join().ok()).collect()
    })
}

/// The alerts that fire, as the Prometheus of that host says.
///
/// # Errors
/// When it does not answer.
pub fn alerts(server: Ipv4Addr) -> Result<Vec<Alert>> {
    let text = get(server, SERVER_PORT, "/api/v1/alerts")?;
    parse_alerts(&text)
}

fn parse_alerts(text: &str) -> Result<Vec<Alert>> {
    let answer: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| Error::new(format!("Prometheus tells nonsense: {error}")))?;
    let all = answer["data"]["alerts"].as_array().cloned().unwrap_or_default();
    let firing = all.iter().filter(|alert| alert["state"] == "firing").map(|alert| {
        let text =
            |kind: &str, name: &str| alert[kind][name].as_str().unwrap_or_default().to_owned();
        Alert {
            name: text("labels", "alertname"),
            summary: text("annotations", "summary"),
            fix: text("annotations", "fix"),
        }
    });
    Ok(firing.collect())
}

/// A host, and what one of its quantities was when: in seconds since 1970.
pub type Past = (String, Vec<(u64, f64)>);

/// What a query of Prometheus's was over time, for each label `host`.
///
/// # Errors
/// When Prometheus does not answer, or refuses the query.
pub fn history(server: Ipv4Addr, query: &str, when: (u64, u64), step_s: u64) -> Result<Vec<Past>> {
    let escaped: String = query.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => escaped.push(char::from(byte)),
            _ => escaped += &format!("%{byte:02X}"),
        }
        escaped
    });
    let (from, to) = when;
    let path = format!("/api/v1/query_range?query={escaped}&start={from}&end={to}&step={step_s}");
    parse_history(&get(server, SERVER_PORT, &path)?)
}

fn parse_history(text: &str) -> Result<Vec<Past>> {
    let answer: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| Error::new(format!("Prometheus tells nonsense: {error}")))?;
    let all = answer["data"]["result"].as_array().cloned().unwrap_or_default();
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a time in seconds")]
    let point = |pair: &serde_json::Value| {
        let at = pair[0].as_f64()? as u64;
        let value: f64 = pair[1].as_str()?.parse().ok()?;
        value.is_finite().then_some((at, value))
    };
    let of_host = |one: &serde_json::Value| {
        let host = one["metric"]["host"].as_str()?.to_owned();
        Some((host, one["values"].as_array()?.iter().filter_map(point).collect()))
    };
    Ok(all.iter().filter_map(of_host).collect())
}

/// What is at a path of a daemon of ours.
fn get(address: Ipv4Addr, port: u16, path: &str) -> Result<String> {
    let silent = |why: std::io::Error| {
        Error::new(format!(
            "nothing answers at {address}:{port} ({why}); run `wiglaf monitor setup`"
        ))
    };
    let to = SocketAddr::from((address, port));
    let mut stream = TcpStream::connect_timeout(&to, LIMIT).map_err(silent)?;
    stream.set_read_timeout(Some(LIMIT)).map_err(silent)?;
    // Of version 1.0: the answer comes in one piece and ends with the connection.
    write!(stream, "GET {path} HTTP/1.0\r\nHost: {address}\r\n\r\n").map_err(silent)?;
    let mut answer = Vec::new();
    stream.take(ANSWER_LEN_MAX).read_to_end(&mut answer).map_err(silent)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
    match head.split(' ').nth(1) {
        Some("200") => Ok(body.to_owned()),
        status => Err(Error::new(format!(
            "{address}:{port} answers {} to {path}; is it another program's port?",
            status.unwrap_or("nothing")
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firing_alerts_are_read_and_pending_ones_are_not() {
        let text = r#"{"status":"success","data":{"alerts":[
            {"labels":{"alertname":"HostHot","host":"pc3"},"annotations":{"summary":"pc3 is too hot","fix":"look"},
             "state":"firing"},
            {"labels":{"alertname":"HostGone"},"annotations":{"summary":"x"},"state":"pending"}]}}"#;
        let alerts = parse_alerts(text).unwrap();
        assert_eq!(alerts.len(), 1);
        assert_eq!(
            (alerts[0].name.as_str(), alerts[0].summary.as_str()),
            ("HostHot", "pc3 is too hot")
        );
        assert!(parse_alerts("<html>").is_err());
    }

    #[test]
    fn history_has_the_points_that_are_numbers_of_each_host() {
        let text = r#"{"status":"success","data":{"resultType":"matrix","result":[
            {"metric":{"host":"pc1","job":"wiglaf"},"values":[[100.5,"1.25"],[160,"NaN"],[220,"2"]]},
            {"metric":{"job":"other"},"values":[[100,"1"]]}]}}"#;
        assert_eq!(
            parse_history(text).unwrap(),
            [("pc1".to_owned(), vec![(100, 1.25), (220, 2.0)])]
        );
        assert!(parse_history("<html>").is_err());
    }
}
