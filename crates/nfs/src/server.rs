//! The server: calls in, operations of a store, replies out.
//!
//! A [`Server`] belongs to one core and executes the calls of that core's connections; servers of several cores
//! share the state that their stores share, and the list of mounts. One file per group of procedures. Each procedure
//! decodes its arguments, finds their export and the caller's credentials there, asks the store, and writes the reply.
//!
//! Calls interleave at their awaits, and hold no borrow of the server's state across one.

mod attributes;
mod audit;
mod busy;
mod create;
mod directory;
mod export;
mod filesystem;
mod groups;
mod lookup;
mod mount;
mod mounts;
mod names;
mod network;
mod operations;
mod read;
mod refusals;
mod slow;
mod subject;
mod write;

pub use audit::{Audit, Event, EventKind, User};
pub use export::{Export, ExportError, Rules, Squash};
pub use groups::UserGroups;
pub use mounts::MountList;
pub use network::{Network, NetworkError};
pub use operations::Operations;
pub use refusals::Check;
pub use subject::{Field, Subject};

use crate::convert::status_to_wire;
use crate::limits::{
    DIRECTORY_PAGE_MAX, EXPORTS_MAX, MOUNT_REPLY_MAX, SMALL_REPLY_MAX, SMALL_SLOTS_MAX,
    SMALL_WRITE_MAX, TRANSFER_MAX,
};
use audit::RecentWrites;
use export::Served;
use gannet_metrics::SlowOperations;
use gannet_rpc::{Call, Credential, Program, Refused, Reply, Service, TakenApart};
use gannet_runtime::stages::{self, Entered, Stage};
use gannet_runtime::{Arena, Buffer, Handle};
use gannet_vfs::limits::SYMLINK_MAX;
use gannet_vfs::{Credentials, FileHandle, Status, Vfs, Wcc};
use gannet_wire::nfs3::{self, Failed, NfsProcedure};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::{Decode, Encode, XdrError, from_bytes};
use gannet_wire::{mount3, xdr};
use groups::Groups;
use mount::MountState;
use refusals::RefusalLog;
use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const PROGRAMS: [Program; 2] = [
    Program {
        number: nfs3::PROGRAM,
        low: nfs3::VERSION,
        high: nfs3::VERSION,
        procedures: 22,
    },
    // Older versions have the same procedures less one; old tools unmount with them.
    Program {
        number: mount3::PROGRAM,
        low: mount3::VERSION_1,
        high: mount3::VERSION,
        procedures: 6,
    },
];

/// The result of a procedure: an error means malformed arguments (GARBAGE_ARGS). All other failures are in the reply.
type Answered = Result<(), XdrError>;

/// NFSv3 and MOUNT for one core.
///
/// Each export has a store of its own (of one type `V`), and a file handle says in its first byte which export it
/// belongs to; the store sees its own bytes behind it and rejects foreign ones.
pub struct Server<V> {
    exports: RefCell<Vec<Rc<Served<V>>>>,
    /// Memory of small WRITEs.
    small: Arena,
    mounts: MountState,
    /// The source of callers' groups, if it is not their calls.
    groups: Option<Rc<Groups>>,
    operations: Arc<Operations>,
    slow: Arc<SlowOperations>,
    /// Bounds lines about refused calls; without it each is logged.
    refusal_log: Option<RefusalLog>,
    /// Learns who does what.
    audit: Option<Arc<dyn Audit>>,
    recent_writes: Option<RecentWrites>,
    /// The number of the latest moment behind all calls under way; `None` while nobody tells, as for a service that
    /// hides this one.
    moment: Cell<Option<u64>>,
}

impl<V: Vfs> Server<V> {
    /// A server of these exports, each with its store. Pass the same exports on every core and after every restart:
    /// the file handles that clients keep depend on their paths.
    ///
    /// # Errors
    /// [`ExportError::Empty`] without exports, [`ExportError::TooMany`], [`ExportError::Twice`] for two with the same
    /// path.
    pub fn new(exports: impl IntoIterator<Item = (Export, V)>) -> Result<Server<V>, ExportError> {
        let exports = exports.into_iter();
        let exports = exports.map(|(export, store)| (export, Some(store)));
        let exports = export::arrange(&[], exports)?;
        debug_assert!(exports.len() <= EXPORTS_MAX);
        Ok(Server {
            exports: RefCell::new(exports),
            small: Arena::new(SMALL_WRITE_MAX, SMALL_SLOTS_MAX),
            mounts: MountState::default(),
            groups: None,
            operations: Arc::default(),
            slow: Arc::default(),
            refusal_log: None,
            audit: None,
            recent_writes: None,
            moment: Cell::default(),
        })
    }

