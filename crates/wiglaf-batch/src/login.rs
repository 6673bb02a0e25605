//! Who logs in on a host by ssh: users with a job there, its owner, administrators.
//!
//! Prolog and epilog keep a folder with a file for each job, as lists of users were kept in 1999. PAM asks a script
//! for each login, which fails open: where Slurm's daemon does not run, or Wiglaf is gone, or anything is missing,
//! everybody gets in whom the host would let in without this.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use wiglaf_base::error::{Context, Result};
use wiglaf_base::shell::quoted;

/// What PAM asks.
pub(crate) const SCRIPT: &str = "/etc/wiglaf/batch/login";
/// Users who get in always, a line each.
pub(crate) const ALWAYS: &str = "/etc/wiglaf/batch/always";
/// The file of PAM's that has the lines.
pub(crate) const PAM: &str = "/etc/pam.d/sshd";
/// Jobs that the host has: a file for each, with its user's number. A start of the host empties it.
const JOBS: &str = "/run/wiglaf-batch/jobs";

/// Slurm's PAM module, which puts logins into jobs' control groups.
pub(crate) const ADOPT_PACKAGE: &str = "libpam-slurm-adopt";

/// PAM's lines on a node. Root, and who may become root by sudo, are asked nothing. A script that is not there lets in.
/// With `adopts`, a session of a user with a job, who does not get in always, becomes part of the job.
pub(crate) fn pam(node: &str, adopts: bool) -> String {
    // Root and sudo pass over the two lines of adopting as well.
    let (root, sudo) = if adopts { (4, 3) } else { (2, 1) };
    let adopt = if adopts { adopt(node) } else { String::new() };
    format!(
        "# Wiglaf, begin: users with a job log in, the owner, administrators (docs/batch.md)\n\
         account [success={root} default=ignore] pam_succeed_if.so quiet uid < 1000\n\
         account [success={sudo} default=ignore] pam_succeed_if.so quiet user ingroup sudo\n\
         account required pam_exec.so quiet stdout /bin/sh -c [test ! -x {SCRIPT} || exec {SCRIPT}]\n\
         {adopt}# Wiglaf, end\n"
    )
}

/// The script has said who gets in, so that the module denies only whom it cannot adopt; where Slurm's daemon does not run
/// it lets in. A session that is part of a job does without `pam_systemd`, which would take it out again, and so without all
/// lines behind these; what else Debian's have stands here.
fn adopt(node: &str) -> String {
    format!(
        "account [success=1 default=ignore] pam_listfile.so quiet item=user sense=allow onerr=fail file={ALWAYS}\n\
         -account required pam_slurm_adopt.so action_no_jobs=ignore action_unknown=newest action_adopt_failure=deny \
         action_generic_failure=ignore nodename={node}\n\
         session [success=ignore default=6] pam_exec.so quiet /bin/grep -qF /step_extern /proc/self/cgroup\n\
         session required pam_loginuid.so\n\
         session optional pam_keyinit.so force revoke\n\
         session required pam_unix.so\n\
         session required pam_limits.so\n\
         session required pam_env.so\n\
         session [success=done default=ignore] pam_permit.so\n"
    )
}

/// The text of [`ALWAYS`].
pub(crate) fn always<'a>(users: impl IntoIterator<Item = &'a str>) -> String {
    let mut users: Vec<&str> = users.into_iter().collect();
    users.sort_unstable();
    users.dedup();
    users.into_iter().map(|user| format!("{user}\n")).collect()
}

