//! The thread behind a client: jobs come in from any thread, and run on its core.

use super::connect::{Connection, connect};
use super::options::ConnectOptions;
use crate::url::Url;
use crate::{ConnectError, Error};
use gannet_runtime::{Handle, LocalFuture, tokio_plug};
use std::rc::Rc;
use tokio::sync::{mpsc, oneshot};

/// Something to do on the core.
type Job = Box<dyn FnOnce(Rc<Connection>) -> LocalFuture<()> + Send>;

/// Where jobs go. The thread ends with the last clone, and with it what is under way.
#[derive(Clone)]
pub(crate) struct Worker {
    jobs: mpsc::UnboundedSender<Job>,
}

impl Worker {
    /// Starts a thread, and connects there; also, how many components of the URL's path name the export.
    pub(crate) async fn start(
        url: Url,
        options: ConnectOptions,
    ) -> Result<(Worker, usize), ConnectError> {
        let (jobs, queue) = mpsc::unbounded_channel();
        let (started, connected) = oneshot::channel();
        let serving = move || {
            let served =
                tokio_plug::block_on(|runtime| serve(runtime, url, options, queue, started));
            if let Err(error) = served {
                tracing::warn!(%error, "the thread of a client cannot be started");
            }
        };
        let thread = std::thread::Builder::new().name(String::from("gannet-client"));
        thread.spawn(serving).map_err(ConnectError::Start)?;
        let gone = |_| ConnectError::Start(std::io::Error::other("its thread has ended"));
        let export_len = connected.await.map_err(gone)??;
        Ok((Worker { jobs }, export_len))
    }

    /// Has the core do `job`; what comes of it.
    pub(crate) async fn run<T: Send + 'static, F>(
        &self,
        job: impl FnOnce(Rc<Connection>) -> F + Send + 'static,
    ) -> Result<T, Error>
    where
        F: Future<Output = T> + 'static,
    {
        let (sender, done) = oneshot::channel();
        self.begin(move |connection| async move {
            // An error says that nobody waits any more.
            let _ = sender.send(job(connection).await);
        })?;
        done.await.map_err(|_| Error::Ended)
    }

    /// Has the core do `job`, which tells by itself what comes of it.
    pub(crate) fn begin<F>(
        &self,
        job: impl FnOnce(Rc<Connection>) -> F + Send + 'static,
    ) -> Result<(), Error>
    where
        F: Future<Output = ()> + 'static,
    {
        let job: Job = Box::new(move |connection| Box::pin(job(connection)));
        self.jobs.send(job).map_err(|_| Error::Ended)
    }
}

async fn serve(
    runtime: Handle,
    url: Url,
    options: ConnectOptions,
    mut jobs: mpsc::UnboundedReceiver<Job>,
    started: oneshot::Sender<Result<usize, ConnectError>>,
) {
    let connection = match connect(&runtime, &url, &options).await {
        Ok(connection) => Rc::new(connection),
        Err(error) => {
            // Who asked may be gone.
            let _ = started.send(Err(error));
            return;
        }
    };
    if started.send(Ok(connection.export_len)).is_err() {
        return;
    }
    while let Some(job) = jobs.recv().await {
        runtime.spawn("job of a client", job(Rc::clone(&connection)));
    }
}
