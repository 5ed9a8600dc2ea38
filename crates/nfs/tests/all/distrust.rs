//! A server that lies: the client says so, and does not act on it.

#![allow(clippy::unwrap_used)]

use crate::support;

use gannet_client::limits::RESENDS_MAX;
use gannet_client::{Transfer, Written, Zeros};
use gannet_nfs::client::{Client, Error, Position};
use gannet_rpc::{Call, CallerCredential, Program, Reply, Service};
use gannet_runtime::{Buffer, Handle};
use gannet_vfs::{FileHandle, SetAttributes, Stability, Status};
use gannet_wire::mount3;
use gannet_wire::nfs3::{self, DirectoryListing, EntryPlus, Failed, List, Name, Nfsstat};
use gannet_wire::xdr::{Encode, Encoder};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use support::{Addresses, Calls, Files, Running, mount, run, status};

const PROGRAMS: [Program; 2] = [
    Program {
        number: nfs3::PROGRAM,
        low: 3,
        high: 3,
        procedures: 22,
    },
    Program {
        number: mount3::PROGRAM,
        low: 3,
        high: 3,
        procedures: 6,
    },
];

/// Gives the same answers whatever is asked, one after the other.
#[derive(Clone)]
struct Script {
    answers: Rc<RefCell<VecDeque<Vec<u8>>>>,
}

impl Script {
    fn new(answers: Vec<Vec<u8>>) -> Script {
        Script {
            answers: Rc::new(RefCell::new(answers.into())),
        }
    }
}

impl Service for Script {
    fn programs(&self) -> &[Program] {
        &PROGRAMS
    }

    fn is_cached(&self, _: u32, _: u32) -> bool {
        false
    }

    fn locate_payload(&self, _: u32, _: u32, _: &[u8]) -> Option<usize> {
        None
    }

    async fn call(&self, _: &Call, reply: &mut Reply) {
        let answer = self
            .answers
            .borrow_mut()
            .pop_front()
            .expect("an answer is left");
        reply.results().fixed(&answer);
    }
}

fn script(runtime: &Handle, answers: Vec<Vec<u8>>) -> (Running<Script>, Client) {
    let running = Running::serve(runtime, Script::new(answers), Addresses::any());
    let client = running.client(runtime, CallerCredential::None);
    (running, client)
}

/// As [`script`], after a mount.
async fn mounted(runtime: &Handle, answers: Vec<Vec<u8>>) -> (Running<Script>, Files) {
    let (running, client) = script(runtime, [mount_answers(8192), answers].concat());
    let files = mount(runtime, client, 0, &[], b"/").await.unwrap();
    (running, files)
}

fn bytes(value: &impl Encode) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut Encoder::new(&mut bytes));
    bytes
}

fn handle() -> FileHandle {
    FileHandle::new(&[7; 16]).unwrap()
}

fn is_malformed<T: std::fmt::Debug>(result: Result<T, Error>) {
    let is_call = |error: &Error| matches!(error, Error::Call(gannet_rpc::CallError::Malformed(_)));
    let error = result.expect_err("taken at face value");
    assert!(
        matches!(error, Error::Malformed(_)) || is_call(&error),
        "{error:?}"
    );
}

/// As [`is_malformed`], of what is made of several replies.
fn is_nonsense<T: std::fmt::Debug>(result: Result<T, gannet_client::Error>) {
    let error = result.expect_err("taken at face value").to_string();
    assert!(
        error.starts_with("the server's reply makes no sense"),
        "{error}"
    );
}

fn read_answer(count: u32, eof: bool, data: &[u8]) -> Vec<u8> {
    sized_read_answer(None, count, eof, data)
}

/// As [`read_answer`], from a server that says how long the file is.
fn sized_read_answer(size: Option<u64>, count: u32, eof: bool, data: &[u8]) -> Vec<u8> {
    let result: nfs3::ReadResult<'_> = Ok(nfs3::ReadOk {
        attributes: size.map(|size| nfs3::Attributes {
            size,
            ..attributes()
        }),
        count,
        eof,
        data,
    });
    bytes(&result)
}

fn busy() -> Vec<u8> {
    let result: nfs3::ReadResult<'_> = Err(Failed {
        status: Nfsstat::JUKEBOX,
        body: None,
    });
    bytes(&result)
}

