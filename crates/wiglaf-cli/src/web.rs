//! `wiglaf web`.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use wiglaf_base::network;
use wiglaf_base::user::User;
use wiglaf_base::{Error, HostList, Result, paths};
use wiglaf_check::verdict::Severity;
use wiglaf_cluster::Cluster;
use wiglaf_node::Node;
use wiglaf_web::{
    Board, Check, Job, Pair, Part, Password, Queue, Series, Server, Trouble, View, token,
};

use crate::options::Global;
use crate::top::view::{Row, per_second};
use crate::which::Meant;
use crate::{batch, check, output, top};

/// Slurm, Prometheus and the last check are asked so often.
const SLOW: Duration = Duration::from_secs(15);
/// How far back history goes, and in how many steps.
const HISTORY_S: u64 = 6 * 3600;
const STEPS: u64 = 48;
/// What Prometheus is asked for: a name, a unit, a query.
const PAST: [(&str, &str, &str); 4] = [
    ("load", "", r#"node_load1{job="wiglaf"}"#),
    ("temperature", "°C", r#"max by (host) (node_hwmon_temp_celsius{job="wiglaf"})"#),
    ("sent", "MB/s", r#"rate(wiglaf_sent_bytes_total{job="wiglaf"}[15m]) / 1e6"#),
    ("sent again", "/s", r#"rate(wiglaf_packets_retransmitted_total{job="wiglaf"}[15m])"#),
];

const HELP: &str = "\
Examples:
  wiglaf web                     on this machine alone; open the printed URL
  wiglaf web --network           at this host's address in the data network
  ssh -L 8078:127.0.0.1:8078 pc1 seen from elsewhere, encrypted

The page shows what `wiglaf top` shows, the network as `wiglaf check` measured
it, Slurm's jobs and what is wrong with nodes; and the last six hours, where
`wiglaf monitor setup` was typed on this host. Jobs are those that Slurm shows
to you: whoever has the URL sees them, too. At 127.0.0.1 your password on this
machine signs you in as well. There is no TLS. Ctrl-C ends it.";

/// Serve a page that shows the cluster, to browsers that have its token
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Listen at this host's address in the data network, not at 127.0.0.1
    #[arg(long)]
    network: bool,

    /// The port; 0 for any that is free
    #[arg(long, value_name = "PORT", default_value_t = 8078)]
    port: u16,

    /// Look at the nodes again after so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=3600))]
    every: u64,

    /// Make a new token; the one before is worth nothing from now on
    #[arg(long)]
    new_token: bool,

    /// Print where the page is as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Where {
    url: String,
    token_file: PathBuf,
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    let meant = global.meant()?;
    let cluster = meant.running()?;
    let members = cluster.members(&HostList::default())?;
    let nodes: Vec<Node> = members.into_iter().map(|member| member.node).collect();
    let address = address(args, &cluster)?;
    let token_file = paths::user_state()
        .map(|state| state.join("wiglaf/web.token"))
        .ok_or_else(|| Error::new("there is no home to keep the token in; set HOME"))?;
    let token = token::of_file(&token_file, args.new_token)?;

    let first = Look::new(&nodes, &cluster);
    let mut view = View {
        cluster: cluster.name().to_owned(),
        at_s: now_s(),
        nodes: Vec::new(),
        troubles: Vec::new(),
        check: Part::Not("not asked yet".to_owned()),
        queue: Part::Not("not asked yet".to_owned()),
        history: Part::Not("not asked yet".to_owned()),
    };
    first.show(None, &mut view);
    let board = Arc::new(Board::new(view));
    let server = Server::bind(SocketAddr::new(address.into(), args.port), &token, board.clone())?;
    // On a network everybody could read it.
    let server = match Password::of_user().filter(|_| address.is_loopback()) {
        Some(password) => server.with_password(password)?,
        None => server,
    };
    let url = format!("http://{}/?token={token}", server.address()?);
    if args.json {
        output::print_json(&Where { url, token_file })?;
    } else {
        output::print(&format!("{url}\n"))?;
        let shown = token_file.display();
        eprintln!("wiglaf: whoever has this address sees the page; its token is in {shown}");
    }
    let every = Duration::from_secs(args.every);
    let of_nodes = (board.clone(), cluster.clone());
    thread::spawn(move || watch_nodes(&of_nodes.0, &nodes, &of_nodes.1, first, every));
    thread::spawn(move || watch_the_rest(&board, &meant, &cluster));
    server.run()
}

/// Where to listen: this machine alone, or its address in the cluster's network.
fn address(args: &Args, cluster: &Cluster) -> Result<Ipv4Addr> {
    if !args.network {
        return Ok(Ipv4Addr::LOCALHOST);
    }
    let data = top::data(cluster).ok_or_else(|| {
        Error::new("an emulated cluster has no network that browsers are in; leave --network out")
    })?;
    let own = network::own_in(data);
    own.map(|own| own.address).ok_or_else(|| {
        Error::new(format!(
            "this machine has no address in the data network {data}; type it on one of the hosts, or leave \
             --network out"
        ))
    })
}

/// One look at the nodes.
struct Look {
    at: Instant,
    rows: Vec<Row>,
}

impl Look {
    fn new(nodes: &[Node], cluster: &Cluster) -> Self {
        let rows = top::look(nodes, top::data(cluster));
        Self { at: Instant::now(), rows }
    }

    fn show(&self, before: Option<&Self>, view: &mut View) {
        let before = before.map(|before| {
            (before.rows.as_slice(), self.at.duration_since(before.at).as_secs_f64())
        });
        view.at_s = now_s();
        view.nodes = self.rows.iter().map(|row| node(row, before)).collect();
    }
}

fn node(row: &Row, before: Option<(&[Row], f64)>) -> wiglaf_web::Node {
    let mut node = wiglaf_web::Node {
        name: row.node.clone(),
        error: row.error.clone(),
        ..wiglaf_web::Node::default()
    };
    if let Some(here) = &row.here {
        node.load = here.load;
        node.cores = here.cores;
        node.memory_used_kib = here.memory_used_kib;
        node.memory_total_kib = here.memory_total_kib;
        node.temperature_c = here.temperature_c;
        node.interface.clone_from(&here.interface);
        node.link_mbit_per_s = here.link_mbit_per_s;
        node.programs = here.programs.iter().cloned().collect();
    }
    if let Some(before) = before {
        node.sent_mb_per_s = per_second(row, before, |here| here.bytes_sent).map(|rate| rate / 1e6);
        node.retransmitted_per_s = per_second(row, before, |here| here.retransmitted);
    }
    node
}

fn watch_nodes(board: &Board, nodes: &[Node], cluster: &Cluster, first: Look, every: Duration) {
    let mut before = first;
    loop {
        thread::sleep(every);
        board.wait_until_watched();
        let now = Look::new(nodes, cluster);
        board.change(|view| now.show(Some(&before), view));
        before = now;
    }
}

fn watch_the_rest(board: &Board, meant: &Meant, cluster: &Cluster) {
    loop {
        board.wait_until_watched();
        let (check, mut troubles) = checked(cluster);
        let (queue, drained) = queue(meant);
        let (history, alerts) = past(cluster);
        troubles.splice(0..0, drained.into_iter().chain(alerts));
        board.change(|view| {
            view.check = check;
            view.queue = queue;
            view.history = history;
            view.troubles = troubles;
        });
        thread::sleep(SLOW);
    }
}

/// The last check's pairs, and what it found that stops or slows jobs.
fn checked(cluster: &Cluster) -> (Part<Check>, Vec<Trouble>) {
    let Some(last) = check::last(cluster) else {
        let why = "The speed of pairs has not been measured: type `wiglaf check`.";
        return (Part::Not(why.to_owned()), Vec::new());
    };
    let pairs = last.pairs.iter().map(|pair| {
        let ways = [&pair.a_to_b, &pair.b_to_a];
        let rates = ways.into_iter().filter_map(|way| way.stream_mb_s.get().copied());
        Pair {
            a: pair.a.clone(),
            b: pair.b.clone(),
            mb_per_s: rates.reduce(f64::min),
            failure: pair.failure.clone(),
        }
    });
    let check = Check { at_s: last.at_s.max(0).unsigned_abs(), pairs: pairs.collect() };
    let matters = [Severity::Fatal, Severity::Slows];
    let found = last.findings.iter().filter(|finding| matters.contains(&finding.severity));
    let troubles =
        found.map(|found| Trouble { says: found.sentence.clone(), fix: found.fix.clone() });
    (Part::Is(check), troubles.collect())
}

/// Slurm's jobs, and the nodes that take none.
fn queue(meant: &Meant) -> (Part<Queue>, Vec<Trouble>) {
    let status = match batch::status(meant) {
        Ok(status) => status,
        Err(error) => return (Part::Not(error.to_string()), Vec::new()),
    };
    let uid = rustix::process::geteuid().as_raw();
    let jobs = status.jobs.into_iter().map(|job| Job {
        nodes: if job.on.is_empty() { job.nodes } else { job.on },
        id: job.id,
        name: job.name,
        user: job.user,
        state: job.state,
        time: job.time,
        says: job.says,
    });
    let user = User::find(&uid.to_string()).map_or_else(|_| uid.to_string(), |user| user.name);
    let queue = Queue { user, jobs: jobs.collect() };
    let troubles = status
        .nodes
        .into_iter()
        .filter_map(|node| Some(Trouble { says: node.says?, fix: node.fix.unwrap_or_default() }));
    (Part::Is(queue), troubles.collect())
}

/// What Prometheus has kept, and the alerts that fire.
fn past(cluster: &Cluster) -> (Part<Vec<Series>>, Vec<Trouble>) {
    let not = |why: String| (Part::Not(why), Vec::new());
    let Some(hosts) = cluster.hosts() else {
        return not(
            "Emulated nodes have no history; `wiglaf monitor` keeps that of real hosts.".to_owned()
        );
    };
    let Some(here) = network::own_in(hosts.network.data).map(|own| own.address) else {
        return not("This machine is none of the hosts: type `wiglaf web` on the one that watches the others."
            .to_owned());
    };
    let alerts = match wiglaf_monitor::alerts(here) {
        Ok(alerts) => alerts,
        Err(error) => return not(format!("There is no history: {error}")),
    };
    let alerts = alerts.into_iter().map(|alert| Trouble { says: alert.summary, fix: alert.fix });
    let to = now_s();
    let when = (to.saturating_sub(HISTORY_S), to);
    let series = PAST.into_iter().map(|(name, unit, query)| {
        Ok(Series {
            name: name.to_owned(),
            unit: unit.to_owned(),
            from_to_s: when,
            nodes: wiglaf_monitor::history(here, query, when, HISTORY_S / STEPS)?,
        })
    });
    let series: Result<Vec<Series>> = series.collect();
    let history = match series {
        Ok(series) => Part::Is(series),
        Err(error) => Part::Not(format!("There is no history: {error}")),
    };
    (history, alerts.collect())
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs())
}
