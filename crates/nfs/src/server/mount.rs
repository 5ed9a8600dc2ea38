//! MOUNT: from a path to the handle of its directory.

use super::export::{OuterHandle, Served, components};
use super::mounts::MountList;
use super::{Answered, Server, arguments, failed, put};
use crate::limits::{MOUNT_COMPONENTS_MAX, MOUNT_LOG_INTERVAL};
use gannet_rpc::{Call, Reply};
use gannet_runtime::{Handle, LogLimit};
use gannet_vfs::{Status, Vfs};
use gannet_wire::mount3::{DirPath, Flavors, HostName, MntOk, MntResult, MountProcedure, VERSION};
use gannet_wire::rpc::{AcceptStatus, AuthFlavor};
use gannet_wire::xdr::Encode;
use std::rc::Rc;
use std::sync::Arc;

/// The list and the log of mounts of one server.
#[derive(Default)]
pub(super) struct MountState {
    list: Arc<MountList>,
    log: Option<MountLog>,
}

/// Bounds of the log lines about mounts, and of those about failed ones.
struct MountLog {
    clock: Handle,
    mounted: LogLimit,
    failed: LogLimit,
}

impl MountState {
    /// A state that shares `list` with the servers of other cores; `clock` bounds its log lines.
    pub(super) fn new(list: Arc<MountList>, clock: Handle) -> MountState {
        let log = MountLog {
            clock,
            mounted: LogLimit::new(MOUNT_LOG_INTERVAL),
            failed: LogLimit::new(MOUNT_LOG_INTERVAL),
        };
        MountState {
            list,
            log: Some(log),
        }
    }

    /// Logs the outcome of a MNT, at a bounded rate: clients may call it at any rate. Refused ones are logged with the
    /// check, as other calls.
    fn log(&self, call: &Call, path: DirPath<'_>, outcome: Result<(), Status>) {
        if matches!(outcome, Err(Status::Acces | Status::Perm)) {
            return;
        }
        let left_out = match (&self.log, outcome) {
            (Some(log), Ok(())) => log.mounted.admit(log.clock.now()),
            (Some(log), Err(_)) => log.failed.admit(log.clock.now()),
            (None, _) => Some(0),
        };
        let (Some(left_out), peer) = (left_out, call.peer) else {
            return;
        };
        // The client chose these bytes: no quote or control character of them reaches the log.
        let path = format!("\"{}\"", path.0.escape_ascii());
        match outcome {
            Ok(()) => tracing::info!(%peer, %path, left_out, "mounted"),
            Err(status) => tracing::info!(%peer, %path, %status, left_out, "mount failed"),
        }
    }
}

/// RFC 1813 appendix I.
pub(super) async fn answer<V: Vfs>(
    server: &Server<V>,
    procedure: MountProcedure,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    match procedure {
        MountProcedure::Null => arguments(call),
        MountProcedure::Mnt => mnt(server, call, reply).await,
        MountProcedure::Dump => {
            arguments::<()>(call)?;
            server.mounts.list.encode(&mut reply.results());
            Ok(())
        }
        MountProcedure::Umnt => {
            let path: DirPath<'_> = arguments(call)?;
            let path = normalised(&components(path.0));
            server.mounts.list.remove(call.peer.ip(), &path);
            Ok(())
        }
        MountProcedure::Umntall => {
            arguments::<()>(call)?;
            server.mounts.list.remove_all(call.peer.ip());
            Ok(())
        }
        MountProcedure::Export => {
            arguments::<()>(call)?;
            list_exports(server, reply);
            Ok(())
        }
    }
}

async fn mnt<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    if call.version != VERSION {
        // File handles of older versions have exactly 32 bytes, and are for NFSv2.
        reply.fail(AcceptStatus::ProcUnavail);
        return Ok(());
    }
    let path: DirPath<'_> = arguments(call)?;
    let mounted = mount(server, call, path.0).await;
    let outcome = mounted.as_ref().map(|_| ()).map_err(|status| *status);
    server.mounts.log(call, path, outcome);
    if outcome.is_ok() {
        let path = normalised(&components(path.0));
        server.mounts.list.add(call.peer.ip(), path);
    }
    let result: MntResult<'_> = match &mounted {
        Ok(root) => Ok(MntOk {
            root: root.as_wire(),
            flavors: Flavors::new(&[AuthFlavor::SYS.0]),
        }),
        Err(status) => Err(failed(*status, ())),
    };
    put(reply, &result)
}

/// The directory at `path`: in the export whose path is its longest prefix, the rest is resolved by the store. An empty
/// path is the root, as some clients write it.
async fn mount<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    path: &[u8],
) -> Result<OuterHandle, Status> {
    if !path.is_empty() && !path.starts_with(b"/") {
        return Err(Status::Noent);
    }
    let wanted = components(path);
    if wanted.len() > MOUNT_COMPONENTS_MAX {
        return Err(Status::Nametoolong);
    }
    if wanted.iter().any(|part| matches!(*part, b"." | b"..")) {
        return Err(Status::Inval);
    }
    let served = {
        let exports = server.exports.borrow();
        Rc::clone(leading(&exports, &wanted).ok_or(Status::Noent)?)
    };
    let rules = served.export.rules_for(call.peer);
    let rules = rules.map_err(|check| check.refuse(call))?;
    call.vouch();
    let rest = wanted.get(depth(&served)..).unwrap_or_default();
    let handle = if rest.is_empty() {
        served.store.root()
    } else {
        let credentials = server
            .credentials(&served.export, rules.squash, call)
            .await?;
        server.tell_moment(&served);
        served.store.resolve(&credentials, rest).await?
    };
    served.outer(&handle).ok_or(Status::Serverfault)
}

/// The export whose path is the longest prefix of the path with these components.
pub(super) fn leading<'a, V>(
    exports: &'a [Rc<Served<V>>],
    wanted: &[&[u8]],
) -> Option<&'a Rc<Served<V>>> {
    let leads =
        |served: &&Rc<Served<V>>| wanted.starts_with(&components(served.export.path().as_bytes()));
    exports.iter().filter(leads).max_by_key(|it| depth(it))
}

fn depth<V>(served: &Served<V>) -> usize {
    components(served.export.path().as_bytes()).len()
}

/// The one spelling of a path in the list of mounts, so that UMNT finds the entry of MNT.
fn normalised(components: &[&[u8]]) -> Vec<u8> {
    [b"/", &*components.join(&b'/')].concat()
}

/// Writes the list of exports, entry by entry: the names of client networks exist as text only here.
fn list_exports<V: Vfs>(server: &Server<V>, reply: &mut Reply) {
    let mut results = reply.results();
    for served in &*server.exports.borrow() {
        results.bool(true);
        DirPath(served.export.path().as_bytes()).encode(&mut results);
        for network in served.export.clients() {
            results.bool(true);
            HostName(network.to_string().as_bytes()).encode(&mut results);
        }
        results.bool(false);
    }
    results.bool(false);
}
