//! One core's share of a device: it takes events and completions, and gives them to connections.

use crate::VerbsError;
use crate::config::{DeviceChoice, VerbsConfig};
use crate::connection::Connection;
use crate::limits::{
    CHUNK_SLOTS, INLINE_MAX, LINGER_TIME, MESSAGE_SLOT_LEN, SEND_QUEUE_MAX, SEND_QUEUE_OWN,
    SLOTS_UNUSED_MAX, TICK,
};
use crate::listener::Backlog;
use crate::messages::SlotPool;
use crate::receives::VerbsReceiveQueue;
use crate::region::VerbsDomain;
use crate::sys::{
    CmId, CompletionChannel, CompletionQueue, DeviceContext, DeviceLimits, Event, EventChannel,
    EventKind, EventOf, IdName, POLL_MAX, ProtectionDomain, RegistrationRules, VerbsLibrary, Wc,
    status,
};
use crate::work::WorkName;
use gannet_fabric::{Disconnected, EndpointId, SharedReceives};
use gannet_runtime::{DescriptorWatch, EventSource, Handle, Instant, LocalFuture, Notify, sleep};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::{Context, Poll};

/// One core's share of a device.
pub(crate) struct Core {
    pub(crate) runtime: Handle,
    pub(crate) device: DeviceContext,
    pub(crate) limits: DeviceLimits,
    pub(crate) is_iwarp: bool,
    /// Bytes of the longest message.
    pub(crate) message_max: u32,
    /// Bytes that a post may copy, as far as is known.
    pub(crate) inline_max: Cell<u32>,
    /// The kernel registers pages of files for this device.
    pub(crate) maps_files: bool,
    pub(crate) protection: Arc<ProtectionDomain>,
    pub(crate) domain: Rc<VerbsDomain>,
    pub(crate) messages: SlotPool,
    pub(crate) events: Arc<EventChannel>,
    completions: Rc<CompletionChannel>,
    queue_len: u32,
    queues: RefCell<Vec<Rc<Queue>>>,
    ids: RefCell<HashMap<IdName, Weak<IdEvents>>>,
    listeners: RefCell<HashMap<IdName, Weak<Backlog>>>,
    connections: RefCell<HashMap<u64, Rc<Connection>>>,
    pairs: RefCell<HashMap<u32, Rc<Connection>>>,
    shared: RefCell<Vec<Weak<VerbsReceiveQueue>>>,
    /// Connections whose end has begun; their pairs are destroyed when no completion is being handled.
    ending: RefCell<VecDeque<Rc<Connection>>>,
    lingering: RefCell<VecDeque<(Instant, Arc<CmId>)>>,
    /// Connections with queued work that no user will flush.
    unstarted: RefCell<Vec<Rc<Connection>>>,
    /// The last look at message slots that nobody uses.
    trimmed: Cell<Instant>,
    serial: Cell<u64>,
    is_polling: Cell<bool>,
    driver: Rc<Notify>,
}

/// A completion queue, and the completions for which connections have reserved room in it.
struct Queue {
    queue: Rc<CompletionQueue>,
    reserved: Cell<u32>,
}

/// Whether the device has what the settings ask for.
///
/// # Errors
/// [`VerbsError::NoPaging`].
fn check(device: &DeviceContext, config: &VerbsConfig) -> Result<(), VerbsError> {
    if config.on_demand_paging && !device.pages_on_demand() {
        let name = device.name();
        return Err(VerbsError::NoPaging { name });
    }
    Ok(())
}

/// The rules for memory of the protocols.
fn rules(sinks_need_write: bool, config: &VerbsConfig) -> RegistrationRules {
    RegistrationRules {
        sinks_need_write,
        on_demand: config.on_demand_paging,
    }
}

/// Whether there is a device for these settings, before a core opens it.
///
/// # Errors
/// See [`VerbsError`].
pub fn check_device(library: &Arc<VerbsLibrary>, config: &VerbsConfig) -> Result<(), VerbsError> {
    let events = EventChannel::new(library)?;
    check(&choose(library, &events, &config.device)?, config)
}

/// Room in a completion queue, given back when dropped.
pub(crate) struct Reservation {
    queue: Rc<Queue>,
    count: u32,
}

impl Reservation {
    pub(crate) fn queue(&self) -> &Rc<CompletionQueue> {
        &self.queue.queue
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let reserved = &self.queue.reserved;
        reserved.set(reserved.get() - self.count);
    }
}

