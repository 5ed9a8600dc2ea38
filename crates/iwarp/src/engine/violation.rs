//! A rule the peer broke, and the Terminate that says so (RFC 5040 section 7, RFC 5041 section 8).

use gannet_fabric::AccessError;
use gannet_wire::ddp::{DdpHeader, DdpHeaderError};
use gannet_wire::mpa::FpduError;
use gannet_wire::rdmap::{
    ControlError, Opcode, ReadRequest, Terminate, TerminateCode, TerminateContext,
};

/// A violation by the peer, with as much of its message as the Terminate quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Violation {
    pub(super) code: TerminateCode,
    pub(super) header: Option<DdpHeader>,
    pub(super) read_request: Option<ReadRequest>,
    pub(super) ulpdu_len: usize,
}

impl From<TerminateCode> for Violation {
    fn from(code: TerminateCode) -> Violation {
        Violation {
            code,
            header: None,
            read_request: None,
            ulpdu_len: 0,
        }
    }
}

impl From<FpduError> for Violation {
    fn from(error: FpduError) -> Violation {
        match error {
            FpduError::TooShort { .. } => TerminateCode::MPA_FRAMING.into(),
        }
    }
}

impl From<DdpHeaderError> for Violation {
    fn from(error: DdpHeaderError) -> Violation {
        match error {
            DdpHeaderError::Truncated { .. } => TerminateCode::MPA_FRAMING,
            DdpHeaderError::Version { tagged: true, .. } => TerminateCode::TAGGED_VERSION,
            DdpHeaderError::Version { tagged: false, .. } => TerminateCode::UNTAGGED_VERSION,
        }
        .into()
    }
}

impl From<ControlError> for Violation {
    fn from(error: ControlError) -> Violation {
        match error {
            ControlError::Version { .. } => TerminateCode::RDMAP_VERSION,
            ControlError::Opcode { .. } => TerminateCode::UNEXPECTED_OPCODE,
        }
        .into()
    }
}

impl Violation {
    /// Adds the offending segment.
    pub(super) fn in_segment(self, header: DdpHeader, ulpdu_len: usize) -> Violation {
        Violation {
            header: Some(header),
            ulpdu_len,
            ..self
        }
    }

    /// Adds the offending Read Request.
    pub(super) fn in_request(self, request: ReadRequest) -> Violation {
        Violation {
            read_request: Some(request),
            ..self
        }
    }

    /// The Terminate message that reports the violation. Errors of MPA quote nothing.
    pub(super) fn terminate(&self) -> Terminate {
        let context = self.header.map(|header| TerminateContext {
            segment_len: u16::try_from(self.ulpdu_len).ok(),
            header,
            read_request: self.read_request,
        });
        Terminate {
            code: self.code,
            context,
        }
    }
}

/// The code for a refused RDMA Write. DDP has none for a missing right: the key is then invalid for
/// the peer.
pub(super) fn write_refused(error: AccessError) -> TerminateCode {
    match error {
        AccessError::InvalidKey
        | AccessError::Rights
        | AccessError::NotResident
        | AccessError::Capability
        | AccessError::Replay => TerminateCode::TAGGED_INVALID_STAG,
        AccessError::WrongEndpoint => TerminateCode::TAGGED_ASSOCIATION,
        AccessError::Bounds => TerminateCode::TAGGED_BOUNDS,
        AccessError::Wrap => TerminateCode::TAGGED_WRAP,
    }
}

/// The code for a refused RDMA Read.
pub(super) fn read_refused(error: AccessError) -> TerminateCode {
    match error {
        AccessError::InvalidKey
        | AccessError::NotResident
        | AccessError::Capability
        | AccessError::Replay => TerminateCode::READ_INVALID_STAG,
        AccessError::WrongEndpoint => TerminateCode::READ_ASSOCIATION,
        AccessError::Rights => TerminateCode::READ_ACCESS,
        AccessError::Bounds => TerminateCode::READ_BOUNDS,
        AccessError::Wrap => TerminateCode::READ_WRAP,
    }
}

/// The code for a refused invalidation.
pub(super) fn invalidate_refused(error: AccessError) -> TerminateCode {
    match error {
        AccessError::WrongEndpoint => TerminateCode::INVALIDATE_ASSOCIATION,
        _ => TerminateCode::CANNOT_INVALIDATE,
    }
}

/// The error of our oldest Read or Write that a peer's Terminate reports, if it is about one.
pub(super) fn access_error_of(terminate: &Terminate) -> Option<(Opcode, AccessError)> {
    Some(match terminate.code {
        TerminateCode::READ_INVALID_STAG => (Opcode::ReadRequest, AccessError::InvalidKey),
        TerminateCode::READ_BOUNDS => (Opcode::ReadRequest, AccessError::Bounds),
        TerminateCode::READ_ACCESS => (Opcode::ReadRequest, AccessError::Rights),
        TerminateCode::READ_ASSOCIATION => (Opcode::ReadRequest, AccessError::WrongEndpoint),
        TerminateCode::READ_WRAP => (Opcode::ReadRequest, AccessError::Wrap),
        TerminateCode::TAGGED_INVALID_STAG => (Opcode::Write, AccessError::InvalidKey),
        TerminateCode::TAGGED_BOUNDS => (Opcode::Write, AccessError::Bounds),
        TerminateCode::TAGGED_ASSOCIATION => (Opcode::Write, AccessError::WrongEndpoint),
        TerminateCode::TAGGED_WRAP => (Opcode::Write, AccessError::Wrap),
        _ => return None,
    })
}
