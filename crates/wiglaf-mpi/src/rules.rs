//! Files that tell an MPI which algorithm to take for a collective: written, read again, and checked.
//!
//! Open MPI's coll/tuned reads one in every rank. What it makes of it differs from what one would guess, and a file of
//! ours is written for what it does ([ADR 0064](../../../docs/adr/0064-rules-for-collectives-are-measured.md)):
//!
//! - a communicator takes the greatest size that is listed and not above its own, but the first one where all are above:
//!   so size 0 stands first, and behind each measured size stands the next one, both with the MPI's own choice;
//! - a message takes the greatest length that is listed and not above its own; algorithm 0 is the own choice;
//! - for gather, scatter, allgather and alltoall the length is computed from arguments that MPI ignores on some ranks, so
//!   that ranks may take different rules: a file of ours has one algorithm for all lengths there;
//! - a file that it does not understand is ignored in silence, by each rank for itself: so nothing but what this module
//!   has written is handed to it.
//!
//! MPICH's is made of a file in the same form, with numbers of ours ([`mpich`]).

pub mod mpich;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use wiglaf_base::error::{Error, Result};

use super::{Family, Installation};

/// Names the layout of the file; stands in its first line.
const SCHEMA: &str = "wiglaf-collectives/1";
/// What keeps a file of ours small; far above what is ever measured.
pub const LEN_MAX: usize = 64 << 10;
/// Greatest number of an algorithm that may stand in a file. Open MPI has ten for one operation at most.
const ALGORITHM_MAX: u32 = 31;
/// The fan-out of chains and trees that coll/tuned has where nothing is said, with which algorithms are measured.
const FANOUT: u32 = 4;

/// A collective that rules can be for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `MPI_Allgather`.
    Allgather,
    /// `MPI_Allreduce`.
    Allreduce,
    /// `MPI_Alltoall`.
    Alltoall,
    /// `MPI_Barrier`.
    Barrier,
    /// `MPI_Bcast`.
    Bcast,
    /// `MPI_Gather`.
    Gather,
    /// `MPI_Reduce`.
    Reduce,
    /// `MPI_Reduce_scatter`.
    ReduceScatter,
    /// `MPI_Scatter`.
    Scatter,
}

impl Operation {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 9] = [
        Self::Allgather,
        Self::Allreduce,
        Self::Alltoall,
        Self::Barrier,
        Self::Bcast,
        Self::Gather,
        Self::Reduce,
        Self::ReduceScatter,
        Self::Scatter,
    ];

    /// As in the variables of coll/tuned.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Allgather => "allgather",
            Self::Allreduce => "allreduce",
            Self::Alltoall => "alltoall",
            Self::Barrier => "barrier",
            Self::Bcast => "bcast",
            Self::Gather => "gather",
            Self::Reduce => "reduce",
            Self::ReduceScatter => "reduce_scatter",
            Self::Scatter => "scatter",
        }
    }

    /// That of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operation| operation.name() == name)
    }

    /// Open MPI's number, the same in versions 4 and 5.
    fn number(self) -> u64 {
        match self {
            Self::Allgather => 0,
            Self::Allreduce => 2,
            Self::Alltoall => 3,
            Self::Barrier => 6,
            Self::Bcast => 7,
            Self::Gather => 9,
            Self::Reduce => 11,
            Self::ReduceScatter => 12,
            Self::Scatter => 15,
        }
    }

    /// Whether Open MPI computes its length in each rank from arguments that count everywhere and are the same.
    fn has_lengths(self) -> bool {
        matches!(self, Self::Allreduce | Self::Bcast | Self::Reduce | Self::ReduceScatter)
    }
}

/// Why an MPI gets no such file, in one sentence; nothing where it does.
#[must_use]
pub fn why_not(mpi: &Installation) -> Option<String> {
    let of = mpi.summary();
    match mpi.family {
        Family::OpenMpi if mpi.is_at_least(&[6]) => {
            Some(format!("{of} was not tried with rules for collectives; versions 4 and 5 were"))
        }
        Family::Mpich if !mpi.is_at_least(&[4]) || mpi.is_at_least(&[6]) => {
            Some(format!("{of} was not tried with rules for collectives; versions 4 and 5 were"))
        }
        Family::OpenMpi | Family::Mpich => None,
        Family::Intel => Some(format!(
            "rules for collectives are measured for Open MPI and MPICH 4 and 5, not for {of}; take --mpi \
             openmpi or mpich"
        )),
    }
}

