//! Which of the two designs of the 2007 NFS/RDMA paper a connection uses, told while connecting.

use core::fmt;
use core::str::FromStr;

/// Bytes of the encoded offer.
pub const DESIGN_LEN: usize = 8;

/// Ours: no layer that others put into private data begins like this.
const MAGIC: [u8; 4] = *b"gnRR";
const VERSION: u8 = 1;
const READ_READ: u8 = 1;

/// Which end moves bulk results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Design {
    /// The server writes them into chunks that the client offers, and alone moves bulk data (RFC 8166).
    #[default]
    ReadWrite,
    /// The server exposes them by Read chunks in its reply; the client reads them and then sends RDMA_DONE. Permitted
    /// by RFC 5666, removed by RFC 8166: only for two ends that both said that they want it.
    ReadRead,
}

impl Design {
    /// Both.
    pub const ALL: [Design; 2] = [Design::ReadWrite, Design::ReadRead];

    /// Its name on the command line and in tables.
    pub fn name(self) -> &'static str {
        match self {
            Design::ReadWrite => "read-write",
            Design::ReadRead => "read-read",
        }
    }

    /// What the private data of a peer says: `ReadRead` only if our block is anywhere in it.
    pub fn find(bytes: &[u8]) -> Design {
        let offered = bytes.windows(DESIGN_LEN).any(|window| match *window {
            [m0, m1, m2, m3, VERSION, flags, _, _] => {
                [m0, m1, m2, m3] == MAGIC && flags & READ_READ != 0
            }
            _ => false,
        });
        if offered {
            Design::ReadRead
        } else {
            Design::ReadWrite
        }
    }

    /// The block that goes behind that of RFC 8797: magic (4 bytes), version 1, flags (bit 0: Read-Read), 2 bytes of
    /// zeros. `None` where nothing needs to be said.
    pub fn to_bytes(self) -> Option<[u8; DESIGN_LEN]> {
        let [m0, m1, m2, m3] = MAGIC;
        match self {
            Design::ReadWrite => None,
            Design::ReadRead => Some([m0, m1, m2, m3, VERSION, READ_READ, 0, 0]),
        }
    }
}

impl fmt::Display for Design {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No design has this name.
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
    fn nobody_offers_it_by_accident() {
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
    fn designs_are_called_by_their_names() {
        for design in Design::ALL {
            assert_eq!(design.name().parse(), Ok(design));
        }
        assert_eq!("write-write".parse::<Design>(), Err(UnknownDesign));
    }
}
