//! Completion queues, shared receive queues, queue pairs.

use super::bindings::{
    self, BindMw, QP_STATE, QPS_ERR, QPT_RC, QpAttr, QpInitAttr, RecvWr, SEND_INLINE,
    SEND_SIGNALED, SEND_SOLICITED, SendWr, Sge, SrqInitAttr, WC_WITH_INV, WC_WITH_INV_OF_RXE,
    WR_BIND_MW, WR_LOCAL_INV, WR_RDMA_READ, WR_RDMA_WRITE, WR_RDMA_WRITE_WITH_IMM, WR_SEND,
    WR_SEND_WITH_INV, Wc,
};
use super::cm::CmId;
use super::device::{DeviceContext, ProtectionDomain, check};
use super::manager::Raw;
use super::memory::Piece;
use super::window::WindowBind;
use std::ffi::c_uint;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::{NonNull, null_mut};
use std::rc::Rc;
use std::sync::Arc;

/// Completions that are taken at once.
pub(crate) const POLL_MAX: usize = 32;

/// The descriptor that becomes readable when an armed completion queue has a completion.
pub(crate) struct CompletionChannel {
    raw: NonNull<bindings::CompChannel>,
    device: DeviceContext,
}

impl CompletionChannel {
    /// A channel whose descriptor does not block.
    ///
    /// # Errors
    /// The process is out of descriptors.
    pub(crate) fn new(device: &DeviceContext) -> io::Result<Rc<CompletionChannel>> {
        let create = device.library.functions.ibv_create_comp_channel;
        // SAFETY: the context is open.
        let raw = unsafe { create(device.raw.as_ptr()) };
        let channel = CompletionChannel {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            device: device.clone(),
        };
        set_nonblocking(channel.as_fd())?;
        Ok(Rc::new(channel))
    }

    /// Takes the next event; the queue that it names is disarmed. `None` when there is none.
    pub(crate) fn take_event(&self) -> Option<EventOf> {
        let functions = &self.device.library.functions;
        let (mut queue, mut context) = (null_mut(), null_mut());
        // SAFETY: the channel lives, and the pointers are to local variables.
        let status = unsafe {
            (functions.ibv_get_cq_event)(self.raw.as_ptr(), &raw mut queue, &raw mut context)
        };
        if status != 0 {
            return None;
        }
        // SAFETY: the event names a queue that lives: its destruction waits for this call.
        unsafe { (functions.ibv_ack_cq_events)(queue, 1) };
        Some(EventOf(queue))
    }
}

/// The completion queue that an event names.
#[derive(PartialEq, Eq)]
pub(crate) struct EventOf(*mut bindings::Cq);

impl AsFd for CompletionChannel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: the channel keeps the descriptor open.
        unsafe { BorrowedFd::borrow_raw(self.raw.as_ref().fd) }
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        let destroy = self.device.library.functions.ibv_destroy_comp_channel;
        // SAFETY: the queues of the channel hold it and are gone.
        unsafe { destroy(self.raw.as_ptr()) };
    }
}

/// A completion queue.
pub(crate) struct CompletionQueue {
    raw: NonNull<bindings::Cq>,
    poll: bindings::PollCq,
    arm: bindings::ReqNotifyCq,
    /// Calls go through the manager's thread.
    by_manager: bool,
    /// A flag of a completion says [`WC_WITH_INV`] too.
    with_inv_alias: u32,
    channel: Rc<CompletionChannel>,
}

