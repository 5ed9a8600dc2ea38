//! The exports and files with the most calls.

use super::{Server, Subject};
use crate::limits::PATH_SHOWN_MAX;
use gannet_metrics::Operation;
use gannet_rpc::{Call, Reply};
use gannet_vfs::{FileHandle, Vfs};
use gannet_wire::Escaped;
use gannet_wire::nfs3::{NfsProcedure, Nfsstat};

/// Counts an executed call for its export and its object.
pub(super) fn note<V: Vfs>(server: &Server<V>, call: &Call, reply: &Reply) {
    server.operations.busy.note(
        || {
            // Whom no export admits shall not fill the table, nor handles of nothing.
            let subject = server.subject(call).filter(|_| call.is_vouched())?;
            Some(Operation {
                export: subject.export.clone()?,
                file: subject.handle.filter(|_| has_object(reply)),
                received_bytes: received(&subject, call, reply),
                sent_bytes: reply.stream_len() as u64,
            })
        },
        || {
            let subject = Subject::parse(call.program, call.procedure, call.arguments())?;
            let served = server.served_for(&subject)?;
            let (_, inner) = subject.handle?.split_first()?;
            let label = served.store.label(&FileHandle::new(inner)?)?;
            Some(shown(&label))
        },
    );
}

/// Whether the handle of an answered call named an object, as far as its status tells.
fn has_object(reply: &Reply) -> bool {
    let is_one_of = |status: Nfsstat| reply.first_word() == Some(status.code());
    reply.is_success() && !is_one_of(Nfsstat::STALE) && !is_one_of(Nfsstat::BADHANDLE)
}

/// A label with escapes. Of a long one the end: paths differ there.
fn shown(label: &[u8]) -> String {
    let cut = label.len().saturating_sub(PATH_SHOWN_MAX);
    let dots = if cut > 0 { "..." } else { "" };
    format!("{dots}{}", Escaped(label.get(cut..).unwrap_or_default()))
}

/// Bytes of the arguments, with data that came apart from them.
fn received(subject: &Subject<'_>, call: &Call, reply: &Reply) -> u64 {
    let arguments = call.arguments().len() as u64;
    let is_write = subject.procedure == NfsProcedure::Write.name();
    match subject.count {
        Some(count) if is_write && reply.first_word() == Some(0) => arguments.max(count.into()),
        _ => arguments,
    }
}
