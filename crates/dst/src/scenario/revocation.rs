//! Memory is taken back at random moments while a peer reads and writes it, under every strategy, with connections cut
//! now and then: no access after the revocation may succeed.
//!
//! The owner overwrites revoked memory at once. A byte of its new content that reaches the peer was read too late, and
//! a byte that changes in it was written too late. Later requests of the peer by the old key must be refused.

use gannet_fabric::registration::{Registration, Strategy, StrategyKind, Trust};
use gannet_fabric::{
    Access, Backing, Completion, ConnectOptions, Connected, Done, Provider, Region, RemoteAddress,
    Scope, Signal, Source, Span, WorkId,
};
use gannet_runtime::{Buffer, all};
use gannet_runtime::{Handle, LocalFuture};
use gannet_sim::Node;
use gannet_sim::Random;
use gannet_sim::fabric::{FabricProfile, SimFabric, look};
use gannet_sim::{Faults, World};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// Memories that are exposed and taken back under each strategy.
const ROUNDS: u64 = 12;
/// Bytes of the longest.
const LEN_MAX: u64 = 64 << 10;
/// Accesses under way at most.
const ACCESSES_MAX: u64 = 6;
/// The time after which every access is done or refused, and its connection perhaps closed.
const SETTLED: Duration = Duration::from_millis(50);
/// The bytes of an owner's memory while it is exposed, those that a peer writes, and those of the owner afterwards.
const EXPOSED: u8 = 0x11;
const WRITTEN: u8 = 0x22;
const PRIVATE: u8 = 0xee;

/// The totals of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Revocations {
    /// Accesses that were made in time.
    pub done: u64,
    /// Accesses that were refused, or lost with their connection.
    pub refused: u64,
}

/// Runs the scenario of `seed`.
///
/// # Errors
/// An access that succeeded after its revocation, or another failure.
pub fn run(seed: u64) -> Result<Revocations, String> {
    let world = World::new(seed);
    let random = world.random("revocation");
    let segments = [100, 1448, 16 << 10];
    let profile = FabricProfile {
        survivable_exceptions: random.chance(500),
        segment_len: segments[random.index(segments.len())],
        physical_segment_len: random.chance(500).then_some(4096),
        ..FabricProfile::default()
    };
    let fabric = SimFabric::new(&world, profile);
    let (peer, owner) = (world.add_node("peer"), world.add_node("owner"));
    let bed = Bed {
        faults: world.faults(),
        near: fabric.provider(&peer),
        far: fabric.provider(&owner),
        runtime: owner.runtime(),
        owner,
        random,
    };
    let played = world.run(async move { bed.play().await });
    played.map_err(|stopped| stopped.to_string())?
}

struct Bed {
    faults: Faults,
    random: Random,
    runtime: Handle,
    near: Rc<dyn Provider>,
    far: Rc<dyn Provider>,
    owner: Node,
}

impl Bed {
    async fn play(&self) -> Result<Revocations, String> {
        let mut seen = Revocations::default();
        for kind in StrategyKind::ALL {
            let registration = Registration::new(kind, Trust::Trusted);
            let registration = registration.map_err(|error| error.to_string())?;
            let strategy = registration.over(self.far.domain(), Handle::clone(&self.runtime));
            for round in 0..ROUNDS {
                let played = self.round(&strategy, &mut seen).await;
                played.map_err(|why| format!("{kind}, round {round}: {why}"))?;
            }
            strategy.reclaim();
            let left = strategy.counters().bytes;
            if left > 0 {
                return Err(format!("{kind}: {left} bytes stay registered"));
            }
        }
        Ok(seen)
    }

