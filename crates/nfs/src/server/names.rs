//! REMOVE, RMDIR, RENAME, LINK.

use super::{Answered, Server, arguments, failed, put, put_changed};
use crate::convert::{attributes_to_wire, wcc_to_wire};
use gannet_rpc::{Call, Reply};
use gannet_vfs::{EntryName, Vfs, Wcc};
use gannet_wire::nfs3::{
    LinkArgs, LinkResult, LinkWcc, RemoveArgs, RenameArgs, RenameResult, RenameWcc, RmdirArgs,
};

/// RFC 1813 section 3.3.12.
pub(super) async fn remove<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: RemoveArgs<'_> = arguments(call)?;
    let target = match server.target_to_change(call, args.directory).await {
        Ok(target) => target,
        Err(status) => return put_changed(reply, Err(status), &Wcc::default()),
    };
    let name = args.name.0;
    let removed = target
        .store()
        .remove(&target.credentials, &target.handle, name)
        .await;
    put_changed(reply, removed.result, &removed.wcc)
}

/// RFC 1813 section 3.3.13.
pub(super) async fn rmdir<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: RmdirArgs<'_> = arguments(call)?;
    let target = match server.target_to_change(call, args.directory).await {
        Ok(target) => target,
        Err(status) => return put_changed(reply, Err(status), &Wcc::default()),
    };
    let name = args.name.0;
    let store = target.store();
    let removed = store
        .remove_directory(&target.credentials, &target.handle, name)
        .await;
    put_changed(reply, removed.result, &removed.wcc)
}

/// RFC 1813 section 3.3.14.
pub(super) async fn rename<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: RenameArgs<'_> = arguments(call)?;
    let both = server
        .target_to_change(call, args.from.directory)
        .await
        .and_then(|target| {
            let other = target.other(args.to.directory)?;
            Ok((target, other))
        });
    let (target, to) = match both {
        Ok(both) => both,
        Err(status) => {
            let result: RenameResult = Err(failed(status, RenameWcc::default()));
            return put(reply, &result);
        }
    };
    let (renamed, from_wcc, to_wcc) = target
        .store()
        .rename(
            &target.credentials,
            EntryName::new(&target.handle, args.from.name.0),
            EntryName::new(&to, args.to.name.0),
        )
        .await;
    let body = RenameWcc {
        from: wcc_to_wire(&from_wcc),
        to: wcc_to_wire(&to_wcc),
    };
    let result: RenameResult = match renamed {
        Ok(()) => Ok(body),
        Err(status) => Err(failed(status, body)),
    };
    put(reply, &result)
}

/// RFC 1813 section 3.3.15.
pub(super) async fn link<V: Vfs>(server: &Server<V>, call: &Call, reply: &mut Reply) -> Answered {
    let args: LinkArgs<'_> = arguments(call)?;
    let target = server.target_to_change(call, args.file).await;
    let both = target.and_then(|target| {
        let directory = target.other(args.place.directory)?;
        Ok((target, directory))
    });
    let (target, directory) = match both {
        Ok(both) => both,
        Err(status) => {
            let result: LinkResult = Err(failed(status, LinkWcc::default()));
            return put(reply, &result);
        }
    };
    let (linked, attributes) = target
        .store()
        .link(
            &target.credentials,
            &target.handle,
            &directory,
            args.place.name.0,
        )
        .await;
    let body = LinkWcc {
        attributes: attributes.as_ref().map(attributes_to_wire),
        directory: wcc_to_wire(&linked.wcc),
    };
    let result: LinkResult = match linked.result {
        Ok(()) => Ok(body),
        Err(status) => Err(failed(status, body)),
    };
    put(reply, &result)
}
