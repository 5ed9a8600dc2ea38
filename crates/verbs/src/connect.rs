//! Connections in set-up, of both sides.

use crate::connection::{Connection, InDevice};
use crate::core::{Core, IdWatch};
use crate::endpoint::VerbsEndpoint;
use crate::limits::{
    ACK_TIMEOUT_EXPONENT, READ_DEPTH_MAX, RECEIVE_QUEUE_MAX, RESOLVE_TIME_MAX, RNR_RETRIES,
    SEND_QUEUE_OWN, SETUP_TIME_MAX,
};
use crate::private_data::{check, private_data_limits, received};
use crate::receives::{OwnReceives, ReceiveSide, VerbsReceiveQueue};
use crate::sys::{CmId, Event, EventKind, PairLimits, PairQueues, Parameters, QueuePair};
use gannet_fabric::{
    ConnectError, ConnectOptions, Connected, Disconnected, EndpointAttributes, Incoming, Outgoing,
    Receives, WorkId,
};
use gannet_runtime::{Buffer, Dscp, Handle, LocalFuture, run_blocking, timeout};
use std::any::Any;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use tokio::sync::oneshot;

/// `IB_CM_REJ_CONSUMER_DEFINED`: the peer's program refused.
const REJECTED_BY_PROGRAM: i32 = 28;

/// Connects to `address`.
pub(crate) async fn connect(
    core: Rc<Core>,
    address: SocketAddr,
    options: ConnectOptions,
) -> Result<Connected, ConnectError> {
    let runtime = Rc::clone(&core.runtime);
    set_up(&runtime, async move |asked| {
        asked.connect(core, address, options).await
    })
    .await
}

/// Runs a set-up in a task of its own, because its caller may give up at any time. With iWARP the kernel then waits for
/// the peer when the id is used or destroyed, which would hold up this core.
async fn set_up(
    runtime: &Handle,
    steps: impl AsyncFnOnce(&mut Asked) -> Option<Result<Connected, ConnectError>> + 'static,
) -> Result<Connected, ConnectError> {
    let (answer, answered) = oneshot::channel();
    let task = async move {
        let mut asked = Asked(answer);
        if let Some(outcome) = steps(&mut asked).await {
            // The connection is dropped, and so ended, when the caller has gone.
            drop(asked.0.send(outcome));
        }
    };
    runtime.spawn("verbs set-up", Box::pin(task));
    let reset = |_| io::Error::from(io::ErrorKind::ConnectionReset);
    match timeout(runtime, SETUP_TIME_MAX, answered).await {
        Ok(outcome) => outcome.map_err(reset)?,
        Err(_) => Err(ConnectError::TimedOut),
    }
}

/// The caller that waits for a set-up.
struct Asked(oneshot::Sender<Result<Connected, ConnectError>>);

impl Asked {
    /// Waits for `future`, as long as the caller waits; `None` after that.
    async fn wait<T>(&mut self, future: impl Future<Output = T>) -> Option<T> {
        let mut future = std::pin::pin!(future);
        std::future::poll_fn(|context| {
            if let Poll::Ready(value) = future.as_mut().poll(context) {
                return Poll::Ready(Some(value));
            }
            self.0.poll_closed(context).map(|()| None)
        })
        .await
    }

    /// Waits until the connection stands; `None` when the caller has gone. The kernel bounds the wait with iWARP, and
    /// waits itself if the id is destroyed before: so the caller does not end the wait.
    async fn established(&mut self, pending: &Pending) -> Option<Result<Event, ConnectError>> {
        if pending.core.is_iwarp {
            return Some(pending.established().await);
        }
        self.wait(pending.established()).await
    }

    /// `None` when the caller has gone.
    async fn accept(
        &mut self,
        incoming: VerbsIncoming,
        options: ConnectOptions,
    ) -> Option<Result<Connected, ConnectError>> {
        let (peer_address, private_data) = (incoming.peer_address, incoming.private_data.clone());
        let (pending, ord) = match incoming.start_accept(options) {
            Ok(started) => started,
            Err(error) => return Some(Err(error)),
        };
        if let Err(error) = self.established(&pending).await? {
            return Some(Err(error));
        }
        Some(pending.open(ord, peer_address, private_data))
    }

