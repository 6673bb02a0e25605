//! Sign-in by the password that the page's own user has on this machine.
//!
//! The server runs as that user. PAM's own program for such callers, `unix_chkpwd`, checks the password of who calls it and
//! of nobody else; it has the right to read the shadow file, and this server does not. It neither waits nor counts, so that
//! is done here.

use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use wiglaf_base::program::find_tool;
use wiglaf_base::user::User;

/// Of Debian's package libpam-modules-bin.
const CHECKER: &str = "unix_chkpwd";
/// After a wrong password nobody tries another one for so long.
const WAIT: Duration = Duration::from_secs(2);
/// After so many wrong ones in a row it is longer.
const TRIES_MAX: u32 = 5;
const PAUSE: Duration = Duration::from_mins(10);
/// Longest password that is passed on, in bytes.
const LEN_MAX: usize = 200;

/// What came of a try.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tried {
    Right,
    Wrong,
    /// It is too soon after a wrong one: the password was not looked at.
    TooSoon,
}

type Check = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// The password of one user, and how often it was guessed wrong.
pub struct Password {
    user: String,
    check: Check,
    tries: Mutex<Tries>,
    wait: Duration,
    now: fn() -> Instant,
}

#[derive(Default)]
struct Tries {
    wrong: u32,
    not_before: Option<Instant>,
}

impl Password {
    /// That of the user of this process. None for root, whose password is worth too much, and where PAM's program is missing.
    #[must_use]
    pub fn of_user() -> Option<Self> {
        let uid = rustix::process::geteuid();
        let user = User::find(&uid.as_raw().to_string()).ok()?.name;
        let program = find_tool(CHECKER).filter(|_| !uid.is_root())?;
        let name = user.clone();
        Some(Self::new(user, move |password| {
            let child = Command::new(&program)
                .args([&name, "nonull"])
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn();
            let Ok(mut child) = child else { return false };
            if let Some(mut stdin) = child.stdin.take() {
                // Shorter than a pipe; it ends with a zero.
                let _ = stdin.write_all(password.as_bytes()).and_then(|()| stdin.write_all(&[0]));
            }
            child.wait().is_ok_and(|status| status.success())
        }))
    }

    /// One of that user, which `check` knows.
    pub fn new(user: String, check: impl Fn(&str) -> bool + Send + Sync + 'static) -> Self {
        let tries = Mutex::default();
        Self { user, check: Box::new(check), tries, wait: WAIT, now: Instant::now }
    }

    /// With another time to wait after a wrong one.
    #[must_use]
    pub fn waiting(self, wait: Duration) -> Self {
        Self { wait, ..self }
    }

    pub(crate) fn user(&self) -> &str {
        &self.user
    }

    /// Tries one. Others wait meanwhile.
    pub(crate) fn try_one(&self, password: &str) -> Tried {
        let mut tries = self.tries.lock().unwrap_or_else(PoisonError::into_inner);
        let now = (self.now)();
        if tries.not_before.is_some_and(|until| now < until) {
            return Tried::TooSoon;
        }
        let may_be = !password.is_empty() && password.len() <= LEN_MAX && !password.contains('\0');
        if may_be && (self.check)(password) {
            *tries = Tries::default();
            return Tried::Right;
        }
        tries.wrong = tries.wrong.saturating_add(1);
        let wait = if tries.wrong >= TRIES_MAX { PAUSE } else { self.wait };
        tries.not_before = Some(now + wait);
        Tried::Wrong
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    thread_local! {
        static AHEAD: Cell<Duration> = const { Cell::new(Duration::ZERO) };
        static START: Instant = Instant::now();
    }

    fn password() -> Password {
        let now = || START.with(|start| *start) + AHEAD.get();
        Password { now, ..Password::new("ann".to_owned(), |text| text == "right") }
    }

    #[test]
    fn next_password_is_looked_at_after_a_while_only_and_after_five_wrong_ones_much_later() {
        let password = password();
        for _ in 0..TRIES_MAX {
            assert_eq!(password.try_one("wrong"), Tried::Wrong);
            // Not even the right one.
            assert_eq!(password.try_one("right"), Tried::TooSoon);
            AHEAD.set(AHEAD.get() + WAIT);
        }
        assert_eq!(password.try_one("right"), Tried::TooSoon);
        AHEAD.set(AHEAD.get() + PAUSE);
        assert_eq!(password.try_one("right"), Tried::Right);
        assert_eq!(password.try_one("right"), Tried::Right);
    }

    /// Says to this test, started once more, that it is ann who runs it.
    const INNER: &str = "WIGLAF_TEST_IS_ANN";
    /// Users whom only a mount namespace knows: ann with `se cret` and bob with `other`, by `openssl passwd -6`.
    const USERS: &str = "ann:x:2001:2001::/:/bin/sh\nbob:x:2002:2002::/:/bin/sh\n";
    const SHADOW: &str = "ann:$6$wiglafann$jKyErBjvDnwBpp4.fQNhXl0NChqcV69ZBxGuI5Q5DQLJ0KAbvL/zA4XslH4ki44G/YpZPr72r8Wx5pYzzLIhw1:19000:0:99999:7:::\n\
        bob:$6$wiglafbob$vKnNZcdMlXdi0YdV6xFBDRLUVuQlI/4.6hgTGeqaf4ci6e3PQLzigH14iwKOF/MXfvcPCv238suxkJ6mo5mMw1:19000:0:99999:7:::\n";
    const ENTER: &str = "cd \"$1\" && cat /etc/passwd users >passwd && cat /etc/shadow secrets >shadow && chown root:shadow \
        shadow && chmod 640 shadow && mount --bind passwd /etc/passwd && mount --bind shadow /etc/shadow && exec setpriv \
        --reuid=2001 --regid=2001 --clear-groups \"$1/test\" --exact \"$2\"";

    #[test]
    fn own_password_signs_in_and_nobody_elses() {
        if std::env::var_os(INNER).is_some() {
            let once = |text: &str| Password::of_user().expect("PAM's program").try_one(text);
            assert_eq!(Password::of_user().unwrap().user(), "ann");
            assert_eq!(once("se cret"), Tried::Right);
            for wrong in ["se cre", "se cret\n", "other", ""] {
                assert_eq!(once(wrong), Tried::Wrong, "{wrong}");
            }
            return;
        }
        if !rustix::process::geteuid().is_root() || find_tool(CHECKER).is_none() {
            return eprintln!("skipped: users of its own take root and {CHECKER}");
        }
        // Root's password is not asked for.
        assert!(Password::of_user().is_none());
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        put("users", USERS);
        put("secrets", SHADOW);
        std::fs::copy(std::env::current_exe().unwrap(), folder.path().join("test")).unwrap();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(folder.path(), open).unwrap();
        let name = "password::tests::own_password_signs_in_and_nobody_elses";
        let output = Command::new("unshare")
            .args(["--mount", "--propagation", "private", "sh", "-c", ENTER, "sh"])
            .arg(folder.path())
            .arg(name)
            .env(INNER, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    }

    #[test]
    fn what_can_be_no_password_counts_as_wrong_and_is_not_passed_on() {
        let check = |text: &str| panic!("{text} was passed on");
        for text in ["", "a\0b", &"a".repeat(LEN_MAX + 1)] {
            assert_eq!(Password::new("ann".to_owned(), check).try_one(text), Tried::Wrong);
        }
    }
}
