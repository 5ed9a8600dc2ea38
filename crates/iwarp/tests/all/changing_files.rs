//! Files are cut short, rewritten and lengthened while they are being sent, over real sockets: from the
//! kernel's page cache, and so from a mapping when there are no CRCs.

use super::conformance::config;
use gannet_conformance::DiskFile;
use gannet_fabric::{
    Access, Backing, ConnectOptions, Connected, Disconnected, Done, Provider, Region,
    RemoteAddress, Scope, SendOptions, Signal, Source, Span, WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, FileRef, Handle};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const LEN: usize = 1 << 20;
const ROUNDS: usize = 200;
const OLD: u8 = 1;
const NEW: u8 = 2;

/// Waits for completions of `endpoint`, which must all be successes.
async fn done(endpoint: &Connected) -> Result<Vec<Done>, Disconnected> {
    let mut completions = Vec::new();
    next_completions(&**endpoint, &mut completions).await?;
    let outcomes = completions.into_iter().map(|it| {
        if let (Ok(Done::Received { .. }), Some(buffer)) = (&it.outcome, it.buffer) {
            endpoint.post_receive(it.id, buffer).unwrap();
        }
        it.outcome.unwrap()
    });
    Ok(outcomes.collect())
}

pub(crate) async fn pair(runtime: &Handle, crc: bool) -> (Connected, Connected, Rc<IwarpProvider>) {
    let settings = IwarpConfig { crc, ..config() };
    let provider = IwarpProvider::new(Rc::clone(runtime), settings);
    let mut listener = provider.listen("127.0.0.1:0".parse().unwrap()).unwrap();
    let options = || ConnectOptions {
        ord: 4,
        ird: 4,
        receives: vec![Buffer::zeroed(64)].into(),
        ..ConnectOptions::default()
    };
    let near = provider.connect(listener.local_address(), options());
    let far = async { listener.accept().await.unwrap().accept(options()).await };
    let (near, far) = gannet_runtime::both(near, far).await;
    (near.unwrap(), far.unwrap(), provider)
}

pub(crate) fn address_of(region: &Region) -> RemoteAddress {
    RemoteAddress {
        key: region.remote_key(),
        offset: region.base(),
    }
}

/// Reads and Writes of a whole file, whose bytes another thread changes by `change`.
fn check(crc: bool, change: fn(&DiskFile<File>, usize)) {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&vec![OLD; LEN], 0).unwrap();
    let file = Arc::new(DiskFile::cached(file));
    let over = Arc::new(AtomicBool::new(false));
    let (changed, is_over) = (Arc::clone(&file), Arc::clone(&over));
    let writer = std::thread::spawn(move || {
        let mut round = 0;
        while !is_over.load(Ordering::Relaxed) {
            change(&changed, round);
            round += 1;
        }
    });
    block_on(|runtime| async move {
        let (near, far, provider) = pair(&runtime, crc).await;
        let domain = provider.domain();
        let len = u32::try_from(LEN).unwrap();
        let file: FileRef = file;
        let target = Backing::Buffer(Buffer::zeroed(LEN));
        let target = domain.register_now(target, Access::RemoteWrite, Scope::Domain);
        let target = target.unwrap();
        let backing = Backing::File {
            file: FileRef::clone(&file),
            offset: 0,
            len: LEN as u64,
        };
        let origin = domain.register_now(backing, Access::RemoteRead, Scope::Domain);
        let origin = origin.unwrap();
        for round in 0..ROUNDS {
            if round % 2 == 0 {
                let source = Source::File {
                    file: FileRef::clone(&file),
                    offset: 0,
                    len,
                };
                let signal = Signal::OnError;
                near.post_write(WorkId(1), source, address_of(&target), signal)
                    .unwrap();
                let buffer = Buffer::zeroed(8);
                let source = Source::Buffer { buffer, len: 8 };
                near.post_send(WorkId(2), source, SendOptions::default())
                    .unwrap();
                near.flush();
                let received = done(&far).await.unwrap();
                assert!(matches!(received[..], [Done::Received { len: 8, .. }]));
            } else {
                let sink = Span::whole(&target).unwrap();
                far.post_read(WorkId(3), sink, address_of(&origin)).unwrap();
                far.flush();
                assert_eq!(done(&far).await.unwrap(), [Done::Read]);
            }
            let software = target.software().unwrap();
            let bytes = software.bytes(0, LEN).unwrap();
            assert!(gannet_testing::all_of(&bytes, &[0, OLD, NEW]));
        }
    })
    .unwrap();
    over.store(true, Ordering::Relaxed);
    writer.join().unwrap();
}

fn cut_short(file: &DiskFile<File>, round: usize) {
    file.file.set_len((round * 4099 % LEN) as u64).unwrap();
    file.file
        .write_all_at(&vec![NEW; LEN / 2], LEN as u64 / 2)
        .unwrap();
}

fn rewrite(file: &DiskFile<File>, round: usize) {
    let byte = if round.is_multiple_of(2) { NEW } else { OLD };
    file.file.write_all_at(&vec![byte; LEN], 0).unwrap();
}

fn empty(file: &DiskFile<File>, _round: usize) {
    file.file.set_len(0).unwrap();
}

#[test]
fn a_file_that_is_cut_short_sends_zeros_and_the_stream_lasts() {
    check(false, cut_short);
    check(true, cut_short);
}

#[test]
fn a_file_that_is_rewritten_sends_old_or_new_bytes_and_the_stream_lasts() {
    check(false, rewrite);
    check(true, rewrite);
}

#[test]
fn a_file_that_is_empty_sends_zeros_and_the_stream_lasts() {
    check(false, empty);
    check(true, empty);
}
