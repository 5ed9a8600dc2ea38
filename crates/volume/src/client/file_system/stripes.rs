//! Striping of files and addresses of servers, as administrators see and choose them.

use super::VolumeFs;
use crate::convert::changes_of;
use crate::link::LinkError;
use gannet_meta::groups::Groups;
use gannet_runtime::{all, timeout};
use gannet_vfs::{Credentials, FileHandle, FileSystemUsage, SetAttributes, Status};
use gannet_wire::volume::{Body, Call, Entry, LayoutRecord, Stripes};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// The striping of a file, or of a directory's new files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Striping {
    /// The layout of a regular file, for ever.
    File(LayoutRecord),
    /// The stripes of a directory's new files; `None`: the volume's.
    Directory(Option<Stripes>),
}

/// The place of an I/O server that answers, and the space there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IoServerSpace {
    /// Its address.
    pub address: SocketAddr,
    /// The number of its file system on its host.
    pub device: u64,
    /// The bytes of that file system; files are not counted.
    pub usage: FileSystemUsage,
}

impl VolumeFs {
    /// The space of each I/O server, by its number, or the reason why it does not answer. All are asked at once, and
    /// waited for a short time.
    ///
    /// # Errors
    /// The error of the connection to the manager, which knows how many there are.
    pub async fn io_server_spaces(&self) -> Result<Vec<Result<IoServerSpace, String>>, LinkError> {
        let spaces = self.all_spaces().await?.into_iter();
        Ok(spaces
            .map(|space| space.map_err(|error| error.to_string()))
            .collect())
    }

    /// The address of each I/O server, by its number, or the error of the connection to it. All connections are made
    /// at once.
    ///
    /// # Errors
    /// The error of the connection to the manager, which knows how many there are.
    pub async fn io_servers(&self) -> Result<Vec<Result<SocketAddr, LinkError>>, LinkError> {
        let count = self.servers.io_servers_count().await?;
        let asked = self.runtime.now();
        self.servers.begin_io_servers(0..count, asked);
        let mut reached = Vec::new();
        for number in 0..count {
            let link = self.servers.io_server_since(number, asked).await;
            reached.push(link.map(|link| link.endpoint().peer_address()));
        }
        Ok(reached)
    }

    /// The I/O servers that cannot be reached, or do not greet within `max`, by their numbers, and why. Empty
    /// if the manager does not answer, which knows how many there are.
    pub async fn away(&self, max: Duration) -> Vec<(u32, String)> {
        let count = timeout(&self.runtime, max, self.servers.io_servers_count()).await;
        let count = count.ok().and_then(Result::ok).unwrap_or(0);
        let greeted = (0..count)
            .map(|number| Box::pin(timeout(&self.runtime, max, self.servers.io_server(number))));
        let greeted = all(greeted).await;
        let away = (0..)
            .zip(greeted)
            .filter_map(|(number, greeted)| match greeted {
                Ok(Ok(_)) => None,
                Ok(Err(error)) => Some((number, error.to_string())),
                Err(_) => Some((number, String::from("it does not answer"))),
            });
        away.collect()
    }

    /// The groups of I/O servers, which layouts name, as they are now.
    ///
    /// # Errors
    /// The error of the connection to the manager.
    pub async fn groups(&self) -> Result<Arc<Groups>, LinkError> {
        self.servers.ask_manager().await?;
        Ok(self.servers.known_groups())
    }

    /// The I/O servers to which clients write a file with this layout, in the order of its stripes; `None` while nobody
    /// serves one of its groups.
    ///
    /// # Errors
    /// The error of the connection to the manager, which is asked where a group is not known yet.
    pub async fn servers_of(&self, layout: &LayoutRecord) -> Result<Option<Vec<u32>>, LinkError> {
        let groups = self.servers.groups_of(layout).await?;
        let servers = layout.groups.iter().map(|group| groups.primary(*group));
        Ok(servers.collect())
    }

    /// How many connections to servers were made again after a loss.
    pub fn reconnects(&self) -> u64 {
        self.servers.reconnects()
    }

    /// The striping of a file or a directory.
    ///
    /// # Errors
    /// `Inval` for anything else, `Jukebox` when the manager is away.
    pub async fn striping(
        &self,
        caller: &Credentials,
        file: &FileHandle,
    ) -> Result<Striping, Status> {
        let [found] = self.get_attributes(caller, self.id(file)?).await?;
        match found.inode.body {
            Body::Regular { layout, .. } => Ok(Striping::File(layout)),
            Body::Directory { stripes, .. } => Ok(Striping::Directory(stripes)),
            _ => Err(Status::Inval),
        }
    }

    /// Makes an empty file with these stripes, for ever, in place of its directory's and the volume's.
    ///
    /// # Errors
    /// `Exist` when the name is there; `Inval` for stripes that this volume cannot have; those of CREATE.
    pub async fn create_striped(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        name: &[u8],
        attributes: &SetAttributes,
        stripes: Stripes,
    ) -> Result<FileHandle, Status> {
        let entry = Entry {
            directory: self.id(directory)?,
            name: name.to_vec(),
        };
        let call = Call::CreateStriped {
            entry,
            attributes: changes_of(attributes),
            stripes,
        };
        let [made, _] = self.find(caller, call).await?;
        Ok(self.handle(made.id))
    }

    /// Sets the stripes of a directory's new files and of its new directories; `None`: the volume's. Existing files
    /// keep their layout.
    ///
    /// # Errors
    /// `Notdir`; `Perm` when the caller does not own it; `Inval` for stripes that this volume cannot have.
    pub async fn set_striping(
        &self,
        caller: &Credentials,
        directory: &FileHandle,
        stripes: Option<Stripes>,
    ) -> Result<(), Status> {
        let call = Call::Stripes {
            directory: self.id(directory)?,
            stripes,
        };
        self.ask(caller, call).await.map(|_| ())
    }
}
