//! What a new host gets on its disk: names, users, keys. Shell scripts that run on the host, as a person would
//! have done it.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::plan::{HostPlan, Plan, User};

/// Where an installed Wiglaf is: what this machine has of it is not on another host.
const OURS: &str = "/etc/wiglaf /usr/bin/wiglaf* /usr/sbin/wiglaf* /usr/lib/wiglaf /usr/local/bin/wiglaf* \
                    /usr/local/sbin/wiglaf* /usr/local/lib/wiglaf /usr/local/lib/libwiglaf* \
                    /usr/lib/systemd/system/wiglaf* /usr/local/lib/systemd/system/wiglaf*";

/// An SSH key pair.
#[derive(Debug, Clone)]
struct Pair {
    private: String,
    public: String,
}

/// The keys of all hosts and users.
#[derive(Debug)]
pub(crate) struct Keys {
    hosts: Vec<Pair>,
    /// By user, then by host.
    users: Vec<Vec<Pair>>,
}

impl Keys {
    /// Takes the keys from a folder, and makes those that are missing.
    pub(crate) fn take(folder: &Path, plan: &Plan) -> Result<Self, String> {
        std::fs::create_dir_all(folder).map_err(|why| format!("{}: {why}", folder.display()))?;
        let mut hosts = Vec::new();
        let mut users = vec![Vec::new(); plan.users.len()];
        for host in &plan.hosts {
            hosts.push(pair(&folder.join(&host.name), &format!("root@{}", host.name))?);
            for (user, pairs) in plan.users.iter().zip(&mut users) {
                let comment = format!("{}@{}", user.name, host.name);
                pairs.push(pair(&folder.join(&comment), &comment)?);
            }
        }
        Ok(Self { hosts, users })
    }

    /// A line for each host, as ssh-keyscan finds them.
    fn known_hosts(&self, plan: &Plan) -> String {
        let lines = plan.hosts.iter().zip(&self.hosts).map(|(host, key)| {
            let names = [host.name.clone(), host.data.address.to_string()];
            let admin = plan.admin.then(|| host.admin.address.to_string());
            let names: Vec<_> = names.into_iter().chain(admin).collect();
            let key: Vec<_> = key.public.split_whitespace().take(2).collect();
            format!("{} {}\n", names.join(","), key.join(" "))
        });
        lines.collect()
    }
}

