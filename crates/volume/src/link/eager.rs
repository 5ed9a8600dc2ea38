//! Eager buffers: both ends of a connection keep them registered for short transfers. They are the Fast RDMA of Wu,
//! Wyckoff and Panda, "PVFS over InfiniBand", section 4.1.2.
//!
//! The first short transfer makes them, and each end reports its own to the peer once. The client gives out their
//! numbers: a request with an [`EagerBuffer`] has the buffers of that number on both ends to itself until that is
//! dropped, after the answer. The server takes its buffer from under its key while it works on the bytes in it. In
//! software a peer that breaks this rule is cut off, and its bytes change nothing. On a device it changes the bytes of
//! its own WRITE, which nothing parses. So there buffers need keys of one connection
//! ([`gannet_fabric::Domain::has_bound_keys`]): an end without them reports no buffers.

use super::accepted::AcceptedLinks;
use super::error::EndReason;
use super::staged::Staging;
use super::term::LinkTerms;
use super::{Link, Outgoing};
use crate::limits::{
    EAGER_BUFFERS, EAGER_BUFFERS_HELD_MAX, EAGER_LEN, EAGER_MESSAGE_LEN, MESSAGES_MAX,
};
use gannet_fabric::{
    Access, Backing, Connected, Region, RemoteAddress, RemoteKey, Scope, Span, with_memory,
};
use gannet_runtime::{Arena, Buffer, SlotId};
use gannet_wire::volume::{Buffers, MESSAGE_MAX, Operation, Place};
use gannet_wire::xdr::{from_bytes, to_bytes};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The shared state of a core's connections: memory with one bound for all, and the manager's term.
#[derive(Clone)]
pub struct Pool {
    /// Memory for messages.
    pub(super) messages: Arena,
    /// One permit for each eager buffer that may yet be made.
    room: Arc<Semaphore>,
    /// The bound of memory for client-driven buffers.
    pub(super) client_buffers: Arc<Semaphore>,
    /// Registers our side of long transfers, where that must be done.
    pub(super) staging: Staging,
    /// The shared state of accepted connections.
    pub(crate) accepted: Rc<AcceptedLinks>,
    /// The manager's term, as the connections report and learn it.
    pub(crate) terms: Rc<LinkTerms>,
}

impl Pool {
    /// As much as [`crate::limits`] says, none of it made yet.
    pub fn new() -> Pool {
        let messages = Arena::new(MESSAGE_MAX, MESSAGES_MAX);
        Pool {
            accepted: AcceptedLinks::new(messages.clone()),
            messages,
            room: Arc::new(Semaphore::new(EAGER_BUFFERS_HELD_MAX)),
            client_buffers: super::client_buffers::room(),
            staging: Staging::default(),
            terms: Rc::default(),
        }
    }
}

impl Default for Pool {
    fn default() -> Pool {
        Pool::new()
    }
}

/// Our eager buffers, which the peer writes to.
pub(super) struct OwnBuffers {
    /// Their memory goes back here when the request that worked on it drops it. No other memory comes from it.
    home: Arena,
    /// Bytes of each.
    len: u32,
    slots: Vec<(SlotId, Region)>,
    _room: OwnedSemaphorePermit,
}

impl OwnBuffers {
    /// Makes them, if there is room and no other peer can reach them.
    fn new(endpoint: &Connected, room: &Arc<Semaphore>) -> Option<OwnBuffers> {
        if !endpoint.domain().has_bound_keys() {
            let peer = endpoint.peer_address();
            tracing::info!(%peer, "no eager buffers: the device has no keys of one connection");
            return None;
        }
        let room = Arc::clone(room)
            .try_acquire_many_owned(EAGER_BUFFERS)
            .ok()?;
        let len = buffer_len(endpoint);
        let home = Arena::new(len as usize, EAGER_BUFFERS as usize);
        let mut slots = Vec::with_capacity(EAGER_BUFFERS as usize);
        // All of them are taken before the first one can come back.
        let buffers: Vec<Buffer> = std::iter::from_fn(|| home.take()).collect();
        for buffer in buffers {
            let (slot, scope) = (buffer.slot()?, Scope::Endpoint(endpoint.id()));
            let backing = Backing::Buffer(buffer);
            let region = endpoint
                .domain()
                .register_now(backing, Access::RemoteWrite, scope);
            slots.push((slot, region.ok()?));
        }
        Some(OwnBuffers {
            home,
            len,
            slots,
            _room: room,
        })
    }

