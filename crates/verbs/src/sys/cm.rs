//! The connection manager: channels of events, and the ids of connections and listeners.

use super::bindings::{
    self, ConnParam, OPTION_ID, OPTION_ID_ACK_TIMEOUT, OPTION_ID_TOS, PS_TCP, QpInitAttr,
};
use super::device::{DeviceContext, ProtectionDomain, check};
use super::library::{Functions, VerbsLibrary};
use super::manager::Raw;
use super::queue::set_nonblocking;
use crate::VerbsError;
use std::ffi::{c_int, c_void};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::sync::{Arc, Mutex, PoisonError};

/// A channel of events that does not block.
pub(crate) struct EventChannel {
    raw: NonNull<bindings::EventChannel>,
    library: Arc<VerbsLibrary>,
}

// SAFETY: librdmacm allows calls with one channel from several threads at once.
unsafe impl Send for EventChannel {}
// SAFETY: as above.
unsafe impl Sync for EventChannel {}

/// The name of an id, as events bear it. The address of an id that lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct IdName(usize);

/// An event of the connection manager.
#[derive(Debug)]
pub(crate) struct Event {
    pub(crate) kind: EventKind,
    /// The id that it is for; a new one for a request.
    pub(crate) id: IdName,
    /// 0, an errno or a reason of the peer's connection manager.
    pub(crate) status: i32,
    /// Private data, with the padding of the connection manager.
    pub(crate) private_data: Vec<u8>,
    /// The number of RDMA Reads that the peer may have outstanding here.
    pub(crate) responder_resources: u8,
    /// The number of RDMA Reads that this end may have outstanding.
    pub(crate) initiator_depth: u8,
    /// The new id of a request, with the listener's name.
    pub(crate) request: Option<(IdName, CmId)>,
}

/// The events that Gannet tells apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EventKind {
    AddressResolved,
    RouteResolved,
    Request,
    Established,
    Disconnected,
    Rejected,
    Unreachable,
    /// The address, the route or the connection failed, by the status.
    Failed,
    DeviceRemoved,
    Other,
}

impl EventKind {
    fn of(event: u32) -> EventKind {
        match event {
            0 => EventKind::AddressResolved,
            2 => EventKind::RouteResolved,
            1 | 3 | 6 => EventKind::Failed,
            4 => EventKind::Request,
            7 => EventKind::Unreachable,
            8 => EventKind::Rejected,
            9 => EventKind::Established,
            10 => EventKind::Disconnected,
            11 => EventKind::DeviceRemoved,
            _ => EventKind::Other,
        }
    }

    /// Whether events of this kind carry private data.
    fn has_private_data(self) -> bool {
        let kinds = [
            EventKind::Request,
            EventKind::Established,
            EventKind::Rejected,
        ];
        kinds.contains(&self)
    }
}

impl EventChannel {
    /// A new channel.
    ///
    /// # Errors
    /// The kernel has no connection manager, or the process may not use it.
    pub(crate) fn new(library: &Arc<VerbsLibrary>) -> Result<Arc<EventChannel>, VerbsError> {
        let made = library.manage(|functions| {
            // SAFETY: the function takes nothing.
            let raw = unsafe { (functions.rdma_create_event_channel)() };
            let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
            Ok(Raw(raw))
        });
        let raw = made.map_err(VerbsError::of_manager)?.0;
        let channel = EventChannel {
            raw,
            library: Arc::clone(library),
        };
        set_nonblocking(channel.as_fd()).map_err(VerbsError::of_manager)?;
        Ok(Arc::new(channel))
    }

