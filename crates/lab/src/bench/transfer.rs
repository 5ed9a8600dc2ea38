//! Data that moves from a server's memory to a client's, as READ moves it, with both ends' memory registered by a
//! strategy.

use super::end::{FabricEnd, MESSAGE};
use super::provider::Measured;
use super::registration::strategy;
use anyhow::Context;
use gannet_cli::bench::measure::rounded;
use gannet_fabric::registration::{Counters, Strategy, StrategyKind};
use gannet_fabric::{
    Access, ConnectOptions, Connected, Done, Revocation, Scope, Signal, Source, WorkId,
};
use gannet_rpc::Design;
use gannet_runtime::{Arena, Buffer, Handle, both};
use serde::Serialize;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Buffers of an end whose registrations are being taken back. Fast mappings are taken back 64 at a time.
const RELEASING_MAX: usize = 72;
/// Bytes of the memory that the ends of a pair use for themselves.
const OWN_MEMORY: usize = 1 << 20;

/// One line of the result: data that was moved.
#[derive(Debug, Serialize)]
pub(super) struct TransferRow {
    /// The strategy of both ends.
    what: &'static str,
    design: &'static str,
    size: usize,
    uses: u64,
    /// The mean time of one use, registration and release at both ends included.
    mean_us: f64,
    /// Payload moved, in 10^6 bytes per second.
    mb_per_s: f64,
    /// Registrations of both ends for one use. Those that stay are made once.
    registrations: f64,
    /// Times that the strategies copied the payload, for one use.
    copies: f64,
    /// Uses that a strategy could not serve its own way and registered for one use, of all uses of both ends.
    fallbacks: f64,
}

impl TransferRow {
    pub(super) fn cells(&self) -> [String; 8] {
        [
            self.what.to_owned(),
            self.design.to_owned(),
            gannet_cli::size::human(self.size as u64),
            format!("{:.1}", self.mean_us),
            format!("{:.1}", self.mb_per_s),
            format!("{:.2}", self.registrations),
            format!("{:.2}", self.copies),
            format!("{:.2}", self.fallbacks),
        ]
    }
}

/// One end of a pair, its strategy and its memory.
struct Side {
    end: FabricEnd,
    strategy: Rc<dyn Strategy>,
    arena: Arena,
    /// Memory that comes back later.
    releasing: VecDeque<Revocation<Option<Buffer>>>,
}

impl Side {
    async fn new(
        endpoint: Connected,
        kind: StrategyKind,
        size: usize,
        runtime: &Handle,
    ) -> anyhow::Result<Side> {
        let domain = endpoint.domain();
        Ok(Side {
            end: FabricEnd::new(endpoint, OWN_MEMORY).await?,
            strategy: strategy(kind, domain, runtime)?,
            arena: Arena::new(size, RELEASING_MAX + 2),
            releasing: VecDeque::new(),
        })
    }

    fn own_scope(&self) -> Scope {
        Scope::Endpoint(self.end.endpoint.id())
    }

    fn take(&self) -> anyhow::Result<Buffer> {
        self.arena.take().context("the arena is empty")
    }

    /// Lets go of memory that is being taken back. Waits for the oldest if there is too much of it.
    async fn put(&mut self, released: Revocation<Option<Buffer>>) -> anyhow::Result<()> {
        if let Err(later) = released.now() {
            self.releasing.push_back(later);
        }
        if self.releasing.len() > RELEASING_MAX {
            self.put_oldest().await?;
        }
        Ok(())
    }

    async fn put_oldest(&mut self) -> anyhow::Result<()> {
        if let Some(oldest) = self.releasing.pop_front() {
            oldest.await.context("the memory is lost")?;
        }
        Ok(())
    }

    /// Waits until all memory is back.
    async fn drain(&mut self) -> anyhow::Result<()> {
        while !self.releasing.is_empty() {
            self.put_oldest().await?;
        }
        Ok(())
    }
}

/// A server and a client on one core.
struct Pair {
    server: Side,
    client: Side,
    /// The server registers the sources of its Writes.
    registers: bool,
    size: usize,
}

impl Pair {
    async fn connect(
        provider: &Measured,
        kind: StrategyKind,
        size: usize,
        runtime: &Handle,
    ) -> anyhow::Result<Pair> {
        let Connection {
            near: client,
            far: server,
            registers,
        } = connect(provider, runtime).await?;
        Ok(Pair {
            server: Side::new(server, kind, size, runtime).await?,
            client: Side::new(client, kind, size, runtime).await?,
            registers,
            size,
        })
    }

