//! Registered memory of the protocols.
//!
//! A registration's own key belongs to the protection domain, so every connection of the provider can use it. A key of
//! one connection is a memory window's, where the device has them: the registration has no rights for peers then.
//! Elsewhere [`Scope::Endpoint`] cannot be enforced.

use crate::connection::Connection;
use crate::core::Core;
use crate::limits::{LONG_REGISTRATION, WINDOWS_IDLE_MAX};
use crate::sys::{Piece, ProtectionDomain, Registration, RegistrationRules, Window};
use gannet_fabric::{
    Access, Backing, DeregisterError, Domain, EndpointId, LocalKey, MemoryRegion, Region,
    RegionStats, RegisterError, Registering, RemoteKey, Revocation, Scope, Span,
};
use gannet_runtime::{Buffer, Handle, run_blocking};
use std::any::Any;
use std::cell::{Cell, OnceCell, RefCell};
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
    rules: RegistrationRules,
    stats: Cell<RegionStats>,
    /// Finds the connections of windows.
    core: OnceCell<Weak<Core>>,
    /// Windows that are bound to nothing.
    windows: RefCell<Vec<Window>>,
    this: Weak<VerbsDomain>,
}

impl VerbsDomain {
    pub(crate) fn new(
        domain: Arc<ProtectionDomain>,
        runtime: Handle,
        rules: RegistrationRules,
    ) -> Rc<VerbsDomain> {
        Rc::new_cyclic(|this| VerbsDomain {
            domain,
            runtime,
            rules,
            stats: Cell::default(),
            core: OnceCell::new(),
            windows: RefCell::default(),
            this: Weak::clone(this),
        })
    }

    /// Tells the domain where its connections are, once.
    pub(crate) fn set_core(&self, core: &Rc<Core>) {
        let first = self.core.set(Rc::downgrade(core));
        debug_assert!(first.is_ok(), "a domain has one core");
    }

    /// Registers the memory of one message that is too long for a slot.
    pub(crate) fn register_message(&self, memory: &mut [u8]) -> io::Result<Registration> {
        let rules = RegistrationRules::default();
        Registration::new(&self.domain, memory, Access::Local, rules)
    }

    /// The region of memory that was pinned.
    fn region(&self, pinned: io::Result<Held>, grant: Grant) -> Result<Region, RegisterError> {
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
        let connection = grant.bound_to.and_then(|id| self.connection(id));
        let window = connection.map(|connection| self.window(&connection));
        let window = window.transpose()?;
        let len = held.memory.as_ref().map_or(0, |memory| memory.len()) as u64;
        self.count(|stats| {
            stats.registrations += 1;
            stats.bytes_registered += len;
        });
        // Without a window the registration's own key, which admits nobody where a window was asked for: the
        // connection has ended.
        let key = (window.as_ref()).map_or(registration.remote_key(), |it| it.window.next_key());
        let entry = Rc::new(Entry {
            local: LocalKey(registration.local_key()),
            key: RemoteKey(key),
            base: registration.address(),
            len,
            held: RefCell::new(held),
            is_counted: true,
            window: RefCell::new(window),
            state: Cell::new(State::Valid),
            uses: Cell::new(0),
            waiting: RefCell::default(),
            domain,
        });
        entry.bind(grant.access);
        Ok(Rc::new(VerbsRegion(entry)))
    }

    /// A window over a registration that `kept` keeps.
    fn over(
        self: Rc<Self>,
        kept: &Entry,
        memory: Buffer,
        access: Access,
        window: BoundWindow,
    ) -> Region {
        let held = Held {
            registration: kept.held.borrow().registration.clone(),
            memory: Some(memory),
            padding: None,
        };
        let entry = Rc::new(Entry {
            local: kept.local,
            key: RemoteKey(window.window.next_key()),
            base: kept.base,
            len: kept.len,
            held: RefCell::new(held),
            is_counted: false,
            window: RefCell::new(Some(window)),
            state: Cell::new(State::Valid),
            uses: Cell::new(0),
            waiting: RefCell::default(),
            domain: self,
        });
        entry.bind(access);
        Rc::new(VerbsRegion(entry))
    }

    fn connection(&self, id: EndpointId) -> Option<Rc<Connection>> {
        self.core.get()?.upgrade()?.connection(id)
    }

