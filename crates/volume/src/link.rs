//! One connection of the native protocol: requests and replies by number, credits, RDMA, deadlines.
//!
//! Both sides are a [`Link`]. The connecting side calls ([`Link::call`]); a [`Handler`] of the accepting side answers.
//! A task per connection drives it: it takes completions, posts queued work, and wakes the waiting tasks.

mod accepted;
mod active;
mod carried;
mod class;
mod client_buffers;
mod connect;
mod drive;
mod eager;
mod error;
mod holding;
mod optimistic;
mod queue;
mod staged;
mod term;

pub(crate) use active::Connector;
pub use carried::Carrier;
pub use class::{TrafficClasses, TrafficClassesError};
pub(crate) use connect::random_token;
pub use connect::{AcceptOptions, Identity, ServerPlace, Session, accept, connect};
pub(crate) use eager::EagerBuffer;
pub use eager::Pool;
pub use error::{EndReason, HandshakeError, LinkError, LookupError, SystemError, Unreachable};
pub(crate) use optimistic::ExportedRead;
pub(crate) use queue::{Hold, RequestMemory};

use crate::limits::{CALL_DEADLINE, OUTGOING_MAX, READ_DEADLINE};
use client_buffers::ClientBuffers;
use eager::EagerBuffers;
use gannet_fabric::{Connected, RemoteAddress, Source, Span};
use gannet_metrics::ClientConnection;
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{Buffer, Handle, Instant, LocalFuture, Notify, timeout};
use gannet_wire::volume::{
    Abilities, Class, HEADER_LEN, Kind, MESSAGE_MAX, MessageHeader, Operation, Role, Status, Token,
};
use holding::Holding;
use optimistic::Looking;
use queue::{Call, Outgoing, State};
use std::cell::{OnceCell, RefCell};
use std::fmt;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};
use tokio::sync::oneshot;

/// A message that came, in the memory that it was received in.
pub struct Message {
    /// Its header.
    pub header: MessageHeader,
    buffer: Buffer,
    /// The eager buffers of the request, if the message is a reply.
    pub(crate) slot: Option<EagerBuffer>,
}

impl Message {
    fn body_range(&self) -> Range<usize> {
        HEADER_LEN..HEADER_LEN + self.header.body_len as usize
    }

    /// Where its data is in [`Message::into_buffer`].
    pub fn data_range(&self) -> Range<usize> {
        let start = self.body_range().end;
        start..start + self.header.data_len as usize
    }

    /// Its body.
    pub fn body(&self) -> &[u8] {
        self.buffer.get(self.body_range()).unwrap_or_default()
    }

    /// Its data.
    pub fn data(&self) -> &[u8] {
        self.buffer.get(self.data_range()).unwrap_or_default()
    }

    /// All of it.
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

/// A reply to be sent.
#[derive(Debug)]
pub struct Answer {
    /// The outcome of the request.
    pub status: Result<(), Status>,
    /// The body.
    pub body: Vec<u8>,
    /// Data behind it.
    pub data: Vec<u8>,
    /// Data before it, for an eager buffer of the peer.
    pub carrier: Option<Carrier>,
}

/// The body of a reply, and the data that goes with it.
#[derive(Debug)]
pub struct AnswerBytes {
    /// The body.
    pub body: Vec<u8>,
    /// Data behind it.
    pub data: Vec<u8>,
    /// Data before it, for an eager buffer of the peer.
    pub carrier: Option<Carrier>,
}

impl AnswerBytes {
    /// A body without data.
    pub(crate) fn of_body(body: Vec<u8>) -> AnswerBytes {
        AnswerBytes {
            body,
            data: Vec::new(),
            carrier: None,
        }
    }
}

impl Answer {
    /// The reply to a request that was done, with this body, or its status.
    pub fn of(done: Result<Vec<u8>, Status>) -> Answer {
        Answer::with_data(done.map(AnswerBytes::of_body))
    }

    /// The same, with data behind the body.
    pub fn with_data(done: Result<AnswerBytes, Status>) -> Answer {
        match done {
            Ok(AnswerBytes {
                body,
                data,
                carrier,
            }) => Answer {
                status: Ok(()),
                body,
                data,
                carrier,
            },
            Err(status) => Answer {
                status: Err(status),
                body: Vec::new(),
                data: Vec::new(),
                carrier: None,
            },
        }
    }
}

/// Answers requests.
pub trait Handler: 'static {
    /// The latest term of the volume's manager that it knows, or a manager's own; 0: none. Each reply carries it.
    fn term(&self) -> u64 {
        0
    }

