//! `wiglaf submit` and `wiglaf jobs`: the batch systems of other clusters.

use std::path::PathBuf;
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use serde::Serialize;
use wiglaf_base::error::Context;
use wiglaf_base::{Error, Result};
use wiglaf_batch::grid::{self, Grid, RemoteJob, Submission, Submitted};
use wiglaf_batch::request::Request;
use wiglaf_cluster::sites;

use crate::output;

/// Longest script that is read, in bytes; one of that length is refused.
const SCRIPT_LEN_MAX: u64 = 5 << 20;
/// A job that is waited for is asked about so often, at first and in the end.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(20)];

const SUBMIT_HELP: &str = "\
Examples:
  wiglaf submit --site other job.sh              as `sbatch job.sh` would there
  wiglaf submit --site other --in prog --in data.h5 job.sh
  wiglaf submit --site other job.sh -- -N 4 -t 30
  wiglaf submit --site other --wait job.sh       and fetch what it has written
  wiglaf submit --site other --dry-run job.sh    say what would be done

~/.config/wiglaf/sites.toml, $WIGLAF_SITES or /etc/wiglaf/sites.toml says where
a site is:
  [site.other]
  host = \"head.other.org\"     # what ssh calls its head; more: docs/batch.md

The job runs in a folder of its own there, with the script and the files of --in
in it. It takes what the script's lines #SBATCH ask for, and what stands behind
--.";

const JOBS_HELP: &str = "\
Examples:
  wiglaf jobs --site other                  your jobs there
  wiglaf jobs --site other --fetch 7        what job 7 has written, to other-7
  wiglaf jobs --site other --cancel 7
  wiglaf jobs --site other --forget 7       remove its files there";

/// Submit a batch job at another cluster, over ssh
///
/// With --wait the exit status is that of the job.
#[derive(Debug, clap::Args)]
#[command(after_help = SUBMIT_HELP)]
pub(crate) struct SubmitArgs {
    /// Where to
    #[arg(long, value_name = "NAME")]
    site: String,

    /// A file or folder that the job needs; may be given again
    #[arg(long = "in", value_name = "PATH")]
    files: Vec<PathBuf>,

    /// Wait for its end, and fetch what it has written
    #[arg(long)]
    wait: bool,

    /// The new folder for that [default: SITE-JOB]
    #[arg(long, value_name = "DIR", requires = "wait")]
    into: Option<PathBuf>,

    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// The job's script
    #[arg(value_name = "JOB.sh")]
    script: PathBuf,

    /// Options of sbatch's, before those in the script
    #[arg(last = true, value_name = "OPTIONS")]
    options: Vec<String>,
}

/// Show your batch jobs at another cluster; cancel one, fetch what it has written
#[derive(Debug, clap::Args)]
#[command(after_help = JOBS_HELP)]
pub(crate) struct JobsArgs {
    /// Where
    #[arg(long, value_name = "NAME")]
    site: String,

    /// End a job
    #[arg(long, value_name = "JOB", conflicts_with_all = ["fetch", "forget"])]
    cancel: Option<String>,

    /// Copy what a job has written so far into a new folder here
    #[arg(long, value_name = "JOB", conflicts_with = "forget")]
    fetch: Option<String>,

    /// That folder [default: SITE-JOB]
    #[arg(long, value_name = "DIR", requires = "fetch")]
    into: Option<PathBuf>,

