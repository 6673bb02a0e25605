//! `xtask guests batch`: batch jobs on two guests of Debian with systemd, logind and control groups, which stand-in
//! hosts have not. A user gets there from two PCs, one of which has Wiglaf, by the commands of docs/batch.md.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use wiglaf_testhosts::Namespace;

use super::image::{disk, newest, root_tree, run as finish, site_disk, suite};
use super::machine::{said, ssh_from};
use super::nodes::{Running, qemu};

/// What is in the root besides Debian's essential packages: guests reach no archive.
const PACKAGES: &str = "linux-image-amd64,systemd-sysv,dbus,libpam-systemd,sudo,openssh-server,openmpi-bin,libfabric-bin,\
    iproute2,ethtool,iputils-ping,kmod,procps,slurmctld,slurmd,slurm-client,munge,slurmdbd,mariadb-server-core,\
    mariadb-client-core,environment-modules,libpam-slurm-adopt,xauth,socat";
/// What batch setup is to start, and Debian's packages have enabled.
const DAEMONS: [&str; 4] = ["slurmctld", "slurmd", "slurmdbd", "munge"];
/// Until a guest of an emulated processor answers, on a machine that is busy.
const START_LIMIT: Duration = Duration::from_mins(15);

/// Emulated processors are slow enough for a host to seem dead.
const JOB: &str = "#!/bin/bash -l\nexport WIGLAF_HOST_LIMIT=2min\n";

/// What is done in turn: its name, who does it and on which guest, the line, and what must be said.
const STEPS: [(&str, &str, u8, &str, &[&str]); 11] = [
    (
        "two PCs join",
        "ann",
        1,
        "wiglaf init && wiglaf join pc2 --yes && for pc in pc1 pc2; do ssh $pc systemctl is-active wiglaf-helper.socket; done",
        &["pc1: start wiglaf-helper", "pc2: joined", "active\nactive\n"],
    ),
    (
        "batch setup",
        "ann",
        1,
        "printf '[batch]\\nlogin = \"adopt\"\\nx11 = true\\n[owner.pc2]\\nuser = \"bob\"\\nwhen_back = \"suspend\"\\n' >>.config/wiglaf/cluster.toml; \
         wiglaf batch setup --yes && wiglaf batch status && ssh pc2 systemctl is-active slurmd wiglaf-owner",
        &["pc[1-2]: ready for jobs", "active\nactive\n"],
    ),
    (
        "job on both, in control groups",
        "ann",
        1,
        "(cat job; echo 'wiglaf run -- /opt/hello'; echo 'cat /proc/self/cgroup') >job.sh; \
         sbatch --wait -N 2 -n 2 -o out job.sh; cat out",
        &["pc1 agrees on 3", "pc2 agrees on 3", "slurmstepd.scope/job_1"],
    ),
    (
        "job that Slurm freezes for longer than a host may be silent goes on",
        "ann",
        1,
        "(cat job; echo 'export WIGLAF_HOST_LIMIT=30s'; echo 'wiglaf run -- /opt/hello 20') >job.sh; \
         job=$(sbatch --parsable -N 2 -n 2 -o out job.sh); \
         until ssh pc2 pgrep -x hello; do squeue -h -j $job | grep -q . || break; sleep 1; done; sudo scontrol suspend $job; sleep 45; \
         cat /sys/fs/cgroup/system.slice/*/job_$job/step_batch/user/cgroup.freeze; sudo scontrol resume $job; \
         while squeue -h -j $job | grep .; do sleep 2; done; cat out",
        &["\n1\n", "pc1 agrees on 3", "pc2 agrees on 3"],
    ),
    (
        "job stands still while the owner sits at a terminal",
        "ann",
        1,
        "(cat job; echo 'wiglaf run -- /opt/hello 60') >job.sh; job=$(sbatch --parsable -N 2 -n 2 -o out job.sh); \
         until ssh pc2 pgrep -x hello; do squeue -h -j $job | grep -q . || break; sleep 1; done; \
         (ssh -tt -i .ssh/id_bob bob@pc2 'sleep 60' </dev/null >/dev/null 2>&1 &); \
         until squeue -h -j $job -t SUSPENDED | grep .; do squeue -h -j $job | grep -q . || break; sleep 1; done; \
         sinfo -h -N -o '%N %E'; while squeue -h -j $job | grep -q .; do sleep 2; done; cat out",
        &["pc2 wiglaf owner: bob is there", "pc1 agrees on 3", "pc2 agrees on 3"],
    ),
    (
        "who has no job there is not let in",
        "ann",
        1,
        "ssh -i .ssh/id_bob carl@pc2 true; echo; ssh -i .ssh/id_bob carl@pc1 echo the head lets in",
        &["pc2 is for users who have a job there, and carl has none now", "the head lets in"],
    ),
    (
        "who logs in for a job is part of it and leaves with it, the owner is not",
        "ann",
        1,
        "alias as='ssh -i .ssh/id_bob'; shopt -s expand_aliases\n\
         as carl@pc1 sbatch -w pc2 -N 1 -n 1 -o /dev/null --wrap \"'sleep 90'\"\n\
         until as carl@pc2 true; do sleep 2; done 2>/dev/null\n\
         as carl@pc2 'cat /proc/self/cgroup; loginctl list-sessions --no-legend | grep -c carl; ulimit -l'\n\
         as bob@pc2 'cat /proc/self/cgroup'\n\
         if as carl@pc2 'exec sleep 900'; then echo stayed; else echo left with the job; fi\n\
         until ! as carl@pc2 true; do sleep 2; done",
        &["/step_extern", "user-2002.slice/session", "left with the job", "carl has none now"],
    ),
    (
        "a job shows its windows where it was submitted",
        "ann",
        1,
        // What stands for a display answers in capitals.
        "mkdir -p /tmp/.X11-unix; (socat UNIX-LISTEN:/tmp/.X11-unix/X7 SYSTEM:'head -c 5 | tr a-z A-Z' &)\n\
         xauth -q add :7 . 00112233445566778899aabbccddeeff; export DISPLAY=:7\n\
         cat >show <<'E'\nexec 3<>/dev/tcp/localhost/$((6000 + $(echo ${DISPLAY#*:} | cut -d. -f1)))\n\
         echo hello >&3; read -rN5 heard <&3; echo $(hostname) heard $heard\nE\n\
         scp -q show pc2:; timeout 300 srun --x11 -w pc2 -N 1 -n 1 bash show",
        &["pc2 heard HELLO"],
    ),
    (
        "job of who is logged in nowhere",
        "root",
        1,
        "loginctl terminate-user ann; cd /home/ann; (cat job; echo 'sleep 15; wiglaf run -- /opt/hello') >job.sh; \
         setpriv --reuid ann --regid ann --init-groups env -i HOME=/home/ann PATH=/usr/local/bin:/usr/bin:/bin \
         sbatch --wait -N 2 -n 2 -o /home/ann/out job.sh; cat out; ls -d /run/user/2001",
        &["pc1 agrees on 3", "pc2 agrees on 3"],
    ),
    (
        "accounting",
        "ann",
        1,
        "sacct -X -a -n -o jobid,state",
        &["1             COMPLETED", "4             COMPLETED"],
    ),
    (
        "all of it goes again",
        "ann",
        1,
        "wiglaf batch remove --yes && wiglaf leave pc2 --yes && for pc in pc1 pc2; do \
         ssh $pc 'systemctl list-units --all --no-legend \"slurm*\" \"wiglaf-owner*\"; ls /etc/wiglaf/batch; pgrep -a slurm || echo nothing of Slurm runs'; done; true",
        &[
            "pc[1-2]: no more batch jobs",
            "pc2: left",
            "nothing of Slurm runs\nnothing of Slurm runs",
        ],
    ),
];

