//! The rivals: how each is switched on, and how one sees that it really ran.
//!
//! A rival gets what its users have by default, or better. Nothing here may
//! slow one down; every variable is in the result for all to check.

use serde::{Deserialize, Serialize};

use crate::launch::{Settings, Transport};

/// Who takes part in an MPI comparison, in the order of the tables.
pub const CONTENDERS: [Transport; 4] =
    [Transport::Wiglaf, Transport::Tcp, Transport::Ucx, Transport::OfiTcp];

/// What a rival needs to know about the place it runs in.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// The interface that leads to the other nodes.
    pub interface: &'a str,
    /// Whether ranks of one node may use shared memory among themselves, as
    /// they do by default. Off where one machine plays all the nodes without
    /// a wall between them.
    pub shared_memory: bool,
}

/// The environment that makes Debian's Open MPI 4.1 use a rival, or `None`
/// for what is not one of them.
///
/// Debian's own settings switch UCX and libfabric off; each variable here
/// undoes that for one of them. Open MPI leaves UCX to InfiniBand
/// (`pml_ucx_tls`, `pml_ucx_devices`) and libfabric's `tcp` to nobody
/// (`mtl_ofi_provider_exclude`) unless told otherwise.
pub fn rival_settings(transport: Transport, place: Place<'_>) -> Option<Settings> {
    let own_node = if place.shared_memory { "self,vader" } else { "self" };
    let interface = place.interface.to_owned();
    let pairs: Vec<(&str, String)> = match transport {
        Transport::Serial => {
            vec![("OMPI_MCA_pml", "ob1".into()), ("OMPI_MCA_btl", "self,vader".into())]
        }
        Transport::Tcp => vec![
            ("OMPI_MCA_pml", "ob1".into()),
            ("OMPI_MCA_btl", format!("{own_node},tcp")),
            ("OMPI_MCA_btl_tcp_if_include", interface),
        ],
        Transport::Ucx => vec![
            ("OMPI_MCA_pml", "ucx".into()),
            ("OMPI_MCA_pml_ucx_tls", "any".into()),
            ("OMPI_MCA_pml_ucx_devices", "any".into()),
            ("UCX_TLS", if place.shared_memory { "self,sm,tcp" } else { "self,tcp" }.into()),
            ("UCX_NET_DEVICES", interface),
        ],
        Transport::OfiTcp => vec![
            ("OMPI_MCA_pml", "cm".into()),
            ("OMPI_MCA_mtl", "ofi".into()),
            ("OMPI_MCA_mtl_ofi_provider_include", "tcp".into()),
            ("FI_PROVIDER", "tcp;ofi_rxm".into()),
            ("FI_TCP_IFACE", interface),
        ],
        Transport::Wiglaf => return None,
    };
    Some(pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
}

/// Settings that make a transport tell what it chose, for one short run that
/// is not measured.
pub fn talkative(transport: Transport) -> Settings {
    let pairs: &[(&str, &str)] = match transport {
        Transport::Serial => &[],
        Transport::Tcp => &[("OMPI_MCA_btl_base_verbose", "20")],
        Transport::Ucx => &[("UCX_LOG_LEVEL", "info")],
        Transport::Wiglaf | Transport::OfiTcp => &[("OMPI_MCA_mtl_ofi_verbose", "1")],
    };
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// The line of a talkative run that says what carried the messages.
pub fn evidence(transport: Transport, stderr: &str) -> Option<String> {
    let (sign, wanted) = match transport {
        Transport::Serial => return None,
        Transport::Tcp => ("btl: tcp: Using interface:", ""),
        Transport::Ucx => ("ep_cfg[", "tag(tcp/"),
        Transport::OfiTcp => ("mtl:ofi:prov:", "tcp;ofi_rxm"),
        Transport::Wiglaf => ("mtl:ofi:prov:", "wiglaf"),
    };
    let line = stderr.lines().find(|l| l.contains(sign) && l.contains(wanted))?;
    Some(line[line.find(sign)?..].trim().to_owned())
}

/// Someone who could not take part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Absent {
    /// Who.
    pub transport: Transport,
    /// Why.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const NODE: Place<'_> = Place { interface: "eth0", shared_memory: true };

    #[test]
    fn every_rival_is_bound_to_the_nodes_interface() {
        for rival in [Transport::Tcp, Transport::Ucx, Transport::OfiTcp] {
            let settings = rival_settings(rival, NODE).unwrap();
            assert!(settings.values().any(|v| v == "eth0"), "{rival:?}: {settings:?}");
        }
        assert!(rival_settings(Transport::Wiglaf, NODE).is_none());
    }

    #[test]
    fn without_walls_no_rival_may_take_the_short_way() {
        let place = Place { interface: "lo", shared_memory: false };
        for rival in [Transport::Tcp, Transport::Ucx] {
            let settings = rival_settings(rival, place).unwrap();
            assert!(!settings.values().any(|v| v.contains("vader") || v.contains("sm")));
        }
    }

    #[test]
    fn the_evidence_is_about_the_right_transport() {
        let log = "[a:1] mtl_ofi_component.c:735: fi_getinfo(): Success\n\
                   [a:1] mtl_ofi_component.c:337: mtl:ofi:prov: tcp;ofi_rxm\n";
        let found = evidence(Transport::OfiTcp, log);
        assert_eq!(found.as_deref(), Some("mtl:ofi:prov: tcp;ofi_rxm"));
        assert_eq!(evidence(Transport::Wiglaf, log), None);
        let ucx = "UCX  INFO    ep_cfg[0]: tag(self/memory0 tcp/lo)\n\
                   UCX  INFO    ep_cfg[1]: tag(tcp/lo)\n";
        assert_eq!(evidence(Transport::Ucx, ucx).as_deref(), Some("ep_cfg[1]: tag(tcp/lo)"));
    }
}
