//! The tables, without a machine that has the MPIs.

use super::*;

fn nobody(_: &str) -> Option<String> {
    None
}

fn get<'a>(vars: &'a [(String, String)], name: &str) -> Option<&'a str> {
    vars.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str())
}

fn mpi(family: Family, version: &str) -> Installation {
    Installation {
        family,
        version: version.to_owned(),
        origin: Origin::Prefix,
        prefix: "/w".into(),
        launcher: "/w/bin/mpiexec".into(),
        library: "/w/lib/libmpi.so".into(),
        library_dirs: vec!["/w/lib".into()],
        wrappers: Wrappers::default(),
    }
}

fn over_wiglaf() -> Settings {
    Settings {
        key: "00".repeat(16),
        provider_dir: Some("/lib/w".into()),
        link: Link::Packet,
        agent: Some("/usr/bin/agent".to_owned()),
        interface: Some("eth0".to_owned()),
        as_root: true,
        leased: false,
        ..Settings::default()
    }
}

#[test]
fn wiglaf_goes_through_libfabric_and_reaches_remote_ranks() {
    let vars = over_wiglaf().environment(&mpi(Family::OpenMpi, "4.1.4"), &nobody).unwrap();
    assert_eq!(get(&vars, "OMPI_MCA_mtl_ofi_provider_include"), Some("wiglaf"));
    assert_eq!(get(&vars, "WIGLAF_LINK"), Some("packet"));
    assert_eq!(get(&vars, "FI_PROVIDER_PATH"), Some("/lib/w"));
    let names = ["HOME", "WIGLAF_NODE", "UCX_LOG_LEVEL"].map(str::to_owned);
    let (name, list) =
        forwarding(Family::OpenMpi, false, &vars, names.into_iter(), &nobody).unwrap();
    assert_eq!(name, openmpi::ENV_LIST);
    assert_eq!(
        list,
        "FI_PROVIDER_PATH;LD_LIBRARY_PATH;OPAL_PREFIX;PMIX_PREFIX;UCX_LOG_LEVEL;WIGLAF_IF;\
         WIGLAF_KEY;WIGLAF_LINK"
    );
}

#[test]
fn each_launcher_gets_the_agent_by_its_own_variable() {
    for (family, version, variable) in [
        (Family::OpenMpi, "4.1.4", "OMPI_MCA_plm_rsh_agent"),
        (Family::OpenMpi, "5.0.11", "PRTE_MCA_plm_ssh_agent"),
        (Family::Mpich, "4.3.2", "HYDRA_LAUNCHER_EXEC"),
        (Family::Intel, "2021.19.0", "I_MPI_HYDRA_BOOTSTRAP_EXEC"),
    ] {
        let vars = over_wiglaf().environment(&mpi(family, version), &nobody).unwrap();
        assert_eq!(get(&vars, variable), Some("/usr/bin/agent"), "{family} {version}");
        assert_eq!(get(&vars, "WIGLAF_IF"), Some("eth0"), "{family} {version}");
        let list = |by_agent| forwarding(family, by_agent, &vars, std::iter::empty(), &nobody);
        let ((_, alone), (_, list)) = (list(false).unwrap(), list(true).unwrap());
        assert!(alone.contains("WIGLAF_KEY"), "ssh hands nothing on: {alone}");
        // Whoever records the start of a job would have it.
        assert!(!list.contains("WIGLAF_KEY") && list.contains("LD_LIBRARY_PATH"), "{list}");
        assert!(!list.contains("AGENT") && !list.contains("HYDRA_"), "{list}");
    }
}

#[test]
fn mpich_sends_everything_through_the_provider_unless_told_otherwise() {
    let mpich = mpi(Family::Mpich, "5.0.2");
    let vars = over_wiglaf().environment(&mpich, &nobody).unwrap();
    assert_eq!(get(&vars, "FI_PROVIDER"), Some("wiglaf"));
    assert_eq!(get(&vars, "MPIR_CVAR_CH4_NETMOD"), Some("ofi"));
    assert_eq!(get(&vars, "MPIR_CVAR_NOLOCAL"), Some("1"));
    assert_eq!(get(&vars, "WIGLAF_LATE_PEEKS"), Some("on"));
    let user = |name: &str| (name == "MPIR_CVAR_NOLOCAL").then(|| "0".to_owned());
    let vars = over_wiglaf().environment(&mpich, &user).unwrap();
    assert_eq!(get(&vars, "MPIR_CVAR_NOLOCAL"), None);
}

#[test]
fn windows_of_open_mpi_go_through_the_provider_too() {
    let osc = |version: &str| {
        let vars = over_wiglaf().environment(&mpi(Family::OpenMpi, version), &nobody).unwrap();
        ["OMPI_MCA_osc", "OMPI_MCA_btl"].map(|name| get(&vars, name).unwrap().to_owned())
    };
    assert_eq!(osc("4.1.4"), ["sm,pt2pt", "self"]);
    assert_eq!(osc("5.0.11"), ["sm,rdma", "self,ofi"]);
}

