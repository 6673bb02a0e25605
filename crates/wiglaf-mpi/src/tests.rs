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
        link: LinkKind::Packet,
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
        forwarding(Family::OpenMpi, false, &vars, &[], names.into_iter(), &nobody).unwrap();
    assert_eq!(name, openmpi::ENV_LIST);
    assert_eq!(
        list,
        "FI_PROVIDER;FI_PROVIDER_PATH;LD_LIBRARY_PATH;OPAL_PREFIX;PMIX_PREFIX;UCX_LOG_LEVEL;\
         WIGLAF_IF;WIGLAF_KEY;WIGLAF_LINK"
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
        let list = |by_agent| forwarding(family, by_agent, &vars, &[], std::iter::empty(), &nobody);
        // ssh hands nothing on. MPICH's hydra does by itself; a list in its variable would keep it from that.
        let alone = list(false).map(|(_, names)| names);
        assert_eq!(alone.is_none(), family == Family::Mpich);
        assert!(alone.is_none_or(|names| names.contains("WIGLAF_KEY")), "{family}");
        let (_, list) = list(true).unwrap();
        // Whoever records the start of a job would have it.
        assert!(!list.contains("WIGLAF_KEY") && list.contains("LD_LIBRARY_PATH"), "{list}");
        assert!(!list.contains("AGENT") && !list.contains("HYDRA_"), "{list}");
    }
}

/// Names of PRRTE's parameters change with Open MPI's version; an old one is a warning of ten lines.
#[test]
fn launchers_are_told_by_the_names_of_their_version() {
    let settings = Settings { silence: Some(Duration::from_secs(7)), ..over_wiglaf() };
    for (version, binding, keepalive) in [
        ("4.1.4", "OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_oob_tcp_keepalive_time"),
        ("5.0.7", "PRTE_MCA_hwloc_default_binding_policy", "PRTE_MCA_oob_tcp_keepalive_time"),
        ("6.0.0rc2", "PRTE_MCA_bindto", "PRTE_MCA_prte_keepalive_time"),
    ] {
        let vars = settings.environment(&mpi(Family::OpenMpi, version), &nobody).unwrap();
        assert_eq!(get(&vars, binding), Some("none"), "{version}");
        assert_eq!(get(&vars, keepalive), Some("1"), "{version}");
        let count = |word: &str| vars.iter().filter(|(name, _)| name.contains(word)).count();
        assert_eq!((count("bind"), count("keepalive")), (1, 3), "{version}");
        let probes = keepalive.replace("_time", "_probes");
        assert_eq!(get(&vars, &probes), Some("6"), "{version}");
        let near = over_wiglaf().environment(&mpi(Family::OpenMpi, version), &nobody).unwrap();
        assert_eq!(get(&near, keepalive), None, "{version}");
    }
}

#[test]
fn pmix_gets_the_loopback_besides() {
    let vars = over_wiglaf().environment(&mpi(Family::OpenMpi, "6.0.0rc2"), &nobody).unwrap();
    assert_eq!(get(&vars, "PMIX_MCA_ptl_base_if_include"), Some("lo,eth0"));
    assert_eq!(get(&vars, "PRTE_MCA_prte_if_include"), Some("eth0"));
}

#[test]
fn a_network_takes_the_place_of_an_interface() {
    let network =
        Network { cidr: "192.168.77.0/24".to_owned(), interface: Some("lan0".to_owned()) };
    let settings = |transport| Settings {
        transport,
        network: Some(network.clone()),
        interface: None,
        ..over_wiglaf()
    };
    for (version, launcher) in
        [("4.1.4", "OMPI_MCA_oob_tcp_if_include"), ("5.0.11", "PRTE_MCA_prte_if_include")]
    {
        let openmpi = mpi(Family::OpenMpi, version);
        for transport in [Transport::Wiglaf, Transport::Tcp, Transport::Ucx, Transport::OfiTcp] {
            let vars = settings(transport).environment(&openmpi, &nobody).unwrap();
            for name in [launcher, "OMPI_MCA_btl_tcp_if_include"] {
                assert_eq!(get(&vars, name), Some("192.168.77.0/24"), "{version} {name}");
            }
            // These take names only, and each host has its own.
            for name in ["WIGLAF_IF", "UCX_NET_DEVICES", "FI_TCP_IFACE"] {
                assert_eq!(get(&vars, name), None, "{version} {name}");
            }
        }
    }
    let vars = settings(Transport::Tcp).environment(&mpi(Family::Mpich, "5.0.2"), &nobody).unwrap();
    assert_eq!(get(&vars, "HYDRA_IFACE"), Some("lan0"));
    assert_eq!(settings(Transport::Ucx).of_host("enp9")[0].0, "UCX_NET_DEVICES");
}