    /// Takes the next event; `None` when there is none.
    pub(crate) fn take_event(self: &Arc<Self>) -> Option<Event> {
        let channel = Raw(self.raw);
        let taken = self.library.manage(move |functions| {
            let mut raw = null_mut();
            // SAFETY: the channel lives, and the pointer is to a local variable.
            check(unsafe { (functions.rdma_get_cm_event)(channel.get(), &raw mut raw) })?;
            Ok(NonNull::new(raw).map(Raw))
        });
        match taken {
            Ok(raw) => {
                let raw = raw?.0;
                // SAFETY: the library returned an event, which lives until it is acknowledged.
                let event = unsafe { self.copy(raw.as_ref()) };
                // SAFETY: acknowledged once. The destruction of an id waits for this.
                unsafe { (self.library.functions.rdma_ack_cm_event)(raw.as_ptr()) };
                Some(event)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => None,
            Err(error) => {
                tracing::error!(%error, "the connection manager gives no events");
                None
            }
        }
    }

    /// Copies all that is needed of an event. `raw` comes from the library and is not acknowledged.
    unsafe fn copy(self: &Arc<Self>, raw: &bindings::CmEvent) -> Event {
        let kind = EventKind::of(raw.event);
        let mut private_data = Vec::new();
        let (data, len) = (raw.conn.private_data, raw.conn.private_data_len);
        if kind.has_private_data() && !data.is_null() && len > 0 {
            // SAFETY: the event has `len` bytes of private data there.
            let bytes = unsafe { std::slice::from_raw_parts(data.cast::<u8>(), len.into()) };
            private_data.extend_from_slice(bytes);
        }
        let request = (kind == EventKind::Request).then(|| NonNull::new(raw.id));
        let request = request.flatten().map(|id| {
            let id = CmId {
                raw: id,
                channel: Mutex::new(Arc::clone(self)),
            };
            (IdName(raw.listen_id as usize), id)
        });
        Event {
            kind,
            id: IdName(raw.id as usize),
            status: raw.status,
            private_data,
            responder_resources: raw.conn.responder_resources,
            initiator_depth: raw.conn.initiator_depth,
            request,
        }
    }
}

impl AsFd for EventChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel keeps the descriptor open.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }
}

impl Drop for EventChannel {
    fn drop(&mut self) {
        // SAFETY: the ids of the channel hold it and are gone.
        unsafe { (self.library.functions.rdma_destroy_event_channel)(self.raw.as_ptr()) };
    }
}

/// An id: a listener, or a connection at any stage.
pub(crate) struct CmId {
    pub(super) raw: NonNull<bindings::CmId>,
    /// The channel of its events.
    channel: Mutex<Arc<EventChannel>>,
}

// SAFETY: librdmacm allows calls with one id from several threads; its fields that are read here are set before the
// event that makes them of interest.
unsafe impl Send for CmId {}
// SAFETY: as above.
unsafe impl Sync for CmId {}

/// The parameters of a connection.
pub(crate) struct Parameters {
    pub(crate) private_data: Vec<u8>,
    /// RDMA Reads that the peer may have outstanding here.
    pub(crate) responder_resources: u8,
    /// RDMA Reads that this end may have outstanding.
    pub(crate) initiator_depth: u8,
    /// Times that a message which finds no receive is sent again; 7 is for ever.
    pub(crate) rnr_retries: u8,
}

impl CmId {
    /// A new id with its events on `channel`.
    ///
    /// # Errors
    /// The process is out of memory or of ids.
    pub(crate) fn new(channel: &Arc<EventChannel>) -> io::Result<CmId> {
        let of = Raw(channel.raw);
        let raw = channel.library.manage(move |functions| {
            let mut raw = null_mut();
            let create = functions.rdma_create_id;
            // SAFETY: the channel lives as long as the id, which holds it.
            check(unsafe { create(of.get(), &raw mut raw, null_mut(), PS_TCP) })?;
            let raw = NonNull::new(raw).ok_or(io::ErrorKind::OutOfMemory)?;
            Ok(Raw(raw))
        })?;
        Ok(CmId {
            raw: raw.0,
            channel: Mutex::new(Arc::clone(channel)),
        })
    }

