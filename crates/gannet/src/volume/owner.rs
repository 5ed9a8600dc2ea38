//! The file in an I/O server's folder that names the server. It keeps a server from serving another server's objects
//! after disks were swapped, or when `volume.toml` names the wrong folder.

use super::description::identity_text;
use super::error::{At, FileWork, VolumeError};
use super::made::replace;
use gannet_volume::host::Found;
use gannet_volume::io_server::OWNER_FILE;
use gannet_wire::volume::{FOLDERS, Token};
use serde::Deserialize;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Largest such file, in bytes.
const LEN_MAX: u64 = 1 << 16;

/// An I/O server of some volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// The volume's identity.
    #[serde(deserialize_with = "crate::token")]
    pub volume: Token,
    /// The server's number in it.
    pub io_server: usize,
    /// Files with numbers below this may have had objects on a disk before this one, which was lost; 0: none was.
    #[serde(default)]
    pub lost_below: u64,
}

impl Owner {
    /// Whose folder this is; `None` before its first server was started.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn of(folder: &Path) -> io::Result<Option<Owner>> {
        let mut text = String::new();
        let opened = File::open(folder.join(OWNER_FILE));
        let read = opened.and_then(|file| file.take(LEN_MAX).read_to_string(&mut text));
        let wrong = |kind, why: &dyn std::fmt::Display| {
            io::Error::new(kind, format!("{OWNER_FILE}: {why}"))
        };
        match read {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(error.kind(), &error)),
            Ok(_) => {}
        }
        let owner = toml::from_str(&text);
        owner
            .map(Some)
            .map_err(|error| wrong(io::ErrorKind::InvalidData, &error.message()))
    }

    /// Whether both are the same I/O server.
    pub fn is(&self, other: &Owner) -> bool {
        (self.volume, self.io_server) == (other.volume, other.io_server)
    }

    /// Whether a folder belongs to this server.
    ///
    /// # Errors
    /// It belongs to another server, or its file cannot be read.
    pub(super) fn look(self, folder: &Path) -> Result<Found, VolumeError> {
        match Owner::of(folder).at(FileWork::UseFolder, folder)? {
            Some(owner) if owner.is(&self) => Ok(Found::Own {
                lost_below: owner.lost_below,
            }),
            Some(owner) => Err(VolumeError::OfAnother {
                folder: folder.to_path_buf(),
                owner,
            }),
            None if holds_objects(folder).at(FileWork::UseFolder, folder)? => Ok(Found::Unmarked),
            None => Ok(Found::Empty),
        }
    }

    /// Says durably that a folder is this server's.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn mark(self, folder: &Path, lost_below: u64) -> Result<(), VolumeError> {
        let Owner {
            volume, io_server, ..
        } = self;
        let mut text = format!(
            "# Objects of a volume of Gannet are in this folder, those of:\nvolume = \"{}\"\nio_server = {io_server}\n",
            identity_text(&volume)
        );
        if lost_below > 0 {
            text.push_str(&format!(
                "# The disk before this one was lost with objects of files with numbers below:\nlost_below = {lost_below}\n"
            ));
        }
        replace(folder, OWNER_FILE, text.as_bytes())
    }
}

/// Whether something lies where objects do. Other names, of a new disk for instance, do not count.
fn holds_objects(folder: &Path) -> io::Result<bool> {
    for number in 0..FOLDERS {
        let inside = match std::fs::read_dir(folder.join(format!("{number:02x}"))) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            inside => inside?.next().transpose()?,
        };
        if inside.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

impl std::fmt::Display for Owner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Owner {
            volume, io_server, ..
        } = self;
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
                lost_below: 0,
            },
            Owner {
                volume: [7; 16],
                io_server: 1,
                lost_below: 0,
            },
        );
        assert_eq!(Owner::of(path).unwrap(), None);
        std::fs::create_dir(path.join("lost+found")).unwrap();
        std::fs::create_dir(path.join("0a")).unwrap();
        assert_eq!(first.look(path).unwrap(), Found::Empty);
        std::fs::write(path.join("0a/000000000000000a"), "").unwrap();
        assert_eq!(first.look(path).unwrap(), Found::Unmarked);
        first.mark(path, 0).unwrap();
        assert_eq!(first.look(path).unwrap(), Found::Own { lost_below: 0 });
        assert_eq!(Owner::of(path).unwrap(), Some(first));
        let refused = second.look(path).unwrap_err().to_string();
        assert!(
            refused.contains("I/O server 0 of the volume 0707"),
            "{refused}"
        );
        assert_eq!(Owner::of(path).unwrap(), Some(first));
        let anew = Owner {
            lost_below: 77,
            ..first
        };
        first.mark(path, 77).unwrap();
        assert_eq!(Owner::of(path).unwrap(), Some(anew));
        assert_eq!(first.look(path).unwrap(), Found::Own { lost_below: 77 });
        for nonsense in ["", "volume = 1", "volume = \"07\"\nio_server = 0", "\u{0}"] {
            std::fs::write(path.join(OWNER_FILE), nonsense).unwrap();
            assert!(Owner::of(path).is_err(), "{nonsense}");
            first.look(path).unwrap_err();
        }
    }
}
