//! FSSTAT, FSINFO, PATHCONF.

use super::{Answered, Server, arguments, failed, put};
use crate::convert::{attributes_to_wire, time_to_wire};
use crate::limits::{DIRECTORY_PAGE_PREFERRED, TRANSFER_MAX};
use gannet_rpc::{Call, Reply};
use gannet_vfs::Vfs;
use gannet_wire::nfs3::{
    FsinfoArgs, FsinfoOk, FsinfoResult, FsstatArgs, FsstatOk, FsstatResult, PathconfArgs,
    PathconfOk, PathconfResult, property,
};

/// The unit of transfers that FSINFO suggests: a page.
const TRANSFER_MULTIPLE: u32 = 4096;

/// RFC 1813 section 3.3.18.
pub(super) async fn fsstat<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let object: FsstatArgs<'_> = arguments(call)?;
    let result: FsstatResult = match server.target(call, object).await {
        Ok(target) => match target.store().usage(&target.handle).await {
            Ok(usage) => Ok(FsstatOk {
                attributes: target.post_op().await,
                bytes_total: usage.bytes_total,
                bytes_free: usage.bytes_free,
                bytes_available: usage.bytes_available,
                files_total: usage.files_total,
                files_free: usage.files_free,
                files_available: usage.files_available,
                invariant_seconds: 0,
            }),
            Err(status) => Err(failed(status, None)),
        },
        Err(status) => Err(failed(status, None)),
    };
    put(reply, &result)
}

/// RFC 1813 section 3.3.19.
pub(super) async fn fsinfo<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let object: FsinfoArgs<'_> = arguments(call)?;
    let found = match server.target(call, object).await {
        Ok(target) => {
            let attributes = target.store().attributes(&target.handle).await;
            attributes.map(|attributes| (attributes, target.store().limits()))
        }
        Err(status) => Err(status),
    };
    let result: FsinfoResult = match found {
        Ok((attributes, limits)) => Ok(FsinfoOk {
            attributes: Some(attributes_to_wire(&attributes)),
            read_max: TRANSFER_MAX,
            read_preferred: TRANSFER_MAX,
            read_multiple: TRANSFER_MULTIPLE,
            write_max: TRANSFER_MAX,
            write_preferred: TRANSFER_MAX,
            write_multiple: TRANSFER_MULTIPLE,
            directory_preferred: DIRECTORY_PAGE_PREFERRED,
            file_size_max: limits.file_size_max,
            time_delta: time_to_wire(limits.time_delta),
            properties: property::LINK
                | property::SYMLINK
                | property::HOMOGENEOUS
                | property::CANSETTIME,
        }),
        Err(status) => Err(failed(status, None)),
    };
    put(reply, &result)
}

/// RFC 1813 section 3.3.20.
pub(super) async fn pathconf<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    let object: PathconfArgs<'_> = arguments(call)?;
    let found = match server.target(call, object).await {
        Ok(target) => {
            let attributes = target.store().attributes(&target.handle).await;
            attributes.map(|attributes| (attributes, target.store().limits()))
        }
        Err(status) => Err(status),
    };
    let result: PathconfResult = match found {
        Ok((attributes, limits)) => Ok(PathconfOk {
            attributes: Some(attributes_to_wire(&attributes)),
            link_max: limits.link_max,
            name_max: limits.name_max,
            no_truncation: true,
            chown_restricted: true,
            case_insensitive: false,
            case_preserving: true,
        }),
        Err(status) => Err(failed(status, None)),
    };
    put(reply, &result)
}
