//! The parts of rdma-core's C interface (libibverbs and librdmacm 44 and later) that Gannet uses.
//!
//! The types follow `infiniband/verbs.h` and `rdma/rdma_cma.h` of Debian's libibverbs-dev and librdmacm-dev 44.0, under
//! the OpenIB.org BSD licence of those files. A structure ends after the last field that is used here where rdma-core
//! alone allocates it. The assertions at the end of the file were printed by a C program from those headers.
//!
//! ```text
//! Copyright (c) 2004, 2005 Topspin Communications.  All rights reserved.
//! Copyright (c) 2004, 2011-2012 Intel Corporation.  All rights reserved.
//! Copyright (c) 2005, 2006, 2007 Cisco Systems, Inc.  All rights reserved.
//! Copyright (c) 2005 PathScale, Inc.  All rights reserved.
//! Copyright (c) 2020 Intel Corporation.  All rights reserved.
//!
//! This software is available to you under a choice of one of two
//! licenses.  You may choose to be licensed under the terms of the GNU
//! General Public License (GPL) Version 2, available from the file
//! COPYING in the main directory of this source tree, or the
//! OpenIB.org BSD license below:
//!
//!     Redistribution and use in source and binary forms, with or
//!     without modification, are permitted provided that the following
//!     conditions are met:
//!
//!      - Redistributions of source code must retain the above
//!        copyright notice, this list of conditions and the following
//!        disclaimer.
//!
//!      - Redistributions in binary form must reproduce the above
//!        copyright notice, this list of conditions and the following
//!        disclaimer in the documentation and/or other materials
//!        provided with the distribution.
//!
//! THE SOFTWARE IS PROVIDED "AS IS", WITHOUT WARRANTY OF ANY KIND,
//! EXPRESS OR IMPLIED, INCLUDING BUT NOT LIMITED TO THE WARRANTIES OF
//! MERCHANTABILITY, FITNESS FOR A PARTICULAR PURPOSE AND
//! NONINFRINGEMENT. IN NO EVENT SHALL THE AUTHORS OR COPYRIGHT HOLDERS
//! BE LIABLE FOR ANY CLAIM, DAMAGES OR OTHER LIABILITY, WHETHER IN AN
//! ACTION OF CONTRACT, TORT OR OTHERWISE, ARISING FROM, OUT OF OR IN
//! CONNECTION WITH THE SOFTWARE OR THE USE OR OTHER DEALINGS IN THE
//! SOFTWARE.
//!
//! ```
use std::ffi::{c_char, c_int, c_uint, c_void};

/// `struct ibv_context` with its `struct ibv_context_ops` in place.
#[repr(C)]
pub(super) struct Context {
    pub device: *mut Device,
    _query_device: *mut c_void,
    _query_port: *mut c_void,
    _compat_memory: [*mut c_void; 5],
    pub alloc_mw: Option<AllocMw>,
    _bind_mw: *mut c_void,
    pub dealloc_mw: Option<DeallocMw>,
    _create_cq: *mut c_void,
    pub poll_cq: Option<PollCq>,
    pub req_notify_cq: Option<ReqNotifyCq>,
    _compat_queues: [*mut c_void; 7],
    pub post_srq_recv: Option<PostSrqRecv>,
    _compat_pairs: [*mut c_void; 4],
    pub post_send: Option<PostSend>,
    pub post_recv: Option<PostRecv>,
    _compat_rest: [*mut c_void; 5],
    _cmd_fd: c_int,
    pub async_fd: c_int,
    _num_comp_vectors: c_int,
    _mutex: libc::pthread_mutex_t,
    pub abi_compat: *mut c_void,
}

