//! Replicate: a change that the primary of a group passes on. It waits for nothing but the own disk: memory, credits
//! and connections are not those of clients.

use super::{IoServer, parse};
use crate::link::{Link, LinkError, Message};
use gannet_fabric::{RemoteAddress, RemoteKey};
use gannet_objects::PutBytes;
use gannet_runtime::Buffer;
use gannet_vfs::{Status, Vfs};
use gannet_wire::volume::{ObjectChange, Piece, RegionPiece, Replication};
use gannet_wire::xdr::to_bytes;

impl<V: Vfs> IoServer<V> {
    /// Takes a change from the primary of a group.
    pub(super) async fn replicate(&self, link: &Link, request: Message) -> Result<Vec<u8>, Status> {
        let change: Replication = parse(request.body())?;
        // Before memory is taken.
        self.objects.check_primary(&change)?;
        let bytes = match change.change {
            ObjectChange::Put { memory, .. } => Some(self.put_data(link, memory, request).await?),
            _ => None,
        };
        Ok(to_bytes(&self.objects.take_over(&change, bytes).await?))
    }

    /// The bytes of a put, which are in the request or in memory of the primary.
    async fn put_data(
        &self,
        link: &Link,
        memory: Option<RegionPiece>,
        request: Message,
    ) -> Result<PutBytes, Status> {
        let Some(RegionPiece { key, piece }) = memory else {
            let data = request.data_range();
            return Ok((request.into_buffer(), data));
        };
        let Piece { offset, len } = piece;
        let buffer = self.copy_slab(len).ok_or(Status::Jukebox)?;
        let key = RemoteKey(key);
        let source = [(0, RemoteAddress { key, offset }, len)];
        let buffer = link
            .read(buffer, &source)
            .await
            .map_err(|error: LinkError| {
                tracing::debug!(%error, "cannot fetch the bytes of a copy");
                Status::Jukebox
            })?;
        Ok((buffer, 0..len as usize))
    }

    fn copy_slab(&self, len: u32) -> Option<Buffer> {
        let idle = &self.copy_slabs_idle;
        idle.look_after(&self.runtime, &self.copy_slabs);
        self.copy_slabs.take_or_trim(len as usize)
    }
}
