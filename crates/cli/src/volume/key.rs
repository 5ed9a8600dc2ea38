//! The clients' key of a volume: a file that `gannet volume create` makes, `gannet volume key` makes anew, and every
//! client must have.

use super::Volume;
use super::create::random;
use super::description::{SECRET_FILE, identity, identity_text};
use super::made::{absolute, replace};
use crate::cli::NewKeyOptions;
use crate::failure::{Explain, Failure};
use crate::output;
use gannet_volume::link::{Identity, TrafficClasses};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::{Role, Token};
use serde::Deserialize;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Its name in the folder of the volume.
pub(super) const CLIENT_KEY_FILE: &str = "client-key";
/// Largest file of this kind, in bytes.
const FILE_MAX: u64 = 64 << 10;

/// What a client must know of a volume.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientKey {
    /// The volume.
    #[serde(deserialize_with = "identity")]
    identity: Token,
    #[serde(deserialize_with = "identity")]
    key: Token,
}

impl ClientKey {
    /// That of the volume with this identity and these keys.
    pub(super) fn of(identity: Token, keys: &ServerKeys) -> ClientKey {
        let key = keys.for_clients().to_bytes();
        ClientKey { identity, key }
    }

    /// Who a client is that has it, and how what it sends is marked.
    pub fn client(&self, classes: TrafficClasses) -> Identity {
        Identity {
            role: Role::Client,
            volume: self.identity,
            key: Secret::new(self.key),
            classes,
        }
    }

    /// The text of its file, for the volume called `name`.
    pub(super) fn to_text(self, name: &str) -> String {
        let name: String = name.chars().filter(|it| !it.is_control()).collect();
        format!(
            "# Lets clients use the volume {name}. Who has it can read and change all of it: keep it secret.\n\
             identity = \"{}\"\nkey = \"{}\"\n",
            identity_text(&self.identity),
            identity_text(&self.key),
        )
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// There is none, it is no key, or everybody can read it.
    pub fn load(path: &Path) -> Result<ClientKey, Failure> {
        let what = || format!("cannot use the volume key {}", path.display());
        let hint = "copy `client-key` from the volume's folder, readable by you alone";
        let file =
            std::fs::File::open(path).map_err(|error| Failure::new(what(), error).hint(hint))?;
        if file.metadata().explain(what)?.mode() & 0o007 != 0 {
            let hint = format!("run `chmod 600 {}`", path.display());
            return Err(Failure::new(what(), "everybody can read it").hint(hint));
        }
        let mut text = String::new();
        let read = file.take(FILE_MAX).read_to_string(&mut text);
        read.map_err(|error| Failure::new(what(), error).hint(hint))?;
        toml::from_str(&text).map_err(|error| Failure::new(what(), error.message()).hint(hint))
    }
}

/// Makes another key for the clients of a volume.
///
/// # Errors
/// This is not the folder of its manager, or the key cannot be changed.
pub(super) fn run(options: &NewKeyOptions) -> Result<(), Failure> {
    let volume = Volume::open(&options.path)?;
    let path = absolute(&options.path)?;
    if !volume.metadata().is_file() {
        let what = format!("cannot change the client key in {}", path.display());
        let hint = "change it where the manager runs, and copy `secret` here";
        return Err(Failure::new(what, "the volume's metadata is not there").hint(hint));
    }
    let ((secret, _), salt) = (volume.secret()?, random()?);
    let keys = ServerKeys::new(Secret::new(secret)).with_client_salt(&salt);
    let key = ClientKey::of(volume.description.identity, &keys);
    let text = key.to_text(&volume.description.name);
    // The servers' first: a client's key that no server knows would be of no use, and this can be done again.
    replace(&path, SECRET_FILE, &[secret, salt].concat())?;
    replace(&path, CLIENT_KEY_FILE, text.as_bytes())?;
    let file = path.join(CLIENT_KEY_FILE);
    output::line(&format!("made a new client key: {}", file.display()))?;
    output::line(
        "restart the servers of the volume: then clients with the old key are refused, and those that are connected must get the new one",
    )?;
    let apart = volume.description.manager.address.is_some();
    match apart {
        true => output::line("copy `secret` to the hosts of I/O servers before they are restarted"),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret_of(key: &ClientKey) -> Secret {
        key.client(TrafficClasses::default()).key
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_is_not_the_secret() {
        let secret = Secret::new([7; 16]);
        let key = ClientKey::of([0xab; 16], &ServerKeys::new(secret));
        let text = key.to_text("a\nvolume");
        assert_eq!(text.lines().filter(|it| it.starts_with('#')).count(), 1);
        let read: ClientKey = toml::from_str(&text).unwrap();
        assert_eq!(
            (read.identity, secret_of(&read)),
            (key.identity, secret_of(&key))
        );
        assert_eq!(
            secret_of(&read),
            ServerKeys::new(secret).between(Role::Client)
        );
        assert_ne!(secret_of(&read), secret);
    }
}
