//! A device in the memory of a test: it records what is posted, and completes what the test says.

use super::bindings::{
    ABI_IS_EXTENDED, CmEvent, CmId, CompChannel, ConnParam, Context, Cq, DEVICE_MEM_WINDOW,
    DEVICE_MEM_WINDOW_TYPE_2B, Device, DeviceAttr, DeviceAttrEx, EventChannel, Gid, Mr, Mw,
    ODP_SUPPORT, Pd, PortAttr, Qp, QpAttr, QpInitAttr, QueryDeviceEx, RecvWr, SEND_INLINE,
    SEND_SIGNALED, SendWr, Srq, SrqInitAttr, VERBS_CONTEXT_QUERY_DEVICE_EX, VERBS_CONTEXT_SIZE,
    WC_RECV_RDMA_WITH_IMM, WC_WITH_INV, WR_BIND_MW, WR_LOCAL_INV, WR_RDMA_WRITE_WITH_IMM, Wc,
};
use super::device::DeviceContext;
use super::library::{Functions, VerbsLibrary};
use std::collections::{BTreeMap, VecDeque};
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::mem::offset_of;
use std::os::fd::IntoRawFd;
use std::ptr::{NonNull, null_mut};
use std::sync::{Mutex, MutexGuard};

/// A piece of work that was posted to the send queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Posted {
    pub(crate) id: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) signaled: bool,
    pub(crate) inline: bool,
    pub(crate) window: Option<WindowWork>,
    pub(crate) immediate: Option<u32>,
}

/// Work on a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowWork {
    /// The window's key after it.
    Bind(u32),
    /// The key that ends.
    Unbind(u32),
}

/// The record of the device.
#[derive(Default)]
pub(crate) struct Seen {
    /// Registrations now.
    pub(crate) registered: usize,
    pub(crate) registrations: u32,
    /// The rights of the latest registration.
    pub(crate) rights: c_int,
    /// Windows now, and those that were ever made.
    pub(crate) windows: usize,
    pub(crate) windows_made: u32,
    /// The keys of bound windows, each with that of its registration.
    pub(crate) bound: BTreeMap<u32, u32>,
    /// Registrations that were taken back, or pairs that were destroyed, under a bound window.
    pub(crate) faults: u32,
    /// Registrations fail.
    pub(crate) is_full: bool,
    /// Deregistrations fail.
    pub(crate) is_stuck: bool,
    /// Calls that posted sends.
    pub(crate) send_calls: usize,
    pub(crate) sent: Vec<Posted>,
    /// Receives in the order of their posts, as their numbers and addresses.
    pub(crate) receives: VecDeque<(u64, u64)>,
    pub(crate) completions: VecDeque<Wc>,
    pub(crate) pairs: u32,
}

/// A context with the functions of newer libraries in front of it (`struct verbs_context`).
#[repr(C)]
struct ExtendedContext {
    before: [usize; VERBS_CONTEXT_FRONT],
    fake: FakeContext,
}

/// Words of `struct verbs_context` in front of the context.
const VERBS_CONTEXT_FRONT: usize = 320 / size_of::<usize>();

/// A context with the device behind it.
#[repr(C)]
struct FakeContext {
    context: Context,
    device: Device,
    has_windows: bool,
    /// The operations for which it needs no pinned memory.
    paged: u32,
    seen: Mutex<Seen>,
}

#[repr(C)]
struct FakeMw {
    mw: Mw,
    context: *mut FakeContext,
}

#[repr(C)]
struct FakeMr {
    mr: Mr,
    context: *mut FakeContext,
}

/// A device of its own for one test.
#[derive(Clone)]
pub(crate) struct FakeDevice(*mut FakeContext);

impl FakeDevice {
    pub(crate) fn new() -> FakeDevice {
        // SAFETY: pointers, numbers and options of functions are valid when they are zeroed; the rest is set here.
        let raw = unsafe {
            let layout = std::alloc::Layout::new::<ExtendedContext>();
            let extended = std::alloc::alloc_zeroed(layout).cast::<ExtendedContext>();
            let raw = &raw mut (*extended).fake;
            (&raw mut (*raw).seen).write(Mutex::default());
            (*raw).context.device = &raw mut (*raw).device;
            (*raw).context.poll_cq = Some(poll_cq);
            (*raw).context.req_notify_cq = Some(req_notify_cq);
            (*raw).context.post_send = Some(post_send);
            (*raw).context.post_recv = Some(post_recv);
            (*raw).context.post_srq_recv = Some(post_srq_recv);
            (*raw).context.alloc_mw = Some(alloc_mw);
            (*raw).context.dealloc_mw = Some(dealloc_mw);
            raw
        };
        FakeDevice(raw)
    }

