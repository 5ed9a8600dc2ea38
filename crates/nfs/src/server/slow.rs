//! Calls that took long.

use super::Server;
use super::operations::words;
use gannet_metrics::{Noted, SlowOperation, UNLOGGED};
use gannet_rpc::{Call, TakenApart, Transport};
use gannet_vfs::Vfs;

/// Notes `call` if it was slow, in the log too.
pub(super) fn note<V: Vfs>(server: &Server<V>, call: &Call, taken: &TakenApart) {
    let Some([protocol, procedure, status]) = words(call, taken.first_word) else {
        return;
    };
    let mut subject = String::new();
    let noted = server.slow.note(&taken.parts, || {
        subject = server
            .subject(call)
            .map_or_else(String::new, |it| it.to_string());
        SlowOperation {
            ended: taken.ended,
            protocol,
            procedure,
            status,
            client: Some(call.peer.ip()),
            transport: match call.transport {
                Transport::Tcp => "tcp",
                Transport::Rdma => "rdma",
            },
            subject: subject.clone(),
            parts: taken.parts,
        }
    });
    match noted {
        Noted::Logged => {
            let took_ms = taken.parts.whole_ms();
            tracing::warn!(
                client = %call.peer, status, %subject, took_ms, parts = %taken.parts,
                "slow operation"
            );
        }
        Noted::FirstUnlogged => tracing::warn!("{UNLOGGED}"),
        Noted::Fast | Noted::Unlogged => {}
    }
}
