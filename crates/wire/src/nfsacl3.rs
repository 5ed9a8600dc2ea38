//! NFSACL version 3: POSIX access control lists beside NFSv3, as Solaris and Linux speak it.
//!
//! No RFC describes it; the names are those of Solaris's `nfs_acl.x`. A Linux client asks for it on every NFSv3
//! connection, and for the lists of every file that `ls -l` shows.

use crate::nfs3::{Failed, FileHandle, PostOpAttributes};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, print_as_display, record};
use core::fmt;

/// The program number of NFSACL.
pub const PROGRAM: u32 = 100_227;
/// The version that goes with NFSv3.
pub const VERSION: u32 = 3;
/// Most entries of one list.
pub const ENTRIES_MAX: usize = 1024;

/// A procedure of NFSACL, with its number. It prints by its name in capitals.
#[allow(missing_docs)] // the names say it
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum AclProcedure {
    Null = 0,
    Getacl = 1,
    Setacl = 2,
}

impl AclProcedure {
    /// The procedure with this number; `None` for a number above 2.
    pub const fn from_number(number: u32) -> Option<AclProcedure> {
        Some(match number {
            0 => AclProcedure::Null,
            1 => AclProcedure::Getacl,
            2 => AclProcedure::Setacl,
            _ => return None,
        })
    }
}

impl fmt::Display for AclProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AclProcedure::Null => "NULL",
            AclProcedure::Getacl => "GETACL",
            AclProcedure::Setacl => "SETACL",
        })
    }
}

/// Bits for the parts of [`Acls`] that a call asks for or a message has.
pub mod part {
    use crate::NamedBits;

    /// The list that governs access.
    pub const ACCESS: u32 = 1;
    /// The number of entries of the list that governs access.
    pub const ACCESS_COUNT: u32 = 2;
    /// The list that new objects in a directory get.
    pub const DEFAULT: u32 = 4;
    /// The number of entries of the list that new objects in a directory get.
    pub const DEFAULT_COUNT: u32 = 8;

    /// The bits by name.
    pub fn bits(bits: &u32) -> NamedBits {
        NamedBits::new(
            *bits,
            &["access", "access_count", "default", "default_count"],
        )
    }
}

use part::bits as part_bits;

record! {
    /// An entry of an access control list (`aclent`): the rights of one user, of a group, or of all others.
    AclEntry = "aclent" {
        /// The tag: owner, user, group, mask or others. Entries of the default list have bit 12 set.
        kind: u32 as "type",
        /// The number of the user or group of an entry that names one.
        id: u32,
        /// Read (4), write (2) and execute (1), as in a mode.
        rights: u32 as "perm",
    }
}

/// Bytes of an encoded [`AclEntry`].
const ENTRY_LEN: usize = 12;

/// An access control list. It prints the number of its entries.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Acl<'a> {
    /// The number of its entries, which the message may leave out.
    pub count: u32,
    /// The entries sent, encoded.
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

impl fmt::Display for Acl<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.count)
    }
}

print_as_display!(Acl<'_>);

impl Encode for Acl<'_> {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32(self.count);
        // At most ENTRIES_MAX, because only decoding makes lists.
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
    /// Both lists of an object (`secattr`).
    Acls<'a> = "secattr" {
        /// The parts that the message has: bits of [`part`].
        parts: u32 as "mask" via part_bits,
        /// The list that governs access.
        access: Acl<'a> as "aclcnt",
        /// The list that new objects in a directory get.
        default: Acl<'a> as "dfaclcnt",
    }
}

record! {
    /// GETACL's arguments.
    GetaclArgs<'a> = "GETACL3args" {
        /// The object.
        object: FileHandle<'a> as "fh",
        /// The parts that the caller asks for: bits of [`part`].
        parts: u32 as "mask" via part_bits,
    }
}

record! {
    /// The lists of an object.
    GetaclOk<'a> = "GETACL3resok" {
        /// The object's attributes.
        attributes: PostOpAttributes as "attr",
        /// The lists.
        acls: Acls<'a> as "acl",
    }
}

/// GETACL's results; of a failed one the object's attributes.
pub type GetaclResult<'a> = Result<GetaclOk<'a>, Failed<PostOpAttributes>>;

record! {
    /// SETACL's arguments.
    SetaclArgs<'a> = "SETACL3args" {
        /// The object.
        object: FileHandle<'a> as "fh",
        /// The lists to set.
        acls: Acls<'a> as "acl",
    }
}

/// SETACL's results: the object's attributes.
pub type SetaclResult = Result<PostOpAttributes, Failed<PostOpAttributes>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::string::ToString;

    #[test]
    fn arguments_print_on_a_line() {
        let getacl = b"\0\0\0\x04\xaa\xbb\xcc\xdd\0\0\0\x0f";
        assert_eq!(
            from_bytes::<GetaclArgs<'_>>(getacl).unwrap().to_string(),
            "GETACL3args fh=aabbccdd mask=access,access_count,default,default_count"
        );
        let lists = b"\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\x01\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\0";
        let acls = from_bytes::<Acls<'_>>(lists).unwrap();
        assert_eq!(acls.to_string(), "secattr mask=access aclcnt=1 dfaclcnt=0");
        let entry = acls.access.entries().next().unwrap();
        assert_eq!(entry.to_string(), "aclent type=1 id=0 perm=6");
        assert_eq!(AclProcedure::Getacl.to_string(), "GETACL");
    }
}
