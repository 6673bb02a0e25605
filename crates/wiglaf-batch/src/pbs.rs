//! What scripts written for PBS look for in a job: `PBS_JOBID`, `PBS_NODEFILE` and their like.
//!
//! The prolog makes a folder for each job, its user's alone; the task prolog, which Slurm runs as that user before each
//! of the job's tasks, keeps the list of nodes there and prints the variables. Debian's qsub, qstat and qdel are
//! Slurm's own; they take the numbers that stand here.

use std::fs;
use std::os::unix::fs::{DirBuilderExt, chown};
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Result};

use crate::allocation::{Allocation, JOB_ID};

/// Debian's package of qsub, qstat, qdel and their like, and one of its programs.
pub(crate) const PACKAGE: &str = "slurm-wlm-torque";
pub(crate) const PROGRAM: &str = "qsub";
/// A folder for each job, by its number. A start of the host empties it.
const FOLDERS: &str = "/run/wiglaf-batch/own";
/// In it, the list of nodes.
const LIST: &str = "nodes";
/// The variable that names the list.
const LIST_VAR: &str = "PBS_NODEFILE";
/// Slurm's number of the step in which `salloc` has its shell.
const INTERACTIVE: &str = "4294967290";
/// Variables of PBS, and those of Slurm that say so.
const SAME: [(&str, &str); 9] = [
    ("PBS_JOBID", JOB_ID),
    ("PBS_JOBNAME", "SLURM_JOB_NAME"),
    ("PBS_QUEUE", "SLURM_JOB_PARTITION"),
    ("PBS_O_WORKDIR", "SLURM_SUBMIT_DIR"),
    ("PBS_O_HOST", "SLURM_SUBMIT_HOST"),
    // Torque's name, and PBS Pro's.
    ("PBS_ARRAYID", "SLURM_ARRAY_TASK_ID"),
    ("PBS_ARRAY_INDEX", "SLURM_ARRAY_TASK_ID"),
    ("PBS_NUM_NODES", "SLURM_JOB_NUM_NODES"),
    ("PBS_NODENUM", "SLURM_NODEID"),
];

fn folder(job: u32) -> PathBuf {
    Path::new(FOLDERS).join(job.to_string())
}

/// Makes the folder of a job, empty, for its user alone.
///
/// # Errors
/// When it cannot be made.
pub(crate) fn make_folder(job: u32, uid: u32) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(FOLDERS);
    made.cannot(|| format!("make {FOLDERS}"))?;
    // That of an earlier start of the job, on other nodes.
    remove_folder(job);
    let folder = folder(job);
    fs::DirBuilder::new()
        .mode(0o700)
        .create(&folder)
        .and_then(|()| chown(&folder, Some(uid), None))
        .cannot(|| format!("make {}", folder.display()))
}

/// Removes the folder of a job.
pub(crate) fn remove_folder(job: u32) {
    let _ = fs::remove_dir_all(folder(job));
}

/// What the task prolog prints: a line for each variable that the task is to have, or not to have.
#[must_use]
pub fn task_prolog() -> String {
    let get = |name: &str| std::env::var(name).ok();
    let list = get(JOB_ID).and_then(|job| Some(folder(job.parse().ok()?).join(LIST)));
    if let (Some(list), Some(nodes)) = (&list, nodes(&get)) {
        // Several tasks may begin at once: whole or not at all.
        let new = list.with_extension(std::process::id().to_string());
        // Where there was no prolog, there is no folder.
        let _ = fs::write(&new, nodes).and_then(|()| fs::rename(&new, list));
    }
    lines(&get, list.filter(|list| list.exists()).as_deref())
}

/// The list of nodes, a line for each task; nothing where this step knows only its own.
fn nodes(get: &dyn Fn(&str) -> Option<String>) -> Option<String> {
    let is_script = get("SLURM_STEP_ID").is_none_or(|id| id == INTERACTIVE);
    // Without a script around it, a step is all of its job, and has nobody's variables.
    let is_alone = get("PBS_JOBID") != get(JOB_ID);
    if !is_script && !is_alone {
        return None;
    }
    // Variables that contradict each other are told by what uses them.
    let allocation = Allocation::from_variables(get).ok()??;
    let line = |(node, slots): &(String, usize)| format!("{node}\n").repeat(*slots);
    Some(allocation.slots.iter().map(line).collect())
}

fn lines(get: &dyn Fn(&str) -> Option<String>, list: Option<&Path>) -> String {
    // The submitter's environment came along, which may be that of another job.
    let line = |name: &str, value: Option<String>| match value {
        // A line is one variable.
        Some(value) if !value.contains(char::is_control) => format!("export {name}={value}\n"),
        _ => format!("unset {name}\n"),
    };
    let mut all: String = SAME.iter().map(|(name, from)| line(name, get(from))).collect();
    all += &line(LIST_VAR, list.map(|list| list.display().to_string()));
    let is_shell = get("SLURM_STEP_ID").is_some_and(|id| id == INTERACTIVE);
    let environment = if is_shell { "PBS_INTERACTIVE" } else { "PBS_BATCH" };
    all + &line("PBS_ENVIRONMENT", Some(environment.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(all: &'a [(&'a str, &'a str)]) -> impl Fn(&str) -> Option<String> + 'a {
        |name| all.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
    }

    const SCRIPT: [(&str, &str); 3] = [
        ("SLURM_JOB_ID", "7"),
        ("SLURM_JOB_NODELIST", "pc[1-3]"),
        ("SLURM_TASKS_PER_NODE", "2(x2),1"),
    ];

    #[test]
    fn list_has_a_line_for_each_task_and_is_the_jobs_not_a_steps() {
        let all = Some("pc1\npc1\npc2\npc2\npc3\n".to_owned());
        assert_eq!(nodes(&of(&SCRIPT)), all);
        let with = |more: &[(&'static str, &'static str)]| [&SCRIPT[..], more].concat();
        assert_eq!(nodes(&of(&with(&[("SLURM_STEP_ID", INTERACTIVE)]))), all);
        // srun from a login, and from another job's shell; then in the job's script, for some of its tasks.
        let alone = with(&[("SLURM_STEP_ID", "0")]);
        assert_eq!(nodes(&of(&alone)), all);
        let other = with(&[("SLURM_STEP_ID", "0"), ("PBS_JOBID", "6")]);
        assert_eq!(nodes(&of(&other)), all);
        let inside = with(&[("SLURM_STEP_ID", "0"), ("PBS_JOBID", "7")]);
        assert_eq!(nodes(&of(&inside)), None);
        assert_eq!(nodes(&of(&[])), None);
    }

    #[test]
    fn another_jobs_variables_are_taken_away_and_no_value_makes_a_line_of_its_own() {
        let all = [&SCRIPT[..], &[("SLURM_JOB_NAME", "a b=c"), ("SLURM_SUBMIT_DIR", "/tmp/x\ny")]];
        let said = lines(&of(&all.concat()), None);
        for line in [
            "export PBS_JOBID=7\n",
            "export PBS_JOBNAME=a b=c\n",
            "unset PBS_O_WORKDIR\n",
            "unset PBS_NODEFILE\n",
            "unset PBS_ARRAYID\n",
            "export PBS_ENVIRONMENT=PBS_BATCH\n",
        ] {
            assert!(said.contains(line), "{said}");
        }
        assert!(said.lines().all(|l| l.starts_with("export PBS_") || l.starts_with("unset PBS_")));
        let said = lines(&of(&SCRIPT), Some(Path::new("/run/x/nodes")));
        assert!(said.contains("export PBS_NODEFILE=/run/x/nodes\n"), "{said}");
    }
}
