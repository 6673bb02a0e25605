//! The tables of the reports that Wiglaf answers to, re-made: results of comparisons and predictions as one page,
//! each with the command that makes it again, beside what was published.

use std::fmt::Write as _;

use serde::Deserialize;

use crate::predict::{Prediction, SCHEMA};
use crate::report::Report;
use crate::table::{notes, tables};

/// A file of results.
#[derive(Debug)]
pub enum Found {
    /// By `wiglaf compare --json`.
    Compared(Report),
    /// By `wiglaf predict --json`.
    Predicted(Prediction),
}

/// How the file of a comparison says what it is.
pub const COMPARED: &str = "wiglaf-compare 1";

impl Found {
    /// Reads what either command has written.
    ///
    /// # Errors
    /// Why it is neither, to be put behind the file's name.
    pub fn read(text: &str) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Kind {
            schema: String,
        }
        let cut = |error: serde_json::Error| match error.is_eof() {
            true => "is cut short; make it again".to_owned(),
            false => {
                format!("is no file of `wiglaf compare --json` or `wiglaf predict --json`: {error}")
            }
        };
        let kind: Kind = serde_json::from_str(text).map_err(cut)?;
        match kind.schema.as_str() {
            COMPARED => serde_json::from_str(text).map(Self::Compared).map_err(cut),
            SCHEMA => serde_json::from_str(text).map(Self::Predicted).map_err(cut),
            _ => {
                Err("is of neither `wiglaf compare --json` nor `wiglaf predict --json`".to_owned())
            }
        }
    }

    fn command(&self) -> &[String] {
        match self {
            Self::Compared(report) => &report.command,
            Self::Predicted(prediction) => &prediction.command,
        }
    }
}

/// A report, and how programs are known to be of its kind.
struct Original {
    title: &'static str,
    programs: &'static [&'static str],
    published: &'static str,
}

const ORIGINALS: [Original; 4] = [
    Original {
        title: "Siesta, 2004: Table 1 and Figure 3",
        programs: &["siesta", "pw.x", "cp2k"],
        published: "Published: wall, CPU, wall - CPU and wall / CPU of an SCF; speed-up on 1 to 8 nodes with Amdahl's P = \
                    0.10 and 0.23.",
    },
    Original {
        title: "GAMESS: INT, SCF, TRANSF, CI",
        programs: &["nwchem", "transformation", "gamess"],
        published: "Published: the stages' times on 1 to 3 nodes; their figures are not at hand here.",
    },
    Original {
        title: "MILC: conjugate gradient, L by nodes",
        programs: &["staggered", "su3_rmd", "ks_imp"],
        published: "Published: Mflop/s a node for L = 4 to 14 on 1 to 32 nodes, the less the smaller L; the points are not \
                    at hand here, and none is drawn.",
    },
    Original {
        title: "CACTUS: Bona-Masso evolution",
        programs: &["relativity", "cactus"],
        published: "Published: runs on up to 32 processors; the points are not at hand here, and none is drawn.",
    },
];

fn original(found: &Found) -> Option<usize> {
    let program = found.command().first()?.rsplit('/').next()?.to_lowercase();
    ORIGINALS.iter().position(|one| one.programs.iter().any(|name| program.starts_with(name)))
}

