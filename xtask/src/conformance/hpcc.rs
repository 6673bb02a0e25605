//! HPC Challenge: seven benchmarks, each of which checks its own result.

use std::fs;
use std::time::{Duration, Instant};

use super::cluster::Ended;
use super::verdict::{Column, Findings, Judge, Row, Verdict};
use super::{Context, progress, version};

const LIMIT: Duration = Duration::from_secs(240);
const RANKS: [usize; 2] = [2, 4];
const TRANSPORTS: [&str; 2] = ["wiglaf", "tcp"];
/// The input that comes with it.
const EXAMPLE: &str = "/usr/share/doc/hpcc/examples/_hpccinf.txt";
/// Problem size: small, since it is the answer that counts.
const ORDER: usize = 600;
/// The share of wrong table entries that the benchmark's own rules allow.
const ENTRIES_MAX: f64 = 0.01;
/// Its threshold of scaled residuals.
const RESIDUAL_MAX: f64 = 16.0;
/// Its threshold of errors of the FFT: that of residuals times the machine's precision and the logarithm of the
/// transform's length.
const FFT_ERROR_MAX: f64 = 4e-14;

pub(crate) fn run(context: &Context<'_>) -> Result<Option<Findings>, String> {
    let mut columns = Vec::new();
    let mut checks: Vec<Vec<(&'static str, Verdict)>> = Vec::new();
    let mut times = Vec::new();
    for ranks in RANKS {
        for transport in TRANSPORTS {
            let began = Instant::now();
            let outcome = one(context, ranks, transport)?;
            let heading = format!("{transport}, {ranks} ranks");
            let took = began.elapsed();
            times.push(took);
            for (name, verdict) in &outcome {
                progress(name, &heading, verdict, took);
            }
            checks.push(outcome);
            // A rival's column follows ours.
            columns.push(match transport {
                "wiglaf" => Column::ours(heading, Judge::Rival(columns.len() + 1)),
                _ => Column::rival(heading),
            });
        }
    }
    let names = checks.first().into_iter().flatten().map(|(name, _)| *name);
    let rows = names.enumerate().map(|(index, name)| Row {
        name: name.to_owned(),
        cells: checks.iter().map(|outcome| outcome[index].1.clone().into()).collect(),
    });
    let mut rows: Vec<Row> = rows.collect();
    // That of the whole run stands with its first line.
    for (cell, took) in rows.iter_mut().take(1).flat_map(|row| &mut row.cells).zip(times) {
        cell.took = Some(took);
    }
    let about = vec![format!(
        "HPC Challenge {}, N = {ORDER}, ranks dealt to two nodes in turn; each check is the benchmark's own.",
        version("hpcc")?
    )];
    Ok(Some(Findings { about, columns, rows }))
}

/// One run: all checks by name, the same names in the same order always.
fn one(
    context: &Context<'_>,
    ranks: usize,
    transport: &str,
) -> Result<Vec<(&'static str, Verdict)>, String> {
    let name = format!("hpcc/{transport}-{ranks}");
    let folder = context.cluster.folder().join(&name);
    let failed = |why: std::io::Error| format!("{}: {why}", folder.display());
    // It appends to an output that is there.
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(failed)?;
    }
    fs::create_dir_all(&folder).map_err(failed)?;
    fs::write(folder.join("hpccinf.txt"), input(ranks)?).map_err(failed)?;
    let script = format!("cd '{}' && exec hpcc", folder.display());
    let argv = ["sh", "-c", &script].map(str::to_owned);
    let ranks = ranks.to_string();
    let options = ["-n", ranks.as_str(), "--transport", transport];
    let ended = context.cluster.run(&format!("{name}/run"), &options, &[], &argv, LIMIT)?;
    let output = fs::read_to_string(folder.join("hpccoutf.txt")).unwrap_or_default();
    Ok(checks(&ended, &output))
}

/// The input: Debian's example, smaller, on a grid that fits.
fn input(ranks: usize) -> Result<String, String> {
    let example = fs::read_to_string(EXAMPLE).map_err(|why| format!("{EXAMPLE}: {why}"))?;
    Ok(fill(&example, ranks))
}

fn fill(example: &str, ranks: usize) -> String {
    let lines = example.lines().map(|line| match line.split_whitespace().nth(1) {
        Some("Ns") => format!("{ORDER} Ns\n"),
        Some("Ps") => format!("{} Ps\n", ranks / 2),
        _ => format!("{line}\n"),
    });
    lines.collect()
}

