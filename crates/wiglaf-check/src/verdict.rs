//! What is wrong, from what hosts and pairs have said: pure functions.
//!
//! [`judge`] compares the hosts' [`Facts`] with each other and with what the cluster file expects,
//! looks for the pairs and hosts that stand out, and compares with the last result. Each
//! [`Finding`] is one sentence and one command. Blame falls on a host when all its pairs are bad,
//! else on the pair.

mod blame;
mod clocks;
mod differences;
mod history;
mod hosts;
mod machines;
mod text;
mod ways;
mod words;

use std::net::Ipv4Addr;

use serde::{Deserialize, Serialize};

use crate::facts::Facts;
use crate::known::Known;
use crate::probe::PairResult;

pub use text::{gain, matrix, text};

/// Names the layout of [`Checked`].
pub const SCHEMA: &str = "wiglaf-check/1";

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Jobs fail, or hang.
    Fatal,
    /// Jobs run, but slower or less safely than these hosts could.
    Slows,
    /// Good to know.
    Note,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// What it is about, for programs: `mtu`, `ports`, `clock`.
    pub code: String,
    /// How much it matters.
    pub severity: Severity,
    /// The hosts that are to blame or concerned, by name.
    pub hosts: Vec<String>,
    /// What is wrong, in one sentence that names the hosts.
    pub sentence: String,
    /// What to type, and where.
    pub fix: String,
}

/// A host of the cluster file, and what it said.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Host {
    /// As the cluster file names it.
    pub name: String,
    /// Its address on the data network.
    pub address: Option<Ipv4Addr>,
    /// What it said, or why it said nothing.
    pub facts: Known<Facts>,
}

/// What the cluster file expects.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Expected {
    /// The data network: its address and the length of its prefix.
    pub data: Option<(Ipv4Addr, u8)>,
    /// First and last of the UDP ports that jobs use.
    pub ports: (u16, u16),
}

impl Expected {
    /// The data network as `192.168.77.0/24`.
    #[must_use]
    pub fn network(&self) -> Option<String> {
        self.data.map(|(ip, prefix)| format!("{}/{prefix}", hosts::mask(ip, prefix)))
    }
}

/// All that a check has found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Checked {
    /// [`SCHEMA`].
    pub schema: String,
    /// When, in seconds since 1970.
    pub at_s: i64,
    /// What the cluster file expects.
    pub expected: Expected,
    /// The hosts.
    pub hosts: Vec<Host>,
    /// The pairs, each measured beside disjoint pairs only.
    pub pairs: Vec<PairResult>,
    /// Streams of many pairs at once.
    pub together: Vec<PairResult>,
    /// What is wrong, the worst first.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Judges what was seen; `previous` is the last result, if there is one.
    #[must_use]
    pub fn new(
        at_s: i64,
        expected: Expected,
        hosts: Vec<Host>,
        pairs: Vec<PairResult>,
        together: Vec<PairResult>,
        previous: Option<&Self>,
    ) -> Self {
        let schema = SCHEMA.to_owned();
        let findings = Vec::new();
        let mut this = Self { schema, at_s, expected, hosts, pairs, together, findings };
        this.findings = judge(&this, previous);
        this
    }

    /// The worst that was found.
    #[must_use]
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).min()
    }

    /// Why no job should start on these hosts, one sentence each: findings that are fatal and
    /// concern one of them.
    pub fn fatal<'a>(&'a self, hosts: &'a [String]) -> impl Iterator<Item = &'a Finding> {
        /// Kinds that lie between two hosts and concern no job that has only one of them.
        const BETWEEN: &[&str] = &["pair", "message", "damaged"];
        self.findings.iter().filter(move |finding| {
            let mut concerned = finding.hosts.iter().map(|host| hosts.contains(host));
            finding.severity == Severity::Fatal
                && match BETWEEN.contains(&&finding.code[..]) {
                    true => concerned.all(|is| is),
                    false => concerned.any(|is| is),
                }
        })
    }

    /// The facts of the host of that name.
    #[must_use]
    pub fn facts(&self, name: &str) -> Option<&Facts> {
        self.hosts.iter().find(|host| host.name == name)?.facts.get()
    }

    /// Hosts that have answered, with their facts.
    pub(crate) fn known(&self) -> impl Iterator<Item = (&Host, &Facts)> {
        self.hosts.iter().filter_map(|host| Some((host, host.facts.get()?)))
    }
}

/// Everything that is wrong, the worst first; `checked.findings` is not looked at.
#[must_use]
pub fn judge(checked: &Checked, previous: Option<&Checked>) -> Vec<Finding> {
    let mut findings = Vec::new();
    hosts::judge(checked, &mut findings);
    machines::judge(checked, &mut findings);
    differences::judge(checked, &mut findings);
    clocks::judge(checked, &mut findings);
    ways::judge(checked, &mut findings);
    blame::judge(checked, &mut findings);
    if let Some(previous) = previous {
        history::judge(checked, previous, &mut findings);
    }
    // Equal ones stay in the order in which they were looked for: causes before effects.
    findings.sort_by_key(|finding| finding.severity);
    findings
}

impl Finding {
    /// One of a single host.
    pub(crate) fn of(
        code: &str,
        severity: Severity,
        host: &str,
        sentence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self::between(code, severity, [host], sentence, fix)
    }

    /// One of several hosts.
    pub(crate) fn between<'a>(
        code: &str,
        severity: Severity,
        hosts: impl IntoIterator<Item = &'a str>,
        sentence: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        let mut hosts: Vec<String> = hosts.into_iter().map(str::to_owned).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let (sentence, fix) = (sentence.into(), fix.into());
        Self { code: code.to_owned(), severity, hosts, sentence, fix }
    }
}

#[cfg(test)]
mod tests;
