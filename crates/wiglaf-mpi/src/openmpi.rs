//! Open MPI's part of the table: MCA parameters, and from version 5 on those of
//! its launcher, which became a project of its own (PRRTE).

use wiglaf_base::error::Result;

use super::{Family, Installation, LibfabricChoice, Settings, Table, Transport};

/// Lists the variables that mpirun hands to remote ranks.
pub(super) const ENV_LIST: &str = "OMPI_MCA_mca_base_env_list";
/// What else ranks need; mpirun hands OMPI_MCA_ on by itself.
pub(super) const FORWARDED_PREFIXES: &[&str] = &["OPAL_PREFIX", "PMIX_PREFIX"];

/// The provider's name.
const WIGLAF: &str = "wiglaf";
/// Windows fail over pml/cm from here: osc/rdma is the only way left, and finds no btl.
const WINDOWS_NEED_OB1: [u32; 1] = [5];
/// And work from here.
const WINDOWS_NEED_OB1_NO_MORE: [u32; 3] = [5, 0, 9];

/// What differs between versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Version {
    /// The launcher is PRRTE, shared memory is called sm, and there is no osc=pt2pt.
    prrte: bool,
    /// PRRTE's parameters have the names of its version 4 and later.
    renamed: bool,
}

impl Version {
    fn of(mpi: &Installation) -> Self {
        Self { prrte: mpi.is_prrte(), renamed: mpi.is_at_least(&[6]) }
    }
}

/// Whether pml/ob1 has to carry messages for windows to work.
#[must_use]
pub fn windows_need_ob1(mpi: &Installation) -> bool {
    mpi.family == Family::OpenMpi
        && mpi.is_at_least(&WINDOWS_NEED_OB1)
        && !mpi.is_at_least(&WINDOWS_NEED_OB1_NO_MORE)
}

/// Whether its launcher never closes a program's standard input, so that one that reads to the end of `< FILE`
/// waits for ever: 5.0.11 was seen to, and 5.0.8 to 5.0.10 not (docs/mpis.md).
#[must_use]
pub fn never_ends_stdin(mpi: &Installation) -> bool {
    mpi.family == Family::OpenMpi && mpi.version == "5.0.11"
}

/// Sets everything.
pub(super) fn set(settings: &Settings, mpi: &Installation, table: &mut Table<'_>) -> Result<()> {
    let version = Version::of(mpi);
    let prrte = version.prrte;
    launching(settings, version, table);
    if prrte {
        // What coll/han gathers between nodes is wrong where a type has gaps or was resized
        // (findings/openmpi-gather-columns.sh): 3 is coll/tuned in its place.
        for operation in ["gather", "allgather"] {
            let name = format!("OMPI_MCA_coll_han_{operation}_dynamic_global_communicator_module");
            table.default(&name, "3");
        }
    }
    // Windows that the ranks of a node share are osc=sm's alone.
    let (memory, osc) = if prrte { ("sm", "rdma,sm") } else { ("vader", "rdma,sm,pt2pt") };
    match settings.transport {
        Transport::Wiglaf => {
            settings.provider(table)?;
            only_wiglaf(settings, table);
            let pml = (table.user)("OMPI_MCA_pml");
            // Whoever asks for cm does without windows.
            let asks_for_cm = pml.as_deref() == Some("cm");
            let needs_ob1 = windows_need_ob1(mpi) && !settings.without_windows;
            if pml.as_deref() == Some("ob1") || needs_ob1 && !asks_for_cm {
                over_btl(table, prrte);
            } else {
                libfabric(table, WIGLAF, prrte, settings.without_windows);
            }
        }
        Transport::Tcp => {
            table.choose("OMPI_MCA_pml", "ob1");
            let keeps_tcp = |btl: String| btl.split(',').any(|name| name == "tcp");
            if !(table.user)("OMPI_MCA_btl").is_some_and(keeps_tcp) {
                table.choose("OMPI_MCA_btl", &format!("self,{memory},tcp"));
            }
            // Debian switches the other one-sided ways off.
            table.default("OMPI_MCA_osc", osc);
        }
        Transport::Ucx => ucx(settings, table),
        Transport::OfiTcp => {
            libfabric(table, "tcp;ofi_rxm", prrte, false);
            settings.interface_of_libfabric("FI_TCP_IFACE", table);
        }
        Transport::OfiRxd => {
            libfabric(table, "udp;ofi_rxd", prrte, false);
            settings.interface_of_libfabric("FI_UDP_IFACE", table);
        }
    }
    Ok(())
}

