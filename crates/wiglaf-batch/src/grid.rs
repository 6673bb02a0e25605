//! Jobs at a site: another cluster, which is reached by ssh alone ([ADR 0060]).
//!
//! Each question starts slurmrestd there, as the user, with the question on its standard input: there is no daemon,
//! no open port and no token. A job has a folder there, into which its files go before it, and from which what it has
//! written is fetched.
//!
//! [ADR 0060]: ../../../docs/adr/0060-slurmrestd-on-a-pipe-behind-ssh.md

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::Serialize;
use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::random;
use wiglaf_base::shell::quoted;
use wiglaf_cluster::sites::Site;
use wiglaf_join::remote::Remote;

use crate::look;
use crate::request::Request;
use crate::rest::{Answer, Job, Told, Version, question};

/// Longest list of jobs that is read, in bytes: some 8000 of them.
const ANSWER_LEN_MAX: u64 = 64 << 20;
/// In a job's folder: what is newer was written by the job.
const MARK: &str = ".wiglaf-staged";

/// Says who the user is there and what slurmrestd takes, a line each. `$rest` is the program, `$folder` that of jobs.
///
/// slurmrestd takes the user for its caller where its standard input is the user's own pipe: sshd's is a socket.
/// Where the cluster has no slurmdbd, it ends unless it is told to load no more than the part that asks slurmctld: 24.11
/// calls it `slurmctld`, and 22.05 by its version.
const LOOK: &str = r#"
PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
say() { printf '%s %s\n' "$1" "$2"; }
say uid "$(id -u)"
say user "$(id -un)"
say home "$HOME"
say shell "$SHELL"
say path "$PATH"
case $folder in /*) ;; *) folder=$HOME/$folder ;; esac
say folder "$folder"
program=$(command -v "$rest") || { say end none; exit 0; }
say rest "$program"
say release "$("$program" -V 2>/dev/null)"
for parts in '' slurmctld v0.0.38; do
    said=$(printf 'GET /openapi/v3 HTTP/1.1\r\nHost: localhost\r\n\r\n' |
        { timeout 60 "$program" ${parts:+-s $parts} -a rest_auth/local 2>&1 | tr -d '\\' |
            grep -oaE '(^slurmrestd: (fatal|error): .*|/slurm/v0[.]0[.][0-9]+/job/submit|Authentication failure)'; } | sort -u)
    case $said in */job/submit*) break ;; esac
done
say parts "$parts"
printf '%s\n' "$said" | while IFS= read -r line; do say said "$line"; done
say end yes
"#;

/// Asks slurmrestd what comes on standard input. Without an answer its last words are the error.
const ASK: &str = r#"
cat | timeout 120 "$program" ${parts:+-s $parts} -a rest_auth/local | { IFS= read -r line && printf '%s\n' "$line" && cat; }
"#;

/// Makes a job's folder, `$folder/$job`, and fills it with the archive on standard input.
const STAGE: &str = r#"
umask 077
mkdir -p -- "$folder" && cd -- "$folder" && mkdir -- "$job" && cd -- "$job" || exit 1
tar -xf - --no-same-owner && : >"$mark" || {
    cd .. && rm -rf -- "$job"
    exit 1
}
"#;

/// Prints an archive of what the job `$id` has written.
const FETCH: &str = r#"
cd -- "$folder/$id" 2>/dev/null || { echo "job $id has no folder there" >&2; exit 1; }
[ -e "$mark" ] || { echo "$folder/$id is no folder of a job" >&2; exit 1; }
find . ! -type d -cnewer "$mark" ! -path "./$mark" -print0 | tar -cf - --null --no-recursion --warning=no-file-changed -T -
[ $? -le 1 ]
"#;

