//! What the measuring programs print of their nodes (`mpi/counters.h`): the
//! kernel's counters, and those of Wiglaf's endpoints as `wiglaf stats --json`
//! has them.

use serde::Deserialize;

/// Of one node.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub(crate) struct NodeCounters {
    tcp_retransmitted: i64,
    udp_overruns: i64,
    udp_errors: i64,
    endpoints: Vec<Endpoint>,
}

/// Of one endpoint; everything else that is said of it is skipped.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
struct Endpoint {
    counters: Vec<(String, u64)>,
}

impl NodeCounters {
    /// All nodes together.
    pub(crate) fn sum(nodes: &[Self]) -> Self {
        nodes.iter().fold(Self::default(), |mut sum, node| {
            sum.tcp_retransmitted += node.tcp_retransmitted;
            sum.udp_overruns += node.udp_overruns;
            sum.udp_errors += node.udp_errors;
            sum.endpoints.extend(node.endpoints.iter().cloned());
            sum
        })
    }

    fn of_endpoints(&self, names: &[&str]) -> f64 {
        let all = self.endpoints.iter().flat_map(|e| &e.counters);
        all.filter(|(name, _)| names.contains(&name.as_str())).map(|(_, n)| *n as f64).sum()
    }

    /// Packets that Wiglaf sent again.
    pub(crate) fn packets_sent_again(&self) -> f64 {
        self.of_endpoints(&["ordered_retransmitted", "bulk_retransmitted"])
    }

    /// Segments that TCP sent again.
    pub(crate) fn segments_sent_again(&self) -> f64 {
        self.tcp_retransmitted as f64
    }

    /// Whether an endpoint of Wiglaf's was seen.
    pub(crate) fn has_endpoints(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// Everything that is worth a word in a table.
    pub(crate) fn named(&self) -> Vec<(&'static str, f64)> {
        let mut named = vec![("udp_overruns", self.udp_overruns as f64)];
        match self.has_endpoints() {
            true => named.extend([
                ("ring_overruns", self.of_endpoints(&["drop_link_overflow"])),
                ("packets_sent_again", self.packets_sent_again()),
            ]),
            false => named.push(("segments_sent_again", self.segments_sent_again())),
        }
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_all_nodes_are_added() {
        let text = r#"[{"tcp_retransmitted":3,"udp_overruns":1,"udp_errors":1,"endpoints":[]},
            {"tcp_retransmitted":4,"udp_overruns":0,"udp_errors":0,"endpoints":[
              {"node":"n","age_ms":3,"counters":[["bulk_retransmitted",5],["ordered_retransmitted",2],
               ["drop_link_overflow",6],["probes",9]]}]}]"#;
        let nodes: Vec<NodeCounters> = serde_json::from_str(text).unwrap();
        let sum = NodeCounters::sum(&nodes);
        assert_eq!((sum.segments_sent_again(), sum.packets_sent_again()), (7.0, 7.0));
        let named = [("udp_overruns", 1.0), ("ring_overruns", 6.0), ("packets_sent_again", 7.0)];
        assert_eq!(sum.named(), named);
    }
}