#[test]
fn reads_that_do_not_add_up() {
    run(|runtime| async move {
        let lies = vec![
            read_answer(5, false, &[1; 4]),
            read_answer(4, false, &[1; 5]),
            read_answer(9, false, &[1; 9]),
        ];
        for lie in lies {
            let (_running, client) = script(&runtime, vec![lie]);
            is_malformed(client.read(&handle(), 0, 8, Buffer::zeroed(16)).await);
        }
        let answers = vec![busy(), read_answer(3, true, b"abc")];
        let (_running, client) = script(&runtime, answers);
        let read = client
            .read(&handle(), 0, 8, Buffer::zeroed(16))
            .await
            .unwrap();
        assert_eq!(
            (read.count, read.eof, &read.buffer[..3]),
            (3, true, &b"abc"[..])
        );
        assert_eq!(read.attributes, None, "attributes may be missing");
    });
}

fn write_answer(count: u32, committed: nfs3::Stable) -> Vec<u8> {
    let result: nfs3::WriteResult = Ok(nfs3::WriteOk {
        wcc: nfs3::WccData::default(),
        count,
        committed,
        verifier: [1; 8],
    });
    bytes(&result)
}

#[test]
fn writes_that_do_not_add_up() {
    run(|runtime| async move {
        for (count, committed) in [
            (9, nfs3::Stable::FileSync),
            (0, nfs3::Stable::FileSync),
            (8, nfs3::Stable::Unstable),
        ] {
            let (_running, client) = script(&runtime, vec![write_answer(count, committed)]);
            let data = Buffer::zeroed(8);
            is_malformed(
                client
                    .write(&handle(), 0, data, 8, Stability::DataSync)
                    .await,
            );
        }
    });
}

fn listing(names: &[&[u8]], eof: bool) -> Vec<u8> {
    let entries: Vec<_> = names
        .iter()
        .map(|name| EntryPlus {
            fileid: 9,
            name: Name(name),
            cookie: 4,
            attributes: None,
            handle: None,
        })
        .collect();
    let result: nfs3::ReaddirplusResult<'_> = Ok(DirectoryListing {
        attributes: Some(attributes()),
        verifier: [0; 8],
        entries: List::new(&entries),
        eof,
    });
    bytes(&result)
}

#[test]
fn names_that_would_leave_their_directory() {
    run(|runtime| async move {
        for name in [&b"../etc"[..], b"a/b", b"/", b"", b"nul\0", b"/etc/passwd"] {
            let (_running, client) = script(&runtime, vec![listing(&[b"good", name], true)]);
            is_malformed(
                client
                    .readdirplus(&handle(), Position::default(), 4096)
                    .await,
            );
        }
        let dots = listing(&[b".", b"..", b"..."], true);
        let (_running, client) = script(&runtime, vec![dots]);
        let page = client
            .readdirplus(&handle(), Position::default(), 4096)
            .await
            .unwrap();
        assert_eq!(
            (page.items.len(), &page.items[0].name[..]),
            (1, &b"..."[..])
        );
        assert_eq!(page.next, None);
    });
}

#[test]
fn a_name_that_is_there_twice() {
    run(|runtime| async move {
        let (once, twice) = (
            listing(&[b"a", b"b"], true),
            listing(&[b"b", b"a", b"b"], true),
        );
        let (_running, files) = mounted(&runtime, vec![twice.clone(); 9]).await;
        is_nonsense(files.objects().list(&handle()).await);
        // It was given anew while the directory was listed.
        let across = vec![listing(&[b"a"], false), listing(&[b"a"], true), once];
        let (_running, files) = mounted(&runtime, across).await;
        assert_eq!(files.objects().list(&handle()).await.unwrap().len(), 2);
    });
}

#[test]
fn listings_that_never_end() {
    run(|runtime| async move {
        let (_running, files) = mounted(&runtime, vec![listing(&[], false)]).await;
        is_nonsense(files.objects().list(&handle()).await);
    });
}

#[test]
fn results_that_are_none() {
    run(|runtime| async move {
        let garbage = vec![0xff; 8];
        let empty_handle = bytes(&nfs3::LookupResult::Ok(nfs3::LookupOk {
            object: nfs3::FileHandle(b""),
            attributes: None,
            directory: None,
        }));
        let mut trailing = bytes(&nfs3::LookupResult::Ok(nfs3::LookupOk {
            object: nfs3::FileHandle(&[1; 8]),
            attributes: None,
            directory: None,
        }));
        trailing.extend([0; 4]);
        for lie in [garbage, vec![], empty_handle, trailing] {
            let (_running, client) = script(&runtime, vec![lie]);
            is_malformed(client.lookup(&handle(), b"x").await);
        }
        let unknown = bytes(&nfs3::GetattrResult::Err(Failed {
            status: Nfsstat::new(4711).unwrap(),
            body: (),
        }));
        let (_running, client) = script(&runtime, vec![unknown]);
        assert_eq!(status(client.getattr(&handle()).await), Status::Serverfault);
    });
}

