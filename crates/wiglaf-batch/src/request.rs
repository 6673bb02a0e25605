//! What a job asks for: the lines `#SBATCH` of its script, and the same options on a command line.
//!
//! sbatch reads them itself, slurmrestd does not. An option that is not known here is refused, because a job that
//! gets another thing than it asked for is worse than none.

use wiglaf_base::error::{Error, Result};

/// Longest script that is sent, in bytes.
const LEN_MAX: usize = 4 << 20;

/// What an option's value is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Any text.
    Text,
    /// A number.
    Count,
    /// Minutes, written as Slurm does.
    Time,
    /// MiB, written with a unit or without.
    Memory,
    /// Nodes, parted by commas.
    Nodes,
    /// Nothing: it is there or not.
    Flag,
}

/// An option of sbatch's, and what slurmrestd calls it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Field {
    short: Option<char>,
    long: &'static str,
    /// The name of v0.0.39 and later.
    pub(crate) name: &'static str,
    /// That of v0.0.38 and before, where it is another.
    pub(crate) old: Option<&'static str>,
    pub(crate) kind: Kind,
}

const fn field(short: Option<char>, long: &'static str, name: &'static str, kind: Kind) -> Field {
    Field { short, long, name, old: None, kind }
}

const FIELDS: &[Field] = &[
    field(Some('J'), "job-name", "name", Kind::Text),
    // A list of two is ignored by v0.0.38.
    field(Some('N'), "nodes", "nodes", Kind::Text),
    field(Some('n'), "ntasks", "tasks", Kind::Count),
    field(Some('c'), "cpus-per-task", "cpus_per_task", Kind::Count),
    field(None, "ntasks-per-node", "tasks_per_node", Kind::Count),
    field(Some('t'), "time", "time_limit", Kind::Time),
    field(Some('p'), "partition", "partition", Kind::Text),
    field(Some('o'), "output", "standard_output", Kind::Text),
    field(Some('e'), "error", "standard_error", Kind::Text),
    field(Some('i'), "input", "standard_input", Kind::Text),
    field(None, "mem", "memory_per_node", Kind::Memory),
    field(Some('a'), "array", "array", Kind::Text),
    Field {
        short: Some('w'),
        long: "nodelist",
        name: "required_nodes",
        old: Some("nodelist"),
        kind: Kind::Nodes,
    },
    field(Some('x'), "exclude", "excluded_nodes", Kind::Nodes),
    field(Some('A'), "account", "account", Kind::Text),
    field(Some('q'), "qos", "qos", Kind::Text),
    field(Some('C'), "constraint", "constraints", Kind::Text),
    field(Some('d'), "dependency", "dependency", Kind::Text),
    field(Some('b'), "begin", "begin_time", Kind::Text),
    field(None, "comment", "comment", Kind::Text),
    field(Some('H'), "hold", "hold", Kind::Flag),
];

/// A value that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Text(String),
    Number(u64),
    Yes,
}

/// What a job asks for: each option once, the last word of those on it.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Request {
    pub(crate) values: Vec<(&'static Field, Value)>,
}

impl Request {
    /// Reads the lines `#SBATCH` of a script.
    ///
    /// # Errors
    /// When it is no script, or a line asks for what cannot be passed on: the sentence names the line.
    pub fn of_script(script: &str) -> Result<Self> {
        if !script.starts_with("#!") {
            return Err(Error::new(
                "it is no job script: its first line is to begin with `#!`, as in `#!/bin/sh`",
            ));
        }
        if script.len() > LEN_MAX || script.contains('\0') {
            return Err(Error::new(
                "it is no job script: it is larger than 4 MiB, or has bytes of zero",
            ));
        }
        let mut request = Self::default();
        for (index, line) in script.lines().enumerate() {
            // As sbatch does: up to the first line that is a command.
            if !line.starts_with('#') && !line.trim().is_empty() {
                break;
            }
            let Some(rest) = line.strip_prefix("#SBATCH") else { continue };
            let wrong = |error: Error| Error::new(format!("line {}: {error}", index + 1));
            let words = words(rest).map_err(wrong)?;
            request.take(&words).map_err(wrong)?;
        }
        Ok(request)
    }

