//! The latency of one access to a block in a server's memory, on a simulated testbed: by a call, or by an optimistic
//! read ([`Endpoint::post_optimistic_read`]).
//!
//! Calls are a message each way and what the server does between them; their protocol is no real one, for the testbed's
//! paper says what it takes. The client costs nothing: it is in the link's latency.

use super::Failure;
use super::testbed::Machine;
use gannet_fabric::{
    Access, AccessError, Backing, CapabilityKey, Completion, ConnectOptions, Connected, Done,
    Endpoint, Export, Exported, Receives, Reference, Region, RemoteAddress, Scope, SendOptions,
    Signal, Source, Span, WorkError, WorkId, next_completions,
};
use gannet_runtime::{Buffer, FileSource, Instant, both, sleep};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::nic::{Activity, Profile};
use std::io;
use std::os::fd::BorrowedFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

const PORT: u16 = 4000;
/// Bytes of a request, and of the data (003 section VI-B.1).
const LEN: u32 = 64;
/// Accesses; the last one is timed. Each takes a receive that is there from the beginning.
const ACCESSES: u64 = 4;
/// The object's name at the server.
const OBJECT: u128 = 1;
/// The work that is not a receive.
const WORK: WorkId = WorkId(100);

/// How a block is accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AccessWay {
    /// A call whose reply carries the data.
    InlineCall,
    /// A call whose data the server writes into the client's memory before it replies.
    DirectCall,
    /// An optimistic read.
    Optimistic,
    /// An optimistic read that is refused, without the call that follows.
    Refused,
}

/// A block that is in memory or is not.
struct Block {
    is_resident: bool,
}

