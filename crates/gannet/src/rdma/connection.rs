//! A connection, from any thread.

use super::link::FileJob;
use super::memory::{RegisteredMemory, RemoteSegment};
use super::{AdapterOptions, Device, LinkId, Made, RdmaError};
use crate::worker::Worker;
use gannet_datapath::{FileRange, SendCounts};
use gannet_fabric::{Access, RemoteAddress, RemoteKey};
use gannet_localfs::file_source;
use gannet_runtime::{Buffer, FileRef};
use std::fs::File;
use std::net::SocketAddr;
use std::rc::Rc;
use tokio::sync::oneshot;

/// An open file that is served; it need be open for reading only. Clones share it.
#[derive(Clone)]
pub struct ServedFile(FileRef);

impl From<File> for ServedFile {
    fn from(file: File) -> ServedFile {
        ServedFile(file_source(file))
    }
}

/// Where the bytes of a file go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileTarget {
    /// Memory of the peer, filled segment by segment.
    Memory(Vec<RemoteSegment>),
    /// Messages. The peer has this number of receives posted, each as long as a pipe.
    Messages(usize),
}

impl FileTarget {
    /// The peer's memory as the fabric names it; none for messages. No segment is longer than one operation may be.
    pub(super) fn segments(&self) -> Vec<(RemoteAddress, u32)> {
        let FileTarget::Memory(segments) = self else {
            return Vec::new();
        };
        let segment = |segment: &RemoteSegment| {
            let RemoteSegment { key, offset, len } = *segment;
            let key = RemoteKey(key);
            let len = u32::try_from(len).unwrap_or(u32::MAX);
            (RemoteAddress { key, offset }, len)
        };
        segments.iter().map(segment).collect()
    }
}

/// A connection to one peer. It ends when it is dropped; messages that were accepted leave before.
pub struct RdmaConnection {
    worker: Worker<Device>,
    link: LinkId,
    options: AdapterOptions,
    peer: SocketAddr,
}

impl Drop for RdmaConnection {
    fn drop(&mut self) {
        let link = self.link;
        // Where the thread has ended, so has the connection.
        let _ = self
            .worker
            .begin(async move |device| device.drop_link(link));
    }
}

impl RdmaConnection {
    pub(super) fn new(
        worker: Worker<Device>,
        options: AdapterOptions,
        made: Made,
    ) -> RdmaConnection {
        let Made { id, peer } = made;
        RdmaConnection {
            worker,
            link: id,
            options,
            peer,
        }
    }

    /// The other end.
    pub fn peer_address(&self) -> SocketAddr {
        self.peer
    }

    /// Sends a message, and does not wait for the peer.
    ///
    /// # Errors
    /// [`RdmaError::Message`], [`RdmaError::Post`], [`RdmaError::Disconnected`], [`RdmaError::Ended`].
    pub async fn send(&self, message: impl Into<Vec<u8>>) -> Result<(), RdmaError> {
        let (message, max) = (message.into(), self.options.message_max);
        if message.len() > max {
            let len = message.len();
            return Err(RdmaError::Message { len, max });
        }
        let link = self.link;
        let send = async move |device: Rc<Device>| device.find(link)?.send(message);
        self.worker.run(send).await?
    }

    /// Ends the connection, and all calls that wait for it in other threads. Messages that were accepted leave before;
    /// those that have come can still be received.
    ///
    /// # Errors
    /// [`RdmaError::Ended`].
    pub async fn shut_down(&self) -> Result<(), RdmaError> {
        let link = self.link;
        let shut_down =
            async move |device: Rc<Device>| device.find(link).map(|link| link.shut_down());
        self.worker.run(shut_down).await?
    }

    /// The next message. Wait for it to its end: a call that is dropped may take a message with it.
    ///
    /// # Errors
    /// [`RdmaError::Disconnected`], [`RdmaError::Ended`].
    pub async fn receive(&self) -> Result<Vec<u8>, RdmaError> {
        let received = self.receive_unless(std::future::pending()).await?;
        received.ok_or(RdmaError::Ended)
    }

    /// The next message; `None` if `stop` ends before it comes. No message is lost then.
    ///
    /// # Errors
    /// As [`RdmaConnection::receive`].
    pub async fn receive_unless(
        &self,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<Vec<u8>>, RdmaError> {
        let (receiver, mut message) = oneshot::channel();
        let link = self.link;
        self.worker.begin(async move |device| {
            if let Ok(link) = device.find(link) {
                link.receive(receiver);
            }
        })?;
        tokio::select! {
            biased;
            received = &mut message => return received.map_err(|_| RdmaError::Ended)?.map(Some),
            () = stop => {}
        }
        // From here on the core keeps the message for the next caller; it may have sent it before.
        message.close();
        message.try_recv().ok().transpose()
    }

    /// Registers memory for the peer: a `Vec` ([`Buffer::from_vec`]), or any memory that the program has already, as a
    /// mapping ([`Buffer::from_lent`]). It is not copied, neither here nor when the peer writes to it.
    ///
    /// # Errors
    /// [`RdmaError::Register`], [`RdmaError::Disconnected`], [`RdmaError::Ended`]; the memory is dropped then.
    pub async fn register(
        &self,
        memory: Buffer,
        access: Access,
    ) -> Result<RegisteredMemory, RdmaError> {
        let link = self.link;
        let register =
            async move |device: Rc<Device>| device.find(link)?.register(memory, access).await;
        let (name, segment) = self.worker.run(register).await??;
        let worker = self.worker.clone();
        Ok(RegisteredMemory::new(worker, link, name, segment))
    }

    /// Sends `len` bytes of a file from `offset` on, and returns when they have left; what its connection's sender did
    /// so far. Bytes behind the end of the file come as zeros. Files go one after the other, and messages of the peer
    /// that come meanwhile are delivered when a file has left.
    ///
    /// # Errors
    /// [`RdmaError::File`], [`RdmaError::Disconnected`], [`RdmaError::Ended`].
    pub async fn send_file(
        &self,
        file: &ServedFile,
        offset: u64,
        len: usize,
        target: FileTarget,
    ) -> Result<SendCounts, RdmaError> {
        let (done, sent) = oneshot::channel();
        let job = FileJob {
            range: FileRange {
                file: FileRef::clone(&file.0),
                offset,
                len,
            },
            target,
            done,
        };
        let link = self.link;
        self.worker.begin(async move |device| {
            if let Ok(link) = device.find(link) {
                link.send_file(job);
            }
        })?;
        sent.await.map_err(|_| RdmaError::Ended)?
    }
}
