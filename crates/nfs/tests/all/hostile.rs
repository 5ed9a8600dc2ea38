//! Whatever the arguments: the server does not panic, answers, and its answer can be read.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_client::Existing;
use gannet_nfs::server::Server;
use gannet_rpc::{CallError, Client, ClientConfig, Request};
use gannet_runtime::{Buffer, Handle};
use gannet_sim::store::SimStore;
use gannet_vfs::FileHandle;
use gannet_wire::nfs3::{self, NfsProcedure};
use gannet_wire::rpc::AcceptStatus;
use gannet_wire::xdr::{Decode, Encode, Encoder};
use gannet_wire::{mount3, xdr::from_bytes};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use std::fmt::Debug;
use support::{Calls, run, served};

fn is<'a, T: Decode<'a> + Debug>(bytes: &'a [u8], what: &str) {
    let value = from_bytes::<T>(bytes);
    assert!(value.is_ok(), "{what}: {value:?} of {bytes:02x?}");
}

/// Results must be what the procedure's definition says, to the last byte.
fn check_nfs(procedure: NfsProcedure, bytes: &[u8]) {
    let what = format!("{procedure:?}");
    match procedure {
        NfsProcedure::Null => is::<()>(bytes, &what),
        NfsProcedure::Getattr => is::<nfs3::GetattrResult>(bytes, &what),
        NfsProcedure::Setattr | NfsProcedure::Remove | NfsProcedure::Rmdir => {
            is::<nfs3::SetattrResult>(bytes, &what);
        }
        NfsProcedure::Lookup => is::<nfs3::LookupResult<'_>>(bytes, &what),
        NfsProcedure::Access => is::<nfs3::AccessResult>(bytes, &what),
        NfsProcedure::Readlink => is::<nfs3::ReadlinkResult<'_>>(bytes, &what),
        NfsProcedure::Read => is::<nfs3::ReadResult<'_>>(bytes, &what),
        NfsProcedure::Write => is::<nfs3::WriteResult>(bytes, &what),
        NfsProcedure::Create
        | NfsProcedure::Mkdir
        | NfsProcedure::Symlink
        | NfsProcedure::Mknod => {
            is::<nfs3::CreateResult<'_>>(bytes, &what);
        }
        NfsProcedure::Rename => is::<nfs3::RenameResult>(bytes, &what),
        NfsProcedure::Link => is::<nfs3::LinkResult>(bytes, &what),
        NfsProcedure::Readdir => is::<nfs3::ReaddirResult<'_>>(bytes, &what),
        NfsProcedure::Readdirplus => is::<nfs3::ReaddirplusResult<'_>>(bytes, &what),
        NfsProcedure::Fsstat => is::<nfs3::FsstatResult>(bytes, &what),
        NfsProcedure::Fsinfo => is::<nfs3::FsinfoResult>(bytes, &what),
        NfsProcedure::Pathconf => is::<nfs3::PathconfResult>(bytes, &what),
        NfsProcedure::Commit => is::<nfs3::CommitResult>(bytes, &what),
    }
}

fn check_mount(procedure: u32, bytes: &[u8]) {
    match procedure {
        1 => is::<mount3::MntResult<'_>>(bytes, "mnt"),
        2 => is::<mount3::DumpResult<'_>>(bytes, "dump"),
        5 => is::<mount3::ExportResult<'_>>(bytes, "export"),
        _ => is::<()>(bytes, "void"),
    }
}

