//! fabtests, libfabric's own tests, at each pair of nodes as its `runfabtests.sh` would.
//!
//! The list of tests is read from that script, so it is theirs and not ours. Left out are what the
//! script itself leaves out for another provider (`prov_efa_tests`).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::cluster::{Cluster, Ended, Running};
use super::verdict::{Column, Findings, Judge, Row, Verdict};
use super::{Context, timed, version};

/// What a test exits with when the provider does not offer what it needs.
const STATUS_NO_DATA: i32 = 61;
const STATUS_NO_SYSTEM: i32 = 38;
/// The time limit of one test, as the script's own.
const LIMIT: Duration = Duration::from_secs(120);
/// The ubertest is some thousand tests in one.
const LIMIT_UBERTEST: Duration = Duration::from_secs(300);
/// How long a server gets to be ready before its client starts; the script gives it 1 s.
const HEAD_START: Duration = Duration::from_millis(400);
/// How long a server whose client has failed may go on.
const AFTER_FAILURE: Duration = Duration::from_secs(2);
/// Processes of a test of many.
const MULTINODE_RANKS: usize = 3;

/// The script's groups in its set `all`, and how each is run.
const GROUPS: [(&str, Kind); 7] = [
    ("unit_tests", Kind::Alone),
    ("neg_unit_tests", Kind::Refused),
    ("regression_tests", Kind::Alone),
    ("functional_tests", Kind::Pair),
    ("standard_tests", Kind::Pair),
    ("complex_tests", Kind::Ubertest),
    ("multinode_tests", Kind::Many),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// One process.
    Alone,
    /// One process, which must end with "no data".
    Refused,
    /// A server and a client, on a node each.
    Pair,
    /// A server and a client that read the configurations to test from a file.
    Ubertest,
    /// Several processes.
    Many,
}

/// A provider and what it needs to be told.
struct Contender {
    heading: &'static str,
    provider: &'static str,
    env: Vec<(String, String)>,
}

/// Runs all of it over each link of ours, and over `tcp;ofi_rxm`.
pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let Some(installed) = context.fabtests else {
        eprintln!(
            "   skipped: fabtests is not packaged; build it from libfabric's sources at the tag of the installed \
             libfabric, then name its folder: cargo xtask conformance fabtests --fabtests DIR"
        );
        return Ok(None);
    };
    let script = installed.join("bin/runfabtests.sh");
    let script =
        fs::read_to_string(&script).map_err(|why| format!("{}: {why}", script.display()))?;
    let contenders = contenders(&context.provider);
    let site = Site::new(context.cluster, installed)?;
    let mut rows = Vec::new();
    for (group, kind) in GROUPS {
        for test in group_of(&script, group).into_iter().filter(|test| context.wants(test)) {
            let cells = contenders.iter().map(|contender| {
                let began = Instant::now();
                let verdict = site.run(&test, kind, contender)?;
                Ok(timed(&test, contender.heading, verdict, began))
            });
            rows.push(Row { cells: cells.collect::<Result<_, String>>()?, name: test });
        }
    }
    let rival = contenders.len() - 1;
    let columns = contenders.iter().enumerate().map(|(index, contender)| match index {
        _ if index == rival => Column::rival(contender.heading),
        _ => Column::ours(contender.heading, Judge::Rival(rival)),
    });
    let about = vec![
        format!(
            "All of `runfabtests.sh -t all`, server on node1 and client on node2, built against libfabric {}.",
            version("libfabric1")?
        ),
        "The ubertest runs the script's configurations for `tcp;ofi_rxm`, with the provider's name exchanged.".into(),
    ];
    Ok(Some(Findings { about, columns: columns.collect(), rows }))
}

fn contenders(provider: &Path) -> Vec<Contender> {
    let ours = |heading, link: &str| Contender {
        heading,
        provider: "wiglaf",
        env: vec![
            ("FI_PROVIDER_PATH".into(), provider.display().to_string()),
            ("WIGLAF_IF".into(), "eth0".into()),
            ("WIGLAF_LINK".into(), link.into()),
        ],
    };
    vec![
        ours("wiglaf, link packet", "packet"),
        ours("wiglaf, link udp", "udp"),
        Contender { heading: "tcp;ofi_rxm", provider: "tcp;ofi_rxm", env: Vec::new() },
    ]
}

