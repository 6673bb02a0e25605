//! Rules for an MPI's collectives as a cluster keeps them: files in its folder, the newest of each shape counts.
//!
//! Every rank reads the file for itself when it starts, and ranks that take different rules wait for each other for ever.
//! So a file never changes: a new one has another name, the one before stays for jobs that are starting, and on hosts all
//! have it or nobody is told of it.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::paths;
use wiglaf_mpi::rules::{self, Rules, Shape};
use wiglaf_mpi::{Family, Installation};
use wiglaf_node::client::NodeCommand;

use crate::cluster::{self, Cluster, Member};
use crate::state::RULES_DIR;

/// Below the folder, what measuring needs for itself.
pub const WORK_DIR: &str = "work";
/// How many files of one shape stay: the newest, and the one before.
const KEPT: usize = 2;

/// Writes its input, of `$1` bytes, to the file `$0`: whole or not at all. (What MPICH reads may be longer than an
/// argument.)
const WRITE: &str = r#"
umask 022
mkdir -p -- "${0%/*}" && cat >"$0.$$" && test "$(wc -c <"$0.$$")" -eq "$1" && exec mv -f -- "$0.$$" "$0"
rm -f -- "$0.$$"
exit 1"#;

/// A file.
#[derive(Debug)]
pub struct Kept {
    /// Where it is.
    pub path: PathBuf,
    /// What it says, or why it is not used.
    pub rules: Result<Rules>,
}

/// Where a cluster's are: for emulated nodes in its state folder, for hosts in the user's.
///
/// # Errors
/// When the user has no home.
pub fn folder(cluster: &Cluster) -> Result<PathBuf> {
    match cluster {
        Cluster::Emulated { state, .. } => Ok(state.path().join(RULES_DIR)),
        Cluster::Hosts(hosts) => {
            let state = paths::user_state().ok_or_else(|| Error::new("HOME is not set"))?;
            Ok(state.join("wiglaf").join(format!("{RULES_DIR}-{}", hosts.name)))
        }
    }
}

/// Shape and time, as they stand in a file's name.
fn parts(path: &Path) -> Option<(&str, u64)> {
    let (shape, made) = path.file_name()?.to_str()?.strip_suffix(".rules")?.rsplit_once('@')?;
    Some((shape, made.parse().ok()?))
}

/// All files, by shape, the newest first.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.cannot(|| format!("read {}", folder.display()))?,
    };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = paths.filter(|path| parts(path).is_some()).collect();
    files.sort_by(|a, b| {
        let (a, b) = (parts(a), parts(b));
        let newest_first = b.map(|b| b.1).cmp(&a.map(|a| a.1));
        a.map(|a| a.0).cmp(&b.map(|b| b.0)).then(newest_first)
    });
    Ok(files)
}

fn read(path: &Path) -> Result<Rules> {
    let mut text = Vec::new();
    let limit = rules::LEN_MAX as u64 + 1;
    let read = fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut text));
    read.cannot(|| format!("read {}", path.display()))?;
    Rules::parse(&text).map_err(|why| {
        Error::new(format!(
            "{} is not used: {why}; `wiglaf links forget` removes it",
            path.display()
        ))
    })
}

/// The newest file of each shape.
///
/// # Errors
/// When the folder cannot be read.
pub fn list(folder: &Path) -> Result<Vec<Kept>> {
    let mut files = files(folder)?;
    files.dedup_by(|later, first| parts(later).map(|l| l.0) == parts(first).map(|f| f.0));
    let kept = files.into_iter().map(|path| Kept { rules: read(&path), path });
    Ok(kept.collect())
}

