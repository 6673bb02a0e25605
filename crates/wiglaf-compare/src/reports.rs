//! The tables of the reports that Wiglaf answers to, re-made: results of comparisons and predictions as one page,
//! each with the command that makes it again, beside what was published.

use std::fmt::Write as _;

use serde::Deserialize;
use wiglaf_base::shell::quoted;

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
    /// Curves of which the serial part is known: name, P, and the transport whose colour it has.
    fits: &'static [(&'static str, f64, &'static str)],
}

/// How many nodes published fits are drawn to: those of the report's figure.
const PUBLISHED_MAX: usize = 8;
/// Numbers of nodes that make a curve.
const COUNTS_MIN: usize = 3;

const ORIGINALS: [Original; 4] = [
    Original {
        title: "Siesta, 2004: Table 1 and Figure 3",
        programs: &["siesta", "pw.x", "cp2k"],
        published: "Published, an SCF cycle on four PCs: over TCP 93 s wall, 67 s CPU, so 26 s and 1.39; over GAMMA 66 \
                    and 66, so 0 and 1.00; over GAMMA without flow control 115 s wall. Speed-up on 1 to 8 nodes with \
                    Amdahl's P = 0.23 (TCP) and 0.10 (GAMMA): the pictures have these two laws, because the points \
                    of Figure 3 themselves are not at hand here.",
        fits: &[
            ("published, TCP, P = 0.23", 0.23, "tcp"),
            ("published, GAMMA, P = 0.10", 0.10, "wiglaf"),
        ],
    },
    Original {
        title: "GAMESS: INT, SCF, TRANSF, CI",
        programs: &["nwchem", "transformation", "gamess"],
        published: "Published: the stages' times on 1 to 3 nodes; their figures are not at hand here. \
                    `examples/gamess/stages.py` re-makes the stages for HCNO \
                    ([README](../../examples/gamess/README.md)); NWChem's and our own program's times are those of \
                    whole runs below.",
        fits: &[],
    },
    Original {
        title: "MILC: conjugate gradient, L by nodes",
        programs: &["staggered", "su3_rmd", "ks_imp"],
        published: "Published: Mflop/s a node for L = 4 to 14 on 1 to 32 nodes, the less the smaller L; the points are not \
                    at hand here, and none is drawn.",
        fits: &[],
    },
    Original {
        title: "CACTUS: Bona-Masso evolution",
        programs: &["relativity", "cactus"],
        published: "Published: runs on up to 32 processors; the points are not at hand here, and none is drawn.",
        fits: &[],
    },
];

/// A picture of speed-up: a result of three numbers of nodes or more, beside the published curves.
#[derive(Debug, Clone, PartialEq)]
pub struct Drawing {
    /// Its file's name, beside the page.
    pub file: String,
    /// In large letters.
    pub title: String,
    /// Below.
    pub subtitle: String,
    /// Cores that the nodes share; as many as there are nodes where each has its own.
    pub cores: usize,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A curve of a [`Drawing`].
#[derive(Debug, Clone, PartialEq)]
pub struct Curve {
    /// Its name.
    pub label: String,
    /// The transport's word.
    pub word: String,
    /// Whether it was published.
    pub is_published: bool,
    /// Nodes and speed-up.
    pub points: Vec<(usize, f64)>,
}

/// The picture of each result, where it has one.
#[must_use]
pub fn drawings(all: &[Found]) -> Vec<Option<Drawing>> {
    let mut count = 0;
    let mut next = |found: &Found| {
        let mut drawing = drawing(found)?;
        count += 1;
        drawing.file = format!("reports-{count}.svg");
        Some(drawing)
    };
    all.iter().map(&mut next).collect()
}

fn drawing(found: &Found) -> Option<Drawing> {
    let (kind, date, is_weak, cores, mut curves) = match found {
        Found::Compared(report) => {
            let points = |way: usize| {
                let of = report.places.iter().enumerate();
                of.filter_map(|(at, place)| Some((place.nodes, report.speed_up(way, at)?.0)))
                    .collect()
            };
            let most = report.places.last()?;
            let least = if report.is_emulated { 0 } else { most.nodes };
            let cores = most.cores.unwrap_or(0).max(least);
            ("measured", &report.date, report.is_weak, cores, ways(&report.ways, points))
        }
        Found::Predicted(one) => {
            let fewest = *one.nodes.first()?;
            let points = |way: usize| {
                let of = one.nodes.iter();
                // The line of a perfect speed-up passes through the first point.
                of.filter_map(|n| Some((*n, fewest as f64 * one.speed_up(way, *n)?))).collect()
            };
            let most = *one.nodes.last()?;
            ("predicted", &one.date, one.is_weak, most, ways(&one.ways, points))
        }
    };
    if curves.iter().map(|curve| curve.points.len()).max()? < COUNTS_MIN {
        return None;
    }
    let place = original(found);
    let fits = place.filter(|_| !is_weak).map_or(&[][..], |place| ORIGINALS[place].fits);
    curves.extend(fits.iter().map(|(label, part, word)| Curve {
        label: (*label).to_owned(),
        word: (*word).to_owned(),
        is_published: true,
        points: (1..=PUBLISHED_MAX).map(|n| (n, 1.0 / (part + (1.0 - part) / n as f64))).collect(),
    }));
    let scaled = if is_weak { "weak scaling: scaled speed-up, " } else { "" };
    Some(Drawing {
        file: String::new(),
        title: plain(&found.command().join(" ")).chars().take(60).collect(),
        subtitle: format!("{scaled}{kind} {}", plain(date)),
        cores,
        curves,
    })
}

fn ways(all: &[crate::Way], points: impl Fn(usize) -> Vec<(usize, f64)>) -> Vec<Curve> {
    let curve = |(place, way): (usize, &crate::Way)| Curve {
        label: way.label.clone(),
        word: way.word.clone(),
        is_published: false,
        points: points(place),
    };
    all.iter().enumerate().map(curve).collect()
}

fn original(found: &Found) -> Option<usize> {
    let program = found.command().first()?.rsplit('/').next()?.to_lowercase();
    ORIGINALS.iter().position(|one| one.programs.iter().any(|name| program.starts_with(name)))
}

/// The page. `pictures` are those of [`drawings`], or none. `cores` are those of the machine that it is written on; what is `said` stands at the top.
#[must_use]
pub fn page(all: &[Found], pictures: &[Option<Drawing>], cores: usize, said: &[String]) -> String {
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
        let picture = |at: usize| pictures.get(at).and_then(Option::as_ref);
        let here = all.iter().enumerate().filter(|(_, found)| original(found) == place);
        let here: Vec<_> = here.map(|(at, found)| (found, picture(at))).collect();
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
        here.into_iter().for_each(|(found, picture)| push(&mut text, found, picture));
    }
    text
}

