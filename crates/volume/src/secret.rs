//! What peers prove to each other, and what the manager's word to I/O servers rests on.
//!
//! All proofs are SipHash-2-4 with 128 bits of key and of output, a keyed function made for short messages: without the
//! key, none can be made. Nothing is encrypted: a reader of the network reads the data, as with NFS.

use gannet_fabric::CapabilityKey;
use gannet_wire::volume::{Accepted, Capability, Hello, Role, Token};
use siphasher::sip128::{Hasher128, SipHasher24};
use std::fmt;
use std::hash::Hasher;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::sync::watch;

/// Sixteen secret bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Secret([u8; 16]);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Secret {
    /// These bytes, which must have come from a random number generator.
    pub fn new(bytes: [u8; 16]) -> Secret {
        Secret(bytes)
    }

    /// Its bytes, to be kept where only their owner can read them.
    pub fn to_bytes(self) -> [u8; 16] {
        self.0
    }

    /// The proof that a file handle was made by a holder of this secret.
    pub(crate) fn handle_proof(self, fsid: u64, file: u64) -> u64 {
        let proof = self.prove("file handle", &[&fsid.to_be_bytes(), &file.to_be_bytes()]);
        u64::from_be_bytes(proof.first_chunk().copied().unwrap_or_default())
    }

    fn prove(self, purpose: &str, parts: &[&[u8]]) -> Token {
        let mut hasher = SipHasher24::new_with_key(&self.0);
        hasher.write(purpose.as_bytes());
        hasher.write_u8(0);
        parts.iter().for_each(|part| hasher.write(part));
        hasher.finish128().as_bytes()
    }
}

/// The secrets of a volume's servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ServerKeys {
    secret: Secret,
    clients: Secret,
}

impl ServerKeys {
    /// The keys of the volume with this secret.
    pub fn new(secret: Secret) -> ServerKeys {
        let clients = Secret(secret.prove("client key", &[]));
        ServerKeys { secret, clients }
    }

    /// The same, but for clients' key, which depends on `salt` too. With another salt, the servers still accept each
    /// other and earlier capabilities, and every client needs the new key.
    #[must_use]
    pub fn with_client_salt(self, salt: &Token) -> ServerKeys {
        let clients = Secret(self.secret.prove("client key", &[salt]));
        ServerKeys { clients, ..self }
    }

    /// The key of the clients, from which the secret cannot be derived.
    pub fn for_clients(&self) -> Secret {
        self.clients
    }

    /// The key for file handles that must stay valid after a change of the clients' key.
    pub fn for_handles(&self) -> Secret {
        Secret(self.secret.prove("handle key", &[]))
    }

    /// The key between peers of which one is `role`.
    pub fn between(&self, role: Role) -> Secret {
        match role {
            Role::Client => self.for_clients(),
            Role::Manager | Role::IoServer => Secret(self.secret.prove("server key", &[])),
        }
    }

    /// A capability for `file`, given in this term and good until `expires` (since the Unix epoch).
    pub fn grant(&self, term: u64, file: u64, rights: u32, expires: Duration) -> Capability {
        let capability = Capability {
            file,
            rights,
            expires: expires.as_secs(),
            term,
            proof: Token::default(),
        };
        let proof = self.proof_of(&capability);
        Capability {
            proof,
            ..capability
        }
    }

    /// Whether `capability` is the manager's word that its bearer has `rights` at `now` (since the Unix epoch).
    pub fn allows(&self, capability: &Capability, rights: u32, now: Duration) -> bool {
        let genuine = same(&self.proof_of(capability), &capability.proof);
        genuine && capability.rights & rights == rights && now.as_secs() < capability.expires
    }

    fn proof_of(&self, capability: &Capability) -> Token {
        self.secret.prove("capability", &[&capability.claim()])
    }
}

/// The keys of the servers of one process, which may change while these serve. Clones share them.
#[derive(Debug, Clone)]
pub struct CurrentKeys(Arc<watch::Sender<ServerKeys>>);

impl CurrentKeys {
    /// These, until they change.
    pub fn new(keys: ServerKeys) -> CurrentKeys {
        CurrentKeys(Arc::new(watch::Sender::new(keys)))
    }

    /// The keys now.
    pub fn now(&self) -> ServerKeys {
        *self.0.borrow()
    }

    /// Takes another key of the clients; true if it is another. Servers refuse the key before from then on, and end
    /// the connections that were made with it.
    ///
    /// # Errors
    /// [`OtherSecret`]: the secret of the servers is another one too, and nothing has changed.
    pub fn change(&self, keys: ServerKeys) -> Result<bool, OtherSecret> {
        let before = self.now();
        if before.secret != keys.secret {
            return Err(OtherSecret);
        }
        if before == keys {
            return Ok(false);
        }
        self.0.send_replace(keys);
        Ok(true)
    }

