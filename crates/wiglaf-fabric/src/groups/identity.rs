//! By which number the members of a group know it, without having asked each other.

use std::collections::HashMap;
use std::hash::Hasher;

use siphasher::sip::SipHasher24;
use wiglaf_endpoint::Address;

use crate::bindings as fi;
use crate::guard::{Errno, Fi, refuse};

/// Most lists of members that one endpoint may ever join.
const LISTS_MAX: usize = 1 << 16;

/// How often each list of members was joined, by the number that its first group would have.
#[derive(Debug, Default)]
pub(super) struct Identities {
    joined: HashMap<u64, u64>,
}

impl Identities {
    /// The number of the next group of these members. It is the same for all of them: they join
    /// the groups of a list in the same order.
    pub(super) fn next(&mut self, parent: u64, members: &[Address]) -> Fi<u64> {
        let list = number(parent, 0, members);
        if self.joined.len() == LISTS_MAX && !self.joined.contains_key(&list) {
            return refuse!(Errno(fi::FI_ENOSPC), "join: {LISTS_MAX} different groups were joined");
        }
        let times = self.joined.entry(list).or_default();
        *times += 1;
        Ok(number(parent, *times, members))
    }
}

//= docs/protocol.md#12-collective-operations
//# Members MUST compute a group's number in the same way: SipHash-2-4, under the all-zero key, of the parent's number (8, 0 without a parent), how many groups of this list and parent were joined before (8, from 1), and for each member in order its IPv4 address (4) and port (2).
fn number(parent: u64, times: u64, members: &[Address]) -> u64 {
    let mut hasher = SipHasher24::new();
    hasher.write(&parent.to_le_bytes());
    hasher.write(&times.to_le_bytes());
    for member in members {
        hasher.write(&member.at.ip().octets());
        hasher.write(&member.at.port().to_le_bytes());
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::net::{Ipv4Addr, SocketAddrV4};

    use wiglaf_endpoint::Epoch;

    use super::*;

    fn member(host: u8, epoch: u64) -> Address {
        Address { at: SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, host), 99), epoch: Epoch(epoch) }
    }

    #[test]
    fn all_members_compute_the_same_and_no_two_groups_do() {
        let (mut a, mut b) = (Identities::default(), Identities::default());
        // One knows the other's incarnation already, the other does not.
        let of_a = [member(1, 5), member(2, 6)];
        let of_b = [member(1, 0), member(2, 6)];
        let mut seen = HashSet::new();
        for _ in 0..3 {
            let id = a.next(0, &of_a).unwrap();
            assert_eq!(id, b.next(0, &of_b).unwrap());
            assert!(seen.insert(id));
            let within = a.next(id, &of_a).unwrap();
            assert_eq!(within, b.next(id, &of_b).unwrap());
            assert!(seen.insert(within));
        }
        assert!(seen.insert(a.next(0, &[member(2, 6), member(1, 5)]).unwrap()), "another order");
        assert!(seen.insert(a.next(0, &of_a[..1]).unwrap()));
    }

    /// What others compute: from docs/protocol.md by another implementation, byte by byte.
    #[test]
    fn a_groups_number_is_these_bits() {
        let at = |port| SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), port);
        let [a, b] = [7000, 7001].map(|port| Address { at: at(port), epoch: Epoch(port.into()) });
        let mut all = Identities::default();
        let parent = all.next(0, &[a, b]).unwrap();
        assert_eq!(parent, 0xd450_b179_a557_c2b1);
        all.next(parent, &[b, a]).unwrap();
        assert_eq!(all.next(parent, &[b, a]).unwrap(), 0x6d2e_5598_cfc1_5075);
    }

    #[test]
    fn lists_are_bounded() {
        let mut all = Identities::default();
        all.joined.extend((0..LISTS_MAX as u64).map(|list| (list, 1)));
        assert!(all.next(0, &[member(1, 5)]).is_err());
    }
}