    /// Exposes memory, has it accessed, takes it back at some moment, and looks at both sides.
    async fn round(
        &self,
        strategy: &Rc<dyn Strategy>,
        seen: &mut Revocations,
    ) -> Result<(), String> {
        let (near, far) = self.connect().await?;
        let len = usize::try_from(self.random.between(1, LEN_MAX)).unwrap_or(1);
        let access = [Access::RemoteRead, Access::RemoteWrite][self.random.index(2)];
        let scope = Scope::Endpoint(far.id());
        let memory = Buffer::from_vec(vec![EXPOSED; len]);
        let exposed = Rc::clone(strategy).register(memory, access, scope);
        let exposed = exposed.map_err(|error| error.to_string())?;
        let place = Place {
            address: exposed.address(),
            len: exposed.len().min(4096),
            access,
        };
        let mut sinks = Vec::new();
        for id in 0..self.random.between(1, ACCESSES_MAX) {
            place.access(&*self.near, &near, id, &mut sinks)?;
        }
        self.pause(200_000).await;
        if self.random.chance(100) {
            self.faults.reset_a_connection(self.owner.id());
        }
        let mut memory = exposed
            .release(len)
            .await
            .ok_or("the memory did not come back")?;
        if access == Access::RemoteRead && memory.iter().any(|byte| *byte != EXPOSED) {
            return Err(String::from("what may only be read was written"));
        }
        memory.fill(PRIVATE);
        let in_time = sinks.len() as u64;
        // A refused access may close the connection before this one is posted.
        let late = place.access(&*self.near, &near, in_time, &mut sinks);
        self.faults.sleep(SETTLED).await;
        if memory.iter().any(|byte| *byte != PRIVATE) {
            return Err(String::from("bytes landed after the revocation"));
        }
        let completions = completions_of(&near);
        judge(&completions, &sinks, late.is_ok().then_some(in_time), seen)
    }

    async fn connect(&self) -> Result<(Connected, Connected), String> {
        let options = || ConnectOptions {
            ord: 16,
            ird: 16,
            ..ConnectOptions::default()
        };
        let port = SocketAddr::new(self.owner.ip(), 0);
        let mut listener = self.far.listen(port).map_err(|error| error.to_string())?;
        let connecting = self.near.connect(listener.local_address(), options());
        let ends: Vec<LocalFuture<Result<Connected, String>>> = vec![
            Box::pin(async move { connecting.await.map_err(|error| error.to_string()) }),
            Box::pin(async move {
                let incoming = listener.accept().await.map_err(|error| error.to_string())?;
                let accepted = incoming.accept(options()).await;
                accepted.map_err(|error| error.to_string())
            }),
        ];
        let mut ends = all(ends).await.into_iter();
        let mut end = || ends.next().ok_or("no end of a connection")?;
        Ok((end()?, end()?))
    }

    async fn pause(&self, longest_ns: u64) {
        let wait = Duration::from_nanos(self.random.below(longest_ns));
        self.faults.sleep(wait).await;
    }
}

/// The address that the peer has received.
struct Place {
    address: RemoteAddress,
    /// Bytes behind the address that are one segment under every strategy.
    len: usize,
    access: Access,
}

impl Place {
    /// Posts one access by the key; a Read's sink is remembered in the order of the accesses.
    fn access(
        &self,
        provider: &dyn Provider,
        endpoint: &Connected,
        id: u64,
        sinks: &mut Vec<Option<Region>>,
    ) -> Result<(), String> {
        let len = u32::try_from(self.len).unwrap_or(u32::MAX);
        let (sink, posted) = if self.access == Access::RemoteRead {
            let memory = Backing::Buffer(Buffer::zeroed(self.len));
            let sink = provider
                .domain()
                .register_now(memory, Access::Local, Scope::Domain);
            let sink = sink.map_err(|error| error.to_string())?;
            let span = Span {
                region: sink.clone(),
                offset: 0,
                len,
            };
            let posted = endpoint.post_read(WorkId(id), span, self.address);
            (Some(sink), posted)
        } else {
            let buffer = Buffer::from_vec(vec![WRITTEN; self.len]);
            let source = Source::Buffer { buffer, len };
            let posted = endpoint.post_write(WorkId(id), source, self.address, Signal::Always);
            (None, posted)
        };
        endpoint.flush();
        posted.map_err(|error| error.to_string())?;
        sinks.push(sink);
        Ok(())
    }
}

/// The completions of an endpoint so far.
fn completions_of(endpoint: &Connected) -> Vec<Completion> {
    let mut completions = Vec::new();
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    while let std::task::Poll::Ready(Ok(())) =
        endpoint.poll_completions(&mut context, &mut completions)
    {}
    completions
}

/// Compares the peer's bytes with those that it may have read.
fn judge(
    completions: &[Completion],
    sinks: &[Option<Region>],
    late: Option<u64>,
    seen: &mut Revocations,
) -> Result<(), String> {
    for sink in sinks.iter().flatten() {
        let bytes = look(sink).ok_or("a sink is gone")?;
        if bytes.contains(&PRIVATE) {
            return Err(String::from("bytes were read after the revocation"));
        }
    }
    for Completion { id, outcome, .. } in completions {
        if outcome.is_ok() {
            seen.done += 1;
        } else {
            seen.refused += 1;
        }
        if Some(id.0) == late && matches!(outcome, Ok(Done::Read)) {
            return Err(String::from("a Read by a revoked key succeeded"));
        }
    }
    Ok(())
}