/// Makes the guests and does all steps; those behind one that fails are tried as well.
pub(super) fn run(workspace: &Path, folder: &Path) -> Result<(), String> {
    let folder = folder.join("batch");
    fs::create_dir_all(&folder).map_err(|why| format!("{}: {why}", folder.display()))?;
    let key = prepare(workspace, &folder)?;
    let namespace = Namespace::new()?;
    namespace.ip(
        "link set lo up\nlink add data type bridge forward_delay 0\nlink set data up\n\
         address add 192.168.77.254/24 dev data\ntuntap add tap1 mode tap\nlink set tap1 master data up\n\
         tuntap add tap2 mode tap\nlink set tap2 master data up\n",
    )?;
    let guests: Vec<Running> = [1, 2]
        .into_iter()
        .map(|number| start(number, &namespace, &folder))
        .collect::<Result<_, _>>()?;
    let ask = |user: &str, number: u8, line: &str| {
        let mut command = ssh_from(&namespace);
        command.arg("-i").arg(&key).arg(format!("{user}@192.168.77.{number}")).arg(line);
        command.stdin(Stdio::null()).output().map_err(|why| format!("ssh: {why}"))
    };
    let began = Instant::now();
    for number in [1, 2] {
        while said(&ask("ann", number, "true")?).is_err() {
            if began.elapsed() > START_LIMIT {
                return Err(format!("pc{number} does not start; see {}", folder.display()));
            }
            std::thread::sleep(Duration::from_secs(2));
        }
    }
    eprintln!("== guests: both are up after {} s", began.elapsed().as_secs());
    let mut failed = 0;
    for (name, user, number, line, wanted) in STEPS {
        let began = Instant::now();
        let output = ask(user, number, line)?;
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        let missing: Vec<&&str> = wanted.iter().filter(|part| !text.contains(**part)).collect();
        let seconds = began.elapsed().as_secs();
        if missing.is_empty() {
            println!("ok      {name} ({seconds} s)");
        } else {
            failed += 1;
            println!("failed  {name} ({seconds} s): {missing:?} is not in\n{text}");
        }
    }
    drop(guests);
    if failed == 0 { Ok(()) } else { Err(format!("{failed} of {} failed", STEPS.len())) }
}

