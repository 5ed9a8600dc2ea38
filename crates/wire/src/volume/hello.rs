//! The beginning of a connection: the private data of both sides (docs/formats/volume.md, "Connecting").

use super::{TOKEN_LEN, Token, VERSION};
use crate::Hex;
use crate::field::{bytes_of, put, u16_of, u32_of};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The first four bytes of private data: "gvol".
const MAGIC: [u8; 4] = *b"gvol";

/// Fields that the private data of both sides has.
mod field {
    use super::Range;
    pub(super) const MAGIC: Range<usize> = 0..4;
    pub(super) const VERSION: usize = 4;
    pub(super) const ROLE: usize = 5;
    pub(super) const SERVER: Range<usize> = 6..8;
    pub(super) const VOLUME: Range<usize> = 8..24;
    pub(super) const NONCE: Range<usize> = 24..40;
    /// The reason in a refusal.
    pub(super) const REASON: usize = ROLE;
    /// Credits of the connecting side.
    pub(super) const HELLO_CREDITS: Range<usize> = 40..44;
    /// The proof of the accepting side.
    pub(super) const PROOF: Range<usize> = 40..56;
    /// Credits of the accepting side.
    pub(super) const ACCEPTED_CREDITS: Range<usize> = 56..60;
}
const _: () = assert!(field::VOLUME.end - field::VOLUME.start == TOKEN_LEN);

/// Bytes of a [`refusal`] and of a [`Refusal`]: the fields up to the server.
const REFUSAL_LEN: usize = field::SERVER.end;
const HELLO_LEN: usize = field::HELLO_CREDITS.end;
const ACCEPTED_LEN: usize = field::ACCEPTED_CREDITS.end;

/// The role of the connecting side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Role {
    /// A client.
    Client = 1,
    /// The manager, to an I/O server.
    Manager = 2,
    /// An I/O server, to the manager.
    IoServer = 3,
}

/// The private data of the connecting side, 44 bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         magic "gvol"                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    version    |     role      |            server             |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                  volume's identity (16 bytes)                 ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                        nonce (16 bytes)                       ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            credits                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The role of the connecting side.
    pub role: Role,
    /// The server to reach: [`Hello::MANAGER`], or the number of an I/O server plus 1.
    pub server: u16,
    /// The identity of the volume to reach.
    pub volume: Token,
    /// Random bytes that this side has never used before.
    pub nonce: Token,
    /// Requests that this side would have under way: it has receives for as many replies. Not 0.
    pub credits: u32,
}

/// The private data of the accepting side, 60 bytes:
///
/// ```text
///  0                   1                   2                   3
///  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                         magic "gvol"                          |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |    version    |       0       |               0               |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                  volume's identity (16 bytes)                 ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                        nonce (16 bytes)                       ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ~                        proof (16 bytes)                       ~
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            credits                            |
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
///
/// The printer leaves the proof out: a log must not carry rights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The identity of the volume that it serves.
    pub volume: Token,
    /// Random bytes that this side has never used before.
    pub nonce: Token,
    /// The proof that this side knows the volume's secret.
    pub proof: Token,
    /// Requests that the connecting side may send before the first reply: from 1 to those that it would have.
    pub credits: u32,
}

/// The abilities of a side beyond the messages of this version: a word behind the private data of either side. Proofs
/// do not cover it. Sides of earlier releases send none, which says the same as 0, and ignore it.
///
/// ```text
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// |                            0                            |Q|N|I|
/// +-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+-+
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Abilities {
    /// It takes RDMA Writes with Immediate ([`super::Carrying`]).
    pub immediates: bool,
    /// A manager leases the numbers of I/O servers ([`super::NumberLeaseWanted`]).
    pub number_leases: bool,
    /// A manager takes the identities of the NFS calls for which changes are asked ([`super::RequestId`]).
    pub request_ids: bool,
}