    /// Answers a request. Other requests of the connection go on meanwhile. RDMA Writes that it queues on `link` before
    /// the reply are in place at the peer before the reply is.
    fn answer(self: Rc<Self>, link: Link, request: Message) -> LocalFuture<Answer>;
}

/// A connection. Clones share it; it ends with [`Link::close`] or with the peer.
#[derive(Clone)]
pub struct Link {
    shared: Rc<Shared>,
}

struct Shared {
    runtime: Handle,
    endpoint: Connected,
    pool: Pool,
    /// The role that the peer has proven.
    peer: Role,
    /// The peer's own session.
    session: Session,
    handler: Option<Rc<dyn Handler>>,
    /// The list of clients has an accepted connection.
    client: Option<ClientConnection>,
    /// The place of an accepted connection, until it is over.
    holding: RefCell<Option<Holding>>,
    state: RefCell<State>,
    eager: RefCell<EagerBuffers>,
    peer_abilities: Abilities,
    /// Both ends have RDMA Writes with Immediate.
    sends_immediates: bool,
    /// Client-driven buffers, which few connections have.
    client_buffers: OnceCell<Box<RefCell<ClientBuffers>>>,
    looking: Looking,
    /// Something was queued.
    queued: Notify,
}

impl Link {
    /// The peer's role.
    pub fn peer(&self) -> Role {
        self.shared.peer
    }

    /// The peer's abilities beyond the messages of this version.
    pub(crate) fn peer_abilities(&self) -> Abilities {
        self.shared.peer_abilities
    }

    /// The peer's session, the same over all its connections.
    pub(crate) fn session(&self) -> Token {
        self.shared.session.token()
    }

    /// Whether both are the same connection.
    pub fn is(&self, other: &Link) -> bool {
        Rc::ptr_eq(&self.shared, &other.shared)
    }

    /// Whether this connection replaces `other`: the peer has connected again, or both are a manager's, of which a
    /// volume has one.
    pub(crate) fn replaces(&self, other: &Link) -> bool {
        let (new, old) = (&self.shared, &other.shared);
        new.peer == old.peer && (new.peer == Role::Manager || new.session == old.session)
    }

    /// Whether requests of the peer are under way here, also when the connection is over.
    pub(crate) fn is_busy(&self) -> bool {
        self.shared.state.borrow().under_way > 0
    }

    /// The oldest request that the peer has not answered.
    pub(crate) fn oldest_call(&self) -> Option<u64> {
        self.shared.state.borrow().calls.keys().next().copied()
    }