/// Where and with what rules were measured, which is where they hold.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Shape {
    /// Family and version of the MPI.
    pub mpi: String,
    /// How messages travelled.
    pub transport: String,
    /// Over which link, as it was asked for.
    pub link: String,
    /// Ranks on each node.
    pub per_node: usize,
    /// The nodes.
    pub nodes: Vec<String>,
}

impl Shape {
    /// What tells the MPIs apart, as it stands in a file.
    #[must_use]
    pub fn mpi_of(mpi: &Installation) -> String {
        format!("{} {}", mpi.family, mpi.version)
    }

    fn is_of_mpich(&self) -> bool {
        self.mpi.starts_with(&Family::Mpich.to_string())
    }

    /// Whether rules for an operation may depend on the length: whether each rank computes it from arguments that count
    /// everywhere and are the same.
    #[must_use]
    pub fn has_lengths(&self, operation: Operation) -> bool {
        // MPICH's own choice depends on lengths, too. It takes them from arguments that count at all ranks, but for an
        // alltoall in place, which goes by the own choice whatever the length.
        self.is_of_mpich() || operation.has_lengths()
    }

    /// Whether what was measured so says something of a job of the shape `job`: on these nodes or some of them.
    #[must_use]
    pub fn covers(&self, job: &Self) -> bool {
        let same = self.mpi == job.mpi
            && self.transport == job.transport
            && self.link == job.link
            && self.per_node == job.per_node;
        same && job.nodes.iter().all(|node| self.nodes.contains(node))
    }

    /// What a file for it is called, but for its time.
    #[must_use]
    pub fn file_name(&self) -> String {
        let text = format!("{}-{}-{}-{}", self.mpi, self.transport, self.link, self.per_node);
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '.' { c.to_ascii_lowercase() } else { '-' }
        };
        text.chars().map(plain).collect()
    }
}

/// Lengths and the algorithms from there on, the shortest first; 0 is the MPI's own choice.
pub type Lengths = Vec<(u64, u32)>;

/// A file of rules.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// Where they hold.
    pub shape: Shape,
    /// How they were made, for people: names and texts of one line.
    pub made: Vec<(String, String)>,
    /// By operation and number of ranks. Lengths are in bytes, as the MPI counts them for that operation.
    table: BTreeMap<(Operation, usize), Lengths>,
}

impl Rules {
    /// None yet.
    #[must_use]
    pub fn new(shape: Shape, made: Vec<(String, String)>) -> Self {
        let line = |text: String| text.replace(['\n', '\r'], " ");
        let made = made.into_iter().map(|(name, text)| (line(name), line(text))).collect();
        Self { shape, made, table: BTreeMap::new() }
    }

    /// Adds what was found for one operation and number of ranks.
    ///
    /// # Errors
    /// When lengths do not rise from 0, an algorithm is out of range, or lengths are told apart where ranks may not
    /// agree on them.
    pub fn add(&mut self, operation: Operation, ranks: usize, lengths: Lengths) -> Result<()> {
        let rise = lengths.windows(2).all(|two| two[0].0 < two[1].0);
        let begins = lengths.first().is_some_and(|(len, _)| *len == 0);
        let known = lengths.iter().all(|(_, algorithm)| *algorithm <= ALGORITHM_MAX);
        let apart = lengths.len() == 1 || self.shape.has_lengths(operation);
        let known = known && (!self.shape.is_of_mpich() || mpich::are_known(operation, &lengths));
        if ranks < 2 || !(rise && begins && known && apart) {
            return Err(Error::new(format!(
                "these are no rules for {} of {ranks} ranks: {lengths:?}",
                operation.name()
            )));
        }
        if lengths.iter().any(|(_, algorithm)| *algorithm != 0) {
            self.table.insert((operation, ranks), lengths);
        }
        Ok(())
    }