/// The quoted lines of a shell array.
fn group_of(script: &str, name: &str) -> Vec<String> {
    let begin = format!("\n{name}=(");
    let Some((_, rest)) = script.split_once(&begin) else { return Vec::new() };
    let array = rest.split_once("\n)").map_or(rest, |(array, _)| array);
    array.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// Where tests run.
struct Site<'a> {
    cluster: &'a Cluster,
    installed: &'a Path,
    server: String,
    client: String,
}

impl<'a> Site<'a> {
    fn new(cluster: &'a Cluster, installed: &'a Path) -> Result<Self, String> {
        Ok(Self { cluster, installed, server: cluster.address(1)?, client: cluster.address(2)? })
    }

    fn run(&self, test: &str, kind: Kind, contender: &Contender) -> Result<Verdict, String> {
        match kind {
            Kind::Alone | Kind::Refused => self.alone(test, kind == Kind::Refused, contender),
            Kind::Pair => self.pair(test, contender),
            Kind::Ubertest => self.ubertest(test, contender),
            Kind::Many => self.many(test, contender),
        }
    }

    /// The command line of a test, as the script makes it.
    fn argv(&self, test: &str, contender: &Contender, more: &[&str]) -> Vec<String> {
        let mut words = test.split_whitespace();
        let program = self.installed.join("bin").join(words.next().unwrap_or_default());
        let filled = words.map(|word| match word {
            "SERVER_ADDR" | "GOOD_ADDR" => self.server.clone(),
            word => word.to_owned(),
        });
        let mut argv = vec![program.display().to_string()];
        argv.extend(filled);
        argv.extend(["-p", contender.provider].map(str::to_owned));
        argv.extend(more.iter().map(|&word| word.to_owned()));
        argv
    }

    fn alone(
        &self,
        test: &str,
        is_refused: bool,
        contender: &Contender,
    ) -> Result<Verdict, String> {
        let argv = self.argv(test, contender, &[]);
        let log = log(test, contender, "");
        let ended = self.cluster.exec(&log, 1, &contender.env, &argv, LIMIT)?.wait()?;
        if is_refused {
            let refused = ended.status == Some(STATUS_NO_DATA);
            return Ok(if refused { Verdict::pass() } else { Verdict::Fail(ended.reason()) });
        }
        Ok(verdict(&[ended]))
    }

    fn pair(&self, test: &str, contender: &Contender) -> Result<Verdict, String> {
        let (server, client) = (self.server.as_str(), self.client.as_str());
        let server_argv = self.argv(test, contender, &["-s", server]);
        let client_argv = self.argv(test, contender, &["-s", client, server]);
        Ok(verdict(&self.both(test, contender, &server_argv, &client_argv, LIMIT)?))
    }

    /// A server and a client, to their ends.
    fn both(
        &self,
        test: &str,
        contender: &Contender,
        server: &[String],
        client: &[String],
        limit: Duration,
    ) -> Result<[Ended; 2], String> {
        let env = &contender.env;
        let server = self.cluster.exec(&log(test, contender, ".server"), 1, env, server, limit)?;
        std::thread::sleep(HEAD_START);
        let client = self.cluster.exec(&log(test, contender, ".client"), 2, env, client, limit)?;
        let client = client.wait()?;
        let server =
            if client.succeeded() { server.wait()? } else { server.wait_or_end(AFTER_FAILURE)? };
        Ok([server, client])
    }

    fn ubertest(&self, test: &str, contender: &Contender) -> Result<Verdict, String> {
        let file = self.configurations(contender)?;
        let program = self.installed.join("bin").join(test).display().to_string();
        let server = vec![program.clone(), "-x".into()];
        let client = vec![program, "-u".into(), file.display().to_string(), self.server.clone()];
        let ended = self.both(test, contender, &server, &client, LIMIT_UBERTEST)?;
        if !ended.iter().all(Ended::succeeded) {
            return Ok(verdict(&ended));
        }
        Ok(ubertest_verdict(&ended[1].text))
    }

    /// The configurations that come with fabtests for the rival, for this provider.
    fn configurations(&self, contender: &Contender) -> Result<PathBuf, String> {
        let theirs = self.installed.join("share/fabtests/test_configs/ofi_rxm/tcp.test");
        let failed = |path: &Path, why: std::io::Error| format!("{}: {why}", path.display());
        let text = fs::read_to_string(&theirs).map_err(|why| failed(&theirs, why))?;
        let file = self.cluster.folder().join(format!("{}.test", slug(contender.provider)));
        let text = text.replace("tcp;ofi_rxm", contender.provider);
        fs::write(&file, text).map_err(|why| failed(&file, why))?;
        Ok(file)
    }

