//! MOUNT version 3 (RFC 1813 appendix I), and the parts that version 1 has in common with it: from the path of an
//! export to the file handle of its root.

use crate::nfs3::{self, HANDLE_MAX, List};
use crate::printable;
use crate::rpc::{ACCEPTED_HEADER_LEN, AuthFlavor};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, print_as_display, record};
use core::fmt;

/// The program number of MOUNT.
pub const PROGRAM: u32 = 100_005;
/// The version that goes with NFSv3.
pub const VERSION: u32 = 3;
/// The oldest version, whose handles have exactly 32 bytes. Some tools still probe or unmount with it.
pub const VERSION_1: u32 = 1;

/// Most bytes of a path (MNTPATHLEN).
pub const PATH_MAX: usize = 1024;
/// Most bytes of the name of a host or group (MNTNAMLEN).
pub const NAME_MAX: usize = 255;
/// Most security flavors of a reply that a decoder accepts.
pub const FLAVORS_MAX: usize = 16;

/// Bytes of an XDR word.
const WORD: usize = 4;
/// Bytes of the longest reply to MNT, the RPC header included: status, handle, flavors.
pub const MNT_REPLY_MAX: usize =
    ACCEPTED_HEADER_LEN + WORD + (WORD + HANDLE_MAX) + (WORD + WORD * FLAVORS_MAX);

/// A procedure of MOUNT (RFC 1813 appendix I), with its number. It prints by the RFC's name.
#[allow(missing_docs)] // the names are the specification's
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum MountProcedure {
    Null = 0,
    Mnt = 1,
    Dump = 2,
    Umnt = 3,
    Umntall = 4,
    Export = 5,
}

impl MountProcedure {
    /// All procedures, in the order of their numbers.
    pub const ALL: [MountProcedure; 6] = [
        MountProcedure::Null,
        MountProcedure::Mnt,
        MountProcedure::Dump,
        MountProcedure::Umnt,
        MountProcedure::Umntall,
        MountProcedure::Export,
    ];

    /// The procedure with this number; `None` for a number above 5.
    pub fn from_number(number: u32) -> Option<MountProcedure> {
        MountProcedure::ALL
            .get(usize::try_from(number).ok()?)
            .copied()
    }

    /// The procedure's number, 0 to 5.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The procedure's name in RFC 1813, without its prefix.
    pub const fn name(self) -> &'static str {
        match self {
            MountProcedure::Null => "NULL",
            MountProcedure::Mnt => "MNT",
            MountProcedure::Dump => "DUMP",
            MountProcedure::Umnt => "UMNT",
            MountProcedure::Umntall => "UMNTALL",
            MountProcedure::Export => "EXPORT",
        }
    }
}

impl fmt::Display for MountProcedure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The path of an export (`dirpath`), at most [`PATH_MAX`] bytes. It prints in quotes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirPath<'a>(pub &'a [u8]);

/// The name of a host or of a group of hosts (`name`), at most [`NAME_MAX`] bytes. It prints in quotes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostName<'a>(pub &'a [u8]);

macro_rules! text {
    ($name:ident, $max:expr) => {
        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl fmt::Display for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", printable(self.0))
            }
        }

        impl Encode for $name<'_> {
            fn encode(&self, encoder: &mut Encoder<'_>) {
                encoder.opaque(self.0);
            }
        }

        impl<'a> Decode<'a> for $name<'a> {
            fn decode(decoder: &mut Decoder<'a>) -> Result<Self, XdrError> {
                decoder.opaque($max).map($name)
            }
        }
    };
}

text!(DirPath, PATH_MAX);
text!(HostName, NAME_MAX);
print_as_display!(DirPath<'_>, HostName<'_>, Flavors);

/// Security flavors ([`AuthFlavor`]) in order of preference, at most [`FLAVORS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flavors {
    values: [u32; FLAVORS_MAX],
    count: usize,
}

impl Flavors {
    /// A list of the first [`FLAVORS_MAX`] of `flavors`.
    pub fn new(flavors: &[u32]) -> Flavors {
        let mut values = [0; FLAVORS_MAX];
        let mut count = 0;
        for (place, flavor) in values.iter_mut().zip(flavors) {
            *place = *flavor;
            count += 1;
        }
        Flavors { values, count }
    }

    /// The flavors' numbers, in order of preference.
    pub fn as_slice(&self) -> &[u32] {
        self.values.get(..self.count).unwrap_or_default()
    }
}

impl fmt::Display for Flavors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, flavor) in self.as_slice().iter().enumerate() {
            let comma = if index > 0 { "," } else { "" };
            write!(f, "{comma}{}", AuthFlavor(*flavor))?;
        }
        Ok(())
    }
}

impl Encode for Flavors {
    fn encode(&self, encoder: &mut Encoder<'_>) {
        encoder.u32_array(self.as_slice());
    }
}

impl Decode<'_> for Flavors {
    fn decode(decoder: &mut Decoder<'_>) -> Result<Self, XdrError> {
        let (values, count) = decoder.u32_array::<FLAVORS_MAX>()?;
        Ok(Flavors { values, count })
    }
}

record! {
    /// A mounted export (`mountres3_ok`).
    MntOk<'a> = "mountres3_ok" {
        /// The handle of its root, which NFS takes.
        root: nfs3::FileHandle<'a> as "fhandle",
        /// The flavors that a caller may authenticate with.
        flavors: Flavors as "auth_flavors",
    }
}

/// MNT's results. The status codes of MOUNT are a subset of those of NFS.
pub type MntResult<'a> = Result<MntOk<'a>, nfs3::Failed<()>>;

record! {
    /// A mount that a client made (`mountbody`).
    Mount<'a> = "mountbody" {
        /// The client.
        host: HostName<'a> as "ml_hostname",
        /// The path that it mounted.
        path: DirPath<'a> as "ml_directory",
    }
}

/// DUMP's results.
pub type DumpResult<'a> = List<'a, Mount<'a>>;

record! {
    /// An export (`exportnode`).
    Export<'a> = "exportnode" {
        /// The path to mount it by.
        path: DirPath<'a> as "ex_dir",
        /// The hosts and groups that may mount it; empty for all.
        groups: List<'a, HostName<'a>> as "ex_groups",
    }
}

/// EXPORT's results.
pub type ExportResult<'a> = List<'a, Export<'a>>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::xdr::from_bytes;
    use alloc::format;
    use alloc::string::ToString;

    #[test]
    fn procedures_print_by_the_names_of_the_rfc() {
        for number in 0..6 {
            let procedure = MountProcedure::from_number(number).unwrap();
            assert_eq!(
                procedure.to_string(),
                format!("{procedure:?}").to_uppercase()
            );
        }
    }

    #[test]
    fn results_print_on_a_line() {
        let mounted = b"\0\0\0\x04\xaa\xbb\xcc\xdd\0\0\0\x02\0\0\0\x01\0\0\0\x06";
        assert_eq!(
            from_bytes::<MntOk<'_>>(mounted).unwrap().to_string(),
            "mountres3_ok fhandle=aabbccdd auth_flavors=sys,gss"
        );
        let export = b"\0\0\0\x05/data\0\0\0\0\0\0\x01\0\0\0\x04lab1\0\0\0\0";
        assert_eq!(
            from_bytes::<Export<'_>>(export).unwrap().to_string(),
            "exportnode ex_dir=\"/data\" ex_groups=1"
        );
    }
}
