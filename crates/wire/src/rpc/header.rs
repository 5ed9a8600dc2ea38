//! Call and reply headers (RFC 5531 section 9).

use super::{AUTH_BODY_MAX, MESSAGE_CALL, MESSAGE_REPLY, OpaqueAuth, RPC_VERSION};
use crate::xdr::{Decoder, Encoder, XdrError};
use core::fmt;

/// Bytes of an XDR word.
const WORD: usize = 4;
/// Bytes in front of a call's credential: XID, message type, RPC version, program, version, procedure.
const CALL_FRONT_LEN: usize = 6 * WORD;
/// Bytes of an authenticator in front of its body: flavor and length.
const AUTH_FRONT_LEN: usize = 2 * WORD;
/// Bytes in front of the results of an accepted reply whose verifier is AUTH_NONE: XID, message type, reply status, the
/// verifier's flavor and length, accept status.
pub const ACCEPTED_HEADER_LEN: usize = 6 * WORD;
/// Most bytes of a header of either kind: a call's, with two authenticators of the longest body.
pub const HEADER_LEN_MAX: usize = CALL_FRONT_LEN + 2 * (AUTH_FRONT_LEN + AUTH_BODY_MAX);

/// `reply_stat`.
mod reply_stat {
    pub(super) const MSG_ACCEPTED: u32 = 0;
    pub(super) const MSG_DENIED: u32 = 1;
}

/// `accept_stat`.
mod accept_stat {
    pub(super) const SUCCESS: u32 = 0;
    pub(super) const PROG_UNAVAIL: u32 = 1;
    pub(super) const PROG_MISMATCH: u32 = 2;
    pub(super) const PROC_UNAVAIL: u32 = 3;
    pub(super) const GARBAGE_ARGS: u32 = 4;
    pub(super) const SYSTEM_ERR: u32 = 5;
}

/// `reject_stat`.
mod reject_stat {
    pub(super) const RPC_MISMATCH: u32 = 0;
    pub(super) const AUTH_ERROR: u32 = 1;
}

/// The two words that every RPC message begins with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MessageFront {
    /// The number that calls and replies have in common.
    pub xid: u32,
    /// [`MESSAGE_CALL`], [`MESSAGE_REPLY`], or a number that RFC 5531 does not define.
    pub message_type: u32,
}

impl MessageFront {
    /// Reads the front of `message`; `None` when it is shorter than two words.
    #[inline]
    pub fn of(message: &[u8]) -> Option<MessageFront> {
        let mut decoder = Decoder::new(message);
        Some(MessageFront {
            xid: decoder.u32().ok()?,
            message_type: decoder.u32().ok()?,
        })
    }
}

/// The header of a call (RFC 5531 section 9), up to its arguments:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                              xid                              |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                        mtype = CALL (0)                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                          rpcvers = 2                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                             prog                              |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                             vers                              |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                             proc                              |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |             cred: flavor, length, 0 to 400 bytes              ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |             verf: flavor, length, 0 to 400 bytes              ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallHeader<'a> {
    /// The number by which the caller finds the reply.
    pub xid: u32,
    /// prog: the program called.
    pub program: u32,
    /// vers: the program's version.
    pub version: u32,
    /// proc: the procedure of the program.
    pub procedure: u32,
    /// cred: the identity of the caller.
    pub credential: OpaqueAuth<'a>,
    /// verf: the proof of that identity.
    pub verifier: OpaqueAuth<'a>,
}

impl fmt::Display for CallHeader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "RPC CALL xid={:08x} prog={} vers={} proc={} cred={} verf={}",
            self.xid, self.program, self.version, self.procedure, self.credential, self.verifier
        )
    }
}