    fn announcement(&self) -> Buffers {
        let places = self.slots.iter().map(|(_, region)| Place {
            key: region.remote_key().0,
            offset: region.base(),
        });
        Buffers {
            len: self.len,
            places: places.collect(),
        }
    }

    pub(super) fn region(&self, slot: u32) -> Option<&Region> {
        self.slots.get(slot as usize).map(|(_, region)| region)
    }

    /// Puts memory that is back home under its key again.
    fn restore(&self) {
        while let Some(buffer) = self.home.take() {
            let own = self.slots.iter().find(|(id, _)| Some(*id) == buffer.slot());
            // Refused only when the connection is over, and with it the key.
            if own.is_none_or(|(_, region)| region.restore(buffer).is_err()) {
                return;
            }
        }
    }
}

/// Bytes of our eager buffers: a peer that can do so puts a message behind the data.
fn buffer_len(endpoint: &Connected) -> u32 {
    if endpoint.attributes().immediates {
        EAGER_LEN + EAGER_MESSAGE_LEN
    } else {
        EAGER_LEN
    }
}

/// The eager buffers of a connection.
#[derive(Default)]
pub(super) struct EagerBuffers {
    asked: bool,
    pub(super) own: Option<OwnBuffers>,
    peers: Option<Buffers>,
    free: Rc<RefCell<Vec<u32>>>,
}

/// The eager buffers of one number on both ends, and the right to use them until this is dropped.
pub(crate) struct EagerBuffer {
    /// Its number.
    pub(crate) number: u32,
    pub(super) region: Region,
    /// The peer's.
    pub(crate) target: RemoteAddress,
    /// Bytes that both hold.
    pub(super) room: u32,
    free: Rc<RefCell<Vec<u32>>>,
}

impl EagerBuffer {
    /// Copies `parts` to our buffer, one behind the other; how many bytes that were, `None` when there is no room.
    pub(crate) fn fill<'a>(&self, parts: impl Iterator<Item = &'a [u8]>) -> Option<u32> {
        with_memory(&self.region, |memory| {
            let mut at = 0;
            for part in parts {
                memory.get_mut(at..at + part.len())?.copy_from_slice(part);
                at += part.len();
            }
            u32::try_from(at).ok()
        })?
    }

    /// Lets `work` have the first `len` bytes of our buffer; `None` when there are none.
    pub(crate) fn with_bytes<T>(&self, len: usize, work: impl FnOnce(&[u8]) -> T) -> Option<T> {
        with_memory(&self.region, |memory| memory.get(..len).map(work))?
    }

    /// They, as the source of an RDMA Write.
    pub(crate) fn span(&self, len: u32) -> Span {
        Span {
            region: self.region.clone(),
            offset: 0,
            len,
        }
    }
}

impl Drop for EagerBuffer {
    fn drop(&mut self) {
        self.free.borrow_mut().push(self.number);
    }
}

impl Link {
    /// Eager buffers for a transfer of `len` bytes, if some are free. The first call makes them, and gets none.
    pub(crate) fn eager_buffer(&self, len: u64) -> Option<EagerBuffer> {
        if self.is_over() {
            return None;
        }
        let mut eager = self.shared.eager.borrow_mut();
        if !eager.asked {
            eager.asked = true;
            eager.own = OwnBuffers::new(&self.shared.endpoint, &self.shared.pool.room);
            if let Some(own) = &eager.own {
                let body = to_bytes(&own.announcement());
                drop(eager);
                self.push_control(Operation::Buffers, &body);
            }
            return None;
        }
        let peers = eager.peers.as_ref()?;
        if len > u64::from(peers.len.min(EAGER_LEN)) {
            return None;
        }
        let number = eager.free.borrow_mut().pop()?;
        let place = peers.places.get(number as usize)?;
        Some(EagerBuffer {
            number,
            region: eager.own.as_ref()?.region(number)?.clone(),
            target: address(place),
            room: peers.len.min(eager.own.as_ref()?.len),
            free: Rc::clone(&eager.free),
        })
    }

    /// Where the peer has its buffer of this number, if it has one that holds `len` bytes.
    pub(crate) fn peers_buffer(&self, slot: u32, len: u64) -> Option<RemoteAddress> {
        let eager = self.shared.eager.borrow();
        let peers = eager.peers.as_ref()?;
        let place = peers.places.get(slot as usize)?;
        (len <= u64::from(peers.len)).then(|| address(place))
    }

    /// Our buffer with this number, as the peer has written it. Until it is dropped and
    /// [`Link::restore_eager_buffers`] is called, no byte can be written to it. `None`: there is no such buffer, or a
    /// request uses it.
    pub(crate) fn take_eager_buffer(&self, slot: u32) -> Option<Buffer> {
        let eager = self.shared.eager.borrow();
        eager.own.as_ref()?.region(slot)?.lend()
    }

