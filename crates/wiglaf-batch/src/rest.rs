//! slurmrestd's messages: what it is asked, and what its answers mean, in the versions that are known.

use serde_json::{Map, Value as Json, json};
use wiglaf_base::error::{Error, Result};

use crate::request::{Kind, Request, Value};

/// The oldest version of the interface that is known.
const OLDEST: u32 = 36;
/// The last one of the first form.
const OLD_LAST: u32 = 38;
/// The newest one that was tried.
const TRIED_LAST: u32 = 42;
/// The newest one that is known.
const NEWEST: u32 = 45;
/// Longest header of an answer, in bytes.
const HEAD_LEN_MAX: usize = 16 << 10;

/// A version of the interface, as in `v0.0.42`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Version(u32);

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "v0.0.{}", self.0)
    }
}

impl Version {
    /// The version to speak, of those that paths such as `/slurm/v0.0.42/job/submit` name: the newest one that was
    /// tried, before the oldest one of those that are known only.
    pub(crate) fn choose(paths: &str) -> Result<Self> {
        let number = |path: &str| {
            let rest = path.trim().strip_prefix("/slurm/v0.0.")?;
            rest.strip_suffix("/job/submit")?.parse::<u32>().ok()
        };
        let mut all: Vec<u32> = paths.lines().filter_map(number).collect();
        all.sort_unstable();
        let known = |range: std::ops::RangeInclusive<u32>| {
            all.iter().copied().filter(move |one| range.contains(one))
        };
        let tried = known(OLDEST..=TRIED_LAST).next_back();
        let new = known(TRIED_LAST + 1..=NEWEST).next();
        tried.or(new).map(Self).ok_or_else(|| match &all[..] {
            [] => Error::new("slurmrestd there says of no version that it takes jobs by it"),
            all => Error::new(format!(
                "slurmrestd there speaks versions v0.0.{} only, and this Wiglaf v0.0.{OLDEST} to v0.0.{NEWEST}",
                all.iter().map(u32::to_string).collect::<Vec<_>>().join(", v0.0.")
            )),
        })
    }

    fn is_old(self) -> bool {
        self.0 <= OLD_LAST
    }

    /// The path of a question, such as `jobs`.
    pub(crate) fn path(self, what: &str) -> String {
        format!("/slurm/{self}/{what}")
    }

    /// The message that submits a job.
    pub(crate) fn job(self, job: &Job<'_>) -> Json {
        let mut about = Map::new();
        for (field, value) in &job.request.values {
            let name = field.old.filter(|_| self.is_old()).unwrap_or(field.name);
            let value = match (value, field.kind) {
                (Value::Text(text), Kind::Nodes) if !self.is_old() => json!([text]),
                (Value::Text(text), _) => json!(text),
                // An object since v0.0.39; a number is taken, too, with a warning.
                (Value::Number(number), Kind::Time | Kind::Memory) if !self.is_old() => {
                    json!({ "set": true, "infinite": false, "number": number })
                }
                (Value::Number(number), _) => json!(number),
                (Value::Yes, _) => json!(true),
            };
            about.insert(name.to_owned(), value);
        }
        let variables = &job.environment;
        let environment: Json = match self.is_old() {
            true => variables.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            false => variables.iter().map(|(name, value)| format!("{name}={value}")).collect(),
        };
        about.entry("name").or_insert_with(|| json!(job.name));
        about.insert("environment".to_owned(), environment);
        about.insert("current_working_directory".to_owned(), json!(job.folder));
        json!({ "script": job.script, "job": about })
    }
}

/// A job that is to be submitted.
#[derive(Debug)]
pub(crate) struct Job<'a> {
    /// Its name, unless it asks for one.
    pub(crate) name: &'a str,
    pub(crate) script: &'a str,
    pub(crate) request: &'a Request,
    /// Where it runs, on the other side.
    pub(crate) folder: &'a str,
    pub(crate) environment: Vec<(String, String)>,
}

/// A question, as HTTP.
pub(crate) fn question(method: &str, path: &str, body: Option<&Json>) -> Vec<u8> {
    let body = body.map(Json::to_string).unwrap_or_default();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nAccept: application/json\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

/// An answer.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    status: u16,
    body: Json,
    /// Where it is not JSON.
    text: String,
}

