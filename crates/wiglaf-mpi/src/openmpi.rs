//! Open MPI's part of the table: MCA parameters, and from version 5 on those of
//! its launcher, which became a project of its own (PRRTE).

use wiglaf_base::error::Result;

use super::{Installation, Settings, Table, Transport};

/// Lists the variables that mpirun hands to remote ranks.
pub(super) const ENV_LIST: &str = "OMPI_MCA_mca_base_env_list";
/// What else ranks need; mpirun hands OMPI_MCA_ on by itself.
pub(super) const FORWARDED_PREFIXES: &[&str] = &["OPAL_PREFIX", "PMIX_PREFIX"];

/// The provider's name.
const WIGLAF: &str = "wiglaf";

/// Sets everything.
pub(super) fn set(settings: &Settings, mpi: &Installation, table: &mut Table<'_>) -> Result<()> {
    let prrte = mpi.major() >= 5;
    launching(settings, prrte, table);
    // Version 5 calls its shared memory sm, and has no osc=pt2pt. Windows that the ranks of a node
    // share are osc=sm's alone.
    let (memory, osc) = if prrte { ("sm", "rdma,sm") } else { ("vader", "rdma,sm,pt2pt") };
    match settings.transport {
        Transport::Wiglaf => {
            settings.provider(table)?;
            if (table.user)("OMPI_MCA_pml").as_deref() == Some("ob1") {
                over_btl(table, prrte);
            } else {
                libfabric(table, WIGLAF, prrte);
            }
        }
        Transport::Tcp => {
            table.choose("OMPI_MCA_pml", "ob1");
            table.choose("OMPI_MCA_btl", &format!("self,{memory},tcp"));
            // Debian switches the other one-sided ways off.
            table.default("OMPI_MCA_osc", osc);
        }
        Transport::Ucx => ucx(settings, table),
        Transport::OfiTcp => {
            libfabric(table, "tcp;ofi_rxm", prrte);
            if let Some(interface) = &settings.interface {
                table.default("FI_TCP_IFACE", interface);
            }
        }
        Transport::OfiRxd => {
            libfabric(table, "udp;ofi_rxd", prrte);
            if let Some(interface) = &settings.interface {
                table.default("FI_UDP_IFACE", interface);
            }
        }
    }
    Ok(())
}

fn launching(settings: &Settings, prrte: bool, table: &mut Table<'_>) {
    if let Some(agent) = &settings.agent {
        let name = if prrte { "PRTE_MCA_plm_ssh_agent" } else { "OMPI_MCA_plm_rsh_agent" };
        table.choose(name, agent);
    }
    if let Some(interface) = &settings.interface {
        let names: &[&str] = match prrte {
            true => &["PRTE_MCA_prte_if_include", "PMIX_MCA_ptl_tcp_if_include"],
            false => &["OMPI_MCA_oob_tcp_if_include"],
        };
        for name in names.iter().chain(&["OMPI_MCA_btl_tcp_if_include"]) {
            table.choose(name, interface);
        }
    }
    if settings.as_root {
        let prefixes: &[&str] = if prrte { &["OMPI", "PRTE"] } else { &["OMPI"] };
        for prefix in prefixes {
            table.choose(&format!("{prefix}_ALLOW_RUN_AS_ROOT"), "1");
            table.choose(&format!("{prefix}_ALLOW_RUN_AS_ROOT_CONFIRM"), "1");
        }
    }
    if settings.leased {
        // When a rank dies, it waits so many seconds at each step of ending the others, 2 or 3 in all.
        let framework = if prrte { "PRTE" } else { "OMPI" };
        table.default(&format!("{framework}_MCA_odls_base_sigkill_timeout"), "0");
    }
    // The nodes pin already; a policy of Open MPI's would work against it.
    let binding = match prrte {
        true => "PRTE_MCA_hwloc_default_binding_policy",
        false => "OMPI_MCA_hwloc_base_binding_policy",
    };
    table.default(binding, "none");
    if settings.oversubscribed {
        table.default("OMPI_MCA_mpi_yield_when_idle", "1");
    }
}

/// pml/ob1 over the provider, where the user asks for it: matching is then Open MPI's own, as over
/// TCP. Slower, but free of what is wrong in pml/cm and mtl/ofi of version 4 (docs/mpis.md).
fn over_btl(table: &mut Table<'_>, prrte: bool) {
    table.choose("OMPI_MCA_pml", "ob1");
    btl_ofi(table);
    // Messages as well as remote memory.
    table.choose("OMPI_MCA_btl_ofi_mode", "2");
    table.default("OMPI_MCA_osc", if prrte { "sm,rdma" } else { "sm,pt2pt" });
}

/// btl/ofi over Wiglaf's provider.
fn btl_ofi(table: &mut Table<'_>) {
    table.choose("OMPI_MCA_btl", "self,ofi");
    table.choose("OMPI_MCA_btl_ofi_provider_include", WIGLAF);
    // Else accumulates other than sums end the job ("unsupported atomic op").
    table.default("OMPI_MCA_osc_rdma_acc_use_amo", "0");
}

/// pml/cm over one provider. Windows: version 5 has no osc=pt2pt any more and
/// takes its one-sided operations from a btl.
fn libfabric(table: &mut Table<'_>, provider: &str, prrte: bool) {
    table.choose("OMPI_MCA_pml", "cm");
    table.choose("OMPI_MCA_mtl", "ofi");
    table.choose("OMPI_MCA_mtl_ofi_provider_include", provider);
    // The only kind of windows of version 5, and the user's choice in version 4.
    let asked = |osc: String| osc.split(',').any(|name| name == "rdma");
    let windows_by_rdma = prrte || (table.user)("OMPI_MCA_osc").is_some_and(asked);
    if windows_by_rdma && provider == WIGLAF {
        btl_ofi(table);
        table.default("OMPI_MCA_osc", "sm,rdma");
    } else if !prrte {
        // pml/cm carries everything; further transports would only open sockets.
        table.choose("OMPI_MCA_btl", "self");
        table.default("OMPI_MCA_osc", "sm,pt2pt");
    } else {
        // btl/ofi finds no remote memory in tcp;ofi_rxm.
        table.choose("OMPI_MCA_btl", "self,tcp");
        table.default("OMPI_MCA_osc", "sm,rdma");
    }
}

fn ucx(settings: &Settings, table: &mut Table<'_>) {
    table.choose("OMPI_MCA_pml", "ucx");
    // Whatever windows a program asks for: over osc/pt2pt NWChem hangs with Debian's pml/ucx.
    table.choose("OMPI_MCA_osc", "ucx");
    table.choose("OMPI_MCA_btl", "self");
    // Else it steps back where it finds no InfiniBand.
    for name in ["pml_ucx_tls", "pml_ucx_devices", "common_ucx_tls", "common_ucx_devices"] {
        table.choose(&format!("OMPI_MCA_{name}"), "any");
    }
    settings.ucx_over_tcp(table);
}
