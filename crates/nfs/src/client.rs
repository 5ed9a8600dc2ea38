//! The client: every procedure as a typed `async` method, and an export as a file system above them.
//!
//! [`Client`] speaks to one server over one [`gannet_rpc::Client`] (TCP or RDMA alike) in handles, names and
//! [`gannet_vfs::Status`]. [`NfsFs`] is an export mounted through it, a [`gannet_vfs::Vfs`] like any other. Nothing is
//! cached between calls.
//!
//! Calls that a busy server does not execute yet (JUKEBOX) are repeated after a pause. Calls whose connection breaks
//! are repeated by the RPC layer, as its settings say; [`Client::forgiving_echoes`] is for those that a restarted
//! server has executed already. Replies are checked: a READ that returns more than the call wants, a name with a
//! slash in it, a listing that does not move on are errors, not data.

mod error;
mod file_system;
mod listing;
mod mount;
mod procedures;

pub use error::Error;
pub use file_system::NfsFs;
pub use listing::{Item, Page, Position};
pub use mount::ExportedPath;
pub use procedures::{Committed, Found, ReadDone, WriteOutcome};

use crate::convert::status_from_wire;
use crate::limits::{JUKEBOX_ATTEMPTS_MAX, JUKEBOX_PAUSE_MAX, JUKEBOX_PAUSE_MIN};
use gannet_rpc::{CallerCredential, Request, Response};
use gannet_runtime::Handle;
use gannet_vfs::Status;
use gannet_wire::nfs3::{self, Failed, NfsProcedure, Nfsstat};
use gannet_wire::rpc::ACCEPTED_HEADER_LEN;
use gannet_wire::xdr::{Decode, Decoder, Encode, from_bytes};
use std::rc::Rc;
use std::time::Duration;

/// Room for a few words that a server may add to its longest reply.
const REPLY_SLACK: usize = 32;

/// NFSv3 and MOUNT, procedure by procedure. Clones share the connection.
#[derive(Clone)]
pub struct Client {
    rpc: gannet_rpc::Client,
    runtime: Handle,
    forgives_echoes: bool,
    /// The caller, if it is another than that of the connection.
    credential: Option<Rc<CallerCredential>>,
}

impl Client {
    /// A client over `rpc`, whose settings have the credential and the persistence.
    pub fn new(runtime: Handle, rpc: gannet_rpc::Client) -> Client {
        Client {
            rpc,
            runtime,
            forgives_echoes: false,
            credential: None,
        }
    }

    /// The same, for callers that have just looked the names up: the name to remove or rename exists, the name to make
    /// does not.
    ///
    /// A server that executed a call, restarted and gets it again refuses it (`Exist` or `Noent`). Such a refusal of
    /// MKDIR, SYMLINK, MKNOD, LINK, REMOVE, RMDIR or RENAME counts as done if the call was sent more than once. Without
    /// the lookup before, the client could not distinguish it from a true refusal.
    #[must_use]
    pub fn forgiving_echoes(self) -> Client {
        Client {
            forgives_echoes: true,
            ..self
        }
    }

    /// The same, with the credential of another caller, over the same connection.
    #[must_use]
    pub fn calling_as(&self, credential: Rc<CallerCredential>) -> Client {
        Client {
            credential: Some(credential),
            ..self.clone()
        }
    }

    /// The connection below, to close it.
    pub fn rpc(&self) -> &gannet_rpc::Client {
        &self.rpc
    }

    async fn call(&self, request: Request) -> Result<Response, Error> {
        Ok(self.rpc.call(request).await?)
    }

    /// An empty call of `procedure`, with room for its longest reply.
    fn request(&self, procedure: NfsProcedure, room: u32) -> Request {
        let reply_max = nfs3::reply_max(procedure, room);
        let results_max = reply_max.saturating_sub(ACCEPTED_HEADER_LEN) + REPLY_SLACK;
        Request {
            credential: self.credential.clone(),
            ..Request::new(
                nfs3::PROGRAM,
                nfs3::VERSION,
                procedure.number(),
                results_max,
            )
        }
    }

