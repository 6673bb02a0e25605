//! What a cluster file says of batch jobs, in its section `[batch]`. What follows from it is above this, in
//! wiglaf-batch.

use serde::{Deserialize, Serialize};
use wiglaf_base::error::{Error, Result};
use wiglaf_base::hostlist::HostList;

/// The section `[batch]`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Batch {
    /// The node that decides which job runs where; the first unless given.
    pub head: Option<String>,
    /// Nodes for short jobs.
    pub short: Option<Short>,
    /// What each node keeps for its system and its owner.
    pub memory_reserve: Option<Memory>,
    /// Users who get in on every node, with or without a job.
    #[serde(default)]
    pub admins: Vec<String>,
    /// Whether there are qsub, qstat and qdel, for those who know PBS.
    #[serde(default)]
    pub qsub: bool,
    /// Whether jobs are noted in a database, for `sacct` and fair shares. They are unless this says no.
    pub accounting: Option<bool>,
    /// Who logs in on a host.
    #[serde(default)]
    pub login: Login,
    /// Which hosts go to sleep while no job wants them; none unless it is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sleep: Option<Sleep>,
    /// Whether a host that hangs is switched off and on, once, by its BMC.
    #[serde(default)]
    pub cycle: bool,
    /// Whether a host that is too hot takes no further jobs. It takes none unless this says no.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<bool>,
    /// Whether users see their own jobs alone.
    #[serde(default)]
    pub private: bool,
    /// Whether programs in jobs show windows where the job was submitted.
    #[serde(default)]
    pub x11: bool,
}

/// Hosts that go to sleep.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sleep {
    /// Which ones, as a host list.
    pub nodes: String,
    /// For how long no job has run there.
    pub after: Minutes,
}

/// Who logs in on a host by ssh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Login {
    /// Whoever the host lets in.
    #[default]
    Anybody,
    /// Users with a job there, its owner, and administrators.
    Job,
    /// These, and who logs in for a job is in the job's control group, and leaves with the job.
    Adopt,
}

/// The section `[owner.HOST]`: whose PC it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The user, who logs in there always.
    pub user: String,
    /// When the PC is the owner's: then no job begins there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hours: Option<Hours>,
    /// For how long the owner has touched nothing, before jobs begin there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle: Option<Minutes>,
    /// What is done with jobs that run there when the owner comes back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when_back: Option<WhenBack>,
}

/// What is done with a job when the PC's owner comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WhenBack {
    /// It stands still until the owner is away again.
    Suspend,
    /// It goes back to the queue, and begins again elsewhere.
    Requeue,
    /// Its processes there come after the owner's.
    Nice,
    /// It goes on.
    Nothing,
}

impl Owner {
    /// Without a word about it, an owner is away after so many minutes.
    const IDLE: Minutes = Minutes(15);

    /// Whether somebody is to watch if the owner is there.
    #[must_use]
    pub fn is_watched(&self) -> bool {
        self.hours.is_some() || self.idle.is_some() || self.when_back.is_some()
    }

    /// For how long the owner has touched nothing when the PC counts as free.
    #[must_use]
    pub fn idle(&self) -> Minutes {
        self.idle.unwrap_or(Self::IDLE)
    }

    /// What is done with jobs when the owner comes back.
    #[must_use]
    pub fn when_back(&self) -> WhenBack {
        self.when_back.unwrap_or(WhenBack::Nothing)
    }
}

/// Hours of the week, as in `mon-fri 8-18` or `mon-thu 8:30-18; fri 8-15`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Hours {
    text: String,
    spans: Vec<Span>,
}

/// Minutes of some days.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    /// By number, Monday first.
    days: [bool; 7],
    /// The first minute.
    from: u32,
    /// The first one behind them.
    to: u32,
}

const DAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];

impl Hours {
    /// Whether that minute of a day, the first of which is Monday, is one of them.
    #[must_use]
    pub fn has(&self, day: usize, minute: u32) -> bool {
        let is_in = |span: &Span| {
            span.days.get(day) == Some(&true) && (span.from..span.to).contains(&minute)
        };
        self.spans.iter().any(is_in)
    }
}

impl std::fmt::Display for Hours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}

impl Span {
    fn parse(text: &str) -> Option<Self> {
        let (names, times) = text.trim().split_once(char::is_whitespace)?;
        let day = |name: &str| DAYS.iter().position(|known| *known == name.trim());
        let mut days = [false; 7];
        for part in names.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (day(first)?, day(last)?);
            days.get_mut(first..=last)?.fill(true);
        }
        let (from, to) = times.split_once('-')?;
        let (from, to) = (minute_of_day(from)?, minute_of_day(to)?);
        (from < to).then_some(Self { days, from, to })
    }
}