/// `__VERBS_ABI_IS_EXTENDED`: a `struct verbs_context` surrounds the context.
pub(super) const ABI_IS_EXTENDED: usize = usize::MAX;
/// Bytes from `sz` of a `struct verbs_context` to its context.
pub(super) const VERBS_CONTEXT_SIZE: usize = 320 - 312;
/// Bytes from `query_device_ex` of a `struct verbs_context` to its context.
pub(super) const VERBS_CONTEXT_QUERY_DEVICE_EX: usize = 320 - 216;
/// The least `sz` of a `struct verbs_context` with `query_device_ex`.
pub(super) const VERBS_CONTEXT_LEN_FROM_QUERY_DEVICE_EX: usize =
    VERBS_CONTEXT_QUERY_DEVICE_EX + std::mem::size_of::<Context>();

pub(super) type QueryDeviceEx =
    unsafe extern "C" fn(*mut Context, *const c_void, *mut DeviceAttrEx, usize) -> c_int;

/// `struct ibv_device_attr_ex`, as long as that of rdma-core 44.
#[repr(C)]
pub(super) struct DeviceAttrEx {
    pub orig_attr: DeviceAttr,
    pub comp_mask: u32,
    pub general_odp_caps: u64,
    pub rc_odp_caps: u32,
    pub rest: [u32; 37],
}

/// `IBV_ODP_SUPPORT`
pub(super) const ODP_SUPPORT: u64 = 1;
/// `IBV_ODP_SUPPORT_SEND`
pub(super) const ODP_SUPPORT_SEND: u32 = 1;
/// `IBV_ODP_SUPPORT_WRITE`
pub(super) const ODP_SUPPORT_WRITE: u32 = 1 << 2;
/// `IBV_ODP_SUPPORT_READ`
pub(super) const ODP_SUPPORT_READ: u32 = 1 << 3;

pub(super) type AllocMw = unsafe extern "C" fn(*mut Pd, c_uint) -> *mut Mw;
pub(super) type DeallocMw = unsafe extern "C" fn(*mut Mw) -> c_int;
pub(super) type PollCq = unsafe extern "C" fn(*mut Cq, c_int, *mut Wc) -> c_int;
pub(super) type ReqNotifyCq = unsafe extern "C" fn(*mut Cq, c_int) -> c_int;
pub(super) type PostSrqRecv =
    unsafe extern "C" fn(*mut Srq, *mut RecvWr, *mut *mut RecvWr) -> c_int;
pub(super) type PostSend = unsafe extern "C" fn(*mut Qp, *mut SendWr, *mut *mut SendWr) -> c_int;
pub(super) type PostRecv = unsafe extern "C" fn(*mut Qp, *mut RecvWr, *mut *mut RecvWr) -> c_int;

#[repr(C)]
pub(super) struct Device {
    _ops: [*mut c_void; 2],
    pub node_type: c_int,
    pub transport_type: c_int,
    pub name: [c_char; 64],
}

/// `IBV_TRANSPORT_IWARP`
pub(super) const TRANSPORT_IWARP: c_int = 1;

#[repr(C)]
pub(super) struct Pd {
    pub context: *mut Context,
    _handle: u32,
}

#[repr(C)]
pub(super) struct Mr {
    _context: *mut Context,
    _pd: *mut Pd,
    _addr: *mut c_void,
    _length: usize,
    _handle: u32,
    pub lkey: u32,
    pub rkey: u32,
}

pub(super) const ACCESS_LOCAL_WRITE: c_int = 1;
pub(super) const ACCESS_REMOTE_WRITE: c_int = 1 << 1;
pub(super) const ACCESS_REMOTE_READ: c_int = 1 << 2;
pub(super) const ACCESS_MW_BIND: c_int = 1 << 4;
pub(super) const ACCESS_ON_DEMAND: c_int = 1 << 6;

#[repr(C)]
pub(super) struct Mw {
    _context: *mut Context,
    _pd: *mut Pd,
    pub rkey: u32,
    _handle: u32,
    _type: c_uint,
}

/// `IBV_MW_TYPE_2`
pub(super) const MW_TYPE_2: c_uint = 2;