/// The reason why a message is not a call to be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallHeaderError {
    /// The message ends within the words that precede the credential. No answer is possible.
    #[error("call header malformed: {0}")]
    Malformed(#[from] XdrError),
    /// The message is not a call. It gets no answer.
    #[error("message type {message_type} is not a call")]
    NotACall {
        /// Its message type.
        message_type: u32,
    },
    /// The RPC version is not [`RPC_VERSION`]. The answer is [`Rejection::RpcMismatch`].
    #[error("rpc version {version}")]
    RpcMismatch {
        /// The XID for the answer.
        xid: u32,
        /// The RPC version of the call.
        version: u32,
    },
    /// The credential or verifier ends early or is too long. The answer is [`AuthStat::BADCRED`].
    #[error("credential or verifier malformed: {error}")]
    BadAuth {
        /// The XID for the answer.
        xid: u32,
        /// The error of the credential or verifier.
        error: XdrError,
    },
}

impl<'a> CallHeader<'a> {
    /// Takes a call header off the front of `decoder`, which then stands at the arguments.
    ///
    /// # Errors
    /// Each variant of [`CallHeaderError`], which names the answer that the caller gets:
    ///
    /// - [`CallHeaderError::Malformed`]: the bytes end before the credential.
    /// - [`CallHeaderError::NotACall`]: the message type is not [`MESSAGE_CALL`].
    /// - [`CallHeaderError::RpcMismatch`]: the RPC version is not [`RPC_VERSION`].
    /// - [`CallHeaderError::BadAuth`]: the credential or the verifier cannot be read.
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
        CALL_FRONT_LEN + self.credential.encoded_len() + self.verifier.encoded_len()
    }
}

/// The outcome of an accepted call (`accept_stat`, RFC 5531 section 9). It prints by the RFC's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AcceptStatus {
    /// 0: executed; results follow.
    Success,
    /// 1: the server does not have the program.
    ProgUnavail,
    /// 2: the server has other versions of the program.
    ProgMismatch {
        /// Lowest version served.
        low: u32,
        /// Highest version served.
        high: u32,
    },
    /// 3: the program has no such procedure.
    ProcUnavail,
    /// 4: the server cannot decode the arguments.
    GarbageArgs,
    /// 5: the server failed, for instance for lack of memory.
    SystemErr,
}

impl fmt::Display for AcceptStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AcceptStatus::Success => f.write_str("SUCCESS"),
            AcceptStatus::ProgUnavail => f.write_str("PROG_UNAVAIL"),
            AcceptStatus::ProgMismatch { low, high } => write!(f, "PROG_MISMATCH({low}..{high})"),
            AcceptStatus::ProcUnavail => f.write_str("PROC_UNAVAIL"),
            AcceptStatus::GarbageArgs => f.write_str("GARBAGE_ARGS"),
            AcceptStatus::SystemErr => f.write_str("SYSTEM_ERR"),
        }
    }
}

/// The reason for refusing a credential or verifier (`auth_stat`, RFC 5531 section 9). It prints by the RFC's names,
/// without their prefix.
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
    /// Security reasons.
    pub const TOOWEAK: AuthStat = AuthStat(5);
    /// The response verifier is bogus.
    pub const INVALIDRESP: AuthStat = AuthStat(6);
    /// An unknown reason.
    pub const FAILED: AuthStat = AuthStat(7);

    /// The names of RFC 5531, by number.
    const NAMES: [&str; 8] = [
        "OK",
        "BADCRED",
        "REJECTEDCRED",
        "BADVERF",
        "REJECTEDVERF",
        "TOOWEAK",
        "INVALIDRESP",
        "FAILED",
    ];
}

impl fmt::Display for AuthStat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match AuthStat::NAMES.get(self.0 as usize) {
            Some(name) => f.write_str(name),
            None => write!(f, "{}", self.0),
        }
    }
}

