//! Accounting: slurmdbd on the head, and a MariaDB that serves it alone.
//!
//! The database server is a process of its own with a folder of its own, which no other MariaDB of the host shares.
//! It has no network: slurmdbd reaches it by a socket in a folder of its user's, and MariaDB takes the user's number
//! from the kernel (`unix_socket`). So there is no password that somebody could read.

use std::path::Path;

use wiglaf_base::shell::quoted;

use crate::conf::PRIVATE;

/// What slurmdbd and its database need besides Slurm: MariaDB's server without Debian's service, and the program
/// with which `mariadb-install-db` reads its options.
pub(crate) const PACKAGES: [&str; 3] = ["slurmdbd", "mariadb-server-core", "mariadb-client-core"];
/// Programs of these, and which package has each.
pub(crate) const PROGRAMS: [(&str, &str); 4] = [
    ("slurmdbd", "slurmdbd"),
    ("mariadbd", "mariadb-server-core"),
    ("mariadb-install-db", "mariadb-server-core"),
    ("my_print_defaults", "mariadb-client-core"),
];
/// What is kept on a host when batch jobs are taken back.
pub(crate) const FOLDER: &str = "/var/lib/wiglaf/accounting";
/// Where slurmdbd looks for it: beside slurm.conf.
pub(crate) const CONF: &str = "/etc/slurm/slurmdbd.conf";
pub(crate) const LOG: &str = "/var/log/slurm/slurmdbd.log";
/// systemd's unit of the database.
pub(crate) const UNIT: &str = "/etc/systemd/system/wiglaf-accounting.service";
/// systemd's, for slurmdbd.
pub(crate) const DROP_IN: &str = "/etc/systemd/system/slurmdbd.service.d/wiglaf.conf";
/// The socket's folder. It is the one user's alone.
const RUN: &str = "/run/wiglaf-accounting";

/// How mariadbd is called, whoever calls it. InnoDB's log is small, because a job is a few hundred bytes; slurmdbd
/// wants to wait longer for a lock than MariaDB does unless told.
fn server(folder: &str) -> String {
    format!(
        "mariadbd --no-defaults --datadir={folder}/db --socket={RUN}/socket --pid-file={RUN}/pid \
         --skip-networking --innodb-log-file-size=16M --innodb-buffer-pool-size=128M \
         --innodb-lock-wait-timeout=900 --max-allowed-packet=16M --log-error={folder}/log.err"
    )
}

/// Makes the database unless it is there: `$9` is its folder, `${10}` its user. What is half made is not taken.
pub(crate) const MAKE: &str = r#"
by=
[ "${10}" = root ] || by="setpriv --reuid=${10} --regid=${10} --init-groups"
mkdir -p "$9" /run/wiglaf-accounting && chmod 700 "$9" /run/wiglaf-accounting &&
    chown "${10}:" "$9" /run/wiglaf-accounting || exit 1
if [ ! -d "$9/db/mysql" ]; then
    rm -rf "$9/new"
    $by mariadb-install-db --no-defaults --user="${10}" --datadir="$9/new" --skip-test-db \
        --auth-root-authentication-method=socket --auth-root-socket-user="${10}" \
        --innodb-log-file-size=16M >"$9/install.log" 2>&1 </dev/null &&
        mv "$9/new" "$9/db" || { tail -n 1 "$9/install.log" >&2; exit 1; }
fi
"#;

/// Starts the database where no systemd runs, and waits for its socket.
pub(crate) fn start() -> String {
    let server = server("\"$9\"");
    format!(
        "rm -f {RUN}/socket\nsetsid $by {server} --user=\"${{10}}\" </dev/null >/dev/null 2>&1 &\n{}",
        answers()
    )
}

/// Waits until the database answers.
pub(crate) fn answers() -> String {
    format!(
        "for i in $(seq 600); do\n\
         $by mariadb --no-defaults --socket={RUN}/socket --user=\"${{10}}\" -e 'SELECT 1' >/dev/null 2>&1 && exit 0\n\
         sleep 0.1\ndone\ngrep ERROR \"$9/log.err\" | tail -n 1 >&2\necho 'it does not answer' >&2\nexit 1\n"
    )
}

/// How slurmdbd finds the database: in its environment.
pub(crate) fn environment() -> String {
    format!("MYSQL_UNIX_PORT={RUN}/socket")
}