impl CompletionQueue {
    /// A queue for at least `len` completions.
    ///
    /// # Errors
    /// The device has no room, or `len` passes its limit.
    pub(crate) fn new(channel: &Rc<CompletionChannel>, len: u32) -> io::Result<CompletionQueue> {
        let device = &channel.device;
        let limits = device.limits()?;
        let by_manager = limits.posts_by_calls();
        let create = device.library.functions.ibv_create_cq;
        let (context, channel_raw) = (device.raw.as_ptr(), channel.raw.as_ptr());
        let len = i32::try_from(len).unwrap_or(i32::MAX);
        // SAFETY: context and channel live as long as the queue, which holds them.
        let raw = unsafe { create(context, len, null_mut(), channel_raw, 0) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the context is that of the driver, which fills in the functions.
        let (poll, arm) = unsafe { ((*context).poll_cq, (*context).req_notify_cq) };
        let missing = || io::Error::from(io::ErrorKind::Unsupported);
        Ok(CompletionQueue {
            raw,
            poll: poll.ok_or_else(missing)?,
            arm: arm.ok_or_else(missing)?,
            by_manager,
            with_inv_alias: if limits.is_rxe() {
                WC_WITH_INV_OF_RXE
            } else {
                0
            },
            channel: Rc::clone(channel),
        })
    }

    /// Completions for which the device made room.
    pub(crate) fn len(&self) -> u32 {
        // SAFETY: the queue lives.
        u32::try_from(unsafe { self.raw.as_ref().cqe }).unwrap_or(0)
    }

    /// Takes completions, oldest first, and returns their number.
    pub(crate) fn poll(&self, completions: &mut [Wc; POLL_MAX]) -> usize {
        // SAFETY: the array has room for as many as are asked for.
        let count =
            unsafe { (self.poll)(self.raw.as_ptr(), POLL_MAX as i32, completions.as_mut_ptr()) };
        let count = usize::try_from(count).unwrap_or(0).min(POLL_MAX);
        for completion in &mut completions[..count] {
            if completion.wc_flags & self.with_inv_alias != 0 {
                completion.wc_flags |= WC_WITH_INV;
            }
        }
        count
    }

    /// Asks for an event when the next completion comes. Completions from before need a poll after this.
    ///
    /// # Errors
    /// The device refuses.
    pub(crate) fn arm(&self) -> io::Result<()> {
        let (arm, queue) = (self.arm, Raw(self.raw));
        // SAFETY: the queue lives, and this waits for the call.
        let call = move || check(unsafe { arm(queue.get(), 0) });
        if self.by_manager {
            let library = &self.channel.device.library;
            return library.manage(move |_| call());
        }
        call()
    }

    pub(crate) fn is_of(&self, event: &EventOf) -> bool {
        self.raw.as_ptr() == event.0
    }
}

impl Drop for CompletionQueue {
    fn drop(&mut self) {
        // SAFETY: the pairs of the queue hold it and are gone.
        unsafe { (self.channel.device.library.functions.ibv_destroy_cq)(self.raw.as_ptr()) };
    }
}

/// A receive for a post.
pub(crate) struct ReceiveWork {
    pub(crate) id: u64,
    pub(crate) piece: Piece,
}

/// A shared receive queue.
pub(crate) struct SharedQueue {
    raw: NonNull<bindings::Srq>,
    post: bindings::PostSrqRecv,
    domain: Arc<ProtectionDomain>,
}

impl SharedQueue {
    /// A queue of at least `len` receives of one piece each.
    ///
    /// # Errors
    /// The device has no room, or `len` passes its limit.
    pub(crate) fn new(domain: &Arc<ProtectionDomain>, len: u32) -> io::Result<SharedQueue> {
        let mut attributes = SrqInitAttr {
            srq_context: null_mut(),
            max_wr: len,
            max_sge: 1,
            srq_limit: 0,
        };
        let create = domain.device.library.functions.ibv_create_srq;
        // SAFETY: the domain lives as long as the queue, which holds it.
        let raw = unsafe { create(domain.raw.as_ptr(), &raw mut attributes) };
        let raw = NonNull::new(raw).ok_or_else(io::Error::last_os_error)?;
        // SAFETY: the context is that of the driver.
        let post = unsafe { (*raw.as_ref().context).post_srq_recv };
        Ok(SharedQueue {
            raw,
            post: post.ok_or_else(|| io::Error::from(io::ErrorKind::Unsupported))?,
            domain: Arc::clone(domain),
        })
    }