#[test]
fn interfaces_of_the_users_own_are_kept_unless_one_is_asked_for() {
    let exclude = |name: &str| {
        let theirs = ["OMPI_MCA_btl_tcp_if_exclude", "PMIX_MCA_ptl_tcp_if_include", "WIGLAF_IF"];
        theirs.contains(&name).then(|| "mine".to_owned())
    };
    let openmpi = mpi(Family::OpenMpi, "5.0.11");
    let ours = ["OMPI_MCA_btl_tcp_if_include", "PMIX_MCA_ptl_base_if_include", "WIGLAF_IF"];
    let vars = over_wiglaf().environment(&openmpi, &exclude).unwrap();
    assert_eq!(ours.map(|name| get(&vars, name)), [None; 3]);
    assert_eq!(get(&vars, "PRTE_MCA_prte_if_include"), Some("eth0"));
    let asked = Settings { interface_is_asked: true, ..over_wiglaf() };
    let vars = asked.environment(&openmpi, &exclude).unwrap();
    assert_eq!(ours.map(|name| get(&vars, name)), [Some("eth0"), Some("lo,eth0"), Some("eth0")]);
}

#[test]
fn the_users_link_holds_unless_one_is_named() {
    let user = |name: &str| (name == "WIGLAF_LINK").then(|| "udp".to_owned());
    let openmpi = mpi(Family::OpenMpi, "4.1.4");
    let auto = Settings { link: LinkKind::Auto, ..over_wiglaf() };
    assert_eq!(get(&auto.environment(&openmpi, &user).unwrap(), "WIGLAF_LINK"), None);
    assert_eq!(get(&auto.environment(&openmpi, &nobody).unwrap(), "WIGLAF_LINK"), Some("auto"));
    let named = over_wiglaf().environment(&openmpi, &user).unwrap();
    assert_eq!(get(&named, "WIGLAF_LINK"), Some("packet"));
}

#[test]
fn providers_of_the_users_own_are_looked_for_too() {
    let other = tempfile::tempdir().unwrap();
    std::fs::write(other.path().join("libwiglaf-fi.so"), "another Wiglaf").unwrap();
    let user =
        |name: &str| (name == PROVIDER_PATH).then(|| format!("/mine:{}", other.path().display()));
    let vars = over_wiglaf().environment(&mpi(Family::OpenMpi, "4.1.4"), &user).unwrap();
    assert_eq!(get(&vars, PROVIDER_PATH), Some("/lib/w:/mine"));
}

/// Without the front, libfabric would start all of its providers in each rank.
#[test]
fn no_other_provider_is_started_where_none_is_wanted() {
    let openmpi = mpi(Family::OpenMpi, "5.0.7");
    let provider = |settings: &Settings| {
        let vars = settings.environment(&openmpi, &nobody).unwrap();
        get(&vars, "FI_PROVIDER").map(str::to_owned)
    };
    assert_eq!(provider(&over_wiglaf()).as_deref(), Some("wiglaf"));
    let system = Settings { libfabric: LibfabricChoice::System, ..over_wiglaf() };
    assert_eq!(provider(&system), None);
    let front = Front { dir: "/lib/w/wiglaf-libfabric".into(), behind: "/usr/lib/f.so.1".into() };
    assert_eq!(provider(&Settings { front: Some(front), ..over_wiglaf() }), None);
}

#[test]
fn a_program_without_windows_goes_without_btl_ofi() {
    for version in ["5.0.7", "5.0.11", "6.0.0rc2"] {
        let openmpi = mpi(Family::OpenMpi, version);
        let none = Settings { without_windows: true, ..over_wiglaf() };
        let vars = none.environment(&openmpi, &nobody).unwrap();
        assert_eq!(get(&vars, "OMPI_MCA_btl"), Some("self"), "{version}");
        assert_eq!(get(&vars, "OMPI_MCA_pml"), Some("cm"), "{version}");
        let vars = over_wiglaf().environment(&openmpi, &nobody).unwrap();
        assert_eq!(get(&vars, "OMPI_MCA_btl"), Some("self,ofi"), "{version}");
    }
}

#[test]
fn releases_whose_windows_fail_over_cm_take_ob1() {
    for (version, pml) in
        [("4.1.4", "cm"), ("5.0.0", "ob1"), ("5.0.8", "ob1"), ("5.0.9", "cm"), ("6.0.0rc2", "cm")]
    {
        let openmpi = mpi(Family::OpenMpi, version);
        let vars = over_wiglaf().environment(&openmpi, &nobody).unwrap();
        assert_eq!(get(&vars, "OMPI_MCA_pml"), Some(pml), "{version}");
        let user = |name: &str| (name == "OMPI_MCA_pml").then(|| "cm".to_owned());
        let vars = over_wiglaf().environment(&openmpi, &user).unwrap();
        assert_eq!(get(&vars, "OMPI_MCA_pml"), Some("cm"), "{version}: who asks for it gets it");
    }
}

