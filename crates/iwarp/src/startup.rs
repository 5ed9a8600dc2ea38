//! The negotiation of two ends before full operation (RFC 5044 section 7, RFC 6581 section 9): pure
//! functions.

use crate::config::IwarpConfig;
use gannet_fabric::ConnectOptions;
use gannet_wire::mpa::{Enhanced, FrameKind, NOT_NEGOTIATED, Revision, StartupFrame};
use gannet_wire::rdmap::{TerminateCode, split_exceptions_offer};
use std::fmt;

/// The two ends of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Sent the request; sends the first FPDU.
    Initiator,
    /// Sent the reply; must not send before it has received.
    Responder,
}

/// The first message of an initiator in the peer-to-peer model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadyToReceive {
    /// Client-server: the first ordinary message plays that role.
    Ordinary,
    /// A zero-length RDMA Write.
    Write,
    /// A zero-length RDMA Read.
    Read,
    /// A zero-length Send.
    Send,
}

/// The negotiated parameters of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Agreement {
    /// CRCs are computed and checked.
    pub(crate) crc: bool,
    /// The peer wants markers in what it receives.
    pub(crate) markers: bool,
    /// Reads the peer may have outstanding here.
    pub(crate) ird: u16,
    /// Reads that may be outstanding from here.
    pub(crate) ord: u16,
    /// How the initiator opens.
    pub(crate) ready: ReadyToReceive,
    /// A refused Read is answered with an exception, and the connection lasts.
    pub(crate) exceptions: bool,
}

impl Agreement {
    /// Whether the peer of this end may miss its first FPDU ([`crate::AcceptRace`]). A peer that claims exceptions
    /// and races all the same harms its own connection alone.
    pub(crate) fn may_race(&self, role: Role) -> bool {
        role == Role::Initiator && !self.exceptions
    }
}

impl fmt::Display for ReadyToReceive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ReadyToReceive::Ordinary => "any message",
            ReadyToReceive::Write => "an RDMA Write",
            ReadyToReceive::Read => "an RDMA Read",
            ReadyToReceive::Send => "a Send",
        })
    }
}

impl fmt::Display for Agreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Agreement {
            crc,
            markers,
            ird,
            ord,
            ready,
            exceptions,
        } = self;
        let with = |is_there: &bool| if *is_there { "with" } else { "without" };
        write!(
            f,
            "{} CRC, {} markers, IRD {ird}, ORD {ord}, opened by {ready}, {} exceptions",
            with(crc),
            with(markers),
            with(exceptions)
        )
    }
}

/// Why there is no agreement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The peer rejected the request.
    Rejected,
    /// The peer's frame cannot be answered: close.
    Incompatible(&'static str),
    /// The peer gets a Terminate with this code (RFC 6581 section 9).
    Terminate(TerminateCode),
}

/// The request frame of an initiator, with the private data that it sends.
pub(crate) fn request<'a>(
    config: &IwarpConfig,
    options: &ConnectOptions,
    private_data: &'a [u8],
) -> StartupFrame<'a> {
    let p2p = config.peer_to_peer;
    let enhanced = (config.revision >= Revision::TWO).then(|| Enhanced {
        peer_to_peer: p2p,
        send_rtr: false,
        write_rtr: p2p,
        read_rtr: p2p,
        ird: options.ird.min(config.read_depth_max),
        ord: options.ord.min(config.read_depth_max),
    });
    StartupFrame {
        kind: FrameKind::Request,
        markers: false,
        crc: config.crc,
        rejected: false,
        reserved: 0,
        revision: config.revision,
        enhanced,
        private_data,
    }
}

/// The agreement that follows from the reply to an initiator's request.
pub(crate) fn conclude(
    config: &IwarpConfig,
    options: &ConnectOptions,
    reply: &StartupFrame<'_>,
) -> Result<Agreement, Refusal> {
    if reply.rejected {
        return Err(Refusal::Rejected);
    }
    if reply.revision != config.revision {
        return Err(Refusal::Incompatible("the reply has another MPA revision"));
    }
    let (mut ird, mut ord) = depths_wanted(config, options);
    let mut ready = ReadyToReceive::Ordinary;
    match reply.enhanced {
        Some(reply) => {
            if reply.ird != NOT_NEGOTIATED {
                ord = ord.min(reply.ird);
            }
            if reply.ord != NOT_NEGOTIATED {
                if reply.ord > config.read_depth_max {
                    return Err(Refusal::Terminate(TerminateCode::MPA_INSUFFICIENT_IRD));
                }
                ird = ird.max(reply.ord);
            }
            if config.peer_to_peer {
                ready = choose_ready(reply, &[ReadyToReceive::Write, ReadyToReceive::Read])?;
            }
        }
        None if config.revision >= Revision::TWO => {
            return Err(Refusal::Incompatible("the reply lacks the enhanced block"));
        }
        None => {}
    }
    Ok(Agreement {
        crc: config.crc || reply.crc,
        markers: reply.markers,
        ird,
        ord,
        ready,
        exceptions: options.exceptions && split_exceptions_offer(reply.private_data).0,
    })
}

