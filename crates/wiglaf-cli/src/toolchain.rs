//! `wiglaf doctor --toolchain`.

use std::process::ExitCode;

use serde_json::Value;
use wiglaf_base::Result;
use wiglaf_doctor::toolchain::{self, Check, Finding, Report, Verdict};

use crate::output;
use crate::up::this_exe;

/// What is shown of each compiler by itself.
const SOLO: [Check; 5] = [Check::Links, Check::Names, Check::True, Check::MinusOne, Check::Blas];
/// What is shown of each compiler with each MPI.
const PAIR: [Check; 7] = [
    Check::Header,
    Check::Module,
    Check::Module08,
    Check::ReduceOne,
    Check::ReduceMinusOne,
    Check::Integer,
    Check::Scalapack,
];

/// What compilers say may be long; JSON has more of it.
const FOUND_COLUMNS_MAX: usize = 92;

pub(crate) fn run(json: bool) -> Result<ExitCode> {
    let report = toolchain::examine(&this_exe()?)?;
    match json {
        true => output::print_json(&report)?,
        false => output::print(&show(&report))?,
    }
    Ok(if report.sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn show(report: &Report) -> String {
    let (pairs, solos): (Vec<_>, Vec<_>) =
        report.findings.iter().partition(|finding| finding.mpi.is_some());
    let mut text = table(&["compiler"], &SOLO, &solos);
    if !pairs.is_empty() {
        text += "\n";
        text += &table(&["compiler", "MPI"], &PAIR, &pairs);
    }
    if !report.absent.is_empty() {
        text += "\nNot here:\n";
        for (name, mend) in &report.absent {
            text += &format!("  {name}: {mend}\n");
        }
    }
    text + &mends(&report.findings)
}

/// One line for each compiler, or compiler and MPI, in the order of findings.
fn table(titles: &[&str], checks: &[Check], findings: &[&Finding]) -> String {
    let subject = |finding: &Finding| {
        let mpi = finding.mpi.iter().cloned();
        std::iter::once(finding.compiler.clone()).chain(mpi).collect::<Vec<_>>()
    };
    let mut rows: Vec<Vec<String>> =
        vec![titles.iter().map(ToString::to_string).chain(checks.iter().map(name)).collect()];
    for finding in findings {
        let subject = subject(finding);
        if rows.iter().skip(1).any(|row| row.starts_with(&subject)) {
            continue;
        }
        let own: Vec<&&Finding> = findings.iter().filter(|f| self::same(f, finding)).collect();
        let cell = |check: &Check| {
            own.iter().find(|f| f.check == *check).map_or("-".to_owned(), |f| word(f))
        };
        rows.push(subject.into_iter().chain(checks.iter().map(cell)).collect());
    }
    output::table(&rows)
}

fn same(a: &Finding, b: &Finding) -> bool {
    (&a.compiler, &a.mpi) == (&b.compiler, &b.mpi)
}

/// A verdict in a word, or the fact itself where it is one.
fn word(finding: &Finding) -> String {
    let is_fact = matches!(finding.check, Check::Names | Check::True | Check::MinusOne);
    match finding.verdict {
        Verdict::Ok if is_fact => finding.found.clone(),
        Verdict::Ok => "ok".to_owned(),
        Verdict::Mended => "mended".to_owned(),
        Verdict::Fails => "FAILS".to_owned(),
        Verdict::Absent => "absent".to_owned(),
    }
}

/// The name of a check, as in JSON.
fn name(check: &Check) -> String {
    match serde_json::to_value(check) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

/// Every mend once, with what it is for and what was found there first.
fn mends(findings: &[Finding]) -> String {
    let all = distinct(findings.iter().map(|f| f.compiler.clone()));
    let mut text = String::new();
    let mut told: Vec<&str> = Vec::new();
    for finding in findings {
        let Some(mend) = finding.mend.as_deref().filter(|mend| !told.contains(mend)) else {
            continue;
        };
        told.push(mend);
        let same = || findings.iter().filter(|f| f.mend.as_deref() == Some(mend));
        let checks = distinct(same().map(|f| name(&f.check)));
        let mut compilers = distinct(same().map(|f| f.compiler.clone()));
        if compilers.len() > 1 && compilers.len() == all.len() {
            compilers = vec!["all compilers".to_owned()];
        }
        let mpis = distinct(same().filter_map(|f| f.mpi.clone()));
        let with = if let [mpi] = &mpis[..] { format!(" with {mpi}") } else { String::new() };
        let found: String = finding.found.chars().take(FOUND_COLUMNS_MAX).collect();
        text += &format!("  {}{with}: {}\n", compilers.join(", "), checks.join(", "));
        text += &format!("    {found}\n    -> {mend}\n");
    }
    if text.is_empty() { text } else { format!("\nMends:\n{text}") }
}

fn distinct(words: impl Iterator<Item = String>) -> Vec<String> {
    let mut kept = Vec::new();
    for word in words {
        if !kept.contains(&word) {
            kept.push(word);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(mpi: Option<&str>, check: Check, verdict: Verdict, mend: Option<&str>) -> Finding {
        Finding {
            compiler: "fc 1".to_owned(),
            mpi: mpi.map(str::to_owned),
            check,
            verdict,
            found: "name_".to_owned(),
            mend: mend.map(str::to_owned),
        }
    }

    #[test]
    fn facts_verdicts_and_mends_are_shown() {
        let findings = vec![
            finding(None, Check::Links, Verdict::Ok, None),
            finding(None, Check::Names, Verdict::Ok, None),
            finding(Some("MPI 1"), Check::Header, Verdict::Ok, None),
            finding(Some("MPI 2"), Check::Module, Verdict::Fails, Some("do that")),
            finding(Some("MPI 2"), Check::Module08, Verdict::Fails, Some("do that")),
            finding(Some("MPI 2"), Check::ReduceMinusOne, Verdict::Mended, Some("do this")),
            finding(Some("MPI 2"), Check::Scalapack, Verdict::Absent, None),
        ];
        let absent = vec![("flang".to_owned(), "apt-get install flang-19".to_owned())];
        let text = show(&Report { sound: false, findings, absent });
        let expected = "\
compiler  links  names  .TRUE.  -1 is  BLAS
fc 1      ok     name_  -       -      -

compiler  MPI    mpif.h  mpi    mpi_f08  true=1  true=-1  INTEGER  ScaLAPACK
fc 1      MPI 1  ok      -      -        -       -        -        -
fc 1      MPI 2  -       FAILS  FAILS    -       mended   -        absent

Not here:
  flang: apt-get install flang-19

Mends:
  fc 1 with MPI 2: mpi, mpi_f08
    name_
    -> do that
  fc 1 with MPI 2: true=-1
    name_
    -> do this
";
        assert_eq!(text, expected);
    }
}