    fn channel(&self) -> Arc<EventChannel> {
        Arc::clone(&self.channel.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn library(&self) -> Arc<VerbsLibrary> {
        Arc::clone(&self.channel().library)
    }

    /// The name that its events bear.
    pub(crate) fn name(&self) -> IdName {
        IdName(self.raw.as_ptr() as usize)
    }

    /// Its device; `None` before it is known.
    pub(crate) fn device(&self) -> Option<DeviceContext> {
        // SAFETY: the id lives.
        DeviceContext::of(&self.library(), unsafe { self.raw.as_ref().verbs })
    }

    /// The address of this end.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        // SAFETY: the id lives.
        address_of(unsafe { &self.raw.as_ref().src_addr })
    }

    /// The address of the peer.
    pub(crate) fn peer_address(&self) -> Option<SocketAddr> {
        // SAFETY: the id lives.
        address_of(unsafe { &self.raw.as_ref().dst_addr })
    }

    /// Runs a call with this id on the connection manager's thread.
    fn manage<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Functions, *mut bindings::CmId) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let id = Raw(self.raw);
        self.library()
            .manage(move |functions| call(functions, id.get()))
    }

    /// Binds to a local address; port 0 picks a free one.
    ///
    /// # Errors
    /// As bind(2); ENODEV when the address is of no RDMA device.
    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<()> {
        let mut address = storage_of(address);
        self.manage(move |functions, id| {
            // SAFETY: the address is long enough for its family.
            check(unsafe { (functions.rdma_bind_addr)(id, (&raw mut address).cast()) })
        })
    }

    /// Listens, with `backlog` requests waiting at most.
    ///
    /// # Errors
    /// As listen(2).
    pub(crate) fn listen(&self, backlog: i32) -> io::Result<()> {
        // SAFETY: the id lives.
        self.manage(move |functions, id| check(unsafe { (functions.rdma_listen)(id, backlog) }))
    }

    /// Starts to find device and address; an event reports the end.
    ///
    /// # Errors
    /// There is no route to the address.
    pub(crate) fn resolve_address(&self, address: SocketAddr, timeout_ms: i32) -> io::Result<()> {
        let mut address = storage_of(address);
        self.manage(move |functions, id| {
            let to = (&raw mut address).cast();
            // SAFETY: the address is long enough for its family; no source address is given.
            check(unsafe { (functions.rdma_resolve_addr)(id, null_mut(), to, timeout_ms) })
        })
    }

    /// Starts to find the path; an event reports the end.
    ///
    /// # Errors
    /// The id is in no state for it.
    pub(crate) fn resolve_route(&self, timeout_ms: i32) -> io::Result<()> {
        self.manage(move |functions, id| {
            // SAFETY: the id lives.
            check(unsafe { (functions.rdma_resolve_route)(id, timeout_ms) })
        })
    }

    /// Sets the traffic class of the packets of this end.
    ///
    /// # Errors
    /// The kernel has no such option.
    pub(crate) fn set_traffic_class(&self, class: u8) -> io::Result<()> {
        self.set_option(OPTION_ID_TOS, class)
    }

    /// Sets the time after which an unanswered packet is sent again: 4.096 µs times 2 to the power of `exponent`.
    ///
    /// # Errors
    /// The kernel has no such option, or the device takes no such time.
    pub(crate) fn set_ack_timeout(&self, exponent: u8) -> io::Result<()> {
        self.set_option(OPTION_ID_ACK_TIMEOUT, exponent)
    }

    fn set_option(&self, option: c_int, mut value: u8) -> io::Result<()> {
        self.manage(move |functions, id| {
            let value: *mut c_void = (&raw mut value).cast();
            // SAFETY: the options that are set here are of one byte.
            check(unsafe { (functions.rdma_set_option)(id, OPTION_ID, option, value, 1) })
        })
    }

    /// Asks the peer for the connection; an event reports the end. It may wait for the peer with iWARP.
    ///
    /// # Errors
    /// EINVAL for private data that is too long; errors of the network with iWARP.
    pub(crate) fn connect(&self, parameters: Parameters) -> io::Result<()> {
        let id = Raw(self.raw);
        let call = move |functions: &Functions| {
            let mut raw = parameters.raw()?;
            // SAFETY: the parameters live until the call returns.
            check(unsafe { (functions.rdma_connect)(id.get(), &raw mut raw) })
        };
        if self.device().is_some_and(|device| device.is_iwarp()) {
            return self.library().manage_apart(call);
        }
        self.library().manage(call)
    }

    /// Accepts a request; an event reports that the connection stands.
    ///
    /// # Errors
    /// EINVAL for private data that is too long; the peer gave up.
    pub(crate) fn accept(&self, parameters: Parameters) -> io::Result<()> {
        self.manage(move |functions, id| {
            let mut raw = parameters.raw()?;
            // SAFETY: the parameters live until the call returns.
            check(unsafe { (functions.rdma_accept)(id, &raw mut raw) })
        })
    }

    /// Refuses a request.
    ///
    /// # Errors
    /// EINVAL for private data that is too long; the peer gave up.
    pub(crate) fn reject(&self, private_data: &[u8]) -> io::Result<()> {
        let data = private_data.to_vec();
        let len = u8::try_from(data.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        self.manage(move |functions, id| {
            // SAFETY: the pointer has `len` bytes.
            check(unsafe { (functions.rdma_reject)(id, data.as_ptr().cast(), len) })
        })
    }

    /// Tells the peer that the connection ends, and answers a peer that does so. It breaks the pair.
    ///
    /// # Errors
    /// The connection has ended.
    pub(crate) fn disconnect(&self) -> io::Result<()> {
        // SAFETY: the id lives.
        self.manage(|functions, id| check(unsafe { (functions.rdma_disconnect)(id) }))
    }

    /// Moves the id to another channel. All its events must be acknowledged.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(crate) fn migrate(&self, channel: &Arc<EventChannel>) -> io::Result<()> {
        let to = Raw(channel.raw);
        self.manage(move |functions, id| {
            // SAFETY: the new channel lives as long as the id, which holds it from now on.
            check(unsafe { (functions.rdma_migrate_id)(id, to.get()) })
        })?;
        let mut own = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        *own = Arc::clone(channel);
        Ok(())
    }

    pub(super) fn create_pair(
        &self,
        domain: &Arc<ProtectionDomain>,
        attributes: QpInitAttr,
    ) -> io::Result<()> {
        let (domain, attributes) = (Raw(domain.raw), Box::new(attributes));
        let raw = Raw(NonNull::from(Box::leak(attributes)));
        self.manage(move |functions, id| {
            let create = functions.rdma_create_qp;
            // SAFETY: the queues in the attributes live as long as the pair, whose owner holds them.
            let made = check(unsafe { create(id, domain.get(), raw.get()) });
            // SAFETY: the attributes were leaked above, and no one else has them.
            drop(unsafe { Box::from_raw(raw.get()) });
            made
        })
    }

    pub(super) fn pair(&self) -> Option<NonNull<bindings::Qp>> {
        // SAFETY: the id lives.
        NonNull::new(unsafe { self.raw.as_ref().qp })
    }

    pub(super) fn destroy_pair(&self) {
        if self.pair().is_some() {
            let destroyed = self.manage(|functions, id| {
                // SAFETY: the id has a pair, and forgets it here.
                unsafe { (functions.rdma_destroy_qp)(id) };
                Ok(())
            });
            if let Err(error) = destroyed {
                tracing::error!(%error, "a queue pair could not be destroyed");
            }
        }
    }
}