    /// A window for memory that `connection` alone reaches.
    fn window(&self, connection: &Rc<Connection>) -> Result<BoundWindow, RegisterError> {
        let idle = self.windows.borrow_mut().pop();
        let window = idle.map_or_else(|| Window::new(&self.domain), Ok);
        let window = window.map_err(|error| {
            tracing::warn!(%error, "the device has no more memory windows");
            RegisterError::TableFull
        })?;
        Ok(BoundWindow {
            window,
            connection: Rc::downgrade(connection),
        })
    }

    /// The meaning of `access` and `scope` here.
    fn grant(&self, access: Access, scope: Scope) -> Grant {
        let bound_to = match scope {
            Scope::Endpoint(id) if self.domain.has_windows && access != Access::Local => Some(id),
            _ => None,
        };
        Grant { access, bound_to }
    }

    pub(crate) fn count(&self, change: impl FnOnce(&mut RegionStats)) {
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
        scope: Scope,
    ) -> Result<Region, RegisterError> {
        let Backing::Buffer(memory) = backing else {
            return Err(RegisterError::Unsupported);
        };
        let grant = self.grant(access, scope);
        let pinned = Held::pin(&self.domain, memory, grant.of_key(), self.rules);
        self.region(pinned, grant)
    }

    fn register(&self, backing: Backing, access: Access, scope: Scope) -> Registering {
        let memory = match backing {
            Backing::Buffer(memory) if memory.len() >= LONG_REGISTRATION => memory,
            short => return Registering::Ready(self.register_now(short, access, scope)),
        };
        let (sender, pinned) = oneshot::channel();
        let (domain, rules) = (Arc::clone(&self.domain), self.rules);
        let grant = self.grant(access, scope);
        self.runtime.submit_blocking(Box::new(move || {
            // Where no one waits any more, the drop of the result undoes the registration.
            let pinned = Held::pin(&domain, memory, grant.of_key(), rules);
            drop(sender.send(pinned));
        }));
        let this = Weak::clone(&self.this);
        Registering::Pending(Box::pin(async move {
            let pinned = pinned.await.map_err(|_| RegisterError::TableFull)?;
            let domain = this.upgrade().ok_or(RegisterError::TableFull)?;
            domain.region(pinned, grant)
        }))
    }

    fn has_software_regions(&self) -> bool {
        false
    }

    fn has_bound_keys(&self) -> bool {
        self.domain.has_windows
    }

    fn has_windows(&self) -> bool {
        self.domain.has_windows
    }

    fn has_map(&self) -> bool {
        false
    }

    fn stats(&self) -> RegionStats {
        self.stats.get()
    }
}

/// The rights of one registration.
#[derive(Clone, Copy)]
struct Grant {
    access: Access,
    /// The one connection that has them, by a window.
    bound_to: Option<EndpointId>,
}

impl Grant {
    /// The rights that the registration's own key gives.
    fn of_key(self) -> Access {
        match self.bound_to {
            Some(_) => Access::Local,
            None => self.access,
        }
    }
}

/// The window of a registration.
struct BoundWindow {
    window: Window,
    connection: Weak<Connection>,
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
pub(crate) struct Entry {
    local: LocalKey,
    key: RemoteKey,
    base: u64,
    len: u64,
    held: RefCell<Held>,
    /// It is a registration; else a window over one that stays.
    is_counted: bool,
    /// The window whose key `key` is, from its registration until the key is dead.
    window: RefCell<Option<BoundWindow>>,
    state: Cell<State>,
    /// Pieces of our own work that name it.
    uses: Cell<u32>,
    waiting: RefCell<Vec<Waker>>,
    domain: Rc<VerbsDomain>,
}

/// The registration, then the memory that it pins: fields are dropped in their order.
#[derive(Default)]
struct Held {
    /// Shared by windows over it. The last holder ends it.
    registration: Option<Arc<Registration>>,
    memory: Option<Buffer>,
    padding: Option<Buffer>,
}

impl Held {
    /// Registers memory.
    fn pin(
        domain: &Arc<ProtectionDomain>,
        mut memory: Buffer,
        access: Access,
        rules: RegistrationRules,
    ) -> io::Result<Held> {
        // A device registers no empty memory. A byte of the provider's own stands for it.
        let mut padding = memory.is_empty().then(|| Buffer::zeroed(1));
        let pinned = padding.as_mut().unwrap_or(&mut memory);
        let registration = Registration::new(domain, pinned, access, rules)?;
        Ok(Held {
            registration: Some(Arc::new(registration)),
            memory: Some(memory),
            padding,
        })
    }

