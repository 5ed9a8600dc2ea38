//! NFSACL version 3: POSIX access control lists beside NFSv3, as Solaris and Linux speak it.
//!
//! No RFC describes it. A Linux client asks for it on every NFSv3 connection, and for the lists of every file that
//! `ls -l` shows.

use crate::nfs3::{Failed, FileHandle, PostOpAttributes};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};
use core::fmt;

/// The program number of NFSACL.
pub const PROGRAM: u32 = 100_227;
/// The version that goes with NFSv3.
pub const VERSION: u32 = 3;
/// Most entries of a list.
pub const ENTRIES_MAX: usize = 1024;

/// A procedure of NFSACL, with its number.
#[allow(missing_docs)] // the names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum AclProcedure {
    Null = 0,
    Getacl = 1,
    Setacl = 2,
}

impl AclProcedure {
    /// The procedure with this number.
    pub const fn from_number(number: u32) -> Option<AclProcedure> {
        Some(match number {
            0 => AclProcedure::Null,
            1 => AclProcedure::Getacl,
            2 => AclProcedure::Setacl,
            _ => return None,
        })
    }
}

/// Bits that say which parts of [`Acls`] are meant.
pub mod part {
    /// The list that governs access.
    pub const ACCESS: u32 = 1;
    /// How many entries that one has.
    pub const ACCESS_COUNT: u32 = 2;
    /// The list that new objects in a directory get.
    pub const DEFAULT: u32 = 4;
    /// How many entries that one has.
    pub const DEFAULT_COUNT: u32 = 8;
}

record! {
    /// Who has which rights.
    AclEntry {
        /// Owner, user, group, mask or others; the default list's have bit 12 set.
        kind: u32,
        /// The user or group of an entry that names one.
        id: u32,
        /// Read, write, execute as in a mode.
        rights: u32,
    }
}

/// Bytes of an encoded [`AclEntry`].
const ENTRY_LEN: usize = 12;

/// An access control list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Acl<'a> {
    /// How many entries it has; they may be left out of the message.
    pub count: u32,
    /// The entries sent, as they lie in the message.
    entries: &'a [u8],
}

impl<'a> Acl<'a> {
    /// The entries sent, in order.
    pub fn entries(&self) -> impl Iterator<Item = AclEntry> + 'a {
        let (entries, _) = self.entries.as_chunks::<ENTRY_LEN>();
        entries
            .iter()
            .filter_map(|entry| crate::xdr::from_bytes(entry).ok())
    }
}

impl fmt::Debug for Acl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of ", self.count)?;
        f.debug_list().entries(self.entries()).finish()
    }
}

impl Encode for Acl<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.count);
        // At most ENTRIES_MAX, since they were decoded.
        encoder.u32(u32::try_from(self.entries.len() / ENTRY_LEN).unwrap_or(0));
        encoder.raw(self.entries);
    }
}

impl<'a> Decode<'a> for Acl<'a> {
    fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
        let count = decoder.u32()?;
        let sent = decoder.length(ENTRIES_MAX)?;
        let entries = decoder.bytes(sent * ENTRY_LEN)?;
        Ok(Acl { count, entries })
    }
}

record! {
    /// Both lists of an object.
    Acls<'a> {
        /// Which of them are meant: bits of [`part`].
        parts: u32,
        /// The list that governs access.
        access: Acl<'a>,
        /// The list that new objects in a directory get.
        default: Acl<'a>,
    }
}

record! {
    /// GETACL's arguments.
    GetaclArgs<'a> {
        /// The object.
        object: FileHandle<'a>,
        /// What is asked for: bits of [`part`].
        parts: u32,
    }
}

record! {
    /// The lists of an object.
    GetaclOk<'a> {
        /// The object's attributes.
        attributes: PostOpAttributes,
        /// The lists.
        acls: Acls<'a>,
    }
}

/// GETACL's results.
pub type GetaclResult<'a> = Result<GetaclOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// SETACL's arguments.
    SetaclArgs<'a> {
        /// The object.
        object: FileHandle<'a>,
        /// The lists to set.
        acls: Acls<'a>,
    }
}

/// SETACL's results: the object's attributes.
pub type SetaclResult = Result<PostOpAttributes, Failed<PostOpAttributes>>;
