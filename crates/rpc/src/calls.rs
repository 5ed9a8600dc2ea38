//! The calls that one end of a connection makes, until they are answered.

mod pending;

pub(crate) use pending::{Entry, Pending, SharedPayload, check_reply, fill_sink, opaque_len};
