//! GETATTR, SETATTR, ACCESS.

use super::{Answered, Server, arguments, failed, put, put_changed};
use crate::convert::{attributes_to_wire, set_attributes_from_wire, time_from_wire};
use gannet_rpc::{Call, Reply};
use gannet_vfs::{AccessMask, Vfs, Wcc};
use gannet_wire::nfs3::{
    AccessArgs, AccessOk, AccessResult, GetattrArgs, GetattrResult, SetattrArgs,
};

/// RFC 1813 section 3.3.1.
pub(super) async fn getattr<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    let object: GetattrArgs<'_> = arguments(call)?;
    let found = match server.target(call, object).await {
        Ok(target) => target.store().attributes(&target.handle).await,
        Err(status) => Err(status),
    };
    let result: GetattrResult = match &found {
        Ok(attributes) => Ok(attributes_to_wire(attributes)),
        Err(status) => Err(failed(*status, ())),
    };
    put(reply, &result)
}

/// RFC 1813 section 3.3.2.
pub(super) async fn setattr<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    let args: SetattrArgs<'_> = arguments(call)?;
    let target = match server.target_to_change(call, args.object).await {
        Ok(target) => target,
        Err(status) => return put_changed(reply, Err(status), &Wcc::default()),
    };
    let change = set_attributes_from_wire(&args.change);
    let guard = args.guard.map(time_from_wire);
    let set = target
        .store()
        .set_attributes(&target.credentials, &target.handle, &change, guard)
        .await;
    put_changed(reply, set.result, &set.wcc)
}

/// RFC 1813 section 3.3.4. At a read-only export no caller has the rights to change.
pub(super) async fn access<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: AccessArgs<'_> = arguments(call)?;
    let found = match server.target(call, args.object).await {
        Ok(target) => {
            let mut wanted = args.access;
            if target.read_only {
                wanted &= !(AccessMask::MODIFY | AccessMask::EXTEND | AccessMask::DELETE);
            }
            let wanted = AccessMask(wanted);
            target
                .store()
                .access(&target.credentials, &target.handle, wanted)
                .await
        }
        Err(status) => Err(status),
    };
    let result: AccessResult = match &found {
        Ok((granted, attributes)) => Ok(AccessOk {
            attributes: Some(attributes_to_wire(attributes)),
            access: granted.0,
        }),
        Err(status) => Err(failed(*status, None)),
    };
    put(reply, &result)
}
