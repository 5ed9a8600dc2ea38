//! Transfers: reading and writing a file's bytes at all of its servers at once.

mod client_driven;
mod parents;
mod registered;
mod stand_in;

use super::pin_down::PinDownCache;
use super::policy::{TransferPolicy, Way};
use super::references::References;
use crate::layout::{own_len, pairs};
use crate::limits::{DIRECT_PIECES_MAX, SMALL_MAX};
use crate::link::{EagerBuffer, Link, LinkError, Message, RequestMemory};
use gannet_fabric::{Access, Domain, RegisterError, RemoteAddress, Scope, Source, Span};
use gannet_runtime::{Buffer, LocalFuture, all};
use gannet_wire::volume::{
    Capability, Class, FileId, Memory, ObjectState, Operation, Placement, Shape, Stability, Status,
    Transfer, TransferDone,
};
use gannet_wire::xdr::{from_bytes, to_bytes};
use parents::{Parents, Reached};
use stand_in::StandIn;
use std::any::Any;
use std::cell::Cell;
use std::rc::Rc;
use thiserror::Error;

/// Why bytes were not read, or perhaps not all were written.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DataError {
    /// The connection to a server ended: which of the bytes it has written is not known.
    #[error("server {index} of the file: {error}")]
    Link {
        /// The index of the server's group in the file's layout.
        index: u32,
        /// The error of the connection.
        error: LinkError,
    },
    /// A server refused.
    #[error("server {index} of the file refuses: {status}")]
    Refused {
        /// The index of the server's group in the file's layout.
        index: u32,
        /// Why.
        status: Status,
    },
    /// The reply of a server cannot be decoded, or is not of this request.
    #[error("server {index} of the file gives an answer that cannot be understood")]
    Nonsense {
        /// The index of the server's group in the file's layout.
        index: u32,
    },
    /// The shapes do not fit each other or the buffer.
    #[error("the bytes in memory are not those of the file")]
    Shape,
    /// Memory could not be registered, and is gone.
    #[error("memory could not be registered: {0}")]
    Memory(#[from] RegisterError),
}

/// One server of a file.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its number in the volume.
    pub server: u32,
    /// The group whose object it has.
    pub group: u32,
    /// The connection to it.
    pub link: Link,
    /// Its part of the file.
    pub placement: Placement,
}

/// The bytes of a file and the bytes of memory that they go to or come from.
#[derive(Debug, Clone)]
pub struct Request {
    /// The manager's capability for it.
    pub capability: Capability,
    /// The bytes in the file.
    pub file: Shape,
    /// The bytes in one buffer, or in several as if they lay one behind the other. Each piece lies in one buffer.
    pub memory: Shape,
}

/// The states of the objects in the servers' replies, by the file's server.
pub type States = Vec<(u32, ObjectState)>;

/// Moves bytes of files to and from a client's memory by the way that suits their number: the communication manager of
/// Wu, Wyckoff and Panda.
pub struct Mover {
    policy: TransferPolicy,
    cache: Rc<PinDownCache>,
    /// Where references to exported objects are noted.
    references: Option<Rc<References>>,
    /// Bytes that went through messages and buffers that both ends keep registered.
    copied: Rc<Cell<u64>>,
}

/// A server's part of a request, and the way that it goes.
struct Share<'a> {
    target: &'a Target,
    /// Bytes, never 0.
    len: u64,
    way: ShareWay,
}

enum ShareWay {
    Inline,
    /// Through these buffers.
    Eager(EagerBuffer),
    /// WRITE: from the client's memory, which is registered, to the server's buffer.
    EagerDirect(EagerBuffer),
    ServerDriven,
    ClientDriven,
}

impl Share<'_> {
    fn class(&self) -> Class {
        if self.len <= SMALL_MAX {
            Class::Small
        } else {
            Class::Bulk
        }
    }

    /// Whether the client's memory must be registered for it.
    fn is_direct(&self) -> bool {
        match self.way {
            ShareWay::Inline | ShareWay::Eager(_) => false,
            ShareWay::EagerDirect(_) | ShareWay::ServerDriven | ShareWay::ClientDriven => true,
        }
    }
}

impl Mover {
    /// A mover for servers that are reached by connections of `domain`.
    pub fn new(domain: Rc<dyn Domain>, policy: TransferPolicy) -> Mover {
        Mover {
            policy,
            cache: Rc::new(PinDownCache::new(domain)),
            references: None,
            copied: Rc::default(),
        }
    }

    /// Memory whose transfers need no registration; see [`PinDownCache::memory`].
    pub fn cache(&self) -> &Rc<PinDownCache> {
        &self.cache
    }

