//! Client-driven buffers: memory of an I/O server that one client reads or writes by its own RDMA for a short time.
//!
//! Each buffer has a key of its own, good on its connection alone. The server revokes the key before it uses the memory
//! for anything else: when the client reports that it is done, when [`CLIENT_BUFFER_AGE`] is over, or with the
//! connection. So a client that falls silent holds its memory for that long and no longer.
//!
//! The memory is the connection's own while any buffer is open: [`CLIENT_BUFFER_BYTES_MAX`] bytes for each of
//! [`CLIENT_BUFFER_LINKS_MAX`] connections. If connections shared it, a client that reports bytes as written which it
//! has not would store what another client had left there, and could read that back.

use super::Link;
use crate::limits::{
    CLIENT_BUFFER_AGE, CLIENT_BUFFER_BYTES_MAX, CLIENT_BUFFER_LINKS_MAX, CLIENT_BUFFER_USE_AGE,
    CLIENT_BUFFERS_NOTED_MAX, SLAB_LEN_MIN,
};
use gannet_fabric::{Access, Backing, DeregisterError, Region, Revocation, Scope};
use gannet_runtime::{Buffer, Handle, Instant, Slabs, sleep};
use gannet_wire::volume::{CLIENT_BUFFER_LEN_MAX, Class, ClientBuffer, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One permit for each connection of a core that may yet have such memory.
pub(super) fn room() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(CLIENT_BUFFER_LINKS_MAX))
}

/// The client-driven buffers of a connection: on the server those that it has opened, on the client those that it may
/// use.
#[derive(Default)]
pub(super) struct ClientBuffers {
    /// Where the memory comes from, while a buffer is open or about to be.
    source: Option<Source>,
    /// The last number given.
    last: u64,
    open: BTreeMap<u64, Open>,
    /// Buffers to write to, and until when a write may begin.
    usable: Vec<(ClientBuffer, Instant)>,
}

/// Memory of one connection's own.
struct Source {
    slabs: Slabs,
    _room: OwnedSemaphorePermit,
}

/// The revocation of a key, which gives the memory back.
type Closing = Revocation<Result<Option<Buffer>, DeregisterError>>;

/// A buffer that is open.
struct Open {
    region: Region,
    until: Instant,
}

impl ClientBuffers {
    /// Closes a buffer: once its memory is back, no byte of it is read or written by its key any more.
    fn close_buffer(&mut self, number: u64) -> Option<Closing> {
        Some(self.open.remove(&number)?.region.deregister())
    }

    /// Closes buffers that were open for too long, and gives the memory up when none is in use. When to look again.
    fn expire(&mut self, now: Instant) -> Option<Instant> {
        // Numbers go up with time.
        while let Some((number, until)) = self.open.iter().next().map(|(at, it)| (*at, it.until)) {
            if until > now {
                return Some(until);
            }
            tracing::debug!(number, "a client-driven buffer was open for too long");
            drop(self.close_buffer(number));
        }
        if self.source.as_ref()?.slabs.in_use() > 0 {
            return Some(now + CLIENT_BUFFER_AGE);
        }
        self.source = None;
        None
    }
}

impl Link {
    /// Memory for a buffer of `len` bytes for the peer, with whatever the peer has left in it. `None`: the peer has
    /// enough, or too many others have some.
    pub(crate) fn client_buffer_memory(&self, len: u64) -> Option<Buffer> {
        let len = usize::try_from(len).ok()?;
        let mut client_buffers = self.shared.client_buffers().borrow_mut();
        if self.is_over() {
            return None;
        }
        if client_buffers.source.is_none() {
            let room = Arc::clone(&self.shared.pool.client_buffers);
            let room = room.try_acquire_owned().ok()?;
            // Bounded by SLAB_LEN_MAX.
            let longest = CLIENT_BUFFER_LEN_MAX as usize;
            client_buffers.source = Some(Source {
                slabs: Slabs::new(SLAB_LEN_MIN, longest, CLIENT_BUFFER_BYTES_MAX),
                _room: room,
            });
            let watching = watch(self.clone(), Handle::clone(&self.shared.runtime));
            self.shared
                .runtime
                .spawn("client-driven buffers", Box::pin(watching));
        }
        let slabs = &client_buffers.source.as_ref()?.slabs;
        slabs.take_or_trim(len)
    }

    /// Opens memory to the peer, for `access`.
    pub(crate) fn open_buffer(&self, buffer: Buffer, access: Access) -> Option<ClientBuffer> {
        let endpoint = &self.shared.endpoint;
        let (backing, scope) = (Backing::Buffer(buffer), Scope::Endpoint(endpoint.id()));
        let region = endpoint
            .domain()
            .register_now(backing, access, scope)
            .ok()?;
        let mut client_buffers = self.shared.client_buffers().borrow_mut();
        client_buffers.last += 1;
        let number = client_buffers.last;
        let buffer = ClientBuffer {
            number,
            key: region.remote_key().0,
            offset: region.base(),
            len: u32::try_from(region.len()).ok()?,
        };
        let until = self.shared.runtime.now() + CLIENT_BUFFER_AGE;
        client_buffers.open.insert(number, Open { region, until });
        Some(buffer)
    }

    /// Closes the buffer of this number, with what the peer has written to it: no byte is read or written by its key
    /// any more. `None`: there is no such buffer, it was open for too long, or the adapter has lost its memory.
    pub(crate) async fn close_buffer(&self, number: u64) -> Option<Buffer> {
        let closing = self
            .shared
            .client_buffers()
            .borrow_mut()
            .close_buffer(number)?;
        closing.await.unwrap_or_default()
    }

    /// Notes a buffer that the peer has opened to be written to.
    pub(crate) fn note_usable_buffer(&self, buffer: ClientBuffer) {
        let mut client_buffers = self.shared.client_buffers().borrow_mut();
        if client_buffers.usable.len() < CLIENT_BUFFERS_NOTED_MAX {
            let until = self.shared.runtime.now() + CLIENT_BUFFER_USE_AGE;
            client_buffers.usable.push((buffer, until));
        }
    }

    /// An open buffer of the peer for `len` bytes, if there is one; no other request gets it.
    pub(crate) fn usable_buffer(&self, len: u64) -> Option<ClientBuffer> {
        let now = self.shared.runtime.now();
        let mut client_buffers = self.shared.client_buffers().borrow_mut();
        client_buffers.usable.retain(|(_, until)| *until > now);
        let fitting = |(buffer, _): &(ClientBuffer, Instant)| u64::from(buffer.len) >= len;
        let at = client_buffers.usable.iter().position(fitting)?;
        Some(client_buffers.usable.swap_remove(at).0)
    }

    /// Sends a request whose answer has no content, and does not wait for it.
    pub(crate) fn call_detached(&self, operation: Operation, class: Class, body: Vec<u8>) {
        let link = self.clone();
        let calling = async move {
            // If the request does not arrive, the connection is over, and with it the buffer.
            let _ = link.call(operation, class, &body, &[]).await;
        };
        self.shared
            .runtime
            .spawn("detached call", Box::pin(calling));
    }
}

/// Closes the buffers of a connection that are open for too long, until it has no such memory any more.
async fn watch(link: Link, runtime: Handle) {
    let mut next = runtime.now() + CLIENT_BUFFER_AGE;
    loop {
        sleep(&runtime, next - runtime.now()).await;
        let expired = link
            .shared
            .client_buffers()
            .borrow_mut()
            .expire(runtime.now());
        match expired {
            Some(at) => next = at,
            None => return,
        }
    }
}
