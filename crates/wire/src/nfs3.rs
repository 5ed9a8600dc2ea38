//! NFS version 3 (RFC 1813): the arguments and results of its 22 procedures, in both directions.
//!
//! Every argument and result is a value that borrows its names, handles and data from its message; decoding copies and
//! allocates nothing. A result is a [`Result`]: the `Ok` side follows status 0, the `Err` side is [`Failed`], a status
//! and the attributes that the procedure sends with it. Status 0 cannot be put into a `Failed`.
//!
//! Records print on a line by the names of RFC 1813's fields ([`crate::xdr::Print`]).
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

use core::fmt;

/// The program number of NFS (RFC 1813 section 3).
pub const PROGRAM: u32 = 100_003;
/// The version of NFS in this module.
pub const VERSION: u32 = 3;

/// Most bytes of a file handle (NFS3_FHSIZE, RFC 1813 section 2.4).
pub const HANDLE_MAX: usize = 64;
/// Most bytes of a path (the text of a symbolic link) that a decoder accepts.
pub const PATH_MAX: usize = 4096;
/// Most bytes of data that one READ or WRITE moves.
pub const DATA_MAX: usize = 1 << 20;

/// A procedure of NFSv3 (RFC 1813 section 3.3), with its number. It prints by the RFC's name.
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
    /// All procedures, in the order of their numbers.
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

    /// The procedure with this number; `None` for a number above 21.
    pub fn from_number(number: u32) -> Option<NfsProcedure> {
        NfsProcedure::ALL
            .get(usize::try_from(number).ok()?)
            .copied()
    }

    /// The procedure's number, 0 to 21.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The procedure's name in RFC 1813, without its prefix.
    pub const fn name(self) -> &'static str {
        match self {
            NfsProcedure::Null => "NULL",
            NfsProcedure::Getattr => "GETATTR",
            NfsProcedure::Setattr => "SETATTR",
            NfsProcedure::Lookup => "LOOKUP",
            NfsProcedure::Access => "ACCESS",
            NfsProcedure::Readlink => "READLINK",
            NfsProcedure::Read => "READ",
            NfsProcedure::Write => "WRITE",
            NfsProcedure::Create => "CREATE",
            NfsProcedure::Mkdir => "MKDIR",
            NfsProcedure::Symlink => "SYMLINK",
            NfsProcedure::Mknod => "MKNOD",
            NfsProcedure::Remove => "REMOVE",
            NfsProcedure::Rmdir => "RMDIR",
            NfsProcedure::Rename => "RENAME",
            NfsProcedure::Link => "LINK",
            NfsProcedure::Readdir => "READDIR",
            NfsProcedure::Readdirplus => "READDIRPLUS",
            NfsProcedure::Fsstat => "FSSTAT",
            NfsProcedure::Fsinfo => "FSINFO",
            NfsProcedure::Pathconf => "PATHCONF",
            NfsProcedure::Commit => "COMMIT",
        }
    }

    /// True when executing a call twice differs from executing it once, so that a server must remember its reply.
    ///
    /// COMMIT may be repeated. A repeated WRITE would report consistency data that hides another client's change in
    /// between.
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

impl fmt::Display for NfsProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::{Decode, Printed, from_bytes};
    use alloc::string::{String, ToString};
    use alloc::vec::Vec;

    /// The bytes of hexadecimal words.
    fn bytes(words: &str) -> Vec<u8> {
        let digits: Vec<u8> = words.bytes().filter(u8::is_ascii_hexdigit).collect();
        let pairs = digits.chunks(2).map(|pair| str::from_utf8(pair).unwrap());
        pairs
            .map(|pair| u8::from_str_radix(pair, 16).unwrap())
            .collect()
    }

    fn printed<'a, T: Decode<'a> + ToString>(bytes: &'a [u8]) -> String {
        from_bytes::<T>(bytes).unwrap().to_string()
    }

    #[test]
    fn procedures_print_by_the_names_of_the_rfc() {
        for procedure in NfsProcedure::ALL {
            let debugged = alloc::format!("{procedure:?}").to_uppercase();
            assert_eq!(procedure.to_string(), debugged);
        }
    }

    #[test]
    fn arguments_print_on_a_line() {
        let create =
            bytes("00000008 aaaaaaaa aaaaaaaa 00000003 61626300 00000002 01020304 05060708");
        assert_eq!(
            printed::<CreateArgs<'_>>(&create),
            "CREATE3args where=(dir=aaaaaaaaaaaaaaaa name=\"abc\") how=EXCLUSIVE(0102030405060708)"
        );
        let setattr = bytes(
            "00000008 aaaaaaaa aaaaaaaa 00000000 00000000 00000000 00000001 00000000 00000005
             00000000 00000001 00000000",
        );
        assert_eq!(
            printed::<SetattrArgs<'_>>(&setattr),
            "SETATTR3args object=aaaaaaaaaaaaaaaa new_attributes=(size=5 mtime=server)"
        );
        let read = bytes("00000004 01020304 00000000 00001000 00002000");
        assert_eq!(
            printed::<ReadArgs<'_>>(&read),
            "READ3args file=01020304 offset=4096 count=8192"
        );
    }

    #[test]
    fn results_print_on_a_line() {
        let attributes = bytes(
            "00000002 000001ed 00000002 00000000 00000000 00000000 00001000 00000000 00001000
             00000000 00000000 00000000 00000007 00000000 00000002 00000001 00000000 00000002
             00000000 00000003 00000000",
        );
        assert_eq!(
            printed::<Attributes>(&attributes),
            "fattr3 type=dir mode=0755 nlink=2 uid=0 gid=0 size=4096 used=4096 rdev=0:0 fsid=7 \
             fileid=2 atime=1.000000000 mtime=2.000000000 ctime=3.000000000"
        );
        let write = bytes("00000000 00000000 00000005 00000002 47414e4e 45543031");
        assert_eq!(
            printed::<WriteOk>(&write),
            "WRITE3resok count=5 committed=file_sync verf=47414e4e45543031"
        );
        let readdir = bytes(
            "00000000 00000000 00000000 00000001 00000000 00000002 00000001 2e000000 00000000 00000001
             00000000 00000001",
        );
        assert_eq!(
            printed::<DirectoryListing<'_, Entry<'_>>>(&readdir),
            "READDIR3resok cookieverf=0000000000000000 entries=1 eof=true"
        );
        let lookup = bytes("00000002 00000000");
        let failed = from_bytes::<LookupResult<'_>>(&lookup)
            .unwrap()
            .unwrap_err();
        assert_eq!(failed.to_string(), "NOENT");
        let result: LookupResult<'_> = Err(failed);
        assert_eq!(Printed(&result).to_string(), "NOENT");
        let result: WriteResult = Ok(from_bytes(&write).unwrap());
        assert_eq!(
            Printed(&result).to_string(),
            "OK (count=5 committed=file_sync verf=47414e4e45543031)"
        );
    }
}
