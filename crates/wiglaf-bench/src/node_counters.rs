//! What the measuring programs print of their nodes (`mpi/counters.h`): the
//! kernel's counters, and those of Wiglaf's endpoints as `wiglaf stats --json`
//! has them.

use serde::Deserialize;

use crate::error::{BenchError, Result};
use crate::launch::Transport;

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

    /// Packets that Wiglaf sent again: those lost, and what had come unasked and found no buffer.
    pub(crate) fn packets_sent_again(&self) -> f64 {
        self.of_endpoints(&["ordered_retransmitted", "bulk_retransmitted", "unasked_dropped"])
    }

    /// Segments that TCP sent again.
    pub(crate) fn segments_sent_again(&self) -> f64 {
        self.tcp_retransmitted as f64
    }

    /// Whether an endpoint of Wiglaf's was seen.
    fn has_endpoints(&self) -> bool {
        !self.endpoints.is_empty()
    }

    /// These counters, if a run over `transport` can have them. An error names the run by `what`.
    ///
    /// # Errors
    /// When it is ours and no endpoint was seen: what was not counted is no 0.
    pub(crate) fn of(self, transport: Transport, what: &str) -> Result<Self> {
        if transport != Transport::Wiglaf || self.has_endpoints() {
            return Ok(self);
        }
        let detail = "no counters of Wiglaf's endpoints came with it".to_owned();
        Err(BenchError::Output { what: what.to_owned(), detail })
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
               ["drop_link_overflow",6],["probes",9],["unasked_dropped",8]]}]}]"#;
        let nodes: Vec<NodeCounters> = serde_json::from_str(text).unwrap();
        let sum = NodeCounters::sum(&nodes);
        assert_eq!((sum.segments_sent_again(), sum.packets_sent_again()), (7.0, 15.0));
        let named = [("udp_overruns", 1.0), ("ring_overruns", 6.0), ("packets_sent_again", 15.0)];
        assert_eq!(sum.named(), named);
    }

    #[test]
    fn a_run_of_ours_without_counters_is_refused() {
        let none = NodeCounters { tcp_retransmitted: 5, ..NodeCounters::default() };
        assert_eq!(none.clone().of(Transport::Tcp, "it").unwrap().segments_sent_again(), 5.0);
        let why = none.clone().of(Transport::Wiglaf, "it").unwrap_err().to_string();
        assert!(why.contains("no counters"), "{why}");
        let some = NodeCounters { endpoints: vec![Endpoint::default()], ..none };
        assert!(some.of(Transport::Wiglaf, "it").is_ok());
    }
}