#[test]
fn a_created_object_without_handle_is_looked_up() {
    run(|runtime| async move {
        let created = bytes(&nfs3::CreateResult::Ok(nfs3::CreateOk {
            object: None,
            attributes: None,
            directory: nfs3::WccData::default(),
        }));
        let found = bytes(&nfs3::LookupResult::Ok(nfs3::LookupOk {
            object: nfs3::FileHandle(&[3; 8]),
            attributes: None,
            directory: None,
        }));
        let (_running, client) = script(&runtime, vec![created, found]);
        let made = client
            .mkdir(&handle(), b"x", &SetAttributes::default())
            .await
            .unwrap();
        assert_eq!(made.handle.as_bytes(), [3; 8]);
    });
}

fn unstable_write(count: u32, verifier: u8) -> Vec<u8> {
    let result: nfs3::WriteResult = Ok(nfs3::WriteOk {
        wcc: nfs3::WccData::default(),
        count,
        committed: nfs3::Stable::Unstable,
        verifier: [verifier; 8],
    });
    bytes(&result)
}

fn commit(verifier: u8) -> Vec<u8> {
    let result: nfs3::CommitResult = Ok(nfs3::CommitOk {
        wcc: nfs3::WccData::default(),
        verifier: [verifier; 8],
    });
    bytes(&result)
}

const ONE_BY_ONE: Transfer = Transfer {
    block: Some(8192),
    depth: 1,
};

/// Writes one block of 8 bytes to a server that answers this, after the mount.
async fn write_to(
    runtime: &Handle,
    answers: Vec<Vec<u8>>,
) -> Result<Written, gannet_client::Error> {
    let script = Script::new([mount_answers(8192), answers].concat());
    let running = Running::serve(runtime, script.clone(), Addresses::any());
    let client = running.client(runtime, CallerCredential::None);
    let files = mount(runtime, client, 0, &[], b"/").await.unwrap();
    let mut writer = files.write_file(&handle(), Zeros::Write, ONE_BY_ONE);
    let buffer = writer.buffer();
    writer.write(0, buffer, 8).await?;
    let written = writer.finish().await;
    let left = script.answers.borrow().len();
    assert_eq!(left, 0, "all answers were asked for");
    written
}

#[test]
fn data_that_a_server_lost_are_written_again() {
    run(|runtime| async move {
        let twice = vec![
            unstable_write(8, 1),
            commit(2),
            unstable_write(8, 2),
            commit(3),
            unstable_write(8, 3),
            commit(3),
        ];
        write_to(&runtime, twice).await.unwrap();
        // Half of the block was written in an earlier incarnation.
        let half = vec![
            unstable_write(4, 1),
            unstable_write(4, 2),
            commit(2),
            unstable_write(8, 2),
            commit(2),
        ];
        write_to(&runtime, half).await.unwrap();
        let mut always = vec![unstable_write(8, 0)];
        for incarnation in 1..=RESENDS_MAX as u8 {
            always.extend([commit(incarnation), unstable_write(8, incarnation)]);
        }
        always.push(commit(RESENDS_MAX as u8 + 1));
        let lost = write_to(&runtime, always).await;
        assert!(
            matches!(lost, Err(gannet_client::Error::DataLost)),
            "{lost:?}"
        );
    });
}

#[test]
fn durable_data_need_no_commit() {
    run(|runtime| async move {
        let answers = vec![write_answer(8, nfs3::Stable::FileSync)];
        write_to(&runtime, answers).await.unwrap();
        // Only a part is.
        let answers = vec![
            write_answer(4, nfs3::Stable::FileSync),
            unstable_write(4, 1),
            commit(1),
        ];
        write_to(&runtime, answers).await.unwrap();
    });
}

#[test]
fn a_failed_commit_fails_the_file() {
    run(|runtime| async move {
        let io: nfs3::CommitResult = Err(Failed {
            status: Nfsstat::IO,
            body: nfs3::WccData::default(),
        });
        let lost = write_to(&runtime, vec![unstable_write(8, 1), bytes(&io)]).await;
        assert_eq!(status(lost), Status::Io);
    });
}