    /// Posts receives. The caller keeps their memory until they complete or the queue is gone.
    ///
    /// # Errors
    /// The first receive that was not posted, as an index; none behind it was.
    pub(crate) fn post(&self, work: &[ReceiveWork]) -> Result<(), usize> {
        post_receives(work, |first, bad| {
            // SAFETY: the list of requests is whole and lives until the call returns.
            unsafe { (self.post)(self.raw.as_ptr(), first, bad) }
        })
    }
}

impl Drop for SharedQueue {
    fn drop(&mut self) {
        // SAFETY: the pairs of the queue hold it and are gone.
        unsafe { (self.domain.device.library.functions.ibv_destroy_srq)(self.raw.as_ptr()) };
    }
}

fn post_receives(
    work: &[ReceiveWork],
    post: impl FnOnce(*mut RecvWr, *mut *mut RecvWr) -> i32,
) -> Result<(), usize> {
    let mut pieces: Vec<Sge> = work.iter().map(|work| work.piece.0).collect();
    let mut requests: Vec<RecvWr> = (work.iter().zip(&mut pieces))
        .map(|(work, piece)| RecvWr {
            wr_id: work.id,
            next: null_mut(),
            sg_list: piece,
            num_sge: i32::from(work.piece.len() > 0),
        })
        .collect();
    let Some(first) = chain(&mut requests, |request, next| request.next = next) else {
        return Ok(());
    };
    let mut bad = null_mut();
    let status = post(first, &raw mut bad);
    if status == 0 {
        return Ok(());
    }
    Err(index_of(&requests, bad as usize))
}

/// Links the requests in their order; `None` when there is none.
fn chain<T>(requests: &mut [T], link: impl Fn(&mut T, *mut T)) -> Option<*mut T> {
    let start = requests.as_mut_ptr();
    for index in 1..requests.len() {
        link(&mut requests[index - 1], start.wrapping_add(index));
    }
    (!requests.is_empty()).then_some(start)
}

/// The index of the request at which a post failed; the first where the driver names none.
fn index_of<T>(requests: &[T], bad: usize) -> usize {
    let bytes = bad.wrapping_sub(requests.as_ptr() as usize);
    let index = bytes / size_of::<T>();
    if index < requests.len() { index } else { 0 }
}

/// A work request of the send queue.
pub(crate) struct SendWork {
    pub(crate) id: u64,
    pub(crate) kind: WorkKind,
    pub(crate) piece: Option<Piece>,
    /// The memory of the piece is copied by the post.
    pub(crate) inline: bool,
    pub(crate) signaled: bool,
}

/// The operation of a work request.
#[derive(Clone, Copy)]
pub(crate) enum WorkKind {
    Send {
        solicited: bool,
    },
    SendAndInvalidate {
        key: u32,
        solicited: bool,
    },
    Write {
        address: u64,
        key: u32,
    },
    WriteWithImmediate {
        address: u64,
        key: u32,
        immediate: u32,
    },
    Read {
        address: u64,
        key: u32,
    },
    /// Gives a window to the connection.
    Bind(WindowBind),
    /// Takes a window away from it.
    Unbind {
        key: u32,
    },
}

impl SendWork {
    fn request(&self, piece: &mut Sge) -> SendWr {
        let solicit = |solicited: bool| if solicited { SEND_SOLICITED } else { 0 };
        // The third goes where the key of an invalidation and the immediate are.
        let (opcode, flags, key, address, rkey): (c_uint, c_uint, u32, u64, u32) = match self.kind {
            WorkKind::Send { solicited } => (WR_SEND, solicit(solicited), 0, 0, 0),
            WorkKind::SendAndInvalidate { key, solicited } => {
                (WR_SEND_WITH_INV, solicit(solicited), key, 0, 0)
            }
            WorkKind::Write { address, key } => (WR_RDMA_WRITE, 0, 0, address, key),
            WorkKind::WriteWithImmediate {
                address,
                key,
                immediate,
            } => (WR_RDMA_WRITE_WITH_IMM, 0, immediate.to_be(), address, key),
            WorkKind::Read { address, key } => (WR_RDMA_READ, 0, 0, address, key),
            WorkKind::Bind(_) => (WR_BIND_MW, 0, 0, 0, 0),
            WorkKind::Unbind { key } => (WR_LOCAL_INV, 0, key, 0, 0),
        };
        let bind_mw = match self.kind {
            WorkKind::Bind(bind) => bind.0,
            _ => BindMw {
                mw: null_mut(),
                rkey: 0,
                mr: null_mut(),
                addr: 0,
                length: 0,
                access: 0,
            },
        };
        let signaled = if self.signaled { SEND_SIGNALED } else { 0 };
        let inline = if self.inline { SEND_INLINE } else { 0 };
        SendWr {
            wr_id: self.id,
            next: null_mut(),
            num_sge: i32::from(piece.length > 0),
            sg_list: piece,
            opcode,
            send_flags: flags | signaled | inline,
            invalidate_rkey: key,
            remote_addr: address,
            rkey,
            rest: [0; 3],
            bind_mw,
        }
    }
}

/// The lengths of the queues of a new pair.
pub(crate) struct PairLimits {
    pub(crate) sends: u32,
    pub(crate) receives: u32,
    /// Bytes that a post may copy.
    pub(crate) inline: u32,
}

/// The queues that a new pair uses.
pub(crate) struct PairQueues<'a> {
    /// Completions of sends and RDMA.
    pub(crate) sent: &'a Rc<CompletionQueue>,
    /// Completions of receives.
    pub(crate) received: &'a Rc<CompletionQueue>,
    /// Receives that the pair shares.
    pub(crate) shared: Option<&'a Rc<SharedQueue>>,
}

/// A queue pair with the connection manager's id that connects it.
pub(crate) struct QueuePair {
    id: Arc<CmId>,
    raw: NonNull<bindings::Qp>,
    number: u32,
    post_send: bindings::PostSend,
    post_receive: bindings::PostRecv,
    sent: Rc<CompletionQueue>,
    _received: Rc<CompletionQueue>,
    _receives: Option<Rc<SharedQueue>>,
    domain: Arc<ProtectionDomain>,
}

