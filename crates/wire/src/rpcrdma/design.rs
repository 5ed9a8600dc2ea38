//! The two designs of the 2007 NFS/RDMA paper. The ends of a connection agree on one while connecting.

use crate::field::put;
use core::fmt;
use core::ops::Range;
use core::str::FromStr;

/// Bytes of the encoded offer ([`Design::to_bytes`]).
pub const DESIGN_LEN: usize = 8;

/// The identifier of Gannet's block. The blocks of other layers in private data begin otherwise.
const MAGIC: [u8; 4] = *b"gnRR";
const VERSION: u8 = 1;
const READ_READ: u8 = 1;

/// Fields of the block.
mod field {
    use super::Range;
    pub(super) const MAGIC: Range<usize> = 0..4;
    pub(super) const VERSION: usize = 4;
    pub(super) const FLAGS: usize = 5;
}

/// The way in which bulk results travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Design {
    /// The server writes them into chunks that the client offers, and alone moves bulk data (RFC 8166).
    #[default]
    ReadWrite,
    /// The server exposes them by Read chunks in its reply; the client reads them and then sends RDMA_DONE. RFC 5666
    /// permits it and RFC 8166 removes it, so both ends have to offer it.
    ReadRead,
}

impl Design {
    /// Both designs.
    pub const ALL: [Design; 2] = [Design::ReadWrite, Design::ReadRead];

    /// The design's name on the command line and in tables, by which it prints.
    pub fn name(self) -> &'static str {
        match self {
            Design::ReadWrite => "read-write",
            Design::ReadRead => "read-read",
        }
    }

    /// Reads the private data of a peer: `ReadRead` if the block is anywhere in it, else `ReadWrite`.
    pub fn find(bytes: &[u8]) -> Design {
        let offered = bytes.windows(DESIGN_LEN).any(|block| {
            block[field::MAGIC] == MAGIC
                && block[field::VERSION] == VERSION
                && block[field::FLAGS] & READ_READ != 0
        });
        if offered {
            Design::ReadRead
        } else {
            Design::ReadWrite
        }
    }

    /// The block that goes behind that of RFC 8797, and offers Read-Read; `None` for Read-Write, which needs no block.
    ///
    /// ```text
    ///  0                   1                   2                   3
    ///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
    /// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    /// |                         "gnRR"                                |
    /// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    /// |  version = 1  |     flags     |         reserved (0)          |
    /// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
    /// ```
    ///
    /// The least significant flag stands for Read-Read.
    pub fn to_bytes(self) -> Option<[u8; DESIGN_LEN]> {
        if self == Design::ReadWrite {
            return None;
        }
        let mut block = [0; DESIGN_LEN];
        put(&mut block, field::MAGIC, MAGIC);
        block[field::VERSION] = VERSION;
        block[field::FLAGS] = READ_READ;
        Some(block)
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The error of a name that no design has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the designs are read-write and read-read")]
pub struct UnknownDesign;

impl FromStr for Design {
    type Err = UnknownDesign;
    fn from_str(name: &str) -> Result<Design, UnknownDesign> {
        let mut all = Design::ALL.into_iter();
        all.find(|design| design.name() == name)
            .ok_or(UnknownDesign)
    }
}

#[cfg(test)]
mod tests {
    use super::super::PrivateData;
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn the_offer_stands_beside_the_standard_block() {
        let standard = PrivateData {
            remote_invalidation: true,
            send_size: 4096,
            receive_size: 4096,
        };
        let block = Design::ReadRead.to_bytes().unwrap();
        assert_eq!(block, [0x67, 0x6e, 0x52, 0x52, 1, 1, 0, 0]);
        let both = [standard.to_bytes(), block].concat();
        assert_eq!(PrivateData::find(&both), Some(standard));
        assert_eq!(Design::find(&both), Design::ReadRead);
    }

    #[test]
    fn other_private_data_offers_no_read_read() {
        let foreign = PrivateData::default().to_bytes();
        assert_eq!(Design::find(&foreign), Design::ReadWrite);
        assert_eq!(Design::find(&[]), Design::ReadWrite);
        let mut block = Design::ReadRead.to_bytes().unwrap();
        for index in 0..6 {
            block[index] ^= 1;
            assert_eq!(Design::find(&block), Design::ReadWrite, "byte {index}");
            block[index] ^= 1;
        }
        assert_eq!(Design::find(&block[..7]), Design::ReadWrite);
        assert_eq!(Design::ReadWrite.to_bytes(), None);
    }

    #[test]
    fn designs_parse_and_print_by_name() {
        for design in Design::ALL {
            assert_eq!(design.to_string().parse(), Ok(design));
        }
        assert_eq!("write-write".parse::<Design>(), Err(UnknownDesign));
    }
}
