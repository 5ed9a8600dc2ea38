//! ONC RPC version 2 (RFC 5531): call and reply headers, AUTH_NONE and AUTH_SYS, record marking.
//!
//! Headers are parsed off the front of a [`Decoder`], which then stands at the arguments or results. This module does
//! not match replies to calls, authorize callers or hold connections.

mod auth;
mod header;
mod record;

pub use auth::{AuthFlavor, AuthSys, GROUPS_MAX, Groups, MACHINE_NAME_MAX, OpaqueAuth};
pub use header::{
    ACCEPTED_HEADER_LEN, AcceptStatus, AuthStat, CallHeader, CallHeaderError, HEADER_LEN_MAX,
    MessageFront, Rejection, ReplyHeader, ReplyHeaderError, ReplyOutcome,
};
pub use record::{
    FRAGMENT_MAX, RECORD_MARK_LEN, RecordError, RecordEvent, RecordMark, RecordReader, WholeRecord,
};

#[allow(unused_imports)] // named in the documentation above
use crate::xdr::Decoder;

/// The RPC protocol version (RFC 5531 section 8).
pub const RPC_VERSION: u32 = 2;
/// Most bytes of the body of a credential or verifier (RFC 5531 section 8.2).
pub const AUTH_BODY_MAX: usize = 400;
/// `msg_type` of a call (RFC 5531 section 9).
pub const MESSAGE_CALL: u32 = 0;
/// `msg_type` of a reply (RFC 5531 section 9).
pub const MESSAGE_REPLY: u32 = 1;