#[repr(C)]
pub(super) struct CompChannel {
    _context: *mut Context,
    pub fd: c_int,
}

#[repr(C)]
pub(super) struct Cq {
    pub context: *mut Context,
    _channel: *mut CompChannel,
    _cq_context: *mut c_void,
    _handle: u32,
    pub cqe: c_int,
}

#[repr(C)]
pub(super) struct Srq {
    pub context: *mut Context,
}

#[repr(C)]
pub(super) struct Qp {
    pub context: *mut Context,
    _qp_context: *mut c_void,
    _pd: *mut Pd,
    _send_cq: *mut Cq,
    _recv_cq: *mut Cq,
    _srq: *mut Srq,
    _handle: u32,
    pub qp_num: u32,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
pub(super) struct SendWr {
    pub wr_id: u64,
    pub next: *mut SendWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
    pub opcode: c_uint,
    pub send_flags: c_uint,
    /// Beside `imm_data`, which is in network order.
    pub invalidate_rkey: u32,
    /// `wr.rdma.remote_addr`
    pub remote_addr: u64,
    /// `wr.rdma.rkey`
    pub rkey: u32,
    pub rest: [u64; 3],
    pub bind_mw: BindMw,
}

/// `bind_mw` of a work request, with its `struct ibv_mw_bind_info` in place.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct BindMw {
    pub mw: *mut Mw,
    /// The key after the bind.
    pub rkey: u32,
    pub mr: *mut Mr,
    pub addr: u64,
    pub length: u64,
    pub access: c_int,
}

pub(super) const WR_RDMA_WRITE: c_uint = 0;
pub(super) const WR_RDMA_WRITE_WITH_IMM: c_uint = 1;
pub(super) const WR_SEND: c_uint = 2;
pub(super) const WR_RDMA_READ: c_uint = 4;
pub(super) const WR_LOCAL_INV: c_uint = 7;
pub(super) const WR_BIND_MW: c_uint = 8;
pub(super) const WR_SEND_WITH_INV: c_uint = 9;
pub(super) const SEND_SIGNALED: c_uint = 1 << 1;
pub(super) const SEND_SOLICITED: c_uint = 1 << 2;
pub(super) const SEND_INLINE: c_uint = 1 << 3;

#[repr(C)]
pub(super) struct RecvWr {
    pub wr_id: u64,
    pub next: *mut RecvWr,
    pub sg_list: *mut Sge,
    pub num_sge: c_int,
}

/// `struct ibv_wc`: a completion.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Wc {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    /// Beside `imm_data`, which is in network order.
    pub(crate) invalidated_rkey: u32,
    pub(crate) qp_num: u32,
    pub(super) src_qp: u32,
    pub(crate) wc_flags: u32,
    pub(super) rest: [u16; 3],
}

/// `opcode` of a receive that an RDMA Write with Immediate took.
pub(crate) const WC_RECV_RDMA_WITH_IMM: u32 = 129;
pub(crate) const WC_WITH_INV: u32 = 1 << 3;
/// `IB_WC_WITH_INVALIDATE` of the kernel, which Linux's software RoCE hands to programs as it is.
pub(super) const WC_WITH_INV_OF_RXE: u32 = 1 << 2;

/// `enum ibv_wc_status`, as far as Gannet tells the values apart.
pub(crate) mod status {
    pub(crate) const SUCCESS: u32 = 0;
    pub(crate) const LOC_LEN_ERR: u32 = 1;
    pub(crate) const LOC_QP_OP_ERR: u32 = 2;
    pub(crate) const LOC_PROT_ERR: u32 = 4;
    #[cfg(test)]
    pub(crate) const WR_FLUSH_ERR: u32 = 5;
    pub(crate) const MW_BIND_ERR: u32 = 6;
    pub(crate) const LOC_ACCESS_ERR: u32 = 8;
    pub(crate) const REM_INV_REQ_ERR: u32 = 9;
    pub(crate) const REM_ACCESS_ERR: u32 = 10;
    pub(crate) const REM_OP_ERR: u32 = 11;
    pub(crate) const RETRY_EXC_ERR: u32 = 12;
    pub(crate) const RNR_RETRY_EXC_ERR: u32 = 13;
}

