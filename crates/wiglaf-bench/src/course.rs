//! One measuring program and everybody who runs it: a first, talkative run
//! that shows who takes part, and the runs that are measured.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use crate::Progress;
use crate::contender::{Absent, evidence, nobody, talkative};
use crate::error::Result;
use crate::launch::{self, Job, Launcher, Settings, Transport};

/// For the first, short run: who needs longer is stuck.
const TRY_TIME_MAX: Duration = Duration::from_secs(45);

/// A program of two ranks, and where it runs.
pub(crate) struct Course<'a> {
    pub(crate) launcher: &'a dyn Launcher,
    pub(crate) program: PathBuf,
    /// Cores for ranks of one node, where nodes do not keep to one core each.
    pub(crate) cores: &'a [usize],
    pub(crate) dir: &'a Path,
}

/// Somebody who takes part.
pub(crate) struct Admitted {
    pub(crate) transport: Transport,
    pub(crate) settings: Settings,
    /// What its MPI said it used.
    pub(crate) evidence: Option<String>,
}

impl Course<'_> {
    /// One short run each, with `args`, to see who works here and that the
    /// messages take the way they should.
    ///
    /// # Errors
    /// When nobody does.
    pub(crate) fn admit(
        &self,
        contenders: &[Transport],
        args: &[u64],
        progress: Progress<'_>,
    ) -> Result<(Vec<Admitted>, Vec<Absent>)> {
        let (mut admitted, mut absent) = (Vec::new(), Vec::new());
        for &transport in contenders {
            progress(&format!("trying {}", transport.label()));
            match self.try_out(transport, args) {
                Ok(one) => admitted.push(one),
                Err(reason) => absent.push(Absent { transport, reason }),
            }
        }
        if admitted.is_empty() {
            return Err(nobody(&absent));
        }
        Ok((admitted, absent))
    }

    fn try_out(&self, transport: Transport, args: &[u64]) -> std::result::Result<Admitted, String> {
        let settings = self.launcher.settings(transport)?;
        let mut loud = settings.clone();
        loud.extend(talkative(transport));
        let output = self.run(transport, &loud, args, TRY_TIME_MAX).map_err(|e| e.to_string())?;
        // UCX tells on standard output, the others on standard error.
        let said = [output.stderr, output.stdout].concat();
        let evidence = evidence(transport, &String::from_utf8_lossy(&said));
        if evidence.is_none() {
            return Err("its MPI ran, but over something else".to_owned());
        }
        Ok(Admitted { transport, settings, evidence })
    }

    /// One run with the numbers that the program takes.
    ///
    /// # Errors
    /// When it fails or takes longer than `time_max`.
    pub(crate) fn run(
        &self,
        transport: Transport,
        settings: &Settings,
        args: &[u64],
        time_max: Duration,
    ) -> Result<Output> {
        let args: Vec<OsString> = args.iter().map(|n| n.to_string().into()).collect();
        let cores: Vec<String> = self.cores.iter().map(ToString::to_string).collect();
        let env = match cores.is_empty() {
            true => Vec::new(),
            false => vec![("WIGLAF_BENCH_CORES".to_owned(), cores.join(","))],
        };
        let job = Job {
            transport,
            settings,
            ranks: 2,
            nodes: self.launcher.node_count().min(2),
            program: &self.program,
            args: &args,
            env: &env,
            dir: self.dir,
        };
        launch::run(self.launcher, &job, time_max)
    }
}

/// A duration as the programs take it.
pub(crate) fn whole_ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