/// Removes the folder of the job `$id`.
const FORGET: &str = r#"
cd -- "$folder" 2>/dev/null && job=$(readlink -- "$id") || { echo "job $id has no folder there" >&2; exit 1; }
case $job in job-*) ;; *) echo "$folder/$id is no link of ours" >&2; exit 1 ;; esac
case $job in */*) echo "$folder/$id is no link of ours" >&2; exit 1 ;; esac
rm -rf -- "$job" && rm -- "$id"
"#;

/// A site that was looked at.
#[derive(Debug)]
pub struct Grid {
    site: Site,
    remote: Remote,
    facts: Facts,
    version: Version,
}

/// What is known of it.
#[derive(Debug, Default, PartialEq, Eq)]
struct Facts {
    uid: u32,
    user: String,
    home: String,
    shell: String,
    path: String,
    folder: String,
    rest: Option<String>,
    release: String,
    parts: String,
    said: Vec<String>,
}

impl Facts {
    fn parse(text: &str) -> Option<Self> {
        let mut facts = Self { uid: u32::MAX, ..Self::default() };
        let mut is_whole = false;
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            let value = value.trim().to_owned();
            match name {
                "uid" => facts.uid = value.parse().ok()?,
                "user" => facts.user = value,
                "home" => facts.home = value,
                "shell" => facts.shell = value,
                "path" => facts.path = value,
                "folder" => facts.folder = value,
                "rest" => facts.rest = Some(value),
                "release" => facts.release = value,
                "parts" => facts.parts = value,
                "said" => facts.said.push(value),
                "end" => is_whole = true,
                _ => {}
            }
        }
        let is_plain = facts.folder.starts_with('/') && !facts.user.is_empty();
        (is_whole && is_plain).then_some(facts)
    }
}

/// What is to be submitted.
#[derive(Debug)]
pub struct Submission {
    /// The script's file name.
    pub name: String,
    /// The script.
    pub script: String,
    /// What it asks for.
    pub request: Request,
    /// What goes into the job's folder, the script first: absolute paths whose last parts differ.
    pub files: Vec<PathBuf>,
}

/// A job that was submitted.
#[derive(Debug, Clone, Serialize)]
pub struct Submitted {
    /// Its number there.
    pub id: u64,
    /// Its folder there.
    pub folder: String,
    /// What Slurm says of it besides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub says: Vec<String>,
}

/// A job of the user's at a site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RemoteJob {
    /// Its number there.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Slurm's word, or `over` where Slurm has forgotten it.
    pub state: String,
    /// Its partition.
    pub partition: String,
    /// Which nodes it has.
    pub on: String,
    /// Its exit status, where it is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<u64>,
    /// Why it waits, in plain words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub says: Option<String>,
    /// Whether its files are there to be fetched.
    pub has_files: bool,
    /// Whether it has ended.
    pub over: bool,
}

impl Grid {
    /// Looks at a site; changes nothing.
    ///
    /// # Errors
    /// When it is not reached, or slurmrestd there does not answer: with what helps.
    pub fn look(site: Site) -> Result<Self> {
        let remote = Remote { name: site.name.clone(), target: site.target.clone() };
        let script = format!(
            "rest={} folder={}\n{LOOK}",
            quoted(site.slurmrestd.as_deref().unwrap_or("slurmrestd")),
            quoted(&site.folder)
        );
        let said = remote.run(&script, |_| Ok(()))?;
        let (name, login) = (&site.name, site.target.login());
        let facts = Facts::parse(&said).ok_or_else(|| {
            Error::new(format!(
                "{name} does not say what it has; see what `ssh {login} sh -c true` prints"
            ))
        })?;
        let Some(rest) = &facts.rest else {
            return Err(Error::new(match &site.slurmrestd {
                Some(path) => format!("{name} has no {path}; correct [site.{name}] slurmrestd"),
                None => format!(
                    "{name} has no slurmrestd; have `apt-get install slurmrestd` run on {login} (its service is not \
                     needed), or say where it is: [site.{name}] slurmrestd = \"/PATH\""
                ),
            }));
        };
        if facts.uid == 0 {
            return Err(Error::new(format!(
                "you are root on {login}, and slurmrestd runs for users only; name one: [site.{name}] user = \"...\""
            )));
        }
        let version = Version::choose(&facts.said.join("\n")).map_err(|error| {
            let last = facts.said.iter().find(|line| !line.starts_with('/'));
            let why = last.map_or_else(|| error.to_string(), Clone::clone);
            Error::new(format!("{name}: {rest} gives no answer: {why}; see `ssh {login} sinfo`"))
        })?;
        Ok(Self { site, remote, facts, version })
    }

    /// The site in a line: who one is there, and what it speaks.
    #[must_use]
    pub fn about(&self) -> String {
        format!(
            "{}: {} on {}, {}, REST {}",
            self.site.name,
            self.facts.user,
            self.site.target.host,
            self.facts.release,
            self.version
        )
    }

    /// The folder of all jobs there.
    #[must_use]
    pub fn folder(&self) -> &str {
        &self.facts.folder
    }

    fn ask(&self, method: &str, what: &str, body: Option<&serde_json::Value>) -> Result<Answer> {
        let rest = self.facts.rest.as_deref().unwrap_or_default();
        let script = format!("program={} parts={}\n{ASK}", quoted(rest), quoted(&self.facts.parts));
        let message = question(method, &self.version.path(what), body);
        let mut said = Vec::new();
        let read = |from: &mut dyn Read| from.take(ANSWER_LEN_MAX).read_to_end(&mut said).map(drop);
        self.remote.run_into(&script, |to| to.write_all(&message), read)?;
        Answer::read(&said).ok_or_else(|| {
            Error::new(format!(
                "{}: slurmrestd's answer is cut short, or longer than 64 MiB",
                self.site.name
            ))
        })
    }

    fn refused(&self, why: &str) -> Error {
        Error::new(format!("{}: {why}", self.site.name))
    }

    /// Runs one of the scripts above.
    fn run(&self, script: &str, words: &[(&str, &str)]) -> Result<String> {
        self.remote.run(&self.script(script, words), |_| Ok(()))
    }

    fn script(&self, script: &str, words: &[(&str, &str)]) -> String {
        let set = [("folder", self.folder()), ("mark", MARK)];
        let set =
            set.iter().chain(words).map(|(name, value)| format!("{name}={}\n", quoted(value)));
        format!("{}{script}", set.collect::<String>())
    }

    /// Sends a job's files, and submits it. One that is refused leaves nothing there.
    ///
    /// # Errors
    /// When its files cannot be sent, or Slurm refuses it: with Slurm's own words.
    pub fn submit(&self, submission: &Submission) -> Result<Submitted> {
        let job = format!("job-{:016x}", random::nonzero()?);
        let mut sent = Ok(());
        let staged = self.remote.run(&self.script(STAGE, &[("job", &job)]), |to| {
            sent = pack(&submission.files, to);
            Ok(())
        });
        // What failed here is why it failed there.
        sent?;
        staged?;
        let folder = format!("{}/{job}", self.folder());
        let body = self.version.job(&Job {
            name: &submission.name,
            script: &submission.script,
            request: &submission.request,
            folder: &folder,
            environment: self.environment(),
        });
        let answer = self.ask("POST", "job/submit", Some(&body)).map_err(|error| {
            // It may run by now, in that folder.
            Error::new(format!(
                "{error}; whether the job was submitted is not known: see `wiglaf jobs --site {}`, and {folder} there",
                self.site.name
            ))
        })?;
        match answer.submitted() {
            Ok((id, says)) => {
                let link = "ln -sfn -- \"$job\" \"$folder/$id\"\n";
                self.run(link, &[("job", &job), ("id", &id.to_string())])?;
                Ok(Submitted { id, folder, says })
            }
            Err(why) => {
                let _ = self.run("rm -rf -- \"$folder/$job\"\n", &[("job", &job)]);
                Err(self.refused(&why))
            }
        }
    }

    /// What a login there has: slurmrestd gives a job nothing by itself.
    fn environment(&self) -> Vec<(String, String)> {
        let facts = &self.facts;
        let all = [
            ("PATH", &facts.path),
            ("HOME", &facts.home),
            ("SHELL", &facts.shell),
            ("USER", &facts.user),
            ("LOGNAME", &facts.user),
        ];
        let all = all.into_iter().filter(|(_, value)| !value.is_empty());
        all.map(|(name, value)| (name.to_owned(), value.clone())).collect()
    }

    fn told(&self) -> Result<Vec<Told>> {
        let jobs = self.ask("GET", "jobs", None)?.jobs().map_err(|why| self.refused(&why))?;
        Ok(jobs.into_iter().filter(|job| job.user == self.facts.user).collect())
    }

    /// The user's jobs there: those that Slurm knows, and those whose files are there still.
    ///
    /// # Errors
    /// When slurmrestd does not answer.
    pub fn jobs(&self) -> Result<Vec<RemoteJob>> {
        let list = "cd -- \"$folder\" 2>/dev/null && for id in [0-9]*; do [ -e \"$id/$mark\" ] && echo \"$id\"; done\n\
                    exit 0\n";
        let said = self.run(list, &[])?;
        let mut kept: Vec<&str> = said.lines().collect();
        kept.retain(|id| check_id(id).is_ok());
        let told = self.told()?;
        let number = |id: &str| id.split('_').next().and_then(|id| id.parse::<u64>().ok());
        // Those that Slurm has forgotten, which it does some minutes after their end, come first.
        let mut jobs: Vec<RemoteJob> = kept
            .iter()
            .filter(|id| !told.iter().any(|job| number(&job.id) == number(id)))
            .map(|id| RemoteJob {
                id: (*id).to_owned(),
                name: String::new(),
                state: "over".to_owned(),
                partition: String::new(),
                on: String::new(),
                status: None,
                says: None,
                has_files: true,
                over: true,
            })
            .collect();
        jobs.extend(told.into_iter().map(|job| RemoteJob {
            has_files: kept.iter().any(|id| number(id) == number(&job.id)),
            over: job.is_over(),
            says: (job.state == "pending").then(|| look::waits_for(&job.reason)),
            id: job.id,
            name: job.name,
            state: job.state,
            partition: job.partition,
            on: job.nodes,
            status: job.status,
        }));
        jobs.sort_by_key(|job| (number(&job.id), job.id.len(), job.id.clone()));
        Ok(jobs)
    }

    /// Whether a job is over, all of its elements, and its highest exit status; an end that is none of its own counts
    /// as 1. None: Slurm does not know it any more.
    ///
    /// # Errors
    /// When slurmrestd does not answer.
    pub fn end(&self, id: u64) -> Result<Option<(bool, u64)>> {
        let of = format!("{id}_");
        let mut all = self.told()?;
        all.retain(|job| job.id == id.to_string() || job.id.starts_with(&of));
        if all.is_empty() {
            return Ok(None);
        }
        let status = |job: &Told| match (job.state.as_str(), job.status) {
            ("completed", status) => status.unwrap_or(0),
            (_, status) => status.unwrap_or(1).max(1),
        };
        Ok(Some((all.iter().all(Told::is_over), all.iter().map(status).max().unwrap_or(0))))
    }

    /// Ends a job.
    ///
    /// # Errors
    /// When Slurm refuses: with its own words.
    pub fn cancel(&self, id: &str) -> Result<()> {
        check_id(id)?;
        let answer = self.ask("DELETE", &format!("job/{id}"), None)?;
        answer.done().map_err(|why| self.refused(&format!("job {id}: {why}")))
    }

    /// Copies what a job has written so far into a new folder here.
    ///
    /// # Errors
    /// When the folder is there already, or not all has come; then there is no such folder.
    pub fn fetch(&self, id: &str, into: &Path) -> Result<()> {
        let id = number_of(id)?;
        let shown = into.display();
        if into.symlink_metadata().is_ok() {
            return Err(Error::new(format!(
                "{shown} is there already; name another folder with --into"
            )));
        }
        let part = part_of(into);
        // Of a copy that was interrupted.
        let _ = std::fs::remove_dir_all(&part);
        std::fs::create_dir(&part).cannot(|| format!("make {}", part.display()))?;
        let mut unpacked = Ok(());
        let sent = self.remote.run_into(
            &self.script(FETCH, &[("id", id)]),
            |_| Ok(()),
            |from| {
                unpacked = unpack(from, &part);
                Ok(())
            },
        );
        let whole = sent.and(unpacked);
        let moved =
            whole.and_then(|()| std::fs::rename(&part, into).cannot(|| format!("make {shown}")));
        if moved.is_err() {
            let _ = std::fs::remove_dir_all(&part);
        }
        moved
    }

    /// Removes a job's files there.
    ///
    /// # Errors
    /// When it is not over, or has none.
    pub fn forget(&self, id: &str) -> Result<()> {
        let id = number_of(id)?;
        let end = self.end(id.parse().unwrap_or_default())?;
        if end.is_some_and(|(is_over, _)| !is_over) {
            return Err(
                self.refused(&format!("job {id} is not over; cancel it first, with --cancel {id}"))
            );
        }
        self.run(FORGET, &[("id", id)]).map(drop)
    }
}

/// A folder beside the one that is wanted, which nobody takes for it.
fn part_of(into: &Path) -> PathBuf {
    let mut name = into.file_name().unwrap_or_default().to_owned();
    name.push(".wiglaf-part");
    into.with_file_name(name)
}

/// Fails for what is no job's number.
fn check_id(id: &str) -> Result<()> {
    let is_number =
        |part: &str| (1..=10).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let (job, element) =
        id.split_once('_').map_or((id, None), |(job, element)| (job, Some(element)));
    match is_number(job) && element.is_none_or(is_number) {
        true => Ok(()),
        false => {
            Err(Error::new(format!("`{id}` is no job's number; see `wiglaf jobs --site NAME`")))
        }
    }
}

/// The number of a job, or of the array that an element is of: that which has a folder.
fn number_of(id: &str) -> Result<&str> {
    check_id(id)?;
    Ok(id.split('_').next().unwrap_or(id))
}

/// Files that go with a job, as absolute paths.
///
/// # Errors
/// When one is not there, or two have one name.
pub fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut all: Vec<PathBuf> = Vec::new();
    for path in named {
        let whole = std::path::absolute(path).cannot(|| format!("find {}", path.display()))?;
        whole.metadata().cannot(|| format!("read {}", path.display()))?;
        let name = whole.file_name();
        if name.is_none() || all.iter().any(|other| other.file_name() == name) {
            return Err(Error::new(format!(
                "{}: all files of a job are in one folder there, and two have this name; rename one",
                path.display()
            )));
        }
        all.push(whole);
    }
    Ok(all)
}

/// Writes an archive of files, each by its last part alone.
fn pack(files: &[PathBuf], to: &mut dyn Write) -> Result<()> {
    let mut command = tar();
    command.args(["-cf", "-"]);
    for path in files {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { continue };
        command.arg("-C").arg(folder).arg(Path::new(".").join(name));
    }
    let mut child = command.stdout(Stdio::piped()).spawn().cannot(|| "start tar".to_owned())?;
    let copied = child.stdout.take().map_or(Ok(0), |mut from| io::copy(&mut from, to));
    let status = child.wait().cannot(|| "wait for tar".to_owned())?;
    match (status.success(), copied) {
        // Whoever did not take it says why.
        (_, Err(_)) | (true, Ok(_)) => Ok(()),
        (false, Ok(_)) => Err(Error::new("tar cannot read all of the job's files")),
    }
}

/// Reads an archive into a folder that is empty. What another machine sends stays inside: tar takes no path with `..`,
/// and none through a link that it has made.
fn unpack(from: &mut dyn Read, folder: &Path) -> Result<()> {
    let mut command = tar();
    command.args(["-xf", "-", "--no-same-owner", "-C"]).arg(folder);
    let mut child = command.stdin(Stdio::piped()).spawn().cannot(|| "start tar".to_owned())?;
    let copied = child.stdin.take().map_or(Ok(0), |mut to| io::copy(from, &mut to));
    let status = child.wait().cannot(|| "wait for tar".to_owned())?;
    // The rest, so that the other side ends.
    let _ = io::copy(from, &mut io::sink());
    match (status.success(), copied) {
        (true, Ok(_)) => Ok(()),
        (true, Err(error)) => Err(Error::new(format!("not all has come: {error}"))),
        (false, _) => {
            Err(Error::new(format!("tar cannot write all of it into {}", folder.display())))
        }
    }
}

fn tar() -> Command {
    let mut command = Command::new("tar");
    command.stdin(Stdio::null());
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_what_a_site_says_is_no_answer() {
        let said = "uid 2001\nuser ann\nhome /home/ann\nfolder /home/ann/wiglaf-jobs\nrest /usr/sbin/slurmrestd\n\
                    parts slurmctld\nsaid /slurm/v0.0.42/job/submit\nend yes\n";
        let facts = Facts::parse(said).unwrap();
        assert_eq!((facts.uid, facts.user.as_str(), facts.said.len()), (2001, "ann", 1));
        assert_eq!(Facts::parse(&said.replace("end yes\n", "")), None);
        assert_eq!(Facts::parse(&said.replace("uid 2001", "uid x")), None);
        assert_eq!(Facts::parse(&said.replace("folder /home", "folder home")), None);
    }

    #[test]
    fn only_numbers_of_jobs_get_into_paths() {
        for id in ["7", "7_1", "4294967295"] {
            assert!(check_id(id).is_ok(), "{id}");
        }
        for id in ["", "_", "7_", "-7", "../7", "7/..", "7_1_2", "7 8", "99999999999"] {
            assert!(check_id(id).is_err(), "{id}");
        }
    }

    #[test]
    fn archives_of_files_come_whole_and_nothing_else_is_taken() {
        let work = std::env::temp_dir().join(format!("wiglaf-grid-{}", std::process::id()));
        let (from, to) = (work.join("-from"), work.join("to"));
        std::fs::create_dir_all(&from).unwrap();
        std::fs::create_dir_all(&to).unwrap();
        std::fs::write(from.join("-a"), "one").unwrap();
        let mut archive = Vec::new();
        pack(&files(&[from.join("-a")]).unwrap(), &mut archive).unwrap();
        unpack(&mut &archive[..], &to).unwrap();
        assert_eq!(std::fs::read_to_string(to.join("-a")).unwrap(), "one");
        assert!(unpack(&mut &archive[..100], &to).is_err());
        assert!(unpack(&mut &b"nonsense"[..], &to).is_err());
        let twice = files(&[from.join("-a"), from.join("../-from/-a")]);
        assert!(twice.unwrap_err().to_string().contains("two have this name"));
        assert!(files(&[from.join("none")]).is_err());
        std::fs::remove_dir_all(&work).unwrap();
    }
}