    /// Tells each change from now on.
    pub(crate) fn changes(&self) -> watch::Receiver<ServerKeys> {
        self.0.subscribe()
    }
}

/// The secret of a volume's servers cannot change while they serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the secret of the volume's servers is another one: they must be restarted")]
pub struct OtherSecret;

/// The key by which one side proves its role.
#[derive(Debug, Clone)]
pub enum RoleKey {
    /// Always the same.
    Fixed(Secret),
    /// The one for a role among keys that may change.
    Current(CurrentKeys, Role),
}

impl RoleKey {
    /// The key now.
    pub fn now(&self) -> Secret {
        match self {
            RoleKey::Fixed(key) => *key,
            RoleKey::Current(keys, role) => keys.now().between(*role),
        }
    }
}

impl From<Secret> for RoleKey {
    fn from(key: Secret) -> RoleKey {
        RoleKey::Fixed(key)
    }
}

/// Proves to the connecting side that the accepting side has `key`; made over what both have said.
pub fn server_proof(key: Secret, hello: &Hello, volume: &Token, nonce: &Token) -> Token {
    key.prove("accepting side", &[&hello.to_bytes(), volume, nonce])
}

/// The key by which optimistic reads of one connection are authenticated; made over all that both have said.
pub(crate) fn capability_key(
    key: Secret,
    hello: &Hello,
    accepted: &Accepted,
    session: &Token,
) -> CapabilityKey {
    let mut hasher =
        blake3::Hasher::new_derive_key("gannet volume: optimistic reads of a connection");
    hasher.update(&key.0);
    hasher.update(&hello.to_bytes());
    hasher.update(&accepted.to_bytes());
    hasher.update(session);
    CapabilityKey(*hasher.finalize().as_bytes())
}

/// Proves to the accepting side that the connecting side has `key`, and that its session is this one.
pub fn client_proof(key: Secret, hello: &Hello, accepted: &Accepted, session: &Token) -> Token {
    key.prove(
        "connecting side",
        &[&hello.to_bytes(), &accepted.to_bytes(), session],
    )
}

/// Compares in a time that does not tell where they differ.
pub fn same(one: &Token, other: &Token) -> bool {
    let difference = one
        .iter()
        .zip(other)
        .fold(0, |sum, (one, other)| sum | (one ^ other));
    std::hint::black_box(difference) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capability_is_good_for_what_it_says_and_no_longer() {
        let keys = ServerKeys::new(Secret::new([7; 16]));
        let now = Duration::from_secs(1_000);
        let granted = keys.grant(2, 5, Capability::READ, Duration::from_secs(1_001));
        assert!(keys.allows(&granted, Capability::READ, now));
        assert!(!keys.allows(&granted, Capability::WRITE, now));
        assert!(!keys.allows(&granted, Capability::READ, Duration::from_secs(1_001)));
        for forged in [
            Capability { file: 6, ..granted },
            Capability {
                rights: Capability::READ | Capability::WRITE,
                ..granted
            },
            Capability {
                expires: u64::MAX,
                ..granted
            },
            Capability { term: 3, ..granted },
        ] {
            assert!(!keys.allows(&forged, Capability::READ, now));
        }
        let others = ServerKeys::new(Secret::new([8; 16]));
        assert!(!others.allows(&granted, Capability::READ, now));
    }

    #[test]
    fn proofs_of_the_two_sides_and_of_roles_differ() {
        let keys = ServerKeys::new(Secret::new([7; 16]));
        let hello = Hello {
            role: Role::Client,
            server: Hello::MANAGER,
            volume: [1; 16],
            nonce: [2; 16],
            credits: 32,
        };
        let key = keys.between(Role::Client);
        let salted = keys.with_client_salt(&[9; 16]);
        assert_ne!(key, salted.for_clients());
        assert_eq!(salted.between(Role::Manager), keys.between(Role::IoServer));
        assert_eq!(salted.for_handles(), keys.for_handles());
        assert_ne!(salted.for_handles(), key);
        let accepted = Accepted {
            volume: [1; 16],
            nonce: [3; 16],
            proof: server_proof(key, &hello, &[1; 16], &[3; 16]),
            credits: 32,
        };
        assert_ne!(
            accepted.proof,
            client_proof(key, &hello, &accepted, &[4; 16])
        );
        assert_ne!(key, keys.between(Role::Manager));
        assert_eq!(keys.between(Role::Manager), keys.between(Role::IoServer));
    }
}
