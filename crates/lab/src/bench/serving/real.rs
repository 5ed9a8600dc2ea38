//! Rows of this machine: the software RNIC over loopback. The server's connections share one thread, and so do the
//! client's.

use super::super::fabric::{MemoryFile, on_core};
use super::row::{Row, Samples};
use super::{Case, Report};
use crate::cli::ServingOptions;
use anyhow::{Context, anyhow};
use gannet_cli::bench::measure::thread_cpu;
use gannet_cli::failure::Failure;
use gannet_datapath::{Destination, FileRange, FileSender, SendCounts, SenderOptions};
use gannet_fabric::{
    Access, Backing, ConnectOptions, Connected, Done, Endpoint, Provider, RemoteAddress, RemoteKey,
    Scope, SendOptions, Source, WorkId, next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::{Buffer, FileRef, Handle};
use std::net::{Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::sync::{Arc, mpsc};
use std::time::Instant;
use tokio::sync::oneshot;

/// A sample sends at least so many bytes, in whole files, unless that would be more than [`ROUNDS_MAX`] of each
/// connection.
const SAMPLE_LEN: usize = 64 << 20;
const ROUNDS_MAX: usize = 64;
/// Bytes of the message behind a connection's files, and of its answer.
const MESSAGE: usize = 1;
const LOOPBACK: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// Measures all cases.
///
/// # Errors
/// A thread, a socket or a connection could not be had, or broke.
pub(super) fn measure(
    cases: &[Case],
    options: &ServingOptions,
    report: Report<'_>,
) -> Result<(), Failure> {
    let failed = |error: anyhow::Error| Failure::new("cannot serve files", format!("{error:#}"));
    let len = cases.iter().map(|case| case.size).max().unwrap_or(1);
    let (tell_address, address) = mpsc::channel();
    let (stop, stopped) = oneshot::channel();
    let crc = options.crc;
    let client = std::thread::Builder::new()
        .name("bench-client".into())
        .spawn(move || on_core(|runtime| client(runtime, len, crc, tell_address, stopped)))
        .map_err(|error| failed(error.into()))?;
    let served = address
        .recv()
        .context("the client did not start")
        .and_then(|address| on_core(|runtime| serve(runtime, address, cases, options, report)));
    // A client that failed is not there any more.
    let _ = stop.send(());
    let client = client
        .join()
        .map_err(|_| anyhow!("the client's thread panicked"));
    // If it failed, that is why the server did.
    client.and_then(|ended| ended).map_err(failed)?;
    served.map_err(failed)
}

fn config(crc: bool) -> IwarpConfig {
    IwarpConfig {
        crc,
        accept_race: None,
        ..IwarpConfig::default()
    }
}

fn options() -> ConnectOptions {
    let receives = (0..2).map(|_| Buffer::zeroed(MESSAGE));
    ConnectOptions {
        receives: receives.collect(),
        ..ConnectOptions::default()
    }
}

/// Accepts connections that may write `len` bytes of memory, and answers their messages, until `stopped`.
async fn client(
    runtime: Handle,
    len: usize,
    crc: bool,
    address: mpsc::Sender<SocketAddr>,
    stopped: oneshot::Receiver<()>,
) -> anyhow::Result<()> {
    let provider = IwarpProvider::new(Rc::clone(&runtime), config(crc));
    let mut sink = Buffer::zeroed(len);
    // Its pages are there before anything is measured.
    sink.fill(0x5a);
    let backing = Backing::Buffer(sink);
    let domain = provider.domain();
    let sink = domain.register_now(backing, Access::RemoteWrite, Scope::Domain)?;
    let mut private_data = sink.base().to_be_bytes().to_vec();
    private_data.extend_from_slice(&sink.remote_key().0.to_be_bytes());
    let mut listener = provider.listen(LOOPBACK)?;
    address
        .send(listener.local_address())
        .context("the server is gone")?;
    let accepting = async {
        loop {
            let incoming = listener.accept().await?;
            let options = ConnectOptions {
                private_data: private_data.clone(),
                ..options()
            };
            let endpoint = incoming.accept(options).await?;
            runtime.spawn("client", Box::pin(async move { answer(&*endpoint).await }));
        }
    };
    tokio::select! {
        failed = accepting => failed,
        _ = stopped => Ok(()),
    }
}

/// Answers each message, which comes behind what the server wrote, until the connection ends.
async fn answer(endpoint: &dyn Endpoint) {
    let mut completions = Vec::new();
    while next_completions(endpoint, &mut completions).await.is_ok() {
        for completion in completions.drain(..) {
            if let (Ok(Done::Received { .. }), Some(buffer)) =
                (completion.outcome, completion.buffer)
                && send(endpoint, buffer).is_err()
            {
                return;
            }
        }
    }
}

/// Sends a message in the memory of one that came; another receive takes its place.
fn send(endpoint: &dyn Endpoint, buffer: Buffer) -> anyhow::Result<()> {
    endpoint.post_receive(WorkId(0), Buffer::zeroed(MESSAGE))?;
    let len = MESSAGE as u32;
    let source = Source::Buffer { buffer, len };
    endpoint.post_send(WorkId(0), source, SendOptions::default())?;
    endpoint.flush();
    Ok(())
}

async fn serve(
    runtime: Handle,
    address: SocketAddr,
    cases: &[Case],
    settings: &ServingOptions,
    report: Report<'_>,
) -> anyhow::Result<()> {
    let provider = IwarpProvider::new(Rc::clone(&runtime), config(settings.crc));
    let Some(first) = cases.first() else {
        return Ok(());
    };
    let file: FileRef = Arc::new(MemoryFile::new(first.size)?);
    let mut connections: Vec<Connected> = Vec::new();
    for case in cases {
        connections.truncate(case.connections);
        while connections.len() < case.connections {
            connections.push(provider.connect(address, options()).await?);
        }
        let mut senders = Vec::with_capacity(connections.len());
        for endpoint in &connections {
            senders.push(Sending::new(&provider, &runtime, endpoint, case, &file)?);
        }
        let samples = sample(&runtime, case, settings.repeats, senders).await?;
        report(Row::new(
            String::from("local"),
            Some(settings.crc),
            case,
            &samples,
        ))
        .map_err(|failure| anyhow!("{failure:?}"))?;
    }
    Ok(())
}

/// A connection that sends.
struct Sending {
    endpoint: Connected,
    sender: FileSender,
    range: FileRange,
    target: RemoteAddress,
}

impl Sending {
    fn new(
        provider: &Rc<IwarpProvider>,
        runtime: &Handle,
        endpoint: &Connected,
        case: &Case,
        file: &FileRef,
    ) -> anyhow::Result<Sending> {
        let private_data = endpoint.private_data();
        let (offset, rest) = private_data
            .split_first_chunk()
            .context("the client's private data has no offset")?;
        let key = rest
            .first_chunk()
            .context("the client's private data has no key")?;
        let options = SenderOptions {
            engine: Some(case.engine),
            pipes: case.pipes,
            pipe_len: case.depth,
            memory_max: case.pipes.saturating_mul(case.depth),
            ..SenderOptions::default()
        };
        let (endpoint, runtime) = (Rc::clone(endpoint), Handle::clone(runtime));
        Ok(Sending {
            target: RemoteAddress {
                key: RemoteKey(u32::from_be_bytes(*key)),
                offset: u64::from_be_bytes(*offset),
            },
            range: FileRange {
                file: FileRef::clone(file),
                offset: 0,
                len: case.size,
            },
            sender: FileSender::new(
                Rc::clone(&endpoint),
                provider.capabilities(),
                runtime,
                options,
            )?,
            endpoint,
        })
    }

    /// Sends the file so many times, and waits until the client has all of it.
    async fn send(&mut self, rounds: usize) -> anyhow::Result<()> {
        let len = u32::try_from(self.range.len).context("a file is too long")?;
        let segments = [(self.target, len)];
        let mut completions = Vec::new();
        for _ in 0..rounds {
            let destination = Destination::Memory(&segments);
            let sent = self.sender.send(&self.range, destination, &mut completions);
            sent.await?;
        }
        send(&*self.endpoint, Buffer::zeroed(MESSAGE))?;
        loop {
            let mut arrived = completions.drain(..);
            if arrived.any(|it| matches!(it.outcome, Ok(Done::Received { .. }))) {
                return Ok(());
            }
            drop(arrived);
            next_completions(&*self.endpoint, &mut completions).await?;
        }
    }
}

/// Takes the samples of a case. Senders work at the same time, each as a task of this thread.
async fn sample(
    runtime: &Handle,
    case: &Case,
    repeats: u16,
    mut senders: Vec<Sending>,
) -> anyhow::Result<Samples> {
    let rounds = SAMPLE_LEN / case.size.saturating_mul(case.connections).max(1);
    let rounds = rounds.clamp(1, ROUNDS_MAX);
    // The first finds nothing registered, and sockets that have not grown yet.
    senders = send_all(runtime, senders, 1).await?;
    let before = total(&senders);
    let mut samples = Samples::default();
    for _ in 0..repeats {
        let (began, cpu) = (Instant::now(), thread_cpu());
        senders = send_all(runtime, senders, rounds).await?;
        let (elapsed, cpu) = (began.elapsed(), thread_cpu().saturating_sub(cpu));
        let bytes = (case.size * case.connections * rounds) as f64;
        samples
            .mb_per_s
            .push(bytes / 1e6 / elapsed.as_secs_f64().max(1e-9));
        samples.cpu_s_per_gb.push(cpu.as_secs_f64() / bytes * 1e9);
    }
    let after = total(&senders);
    let registered = |counts: &SendCounts| counts.registrations.registrations;
    Ok(Samples {
        memory_peak: after.memory_peak,
        files: after.transfers - before.transfers,
        copied_bytes: after.copied_bytes - before.copied_bytes,
        registrations: registered(&after) - registered(&before),
        work: after.work - before.work,
        ..samples
    })
}

/// The counts of all connections: sums, and the largest peak.
fn total(senders: &[Sending]) -> SendCounts {
    let each = senders.iter().map(|it| it.sender.counts());
    each.fold(SendCounts::default(), |all, one| SendCounts {
        transfers: all.transfers + one.transfers,
        bytes: all.bytes + one.bytes,
        work: all.work + one.work,
        copied_bytes: all.copied_bytes + one.copied_bytes,
        reads: all.reads + one.reads,
        memory_peak: all.memory_peak.max(one.memory_peak),
        registrations: all.registrations + one.registrations,
    })
}

async fn send_all(
    runtime: &Handle,
    senders: Vec<Sending>,
    rounds: usize,
) -> anyhow::Result<Vec<Sending>> {
    let mut sent = Vec::with_capacity(senders.len());
    for mut sending in senders {
        let (done, waiting) = oneshot::channel();
        let task = async move {
            let outcome = sending.send(rounds).await;
            // No receiver waits after another connection has failed.
            let _ = done.send(outcome.map(|()| sending));
        };
        runtime.spawn("serving", Box::pin(task));
        sent.push(waiting);
    }
    let mut senders = Vec::with_capacity(sent.len());
    for waiting in sent {
        senders.push(waiting.await.context("a connection's task is gone")??);
    }
    Ok(senders)
}
