//! Every NFS message between a Linux 6.1 client and knfsd over RDMA, decoded to its last byte and written again.

#![allow(clippy::unwrap_used)]

use crate::nfs_support;

use gannet_wire::nfs3::*;
use gannet_wire::rpc::{AcceptStatus, CallHeader, ReplyHeader, ReplyOutcome};
use gannet_wire::rpcrdma::{self, ChunkLimits, ChunkLists, TransportHeader};
use gannet_wire::xdr::{Decoder, from_bytes};
use nfs_support::{bytes_of, encoded};
use std::collections::BTreeMap;

const LIMITS: ChunkLimits = ChunkLimits {
    segments_max: 64,
    write_chunks_max: 8,
};
/// MPA length, DDP and RDMAP control, then the untagged header.
const UNTAGGED_AT: usize = 20;

fn number(about: &str, name: &str) -> usize {
    let value = about.split(' ').find_map(|word| word.strip_prefix(name));
    value.unwrap().parse().unwrap()
}

/// The Sends of a capture: the connection, whether the client sent it, its bytes.
fn messages(text: &str) -> Vec<(String, bool, Vec<u8>)> {
    let mut partial: BTreeMap<String, Vec<u8>> = BTreeMap::new();
    let mut found = Vec::new();
    for line in text.lines().filter(|line| line.contains(" send")) {
        let (about, hex) = line.split_once(" | ").unwrap();
        let stream = about.split(" send").next().unwrap().to_string();
        let message = partial.entry(stream.clone()).or_default();
        message.extend_from_slice(&bytes_of(hex)[UNTAGGED_AT..][..number(about, "payload=")]);
        if number(about, "last=") == 1 {
            let (connection, direction) = stream.split_once(' ').unwrap();
            let message = std::mem::take(message);
            found.push((connection.to_string(), direction == "i>r", message));
        }
    }
    found
}

/// Decodes a value that ends the message, and writes the same bytes again.
macro_rules! exactly {
    ($decoder:expr, $type:ty) => {{
        let bytes = $decoder.remaining();
        let value: $type = match from_bytes(bytes) {
            Ok(value) => value,
            Err(error) => panic!("{} of {bytes:02x?}: {error}", stringify!($type)),
        };
        assert_eq!(encoded(&value), bytes, "{value:?}");
    }};
}

/// As [`exactly`], for a message whose opaque travels in a chunk and leaves its length word behind.
fn reduced_arguments(procedure: NfsProcedure, decoder: &mut Decoder<'_>) {
    match procedure {
        NfsProcedure::Write => {
            let head: WriteHead<'_> = from_bytes(decoder.remaining()).unwrap();
            assert_eq!(head.count, head.length);
        }
        NfsProcedure::Symlink => {
            let head: SymlinkHead<'_> = from_bytes(decoder.remaining()).unwrap();
            assert_eq!(head.length, 4000);
        }
        other => panic!("{other:?} with a read chunk"),
    }
}