#[test]
fn a_busy_server_is_asked_again() {
    run(|runtime| async move {
        let answers = vec![busy(), unstable_write(8, 1), busy(), commit(1)];
        write_to(&runtime, answers).await.unwrap();
    });
}

#[test]
fn short_reads_are_continued() {
    run(|runtime| async move {
        let mut answers = mount_answers(8192);
        answers.extend([
            read_answer(5, false, b"abcde"),
            read_answer(1, false, b"f"),
            read_answer(2, true, b"gh"),
        ]);
        let (_running, client) = script(&runtime, answers);
        let files = mount(&runtime, client, 0, &[], b"/").await.unwrap();
        let mut reader = files.read_file(&handle(), 0..8, ONE_BY_ONE);
        let mut seen = Vec::new();
        while let Some(block) = reader.next().await.unwrap() {
            assert_eq!(block.offset, seen.len() as u64);
            seen.extend_from_slice(block.data());
        }
        assert_eq!(seen, b"abcdefgh");
    });
}

#[test]
fn nothing_is_asked_for_behind_a_known_end() {
    const SPARE: usize = 20;
    let how = Transfer {
        block: Some(1000),
        depth: 8,
    };
    run(move |runtime| async move {
        let all: Vec<u8> = (0..2500).map(|at| (at % 251) as u8).collect();
        let part = |range: std::ops::Range<usize>, eof, size| {
            let data = &all[range];
            sized_read_answer(Some(size), data.len() as u32, eof, data)
        };
        let constant = vec![
            part(0..1000, false, 2500),
            part(1000..2000, false, 2500),
            part(2000..2500, true, 2500),
        ];
        let growing = vec![
            part(0..1000, false, 1000),
            part(1000..2000, false, 2500),
            part(2000..2500, true, 2500),
        ];
        for reads in [constant, growing] {
            let spare = vec![read_answer(0, true, b""); SPARE];
            let script = Script::new([mount_answers(8192), reads, spare].concat());
            let running = Running::serve(&runtime, script.clone(), Addresses::any());
            let client = running.client(&runtime, CallerCredential::None);
            let files = mount(&runtime, client, 0, &[], b"/").await.unwrap();
            let mut reader = files.read_file(&handle(), 0..u64::MAX, how);
            let mut seen = Vec::new();
            while let Some(block) = reader.next().await.unwrap() {
                seen.extend_from_slice(block.data());
            }
            assert!(seen == all);
            // Behind whatever else was asked for.
            let _ = files.client().null().await;
            assert_eq!(script.answers.borrow().len(), SPARE - 1);
        }
    });
}

#[test]
fn a_listing_starts_over_when_its_cookies_go_stale() {
    run(|runtime| async move {
        let stale: nfs3::ReaddirplusResult<'_> = Err(Failed {
            status: Nfsstat::BAD_COOKIE,
            body: None,
        });
        let answers = vec![
            listing(&[b"a", b"b"], false),
            bytes(&stale),
            listing(&[b"b"], false),
            listing(&[b"c"], true),
        ];
        let (_running, files) = mounted(&runtime, answers).await;
        let items = files.objects().list(&handle()).await.unwrap();
        let names: Vec<_> = items.iter().map(|item| &item.name[..]).collect();
        assert_eq!(names, [b"b", b"c"]);
        let (_running, files) = mounted(&runtime, vec![bytes(&stale); 5]).await;
        let listed = files.objects().list(&handle()).await;
        assert_eq!(status(listed), Status::BadCookie);
    });
}

#[test]
fn a_server_without_readdirplus_lists_names() {
    run(|runtime| async move {
        let missing: nfs3::ReaddirplusResult<'_> = Err(Failed {
            status: Nfsstat::NOTSUPP,
            body: None,
        });
        // Without the directory's attributes, which are asked for.
        let names = |name: &[u8], eof| {
            let entries = [nfs3::Entry {
                fileid: 9,
                name: Name(name),
                cookie: 4,
            }];
            let result: nfs3::ReaddirResult<'_> = Ok(DirectoryListing {
                attributes: None,
                verifier: [0; 8],
                entries: List::new(&entries),
                eof,
            });
            bytes(&result)
        };
        let directory = bytes(&nfs3::GetattrResult::Ok(attributes()));
        let answers = vec![
            bytes(&missing),
            names(b"a", false),
            directory.clone(),
            names(b"b", true),
            directory,
        ];
        let (_running, files) = mounted(&runtime, answers).await;
        let items = files.objects().list(&handle()).await.unwrap();
        let names: Vec<_> = items.iter().map(|item| &item.name[..]).collect();
        assert_eq!(names, [b"a", b"b"]);
        assert!(items.iter().all(|item| item.node.is_none()));
    });
}

