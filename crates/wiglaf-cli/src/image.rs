//! `wiglaf image`.

mod update;

use std::fs::File;
use std::io::{IsTerminal, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use wiglaf_base::error::Context;
use wiglaf_base::signals::{ENDING, Held};
use wiglaf_base::user::User;
use wiglaf_base::{Error, HostList, Result};
use wiglaf_cluster::hosts::Hosts;
use wiglaf_cluster::image::Admitted;
use wiglaf_cluster::power::Mac;
use wiglaf_image::{Machine, Newcomer, Options, Release, ServeOptions, Target};
use wiglaf_node::ssh::KNOWN_HOSTS_VAR;

use crate::join::is_wanted;
use crate::options::Global;
use crate::output;
use crate::power::hosts;
use crate::which::Meant;

const EXAMPLES: &str = "\
Examples:
  sudo wiglaf image build --dry-run        say what an image would hold
  sudo wiglaf image build                  wiglaf-node.img, in some minutes
  sudo wiglaf image build --from pc2       like pc2, without what is its own
  lsblk -o NAME,SIZE,SERIAL,MODEL          which disk is which
  sudo wiglaf image write /dev/sdb --serial WD-WX12A3 --node pc5
  wiglaf image admit 52:54:00:0a:0b:0c pc5 --serial WD-WX12A3
  sudo wiglaf image serve                  admitted PCs start from the network
  wiglaf image update -w 'pc[2-4]'         make hosts that run like this one

Nothing is written to a disk whose serial number was not named. Each node makes
its own ssh keys, machine-id and munge key when it starts. See docs/images.md.";

/// Make an image of a node, write it to disks, install PCs, or update hosts
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    Build(BuildArgs),
    Write(WriteArgs),
    Admit(AdmitArgs),
    Serve(ServeArgs),
    Update(update::Args),
    Rollback(update::RollbackArgs),
    /// Write the image that a server has; started by the network's initrd
    #[command(hide = true)]
    Install(InstallArgs),
}

/// Make an image: Debian, Wiglaf, the cluster's users and their ssh keys
///
/// It takes root, mmdebstrap and some minutes. The disk starts by BIOS and by
/// UEFI; kernel and initrd for a start from the network lie beside it.
#[derive(Debug, clap::Args)]
struct BuildArgs {
    /// Like this configured host: its packages, changed and added files, release
    #[arg(long, value_name = "HOST", conflicts_with = "release")]
    from: Option<String>,

    /// With --from: a further folder or file, besides /etc and /usr/local
    #[arg(long = "path", value_name = "PATH", requires = "from")]
    paths: Vec<PathBuf>,

    /// With --from: a folder or file that is left out
    #[arg(long, value_name = "PATH", requires = "from")]
    exclude: Vec<PathBuf>,

    /// Debian's release, 12 or 13 [default: this machine's]
    #[arg(long, value_name = "NUMBER", value_parser = release)]
    release: Option<Release>,

    /// The image; what it replaces stays until the new one is whole
    #[arg(long, short, value_name = "FILE", default_value = "wiglaf-node.img")]
    output: PathBuf,

    /// Further Debian packages, besides those of the cluster file
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',', value_parser = package)]
    include: Vec<String>,

    /// Keep the tree of packages here, and take it again where they are the same
    #[arg(long, value_name = "DIR")]
    cache: Option<PathBuf>,

    /// Say what the image would hold, and make nothing
    #[arg(long)]
    dry_run: bool,

    /// Print the plan, or what was made, as JSON
    #[arg(long)]
    json: bool,
}

/// Write an image onto a disk
///
/// A disk that is mounted or else in use, too small, or not the one with this
/// serial number is refused before anything is written.
#[derive(Debug, clap::Args)]
struct WriteArgs {
    /// The disk, such as /dev/sdb
    disk: PathBuf,

    /// The serial number that the disk must have, as `lsblk -o NAME,SERIAL` says
    #[arg(long, value_name = "SERIAL")]
    serial: Option<String>,

    /// Overwrite it whatever its serial number is
    #[arg(long, conflicts_with = "serial")]
    wipe: bool,

    /// The image
    #[arg(long, short, value_name = "FILE", default_value = "wiglaf-node.img")]
    image: PathBuf,

    /// The node's name; with its address, where the cluster file admits it
    #[arg(long, value_name = "NAME")]
    node: Option<String>,

    /// Say what would be written, and write nothing
    #[arg(long)]
    dry_run: bool,

    /// Do not ask
    #[arg(long, short)]
    yes: bool,

