//! Scripts on a host: by the system's ssh, or here.
//!
//! The user's login shell, whichever it is, sees one command without anything that shells disagree on. The
//! script itself comes on standard input, and data for it behind it. What a login prints comes before a mark.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::process::{Command, Stdio};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::shell::quoted;
use wiglaf_node::ssh::{self, Target};

/// The line after which the script's own output begins.
const MARK: &str = "wiglaf-join: begin";
/// How much the login before it may print, with the mark, in bytes.
const LOGIN_LEN_MAX: u64 = 64 << 10;
/// Longest output of a script that is read, in bytes.
const OUTPUT_LEN_MAX: u64 = 4 << 20;
/// The exit status of ssh itself.
const SSH_FAILED: i32 = 255;

/// A host that scripts are run on.
#[derive(Debug, Clone)]
pub struct Remote {
    /// What the cluster calls it, or will.
    pub name: String,
    /// How it is reached.
    pub target: Target,
}

impl Remote {
    /// Runs a script of sh with that input. Says what it printed.
    ///
    /// # Errors
    /// When it fails, or the host is not reached: a sentence.
    pub fn run(
        &self,
        script: &str,
        input: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<String> {
        let printed = self.run_for_bytes(script, OUTPUT_LEN_MAX, input)?;
        Ok(String::from_utf8_lossy(&printed).into_owned())
    }

    /// Runs a script of sh with that input. Answers what it printed, `len_max` bytes at most.
    pub(crate) fn run_for_bytes(
        &self,
        script: &str,
        len_max: u64,
        input: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Vec<u8>> {
        self.run_as(None, script, len_max, input)
    }

    /// Runs a script with the ssh, keys and agent of the user `caller`. `None`: those of this process.
    fn run_as(
        &self,
        caller: Option<&str>,
        script: &str,
        len_max: u64,
        input: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<Vec<u8>> {
        let mut printed = Vec::new();
        self.run_as_into(caller, script, input, |from| {
            from.take(len_max).read_to_end(&mut printed).map(drop)
        })?;
        Ok(printed)
    }

    /// As [`Self::run`], where what it prints is read as it comes.
    ///
    /// # Errors
    /// As for [`Self::run`]. What was read before is then no answer.
    pub fn run_into(
        &self,
        script: &str,
        input: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        output: impl FnOnce(&mut dyn Read) -> io::Result<()>,
    ) -> Result<()> {
        self.run_as_into(None, script, input, output)
    }

    fn run_as_into(
        &self,
        caller: Option<&str>,
        script: &str,
        input: impl FnOnce(&mut dyn Write) -> io::Result<()>,
        output: impl FnOnce(&mut dyn Read) -> io::Result<()>,
    ) -> Result<()> {
        let script = format!("echo '{MARK}'\n{script}");
        let words = format!("sh -c 'eval \"$(head -c {})\"'", script.len());
        let mut command = match self.target.is_here {
            true => {
                let mut command = Command::new("sh");
                command.args(["-c", &words]);
                command
            }
            false => self.ssh(caller, &words)?,
        };
        // A file, not a pipe: a kept connection's ssh holds its standard error open for a minute.
        let complaints = rustix::fs::memfd_create("complaints", rustix::fs::MemfdFlags::CLOEXEC)
            .map(File::from)
            .cannot(|| "make a file in memory".to_owned())?;
        let copy = complaints.try_clone().cannot(|| "copy a descriptor".to_owned())?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(copy);
        let mut child = command.spawn().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Error::new(format!(
                "there is no ssh here to reach {} with; run `apt-get install openssh-client`",
                self.name
            )),
            _ => Error::new(format!("cannot start ssh to reach {}: {error}", self.name)),
        })?;
        if let Some(mut stdin) = child.stdin.take() {
            // Who does not want it says why below.
            let _ = stdin.write_all(script.as_bytes()).and_then(|()| input(&mut stdin));
        }
        let (mut has_begun, mut read) = (false, Ok(()));
        if let Some(stdout) = child.stdout.take() {
            let mut stdout = io::BufReader::new(stdout);
            // Its own output begins behind the mark, and behind what a login prints before it.
            has_begun = skip_login(&mut stdout);
            if has_begun {
                // Who reads no further has the script end, by its next word.
                read = output(&mut stdout);
            }
        }
        let status = child.wait().cannot(|| format!("wait for the ssh to {}", self.name))?;
        match has_begun && status.success() {
            true => read.cannot(|| format!("keep what {} sends", self.name)),
            false => Err(self.failure(has_begun, status.code(), &said(complaints))),
        }
    }

    fn ssh(&self, caller: Option<&str>, words: &str) -> Result<Command> {
        let mut command = match caller {
            None => {
                let mut command = Command::new("ssh");
                command.args(ssh::options()?);
                command
            }
            Some(user) => ssh::of_caller(user),
        };
        if let Some(user) = &self.target.user {
            command.args(["-l", user]);
        }
        command.args(["--", &self.target.host, words]);
        Ok(command)
    }

    fn failure(&self, has_begun: bool, status: Option<i32>, said: &str) -> Error {
        let last = said.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or_default();
        match (has_begun, status) {
            (false, Some(SSH_FAILED)) => Error::new(ssh::refusal(&self.name, &self.target, said)),
            (false, _) => Error::new(format!(
                "{} runs no `sh` for ssh ({}); see what `ssh {} true` says",
                self.name,
                if last.is_empty() { "it says nothing" } else { last },
                self.target.login()
            )),
            (true, Some(SSH_FAILED)) | (true, None) => Error::new(format!(
                "the connection to {} was lost{}; try again when `ssh {} true` works",
                self.name,
                if last.is_empty() { String::new() } else { format!(" ({last})") },
                self.target.login()
            )),
            (true, Some(_)) => Error::new(format!(
                "{}: {}",
                self.name,
                if last.is_empty() { "a step failed without a word" } else { last }
            )),
        }
    }
}

/// Reads what a login prints, and the mark behind it. False: there is none.
fn skip_login(from: &mut impl io::BufRead) -> bool {
    let mark = format!("{MARK}\n");
    let mut printed = Vec::new();
    let mut bytes = from.take(LOGIN_LEN_MAX).bytes();
    while let Some(Ok(byte)) = bytes.next() {
        printed.push(byte);
        if printed.ends_with(mark.as_bytes()) {
            return true;
        }
    }
    false
}

/// Why nothing can be done where the user does not become root.
pub(crate) fn no_root(name: &str) -> Error {
    Error::new(format!(
        "{name}: sudo takes a password there, or refuses you; have it allowed, or run this as root"
    ))
}

/// A script as one command of the user there, or of root by sudo.
pub(crate) fn script(script: &str, sudo: bool) -> String {
    let sudo = if sudo { "sudo -n " } else { "" };
    format!("{sudo}sh -c {}", quoted(script))
}

/// A host on which root runs scripts.
#[derive(Debug)]
pub(crate) struct Shell {
    remote: Remote,
    sudo: bool,
    /// Whose ssh it is, where that is not this process's user.
    caller: Option<String>,
}

impl Shell {
    pub(crate) fn new(remote: Remote, sudo: bool) -> Self {
        Self { remote, sudo, caller: None }
    }

