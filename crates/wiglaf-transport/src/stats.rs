//! What was counted: every refusal has its own reason.

use wiglaf_wire::WireError;

macro_rules! counters {
    ($(#[$outer:meta])* $name:ident { $($(#[$doc:meta])* $field:ident),+ $(,)? }) => {
        $(#[$outer])*
        #[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[$doc])* pub $field: u64),+ }

        impl $name {
            /// Both sums, counter by counter.
            #[must_use]
            pub fn plus(self, other: &Self) -> Self {
                Self { $($field: self.$field + other.$field),+ }
            }

            /// Every counter with its name, in a fixed order.
            pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($field), self.$field)),+].into_iter()
            }
        }
    };
}

counters! {
    /// Counters of one endpoint, from its opening on.
    Stats {
        /// Datagrams handed to the links.
        datagrams_sent,
        /// Datagrams that came in, refused ones included.
        datagrams_received,
        /// Packets of the ordered lane sent again.
        ordered_retransmitted,
        /// Packets of the bulk lane sent again.
        bulk_retransmitted,
        /// Paths that were found to have narrowed under a session.
        paths_narrowed,
        /// Probe timeouts.
        probes,
        /// Packets that had arrived before.
        duplicates,
        /// Packets that arrived ahead of a gap.
        out_of_order,
        /// Messages that went as a request because eager credit had run out.
        credit_stalls,
        /// Bulk packets that nobody had asked for, and for which there was no buffer.
        unasked_dropped,
        /// Refused: cut short.
        drop_truncated,
        /// Refused: not a Wiglaf datagram.
        drop_magic,
        /// Refused: another version, kind or record type.
        drop_unknown,
        /// Refused: no proof of the job's key.
        drop_proof,
        /// Refused: only one of the two sides encrypts.
        drop_encryption,
        /// Refused: damaged in flight.
        drop_checksum,
        /// Refused: a field outside its range.
        drop_field,
        /// Refused: meant for an earlier incarnation of this endpoint.
        drop_stale_epoch,
        /// Refused: from a peer without a session that may not begin one.
        drop_no_session,
        /// Refused: a control datagram that has come before, or one that is far older than others.
        drop_replayed,
        /// Refused: a packet number beyond the window.
        drop_beyond_window,
        /// Refused: speaks of a transfer or send that does not exist.
        drop_no_transfer,
        /// Refused: from a peer that has closed or is gone.
        drop_peer_gone,
        /// Refused: a report that nobody listens at a peer's port, without a sign that it is true.
        drop_report,
        /// Refused: a part of a packet that is not the next one of its lane, or has another length than before.
        drop_part,
        /// Refused: a record that breaks the rules of its lane.
        drop_protocol,
    }
}

/// What was exchanged with one peer, in messages of the upper side.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Traffic {
    /// Messages handed over for it.
    pub messages_sent: u64,
    /// Their payload, in bytes.
    pub bytes_sent: u64,
    /// Messages that came or were announced.
    pub messages_received: u64,
    /// Payload that came, in bytes.
    pub bytes_received: u64,
    /// Packets sent again, on either lane.
    pub retransmitted: u64,
    /// Messages that were announced because eager credit had run out.
    pub credit_stalls: u64,
}

impl Traffic {
    /// A message of `len` bytes was handed over.
    pub fn sent(&mut self, len: u64) {
        self.messages_sent += 1;
        self.bytes_sent += len;
    }

    /// A message began to arrive, with so many bytes.
    pub fn received(&mut self, len: u64) {
        self.messages_received += 1;
        self.bytes_received += len;
    }
}

impl Stats {
    pub(crate) fn refuse(&mut self, why: WireError) {
        let counter = match why {
            WireError::Truncated => &mut self.drop_truncated,
            WireError::Magic => &mut self.drop_magic,
            WireError::Version(_) | WireError::Kind(_) | WireError::RecordType(_) => {
                &mut self.drop_unknown
            }
            WireError::Proof => &mut self.drop_proof,
            WireError::Encryption => &mut self.drop_encryption,
            WireError::Replayed => &mut self.drop_replayed,
            WireError::Checksum => &mut self.drop_checksum,
            WireError::Field(_) => &mut self.drop_field,
        };
        *counter += 1;
    }
}
