//! Events of devices: a descriptor to wait for, and a queue to look at before the core sleeps.

use std::io;
use std::task::{Context, Poll};

/// A descriptor that one task of this core waits for; see [`crate::Runtime::watch`].
pub trait DescriptorWatch {
    /// Ready while the descriptor is believed to be readable; registers the task otherwise. A second task that waits
    /// replaces the first.
    ///
    /// # Errors
    /// The runtime is shutting down.
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>>;

    /// Says that a read would have blocked: from now on it is not believed to be readable until the system reports
    /// that again.
    fn clear_readable(&self);
}

/// A queue that is filled without a system call, such as the completion queue of an adapter.
pub trait EventSource {
    /// Takes what has come by now, and wakes the tasks that wait for it. Called very often, so it must be cheap when
    /// nothing has come.
    fn look(&self);
}
