//! MPICH's library names on other hosts: a folder of links there as here.
//!
//! A program that was built with Debian's MPICH asks for `libmpich.so.12`. The folder of links that leads it to
//! another installation ([`Installation::make_names`](wiglaf_mpi::Installation::make_names)) is in the user's cache,
//! and hosts need not share that. Without it a rank there runs on the system's MPICH, and speaks to nobody.

use std::fs;
use std::path::Path;

use wiglaf_base::error::{Context, Error, Result};
use wiglaf_node::client::NodeCommand;

use crate::cluster::{self, Member};

/// Makes links, `$1` to `$2` and so on, in the folder `$0`. What is right stays as it is: ranks may be using it.
const LINK: &str = r#"mkdir -p -- "$0" && cd -- "$0" || exit
while [ $# -gt 1 ]; do
    [ "$(readlink -- "$1")" = "$2" ] || ln -sfn -- "$2" "$1" || exit
    shift 2
done"#;

/// Makes the links of `folder` in the folder of that path on all members but this host.
///
/// # Errors
/// When the folder cannot be read here, or not be made there.
pub fn make_on(members: &[Member], folder: &Path) -> Result<()> {
    let others = cluster::elsewhere(members);
    let read = || {
        let entries = fs::read_dir(folder)?.collect::<std::io::Result<Vec<_>>>()?;
        let link =
            |entry: fs::DirEntry| Ok([entry.file_name(), fs::read_link(entry.path())?.into()]);
        entries.into_iter().map(link).collect::<std::io::Result<Vec<_>>>()
    };
    let links = read().cannot(|| format!("read {}", folder.display()))?;
    let made = cluster::ask_all(&others, |member| {
        let words = ["sh".into(), "-c".into(), LINK.into(), folder.as_os_str().to_owned()];
        let command =
            NodeCommand::new(words.into_iter().chain(links.iter().flatten().cloned())).cwd("/");
        let made = member.node.output(&command, &[]);
        made.map(drop).map_err(|why| {
            let (shown, name) = (folder.display(), member.name());
            Error::new(format!("{name}: MPICH's library names cannot be made in {shown}: {why}"))
        })
    });
    cluster::all_or_error(&others, made).map(drop)
}