    /// By operation and number of ranks.
    pub fn table(&self) -> impl Iterator<Item = (Operation, usize, &[(u64, u32)])> {
        self.table
            .iter()
            .map(|((operation, ranks), lengths)| (*operation, *ranks, lengths.as_slice()))
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    /// Numbers of ranks and their lengths, those included that keep rules from holding elsewhere.
    fn sizes(&self, operation: Operation) -> Vec<(usize, Lengths)> {
        let own = || vec![(0, 0)];
        let mut sizes = vec![(0, own())];
        for ((_, ranks), lengths) in self.table.iter().filter(|((one, _), _)| *one == operation) {
            // What ended the one before is this one.
            sizes.retain(|(size, _)| size != ranks);
            sizes.push((*ranks, lengths.clone()));
            sizes.push((ranks + 1, own()));
        }
        sizes
    }

    /// The file.
    #[must_use]
    pub fn text(&self) -> String {
        let Shape { mpi, transport, link, per_node, nodes } = &self.shape;
        let mut text = format!(
            "# {SCHEMA}: made by `wiglaf links measure --collectives`, taken away by `wiglaf links forget`\n\
             # mpi: {mpi}\n# transport: {transport}\n# link: {link}\n# ranks per node: {per_node}\n# nodes: {}\n",
            nodes.join(",")
        );
        let mut line = |words: std::fmt::Arguments<'_>| {
            text.write_fmt(words).expect("a string takes everything");
            text.push('\n');
        };
        for (name, value) in &self.made {
            line(format_args!("# - {name}: {value}"));
        }
        let with: Vec<Operation> = Operation::ALL
            .into_iter()
            .filter(|operation| self.table.keys().any(|(one, _)| one == operation))
            .collect();
        line(format_args!("{} # operations", with.len()));
        for operation in with {
            let sizes = self.sizes(operation);
            line(format_args!("{} # {}", operation.number(), operation.name()));
            line(format_args!("{} # sizes of communicators", sizes.len()));
            for (ranks, lengths) in sizes {
                line(format_args!("{ranks} {} # ranks, lengths", lengths.len()));
                for (len, algorithm) in lengths {
                    let fanout = if algorithm == 0 { 0 } else { FANOUT };
                    line(format_args!("{len} {algorithm} {fanout} 0"));
                }
            }
        }
        text
    }

    /// What such a file says.
    ///
    /// # Errors
    /// When it is not, to the byte, what [`Self::text`] makes: it is damaged, or was written by another program, and an
    /// MPI would ignore it in silence or take something else of it on each rank.
    pub fn parse(text: &[u8]) -> Result<Self> {
        let whole = std::str::from_utf8(text).ok().filter(|text| text.len() <= LEN_MAX);
        let rules = whole.and_then(Self::read);
        rules.filter(|rules| rules.text().as_bytes() == text).ok_or_else(|| {
            Error::new(
                "it is damaged or was not made by this version of `wiglaf links measure --collectives`",
            )
        })
    }

    fn read(text: &str) -> Option<Self> {
        let mut lines = text.lines().peekable();
        lines.next().filter(|line| line.starts_with(&format!("# {SCHEMA}: ")))?;
        let mut told = |name: &str| {
            Some(
                lines
                    .next()?
                    .strip_prefix("# ")?
                    .strip_prefix(name)?
                    .strip_prefix(": ")?
                    .to_owned(),
            )
        };
        let shape = Shape {
            mpi: told("mpi")?,
            transport: told("transport")?,
            link: told("link")?,
            per_node: told("ranks per node")?.parse().ok()?,
            nodes: told("nodes")?.split(',').map(str::to_owned).collect(),
        };
        let mut made = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("# - ")) {
            let (name, value) = line.strip_prefix("# - ")?.split_once(": ")?;
            made.push((name.to_owned(), value.to_owned()));
        }
        let mut rules = Self::new(shape, made);
        let mut numbers = lines
            .map(|line| line.split_once('#').map_or(line, |(numbers, _)| numbers))
            .flat_map(str::split_whitespace)
            .map(|word| word.parse::<u64>().ok());
        let mut next = move || numbers.next().flatten();
        for _ in 0..next()? {
            let number = next()?;
            let operation = Operation::ALL.into_iter().find(|one| one.number() == number)?;
            for _ in 0..next()? {
                let ranks = usize::try_from(next()?).ok()?;
                let mut lengths = Lengths::new();
                for _ in 0..next()? {
                    let (len, algorithm) = (next()?, u32::try_from(next()?).ok()?);
                    // Fan-out and segments are compared with the whole text.
                    let _ = (next()?, next()?);
                    lengths.push((len, algorithm));
                }
                // Sizes that only keep rules from holding elsewhere have none.
                if lengths.iter().any(|(_, algorithm)| *algorithm != 0) {
                    rules.add(operation, ranks, lengths).ok()?;
                }
            }
        }
        Some(rules)
    }
}