#[test]
fn names_without_handles_are_looked_up() {
    run(|runtime| async move {
        let directory = nfs3::Attributes {
            kind: nfs3::FileType::Directory,
            ..attributes()
        };
        let found = |mark| {
            bytes(&nfs3::LookupResult::Ok(nfs3::LookupOk {
                object: nfs3::FileHandle(&[mark; 8]),
                attributes: Some(attributes()),
                directory: None,
            }))
        };
        let mut answers = mount_answers(4096);
        answers.extend([
            bytes(&nfs3::GetattrResult::Ok(directory)),
            listing(&[b"a", b"b"], true),
            found(1),
            found(2),
        ]);
        let (_running, client) = script(&runtime, answers);
        let files = mount(&runtime, client, 0, &[], b"/").await.unwrap();
        let listed = files.list(b"").await.unwrap();
        let handles: Vec<_> = listed.iter().map(|(_, node)| node.handle).collect();
        let expected = [[1; 8], [2; 8]].map(|bytes| FileHandle::new(&bytes).unwrap());
        assert_eq!(handles, expected);
    });
}

/// The answers to a mount, with these transfer sizes.
fn mount_answers(size: u32) -> Vec<Vec<u8>> {
    let mounted = bytes(&mount3::MntResult::Ok(mount3::MntOk {
        root: nfs3::FileHandle(&[7; 16]),
        flavors: mount3::Flavors::new(&[]),
    }));
    let info = bytes(&nfs3::FsinfoResult::Ok(nfs3::FsinfoOk {
        attributes: None,
        read_max: size,
        read_preferred: size,
        read_multiple: 0,
        write_max: size,
        write_preferred: size,
        write_multiple: 0,
        directory_preferred: 0,
        file_size_max: 0,
        time_delta: nfs3::Time::default(),
        properties: 0,
    }));
    vec![mounted, info]
}

#[test]
fn transfer_sizes_out_of_bounds_are_brought_back() {
    run(|runtime| async move {
        for (said, used) in [(0, 4096), (8192, 8192), (u32::MAX, 1 << 20)] {
            let mut answers = mount_answers(said);
            answers.push(read_answer(0, true, b""));
            let (_running, client) = script(&runtime, answers);
            let files = mount(&runtime, client, 0, &[], b"/").await.unwrap();
            let mut writer = files.write_file(&handle(), Zeros::Skip, Transfer::default());
            assert_eq!(writer.buffer().len(), used);
            let one = Transfer {
                block: None,
                depth: 1,
            };
            let mut reader = files.read_file(&handle(), 0..u64::MAX, one);
            assert!(reader.next().await.unwrap().is_none());
        }
    });
}

#[test]
fn a_stale_handle_on_the_way_is_looked_up_again() {
    run(|runtime| async move {
        let root = nfs3::Attributes {
            kind: nfs3::FileType::Directory,
            ..attributes()
        };
        let stale = bytes(&nfs3::GetattrResult::Err(Failed {
            status: Nfsstat::STALE,
            body: (),
        }));
        let mut answers = mount_answers(4096);
        answers.extend([
            stale,
            bytes(&nfs3::GetattrResult::Ok(root)),
            bytes(&nfs3::LookupResult::Ok(nfs3::LookupOk {
                object: nfs3::FileHandle(&[9; 8]),
                attributes: Some(attributes()),
                directory: None,
            })),
        ]);
        let (_running, client) = script(&runtime, answers);
        let files = mount(&runtime, client, 0, &[], b"/").await.unwrap();
        let node = files.stat(b"name").await.unwrap();
        assert_eq!(node.handle.as_bytes(), [9; 8]);
    });
}

fn attributes() -> nfs3::Attributes {
    nfs3::Attributes {
        kind: nfs3::FileType::Regular,
        mode: 0o100_644,
        link_count: 1,
        uid: 0,
        gid: 0,
        size: 0,
        used: 0,
        device: nfs3::Device::default(),
        fsid: 1,
        fileid: 9,
        access_time: nfs3::Time::default(),
        modify_time: nfs3::Time::default(),
        change_time: nfs3::Time::default(),
    }
}