/// `struct ibv_qp_init_attr` with its `struct ibv_qp_cap` in place.
#[repr(C)]
pub(super) struct QpInitAttr {
    pub qp_context: *mut c_void,
    pub send_cq: *mut Cq,
    pub recv_cq: *mut Cq,
    pub srq: *mut Srq,
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
    pub max_inline_data: u32,
    pub qp_type: c_uint,
    pub sq_sig_all: c_int,
}

/// `IBV_QPT_RC`
pub(super) const QPT_RC: c_uint = 2;

/// `struct ibv_qp_attr`: only the state is set here.
#[repr(C)]
pub(super) struct QpAttr {
    pub qp_state: c_uint,
    pub rest: [u32; 35],
}

/// `IBV_QP_STATE`
pub(super) const QP_STATE: c_int = 1;
/// `IBV_QPS_ERR`
pub(super) const QPS_ERR: c_uint = 6;

#[repr(C)]
pub(super) struct SrqInitAttr {
    pub srq_context: *mut c_void,
    pub max_wr: u32,
    pub max_sge: u32,
    pub srq_limit: u32,
}

#[repr(C)]
pub(super) struct DeviceAttr {
    pub fw_ver: [c_char; 64],
    pub node_guid: u64,
    pub sys_image_guid: u64,
    pub max_mr_size: u64,
    pub page_size_cap: u64,
    pub vendor_id: u32,
    pub vendor_part_id: u32,
    pub hw_ver: u32,
    pub max_qp: c_int,
    pub max_qp_wr: c_int,
    pub device_cap_flags: c_uint,
    pub max_sge: c_int,
    pub max_sge_rd: c_int,
    pub max_cq: c_int,
    pub max_cqe: c_int,
    pub max_mr: c_int,
    pub max_pd: c_int,
    pub max_qp_rd_atom: c_int,
    pub max_ee_rd_atom: c_int,
    pub max_res_rd_atom: c_int,
    pub max_qp_init_rd_atom: c_int,
    pub max_ee_init_rd_atom: c_int,
    pub atomic_cap: c_uint,
    pub max_ee: c_int,
    pub max_rdd: c_int,
    pub max_mw: c_int,
    pub rest: [c_int; 8],
    pub max_srq: c_int,
    pub max_srq_wr: c_int,
    pub max_srq_sge: c_int,
    pub max_pkeys: u16,
    pub local_ca_ack_delay: u8,
    pub phys_port_cnt: u8,
}

/// `IBV_DEVICE_MEM_WINDOW`
pub(super) const DEVICE_MEM_WINDOW: c_uint = 1 << 17;
/// `IBV_DEVICE_MEM_MGT_EXTENSIONS`
pub(super) const DEVICE_MEM_MGT_EXTENSIONS: c_uint = 1 << 21;
/// `IBV_DEVICE_MEM_WINDOW_TYPE_2B`
pub(super) const DEVICE_MEM_WINDOW_TYPE_2B: c_uint = 1 << 24;

#[repr(C)]
pub(super) struct PortAttr {
    pub state: c_uint,
    pub max_mtu: c_uint,
    pub active_mtu: c_uint,
    pub gid_tbl_len: c_int,
    pub port_cap_flags: u32,
    pub max_msg_sz: u32,
    pub counters: [u32; 2],
    pub pkey_tbl_len: u16,
    pub lids: [u16; 2],
    pub small: [u8; 8],
    pub link_layer: u8,
    pub flags: u8,
    pub port_cap_flags2: u16,
}

