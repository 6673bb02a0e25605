//! Slurm's daemons and munged: how each is started and ended, on emulated nodes and on hosts.

use std::path::PathBuf;

use wiglaf_base::shell::quoted;

use crate::accounting;

/// Starts a daemon unless it runs: `$1` is its name, `$2` slurm.conf, `$3` munge's key, `$4` munged's log, `$5` the
/// folder of slurmd's, `$6` the node, `$7` the head's address and port, `$8` who runs munged (nobody: root), `$9` the
/// folder of accounting, `${10}` who runs its database, `${11}` the cluster, `${12}` Wiglaf's program.
const DIRECT: &str = r#"
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
umask 022
runs() {
    read -r pid 2>/dev/null <"$1" && read -r name 2>/dev/null <"/proc/$pid/comm" && [ "$name" = "$2" ]
}
case $1 in
munged)
    runs /run/munge/munged.pid munged && exit 0
    mkdir -p /run/munge && rm -f /run/munge/munge.socket.2 /run/munge/munge.socket.2.lock
    by=
    [ -z "$8" ] || { chown "$8:" /run/munge; by="setpriv --reuid=$8 --regid=$8 --init-groups"; }
    exec $by munged --key-file="$3" --socket=/run/munge/munge.socket.2 \
        --pid-file=/run/munge/munged.pid --seed-file=/run/munge/seed --log-file="$4"
    ;;
mariadbd)
    runs /run/wiglaf-accounting/pid mariadbd && exit 0
    @make@
    @start@
    ;;
slurmdbd)
    runs /run/slurmdbd.pid slurmdbd && exit 0
    export SLURM_CONF="$2" @environment@
    exec slurmdbd
    ;;
slurmctld)
    runs /run/slurmctld.pid slurmctld || exec slurmctld -f "$2"
    ;;
slurmd)
    runs /run/slurmd.pid slurmd && exit 0
    mkdir -p "$5"
    exec slurmd --conf-server "$7" -N "$6"
    ;;
wiglaf-owner)
    runs /run/wiglaf-owner.pid wiglaf-owner && exit 0
    mkdir -p /var/log/slurm
    cd / && setsid "${12}" host-owner </dev/null >>/var/log/slurm/wiglaf-owner.log 2>&1 &
    for i in $(seq 100); do
        runs /run/wiglaf-owner.pid wiglaf-owner && exit 0
        sleep 0.1
    done
    tail -n 1 /var/log/slurm/wiglaf-owner.log >&2
    exit 1
    ;;
esac
"#;

/// Waits until slurmctld answers, in the words of [`DIRECT`].
const WAIT: &str = r#"
for i in $(seq 300); do
    SLURM_CONF="$2" scontrol ping 2>/dev/null | grep -q 'is UP' && exit 0
    sleep 0.1
done
echo 'it does not answer' >&2
exit 1
"#;

/// [`DIRECT`], and what is waited for then: for where no systemd runs.
pub(crate) fn script() -> String {
    let direct = DIRECT
        .replace("@make@", accounting::MAKE)
        .replace("@start@", &accounting::start())
        .replace("@environment@", &accounting::environment());
    format!("({direct}) || exit 1\n{}", settle())
}

/// What is waited for when a daemon was started, in the words of [`DIRECT`].
fn settle() -> String {
    format!(
        "case $1 in\nslurmctld)\n{WAIT}\n;;\nslurmdbd)\n{}\n{}\n;;\nesac\nexit 0\n",
        accounting::LACKING,
        accounting::SHARES
    )
}

/// Ends a daemon that was started directly: `$1` is its name.
const STOP: &str = r#"
PATH=/usr/sbin:/usr/bin:/sbin:/bin
file=/run/$1.pid
[ "$1" = munged ] && file=/run/munge/munged.pid
[ "$1" = mariadbd ] && file=/run/wiglaf-accounting/pid
read -r pid 2>/dev/null <"$file" && read -r name 2>/dev/null <"/proc/$pid/comm" && [ "$name" = "$1" ] || exit 0
kill "$pid"
for i in $(seq 100); do
    read -r name 2>/dev/null <"/proc/$pid/comm" && [ "$name" = "$1" ] || exit 0
    sleep 0.1
done
kill -KILL "$pid"
"#;

/// Ends the node's jobs, and waits for that: `$1` is the node. `slurmstepd infinity` is no step: Slurm keeps its control
/// group by that.
const END_JOBS: &str = r#"
PATH=/usr/sbin:/usr/bin:/sbin:/bin
export PATH
steps() {
    for comm in $(grep -lsx slurmstepd /proc/[0-9]*/comm); do
        tr '\0' ' ' 2>/dev/null <"${comm%comm}cmdline" | grep -q 'slurmstepd infinity' || return 0
    done
    return 1
}
if steps; then
    timeout 10 scancel --nodelist="$1" 2>/dev/null
    for i in $(seq 100); do steps || break; sleep 0.1; done
fi
"#;

/// Ends what Slurm's daemon leaves there for the next one, `slurmstepd infinity` in a unit of its own: `$1` is the node.
const END_GROUP: &str = r#"
if [ -d /run/systemd/system ] && ! grep -lsx slurmd /proc/[0-9]*/comm | grep -q .; then
    for scope in "$1_slurmstepd.scope" slurmstepd.scope; do
        ! systemctl is-active --quiet "$scope" || systemctl stop "$scope"
    done