    /// `None` when the caller has gone.
    async fn connect(
        &mut self,
        core: Rc<Core>,
        address: SocketAddr,
        options: ConnectOptions,
    ) -> Option<Result<Connected, ConnectError>> {
        let data = options.private_data.clone();
        let resolved = self.wait(resolve(&core, address, options)).await?;
        let (pending, depths) = match resolved {
            Ok(resolved) => resolved,
            Err(error) => return Some(Err(error)),
        };
        let id = Arc::clone(&pending.id);
        let ask = move || {
            id.connect(Parameters {
                private_data: data,
                responder_resources: depths.ird,
                initiator_depth: depths.ord,
                rnr_retries: RNR_RETRIES,
            })
        };
        // The call locks the id. With iWARP it may wait for the peer, so nothing else may use the id meanwhile.
        let asked = if core.is_iwarp {
            let asked = run_blocking(&core.runtime, ask).await;
            asked.unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
        } else {
            ask()
        };
        if let Err(error) = asked {
            return Some(Err(error.into()));
        }
        let event = match self.established(&pending).await? {
            Ok(event) => event,
            Err(error) => return Some(Err(error)),
        };
        let ord = depths.ord.min(event.initiator_depth);
        let max = private_data_limits(pending.core.is_iwarp).reply_max;
        Some(pending.open(ord, address, received(event.private_data, max)))
    }
}

/// Finds device and path to `address`, and makes the pair.
async fn resolve(
    core: &Rc<Core>,
    address: SocketAddr,
    options: ConnectOptions,
) -> Result<(Pending, Depths), ConnectError> {
    check(
        &options.private_data,
        private_data_limits(core.is_iwarp).request_max,
    )?;
    let id = Arc::new(CmId::new(&core.events)?);
    let watch = core.watch_id(&id);
    let resolve_ms = RESOLVE_TIME_MAX.as_millis() as i32;
    id.resolve_address(address, resolve_ms)?;
    expect(&watch, EventKind::AddressResolved, core.is_iwarp).await?;
    if id.device().as_ref() != Some(&core.device) {
        let why = "the address is reached through another device";
        return Err(ConnectError::Unsupported(why));
    }
    set_options(&id, options.traffic_class)?;
    id.resolve_route(resolve_ms)?;
    expect(&watch, EventKind::RouteResolved, core.is_iwarp).await?;
    let depths = Depths {
        ord: depth(options.ord, core.limits.max_qp_init_rd_atom),
        ird: depth(options.ird, core.limits.max_qp_rd_atom),
    };
    let pending = Pending::new(core, &id, watch, options, depths)?;
    Ok((pending, depths))
}

/// RDMA Reads in each direction, as the connection manager counts them.
#[derive(Debug, Clone, Copy)]
struct Depths {
    ord: u8,
    ird: u8,
}

fn depth(wanted: u16, device: u32) -> u8 {
    let device = u16::try_from(device).unwrap_or(u16::MAX);
    wanted.min(device).min(READ_DEPTH_MAX) as u8
}

fn set_options(id: &CmId, class: Dscp) -> Result<(), ConnectError> {
    if class != Dscp::default() {
        let unsupported = |_| ConnectError::Unsupported("a traffic class");
        id.set_traffic_class(class.to_byte()).map_err(unsupported)?;
    }
    if let Err(error) = id.set_ack_timeout(ACK_TIMEOUT_EXPONENT) {
        // A dead peer is noticed later then.
        tracing::debug!(%error, "the time of an acknowledgement cannot be set");
    }
    Ok(())
}

/// The next event, which must be of this kind.
async fn expect(watch: &IdWatch, wanted: EventKind, is_iwarp: bool) -> Result<Event, ConnectError> {
    loop {
        let event = watch.events.queue.borrow_mut().pop_front();
        let Some(event) = event else {
            watch.events.notify.notified().await;
            continue;
        };
        if event.kind == wanted {
            return Ok(event);
        }
        if event.kind != EventKind::Other {
            return Err(failure(event, is_iwarp));
        }
    }
}

/// The error that an event reports.
fn failure(event: Event, is_iwarp: bool) -> ConnectError {
    let errno = event.status.saturating_abs();
    match event.kind {
        // iWARP names no cause. A port without listener fails in the connect itself.
        EventKind::Rejected if is_iwarp || errno == REJECTED_BY_PROGRAM => ConnectError::Rejected {
            private_data: received(event.private_data, private_data_limits(is_iwarp).reply_max),
        },
        EventKind::Rejected => io::Error::from(io::ErrorKind::ConnectionRefused).into(),
        EventKind::Unreachable | EventKind::Failed if errno == libc::ETIMEDOUT => {
            ConnectError::TimedOut
        }
        EventKind::Unreachable if errno == 0 => {
            io::Error::from(io::ErrorKind::HostUnreachable).into()
        }
        EventKind::Unreachable | EventKind::Failed => io::Error::from_raw_os_error(errno).into(),
        EventKind::DeviceRemoved => io::Error::from_raw_os_error(libc::ENODEV).into(),
        _ => io::Error::from(io::ErrorKind::ConnectionReset).into(),
    }
}