impl FileSource for Block {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn try_read_at(&self, _offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        if !self.is_resident {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        buffer.fill(0);
        Ok(buffer.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.try_read_at(offset, buffer)
    }

    fn is_resident(&self, _offset: u64, _len: u64) -> bool {
        self.is_resident
    }
}

/// A machine's end of the connection, and memory for the data.
struct Side {
    machine: Machine,
    end: Connected,
    memory: Region,
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Operation(error.to_string())
}

/// The duration of one access on `profile`'s machines, one at a time.
///
/// # Errors
/// See [`Failure`].
pub fn latency(profile: &Profile, way: AccessWay) -> Result<Duration, Failure> {
    let world = World::new(1);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let server = Machine::add(&world, &fabric, "server", profile);
    let client = Machine::add(&world, &fabric, "client", &costless(profile));
    world.run(async move { access(server, client, way).await })?
}

/// A client that is in the link's latency: all it does takes no time.
fn costless(profile: &Profile) -> Profile {
    let names = [
        "interrupt_ns",
        "context_switch_ns",
        "post_ns",
        "match_receive_ns",
        "read_turnaround_ns",
    ];
    let free = |profile: Profile, name| profile.with(name, 0).unwrap_or(profile);
    names.into_iter().fold(*profile, free)
}

async fn access(server: Machine, client: Machine, way: AccessWay) -> Result<Duration, Failure> {
    let mut listener = server
        .provider
        .listen(server.address(PORT))
        .map_err(failed)?;
    let connecting = client.provider.connect(server.address(PORT), options());
    let accepting = async {
        let incoming = listener.accept().await.map_err(failed)?;
        incoming.accept(options()).await.map_err(failed)
    };
    let (near, far) = both(connecting, accepting).await;
    let client = side(client, near.map_err(failed)?)?;
    let server = side(server, far?)?;
    match way {
        AccessWay::InlineCall | AccessWay::DirectCall => call(server, client, way).await,
        AccessWay::Optimistic | AccessWay::Refused => {
            read(&server, &client, way == AccessWay::Optimistic).await
        }
    }
}

fn options() -> ConnectOptions {
    let receives = (0..ACCESSES).map(|_| Buffer::zeroed(LEN as usize));
    ConnectOptions {
        receives: Receives::Own(receives.collect()),
        ord: 1,
        ird: 1,
        exceptions: true,
        ..ConnectOptions::default()
    }
}

fn side(machine: Machine, end: Connected) -> Result<Side, Failure> {
    let backing = Backing::Buffer(Buffer::zeroed(LEN as usize));
    let domain = machine.provider.domain();
    let memory = domain.register_now(backing, Access::RemoteReadWrite, Scope::Domain);
    end.authenticate(CapabilityKey([7; 32]));
    Ok(Side {
        machine,
        end,
        memory: memory.map_err(failed)?,
    })
}

impl Side {
    fn address(&self) -> RemoteAddress {
        RemoteAddress {
            key: self.memory.remote_key(),
            offset: self.memory.base(),
        }
    }

    fn send(&self) -> Result<(), Failure> {
        let source = Source::Buffer {
            buffer: Buffer::zeroed(LEN as usize),
            len: LEN,
        };
        let options = SendOptions::default();
        self.end.post_send(WORK, source, options).map_err(failed)?;
        self.end.flush();
        Ok(())
    }

    /// Waits for the next completion that `is_it`; others are of what was sent before.
    async fn completion(&self, is_it: impl Fn(&Completion) -> bool) -> Result<(), Failure> {
        let mut completions = Vec::new();
        loop {
            let next = next_completions(&*self.end, &mut completions).await;
            next.map_err(failed)?;
            if completions.drain(..).any(|completion| is_it(&completion)) {
                return Ok(());
            }
        }
    }
}

fn is_received(completion: &Completion) -> bool {
    matches!(completion.outcome, Ok(Done::Received { .. }))
}

/// Calls, the last of which is timed.
async fn call(server: Side, client: Side, way: AccessWay) -> Result<Duration, Failure> {
    let target = client.address();
    let runtime = server.machine.node.runtime();
    let serving = async move {
        for _ in 0..ACCESSES {
            if serve(&server, way, target).await.is_err() {
                // The client hears of it: the connection ends with its owner.
                return;
            }
        }
        // The last reply leaves before the connection does.
        let _ = server.completion(|_| false).await;
    };
    runtime.spawn("server", Box::pin(serving));
    let runtime = client.machine.node.runtime();
    let mut last = Duration::ZERO;
    for _ in 0..ACCESSES {
        let began = runtime.now();
        client.send()?;
        client.completion(is_received).await?;
        last = runtime.now() - began;
        // The server's work behind its reply is not the next call's.
        sleep(&runtime, Duration::from_millis(1)).await;
    }
    Ok(last)
}

/// Takes one request and answers it.
async fn serve(server: &Side, way: AccessWay, target: RemoteAddress) -> Result<(), Failure> {
    server.completion(is_received).await?;
    let host = &server.machine.host;
    let file_system = host.profile().file_system.operation_ns.value;
    host.charge(Activity::FileSystem, file_system);
    if way == AccessWay::DirectCall {
        let source = Source::Span(Span::whole(&server.memory).map_err(failed)?);
        let posted = server.end.post_write(WORK, source, target, Signal::Always);
        posted.map_err(failed)?;
        server.end.flush();
        let is_written = |it: &Completion| matches!(it.outcome, Ok(Done::Written));
        server.completion(is_written).await?;
    }
    server.send()
}

/// Optimistic reads, the last of which is timed.
async fn read(server: &Side, client: &Side, is_resident: bool) -> Result<Duration, Failure> {
    let exports = server.machine.provider.domain().exports(Rc::new(|_| None));
    let exports = exports.ok_or(Failure::Workload("the fabric exports nothing"))?;
    let reference = exports.enter(Export {
        object: OBJECT,
        endpoint: server.end.id(),
        until: Instant::from_nanos(u64::MAX),
        bytes: Exported::File(Arc::new(Block { is_resident })),
    });
    let runtime = client.machine.node.runtime();
    let mut last = Duration::ZERO;
    for _ in 0..ACCESSES {
        let began = runtime.now();
        read_once(&client.end, &client.memory, reference)?;
        let is_expected = |completion: &Completion| match completion.outcome {
            Ok(Done::Read) => is_resident,
            Err(WorkError::Remote(AccessError::NotResident)) => !is_resident,
            _ => false,
        };
        client.completion(is_expected).await?;
        last = runtime.now() - began;
    }
    Ok(last)
}

fn read_once(end: &Rc<dyn Endpoint>, sink: &Region, from: Reference) -> Result<(), Failure> {
    let sink = Span::whole(sink).map_err(failed)?;
    end.post_optimistic_read(WORK, sink, from).map_err(failed)?;
    end.flush();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profiles::{ODAFS_50, ODAFS_100};

    fn micros(profile: &Profile, way: AccessWay) -> u128 {
        latency(profile, way).unwrap().as_micros()
    }

    #[test]
    fn accesses_take_what_table_ii_adds_up_to() {
        for (profile, around) in [(&ODAFS_50, 50), (&ODAFS_100, 100)] {
            assert_eq!(micros(profile, AccessWay::InlineCall), around + 70);
            assert_eq!(micros(profile, AccessWay::Optimistic), around + 30);
            assert_eq!(micros(profile, AccessWay::Refused), around + 30);
            let direct = micros(profile, AccessWay::DirectCall);
            assert!(direct > around + 70, "{direct}");
            let handler = profile.with("context_switch_ns", 0).unwrap();
            assert_eq!(micros(&handler, AccessWay::InlineCall), around + 60);
        }
    }
}
