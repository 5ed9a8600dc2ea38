//! How long calls and replies can get: what a requester has to provide room for (RFC 8166 section 4.3.2).

use super::{Attributes, DATA_MAX, HANDLE_MAX, NfsProcedure};

/// An accepted reply's header with an empty verifier, and the status word.
const REPLY_HEAD: usize = 24 + 4;
const POST_OP: usize = 4 + Attributes::LEN;
const WCC: usize = 4 + 24 + POST_OP;
const HANDLE: usize = 4 + HANDLE_MAX;

/// Longest arguments of any procedure in bytes: a WRITE with all the data it may have.
pub const ARGUMENTS_MAX: usize = HANDLE + 8 + 4 + 4 + 4 + DATA_MAX;

/// The longest reply to `procedure` in bytes, the RPC header included.
///
/// `room` is what bounds the variable part: READ's count, READDIR's count, READDIRPLUS's maximum count, READLINK's
/// longest path. The others ignore it.
pub const fn reply_max(procedure: NfsProcedure, room: u32) -> usize {
    let room = room as usize;
    match procedure {
        NfsProcedure::Null => 24,
        NfsProcedure::Getattr => REPLY_HEAD + Attributes::LEN,
        NfsProcedure::Setattr | NfsProcedure::Remove | NfsProcedure::Rmdir => REPLY_HEAD + WCC,
        NfsProcedure::Lookup => REPLY_HEAD + HANDLE + 2 * POST_OP,
        NfsProcedure::Access => REPLY_HEAD + POST_OP + 4,
        NfsProcedure::Readlink => REPLY_HEAD + POST_OP + 4 + room.next_multiple_of(4),
        NfsProcedure::Read => REPLY_HEAD + POST_OP + 12 + room.next_multiple_of(4),
        NfsProcedure::Write => REPLY_HEAD + WCC + 16,
        NfsProcedure::Create
        | NfsProcedure::Mkdir
        | NfsProcedure::Symlink
        | NfsProcedure::Mknod => REPLY_HEAD + 4 + HANDLE + POST_OP + WCC,
        NfsProcedure::Rename => REPLY_HEAD + 2 * WCC,
        NfsProcedure::Link => REPLY_HEAD + POST_OP + WCC,
        // The count is for all of the results, but Linux's server applies it to the entries alone.
        NfsProcedure::Readdir | NfsProcedure::Readdirplus => REPLY_HEAD + POST_OP + 8 + room,
        NfsProcedure::Fsstat => REPLY_HEAD + POST_OP + 6 * 8 + 4,
        NfsProcedure::Fsinfo => REPLY_HEAD + POST_OP + 7 * 4 + 8 + 8 + 4,
        NfsProcedure::Pathconf => REPLY_HEAD + POST_OP + 2 * 4 + 4 * 4,
        NfsProcedure::Commit => REPLY_HEAD + WCC + 8,
    }
}
