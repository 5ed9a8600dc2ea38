//! Simulated byte streams: reliable and ordered, with bounded buffers, and reads and writes cut at arbitrary places.

use crate::executor::Wait;
use crate::limits::SEGMENT_MAX;
use crate::network::{Breakable, Channel};
use crate::nic::{Bytes, Host};
use crate::random::Random;
use crate::world::{Core, NodeId};
use gannet_runtime::stream::Follow;
use gannet_runtime::{ByteStream, FileSource};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Bytes of each direction of a connection that no fault changes.
pub(crate) const SET_UP_LEN: u64 = 1024;
/// The number of reads and writes, of a thousand, that give a spurious `WouldBlock`.
const SPURIOUS_PER_MILLE: u64 = 10;

/// The node of an end and the address that the end uses there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NodeAddress {
    pub(crate) node: NodeId,
    pub(crate) address: SocketAddr,
}

/// One end of a simulated connection.
pub(crate) struct SimStream {
    core: Rc<Core>,
    id: u64,
    local: NodeAddress,
    peer: NodeAddress,
    connection: Rc<Connection>,
    outgoing: Rc<Half>,
    incoming: Rc<Half>,
    /// The machine that this end is charged to.
    host: Option<Rc<Host>>,
}

struct Connection {
    nodes: (NodeId, NodeId),
    ports: (u16, u16),
    halves: [Rc<Half>; 2],
}

/// One direction of a connection.
struct Half {
    channel: Rc<Channel>,
    /// The machine that arriving bytes are charged to.
    receiver: Option<Rc<Host>>,
    state: RefCell<HalfState>,
    reader: RefCell<Option<Waker>>,
    writer: RefCell<Option<Waker>>,
}

#[derive(Default)]
struct HalfState {
    /// Bytes written so far.
    written: u64,
    /// If set, a bit of the next bytes after the set-up flips; the random number chooses it.
    flip: Option<u64>,
    /// Bytes written and not yet read, under way or arrived; the window bounds them.
    outstanding: usize,
    arrived: VecDeque<u8>,
    /// The writer has ended its side.
    shut: bool,
    /// The end has arrived after the bytes.
    finished: bool,
    /// The reading end was dropped or aborted: bytes that arrive get a reset as their reply.
    reader_gone: bool,
    read_error: Option<io::ErrorKind>,
    write_error: Option<io::ErrorKind>,
    /// The time at which the receiver has processed the bytes that arrived, in nanoseconds.
    received_at: u64,
    /// The reader was asleep when it was woken, and has not read yet.
    woken: bool,
}

