use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use super::compilers::Kind;
use super::*;

/// A compiler that does what a script does.
fn scripted(dir: &Path, kind: Kind, script: &str) -> Compiler {
    let path = dir.join("compiler");
    fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    Compiler { kind, version: "1.0".to_owned(), path }
}

fn examine_one(compiler: Compiler) -> Vec<Finding> {
    examine_these(&[compiler], &discover::all(), Path::new("/no/such/wiglaf")).unwrap()
}

#[test]
fn a_compiler_that_fails_is_told_and_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let script = "echo reading; echo 'error: no licence' >&2; exit 1";
    let findings = examine_one(scripted(dir.path(), Kind::Gfortran, script));
    let [finding] = &findings[..] else { panic!("{findings:?}") };
    assert_eq!((finding.check, finding.verdict), (Check::Links, Verdict::Fails));
    assert_eq!(finding.found, "error: no licence");
    assert!(finding.mend.is_some());
}

/// Looks like a compiler whose programs behave as the script says.
fn compiles_to(dir: &Path, program: &str) -> Compiler {
    let body = dir.join("program");
    fs::write(&body, format!("#!/bin/sh\n{program}\n")).unwrap();
    fs::set_permissions(&body, fs::Permissions::from_mode(0o755)).unwrap();
    let script = format!("while [ \"$1\" != -o ]; do shift; done; cp {} \"$2\"", body.display());
    scripted(dir, Kind::Flang, &script)
}

#[test]
fn what_a_compiler_stores_for_true_is_told() {
    for (stored, verdict) in [
        ("1 1 1 1", Verdict::Ok),
        ("-1 -1 -1 -1", Verdict::Mended),
        ("1 1 7 1", Verdict::Fails),
        ("", Verdict::Fails),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let program = format!("echo true {stored}; echo reads -1 1 0; echo wrong: zdotc");
        let solo = Solo::examine(&compiles_to(dir.path(), &program)).unwrap().findings;
        let find = |check| solo.iter().find(|f| f.check == check).unwrap();
        assert_eq!(find(Check::True).verdict, verdict, "{stored}");
        assert_eq!(find(Check::True).mend.is_some(), verdict != Verdict::Ok);
        assert_eq!(find(Check::MinusOne).found, "true");
        assert_eq!(find(Check::Names).verdict, Verdict::Fails, "no symbol in a script");
        assert_eq!(
            (find(Check::Blas).verdict, &*find(Check::Blas).found),
            (Verdict::Fails, "wrong: zdotc")
        );
    }
}

#[test]
fn no_folder_stays_behind() {
    let shop = workshop::Workshop::new().unwrap();
    let path: PathBuf = shop.path().to_path_buf();
    shop.write("file", "text");
    assert!(path.join("file").is_file());
    drop(shop);
    assert!(!path.exists());
}

#[test]
fn work_is_done_once_and_in_order() {
    let doubled = in_parallel((0..100).collect(), |n| Ok(vec![*n, *n])).unwrap();
    assert_eq!(doubled, (0..100).flat_map(|n| [n, n]).collect::<Vec<_>>());
    let error =
        in_parallel(vec![1], |_| -> Result<Vec<i32>> { Err(wiglaf_base::Error::new("no")) });
    assert!(error.is_err());
}
