//! The file in an I/O server's folder that says whose it is, so that nobody takes another one's bytes for his own where
//! disks were swapped, or `volume.toml` names the wrong folder.

use super::description::{identity, identity_text};
use super::made::replace;
use crate::failure::{Explain, Failure};
use gannet_volume::io_server::OWNER_FILE;
use gannet_wire::volume::Token;
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest such file, in bytes.
const LEN_MAX: u64 = 1 << 16;

/// An I/O server of some volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Owner {
    /// The volume's identity.
    #[serde(deserialize_with = "identity")]
    pub(super) volume: Token,
    /// The server's number in it.
    pub(super) io_server: usize,
}

impl Owner {
    /// Whose folder this is; `None` before its first server was started.
    ///
    /// # Errors
    /// It cannot be told.
    pub(super) fn of(folder: &Path) -> io::Result<Option<Owner>> {
        let file = match File::open(folder.join(OWNER_FILE)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file?,
        };
        let mut text = String::new();
        file.take(LEN_MAX).read_to_string(&mut text)?;
        let owner = toml::from_str(&text).map_err(|error| {
            let why = format!("{OWNER_FILE}: {}", error.message());
            io::Error::new(io::ErrorKind::InvalidData, why)
        })?;
        Ok(Some(owner))
    }

    /// Takes a folder of nobody's, durably.
    ///
    /// # Errors
    /// It is another server's, or nobody can tell.
    pub(super) fn claim(self, folder: &Path) -> Result<(), Failure> {
        let what = || format!("cannot use the folder {}", folder.display());
        match Owner::of(folder).explain(what)? {
            Some(owner) if owner == self => Ok(()),
            Some(other) => Err(Failure::new(what(), format!("it is that of {other}")).hint(
                format!("put the right disk there, or the right folder into volume.toml; if this is the right one, remove its {OWNER_FILE}"),
            )),
            None => {
                let Owner { volume, io_server } = self;
                let text = format!(
                    "# Objects of a volume of Gannet are in this folder, those of:\nvolume = \"{}\"\nio_server = {io_server}\n",
                    identity_text(&volume)
                );
                replace(folder, OWNER_FILE, text.as_bytes())
            }
        }
    }
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Owner { volume, io_server } = self;
        write!(
            f,
            "I/O server {io_server} of the volume {}",
            identity_text(volume)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_has_one_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        let (first, second) = (
            Owner {
                volume: [7; 16],
                io_server: 0,
            },
            Owner {
                volume: [7; 16],
                io_server: 1,
            },
        );
        assert_eq!(Owner::of(path).unwrap(), None);
        first.claim(path).unwrap();
        first.claim(path).unwrap();
        assert_eq!(Owner::of(path).unwrap(), Some(first));
        let refused = second.claim(path).unwrap_err().to_string();
        assert!(
            refused.contains("I/O server 0 of the volume 0707"),
            "{refused}"
        );
        assert_eq!(Owner::of(path).unwrap(), Some(first));
        for nonsense in ["", "volume = 1", "volume = \"07\"\nio_server = 0", "\u{0}"] {
            std::fs::write(path.join(OWNER_FILE), nonsense).unwrap();
            assert!(Owner::of(path).is_err(), "{nonsense}");
            first.claim(path).unwrap_err();
        }
    }
}