    /// Finds out how root is reached there; with the ssh of `caller`, if one is named.
    ///
    /// # Errors
    /// When root is not, unless it is this host: there files that the user may not read are missing then.
    pub(crate) fn open(remote: Remote, caller: Option<String>) -> Result<Self> {
        let mut shell = Self { remote, sudo: false, caller };
        let ask =
            "id -u; command -v sudo >/dev/null && sudo -n true >/dev/null 2>&1 && echo sudo; true";
        let said = shell.run(ask, OUTPUT_LEN_MAX, b"")?;
        let said = String::from_utf8_lossy(&said);
        let words: Vec<&str> = said.split_whitespace().collect();
        shell.sudo = words.contains(&"sudo") && words.first() != Some(&"0");
        match shell.sudo || words.first() == Some(&"0") || shell.remote.target.is_here {
            true => Ok(shell),
            false => Err(no_root(shell.name())),
        }
    }

    /// What the cluster calls the host.
    pub(crate) fn name(&self) -> &str {
        &self.remote.name
    }

    /// Runs a script of sh with that input. Says as many bytes of what it printed.
    pub(crate) fn run(&self, text: &str, len_max: u64, input: &[u8]) -> Result<Vec<u8>> {
        let put = |to: &mut dyn Write| to.write_all(input);
        self.remote.run_as(self.caller.as_deref(), &script(text, self.sudo), len_max, put)
    }
}

fn said(mut complaints: File) -> String {
    let mut said = Vec::new();
    let _ = complaints.rewind();
    let _ = complaints.take(64 << 10).read_to_end(&mut said);
    String::from_utf8_lossy(&said).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Remote {
        let target = Target {
            host: "here".to_owned(),
            user: None,
            exe: None,
            is_here: true,
            is_watched: false,
        };
        Remote { name: "here".to_owned(), target }
    }

    #[test]
    fn script_and_its_input_come_whole() {
        let input = |to: &mut dyn Write| to.write_all(b"data\n");
        let said = here().run("echo \"it's $1\\\\\"; cat", input).unwrap();
        assert_eq!(said, "it's \\\ndata\n");
    }

    #[test]
    fn failing_script_is_one_sentence() {
        let error = here().run("echo one >&2; echo two >&2; exit 3", |_| Ok(())).unwrap_err();
        assert_eq!(error.to_string(), "here: two");
        let error = here().run("exit 255", |_| Ok(())).unwrap_err().to_string();
        assert!(error.contains("was lost"), "{error}");
    }
}