    /// Lets the peer write again to buffers of ours that no request works on any more.
    pub(crate) fn restore_eager_buffers(&self) {
        if let Some(own) = &self.shared.eager.borrow().own {
            own.restore();
        }
    }

    /// Notes where the peer reports its buffers; the server answers with its own.
    pub(super) fn note_peers_buffers(&self, body: &[u8]) -> Result<(), EndReason> {
        let reported: Buffers = from_bytes(body)?;
        let is_server = self.shared.handler.is_some();
        let mut eager = self.shared.eager.borrow_mut();
        if eager.peers.is_some() || (!is_server && !eager.asked) {
            return Err(EndReason::UnexpectedBuffers);
        }
        let own = if is_server {
            OwnBuffers::new(&self.shared.endpoint, &self.shared.pool.room)
        } else {
            // Of no use when the peer has none.
            eager.own.take().filter(|_| !reported.places.is_empty())
        };
        let kept = own.as_ref().map_or(0, |own| own.slots.len());
        // At most EAGER_BUFFERS. The first number is the next one given out.
        let count = kept.min(reported.places.len()) as u32;
        eager.free.borrow_mut().extend((0..count).rev());
        eager.peers = Some(reported);
        let answer = own
            .as_ref()
            .map(OwnBuffers::announcement)
            .unwrap_or_default();
        eager.own = own;
        drop(eager);
        if is_server {
            self.push_control(Operation::Buffers, &to_bytes(&answer));
        }
        Ok(())
    }

    fn push_control(&self, operation: Operation, body: &[u8]) {
        let granted = self.shared.state.borrow().granted();
        let header = super::drive::control(operation, granted);
        // Far below what a message holds.
        if let Ok(message) = super::compose(&self.shared.pool.messages, header, body, &[]) {
            self.push(Outgoing::Send(message));
        }
    }
}