/// `IBV_PORT_ACTIVE`
pub(super) const PORT_ACTIVE: c_uint = 4;

#[repr(C, align(8))]
#[derive(Clone, Copy, Default)]
pub(super) struct Gid(pub [u8; 16]);

#[repr(C)]
pub(super) struct EventChannel {
    pub fd: c_int,
}

/// `struct rdma_cm_id` with its route in place.
#[repr(C)]
pub(super) struct CmId {
    pub verbs: *mut Context,
    pub channel: *mut EventChannel,
    pub context: *mut c_void,
    pub qp: *mut Qp,
    pub src_addr: libc::sockaddr_storage,
    pub dst_addr: libc::sockaddr_storage,
    _ibaddr: [u8; 40],
    _path_rec: *mut c_void,
    _num_paths: [c_int; 2],
    _ps: c_uint,
    pub port_num: u8,
}

/// `struct rdma_cm_event`; its parameters are those of a connection.
#[repr(C)]
pub(super) struct CmEvent {
    pub id: *mut CmId,
    pub listen_id: *mut CmId,
    pub event: c_uint,
    pub status: c_int,
    pub conn: ConnParam,
    _rest: [u64; 4],
}

#[repr(C)]
pub(super) struct ConnParam {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub responder_resources: u8,
    pub initiator_depth: u8,
    pub flow_control: u8,
    pub retry_count: u8,
    pub rnr_retry_count: u8,
    pub srq: u8,
    pub qp_num: u32,
}

/// `RDMA_PS_TCP`
pub(super) const PS_TCP: c_uint = 0x0106;
/// `RDMA_OPTION_ID`
pub(super) const OPTION_ID: c_int = 0;
/// `RDMA_OPTION_ID_TOS`
pub(super) const OPTION_ID_TOS: c_int = 0;
/// `RDMA_OPTION_ID_ACK_TIMEOUT`
pub(super) const OPTION_ID_ACK_TIMEOUT: c_int = 3;

