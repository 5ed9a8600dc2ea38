//! Descriptors of devices, by tokio's readiness.

use crate::DescriptorWatch;
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// A descriptor in the event loop of this core.
pub(super) struct TokioWatch(AsyncFd<OwnedFd>);

impl TokioWatch {
    /// Registers a duplicate of the descriptor. Only inside a runtime.
    #[expect(unsafe_code, reason = "tokio asks for it; the argument is at the call")]
    pub(super) fn new(descriptor: BorrowedFd<'_>) -> io::Result<TokioWatch> {
        let own = descriptor.try_clone_to_owned()?;
        // SAFETY: an `OwnedFd` names one open descriptor for as long as it lives, which is that of the `AsyncFd`.
        let watched = unsafe { AsyncFd::register_with_interest(own, Interest::READABLE) };
        Ok(TokioWatch(watched?))
    }
}

impl DescriptorWatch for TokioWatch {
    fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // The guard keeps the readiness unless it is told otherwise.
        self.0.poll_read_ready(context).map_ok(drop)
    }

    fn clear_readable(&self) {
        // An error of the closure that says "would block" clears the readiness.
        let would_block = || Err::<(), _>(io::ErrorKind::WouldBlock.into());
        let _ = self.0.try_io(Interest::READABLE, |_| would_block());
    }
}

#[cfg(test)]
mod tests {
    use super::super::block_on;
    use std::io::{Read, Write};
    use std::os::fd::AsFd;

    #[test]
    fn a_descriptor_wakes_its_task_each_time_it_becomes_readable() {
        let bytes = block_on(|runtime| async move {
            let (near, mut far) = std::os::unix::net::UnixStream::pair().unwrap();
            near.set_nonblocking(true).unwrap();
            let watch = runtime.watch(near.as_fd()).unwrap();
            let mut bytes = Vec::new();
            for round in 0..3u8 {
                let task = async {
                    let mut byte = [0];
                    loop {
                        std::future::poll_fn(|context| watch.poll_readable(context))
                            .await
                            .unwrap();
                        match (&near).read_exact(&mut byte) {
                            Ok(()) => break byte[0],
                            Err(_) => watch.clear_readable(),
                        }
                    }
                };
                let write = async {
                    // The reader has found nothing by now, and waits.
                    crate::yield_now().await;
                    far.write_all(&[round]).unwrap();
                };
                let (byte, ()) = crate::both(task, write).await;
                bytes.push(byte);
            }
            bytes
        });
        assert_eq!(bytes.unwrap(), [0, 1, 2]);
    }
}
