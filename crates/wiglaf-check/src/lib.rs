//! Compares the hosts of a cluster and says what is wrong, each in one sentence with one command:
//! the engine of `wiglaf check`, and of what `wiglaf tune` measures. It changes nothing, needs no
//! privilege, starts no ssh and prints nothing: the caller reaches the hosts and shows the result.
//!
//! | part | what it is | where it runs |
//! |---|---|---|
//! | [`facts`] | what one host says of itself | on each host: `wiglaf host-facts` |
//! | [`probe`] | what a pair of hosts says | a server on each host: `wiglaf host-probe`; the steps in the caller |
//! | [`verdict`] | what is wrong | in the caller: pure functions |
//!
//! # How a caller uses it
//!
//! 1. On every host at once: run `wiglaf host-facts` there, with an [`Ask`](facts::Ask) as JSON on its
//!    standard input. The command is [`facts::collect`] between two lines of serde_json, and ends
//!    within two seconds. The caller fills in `peers` (all hosts of the cluster file with their
//!    addresses on the data network), `folder`, `files`, `scratch`; the command itself `mpis` (its own
//!    discovery) and `wiglaf` (its version).
//! 2. [`probe::tournament`] measures all pairs. Its `connect` starts `wiglaf host-probe` on a host,
//!    which is [`probe::serve`] on its standard input and output, and gives
//!    [`Lines`](probe::Lines)`::new(child.stdout, child.stdin)`. The probe ends with its input, and so
//!    with its ssh. [`Plan::full`](probe::Plan::full) takes about 8 s a round and suits up to 8 hosts,
//!    [`Plan::quick`](probe::Plan::quick) about 1 s. One pair alone: [`probe::measure`].
//! 3. [`Checked::new`](verdict::Checked::new) judges both, with the last result if there is one. The
//!    value is the JSON of `check --json` and what is kept for the next time.
//!    [`verdict::text`] is what a person reads, [`Checked::worst`](verdict::Checked::worst) decides the
//!    exit status, and [`Checked::fatal`](verdict::Checked::fatal) tells `wiglaf run` what to refuse.
//!
//! `wiglaf tune --measure` measures pairs with [`Plan::tuning`](probe::Plan::tuning) before and after what the
//! helper changes; [`verdict::gain`] is the sentence. What it would change [`tuning`] says, from facts alone.
//!
//! ```no_run
//! use std::process::{Command, Stdio};
//! use std::time::Duration;
//! use wiglaf_check::probe::{Lines, Measured, Plan, Side, tournament};
//! use wiglaf_check::verdict::{Checked, Expected, Host, text};
//!
//! # let (hosts, now_s): (Vec<Host>, i64) = (Vec::new(), 0);
//! let expected = Expected { data: Some(([192, 168, 77, 0].into(), 24)), ports: (47000, 47999) };
//! let ends: Vec<_> =
//!     hosts.iter().filter_map(|host| Some((host.name.clone(), host.address?))).collect();
//! let connect = |host: usize| -> Result<Box<dyn Side + Send>, String> {
//!     let mut ssh = Command::new("ssh");
//!     ssh.args(["-oBatchMode=yes", &ends[host].0, "wiglaf", "host-probe"]);
//!     let child = ssh.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
//!     let mut child = child.map_err(|why| why.to_string())?;
//!     let (from, to) = (child.stdout.take().unwrap(), child.stdin.take().unwrap());
//!     Ok(Box::new(Lines::new(from, to))) // somebody has to wait for the child later
//! };
//! let plan = Plan::full(expected.ports);
//! let budget = Duration::from_secs(60);
//! let Measured { pairs, together } = tournament(&ends, &connect, &plan, budget, &mut |_, _| {});
//! let checked = Checked::new(now_s, expected, hosts, pairs, together, None);
//! print!("{}", text(&checked));
//! ```
//!
//! Facts and results are JSON that other versions of Wiglaf read: fields that they do not know are
//! skipped, those that they miss count as [`Known::Unknown`]. Requests of a probe have a version,
//! [`probe::SCHEMA`].

#![forbid(unsafe_code)]

pub mod facts;
mod known;
pub mod probe;
pub mod schedule;
pub mod tuning;
pub mod verdict;

pub use known::Known;