impl Answer {
    /// Reads one: all of the bytes that came. None where it is none, or is cut short.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let end = bytes.windows(4).take(HEAD_LEN_MAX).position(|part| part == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&bytes[..end]).ok()?;
        let mut lines = head.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
        let len = lines.find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length")
                .then(|| value.trim().parse::<usize>().ok())?
        });
        let body = bytes.get(end + 4..)?;
        let body = body.get(..len.unwrap_or(body.len()))?;
        Some(Self {
            status,
            body: serde_json::from_slice(body).unwrap_or(Json::Null),
            text: String::from_utf8_lossy(body).trim().to_owned(),
        })
    }

    /// What Slurm says is wrong, each once.
    fn complaints(&self) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        for error in self.body["errors"].as_array().into_iter().flatten() {
            let word = |name: &str| error[name].as_str().unwrap_or_default().trim();
            let number = error["error_number"].as_i64().or_else(|| error["error_code"].as_i64());
            let (what, why) = (word("description"), word("error"));
            if number == Some(0) && what.is_empty() {
                continue;
            }
            let said = match (what, why) {
                (what, "" | "No error") => what.to_owned(),
                ("", why) => why.to_owned(),
                (what, why) if what.contains(why) => what.to_owned(),
                (what, why) => format!("{what}: {why}"),
            };
            if !said.is_empty() && !all.contains(&said) {
                all.push(said);
            }
        }
        // What became of a job that is to end: 24.11 says so here alone.
        for status in self.body["status"].as_array().into_iter().flatten() {
            let error = &status["error"];
            let said = error["message"].as_str().filter(|_| error["code"].as_i64() != Some(0));
            if let Some(said) = said.map(str::to_owned).filter(|said| !all.contains(said)) {
                all.push(said);
            }
        }
        all
    }

    /// The answer, where it is no refusal.
    fn body(&self) -> std::result::Result<&Json, String> {
        let said = self.complaints();
        match self.status {
            200..=299 if said.is_empty() && self.body.is_object() => Ok(&self.body),
            401 | 403 => Err(format!("slurmrestd does not take you for yourself ({})", self.text)),
            _ if !said.is_empty() => Err(said.join("; ")),
            status => Err(format!(
                "slurmrestd answers {status} ({})",
                self.text.lines().next().unwrap_or_default()
            )),
        }
    }

    /// The number of the job that was submitted, and what Slurm says of it besides.
    pub(crate) fn submitted(&self) -> std::result::Result<(u64, Vec<String>), String> {
        // A job that waits for what it asks for has a number, and a word about that.
        let id = number(&self.body["job_id"]).filter(|id| *id > 0);
        match id.filter(|_| (200..=299).contains(&self.status)) {
            Some(id) => {
                let message = self.body["job_submit_user_msg"].as_str().unwrap_or_default().trim();
                let message = Some(message.to_owned()).filter(|message| !message.is_empty());
                Ok((id, self.complaints().into_iter().chain(message).collect()))
            }
            None => Err(self.body().err().unwrap_or_else(|| "it says no job's number".to_owned())),
        }
    }

    /// The jobs that it lists.
    pub(crate) fn jobs(&self) -> std::result::Result<Vec<Told>, String> {
        let jobs = self.body()?["jobs"].as_array();
        let jobs = jobs.ok_or_else(|| "slurmrestd lists no jobs".to_owned())?;
        Ok(jobs.iter().filter_map(Told::read).collect())
    }

    /// Nothing, where it was done.
    pub(crate) fn done(&self) -> std::result::Result<(), String> {
        self.body().map(drop)
    }
}

/// A number as v0.0.38 has it, or v0.0.42.
fn number(value: &Json) -> Option<u64> {
    match value {
        Json::Object(about) if about.get("set") == Some(&Json::Bool(false)) => None,
        Json::Object(about) => about.get("number")?.as_u64(),
        other => other.as_u64(),
    }
}

/// A job, as slurmrestd tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Told {
    /// As Slurm's programs write it: that of an array's element has two parts.
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) user: String,
    /// Slurm's word, in small letters.
    pub(crate) state: String,
    pub(crate) reason: String,
    pub(crate) partition: String,
    pub(crate) nodes: String,
    /// Its exit status, where it is over and has one.
    pub(crate) status: Option<u64>,
    /// Where it runs.
    pub(crate) folder: String,
}