/// Checks that a request can be answered at all.
pub(crate) fn check_request(request: &StartupFrame<'_>) -> Result<(), Refusal> {
    if !(Revision::ONE..=Revision::TWO).contains(&request.revision) {
        return Err(Refusal::Incompatible(
            "the request has an unknown MPA revision",
        ));
    }
    Ok(())
}

/// The responder's acceptance of a request: the reply frame, with the private data that it sends, and what it means.
/// The options ask for exceptions only if the request offers them.
pub(crate) fn accept<'a>(
    config: &IwarpConfig,
    request: &StartupFrame<'_>,
    options: &ConnectOptions,
    private_data: &'a [u8],
) -> Result<(StartupFrame<'a>, Agreement), Refusal> {
    let (mut ird, mut ord) = depths_wanted(config, options);
    let mut ready = ReadyToReceive::Ordinary;
    let mut enhanced = None;
    if let Some(asked) = request.enhanced {
        let mut block = Enhanced::client_server(NOT_NEGOTIATED, NOT_NEGOTIATED);
        if asked.ord != NOT_NEGOTIATED {
            ird = ird.max(asked.ord.min(config.read_depth_max));
            block.ird = ird;
        }
        if asked.ird != NOT_NEGOTIATED {
            ord = ord.min(asked.ird);
            block.ord = ord;
        }
        if asked.peer_to_peer {
            let order = [
                ReadyToReceive::Write,
                ReadyToReceive::Read,
                ReadyToReceive::Send,
            ];
            ready = choose_ready(
                Enhanced {
                    peer_to_peer: true,
                    ..asked
                },
                &order,
            )?;
            block.peer_to_peer = true;
            block.write_rtr = ready == ReadyToReceive::Write;
            block.read_rtr = ready == ReadyToReceive::Read;
            block.send_rtr = ready == ReadyToReceive::Send;
        }
        enhanced = Some(block);
    }
    let crc = config.crc || request.crc;
    let reply = StartupFrame {
        kind: FrameKind::Reply,
        markers: false,
        crc,
        rejected: false,
        reserved: 0,
        revision: request.revision,
        enhanced,
        private_data,
    };
    Ok((
        reply,
        Agreement {
            crc,
            markers: request.markers,
            ird,
            ord,
            ready,
            exceptions: options.exceptions,
        },
    ))
}

/// The responder's refusal of a request.
pub(crate) fn reject<'a>(request: &StartupFrame<'_>, private_data: &'a [u8]) -> StartupFrame<'a> {
    StartupFrame {
        kind: FrameKind::Reply,
        markers: false,
        crc: request.crc,
        rejected: true,
        reserved: 0,
        revision: request.revision,
        enhanced: request.enhanced.map(|_| Enhanced::client_server(0, 0)),
        private_data,
    }
}

fn depths_wanted(config: &IwarpConfig, options: &ConnectOptions) -> (u16, u16) {
    let bound = config.read_depth_max;
    (options.ird.min(bound), options.ord.min(bound))
}

fn choose_ready(
    offered: Enhanced,
    preferred: &[ReadyToReceive],
) -> Result<ReadyToReceive, Refusal> {
    let is_offered = |ready: &ReadyToReceive| {
        offered.peer_to_peer
            && match ready {
                ReadyToReceive::Ordinary => false,
                ReadyToReceive::Write => offered.write_rtr,
                ReadyToReceive::Read => offered.read_rtr,
                ReadyToReceive::Send => offered.send_rtr,
            }
    };
    let chosen = preferred.iter().copied().find(is_offered);
    chosen.ok_or(Refusal::Terminate(TerminateCode::MPA_NO_MATCHING_RTR))
}

#[cfg(test)]
mod tests;
