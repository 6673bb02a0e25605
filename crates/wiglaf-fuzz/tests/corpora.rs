//! The corpora of `fuzz/corpus/`, through the same functions as under the
//! fuzzer, on a stable compiler.

use std::fs;
use std::path::{Path, PathBuf};

fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap_or_else(|why| panic!("{}: {why}", folder.display()));
    entries.map(|entry| entry.expect("a readable folder").path()).collect()
}

#[test]
fn every_corpus_is_survived() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut names: Vec<String> = files(&fuzz.join("corpus"))
        .iter()
        .map(|path| path.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    let mut known: Vec<&str> = wiglaf_fuzz::TARGETS.iter().map(|(name, _)| *name).collect();
    names.sort();
    known.sort_unstable();
    assert_eq!(names, known, "each target has its corpus, and each corpus its target");
    for (name, target) in wiglaf_fuzz::TARGETS {
        assert!(fuzz.join(format!("fuzz_targets/{name}.rs")).is_file(), "{name} is not fuzzed");
        let inputs = files(&fuzz.join("corpus").join(name));
        assert!(!inputs.is_empty(), "the corpus of {name} is empty");
        for input in inputs {
            let bytes = fs::read(&input).expect("a readable file");
            let outcome = std::panic::catch_unwind(|| target(&bytes));
            assert!(outcome.is_ok(), "{} is not survived", input.display());
        }
    }
}
