//! `wiglaf env`.

use std::collections::BTreeMap;
use std::process::ExitCode;

use clap::ValueEnum;
use wiglaf_cluster::fortran::FortranTrue;
use wiglaf_cluster::{Result, mpi};

use crate::output;
use crate::run::{LinkArg, TransportArg};
use crate::up::this_exe;

const HELP: &str = "\
Examples:
  eval \"$(wiglaf env)\"               from now on, mpirun uses Wiglaf
  eval \"$(wiglaf env --transport tcp)\"
  wiglaf exec -w node1 -- sh -c \\
    'eval \"$(wiglaf env)\"; mpirun -n 2 --host node1,node2 ./hello'

On a node of an emulated cluster, the variables also let mpirun reach the other
nodes. The secret of the job (WIGLAF_KEY) is drawn anew at every call. mpirun
hands the variables on through OMPI_MCA_mca_base_env_list, which does not go
together with mpirun's own option -x.";

/// Print the environment that makes your own mpirun use Wiglaf
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// For which MPI
    #[arg(value_enum, default_value_t = EnvMpi::Openmpi)]
    mpi: EnvMpi,

    /// How MPI messages travel
    #[arg(long, value_enum, default_value_t = TransportArg::Wiglaf)]
    transport: TransportArg,

    /// Which of Wiglaf's links
    #[arg(long, value_enum, default_value_t = LinkArg::Auto)]
    link: LinkArg,

    /// What the program's compiler stores for .TRUE.: 1 or -1
    #[arg(long, value_name = "VALUE", default_value = "1", allow_negative_numbers = true)]
    fortran_true: FortranTrue,

    /// The only interface to use
    #[arg(long, value_name = "NAME")]
    interface: Option<String>,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum EnvMpi {
    /// The installed Open MPI
    Openmpi,
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    let EnvMpi::Openmpi = args.mpi;
    let transport = args.transport.into();
    let vars = mpi::own_environment(
        transport,
        args.link.into(),
        args.interface.clone(),
        args.fortran_true,
        &this_exe()?,
    )?;
    if args.json {
        output::print_json(&vars.into_iter().collect::<BTreeMap<_, _>>())?;
    } else {
        let lines = vars.iter().map(|(name, value)| format!("export {name}={}\n", quote(value)));
        output::print(&lines.collect::<String>())?;
    }
    Ok(ExitCode::SUCCESS)
}

/// As a shell reads back what it is.
fn quote(value: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-_./,:^=+@%".contains(&b);
    if !value.is_empty() && value.bytes().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shells_read_back_what_is_quoted() {
        for value in ["", "plain", "two words", "a;b", "it's", "$HOME `x` \"y\" \\"] {
            let script = format!("printf %s {}", quote(value));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), value);
        }
    }
}