fn arguments(procedure: NfsProcedure, decoder: Decoder<'_>) {
    match procedure {
        NfsProcedure::Null => exactly!(decoder, ()),
        NfsProcedure::Setattr => exactly!(decoder, SetattrArgs<'_>),
        NfsProcedure::Access => exactly!(decoder, AccessArgs<'_>),
        NfsProcedure::Read => exactly!(decoder, ReadArgs<'_>),
        NfsProcedure::Write => exactly!(decoder, WriteArgs<'_>),
        NfsProcedure::Create => exactly!(decoder, CreateArgs<'_>),
        NfsProcedure::Mkdir => exactly!(decoder, MkdirArgs<'_>),
        NfsProcedure::Symlink => exactly!(decoder, SymlinkArgs<'_>),
        NfsProcedure::Mknod => exactly!(decoder, MknodArgs<'_>),
        NfsProcedure::Lookup | NfsProcedure::Remove | NfsProcedure::Rmdir => {
            exactly!(decoder, DirectoryName<'_>)
        }
        NfsProcedure::Rename => exactly!(decoder, RenameArgs<'_>),
        NfsProcedure::Link => exactly!(decoder, LinkArgs<'_>),
        NfsProcedure::Readdir => exactly!(decoder, ReaddirArgs<'_>),
        NfsProcedure::Readdirplus => exactly!(decoder, ReaddirplusArgs<'_>),
        NfsProcedure::Commit => exactly!(decoder, CommitArgs<'_>),
        _ => exactly!(decoder, FileHandle<'_>),
    }
}

fn results(procedure: NfsProcedure, decoder: Decoder<'_>) {
    match procedure {
        NfsProcedure::Null => exactly!(decoder, ()),
        NfsProcedure::Getattr => exactly!(decoder, GetattrResult),
        NfsProcedure::Setattr | NfsProcedure::Remove | NfsProcedure::Rmdir => {
            exactly!(decoder, SetattrResult)
        }
        NfsProcedure::Lookup => exactly!(decoder, LookupResult<'_>),
        NfsProcedure::Access => exactly!(decoder, AccessResult),
        NfsProcedure::Readlink => exactly!(decoder, ReadlinkResult<'_>),
        NfsProcedure::Read => exactly!(decoder, ReadResult<'_>),
        NfsProcedure::Write => exactly!(decoder, WriteResult),
        NfsProcedure::Create
        | NfsProcedure::Mkdir
        | NfsProcedure::Symlink
        | NfsProcedure::Mknod => {
            exactly!(decoder, CreateResult<'_>)
        }
        NfsProcedure::Rename => exactly!(decoder, RenameResult),
        NfsProcedure::Link => exactly!(decoder, LinkResult),
        NfsProcedure::Readdir => exactly!(decoder, ReaddirResult<'_>),
        NfsProcedure::Readdirplus => exactly!(decoder, ReaddirplusResult<'_>),
        NfsProcedure::Fsstat => exactly!(decoder, FsstatResult),
        NfsProcedure::Fsinfo => exactly!(decoder, FsinfoResult),
        NfsProcedure::Pathconf => exactly!(decoder, PathconfResult),
        NfsProcedure::Commit => exactly!(decoder, CommitResult),
    }
}

#[test]
fn linux_and_knfsd_are_understood() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vectors/siw-nfs.frames");
    let text = std::fs::read_to_string(path).unwrap();
    let mut calls = BTreeMap::new();
    let (mut whole, mut reduced) = (BTreeMap::<NfsProcedure, u32>::new(), 0);
    for (connection, from_client, message) in messages(&text) {
        let (mut decoder, mut lists) = (Decoder::new(&message), ChunkLists::new());
        let header = TransportHeader::parse(&mut decoder, &mut lists, LIMITS).unwrap();
        if header.procedure != rpcrdma::TransportProcedure::Msg {
            continue;
        }
        let key = (connection, header.xid);
        if from_client {
            let call = CallHeader::parse(&mut decoder).unwrap();
            if (call.program, call.version) != (PROGRAM, VERSION) {
                continue;
            }
            let procedure = NfsProcedure::from_number(call.procedure).unwrap();
            calls.insert(key, procedure);
            if lists.reads().is_empty() {
                arguments(procedure, decoder);
                *whole.entry(procedure).or_default() += 1;
            } else {
                reduced_arguments(procedure, &mut decoder);
                reduced += 1;
            }
        } else if let Some(procedure) = calls.get(&key) {
            let reply = ReplyHeader::parse(&mut decoder).unwrap();
            let accepted = matches!(
                reply.outcome,
                ReplyOutcome::Accepted {
                    status: AcceptStatus::Success,
                    ..
                }
            );
            assert!(accepted, "{procedure:?}");
            if lists.writes().len() > 0 {
                let head: ReadHeadResult = from_bytes(decoder.remaining()).unwrap();
                let head = head.unwrap();
                assert!(head.attributes.is_some() && head.count == head.length);
                reduced += 1;
            } else {
                results(*procedure, decoder);
            }
        }
    }
    assert!(whole.len() >= 12, "{whole:?}");
    assert!(reduced >= 6, "{reduced}");
}
