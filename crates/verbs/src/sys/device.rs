//! Devices, their protection domains and limits.

use super::bindings::{
    Context, DEVICE_MEM_MGT_EXTENSIONS, DEVICE_MEM_WINDOW, DEVICE_MEM_WINDOW_TYPE_2B, DeviceAttr,
    Gid, PORT_ACTIVE, Pd, PortAttr, TRANSPORT_IWARP,
};
use super::library::VerbsLibrary;
use super::manager::Raw;
use crate::VerbsError;
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::NonNull;
use std::sync::Arc;

/// `SIW_VENDOR_ID` of Linux's software iWARP.
const VENDOR_SIW: u32 = 0x62_6d74;
/// `RXE_VENDOR_ID` of Linux's software RoCE.
const VENDOR_RXE: u32 = 0xff_ffff;
/// GIDs of one port that are asked for.
const GIDS_MAX: i32 = 16;

/// An open device. librdmacm opens each device once in a process and keeps it open, so a copy is as good as the first.
#[derive(Clone)]
pub(crate) struct DeviceContext {
    pub(super) raw: NonNull<Context>,
    pub(crate) library: Arc<VerbsLibrary>,
}

// SAFETY: a context of libibverbs may be used by several threads at once (ibv_open_device(3)); librdmacm never closes
// those that it has opened.
unsafe impl Send for DeviceContext {}
// SAFETY: as above.
unsafe impl Sync for DeviceContext {}

/// The limits of a device, as it reports them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are those of ibv_query_device(3)")]
pub struct DeviceLimits {
    pub vendor_id: u32,
    pub max_qp: u32,
    pub max_qp_wr: u32,
    pub max_sge: u32,
    pub max_sge_rd: u32,
    pub max_cqe: u32,
    pub max_mr: u32,
    pub max_mr_size: u64,
    pub max_qp_rd_atom: u32,
    pub max_qp_init_rd_atom: u32,
    pub max_srq: u32,
    pub max_srq_wr: u32,
    pub max_mw: u32,
    /// It has memory windows that belong to one connection (type 2B).
    pub memory_windows: bool,
    /// Its Sends can revoke a key of the peer.
    pub sends_invalidate: bool,
    pub ports: u8,
}

/// One port of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortInfo {
    /// Its number, from 1.
    pub number: u8,
    /// True when it can carry traffic.
    pub is_active: bool,
    /// Bytes of payload in a packet of the fabric, at most.
    pub active_mtu: u32,
    /// Bytes of the longest message.
    pub message_max: u32,
    /// The addresses that are set, in the form of IPv6 addresses.
    pub gids: Vec<std::net::Ipv6Addr>,
}

/// A device, for listings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceInfo {
    /// The kernel's name of it.
    pub name: String,
    /// True for iWARP (RDMA over TCP), false for InfiniBand and RoCE.
    pub is_iwarp: bool,
    /// Its limits.
    pub limits: DeviceLimits,
    /// Its ports.
    pub ports: Vec<PortInfo>,
    /// Files in the page cache can be sources of Writes.
    pub maps_files: bool,
    /// Memory can be registered without being pinned (on-demand paging).
    pub pages_on_demand: bool,
}

impl DeviceContext {
    /// All devices that librdmacm can open.
    ///
    /// # Errors
    /// [`VerbsError::NoDevice`], [`VerbsError::Permission`].
    pub(crate) fn all(library: &Arc<VerbsLibrary>) -> Result<Vec<DeviceContext>, VerbsError> {
        let listed = library.manage(|functions| {
            let mut count = 0;
            // SAFETY: the pointer is to a local variable.
            let list = unsafe { (functions.rdma_get_devices)(&raw mut count) };
            if list.is_null() {
                return Err(io::Error::last_os_error());
            }
            let count = usize::try_from(count).unwrap_or(0);
            // SAFETY: the list has `count` entries.
            let contexts = (0..count).map(|index| NonNull::new(unsafe { *list.add(index) }));
            let contexts: Vec<_> = contexts.flatten().map(Raw).collect();
            // SAFETY: the list comes from `rdma_get_devices`; its contexts live on.
            unsafe { (functions.rdma_free_devices)(list) };
            Ok(contexts)
        });
        let listed = listed.map_err(VerbsError::of_devices)?.into_iter();
        let devices = listed.map(|raw| DeviceContext {
            raw: raw.0,
            library: Arc::clone(library),
        });
        let devices: Vec<_> = devices.collect();
        if devices.is_empty() {
            return Err(VerbsError::NoDevice);
        }
        Ok(devices)
    }

