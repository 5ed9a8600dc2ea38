//! Memory windows of type 2: keys to registered memory that serve one connection.
//!
//! A window is bound by a work request of that connection's send queue. It is unbound by another, or by a Send with
//! Invalidate of the peer, and may be bound again then. While it is bound its registration cannot be taken back, and on
//! some devices its queue pair cannot be destroyed.

use super::bindings::{BindMw, DeallocMw, MW_TYPE_2, Mw};
use super::device::{ProtectionDomain, check};
use super::memory::{Registration, flags_of};
use gannet_fabric::Access;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

/// Bits of a key that the owner of a window chooses.
const KEY_TAG: u32 = 0xff;

/// A memory window.
pub(crate) struct Window {
    raw: NonNull<Mw>,
    dealloc: DeallocMw,
    _domain: Arc<ProtectionDomain>,
}

impl Window {
    /// A window that is bound to nothing.
    ///
    /// # Errors
    /// The device has no more.
    pub(crate) fn new(domain: &Arc<ProtectionDomain>) -> io::Result<Window> {
        let context = domain.device.raw.as_ptr();
        // SAFETY: the context is that of the driver, which fills in the functions.
        let (alloc, dealloc) = unsafe { ((*context).alloc_mw, (*context).dealloc_mw) };
        let missing = || io::Error::from(io::ErrorKind::Unsupported);
        let alloc = alloc.ok_or_else(missing)?;
        // SAFETY: the domain lives as long as the window, which holds it.
        let raw = unsafe { alloc(domain.raw.as_ptr(), MW_TYPE_2) };
        Ok(Window {
            raw: NonNull::new(raw).ok_or_else(io::Error::last_os_error)?,
            dealloc: dealloc.ok_or_else(missing)?,
            _domain: Arc::clone(domain),
        })
    }

    /// The key of its next bind; never the one before, which peers of then may know.
    pub(crate) fn next_key(&self) -> u32 {
        // SAFETY: the window lives.
        let key = unsafe { self.raw.as_ref().rkey };
        (key & !KEY_TAG) | (key.wrapping_add(1) & KEY_TAG)
    }

    /// The bind to all of `registration`, for work. The caller keeps both until it is posted.
    pub(crate) fn bind(&self, registration: &Registration, access: Access) -> WindowBind {
        WindowBind(BindMw {
            mw: self.raw.as_ptr(),
            rkey: self.next_key(),
            mr: registration.raw.as_ptr(),
            addr: registration.address,
            length: registration.len as u64,
            access: flags_of(access),
        })
    }
}

impl Drop for Window {
    /// Unbinds it, wherever it is bound.
    fn drop(&mut self) {
        // SAFETY: it was allocated, and this is its only owner.
        if let Err(error) = check(unsafe { (self.dealloc)(self.raw.as_ptr()) }) {
            tracing::error!(%error, "a memory window could not be given back");
        }
    }
}

/// A bind of a window, for one work request.
#[derive(Clone, Copy)]
pub(crate) struct WindowBind(pub(super) BindMw);

impl WindowBind {
    /// Notes that the bind was posted: the library names the window by its key from then on.
    pub(super) fn posted(self) {
        // SAFETY: the poster keeps the window until its bind is posted, and uses it from one thread.
        unsafe { (*self.0.mw).rkey = self.0.rkey };
    }
}