/// The script that PAM asks, on a host of that name whose jobs Wiglaf's program there notes.
pub(crate) fn script(node: &str, program: &Path) -> String {
    let program = quoted(&program.display().to_string());
    format!(
        r#"#!/bin/sh
# Written by `wiglaf batch setup`: PAM asks whether a user logs in. Nobody is refused but by its last line.
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
[ "$PAM_TYPE" = account ] && [ -n "$PAM_USER" ] || exit 0
grep -qxF -e "$PAM_USER" {ALWAYS} && exit 0
# Without these nobody notes which jobs there are.
[ -x {program} ] || exit 0
if [ -d /run/systemd/system ]; then
    systemctl is-active --quiet slurmd || exit 0
else
    read -r pid 2>/dev/null </run/slurmd.pid && read -r name 2>/dev/null <"/proc/$pid/comm" || exit 0
    [ "$name" = slurmd ] || exit 0
fi
uid=$(id -u -- "$PAM_USER") || exit 0
for job in {JOBS}/*; do
    read -r has 2>/dev/null <"$job" && [ "$has" = "$uid" ] && exit 0
done
echo "{node} is for users who have a job there, and $PAM_USER has none now: salloc -w {node}, or submit a job"
exit 1
"#
    )
}

fn noted(job: u32) -> PathBuf {
    Path::new(JOBS).join(job.to_string())
}

/// Notes that a job has this host.
///
/// # Errors
/// When it cannot be noted.
pub(crate) fn admit(job: u32, uid: u32) -> Result<()> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o755).create(JOBS);
    made.cannot(|| format!("make {JOBS}"))?;
    let path = noted(job);
    // Whole or not at all: a login may read it now.
    let new = path.with_extension("new");
    fs::write(&new, format!("{uid}\n"))
        .and_then(|()| fs::rename(&new, &path))
        .cannot(|| format!("write {}", path.display()))
}

/// Forgets a job.
pub(crate) fn dismiss(job: u32) {
    let _ = fs::remove_file(noted(job));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_who_always_get_in_stand_there_once() {
        assert_eq!(always(["bob", "ann", "bob"]), "ann\nbob\n");
    }

    /// The lines of that kind from the first one that has `from` on, and how many of them success or else passes over.
    fn skipped<'a>(text: &'a str, from: &str, word: &str) -> (&'a str, usize) {
        let kind = |line: &str| line.trim_start_matches('-').split(' ').next().map(str::to_owned);
        let (before, after) = text.split_at(text.find(from).unwrap());
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        let mut lines = text[line_start..].lines();
        let first = lines.next().unwrap();
        let count = first.split_once(word).unwrap().1.split([' ', ']']).next().unwrap();
        let own = lines.filter(|line| kind(line) == kind(first)).count();
        assert!(own >= count.parse().unwrap(), "{first} passes over more than there is");
        (after, own - count.parse::<usize>().unwrap())
    }

    #[test]
    fn logins_become_part_of_jobs_but_for_those_who_always_get_in() {
        let (plain, adopts) = (pam("pc2", false), pam("pc2", true));
        for text in [&plain, &adopts] {
            // Root, sudo, and who always gets in come behind all of ours for accounts.
            assert_eq!(skipped(text, "uid < 1000", "success=").1, 0, "{text}");
            assert_eq!(skipped(text, "ingroup sudo", "success=").1, 0, "{text}");
        }
        assert!(!plain.contains("slurm_adopt") && !plain.contains("session"), "{plain}");
        assert_eq!(skipped(&adopts, "pam_listfile.so", "success=").1, 0, "{adopts}");
        // A session that is in no job runs Debian's lines alone; one that is in a job, ours alone.
        let (rest, behind) = skipped(&adopts, "pam_exec.so quiet /bin/grep", "default=");
        assert_eq!(behind, 0, "{adopts}");
        assert!(
            rest.ends_with("session [success=done default=ignore] pam_permit.so\n# Wiglaf, end\n")
        );
        assert!(adopts.contains("action_no_jobs=ignore") && adopts.contains("nodename=pc2\n"));
    }

    #[test]
    fn nothing_but_the_last_line_of_the_script_refuses() {
        let script = script("pc2", Path::new("/usr/local/bin/wiglaf"));
        assert_eq!(script.matches("exit 1").count(), 1);
        assert!(script.ends_with("exit 1\n") && script.contains("salloc -w pc2"), "{script}");
    }
}
