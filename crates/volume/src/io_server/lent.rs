//! Client-based RDMA: the server lends memory, and the client moves the bytes to it and from it.

use super::walk::Pace;
use super::write::Target;
use super::{IoServer, parse};
use crate::link::Link;
use gannet_fabric::Access;
use gannet_vfs::{FileHandle, Status, Vfs};
use gannet_wire::volume::{
    Capability, Class, LENT_LEN_MAX, Lent, LentDone, ObjectRange, ObjectReference, Transfer,
    TransferDone,
};
use gannet_wire::xdr::to_bytes;

impl<V: Vfs> IoServer<V> {
    /// Lends memory to write to, if there is some.
    pub(super) fn lend(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        let ObjectRange { capability, size } = parse(body)?;
        self.check(&capability, Capability::WRITE)?;
        Ok(to_bytes(&lend_for_write(link, size)))
    }

    /// The client is done with what it was lent; it may have been taken back already.
    pub(super) async fn take_back(&self, link: &Link, body: &[u8]) -> Result<Vec<u8>, Status> {
        drop(link.take_back(parse(body)?).await);
        Ok(Vec::new())
    }

    /// Stores what the client has written to memory that it was lent.
    pub(super) async fn write_lent(
        &self,
        (link, number, class): (&Link, u64, Class),
        transfer: &Transfer,
        (count, pace): (u64, &Pace),
        target: Target<'_>,
    ) -> Result<(), Status> {
        // From now on not a byte of it changes. A client that came too late may try again.
        let buffer = link.take_back(number).await.ok_or(Status::Jukebox)?;
        if count > buffer.len() as u64 {
            return Err(Status::Inval);
        }
        let scheduler = match class {
            Class::Metadata | Class::Small => &self.small,
            Class::Bulk | Class::Background => &self.writes,
        };
        let _permit = scheduler.take((link.endpoint().id(), class), count).await;
        // Fits: it is in memory.
        let source = (buffer, 0..count as usize);
        self.store_own(target, transfer, source, pace).await
    }

    /// The answer to a WRITE by lent memory: some for the next one comes with it.
    pub(super) fn written_lent(&self, link: &Link, done: TransferDone) -> Vec<u8> {
        let lent = lend_for_write(link, done.count);
        to_bytes(&LentDone { done, lent })
    }

    /// Copies a READ's bytes to memory, and lends that.
    pub(super) async fn read_lent(
        &self,
        (link, class): (&Link, Class),
        object: Option<&FileHandle>,
        (transfer, count, reference): (&Transfer, u64, Option<ObjectReference>),
        pace: &Pace,
    ) -> Result<Vec<u8>, Status> {
        let nothing = |state| LentDone {
            done: TransferDone {
                count: 0,
                state,
                reference,
            },
            lent: None,
        };
        let buffer = Some(count).filter(|it| *it <= LENT_LEN_MAX);
        let Some(buffer) = buffer.and_then(|count| link.lendable(count)) else {
            return Ok(to_bytes(&nothing(self.state_of(object).await?)));
        };
        let _permit = match class {
            Class::Metadata | Class::Small => None,
            Class::Bulk | Class::Background => {
                let flow = (link.endpoint().id(), class);
                Some(self.reads.take(flow, count).await)
            }
        };
        let gathered = self.gather_own(object, transfer, buffer, pace).await;
        let (buffer, state) = gathered?;
        Ok(to_bytes(&match link.lend(buffer, Access::RemoteRead) {
            None => nothing(state),
            lent => LentDone {
                done: TransferDone {
                    count,
                    state,
                    reference,
                },
                lent,
            },
        }))
    }
}

fn lend_for_write(link: &Link, len: u64) -> Option<Lent> {
    let len = Some(len).filter(|len| (1..=LENT_LEN_MAX).contains(len))?;
    link.lend(link.lendable(len)?, Access::RemoteWrite)
}
