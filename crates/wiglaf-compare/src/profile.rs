//! What the ranks of one run counted of their calls of MPI, as tables, and whether a faster network would
//! help.
//!
//! The bound is that of the efficiencies of POP (Performance Optimisation and Productivity, a European centre
//! of excellence): with a network that takes no time at all, the run would still last as long as the rank
//! that computes longest. So of the wall time, what lies beyond that rank's computing is the most that any
//! network could gain, and the mean of what ranks computed less than that one is waiting for slow ranks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use wiglaf_base::table::Table;

use crate::table::LAYOUT;

/// What one rank told.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rank {
    /// Its number, where its launcher says it.
    pub rank: Option<usize>,
    /// How many there are, where its launcher says it.
    pub size: Option<usize>,
    /// Where it ran.
    pub host: String,
    /// Threads that have called MPI.
    pub threads: usize,
    /// The time in MPI_Init.
    pub init_ns: u64,
    /// From there to MPI_Finalize.
    pub wall_ns: u64,
    /// The time in MPI_Finalize.
    pub finalize_ns: u64,
    /// Calls of one kind and size.
    pub calls: Vec<Calls>,
    /// What it did, where that was asked for; it has a file of its own.
    #[serde(default, skip_serializing)]
    pub trace: Option<String>,
    /// Why that cannot be replayed, if it cannot.
    #[serde(default, skip_serializing)]
    pub trace_gap: Option<String>,
}

/// Calls of one kind and size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// What is behind `MPI_`.
    pub call: String,
    /// 0: no bytes; else bytes from 2^(class - 1) to below 2^class.
    pub class: u32,
    /// How many.
    pub calls: u64,
    /// How long they took together.
    pub ns: u64,
    /// Of what sizes, together.
    pub bytes: u64,
}

/// A profile of all ranks.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Profile {
    /// The form of the file.
    pub schema: String,
    /// What ran.
    pub command: Vec<String>,
    /// What follows from the ranks.
    pub summary: Summary,
    /// All ranks, in order.
    pub ranks: Vec<Rank>,
}

/// Shares of the wall time from MPI_Init to MPI_Finalize.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Summary {
    /// That time, of the rank that took longest.
    pub wall_s: f64,
    /// The mean rank's time in MPI, without files.
    pub mpi_share: f64,
    /// What of it is waiting for ranks that compute longer.
    pub waiting_share: f64,
    /// The rest: the most that a faster network could gain.
    pub network_share: f64,
    /// The mean rank's time in MPI's files.
    pub files_share: f64,
}

impl Rank {
    fn seconds(&self, is_meant: impl Fn(&str) -> bool) -> f64 {
        let ns: u64 = self.calls.iter().filter(|c| is_meant(&c.call)).map(|c| c.ns).sum();
        ns as f64 / 1e9
    }

    /// In MPI, but for files.
    #[must_use]
    pub fn mpi_s(&self) -> f64 {
        self.seconds(|call| !is_file(call))
    }

    /// From MPI_Init to MPI_Finalize.
    #[must_use]
    pub fn wall_s(&self) -> f64 {
        self.wall_ns as f64 / 1e9
    }

    /// Outside of MPI, or in its files.
    #[must_use]
    pub fn compute_s(&self) -> f64 {
        (self.wall_s() - self.mpi_s()).max(0.0)
    }

    /// In which call it was longest.
    fn longest(&self) -> String {
        let mut by_call = BTreeMap::new();
        for calls in &self.calls {
            *by_call.entry(calls.call.as_str()).or_insert(0) += calls.ns;
        }
        by_call
            .into_iter()
            .max_by_key(|(_, ns)| *ns)
            .map_or("-".to_owned(), |(call, _)| call.to_owned())
    }
}

impl Profile {
    /// From what ranks told; nothing without any.
    #[must_use]
    pub fn of(command: Vec<String>, mut ranks: Vec<Rank>) -> Option<Self> {
        ranks.sort_by(|a, b| (a.rank, &a.host).cmp(&(b.rank, &b.host)));
        let count = ranks.len() as f64;
        let wall_s = ranks.iter().map(Rank::wall_s).fold(0.0, f64::max);
        if ranks.is_empty() || wall_s <= 0.0 {
            return None;
        }
        let mean = |of: &dyn Fn(&Rank) -> f64| ranks.iter().map(of).sum::<f64>() / count;
        let (mean_s, files_s) = (mean(&Rank::compute_s), mean(&|rank| rank.seconds(is_file)));
        let most_s = ranks.iter().map(Rank::compute_s).fold(0.0, f64::max);
        let summary = Summary {
            wall_s,
            mpi_share: (wall_s - mean_s) / wall_s,
            waiting_share: (most_s - mean_s) / wall_s,
            network_share: (wall_s - most_s) / wall_s,
            files_share: files_s / wall_s,
        };
        Some(Self { schema: "wiglaf-profile 1".to_owned(), command, summary, ranks })
    }

