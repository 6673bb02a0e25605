//! Programs in C and Fortran, compiled and run against a real server.

mod common;

use std::path::{Path, PathBuf};
use std::process::Command;

use common::{base, target};

const REFUSED: &str = "/etc/passwd: Permission denied: the path is in no folder that its node \
                       exports; see `export` in the cluster file\n";

/// Compiles with `compiler`, unless that is missing.
fn compile(compiler: &str, arguments: &[&str], sources: &[&str], name: &str) -> Option<PathBuf> {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    // One for each: Fortran compilers leave modules where they are called.
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("languages-{name}"));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join(name);
    // Where cargo builds it before any copy: there in every kind of build.
    let library = target().join("deps");
    let compiled = Command::new(compiler)
        .current_dir(&folder)
        .args(arguments)
        .arg("-I")
        .arg(crate_dir.join("include"))
        .args(sources.iter().map(|source| crate_dir.join(source)))
        .arg("-o")
        .arg(&program)
        .arg("-L")
        .arg(&library)
        .args(["-lwiglaf_files", &format!("-Wl,-rpath,{}", library.display())])
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success(), "{sources:?} does not compile");
            Some(program)
        }
        Err(why) => {
            println!("skipped: no {compiler} ({why})");
            None
        }
    }
}

fn run(program: &Path, file: &Path) -> String {
    let out = Command::new(program).arg("elsewhere").arg(file).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert!(out.stderr.is_empty(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

const C_FLAGS: [&str; 5] = ["-Wall", "-Wextra", "-Werror", "-std=c11", "-D_DEFAULT_SOURCE"];

#[test]
fn c() {
    let Some(program) = compile("cc", &C_FLAGS, &["examples/remote.c"], "remote-c") else { return };
    let file = base().join("from-c");
    let expected = format!(
        "{} has 2400000 bytes on elsewhere\n{REFUSED}no-such-file: No such file or directory\n",
        file.display()
    );
    assert_eq!(run(&program, &file), expected);
    assert!(!file.exists());
}

#[test]
fn fortran() {
    let flags = ["-Wall", "-Werror=implicit-interface", "-std=f2008"];
    let sources = ["fortran/wiglaf_files.f90", "examples/remote.f90"];
    let Some(program) = compile("gfortran", &flags, &sources, "remote-f") else { return };
    let file = base().join("from-fortran");
    let expected = format!("{} has 2400000 bytes on elsewhere\n{REFUSED}", file.display());
    assert_eq!(run(&program, &file), expected);
    assert!(!file.exists());
}

/// Every call, with what it is given laid out as that language does.
fn every_one(program: &Path) {
    use std::time::{Duration, SystemTime};
    let folder = tempfile::TempDir::new_in(base()).unwrap();
    let file = std::fs::File::create_new(folder.path().join("file")).unwrap();
    std::io::Write::write_all(&mut &file, b"0123456789").unwrap();
    let then = SystemTime::UNIX_EPOCH + Duration::new(1_000_000_000, 5);
    file.set_modified(then).unwrap();
    std::os::unix::fs::symlink("file", folder.path().join("link")).unwrap();
    let out = Command::new(program).arg(folder.path()).output().unwrap();
    assert!(out.status.success() && out.stdout == b"every one\n", "{out:?}");
}

#[test]
fn every_call_in_c() {
    let Some(program) = compile("cc", &C_FLAGS, &["tests/c/every.c"], "every-c") else { return };
    every_one(&program);
}

#[test]
fn every_call_in_fortran() {
    let flags = ["-Wall", "-Werror=implicit-interface", "-std=f2008"];
    let sources = ["fortran/wiglaf_files.f90", "tests/fortran/every.f90"];
    let Some(program) = compile("gfortran", &flags, &sources, "every-f") else { return };
    every_one(&program);
}

/// The header's calls are in the Fortran module, and in both programs of the tests above.
#[test]
fn no_call_of_the_header_is_left_out() {
    let read = |path: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
    };
    let declared = |line: &str| {
        let before = line.ends_with(");").then(|| line.split_once('('))??.0;
        Some(before.rsplit([' ', '*']).next()?.to_owned())
    };
    let header = read("include/wiglaf_files.h");
    // A declaration may go on in the next line.
    let header = header.replace(",\n", ", ");
    let calls: Vec<String> = header.lines().filter_map(declared).collect();
    assert!(calls.len() > 30 && calls.iter().any(|call| call == "fureason"), "{calls:?}");
    let module = read("fortran/wiglaf_files.f90");
    let public: Vec<&str> = module
        .lines()
        .filter_map(|line| line.trim().strip_prefix("public :: "))
        .flat_map(|names| names.split(", "))
        .collect();
    for call in &calls {
        assert!(public.contains(&call.as_str()), "the module has no {call}");
        for program in ["tests/c/every.c", "tests/fortran/every.f90"] {
            let text = read(program);
            let before = text.split('(').filter_map(|text| {
                text.rsplit(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
            });
            assert!(before.into_iter().any(|word| word == call), "{program} calls no {call}");
        }
    }
}

#[test]
fn a_name_that_does_not_fit_is_read_with_more_room() {
    let Some(program) = compile("cc", &C_FLAGS, &["tests/c/names.c"], "names-c") else { return };
    let folder = tempfile::TempDir::new_in(base()).unwrap();
    let name = "n".repeat(100);
    std::fs::write(folder.path().join(&name), "").unwrap();
    let out = Command::new(program).arg(folder.path()).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8(out.stdout).unwrap(), format!("{name}, 3 names\n"));
}

#[test]
fn a_vectored_read_of_a_piece_that_is_nowhere_reads_nothing() {
    let Some(program) = compile("cc", &C_FLAGS, &["tests/c/vectors.c"], "vectors-c") else {
        return;
    };
    let folder = tempfile::TempDir::new_in(base()).unwrap();
    let out = Command::new(program).arg(folder.path().join("file")).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "0123456789abcdefghij\n");
}

#[test]
fn a_program_with_signal_handlers_attaches() {
    let Some(program) = compile("cc", &C_FLAGS, &["tests/c/signals.c"], "signals-c") else {
        return;
    };
    let folder = tempfile::TempDir::new_in(base()).unwrap();
    let late = folder.path().join("late.sh");
    let server = target().join("examples/server");
    let script = format!("sleep 0.5\nexec {} {}\n", server.display(), base().display());
    std::fs::write(&late, script).unwrap();
    let out = Command::new(program)
        .env(wiglaf_files::SERVER_VAR, format!("sh {}", late.display()))
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "attached between ticks\n");
}

#[test]
fn a_server_that_ends_at_once_does_not_end_its_client() {
    let Some(program) = compile("cc", &C_FLAGS, &["tests/c/refused.c"], "refused-c") else {
        return;
    };
    // On one processor, where it may run first.
    base();
    let out = Command::new("taskset")
        .args(["-c", "0"])
        .arg(program)
        .arg("200")
        .env(wiglaf_files::SERVER_VAR, "true")
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    assert_eq!(String::from_utf8(out.stdout).unwrap(), "refused\n");
}
