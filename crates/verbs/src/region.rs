//! Registered memory of the protocols.
//!
//! A key belongs to the protection domain, so every connection of the provider can use it:
//! [`Scope::Endpoint`] cannot be enforced here. Rights and bounds are.

use crate::limits::LONG_REGISTRATION;
use crate::sys::{Piece, ProtectionDomain, Registration};
use gannet_fabric::{
    Access, Backing, DeregisterError, Domain, LocalKey, MemoryRegion, Region, RegionStats,
    RegisterError, Registering, RemoteKey, Revocation, Scope, Span,
};
use gannet_runtime::{Buffer, Handle, run_blocking};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::io;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Poll, Waker};
use tokio::sync::oneshot;

/// The protection domain of a provider.
pub(crate) struct VerbsDomain {
    domain: Arc<ProtectionDomain>,
    runtime: Handle,
    /// Sinks of RDMA Reads need the peer's right to write, as iWARP adapters demand.
    sink_needs_write: bool,
    stats: Cell<RegionStats>,
    this: Weak<VerbsDomain>,
}

impl VerbsDomain {
    pub(crate) fn new(
        domain: Arc<ProtectionDomain>,
        runtime: Handle,
        sink_needs_write: bool,
    ) -> Rc<VerbsDomain> {
        Rc::new_cyclic(|this| VerbsDomain {
            domain,
            runtime,
            sink_needs_write,
            stats: Cell::default(),
            this: Weak::clone(this),
        })
    }

    /// Registers the memory of one message that is too long for a slot.
    pub(crate) fn register_message(&self, memory: &mut [u8]) -> io::Result<Registration> {
        Registration::new(&self.domain, memory, Access::Local, false)
    }

    /// The region of memory that was pinned.
    fn region(&self, pinned: io::Result<Held>) -> Result<Region, RegisterError> {
        let held = pinned.map_err(|error| {
            tracing::warn!(%error, "memory could not be registered");
            match error.kind() {
                io::ErrorKind::InvalidInput => RegisterError::Unsupported,
                // Of ibv_reg_mr(3) as of mlock(2).
                io::ErrorKind::OutOfMemory => RegisterError::LockedMemory,
                _ => RegisterError::TableFull,
            }
        })?;
        let domain = self.this.upgrade().ok_or(RegisterError::TableFull)?;
        let registration = held.registration.as_ref().ok_or(RegisterError::TableFull)?;
        let len = held.memory.as_ref().map_or(0, |memory| memory.len()) as u64;
        self.count(|stats| {
            stats.registrations += 1;
            stats.bytes_registered += len;
        });
        Ok(Rc::new(VerbsRegion(Rc::new(Entry {
            local: LocalKey(registration.local_key()),
            key: RemoteKey(registration.remote_key()),
            base: registration.address(),
            len,
            held: RefCell::new(held),
            state: Cell::new(State::Valid),
            uses: Cell::new(0),
            waiting: RefCell::default(),
            domain,
        }))))
    }

    fn count(&self, change: impl FnOnce(&mut RegionStats)) {
        let mut stats = self.stats.get();
        change(&mut stats);
        self.stats.set(stats);
    }
}

impl Domain for VerbsDomain {
    fn register_now(
        &self,
        backing: Backing,
        access: Access,
        _scope: Scope,
    ) -> Result<Region, RegisterError> {
        let Backing::Buffer(memory) = backing else {
            return Err(RegisterError::Unsupported);
        };
        let pinned = Held::pin(&self.domain, memory, access, self.sink_needs_write);
        self.region(pinned)
    }