    /// All tables.
    #[must_use]
    pub fn tables(&self) -> String {
        let Summary { wall_s, .. } = self.summary;
        let count = self.ranks.len();
        let mut text = format!("{count} ranks, {wall_s:.2} s from MPI_Init to MPI_Finalize\n\n");
        for (title, table) in [
            ("Calls", self.by_call()),
            ("Sizes: messages by their senders, collective calls by every rank", self.by_size()),
            ("Ranks", self.by_rank()),
        ] {
            if !table.is_empty() {
                text += &format!("{title}\n{}\n", table.text());
            }
        }
        text
    }

    /// Calls, those that took longest first; times are means over ranks.
    fn by_call(&self) -> Table {
        let mut sums: BTreeMap<&str, (u64, u64, u64)> = BTreeMap::new();
        for calls in self.ranks.iter().flat_map(|rank| &rank.calls) {
            let sum = sums.entry(&calls.call).or_default();
            *sum = (sum.0 + calls.calls, sum.1 + calls.ns, sum.2 + calls.bytes);
        }
        let mut sums: Vec<_> = sums.into_iter().collect();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.1));
        let head = ["MPI_", "calls", "s a rank", "% of wall", "us a call", "bytes a call"];
        let mut table = Table::new(LAYOUT, head);
        for (call, (calls, ns, bytes)) in sums {
            let seconds = ns as f64 / 1e9 / self.ranks.len() as f64;
            table.row([
                call.to_owned(),
                calls.to_string(),
                format!("{seconds:.3}"),
                format!("{:.1}", 100.0 * seconds / self.summary.wall_s),
                format!("{:.1}", ns as f64 / 1e3 / calls.max(1) as f64),
                if bytes == 0 { "-".to_owned() } else { (bytes / calls.max(1)).to_string() },
            ]);
        }
        table
    }

    /// Messages and collective calls by their sizes.
    fn by_size(&self) -> Table {
        let mut sums: BTreeMap<u32, [u64; 4]> = BTreeMap::new();
        for calls in self.ranks.iter().flat_map(|rank| &rank.calls) {
            let at = match kind(&calls.call) {
                Kind::Message => 0,
                Kind::Collective => 2,
                Kind::Other => continue,
            };
            let sum = sums.entry(calls.class).or_default();
            sum[at] += calls.calls;
            sum[at + 1] += calls.bytes;
        }
        let most = sums.values().map(|sum| sum[0]).max().unwrap_or(0);
        let head = ["bytes", "messages", "MB", "collective", "MB", ""];
        let mut table = Table::new("  <  >  >  >  >  <", head);
        for (class, sum) in sums {
            let bar = if most == 0 { 0 } else { (sum[0] * 24).div_ceil(most) as usize };
            let megabytes = |bytes: u64| format!("{:.2}", bytes as f64 / 1e6);
            table.row([
                class_words(class),
                sum[0].to_string(),
                megabytes(sum[1]),
                sum[2].to_string(),
                megabytes(sum[3]),
                "#".repeat(bar),
            ]);
        }
        table
    }

    fn by_rank(&self) -> Table {
        let head = ["rank", "host", "computes s", "in MPI s", "in MPI %", "longest in"];
        let mut table = Table::new(LAYOUT, head);
        for rank in &self.ranks {
            table.row([
                rank.rank.map_or("?".to_owned(), |number| number.to_string()),
                rank.host.clone(),
                format!("{:.3}", rank.compute_s()),
                format!("{:.3}", rank.mpi_s()),
                format!("{:.1}", 100.0 * rank.mpi_s() / rank.wall_s().max(f64::MIN_POSITIVE)),
                rank.longest(),
            ]);
        }
        table
    }

    /// Whether a faster network would help.
    #[must_use]
    pub fn sentence(&self) -> String {
        let percent = |share: f64| format!("{:.1} %", 100.0 * share.max(0.0));
        let Summary { mpi_share, waiting_share, network_share, .. } = self.summary;
        format!(
            "MPI takes {} of the wall time, {} of it in waiting for ranks that compute longer: a faster network \
             gains at most {}",
            percent(mpi_share),
            percent(waiting_share),
            percent(network_share)
        )
    }

    /// What a reader must not take from the tables.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.ranks.iter().any(|rank| rank.threads > 1) {
            notes.push(
                "several threads of a rank called MPI: their times are added up, and may be more than the wall \
                 time"
                    .to_owned(),
            );
        }
        if self.summary.files_share > 0.0 {
            notes.push(format!(
                "MPI's files took {:.1} % of the wall time, which counts as computing here",
                100.0 * self.summary.files_share
            ));
        }
        if self.summary.wall_s < 1.0 {
            notes.push(
                "the run was shorter than a second: take a longer one for figures to rely on"
                    .to_owned(),
            );
        }
        notes
    }
}

fn is_file(call: &str) -> bool {
    call.starts_with("File_")
}

/// What a call's size is the size of.
enum Kind {
    Message,
    Collective,
    Other,
}

