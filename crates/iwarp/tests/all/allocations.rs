//! Nothing is allocated for an operation once a connection runs: counted, on both ends at once.
#![allow(unsafe_code)]

use super::changing_files::{address_of, pair};
use gannet_conformance::DiskFile;
use gannet_fabric::{
    Access, Backing, Completion, Connected, Done, Provider, Scope, SendOptions, Signal, Source,
    Span, WorkId,
};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, FileRef};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

/// Counts the allocations of each thread.
struct Counting;

// SAFETY: all is the system's; a counter without a destructor is raised beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as the caller says.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        COUNT.set(COUNT.get() + 1);
        // SAFETY: as the caller says.
        unsafe { System.realloc(place, layout, len) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Waits until both ends have done what they were to do.
async fn wait(endpoint: &Connected, completions: &mut Vec<Completion>, wanted: Done) {
    loop {
        gannet_fabric::next_completions(&**endpoint, completions)
            .await
            .unwrap();
        let mut is_done = false;
        for completion in completions.drain(..) {
            is_done |= completion.outcome.as_ref() == Ok(&wanted);
            if let (Ok(Done::Received { .. }), Some(buffer)) =
                (completion.outcome, completion.buffer)
            {
                endpoint.post_receive(completion.id, buffer).unwrap();
            }
        }
        if is_done {
            return;
        }
    }
}

/// Allocations of a hundred rounds: each writes `len` bytes of a file and says so, and the other end reads them.
fn allocations(len: usize, crc: bool) -> u64 {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(&vec![7; len], 0).unwrap();
    let file: FileRef = Arc::new(DiskFile::cached(file));
    block_on(|runtime| async move {
        let (near, far, provider) = pair(&runtime, crc).await;
        let domain = provider.domain();
        let register =
            |backing, access| domain.register_now(backing, access, Scope::Domain).unwrap();
        let target = register(Backing::Buffer(Buffer::zeroed(len)), Access::RemoteWrite);
        let said = register(Backing::Buffer(Buffer::zeroed(8)), Access::Local);
        let (from, offset) = (FileRef::clone(&file), 0);
        let backing = Backing::File {
            file: from,
            offset,
            len: len as u64,
        };
        let origin = register(backing, Access::RemoteRead);
        let mut completions = Vec::with_capacity(64);
        let mut before = 0;
        for round in 0..200 {
            if round == 100 {
                before = COUNT.get();
            }
            let source = Source::File {
                file: FileRef::clone(&file),
                offset,
                len: u32::try_from(len).unwrap(),
            };
            let target_at = address_of(&target);
            near.post_write(WorkId(1), source, target_at, Signal::OnError)
                .unwrap();
            let source = Source::Span(Span::whole(&said).unwrap());
            near.post_send(WorkId(2), source, SendOptions::default())
                .unwrap();
            near.flush();
            let received = Done::Received {
                len: 8,
                invalidated: None,
                solicited: false,
            };
            wait(&far, &mut completions, received).await;
            let sink = Span::whole(&target).unwrap();
            far.post_read(WorkId(3), sink, address_of(&origin)).unwrap();
            far.flush();
            wait(&far, &mut completions, Done::Read).await;
        }
        COUNT.get() - before
    })
    .unwrap()
}

#[test]
fn operations_allocate_nothing_in_steady_state() {
    for (len, crc) in [
        (1 << 20, false),
        (1 << 20, true),
        (64 << 10, false),
        (4096, false),
        (4096, true),
        (100, false),
    ] {
        let found = allocations(len, crc);
        assert!(
            found < 10,
            "{len} bytes, CRC {crc}: {found} in 200 operations"
        );
    }
}
