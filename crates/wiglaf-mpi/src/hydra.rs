//! The part of the table for MPICH and Intel MPI, which share hydra and the
//! device ch4.

use wiglaf_base::error::Result;

use super::{Family, Front, Installation, Libfabric, Settings, Table, Transport};

/// Says which variables hydra hands to ranks. By default it hands on all of its
/// own, among them what belongs to the node that it runs on. A list in it keeps
/// hydra from that and hands on nothing: only its option -genvlist does.
pub(super) const ENV_LIST: &str = "HYDRA_ENV";
/// Begins a list in it.
pub(super) const LIST: &str = "list:";
/// What else ranks need.
pub(super) const FORWARDED_PREFIXES: &[&str] = &["MPIR_CVAR_", "MPICH_", "I_MPI_"];

/// With these fabrics Intel MPI takes its algorithm 5 for short messages, which delivers strided elements wrong
/// (findings/impi-allgather-strided.sh). In its place recursive doubling up to so many bytes, then the ring: MPICH's
/// two, and a limit between its own; not tuned.
const INTEL_ALLGATHER: &str = "1:0-32767;3:32768-2147483647";

/// Sets everything.
pub(super) fn set(settings: &Settings, mpi: &Installation, table: &mut Table<'_>) -> Result<()> {
    launching(settings, mpi.family, table);
    match settings.transport {
        Transport::Wiglaf => {
            settings.provider(table)?;
            libfabric(mpi, settings.front.as_ref(), table, "wiglaf");
            // The provider waits for all ranks at once, those of the own node
            // too. Beside another shared memory it would sleep through that
            // one's messages.
            match mpi.family {
                Family::Intel => {
                    table.default("I_MPI_FABRICS", "ofi");
                    table.default("I_MPI_ADJUST_ALLGATHER", INTEL_ALLGATHER);
                }
                _ => {
                    table.default("MPIR_CVAR_NOLOCAL", "1");
                    // Its probes of any source miss what a rank has sent itself (docs/mpis.md).
                    table.default("WIGLAF_LATE_PEEKS", "on");
                }
            }
        }
        // Debian's MPICH has no libfabric to choose `tcp` of.
        Transport::Tcp if !mpi.libfabric().is_there() && mpi.has_ucx() => ucx(settings, table),
        Transport::Tcp => over_tcp(settings, mpi, table, "tcp"),
        Transport::OfiTcp => over_tcp(settings, mpi, table, "tcp;ofi_rxm"),
        Transport::OfiRxd => over_tcp(settings, mpi, table, "udp;ofi_rxd"),
        Transport::Ucx => ucx(settings, table),
    }
    Ok(())
}

fn ucx(settings: &Settings, table: &mut Table<'_>) {
    table.choose("MPIR_CVAR_CH4_NETMOD", "ucx");
    settings.ucx_over_tcp(table);
}

fn launching(settings: &Settings, family: Family, table: &mut Table<'_>) {
    let (launcher, exec, interface) = match family {
        Family::Intel => {
            ("I_MPI_HYDRA_BOOTSTRAP", "I_MPI_HYDRA_BOOTSTRAP_EXEC", "I_MPI_HYDRA_IFACE")
        }
        _ => ("HYDRA_LAUNCHER", "HYDRA_LAUNCHER_EXEC", "HYDRA_IFACE"),
    };
    if let Some(agent) = &settings.agent {
        table.choose(launcher, "rsh");
        table.choose(exec, agent);
    }
    // Where the launcher itself listens; it knows names only, and other hosts need not have this one.
    let own = settings.network.as_ref().map_or(&settings.interface, |network| &network.interface);
    if let Some(name) = own {
        settings.direct(interface, [interface.to_owned()].into_iter(), name, table);
    }
    // Wiglaf's provider yields by itself, and knows when another task takes the core for long.
    let yields = settings.oversubscribed && settings.transport != Transport::Wiglaf;
    if family == Family::Intel {
        // The nodes pin already.
        table.default("I_MPI_PIN", "0");
        if yields {
            table.default("I_MPI_THREAD_YIELD", "2");
        }
    } else if yields {
        table.default("MPIR_CVAR_POLLS_BEFORE_YIELD", "1");
    }
}

/// libfabric with one provider.
fn libfabric(mpi: &Installation, front: Option<&Front>, table: &mut Table<'_>, provider: &str) {
    table.choose("FI_PROVIDER", provider);
    if mpi.family != Family::Intel {
        table.choose("MPIR_CVAR_CH4_NETMOD", "ofi");
        return;
    }
    table.choose("I_MPI_OFI_PROVIDER", provider);
    // It looks for none where others do.
    if let Some(front) = front {
        table.default("I_MPI_OFI_LIBRARY", &front.library().display().to_string());
    } else if let Libfabric::Loads(path) = mpi.libfabric() {
        table.default("I_MPI_OFI_LIBRARY", &path.display().to_string());
    }
}

fn over_tcp(settings: &Settings, mpi: &Installation, table: &mut Table<'_>, provider: &str) {
    libfabric(mpi, None, table, provider);
    let name = if provider.starts_with("udp") { "FI_UDP_IFACE" } else { "FI_TCP_IFACE" };
    settings.interface_of_libfabric(name, table);
}
