//! How a connection begins: the private data of both sides, and the client's first message.

use super::{TOKEN_LEN, Token, VERSION};

/// The first four bytes of private data: "gvol".
const MAGIC: [u8; 4] = *b"gvol";

/// Who connects.
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

/// What the connecting side sends along (44 bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Who connects.
    pub role: Role,
    /// The server it means: [`Hello::MANAGER`], or the number of an I/O server plus 1.
    pub server: u16,
    /// The volume it means.
    pub volume: Token,
    /// Never used before by this side.
    pub nonce: Token,
    /// Requests that it would have under way: it has receives for as many replies. Not 0.
    pub credits: u32,
}

/// What the accepting side sends along (60 bytes).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Accepted {
    /// The volume it serves.
    pub volume: Token,
    /// Never used before by this side.
    pub nonce: Token,
    /// Proves that it knows the volume's secret.
    pub proof: Token,
    /// Requests that the connecting side may send before the first reply. Not 0, and not more than it would.
    pub credits: u32,
}

const HELLO_LEN: usize = 8 + 2 * TOKEN_LEN + 4;
const ACCEPTED_LEN: usize = 8 + 3 * TOKEN_LEN + 4;

impl Hello {
    /// Stands for the manager among servers.
    pub const MANAGER: u16 = 0;

    /// What stands for an I/O server; numbers that no volume has stand for one that nobody is.
    pub fn io_server(number: u32) -> u16 {
        u16::try_from(number).map_or(u16::MAX, |number| number.saturating_add(1))
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        let tokens = [&self.volume, &self.nonce];
        let head = (self.role as u8, self.server);
        fill(&mut bytes, head, &tokens, self.credits);
        bytes
    }

    /// Reads it; `None` when the bytes are not of this protocol and version. What follows is ignored: later
    /// versions may say more.
    pub fn from_bytes(bytes: &[u8]) -> Option<Hello> {
        let ((role, server), [volume, nonce], credits) = take(bytes)?;
        let role = match role {
            1 => Role::Client,
            2 => Role::Manager,
            3 => Role::IoServer,
            _ => return None,
        };
        Some(Hello {
            role,
            server,
            volume,
            nonce,
            credits,
        })
    }
}

/// What a server sends along when it refuses a peer that speaks another version.
pub fn refusal() -> [u8; 8] {
    let mut bytes = [0; 8];
    fill(&mut bytes, (0, 0), &[], 0);
    bytes
}

/// The version in a peer's private data, be it a [`Hello`], an [`Accepted`] or a [`refusal`]; `None` when the bytes are
/// not of this protocol.
pub fn version_in(bytes: &[u8]) -> Option<u8> {
    let (magic, rest) = bytes.split_first_chunk::<4>()?;
    rest.first().copied().filter(|_| *magic == MAGIC)
}

impl Accepted {
    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; ACCEPTED_LEN] {
        let mut bytes = [0; ACCEPTED_LEN];
        let tokens = [&self.volume, &self.nonce, &self.proof];
        fill(&mut bytes, (0, 0), &tokens, self.credits);
        bytes
    }

    /// Reads it, as [`Hello::from_bytes`] does.
    pub fn from_bytes(bytes: &[u8]) -> Option<Accepted> {
        let (_, [volume, nonce, proof], credits) = take(bytes)?;
        Some(Accepted {
            volume,
            nonce,
            proof,
            credits,
        })
    }
}

/// Magic, version, role, server; then tokens, and credits: as far as there is room.
fn fill(bytes: &mut [u8], (role, server): (u8, u16), tokens: &[&Token], credits: u32) {
    let start = MAGIC.into_iter().chain([VERSION, role]);
    let start = start.chain(server.to_be_bytes());
    let tokens = tokens.iter().copied().flatten().copied();
    let all = start.chain(tokens).chain(credits.to_be_bytes());
    bytes.iter_mut().zip(all).for_each(|(to, byte)| *to = byte);
}

/// The reverse of [`fill`]: role, server, tokens and credits.
fn take<const N: usize>(bytes: &[u8]) -> Option<((u8, u16), [Token; N], u32)> {
    let (start, rest) = bytes.split_first_chunk::<8>()?;
    let [m0, m1, m2, m3, version, role, s0, s1] = *start;
    let tokens = *rest.as_chunks::<TOKEN_LEN>().0.first_chunk::<N>()?;
    let credits = u32::from_be_bytes(*rest.get(N * TOKEN_LEN..)?.first_chunk()?);
    let head = (role, u16::from_be_bytes([s0, s1]));
    let is_ours = [m0, m1, m2, m3] == MAGIC && version == VERSION && credits > 0;
    is_ours.then_some((head, tokens, credits))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(bytes[..10], *b"gvol\x04\x02\x00\x02\x01\x01");
        assert_eq!(bytes[40..], [0x0a, 0x0b, 0x0c, 0x0d]);
        assert_eq!(Hello::from_bytes(&bytes), Some(hello));
        let accepted = Accepted {
            volume: [1; 16],
            nonce: [3; 16],
            proof: [4; 16],
            credits: 5,
        };
        assert_eq!(Accepted::from_bytes(&accepted.to_bytes()), Some(accepted));
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
        for (at, value) in [(0, 0), (4, 2), (4, 5), (5, 0), (5, 4)] {
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