    /// Ends the registration. Memory that the device may still reach is kept for ever.
    fn release(mut self) -> (io::Result<()>, Held) {
        let Some(registration) = self.registration.take().and_then(Arc::into_inner) else {
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
        if self.asks_for_unbinding() {
            return;
        }
        // Nobody else ends the key: the connection has ended, or the memory is with its user already.
        self.drop_window();
        self.release();
    }

    /// Asks the connection to end the window's key; false when there is none, or nobody to ask.
    fn asks_for_unbinding(self: &Rc<Self>) -> bool {
        if self.held.borrow().memory.is_none() {
            return false;
        }
        let window = self.window.borrow();
        let connection = window.as_ref().and_then(|it| it.connection.upgrade());
        connection.is_some_and(|connection| connection.unbind(self))
    }

    /// True for the memory that it pins, while its user has that.
    fn takes(&self, buffer: &Buffer) -> bool {
        let is_same = buffer.len() as u64 == self.len
            && (buffer.is_empty() || buffer.as_ptr() as u64 == self.base);
        let is_lent = self.held.borrow().memory.is_none();
        self.state.get() == State::Valid && is_lent && is_same
    }

    /// Binds the window, if there is one.
    fn bind(self: &Rc<Self>, access: Access) {
        let bind = {
            let (window, held) = (self.window.borrow(), self.held.borrow());
            let parts = window.as_ref().zip(held.registration.as_ref());
            parts.map(|(it, registration)| {
                let bind = it.window.bind(registration, access);
                (it.connection.upgrade(), bind)
            })
        };
        let Some((connection, bind)) = bind else {
            return;
        };
        if !connection.is_some_and(|connection| connection.bind(self, self.key.0, bind)) {
            self.drop_window();
        }
    }

    /// The key of its window, until that is dead.
    pub(crate) fn window_key(&self) -> Option<u32> {
        self.window.borrow().is_some().then_some(self.key.0)
    }

    /// Ends the window's key and gives the window back to the device.
    pub(crate) fn drop_window(&self) {
        let window = self.window.take();
        self.forget(window.as_ref());
    }

    /// The window was unbound by work of its connection, or could not be.
    pub(crate) fn unbound(self: &Rc<Self>, is_done: bool) {
        debug_assert_eq!(self.state.get(), State::Revoking, "its owner asked for it");
        if is_done {
            self.keep_window();
        } else {
            self.drop_window();
        }
        self.release();
    }

    /// A message of the peer has revoked the key.
    pub(crate) fn invalidated_by_peer(self: &Rc<Self>) {
        self.keep_window();
        self.revoke();
    }

    /// Keeps the window, which is bound to nothing, for other memory.
    fn keep_window(&self) {
        let window = self.window.take();
        self.forget(window.as_ref());
        let mut idle = self.domain.windows.borrow_mut();
        if idle.len() < WINDOWS_IDLE_MAX {
            idle.extend(window.map(|it| it.window));
        }
    }

    fn forget(&self, window: Option<&BoundWindow>) {
        let connection = window.and_then(|it| it.connection.upgrade());
        if let Some(connection) = connection {
            connection.forget_window(self.key.0);
        }
    }

    /// Ends the registration, whose window is gone.
    fn release(self: &Rc<Self>) {
        debug_assert!(
            self.window_key().is_none(),
            "a window holds the registration"
        );
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
        if state == State::Gone && self.is_counted {
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

    fn bind(&self, buffer: Buffer, access: Access, endpoint: EndpointId) -> Result<Region, Buffer> {
        let entry = &self.0;
        let domain = &entry.domain;
        let connection = (domain.has_windows())
            .then(|| domain.connection(endpoint))
            .flatten();
        let (Some(connection), true) = (connection, entry.takes(&buffer)) else {
            return Err(buffer);
        };
        match domain.window(&connection) {
            Ok(window) => Ok(Rc::clone(domain).over(entry, buffer, access, window)),
            Err(_) => Err(buffer),
        }
    }

    fn with_memory(&self, work: &mut dyn FnMut(&mut [u8])) -> bool {
        if !self.is_valid() {
            return false;
        }
        // A source whose bytes have arrived may wait for the completion of later work.
        let mut held = self.0.held.borrow_mut();
        let Some(memory) = &mut held.memory else {
            return false;
        };
        work(memory);
        true
    }

    fn restore(&self, buffer: Buffer) -> Result<(), Buffer> {
        if !self.0.takes(&buffer) {
            return Err(buffer);
        }
        self.0.held.borrow_mut().memory = Some(buffer);
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
