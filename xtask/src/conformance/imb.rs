//! Intel's MPI benchmarks, built so that they check what they receive, over Wiglaf and over TCP, on every MPI.
//!
//! Their sources are not packaged. They are built here with `-DCHECK`, once for each binary interface, in a copy,
//! and each program runs all of its benchmarks with 2 and 4 ranks in one job.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::cluster::Ended;
use super::mpis::{self, Mpi};
use super::verdict::{Cell, Findings, Row, Verdict};
use super::{Context, once, progress};
use crate::wheels;

/// Messages, collectives, nonblocking collectives, windows of MPI 2 and of MPI 3.
const PROGRAMS: [&str; 4] = ["IMB-MPI1", "IMB-NBC", "IMB-EXT", "IMB-RMA"];
/// One job of a program, with all of its benchmarks.
const LIMIT: Duration = Duration::from_secs(600);
const RANKS: &str = "4";
/// Rounds of each length at most, seconds for each length at most, and lengths as powers of two. A benchmark that takes
/// longer for a length skips more ranks in silence, so that time is one that only a hang takes.
const OPTIONS: [&str; 6] = ["-iter", "20", "-time", "10", "-msglog", "2:21"];

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let Some(sources) = context.imb else {
        eprintln!("skipped: --imb names no folder of the sources of Intel's MPI benchmarks");
        return Ok(None);
    };
    let (mpis, not_run) = mpis::chosen(context)?;
    let mut built = BTreeMap::new();
    for mpi in &mpis {
        if !built.contains_key(mpi.compiler) {
            built.insert(mpi.compiler, build(context, mpi.compiler, sources)?);
        }
    }
    let mut rows = Vec::new();
    for program in PROGRAMS.into_iter().filter(|program| context.wants(program)) {
        let mut jobs = Vec::new();
        for mpi in &mpis {
            for transport in mpis::TRANSPORTS {
                jobs.push(job(context, program, &built[mpi.compiler], mpi, transport)?);
            }
        }
        rows.extend(rows_of(program, &jobs));
    }
    let about = vec![
        format!(
            "{} with `{}`, {RANKS} ranks dealt to two nodes in turn, built with `-DCHECK` by Debian's compiler of the \
             binary interface.",
            PROGRAMS.join(", "),
            OPTIONS.join(" ")
        ),
        "A benchmark passes if each length was run and its count of defects is 0; the first row of a program is \
         the job's end."
            .to_owned(),
        not_run,
    ];
    Ok(Some(Findings { about, columns: mpis::columns(&mpis), rows }))
}

/// The programs of one binary interface; the folder where they are.
fn build(context: &Context<'_>, compiler: &str, sources: &Path) -> Result<PathBuf, String> {
    let folder = context.cluster.folder().join("imb").join(compiler);
    if PROGRAMS.iter().all(|program| folder.join(program).is_file()) {
        return Ok(folder);
    }
    std::fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let failed = |what: &str, why: &dyn std::fmt::Display| format!("{what}: {why}");
    let copied = Command::new("cp").arg("-a").arg(sources.join(".")).arg(&folder).status();
    match copied {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(failed("cp", &status)),
        Err(why) => return Err(failed("cp cannot be started", &why)),
    }
    // Warnings of newer compilers are errors in their makefiles. They call C's functions alone, and the library of C++'s,
    // which Open MPI 4.1 has besides, does not load with Open MPI 5.
    let output = Command::new("make")
        .current_dir(&folder)
        .env("OMPI_LIBS", "-lmpi")
        .args(PROGRAMS)
        .args([
            format!("CC={compiler}"),
            format!("CXX={}", compiler.replace("mpicc", "mpicxx")),
            "CPPFLAGS=-DCHECK -DOMPI_SKIP_MPICXX".to_owned(),
            "CFLAGS=-w".to_owned(),
            "CXXFLAGS=-w".to_owned(),
        ])
        .output()
        .map_err(|why| failed("make cannot be started", &why))?;
    match output.status.success() {
        true => Ok(folder),
        false => Err(failed("make", &String::from_utf8_lossy(&output.stderr))),
    }
}

/// How the job of a program ended, and what it said of each benchmark, in its order.
type Job = (Cell, Vec<(String, Verdict)>);

fn job(
    context: &Context<'_>,
    program: &str,
    folder: &Path,
    mpi: &Mpi,
    transport: &str,
) -> Result<Job, String> {
    let column = format!("{} {transport}", mpi.choice);
    let log = format!("imb/{column}/{program}");
    let options = ["--mpi", &mpi.choice, "--transport", transport, "-n", RANKS];
    let argv: Vec<String> = [folder.join(program).display().to_string()]
        .into_iter()
        .chain(OPTIONS.map(str::to_owned))
        .collect();
    let search = wheels::search_path();
    let env = [("WIGLAF_MPI_PATH", search.as_str())];
    let Some((ended, took)) = once::run(context, &log, &options, &env, &argv, LIMIT)? else {
        return Ok((once::not_run().into(), Vec::new()));
    };
    let verdict = end(&ended);
    progress(program, &column, &verdict, took);
    Ok((verdict.after(took), benchmarks(&ended.text)))
}