/// The events of one id that its owner has not taken.
#[derive(Default)]
pub(crate) struct IdEvents {
    pub(crate) queue: RefCell<VecDeque<Event>>,
    pub(crate) notify: Notify,
    /// The connection of the id, once there is one.
    pub(crate) connection: RefCell<Weak<Connection>>,
}

/// The entry of an id among those of its core, removed when dropped.
pub(crate) struct IdWatch {
    core: Rc<Core>,
    name: IdName,
    pub(crate) events: Rc<IdEvents>,
}

impl Drop for IdWatch {
    fn drop(&mut self) {
        self.core.ids.borrow_mut().remove(&self.name);
    }
}

impl Core {
    /// Opens the device, and starts the task that takes its events.
    ///
    /// # Errors
    /// See [`VerbsError`].
    pub(crate) fn start(
        runtime: Handle,
        library: &Arc<VerbsLibrary>,
        config: &VerbsConfig,
    ) -> Result<Rc<Core>, VerbsError> {
        let events = EventChannel::new(library)?;
        let device = choose(library, &events, &config.device)?;
        Core::on(runtime, events, device, config)
    }

    /// As [`Core::start`], on a device that is open.
    ///
    /// # Errors
    /// See [`VerbsError`].
    pub(crate) fn on(
        runtime: Handle,
        events: Arc<EventChannel>,
        device: DeviceContext,
        config: &VerbsConfig,
    ) -> Result<Rc<Core>, VerbsError> {
        let limits = device
            .limits()
            .map_err(|source| VerbsError::Device { source })?;
        check(&device, config)?;
        let ports = (1..=limits.ports).filter_map(|port| device.port(port).ok());
        let message_max = ports.map(|port| port.message_max).min();
        let is_iwarp = device.is_iwarp();
        let completions = CompletionChannel::new(&device)
            .map_err(VerbsError::resources("a completion channel"))?;
        let protection =
            ProtectionDomain::new(&device).map_err(VerbsError::resources("a protection domain"))?;
        let rules = rules(is_iwarp && !limits.is_siw(), config);
        let domain = VerbsDomain::new(Arc::clone(&protection), Rc::clone(&runtime), rules);
        let messages = SlotPool::new(
            &protection,
            MESSAGE_SLOT_LEN,
            CHUNK_SLOTS,
            config.message_slots_max,
        );
        let maps_files = device.maps_files().unwrap_or_else(|error| {
            tracing::warn!(%error, "it could not be tried to register a file");
            false
        });
        let core = Rc::new(Core {
            maps_files,
            device,
            limits,
            is_iwarp,
            message_max: message_max.unwrap_or(u32::MAX),
            inline_max: Cell::new(INLINE_MAX),
            protection,
            domain,
            messages,
            events,
            completions,
            queue_len: config.completions_max.min(limits.max_cqe).max(1),
            queues: RefCell::default(),
            ids: RefCell::default(),
            listeners: RefCell::default(),
            connections: RefCell::default(),
            pairs: RefCell::default(),
            shared: RefCell::default(),
            ending: RefCell::default(),
            lingering: RefCell::default(),
            unstarted: RefCell::default(),
            trimmed: Cell::new(runtime.now()),
            serial: Cell::new(0),
            is_polling: Cell::new(false),
            driver: Rc::default(),
            runtime,
        });
        // Memory for messages that cannot be registered is an error now, not when the first message is sent.
        if core.messages.take().is_none() {
            let source = io::ErrorKind::OutOfMemory.into();
            let what = "registered memory for messages";
            return Err(VerbsError::Resources { what, source });
        }
        core.domain.set_core(&core);
        core.run()
            .map_err(VerbsError::resources("a watch of the device"))?;
        Ok(core)
    }

    fn run(self: &Rc<Self>) -> io::Result<()> {
        let runtime = &self.runtime;
        let mut driver = Driver {
            core: Rc::downgrade(self),
            notify: Rc::clone(&self.driver),
            events: runtime.watch(self.events.as_fd())?,
            completions: runtime.watch(self.completions.as_fd())?,
            tick: None,
        };
        let task = std::future::poll_fn(move |context| driver.poll(context));
        runtime.spawn("verbs events", Box::pin(task));
        let source: Rc<dyn EventSource> = Rc::<Core>::clone(self);
        runtime.look_at(Rc::downgrade(&source));
        Ok(())
    }

    pub(crate) fn now(&self) -> Instant {
        self.runtime.now()
    }

    /// A number for a connection, never used before.
    pub(crate) fn next_id(&self) -> EndpointId {
        self.serial.set(self.serial.get() + 1);
        EndpointId(self.serial.get())
    }