    /// Serves these exports from now on. One without a store keeps that of the export with its path. Calls under way
    /// end at the exports for which they came; handles of exports that are left out become stale.
    ///
    /// # Errors
    /// As [`Server::new`], and [`ExportError::New`]; everything stays as it was.
    pub fn change_exports(
        &self,
        exports: impl IntoIterator<Item = (Export, Option<V>)>,
    ) -> Result<(), ExportError> {
        let arranged = export::arrange(&self.exports.borrow(), exports)?;
        self.exports.replace(arranged);
        Ok(())
    }

    /// This server as the one of a core among several: these share the list `mounts`, and each logs a mount at most
    /// once in [`MOUNT_LOG_INTERVAL`](crate::limits::MOUNT_LOG_INTERVAL). A server alone has its own list and logs
    /// every mount.
    pub fn on_core(mut self, runtime: Handle, mounts: Arc<MountList>) -> Server<V> {
        self.refusal_log = Some(RefusalLog::new(Rc::clone(&runtime)));
        self.mounts = MountState::new(mounts, runtime);
        self
    }

    /// This server with its calls counted in `operations`.
    pub fn counting_in(mut self, operations: Arc<Operations>) -> Server<V> {
        self.operations = operations;
        self
    }

    /// This server with its slow calls noted in `slow`, and in the log.
    pub fn noting_slow(mut self, slow: Arc<SlowOperations>) -> Server<V> {
        self.slow = slow;
        self
    }

    /// This server with `audit` learning who mounts, who is refused and who changes something.
    pub fn audited_by(mut self, audit: Arc<dyn Audit>, runtime: Handle) -> Server<V> {
        self.audit = Some(audit);
        self.recent_writes = Some(RecentWrites::new(runtime));
        self
    }

    /// This server with the groups of callers from `source`, in place of those that their calls carry.
    pub fn with_user_groups(mut self, runtime: Handle, source: Arc<dyn UserGroups>) -> Server<V> {
        self.groups = Some(Groups::new(runtime, source));
        self
    }

    /// The credentials of a caller at an export. Waits for a lookup of its groups if these do not come with the call.
    ///
    /// # Errors
    /// `Jukebox`: the groups are not known yet.
    async fn credentials(
        &self,
        export: &Export,
        squash: Squash,
        call: &Call,
    ) -> Result<Credentials, Status> {
        let looked_up = match (&self.groups, &call.credential) {
            (Some(groups), Credential::Sys { uid, .. }) if !Export::squashes(squash, *uid) => {
                Some(groups.of(*uid).await?)
            }
            _ => None,
        };
        Ok(export.credentials(squash, &call.credential, looked_up.as_deref()))
    }

    /// Tells a store, before a call is executed there, that the call has come. Nothing may be awaited in between.
    fn tell_moment(&self, served: &Served<V>) {
        if let Some(moment) = self.moment.get() {
            served.store.requested_before(moment);
        }
    }

    /// The object that a handle names, with the caller's credentials there.
    ///
    /// # Errors
    /// `Badhandle` for an empty handle, `Stale` for one of no export, `Acces` for a client that the export does not
    /// admit, `Jukebox` as [`Server::credentials`].
    async fn target(&self, call: &Call, handle: nfs3::FileHandle<'_>) -> Result<Target<V>, Status> {
        let (identity, inner) = handle.0.split_first().ok_or(Status::Badhandle)?;
        let served = {
            let exports = self.exports.borrow();
            let served = exports.iter().find(|served| served.identity == *identity);
            Rc::clone(served.ok_or_else(|| Check::UnknownExport.refuse(call))?)
        };
        let rules = served.export.rules_for(call.peer);
        let rules = rules.map_err(|check| check.refuse(call))?;
        // Only behind the check of the client's address: a call that any peer can make must not keep its place.
        call.vouch();
        let handle = FileHandle::new(inner).ok_or(Status::Badhandle)?;
        let credentials = self.credentials(&served.export, rules.squash, call);
        let credentials = credentials.await?.at(call.peer.ip());
        self.tell_moment(&served);
        Ok(Target {
            served,
            handle,
            credentials,
            read_only: rules.read_only,
            _stage: stages::enter(Stage::FileSystem),
        })
    }

    /// As [`Server::target`], for procedures that change something: `Rofs` where the export is read-only. The store
    /// hears which call this is: another server may have executed it already, and have left this one its address.
    async fn target_to_change(
        &self,
        call: &Call,
        handle: nfs3::FileHandle<'_>,
    ) -> Result<Target<V>, Status> {
        let target = self.target(call, handle).await?;
        if target.read_only {
            return Err(Check::ReadOnlyExport.refuse(call));
        }
        let credentials = target.credentials.calling(call.xid);
        Ok(Target {
            credentials,
            ..target
        })
    }

