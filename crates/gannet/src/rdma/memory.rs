//! Memory that a peer may reach.

use super::{Device, LinkId, RdmaError};
use crate::worker::Worker;
use gannet_runtime::Buffer;

/// Where a peer finds local memory. A message of the program sends it to the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RemoteSegment {
    /// The key (STag).
    pub key: u32,
    /// The first byte, in the offsets of that key.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

/// Memory that is registered for a connection's peer, and the fabric's until it is taken back.
///
/// Dropped, its key is revoked and the memory freed; nothing of it is kept for a later registration, so that a key
/// never outlives the memory it was made for.
pub struct RegisteredMemory {
    core: Worker<Device>,
    link: LinkId,
    name: u64,
    segment: RemoteSegment,
    is_taken: bool,
}

impl RegisteredMemory {
    pub(super) fn new(
        core: Worker<Device>,
        link: LinkId,
        name: u64,
        segment: RemoteSegment,
    ) -> RegisteredMemory {
        RegisteredMemory {
            core,
            link,
            name,
            segment,
            is_taken: false,
        }
    }

    /// The key to send to the peer.
    pub fn segment(&self) -> RemoteSegment {
        self.segment
    }

    /// Revokes the key, and returns the same memory with the bytes that the peer has written to it.
    ///
    /// # Errors
    /// [`RdmaError::Lost`], [`RdmaError::Ended`].
    pub async fn take_back(mut self) -> Result<Buffer, RdmaError> {
        self.is_taken = true;
        let (link, name) = (self.link, self.name);
        let taken = self
            .core
            .run(async move |device| device.find(link)?.take_back(name).await);
        taken.await?
    }
}

impl Drop for RegisteredMemory {
    fn drop(&mut self) {
        if self.is_taken {
            return;
        }
        let (link, name) = (self.link, self.name);
        // If the thread has ended, it has dropped the memory already.
        let _ = self.core.begin(async move |device| {
            if let Ok(link) = device.find(link) {
                link.forget(name);
            }
        });
    }
}