impl Told {
    fn read(job: &Json) -> Option<Self> {
        let text = |name: &str| job[name].as_str().unwrap_or_default().to_owned();
        let id = number(&job["job_id"])?;
        let array = number(&job["array_job_id"]).filter(|array| *array > 0);
        let id = match (array, number(&job["array_task_id"])) {
            (Some(array), Some(element)) => format!("{array}_{element}"),
            _ => id.to_string(),
        };
        let state = match &job["job_state"] {
            Json::Array(words) => words.first()?.as_str()?.to_owned(),
            other => other.as_str()?.to_owned(),
        };
        let exit = &job["exit_code"];
        // As waitpid(2) has it, before v0.0.40.
        let status = match exit {
            Json::Object(_) => number(&exit["return_code"]),
            other => other.as_u64().map(|status| status >> 8 & 0xff),
        };
        let mut told = Self {
            id,
            name: text("name"),
            user: text("user_name"),
            state: state.to_lowercase(),
            reason: text("state_reason"),
            partition: text("partition"),
            nodes: text("nodes"),
            status: None,
            folder: text("current_working_directory"),
        };
        told.status = status.filter(|_| told.is_over());
        Some(told)
    }

    /// Whether it has ended, however that was.
    pub(crate) fn is_over(&self) -> bool {
        let goes_on = [
            "pending",
            "running",
            "suspended",
            "completing",
            "configuring",
            "requeued",
            "resizing",
            "stopped",
            "signaling",
            "stage_out",
            "requeue_hold",
            "requeue_fed",
            "special_exit",
            "resv_del_hold",
        ];
        !goes_on.contains(&self.state.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JOB: &str = "#!/bin/sh\n#SBATCH -N 2 -t 5 -w pc[1-2] --mem=1G -H\n";

    fn message(version: u32) -> Json {
        let request = Request::of_script(JOB).unwrap();
        let environment = vec![("A".to_owned(), "b=c".to_owned())];
        let job = Job {
            name: "job.sh",
            script: JOB,
            request: &request,
            folder: "/home/ann/x",
            environment,
        };
        Version(version).job(&job)
    }

    #[test]
    fn job_is_asked_for_in_the_words_of_the_version() {
        let old = message(38);
        assert_eq!(
            old["job"],
            json!({
                "nodes": "2", "time_limit": 5, "nodelist": "pc[1-2]", "memory_per_node": 1024, "hold": true,
                "name": "job.sh", "environment": { "A": "b=c" }, "current_working_directory": "/home/ann/x"
            })
        );
        let new = message(42);
        let amount = |number| json!({ "set": true, "infinite": false, "number": number });
        assert_eq!(
            new["job"],
            json!({
                "nodes": "2", "time_limit": amount(5), "required_nodes": ["pc[1-2]"],
                "memory_per_node": amount(1024), "hold": true, "name": "job.sh", "environment": ["A=b=c"],
                "current_working_directory": "/home/ann/x"
            })
        );
        assert_eq!(new["script"], JOB);
    }

    #[test]
    fn newest_version_that_was_tried_is_spoken() {
        let choose = |numbers: &[u32]| {
            let path = |number: &u32| format!("/slurm/v0.0.{number}/job/submit\n");
            let paths: String = numbers.iter().map(path).collect();
            Version::choose(&paths).map(|version| version.0).map_err(|error| error.to_string())
        };
        assert_eq!(choose(&[36, 38, 37]), Ok(38));
        assert_eq!(choose(&[40, 41, 42]), Ok(42));
        assert_eq!(choose(&[42, 43, 44, 45]), Ok(42));
        assert_eq!(choose(&[43, 45]), Ok(43));
        assert!(choose(&[50]).unwrap_err().contains("speaks versions v0.0.50 only"));
        assert!(choose(&[]).unwrap_err().contains("of no version"));
        assert!(Version::choose("/slurm/v0.0.x/job/submit\n/slurmdb/v0.0.38/jobs\n").is_err());
    }

    fn answer(status: u16, body: &str) -> Answer {
        let text = format!("HTTP/1.1 {status} X\r\nContent-Length: {}\r\n\r\n{body}", body.len());
        Answer::read(text.as_bytes()).unwrap()
    }

    #[test]
    fn answers_of_22_05_and_24_11_are_understood() {
        // As they came from both.
        let refused = answer(
            500,
            r#"{"errors":[{"error_code":2000,"error":"Invalid partition name specified"}]}"#,
        );
        assert_eq!(refused.submitted(), Err("Invalid partition name specified".to_owned()));
        let refused = answer(
            500,
            r#"{"job_id":0,"errors":[{"description":"Batch job submission failed","error_number":2014,
            "error":"Requested node configuration is not available","source":"slurm_submit_batch_job()"}]}"#,
        );
        assert_eq!(
            refused.submitted(),
            Err("Batch job submission failed: Requested node configuration is not available"
                .to_owned())
        );
        let taken = answer(
            200,
            r#"{"job_id":7,"result":{"job_id":7,"error":"No error"},"errors":[{"error_number":0,"error":"No error"}],
            "warnings":[{"description":"x"}],"job_submit_user_msg":""}"#,
        );
        assert_eq!(taken.submitted(), Ok((7, vec![])));
        let waits = answer(
            200,
            r#"{"job_id":12,"errors":[{"error_code":2015,"error":"not available now"}]}"#,
        );
        assert_eq!(waits.submitted(), Ok((12, vec!["not available now".to_owned()])));
        let over = answer(
            200,
            r#"{"status":[{"error":{"code":2021,"message":"Job/step already completing or completed"}}],"errors":[]}"#,
        );
        assert_eq!(over.done(), Err("Job/step already completing or completed".to_owned()));
        let done = r#"{"status":[{"error":{"code":0,"message":"No error"}}],"errors":[]}"#;
        assert_eq!(answer(200, done).done(), Ok(()));
        let old = r#"{"errors":[],"jobs":[{"job_id":6,"array_job_id":5,"array_task_id":1,"name":"t",
            "job_state":"FAILED","user_name":"ann","exit_code":768,"nodes":"pc1","state_reason":"NonZeroExitCode",
            "current_working_directory":"/home/ann"},{"job_id":8,"array_job_id":0,"array_task_id":null,
            "job_state":"RUNNING","exit_code":0}]}"#;
        let jobs = answer(200, old).jobs().unwrap();
        assert_eq!(
            (jobs[0].id.as_str(), jobs[0].state.as_str(), jobs[0].status),
            ("5_1", "failed", Some(3))
        );
        assert_eq!((jobs[1].id.as_str(), jobs[1].is_over(), jobs[1].status), ("8", false, None));
        let new = r#"{"errors":[],"jobs":[{"job_id":37,"array_job_id":{"set":true,"infinite":false,"number":0},
            "array_task_id":{"set":false,"infinite":false,"number":0},"job_state":["COMPLETED"],
            "exit_code":{"status":["SUCCESS"],"return_code":{"set":true,"infinite":false,"number":0}}}]}"#;
        let jobs = answer(200, new).jobs().unwrap();
        assert_eq!(
            (jobs[0].id.as_str(), jobs[0].state.as_str(), jobs[0].status),
            ("37", "completed", Some(0))
        );
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let whole = "HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n{\"errors\":[]}";
        assert!(Answer::read(whole.as_bytes()).unwrap().done().is_ok());
        for cut in 0..whole.len() {
            assert_eq!(Answer::read(&whole.as_bytes()[..cut]), None, "{cut}");
        }
        let huge = whole.replace("13", "99999999999999999999999");
        assert!(Answer::read(huge.as_bytes()).is_some_and(|answer| answer.done().is_ok()));
        for body in ["", "[]", "null", "\"x\"", "{\"jobs\":7}", "{\"errors\":[{}]}"] {
            assert!(answer(200, body).jobs().is_err(), "{body}");
            assert!(answer(200, body).submitted().is_err(), "{body}");
        }
        assert_eq!(
            answer(200, r#"{"jobs":[7,null,{},{"job_id":-1},{"job_id":1}]}"#).jobs(),
            Ok(vec![])
        );
        assert!(
            answer(401, "Authentication failure").done().unwrap_err().contains("does not take you")
        );
        assert!(
            answer(404, "Unable find requested URL.")
                .done()
                .unwrap_err()
                .contains("answers 404 (Unable")
        );
    }
}