    fn register(&self, backing: Backing, access: Access, scope: Scope) -> Registering {
        let memory = match backing {
            Backing::Buffer(memory) if memory.len() >= LONG_REGISTRATION => memory,
            short => return Registering::Ready(self.register_now(short, access, scope)),
        };
        let (sender, pinned) = oneshot::channel();
        let (domain, sink_needs_write) = (Arc::clone(&self.domain), self.sink_needs_write);
        self.runtime.submit_blocking(Box::new(move || {
            // Where no one waits any more, the drop of the result undoes the registration.
            drop(sender.send(Held::pin(&domain, memory, access, sink_needs_write)));
        }));
        let this = Weak::clone(&self.this);
        Registering::Pending(Box::pin(async move {
            let pinned = pinned.await.map_err(|_| RegisterError::TableFull)?;
            let domain = this.upgrade().ok_or(RegisterError::TableFull)?;
            domain.region(pinned)
        }))
    }

    fn has_software_regions(&self) -> bool {
        false
    }

    fn has_map(&self) -> bool {
        false
    }

    fn stats(&self) -> RegionStats {
        self.stats.get()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Valid,
    Revoking,
    Gone,
    /// The device did not take the registration back: it may reach the memory for ever.
    Stuck,
}

/// One registration.
struct Entry {
    local: LocalKey,
    key: RemoteKey,
    base: u64,
    len: u64,
    held: RefCell<Held>,
    state: Cell<State>,
    /// Pieces of our own work that name it.
    uses: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
    domain: Rc<VerbsDomain>,
}

/// The registration, then the memory that it pins: fields are dropped in their order.
#[derive(Default)]
struct Held {
    registration: Option<Registration>,
    memory: Option<Buffer>,
    padding: Option<Buffer>,
}

impl Held {
    /// Registers memory.
    fn pin(
        domain: &Arc<ProtectionDomain>,
        mut memory: Buffer,
        access: Access,
        sink_needs_write: bool,
    ) -> io::Result<Held> {
        // A device registers no empty memory. A byte of the provider's own stands for it.
        let mut padding = memory.is_empty().then(|| Buffer::zeroed(1));
        let pinned = padding.as_mut().unwrap_or(&mut memory);
        let registration = Registration::new(domain, pinned, access, sink_needs_write)?;
        Ok(Held {
            registration: Some(registration),
            memory: Some(memory),
            padding,
        })
    }

    /// Ends the registration. Memory that the device may still reach is kept for ever.
    fn release(mut self) -> (io::Result<()>, Held) {
        let Some(registration) = self.registration.take() else {
            return (Ok(()), self);
        };
        let ended = registration.deregister();
        if ended.is_err() {
            std::mem::forget(self.memory.take());
            std::mem::forget(self.padding.take());
        }
        (ended, self)
    }
}

impl Entry {
    /// Begins to revoke the key; does nothing when it has begun.
    fn revoke(self: &Rc<Self>) {
        if self.state.get() != State::Valid {
            return;
        }
        self.state.set(State::Revoking);
        let held = self.held.take();
        if self.len < LONG_REGISTRATION as u64 {
            let (ended, held) = held.release();
            self.finish(ended, held);
            return;
        }
        let entry = Rc::clone(self);
        // The job owns the memory: nothing frees it before the key is dead, even when the runtime ends.
        let released = async move {
            let released = run_blocking(&entry.domain.runtime, move || held.release()).await;
            let gone = || (Err(io::ErrorKind::BrokenPipe.into()), Held::default());
            let (ended, held) = released.unwrap_or_else(|_| gone());
            entry.finish(ended, held);
        };
        let runtime = &self.domain.runtime;
        runtime.spawn("verbs deregister", Box::pin(released));
    }

    fn finish(&self, ended: io::Result<()>, held: Held) {
        let state = match ended {
            Ok(()) => State::Gone,
            Err(error) => {
                tracing::error!(%error, "the device did not take a registration back");
                State::Stuck
            }
        };
        *self.held.borrow_mut() = held;
        self.state.set(state);
        if state == State::Gone {
            self.domain.count(|stats| {
                stats.deregistrations += 1;
                stats.bytes_registered -= self.len;
            });
        }
        for waker in self.waiting.take() {
            waker.wake();
        }
    }