/// The reason for denying a call (`rejected_reply`, RFC 5531 section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejection {
    /// 0: the server does not speak the call's RPC version.
    RpcMismatch {
        /// Lowest RPC version spoken.
        low: u32,
        /// Highest RPC version spoken.
        high: u32,
    },
    /// 1: the server does not accept the credential or verifier.
    AuthError(AuthStat),
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rejection::RpcMismatch { low, high } => write!(f, "RPC_MISMATCH({low}..{high})"),
            Rejection::AuthError(status) => write!(f, "AUTH_ERROR({status})"),
        }
    }
}

/// The body of a reply (`reply_body`, RFC 5531 section 9).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReplyOutcome<'a> {
    /// 0: the server accepted the call.
    Accepted {
        /// The proof of the server's identity; AUTH_NONE from Gannet.
        verifier: OpaqueAuth<'a>,
        /// The outcome.
        status: AcceptStatus,
    },
    /// 1: the server denied the call.
    Denied(Rejection),
}

/// The header of a reply (RFC 5531 section 9), up to its results. That of an accepted reply:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                              xid                              |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                       mtype = REPLY (1)                       |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                    stat = MSG_ACCEPTED (0)                    |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |             verf: flavor, length, 0 to 400 bytes              ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |              stat; low and high if PROG_MISMATCH              ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// A denied reply has MSG_DENIED (1), then RPC_MISMATCH (0) with low and high, or AUTH_ERROR (1) with its reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReplyHeader<'a> {
    /// The XID of the call that it answers.
    pub xid: u32,
    /// Accepted or denied, and the outcome.
    pub outcome: ReplyOutcome<'a>,
}

impl fmt::Display for ReplyHeader<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RPC REPLY xid={:08x} ", self.xid)?;
        match &self.outcome {
            ReplyOutcome::Accepted { verifier, status } => write!(f, "{status} verf={verifier}"),
            ReplyOutcome::Denied(rejection) => write!(f, "{rejection}"),
        }
    }
}