/// A connection in set-up; its drop ends it.
struct Pending {
    core: Rc<Core>,
    id: Arc<CmId>,
    events: Rc<crate::core::IdEvents>,
    connection: Option<Rc<Connection>>,
}

impl Pending {
    /// Makes the pair and posts the receives.
    fn new(
        core: &Rc<Core>,
        id: &Arc<CmId>,
        watch: IdWatch,
        options: ConnectOptions,
        depths: Depths,
    ) -> Result<Pending, ConnectError> {
        let events = Rc::clone(&watch.events);
        let (own, shared) = match options.receives {
            Receives::Own(own) => (own, None),
            Receives::Shared { queue, granted } => {
                let queue: Rc<dyn Any> = queue;
                let queue = queue.downcast::<VerbsReceiveQueue>();
                let unfit = |_| ConnectError::Unsupported("receives of another provider");
                (Vec::new(), Some((queue.map_err(unfit)?, granted)))
            }
        };
        let receive_queue_max = RECEIVE_QUEUE_MAX.min(core.limits.max_qp_wr);
        if own.len() > receive_queue_max as usize {
            return Err(ConnectError::Unsupported("this many receives"));
        }
        let queue = shared.as_ref().map(|(queue, _)| &**queue);
        let device = make_pair(core, id, watch, queue)?;
        let attributes = EndpointAttributes {
            ord: depths.ord.into(),
            ird: depths.ird.into(),
            send_queue_max: core.send_queue_max(),
            receive_queue_max,
            send_sge_max: 1,
            read_sge_max: 1,
            exceptions: false,
            immediates: options.immediates && !core.is_iwarp,
        };
        let side = match shared {
            Some((queue, granted)) => ReceiveSide::Shared {
                _queue: queue,
                granted,
            },
            None => ReceiveSide::Own(OwnReceives::default()),
        };
        let connection = Connection::new(core, device, side, attributes);
        let pending = Pending {
            core: Rc::clone(core),
            id: Arc::clone(id),
            events,
            connection: Some(connection),
        };
        pending.post(own)?;
        Ok(pending)
    }

    fn post(&self, receives: Vec<Buffer>) -> Result<(), ConnectError> {
        let unfit = |_| ConnectError::Unsupported("memory of a receive that cannot be registered");
        for (id, buffer) in (0..).map(WorkId).zip(receives) {
            if let Some(connection) = &self.connection {
                connection.post_receive(id, buffer).map_err(unfit)?;
            }
        }
        Ok(())
    }

    /// Waits until the connection stands.
    async fn established(&self) -> Result<Event, ConnectError> {
        loop {
            let event = self.events.queue.borrow_mut().pop_front();
            match event {
                None => self.events.notify.notified().await,
                Some(event) if event.kind == EventKind::Established => return Ok(event),
                Some(event) if event.kind == EventKind::Other => {}
                Some(event) => return Err(failure(event, self.core.is_iwarp)),
            }
        }
    }

    /// Hands the connection to its owner.
    fn open(
        mut self,
        ord: u8,
        peer_address: SocketAddr,
        private_data: Vec<u8>,
    ) -> Result<Connected, ConnectError> {
        let reset = || ConnectError::from(io::Error::from(io::ErrorKind::ConnectionReset));
        let connection = self.connection.take().ok_or_else(reset)?;
        let endpoint = VerbsEndpoint {
            peer_address: self.id.peer_address().unwrap_or(peer_address),
            private_data,
            connection,
        };
        endpoint.connection.open(ord.into()).map_err(|_| reset())?;
        Ok(Rc::new(endpoint))
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            connection.abort(Disconnected::Local);
            connection.discard();
        }
    }
}

/// Makes a pair. The bytes that a post may copy are found by trial: devices refuse more than they have room for.
fn make_pair(
    core: &Rc<Core>,
    id: &Arc<CmId>,
    watch: IdWatch,
    queue: Option<&VerbsReceiveQueue>,
) -> Result<InDevice, ConnectError> {
    let sends = core.send_queue_max() + SEND_QUEUE_OWN;
    let receives = match queue {
        Some(_) => 0,
        None => RECEIVE_QUEUE_MAX.min(core.limits.max_qp_wr),
    };
    let reservation = core.reserve(sends + receives)?;
    loop {
        let inline = core.inline_max.get();
        let limits = PairLimits {
            sends,
            receives,
            inline,
        };
        let queues = PairQueues {
            sent: reservation.queue(),
            received: queue.map_or(reservation.queue(), VerbsReceiveQueue::completions),
            shared: queue.map(VerbsReceiveQueue::queue),
        };
        match QueuePair::new(Arc::clone(id), &core.protection, queues, limits) {
            Ok(pair) => {
                return Ok(InDevice {
                    pair,
                    _reservation: reservation,
                    watch,
                });
            }
            Err(error) if inline > 0 && error.raw_os_error() == Some(libc::EINVAL) => {
                core.inline_max.set(inline / 2);
            }
            Err(error) => return Err(error.into()),
        }
    }
}