    /// Memory for a small WRITE; `None` when it is not small, or all slots are in use.
    fn small_buffer(&self, len: usize) -> Option<Buffer> {
        if len > SMALL_WRITE_MAX {
            return None;
        }
        self.small.take()
    }

    async fn nfs(&self, procedure: NfsProcedure, call: &Call, reply: &mut Reply) -> Answered {
        // The procedures that make up most traffic run in place. The futures of the others are larger, and their work
        // costs many times the allocation.
        match procedure {
            NfsProcedure::Null => Ok(()),
            NfsProcedure::Getattr => attributes::getattr(self, call, reply).await,
            NfsProcedure::Lookup => lookup::lookup(self, call, reply).await,
            NfsProcedure::Access => attributes::access(self, call, reply).await,
            NfsProcedure::Read => read::read(self, call, reply).await,
            NfsProcedure::Write => write::write(self, call, reply).await,
            other => Box::pin(self.nfs_rare(other, call, reply)).await,
        }
    }

    async fn nfs_rare(&self, procedure: NfsProcedure, call: &Call, reply: &mut Reply) -> Answered {
        match procedure {
            NfsProcedure::Setattr => attributes::setattr(self, call, reply).await,
            NfsProcedure::Readlink => lookup::readlink(self, call, reply).await,
            NfsProcedure::Create => create::create(self, call, reply).await,
            NfsProcedure::Mkdir => create::mkdir(self, call, reply).await,
            NfsProcedure::Symlink => create::symlink(self, call, reply).await,
            NfsProcedure::Mknod => create::mknod(self, call, reply).await,
            NfsProcedure::Remove => names::remove(self, call, reply).await,
            NfsProcedure::Rmdir => names::rmdir(self, call, reply).await,
            NfsProcedure::Rename => names::rename(self, call, reply).await,
            NfsProcedure::Link => names::link(self, call, reply).await,
            NfsProcedure::Readdir => directory::readdir(self, call, reply).await,
            NfsProcedure::Readdirplus => directory::readdirplus(self, call, reply).await,
            NfsProcedure::Fsstat => filesystem::fsstat(self, call, reply).await,
            NfsProcedure::Fsinfo => filesystem::fsinfo(self, call, reply).await,
            NfsProcedure::Pathconf => filesystem::pathconf(self, call, reply).await,
            NfsProcedure::Commit => write::commit(self, call, reply).await,
            NfsProcedure::Null
            | NfsProcedure::Getattr
            | NfsProcedure::Lookup
            | NfsProcedure::Access
            | NfsProcedure::Read
            | NfsProcedure::Write => Ok(()),
        }
    }
}

impl<V: Vfs> Service for Server<V> {
    fn programs(&self) -> &[Program] {
        &PROGRAMS
    }

    fn is_cached(&self, program: u32, procedure: u32) -> bool {
        program == nfs3::PROGRAM
            && NfsProcedure::from_number(procedure).is_some_and(NfsProcedure::is_replay_sensitive)
    }

    fn locate_payload(&self, program: u32, procedure: u32, prefix: &[u8]) -> Option<usize> {
        if program != nfs3::PROGRAM {
            return None;
        }
        let mut decoder = xdr::Decoder::new(prefix);
        match NfsProcedure::from_number(procedure)? {
            NfsProcedure::Write => {
                nfs3::WriteHead::decode(&mut decoder).ok()?;
            }
            NfsProcedure::Symlink => {
                nfs3::MkdirArgs::decode(&mut decoder).ok()?;
                decoder.u32().ok()?;
            }
            _ => return None,
        }
        Some(decoder.position())
    }

    fn admits(&self, peer: IpAddr) -> bool {
        let exports = self.exports.borrow();
        exports.iter().any(|served| served.export.admits(peer))
    }

    fn establishes(&self, call: &Call) -> bool {
        call.is_vouched()
    }

