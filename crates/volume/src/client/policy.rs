//! The transfer policy: which way bytes travel, by their number.

use crate::limits::EAGER_LEN;
use gannet_wire::volume::{CLIENT_BUFFER_LEN_MAX, INLINE_DATA_MAX};

/// The greatest length of a server's share of a request for each way. The server moves longer shares, and those that
/// find no buffer free, to and from the client's memory, which is registered for it.
///
/// A length of 0 closes a way: `TransferPolicy { inline_max: 0, eager_max: 0, ..TransferPolicy::default() }` has the
/// server move everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransferPolicy {
    /// Bytes that travel in the message; at most [`INLINE_DATA_MAX`], which is what more counts as.
    pub inline_max: u32,
    /// Bytes that travel through buffers which both sides keep registered; at most [`EAGER_LEN`], which is what more
    /// counts as.
    pub eager_max: u32,
    /// Longer ones, up to [`CLIENT_BUFFER_LEN_MAX`], are moved by the client, to and from buffers that the server
    /// opens. Not the default: docs/decisions/0013-transfers.md has the reason. A server that opens none moves them
    /// itself.
    pub client_driven: bool,
}

impl Default for TransferPolicy {
    /// The thresholds of Wu, Wyckoff and Panda; docs/measurements/2026-11-25.md has our figures for them.
    fn default() -> TransferPolicy {
        TransferPolicy {
            inline_max: INLINE_DATA_MAX as u32,
            eager_max: EAGER_LEN,
            client_driven: false,
        }
    }
}

/// A way for a share of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Way {
    /// In the message.
    Inline,
    /// Through eager buffers.
    Eager,
    /// By the server, from and to the client's memory.
    ServerDriven,
    /// By the client, from and to buffers that the server opens.
    ClientDriven,
}

impl TransferPolicy {
    /// The way for `len` bytes.
    pub(super) fn way(self, len: u64) -> Way {
        let inline_max = u64::from(self.inline_max).min(INLINE_DATA_MAX as u64);
        if len <= inline_max {
            Way::Inline
        } else if len <= u64::from(self.eager_max.min(EAGER_LEN)) {
            Way::Eager
        } else if self.client_driven && len <= CLIENT_BUFFER_LEN_MAX {
            Way::ClientDriven
        } else {
            Way::ServerDriven
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_decides_and_bounds_hold() {
        let policy = TransferPolicy::default();
        let ways = [1, 4096, 4097, 65536, 65537].map(|len| policy.way(len));
        let (inline, eager, server) = (Way::Inline, Way::Eager, Way::ServerDriven);
        assert_eq!(ways, [inline, inline, eager, eager, server]);
        let all = |max| TransferPolicy {
            inline_max: max,
            eager_max: max,
            client_driven: false,
        };
        assert_eq!(all(0).way(1), server);
        assert_eq!(
            [4096, 4097, 65537].map(|len| all(u32::MAX).way(len)),
            [inline, eager, server]
        );
        let policy = TransferPolicy {
            client_driven: true,
            ..policy
        };
        let ways = [65536, 65537, 1 << 20, (1 << 20) + 1].map(|len| policy.way(len));
        assert_eq!(ways, [eager, Way::ClientDriven, Way::ClientDriven, server]);
    }
}