    /// Takes options as they stand on a command line, before those that are there.
    ///
    /// # Errors
    /// When one of them is not known here, lacks its value, or has a wrong one.
    pub fn take(&mut self, words: &[String]) -> Result<()> {
        let mut words = words.iter();
        while let Some(word) = words.next() {
            // What follows is a remark.
            if word.starts_with('#') {
                break;
            }
            let (field, value) = split(word)?;
            let value = match (field.kind, value) {
                (Kind::Flag, None) => Value::Yes,
                (Kind::Flag, Some(_)) => {
                    return Err(Error::new(format!("--{} takes no value", field.long)));
                }
                (_, Some(value)) => field.value(value)?,
                (_, None) => {
                    let value = words.next();
                    let lacks = || Error::new(format!("--{} lacks its value", field.long));
                    field.value(value.ok_or_else(lacks)?)?
                }
            };
            self.values.retain(|(known, _)| *known != field);
            self.values.push((field, value));
        }
        Ok(())
    }

    /// In words, as sbatch has them.
    #[must_use]
    pub fn options(&self) -> String {
        let word = |(field, value): &(&Field, Value)| match value {
            Value::Text(text) => format!("--{}={text}", field.long),
            Value::Number(number) => format!("--{}={number}", field.long),
            Value::Yes => format!("--{}", field.long),
        };
        self.values.iter().map(word).collect::<Vec<_>>().join(" ")
    }
}

/// The option that a word is or begins with, and the value that it has itself.
fn split(word: &str) -> Result<(&'static Field, Option<&str>)> {
    let unknown = || {
        let known: Vec<String> = FIELDS.iter().map(|field| format!("--{}", field.long)).collect();
        Error::new(format!("`{word}` cannot be passed on; these can: {}", known.join(", ")))
    };
    if let Some(long) = word.strip_prefix("--") {
        let (name, value) = match long.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (long, None),
        };
        let field = FIELDS.iter().find(|field| field.long == name).ok_or_else(unknown)?;
        return Ok((field, value));
    }
    let mut chars = word.strip_prefix('-').ok_or_else(unknown)?.chars();
    let short = chars.next();
    let field = FIELDS.iter().find(|field| short.is_some() && field.short == short);
    let rest = chars.as_str();
    Ok((field.ok_or_else(unknown)?, Some(rest).filter(|rest| !rest.is_empty())))
}

impl Field {
    fn value(&self, text: &str) -> Result<Value> {
        let text = text.trim();
        let wrong = |how: &str| Error::new(format!("--{}={text}: {how}", self.long));
        if text.is_empty() || text.contains(char::is_control) {
            return Err(wrong("it has no value"));
        }
        match self.kind {
            Kind::Text | Kind::Nodes | Kind::Flag => Ok(Value::Text(text.to_owned())),
            Kind::Count => {
                let count = text.parse::<u32>().ok().filter(|count| *count > 0);
                count.map(|count| Value::Number(count.into())).ok_or_else(|| wrong("give a number"))
            }
            Kind::Time => minutes(text)
                .map(Value::Number)
                .ok_or_else(|| wrong("give minutes, HOURS:MINUTES:SECONDS or DAYS-HOURS")),
            Kind::Memory => mebibytes(text)
                .map(Value::Number)
                .ok_or_else(|| wrong("give MiB, or a number with K, M, G or T")),
        }
    }
}

/// Minutes of a time as Slurm has it, at least one: `90`, `90:00`, `1:30:00`, `1-6`, `1-6:30`, `1-6:30:00`.
fn minutes(text: &str) -> Option<u64> {
    let number = |text: &str| {
        let is_plain =
            !text.is_empty() && text.len() <= 6 && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| is_plain)
    };
    let (days, rest) = match text.split_once('-') {
        Some((days, rest)) => (Some(number(days)?), rest),
        None => (None, text),
    };
    let parts: Option<Vec<u64>> = rest.split(':').map(number).collect();
    let seconds = match (days, &parts?[..]) {
        (None, [minutes]) => minutes * 60,
        (None, [minutes, seconds]) => minutes * 60 + seconds,
        (None, [hours, minutes, seconds]) => (hours * 60 + minutes) * 60 + seconds,
        (Some(days), [hours]) => (days * 24 + hours) * 3600,
        (Some(days), [hours, minutes]) => ((days * 24 + hours) * 60 + minutes) * 60,
        (Some(days), [hours, minutes, seconds]) => {
            ((days * 24 + hours) * 60 + minutes) * 60 + seconds
        }
        _ => return None,
    };
    Some(seconds.div_ceil(60)).filter(|minutes| *minutes > 0)
}