/// The file for a job of that shape.
///
/// # Errors
/// When there is one that is damaged or says another shape than its name.
pub fn find(folder: &Path, job: &Shape) -> Result<Option<(PathBuf, Rules)>> {
    let name = job.file_name();
    let Some(path) =
        files(folder)?.into_iter().find(|path| parts(path).is_some_and(|p| p.0 == name))
    else {
        return Ok(None);
    };
    let rules = read(&path)?;
    if rules.shape.file_name() != name {
        return Err(Error::new(format!(
            "{} is not used: it was made for {} and renamed; `wiglaf links forget` removes it",
            path.display(),
            rules.shape.mpi
        )));
    }
    Ok((rules.shape.covers(job) && !rules.is_empty()).then_some((path, rules)))
}

/// What MPICH reads for a file of rules: beside it, made of it and of the library's own choice.
fn choice_path(path: &Path) -> PathBuf {
    path.with_extension("json")
}

/// What an MPICH reads for these rules; nothing for another MPI.
///
/// # Errors
/// When its library does not tell its own choice, or in another form.
pub fn choice(mpi: &Installation, rules: &Rules) -> Result<Option<String>> {
    if mpi.family != Family::Mpich {
        return Ok(None);
    }
    let library = fs::read(&mpi.library).cannot(|| format!("read {}", mpi.library.display()))?;
    let own = rules::mpich::own_choice(&library).ok_or_else(|| {
        Error::new(format!("{} does not tell how it chooses algorithms", mpi.summary()))
    })?;
    rules::mpich::choice_with(own, rules).map(Some)
}

/// The file that a job's MPI reads for the rules in `path`, and what is in it.
///
/// # Errors
/// When MPICH's is damaged, or was made for another build of that version.
pub(crate) fn read_by(
    mpi: &Installation,
    path: PathBuf,
    rules: &Rules,
) -> Result<(PathBuf, String)> {
    let Some(wanted) = choice(mpi, rules)? else { return Ok((path, rules.text())) };
    let file = choice_path(&path);
    match fs::read(&file).is_ok_and(|text| text == wanted.as_bytes()) {
        true => Ok((file, wanted)),
        false => Err(Error::new(format!(
            "{} is not used: it is damaged or was made for another build of {}; `wiglaf links forget` \
             removes it",
            file.display(),
            mpi.summary()
        ))),
    }
}

/// Keeps a file, made at that second, and with it, for MPICH, what that reads; the one before the last goes.
///
/// # Errors
/// When the folder cannot be written to.
pub fn keep(folder: &Path, rules: &Rules, choice: Option<&str>, made_s: u64) -> Result<PathBuf> {
    let name = rules.shape.file_name();
    fs::create_dir_all(folder).cannot(|| format!("make {}", folder.display()))?;
    let of_shape = |path: &PathBuf| parts(path).is_some_and(|p| p.0 == name);
    let before: Vec<PathBuf> = files(folder)?.into_iter().filter(of_shape).collect();
    // Two in one second, or a clock that went back: it must be the newest.
    let newest = before.first().and_then(|path| Some(parts(path)?.1));
    let made_s = newest.map_or(made_s, |newest| made_s.max(newest.saturating_add(1)));
    let path = folder.join(format!("{name}@{made_s}.rules"));
    let write = |path: &Path, text: &str| {
        let new = path.with_extension("new");
        let written = fs::write(&new, text).and_then(|()| fs::rename(&new, path));
        written.cannot(|| format!("write {}", path.display()))
    };
    if let Some(choice) = choice {
        write(&choice_path(&path), choice)?;
    }
    write(&path, &rules.text())?;
    for path in before.iter().skip(KEPT - 1) {
        remove(path)?;
    }
    Ok(path)
}

/// Removes a file and what MPICH reads for it.
fn remove(path: &Path) -> Result<()> {
    let _ = fs::remove_file(choice_path(path));
    fs::remove_file(path).cannot(|| format!("remove {}", path.display()))
}

/// Removes all files of a cluster; says how many there were.
///
/// # Errors
/// When one cannot be removed.
pub fn forget(folder: &Path) -> Result<usize> {
    let files = files(folder)?;
    for path in &files {
        remove(path)?;
    }
    let _ = fs::remove_dir_all(folder.join(WORK_DIR));
    // Not where somebody has put something else.
    let _ = fs::remove_dir(folder);
    Ok(files.len())
}