    /// The context of a connection manager's id; `None` before it has one.
    pub(super) fn of(library: &Arc<VerbsLibrary>, raw: *mut Context) -> Option<DeviceContext> {
        let raw = NonNull::new(raw)?;
        let library = Arc::clone(library);
        Some(DeviceContext { raw, library })
    }

    /// The kernel's name of the device.
    pub(crate) fn name(&self) -> String {
        // SAFETY: the context lives for ever, and so does its device; the name is a C string in it.
        let name = unsafe {
            let device = self.raw.as_ref().device;
            CStr::from_ptr((self.library.functions.ibv_get_device_name)(device))
        };
        name.to_string_lossy().into_owned()
    }

    /// True for iWARP.
    pub(crate) fn is_iwarp(&self) -> bool {
        // SAFETY: as in `name`.
        unsafe { (*self.raw.as_ref().device).transport_type == TRANSPORT_IWARP }
    }

    /// The device's limits.
    ///
    /// # Errors
    /// The device does not answer.
    pub(crate) fn limits(&self) -> io::Result<DeviceLimits> {
        let mut attributes = MaybeUninit::<DeviceAttr>::zeroed();
        // SAFETY: the structure is as long as the library's, and valid when it is zeroed.
        let attributes = unsafe {
            let asked = self.library.functions.ibv_query_device;
            check(asked(self.raw.as_ptr(), attributes.as_mut_ptr()))?;
            attributes.assume_init()
        };
        let unsigned = |value: i32| u32::try_from(value).unwrap_or(0);
        let windows = DEVICE_MEM_WINDOW | DEVICE_MEM_WINDOW_TYPE_2B;
        Ok(DeviceLimits {
            vendor_id: attributes.vendor_id,
            max_qp: unsigned(attributes.max_qp),
            max_qp_wr: unsigned(attributes.max_qp_wr),
            max_sge: unsigned(attributes.max_sge),
            max_sge_rd: unsigned(attributes.max_sge_rd),
            max_cqe: unsigned(attributes.max_cqe),
            max_mr: unsigned(attributes.max_mr),
            max_mr_size: attributes.max_mr_size,
            max_qp_rd_atom: unsigned(attributes.max_qp_rd_atom),
            max_qp_init_rd_atom: unsigned(attributes.max_qp_init_rd_atom),
            max_srq: unsigned(attributes.max_srq),
            max_srq_wr: unsigned(attributes.max_srq_wr),
            max_mw: unsigned(attributes.max_mw),
            memory_windows: attributes.device_cap_flags & windows == windows,
            sends_invalidate: attributes.device_cap_flags & DEVICE_MEM_MGT_EXTENSIONS != 0,
            ports: attributes.phys_port_cnt,
        })
    }