fn kind(call: &str) -> Kind {
    const MESSAGES: [&str; 16] = [
        "Send",
        "Bsend",
        "Ssend",
        "Rsend",
        "Isend",
        "Ibsend",
        "Issend",
        "Irsend",
        "Sendrecv",
        "Sendrecv_replace",
        "Put",
        "Get",
        "Rput",
        "Rget",
        "Accumulate",
        "Raccumulate",
    ];
    const COLLECTIVES: [&str; 9] = [
        "bcast",
        "gather",
        "scatter",
        "allgather",
        "alltoall",
        "reduce",
        "allreduce",
        "scan",
        "exscan",
    ];
    if MESSAGES.contains(&call) {
        return Kind::Message;
    }
    let name = call.to_ascii_lowercase();
    let of =
        |name: &str| COLLECTIVES.iter().any(|one| name.strip_prefix(one).is_some_and(is_variant));
    match of(&name) || name.strip_prefix('i').is_some_and(of) {
        true => Kind::Collective,
        false => Kind::Other,
    }
}

fn is_variant(rest: &str) -> bool {
    ["", "v", "w", "_scatter", "_scatter_block"].contains(&rest)
}

/// The sizes of a class.
fn class_words(class: u32) -> String {
    let words = |bytes: u64| match bytes {
        bytes if bytes >= 1 << 30 => format!("{} GiB", bytes >> 30),
        bytes if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        bytes if bytes >= 1 << 10 => format!("{} KiB", bytes >> 10),
        bytes => bytes.to_string(),
    };
    match class {
        0 => "none".to_owned(),
        1 => "1".to_owned(),
        class => format!("from {}", words(1 << (class - 1).min(62))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn calls(call: &str, class: u32, calls: u64, ms: u64, bytes: u64) -> Calls {
        Calls { call: call.into(), class, calls, ns: ms * 1_000_000, bytes }
    }

    fn rank(number: usize, wall_ms: u64, calls: Vec<Calls>) -> Rank {
        Rank {
            rank: Some(number),
            size: Some(2),
            host: format!("pc{}", number + 1),
            threads: 1,
            init_ns: 1,
            wall_ns: wall_ms * 1_000_000,
            finalize_ns: 1,
            calls,
            trace: None,
            trace_gap: None,
        }
    }

    /// Rank 0 computes 9.5 of 10 s, rank 1 7.5 of them.
    fn sample() -> Profile {
        let first = vec![calls("Send", 4, 100, 300, 800), calls("Allreduce", 0, 5, 200, 0)];
        let second = vec![calls("Recv", 4, 100, 2_000, 800), calls("Allreduce", 0, 5, 500, 0)];
        let ranks = vec![rank(1, 10_000, second), rank(0, 10_000, first)];
        Profile::of(vec!["./prog".into()], ranks).unwrap()
    }

    #[test]
    fn shares_add_up_and_the_network_gains_at_most_what_the_longest_rank_does_not_compute() {
        let profile = sample();
        let said = "MPI takes 15.0 % of the wall time, 10.0 % of it in waiting for ranks that compute longer: a \
                    faster network gains at most 5.0 %";
        assert_eq!(profile.sentence(), said);
        let Summary { mpi_share, waiting_share, network_share, .. } = profile.summary;
        assert!((mpi_share - waiting_share - network_share).abs() < 1e-12);
        assert_eq!(profile.notes(), [""; 0]);
    }

    #[test]
    fn tables_have_calls_sizes_and_ranks() {
        let text = sample().tables();
        for line in [
            "  Recv         100     1.000       10.0    20000.0             8",
            "  Allreduce     10     0.350        3.5    70000.0             -",
            "  from 8       100  0.00           0  0.00  ########################",
            "  none           0  0.00          10  0.00",
            "  0      pc1       9.500     0.500       5.0        Send",
            "  1      pc2       7.500     2.500      25.0        Recv",
        ] {
            assert!(text.lines().any(|l| l == line), "{line}\n{text}");
        }
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }

    #[test]
    fn files_are_no_part_of_the_network() {
        let ranks = vec![rank(0, 2_000, vec![calls("File_write", 11, 1, 1_000, 1024)])];
        let profile = Profile::of(Vec::new(), ranks).unwrap();
        assert!(profile.summary.mpi_share.abs() < 1e-12 && profile.notes()[0].contains("50.0 %"));
        assert_eq!(Profile::of(Vec::new(), Vec::new()), None);
    }

    #[test]
    fn calls_are_of_a_kind() {
        for (call, expected) in [
            ("Isend", 0),
            ("Put", 0),
            ("Recv", 2),
            ("Ibcast", 1),
            ("Alltoallv", 1),
            ("Reduce_scatter", 1),
            ("Ireduce_scatter_block", 1),
            ("Barrier", 2),
            ("Iprobe", 2),
            ("File_read_all", 2),
            ("Scatterv", 1),
        ] {
            let found = match kind(call) {
                Kind::Message => 0,
                Kind::Collective => 1,
                Kind::Other => 2,
            };
            assert_eq!(found, expected, "{call}");
        }
    }

    #[test]
    fn classes_begin_at_powers_of_two() {
        let words = [0, 1, 2, 11, 21, 31, 41, 64].map(class_words);
        assert_eq!(words[..4], ["none", "1", "from 2", "from 1 KiB"]);
        assert_eq!(words[4..6], ["from 1 MiB", "from 1 GiB"]);
    }
}