fn push(text: &mut String, found: &Found, picture: Option<&Drawing>) {
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
    if let Some(picture) = picture {
        let _ = writeln!(text, "![{}]({})\n", plain(&found.command().join(" ")), picture.file);
    }
    for note in notes {
        let _ = writeln!(text, "- {}", plain(&note));
    }
    if let Found::Compared(report) = found {
        for failure in &report.failures {
            let _ = writeln!(text, "- did not run: {}", plain(&failure.reason));
        }
    }
}

/// What was typed, and what comes before it, if the file says so.
fn again(typed: &[String], before: Option<&String>) -> Option<String> {
    let words: Vec<String> = typed.iter().map(|word| quoted(&plain(word))).collect();
    let before = before.map_or(String::new(), |line| format!("sudo {}\n", plain(line)));
    (!words.is_empty()).then(|| format!("{before}wiglaf {}", words.join(" ")))
}

fn compare(report: &Report) -> String {
    if let Some(line) = again(&report.typed, report.before.as_ref()) {
        return line;
    }
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
    if let Some(line) = again(&one.typed, None) {
        return line;
    }
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
        let text = page(&all, &drawings(&all), 2, &["Busy.".into()]);
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part}: {text}"));
        assert!(at("## Siesta") < at("### Measured: ./siesta-h2o in.dat"));
        assert!(at("## MILC") < at("### Measured: target/staggered/staggered"));
        assert!(at("## Other programs") < at("### Measured: ./a"));
        at(
            "wiglaf compare --nodes 1,2,4 --repeats 2 --transports tcp,wiglaf -- ./siesta-h2o in.dat",
        );
        assert!(at("ran on 2 cores") < at("\nBusy.\n"));
        let [Some(first), Some(second), _] = &drawings(&all)[..] else { panic!() };
        assert!(at("![./siesta-h2o in.dat](reports-1.svg)") < at("(reports-2.svg)"));
        // Beside Siesta's own the laws that were published; MILC's points are not at hand.
        let published = |one: &Drawing| one.curves.iter().filter(|c| c.is_published).count();
        assert_eq!((published(first), published(second)), (2, 0));
        assert_eq!(first.curves[2].points[0], (1, 1.0));
        assert!((first.curves[2].points[3].1 - 1.0 / (0.23 + 0.77 / 4.0)).abs() < 1e-9);
        assert!((first.curves[1].points[2].1 - 100.15 / 32.65).abs() < 1e-9);
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
    fn command_is_what_was_typed_if_the_file_says_it() {
        let Found::Compared(mut report) = compared("./a") else { panic!() };
        let words = ["compare", "-x", "A=b c", "--check", "!.*energy:1e-8", "--", "./a"];
        report.typed = words.map(str::to_owned).into();
        report.before = Some("wiglaf up --nodes 2 --rate 1gbit".into());
        let text = page(&[Found::Compared(report)], &[], 2, &[]);
        let expected = "sudo wiglaf up --nodes 2 --rate 1gbit\nwiglaf compare -x 'A=b c' --check \
                        '!.*energy:1e-8' -- ./a\n";
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn picture_takes_three_numbers_of_nodes() {
        let Found::Compared(mut report) = compared("./siesta") else { panic!() };
        report.runs.retain(|run| run.place < 2);
        assert_eq!(drawings(&[Found::Compared(report.clone())]), [None]);
        report.runs = sample().runs;
        report.is_weak = true;
        let drawn = drawings(&[Found::Compared(report)]);
        // Amdahl's law is about work that does not grow.
        assert!(drawn[0].as_ref().unwrap().curves.iter().all(|curve| !curve.is_published));
    }

    #[test]
    fn commands_of_files_cannot_leave_their_block() {
        let text = page(&[compared("a`\n# x")], &[], 2, &[]);
        assert!(!text.contains("\n# x"), "{text}");
    }
}