/// A request of a peer.
pub(crate) struct VerbsIncoming {
    core: Rc<Core>,
    id: Arc<CmId>,
    watch: IdWatch,
    peer_address: SocketAddr,
    private_data: Vec<u8>,
    peer_depths: Depths,
}

/// A request as it comes from the connection manager; it can move to another core.
pub(crate) struct Request {
    pub(crate) id: CmId,
    pub(crate) private_data: Vec<u8>,
    /// RDMA Reads that the peer wants to have outstanding.
    pub(crate) responder_resources: u8,
    /// RDMA Reads that the peer takes.
    pub(crate) initiator_depth: u8,
}

impl Request {
    /// The request in an event.
    pub(crate) fn of(event: Event) -> Option<Request> {
        let (_, id) = event.request?;
        Some(Request {
            id,
            private_data: event.private_data,
            responder_resources: event.responder_resources,
            initiator_depth: event.initiator_depth,
        })
    }

    /// The request as `core` has it, whose channel the id's events come to; `None` when the peer comes through another
    /// device, or has gone. The drop of the id refuses it then.
    pub(crate) fn into_incoming(self, core: &Rc<Core>) -> Option<VerbsIncoming> {
        if self.id.device().as_ref() != Some(&core.device) {
            tracing::warn!("a peer came through another device and is refused");
            return None;
        }
        Some(VerbsIncoming {
            core: Rc::clone(core),
            watch: core.watch_id(&self.id),
            peer_address: self.id.peer_address()?,
            private_data: received(
                self.private_data,
                private_data_limits(core.is_iwarp).request_max,
            ),
            peer_depths: Depths {
                ord: self.responder_resources,
                ird: self.initiator_depth,
            },
            id: Arc::new(self.id),
        })
    }
}

impl VerbsIncoming {
    /// Makes the pair and answers the peer. Gives the RDMA Reads from here, too.
    fn start_accept(self, mut options: ConnectOptions) -> Result<(Pending, u8), ConnectError> {
        let VerbsIncoming {
            core,
            id,
            watch,
            peer_depths,
            ..
        } = self;
        check(
            &options.private_data,
            private_data_limits(core.is_iwarp).reply_max,
        )?;
        set_options(&id, options.traffic_class)?;
        let depths = Depths {
            ord: depth(options.ord, core.limits.max_qp_init_rd_atom).min(peer_depths.ird),
            ird: depth(options.ird, core.limits.max_qp_rd_atom),
        };
        let private_data = std::mem::take(&mut options.private_data);
        let pending = Pending::new(&core, &id, watch, options, depths)?;
        id.accept(Parameters {
            private_data,
            responder_resources: depths.ird,
            initiator_depth: depths.ord,
            rnr_retries: RNR_RETRIES,
        })?;
        Ok((pending, depths.ord))
    }
}

impl Incoming for VerbsIncoming {
    fn peer_address(&self) -> SocketAddr {
        self.peer_address
    }

    fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    fn read_depths(&self) -> Option<(u16, u16)> {
        Some((self.peer_depths.ird.into(), self.peer_depths.ord.into()))
    }

    fn accept(self: Box<Self>, options: ConnectOptions) -> Outgoing {
        Box::pin(async move {
            let runtime = Rc::clone(&self.core.runtime);
            set_up(&runtime, async move |asked| {
                asked.accept(*self, options).await
            })
            .await
        })
    }

    fn reject(self: Box<Self>, private_data: Vec<u8>) -> LocalFuture<()> {
        let max = private_data_limits(self.core.is_iwarp).reply_max;
        let data = private_data.get(..max).unwrap_or(&private_data);
        if let Err(error) = self.id.reject(data) {
            tracing::debug!(%error, "a peer that is refused had gone");
        }
        Box::pin(std::future::ready(()))
    }
}

/// A connection that stands, on an id that has its device.
#[cfg(test)]
pub(crate) fn connected(
    core: &Rc<Core>,
    id: CmId,
    options: ConnectOptions,
) -> Result<Connected, ConnectError> {
    let id = Arc::new(id);
    let watch = core.watch_id(&id);
    let depths = Depths { ord: 4, ird: 4 };
    let pending = Pending::new(core, &id, watch, options, depths)?;
    let peer = SocketAddr::from(([127, 0, 0, 1], 1));
    pending.open(depths.ord, peer, Vec::new())
}