    /// Work requests that the send queue of a connection takes.
    pub(crate) fn send_queue_max(&self) -> u32 {
        let device = self.limits.max_qp_wr.saturating_sub(SEND_QUEUE_OWN);
        SEND_QUEUE_MAX.min(device)
    }

    /// Room for `count` completions.
    ///
    /// # Errors
    /// The device has no room for another queue.
    pub(crate) fn reserve(&self, count: u32) -> io::Result<Reservation> {
        let mut queues = self.queues.borrow_mut();
        let has_room = |it: &&Rc<Queue>| it.reserved.get().saturating_add(count) <= it.queue.len();
        let queue = match queues.iter().find(has_room) {
            Some(queue) => Rc::clone(queue),
            None => {
                let queue = self.completion_queue(self.queue_len.max(count))?;
                let queue = Rc::new(Queue {
                    queue: Rc::new(queue),
                    reserved: Cell::new(0),
                });
                queues.push(Rc::clone(&queue));
                queue
            }
        };
        queue.reserved.set(queue.reserved.get() + count);
        Ok(Reservation { queue, count })
    }

    fn completion_queue(&self, len: u32) -> io::Result<CompletionQueue> {
        let queue = CompletionQueue::new(&self.completions, len)?;
        queue.arm()?;
        Ok(queue)
    }

    /// A queue of receives that connections share; of fewer than asked for where the device has a lower limit.
    ///
    /// # Errors
    /// The device has no room for it.
    pub(crate) fn shared_receives(
        &self,
        options: SharedReceives,
    ) -> io::Result<Rc<VerbsReceiveQueue>> {
        let device_max = self.limits.max_srq_wr.min(self.limits.max_cqe);
        let receives_max = options.receives_max.min(device_max);
        let options = SharedReceives {
            receives_max,
            ..options
        };
        let completions = self.completion_queue(receives_max.max(1))?;
        let serial = self.next_id().0 as u32 & 0x3fff_ffff;
        let queue = VerbsReceiveQueue::new(&self.protection, options, serial, completions)?;
        let mut shared = self.shared.borrow_mut();
        shared.retain(|queue| queue.strong_count() > 0);
        shared.push(Rc::downgrade(&queue));
        Ok(queue)
    }

    /// Takes the events of an id from now on.
    pub(crate) fn watch_id(self: &Rc<Self>, id: &CmId) -> IdWatch {
        let (name, events) = (id.name(), Rc::<IdEvents>::default());
        self.ids.borrow_mut().insert(name, Rc::downgrade(&events));
        IdWatch {
            core: Rc::clone(self),
            name,
            events,
        }
    }

    /// Gives the requests for a listener to its backlog from now on.
    pub(crate) fn add_listener(&self, name: IdName, backlog: &Rc<Backlog>) {
        let mut listeners = self.listeners.borrow_mut();
        listeners.insert(name, Rc::downgrade(backlog));
    }

    pub(crate) fn remove_listener(&self, name: IdName) {
        self.listeners.borrow_mut().remove(&name);
    }

    /// Gives the completions of a pair to its connection from now on.
    pub(crate) fn add_connection(&self, connection: &Rc<Connection>, pair: u32) {
        let add = |map: &RefCell<HashMap<u64, Rc<Connection>>>| {
            map.borrow_mut()
                .insert(connection.id().0, Rc::clone(connection));
        };
        add(&self.connections);
        self.pairs.borrow_mut().insert(pair, Rc::clone(connection));
        // The deadlines of the connection need ticks.
        self.driver.notify();
    }

    /// The connection with this number.
    pub(crate) fn connection(&self, id: EndpointId) -> Option<Rc<Connection>> {
        self.connections.borrow().get(&id.0).cloned()
    }

    /// A peer has revoked `key`, which is another connection's.
    pub(crate) fn invalidated_elsewhere(&self, key: u32) {
        let connections: Vec<_> = self.connections.borrow().values().cloned().collect();
        let owner = connections.iter().find_map(|it| it.take_bound(key));
        if let Some(entry) = owner {
            entry.invalidated_by_peer();
        }
    }

    /// Gives queued work of a connection to the device soon.
    pub(crate) fn start_later(&self, connection: &Rc<Connection>) {
        self.unstarted.borrow_mut().push(Rc::clone(connection));
        self.driver.notify();
    }

    fn start_unstarted(&self) {
        for connection in self.unstarted.take() {
            if let Some(reason) = connection.start_queued() {
                self.end(&connection, reason);
            }
        }
    }