    fn many(&self, test: &str, contender: &Contender) -> Result<Verdict, String> {
        let ranks = MULTINODE_RANKS.to_string();
        let argv = self.argv(test, contender, &["-n", &ranks, "-s", &self.server]);
        let mut running = Vec::new();
        for rank in 0..MULTINODE_RANKS {
            let log = log(test, contender, &format!(".{rank}"));
            // Rank 0 serves, the others are its clients.
            let node = if rank == 0 { 1 } else { 2 };
            running.push(self.cluster.exec(&log, node, &contender.env, &argv, LIMIT)?);
            if rank == 0 {
                std::thread::sleep(HEAD_START);
            }
        }
        let ended: Vec<Ended> =
            running.into_iter().map(Running::wait).collect::<Result<_, String>>()?;
        Ok(verdict(&ended))
    }
}

/// As the script judges: it did not run if all say the same of two things.
fn verdict(ended: &[Ended]) -> Verdict {
    for status in [STATUS_NO_DATA, STATUS_NO_SYSTEM] {
        if ended.iter().all(|ended| ended.status == Some(status)) {
            return Verdict::Skip(why_skipped(&ended[0].text));
        }
    }
    match ended.iter().find(|ended| !ended.succeeded()) {
        None => Verdict::pass(),
        Some(ended) => Verdict::Fail(ended.reason()),
    }
}

/// What was not to be had: the call that said so.
fn why_skipped(text: &str) -> String {
    let line = text.lines().find(|line| line.contains("ret=-"));
    let call = line.and_then(|line| line.split("()").next()).unwrap_or("the test");
    match call.trim() {
        "fi_getinfo" => "not offered (fi_getinfo)".to_owned(),
        call => format!("not offered ({call})"),
    }
}

/// The ubertest counts its configurations by how they ended.
fn ubertest_verdict(text: &str) -> Verdict {
    let count = |word: &str| -> u64 {
        let lines = text.lines().filter(|line| line.trim_start().starts_with(word));
        lines.filter_map(|line| line.split(": ").nth(1)?.trim().parse::<u64>().ok()).sum()
    };
    let (good, lacking) = (count("Success"), count("ENODATA"));
    let bad = count("ENOSYS") + count("ERROR");
    let figures = format!("{good} configurations pass, {bad} fail, {lacking} are not offered");
    if good > 0 && bad == 0 { Verdict::Pass(figures) } else { Verdict::Fail(figures) }
}

/// A name for files.
fn slug(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

fn log(test: &str, contender: &Contender, part: &str) -> String {
    format!("fabtests/{}/{}{part}", slug(contender.heading), slug(test))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(status: i32, text: &str) -> Ended {
        Ended { status: Some(status), text: text.into() }
    }

    #[test]
    fn the_scripts_arrays_are_read() {
        let script = "x\nneg_unit_tests=(\n\t\"fi_a g00\"\n)\nunit_tests=(\n\t\"fi_b -n 1\"\n\t\"fi_c\"\n)\n";
        assert_eq!(group_of(script, "unit_tests"), ["fi_b -n 1", "fi_c"]);
        assert_eq!(group_of(script, "neg_unit_tests"), ["fi_a g00"]);
        assert!(group_of(script, "other").is_empty());
    }

    #[test]
    fn what_no_side_can_do_did_not_run() {
        let lacks = "fi_getinfo(): common/shared.c:918, ret=-61 (No data available)";
        let skipped = verdict(&[ended(61, lacks), ended(61, lacks)]);
        assert_eq!(skipped, Verdict::Skip("not offered (fi_getinfo)".into()));
        assert!(matches!(verdict(&[ended(61, lacks), ended(0, "")]), Verdict::Fail(_)));
        assert!(matches!(verdict(&[ended(61, lacks), ended(38, "")]), Verdict::Fail(_)));
        assert_eq!(verdict(&[ended(0, ""), ended(0, "")]), Verdict::pass());
    }

    #[test]
    fn an_ubertest_without_success_is_no_pass() {
        let text = "Success:  10\nENODATA:  4\nENOSYS :  0\nERROR  :  0\n";
        assert!(ubertest_verdict(text).passed());
        assert!(matches!(ubertest_verdict("Success: 9\nERROR: 1\n"), Verdict::Fail(_)));
        assert!(matches!(ubertest_verdict(""), Verdict::Fail(_)));
    }
}
