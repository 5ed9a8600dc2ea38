//! Abilities of a device that are found by asking for more, or by trial.

use super::bindings::{
    ABI_IS_EXTENDED, Context, DeviceAttrEx, ODP_SUPPORT, ODP_SUPPORT_READ, ODP_SUPPORT_SEND,
    ODP_SUPPORT_WRITE, QueryDeviceEx, VERBS_CONTEXT_LEN_FROM_QUERY_DEVICE_EX,
    VERBS_CONTEXT_QUERY_DEVICE_EX, VERBS_CONTEXT_SIZE,
};
use super::device::check;
use super::device::{DeviceContext, ProtectionDomain};
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::ptr::{null, null_mut};

/// Bytes of the file in a trial.
const PROBE_LEN: usize = 4096;

impl DeviceContext {
    /// Memory for RDMA Read, RDMA Write and Sends can be registered without being pinned (on-demand paging). Receives
    /// need not: their memory is the provider's own, and pinned.
    pub(crate) fn pages_on_demand(&self) -> bool {
        let Some(query) = self.query_device_ex() else {
            return false;
        };
        let mut attributes = MaybeUninit::<DeviceAttrEx>::zeroed();
        let len = size_of::<DeviceAttrEx>();
        // SAFETY: the structure has the length that is passed, and is valid when it is zeroed.
        let attributes = unsafe {
            let raw = attributes.as_mut_ptr();
            if check(query(self.raw.as_ptr(), null(), raw, len)).is_err() {
                return false;
            }
            attributes.assume_init()
        };
        let needed = ODP_SUPPORT_SEND | ODP_SUPPORT_READ | ODP_SUPPORT_WRITE;
        attributes.general_odp_caps & ODP_SUPPORT != 0 && attributes.rc_odp_caps & needed == needed
    }

    /// The driver's function, which lies before the context (`verbs_get_ctx_op` of the headers).
    fn query_device_ex(&self) -> Option<QueryDeviceEx> {
        let context: *mut Context = self.raw.as_ptr();
        // SAFETY: the library has opened the context, so all its fields are there.
        if unsafe { (*context).abi_compat } as usize != ABI_IS_EXTENDED {
            return None;
        }
        let before = context.cast::<u8>();
        // SAFETY: with the mark above, a `struct verbs_context` surrounds the context; its size says which functions it
        // has.
        unsafe {
            let size = before.sub(VERBS_CONTEXT_SIZE).cast::<usize>().read();
            if size < VERBS_CONTEXT_LEN_FROM_QUERY_DEVICE_EX {
                return None;
            }
            before
                .sub(VERBS_CONTEXT_QUERY_DEVICE_EX)
                .cast::<Option<QueryDeviceEx>>()
                .read()
        }
    }

    /// Files in the page cache can be registered by a shared mapping that is only read. Found by trial with a file in
    /// memory. Linux 6.1 refuses it.
    ///
    /// # Errors
    /// The trial could not be made.
    pub(crate) fn maps_files(&self) -> io::Result<bool> {
        let file = rustix::fs::memfd_create("gannet-verbs", MemfdFlags::CLOEXEC)?;
        rustix::fs::ftruncate(&file, PROBE_LEN as u64)?;
        let domain = ProtectionDomain::new(self)?;
        // SAFETY: the mapping is new, and no reference into it is made.
        let pages = unsafe {
            rustix::mm::mmap(
                null_mut(),
                PROBE_LEN,
                ProtFlags::READ,
                MapFlags::SHARED,
                &file,
                0,
            )?
        };
        let functions = &self.library.functions;
        // SAFETY: the mapping lives until the registration is taken back.
        let registered = unsafe {
            let registration = (functions.ibv_reg_mr)(domain.raw.as_ptr(), pages, PROBE_LEN, 0);
            !registration.is_null() && (functions.ibv_dereg_mr)(registration) == 0
        };
        // SAFETY: the mapping is the one from above.
        unsafe { rustix::mm::munmap(pages, PROBE_LEN)? };
        Ok(registered)
    }
}
