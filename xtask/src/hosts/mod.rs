//! `xtask hosts`: stand-in hosts for a developer, until Ctrl-C.

mod figures;

use std::path::{Path, PathBuf};

use wiglaf_testhosts::{Hosts, Plan};

use crate::debians::{self, Release};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// How many hosts.
    #[arg(default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=200))]
    count: u8,
    /// Keep their disks in target/hosts, where the next hosts go on with them.
    #[arg(long)]
    keep: bool,
    /// Install the release build on them (make release).
    #[arg(long)]
    install: bool,
    /// Instead, measure on four hosts: first hello, exec beside clush, run beside mpirun over TCP, check, power off.
    /// Takes clush (apt-get install clustershell), and 3 minutes.
    #[arg(long, exclusive = true)]
    figures: bool,
    /// Let sudo ask ann for no password.
    #[arg(long)]
    sudo: bool,
    /// A root file system to begin with, for example one of mmdebstrap, instead of this machine's.
    #[arg(long, conflicts_with = "releases")]
    root: Option<PathBuf>,
    /// Releases of Debian in place of this machine's, one after the other: `--releases 12,13` for pc1 of 12, pc2
    /// of 13, pc3 of 12 (their roots are made by mmdebstrap the first time, in some minutes).
    #[arg(long, value_delimiter = ',', value_enum)]
    releases: Vec<Release>,
}

/// Brings them up and waits. With this process they go away, however it ends.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    if arguments.figures {
        return figures::measure();
    }
    let mut plan = Plan::new(usize::from(arguments.count));
    if arguments.sudo {
        plan = plan.with_sudo();
    }
    if arguments.keep {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        plan.folder = root.map(|root| root.join("target/hosts"));
    }
    let roots = arguments.releases.iter().map(|release| debians::host_root(*release));
    let roots = roots.collect::<Result<Vec<_>, _>>()?;
    let mut releases = roots.iter().cycle();
    for host in &mut plan.hosts {
        host.root = releases.next().cloned().or_else(|| arguments.root.clone());
    }
    let hosts = Hosts::up(&plan).map_err(|why| why.to_string())?;
    if arguments.install {
        hosts.install()?;
    }
    println!("{} hosts are up; their disks: {}", hosts.len(), hosts.folder().display());
    for host in hosts.iter() {
        let plan = host.plan();
        println!(
            "{}: {} on {}, {} on {}\n  {}",
            host.name(),
            plan.data.address,
            plan.data.interface,
            plan.admin.address,
            plan.admin.interface,
            host.enter_line("ann").unwrap_or_default()
        );
    }
    println!("ssh works between all of them. Ctrl-C ends them.");
    loop {
        std::thread::park();
    }
}
