//! The allocator, where the machine has one that must be asked.
#![allow(unsafe_code)]

/// Gives freed memory back to the system.
///
/// glibc by itself gives back only the end of a thread's heap, and nothing while one piece there is in use. The memory
/// of a thousand ended connections would stay with the process.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub(super) fn release() {
    // SAFETY: It takes no pointer, may be called by any thread, and touches memory that is free alone.
    let released = unsafe { libc::malloc_trim(0) };
    tracing::trace!(some = released == 1, "memory released");
}

/// Other allocators give memory back by themselves, or never.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub(super) fn release() {}
