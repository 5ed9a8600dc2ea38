//! Volumes: files striped over many I/O servers, in one name space.
//!
//! A [`Volume`] is the folder with the files of its servers: `volume.toml` (see [`Description`]), `secret`,
//! `client-key`, `metadata` with its journal, and the I/O servers' folders, each with a file that names its owner.
//! [`crate::server::Builder::volume`] serves all of it in this process; [`OpenHost`] runs some of its servers.
//!
//! ```
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("volume");
//! use gannet::volume::{CreateOptions, NewIoServers};
//! use gannet::{Client, ConnectOptions, Server, Volume};
//!
//! let options = CreateOptions {
//!     io_servers: NewIoServers::Inside(2),
//!     ..CreateOptions::default()
//! };
//! let volume = Volume::create(&path, &options)?;
//! let server = Server::builder().volume(&path).start()?;
//! let url = server.native_url().ok_or("a volume is served")?;
//! let options = ConnectOptions::default().volume_key(volume.client_key()?);
//! let client = Client::connect_with(&url, options).await?;
//! client.write("hello", "over two servers").await?;
//! assert_eq!(client.read("hello").await?, b"over two servers");
//! server.stop()?;
//! # Ok(())
//! # }
//! # tokio::runtime::Runtime::new()?.block_on(example())
//! # .map_err(|error| std::io::Error::other(error.to_string()))?;
//! # Ok::<(), std::io::Error>(())
//! ```

mod create;
mod description;
mod engine;
mod error;
mod finding;
mod folder;
mod host;
mod made;
mod metadata;
mod owner;
mod place;
mod watch;

pub use create::{CreateOptions, NewIoServers};
pub use description::{
    DESCRIPTION_FILE, Description, IoServerDescription, JournalDescription, ManagerDescription,
    PostgresqlUrl, StripesDescription, Zone, ZoneError, identity_text,
};
pub use error::{DescriptionError, FileWork, JournalError, ManagerError, SecretError, VolumeError};
pub use finding::{IoServerFacts, manager_finding, not_ready};
pub use folder::lock_folder;
pub use gannet_volume::host::{ClaimFailure, HostCounters};
pub use gannet_volume::manager::{ClaimError, IoServerCondition, ManagerCondition, TermError};
pub use gannet_wire::volume::Copies;
pub use host::{Front, Host, HostOptions, Listening, OpenHost, VolumeRole, VolumeRoleError};
pub use metadata::{StandingBy, open_metadata};
pub use owner::Owner;
pub use place::{Place, PlaceError};
pub use watch::VolumeWatch;

use crate::{ClientKey, KeyError};
use description::{METADATA_FILE, SECRET_FILE};
use gannet_volume::secret::{Secret, ServerKeys};
use gannet_wire::volume::Token;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most I/O servers of a volume.
pub const IO_SERVERS_MAX: usize = gannet_wire::volume::WIDTH_MAX;
/// Metadata of a volume that stays in memory, in bytes.
pub const METADATA_CACHE: usize = 64 << 20;
/// The name of the clients' key in the folder of its volume.
pub const CLIENT_KEY_FILE: &str = "client-key";
/// Largest description, in bytes.
const DESCRIPTION_MAX: u64 = 1 << 20;

/// The folder of a volume, opened.
#[derive(Debug)]
pub struct Volume {
    /// The path of the folder.
    pub path: PathBuf,
    /// The contents of `volume.toml`.
    pub description: Description,
}

impl Volume {
    /// Reads the description of the volume at `path`.
    ///
    /// # Errors
    /// There is no description, or this program does not understand it.
    pub fn open(path: &Path) -> Result<Volume, VolumeError> {
        let file = path.join(DESCRIPTION_FILE);
        let mut text = String::new();
        let opened = std::fs::File::open(&file);
        let read = opened.and_then(|it| it.take(DESCRIPTION_MAX).read_to_string(&mut text));
        if let Err(why) = read {
            return Err(VolumeError::Unreadable { file, why });
        }
        match Description::parse(&text) {
            Ok(description) => Ok(Volume {
                path: path.to_path_buf(),
                description,
            }),
            Err(why) => Err(VolumeError::Description { file, why }),
        }
    }

    /// Its keys: sixteen secret bytes, and sixteen more after each change of the clients' key.
    ///
    /// # Errors
    /// The file cannot be read, has no keys, or other users can read it.
    pub fn keys(&self) -> Result<ServerKeys, VolumeError> {
        let (secret, salt) = self.secret()?;
        let keys = ServerKeys::new(Secret::new(secret));
        Ok(match salt {
            Some(salt) => keys.with_client_salt(&salt),
            None => keys,
        })
    }

    /// The clients' key, from the file that was made with the volume.
    ///
    /// # Errors
    /// The file does not exist, has no key, or every user can read it.
    pub fn client_key(&self) -> Result<ClientKey, KeyError> {
        ClientKey::load(&self.path.join(CLIENT_KEY_FILE))
    }

    /// Reads the file of the secret: the secret, and the second value on which the clients' key depends.
    fn secret(&self) -> Result<(Token, Option<Token>), VolumeError> {
        let file = self.path.join(SECRET_FILE);
        read_secret(&file).map_err(|why| VolumeError::Secret { file, why })
    }

    /// The path of its metadata.
    pub fn metadata(&self) -> PathBuf {
        self.path.join(METADATA_FILE)
    }

    /// The folders of its I/O servers, in the order of their numbers.
    pub fn folders(&self) -> Vec<PathBuf> {
        let servers = self.description.io_server.iter();
        servers.map(|it| self.path.join(&it.folder)).collect()
    }
}

fn read_secret(file: &Path) -> Result<(Token, Option<Token>), SecretError> {
    let bytes = std::fs::read(file).map_err(SecretError::File)?;
    let mode = std::fs::metadata(file).map_err(SecretError::File)?.mode();
    if mode & 0o077 != 0 {
        return Err(SecretError::Public);
    }
    let (secret, salt) = bytes.split_first_chunk().ok_or(SecretError::Short)?;
    match salt.len() {
        0 => Ok((*secret, None)),
        _ => match Token::try_from(salt) {
            Ok(salt) => Ok((*secret, Some(salt))),
            Err(_) => Err(SecretError::Length),
        },
    }
}