    fn reply_bytes_max(&self, call: &Call) -> usize {
        // Malformed arguments are answered with a few bytes.
        let body = match (call.program, NfsProcedure::from_number(call.procedure)) {
            (nfs3::PROGRAM, Some(NfsProcedure::Read)) => {
                let args = arguments::<nfs3::ReadArgs<'_>>(call);
                args.map_or(0, |args| args.count.min(TRANSFER_MAX))
            }
            (nfs3::PROGRAM, Some(NfsProcedure::Readdir)) => {
                let args = arguments::<nfs3::ReaddirArgs<'_>>(call);
                args.map_or(0, |args| args.count.min(DIRECTORY_PAGE_MAX))
            }
            (nfs3::PROGRAM, Some(NfsProcedure::Readdirplus)) => {
                let args = arguments::<nfs3::ReaddirplusArgs<'_>>(call);
                args.map_or(0, |args| args.max_count.min(DIRECTORY_PAGE_MAX))
            }
            (nfs3::PROGRAM, Some(NfsProcedure::Readlink)) => SYMLINK_MAX as u32,
            (nfs3::PROGRAM, _) => 0,
            (_, _) => MOUNT_REPLY_MAX,
        };
        SMALL_REPLY_MAX + body as usize
    }

    fn observe(&self, call: &Call, reply: &Reply, took: Duration) {
        self.operations.note(call, reply, took);
        busy::note(self, call, reply);
        let failure = refusals::failure_of(call, reply);
        let check = failure.and_then(|status| self.note_failure(call, status));
        if self.audit.is_some() {
            self.audit(call, reply, check);
        }
    }

    fn moment(&self) {
        self.moment
            .set(Some(self.moment.get().map_or(0, |last| last + 1)));
    }

    fn observe_refusal(&self, peer: SocketAddr, refused: Refused) {
        self.note_refused(peer, refused);
    }

    fn takes_apart(&self) -> bool {
        self.slow.is_on()
    }

    fn took_apart(&self, call: &Call, taken: &TakenApart) {
        self.operations.note_parts(call, &taken.parts);
        slow::note(self, call, taken);
    }

    async fn call(&self, call: &Call, reply: &mut Reply) {
        let answered = match call.program {
            nfs3::PROGRAM => match NfsProcedure::from_number(call.procedure) {
                Some(procedure) => self.nfs(procedure, call, reply).await,
                None => return reply.fail(AcceptStatus::ProcUnavail),
            },
            mount3::PROGRAM => match mount3::MountProcedure::from_number(call.procedure) {
                Some(procedure) => Box::pin(mount::answer(self, procedure, call, reply)).await,
                None => return reply.fail(AcceptStatus::ProcUnavail),
            },
            _ => return reply.fail(AcceptStatus::ProgUnavail),
        };
        if let Err(error) = answered {
            tracing::debug!(
                peer = %call.peer, program = call.program, procedure = call.procedure, %error,
                "arguments refused"
            );
            reply.fail(AcceptStatus::GarbageArgs);
        }
    }
}

/// An object of a store, and the caller's credentials for the store.
struct Target<V> {
    served: Rc<Served<V>>,
    handle: FileHandle,
    credentials: Credentials,
    /// The client may change nothing.
    read_only: bool,
    /// From here to its end the call is the store's, but for little.
    _stage: Entered,
}

impl<V: Vfs> Target<V> {
    fn store(&self) -> &V {
        &self.served.store
    }

    /// The handle of another object that a call names besides this one.
    ///
    /// # Errors
    /// `Xdev` for a handle of another export or of none, `Badhandle` for an empty one.
    fn other(&self, handle: nfs3::FileHandle<'_>) -> Result<FileHandle, Status> {
        let (identity, inner) = handle.0.split_first().ok_or(Status::Badhandle)?;
        if *identity != self.served.identity {
            return Err(Status::Xdev);
        }
        FileHandle::new(inner).ok_or(Status::Badhandle)
    }

    /// The object's attributes, for replies that carry them if they can.
    async fn post_op(&self) -> nfs3::PostOpAttributes {
        let attributes = self.store().attributes(&self.handle).await;
        attributes
            .ok()
            .as_ref()
            .map(crate::convert::attributes_to_wire)
    }
}

/// The arguments of a call that has them in one piece.
fn arguments<'a, T: Decode<'a>>(call: &'a Call) -> Result<T, XdrError> {
    from_bytes(call.arguments())
}

/// Writes a result.
fn put(reply: &mut Reply, result: &impl Encode) -> Answered {
    result.encode(&mut reply.results());
    Ok(())
}

fn failed<E>(status: Status, body: E) -> Failed<E> {
    let status = status_to_wire(status);
    Failed { status, body }
}

/// Writes the result of an operation that returns weak cache consistency data alone: SETATTR, REMOVE, RMDIR.
fn put_changed(reply: &mut Reply, result: Result<(), Status>, wcc: &Wcc) -> Answered {
    let wcc = crate::convert::wcc_to_wire(wcc);
    let result: nfs3::SetattrResult = match result {
        Ok(()) => Ok(wcc),
        Err(status) => Err(failed(status, wcc)),
    };
    put(reply, &result)
}