    /// As [`Mover::copied_bytes`], for a reader on this core.
    pub(super) fn shared_copied_bytes(&self) -> Rc<Cell<u64>> {
        Rc::clone(&self.copied)
    }

    /// Bytes that were copied so far, to and from messages and buffers that both ends keep registered, where
    /// registering memory would have cost more.
    pub fn copied_bytes(&self) -> u64 {
        self.copied.get()
    }

    /// From now on, requests go as `policy` says.
    #[must_use]
    pub fn with_policy(self, policy: TransferPolicy) -> Mover {
        Mover { policy, ..self }
    }

    /// From now on, READs ask for references, and `references` takes note of them.
    #[must_use]
    pub(super) fn with_references(self, references: Rc<References>) -> Mover {
        let references = Some(references);
        Mover { references, ..self }
    }

    /// Reads into `buffer`; bytes that no server has come as zeros.
    ///
    /// # Errors
    /// See [`DataError`].
    pub async fn read(
        &self,
        targets: &[Target],
        request: &Request,
        buffer: &mut Buffer,
    ) -> Result<States, DataError> {
        self.read_to(targets, request, std::slice::from_mut(buffer))
            .await
    }

    /// As [`Mover::read`], into several allocations: each that has a piece of the request is registered, once. With
    /// more than one, the request has at most [`PIECES_MAX`] pieces of memory.
    ///
    /// [`PIECES_MAX`]: gannet_wire::volume::PIECES_MAX
    ///
    /// # Errors
    /// See [`DataError`].
    pub async fn read_to(
        &self,
        targets: &[Target],
        request: &Request,
        parents: &mut [Buffer],
    ) -> Result<States, DataError> {
        let stability = Stability::Unstable;
        self.transfer(targets, Operation::Read, stability, request, parents)
            .await
    }

    /// Writes from `buffer`, as durably as `stability` says.
    ///
    /// # Errors
    /// See [`DataError`]. Any of the bytes may have been written then.
    pub async fn write(
        &self,
        targets: &[Target],
        stability: Stability,
        request: &Request,
        buffer: &mut Buffer,
    ) -> Result<States, DataError> {
        self.write_from(targets, stability, request, std::slice::from_mut(buffer))
            .await
    }

    /// As [`Mover::write`], from several allocations; see [`Mover::read_to`].
    ///
    /// # Errors
    /// As [`Mover::write`].
    pub async fn write_from(
        &self,
        targets: &[Target],
        stability: Stability,
        request: &Request,
        parents: &mut [Buffer],
    ) -> Result<States, DataError> {
        self.transfer(targets, Operation::Write, stability, request, parents)
            .await
    }

    async fn transfer(
        &self,
        targets: &[Target],
        operation: Operation,
        stability: Stability,
        request: &Request,
        buffers: &mut [Buffer],
    ) -> Result<States, DataError> {
        let Request { file, memory, .. } = request;
        if file.len() != memory.len() {
            return Err(DataError::Shape);
        }
        let parents = Parents::new(buffers, memory).ok_or(DataError::Shape)?;
        let writes = operation == Operation::Write;
        let access = access_for(writes);
        let registered = parents
            .of(buffers)
            .all(|buffer| self.cache.is_registered_for(buffer, access));
        let shares = self.shares(targets, request, writes, registered);
        let stand_in = self.stand_in(&shares, request, access, &parents, buffers);
        let Some(mut stand_in) = stand_in else {
            return self
                .move_shares(shares, operation, stability, request, &parents, buffers)
                .await;
        };
        let count_copied = || self.copied.set(self.copied.get() + memory.len());
        if writes {
            stand_in.gather(memory, &parents, buffers);
            count_copied();
        }
        let StandIn {
            request: own,
            parents: place,
            buffer,
        } = &mut stand_in;
        let buffer = std::slice::from_mut(buffer);
        let states = self
            .move_shares(shares, operation, stability, own, place, buffer)
            .await?;
        if !writes {
            stand_in.scatter(memory, &parents, buffers);
            count_copied();
        }
        Ok(states)
    }