fi
"#;

/// What is started where systemd runs: `$1` is the unit. What was not enabled before is noted.
const SYSTEMD: &str = r#"
systemctl daemon-reload
if ! systemctl is-enabled --quiet "$1" 2>/dev/null; then
    mkdir -p "$noted" && : >"$noted/$1" && systemctl enable --quiet "$1"
fi
systemctl "$verb" "$1" && systemctl is-active --quiet "$1" || {
    echo "see \`journalctl -u $1\` there" >&2
    exit 1
}
"#;

/// Where units are noted that were not enabled before.
pub(crate) const NOTED: &str = "/var/lib/wiglaf/batch/units";

/// One of the daemons.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Daemon {
    /// Who speaks is proved by it.
    Munged,
    /// slurmdbd's database.
    Mariadbd,
    /// Notes jobs.
    Slurmdbd,
    /// Decides which job runs where.
    Slurmctld,
    /// Runs jobs on a node.
    Slurmd,
    /// Has jobs make way for a PC's owner.
    Owner,
}

impl Daemon {
    /// Its program.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Munged => "munged",
            Self::Mariadbd => "mariadbd",
            Self::Slurmdbd => "slurmdbd",
            Self::Slurmctld => "slurmctld",
            Self::Slurmd => "slurmd",
            Self::Owner => "wiglaf-owner",
        }
    }

    fn unit(self) -> &'static str {
        match self {
            Self::Munged => "munge",
            Self::Mariadbd => "wiglaf-accounting",
            other => other.name(),
        }
    }
}

/// Where a host's daemons have what they need.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) conf: PathBuf,
    pub(crate) key: PathBuf,
    /// Of munged.
    pub(crate) log: PathBuf,
    pub(crate) spool: PathBuf,
    pub(crate) node: String,
    /// The head's address and port.
    pub(crate) head: String,
    /// Who runs munged.
    pub(crate) user: String,
    /// The folder of accounting.
    pub(crate) accounting: PathBuf,
    /// Who runs its database.
    pub(crate) by: String,
    pub(crate) cluster: String,
    /// Wiglaf's.
    pub(crate) program: PathBuf,
}

impl Place {
    /// The words behind [`script`].
    pub(crate) fn words(&self, daemon: &str) -> [String; 12] {
        let text = |path: &PathBuf| path.to_string_lossy().into_owned();
        [
            daemon.to_owned(),
            text(&self.conf),
            text(&self.key),
            text(&self.log),
            text(&self.spool),
            self.node.clone(),
            self.head.clone(),
            self.user.clone(),
            text(&self.accounting),
            self.by.clone(),
            self.cluster.clone(),
            text(&self.program),
        ]
    }

    /// A script that starts a daemon on a host, by systemd where that runs, after `prepare`. One that runs is
    /// started anew where it `is_to_hear` of a change.
    pub(crate) fn start(&self, daemon: Daemon, prepare: &str, is_to_hear: bool) -> String {
        let (unit, name) = (daemon.unit(), daemon.name());
        let verb = if is_to_hear { "restart" } else { "start" };
        let noted = quoted(NOTED);
        let words: Vec<String> = self.words(name).iter().map(|word| quoted(word)).collect();
        let words = words.join(" ");
        let wait = match daemon {
            Daemon::Mariadbd => format!(
                "set -- {words}\nby=\"setpriv --reuid=${{10}} --regid=${{10}} --init-groups\"\n{}",
                accounting::answers()
            ),
            _ => format!("set -- {words}\n{}", settle()),
        };
        // systemd starts the database, and does not make it.
        let prepare = match daemon {
            Daemon::Mariadbd => {
                format!("{prepare}\n(set -- {words}\n{}) || exit 1", accounting::MAKE)
            }
            _ => prepare.to_owned(),
        };
        let stop = match is_to_hear {
            true => format!("(set -- {name}\n{STOP})"),
            false => String::new(),
        };
        format!(
            "{prepare}\nif [ -d /run/systemd/system ]; then\nset -- {unit}\nnoted={noted} verb={verb}\n\
             {SYSTEMD}\n{wait}\nfi\n{stop}\nset -- {words}\n{}",
            script()
        )
    }

    /// A script that ends it.
    pub(crate) fn stop(&self, daemon: Daemon) -> String {
        let (unit, name) = (daemon.unit(), daemon.name());
        let noted = quoted(&format!("{NOTED}/{unit}"));
        let jobs = match daemon {
            Daemon::Slurmd => format!("set -- {}\n{END_JOBS}\n", quoted(&self.node)),
            Daemon::Slurmctld => accounting::note_next_job(),
            _ => String::new(),
        };
        let then = match daemon {
            Daemon::Slurmd => format!("set -- {}\n{END_GROUP}", quoted(&self.node)),
            Daemon::Mariadbd => accounting::stopped(),
            Daemon::Owner => format!(
                "{} host-owner --release || true",
                quoted(&self.program.display().to_string())
            ),
            _ => String::new(),
        };
        format!(
            "{jobs}(if [ -d /run/systemd/system ]; then\n\
             if [ -e {noted} ]; then systemctl disable --now --quiet {unit}; else systemctl stop {unit}; fi\n\
             exit\nfi\nset -- {name}\n{STOP})\n{then}"
        )
    }
}