/// The reason why a message is not a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ReplyHeaderError {
    /// The message ends early, its verifier is too long, or a discriminant is not defined.
    #[error("reply header malformed: {0}")]
    Malformed(#[from] XdrError),
    /// The message is not a reply.
    #[error("message type {message_type} is not a reply")]
    NotAReply {
        /// Its message type.
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
    /// - [`ReplyHeaderError::NotAReply`]: the message type is not [`MESSAGE_REPLY`].
    /// - [`ReplyHeaderError::Malformed`]: the header ends early, a verifier is longer than [`AUTH_BODY_MAX`], or a
    ///   discriminant is not one of RFC 5531.
    #[inline]
    pub fn parse(decoder: &mut Decoder<'a>) -> Result<ReplyHeader<'a>, ReplyHeaderError> {
        let xid = decoder.u32()?;
        let message_type = decoder.u32()?;
        if message_type != MESSAGE_REPLY {
            return Err(ReplyHeaderError::NotAReply { message_type });
        }
        let outcome = match decoder.u32()? {
            reply_stat::MSG_ACCEPTED => ReplyOutcome::Accepted {
                verifier: OpaqueAuth::parse(decoder)?,
                status: AcceptStatus::parse(decoder)?,
            },
            reply_stat::MSG_DENIED => ReplyOutcome::Denied(Rejection::parse(decoder)?),
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
                encoder.u32(reply_stat::MSG_ACCEPTED);
                verifier.emit(encoder);
                status.emit(encoder);
            }
            ReplyOutcome::Denied(rejection) => {
                encoder.u32(reply_stat::MSG_DENIED);
                rejection.emit(encoder);
            }
        }
    }
}

impl AcceptStatus {
    fn parse(decoder: &mut Decoder<'_>) -> Result<AcceptStatus, XdrError> {
        Ok(match decoder.u32()? {
            accept_stat::SUCCESS => AcceptStatus::Success,
            accept_stat::PROG_UNAVAIL => AcceptStatus::ProgUnavail,
            accept_stat::PROG_MISMATCH => AcceptStatus::ProgMismatch {
                low: decoder.u32()?,
                high: decoder.u32()?,
            },
            accept_stat::PROC_UNAVAIL => AcceptStatus::ProcUnavail,
            accept_stat::GARBAGE_ARGS => AcceptStatus::GarbageArgs,
            accept_stat::SYSTEM_ERR => AcceptStatus::SystemErr,
            _ => return Err(XdrError::Value),
        })
    }

    fn emit(&self, encoder: &mut Encoder<'_>) {
        match *self {
            AcceptStatus::Success => encoder.u32(accept_stat::SUCCESS),
            AcceptStatus::ProgUnavail => encoder.u32(accept_stat::PROG_UNAVAIL),
            AcceptStatus::ProgMismatch { low, high } => {
                encoder.u32(accept_stat::PROG_MISMATCH);
                encoder.u32(low);
                encoder.u32(high);
            }
            AcceptStatus::ProcUnavail => encoder.u32(accept_stat::PROC_UNAVAIL),
            AcceptStatus::GarbageArgs => encoder.u32(accept_stat::GARBAGE_ARGS),
            AcceptStatus::SystemErr => encoder.u32(accept_stat::SYSTEM_ERR),
        }
    }
}

impl Rejection {
    fn parse(decoder: &mut Decoder<'_>) -> Result<Rejection, XdrError> {
        match decoder.u32()? {
            reject_stat::RPC_MISMATCH => Ok(Rejection::RpcMismatch {
                low: decoder.u32()?,
                high: decoder.u32()?,
            }),
            reject_stat::AUTH_ERROR => Ok(Rejection::AuthError(AuthStat(decoder.u32()?))),
            _ => Err(XdrError::Value),
        }
    }

    fn emit(&self, encoder: &mut Encoder<'_>) {
        match *self {
            Rejection::RpcMismatch { low, high } => {
                encoder.u32(reject_stat::RPC_MISMATCH);
                encoder.u32(low);
                encoder.u32(high);
            }
            Rejection::AuthError(status) => {
                encoder.u32(reject_stat::AUTH_ERROR);
                encoder.u32(status.0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::{String, ToString};

    /// The header in these words.
    fn reply(words: &[u32]) -> String {
        let bytes: alloc::vec::Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        ReplyHeader::parse(&mut Decoder::new(&bytes))
            .unwrap()
            .to_string()
    }

    #[test]
    fn a_call_prints_on_a_line() {
        let bytes = b"\xb1\xb4\xcd\x3d\0\0\0\0\0\0\0\x02\0\x01\x86\xa3\0\0\0\x03\0\0\0\x06\
            \0\0\0\x01\0\0\0\x04body\0\0\0\0\0\0\0\0";
        let call = CallHeader::parse(&mut Decoder::new(bytes)).unwrap();
        assert_eq!(
            call.to_string(),
            "RPC CALL xid=b1b4cd3d prog=100003 vers=3 proc=6 cred=sys(4 bytes) verf=none"
        );
        let front = MessageFront::of(bytes).unwrap();
        assert_eq!((front.xid, front.message_type), (call.xid, MESSAGE_CALL));
        assert_eq!(MessageFront::of(&bytes[..7]), None);
    }

    #[test]
    fn a_reply_prints_on_a_line() {
        for (words, line) in [
            (&[9, 1, 0, 0, 0, 0][..], "SUCCESS verf=none"),
            (&[9, 1, 0, 0, 0, 2, 3, 4], "PROG_MISMATCH(3..4) verf=none"),
            (&[9, 1, 1, 0, 2, 2], "RPC_MISMATCH(2..2)"),
            (&[9, 1, 1, 1, 5], "AUTH_ERROR(TOOWEAK)"),
            (&[9, 1, 1, 1, 8], "AUTH_ERROR(8)"),
        ] {
            let mut expected = String::from("RPC REPLY xid=00000009 ");
            expected.push_str(line);
            assert_eq!(reply(words), expected);
        }
    }
}