    /// Print what was looked at, or written, as JSON
    #[arg(long)]
    json: bool,
}

/// Let a PC start from the network, as the cluster file then says
#[derive(Debug, clap::Args)]
struct AdmitArgs {
    /// The MAC address of the card that it starts by
    mac: Mac,

    /// The name that it gets
    node: String,

    /// The serial number of its disk that is overwritten [default: none is]
    #[arg(long, value_name = "SERIAL")]
    serial: Option<String>,

    /// Its address in the data network, besides what DHCP gives it
    #[arg(long, value_name = "ADDRESS")]
    address: Option<Ipv4Addr>,

    /// Its firmware has Secure Boot on: hand out signed files alone, and give
    /// it that address when it starts
    #[arg(long, requires = "address")]
    secure_boot: bool,
}

/// Install admitted PCs that start from the network, until Ctrl-C
///
/// dnsmasq answers beside your network's DHCP server, in the data network
/// alone. A PC that is not admitted gets nothing; one that is has the disk
/// overwritten whose serial number was admitted, once. When it has started from
/// it, with the ssh host key that was made then, it joins the cluster as yours.
#[derive(Debug, clap::Args)]
struct ServeArgs {
    /// The image; kernel and initrd lie beside it
    #[arg(long, short, value_name = "FILE", default_value = "wiglaf-node.img")]
    image: PathBuf,

    /// The TCP port that they are handed out at
    #[arg(long, default_value_t = 8077)]
    port: u16,

    /// Install these nodes again, though their disks were written once
    #[arg(long, value_name = "NODES", value_parser = HostList::parse)]
    again: Option<HostList>,

    /// Leave it to you to join what was installed
    #[arg(long)]
    no_join: bool,

    /// Say who would be answered, and answer nobody
    #[arg(long)]
    dry_run: bool,

    /// With --dry-run: print it as JSON
    #[arg(long, requires = "dry_run")]
    json: bool,
}

#[derive(Debug, clap::Args)]
struct InstallArgs {
    /// Such as http://192.168.77.1:8077
    #[arg(long)]
    server: String,
}

fn release(text: &str) -> Result<Release> {
    match text {
        "12" | "bookworm" => Ok(Release::Bookworm),
        "13" | "trixie" => Ok(Release::Trixie),
        _ => Err(Error::new("nodes get Debian 12 or 13")),
    }
}

fn package(text: &str) -> Result<String> {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-+.".contains(&b);
    match text.bytes().all(plain) && !text.starts_with('-') && !text.is_empty() {
        true => Ok(text.to_owned()),
        false => Err(Error::new("that is no name of a Debian package")),
    }
}

/// The hosts of the cluster file, if there is one of hosts.
fn cluster(global: &Global) -> Result<Option<Hosts>> {
    match global.meant()? {
        Meant::Hosts(hosts) => Ok(Some(hosts)),
        // Said in so many words, no cluster is meant.
        Meant::Emulated(_) if global.name.is_some() || global.state.is_some() => Ok(None),
        Meant::Emulated(_) => callers_file(sudo_user().as_deref()).map_or(Ok(None), |file| {
            Err(Error::new(format!(
                "sudo looks for root's cluster file; add `--file {}`, or `--name default` for no cluster",
                file.display()
            )))
        }),
    }
}

/// Who has called sudo.
fn sudo_user() -> Option<String> {
    std::env::var("SUDO_USER").ok().filter(|name| !name.is_empty() && name != "root")
}

/// The cluster file in the home of that user, if there is one.
fn callers_file(name: Option<&str>) -> Option<PathBuf> {
    let home = User::find(name?).ok()?.home;
    let file = Path::new(&home).join(".config/wiglaf/cluster.toml");
    file.is_file().then_some(file)
}

pub(crate) fn run(args: &Args, global: &Global) -> Result<ExitCode> {
    match &args.action {
        Action::Build(args) => build(args, cluster(global)?.as_ref()),
        Action::Write(args) => write(args, cluster(global)?.as_ref()),
        Action::Admit(args) => admit(args, &hosts(global)?),
        Action::Serve(args) => serve(args, &hosts(global)?),
        Action::Update(args) => update::run(args, &hosts(global)?),
        Action::Rollback(args) => update::rollback(args, &hosts(global)?),
        Action::Install(args) => {
            wiglaf_image::install(&args.server, &|line| eprintln!("wiglaf: {line}"))
        }
    }
    .map(|()| ExitCode::SUCCESS)
}