/// Reads `8` or `8:30`; the last is `24`.
fn minute_of_day(text: &str) -> Option<u32> {
    let (hour, minute) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
    let is_short =
        |text: &str| matches!(text.len(), 1 | 2) && text.bytes().all(|b| b.is_ascii_digit());
    if !is_short(hour) || !is_short(minute) {
        return None;
    }
    let (hour, minute): (u32, u32) = (hour.parse().ok()?, minute.parse().ok()?);
    (minute < 60 && hour * 60 + minute <= 24 * 60).then_some(hour * 60 + minute)
}

impl TryFrom<String> for Hours {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let spans: Option<Vec<Span>> = text.to_lowercase().split(';').map(Span::parse).collect();
        // It stands in a reason of Slurm's, on one line.
        match spans {
            Some(spans) if !text.contains(char::is_control) => Ok(Self { text, spans }),
            _ => Err(Error::new(format!(
                "`{text}` are no hours; write \"mon-fri 8-18\" or \"mon-thu 8:30-18; sat,sun 10-12\", for example"
            ))),
        }
    }
}

impl From<Hours> for String {
    fn from(hours: Hours) -> Self {
        hours.text
    }
}

/// Nodes on which short jobs come first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Short {
    /// Which ones, as a host list.
    pub nodes: String,
    /// For how long a job may run there.
    pub time: Minutes,
}

/// A length of time, as in `15min`, `2h` or `1day`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Minutes(u32);

impl Minutes {
    /// How many.
    #[must_use]
    pub fn count(self) -> u32 {
        self.0
    }
}

impl TryFrom<String> for Minutes {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let wrong = || {
            Error::new(format!(
                "`{text}` is no length of time; write 15min, 2h or 1day, for example"
            ))
        };
        let (number, unit) = split(&text);
        let each = match unit {
            "min" | "minutes" => 1,
            "h" | "hours" => 60,
            "day" | "days" => 24 * 60,
            _ => return Err(wrong()),
        };
        let count = number.parse::<u32>().ok().and_then(|number| number.checked_mul(each));
        count.filter(|count| *count > 0).map(Self).ok_or_else(wrong)
    }
}

impl From<Minutes> for String {
    fn from(minutes: Minutes) -> Self {
        format!("{}min", minutes.0)
    }
}

/// An amount of memory, as in `2GiB` or `512MiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Memory {
    mib: u64,
}

impl Memory {
    /// In MiB.
    #[must_use]
    pub fn mib(self) -> u64 {
        self.mib
    }
}

impl TryFrom<String> for Memory {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        let wrong = || {
            Error::new(format!(
                "`{text}` is no amount of memory; write 2GiB or 512MiB, for example"
            ))
        };
        let (number, unit) = split(&text);
        let each = match unit {
            "MiB" => 1,
            "GiB" => 1 << 10,
            "TiB" => 1 << 20,
            _ => return Err(wrong()),
        };
        let mib = number.parse::<u64>().ok().and_then(|number| number.checked_mul(each));
        mib.map(|mib| Self { mib }).ok_or_else(wrong)
    }
}

impl From<Memory> for String {
    fn from(memory: Memory) -> Self {
        format!("{}MiB", memory.mib)
    }
}

/// Whether this is a user's name as Debian makes them: it stands in files whose lines are parted by anything else.
#[must_use]
pub fn is_user(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-@".contains(&byte);
    !name.is_empty() && !name.starts_with('-') && name.bytes().all(is_plain)
}

