//! A node's helper: it opens packet sockets for users without privilege, as
//! on a real node.

use std::fs;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use wiglaf_base::paths::EXE;

/// Its policy; that of the machine, where it has one.
const POLICY: &str = "/etc/wiglaf/helper.toml";
/// Where it listens.
const SOCKET: &str = "/run/wiglaf-helper/socket";
/// What it says.
const LOG: &str = "/run/wiglaf-helper/log";
/// What an emulated node admits: there is nothing but the emulated wire behind its interface.
const ADMIT_ALL: &str = "\
# Written by `wiglaf up`, as the machine has no policy of its own. See docs/helper.md.
[[admit]]
everybody = true
links = [\"packet\"]
";

static PID: AtomicI32 = AtomicI32::new(0);

/// The helper's process on this node; 0: there is none.
pub(super) fn pid() -> i32 {
    PID.load(Ordering::Relaxed)
}

/// That process has ended, and its number may be another's soon. Where it was the helper, which any
/// job of its uid (`nobody`'s) can end, there is another soon.
pub(super) fn has_ended(pid: i32) {
    let started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    if PID.compare_exchange(pid, 0, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
        let lived = started.map_or(Duration::ZERO, |at| at.elapsed());
        let _ = std::thread::Builder::new().spawn(move || {
            std::thread::sleep(RESTART_PAUSE.saturating_sub(lived));
            start();
        });
    }
}

/// When the helper was started. Held while its pid is not known yet, so that its end is not missed.
static STARTED: Mutex<Option<Instant>> = Mutex::new(None);
/// A helper that ends again and again is started once in so long. Whoever asks meanwhile waits for it
/// (`wiglaf_helper::ask`).
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// How long it may take to listen.
const PATIENCE: Duration = Duration::from_secs(2);

/// Starts it, and waits until it listens: a job may be the next that comes. A node without a helper
/// works; only users without privilege miss it.
pub(super) fn start() {
    let started = || -> std::io::Result<i32> {
        if !Path::new(POLICY).exists() {
            fs::create_dir_all("/etc/wiglaf")?;
            fs::write(POLICY, ADMIT_ALL)?;
        }
        fs::DirBuilder::new().recursive(true).mode(0o755).create("/run/wiglaf-helper")?;
        let log = fs::File::options().create(true).append(true).open(LOG)?;
        let mut command = Command::new(EXE);
        command.arg("helper").env_clear().stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        // Reaped along with everything else.
        Ok(command.spawn()?.id() as i32)
    };
    let mut starting = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let asked = Instant::now();
    let pid = started().unwrap_or(0);
    PID.store(pid, Ordering::Relaxed);
    *starting = Some(asked);
    drop(starting);
    while pid != 0 && !Path::new(SOCKET).exists() && asked.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(1));
    }
}