    /// Makes an NFS call whose arguments and results travel in one piece; returns the results. `room` bounds their
    /// variable part, as in [`nfs3::reply_max`].
    async fn exchange(
        &self,
        procedure: NfsProcedure,
        arguments: &impl Encode,
        room: u32,
    ) -> Result<Vec<u8>, Error> {
        let answer = self.exchange_change(procedure, arguments, room).await?;
        Ok(answer.results)
    }

    /// As [`Client::exchange`], for a call that is not idempotent: its repetition may get another answer.
    async fn exchange_change(
        &self,
        procedure: NfsProcedure,
        arguments: &impl Encode,
        room: u32,
    ) -> Result<Answer, Error> {
        let (mut patience, mut resent) = (Patience::default(), false);
        loop {
            let mut request = self.request(procedure, room);
            arguments.encode(&mut request.arguments());
            let response = self.call(request).await?;
            resent |= response.resent;
            if !is_busy(&response) || !patience.pause(&self.runtime).await {
                return Ok(Answer {
                    results: response.results,
                    may_echo: resent && self.forgives_echoes,
                });
            }
            // A busy server may have executed the call: a volume's NFS server does when an I/O server is slow (test
            // `a_change_that_a_busy_server_has_executed_counts_as_done`).
            resent = true;
        }
    }
}

/// The answer to a call that changes something.
struct Answer {
    results: Vec<u8>,
    /// The call was sent more than once, and the caller has [`Client::forgiving_echoes`].
    may_echo: bool,
}

impl Answer {
    /// True when `error` may be the answer of a server that has executed the call before and lost its reply: the name
    /// to make exists (`Exist`), the name to remove does not (`Noent`). Never when the call was sent only once.
    fn is_echo(&self, error: &Error, sign: Status) -> bool {
        self.may_echo && error.status() == Some(sign)
    }

    /// `outcome`, or success when that is an echo.
    fn done_or_echo(&self, outcome: Result<(), Error>, sign: Status) -> Result<(), Error> {
        match outcome {
            Err(error) if self.is_echo(&error, sign) => Ok(()),
            outcome => outcome,
        }
    }
}

/// True when the server is busy (JUKEBOX): the call must be repeated later.
fn is_busy(response: &Response) -> bool {
    Decoder::new(&response.results).u32() == Ok(Nfsstat::JUKEBOX.code())
}

/// The attempts at a busy server so far, and the pause before the next one.
struct Patience {
    attempts: u32,
    pause: Duration,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience {
            attempts: 1,
            pause: JUKEBOX_PAUSE_MIN,
        }
    }
}

impl Patience {
    /// Waits before another attempt; false when there have been enough.
    async fn pause(&mut self, runtime: &Handle) -> bool {
        if self.attempts == JUKEBOX_ATTEMPTS_MAX {
            return false;
        }
        let pause_ms = self.pause.as_millis();
        tracing::debug!(attempt = self.attempts, pause_ms, "server busy");
        gannet_runtime::sleep(runtime, self.pause).await;
        self.attempts += 1;
        self.pause = (self.pause * 2).min(JUKEBOX_PAUSE_MAX);
        true
    }
}

/// Decodes results that end with their message.
fn results<'a, T: Decode<'a>>(bytes: &'a [u8]) -> Result<T, Error> {
    from_bytes(bytes).map_err(|_| Error::Malformed("results"))
}

/// The results of a successful reply; otherwise the server's status as an error.
fn good<T, E>(result: Result<T, Failed<E>>) -> Result<T, Error> {
    result.map_err(|failed| refused(failed.status))
}

fn refused(status: Nfsstat) -> Error {
    if status.name().is_none() {
        tracing::debug!(code = status.code(), "status that NFSv3 does not have");
    }
    Error::Status(status_from_wire(status))
}