fn pair(file: &Path, comment: &str) -> Result<Pair, String> {
    if !file.exists() {
        let mut command = Command::new("ssh-keygen");
        command.args(["-q", "-t", "ed25519", "-N", "", "-C", comment, "-f"]).arg(file);
        crate::switch::feed(&mut command, "")?;
    }
    let read = |file: PathBuf| {
        std::fs::read_to_string(&file).map_err(|why| format!("{}: {why}", file.display()))
    };
    let public = file.with_file_name(format!("{comment_file}.pub", comment_file = name(file)));
    Ok(Pair { private: read(file.to_owned())?, public: read(public)? })
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The script that sets a new host up. It has no quotes of its own that names could break: [`Plan::check`].
pub(crate) fn script(plan: &Plan, keys: &Keys, index: usize) -> String {
    let host = &plan.hosts[index];
    let mut script =
        format!("umask 022\nrm -rf {OURS}\nrm -f /etc/ssh/ssh_host_* /etc/resolv.conf\n");
    let mut file = |path: &str, mode: &str, text: &str| {
        let _ = write!(
            script,
            "rm -f {path}\ninstall -D -m {mode} /dev/stdin {path} <<'END OF FILE'\n{text}\nEND OF FILE\n",
            text = text.trim_end()
        );
    };
    file("/etc/hostname", "644", &host.name);
    file("/etc/hosts", "644", &hosts(plan, host));
    file("/etc/resolv.conf", "644", "# There is no name server.");
    // Of 32 digits, one for each host.
    file(
        "/etc/machine-id",
        "444",
        &format!("{:032x}", 0x7769_676c_6166_0000_u64 + index as u64 + 1),
    );
    file("/etc/ssh/ssh_host_ed25519_key", "600", &keys.hosts[index].private);
    file("/etc/ssh/ssh_host_ed25519_key.pub", "644", &keys.hosts[index].public);
    file("/etc/ssh/sshd_config", "644", &sshd_config(plan, host, index));
    for (user, pairs) in plan.users.iter().zip(&keys.users) {
        add_user(&mut script, plan, keys, (index, user), pairs);
    }
    // Numbers of the first host's count, as on a file server.
    if let (0, Some(owner)) = (index, plan.users.first()) {
        for folder in &plan.shared {
            let _ = writeln!(script, "chown {0}:{0} {1}", owner.name, folder.display());
        }
    }
    script
}

/// As Debian's installer leaves it, and all hosts.
fn hosts(plan: &Plan, host: &HostPlan) -> String {
    let mut text = "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n".to_owned();
    if host.loopback_name {
        let _ = writeln!(text, "127.0.1.1\t{}", host.name);
    }
    for other in &plan.hosts {
        let _ = writeln!(text, "{}\t{}", other.data.address, other.name);
        if plan.admin {
            let _ = writeln!(text, "{}\t{}-admin", other.admin.address, other.name);
        }
    }
    text
}

/// What Debian's package says, with one host key.
fn sshd_config(plan: &Plan, host: &HostPlan, index: usize) -> String {
    let mut text = format!(
        "{}\nHostKey /etc/ssh/ssh_host_ed25519_key\nKbdInteractiveAuthentication no\nUsePAM yes\n\
         X11Forwarding yes\nPrintMotd no\nAcceptEnv LANG LC_*\n\
         Subsystem sftp /usr/lib/openssh/sftp-server\n",
        host.sshd_config
    );
    // What pam_systemd does where there is systemd.
    for user in &plan.users {
        let _ = writeln!(
            text,
            "Match User {}\n    SetEnv XDG_RUNTIME_DIR=/run/user/{}",
            user.name,
            user.uid(index)
        );
    }
    text
}

fn add_user(
    script: &mut String,
    plan: &Plan,
    keys: &Keys,
    (host, user): (usize, &User),
    pairs: &[Pair],
) {
    let (name, uid) = (&user.name, user.uid(host));
    let _ = write!(
        script,
        "groupadd -g {uid} {name}\n\
         useradd -M -d /home/{name} -u {uid} -g {uid} -s {shell} {name}\n\
         install -d -m 700 -o {name} -g {name} /home/{name}\n\
         runuser -u {name} -- cp -r /etc/skel/. /home/{name}/\n\
         install -d -m 700 -o {name} -g {name} /home/{name}/.ssh\n",
        shell = user.shell.display()
    );
    let mut file = |name_in: &str, mode: &str, text: &str| {
        let _ = write!(
            script,
            "install -m {mode} -o {name} -g {name} /dev/stdin /home/{name}/.ssh/{name_in} <<'END OF FILE'\n\
             {text}\nEND OF FILE\n",
            text = text.trim_end()
        );
    };
    file("id_ed25519", "600", &pairs[host].private);
    file("id_ed25519.pub", "644", &pairs[host].public);
    if user.authorized {
        let all: String = pairs.iter().map(|pair| format!("{}\n", pair.public.trim())).collect();
        file("authorized_keys", "600", &all);
    }
    if plan.known_hosts {
        file("known_hosts", "644", &keys.known_hosts(plan));
    }
    if user.sudo {
        let _ = write!(
            script,
            "install -D -m 440 /dev/stdin /etc/sudoers.d/{name} <<'END OF FILE'\n\
             {name} ALL=(ALL:ALL) NOPASSWD: ALL\nEND OF FILE\n"
        );
    }
}

/// What runs each time the host is powered on.
pub(crate) fn start(host: &HostPlan, users: &[(String, u32)]) -> String {
    let mut script = "#!/bin/sh -eu\n".to_owned();
    for (name, uid) in users {
        let _ = writeln!(script, "install -d -m 700 -o {name} -g {name} /run/user/{uid}");
    }
    if host.sshd {
        script += "/usr/sbin/sshd -E /var/log/sshd.log\n\
                   while [ ! -s /run/sshd.pid ]; do sleep 0.02; done\n";
    }
    for (number, service) in host.services.iter().enumerate() {
        let log = format!("/var/log/testhosts-{number}.log");
        let _ = writeln!(script, "setsid sh -c '{}' >{log} 2>&1 &", service.replace('\'', "'\\''"));
    }
    script
}