impl Abilities {
    const IMMEDIATES: u32 = 1;
    const NUMBER_LEASES: u32 = 2;
    const REQUEST_IDS: u32 = 4;

    /// The private data of a side with these abilities: a [`Hello`] or an [`Accepted`], and the word.
    pub fn behind(self, private_data: &[u8]) -> Vec<u8> {
        let bit = |has: bool, bit| if has { bit } else { 0_u32 };
        let word = bit(self.immediates, Abilities::IMMEDIATES)
            | bit(self.number_leases, Abilities::NUMBER_LEASES)
            | bit(self.request_ids, Abilities::REQUEST_IDS);
        [private_data, &word.to_be_bytes()].concat()
    }

    /// The abilities of the connecting side, by its private data.
    pub fn behind_hello(private_data: &[u8]) -> Abilities {
        Abilities::from_bytes(private_data.get(HELLO_LEN..))
    }

    /// The abilities of the accepting side, by its private data.
    pub fn behind_accepted(private_data: &[u8]) -> Abilities {
        Abilities::from_bytes(private_data.get(ACCEPTED_LEN..))
    }

    fn from_bytes(bytes: Option<&[u8]>) -> Abilities {
        let word = bytes.and_then(|bytes| bytes.first_chunk());
        let word = word.map_or(0, |word| u32::from_be_bytes(*word));
        Abilities {
            immediates: word & Abilities::IMMEDIATES != 0,
            number_leases: word & Abilities::NUMBER_LEASES != 0,
            request_ids: word & Abilities::REQUEST_IDS != 0,
        }
    }
}

impl Hello {
    /// The server number of the manager.
    pub const MANAGER: u16 = 0;

    /// The server number of an I/O server. Numbers that no volume has become 65535, which no server has.
    pub fn io_server(number: u32) -> u16 {
        u16::try_from(number).map_or(u16::MAX, |number| number.saturating_add(1))
    }

    /// The bytes of the private data.
    pub fn to_bytes(&self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        put_front(&mut bytes);
        bytes[field::ROLE] = self.role as u8;
        put(&mut bytes, field::SERVER, self.server.to_be_bytes());
        put(&mut bytes, field::VOLUME, self.volume);
        put(&mut bytes, field::NONCE, self.nonce);
        put(&mut bytes, field::HELLO_CREDITS, self.credits.to_be_bytes());
        bytes
    }

    /// Reads private data; `None` when the bytes are not of this protocol and version, or without credits. Bytes
    /// behind it are ignored, so that later versions can add some.
    pub fn from_bytes(bytes: &[u8]) -> Option<Hello> {
        let bytes = known_front::<HELLO_LEN>(bytes)?;
        let role = match bytes[field::ROLE] {
            1 => Role::Client,
            2 => Role::Manager,
            3 => Role::IoServer,
            _ => return None,
        };
        let hello = Hello {
            role,
            server: u16_of(bytes, field::SERVER),
            volume: bytes_of(bytes, field::VOLUME),
            nonce: bytes_of(bytes, field::NONCE),
            credits: u32_of(bytes, field::HELLO_CREDITS),
        };
        (hello.credits > 0).then_some(hello)
    }
}

impl fmt::Display for Hello {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "volume hello role={:?} server={} volume={} nonce={} credits={}",
            self.role,
            self.server,
            Hex(&self.volume),
            Hex(&self.nonce),
            self.credits
        )
    }
}

impl fmt::Display for Accepted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "volume accepted volume={} nonce={} credits={}",
            Hex(&self.volume),
            Hex(&self.nonce),
            self.credits
        )
    }
}

/// The private data of a server that refuses a peer of another version: magic, version, zeros.
pub fn refusal() -> [u8; REFUSAL_LEN] {
    let mut bytes = [0; REFUSAL_LEN];
    put_front(&mut bytes);
    bytes
}

