//! Call and reply headers (RFC 5531 section 9).

use super::{MESSAGE_CALL, MESSAGE_REPLY, OpaqueAuth, RPC_VERSION};
use crate::xdr::{Decoder, Encoder, XdrError};

/// Bytes before the results of an accepted reply whose verifier is AUTH_NONE.
pub const ACCEPTED_HEADER_LEN: usize = 24;

/// Everything before the arguments of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// Matches the reply to the call.
    pub xid: u32,
    /// The program called.
    pub program: u32,
    /// Its version.
    pub version: u32,
    /// The procedure in it.
    pub procedure: u32,
    /// Who calls.
    pub credential: OpaqueAuth<'a>,
    /// What proves it.
    pub verifier: OpaqueAuth<'a>,
}

/// Why a message is not a call to be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallHeaderError {
    /// Too short or out of bounds: nothing to answer.
    #[error("call header malformed: {0}")]
    Malformed(#[from] XdrError),
    /// The message is not a call: nothing to answer.
    #[error("message type {message_type} is not a call")]
    NotACall {
        /// What it claims to be.
        message_type: u32,
    },
    /// Another RPC version: to be answered with [`Rejection::RpcMismatch`].
    #[error("rpc version {version}")]
    RpcMismatch {
        /// Whom to answer.
        xid: u32,
        /// The version asked for.
        version: u32,
    },
    /// The credential or verifier is out of bounds: to be answered with [`AuthStat::BADCRED`].
    #[error("credential or verifier malformed: {error}")]
    BadAuth {
        /// Whom to answer.
        xid: u32,
        /// What is wrong.
        error: XdrError,
    },
}

impl<'a> CallHeader<'a> {
    /// Takes a call header off the front of `decoder`, which then stands at the arguments.
    ///
    /// # Errors
    /// See [`CallHeaderError`] for what to answer.
    #[inline]
    pub fn parse(decoder: &mut Decoder<'a>) -> Result<CallHeader<'a>, CallHeaderError> {
        let xid = decoder.u32()?;
        let message_type = decoder.u32()?;
        if message_type != MESSAGE_CALL {
            return Err(CallHeaderError::NotACall { message_type });
        }
        let rpc_version = decoder.u32()?;
        if rpc_version != RPC_VERSION {
            return Err(CallHeaderError::RpcMismatch {
                xid,
                version: rpc_version,
            });
        }
        let program = decoder.u32()?;
        let version = decoder.u32()?;
        let procedure = decoder.u32()?;
        let bad_auth = |error| CallHeaderError::BadAuth { xid, error };
        let credential = OpaqueAuth::parse(decoder).map_err(bad_auth)?;
        let verifier = OpaqueAuth::parse(decoder).map_err(bad_auth)?;
        Ok(CallHeader {
            xid,
            program,
            version,
            procedure,
            credential,
            verifier,
        })
    }

    /// Appends the header; the arguments follow.
    #[inline]
    pub fn emit(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.xid);
        encoder.u32(MESSAGE_CALL);
        encoder.u32(RPC_VERSION);
        encoder.u32(self.program);
        encoder.u32(self.version);
        encoder.u32(self.procedure);
        self.credential.emit(encoder);
        self.verifier.emit(encoder);
    }

    /// Bytes that [`CallHeader::emit`] appends.
    #[inline]
    pub const fn encoded_len(&self) -> usize {
        24 + self.credential.encoded_len() + self.verifier.encoded_len()
    }
}

/// How an accepted call went (`accept_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptStatus {
    /// Executed; results follow.
    Success,
    /// The program is not served here.
    ProgUnavail,
    /// The program is served in other versions.
    ProgMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// The program has no such procedure.
    ProcUnavail,
    /// The arguments cannot be decoded.
    GarbageArgs,
    /// The server failed, for instance for lack of memory.
    SystemErr,
}

/// Why a credential was refused (`auth_stat`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AuthStat(pub u32);

impl AuthStat {
    /// The credential is malformed.
    pub const BADCRED: AuthStat = AuthStat(1);
    /// The client must begin a new session.
    pub const REJECTEDCRED: AuthStat = AuthStat(2);
    /// The verifier is malformed.
    pub const BADVERF: AuthStat = AuthStat(3);
    /// The verifier expired or was replayed.
    pub const REJECTEDVERF: AuthStat = AuthStat(4);
    /// Refused for security reasons.
    pub const TOOWEAK: AuthStat = AuthStat(5);
    /// A bogus response verifier.
    pub const INVALIDRESP: AuthStat = AuthStat(6);
    /// An unknown reason.
    pub const FAILED: AuthStat = AuthStat(7);
}

/// Why a call was denied (`rejected_reply`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// The RPC version is not spoken here.
    RpcMismatch {
        /// Lowest version spoken.
        low: u32,
        /// Highest version spoken.
        high: u32,
    },
    /// The caller is not believed.
    AuthError(AuthStat),
}

