//! The thread behind a handle: jobs come in from any thread, and run on its core.

use gannet_runtime::{Handle, LocalFuture, tokio_plug};
use std::io;
use std::rc::Rc;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot};

/// Something to do on the core.
type Job<C> = Box<dyn FnOnce(Rc<C>) -> LocalFuture<()> + Send>;

/// The state of a thread, to which its jobs have access.
pub(crate) trait Core: 'static {
    /// Runs when all senders of jobs are dropped: does the work that must end before the thread does. Bounds its
    /// own time.
    fn finish(self: Rc<Self>) -> LocalFuture<()> {
        Box::pin(std::future::ready(()))
    }
}

/// Where jobs go. The thread ends with the last clone, once its core has finished.
pub(crate) struct Worker<C> {
    jobs: mpsc::UnboundedSender<Job<C>>,
}

impl<C> Clone for Worker<C> {
    fn clone(&self) -> Worker<C> {
        Worker {
            jobs: self.jobs.clone(),
        }
    }
}

/// The thread has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the thread has ended")]
pub(crate) struct Gone;

impl<C: Core> Worker<C> {
    /// Starts a thread with the state that `set_up` makes there, and returns the other value of `set_up`.
    ///
    /// # Errors
    /// The error of `set_up`, or of starting the thread.
    pub(crate) async fn start<X, E, F>(
        name: &str,
        set_up: impl FnOnce(Handle) -> F + Send + 'static,
        cannot_start: fn(io::Error) -> E,
    ) -> Result<(Worker<C>, X), E>
    where
        F: Future<Output = Result<(C, X), E>>,
        X: Send + 'static,
        E: Send + 'static,
    {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (started, is_set_up) = oneshot::channel();
        let serving = move || {
            let served = tokio_plug::block_on(|runtime| serve(runtime, set_up, queue, started));
            if let Err(error) = served {
                tracing::warn!(%error, "a thread cannot be started");
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned());
        thread.spawn(serving).map_err(cannot_start)?;
        let gone = |_| cannot_start(io::Error::other(Gone));
        let more = is_set_up.await.map_err(gone)??;
        Ok((Worker { jobs }, more))
    }

    /// Whether jobs of both go to the same core.
    pub(crate) fn is_same(&self, other: &Worker<C>) -> bool {
        self.jobs.same_channel(&other.jobs)
    }

    /// Has the core do `job`, and returns its result.
    ///
    /// # Errors
    /// [`Gone`].
    pub(crate) async fn run<T: Send + 'static, F>(
        &self,
        job: impl FnOnce(Rc<C>) -> F + Send + 'static,
    ) -> Result<T, Gone>
    where
        F: Future<Output = T> + 'static,
    {
        let (sender, done) = oneshot::channel();
        self.begin(move |core| async move {
            // An error means that the caller does not wait any more.
            let _ = sender.send(job(core).await);
        })?;
        done.await.map_err(|_| Gone)
    }

    /// Runs `job` on the core. The job reports its own result.
    ///
    /// # Errors
    /// [`Gone`].
    pub(crate) fn begin<F>(&self, job: impl FnOnce(Rc<C>) -> F + Send + 'static) -> Result<(), Gone>
    where
        F: Future<Output = ()> + 'static,
    {
        let job: Job<C> = Box::new(move |core| Box::pin(job(core)));
        self.jobs.send(job).map_err(|_| Gone)
    }
}

async fn serve<C: Core, X, E, F>(
    runtime: Handle,
    set_up: impl FnOnce(Handle) -> F,
    mut jobs: mpsc::UnboundedReceiver<Job<C>>,
    started: oneshot::Sender<Result<X, E>>,
) where
    F: Future<Output = Result<(C, X), E>>,
{
    let core = match set_up(Handle::clone(&runtime)).await {
        Ok((core, more)) => {
            if started.send(Ok(more)).is_err() {
                return;
            }
            Rc::new(core)
        }
        Err(error) => {
            // The caller may have stopped waiting.
            let _ = started.send(Err(error));
            return;
        }
    };
    while let Some(job) = jobs.recv().await {
        runtime.spawn("job of a handle", job(Rc::clone(&core)));
    }
    core.finish().await;
}