/// The page. `cores` are those of the machine that it is written on; what is `said` stands at the top.
#[must_use]
pub fn page(all: &[Found], cores: usize, said: &[String]) -> String {
    let mut text = format!(
        "# The reports' tables, re-made\n\n\
         Written by `wiglaf bench reports` from files of `wiglaf compare --json` and `wiglaf predict --json`. What was \
         measured here ran on {cores} cores: ranks beyond that share them, and their rows say nothing of nodes with cores \
         of their own. Predictions are SimGrid's ([docs/predict.md](../../docs/predict.md)). Programs are those of today's \
         packages, or our own of the same kind, so shapes can be compared with what was published, and times cannot.\n"
    );
    for note in said {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n{}", plain(note));
    }
    let places = (0..ORIGINALS.len()).map(Some).chain([None]);
    for place in places {
        let here: Vec<&Found> = all.iter().filter(|found| original(found) == place).collect();
        let (title, published) = match place {
            Some(place) => (ORIGINALS[place].title, ORIGINALS[place].published),
            None if here.is_empty() => continue,
            None => ("Other programs", "Of no report."),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(text, "\n## {title}\n\n{published}");
        if here.is_empty() {
            text.push_str("\nNot re-made: no file of such a program was given.\n");
        }
        here.into_iter().for_each(|found| push(&mut text, found));
    }
    text
}

fn push(text: &mut String, found: &Found) {
    let (title, command, cluster, date, body, notes) = match found {
        Found::Compared(report) => (
            "Measured",
            compare(report),
            &report.cluster,
            &report.date,
            tables(report),
            notes(report),
        ),
        Found::Predicted(one) => {
            ("Predicted", predict(one), &one.cluster, &one.date, one.tables(), one.notes())
        }
    };
    // Writing to a string cannot fail.
    let _ = writeln!(
        text,
        "\n### {title}: {}\n\n```\n{command}\n```\n",
        plain(&found.command().join(" "))
    );
    let _ =
        writeln!(text, "{}, {}\n\n```\n{}\n```\n", plain(cluster), plain(date), body.trim_end());
    for note in notes {
        let _ = writeln!(text, "- {}", plain(&note));
    }
    if let Found::Compared(report) = found {
        for failure in &report.failures {
            let _ = writeln!(text, "- did not run: {}", plain(&failure.reason));
        }
    }
}

fn compare(report: &Report) -> String {
    let words: Vec<&str> = report.ways.iter().map(|way| way.word.as_str()).collect();
    let nodes: Vec<String> = report.places.iter().map(|place| place.nodes.to_string()).collect();
    let weak = if report.is_weak { " --weak" } else { "" };
    let same = |place: &crate::Place| place.ranks == report.places[0].ranks;
    let ranks = match &report.places[..] {
        [one] => format!(" -n {}", one.ranks),
        [one, ..] if report.places.iter().all(same) => format!(" -n {}", one.ranks),
        [one, ..] if one.ranks > one.nodes => format!(" --per-node {}", one.ranks / one.nodes),
        _ => String::new(),
    };
    format!(
        "wiglaf compare --nodes {}{ranks}{weak} --repeats {} --transports {} -- {}",
        nodes.join(","),
        report.rounds,
        words.join(","),
        plain(&report.command.join(" "))
    )
}

fn predict(one: &Prediction) -> String {
    let words: Vec<&str> = one.ways.iter().map(|way| way.word.as_str()).collect();
    let nodes: Vec<String> = one.nodes.iter().map(ToString::to_string).collect();
    let weak = if one.is_weak { " --weak" } else { "" };
    format!(
        "wiglaf predict --nodes {} --cores {}{weak} --transports {} -- {}",
        nodes.join(","),
        one.cores,
        words.join(","),
        plain(&one.command.join(" "))
    )
}

/// Text of files, without what would end a line or a block.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || c == '`' { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::sample;

    fn compared(program: &str) -> Found {
        let mut report = sample();
        report.schema = COMPARED.into();
        report.command = vec![program.into(), "in.dat".into()];
        Found::read(&serde_json::to_string(&report).unwrap()).unwrap()
    }

    #[test]
    fn each_result_is_below_its_report_with_its_command() {
        let all =
            [compared("./siesta-h2o"), compared("target/staggered/staggered"), compared("./a")];
        let text = page(&all, 2, &["Busy.".into()]);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("## Siesta") < at("### Measured: ./siesta-h2o in.dat"));
        assert!(at("## MILC") < at("### Measured: target/staggered/staggered"));
        assert!(at("## Other programs") < at("### Measured: ./a"));
        at(
            "wiglaf compare --nodes 1,2,4 --repeats 2 --transports tcp,wiglaf -- ./siesta-h2o in.dat",
        );
        assert!(at("ran on 2 cores") < at("\nBusy.\n"));
        // Two of the four have nothing.
        assert_eq!(text.matches("Not re-made").count(), 2);
    }

    #[test]
    fn files_that_are_no_results_are_told() {
        for (text, words) in [
            ("{\"schema\":\"wiglaf-compare 1\",\"com", "cut short"),
            ("{\"schema\":\"x\"}", "neither"),
            ("[]", "no file of"),
        ] {
            let error = Found::read(text).unwrap_err();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn commands_of_files_cannot_leave_their_block() {
        let text = page(&[compared("a`\n# x")], 2, &[]);
        assert!(!text.contains("\n# x"), "{text}");
    }
}