#[test]
fn a_libfabric_of_our_own_comes_first_and_knows_the_other() {
    let front = Front { dir: "/lib/w/wiglaf-libfabric".into(), behind: "/usr/lib/f.so.1".into() };
    let settings = Settings { front: Some(front), ..over_wiglaf() };
    let user = |name: &str| (name == LIBRARY_PATH).then(|| "/old/wiglaf-libfabric:/u".to_owned());
    for (family, file) in [
        (Family::OpenMpi, None),
        (Family::Mpich, None),
        (Family::Intel, Some("/lib/w/wiglaf-libfabric/libfabric.so.1")),
    ] {
        let vars = settings.environment(&mpi(family, "4"), &user).unwrap();
        assert_eq!(get(&vars, LIBRARY_PATH), Some("/lib/w/wiglaf-libfabric:/w/lib:/u"), "{family}");
        assert_eq!(get(&vars, "WIGLAF_LIBFABRIC"), Some("/usr/lib/f.so.1"), "{family}");
        assert_eq!(get(&vars, "I_MPI_OFI_LIBRARY"), file, "{family}");
    }
    // Others do not meet it, though `wiglaf env` has put it there.
    let settings = Settings { transport: Transport::OfiTcp, ..Settings::default() };
    let vars = settings.environment(&mpi(Family::OpenMpi, "4.1.4"), &user).unwrap();
    assert_eq!(get(&vars, LIBRARY_PATH), Some("/w/lib:/u"));
    let system = Installation { library_dirs: Vec::new(), ..mpi(Family::OpenMpi, "4.1.4") };
    let vars = settings.environment(&system, &user).unwrap();
    assert_eq!(get(&vars, LIBRARY_PATH), Some("/u"));
}

#[test]
fn without_a_provider_there_is_no_wiglaf() {
    for family in Family::ALL {
        assert!(Settings::default().environment(&mpi(family, "5"), &nobody).is_err());
    }
}

#[test]
fn users_keep_their_defaults_but_not_another_transport() {
    let user = |name: &str| match name {
        "OMPI_MCA_osc" => Some("rdma".to_owned()),
        "OMPI_MCA_pml" => Some("ucx".to_owned()),
        _ => None,
    };
    let settings = Settings { transport: Transport::Tcp, ..Settings::default() };
    let vars = settings.environment(&mpi(Family::OpenMpi, "4.1.4"), &user).unwrap();
    assert_eq!((get(&vars, "OMPI_MCA_osc"), get(&vars, "OMPI_MCA_pml")), (None, Some("ob1")));
}

#[test]
fn windows_over_rma_get_what_they_need() {
    let openmpi = mpi(Family::OpenMpi, "4.1.4");
    let vars = over_wiglaf().environment(&openmpi, &nobody).unwrap();
    assert_eq!(get(&vars, "OMPI_MCA_osc"), Some("sm,pt2pt"));
    assert_eq!(get(&vars, "OMPI_MCA_btl"), Some("self"));
    let user = |name: &str| (name == "OMPI_MCA_osc").then(|| "rdma".to_owned());
    let vars = over_wiglaf().environment(&openmpi, &user).unwrap();
    assert_eq!(get(&vars, "OMPI_MCA_osc"), None);
    assert_eq!(get(&vars, "OMPI_MCA_btl"), Some("self,ofi"));
    assert_eq!(get(&vars, "OMPI_MCA_btl_ofi_provider_include"), Some("wiglaf"));
    assert_eq!(get(&vars, "OMPI_MCA_osc_rdma_acc_use_amo"), Some("0"));
    // Version 5 has no other way.
    let vars = over_wiglaf().environment(&mpi(Family::OpenMpi, "5.0.11"), &nobody).unwrap();
    assert_eq!(get(&vars, "OMPI_MCA_osc"), Some("sm,rdma"));
    assert_eq!(get(&vars, "OMPI_MCA_btl"), Some("self,ofi"));
}

#[test]
fn open_mpis_own_matching_goes_over_the_provider_if_asked_for() {
    let user = |name: &str| (name == "OMPI_MCA_pml").then(|| "ob1".to_owned());
    for version in ["4.1.4", "5.0.11"] {
        let vars = over_wiglaf().environment(&mpi(Family::OpenMpi, version), &user).unwrap();
        assert_eq!(get(&vars, "OMPI_MCA_pml"), Some("ob1"));
        assert_eq!(get(&vars, "OMPI_MCA_btl"), Some("self,ofi"));
        assert_eq!(get(&vars, "OMPI_MCA_btl_ofi_mode"), Some("2"));
        assert_eq!(get(&vars, "OMPI_MCA_mtl"), None);
    }
}

#[test]
fn the_users_own_list_is_kept() {
    let user = |name: &str| (name == openmpi::ENV_LIST).then(|| "A;B".to_owned());
    let list = forwarding(Family::OpenMpi, true, &[], std::iter::empty(), &user);
    assert_eq!(list.unwrap().1, "A;B");
    assert_eq!(forwarding(Family::OpenMpi, true, &[], std::iter::empty(), &nobody), None);
}

#[test]
fn command_lines_name_every_node() {
    let hosts = vec![("node1", 2), ("node2", 1), ("node3", 0)];
    let placement = |deal| Placement { ranks: 3, hosts: hosts.clone(), places: 2, deal };
    let line = |family, deal| {
        let vars = [("HYDRA_ENV".to_owned(), "list:A,B".to_owned())];
        let words = mpi(family, "5").command_line(&placement(deal), &vars);
        words.iter().map(|w| w.to_str().unwrap()).collect::<Vec<_>>().join(" ")
    };
    for (family, deal, wanted) in [
        (Family::OpenMpi, Deal::Cyclic, "-n 3 --host node1:2,node2:2,node3:2 --map-by node"),
        (
            Family::OpenMpi,
            Deal::Block,
            "-n 3 --host node1:2,node2:2,node3:2 --map-by node --rank-by slot",
        ),
        (Family::Mpich, Deal::Cyclic, "-n 3 -hosts node1,node2,node3 -ppn 1"),
        (Family::Mpich, Deal::Block, "-n 3 -hosts node1:2,node2:1"),
        (Family::Intel, Deal::Cyclic, "-n 3 -hosts node1,node2,node3 -ppn 1 -genvlist A,B"),
    ] {
        assert_eq!(line(family, deal), format!("/w/bin/mpiexec {wanted}"));
    }
}