    /// Moves the shares of a request between the allocations `buffers` and the servers.
    async fn move_shares(
        &self,
        mut shares: Vec<Share<'_>>,
        operation: Operation,
        stability: Stability,
        request: &Request,
        parents: &Parents,
        buffers: &mut [Buffer],
    ) -> Result<States, DataError> {
        let writes = operation == Operation::Write;
        let copied = shares.iter().filter(|share| !share.is_direct());
        let copied: u64 = copied.map(|share| share.len).sum();
        let count_copied = || self.copied.set(self.copied.get() + copied);
        let mut gathered = vec![Vec::new(); shares.len()];
        if writes {
            let gather = |share: &Share<'_>| share.gather(request, parents, buffers);
            gathered = shares.iter().map(gather).collect();
            count_copied();
        }
        let exposed = self.expose(&shares, writes, parents, buffers).await?;
        let exposed = exposed.map(Rc::new);
        let begin =
            |(share, data)| self.begin(share, data, operation, stability, request, &exposed);
        let calls: Vec<_> = shares.iter_mut().zip(gathered).map(begin).collect();
        let answers = all(calls).await;
        // Before any bytes are used: until the memory is back, a server could still change it.
        if let Some(exposed) = exposed {
            // Each call is over, and has dropped its share.
            let exposed = Rc::into_inner(exposed).ok_or(DataError::Shape)?;
            exposed.take_back(&self.cache, buffers).await?;
        }
        let states = (shares.iter().zip(answers)).map(|(share, answer)| {
            let done = take_answer(share, answer?, request, writes, parents, buffers)?;
            self.note_reference(request, share.target, &done);
            Ok((share.target.placement.index, done.state))
        });
        let states = states.collect();
        if !writes {
            count_copied();
        }
        states
    }

    /// The call that moves a share, with `data` in its message.
    fn begin(
        &self,
        share: &mut Share<'_>,
        data: Vec<u8>,
        operation: Operation,
        stability: Stability,
        request: &Request,
        exposed: &Option<Rc<Reached>>,
    ) -> LocalFuture<Result<Answered, DataError>> {
        let by_client = share.by_client(request, exposed.as_deref());
        let writes = operation == Operation::Write;
        let (memory, ahead) = share.memory(request, exposed.as_deref(), writes);
        let transfer = Transfer {
            group: share.target.group,
            capability: request.capability,
            placement: share.target.placement,
            stability,
            wants_reference: operation == Operation::Read
                && self.wants_reference(request, share.target),
            file: request.file.clone(),
            memory,
        };
        let (target, class) = (share.target.clone(), share.class());
        let memory = RequestMemory {
            slot: share.take_slot(),
            exposed: exposed.clone().map(|exposed| exposed as Rc<dyn Any>),
            carries: None,
        };
        match by_client {
            Some(spans) => Box::pin(call_client_driven(
                target, operation, class, transfer, spans, memory,
            )),
            None => Box::pin(call(
                target, operation, class, transfer, data, memory, ahead,
            )),
        }
    }

    fn wants_reference(&self, request: &Request, target: &Target) -> bool {
        let name = (FileId(request.capability.file), target.placement.index);
        let references = self.references.as_ref();
        references.is_some_and(|it| it.wants(name, &target.link))
    }

    fn note_reference(&self, request: &Request, target: &Target, done: &TransferDone) {
        if let (Some(references), Some(reported)) = (&self.references, &done.reference) {
            let name = (FileId(request.capability.file), target.placement.index);
            references.note_reference(name, &target.link, target.server, reported, None);
        }
    }

    /// The share of each server in a request, and the way that it goes.
    fn shares<'a>(
        &self,
        targets: &'a [Target],
        request: &Request,
        writes: bool,
        registered: bool,
    ) -> Vec<Share<'a>> {
        let Request { file, memory, .. } = request;
        let lens = targets.iter().map(|target| own_len(file, target.placement));
        let lens: Vec<u64> = lens.collect();
        let ways = || lens.iter().map(|len| self.policy.way(*len));
        // Where memory is registered in any case, a copy would be wasted.
        let registered = registered || ways().any(|way| way > Way::Eager);
        let share = |(target, (len, way)): (&'a Target, (&u64, Way))| {
            let slot = match way {
                Way::Inline => None,
                Way::Eager if registered && !writes => None,
                Way::Eager => target.link.eager_buffer(*len),
                Way::ServerDriven | Way::ClientDriven => None,
            };
            let few = || {
                let pairs = pairs(file, target.placement, memory);
                pairs.take(DIRECT_PIECES_MAX + 1).count() <= DIRECT_PIECES_MAX
            };
            let way = match slot {
                Some(slot) if registered && few() => ShareWay::EagerDirect(slot),
                Some(slot) => ShareWay::Eager(slot),
                None if way == Way::Inline => ShareWay::Inline,
                None if way == Way::ClientDriven => ShareWay::ClientDriven,
                None => ShareWay::ServerDriven,
            };
            Share {
                target,
                len: *len,
                way,
            }
        };
        let shares = targets.iter().zip(lens.iter().zip(ways()));
        shares
            .filter(|(_, (len, _))| **len > 0)
            .map(share)
            .collect()
    }

    /// Registers the allocations of a request, if a server must reach them or we write from them.
    async fn expose(
        &self,
        shares: &[Share<'_>],
        writes: bool,
        parents: &Parents,
        buffers: &mut [Buffer],
    ) -> Result<Option<Reached>, RegisterError> {
        let mut direct = shares.iter().filter(|share| share.is_direct());
        let Some(first) = direct.next() else {
            return Ok(None);
        };
        let scope = match direct.next() {
            None => Scope::Endpoint(first.target.link.endpoint().id()),
            Some(_) => Scope::Domain,
        };
        let access = access_for(writes);
        let reached = Reached::expose(&self.cache, access, scope, parents, buffers);
        Ok(Some(reached.await?))
    }
}