#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(Context, device) == 0);
    assert!(offset_of!(Context, poll_cq) == 96);
    assert!(offset_of!(Context, req_notify_cq) == 104);
    assert!(offset_of!(Context, alloc_mw) == 64);
    assert!(offset_of!(Context, dealloc_mw) == 80);
    assert!(offset_of!(Context, post_srq_recv) == 168);
    assert!(offset_of!(Context, post_send) == 208);
    assert!(offset_of!(Context, post_recv) == 216);
    assert!(offset_of!(Context, async_fd) == 268);
    assert!(offset_of!(Device, node_type) == 16);
    assert!(offset_of!(Device, transport_type) == 20);
    assert!(offset_of!(Device, name) == 24);
    assert!(size_of::<SendWr>() == 128);
    assert!(offset_of!(SendWr, next) == 8);
    assert!(offset_of!(SendWr, sg_list) == 16);
    assert!(offset_of!(SendWr, num_sge) == 24);
    assert!(offset_of!(SendWr, opcode) == 28);
    assert!(offset_of!(SendWr, send_flags) == 32);
    assert!(offset_of!(SendWr, invalidate_rkey) == 36);
    assert!(offset_of!(SendWr, remote_addr) == 40);
    assert!(offset_of!(SendWr, rkey) == 48);
    assert!(offset_of!(SendWr, bind_mw) == 80);
    assert!(offset_of!(BindMw, rkey) == 8);
    assert!(offset_of!(BindMw, mr) == 16);
    assert!(offset_of!(BindMw, addr) == 24);
    assert!(offset_of!(BindMw, length) == 32);
    assert!(offset_of!(BindMw, access) == 40);
    assert!(offset_of!(Mw, rkey) == 16);
    assert!(size_of::<RecvWr>() == 32);
    assert!(offset_of!(RecvWr, sg_list) == 16);
    assert!(offset_of!(RecvWr, num_sge) == 24);
    assert!(size_of::<Sge>() == 16);
    assert!(offset_of!(Sge, lkey) == 12);
    assert!(size_of::<Wc>() == 48);
    assert!(offset_of!(Wc, status) == 8);
    assert!(offset_of!(Wc, opcode) == 12);
    assert!(offset_of!(Wc, byte_len) == 20);
    assert!(offset_of!(Wc, invalidated_rkey) == 24);
    assert!(offset_of!(Wc, qp_num) == 28);
    assert!(offset_of!(Wc, wc_flags) == 36);
    assert!(size_of::<QpInitAttr>() == 64);
    assert!(offset_of!(QpInitAttr, srq) == 24);
    assert!(offset_of!(QpInitAttr, max_inline_data) == 48);
    assert!(offset_of!(QpInitAttr, qp_type) == 52);
    assert!(size_of::<SrqInitAttr>() == 24);
    assert!(offset_of!(SrqInitAttr, max_wr) == 8);
    assert!(offset_of!(Mr, lkey) == 36);
    assert!(offset_of!(Mr, rkey) == 40);
    assert!(size_of::<Mr>() == 48);
    assert!(offset_of!(Qp, qp_num) == 52);
    assert!(offset_of!(Cq, cqe) == 28);
    assert!(offset_of!(Srq, context) == 0);
    assert!(offset_of!(CompChannel, fd) == 8);
    assert!(size_of::<DeviceAttr>() == 232);
    assert!(offset_of!(DeviceAttr, vendor_id) == 96);
    assert!(offset_of!(DeviceAttr, max_qp_wr) == 112);
    assert!(offset_of!(DeviceAttr, max_cqe) == 132);
    assert!(offset_of!(DeviceAttr, max_qp_rd_atom) == 144);
    assert!(offset_of!(DeviceAttr, max_qp_init_rd_atom) == 156);
    assert!(offset_of!(DeviceAttr, max_mw) == 176);
    assert!(offset_of!(DeviceAttr, max_srq_wr) == 216);
    assert!(offset_of!(DeviceAttr, phys_port_cnt) == 227);
    assert!(size_of::<PortAttr>() == 52);
    assert!(offset_of!(PortAttr, max_msg_sz) == 20);
    assert!(offset_of!(PortAttr, link_layer) == 46);
    assert!(offset_of!(CmId, verbs) == 0);
    assert!(offset_of!(CmId, channel) == 8);
    assert!(offset_of!(CmId, qp) == 24);
    assert!(offset_of!(CmId, src_addr) == 32);
    assert!(offset_of!(CmId, dst_addr) == 160);
    assert!(offset_of!(CmId, port_num) == 348);
    assert!(size_of::<CmEvent>() == 80);
    assert!(offset_of!(CmEvent, listen_id) == 8);
    assert!(offset_of!(CmEvent, event) == 16);
    assert!(offset_of!(CmEvent, status) == 20);
    assert!(offset_of!(CmEvent, conn) == 24);
    assert!(size_of::<ConnParam>() == 24);
    assert!(offset_of!(ConnParam, private_data_len) == 8);
    assert!(offset_of!(ConnParam, rnr_retry_count) == 13);
    assert!(offset_of!(ConnParam, qp_num) == 16);
    assert!(offset_of!(EventChannel, fd) == 0);
    assert!(size_of::<QpAttr>() == 144);
    assert!(size_of::<Gid>() == 16);
    assert!(offset_of!(DeviceAttrEx, general_odp_caps) == 240);
    assert!(offset_of!(DeviceAttrEx, rc_odp_caps) == 248);
    assert!(size_of::<DeviceAttrEx>() == 400);
};

// A mutex is longer elsewhere.
#[cfg(target_arch = "x86_64")]
const _: () = {
    assert!(std::mem::offset_of!(Context, abi_compat) == 320);
    assert!(std::mem::size_of::<Context>() == 328);
};