fn address(place: &Place) -> RemoteAddress {
    RemoteAddress {
        key: RemoteKey(place.key),
        offset: place.offset,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
pub(super) mod tests {
    use super::*;
    use crate::io_server::IoServer;
    use crate::link::{Identity, LinkError, RequestMemory, ServerPlace, Session, connect};
    use crate::secret::{Secret, ServerKeys};
    use crate::serve::Server;
    use gannet_fabric::{Provider, Source};
    use gannet_runtime::sleep;
    use gannet_sim::fabric::{FabricProfile, SimFabric};
    use gannet_sim::store::{Disk, DiskProfile, SimStore};
    use gannet_sim::{Node, World};
    use gannet_wire::volume::{Capability, Class, Memory, Placement, Role, Shape, Token, Transfer};
    use gannet_wire::volume::{Stability, Status};
    use std::net::SocketAddr;
    use std::time::Duration;

    const VOLUME: Token = *b"a volume's token";
    pub(in crate::link) const LEN: u32 = 10_000;

    fn keys() -> ServerKeys {
        ServerKeys::new(Secret::new([5; 16]))
    }

    fn run(story: impl AsyncFnOnce(gannet_runtime::Handle, Link) + 'static) {
        let world = World::new(1);
        let fabric = SimFabric::new(&world, FabricProfile::default());
        let (server, client) = (world.add_node("io server"), world.add_node("client"));
        run_between(world, fabric, server, client, story);
    }

    /// Runs a story with a connection whose buffers are there, to a server whose disk takes 20 ms for everything.
    pub(in crate::link) fn run_between(
        world: World,
        fabric: Rc<SimFabric>,
        server: Node,
        client: Node,
        story: impl AsyncFnOnce(gannet_runtime::Handle, Link) + 'static,
    ) {
        let disk = Disk::new(&world);
        let store = SimStore::open(&disk, server.runtime());
        let handler = IoServer::new(server.runtime(), store, 0, keys()).unmanaged();
        let serving = Server::new(server.runtime(), VOLUME, keys(), handler);
        let provider: Rc<dyn Provider> = fabric.provider(&server);
        let address = SocketAddr::new(server.ip(), 20050);
        let listener = provider.listen(address).unwrap();
        let serving = async move { serving.serve(provider, listener).await.unwrap() };
        server.runtime().spawn("server", Box::pin(serving));
        let done = world.run(async move {
            let provider: Rc<dyn Provider> = fabric.provider(&client);
            let identity = Identity {
                role: Role::Client,
                volume: VOLUME,
                key: keys().for_clients().into(),
                classes: Default::default(),
            };
            let (runtime, pool) = (client.runtime(), Pool::new());
            let server = ServerPlace::io_server(address, 0);
            let session = Session::new(&runtime);
            let link = connect(&runtime, &provider, &pool, server, identity, session);
            let link = link.await.unwrap();
            assert!(link.eager_buffer(1).is_none(), "the first call gets none");
            sleep(&runtime, Duration::from_millis(1)).await;
            disk.set_profile(DiskProfile {
                slow_per_mille: 1000,
                delay_max_ns: 20_000_000,
                ..DiskProfile::default()
            });
            story(runtime, link).await;
        });
        done.unwrap();
    }

    /// A transfer of [`LEN`] bytes of object 1 through the buffers of `slot`.
    pub(in crate::link) fn transfer(rights: u32, slot: &EagerBuffer) -> Transfer {
        let forever = Duration::from_secs(u64::from(u32::MAX));
        Transfer {
            group: 0,
            capability: keys().grant(0, 1, rights, forever),
            placement: Placement {
                unit: 1 << 20,
                width: 1,
                index: 0,
            },
            stability: Stability::FileSync,
            wants_reference: false,
            file: Shape::contiguous(0, LEN).unwrap(),
            memory: Memory::Eager { slot: slot.number },
        }
    }

    /// A WRITE through the buffers of `slot`.
    async fn write(link: Link, slot: EagerBuffer) -> Result<Result<(), Status>, LinkError> {
        let transfer = transfer(Capability::WRITE, &slot);
        let bytes = vec![7; LEN as usize];
        slot.fill(std::iter::once(&bytes[..])).unwrap();
        link.write(Source::Span(slot.span(LEN)), slot.target).await;
        let (operation, class) = (Operation::Write, Class::Small);
        let body = to_bytes(&transfer);
        let deadline = link.call_deadline();
        let memory = RequestMemory {
            slot: Some(slot),
            ..RequestMemory::default()
        };
        let answer = link.call_with(memory, deadline, operation, class, &body, &[]);
        let answer = answer.await?;
        Ok(answer.header.status)
    }

    #[test]
    fn buffers_of_a_request_are_free_again_with_its_answer() {
        run(async |runtime, link| {
            let slots: Vec<EagerBuffer> = std::iter::from_fn(|| link.eager_buffer(1)).collect();
            assert_eq!(slots.len(), EAGER_BUFFERS as usize);
            assert!(link.eager_buffer(u64::from(EAGER_LEN) + 1).is_none());
            let mut numbers: Vec<u32> = slots.iter().map(|slot| slot.number).collect();
            numbers.sort_unstable();
            assert!(numbers.into_iter().eq(0..EAGER_BUFFERS));
            drop(slots);
            for _ in 0..3 * EAGER_BUFFERS {
                let slot = link.eager_buffer(1).unwrap();
                assert_eq!(write(link.clone(), slot).await, Ok(Ok(())));
            }
            // Buffers of an abandoned request are not free: the server may still use them.
            for left in (0..EAGER_BUFFERS as usize).rev() {
                let slot = link.eager_buffer(1).unwrap();
                let call = write(link.clone(), slot);
                let stopped = gannet_runtime::timeout(&runtime, Duration::from_micros(1), call);
                assert!(stopped.await.is_err());
                assert_eq!(link.shared.eager.borrow().free.borrow().len(), left);
            }
            assert!(link.eager_buffer(1).is_none());
            sleep(&runtime, Duration::from_secs(2)).await;
            let slot = link.eager_buffer(1).unwrap();
            assert_eq!(write(link.clone(), slot).await, Ok(Ok(())));
            assert_eq!(link.shared.eager.borrow().free.borrow().len(), 8);
        });
    }

    #[test]
    fn a_peer_that_writes_to_a_buffer_that_is_worked_on_is_cut_off() {
        run(async |runtime, link| {
            // The object is there then, and the next request comes to its buffer at once.
            let slot = link.eager_buffer(1).unwrap();
            assert_eq!(write(link.clone(), slot).await, Ok(Ok(())));
            let slot = link.eager_buffer(1).unwrap();
            let (span, target) = (slot.span(LEN), slot.target);
            let call = write(link.clone(), slot);
            let meddling = async {
                sleep(&runtime, Duration::from_micros(100)).await;
                assert!(!link.is_over(), "the request is under way");
                link.write(Source::Span(span), target).await;
            };
            let (answer, ()) = gannet_runtime::both(call, meddling).await;
            assert!(matches!(answer, Err(LinkError::Ended(_))), "{answer:?}");
            assert!(link.is_over());
        });
    }
}
