//! What all commands are told.

use std::path::PathBuf;

use clap::Args;
use wiglaf_base::paths::STATE_VAR;
use wiglaf_cluster::StateDir;
use wiglaf_cluster::state::NAME_DEFAULT;

/// Which cluster is meant.
#[derive(Debug, Clone, Args)]
pub(crate) struct Global {
    /// Name of the cluster [default: default]
    #[arg(long, global = true, value_name = "NAME", value_parser = cluster_name)]
    #[arg(help_heading = "Which cluster")]
    pub(crate) name: Option<String>,

    /// Folder that holds all state of the cluster
    /// [default: $WIGLAF_STATE, or /run/wiglaf/NAME]
    #[arg(long, global = true, value_name = "DIR")]
    #[arg(help_heading = "Which cluster")]
    pub(crate) state: Option<PathBuf>,

    /// The cluster file [default: $WIGLAF_CLUSTER, ./wiglaf.toml,
    /// ~/.config/wiglaf/cluster.toml or /etc/wiglaf/cluster.toml, where it
    /// describes real hosts]
    #[arg(long, short, global = true, value_name = "FILE")]
    #[arg(help_heading = "Which cluster")]
    pub(crate) file: Option<PathBuf>,
}

impl Global {
    /// The folder of the cluster that is meant.
    pub(crate) fn state_dir(&self) -> StateDir {
        self.state_dir_or(None)
    }

    /// The folder of the cluster that is meant, where a cluster file may have named it.
    pub(crate) fn state_dir_or(&self, name_in_file: Option<&str>) -> StateDir {
        let by_env = || std::env::var_os(STATE_VAR).filter(|v| !v.is_empty()).map(PathBuf::from);
        let path = match (&self.state, &self.name) {
            (Some(path), _) => Some(path.clone()),
            (None, Some(_)) => None,
            (None, None) => by_env(),
        };
        let path = path.map(|p| std::path::absolute(&p).unwrap_or(p));
        let name = self.name.as_deref().or(name_in_file).unwrap_or(NAME_DEFAULT);
        StateDir::new(path.as_deref(), name)
    }
}

/// A name that may be a folder's.
fn cluster_name(text: &str) -> Result<String, String> {
    wiglaf_cluster::shape::check_cluster_name(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

/// What was typed behind `wiglaf`.
pub(crate) fn typed() -> Vec<String> {
    std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect()
}
