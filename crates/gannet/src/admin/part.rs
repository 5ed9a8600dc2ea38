//! Parts of a process that administrators ask about, beside its cores.

use serde::Serialize;
use serde_json::Value;
use std::net::IpAddr;

/// A part of a process, such as the manager of a volume.
pub trait Part: Send + Sync {
    /// Its name in `/status.json`.
    fn name(&self) -> &'static str;

    /// Its state now; `None` while it has none.
    fn state(&self) -> Option<PartState>;

    /// The locks and grants of its clients; `None` for a part that keeps none.
    fn locks(&self) -> Option<LockList> {
        None
    }
}

/// Locks and grants of clients.
#[derive(Debug, Clone, Default)]
pub struct LockList {
    /// The rows; the part bounds them.
    pub rows: Vec<LockRow>,
    /// The number of those that are left out.
    pub more: usize,
}

/// A lock or a grant.
#[derive(Debug, Clone)]
pub struct LockRow {
    /// The client, if it is known.
    pub client: Option<IpAddr>,
    /// The client's user, if it is known.
    pub uid: Option<u32>,
    /// The client's process, if it is known.
    pub process: Option<u32>,
    /// An object with the other facts, which every reader may see.
    pub row: Value,
}

/// The state of a part.
#[derive(Debug, Clone)]
pub struct PartState {
    /// The object in `/status.json`.
    pub status: Value,
    /// The facts that need an administrator.
    pub findings: Vec<Finding>,
    /// Why the process cannot do its work, if it cannot.
    pub not_ready: Option<NotReady>,
}

/// A fact that needs an administrator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The fault.
    pub what: String,
    /// The command or the step that goes on.
    pub next: String,
}

/// Why a process cannot do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotReady {
    /// A word for scripts, in place of `ready`.
    pub state: &'static str,
    /// The reason, for people.
    pub why: String,
}
