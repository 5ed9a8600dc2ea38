//! The clients' key of a volume: a file that `gannet volume create` makes, `gannet volume key` makes anew, and every
//! client must have.

use super::Volume;
use super::create::random;
use super::description::{SECRET_FILE, identity_text};
use super::made::{absolute, replace};
use crate::cli::NewKeyOptions;
use crate::failure::Failure;
use crate::output;
use gannet::{ClientKey, KeyError};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::Token;
use std::path::Path;

/// Its name in the folder of the volume.
pub(super) const CLIENT_KEY_FILE: &str = "client-key";
/// The clients' key of the volume with this identity and these keys.
pub(super) fn of(identity: Token, keys: &ServerKeys) -> ClientKey {
    ClientKey::new(identity, keys.for_clients().to_bytes())
}

/// The text of the file of `key`, for the volume called `name`.
pub(super) fn to_text(key: ClientKey, name: &str) -> String {
    let name: String = name.chars().filter(|it| !it.is_control()).collect();
    let (identity, key) = key.to_bytes();
    format!(
        "# Lets clients use the volume {name}. Who has it can read and change all of it: keep it secret.\n\
         identity = \"{}\"\nkey = \"{}\"\n",
        identity_text(&identity),
        identity_text(&key),
    )
}

/// Reads a key file.
///
/// # Errors
/// There is none, it is no key, or everybody can read it.
pub fn load(path: &Path) -> Result<ClientKey, Failure> {
    ClientKey::load(path).map_err(|error| {
        let hint = match error {
            KeyError::Public => format!("run `chmod 600 {}`", path.display()),
            _ => String::from("copy `client-key` from the volume's folder, readable by you alone"),
        };
        Failure::new(
            format!("cannot use the volume key {}", path.display()),
            error,
        )
        .hint(hint)
    })
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
    let key = of(volume.description.identity, &keys);
    let text = to_text(key, &volume.description.name);
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
    use gannet_volume::link::TrafficClasses;
    use gannet_wire::volume::Role;

    fn secret_of(key: &ClientKey) -> Secret {
        key.client(TrafficClasses::default()).key
    }

    #[test]
    fn a_key_is_read_as_it_was_written_and_is_not_the_secret() {
        let secret = Secret::new([7; 16]);
        let key = of([0xab; 16], &ServerKeys::new(secret));
        let text = to_text(key, "a\nvolume");
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