    /// Waits until no request of the peer is under way here.
    pub(crate) async fn idle(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            if state.under_way == 0 {
                return Poll::Ready(());
            }
            state.idle.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Waits until it has ended.
    pub(crate) async fn ended(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            if state.end.is_some() {
                return Poll::Ready(());
            }
            state.ended.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.shared.state.borrow().end.is_some()
    }

    /// Whether it was ended because no reply came in time.
    pub(crate) fn timed_out(&self) -> bool {
        self.shared.state.borrow().end == Some(LinkError::TimedOut)
    }

    /// Whether it lasts and the peer has answered a request on it. By then it has authenticated us, which it does when
    /// nothing is under way that came by earlier connections of ours; until then it may still refuse us.
    pub(crate) fn is_authenticated(&self) -> bool {
        let state = self.shared.state.borrow();
        state.has_answered && state.end.is_none()
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    /// `Ended`: the connection has ended. `TimedOut`: no reply came within [`CALL_DEADLINE`], and the connection was
    /// ended for that. `TooLong`: body and data do not fit a message; nothing was sent.
    pub async fn call(
        &self,
        operation: Operation,
        class: Class,
        body: &[u8],
        data: &[u8],
    ) -> Result<Message, LinkError> {
        let deadline = self.call_deadline();
        self.call_with(
            RequestMemory::default(),
            deadline,
            operation,
            class,
            body,
            data,
        )
        .await
    }

    /// The deadline of a request that begins now. The caller takes it before it queues anything of the request: so the
    /// time of the RDMA Writes before the request counts.
    pub(crate) fn call_deadline(&self) -> Instant {
        self.shared.runtime.now() + CALL_DEADLINE
    }

    /// As [`Link::call`], with memory that the peer may use. It belongs to the request until the reply, also when the
    /// request is abandoned: a late access that found none would end the connection for all. Given up at a
    /// [`Link::call_deadline`].
    pub(crate) async fn call_with(
        &self,
        memory: RequestMemory,
        deadline: Instant,
        operation: Operation,
        class: Class,
        body: &[u8],
        data: &[u8],
    ) -> Result<Message, LinkError> {
        let _stage = stages::enter(Stage::Servers);
        let (sender, receiver) = oneshot::channel();
        let id = {
            let mut state = self.shared.state.borrow_mut();
            state.check()?;
            let id = state.take_id();
            let header = MessageHeader {
                kind: Kind::Request,
                operation,
                class,
                status: Ok(()),
                credits: 0,
                id,
                term: self.shared.pool.terms.own(),
                body_len: 0,
                data_len: 0,
            };
            let message = compose(&self.shared.pool.messages, header, body, data)?;
            let request = memory.request(message)?;
            state.calls.insert(id, Call { sender, memory });
            state.requests.push(class, id, request);
            id
        };
        self.shared.queued.notify();
        let waiting = Waiting { link: self, id };
        let runtime = &self.shared.runtime;
        let left = deadline - runtime.now();
        match timeout(runtime, left, receiver).await {
            Ok(Ok(message)) => Ok(message),
            Ok(Err(_)) => Err(self.why_over()),
            Err(_) => {
                // The peer may still read or write the memory of this call: only the end of the connection stops that.
                self.abort(EndReason::NoReply);
                drop(waiting);
                Err(LinkError::TimedOut)
            }
        }
    }

    fn why_over(&self) -> LinkError {
        let state = self.shared.state.borrow();
        state
            .end
            .clone()
            .unwrap_or_else(|| EndReason::Unknown.into())
    }

    /// Queues an RDMA Write, when there is room. Its bytes are in place at the peer before any later message.
    pub async fn write(&self, source: Source, target: RemoteAddress) {
        self.write_all([(source, target)], None).await;
    }

    /// As [`Link::write`], for each; drops `hold` when the last Write has left, or with the connection.
    pub(crate) async fn write_all(
        &self,
        work: impl IntoIterator<Item = (Source, RemoteAddress)>,
        mut hold: Option<Hold>,
    ) {
        let mut work = work.into_iter().peekable();
        while let Some((source, target)) = work.next() {
            self.room().await;
            let hold = work.peek().is_none().then(|| hold.take()).flatten();
            self.push(Outgoing::Write {
                source,
                target,
                hold,
            });
        }
    }

    /// Waits until the queue has room, or the connection is over.
    async fn room(&self) {
        std::future::poll_fn(|context| {
            let mut state = self.shared.state.borrow_mut();
            if state.end.is_some() || state.outgoing.len() < OUTGOING_MAX {
                return Poll::Ready(());
            }
            state.room.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }

    /// Fills `buffer` from the peer's memory: each range of it from an address.
    ///
    /// # Errors
    /// See [`LinkError`]; the buffer is lost then.
    pub async fn read(
        &self,
        buffer: Buffer,
        pieces: &[(u64, RemoteAddress, u32)],
    ) -> Result<Buffer, LinkError> {
        let written = buffer.len();
        let memory = self.register(buffer)?;
        let sinks = pieces
            .iter()
            .map(|(offset, source, len)| (memory.span(*offset, *len), *source));
        let read = self.read_into(sinks).await;
        // Released also when a Read failed: the endpoint has ended then, and with it every access to the memory.
        let buffer = memory.release(written).await;
        read?;
        buffer.ok_or_else(|| self.why_over())
    }

    /// Fills `sinks` from the peer's memory within [`READ_DEADLINE`]: a stalled peer would hold memory that others
    /// need.
    ///
    /// # Errors
    /// See [`LinkError`].
    pub(crate) async fn read_into(
        &self,
        sinks: impl IntoIterator<Item = (Span, RemoteAddress)>,
    ) -> Result<(), LinkError> {
        let reading = self.read_each(sinks);
        match timeout(&self.shared.runtime, READ_DEADLINE, reading).await {
            Ok(read) => read,
            Err(_) => {
                // Until the connection ends, bytes may still come into the sinks.
                self.abort(EndReason::NoBytes);
                Err(LinkError::TimedOut)
            }
        }
    }

    async fn read_each(
        &self,
        sinks: impl IntoIterator<Item = (Span, RemoteAddress)>,
    ) -> Result<(), LinkError> {
        let mut receivers = Vec::new();
        for (sink, source) in sinks {
            self.room().await;
            let (sender, receiver) = oneshot::channel();
            receivers.push(receiver);
            let id = {
                let mut state = self.shared.state.borrow_mut();
                state.check()?;
                state.expect_read(sender)
            };
            self.push(Outgoing::Read { id, sink, source });
        }
        let mut whole = true;
        for receiver in receivers {
            whole &= receiver.await.is_ok();
        }
        if whole { Ok(()) } else { Err(self.why_over()) }
    }

    fn push(&self, work: Outgoing) {
        let mut state = self.shared.state.borrow_mut();
        if state.end.is_none() {
            state.outgoing.push_back(work);
            drop(state);
            self.shared.queued.notify();
        }
    }

    /// Ends the connection at once.
    pub fn abort(&self, why: EndReason) {
        self.shared.endpoint.abort(&why.to_string());
        self.shared.end(why.into());
    }

    /// Ends the connection when all queued work has left.
    pub fn close(&self) {
        self.shared.state.borrow_mut().closing = true;
        self.shared.queued.notify();
    }

    /// The endpoint, for memory that its peer may reach.
    pub fn endpoint(&self) -> &Connected {
        &self.shared.endpoint
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("peer", &self.shared.endpoint.peer_address())
            .finish_non_exhaustive()
    }
}

/// A call that a task waits for. Dropped, its reply is discarded.
struct Waiting<'a> {
    link: &'a Link,
    id: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.link.shared.state.borrow_mut();
        let Some(call) = state.calls.remove(&self.id) else {
            return;
        };
        // An abandoned request that has not left must not leave later: after the next request of another caller, it
        // could undo that.
        let has_left = !state.requests.remove(self.id);
        if has_left && !call.memory.is_none() {
            // The peer may still use them: they are free with its reply.
            state.calls.insert(self.id, call);
            return;
        }
        drop(state);
        // After the borrow of the state: dropping eager buffers borrows their free list.
        drop(call);
    }
}

impl Shared {
    fn client_buffers(&self) -> &RefCell<ClientBuffers> {
        self.client_buffers.get_or_init(Box::default)
    }

    /// Ends the connection: all waiting tasks get the reason.
    fn end(&self, why: LinkError) {
        let over = {
            let mut state = self.state.borrow_mut();
            state.end.get_or_insert(why);
            state.room.drain(..).for_each(Waker::wake);
            state.ended.drain(..).for_each(Waker::wake);
            state.requests.clear();
            state.owed.clear();
            (
                std::mem::take(&mut state.outgoing),
                std::mem::take(&mut state.calls),
                std::mem::take(&mut state.reads),
                std::mem::take(&mut state.held),
            )
        };
        // After the borrow of the state: a hold that is dropped may queue work.
        drop(over);
        self.leave_place();
        drop(self.eager.take());
        if let Some(buffers) = self.client_buffers.get() {
            drop(buffers.take());
        }
        self.queued.notify();
    }
}

/// Composes a message.
fn compose(
    messages: &gannet_runtime::Arena,
    header: MessageHeader,
    body: &[u8],
    data: &[u8],
) -> Result<(Buffer, u32), LinkError> {
    let len = HEADER_LEN + body.len() + data.len();
    let lengths = (u32::try_from(body.len()), u32::try_from(data.len()));
    let (Ok(body_len), Ok(data_len)) = lengths else {
        return Err(LinkError::TooLong);
    };
    if len > MESSAGE_MAX {
        return Err(LinkError::TooLong);
    }
    let header = MessageHeader {
        body_len,
        data_len,
        ..header
    };
    let mut buffer = messages
        .take()
        .unwrap_or_else(|| Buffer::zeroed(MESSAGE_MAX));
    let parts = header.to_bytes().into_iter().chain(body.iter().copied());
    buffer
        .iter_mut()
        .zip(parts)
        .for_each(|(to, byte)| *to = byte);
    if let Some(target) = buffer.get_mut(len - data.len()..len) {
        target.copy_from_slice(data);
    }
    // Bounded by MESSAGE_MAX.
    Ok((buffer, len as u32))
}