#[test]
fn gathering_between_nodes_goes_around_what_is_wrong_unless_the_user_says_otherwise() {
    const HAN: &str = "OMPI_MCA_coll_han_allgather_dynamic_global_communicator_module";
    const INTEL: &str = "I_MPI_ADJUST_ALLGATHER";
    for (family, version, name, is_set) in [
        (Family::OpenMpi, "4.1.4", HAN, false),
        (Family::OpenMpi, "5.0.11", HAN, true),
        (Family::Intel, "2021.19.0", INTEL, true),
        (Family::Mpich, "5.0.2", INTEL, false),
    ] {
        let one = mpi(family, version);
        let vars = over_wiglaf().environment(&one, &nobody).unwrap();
        assert_eq!(get(&vars, name).is_some(), is_set, "{family} {version}");
        let user = |asked: &str| (asked == name).then(|| "6".to_owned());
        let vars = over_wiglaf().environment(&one, &user).unwrap();
        assert!(get(&vars, name).is_none_or(|value| value == "6"), "{family} {version}");
    }
}

#[test]
fn where_ranks_share_cores_over_wiglaf_the_provider_yields_and_no_mpi() {
    let shared = |transport| Settings { transport, oversubscribed: true, ..over_wiglaf() };
    for (family, version, name, by_mpi) in [
        (Family::OpenMpi, "4.1.4", "OMPI_MCA_mpi_yield_when_idle", Some("0")),
        (Family::OpenMpi, "5.0.11", "OMPI_MCA_mpi_yield_when_idle", Some("0")),
        (Family::Mpich, "5.0.2", "MPIR_CVAR_POLLS_BEFORE_YIELD", None),
        (Family::Intel, "2021.19", "I_MPI_THREAD_YIELD", None),
    ] {
        let one = mpi(family, version);
        let vars = shared(Transport::Wiglaf).environment(&one, &nobody).unwrap();
        assert_eq!((get(&vars, OVERSUBSCRIBED_VAR), get(&vars, name)), (Some("on"), by_mpi));
        let vars = shared(Transport::Tcp).environment(&one, &nobody).unwrap();
        assert!(get(&vars, OVERSUBSCRIBED_VAR).is_none());
        assert!(get(&vars, name).is_some_and(|value| value != "0"), "{family} {version}");
        let vars = over_wiglaf().environment(&one, &nobody).unwrap();
        assert!(get(&vars, OVERSUBSCRIBED_VAR).is_none() && get(&vars, name).is_none());
    }
}

#[test]
fn one_release_never_ends_standard_input() {
    let is_one = |family, version| never_ends_stdin(&mpi(family, version));
    assert!(is_one(Family::OpenMpi, "5.0.11"));
    assert!(!is_one(Family::OpenMpi, "5.0.10") && !is_one(Family::OpenMpi, "4.1.4"));
    assert!(!is_one(Family::Mpich, "5.0.11"));
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
    let list = forwarding(Family::OpenMpi, true, &[], &[], std::iter::empty(), &user);
    assert_eq!(list.unwrap().1, "A;B");
    assert_eq!(forwarding(Family::OpenMpi, true, &[], &[], std::iter::empty(), &nobody), None);
    // What is asked for in this call reaches ranks, whatever its name.
    let asked = [("MINE".to_owned(), "1".to_owned())];
    let list = forwarding(Family::OpenMpi, true, &[], &asked, std::iter::empty(), &user);
    assert_eq!(list.unwrap().1, "A;B;MINE");
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
        (Family::Mpich, Deal::Cyclic, "-n 3 -hosts node1,node2,node3 -ppn 1 -genvlist A,B"),
        (Family::Mpich, Deal::Block, "-n 3 -hosts node1:2,node2:1 -genvlist A,B"),
        (Family::Intel, Deal::Cyclic, "-n 3 -hosts node1,node2,node3 -ppn 1 -genvlist A,B"),
    ] {
        assert_eq!(line(family, deal), format!("/w/bin/mpiexec {wanted}"));
    }
}

#[test]
fn an_interface_that_is_not_here_is_refused_with_those_that_are() {
    assert!(is_here("lo").is_ok());
    let error = is_here("nosuch0").unwrap_err().to_string();
    assert!(error.contains("no interface nosuch0 here, only ") && error.contains("lo"), "{error}");
}
