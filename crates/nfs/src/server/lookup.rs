//! LOOKUP, READLINK.

use super::{Answered, Server, arguments, failed, put};
use crate::convert::attributes_to_wire;
use gannet_rpc::{Call, Payload, Reply};
use gannet_vfs::{Status, Vfs};
use gannet_wire::nfs3::{
    LookupArgs, LookupOk, LookupResult, PostOpAttributes, ReadlinkArgs, ReadlinkResult,
};
use gannet_wire::xdr::Encode;

/// RFC 1813 section 3.3.3.
pub(super) async fn lookup<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: LookupArgs<'_> = arguments(call)?;
    let target = match server.target(call, args.directory).await {
        Ok(target) => target,
        Err(status) => {
            let result: LookupResult<'_> = Err(failed(status, None));
            return put(reply, &result);
        }
    };
    let name = args.name.0;
    let (found, directory) = target
        .store()
        .lookup(&target.credentials, &target.handle, name)
        .await;
    let directory: PostOpAttributes = directory.as_ref().map(attributes_to_wire);
    let found = found.and_then(|(handle, attributes)| {
        let outer = target.served.outer(&handle).ok_or(Status::Serverfault)?;
        Ok((outer, attributes))
    });
    let result: LookupResult<'_> = match &found {
        Ok((object, attributes)) => Ok(LookupOk {
            object: object.as_wire(),
            attributes: Some(attributes_to_wire(attributes)),
            directory,
        }),
        Err(status) => Err(failed(*status, directory)),
    };
    put(reply, &result)
}

/// RFC 1813 section 3.3.5. The text is eligible for direct placement (RFC 8267 section 3).
pub(super) async fn readlink<V: Vfs>(
    server: &Server<V>,
    call: &Call,
    reply: &mut Reply,
) -> Answered {
    let link: ReadlinkArgs<'_> = arguments(call)?;
    let found = match server.target(call, link).await {
        Ok(target) => {
            target
                .store()
                .read_link(&target.credentials, &target.handle)
                .await
        }
        Err(status) => Err(status),
    };
    match found {
        Ok((text, attributes)) => {
            let attributes: PostOpAttributes = Some(attributes_to_wire(&attributes));
            let mut results = reply.results();
            results.u32(0);
            attributes.encode(&mut results);
            reply.put_payload(Payload::Bytes(text.into()));
            Ok(())
        }
        Err(status) => {
            let result: ReadlinkResult<'_> = Err(failed(status, None));
            put(reply, &result)
        }
    }
}