/// One word of arguments: small numbers steer decoders, handles get past the first check.
fn piece(handles: Vec<FileHandle>) -> impl Strategy<Value = Vec<u8>> {
    let handle = prop::sample::select(handles).prop_map(|handle| {
        let mut bytes = Vec::new();
        nfs3::FileHandle(handle.as_bytes()).encode(&mut Encoder::new(&mut bytes));
        bytes
    });
    let name = vec(any::<u8>(), 0..12).prop_map(|name| {
        let mut bytes = Vec::new();
        nfs3::Name(&name).encode(&mut Encoder::new(&mut bytes));
        bytes
    });
    prop_oneof![
        3 => handle,
        3 => (0u32..5).prop_map(|word| word.to_be_bytes().to_vec()),
        2 => name,
        1 => (0u32..70_000).prop_map(|word| word.to_be_bytes().to_vec()),
        1 => any::<[u8; 4]>().prop_map(|word| word.to_vec()),
        1 => vec(any::<u8>(), 0..9),
    ]
}

async fn ask(
    rpc: &Client,
    program: u32,
    version: u32,
    procedure: u32,
    arguments: Vec<u8>,
) -> Option<Vec<u8>> {
    let mut request = Request::new(program, version, procedure, 1 << 20);
    request.arguments = arguments;
    match rpc.call(request).await {
        Ok(response) => Some(response.results),
        Err(CallError::NotExecuted(AcceptStatus::GarbageArgs)) => None,
        Err(error) => panic!("program {program} procedure {procedure}: {error}"),
    }
}

async fn served_tree(
    runtime: &Handle,
) -> (support::Running<Server<SimStore>>, Vec<FileHandle>, Client) {
    let (running, _, files) = served(runtime).await;
    let directory = files.make_directories(b"d", 0o777).await.unwrap().handle;
    let file = files
        .create(b"f", 0o666, Existing::Refuse)
        .await
        .unwrap()
        .handle;
    let link = files.make_symlink(b"l", b"f").await.unwrap().handle;
    let data = Buffer::from_vec(vec![7; 100_000]);
    let stable = gannet_vfs::Stability::FileSync;
    files
        .client()
        .write(&file, 0, data, 100_000, stable)
        .await
        .unwrap();
    let forged = FileHandle::new(&[0xee; 64]).unwrap();
    let handles = vec![
        files.root(),
        files.root(),
        directory,
        directory,
        file,
        file,
        link,
        forged,
    ];
    let rpc = Client::new(runtime.clone(), running.target(), ClientConfig::default());
    (running, handles, rpc)
}

#[test]
fn any_arguments_get_a_well_formed_answer() {
    run(|runtime| async move {
        let (running, handles, rpc) = served_tree(&runtime).await;
        let mut runner = TestRunner::deterministic();
        let strategy = vec(piece(handles), 0..9).prop_map(|pieces| pieces.concat());
        let mut executed = 0;
        for _ in 0..400 {
            let arguments = strategy.new_tree(&mut runner).unwrap().current();
            for procedure in NfsProcedure::ALL {
                let number = procedure.number();
                let answer = ask(&rpc, nfs3::PROGRAM, 3, number, arguments.clone()).await;
                if let Some(results) = answer {
                    check_nfs(procedure, &results);
                    executed += 1;
                }
            }
            for procedure in 0..6 {
                let answer = ask(&rpc, mount3::PROGRAM, 3, procedure, arguments.clone()).await;
                if let Some(results) = answer {
                    check_mount(procedure, &results);
                }
            }
        }
        assert!(
            executed > 100,
            "only {executed} calls got past their arguments"
        );
        running.mount(&runtime).await;
    });
}