/// MiB of an amount of memory as Slurm has it. None at all is all that a node has.
fn mebibytes(text: &str) -> Option<u64> {
    let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..end].parse().ok()?;
    let kib = match text[end..].to_ascii_uppercase().as_str() {
        "K" | "KB" => 1,
        "" | "M" | "MB" => 1 << 10,
        "G" | "GB" => 1 << 20,
        "T" | "TB" => 1 << 30,
        _ => return None,
    };
    number.checked_mul(kib).map(|kib| kib.div_ceil(1 << 10))
}

/// The words of a line, in which quotes keep spaces.
fn words(line: &str) -> Result<Vec<String>> {
    let mut words = Vec::new();
    let (mut word, mut quote): (Option<String>, Option<char>) = (None, None);
    for c in line.chars() {
        match quote {
            Some(end) if c == end => quote = None,
            Some(_) => word.get_or_insert_default().push(c),
            None if c == '"' || c == '\'' => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            None if c.is_whitespace() => words.extend(word.take()),
            None => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(Error::new("a quote has no end"));
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(script: &str) -> std::result::Result<String, String> {
        let request = Request::of_script(script).map_err(|error| error.to_string())?;
        Ok(request.options())
    }

    #[test]
    fn lines_for_sbatch_are_read_up_to_the_first_command() {
        let script = "#!/bin/sh\n#SBATCH -N 2 -n4\n# a remark\n\n#SBATCH --time=1:30:00 --mem 2G # why\n\
                      #SBATCH --job-name=\"my job\" -H\n##SBATCH -p off\n#SBATCH -N 3\nls\n#SBATCH -p late\n";
        let said = options(script).unwrap();
        assert_eq!(said, "--ntasks=4 --time=90 --mem=2048 --job-name=my job --hold --nodes=3");
        let mut request = Request::of_script(script).unwrap();
        request.take(&["-J".to_owned(), "other".to_owned()]).unwrap();
        assert!(request.options().ends_with("--hold --nodes=3 --job-name=other"));
    }

    #[test]
    fn what_cannot_be_passed_on_is_refused_with_its_line() {
        for (line, part) in [
            ("--exclusive", "line 2: `--exclusive` cannot be passed on; these can: --job-name"),
            ("-Z", "`-Z` cannot be passed on"),
            ("-", "`-` cannot be passed on"),
            ("word", "`word` cannot be passed on"),
            ("-n", "--ntasks lacks its value"),
            ("-n 0", "give a number"),
            ("-n -1", "give a number"),
            ("--ntasks=", "it has no value"),
            ("-t 1:2:3:4", "--time=1:2:3:4: give minutes"),
            ("-t 99999999999999999999", "give minutes"),
            ("-t 0", "give minutes"),
            ("-t 1-", "give minutes"),
            ("--mem=2X", "give MiB"),
            ("--mem=99999999999999999G", "give MiB"),
            ("--hold=1", "--hold takes no value"),
            ("-J \"open", "a quote has no end"),
        ] {
            let why = options(&format!("#!/bin/sh\n#SBATCH {line}\n")).unwrap_err();
            assert!(why.contains(part), "{line}: {why}");
        }
        assert!(options("echo hello\n").unwrap_err().contains("begin with `#!`"));
        assert!(options("#!/bin/sh\n\0").unwrap_err().contains("bytes of zero"));
    }

    #[test]
    fn times_and_memory_are_those_that_slurm_reads() {
        for (text, minutes) in [
            ("90", 90),
            ("1:30", 2),
            ("1:30:00", 90),
            ("1-0", 1440),
            ("1-6:30", 1830),
            ("0-0:0:1", 1),
        ] {
            assert_eq!(super::minutes(text), Some(minutes), "{text}");
        }
        for (text, mib) in [("100", 100), ("1G", 1024), ("1k", 1), ("0", 0), ("2TB", 2 << 20)] {
            assert_eq!(mebibytes(text), Some(mib), "{text}");
        }
    }
}