/// The reason why a server refuses a peer of its own version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Refusal {
    /// Connections of the peer's address.
    OfAddress = 1,
    /// Connections of all peers.
    Connections = 2,
    /// Memory for peers.
    Memory = 3,
    /// The peer means another volume.
    OtherVolume = 4,
    /// The peer means another server of the volume.
    OtherServer = 5,
    /// The server does not have the lease of its number.
    NoLease = 6,
}

impl Refusal {
    /// The private data of a server that refuses a peer for this reason: magic, version, reason, zeros.
    pub fn to_bytes(self) -> [u8; REFUSAL_LEN] {
        let mut bytes = refusal();
        bytes[field::REASON] = self as u8;
        bytes
    }

    /// The reason in a refusal; `None` for other private data, and for a reason that this version does not know.
    pub fn find(bytes: &[u8]) -> Option<Refusal> {
        let bytes = known_front::<REFUSAL_LEN>(bytes)?;
        match bytes[field::REASON] {
            1 => Some(Refusal::OfAddress),
            2 => Some(Refusal::Connections),
            3 => Some(Refusal::Memory),
            4 => Some(Refusal::OtherVolume),
            5 => Some(Refusal::OtherServer),
            6 => Some(Refusal::NoLease),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bound = match self {
            Refusal::OfAddress => "too many connections of this address",
            Refusal::Connections => "too many connections",
            Refusal::Memory => "no memory for another connection",
            Refusal::OtherVolume => {
                return f.write_str("wrong key: it is of another volume than the server");
            }
            Refusal::OtherServer => {
                return f.write_str("another server of the volume listens there");
            }
            Refusal::NoLease => {
                return f.write_str("the manager has not given the server there its number");
            }
        };
        write!(
            f,
            "the server has no room: {bound} (max_peer_memory of the server bounds them)"
        )
    }
}

/// The version in a peer's private data, be it a [`Hello`], an [`Accepted`] or a [`refusal`]; `None` when the bytes are
/// not of this protocol.
pub fn version_in(bytes: &[u8]) -> Option<u8> {
    let version = bytes.get(field::VERSION).copied();
    version.filter(|_| bytes.starts_with(&MAGIC))
}

impl Accepted {
    /// The bytes of the private data.
    pub fn to_bytes(&self) -> [u8; ACCEPTED_LEN] {
        let mut bytes = [0; ACCEPTED_LEN];
        put_front(&mut bytes);
        put(&mut bytes, field::VOLUME, self.volume);
        put(&mut bytes, field::NONCE, self.nonce);
        put(&mut bytes, field::PROOF, self.proof);
        put(
            &mut bytes,
            field::ACCEPTED_CREDITS,
            self.credits.to_be_bytes(),
        );
        bytes
    }

    /// Reads private data; `None` as from [`Hello::from_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Accepted> {
        let bytes = known_front::<ACCEPTED_LEN>(bytes)?;
        let accepted = Accepted {
            volume: bytes_of(bytes, field::VOLUME),
            nonce: bytes_of(bytes, field::NONCE),
            proof: bytes_of(bytes, field::PROOF),
            credits: u32_of(bytes, field::ACCEPTED_CREDITS),
        };
        (accepted.credits > 0).then_some(accepted)
    }
}

/// Writes magic and version.
fn put_front<const N: usize>(bytes: &mut [u8; N]) {
    put(bytes, field::MAGIC, MAGIC);
    bytes[field::VERSION] = VERSION;
}

