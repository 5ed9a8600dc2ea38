//! The clients' key of a volume: a file that `gannet volume create` makes, and every client must have.

use gannet_volume::link::{Identity, TrafficClasses};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::{Role, TOKEN_LEN, Token};
use serde::Deserialize;
use serde::de::Error as _;
use std::fmt;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use thiserror::Error;

/// Largest file of this kind, in bytes.
const FILE_MAX: u64 = 64 << 10;

/// The secrets of a client of a volume.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientKey {
    /// The volume.
    #[serde(deserialize_with = "token")]
    identity: Token,
    #[serde(deserialize_with = "token")]
    key: Token,
}

/// The reason why a key cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeyError {
    /// Its file cannot be read.
    #[error("{0}")]
    File(#[from] io::Error),
    /// Every user can read it.
    #[error("every user can read it")]
    Public,
    /// The text is not a key.
    #[error("{0}")]
    Text(String),
}

impl ClientKey {
    /// The key of the volume with this identity.
    pub fn new(identity: Token, key: Token) -> ClientKey {
        ClientKey { identity, key }
    }

    /// The key of the volume with this identity and these keys of its servers.
    pub fn of(identity: Token, keys: &ServerKeys) -> ClientKey {
        ClientKey::new(identity, keys.for_clients().to_bytes())
    }

    /// The text of its file, for the volume called `name`.
    pub fn to_text(&self, name: &str) -> String {
        let name: String = name.chars().filter(|it| !it.is_control()).collect();
        let text = |token: Token| format!("{:032x}", u128::from_be_bytes(token));
        format!(
            "# Lets clients use the volume {name}. Who has it can read and change all of it: keep it secret.\n\
             identity = \"{}\"\nkey = \"{}\"\n",
            text(self.identity),
            text(self.key),
        )
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// The file does not exist, has no key, or every user can read it.
    pub fn load(path: &Path) -> Result<ClientKey, KeyError> {
        let file = std::fs::File::open(path)?;
        if file.metadata()?.mode() & 0o007 != 0 {
            return Err(KeyError::Public);
        }
        let mut text = String::new();
        file.take(FILE_MAX).read_to_string(&mut text)?;
        ClientKey::parse(&text)
    }

    /// Takes the text of a key file.
    ///
    /// # Errors
    /// The text is not a key.
    pub fn parse(text: &str) -> Result<ClientKey, KeyError> {
        toml::from_str(text).map_err(|error| KeyError::Text(error.message().to_owned()))
    }

    /// The client that has the key, and the DSCPs of its packets.
    pub fn client(&self, classes: TrafficClasses) -> Identity {
        Identity {
            role: Role::Client,
            volume: self.identity,
            key: Secret::new(self.key).into(),
            classes,
        }
    }

    /// The bytes of the volume's identity and of the key.
    pub fn to_bytes(self) -> (Token, Token) {
        (self.identity, self.key)
    }
}

impl fmt::Debug for ClientKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientKey").finish_non_exhaustive()
    }
}

/// Parses an identity or a key: [`TOKEN_LEN`] bytes in hexadecimal digits.
pub fn token<'de, D: serde::Deserializer<'de>>(source: D) -> Result<Token, D::Error> {
    let text = String::deserialize(source)?;
    let value = u128::from_str_radix(&text, 16).ok();
    let value = value.filter(|_| text.len() == 2 * TOKEN_LEN);
    value
        .map(u128::to_be_bytes)
        .ok_or_else(|| D::Error::custom("an identity is 32 hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret_of(key: &ClientKey) -> Secret {
        key.client(TrafficClasses::default()).key.now()
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_is_not_the_secret() {
        let secret = Secret::new([7; 16]);
        let key = ClientKey::of([0xab; 16], &ServerKeys::new(secret));
        let text = key.to_text("a\nvolume");
        assert_eq!(text.lines().filter(|it| it.starts_with('#')).count(), 1);
        let read = ClientKey::parse(&text).unwrap();
        assert_eq!(
            (read.to_bytes().0, secret_of(&read)),
            (key.to_bytes().0, secret_of(&key))
        );
        assert_eq!(
            secret_of(&read),
            ServerKeys::new(secret).between(Role::Client)
        );
        assert_ne!(secret_of(&read), secret);
    }
}
