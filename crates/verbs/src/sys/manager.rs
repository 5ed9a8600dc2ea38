//! The thread that talks to the kernel's connection manager.
//!
//! The kernel takes requests of the connection manager only from a thread with the very credentials that opened the
//! descriptor (`ib_safe_file_access`), and refuses others with EACCES. A server gives up capabilities after it listens,
//! and its threads act as the callers of operations. So one thread makes all requests and never changes what it is.

use super::library::{Functions, VerbsLibrary};
use std::io;
use std::ptr::NonNull;
use std::sync::mpsc;

type Job = Box<dyn FnOnce() + Send>;

/// The thread, which ends when this is dropped.
pub(super) struct Manager {
    jobs: mpsc::Sender<Job>,
}

/// A pointer on its way to the thread; the caller waits for the thread, and keeps the object meanwhile.
pub(super) struct Raw<T>(pub(super) NonNull<T>);

// SAFETY: librdmacm allows calls with its objects from any thread, and the caller waits.
unsafe impl<T> Send for Raw<T> {}

impl<T> Clone for Raw<T> {
    fn clone(&self) -> Raw<T> {
        *self
    }
}

impl<T> Copy for Raw<T> {}

impl<T> Raw<T> {
    pub(super) fn get(self) -> *mut T {
        self.0.as_ptr()
    }
}

impl Manager {
    pub(super) fn start() -> io::Result<Manager> {
        let (jobs, queue) = mpsc::channel::<Job>();
        let work = move || {
            while let Ok(job) = queue.recv() {
                job();
            }
        };
        std::thread::Builder::new()
            .name(String::from("verbs manager"))
            .spawn(work)?;
        Ok(Manager { jobs })
    }
}

impl VerbsLibrary {
    /// Runs a call of the connection manager on its thread and waits for it.
    ///
    /// # Errors
    /// The errors of the call; the thread has ended.
    pub(super) fn manage<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Functions) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (sender, answer) = mpsc::sync_channel(1);
        let functions = self.functions;
        // The send fails only if the waiter has gone, which waits below.
        let job = move || drop(sender.send(call(&functions)));
        self.submit(Box::new(job), answer)
    }

    /// As [`VerbsLibrary::manage`], for a call that may wait for the peer: on a thread of its own, which has the
    /// credentials of the thread that starts it.
    ///
    /// # Errors
    /// The errors of the call; no thread could be started.
    pub(super) fn manage_apart<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Functions) -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let (sender, answer) = mpsc::sync_channel(1);
        let functions = self.functions;
        let job = move || {
            let work = move || drop(sender.send(call(&functions)));
            let started = std::thread::Builder::new().spawn(work);
            if let Err(error) = started {
                tracing::error!(%error, "no thread for a connect");
            }
        };
        self.submit(Box::new(job), answer)
    }

    fn submit<T>(&self, job: Job, answer: mpsc::Receiver<io::Result<T>>) -> io::Result<T> {
        let ended = || io::Error::from(io::ErrorKind::BrokenPipe);
        self.manager.jobs.send(job).map_err(|_| ended())?;
        answer.recv().map_err(|_| ended())?
    }
}
