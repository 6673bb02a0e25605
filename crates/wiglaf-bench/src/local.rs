//! A launcher for a machine without nodes: all ranks here, messages over
//! loopback. For tests, and for a first look at the rivals.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use crate::error::{BenchError, Result};
use crate::facts::find_program;
use crate::launch::{Job, Launcher, Settings, Transport};

/// Starts ranks with this machine's `mpirun`.
#[derive(Debug)]
pub struct LocalMpirun {
    mpirun: PathBuf,
    cores: usize,
}

impl LocalMpirun {
    /// Finds `mpirun`.
    ///
    /// # Errors
    /// When there is none.
    pub fn new() -> Result<Self> {
        let mpirun = find_program("mpirun").ok_or_else(|| BenchError::ProgramMissing {
            program: "mpirun".into(),
            package: "openmpi-bin",
        })?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self { mpirun, cores })
    }
}

impl Launcher for LocalMpirun {
    fn settings(&self, transport: Transport) -> std::result::Result<Settings, String> {
        let pairs = loopback(transport)
            .ok_or_else(|| "this launcher knows TCP over loopback only".to_owned())?;
        Ok(pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    fn command(&self, job: &Job<'_>) -> Result<Command> {
        let mut command = Command::new(&self.mpirun);
        command.arg("-n").arg(job.ranks.to_string());
        // Core by core while they last; then let the kernel share them out.
        if job.ranks <= self.cores {
            command.args(["--bind-to", "core"]);
        } else {
            command.args(["--oversubscribe", "--bind-to", "none"]);
        }
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
        command.arg(job.program).args(job.args).current_dir(job.dir);
        command.envs(job.settings).envs(job.env.iter().map(|(k, v)| (k, v)));
        Ok(command)
    }

    fn node_count(&self) -> usize {
        1
    }

    fn facts(&self) -> BTreeMap<String, String> {
        [("nodes", "1, this machine"), ("interface", "lo")]
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .into()
    }
}

/// The environment that makes Debian's Open MPI 4.1 carry everything over TCP
/// although all ranks are here: without shared memory, and with `lo`, which
/// it leaves out by default.
///
/// Debian's own settings switch UCX and libfabric off, Open MPI leaves UCX to
/// InfiniBand and libfabric's `tcp` to nobody; each variable undoes that.
fn loopback(transport: Transport) -> Option<&'static [(&'static str, &'static str)]> {
    Some(match transport {
        Transport::Tcp => &[
            ("OMPI_MCA_pml", "ob1"),
            ("OMPI_MCA_btl", "self,tcp"),
            ("OMPI_MCA_btl_tcp_if_include", "lo"),
        ],
        Transport::Ucx => &[
            ("OMPI_MCA_pml", "ucx"),
            ("OMPI_MCA_pml_ucx_tls", "any"),
            ("OMPI_MCA_pml_ucx_devices", "any"),
            ("UCX_TLS", "self,tcp"),
            ("UCX_NET_DEVICES", "lo"),
        ],
        Transport::OfiTcp => &[
            ("OMPI_MCA_pml", "cm"),
            ("OMPI_MCA_mtl", "ofi"),
            ("OMPI_MCA_mtl_ofi_provider_include", "tcp;ofi_rxm"),
            ("FI_TCP_IFACE", "lo"),
        ],
        Transport::OfiRxd
        | Transport::Wiglaf
        | Transport::WiglafUdp
        | Transport::WiglafPacket
        | Transport::WiglafXdp
        | Transport::WiglafXdpNative
        | Transport::WiglafMulticast
        | Transport::Vader
        | Transport::UcxShm => return None,
    })
}
