//! Conversions from results to values of C, and from its pointers to references.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char};
use std::fmt::Display;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
    static TIMED_OUT: Cell<bool> = const { Cell::new(false) };
    static WAITING: Option<tokio::runtime::Runtime> =
        tokio::runtime::Builder::new_current_thread().enable_time().build().ok();
}

/// Why the last call of this thread that failed did so. The text is there until the next one fails.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_error() -> *const c_char {
    LAST.with_borrow(|text| text.as_ptr())
}

/// True if the last call of this thread that failed did so because its time was over.
#[unsafe(no_mangle)]
pub extern "C" fn gannet_timed_out() -> bool {
    TIMED_OUT.get()
}

/// A failure, as the text that `gannet_error` returns.
#[derive(Debug)]
pub(crate) struct Fault {
    text: String,
    timed_out: bool,
}

impl Fault {
    pub(crate) fn new(text: &str) -> Fault {
        Fault {
            text: text.to_owned(),
            timed_out: false,
        }
    }

    /// The time of a call is over.
    pub(crate) fn timed_out() -> Fault {
        Fault {
            text: String::from("the time is over"),
            timed_out: true,
        }
    }
}

impl<E: Display> From<E> for Fault {
    fn from(error: E) -> Fault {
        Fault::new(&error.to_string())
    }
}

fn attempt<T>(work: impl FnOnce() -> Result<T, Fault>) -> Option<T> {
    // A panic must not unwind into C.
    let done = catch_unwind(AssertUnwindSafe(work));
    let done = done.unwrap_or_else(|_| Err(Fault::new("a fault of libgannet itself")));
    done.map_err(|Fault { text, timed_out }| {
        TIMED_OUT.set(timed_out);
        let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
        LAST.set(text);
    })
    .ok()
}

/// A new object that C owns until it is freed; null after a failure.
pub(crate) fn pointer<T>(work: impl FnOnce() -> Result<T, Fault>) -> *mut T {
    attempt(work).map_or(std::ptr::null_mut(), |made| Box::into_raw(Box::new(made)))
}

/// The number that `work` gives; -1 after a failure.
pub(crate) fn answer<T: From<i8>>(work: impl FnOnce() -> Result<T, Fault>) -> T {
    attempt(work).unwrap_or_else(|| T::from(-1))
}

/// Waits for a future on this thread.
pub(crate) fn wait<T, E: Into<Fault>>(
    future: impl Future<Output = Result<T, E>>,
) -> Result<T, Fault> {
    WAITING.with(|runtime| {
        let runtime = runtime.as_ref();
        let runtime = runtime.ok_or_else(|| Fault::new("the system refuses a runtime"))?;
        runtime.block_on(future).map_err(Into::into)
    })
}

/// Ends after so many milliseconds. It must be polled by [`wait`].
pub(crate) async fn after(milliseconds: u32) {
    tokio::time::sleep(Duration::from_millis(u64::from(milliseconds))).await;
}

/// # Safety
/// `object` is null or of [`pointer`], and not used any more.
pub(crate) unsafe fn free<T>(object: *mut T) {
    if !object.is_null() {
        // SAFETY: the caller keeps this function's contract.
        let object = unsafe { Box::from_raw(object) };
        let _ = catch_unwind(AssertUnwindSafe(|| drop(object)));
    }
}

/// # Safety
/// `object` is null or points to one that lives for `'a`.
pub(crate) unsafe fn reference<'a, T>(object: *const T) -> Result<&'a T, Fault> {
    // SAFETY: the caller keeps this function's contract.
    unsafe { object.as_ref() }.ok_or_else(|| Fault::new("a null pointer"))
}

/// # Safety
/// `first` is null or the first of `count` that live for `'a`.
pub(crate) unsafe fn slice<'a, T>(first: *const T, count: usize) -> Result<&'a [T], Fault> {
    if !first.is_null() {
        // SAFETY: the caller keeps this function's contract.
        Ok(unsafe { std::slice::from_raw_parts(first, count) })
    } else if count == 0 {
        Ok(&[])
    } else {
        Err(Fault::new("a null pointer"))
    }
}

/// # Safety
/// As [`slice`], and no other reference to them exists for `'a`.
pub(crate) unsafe fn bytes_mut<'a>(first: *mut u8, count: usize) -> Result<&'a mut [u8], Fault> {
    if !first.is_null() {
        // SAFETY: the caller keeps this function's contract.
        Ok(unsafe { std::slice::from_raw_parts_mut(first, count) })
    } else if count == 0 {
        Ok(&mut [])
    } else {
        Err(Fault::new("a null pointer"))
    }
}

/// # Safety
/// `string` is null or ends with a NUL, and lives for `'a`.
pub(crate) unsafe fn text<'a>(string: *const c_char) -> Result<&'a str, Fault> {
    if string.is_null() {
        return Err(Fault::new("a null pointer"));
    }
    // SAFETY: the caller keeps this function's contract.
    Ok(unsafe { CStr::from_ptr(string) }.to_str()?)
}