    /// Begins the end of a connection. Messages that came before are delivered first.
    pub(crate) fn end(&self, connection: &Rc<Connection>, reason: Disconnected) {
        if connection.begin_end(reason) {
            self.ending.borrow_mut().push_back(Rc::clone(connection));
        }
    }

    /// Takes all completions that have come, and finishes connections whose end has begun.
    pub(crate) fn advance(&self) {
        // A completion handler that posts or ends something comes back here.
        if self.is_polling.replace(true) {
            return;
        }
        self.poll_queues();
        self.start_unstarted();
        loop {
            let next = self.ending.borrow_mut().pop_front();
            let Some(connection) = next else {
                break;
            };
            connection.break_pair();
            self.poll_queues();
            self.finish(&connection);
            // The device may give the pair's number to the next pair: no completion of this one may be left then.
            self.poll_queues();
        }
        self.is_polling.set(false);
    }

    fn finish(&self, connection: &Rc<Connection>) {
        if let Some((pair, id)) = connection.finish() {
            self.pairs.borrow_mut().remove(&pair);
            let until = self.now() + LINGER_TIME;
            self.lingering.borrow_mut().push_back((until, id));
        }
        self.connections.borrow_mut().remove(&connection.id().0);
        self.driver.notify();
    }

    fn poll_queues(&self) {
        for index in 0.. {
            let queue = self.queues.borrow().get(index).map(Rc::clone);
            let Some(queue) = queue else {
                break;
            };
            self.poll_queue(&queue.queue);
        }
        for index in 0.. {
            let queue = self.shared.borrow().get(index).map(Weak::upgrade);
            let Some(queue) = queue else {
                break;
            };
            if let Some(queue) = queue {
                self.poll_queue(queue.completions());
            }
        }
    }

    fn poll_queue(&self, queue: &CompletionQueue) {
        let mut completions = [Wc::default(); POLL_MAX];
        loop {
            let count = queue.poll(&mut completions);
            for completion in &completions[..count] {
                self.complete(completion);
            }
            if count < POLL_MAX {
                break;
            }
        }
    }

    /// The shared queue with this number.
    fn shared_queue(&self, serial: u32) -> Option<Rc<VerbsReceiveQueue>> {
        let shared = self.shared.borrow();
        let mut alive = shared.iter().filter_map(Weak::upgrade);
        alive.find(|queue| queue.serial() == serial)
    }

    fn complete(&self, completion: &Wc) {
        let found = |connection: u64| self.connections.borrow().get(&connection).cloned();
        let (connection, reason) = match WorkName::of(completion.wr_id) {
            WorkName::Sent {
                connection,
                sequence,
            } => {
                let Some(connection) = found(connection) else {
                    return;
                };
                let reason = connection.sent(sequence, completion.status);
                if connection.is_held_back() {
                    self.unstarted.borrow_mut().push(Rc::clone(&connection));
                }
                (connection, reason)
            }
            WorkName::Own { connection } => {
                let Some(connection) = found(connection) else {
                    return;
                };
                let reason = connection.received_own(completion);
                (connection, reason)
            }
            WorkName::Shared { queue, index } => {
                let Some(shared) = self.shared_queue(queue) else {
                    return;
                };
                let connection = self.pairs.borrow().get(&completion.qp_num).cloned();
                let Some(connection) = connection else {
                    // A message, or the end, of a connection that is gone.
                    shared.post_again(index);
                    return;
                };
                let reason = connection.received_shared(completion, &shared, index);
                (connection, reason)
            }
        };
        if let Some(reason) = reason {
            self.end(&connection, reason);
        }
    }

    fn handle(&self, event: Event) {
        let Event { kind, id, .. } = event;
        if kind == EventKind::Request {
            let listener = event.request.as_ref().map(|(listener, _)| *listener);
            let listeners = self.listeners.borrow();
            let backlog = listener.and_then(|it| listeners.get(&it)?.upgrade());
            drop(listeners);
            // The drop of a request refuses it.
            if let Some(backlog) = backlog {
                backlog.add(event);
            }
            return;
        }
        let events = self.ids.borrow().get(&id).and_then(Weak::upgrade);
        let Some(events) = events else {
            return;
        };
        let connection = events.connection.borrow().upgrade();
        events.queue.borrow_mut().push_back(event);
        events.notify.notify();
        let Some(connection) = connection else {
            return;
        };
        match kind {
            EventKind::Disconnected => {
                // Messages that came before the end are delivered before it.
                self.advance();
                let reason = connection.reason_of_peer();
                self.end(&connection, reason);
            }
            EventKind::DeviceRemoved => {
                let reason = Disconnected::Lost(io::ErrorKind::NotConnected);
                self.end(&connection, reason);
            }
            _ => {}
        }
    }

