//! CREATE, MKDIR, SYMLINK, MKNOD.

use super::export::{OuterHandle, Served};
use super::{Answered, Server, arguments, failed, put};
use crate::convert::{attributes_to_wire, set_attributes_from_wire, wcc_to_wire};
use gannet_rpc::limits::PAYLOAD_MAX;
use gannet_rpc::{Call, Reply};
use gannet_vfs::{Changed, CreateMode, Created, NodeKind, Status, Vfs};
use gannet_wire::nfs3::{
    CreateArgs, CreateHow, CreateOk, CreateResult, DirectoryName, MkdirArgs, MknodArgs, MknodData,
    SetAttributes, WccData,
};
use gannet_wire::xdr::Decode;

/// RFC 1813 section 3.3.8.
pub(super) async fn create<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: CreateArgs<'_> = arguments(call)?;
    let target = match server.target_to_change(call, args.place.directory).await {
        Ok(target) => target,
        Err(status) => return put_refused(reply, status),
    };
    let mode = match args.how {
        CreateHow::Unchecked(set) => CreateMode::Unchecked(set_attributes_from_wire(&set)),
        CreateHow::Guarded(set) => CreateMode::Guarded(set_attributes_from_wire(&set)),
        CreateHow::Exclusive(verifier) => CreateMode::Exclusive(verifier),
    };
    let name = args.place.name.0;
    let made = target
        .store()
        .create(&target.credentials, &target.handle, name, &mode)
        .await;
    put_made(reply, &target.served, &made)
}

/// RFC 1813 section 3.3.9.
pub(super) async fn mkdir<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: MkdirArgs<'_> = arguments(call)?;
    let target = match server.target_to_change(call, args.place.directory).await {
        Ok(target) => target,
        Err(status) => return put_refused(reply, status),
    };
    let attributes = set_attributes_from_wire(&args.attributes);
    let name = args.place.name.0;
    let made = target
        .store()
        .make_directory(&target.credentials, &target.handle, name, &attributes)
        .await;
    put_made(reply, &target.served, &made)
}

/// RFC 1813 section 3.3.10. The text may have come apart from the other arguments (RFC 8267 section 3).
pub(super) async fn symlink<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    let mut decoder = call.decoder();
    let place = DirectoryName::decode(&mut decoder)?;
    let attributes = SetAttributes::decode(&mut decoder)?;
    // The store refuses a text that is too long, with a status.
    let text = call.take_opaque(&mut decoder, PAYLOAD_MAX)?;
    decoder.finish()?;
    let target = match server.target_to_change(call, place.directory).await {
        Ok(target) => target,
        Err(status) => return put_refused(reply, status),
    };
    let attributes = set_attributes_from_wire(&attributes);
    let (name, text) = (place.name.0, text.as_slice());
    let made = target
        .store()
        .make_symlink(&target.credentials, &target.handle, name, text, &attributes)
        .await;
    put_made(reply, &target.served, &made)
}

/// RFC 1813 section 3.3.11.
pub(super) async fn mknod<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: MknodArgs<'_> = arguments(call)?;
    let target = match server.target_to_change(call, args.place.directory).await {
        Ok(target) => target,
        Err(status) => return put_refused(reply, status),
    };
    let (kind, attributes) = match args.what {
        MknodData::CharacterDevice { attributes, device } => (
            NodeKind::CharacterDevice {
                major: device.major,
                minor: device.minor,
            },
            attributes,
        ),
        MknodData::BlockDevice { attributes, device } => (
            NodeKind::BlockDevice {
                major: device.major,
                minor: device.minor,
            },
            attributes,
        ),
        MknodData::Socket(set) => (NodeKind::Socket, set),
        MknodData::Fifo(set) => (NodeKind::Fifo, set),
        MknodData::Other(_) => return put_refused(reply, Status::Badtype),
    };
    let attributes = set_attributes_from_wire(&attributes);
    let name = args.place.name.0;
    let made = target
        .store()
        .make_node(&target.credentials, &target.handle, name, kind, &attributes)
        .await;
    put_made(reply, &target.served, &made)
}

fn put_refused(reply: &mut Reply, status: Status) -> Answered {
    let result: CreateResult<'_> = Err(failed(status, WccData::default()));
    put(reply, &result)
}

fn put_made<V: Vfs>(reply: &mut Reply, served: &Served<V>, made: &Changed<Created>) -> Answered {
    let directory = wcc_to_wire(&made.wcc);
    let object = match &made.result {
        Ok(created) => served.outer(&created.handle),
        Err(_) => None,
    };
    let result: CreateResult<'_> = match &made.result {
        Ok(created) => Ok(CreateOk {
            object: object.as_ref().map(OuterHandle::as_wire),
            attributes: created.attributes.as_ref().map(attributes_to_wire),
            directory,
        }),
        Err(status) => Err(failed(*status, directory)),
    };
    put(reply, &result)
}