impl Drop for CmId {
    fn drop(&mut self) {
        self.destroy_pair();
        // SAFETY: the id has no pair, and events of it are acknowledged at once.
        let destroyed =
            self.manage(|functions, id| check(unsafe { (functions.rdma_destroy_id)(id) }));
        if let Err(error) = destroyed {
            tracing::warn!(%error, "a connection's id could not be given back");
        }
    }
}

impl std::fmt::Debug for CmId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("CmId").field(&self.name().0).finish()
    }
}

impl Parameters {
    fn raw(&self) -> io::Result<ConnParam> {
        let len = u8::try_from(self.private_data.len());
        Ok(ConnParam {
            private_data: self.private_data.as_ptr().cast(),
            private_data_len: len.map_err(|_| io::ErrorKind::InvalidInput)?,
            responder_resources: self.responder_resources,
            initiator_depth: self.initiator_depth,
            flow_control: 0,
            retry_count: 7,
            rnr_retry_count: self.rnr_retries,
            srq: 0,
            qp_num: 0,
        })
    }
}

fn storage_of(address: SocketAddr) -> libc::sockaddr_storage {
    // SAFETY: all zeros is a valid value.
    let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
    let raw = &raw mut storage;
    match address {
        SocketAddr::V4(address) => {
            // SAFETY: a storage is long enough and aligned for every family.
            let to = unsafe { &mut *raw.cast::<libc::sockaddr_in>() };
            to.sin_family = libc::AF_INET as libc::sa_family_t;
            to.sin_port = address.port().to_be();
            to.sin_addr.s_addr = u32::from_ne_bytes(address.ip().octets());
        }
        SocketAddr::V6(address) => {
            // SAFETY: as above.
            let to = unsafe { &mut *raw.cast::<libc::sockaddr_in6>() };
            to.sin6_family = libc::AF_INET6 as libc::sa_family_t;
            to.sin6_port = address.port().to_be();
            to.sin6_addr.s6_addr = address.ip().octets();
            to.sin6_flowinfo = address.flowinfo();
            to.sin6_scope_id = address.scope_id();
        }
    }
    storage
}

fn address_of(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
    let raw: *const libc::sockaddr_storage = storage;
    match i32::from(storage.ss_family) {
        libc::AF_INET => {
            // SAFETY: a storage is long enough and aligned for every family.
            let from = unsafe { &*raw.cast::<libc::sockaddr_in>() };
            let ip = Ipv4Addr::from(from.sin_addr.s_addr.to_ne_bytes());
            Some(SocketAddrV4::new(ip, u16::from_be(from.sin_port)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: as above.
            let from = unsafe { &*raw.cast::<libc::sockaddr_in6>() };
            let ip = Ipv6Addr::from(from.sin6_addr.s6_addr);
            let port = u16::from_be(from.sin6_port);
            let address = SocketAddrV6::new(ip, port, from.sin6_flowinfo, from.sin6_scope_id);
            Some(address.into())
        }
        _ => None,
    }
}
