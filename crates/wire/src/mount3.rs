//! MOUNT version 3 (RFC 1813 appendix I), and what version 1 shares with it: from the path of an export to the
//! file handle of its root.

use crate::nfs3::{self, HANDLE_MAX, List};
use crate::xdr::{Decode, Decoder, Encode, Encoder, XdrError, record};
use core::fmt;

/// The program number of MOUNT.
pub const PROGRAM: u32 = 100_005;
/// The version that goes with NFSv3.
pub const VERSION: u32 = 3;
/// The oldest version, whose handles are 32 bytes exactly; some tools still probe or unmount with it.
pub const VERSION_1: u32 = 1;

/// Longest path (MNTPATHLEN).
pub const PATH_MAX: usize = 1024;
/// Longest host or group name (MNTNAMLEN).
pub const NAME_MAX: usize = 255;
/// Most security flavors in an answer that a decoder takes.
pub const FLAVORS_MAX: usize = 16;

/// The longest reply to MNT in bytes, the RPC header included.
pub const MNT_REPLY_MAX: usize = 24 + 4 + 4 + HANDLE_MAX + 4 + 4 * FLAVORS_MAX;

/// A procedure of MOUNT, with its number.
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
    /// The procedure with this number.
    pub const fn from_number(number: u32) -> Option<MountProcedure> {
        Some(match number {
            0 => MountProcedure::Null,
            1 => MountProcedure::Mnt,
            2 => MountProcedure::Dump,
            3 => MountProcedure::Umnt,
            4 => MountProcedure::Umntall,
            5 => MountProcedure::Export,
            _ => return None,
        })
    }

    /// Its number.
    pub const fn number(self) -> u32 {
        self as u32
    }
}

/// The path of an export (`dirpath`), at most [`PATH_MAX`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct DirPath<'a>(pub &'a [u8]);

/// The name of a host or of a group of hosts (`name`), at most [`NAME_MAX`] bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct HostName<'a>(pub &'a [u8]);

macro_rules! text {
    ($name:ident, $max:expr) => {
        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
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

/// Security flavors in order of preference, at most [`FLAVORS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flavors {
    values: [u32; FLAVORS_MAX],
    count: usize,
}

impl Flavors {
    /// The list of these; those beyond [`FLAVORS_MAX`] are left out.
    pub fn new(flavors: &[u32]) -> Flavors {
        let mut values = [0; FLAVORS_MAX];
        let mut count = 0;
        for (place, flavor) in values.iter_mut().zip(flavors) {
            *place = *flavor;
            count += 1;
        }
        Flavors { values, count }
    }

    /// Them.
    pub fn as_slice(&self) -> &[u32] {
        self.values.get(..self.count).unwrap_or_default()
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
    /// A mounted export.
    MntOk<'a> {
        /// The handle of its root, of the same kind as NFS's.
        root: nfs3::FileHandle<'a>,
        /// What a caller may authenticate with.
        flavors: Flavors,
    }
}

/// MNT's results; MOUNT's status codes are a subset of NFS's.
pub type MntResult<'a> = Result<MntOk<'a>, nfs3::Failed<()>>;

record! {
    /// A mount that somebody made (`mountbody`).
    Mount<'a> {
        /// Who.
        host: HostName<'a>,
        /// Of what.
        path: DirPath<'a>,
    }
}

/// DUMP's results.
pub type DumpResult<'a> = List<'a, Mount<'a>>;

record! {
    /// Something that can be mounted (`exportnode`).
    Export<'a> {
        /// Its path.
        path: DirPath<'a>,
        /// Who may; empty for everybody.
        groups: List<'a, HostName<'a>>,
    }
}

/// EXPORT's results.
pub type ExportResult<'a> = List<'a, Export<'a>>;
