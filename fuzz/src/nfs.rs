//! NFSv3 and MOUNT messages behind their RPC headers.

use gannet_wire::mount3::{self, DirPath, DumpResult, ExportResult, MntResult};
use gannet_wire::nfs3::*;
use gannet_wire::nfsacl3;
use gannet_wire::rpc::{AcceptStatus, CallHeader, ReplyHeader, ReplyOutcome};
use gannet_wire::xdr::{Decoder, Encode, Encoder, from_bytes};

/// Decodes a value, encodes it, and decodes that: both must print the same. The printer visits every field.
macro_rules! check {
    ($bytes:expr, $type:ty) => {
        if let Ok(value) = from_bytes::<$type>($bytes) {
            let mut out = Vec::new();
            value.encode(&mut Encoder::new(&mut out));
            let again = from_bytes::<$type>(&out);
            assert_eq!(format!("{again:?}"), format!("{:?}", Ok::<_, ()>(value)));
        }
    };
}

/// An RPC call of NFSv3: header, then the arguments of the procedure it names.
pub(crate) fn nfs3_call(data: &[u8]) {
    let mut decoder = Decoder::new(data);
    let Ok(header) = CallHeader::parse(&mut decoder) else {
        return;
    };
    if let Some(procedure) = Procedure::from_number(header.procedure) {
        arguments(procedure, decoder.remaining());
    }
    check!(decoder.remaining(), nfsacl3::SetaclArgs<'_>);
}

fn arguments(procedure: Procedure, bytes: &[u8]) {
    match procedure {
        Procedure::Null => check!(bytes, ()),
        Procedure::Setattr => check!(bytes, SetattrArgs<'_>),
        Procedure::Access => check!(bytes, AccessArgs<'_>),
        Procedure::Read => check!(bytes, ReadArgs<'_>),
        Procedure::Write => {
            check!(bytes, WriteArgs<'_>);
            check!(bytes, WriteHead<'_>);
        }
        Procedure::Create => check!(bytes, CreateArgs<'_>),
        Procedure::Mkdir => check!(bytes, MkdirArgs<'_>),
        Procedure::Symlink => {
            check!(bytes, SymlinkArgs<'_>);
            check!(bytes, SymlinkHead<'_>);
        }
        Procedure::Mknod => check!(bytes, MknodArgs<'_>),
        Procedure::Lookup | Procedure::Remove | Procedure::Rmdir => {
            check!(bytes, DirectoryName<'_>);
        }
        Procedure::Rename => check!(bytes, RenameArgs<'_>),
        Procedure::Link => check!(bytes, LinkArgs<'_>),
        Procedure::Readdir => check!(bytes, ReaddirArgs<'_>),
        Procedure::Readdirplus => check!(bytes, ReaddirplusArgs<'_>),
        Procedure::Commit => check!(bytes, CommitArgs<'_>),
        _ => check!(bytes, FileHandle<'_>),
    }
}

/// A procedure's number in one word, then an RPC reply with that procedure's results.
pub(crate) fn nfs3_reply(data: &[u8]) {
    let Some((number, results)) = successful(data) else {
        return;
    };
    if let Some(procedure) = Procedure::from_number(number) {
        check_results(procedure, results);
    }
}

/// The procedure, and the results behind the header of a successful reply.
fn successful(data: &[u8]) -> Option<(u32, &[u8])> {
    let (number, reply) = data.split_first_chunk::<4>()?;
    let mut decoder = Decoder::new(reply);
    match ReplyHeader::parse(&mut decoder).ok()?.outcome {
        ReplyOutcome::Accepted {
            status: AcceptStatus::Success,
            ..
        } => Some((u32::from_be_bytes(*number), decoder.remaining())),
        _ => None,
    }
}

fn check_results(procedure: Procedure, bytes: &[u8]) {
    match procedure {
        Procedure::Null => check!(bytes, ()),
        Procedure::Getattr => check!(bytes, GetattrResult),
        Procedure::Setattr | Procedure::Remove | Procedure::Rmdir => check!(bytes, SetattrResult),
        Procedure::Lookup => check!(bytes, LookupResult<'_>),
        Procedure::Access => check!(bytes, AccessResult),
        Procedure::Readlink => {
            check!(bytes, ReadlinkResult<'_>);
            check!(bytes, ReadlinkHeadResult);
        }
        Procedure::Read => {
            check!(bytes, ReadResult<'_>);
            check!(bytes, ReadHeadResult);
        }
        Procedure::Write => check!(bytes, WriteResult),
        Procedure::Create | Procedure::Mkdir | Procedure::Symlink | Procedure::Mknod => {
            check!(bytes, CreateResult<'_>);
        }
        Procedure::Rename => check!(bytes, RenameResult),
        Procedure::Link => check!(bytes, LinkResult),
        Procedure::Readdir => check!(bytes, ReaddirResult<'_>),
        Procedure::Readdirplus => check!(bytes, ReaddirplusResult<'_>),
        Procedure::Fsstat => {
            check!(bytes, FsstatResult);
            check!(bytes, nfsacl3::GetaclResult<'_>);
        }
        Procedure::Fsinfo => check!(bytes, FsinfoResult),
        Procedure::Pathconf => check!(bytes, PathconfResult),
        Procedure::Commit => check!(bytes, CommitResult),
    }
}

/// An RPC call of MOUNT.
pub(crate) fn mount3_call(data: &[u8]) {
    let mut decoder = Decoder::new(data);
    if CallHeader::parse(&mut decoder).is_ok() {
        check!(decoder.remaining(), DirPath<'_>);
    }
}

/// A procedure's number in one word, then an RPC reply of MOUNT.
pub(crate) fn mount3_reply(data: &[u8]) {
    let Some((number, results)) = successful(data) else {
        return;
    };
    if number == mount3::Procedure::Mnt.number() {
        check!(results, MntResult<'_>);
    } else if number == mount3::Procedure::Dump.number() {
        check!(results, DumpResult<'_>);
    } else {
        check!(results, ExportResult<'_>);
    }
}