    /// A device that has memory windows.
    pub(crate) fn with_windows() -> FakeDevice {
        let device = FakeDevice::new();
        // SAFETY: nothing else knows the context yet.
        unsafe { (*device.0).has_windows = true };
        device
    }

    /// Has the device fetch pages when it needs them, for these operations.
    pub(crate) fn page_on_demand(&self, operations: u32) {
        // SAFETY: the context is the second part of an extended one, and of the test alone.
        unsafe {
            let extended = self.0.byte_sub(offset_of!(ExtendedContext, fake));
            let front = extended.cast::<usize>();
            let word = |before: usize| front.add(VERBS_CONTEXT_FRONT - before / size_of::<usize>());
            word(VERBS_CONTEXT_SIZE)
                .write(offset_of!(ExtendedContext, fake) + size_of::<Context>());
            let query: QueryDeviceEx = query_device_ex;
            word(VERBS_CONTEXT_QUERY_DEVICE_EX)
                .cast::<QueryDeviceEx>()
                .write(query);
            (*self.0).context.abi_compat = null_mut::<u8>().wrapping_add(ABI_IS_EXTENDED).cast();
            (*self.0).paged = operations;
        }
    }

    pub(crate) fn context(&self) -> DeviceContext {
        DeviceContext {
            raw: NonNull::new(self.0.cast()).expect("a context"),
            library: VerbsLibrary::of_functions(FUNCTIONS),
        }
    }

    pub(crate) fn seen(&self) -> MutexGuard<'_, Seen> {
        // SAFETY: contexts of tests are never freed.
        unsafe { (*self.0).seen.lock().expect("no panic inside") }
    }

    /// Fills the oldest receive with these bytes and completes it as a message to pair `qp_num`.
    pub(crate) fn deliver(&self, qp_num: u32, bytes: &[u8]) {
        self.deliver_with(qp_num, bytes, Wc::default());
    }

    /// As [`FakeDevice::deliver`], of a message that revokes `key`.
    pub(crate) fn deliver_invalidating(&self, qp_num: u32, bytes: &[u8], key: u32) {
        self.seen().bound.remove(&key);
        let revokes = Wc {
            wc_flags: WC_WITH_INV,
            invalidated_rkey: key,
            ..Wc::default()
        };
        self.deliver_with(qp_num, bytes, revokes);
    }

    /// Completes the oldest receive as that of an RDMA Write of `len` bytes with Immediate. No byte of it changes.
    pub(crate) fn deliver_immediate(&self, qp_num: u32, immediate: u32, len: u32) {
        let (wr_id, _) = self.seen().receives.pop_front().expect("a receive");
        self.seen().completions.push_back(Wc {
            wr_id,
            opcode: WC_RECV_RDMA_WITH_IMM,
            byte_len: len,
            invalidated_rkey: immediate.to_be(),
            qp_num,
            ..Wc::default()
        });
    }

    fn deliver_with(&self, qp_num: u32, bytes: &[u8], completion: Wc) {
        let (id, address) = self.seen().receives.pop_front().expect("a receive");
        // SAFETY: the receive names memory that its poster keeps.
        unsafe {
            let to = address as *mut u8;
            to.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        self.seen().completions.push_back(Wc {
            wr_id: id,
            opcode: 128,
            byte_len: bytes.len() as u32,
            qp_num,
            ..completion
        });
    }

    /// Completes the piece of work that was posted as number `index`.
    pub(crate) fn complete(&self, index: usize, status: u32) {
        let mut seen = self.seen();
        let wr_id = seen.sent[index].id;
        seen.completions.push_back(Wc {
            wr_id,
            status,
            ..Wc::default()
        });
    }
}

fn seen_of<'a>(context: *mut Context) -> MutexGuard<'a, Seen> {
    // SAFETY: all contexts of a test are fake ones, and never freed.
    let fake = unsafe { &*context.cast::<FakeContext>() };
    fake.seen.lock().expect("no panic inside")
}

unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    _: *const c_void,
    attributes: *mut DeviceAttrEx,
    len: usize,
) -> c_int {
    assert_eq!(len, size_of::<DeviceAttrEx>());
    // SAFETY: all contexts of a test are fake ones; the pointer is to a structure of the caller.
    unsafe {
        (*attributes).general_odp_caps = ODP_SUPPORT;
        (*attributes).rc_odp_caps = (*context.cast::<FakeContext>()).paged;
    }
    0
}

