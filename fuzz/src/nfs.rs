//! NFSv3 and MOUNT messages behind their RPC headers.

use crate::iwarp::check_line;
use gannet_wire::mount3::{self, DirPath, DumpResult, ExportResult, MntResult};
use gannet_wire::nfs3::*;
use gannet_wire::nfsacl3;
use gannet_wire::rpc::{AcceptStatus, CallHeader, ReplyHeader, ReplyOutcome};
use gannet_wire::xdr::{Decoder, Encode, Encoder, Printed, from_bytes};

/// Decodes a value, encodes it, and decodes that: both must print the same. The printer visits every field.
macro_rules! check {
    ($bytes:expr, $type:ty) => {
        if let Ok(value) = from_bytes::<$type>($bytes) {
            check_line(&Printed(&value));
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
    if let Some(procedure) = NfsProcedure::from_number(header.procedure) {
        arguments(procedure, decoder.remaining());
    }
    check!(decoder.remaining(), nfsacl3::SetaclArgs<'_>);
}

fn arguments(procedure: NfsProcedure, bytes: &[u8]) {
    match procedure {
        NfsProcedure::Null => check!(bytes, ()),
        NfsProcedure::Setattr => check!(bytes, SetattrArgs<'_>),
        NfsProcedure::Access => check!(bytes, AccessArgs<'_>),
        NfsProcedure::Read => check!(bytes, ReadArgs<'_>),
        NfsProcedure::Write => {
            check!(bytes, WriteArgs<'_>);
            check!(bytes, WriteHead<'_>);
        }
        NfsProcedure::Create => check!(bytes, CreateArgs<'_>),
        NfsProcedure::Mkdir => check!(bytes, MkdirArgs<'_>),
        NfsProcedure::Symlink => {
            check!(bytes, SymlinkArgs<'_>);
            check!(bytes, SymlinkHead<'_>);
        }
        NfsProcedure::Mknod => check!(bytes, MknodArgs<'_>),
        NfsProcedure::Lookup | NfsProcedure::Remove | NfsProcedure::Rmdir => {
            check!(bytes, DirectoryName<'_>);
        }
        NfsProcedure::Rename => check!(bytes, RenameArgs<'_>),
        NfsProcedure::Link => check!(bytes, LinkArgs<'_>),
        NfsProcedure::Readdir => check!(bytes, ReaddirArgs<'_>),
        NfsProcedure::Readdirplus => check!(bytes, ReaddirplusArgs<'_>),
        NfsProcedure::Commit => check!(bytes, CommitArgs<'_>),
        _ => check!(bytes, FileHandle<'_>),
    }
}

/// A procedure's number in one word, then an RPC reply with that procedure's results.
pub(crate) fn nfs3_reply(data: &[u8]) {
    let Some((number, results)) = successful(data) else {
        return;
    };
    if let Some(procedure) = NfsProcedure::from_number(number) {
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

fn check_results(procedure: NfsProcedure, bytes: &[u8]) {
    match procedure {
        NfsProcedure::Null => check!(bytes, ()),
        NfsProcedure::Getattr => check!(bytes, GetattrResult),
        NfsProcedure::Setattr | NfsProcedure::Remove | NfsProcedure::Rmdir => {
            check!(bytes, SetattrResult)
        }
        NfsProcedure::Lookup => check!(bytes, LookupResult<'_>),
        NfsProcedure::Access => check!(bytes, AccessResult),
        NfsProcedure::Readlink => {
            check!(bytes, ReadlinkResult<'_>);
            check!(bytes, ReadlinkHeadResult);
        }
        NfsProcedure::Read => {
            check!(bytes, ReadResult<'_>);
            check!(bytes, ReadHeadResult);
        }
        NfsProcedure::Write => check!(bytes, WriteResult),
        NfsProcedure::Create
        | NfsProcedure::Mkdir
        | NfsProcedure::Symlink
        | NfsProcedure::Mknod => {
            check!(bytes, CreateResult<'_>);
        }
        NfsProcedure::Rename => check!(bytes, RenameResult),
        NfsProcedure::Link => check!(bytes, LinkResult),
        NfsProcedure::Readdir => check!(bytes, ReaddirResult<'_>),
        NfsProcedure::Readdirplus => check!(bytes, ReaddirplusResult<'_>),
        NfsProcedure::Fsstat => {
            check!(bytes, FsstatResult);
            check!(bytes, nfsacl3::GetaclResult<'_>);
        }
        NfsProcedure::Fsinfo => check!(bytes, FsinfoResult),
        NfsProcedure::Pathconf => check!(bytes, PathconfResult),
        NfsProcedure::Commit => check!(bytes, CommitResult),
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
    if number == mount3::MountProcedure::Mnt.number() {
        check!(results, MntResult<'_>);
    } else if number == mount3::MountProcedure::Dump.number() {
        check!(results, DumpResult<'_>);
    } else {
        check!(results, ExportResult<'_>);
    }
}