/// Writes a file to the same path on all members but this host.
pub(crate) fn put_on(members: &[Member], path: &Path, text: &str) -> Result<()> {
    let others = cluster::elsewhere(members);
    let put = cluster::ask_all(&others, |member| {
        let len = text.len().to_string().into();
        let words = ["sh".into(), "-c".into(), WRITE.into(), path.as_os_str().to_owned(), len];
        let put = member.node.output(&NodeCommand::new(words).cwd("/"), text.as_bytes());
        put.map(drop).map_err(|why| Error::new(format!("{}: {why}", member.name())))
    });
    cluster::all_or_error(&others, put).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wiglaf_mpi::rules::Operation;

    fn rules(mpi: &str, nodes: &[&str], algorithm: u32) -> Rules {
        let shape = Shape {
            mpi: mpi.to_owned(),
            transport: "wiglaf".to_owned(),
            link: "auto".to_owned(),
            per_node: 1,
            nodes: nodes.iter().map(|name| (*name).to_owned()).collect(),
        };
        let mut rules = Rules::new(shape, Vec::new());
        rules.add(Operation::Barrier, 2, vec![(0, algorithm)]).unwrap();
        rules
    }

    #[test]
    fn newest_file_of_a_shape_counts_and_the_one_before_stays() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path().join("collectives");
        let (four, five) =
            (rules("Open MPI 4.1.4", &["a", "b"], 1), rules("Open MPI 5.0.11", &["a", "b"], 1));
        assert!(list(&folder).unwrap().is_empty());
        assert_eq!(find(&folder, &four.shape).unwrap(), None);
        let mut kept = Vec::new();
        for algorithm in 1..=3 {
            // The clock stands still.
            kept.push(
                keep(&folder, &rules("Open MPI 4.1.4", &["a", "b"], algorithm), None, 7).unwrap(),
            );
        }
        keep(&folder, &five, None, 9).unwrap();
        assert!(!kept[0].exists() && kept[1].exists());
        let (path, newest) = find(&folder, &four.shape).unwrap().unwrap();
        assert_eq!((path, newest), (kept[2].clone(), rules("Open MPI 4.1.4", &["a", "b"], 3)));
        // On other nodes nothing was measured.
        assert_eq!(find(&folder, &rules("Open MPI 4.1.4", &["a", "c"], 1).shape).unwrap(), None);
        assert_eq!(list(&folder).unwrap().len(), 2);
        assert_eq!(forget(&folder).unwrap(), 3);
        assert!(!folder.exists());
    }

    #[test]
    fn bad_and_foreign_files_are_refused_in_a_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let four = rules("Open MPI 4.1.4", &["a", "b"], 1);
        let path = keep(folder, &four, None, 7).unwrap();
        let refused = |text: &[u8]| {
            fs::write(&path, text).unwrap();
            let said = find(folder, &four.shape).unwrap_err().to_string();
            assert!(said.contains("is not used") && said.contains("wiglaf links forget"), "{said}");
            let listed = list(folder).unwrap().remove(0).rules;
            (said, listed.is_err())
        };
        assert!(refused(b"1\n7\n1\n0\n1\n0 3 0 0\n").0.contains("damaged"));
        assert!(refused(&vec![b'#'; 1 << 20]).0.contains("damaged"));
        let five = rules("Open MPI 5.0.11", &["a", "b"], 1);
        let (said, is_listed_as_bad) = refused(five.text().as_bytes());
        assert!(said.contains("was made for Open MPI 5.0.11"), "{said}");
        assert!(!is_listed_as_bad);
        fs::write(folder.join("notes.txt"), "mine").unwrap();
        assert_eq!(forget(folder).unwrap(), 1);
        assert!(folder.join("notes.txt").exists());
    }
}