    /// Remove the files of a job that is over there
    #[arg(long, value_name = "JOB")]
    forget: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct JsonSubmitted {
    site: String,
    #[serde(flatten)]
    job: Submitted,
    /// Its exit status, where it was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<u64>,
    /// Where what it has written is, where it was waited for.
    #[serde(skip_serializing_if = "Option::is_none")]
    fetched: Option<PathBuf>,
}

#[derive(Debug, Serialize)]
struct JsonJobs {
    site: String,
    jobs: Vec<RemoteJob>,
}

fn folder(into: Option<&PathBuf>, site: &str, job: &str) -> PathBuf {
    into.cloned().unwrap_or_else(|| PathBuf::from(format!("{site}-{job}")))
}

pub(crate) fn submit(args: &SubmitArgs) -> Result<ExitCode> {
    let submission = submission(args)?;
    let name = &args.site;
    let site = Grid::look(sites::find(name)?)?;
    if args.dry_run {
        return output::print(&plan(&site, &submission)).map(|()| ExitCode::SUCCESS);
    }
    let job = site.submit(&submission)?;
    job.says.iter().for_each(|line| eprintln!("wiglaf: {name}: {}", output::visible(line)));
    let id = job.id;
    if !args.json {
        output::print(&format!("job {id} submitted at {name}; see `wiglaf jobs --site {name}`\n"))?;
    }
    let (mut status, mut fetched) = (None, None);
    if args.wait {
        let into = folder(args.into.as_ref(), name, &id.to_string());
        status = Some(end(&site, name, id)?);
        site.fetch(&id.to_string(), &into)?;
        if !args.json {
            output::print(&format!(
                "job {id} is over; what it has written is in {}\n",
                into.display()
            ))?;
        }
        fetched = Some(into);
    }
    if args.json {
        output::print_json(&JsonSubmitted { site: name.clone(), job, status, fetched })?;
    }
    Ok(ExitCode::from(u8::try_from(status.unwrap_or(0)).unwrap_or(u8::MAX)))
}

fn submission(args: &SubmitArgs) -> Result<Submission> {
    let shown = args.script.display();
    let wrong = |error: Error| Error::new(format!("{shown}: {error}"));
    let mut script = String::new();
    let file = std::fs::File::open(&args.script).cannot(|| format!("read {shown}"))?;
    std::io::Read::read_to_string(&mut std::io::Read::take(file, SCRIPT_LEN_MAX), &mut script)
        .cannot(|| format!("read the job script {shown}"))?;
    let mut request = Request::of_script(&script).map_err(wrong)?;
    request.take(&args.options).map_err(|error| Error::new(format!("behind --: {error}")))?;
    let named: Vec<PathBuf> = std::iter::once(&args.script).chain(&args.files).cloned().collect();
    let files = grid::files(&named)?;
    let name = args.script.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Submission { name, script, request, files })
}

fn plan(site: &Grid, submission: &Submission) -> String {
    let mut text = format!("{}\n", site.about());
    for path in &submission.files {
        text += &format!("copy {} to a new folder in {}\n", path.display(), site.folder());
    }
    text += &format!("submit {} there", submission.name);
    match submission.request.options().as_str() {
        "" => {}
        options => text += &format!(": {options}"),
    }
    text.lines().map(|line| output::visible(line) + "\n").collect()
}

/// Waits for a job's end.
fn end(site: &Grid, name: &str, id: u64) -> Result<u64> {
    let mut pause = PAUSES[0];
    loop {
        match site.end(id)? {
            Some((true, status)) => return Ok(status),
            Some((false, _)) => {}
            None => {
                return Err(Error::new(format!(
                    "{name} does not know job {id} any more, so nobody says how it ended; `wiglaf jobs --site {name} \
                     --fetch {id}` fetches what it has written"
                )));
            }
        }
        thread::sleep(pause);
        pause = pause.mul_f64(1.5).min(PAUSES[1]);
    }
}

pub(crate) fn jobs(args: &JobsArgs) -> Result<ExitCode> {
    let name = &args.site;
    let site = Grid::look(sites::find(name)?)?;
    let done = |text: String| output::print(&text).map(|()| ExitCode::SUCCESS);
    if let Some(id) = &args.cancel {
        site.cancel(id)?;
        return done(format!("{name}: job {id} is told to end\n"));
    }
    if let Some(id) = &args.fetch {
        let into = folder(args.into.as_ref(), name, id);
        site.fetch(id, &into)?;
        return done(format!("what job {id} has written is in {}\n", into.display()));
    }
    if let Some(id) = &args.forget {
        site.forget(id)?;
        return done(format!("{name}: the files of job {id} are removed\n"));
    }
    let jobs = site.jobs()?;
    match args.json {
        true => output::print_json(&JsonJobs { site: name.clone(), jobs })?,
        false => output::print(&show(&jobs))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn show(jobs: &[RemoteJob]) -> String {
    if jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    let heading =
        ["job", "name", "partition", "state", "nodes", "files"].map(str::to_owned).to_vec();
    let row = |job: &RemoteJob| {
        let state = match job.status {
            Some(status) if status != 0 => format!("{} ({status})", job.state),
            _ => job.state.clone(),
        };
        let files = if job.has_files { "yes" } else { "no" };
        let cells = [&job.id, &job.name, &job.partition, &state, &job.on, files];
        cells.map(|cell: &str| output::visible(cell)).to_vec()
    };
    let rows: Vec<Vec<String>> = std::iter::once(heading).chain(jobs.iter().map(row)).collect();
    let mut text = output::table(&rows);
    for job in jobs {
        if let Some(says) = &job.says {
            text += &output::visible(&format!("job {} {says}", job.id));
            text.push('\n');
        }
    }
    text
}
