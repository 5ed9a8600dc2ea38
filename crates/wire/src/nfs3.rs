//! NFS version 3 (RFC 1813): the arguments and results of its 22 procedures, in both directions.
//!
//! Every argument and result is a value that borrows its names, handles and data from the message it came in;
//! nothing is copied and nothing allocated on decode. A result is a [`Result`]: the `Ok` side follows status 0,
//! the `Err` side is [`Failed`], a status and what the procedure sends along with it. Status 0 cannot be put into
//! a `Failed`.
//!
//! READ, WRITE, READLINK and SYMLINK come in two shapes each: whole, with the data in the message ([`ReadOk`],
//! [`WriteArgs`]), and head only, for transports that carry the data apart ([`ReadHead`], [`WriteHead`]); a head ends
//! with the data's length word, as RFC 8166 section 3.4.5 leaves it in a reduced message.
//!
//! Read [`NfsProcedure`] first, then the arguments of one procedure.

mod list;
mod procedures;
mod sizes;
mod types;

pub use list::{DirectoryListing, Entry, EntryPlus, List, ListIter};
pub use procedures::*;
pub use sizes::{ARGUMENTS_MAX, reply_max};
pub use types::*;

/// The program number of NFS.
pub const PROGRAM: u32 = 100_003;
/// The version described here.
pub const VERSION: u32 = 3;

/// Longest file handle (NFS3_FHSIZE).
pub const HANDLE_MAX: usize = 64;
/// Longest name a decoder lets through. RFC 1813 sets no bound; a server answers NAMETOOLONG from 256 bytes on, and
/// for that it has to see the name.
pub const NAME_MAX: usize = 4096;
/// Longest path (symbolic link text) a decoder lets through.
pub const PATH_MAX: usize = 4096;
/// Most data a READ or WRITE moves in one call.
pub const DATA_MAX: usize = 1 << 20;

/// A procedure of NFSv3, with its number.
#[allow(missing_docs)] // the names are the specification's
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u32)]
pub enum NfsProcedure {
    Null = 0,
    Getattr = 1,
    Setattr = 2,
    Lookup = 3,
    Access = 4,
    Readlink = 5,
    Read = 6,
    Write = 7,
    Create = 8,
    Mkdir = 9,
    Symlink = 10,
    Mknod = 11,
    Remove = 12,
    Rmdir = 13,
    Rename = 14,
    Link = 15,
    Readdir = 16,
    Readdirplus = 17,
    Fsstat = 18,
    Fsinfo = 19,
    Pathconf = 20,
    Commit = 21,
}

impl NfsProcedure {
    /// All of them, in the order of their numbers.
    pub const ALL: [NfsProcedure; 22] = [
        NfsProcedure::Null,
        NfsProcedure::Getattr,
        NfsProcedure::Setattr,
        NfsProcedure::Lookup,
        NfsProcedure::Access,
        NfsProcedure::Readlink,
        NfsProcedure::Read,
        NfsProcedure::Write,
        NfsProcedure::Create,
        NfsProcedure::Mkdir,
        NfsProcedure::Symlink,
        NfsProcedure::Mknod,
        NfsProcedure::Remove,
        NfsProcedure::Rmdir,
        NfsProcedure::Rename,
        NfsProcedure::Link,
        NfsProcedure::Readdir,
        NfsProcedure::Readdirplus,
        NfsProcedure::Fsstat,
        NfsProcedure::Fsinfo,
        NfsProcedure::Pathconf,
        NfsProcedure::Commit,
    ];

    /// The procedure with this number.
    pub fn from_number(number: u32) -> Option<NfsProcedure> {
        NfsProcedure::ALL
            .get(usize::try_from(number).ok()?)
            .copied()
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// True when doing it twice differs from doing it once, so that a server must remember its reply.
    ///
    /// COMMIT is left out: it may be repeated. WRITE is in: a repeated one would report consistency data that
    /// hides another client's change in between.
    pub const fn is_replay_sensitive(self) -> bool {
        matches!(
            self,
            NfsProcedure::Setattr
                | NfsProcedure::Write
                | NfsProcedure::Create
                | NfsProcedure::Mkdir
                | NfsProcedure::Symlink
                | NfsProcedure::Mknod
                | NfsProcedure::Remove
                | NfsProcedure::Rmdir
                | NfsProcedure::Rename
                | NfsProcedure::Link
        )
    }
}