/// How variables of MPICH's begin.
const MPICHS: [&str; 3] = ["MPIR_CVAR_", "MPIR_PARAM_", "MPICH_"];
/// Words in those that speak of how collectives are done.
const MPICHS_OF_COLLECTIVES: [&str; 5] = ["COLL", "BCAST", "REDUCE", "ALLGATHER", "ALLTOALL"];

/// The user's own setting that speaks of how collectives are chosen, where there is one: then no file of ours is used.
/// `defaults` is the text of their file of MCA parameters.
#[must_use]
pub fn users_own(names: impl Iterator<Item = String>, defaults: &str) -> Option<String> {
    let concerns = |name: &str| {
        let of_coll = |rest: &str| rest == "coll" || rest.starts_with("coll_tuned_");
        // What another pml carries was not measured.
        of_coll(name) || name.starts_with("coll_base_") || name == "pml"
    };
    let ours = |name: &String| {
        name.strip_prefix("OMPI_MCA_").is_some_and(concerns)
            || MPICHS.iter().any(|start| {
                let rest = name.strip_prefix(start);
                rest.is_some_and(|rest| {
                    MPICHS_OF_COLLECTIVES.iter().any(|word| rest.contains(word))
                })
            })
    };
    let in_file = defaults.lines().filter_map(|line| {
        let name = line.split('=').next()?.trim();
        (line.contains('=') && concerns(name)).then(|| format!("{name} in mca-params.conf"))
    });
    names.filter(ours).chain(in_file).next()
}

