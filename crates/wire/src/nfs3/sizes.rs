//! The largest sizes of calls and replies, for which a requester has to provide room (RFC 8166 section 4.3.2).

use super::{Attributes, DATA_MAX, HANDLE_MAX, NfsProcedure};
use crate::rpc::ACCEPTED_HEADER_LEN;

/// Bytes of a word, of a hyper integer, of a time, of a verifier.
const WORD: usize = 4;
const HYPER: usize = 8;
const TIME: usize = 2 * WORD;
const VERIFIER: usize = 8;

/// Bytes of an accepted reply's header with an empty verifier, and of the status word.
const REPLY_HEAD: usize = ACCEPTED_HEADER_LEN + WORD;
/// Bytes of the longest `post_op_attr`.
const POST_OP: usize = WORD + Attributes::LEN;
/// Bytes of the longest `wcc_data`: size and two times before, attributes after.
const WCC: usize = WORD + HYPER + 2 * TIME + POST_OP;
/// Bytes of the longest file handle.
const HANDLE: usize = WORD + HANDLE_MAX;

/// Bytes of the longest arguments of any procedure: of a WRITE of [`DATA_MAX`] bytes.
pub const ARGUMENTS_MAX: usize = HANDLE + HYPER + 3 * WORD + DATA_MAX;

/// Bytes of the longest reply to `procedure`, the RPC header included.
///
/// `room` bounds the variable part: READ's count, READDIR's count, READDIRPLUS's maxcount, READLINK's longest path. The
/// other procedures ignore it.
pub const fn reply_max(procedure: NfsProcedure, room: u32) -> usize {
    let room = room as usize;
    match procedure {
        NfsProcedure::Null => ACCEPTED_HEADER_LEN,
        NfsProcedure::Getattr => REPLY_HEAD + Attributes::LEN,
        NfsProcedure::Setattr | NfsProcedure::Remove | NfsProcedure::Rmdir => REPLY_HEAD + WCC,
        NfsProcedure::Lookup => REPLY_HEAD + HANDLE + 2 * POST_OP,
        NfsProcedure::Access => REPLY_HEAD + POST_OP + WORD,
        NfsProcedure::Readlink => REPLY_HEAD + POST_OP + WORD + room.next_multiple_of(WORD),
        NfsProcedure::Read => REPLY_HEAD + POST_OP + 3 * WORD + room.next_multiple_of(WORD),
        NfsProcedure::Write => REPLY_HEAD + WCC + 2 * WORD + VERIFIER,
        NfsProcedure::Create
        | NfsProcedure::Mkdir
        | NfsProcedure::Symlink
        | NfsProcedure::Mknod => REPLY_HEAD + WORD + HANDLE + POST_OP + WCC,
        NfsProcedure::Rename => REPLY_HEAD + 2 * WCC,
        NfsProcedure::Link => REPLY_HEAD + POST_OP + WCC,
        // The count is for all of the results, but Linux's server applies it to the entries alone.
        NfsProcedure::Readdir | NfsProcedure::Readdirplus => REPLY_HEAD + POST_OP + VERIFIER + room,
        NfsProcedure::Fsstat => REPLY_HEAD + POST_OP + 6 * HYPER + WORD,
        NfsProcedure::Fsinfo => REPLY_HEAD + POST_OP + 7 * WORD + HYPER + TIME + WORD,
        NfsProcedure::Pathconf => REPLY_HEAD + POST_OP + 6 * WORD,
        NfsProcedure::Commit => REPLY_HEAD + WCC + VERIFIER,
    }
}
