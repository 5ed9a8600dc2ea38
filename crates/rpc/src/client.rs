//! The calling side.

mod types;

pub use types::{
    ArgumentPayload, CallError, CallerCredential, ClientConfig, Persistence, Request, Response,
    Sink, Target,
};

use gannet_runtime::Handle;
use std::rc::Rc;

/// Makes calls over one connection to one server, kept up as long as there are calls. Clones share it.
#[derive(Clone)]
pub struct Client {
    shared: Rc<Shared>,
}

struct Shared {
    #[allow(dead_code)]
    runtime: Handle,
}

impl Client {
    /// A client that connects to `target` when the first call is made.
    pub fn new(runtime: Handle, _target: Target, _config: ClientConfig) -> Client {
        Client {
            shared: Rc::new(Shared { runtime }),
        }
    }

    /// Makes a call and waits for its results. Many may be under way at a time; replies come in any order.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn call(&self, _request: Request) -> Result<Response, CallError> {
        let _ = &self.shared;
        Err(CallError::Closed)
    }

    /// Closes the connection; calls under way fail with [`CallError::Closed`].
    pub fn close(&self) {}
}