    /// The client exposes memory, and the server writes to it.
    async fn read_write(&mut self) -> anyhow::Result<()> {
        let (size, client, server) = (self.size, &mut self.client, &mut self.server);
        let strategy = Rc::clone(&client.strategy);
        let sink = strategy.register(client.take()?, Access::RemoteWrite, client.own_scope())?;
        client.end.tell(sink.address())?;

        let target = server.end.learn().await?;
        let buffer = server.take()?;
        let mut registered = None;
        let source = if self.registers {
            let strategy = Rc::clone(&server.strategy);
            let made = strategy.register(buffer, Access::Local, Scope::Domain)?;
            Source::Span(registered.insert(made).span(0, size as u32))
        } else {
            Source::Buffer {
                buffer,
                len: size as u32,
            }
        };
        let endpoint = &server.end.endpoint;
        endpoint.post_write(WorkId(1), source, target, Signal::Always)?;
        server.end.send_text(b"done")?;
        server.end.wait(Done::Written).await?;
        if let Some(registered) = registered {
            server.put(registered.release(0)).await?;
        }

        client.end.receive().await?;
        client.put(sink.release(size)).await
    }

    /// The server exposes memory, and the client reads it.
    async fn read_read(&mut self) -> anyhow::Result<()> {
        let (size, client, server) = (self.size, &mut self.client, &mut self.server);
        client.end.send_text(b"call")?;

        server.end.receive().await?;
        let strategy = Rc::clone(&server.strategy);
        let source = strategy.register(server.take()?, Access::RemoteRead, server.own_scope())?;
        server.end.tell(source.address())?;

        let target = client.end.learn().await?;
        let strategy = Rc::clone(&client.strategy);
        let sink = strategy.register(client.take()?, Access::Local, Scope::Domain)?;
        let endpoint = &client.end.endpoint;
        endpoint.post_read(WorkId(1), sink.span(0, size as u32), target)?;
        endpoint.flush();
        client.end.wait(Done::Read).await?;
        client.put(sink.release(size)).await?;
        client.end.send_text(b"done")?;

        server.end.receive().await?;
        server.put(source.release(0)).await
    }

    async fn once(&mut self, design: Design) -> anyhow::Result<()> {
        match design {
            Design::ReadWrite => self.read_write().await,
            Design::ReadRead => self.read_read().await,
        }
    }

    fn counters(&self) -> Counters {
        self.server.strategy.counters() + self.client.strategy.counters()
    }
}

/// A connection of two providers on one core.
pub(super) struct Connection {
    /// The end that connected.
    pub(super) near: Connected,
    /// The end that accepted.
    pub(super) far: Connected,
    /// Sources of Writes must be registered.
    registers: bool,
}

/// Connects two ends on this core.
///
/// # Errors
/// A provider cannot be had, or the connection fails.
pub(super) async fn connect(provider: &Measured, runtime: &Handle) -> anyhow::Result<Connection> {
    let (near, far) = (
        provider.over(runtime, false)?,
        provider.over(runtime, false)?,
    );
    let mut listener = far.listen(provider.address())?;
    let connecting = near.connect(listener.local_address(), options());
    let accepting = async { listener.accept().await?.accept(options()).await };
    let (connected, accepted) = both(connecting, accepting).await;
    Ok(Connection {
        near: connected?,
        far: accepted?,
        registers: far.capabilities().needs_local_registration,
    })
}

fn options() -> ConnectOptions {
    ConnectOptions {
        ord: 1,
        ird: 1,
        receives: (0..4).map(|_| Buffer::zeroed(MESSAGE)).collect(),
        ..ConnectOptions::default()
    }
}

/// A way in which data is moved.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transfer {
    /// The strategy of both ends.
    pub(super) kind: StrategyKind,
    /// The end that moves the data.
    pub(super) design: Design,
    /// Bytes of one use.
    pub(super) size: usize,
}

/// Moves data again and again, for `time`.
///
/// # Errors
/// The pair cannot be connected, or the memory cannot be registered.
pub(super) async fn move_often(
    provider: &Measured,
    runtime: &Handle,
    transfer: Transfer,
    time: Duration,
) -> anyhow::Result<TransferRow> {
    let Transfer { kind, design, size } = transfer;
    let mut pair = Pair::connect(provider, kind, size, runtime).await?;
    // Registrations that stay are made by now.
    pair.once(design).await?;
    let before = pair.counters();
    let (mut uses, began) = (0u64, Instant::now());
    // Once at least: a slow machine takes longer than its time.
    while uses == 0 || began.elapsed() < time {
        pair.once(design).await?;
        uses += 1;
    }
    pair.server.drain().await?;
    pair.client.drain().await?;
    let elapsed = began.elapsed().as_secs_f64();
    let after = pair.counters();
    let per_use = |count: u64| rounded(count as f64 / uses as f64, 3);
    let copied = after.copied_bytes - before.copied_bytes;
    Ok(TransferRow {
        what: kind.name(),
        design: design.name(),
        size,
        uses,
        mean_us: rounded(elapsed / uses as f64 * 1e6, 3),
        mb_per_s: rounded(uses as f64 * size as f64 / elapsed / 1e6, 1),
        registrations: per_use(after.registrations - before.registrations),
        copies: per_use(copied / size as u64),
        fallbacks: per_use(after.fallbacks - before.fallbacks),
    })
}
