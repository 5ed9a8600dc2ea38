//! The settings of a software RNIC.

use crate::limits::{NUDGE_GROWTH, NUDGES_MAX, READ_DEPTH_MAX};
use gannet_wire::mpa::{MULPDU_MIN, Revision, ULPDU_MAX};
use std::time::Duration;

/// Settings of a provider; they hold for all its connections.
#[derive(Debug, Clone)]
pub struct IwarpConfig {
    /// The MPA revision offered when connecting: [`Revision::TWO`] unless the peer is known to be
    /// old.
    pub revision: Revision,
    /// Ask for CRCs. They are used when either side asks. Without them file-backed data leaves from a
    /// mapping, and long payloads are received into place.
    pub crc: bool,
    /// Offer the peer-to-peer model when connecting, so that the responder may send first.
    pub peer_to_peer: bool,
    /// Largest ULPDU sent, in bytes (128 to 64768). Any legal length is received. A hardware peer
    /// wants one that fits a TCP segment.
    pub ulpdu_max: usize,
    /// Largest IRD and ORD agreed to, at most [`READ_DEPTH_MAX`].
    pub read_depth_max: u16,
    /// Work requests that an endpoint's send queue takes.
    pub send_queue_max: u32,
    /// Receives that may be posted on an endpoint.
    pub receive_queue_max: u32,
    /// How long a TCP connection may take to come up.
    pub connect_deadline: Duration,
    /// How long the responder may take to answer the request.
    pub reply_deadline: Duration,
    /// How long an initiator may take to send its request.
    pub request_deadline: Duration,
    /// How long a peer may take no byte, or leave an FPDU unfinished; and how long posted work
    /// may take to leave once the endpoint is closed.
    pub stall_deadline: Duration,
    /// How long a closing connection may linger until the peer closes too.
    pub close_deadline: Duration,
    /// The workaround for responders of Linux siw; `None` when no peer needs it.
    pub accept_race: Option<AcceptRace>,
}

/// Linux siw as responder sends its reply before it installs its receiver. It does not see an FPDU that arrives in
/// between until more bytes arrive. The message that opens a peer-to-peer connection (RFC 6581) is lost in the same
/// way, so no set-up of the standard prevents this.
///
/// The initiator sends at once, and wakes the responder with zero-length RDMA Writes until a byte comes back. It
/// does not where exceptions are agreed: Linux offers none, so such a peer is no siw.
#[derive(Debug, Clone, Copy)]
pub struct AcceptRace {
    /// How long nothing has come back after the first FPDU when the first RDMA Write leaves. Each later one waits
    /// [`NUDGE_GROWTH`](crate::limits::NUDGE_GROWTH) times as long as the one before.
    pub nudge_after: Duration,
}

impl AcceptRace {
    /// The wait before the next RDMA Write, behind `nudges` of them.
    pub(crate) fn wait_after(self, nudges: u32) -> Duration {
        let growth = NUDGE_GROWTH.pow(nudges.min(NUDGES_MAX));
        self.nudge_after.saturating_mul(growth)
    }
}

impl Default for AcceptRace {
    fn default() -> AcceptRace {
        AcceptRace {
            nudge_after: Duration::from_millis(5),
        }
    }
}

impl Default for IwarpConfig {
    fn default() -> IwarpConfig {
        IwarpConfig {
            revision: Revision::TWO,
            crc: true,
            peer_to_peer: false,
            ulpdu_max: ULPDU_MAX,
            read_depth_max: READ_DEPTH_MAX,
            send_queue_max: 4096,
            receive_queue_max: 4096,
            connect_deadline: Duration::from_secs(10),
            reply_deadline: Duration::from_secs(10),
            request_deadline: Duration::from_secs(5),
            stall_deadline: Duration::from_secs(60),
            close_deadline: Duration::from_secs(5),
            accept_race: Some(AcceptRace::default()),
        }
    }
}

impl IwarpConfig {
    /// The settings with everything out of range brought into it.
    pub(crate) fn bounded(mut self) -> IwarpConfig {
        self.ulpdu_max = self.ulpdu_max.clamp(MULPDU_MIN, ULPDU_MAX);
        self.read_depth_max = self.read_depth_max.min(READ_DEPTH_MAX);
        self.revision = self.revision.clamp(Revision::ONE, Revision::TWO);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_grow_and_do_not_overflow() {
        let race = AcceptRace::default();
        let waits: Vec<u128> = (0..3)
            .map(|nudges| race.wait_after(nudges).as_millis())
            .collect();
        assert_eq!(waits, [5, 20, 80]);
        let never = AcceptRace {
            nudge_after: Duration::MAX,
        };
        assert_eq!(never.wait_after(NUDGES_MAX), Duration::MAX);
    }
}
