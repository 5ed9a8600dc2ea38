//! An I/O server that runs, and its end: it gives its number back, so that another host need not wait for its lease.

use crate::limits::NUMBER_END_DEADLINE;
use crate::manager::Registration;
use crate::serve::Server;
use crate::watched::Watched;
use gannet_runtime::{Handle, timeout};
use std::io;
use std::net::SocketAddr;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;

/// The stage of an I/O server's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Runs,
    /// It shall stop.
    Stops,
    /// It answers nobody any more.
    HasStopped,
}

/// A handle of an I/O server that was started.
#[derive(Clone)]
pub struct IoServerRun {
    runtime: Handle,
    stage: Rc<Watched<Stage>>,
}

impl IoServerRun {
    pub(super) fn new(runtime: &Handle) -> IoServerRun {
        IoServerRun {
            runtime: Handle::clone(runtime),
            stage: Rc::new(Watched::new(Stage::Runs)),
        }
    }

    /// Stops the server and gives its number back to the manager. Gives up after two times [`NUMBER_END_DEADLINE`]: the
    /// lease ends by itself.
    pub async fn stop(&self) {
        self.stage.set_if(|stage| {
            let runs = *stage == Stage::Runs;
            if runs {
                *stage = Stage::Stops;
            }
            runs
        });
        let stopped = self.stage.wait_for(|stage| *stage == Stage::HasStopped);
        // One that waits for its manager does not answer.
        let _ = timeout(&self.runtime, 2 * NUMBER_END_DEADLINE, stopped).await;
    }

    pub(super) fn has_stopped(&self) {
        self.stage.set(Stage::HasStopped);
    }

    /// The result of `work`; `None` if the server shall stop before.
    pub(super) async fn until_stopped<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let (mut work, mut stops) = (
            pin!(work),
            pin!(self.stage.wait_for(|stage| *stage != Stage::Runs)),
        );
        std::future::poll_fn(|context| {
            if stops.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            work.as_mut().poll(context).map(Some)
        })
        .await
    }

    /// Ends a server whose lease was ended here. The number goes back only when no request is under way: a late write
    /// would land among those of the next process.
    pub(super) async fn end<F: AsyncFn() -> io::Result<Vec<SocketAddr>>>(
        &self,
        server: &Server,
        registration: &Registration<F>,
    ) {
        let idle = timeout(&self.runtime, NUMBER_END_DEADLINE, server.end_all()).await;
        if idle.is_ok() {
            // Otherwise the next process waits.
            let given_up = registration.give_up();
            let _ = timeout(&self.runtime, NUMBER_END_DEADLINE, given_up).await;
        }
        self.has_stopped();
    }
}