/// The number in front, and the unit behind it.
fn split(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

impl Batch {
    /// Whether jobs are to be noted in a database.
    #[must_use]
    pub fn has_accounting(&self) -> bool {
        self.accounting.unwrap_or(true)
    }

    /// The hosts that may sleep.
    ///
    /// # Errors
    /// When they are no host list.
    pub fn sleeping(&self) -> Result<HostList> {
        self.sleep
            .as_ref()
            .map_or_else(|| Ok(HostList::default()), |sleep| HostList::parse(&sleep.nodes))
    }

    /// The head, and the nodes for short jobs, of a cluster with these nodes.
    ///
    /// # Errors
    /// When the section names a node that the cluster does not have.
    pub fn place(&self, nodes: &HostList) -> Result<(String, HostList)> {
        if let Some(odd) = self.admins.iter().find(|name| !is_user(name)) {
            return Err(Error::new(format!(
                "[batch]: admins has `{odd}`, which is no user's name"
            )));
        }
        let all = nodes.names();
        let check = |name: &String, what: &str| match all.contains(name) {
            true => Ok(()),
            false => Err(Error::new(format!(
                "[batch]: {what} {name} is no node of the cluster; it has {nodes}"
            ))),
        };
        let head = match (&self.head, all.first()) {
            (Some(head), _) => head.clone(),
            (None, Some(first)) => first.clone(),
            (None, None) => return Err(Error::new("a cluster without nodes has no batch jobs")),
        };
        check(&head, "the head")?;
        let short = match &self.short {
            Some(short) => HostList::parse(&short.nodes)?,
            None => HostList::default(),
        };
        short.names().iter().try_for_each(|name| check(name, "short's"))?;
        let asleep = self.sleeping()?;
        asleep.names().iter().try_for_each(|name| check(name, "sleep's"))?;
        if asleep.names().contains(&head) {
            return Err(Error::new(format!(
                "[batch]: sleep has {head}, which is the head and wakes the others; leave it out"
            )));
        }
        Ok((head, short))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> std::result::Result<Batch, String> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn section_is_read_and_what_it_does_not_know_is_refused() {
        let batch = parse(
            "head = \"pc1\"\nshort = { nodes = \"pc[3-4]\", time = \"2h\" }\n\
             memory_reserve = \"2GiB\"\nadmins = [\"ann\"]\n",
        )
        .unwrap();
        assert_eq!(batch.short.as_ref().unwrap().time.count(), 120);
        assert_eq!(batch.memory_reserve.unwrap().mib(), 2048);
        let (head, short) = batch.place(&HostList::parse("pc[1-4]").unwrap()).unwrap();
        assert_eq!((head.as_str(), short.to_string().as_str()), ("pc1", "pc[3-4]"));
        for (text, part) in [
            ("heads = \"pc1\"", "heads"),
            ("short = { nodes = \"pc1\" }", "time"),
            ("short = { nodes = \"pc1\", time = \"15\" }", "15min, 2h or 1day"),
            ("short = { nodes = \"pc1\", time = \"0min\" }", "15min, 2h or 1day"),
            ("memory_reserve = \"2GB\"", "2GiB or 512MiB"),
            ("login = \"jobs\"", "anybody"),
        ] {
            let why = parse(text).unwrap_err();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn owner_says_hours_idle_time_and_what_happens_to_jobs() {
        let parse = |text: &str| toml::from_str::<Owner>(text).map_err(|error| error.to_string());
        let plain = parse("user = \"dora\"").unwrap();
        assert_eq!((plain.is_watched(), plain.when_back()), (false, WhenBack::Nothing));
        let owner = parse(
            "user = \"dora\"\nhours = \"Mon-Thu 8-18; fri,sun 8:30-12:15\"\nidle = \"2h\"\nwhen_back = \"suspend\"",
        )
        .unwrap();
        assert_eq!((owner.is_watched(), owner.idle().count()), (true, 120));
        let hours = owner.hours.clone().unwrap();
        let minute = |hour: u32, minute: u32| hour * 60 + minute;
        for (day, at, is_in) in [
            (0, minute(7, 59), false),
            (0, minute(8, 0), true),
            (3, minute(17, 59), true),
            (3, minute(18, 0), false),
            (4, minute(8, 29), false),
            (4, minute(12, 14), true),
            (5, minute(10, 0), false),
            (6, minute(8, 30), true),
            (7, minute(8, 30), false),
        ] {
            assert_eq!(hours.has(day, at), is_in, "{day} {at}");
        }
        // As it is handed to the PC.
        assert_eq!(
            serde_json::from_str::<Owner>(&serde_json::to_string(&owner).unwrap()).unwrap(),
            owner
        );
        for hours in [
            "",
            "mon",
            "8-18",
            "mon 18-8",
            "fri-mon 8-18",
            "mon 8-25",
            "mon 8:60-9",
            "mon +8-9",
            "mon 8-18;",
        ] {
            let why = parse(&format!("user = \"dora\"\nhours = \"{hours}\"")).unwrap_err();
            assert!(why.contains("are no hours; write"), "{hours}: {why}");
        }
        assert!(parse("user = \"dora\"\nwhen_back = \"kill\"").unwrap_err().contains("suspend"));
        assert!(parse("user = \"dora\"\nidle = \"15\"").unwrap_err().contains("15min, 2h or 1day"));
    }

    #[test]
    fn nodes_that_the_cluster_does_not_have_are_named() {
        let nodes = HostList::parse("pc[1-2]").unwrap();
        assert_eq!(Batch::default().place(&nodes).unwrap().0, "pc1");
        let why = |text: &str| parse(text).unwrap().place(&nodes).unwrap_err().to_string();
        assert!(why("head = \"pc3\"").contains("the head pc3 is no node of the cluster"));
        let slept = why("head = \"pc2\"\nsleep = { nodes = \"pc[1-2]\", after = \"30min\" }");
        assert!(slept.contains("sleep has pc2, which is the head"), "{slept}");
        assert!(why("sleep = { nodes = \"pc9\", after = \"1h\" }").contains("sleep's pc9"));
        assert!(why("admins = [\"a b\"]").contains("`a b`, which is no user's name"));
        let why = why("short = { nodes = \"pc[2-4]\", time = \"1day\" }");
        assert!(why.contains("short's pc3") && why.contains("pc[1-2]"), "{why}");
    }
}
