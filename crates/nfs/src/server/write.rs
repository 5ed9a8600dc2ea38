//! WRITE, COMMIT.

use super::{Answered, Server, arguments, failed, put};
use crate::convert::{stability_from_wire, stability_to_wire, wcc_to_wire};
use gannet_rpc::{Call, OpaqueArgument, Reply};
use gannet_runtime::Buffer;
use gannet_vfs::{Status, Vfs};
use gannet_wire::nfs3::{
    CommitArgs, CommitOk, CommitResult, DATA_MAX, FileHandle, Stable, WccData, WriteOk, WriteResult,
};
use gannet_wire::xdr::{Decode, XdrError};

/// RFC 1813 section 3.3.7.
pub(super) async fn write<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let mut decoder = call.decoder();
    let file = FileHandle::decode(&mut decoder)?;
    let (offset, count) = (decoder.u64()?, decoder.u32()?);
    let stable = Stable::decode(&mut decoder)?;
    let data = call.take_opaque(&mut decoder, DATA_MAX)?;
    decoder.finish()?;
    let (data, len) = owned(server, data);
    if count as usize != len {
        return Err(XdrError::Value);
    }
    let target = match server.target_to_change(call, file).await {
        Ok(target) => target,
        Err(status) => return put_refused(reply, status),
    };
    let end = offset.checked_add(u64::from(count));
    if end.is_none_or(|end| end > target.store().limits().file_size_max) {
        return put_refused(reply, Status::Fbig);
    }
    let stability = stability_from_wire(stable);
    let written = target
        .store()
        .write(
            &target.credentials,
            &target.handle,
            offset,
            data,
            0..len,
            stability,
        )
        .await;
    let wcc = wcc_to_wire(&written.wcc);
    let result: WriteResult = match written.result {
        Ok(done) => Ok(WriteOk {
            wcc,
            count: done.count,
            committed: stability_to_wire(done.committed),
            verifier: done.verifier,
        }),
        Err(status) => Err(failed(status, wcc)),
    };
    put(reply, &result)
}

/// Writes a failure of WRITE or COMMIT, which have the same form.
fn put_refused(reply: &mut Reply, status: Status) -> Answered {
    let result: WriteResult = Err(failed(status, WccData::default()));
    put(reply, &result)
}

/// The data in memory that the store may keep, and its length. Inline data is copied: it lies in the call's memory,
/// which the next call uses again.
fn owned<V: Vfs>(server: &Server<V>, data: OpaqueArgument<'_>) -> (Buffer, usize) {
    let bytes = match data {
        OpaqueArgument::Placed(buffer, len) => {
            let len = len.min(buffer.len());
            return (buffer, len);
        }
        OpaqueArgument::Inline(bytes) => bytes,
    };
    if let Some(mut buffer) = server.small_buffer(bytes.len())
        && let Some(room) = buffer.get_mut(..bytes.len())
    {
        room.copy_from_slice(bytes);
        return (buffer, bytes.len());
    }
    (Buffer::from_vec(bytes.to_vec()), bytes.len())
}

/// RFC 1813 section 3.3.21.
pub(super) async fn commit<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: CommitArgs<'_> = arguments(call)?;
    let target = match server.target_to_change(call, args.file).await {
        Ok(target) => target,
        Err(status) => return put_refused(reply, status),
    };
    let done = target
        .store()
        .commit(&target.credentials, &target.handle, args.offset, args.count)
        .await;
    let wcc = wcc_to_wire(&done.wcc);
    let result: CommitResult = match done.result {
        Ok(commit) => Ok(CommitOk {
            wcc,
            verifier: commit.verifier,
        }),
        Err(status) => Err(failed(status, wcc)),
    };
    put(reply, &result)
}