/// The first `N` bytes, if they have magic and version of this protocol.
fn known_front<const N: usize>(bytes: &[u8]) -> Option<&[u8; N]> {
    let is_known = version_in(bytes) == Some(VERSION);
    bytes.first_chunk::<N>().filter(|_| is_known)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_refusal_names_its_bound() {
        for why in [
            Refusal::OfAddress,
            Refusal::Connections,
            Refusal::Memory,
            Refusal::OtherVolume,
            Refusal::OtherServer,
            Refusal::NoLease,
        ] {
            assert_eq!(Refusal::find(&why.to_bytes()), Some(why));
        }
        assert_eq!(Refusal::find(&refusal()), None);
        let mut later = Refusal::Memory.to_bytes();
        later[field::REASON] = 9;
        assert_eq!(Refusal::find(&later), None);
        later[field::VERSION] += 1;
        assert_eq!(Refusal::find(&later), None);
    }

    #[test]
    fn private_data_comes_back_as_it_went_in() {
        let hello = Hello {
            role: Role::Manager,
            server: Hello::io_server(1),
            volume: [1; 16],
            nonce: [2; 16],
            credits: 0x0a0b_0c0d,
        };
        let bytes = hello.to_bytes();
        assert_eq!(bytes[..10], *b"gvol\x06\x02\x00\x02\x01\x01");
        assert_eq!(bytes[40..], [0x0a, 0x0b, 0x0c, 0x0d]);
        assert_eq!(Hello::from_bytes(&bytes), Some(hello));
        assert_eq!(
            hello.to_string(),
            "volume hello role=Manager server=2 volume=01010101010101010101010101010101 \
             nonce=02020202020202020202020202020202 credits=168496141"
        );
        let accepted = Accepted {
            volume: [1; 16],
            nonce: [3; 16],
            proof: [4; 16],
            credits: 5,
        };
        assert_eq!(Accepted::from_bytes(&accepted.to_bytes()), Some(accepted));
        assert_eq!(
            accepted.to_string(),
            "volume accepted volume=01010101010101010101010101010101 \
             nonce=03030303030303030303030303030303 credits=5"
        );
    }

    #[test]
    fn abilities_stand_behind_the_private_data_of_both_sides() {
        let none = Abilities::default();
        let all = Abilities {
            immediates: true,
            number_leases: true,
            request_ids: true,
        };
        let hello = all.behind(&[7; HELLO_LEN]);
        assert_eq!(hello[HELLO_LEN..], [0, 0, 0, 7]);
        assert_eq!(Abilities::behind_hello(&hello), all);
        let accepted = all.behind(&[7; ACCEPTED_LEN]);
        assert_eq!(Abilities::behind_accepted(&accepted), all);
        assert_eq!(Abilities::behind_hello(&none.behind(&[7; HELLO_LEN])), none);
        // Earlier releases, and private data that is cut off.
        for len in [0, HELLO_LEN, HELLO_LEN + 3] {
            assert_eq!(Abilities::behind_hello(&hello[..len]), none, "{len}");
        }
        // Later ones.
        let later = [&[7; HELLO_LEN][..], &[0xff, 0xff, 0xff, 0xf8], b"more"].concat();
        assert_eq!(Abilities::behind_hello(&later), none);
    }

    #[test]
    fn anything_else_is_not_private_data() {
        let mut bytes = Hello {
            role: Role::Client,
            server: Hello::MANAGER,
            volume: [1; 16],
            nonce: [2; 16],
            credits: 0x0a0b_0c0d,
        }
        .to_bytes();
        assert_eq!(Hello::from_bytes(&bytes[..43]), None);
        for (at, value) in [(0, 0), (4, 2), (4, 4), (5, 0), (5, 4)] {
            let kept = core::mem::replace(&mut bytes[at], value);
            assert_eq!(Hello::from_bytes(&bytes), None);
            bytes[at] = kept;
        }
        assert!(Hello::from_bytes(&bytes).is_some());
        let mut without_credits = bytes;
        without_credits[40..].fill(0);
        assert_eq!(Hello::from_bytes(&without_credits), None);
        bytes[4] = 2;
        assert_eq!(version_in(&bytes), Some(2));
        assert_eq!(version_in(&refusal()), Some(VERSION));
        assert_eq!(version_in(b"gvo"), None);
        assert_eq!(version_in(b""), None);
        bytes[4] = VERSION;
        assert_eq!(Accepted::from_bytes(&bytes), None);
    }
}