unsafe extern "C" fn poll_cq(queue: *mut Cq, max: c_int, to: *mut Wc) -> c_int {
    // SAFETY: the caller has room for `max` completions.
    unsafe {
        let mut seen = seen_of((*queue).context);
        let mut count = 0;
        while count < max
            && let Some(completion) = seen.completions.pop_front()
        {
            to.add(count as usize).write(completion);
            count += 1;
        }
        count
    }
}

unsafe extern "C" fn req_notify_cq(_: *mut Cq, _: c_int) -> c_int {
    0
}

unsafe extern "C" fn post_send(pair: *mut Qp, first: *mut SendWr, _: *mut *mut SendWr) -> c_int {
    // SAFETY: the caller passes a list of requests that name its memory.
    unsafe {
        let mut seen = seen_of((*pair).context);
        seen.send_calls += 1;
        let mut next = first;
        while let Some(work) = next.as_ref() {
            let piece = (work.num_sge > 0).then(|| *work.sg_list);
            let bytes = piece.map(|piece| {
                let from = piece.addr as *const u8;
                std::slice::from_raw_parts(from, piece.length as usize).to_vec()
            });
            seen.sent.push(Posted {
                id: work.wr_id,
                bytes: bytes.unwrap_or_default(),
                signaled: work.send_flags & SEND_SIGNALED != 0,
                inline: work.send_flags & SEND_INLINE != 0,
                window: match work.opcode {
                    WR_BIND_MW => Some(WindowWork::Bind(work.bind_mw.rkey)),
                    WR_LOCAL_INV => Some(WindowWork::Unbind(work.invalidate_rkey)),
                    _ => None,
                },
                immediate: (work.opcode == WR_RDMA_WRITE_WITH_IMM)
                    .then(|| u32::from_be(work.invalidate_rkey)),
            });
            match work.opcode {
                WR_BIND_MW => {
                    let named = work.bind_mw;
                    seen.faults += u32::from((*named.mw).rkey == named.rkey);
                    seen.bound.insert(named.rkey, (*named.mr).lkey);
                }
                WR_LOCAL_INV => drop(seen.bound.remove(&work.invalidate_rkey)),
                _ => {}
            }
            next = work.next;
        }
    }
    0
}

unsafe fn post_receives(context: *mut Context, first: *mut RecvWr) -> c_int {
    let mut seen = seen_of(context);
    let mut next = first;
    // SAFETY: the caller passes a list of requests.
    while let Some(work) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        let address = unsafe { (*work.sg_list).addr };
        seen.receives.push_back((work.wr_id, address));
        next = work.next;
    }
    0
}

unsafe extern "C" fn post_recv(pair: *mut Qp, first: *mut RecvWr, _: *mut *mut RecvWr) -> c_int {
    // SAFETY: as `post_receives`.
    unsafe { post_receives((*pair).context, first) }
}

unsafe extern "C" fn post_srq_recv(
    queue: *mut Srq,
    first: *mut RecvWr,
    _: *mut *mut RecvWr,
) -> c_int {
    // SAFETY: as `post_receives`.
    unsafe { post_receives((*queue).context, first) }
}

/// A zeroed object of the library's, which the test keeps for ever.
fn made<T>(set: impl FnOnce(&mut T)) -> *mut T {
    // SAFETY: the C structures here are valid when they are zeroed.
    let mut object: Box<T> = Box::new(unsafe { std::mem::zeroed() });
    set(&mut object);
    Box::into_raw(object)
}

unsafe extern "C" fn alloc_mw(domain: *mut Pd, _: c_uint) -> *mut Mw {
    // SAFETY: the domain is one of `ibv_alloc_pd` below.
    let context = unsafe { (*domain).context };
    let mut seen = seen_of(context);
    seen.windows += 1;
    seen.windows_made += 1;
    let key = seen.windows_made << 8;
    made(|object: &mut FakeMw| {
        object.mw.rkey = key;
        object.context = context.cast();
    })
    .cast()
}

unsafe extern "C" fn dealloc_mw(window: *mut Mw) -> c_int {
    // SAFETY: the window is one of `alloc_mw` above.
    let (context, key) = unsafe { ((*window.cast::<FakeMw>()).context, (*window).rkey) };
    let mut seen = seen_of(context.cast());
    seen.windows -= 1;
    seen.bound.remove(&key);
    0
}

