use super::*;
use crate::files::tests::contender;
use crate::files::{Absent, SCHEMA, Sizes, Way, compare};
use crate::report::table::tests::{assert_golden, sample_facts};

/// A made-up result: round figures that nobody measured.
pub(in crate::report) fn sample_files() -> Report {
    let mut contenders = vec![
        contender(Way::Local, 4000.0, 1),
        contender(Way::Tcp, 2000.0, 12),
        contender(Way::Sshfs, 300.0, 110),
        contender(Way::Nfs, 500.0, 60),
        contender(Way::Wiglaf, 2500.0, 10),
    ];
    contenders[2].evidence = Some("chacha20-poly1305@openssh.com".to_owned());
    Report {
        schema: SCHEMA.to_owned(),
        facts: sample_facts(),
        rounds: 3,
        sizes: Sizes::QUICK,
        comparison: compare(&contenders),
        contenders,
        absent: vec![Absent {
            way: Way::WiglafMount,
            reason: "this wiglaf has no command `mount`".to_owned(),
        }],
    }
}

#[test]
fn the_tables_are_as_they_were() {
    let report = sample_files();
    let table = files_table(&report);
    assert!(table.lines().all(|line| line.chars().count() < 80), "{table}");
    assert_golden("files.txt", &table);
    assert_golden("files.md", &files_markdown(&report));
}