impl QueuePair {
    /// Makes a pair on an id that has found its device.
    ///
    /// # Errors
    /// The device has no room, or the domain belongs to another device. The id is destroyed then.
    pub(crate) fn new(
        id: Arc<CmId>,
        domain: &Arc<ProtectionDomain>,
        queues: PairQueues<'_>,
        limits: PairLimits,
    ) -> io::Result<QueuePair> {
        let attributes = QpInitAttr {
            qp_context: null_mut(),
            send_cq: queues.sent.raw.as_ptr(),
            recv_cq: queues.received.raw.as_ptr(),
            srq: queues.shared.map_or(null_mut(), |queue| queue.raw.as_ptr()),
            max_send_wr: limits.sends,
            max_recv_wr: limits.receives,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: limits.inline,
            qp_type: QPT_RC,
            sq_sig_all: 0,
        };
        id.create_pair(domain, attributes)?;
        let raw = id.pair().ok_or(io::ErrorKind::NotConnected)?;
        // SAFETY: the pair was just made; its context is that of the driver.
        let (number, post_send, post_receive) = unsafe {
            let context = raw.as_ref().context;
            let posts = ((*context).post_send, (*context).post_recv);
            (raw.as_ref().qp_num, posts.0, posts.1)
        };
        let missing = || io::Error::from(io::ErrorKind::Unsupported);
        Ok(QueuePair {
            id,
            raw,
            number,
            post_send: post_send.ok_or_else(missing)?,
            post_receive: post_receive.ok_or_else(missing)?,
            sent: Rc::clone(queues.sent),
            _received: Rc::clone(queues.received),
            _receives: queues.shared.cloned(),
            domain: Arc::clone(domain),
        })
    }

    /// Its number, which completions carry.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// The id that connects it.
    pub(crate) fn id(&self) -> &Arc<CmId> {
        &self.id
    }

    /// Posts work. The caller keeps memory that is not inline until the work completes or the pair is gone.
    ///
    /// # Errors
    /// The first request that was not posted, as an index; none behind it was.
    pub(crate) fn post_send(&self, work: &[SendWork]) -> Result<(), usize> {
        let empty = Sge::default();
        let mut pieces: Vec<Sge> = (work.iter())
            .map(|work| work.piece.map_or(empty, |piece| piece.0))
            .collect();
        let mut requests: Vec<SendWr> = (work.iter().zip(&mut pieces))
            .map(|(work, piece)| work.request(piece))
            .collect();
        let Some(first) = chain(&mut requests, |request, next| request.next = next) else {
            return Ok(());
        };
        let (post, pair) = (self.post_send, Raw(self.raw));
        let first = Raw(NonNull::new(first).ok_or(0_usize)?);
        let call = move || {
            let mut bad = null_mut();
            // SAFETY: the list of requests is whole, and its owner waits for the call.
            let status = unsafe { post(pair.get(), first.get(), &raw mut bad) };
            (status, bad as usize)
        };
        let (status, bad) = if self.sent.by_manager {
            let library = &self.domain.device.library;
            library.manage(move |_| Ok(call())).unwrap_or((-1, 0))
        } else {
            call()
        };
        let posted = match status {
            0 => Ok(()),
            _ => Err(index_of(&requests, bad)),
        };
        let count = posted.err().unwrap_or(work.len());
        for work in work.iter().take(count) {
            if let WorkKind::Bind(bind) = work.kind {
                bind.posted();
            }
        }
        posted
    }

    /// Posts receives of its own. The caller keeps their memory until they complete or the pair is gone.
    ///
    /// # Errors
    /// The first receive that was not posted, as an index; none behind it was.
    pub(crate) fn post_receives(&self, work: &[ReceiveWork]) -> Result<(), usize> {
        post_receives(work, |first, bad| {
            // SAFETY: the list of requests is whole and lives until the call returns.
            unsafe { (self.post_receive)(self.raw.as_ptr(), first, bad) }
        })
    }

    /// Breaks the pair: all its work comes back as flushed.
    pub(crate) fn break_now(&self) {
        let mut attributes = MaybeUninit::<QpAttr>::zeroed();
        let modify = self.domain.device.library.functions.ibv_modify_qp;
        // SAFETY: the structure is as long as the library's, and valid when it is zeroed.
        let status = unsafe {
            (*attributes.as_mut_ptr()).qp_state = QPS_ERR;
            modify(self.raw.as_ptr(), attributes.as_mut_ptr(), QP_STATE)
        };
        if status != 0 {
            tracing::debug!(status, "a queue pair was in no state to be broken");
        }
    }
}

impl Drop for QueuePair {
    /// The device touches no memory of its work afterwards. The id lives on where another holds it.
    fn drop(&mut self) {
        self.id.destroy_pair();
    }
}

/// Sets O_NONBLOCK.
pub(super) fn set_nonblocking(descriptor: BorrowedFd<'_>) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(descriptor)?;
    rustix::fs::fcntl_setfl(descriptor, flags | rustix::fs::OFlags::NONBLOCK)?;
    Ok(())
}