/// libfabric starts all of its providers before it asks one; in version 2.1 that of verbs alone takes
/// 0.45 s where there is no such card. Wiglaf's own libfabric ([`super::Front`]) does not; where it
/// cannot stand, libfabric is told to start no other. Programs that use another provider themselves say
/// so by FI_PROVIDER, or take `--libfabric system`.
fn only_wiglaf(settings: &Settings, table: &mut Table<'_>) {
    if settings.front.is_none() && settings.libfabric == LibfabricChoice::Auto {
        table.default("FI_PROVIDER", WIGLAF);
    }
}

fn launching(settings: &Settings, version: Version, table: &mut Table<'_>) {
    let prrte = version.prrte;
    if let Some(agent) = &settings.agent {
        let name = if prrte { "PRTE_MCA_plm_ssh_agent" } else { "OMPI_MCA_plm_rsh_agent" };
        table.choose(name, agent);
    }
    interfaces(settings, prrte, table);
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
    if let Some(silence) = settings.silence {
        let prefix = match (prrte, version.renamed) {
            (_, true) => "PRTE_MCA_prte",
            (true, false) => "PRTE_MCA_oob_tcp",
            (false, false) => "OMPI_MCA_oob_tcp",
        };
        // Seconds until it asks a silent host, between such questions, and how many go unanswered.
        let count = silence.as_secs().saturating_sub(1).max(1).to_string();
        for (name, value) in [("time", "1"), ("intvl", "1"), ("probes", &count)] {
            table.default(&format!("{prefix}_keepalive_{name}"), value);
        }
    }
    // The nodes pin already; a policy of Open MPI's would work against it.
    let binding = match (prrte, version.renamed) {
        (_, true) => "PRTE_MCA_bindto",
        (true, false) => "PRTE_MCA_hwloc_default_binding_policy",
        (false, false) => "OMPI_MCA_hwloc_base_binding_policy",
    };
    table.default(binding, "none");
    if settings.oversubscribed {
        // Wiglaf's provider yields by itself, and knows when another task takes the core for long.
        let yields = if settings.transport == Transport::Wiglaf { "0" } else { "1" };
        table.default("OMPI_MCA_mpi_yield_when_idle", yields);
    }
}

/// Each of the launcher's and Open MPI's own connections, by name or by network.
fn interfaces(settings: &Settings, prrte: bool, table: &mut Table<'_>) {
    let Some(include) = settings.include() else { return };
    // PMIx refuses to work without the loopback from version 7 on; earlier ones take it, too.
    let with_loopback = format!("lo,{include}");
    let launchers: &[(&[&str], &str)] = match prrte {
        true => &[
            (&["PRTE_MCA_prte_if", "PRTE_MCA_oob_tcp_if"], include),
            (&["PMIX_MCA_ptl_base_if", "PMIX_MCA_ptl_tcp_if"], &with_loopback),
        ],
        false => &[(&["OMPI_MCA_oob_tcp_if"], include)],
    };
    for (names, include) in launchers.iter().chain(&[(&["OMPI_MCA_btl_tcp_if"][..], include)]) {
        // Each name has a twin, and the two exclude each other.
        let theirs =
            names.iter().flat_map(|name| ["include", "exclude"].map(|w| format!("{name}_{w}")));
        settings.direct(&format!("{}_include", names[0]), theirs, include, table);
    }
}

/// pml/ob1 over the provider, where the user asks for it, or windows take it: matching is then Open MPI's
/// own, as over TCP. Slower, but free of what is wrong in pml/cm and mtl/ofi of version 4 (docs/mpis.md).
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
fn libfabric(table: &mut Table<'_>, provider: &str, prrte: bool, without_windows: bool) {
    table.choose("OMPI_MCA_pml", "cm");
    table.choose("OMPI_MCA_mtl", "ofi");
    table.choose("OMPI_MCA_mtl_ofi_provider_include", provider);
    // The only kind of windows of version 5, and the user's choice in version 4.
    let asked = |osc: String| osc.split(',').any(|name| name == "rdma");
    let windows_by_rdma =
        prrte && !without_windows || (table.user)("OMPI_MCA_osc").is_some_and(asked);
    if windows_by_rdma && provider == WIGLAF {
        btl_ofi(table);
        table.default("OMPI_MCA_osc", "sm,rdma");
    } else if prrte && without_windows {
        // btl/ofi would cost a second when it is closed.
        table.choose("OMPI_MCA_btl", "self");
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