unsafe extern "C" fn ibv_reg_mr(
    domain: *mut Pd,
    _: *mut c_void,
    _: usize,
    rights: c_int,
) -> *mut Mr {
    // SAFETY: the domain is one of `ibv_alloc_pd` below.
    let context = unsafe { (*domain).context };
    let mut seen = seen_of(context);
    if seen.is_full {
        return null_mut();
    }
    seen.registered += 1;
    seen.registrations += 1;
    seen.rights = rights;
    let key = seen.registrations;
    made(|object: &mut FakeMr| {
        object.mr.lkey = key;
        object.mr.rkey = 0x100 + key;
        object.context = context.cast();
    })
    .cast()
}

unsafe extern "C" fn ibv_dereg_mr(registration: *mut Mr) -> c_int {
    // SAFETY: the registration is one of `ibv_reg_mr` above.
    let (context, key) = unsafe {
        (
            (*registration.cast::<FakeMr>()).context,
            (*registration).lkey,
        )
    };
    let mut seen = seen_of(context.cast());
    if seen.is_stuck {
        return libc::EBUSY;
    }
    seen.faults += u32::from(seen.bound.values().any(|bound| *bound == key));
    seen.registered -= 1;
    0
}

unsafe extern "C" fn rdma_create_qp(id: *mut CmId, _: *mut Pd, _: *mut QpInitAttr) -> c_int {
    // SAFETY: the id is one of `rdma_create_id` below, with the context that the test set.
    unsafe {
        let context = (*id).verbs;
        let number = {
            let mut seen = seen_of(context);
            seen.pairs += 1;
            seen.pairs
        };
        (*id).qp = made(|pair: &mut Qp| {
            pair.context = context;
            pair.qp_num = number;
        });
    }
    0
}

unsafe extern "C" fn rdma_destroy_qp(id: *mut CmId) {
    // SAFETY: the id lives.
    unsafe {
        let mut seen = seen_of((*id).verbs);
        seen.faults += u32::from(!seen.bound.is_empty());
        (*id).qp = null_mut();
    }
}

unsafe extern "C" fn rdma_create_id(
    _: *mut EventChannel,
    id: *mut *mut CmId,
    _: *mut c_void,
    _: c_uint,
) -> c_int {
    // SAFETY: the pointer is to a variable of the caller.
    unsafe { *id = made(|_: &mut CmId| {}) };
    0
}

/// A descriptor that never becomes readable.
fn silent() -> c_int {
    let descriptor = rustix::event::eventfd(0, rustix::event::EventfdFlags::empty());
    descriptor.expect("a descriptor").into_raw_fd()
}

/// Sets the device of an id, as a resolved address would.
pub(crate) fn place(id: &super::CmId, device: &FakeDevice) {
    // SAFETY: the id is one of `rdma_create_id` above.
    unsafe { (*id.raw.as_ptr()).verbs = device.0.cast() };
}