/// Waits until slurmdbd answers; then the cluster has an entry there, and each user an equal share: `$2` is
/// slurm.conf, `${11}` the cluster. Who has none gets in all the same, without a share.
pub(crate) const SHARES: &str = r#"
SLURM_CONF=$2
export SLURM_CONF
for i in $(seq 300); do
    sacctmgr -n -P show cluster format=cluster >/dev/null 2>&1 && break
    sleep 0.1
done
known=$(sacctmgr -n -P show cluster format=cluster) || { echo 'it does not answer' >&2; exit 1; }
printf '%s\n' "$known" | grep -qixF -e "${11}" || sacctmgr -Q -i add cluster "${11}" >/dev/null || exit 1
sacctmgr -n -P show account format=account | grep -qx users ||
    sacctmgr -Q -i add account users Description=everybody Organization=cluster Cluster="${11}" >/dev/null || exit 1
without=$(lacking "${11}")
[ -z "$without" ] || sacctmgr -Q -i add user "$without" Account=users Cluster="${11}" >/dev/null
"#;

/// A function of sh: names of this host's people, parted by commas, that have no share in the cluster `$1`.
pub(crate) const LACKING: &str = r#"
lacking() {
    shares=$(sacctmgr -n -P show assoc Cluster="$1" format=user) || return
    getent passwd | awk -F: '$3 >= 1000 && $3 < 60000 && $7 !~ /(nologin|false)$/ { print $1 }' |
        while read -r name; do
            printf '%s\n' "$shares" | grep -qixF -e "$name" || printf '%s\n' "$name"
        done | sort | tr '\n' ',' | sed 's/,$//'
}
"#;

/// The text of slurmdbd.conf.
pub(crate) fn conf(head: &str, address: &str, user: &str, log: &Path, is_private: bool) -> String {
    let private = match is_private {
        true => format!("# Users see what is their own.\nPrivateData={PRIVATE}\n"),
        false => String::new(),
    };
    format!(
        "# Written by Wiglaf. slurmdbd refuses this file unless it is its user's alone.\n\
         AuthType=auth/munge\nDbdHost={head}\nDbdAddr={address}\nSlurmUser={user}\n\
         # A database of its own, which takes its user from the kernel: there is no password.\n\
         StorageType=accounting_storage/mysql\nStorageHost=localhost\nStorageUser={user}\n\
         StorageLoc=slurm_acct_db\nLogFile={}\nPidFile=/run/slurmdbd.pid\n{private}",
        log.display()
    )
}

/// systemd's unit of the database.
pub(crate) fn unit() -> String {
    format!(
        "# Written by `wiglaf batch setup`: slurmdbd's own database.\n[Unit]\n\
         Description=Database of Slurm's accounting\nBefore=slurmdbd.service\n[Service]\nType=notify\n\
         User=slurm\nRuntimeDirectory=wiglaf-accounting\nRuntimeDirectoryMode=0700\n\
         ExecStart=/usr/sbin/{}\nRestart=on-failure\nTimeoutStartSec=900\nTimeoutStopSec=900\n\
         [Install]\nWantedBy=multi-user.target\n",
        server(FOLDER)
    )
}

/// systemd's words about slurmdbd.
pub(crate) fn drop_in() -> String {
    format!(
        "# Written by `wiglaf batch setup`: its database, and a new start where it has ended.\n[Unit]\n\
         Wants=wiglaf-accounting.service\nAfter=wiglaf-accounting.service\n[Service]\nEnvironment={}\n\
         Restart=on-failure\nRestartSec=2\n",
        environment()
    )
}

/// What ends with the database: all of it where that was asked for, see [`forget`].
pub(crate) fn stopped() -> String {
    format!("[ ! -e {FOLDER}/forget ] || rm -rf {FOLDER}; rmdir {RUN} 2>/dev/null; true")
}

/// A script that has the database go with all else.
pub(crate) fn forget() -> String {
    format!("[ ! -d {FOLDER} ] || : >{FOLDER}/forget")
}

/// A script that removes what an earlier taking back has kept.
pub(crate) fn forget_kept() -> String {
    format!("rm -rf {FOLDER}; rmdir {} 2>/dev/null; true", quoted("/var/lib/wiglaf"))
}

/// Notes, before slurmctld ends, which number the next job would have: a later setup counts on. Where slurmctld does
/// not answer, what was noted before stays.
pub(crate) fn note_next_job() -> String {
    format!(
        "next=$([ ! -d {FOLDER} ] || timeout 5 scontrol show config 2>/dev/null | \
         sed -n 's/^NEXT_JOB_ID *= *\\([0-9][0-9]*\\)$/\\1/p')\n\
         [ -z \"$next\" ] || echo \"$next\" >{FOLDER}/next\n"
    )
}