/// What a reply says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOutcome<'a> {
    /// The call was accepted.
    Accepted {
        /// Proves the server; AUTH_NONE from Gannet.
        verifier: OpaqueAuth<'a>,
        /// How it went.
        status: AcceptStatus,
    },
    /// The call was denied.
    Denied(Rejection),
}

/// Everything before the results of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// The call it answers.
    pub xid: u32,
    /// What it says.
    pub outcome: ReplyOutcome<'a>,
}

/// Why a message is not a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyHeaderError {
    /// Too short, out of bounds or an undefined discriminant.
    #[error("reply header malformed: {0}")]
    Malformed(#[from] XdrError),
    /// The message is not a reply.
    #[error("message type {message_type} is not a reply")]
    NotAReply {
        /// What it claims to be.
        message_type: u32,
    },
}

impl<'a> ReplyHeader<'a> {
    /// The header of an accepted reply with an AUTH_NONE verifier.
    #[inline]
    pub const fn accepted(xid: u32, status: AcceptStatus) -> ReplyHeader<'static> {
        let verifier = OpaqueAuth::NONE;
        ReplyHeader {
            xid,
            outcome: ReplyOutcome::Accepted { verifier, status },
        }
    }

    /// The header of a denied reply; nothing follows it.
    #[inline]
    pub const fn denied(xid: u32, rejection: Rejection) -> ReplyHeader<'static> {
        ReplyHeader {
            xid,
            outcome: ReplyOutcome::Denied(rejection),
        }
    }

    /// Takes a reply header off the front of `decoder`, which then stands at the results, if there are any.
    ///
    /// # Errors
    /// The message is not a well-formed reply.
    #[inline]
    pub fn parse(decoder: &mut Decoder<'a>) -> Result<ReplyHeader<'a>, ReplyHeaderError> {
        let xid = decoder.u32()?;
        let message_type = decoder.u32()?;
        if message_type != MESSAGE_REPLY {
            return Err(ReplyHeaderError::NotAReply { message_type });
        }
        let outcome = match decoder.u32()? {
            0 => ReplyOutcome::Accepted {
                verifier: OpaqueAuth::parse(decoder)?,
                status: AcceptStatus::parse(decoder)?,
            },
            1 => ReplyOutcome::Denied(Rejection::parse(decoder)?),
            _ => return Err(XdrError::Value.into()),
        };
        Ok(ReplyHeader { xid, outcome })
    }

    /// Appends the header; results follow only [`AcceptStatus::Success`].
    #[inline]
    pub fn emit(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.xid);
        encoder.u32(MESSAGE_REPLY);
        match &self.outcome {
            ReplyOutcome::Accepted { verifier, status } => {
                encoder.u32(0);
                verifier.emit(encoder);
                status.emit(encoder);
            }
            ReplyOutcome::Denied(rejection) => {
                encoder.u32(1);
                rejection.emit(encoder);
            }
        }
    }
}

impl AcceptStatus {
    fn parse(decoder: &mut Decoder<'_>) -> Result<AcceptStatus, XdrError> {
        Ok(match decoder.u32()? {
            0 => AcceptStatus::Success,
            1 => AcceptStatus::ProgUnavail,
            2 => AcceptStatus::ProgMismatch {
                low: decoder.u32()?,
                high: decoder.u32()?,
            },
            3 => AcceptStatus::ProcUnavail,
            4 => AcceptStatus::GarbageArgs,
            5 => AcceptStatus::SystemErr,
            _ => return Err(XdrError::Value),
        })
    }

    fn emit(&self, encoder: &mut Encoder<'_>) {
        match *self {
            AcceptStatus::Success => encoder.u32(0),
            AcceptStatus::ProgUnavail => encoder.u32(1),
            AcceptStatus::ProgMismatch { low, high } => {
                encoder.u32(2);
                encoder.u32(low);
                encoder.u32(high);
            }
            AcceptStatus::ProcUnavail => encoder.u32(3),
            AcceptStatus::GarbageArgs => encoder.u32(4),
            AcceptStatus::SystemErr => encoder.u32(5),
        }
    }
}

impl Rejection {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Rejection, XdrError> {
        match decoder.u32()? {
            0 => Ok(Rejection::RpcMismatch {
                low: decoder.u32()?,
                high: decoder.u32()?,
            }),
            1 => Ok(Rejection::AuthError(AuthStat(decoder.u32()?))),
            _ => Err(XdrError::Value),
        }
    }

    fn emit(&self, encoder: &mut Encoder<'_>) {
        match *self {
            Rejection::RpcMismatch { low, high } => {
                encoder.u32(0);
                encoder.u32(low);
                encoder.u32(high);
            }
            Rejection::AuthError(status) => {
                encoder.u32(1);
                encoder.u32(status.0);
            }
        }
    }
}