const FUNCTIONS: Functions = {
    unsafe extern "C" fn name(_: *mut Device) -> *const c_char {
        c"fake0".as_ptr()
    }
    unsafe extern "C" fn query_device(context: *mut Context, attributes: *mut DeviceAttr) -> c_int {
        // SAFETY: all contexts of a test are fake ones; the pointer is to a structure of the caller.
        unsafe {
            if (*context.cast::<FakeContext>()).has_windows {
                (*attributes).device_cap_flags = DEVICE_MEM_WINDOW | DEVICE_MEM_WINDOW_TYPE_2B;
            }
            (*attributes).max_qp_wr = 1024;
            (*attributes).max_cqe = 4096;
            (*attributes).max_srq_wr = 1024;
            (*attributes).phys_port_cnt = 1;
        }
        0
    }
    unsafe extern "C" fn query_port(_: *mut Context, _: u8, attributes: *mut PortAttr) -> c_int {
        // SAFETY: as above.
        unsafe { (*attributes).max_msg_sz = 1 << 20 };
        0
    }
    unsafe extern "C" fn query_gid(_: *mut Context, _: u8, _: c_int, _: *mut Gid) -> c_int {
        0
    }
    unsafe extern "C" fn alloc_pd(context: *mut Context) -> *mut Pd {
        made(|domain: &mut Pd| domain.context = context)
    }
    unsafe extern "C" fn free_pd(_: *mut Pd) -> c_int {
        0
    }
    unsafe extern "C" fn create_channel(_: *mut Context) -> *mut CompChannel {
        made(|channel: &mut CompChannel| channel.fd = silent())
    }
    unsafe extern "C" fn destroy_channel(_: *mut CompChannel) -> c_int {
        0
    }
    unsafe extern "C" fn create_cq(
        context: *mut Context,
        len: c_int,
        _: *mut c_void,
        _: *mut CompChannel,
        _: c_int,
    ) -> *mut Cq {
        made(|queue: &mut Cq| {
            queue.context = context;
            queue.cqe = len;
        })
    }
    unsafe extern "C" fn destroy_cq(_: *mut Cq) -> c_int {
        0
    }
    unsafe extern "C" fn no_cq_event(
        _: *mut CompChannel,
        _: *mut *mut Cq,
        _: *mut *mut c_void,
    ) -> c_int {
        -1
    }
    unsafe extern "C" fn ack_cq(_: *mut Cq, _: c_uint) {}
    unsafe extern "C" fn create_srq(domain: *mut Pd, _: *mut SrqInitAttr) -> *mut Srq {
        // SAFETY: the domain is one of `alloc_pd` above.
        made(|queue: &mut Srq| queue.context = unsafe { (*domain).context })
    }
    unsafe extern "C" fn destroy_srq(_: *mut Srq) -> c_int {
        0
    }
    unsafe extern "C" fn modify_qp(_: *mut Qp, _: *mut QpAttr, _: c_int) -> c_int {
        0
    }
    unsafe extern "C" fn create_events() -> *mut EventChannel {
        made(|channel: &mut EventChannel| channel.fd = silent())
    }
    unsafe extern "C" fn destroy_events(_: *mut EventChannel) {}
    unsafe extern "C" fn no_devices(_: *mut c_int) -> *mut *mut Context {
        null_mut()
    }
    unsafe extern "C" fn free_devices(_: *mut *mut Context) {}
    unsafe extern "C" fn done(_: *mut CmId) -> c_int {
        0
    }
    unsafe extern "C" fn bind(_: *mut CmId, _: *mut libc::sockaddr) -> c_int {
        libc::ENOSYS
    }
    unsafe extern "C" fn resolve(
        _: *mut CmId,
        _: *mut libc::sockaddr,
        _: *mut libc::sockaddr,
        _: c_int,
    ) -> c_int {
        libc::ENOSYS
    }
    unsafe extern "C" fn with_number(_: *mut CmId, _: c_int) -> c_int {
        0
    }
    unsafe extern "C" fn with_parameters(_: *mut CmId, _: *mut ConnParam) -> c_int {
        0
    }
    unsafe extern "C" fn reject(_: *mut CmId, _: *const c_void, _: u8) -> c_int {
        0
    }
    unsafe extern "C" fn migrate(_: *mut CmId, _: *mut EventChannel) -> c_int {
        0
    }
    unsafe extern "C" fn no_event(_: *mut EventChannel, _: *mut *mut CmEvent) -> c_int {
        -1
    }
    unsafe extern "C" fn ack_event(_: *mut CmEvent) -> c_int {
        0
    }
    unsafe extern "C" fn option(
        _: *mut CmId,
        _: c_int,
        _: c_int,
        _: *mut c_void,
        _: usize,
    ) -> c_int {
        0
    }
    Functions {
        ibv_get_device_name: name,
        ibv_query_device: query_device,
        ibv_query_port: query_port,
        ibv_query_gid: query_gid,
        ibv_alloc_pd: alloc_pd,
        ibv_dealloc_pd: free_pd,
        ibv_reg_mr,
        ibv_dereg_mr,
        ibv_create_comp_channel: create_channel,
        ibv_destroy_comp_channel: destroy_channel,
        ibv_create_cq: create_cq,
        ibv_destroy_cq: destroy_cq,
        ibv_get_cq_event: no_cq_event,
        ibv_ack_cq_events: ack_cq,
        ibv_create_srq: create_srq,
        ibv_destroy_srq: destroy_srq,
        ibv_modify_qp: modify_qp,
        rdma_create_event_channel: create_events,
        rdma_destroy_event_channel: destroy_events,
        rdma_get_devices: no_devices,
        rdma_free_devices: free_devices,
        rdma_create_id,
        rdma_destroy_id: done,
        rdma_bind_addr: bind,
        rdma_resolve_addr: resolve,
        rdma_resolve_route: with_number,
        rdma_create_qp,
        rdma_destroy_qp,
        rdma_connect: with_parameters,
        rdma_listen: with_number,
        rdma_accept: with_parameters,
        rdma_reject: reject,
        rdma_disconnect: done,
        rdma_migrate_id: migrate,
        rdma_get_cm_event: no_event,
        rdma_ack_cm_event: ack_event,
        rdma_set_option: option,
    }
};
