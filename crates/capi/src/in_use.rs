//! Objects of C that several threads use, and that must not be freed meanwhile.

use crate::error::{self, Fault, reference};
use std::ffi::c_int;
use std::ops::Deref;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An object with the number of calls that use it now.
pub(crate) struct InUse<T> {
    object: T,
    calls: AtomicUsize,
}

impl<T> InUse<T> {
    pub(crate) fn new(object: T) -> InUse<T> {
        InUse {
            object,
            calls: AtomicUsize::new(0),
        }
    }

    /// Begins a call, which ends with the result.
    pub(crate) fn enter(&self) -> InCall<'_, T> {
        self.calls.fetch_add(1, Ordering::AcqRel);
        InCall(self)
    }
}

/// A call that uses an object.
pub(crate) struct InCall<'a, T>(&'a InUse<T>);

impl<T> Deref for InCall<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0.object
    }
}

impl<T> Drop for InCall<'_, T> {
    fn drop(&mut self) {
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Frees an object unless a call uses it; 0, or -1. Null is 0.
///
/// # Safety
/// `object` is null or of [`error::pointer`], `in_use` is its counter, and no call begins to use it any more.
pub(crate) unsafe fn free_unused<O, T>(object: *mut O, in_use: fn(&O) -> &InUse<T>) -> c_int {
    error::answer(|| {
        if object.is_null() {
            return Ok(0);
        }
        // SAFETY: the caller keeps this function's contract.
        let calls = &in_use(unsafe { reference(object)? }).calls;
        if calls.load(Ordering::Acquire) > 0 {
            return Err(Fault::new(
                "a call in another thread uses it: shut it down, and free it when the call has ended",
            ));
        }
        // SAFETY: the caller keeps this function's contract.
        unsafe { error::free(object) };
        Ok(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_in_use_is_not_freed() {
        let object = error::pointer(|| Ok(InUse::new(7)));
        // SAFETY: it is of `pointer`, and not freed yet.
        let in_use = unsafe { &*object };
        let call = in_use.enter();
        // SAFETY: no call begins any more.
        assert_eq!(unsafe { free_unused(object, |it| it) }, -1);
        // SAFETY: gannet_error gives a string.
        let why = unsafe { std::ffi::CStr::from_ptr(error::gannet_error()) };
        assert!(why.to_string_lossy().contains("shut it down"));
        assert_eq!(*call, 7);
        drop(call);
        // SAFETY: no call uses it any more.
        assert_eq!(unsafe { free_unused(object, |it| it) }, 0);
        // SAFETY: null is nothing.
        let nothing = unsafe { free_unused(std::ptr::null_mut::<InUse<i32>>(), |it| it) };
        assert_eq!(nothing, 0);
    }
}