    /// One port, `number` from 1.
    ///
    /// # Errors
    /// The device has no such port.
    pub(crate) fn port(&self, number: u8) -> io::Result<PortInfo> {
        let functions = &self.library.functions;
        let mut attributes = MaybeUninit::<PortAttr>::zeroed();
        // SAFETY: the structure is as long as the library's or longer, and valid when it is zeroed.
        let attributes = unsafe {
            let raw = attributes.as_mut_ptr();
            check((functions.ibv_query_port)(self.raw.as_ptr(), number, raw))?;
            attributes.assume_init()
        };
        let gids = (0..attributes.gid_tbl_len.min(GIDS_MAX)).filter_map(|index| {
            let mut gid = Gid::default();
            // SAFETY: the pointer is to a local variable of the right type.
            let status = unsafe {
                (functions.ibv_query_gid)(self.raw.as_ptr(), number, index, &raw mut gid)
            };
            (status == 0 && gid.0 != [0; 16]).then(|| std::net::Ipv6Addr::from(gid.0))
        });
        Ok(PortInfo {
            number,
            is_active: attributes.state == PORT_ACTIVE,
            active_mtu: 128u32 << attributes.active_mtu.min(5),
            message_max: attributes.max_msg_sz,
            gids: gids.collect(),
        })
    }

    /// The device for a listing.
    ///
    /// # Errors
    /// The device does not answer.
    pub(crate) fn info(&self) -> io::Result<DeviceInfo> {
        let limits = self.limits()?;
        let ports: io::Result<Vec<_>> = (1..=limits.ports).map(|port| self.port(port)).collect();
        Ok(DeviceInfo {
            name: self.name(),
            is_iwarp: self.is_iwarp(),
            limits,
            ports: ports?,
            maps_files: self.maps_files()?,
            pages_on_demand: self.pages_on_demand(),
        })
    }
}

impl DeviceLimits {
    /// Linux's software iWARP. It is for tests: it does not check the rights of a peer's RDMA Reads, and an RDMA Read
    /// under way goes on after the memory was deregistered.
    pub fn is_siw(&self) -> bool {
        self.vendor_id == VENDOR_SIW
    }

    /// Linux's software RoCE. It is for tests: a peer can revoke the window of another peer's connection.
    pub fn is_rxe(&self) -> bool {
        self.vendor_id == VENDOR_RXE
    }
}

impl DeviceLimits {
    /// The device is software of the kernel: a post to it is a system call, which the kernel takes from a thread with
    /// the credentials that opened the device alone.
    pub(crate) fn posts_by_calls(&self) -> bool {
        self.is_siw() || self.is_rxe()
    }
}

impl PartialEq for DeviceContext {
    fn eq(&self, other: &DeviceContext) -> bool {
        self.raw == other.raw
    }
}

impl fmt::Debug for DeviceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceContext").field(&self.name()).finish()
    }
}

/// A protection domain.
pub(crate) struct ProtectionDomain {
    pub(super) raw: NonNull<Pd>,
    pub(crate) device: DeviceContext,
    /// The device has memory windows that belong to one connection.
    pub(crate) has_windows: bool,
}

// SAFETY: libibverbs allows calls with one domain from several threads at once.
unsafe impl Send for ProtectionDomain {}
// SAFETY: as above.
unsafe impl Sync for ProtectionDomain {}

impl ProtectionDomain {
    /// A new domain of `device`.
    ///
    /// # Errors
    /// The device has no more.
    pub(crate) fn new(device: &DeviceContext) -> io::Result<Arc<ProtectionDomain>> {
        let has_windows = device.limits()?.memory_windows;
        // SAFETY: the context is open.
        let raw = unsafe { (device.library.functions.ibv_alloc_pd)(device.raw.as_ptr()) };
        Ok(Arc::new(ProtectionDomain {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            device: device.clone(),
            has_windows,
        }))
    }
}

impl Drop for ProtectionDomain {
    fn drop(&mut self) {
        // SAFETY: all that was made in the domain holds it and is gone.
        let status = unsafe { (self.device.library.functions.ibv_dealloc_pd)(self.raw.as_ptr()) };
        if status != 0 {
            tracing::warn!(status, "a protection domain could not be given back");
        }
    }
}

/// The result of a function that returns 0, an errno, or -1 with errno set.
pub(super) fn check(status: i32) -> io::Result<()> {
    match status {
        0 => Ok(()),
        -1 => Err(io::Error::last_os_error()),
        errno => Err(io::Error::from_raw_os_error(errno.saturating_abs())),
    }
}