/// The rights of servers to memory that a WRITE or a READ moves.
fn access_for(writes: bool) -> Access {
    if writes {
        Access::RemoteRead
    } else {
        Access::RemoteWrite
    }
}

/// The data of a WRITE that go to the server before the request, or with it.
enum Ahead {
    /// RDMA Writes.
    Writes(Vec<(Span, RemoteAddress)>),
    /// So many bytes of our eager buffer.
    Eager(u32),
}

impl Ahead {
    const NOTHING: Ahead = Ahead::Writes(Vec::new());
}

impl Share<'_> {
    /// Copies a WRITE's bytes to where they are sent from: gives those that travel in the message.
    fn gather(&self, request: &Request, parents: &Parents, buffers: &[Buffer]) -> Vec<u8> {
        let Request { file, memory, .. } = request;
        let bytes = || {
            let pairs = pairs(file, self.target.placement, memory);
            pairs.map(|pair| {
                // `Parents::new` has checked that every piece lies in a buffer.
                let (parent, range) = parents.range(pair.memory_offset, pair.len);
                let buffer = buffers.get(parent);
                buffer.and_then(|it| it.get(range)).unwrap_or_default()
            })
        };
        match &self.way {
            ShareWay::Inline => bytes().flatten().copied().collect(),
            ShareWay::Eager(slot) => {
                // A slot was only given for a share that it holds.
                let filled = slot.fill(bytes());
                debug_assert_eq!(filled.map(u64::from), Some(self.len));
                Vec::new()
            }
            ShareWay::EagerDirect(_) | ShareWay::ServerDriven | ShareWay::ClientDriven => {
                Vec::new()
            }
        }
    }

    /// Where the server finds the bytes or puts them, and what goes there before the request.
    fn memory(
        &self,
        request: &Request,
        exposed: Option<&Reached>,
        writes: bool,
    ) -> (Memory, Ahead) {
        match (&self.way, exposed) {
            (ShareWay::Eager(slot), _) => {
                let ahead = if writes {
                    // Bounded by EAGER_LEN.
                    Ahead::Eager(self.len as u32)
                } else {
                    Ahead::NOTHING
                };
                (Memory::Eager { slot: slot.number }, ahead)
            }
            (ShareWay::EagerDirect(slot), Some(exposed)) => {
                let pairs = pairs(&request.file, self.target.placement, &request.memory);
                let mut target = slot.target;
                let writes = pairs.filter_map(|pair| {
                    let write = (exposed.span(pair.memory_offset, pair.len)?, target);
                    target.offset += u64::from(pair.len);
                    Some(write)
                });
                let ahead = Ahead::Writes(writes.collect());
                (Memory::Eager { slot: slot.number }, ahead)
            }
            (ShareWay::ServerDriven | ShareWay::ClientDriven, Some(exposed)) => {
                (exposed.memory(&request.memory), Ahead::NOTHING)
            }
            _ => (Memory::Inline, Ahead::NOTHING),
        }
    }

    /// Its bytes in the client's memory, in the order of the stream, if the client is to move them.
    fn by_client(&self, request: &Request, exposed: Option<&Reached>) -> Option<Vec<Span>> {
        let exposed = exposed.filter(|_| matches!(self.way, ShareWay::ClientDriven))?;
        let pairs = pairs(&request.file, self.target.placement, &request.memory);
        Some(
            pairs
                .filter_map(|pair| exposed.span(pair.memory_offset, pair.len))
                .collect(),
        )
    }

    /// Its buffers, for the call that uses them.
    fn take_slot(&mut self) -> Option<EagerBuffer> {
        let way = std::mem::replace(&mut self.way, ShareWay::ServerDriven);
        match way {
            ShareWay::Eager(slot) | ShareWay::EagerDirect(slot) => Some(slot),
            other => {
                self.way = other;
                None
            }
        }
    }
}

