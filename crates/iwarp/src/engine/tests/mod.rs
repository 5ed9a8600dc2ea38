//! Engines without streams: back to back, and against frames made by hand.

#![allow(clippy::unwrap_used)]

mod back_to_back;
mod direct;
mod exceptions;
mod files;
mod vectors;
mod violations;

use super::*;
use crate::limits::STAGING_LEN;
use gannet_fabric::{Backing, Domain, Region, Scope};
use gannet_runtime::{BlockingJob, Handle, Instant, Listener, LocalFuture, Runtime, Stream};
use std::cell::Cell;
use std::net::SocketAddr;
use std::time::Duration;

/// Enough of a runtime for a protection table: numbers that never repeat.
#[derive(Default)]
struct Numbers {
    last: Cell<u64>,
}

impl Runtime for Numbers {
    fn now(&self) -> Instant {
        Instant::START
    }

    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _deadline: Instant) -> LocalFuture<()> {
        unreachable!("an engine does not wait")
    }

    fn spawn(&self, _name: &'static str, _task: LocalFuture<()>) {
        unreachable!("an engine starts no tasks")
    }

    fn random(&self) -> u64 {
        self.last
            .set(self.last.get().wrapping_add(0x1234_5678_9abc_def1));
        self.last.get()
    }

    fn submit_blocking(&self, _job: BlockingJob) {
        unreachable!("an engine does not block")
    }

    fn connect(&self, _address: SocketAddr) -> LocalFuture<std::io::Result<Stream>> {
        unreachable!("an engine does not connect")
    }

    fn listen(&self, _address: SocketAddr) -> std::io::Result<Box<dyn Listener>> {
        unreachable!("an engine does not listen")
    }
}

const AGREED: Agreement = Agreement {
    crc: false,
    markers: false,
    ird: 4,
    ord: 4,
    ready: ReadyToReceive::Ordinary,
    exceptions: false,
};

/// One end, with its memory.
struct End {
    engine: Engine,
    table: Rc<ProtectionTable>,
}

impl End {
    fn new(role: Role, agreement: Agreement, ulpdu_max: usize) -> End {
        let runtime: Handle = Rc::new(Numbers::default());
        let table = Rc::new(ProtectionTable::new(runtime));
        let options = EngineOptions {
            id: EndpointId(1),
            role,
            agreement,
            ulpdu_max,
            send_queue_max: 1000,
            receive_queue_max: 1000,
            batches: BatchPool::default(),
        };
        End {
            engine: Engine::new(
                options,
                Rc::clone(&table),
                EndpointReceives::Own(VecDeque::new()),
            ),
            table,
        }
    }

    /// A responder that has been spoken to, so that it may speak.
    fn responder() -> End {
        let mut end = End::new(Role::Responder, AGREED, 64_768);
        let mut opener = End::new(Role::Initiator, AGREED, 64_768);
        opener.engine.nudge();
        let opening = opener.take_bytes(usize::MAX);
        assert_eq!(end.engine.receive(&opening), opening.len());
        end
    }

    fn register(&self, bytes: Vec<u8>, access: gannet_fabric::Access) -> Region {
        let backing = Backing::Buffer(Buffer::from_vec(bytes));
        self.table
            .register_now(backing, access, Scope::Endpoint(EndpointId(1)))
            .unwrap()
    }

    /// The bytes that the engine sends when the stream takes up to `max` bytes, and no files.
    fn take_bytes(&mut self, max: usize) -> Vec<u8> {
        let mut taken = Vec::new();
        loop {
            self.engine.prepare();
            while let Some(fetch) = self.engine.fetch_wanted() {
                let mut bytes = vec![0; fetch.len];
                let filled = fetch.file.read_at(fetch.offset, &mut bytes);
                self.engine
                    .file_fetched(filled.map(|filled| (bytes, filled)));
                self.engine.prepare();
            }
            let room = max - taken.len();
            let Some(count) = self.engine.outgoing(|outgoing| match outgoing {
                Outgoing::Nothing => Some(0),
                Outgoing::Bytes(slices, _) => {
                    let before = taken.len();
                    for slice in slices {
                        let left = room - (taken.len() - before);
                        taken.extend_from_slice(&slice[..slice.len().min(left)]);
                    }
                    Some(taken.len() - before)
                }
                Outgoing::Broken => None,
            }) else {
                self.engine.cut_broken();
                continue;
            };
            if count == 0 {
                return taken;
            }
            self.engine.sent(count);
        }
    }

    /// Takes what it can off the front of the incoming stream, as the driver does.
    fn receive(&mut self, stream: &mut Vec<u8>) {
        loop {
            let direct = self.engine.direct_space().map_or(0, |mut space| {
                let count = space.len().min(stream.len());
                space[..count].copy_from_slice(&stream[..count]);
                count
            });
            self.engine.placed(direct);
            stream.drain(..direct);
            let used = self.engine.receive(stream);
            stream.drain(..used);
            if direct + used == 0 {
                return;
            }
        }
    }

    fn take_completions(&mut self) -> Vec<Completion> {
        self.engine.completions().drain(..).collect()
    }
}

fn bytes_of(region: &Region) -> Vec<u8> {
    let software = region.software().unwrap();
    software
        .bytes(0, usize::try_from(region.len()).unwrap())
        .unwrap()
        .to_vec()
}

fn source(bytes: &[u8]) -> Source {
    let len = u32::try_from(bytes.len()).unwrap();
    Source::Buffer {
        buffer: Buffer::from_vec(bytes.to_vec()),
        len,
    }
}

fn address_of(region: &Region, offset: u64) -> RemoteAddress {
    RemoteAddress {
        key: region.remote_key(),
        offset: region.base() + offset,
    }
}
