//! `xtask hosts`: stand-in hosts for a developer, until Ctrl-C.

use std::path::{Path, PathBuf};

use wiglaf_testhosts::{Hosts, Plan};

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
    /// Let sudo ask ann for no password.
    #[arg(long)]
    sudo: bool,
    /// A root file system to begin with, for example one of mmdebstrap, instead of this machine's.
    #[arg(long)]
    root: Option<PathBuf>,
}

/// Brings them up and waits. With this process they go away, however it ends.
pub(crate) fn run(arguments: &Arguments) -> Result<(), String> {
    let mut plan = Plan::new(usize::from(arguments.count));
    if arguments.sudo {
        plan = plan.with_sudo();
    }
    if arguments.keep {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
        plan.folder = root.map(|root| root.join("target/hosts"));
    }
    for host in &mut plan.hosts {
        host.root.clone_from(&arguments.root);
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