/// What makes an MPI read a file.
#[must_use]
pub fn variables(family: Family, file: &std::path::Path) -> Vec<(String, String)> {
    let path = file.display().to_string();
    let set: &[(&str, &str)] = match family {
        Family::OpenMpi => &[
            ("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
            ("OMPI_MCA_coll_tuned_dynamic_rules_filename", &path),
        ],
        Family::Mpich => &[("MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE", &path)],
        Family::Intel => &[],
    };
    set.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shape() -> Shape {
        Shape {
            mpi: "Open MPI 4.1.4".to_owned(),
            transport: "wiglaf".to_owned(),
            link: "auto".to_owned(),
            per_node: 1,
            nodes: ["node1", "node2", "node3", "node4"].map(str::to_owned).into(),
        }
    }

    fn rules() -> Rules {
        let made =
            vec![("rounds".to_owned(), "5".to_owned()), ("load".to_owned(), "0.4\n0.2".to_owned())];
        let mut rules = Rules::new(shape(), made);
        rules.add(Operation::Bcast, 2, vec![(0, 0), (1024, 3), (4096, 0)]).unwrap();
        rules.add(Operation::Bcast, 3, vec![(0, 6)]).unwrap();
        rules.add(Operation::Barrier, 4, vec![(0, 4)]).unwrap();
        rules.add(Operation::Scatter, 4, vec![(0, 0)]).unwrap();
        rules
    }

    #[test]
    fn file_says_where_each_rule_ends() {
        let text = rules().text();
        let numbers: Vec<&str> = text
            .lines()
            .map(|line| line.split('#').next().unwrap().trim())
            .filter(|line| !line.is_empty())
            .collect();
        let wanted = [
            // Two operations; scatter has only the own choice.
            "2",
            "6",
            "3",
            "0 1",
            "0 0 0 0",
            "4 1",
            "0 4 4 0",
            "5 1",
            "0 0 0 0", //
            "7",
            "4",
            "0 1",
            "0 0 0 0",
            "2 3",
            "0 0 0 0",
            "1024 3 4 0",
            "4096 0 0 0", //
            // What ended the rules for 2 ranks is the rules for 3.
            "3 1",
            "0 6 4 0",
            "4 1",
            "0 0 0 0",
        ];
        assert_eq!(numbers, wanted, "{text}");
        assert!(text.contains("# - load: 0.4 0.2\n"), "{text}");
        assert_eq!(Rules::parse(text.as_bytes()).unwrap(), rules());
    }

    #[test]
    fn lengths_that_ranks_may_not_agree_on_are_refused() {
        let mut rules = rules();
        for operation in Operation::ALL {
            let told_apart = rules.add(operation, 8, vec![(0, 1), (64, 2)]);
            assert_eq!(told_apart.is_ok(), rules.shape.has_lengths(operation), "{operation:?}");
            assert_eq!(Operation::named(operation.name()), Some(operation));
        }
        for lengths in [vec![], vec![(4, 1)], vec![(0, 1), (0, 2)], vec![(0, 32)]] {
            assert!(rules.add(Operation::Bcast, 8, lengths).is_err());
        }
        assert!(rules.add(Operation::Bcast, 1, vec![(0, 1)]).is_err());
    }

    #[test]
    fn what_is_not_of_ours_is_refused() {
        let text = rules().text();
        let damaged = [
            String::new(),
            "1\n7\n1\n2\n1\n0 3 0 0\n".to_owned(),
            text[..text.len() - 1].to_owned(),
            text.replace("4 0\n", "4 65536\n"),
            text.replace("1024 3", "1024 99999999999999999999"),
            text.replace("# operations", "# operations\n7"),
            text.replacen("2 # operations", "18446744073709551615 # operations", 1),
        ];
        for text in &damaged {
            let error = Rules::parse(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains("damaged"), "{error}");
        }
        assert!(Rules::parse(&[0xff; 64]).is_err());
    }

    proptest! {
        #[test]
        fn one_changed_byte_is_seen_or_is_a_comments(at in 0_usize..700, to: u8) {
            let mut text = rules().text().into_bytes();
            let at = at % text.len();
            text[at] = to;
            if let Ok(read) = Rules::parse(&text) {
                prop_assert_eq!(read.text().into_bytes(), text);
            }
        }

        #[test]
        fn nothing_panics(text in "(# wiglaf-collectives/1: .*\n)?[0-9 #\n,:a-z-]{0,200}") {
            let _ = Rules::parse(text.as_bytes());
        }
    }

    #[test]
    fn rules_hold_where_they_were_measured() {
        let all = shape();
        let job = Shape { nodes: vec!["node3".to_owned(), "node1".to_owned()], ..shape() };
        assert!(all.covers(&job) && all.covers(&all) && !job.covers(&all));
        for other in [
            Shape { mpi: "Open MPI 5.0.11".to_owned(), ..shape() },
            Shape { transport: "tcp".to_owned(), ..shape() },
            Shape { link: "udp".to_owned(), ..shape() },
            Shape { per_node: 2, ..shape() },
        ] {
            assert!(!all.covers(&other), "{other:?}");
            assert_ne!(all.file_name(), other.file_name());
        }
    }

    #[test]
    fn users_own_setting_is_found() {
        let found =
            |names: &[&str], file: &str| users_own(names.iter().map(|n| (*n).to_owned()), file);
        assert_eq!(
            found(&["OMPI_MCA_btl", "OMPI_MCA_collx", "PATH"], "btl = self\n# coll = x\n"),
            None
        );
        assert!(found(&["OMPI_MCA_coll_tuned_bcast_algorithm"], "").is_some());
        assert!(found(&["OMPI_MCA_coll"], "").is_some());
        assert!(found(&["OMPI_MCA_pml"], "").is_some());
        assert!(found(&["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"], "").is_some());
        assert!(found(&["MPICH_COLL_SELECTION_TUNING_JSON_FILE"], "").is_some());
        assert_eq!(found(&["MPIR_CVAR_CH4_NUM_VCIS"], ""), None);
        assert!(found(&[], "  coll_tuned_use_dynamic_rules = 1\n").is_some());
    }
}