/// Reads what the benchmarks say of themselves.
fn checks(ended: &Ended, output: &str) -> Vec<(&'static str, Verdict)> {
    let whole = match (ended.succeeded(), output.lines().any(|line| line == "Success=1")) {
        (true, true) => Verdict::pass(),
        (true, false) => Verdict::Fail("it does not say Success=1".to_owned()),
        (false, _) => Verdict::Fail(ended.reason()),
    };
    let says = |good: &str, bad: &str| {
        let (good, bad) = (output.matches(good).count(), output.matches(bad).count());
        let figures = format!("{good} passed, {bad} failed");
        if good > 0 && bad == 0 { Verdict::Pass(figures) } else { Verdict::Fail(figures) }
    };
    let at_most = |name: &str, limit: f64| {
        let found = output.lines().filter_map(|line| line.trim().strip_prefix(name));
        let found: Vec<f64> = found.filter_map(|value| value.trim().parse().ok()).collect();
        match found.iter().find(|value| value.is_nan() || value.abs() > limit) {
            _ if found.is_empty() => Verdict::Fail("it printed no result".to_owned()),
            Some(value) => Verdict::Fail(format!("{value:e} is over {limit:e}")),
            None => Verdict::Pass(format!("at most {limit:e}")),
        }
    };
    vec![
        ("all ran to the end", whole),
        ("HPL: scaled residual", says("...... PASSED", "...... FAILED")),
        ("PTRANS: residuals", says(" PASSED ", " FAILED ")),
        ("RandomAccess: table entries", says("locations (passed)", "locations (failed)")),
        (
            "RandomAccess over MPI: share of wrong entries",
            at_most("MPIRandomAccess_ErrorsFraction=", ENTRIES_MAX),
        ),
        ("the same, LCG", at_most("MPIRandomAccess_LCG_ErrorsFraction=", ENTRIES_MAX)),
        ("STREAM: solution", says("Solution Validates", "Failed Validation")),
        ("DGEMM: scaled residual", at_most("Scaled residual:", RESIDUAL_MAX)),
        ("FFT over MPI: largest error", at_most("MPIFFT_maxErr=", FFT_ERROR_MAX)),
        ("nodes with an error", at_most("Node(s) with error", 0.0)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(ended: &Ended, output: &str) -> Vec<&'static str> {
        let wrong = checks(ended, output).into_iter().filter(|(_, verdict)| !verdict.passed());
        wrong.map(|(name, _)| name).collect()
    }

    const GOOD: &str = "Found 0 errors in 9 locations (passed).\nNode(s) with error 0\nWALL 3 PASSED    0.1\n\
        Scaled residual: 0.01\nSolution Validates: avg\n||= 0.004 ...... PASSED\nSuccess=1\n\
        MPIRandomAccess_LCG_ErrorsFraction=0\nMPIRandomAccess_ErrorsFraction=0\nMPIFFT_maxErr=1.2e-15\n";

    #[test]
    fn every_check_can_fail() {
        let ended = Ended { status: Some(0), text: String::new() };
        assert_eq!(failed(&ended, GOOD), [""; 0]);
        assert_eq!(failed(&ended, "").len(), checks(&ended, "").len());
        for (from, to) in [
            ("(passed)", "(failed)"),
            ("error 0", "error 1"),
            ("3 PASSED ", "3 FAILED "),
            ("0.01", "17"),
            ("Validates", "Fails"),
            ("...... PASSED", "...... FAILED"),
            ("Success=1", "Success=0"),
            ("LCG_ErrorsFraction=0", "LCG_ErrorsFraction=0.5"),
            ("Access_ErrorsFraction=0", "Access_ErrorsFraction=0.5"),
            ("1.2e-15", "nan"),
        ] {
            assert_eq!(failed(&ended, &GOOD.replace(from, to)).len(), 1, "{from}");
        }
    }

    #[test]
    fn the_grid_fits_the_ranks() {
        let example = "1000   Ns\n2   Ps\n2   Qs\n";
        assert_eq!(fill(example, 2), "600 Ns\n1 Ps\n2   Qs\n");
        assert_eq!(fill(example, 4), "600 Ns\n2 Ps\n2   Qs\n");
    }
}
