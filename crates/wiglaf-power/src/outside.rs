//! Programs of others, which end in time.

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_base::program::find_tool;

/// As much of what a program says is kept, in bytes.
const OUTPUT_LEN_MAX: u64 = 4 << 20;

/// What a program said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) ok: bool,
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Where a program is, or which package has it.
pub(crate) fn find(program: &str, package: &str) -> Result<PathBuf> {
    find_tool(program).ok_or_else(|| {
        Error::new(format!("there is no `{program}` here; run `apt-get install {package}`"))
    })
}

/// Runs a program with that input. It is ended after `limit`.
pub(crate) fn run(
    program: &OsStr,
    arguments: &[String],
    input: &str,
    limit: Duration,
) -> Result<Said> {
    let shown = program.display();
    let mut command = Command::new(program);
    // What they say is read by us.
    command.args(arguments).env("LC_ALL", "C").env_remove("IPMI_PASSWORD");
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().cannot(|| format!("start {shown}"))?;
    let readers = [read(child.stdout.take()), read(child.stderr.take())];
    if let Some(mut stdin) = child.stdin.take() {
        // Small, so that it fits the pipe; a program that does not want it is no error.
        let _ = stdin.write_all(input.as_bytes());
    }
    let status = wait(&mut child, limit).cannot(|| format!("wait for {shown}"))?;
    let [stdout, stderr] = readers.map(|reader| reader.join().unwrap_or_default());
    match status {
        None => Err(Error::new(format!("{shown} did not end within {} s", limit.as_secs()))),
        Some(status) => Ok(Said { ok: status.success(), code: status.code(), stdout, stderr }),
    }
}

fn read(stream: Option<impl Read + Send + 'static>) -> JoinHandle<String> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(stream) = stream {
            let _ = stream.take(OUTPUT_LEN_MAX).read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

fn wait(child: &mut Child, limit: Duration) -> std::io::Result<Option<std::process::ExitStatus>> {
    let began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if began.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