    fn arm(&self, event: &EventOf) {
        let queues = self.queues.borrow();
        let queues = queues.iter().map(|it| Rc::clone(&it.queue));
        let shared = self.shared.borrow();
        let shared = shared.iter().filter_map(Weak::upgrade);
        let shared = shared.map(|queue| Rc::clone(queue.completions()));
        let armed = queues.chain(shared).find(|queue| queue.is_of(event));
        if let Some(Err(error)) = armed.map(|queue| queue.arm()) {
            tracing::error!(%error, "a completion queue cannot be armed");
        }
    }

    /// Looks at all deadlines.
    fn tick(&self) {
        let now = self.now();
        let connections: Vec<_> = self.connections.borrow().values().cloned().collect();
        for connection in connections {
            if let Some(reason) = connection.tick(now) {
                self.end(&connection, reason);
            }
        }
        let mut lingering = self.lingering.borrow_mut();
        let over = |(until, _): &(Instant, _)| *until <= now;
        while lingering.front().is_some_and(over) {
            lingering.pop_front();
        }
        drop(lingering);
        if now - self.trimmed.get() > SLOTS_UNUSED_MAX {
            self.trimmed.set(now);
            self.messages.trim_unused();
        }
        self.advance();
    }

    fn needs_ticks(&self) -> bool {
        !self.connections.borrow().is_empty()
            || !self.lingering.borrow().is_empty()
            || self.messages.has_spare()
    }
}

impl EventSource for Core {
    fn look(&self) {
        self.advance();
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // Its task ends, and closes the descriptors.
        self.driver.notify();
    }
}

/// The device that the settings name.
fn choose(
    library: &Arc<VerbsLibrary>,
    events: &Arc<EventChannel>,
    choice: &DeviceChoice,
) -> Result<DeviceContext, VerbsError> {
    match choice {
        DeviceChoice::First => {
            let devices = DeviceContext::all(library)?;
            devices.into_iter().next().ok_or(VerbsError::NoDevice)
        }
        DeviceChoice::Name(name) => {
            let devices = DeviceContext::all(library)?.into_iter();
            let mut named = devices.filter(|device| device.name() == *name);
            let unknown = || VerbsError::UnknownDevice { name: name.clone() };
            named.next().ok_or_else(unknown)
        }
        DeviceChoice::Address(address) => {
            let failed = |source| VerbsError::Address {
                address: *address,
                source,
            };
            let id = CmId::new(events).map_err(VerbsError::of_manager)?;
            id.bind(SocketAddr::new(*address, 0)).map_err(failed)?;
            let none = || failed(io::Error::from_raw_os_error(libc::ENODEV));
            id.device().ok_or_else(none)
        }
    }
}

/// The task that waits for the device.
struct Driver {
    core: Weak<Core>,
    notify: Rc<Notify>,
    events: Box<dyn DescriptorWatch>,
    completions: Box<dyn DescriptorWatch>,
    /// The next look at deadlines, while there are any.
    tick: Option<LocalFuture<()>>,
}

impl Driver {
    /// Ready when the core is gone, or its runtime ends.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        while self.notify.poll_notified(context).is_ready() {}
        let Some(core) = self.core.upgrade() else {
            return Poll::Ready(());
        };
        while let Poll::Ready(ready) = self.events.poll_readable(context) {
            if ready.is_err() {
                return Poll::Ready(());
            }
            while let Some(event) = core.events.take_event() {
                core.handle(event);
            }
            self.events.clear_readable();
        }
        while let Poll::Ready(ready) = self.completions.poll_readable(context) {
            if ready.is_err() {
                return Poll::Ready(());
            }
            // Armed before the queues are polled: what comes after the poll makes the next event.
            while let Some(event) = core.completions.take_event() {
                core.arm(&event);
            }
            self.completions.clear_readable();
        }
        core.advance();
        while core.needs_ticks() {
            let tick = self.tick.get_or_insert_with(|| sleep(&core.runtime, TICK));
            if tick.as_mut().poll(context).is_pending() {
                break;
            }
            self.tick = None;
            core.tick();
        }
        // The last holder of the core may have been this poll.
        drop(core);
        if self.core.strong_count() == 0 {
            return Poll::Ready(());
        }
        Poll::Pending
    }
}

/// True for a completion of work that was done.
pub(crate) fn is_done(completion: &Wc) -> bool {
    completion.status == status::SUCCESS
}