fn build(args: &BuildArgs, hosts: Option<&Hosts>) -> Result<()> {
    let from = args.from.as_ref().map(|from| wiglaf_join::model::Options {
        from: from.clone(),
        // Who called sudo has keys for that host.
        caller: sudo_user().filter(|_| rustix::process::geteuid().is_root()),
        paths: args.paths.clone(),
        excluded: args.exclude.clone(),
    });
    let options = Options {
        from,
        release: args.release,
        packages: args.include.clone(),
        output: args.output.clone(),
        cache: args.cache.clone(),
        // Who called sudo is meant, and not root.
        caller: sudo_user().unwrap_or_else(|| rustix::process::getuid().as_raw().to_string()),
    };
    let plan = wiglaf_image::plan(&options, hosts)?;
    match (args.json, args.dry_run) {
        (true, true) => output::print_json(&plan)?,
        (true, false) => {}
        (false, _) => plan.lines().iter().try_for_each(|line| {
            // Names of files come from another host.
            output::print(&output::visible(line))?;
            output::print("\n")
        })?,
    }
    if args.dry_run {
        return Ok(());
    }
    let built = plan.carry_out(&|line| eprintln!("wiglaf: {line}"))?;
    if args.json {
        return output::print_json(&built);
    }
    output::print(&format!(
        "{}: {} MB, made in {:.0} s ({:.0} s of these for the packages)\n",
        built.image.display(),
        built.image_bytes / 1_000_000,
        built.seconds,
        built.packages_seconds
    ))
}

fn write(args: &WriteArgs, hosts: Option<&Hosts>) -> Result<()> {
    let len = wiglaf_image::image_len(&args.image)?;
    let target = Target { disk: args.disk.clone(), serial: args.serial.clone(), wipe: args.wipe };
    let admitted = hosts.and_then(|hosts| {
        let image = hosts.image.as_ref()?;
        image.admit.get(args.node.as_ref()?)
    });
    let prefix = hosts.map_or(24, |hosts| hosts.network.data.parts().1);
    let settings = wiglaf_image::settings(args.node.as_deref(), admitted, prefix)?;
    let checked = target.check(&Machine::default(), len)?;
    if args.dry_run && args.json {
        return output::print_json(&checked);
    }
    let serial = checked.serial.as_deref().map_or_else(String::new, |s| format!(", serial {s}"));
    let mb = checked.bytes / 1_000_000;
    let line = format!(
        "{}: {mb} MB{serial}; {} would be lost for {}\n",
        args.disk.display(),
        checked.holds,
        args.image.display()
    );
    if !args.json {
        output::print(&output::visible(line.trim_end()))?;
        output::print("\n")?;
    }
    if args.dry_run || !is_wanted(args.yes)? {
        return Ok(());
    }
    let mut image =
        File::open(&args.image).cannot(|| format!("open the image {}", args.image.display()))?;
    let mut shown = Progress::new(len);
    let written = checked.write(&mut image, len, &settings, &mut |done| shown.tell(done))?;
    match args.json {
        true => output::print_json(&written),
        false => output::print(&format!(
            "{}: {} MB written in {:.1} s; the disk starts a node\n",
            written.disk.display(),
            written.bytes / 1_000_000,
            written.seconds
        )),
    }
}

/// How much is written: on a terminal in place, else a line for each tenth.
struct Progress {
    len: u64,
    last: u64,
    is_terminal: bool,
}

impl Progress {
    fn new(len: u64) -> Self {
        Self { len, last: 0, is_terminal: std::io::stderr().is_terminal() }
    }

    fn tell(&mut self, done: u64) {
        let step = if self.is_terminal { 1 } else { 10 };
        let percent = done * 100 / self.len.max(1) / step * step;
        if percent == self.last {
            return;
        }
        self.last = percent;
        match self.is_terminal {
            true if percent == 100 => eprintln!("\r100 % "),
            true => eprint!("\r{percent} % "),
            false => eprintln!("wiglaf: {percent} % written"),
        }
        let _ = std::io::stderr().flush();
    }
}

