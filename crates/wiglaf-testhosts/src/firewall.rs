//! Packet filters as people have them, for nft.

use std::ops::RangeInclusive;

/// What a host lets in. What it sends out is never filtered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Firewall {
    /// Everything.
    Off,
    /// ssh, ping, and answers to what the host has sent: a usual stateful firewall.
    Ssh,
    /// Besides, UDP and TCP to these ports.
    Ports(RangeInclusive<u16>),
    /// Everything but UDP, without looking at what the host has sent.
    NoUdp,
    /// ssh and nothing else, without looking at what the host has sent; its own ssh gets through.
    OnlySsh,
    /// A file for `nft --file`.
    Rules(String),
}

impl Firewall {
    pub(crate) fn rules(&self) -> String {
        let stateful = "ct state established,related accept\nmeta l4proto icmp accept\n";
        let (policy, rules) = match self {
            Self::Off => return String::new(),
            Self::Rules(rules) => return rules.clone(),
            Self::Ssh => ("drop", format!("{stateful}tcp dport 22 accept\n")),
            Self::Ports(ports) => {
                let ports = format!("{}-{}", ports.start(), ports.end());
                let open = format!("udp dport {ports} accept\ntcp dport {ports} accept\n");
                ("drop", format!("{stateful}tcp dport 22 accept\n{open}"))
            }
            Self::NoUdp => ("accept", "meta l4proto udp drop\n".to_owned()),
            Self::OnlySsh => ("drop", "tcp dport 22 accept\ntcp sport 22 accept\n".to_owned()),
        };
        format!(
            "table inet wiglaf_testhosts {{\nchain input {{\n\
             type filter hook input priority filter; policy {policy};\niif lo accept\n{rules}}}\n}}\n"
        )
    }
}