fn end(ended: &Ended) -> Verdict {
    match ended.succeeded() && ended.text.contains("MPI_Finalize") {
        true => Verdict::pass(),
        false => Verdict::Fail(ended.reason()),
    }
}

/// What is said of each benchmark and number of ranks: there is a table for each way of it.
fn benchmarks(text: &str) -> Vec<(String, Verdict)> {
    let mut found: Vec<(String, Verdict)> = Vec::new();
    for block in text.split("# Benchmarking ").skip(1) {
        let name = block.split_whitespace().next().unwrap_or_default();
        let ranks = block.split_once("# #processes = ").and_then(|(_, after)| {
            after.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u32>().ok()
        });
        let name = match ranks {
            Some(ranks) => format!("{name}, {ranks} ranks"),
            None => name.to_owned(),
        };
        let verdict = judge(block);
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) if known.passed() => *known = verdict,
            Some(_) => {}
            None => found.push((name, verdict)),
        }
    }
    found
}

/// The lines of a table are numbers only; the last is the count of defects, where its heading says so.
fn judge(block: &str) -> Verdict {
    let (mut counts_defects, mut lines, mut wrong) = (false, 0, 0);
    for line in block.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if words.first().is_some_and(|word| *word == "#bytes" || *word == "#repetitions") {
            counts_defects = words.last() == Some(&"defects");
        } else if words.len() > 2 && words.iter().all(|word| word.parse::<f64>().is_ok()) {
            lines += 1;
            let defects = words.last().and_then(|word| word.parse::<f64>().ok());
            wrong += u32::from(counts_defects && defects != Some(0.0));
        }
    }
    match (lines, wrong) {
        (0, _) => Verdict::Fail("no length was run".to_owned()),
        (_, 0) => Verdict::pass(),
        _ => Verdict::Fail(format!("{wrong} of {lines} lengths have defects")),
    }
}

/// A row for the job's end and one for each benchmark that any column has come to.
fn rows_of(program: &str, jobs: &[Job]) -> Vec<Row> {
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in jobs.iter().flat_map(|(_, benchmarks)| benchmarks) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let ends = jobs.iter().map(|(end, _)| end.clone()).collect();
    let mut rows = vec![Row { name: program.to_owned(), cells: ends }];
    for name in names {
        let cells = jobs.iter().map(|(end, benchmarks)| {
            let found = benchmarks.iter().find(|(known, _)| known == name);
            let verdict = found.map(|(_, verdict)| verdict.clone());
            let missing = || match &end.verdict {
                Verdict::Skip(why) => Verdict::Skip(why.clone()),
                _ => Verdict::Fail("not come to".to_owned()),
            };
            verdict.unwrap_or_else(missing).into()
        });
        rows.push(Row { name: format!("{program} {name}"), cells: cells.collect() });
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "# Benchmarking Bcast \n# #processes = 2 \n#---\n  \
        #bytes #repetitions t_min[usec] defects\n 0 4 0.54 0.00\n 256 4 0.83 0.00\n\n";

    #[test]
    fn each_benchmark_has_its_verdict() {
        let bad = GOOD.replace("0.83 0.00", "0.83 1.00").replace("= 2", "= 4");
        let empty = "# Benchmarking Window \n# #processes = 2 \n#---\n #bytes #repetitions t[usec] defects\n";
        let barrier = "# Benchmarking Barrier \n# #processes = 2 \n#---\n #repetitions t_min[usec] t_max[usec]\n 4 0.1 0.2\n";
        let found = benchmarks(&[GOOD, &bad, empty, barrier].concat());
        let fail = |why: &str| Verdict::Fail(why.to_owned());
        assert_eq!(
            found,
            [
                ("Bcast, 2 ranks".to_owned(), Verdict::pass()),
                ("Bcast, 4 ranks".to_owned(), fail("1 of 2 lengths have defects")),
                ("Window, 2 ranks".to_owned(), fail("no length was run")),
                ("Barrier, 2 ranks".to_owned(), Verdict::pass()),
            ]
        );
    }

    #[test]
    fn a_benchmark_is_as_good_as_its_worst_table() {
        let bad = GOOD.replace("0.83 0.00", "0.83 1.00");
        for text in [[GOOD, &bad].concat(), [&bad, GOOD].concat()] {
            let found = benchmarks(&text);
            assert!(found.len() == 1 && !found[0].1.passed(), "{found:?}");
        }
    }

    #[test]
    fn what_a_job_has_not_come_to_fails() {
        let whole = (Verdict::pass().into(), benchmarks(GOOD));
        let cut = (Verdict::Fail("killed".to_owned()).into(), Vec::new());
        let rows = rows_of("IMB-MPI1", &[whole, cut]);
        assert_eq!(rows.len(), 2);
        assert!(rows[1].cells[0].verdict.passed() && !rows[1].cells[1].verdict.passed());
    }
}
