//! Client-driven buffers: the server opens memory, and the client moves the bytes to it and from it by RDMA.

use super::walk::Pace;
use super::{IoServer, flow_of, parse};
use crate::link::Link;
use gannet_fabric::Access;
use gannet_objects::Target;
use gannet_vfs::{FileHandle, Status, Vfs};
use gannet_wire::volume::{
    CLIENT_BUFFER_LEN_MAX, Capability, Class, ClientBuffer, ClientDrivenDone, ObjectRange,
    ObjectReference, Transfer, TransferDone,
};
use gannet_wire::xdr::to_bytes;

/// A client-driven buffer that its client has written to.
pub(super) struct WrittenBuffer {
    /// The server's number of the buffer.
    pub(super) number: u64,
    /// The bytes of the WRITE.
    pub(super) count: u64,
    pub(super) class: Class,
}

/// A READ to a client-driven buffer.
pub(super) struct ReadToBuffer<'a> {
    pub(super) transfer: &'a Transfer,
    /// The bytes of the READ that lie on this server.
    pub(super) count: u64,
    pub(super) class: Class,
    /// The reference that goes with the reply.
    pub(super) reference: Option<ObjectReference>,
}

impl<V: Vfs> IoServer<V> {
    /// Opens a buffer to write to, if there is memory.
    pub(super) fn open_buffer(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectRange {
            capability, size, ..
        } = parse(body)?;
        self.objects.check(&capability, Capability::WRITE)?;
        Ok(to_bytes(&open_for_write(link, size)))
    }

    /// The client is done with a buffer, which may have been closed already.
    pub(super) async fn close_buffer(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        drop(link.close_buffer(parse(body)?).await);
        Ok(Vec::new())
    }

    /// Stores what the client has written to a buffer.
    pub(super) async fn write_client_driven(
        &self,
        link: &Link,
        written: WrittenBuffer,
        transfer: &Transfer,
        target: Target<'_>,
        pace: &Pace,
    ) -> Result<(), Status> {
        let WrittenBuffer {
            number,
            count,
            class,
        } = written;
        // Closed before it is read: otherwise the client could change bytes while they are stored. A client that came
        // too late may try again.
        let buffer = link.close_buffer(number).await.ok_or(Status::Jukebox)?;
        if count > buffer.len() as u64 {
            return Err(Status::Inval);
        }
        let scheduler = match class {
            Class::Metadata | Class::Small => &self.small,
            Class::Bulk | Class::Background => &self.writes,
        };
        let permit = scheduler.take(flow_of(link, class), count).await;
        // Fits: it is in memory.
        let data = 0..count as usize;
        self.store_own(target, transfer, (buffer, data), Some(permit), pace)
            .await
    }

    /// The answer to a WRITE by a client-driven buffer: one for the next WRITE comes with it.
    pub(super) fn written_client_driven(&self, link: &Link, done: TransferDone) -> Vec<u8> {
        let buffer = open_for_write(link, done.count);
        to_bytes(&ClientDrivenDone { done, buffer })
    }

    /// Copies a READ's bytes to memory, and opens that.
    pub(super) async fn read_client_driven(
        &self,
        link: &Link,
        object: Option<&FileHandle>,
        read: ReadToBuffer<'_>,
        pace: &Pace,
    ) -> Result<Vec<u8>, Status> {
        let ReadToBuffer {
            transfer,
            count,
            class,
            reference,
        } = read;
        let nothing = |state| ClientDrivenDone {
            done: TransferDone {
                count: 0,
                state,
                reference,
            },
            buffer: None,
        };
        let buffer = Some(count).filter(|it| *it <= CLIENT_BUFFER_LEN_MAX);
        let Some(buffer) = buffer.and_then(|count| link.client_buffer_memory(count)) else {
            let state = self.objects.state_of(object).await?;
            let state = self.after_read(transfer, state)?;
            return Ok(to_bytes(&nothing(state)));
        };
        let _permit = match class {
            Class::Metadata | Class::Small => None,
            Class::Bulk | Class::Background => {
                Some(self.reads.take(flow_of(link, class), count).await)
            }
        };
        let gathered = self.gather_own(object, transfer, buffer, pace).await;
        let (buffer, state) = gathered?;
        let state = self.after_read(transfer, state)?;
        Ok(to_bytes(
            &match link.open_buffer(buffer, Access::RemoteRead) {
                None => nothing(state),
                buffer => ClientDrivenDone {
                    done: TransferDone {
                        count,
                        state,
                        reference,
                    },
                    buffer,
                },
            },
        ))
    }
}

fn open_for_write(link: &Link, len: u64) -> Option<ClientBuffer> {
    let len = Some(len).filter(|len| (1..=CLIENT_BUFFER_LEN_MAX).contains(len))?;
    link.open_buffer(link.client_buffer_memory(len)?, Access::RemoteWrite)
}