/// The reply to a share.
enum Answered {
    /// As the format says.
    Message(Message),
    /// The bytes are where they belong.
    Done(TransferDone),
}

/// Decodes a server's reply. Bytes in it, or in the eager buffer of its request, go where they belong.
fn take_answer(
    share: &Share<'_>,
    answer: Answered,
    request: &Request,
    writes: bool,
    parents: &Parents,
    buffers: &mut [Buffer],
) -> Result<TransferDone, DataError> {
    let Placement { index, .. } = share.target.placement;
    let nonsense = DataError::Nonsense { index };
    let done = match &answer {
        Answered::Message(message) => from_bytes::<TransferDone>(message.body()).ok(),
        Answered::Done(done) => Some(*done),
    };
    let Some(done) = done.filter(|done| done.count == share.len) else {
        return Err(nonsense);
    };
    let Answered::Message(answer) = answer else {
        return Ok(done);
    };
    let placement = share.target.placement;
    if !writes && matches!(share.way, ShareWay::Inline) {
        scatter(request, placement, answer.data(), parents, buffers).ok_or(nonsense)?;
    } else if !writes && let Some(slot) = &answer.slot {
        // Bounded by EAGER_LEN.
        let scattered = slot.with_bytes(share.len as usize, |bytes| {
            scatter(request, placement, bytes, parents, buffers)
        });
        scattered.flatten().ok_or(nonsense)?;
    }
    Ok(done)
}

async fn call(
    target: Target,
    operation: Operation,
    class: Class,
    transfer: Transfer,
    data: Vec<u8>,
    mut memory: RequestMemory,
    ahead: Ahead,
) -> Result<Answered, DataError> {
    let Target {
        link, placement, ..
    } = target;
    let index = placement.index;
    let body = to_bytes(&transfer);
    // Before the writes are queued: they count for the time of the request.
    let deadline = link.call_deadline();
    match (ahead, &memory.slot) {
        (Ahead::Writes(writes), _) => {
            for (span, target) in writes {
                link.write(Source::Span(span), target).await;
            }
        }
        (Ahead::Eager(len), Some(slot)) if link.can_carry(slot, len, body.len()) => {
            memory.carries = Some(len);
        }
        (Ahead::Eager(len), Some(slot)) => {
            link.write(Source::Span(slot.span(len)), slot.target).await;
        }
        // The buffer of the way is that of the request.
        (Ahead::Eager(_), None) => return Err(DataError::Shape),
    }
    let call = link.call_with(memory, deadline, operation, class, &body, &data);
    Ok(Answered::Message(accepted(index, call.await)?))
}

/// As [`call`], but this side moves the bytes if the server opens a buffer for them.
async fn call_client_driven(
    target: Target,
    operation: Operation,
    class: Class,
    transfer: Transfer,
    spans: Vec<Span>,
    memory: RequestMemory,
) -> Result<Answered, DataError> {
    let by_client = client_driven::transfer(&target, operation, class, transfer.clone(), spans);
    match by_client.await? {
        Some(done) => Ok(Answered::Done(done)),
        None => {
            let (data, ahead) = (Vec::new(), Ahead::NOTHING);
            call(target, operation, class, transfer, data, memory, ahead).await
        }
    }
}

/// The reply of the file's server `index`, if it is no refusal.
pub(in crate::client) fn accepted(
    index: u32,
    answer: Result<Message, LinkError>,
) -> Result<Message, DataError> {
    let answer = answer.map_err(|error| DataError::Link { index, error })?;
    match answer.header.status {
        Ok(()) => Ok(answer),
        Err(status) => Err(DataError::Refused { index, status }),
    }
}

/// Copies the bytes of a server to where they belong; `None` when there are too few or too many.
fn scatter(
    request: &Request,
    placement: Placement,
    bytes: &[u8],
    parents: &Parents,
    buffers: &mut [Buffer],
) -> Option<()> {
    let Request { file, memory, .. } = request;
    let mut rest = bytes;
    for pair in pairs(file, placement, memory) {
        let (head, tail) = rest.split_at_checked(pair.len as usize)?;
        let (parent, range) = parents.range(pair.memory_offset, pair.len);
        let place = buffers.get_mut(parent)?.get_mut(range)?;
        place.copy_from_slice(head);
        rest = tail;
    }
    rest.is_empty().then_some(())
}