/// Arguments as they should be, each cut at every word and grown by one: refused or executed, never more.
#[test]
fn cut_and_grown_arguments_are_refused() {
    run(|runtime| async move {
        let (_running, handles, rpc) = served_tree(&runtime).await;
        let file = nfs3::FileHandle(handles[4].as_bytes());
        let place = nfs3::DirectoryName {
            directory: nfs3::FileHandle(handles[0].as_bytes()),
            name: nfs3::Name(b"new"),
        };
        let set = nfs3::SetAttributes::default();
        let how = nfs3::CreateHow::Exclusive([1; 8]);
        let from_to = nfs3::RenameArgs {
            from: place,
            to: place,
        };
        let calls: Vec<(NfsProcedure, Vec<u8>)> = vec![
            (NfsProcedure::Getattr, bytes(&file)),
            (
                NfsProcedure::Setattr,
                bytes(&nfs3::SetattrArgs {
                    object: file,
                    change: set,
                    guard: None,
                }),
            ),
            (
                NfsProcedure::Access,
                bytes(&nfs3::AccessArgs {
                    object: file,
                    access: 63,
                }),
            ),
            (
                NfsProcedure::Read,
                bytes(&nfs3::ReadArgs {
                    file,
                    offset: 0,
                    count: 10,
                }),
            ),
            (
                NfsProcedure::Create,
                bytes(&nfs3::CreateArgs { place, how }),
            ),
            (NfsProcedure::Rename, bytes(&from_to)),
            (NfsProcedure::Link, bytes(&nfs3::LinkArgs { file, place })),
            (
                NfsProcedure::Commit,
                bytes(&nfs3::CommitArgs {
                    file,
                    offset: 0,
                    count: 0,
                }),
            ),
        ];
        for (procedure, arguments) in calls {
            let number = procedure.number();
            let whole = ask(&rpc, nfs3::PROGRAM, 3, number, arguments.clone()).await;
            check_nfs(procedure, &whole.expect("executed"));
            for length in 0..arguments.len() {
                let cut = ask(&rpc, nfs3::PROGRAM, 3, number, arguments[..length].to_vec()).await;
                assert_eq!(cut, None, "{procedure:?} of {length} bytes");
            }
            let grown = [&arguments[..], &[0; 4]].concat();
            let grown = ask(&rpc, nfs3::PROGRAM, 3, number, grown).await;
            assert_eq!(grown, None, "{procedure:?} with a word too many");
        }
    });
}

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

#[test]
fn a_write_must_have_as_much_data_as_it_says() {
    run(|runtime| async move {
        let (_running, handles, rpc) = served_tree(&runtime).await;
        for (count, len, accepted) in [(5, 5, true), (5, 4, false), (4, 5, false), (0, 0, true)] {
            let arguments = nfs3::WriteArgs {
                file: nfs3::FileHandle(handles[4].as_bytes()),
                offset: 0,
                count,
                stable: nfs3::Stable::FileSync,
                data: &[1; 5][..len],
            };
            let number = NfsProcedure::Write.number();
            let answer = ask(&rpc, nfs3::PROGRAM, 3, number, bytes(&arguments)).await;
            assert_eq!(answer.is_some(), accepted, "{count} and {len}");
        }
    });
}

#[test]
fn other_programs_and_versions_are_unavailable() {
    run(|runtime| async move {
        let (_running, _, rpc) = served_tree(&runtime).await;
        let outcome = async |program, version, procedure| {
            let request = Request::new(program, version, procedure, 100);
            rpc.call(request).await.map(|_| ()).unwrap_err()
        };
        let unavailable = CallError::NotExecuted(AcceptStatus::ProgUnavail);
        for program in [100_227, 100_021, 100_000, 0] {
            assert_eq!(outcome(program, 3, 0).await, unavailable);
        }
        let mismatch = outcome(nfs3::PROGRAM, 4, 0).await;
        assert!(matches!(
            mismatch,
            CallError::NotExecuted(AcceptStatus::ProgMismatch { low: 3, high: 3 })
        ));
        for (program, procedure) in [(nfs3::PROGRAM, 22), (mount3::PROGRAM, 6)] {
            let missing = outcome(program, 3, procedure).await;
            assert_eq!(missing, CallError::NotExecuted(AcceptStatus::ProcUnavail));
        }
        // MOUNT 1 is there to be unmounted with; its handles are not.
        let request = Request::new(mount3::PROGRAM, 1, 4, 100);
        assert_eq!(rpc.call(request).await.unwrap().results, b"");
        let old = outcome(mount3::PROGRAM, 1, 1).await;
        assert_eq!(old, CallError::NotExecuted(AcceptStatus::ProcUnavail));
    });
}