/// The root of both guests, what the first has besides, and the key to all.
fn prepare(workspace: &Path, folder: &Path) -> Result<PathBuf, String> {
    let tree = folder.join("root");
    root_tree(folder, &tree, &suite()?, PACKAGES)?;
    let key = folder.join("key");
    if !key.exists() {
        finish(Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(&key))?;
    }
    let root = folder.join("root.img");
    if !root.exists() {
        eprintln!("== guests: a disk of the root file system");
        let mut compile = Command::new("mpicc.openmpi");
        compile.args(["-O2", "-o"]).arg(tree.join("opt/hello"));
        finish(compile.arg(workspace.join("xtask/src/guests/hello.c")))?;
        fs::copy(&key, tree.join("key")).map_err(|why| format!("{}: {why}", key.display()))?;
        fs::copy(key.with_extension("pub"), tree.join("key.pub")).map_err(|why| why.to_string())?;
        fs::write(tree.join("job"), JOB).map_err(|why| why.to_string())?;
        let script = CONFIGURE.replace("DAEMONS", &DAEMONS.join(" "));
        finish(Command::new("chroot").arg(&tree).args(["sh", "-ec", &script]))?;
        disk(&tree, &root, "3G")?;
    }
    site_disk(workspace, folder, &folder.join("site.img"))?;
    Ok(key)
}

/// Users, keys, names and addresses; the second disk, where there is one, is /usr/local.
const CONFIGURE: &str = r#"
for user in bob:2002 carl:2003; do useradd -m -u ${user#*:} -s /bin/bash ${user%:*} || true; done
echo 'ann ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/ann
host="* $(cut -d' ' -f1,2 /key.pub)"
for home in /root /home/ann /home/bob /home/carl; do
    mkdir -p $home/.ssh
    cp /key.pub $home/.ssh/authorized_keys
    echo "$host" >$home/.ssh/known_hosts
done
for name in id_ed25519 id_bob; do cp /key /home/ann/.ssh/$name; done
mv /job /home/ann/job
for user in ann bob carl; do chown -R $user:$user /home/$user; chmod -R go= /home/$user/.ssh; done
rm -f /etc/ssh/ssh_host_* /etc/hostname /etc/munge/munge.key
mv /key /etc/ssh/ssh_host_ed25519_key
mv /key.pub /etc/ssh/ssh_host_ed25519_key.pub
chmod 600 /etc/ssh/ssh_host_ed25519_key
printf '127.0.0.1 localhost\n192.168.77.1 pc1\n192.168.77.2 pc2\n' >/etc/hosts
for number in 1 2; do
    printf '[Match]\nMACAddress=02:00:c0:a8:4d:0%d\n[Network]\nAddress=192.168.77.%d/24\nLinkLocalAddressing=no\n' \
        $number $number >/etc/systemd/network/pc$number.network
done
printf '/dev/vda / ext4 defaults 0 1\n/dev/vdb /usr/local ext4 nofail,x-systemd.device-timeout=90 0 0\n' >/etc/fstab
: >/etc/machine-id
systemctl enable systemd-networkd ssh
systemctl disable DAEMONS apt-daily.timer apt-daily-upgrade.timer
"#;

/// Powers a guest on; the first has Wiglaf.
fn start(number: u8, namespace: &Namespace, folder: &Path) -> Result<Running, String> {
    let boot = folder.join("root/boot");
    let release = newest(&folder.join("root/lib/modules"))?;
    let mut command = qemu(namespace, &format!("pc{number}"), folder)?;
    command.args(["-m", "1500"]);
    command.arg("-kernel").arg(boot.join(format!("vmlinuz-{release}")));
    command.arg("-initrd").arg(boot.join(format!("initrd.img-{release}")));
    command.arg("-append").arg(format!(
        "root=/dev/vda rw console=ttyS0 systemd.hostname=pc{number} mitigations=off net.ifnames=0 no_timer_check \
         random.trust_cpu=on tsc=reliable nowatchdog"
    ));
    let disks: &[&str] = if number == 1 { &["root.img", "site.img"] } else { &["root.img"] };
    for name in disks {
        let file = folder.join(name);
        command.arg("-drive");
        command.arg(format!("if=virtio,format=raw,snapshot=on,file={}", file.display()));
    }
    command.arg("-netdev").arg(format!("tap,id=net,ifname=tap{number},script=no,downscript=no"));
    command.arg("-device").arg(format!("e1000e,netdev=net,mac=02:00:c0:a8:4d:0{number},romfile="));
    command.spawn().map(Running).map_err(|why| format!("nsenter cannot be started: {why}"))
}