/// Takes and wakes a waker. It is taken first, so that the borrow ends before `wake`.
pub(crate) fn wake(waker: &RefCell<Option<Waker>>) {
    let waker = waker.borrow_mut().take();
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl HalfState {
    /// Counts bytes that leave, and flips one of their bits if that is due.
    fn send(&mut self, bytes: &mut [u8]) {
        self.outstanding += bytes.len();
        let spared = SET_UP_LEN.saturating_sub(self.written) as usize;
        if let Some(exposed) = bytes.get_mut(spared..)
            && !exposed.is_empty()
            && let Some(which) = self.flip.take()
        {
            let bit = which % (exposed.len() as u64 * 8);
            exposed[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
        self.written += bytes.len() as u64;
    }
}

impl Half {
    fn new(core: &Rc<Core>, from: NodeId, to: NodeId) -> Rc<Half> {
        Rc::new(Half {
            channel: Channel::new(core, from, to),
            receiver: core.host(to),
            state: RefCell::default(),
            reader: RefCell::default(),
            writer: RefCell::default(),
        })
    }

    /// Runs `take` when the receiver has processed `len` arrived bytes: at once, if its time is not charged.
    fn receive(self: &Rc<Self>, len: usize, take: impl FnOnce(&Half) + 'static) {
        let Some(host) = &self.receiver else {
            return take(self);
        };
        let received_at = {
            let mut state = self.state.borrow_mut();
            // The maximum keeps the order: a later packet may find a processor that is free earlier.
            state.received_at = state.received_at.max(host.receive_packets(len));
            state.received_at
        };
        let half = Rc::clone(self);
        host.schedule(received_at, move || take(&half));
    }

    fn fail_reader(&self, kind: io::ErrorKind) {
        self.state.borrow_mut().read_error.get_or_insert(kind);
        wake(&self.reader);
    }

    fn fail_writer(&self, kind: io::ErrorKind) {
        self.state.borrow_mut().write_error.get_or_insert(kind);
        wake(&self.writer);
    }
}

impl Connection {
    /// Handles a reset at the reader of `halves[direction]`; it ends the other direction as well.
    fn reset_arrives(&self, direction: usize) {
        let (towards, back) = (&self.halves[direction], &self.halves[1 - direction]);
        towards.fail_reader(io::ErrorKind::ConnectionReset);
        back.fail_writer(io::ErrorKind::ConnectionReset);
        towards.channel.close();
        back.channel.close();
    }
}

impl Breakable for Connection {
    fn nodes(&self) -> (NodeId, NodeId) {
        self.nodes
    }

    fn is_alive(&self) -> bool {
        let broken = |half: &Rc<Half>| half.state.borrow().read_error.is_some();
        let over = |half: &Rc<Half>| half.state.borrow().finished;
        !self.halves.iter().any(broken) && !self.halves.iter().all(over)
    }

    fn break_now(&self) {
        self.reset_arrives(0);
        self.reset_arrives(1);
    }

    fn can_flip(&self, spared: &Range<u16>) -> bool {
        !spared.contains(&self.ports.0) && !spared.contains(&self.ports.1)
    }

    fn flip_next(&self, random: &Random) {
        let half = &self.halves[random.index(2)];
        half.state.borrow_mut().flip = Some(random.next());
    }
}

impl SimStream {
    /// Two connected ends: of `near` and of `far`.
    pub(crate) fn pair(
        core: &Rc<Core>,
        near: NodeAddress,
        far: NodeAddress,
    ) -> (SimStream, SimStream) {
        let id = core.network.take_id();
        let there = Half::new(core, near.node, far.node);
        let back = Half::new(core, far.node, near.node);
        let connection = Rc::new(Connection {
            nodes: (near.node, far.node),
            ports: (near.address.port(), far.address.port()),
            halves: [Rc::clone(&there), Rc::clone(&back)],
        });
        let weak = Rc::downgrade(&connection);
        core.network.register(weak);
        let end = |local: NodeAddress, peer, outgoing: &Rc<Half>, incoming: &Rc<Half>| SimStream {
            core: Rc::clone(core),
            id,
            local,
            peer,
            connection: Rc::clone(&connection),
            outgoing: Rc::clone(outgoing),
            incoming: Rc::clone(incoming),
            host: core.host(local.node),
        };
        let near_end = end(near, far, &there, &back);
        (near_end, end(far, near, &back, &there))
    }

    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// The index of the direction that this end writes.
    fn direction(&self) -> usize {
        usize::from(!Rc::ptr_eq(&self.connection.halves[0], &self.outgoing))
    }

    /// How much of `available` a single call moves: all, or an arbitrary part.
    fn slice(&self, available: usize) -> io::Result<usize> {
        let network = &self.core.network;
        if self.host.is_some() && available > 0 {
            return Ok(available);
        }
        if available == 0 || network.random.chance(SPURIOUS_PER_MILLE) {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        if !network
            .random
            .chance(network.profile.get().reslice_per_mille)
        {
            return Ok(available);
        }
        // A call moves some packets' bytes at most, now and then a few bytes.
        let most = if network.random.chance(50) { 8 } else { 6000 };
        let most = available.min(most);
        Ok(usize::try_from(network.random.between(1, most as u64)).unwrap_or(most))
    }

    /// Room in the send buffer, or why there will be none.
    fn room(&self) -> io::Result<usize> {
        let state = self.outgoing.state.borrow();
        if let Some(kind) = state.write_error {
            return Err(kind.into());
        }
        if state.shut {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        let window = self.core.network.profile.get().window;
        let room = window.saturating_sub(state.outstanding);
        // A nearly full buffer counts as full, as in kernels; otherwise streams would decay into segments of a byte.
        Ok(if room < window / 4 {
            0
        } else {
            room.min(SEGMENT_MAX)
        })
    }

    /// Sends bytes to the peer; the caller has checked the room.
    fn transmit(&self, mut bytes: Vec<u8>) {
        let half = Rc::clone(&self.outgoing);
        half.state.borrow_mut().send(&mut bytes);
        self.core.trace(format_args!(
            "stream {} {} writes {}",
            self.id,
            self.local.address,
            bytes.len()
        ));
        let connection = Rc::clone(&self.connection);
        let direction = self.direction();
        let channel = Rc::clone(&half.channel);
        channel.send(bytes.len(), move || {
            if half.state.borrow().reader_gone {
                // The receiving kernel has no such connection any more, and replies with a reset.
                let back = Rc::clone(&connection.halves[1 - direction].channel);
                back.send(0, move || connection.reset_arrives(1 - direction));
                return;
            }
            half.receive(bytes.len(), move |half| {
                let mut state = half.state.borrow_mut();
                state.arrived.extend(bytes);
                state.woken |= half.reader.borrow().is_some();
                drop(state);
                wake(&half.reader);
            });
        });
    }

    /// Makes the peer read a reset after the bytes that are under way.
    fn send_reset(&self) {
        let (connection, direction) = (Rc::clone(&self.connection), self.direction());
        self.outgoing
            .channel
            .send(0, move || connection.reset_arrives(direction));
    }
}

impl ByteStream for SimStream {
    fn peer_address(&self) -> SocketAddr {
        self.peer.address
    }

    fn local_address(&self) -> SocketAddr {
        self.local.address
    }

    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let state = self.incoming.state.borrow();
        if !state.arrived.is_empty() || state.finished || state.read_error.is_some() {
            return Poll::Ready(Ok(()));
        }
        self.core.executor.note_wait(Wait::Readable(self.id));
        *self.incoming.reader.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    fn try_read(&self, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read_vectored(&mut [IoSliceMut::new(buffer)])
    }

    fn try_read_vectored(&self, buffers: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let mut state = self.incoming.state.borrow_mut();
        if state.arrived.is_empty() {
            return match state.read_error {
                Some(kind) => Err(kind.into()),
                None if state.finished => Ok(0),
                None => Err(io::ErrorKind::WouldBlock.into()),
            };
        }
        let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.slice(wanted.min(state.arrived.len()))?;
        let mut left = count;
        for buffer in buffers {
            let part = left.min(buffer.len());
            pop_into(&mut state.arrived, &mut buffer[..part]);
            left -= part;
        }
        state.outstanding -= count;
        let was_asleep = std::mem::take(&mut state.woken);
        drop(state);
        if let Some(host) = &self.host {
            host.read_stream(count, was_asleep);
        }
        wake(&self.incoming.writer);
        Ok(count)
    }

    fn poll_writable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !matches!(self.room(), Ok(0)) {
            return Poll::Ready(Ok(()));
        }
        self.core.executor.note_wait(Wait::Writable(self.id));
        *self.outgoing.writer.borrow_mut() = Some(context.waker().clone());
        Poll::Pending
    }

    fn try_write(&self, buffers: &[IoSlice<'_>], _follow: Follow) -> io::Result<usize> {
        let room = self.room()?;
        let wanted: usize = buffers.iter().map(|buffer| buffer.len()).sum();
        if wanted == 0 {
            return Ok(0);
        }
        let count = self.slice(wanted.min(room))?;
        let mut bytes = Vec::with_capacity(count);
        for buffer in buffers {
            let part = buffer.len().min(count - bytes.len());
            bytes.extend_from_slice(&buffer[..part]);
        }
        if let Some(host) = &self.host {
            host.write_stream(count, Bytes::OfMemory);
        }
        self.transmit(bytes);
        Ok(count)
    }

    fn try_send_file(&self, file: &dyn FileSource, offset: u64, len: usize) -> io::Result<usize> {
        let room = self.room()?;
        if len == 0 {
            return Ok(0);
        }
        let mut bytes = vec![0; self.slice(len.min(room))?];
        // As sendfile(2), it waits for pages that are not in the cache.
        let count = match file.try_read_at(offset, &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                file.read_at(offset, &mut bytes)?
            }
            other => other?,
        };
        bytes.truncate(count);
        if count > 0 {
            if let Some(host) = &self.host {
                host.write_stream(count, Bytes::OfFile);
            }
            self.transmit(bytes);
        }
        Ok(count)
    }

    fn shutdown_write(&self) {
        let mut state = self.outgoing.state.borrow_mut();
        if state.write_error.is_some() || std::mem::replace(&mut state.shut, true) {
            return;
        }
        drop(state);
        self.core.trace(format_args!(
            "stream {} {} ends its side",
            self.id, self.local.address
        ));
        let half = Rc::clone(&self.outgoing);
        self.outgoing.channel.send(0, move || {
            half.receive(0, |half| {
                half.state.borrow_mut().finished = true;
                wake(&half.reader);
            });
        });
    }

    fn abort(&self) {
        self.core.trace(format_args!(
            "stream {} {} aborts",
            self.id, self.local.address
        ));
        if self.outgoing.state.borrow().write_error.is_none() {
            self.send_reset();
        }
        self.outgoing.fail_writer(io::ErrorKind::ConnectionAborted);
        self.incoming.state.borrow_mut().reader_gone = true;
        self.incoming.fail_reader(io::ErrorKind::ConnectionAborted);
    }
}

impl Drop for SimStream {
    /// Closes as a kernel does with the last descriptor: by a reset if bytes were left unread, else by an end.
    fn drop(&mut self) {
        let unread = {
            let mut state = self.incoming.state.borrow_mut();
            state.reader_gone = true;
            !std::mem::take(&mut state.arrived).is_empty()
        };
        if !self.core.is_up(self.local.node) {
            // Without power no segment leaves. The peer gets a reset when it sends and the node is up again.
            return;
        }
        if unread && self.outgoing.state.borrow().write_error.is_none() {
            self.send_reset();
        } else {
            self.shutdown_write();
        }
    }
}

/// Moves the first bytes of a queue into a buffer that is not longer than the queue.
fn pop_into(queue: &mut VecDeque<u8>, buffer: &mut [u8]) {
    let (front, back) = queue.as_slices();
    let from_front = front.len().min(buffer.len());
    let (first, second) = buffer.split_at_mut(from_front);
    first.copy_from_slice(&front[..from_front]);
    second.copy_from_slice(&back[..second.len()]);
    queue.drain(..from_front + second.len());
}