fn admit(args: &AdmitArgs, hosts: &Hosts) -> Result<()> {
    let admitted = Admitted {
        mac: args.mac,
        disk: args.serial.clone(),
        address: args.address,
        secure_boot: args.secure_boot,
    };
    admitted.check(&args.node)?;
    if let Some(address) = args.address.filter(|one| !hosts.network.data.contains(*one)) {
        return Err(Error::new(format!(
            "{address} is not in the data network {}",
            hosts.network.data
        )));
    }
    let cannot = || format!("read the cluster file {}", hosts.file.display());
    let text = std::fs::read_to_string(&hosts.file).cannot(cannot)?;
    let text = wiglaf_join::laid::admit(&text, &hosts.file, &args.node, &admitted)?;
    // Two names of one card, for example.
    Hosts::parse(&text, &hosts.file)?;
    wiglaf_join::laid::write_file(&hosts.file, &text)?;
    let disk = match &args.serial {
        Some(serial) => format!("its disk {serial} may be overwritten"),
        None => "no disk of it is overwritten until --serial names one".to_owned(),
    };
    output::print(&format!("{}: admitted with {}; {disk}\n", args.node, args.mac))
}

fn serve(args: &ServeArgs, hosts: &Hosts) -> Result<()> {
    let again = args.again.as_ref().map(|list| list.names().to_vec()).unwrap_or_default();
    let options = ServeOptions { image: args.image.clone(), port: args.port, again };
    let plan = wiglaf_image::serve_plan(hosts, &options)?;
    if args.json {
        return output::print_json(&plan);
    }
    let mut text = format!("on {} as {}, TCP {}\n", plan.interface, plan.address, args.port);
    text.extend(plan.admitted.iter().map(|line| format!("{line}\n")));
    if plan.admitted.is_empty() {
        text += "nobody is admitted yet: `wiglaf image admit MAC NAME --serial SERIAL`\n";
    }
    output::print(&text)?;
    if args.dry_run {
        return Ok(());
    }
    let held = Held::new(&ENDING);
    let is_over = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&is_over);
    held.pass_on(move |_| flag.store(true, Ordering::Relaxed))?;
    let file = hosts.file.clone();
    let has_batch = hosts.batch.is_some();
    let join: Option<wiglaf_image::Join> = (!args.no_join).then(|| {
        Box::new(move |newcomer: &Newcomer| join(newcomer, &file, has_batch)) as wiglaf_image::Join
    });
    plan.serve(&is_over, |line| eprintln!("wiglaf: {line}"), join.as_ref())
}

/// Has a PC that was installed join, as who called sudo, whose keys it has; then Slurm, where this host has set it up.
fn join(newcomer: &Newcomer, file: &Path, has_batch: bool) -> Result<String> {
    let name = &newcomer.name;
    let known = Known::new(&newcomer.known_hosts)?;
    let own = std::env::current_exe().cannot(|| "find the running wiglaf".to_owned())?;
    let call = |words: &[&str]| {
        let mut command = match sudo_user() {
            None => Command::new(&own),
            Some(user) => {
                let mut command = Command::new("setpriv");
                command.arg(format!("--reuid={user}")).args(["--init-groups", "--reset-env"]);
                command.arg(format!("--regid={}", User::find(&user)?.gid)).args(["--", "env"]);
                let agent = std::env::var("SSH_AUTH_SOCK").ok();
                command.args(agent.map(|agent| format!("SSH_AUTH_SOCK={agent}")));
                command.arg(format!("{KNOWN_HOSTS_VAR}={}", known.path.display())).arg(&own);
                command
            }
        };
        command.env(KNOWN_HOSTS_VAR, &known.path).arg("--file").arg(file).args(words);
        let said = command.stdin(Stdio::null()).output().cannot(|| "start wiglaf".to_owned())?;
        let text = String::from_utf8_lossy(&said.stderr);
        let last = text.lines().rfind(|line| !line.trim().is_empty()).unwrap_or_default();
        match said.status.success() {
            true => Ok(()),
            false => Err(Error::new(last.trim_start_matches("wiglaf: ").to_owned())),
        }
    };
    call(&["join", &newcomer.address.to_string(), "--yes"]).map_err(|error| {
        Error::new(format!("{name} was installed and does not join: {error}; it is tried again"))
    })?;
    if !has_batch || !wiglaf_join::joined::has_batch() {
        return Ok(format!("{name}: has joined"));
    }
    match call(&["batch", "setup", "--yes"]) {
        Ok(()) => Ok(format!("{name}: has joined, and takes batch jobs")),
        Err(error) => Ok(format!(
            "{name}: has joined; it takes no batch jobs yet: {error}; run `wiglaf batch setup`"
        )),
    }
}

/// A file that others may read, and that goes with this value.
struct Known {
    path: PathBuf,
}

impl Known {
    fn new(text: &str) -> Result<Self> {
        let path = PathBuf::from(format!("/run/wiglaf-known-{}", std::process::id()));
        std::fs::write(&path, text).cannot(|| format!("write {}", path.display()))?;
        Ok(Self { path })
    }
}

impl Drop for Known {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}