    /// Waits for the end of the revocation.
    fn ended<T: 'static>(self: &Rc<Self>, outcome: fn(&Entry) -> T) -> Revocation<T> {
        if matches!(self.state.get(), State::Gone | State::Stuck) {
            return Revocation::Ready(outcome(self));
        }
        let entry = Rc::clone(self);
        Revocation::Pending(Box::pin(std::future::poll_fn(move |context| {
            match entry.state.get() {
                State::Valid | State::Revoking => {
                    entry.waiting.borrow_mut().push(context.waker().clone());
                    Poll::Pending
                }
                State::Gone | State::Stuck => Poll::Ready(outcome(&entry)),
            }
        })))
    }
}

/// A registration that its users hold.
struct VerbsRegion(Rc<Entry>);

/// Part of a region that work names; the region's memory is not lent meanwhile. The last holder of a region may be work
/// that names it, so the region is kept, too: its drop revokes the key.
pub(crate) struct RegionUse {
    entry: Rc<Entry>,
    _region: Region,
}

impl RegionUse {
    /// The use of a span by work, and the memory; `None` for memory that `domain` has not registered, that was revoked
    /// or lent, and beyond the region.
    pub(crate) fn of(span: &Span, domain: &Rc<VerbsDomain>) -> Option<(RegionUse, Piece)> {
        let region: &dyn Any = &*span.region;
        let entry = &region.downcast_ref::<VerbsRegion>()?.0;
        let end = span.offset.checked_add(u64::from(span.len))?;
        if !Rc::ptr_eq(&entry.domain, domain)
            || entry.state.get() != State::Valid
            || end > entry.len
        {
            return None;
        }
        let held = entry.held.borrow();
        held.memory.as_ref()?;
        let piece = held.registration.as_ref()?.piece(span.offset, span.len)?;
        entry.uses.set(entry.uses.get() + 1);
        let used = RegionUse {
            entry: Rc::clone(entry),
            _region: Rc::clone(&span.region),
        };
        Some((used, piece))
    }
}

impl Drop for RegionUse {
    fn drop(&mut self) {
        self.entry.uses.set(self.entry.uses.get() - 1);
    }
}

impl MemoryRegion for VerbsRegion {
    fn local_key(&self) -> LocalKey {
        self.0.local
    }

    fn remote_key(&self) -> RemoteKey {
        self.0.key
    }

    fn base(&self) -> u64 {
        self.0.base
    }

    fn len(&self) -> u64 {
        self.0.len
    }

    fn is_valid(&self) -> bool {
        self.0.state.get() == State::Valid
    }

    fn invalidate(&self) -> Revocation<()> {
        self.0.revoke();
        self.0.ended(|_| ())
    }

    fn deregister(&self) -> Revocation<Result<Option<Buffer>, DeregisterError>> {
        self.0.revoke();
        self.0.ended(|entry| match entry.state.get() {
            State::Stuck => Err(DeregisterError::Adapter),
            _ => Ok(entry.held.borrow_mut().memory.take()),
        })
    }

    fn lend(&self) -> Option<Buffer> {
        // The device would write to memory of others if work of ours went on after its user dropped it.
        if !self.is_valid() || self.0.uses.get() > 0 {
            return None;
        }
        self.0.held.borrow_mut().memory.take()
    }

    fn restore(&self, buffer: Buffer) -> Result<(), Buffer> {
        let mut held = self.0.held.borrow_mut();
        let is_same = buffer.len() as u64 == self.0.len
            && (buffer.is_empty() || buffer.as_ptr() as u64 == self.0.base);
        if !self.is_valid() || held.memory.is_some() || !is_same {
            return Err(buffer);
        }
        held.memory = Some(buffer);
        Ok(())
    }
}

impl fmt::Debug for VerbsRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsRegion")
            .field("key", &self.0.key)
            .field("len", &self.0.len)
            .field("state", &self.0.state.get())
            .finish_non_exhaustive()
    }
}

impl Drop for VerbsRegion {
    fn drop(&mut self) {
        self.0.revoke();
    }
}
