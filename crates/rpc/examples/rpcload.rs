//! Calls as fast as they go, against `nullserver`: for measuring the RPC layer alone.
//!
//! `cargo run --release -p gannet-rpc --example rpcload -- tcp|rdma ADDRESS null|read|write DEPTH SIZE SECONDS`
//! prints calls per second, MB/s and the median latency.

use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_rpc::{CallError, Client, ClientConfig, Request, Sink, Target};
use gannet_runtime::{Buffer, Handle, Instant, tokio_plug};
use std::cell::RefCell;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

const NFS: u32 = 100_003;
const FILE_LEN: u64 = 64 << 20;

#[derive(Clone, Copy)]
enum Operation {
    Null,
    Read,
    Write,
}

struct Load {
    runtime: Handle,
    client: Client,
    operation: Operation,
    size: usize,
    until: Instant,
    latencies: RefCell<Vec<Duration>>,
}

impl Load {
    /// One call after the other until the time is over.
    async fn run(self: Rc<Self>, lane: usize, lanes: usize) -> Result<(), CallError> {
        let mut memory = Some(Buffer::zeroed(self.size));
        let mut offset = (lane * self.size) as u64;
        while self.runtime.now() < self.until {
            let began = self.runtime.now();
            let buffer = memory.take().unwrap_or_else(|| Buffer::zeroed(self.size));
            memory = self.one(buffer, offset).await?;
            offset = (offset + (lanes * self.size) as u64) % FILE_LEN;
            self.latencies.borrow_mut().push(self.runtime.now() - began);
        }
        Ok(())
    }

    async fn one(&self, buffer: Buffer, offset: u64) -> Result<Option<Buffer>, CallError> {
        let size = u32::try_from(self.size).unwrap_or(u32::MAX);
        match self.operation {
            Operation::Null => {
                self.client.call(Request::new(NFS, 3, 0, 0)).await?;
                Ok(Some(buffer))
            }
            Operation::Read => {
                let mut request = Request::new(NFS, 3, 6, 104);
                let mut arguments = request.arguments();
                arguments.opaque(b"a file!!");
                arguments.u64(offset);
                arguments.u32(size);
                request.sink = Some(Sink {
                    buffer,
                    locate: |_| Some(104),
                });
                let response = self.client.call(request).await?;
                Ok(response.sink.map(|(buffer, _)| buffer))
            }
            Operation::Write => {
                let mut request = Request::new(NFS, 3, 7, 136);
                let mut arguments = request.arguments();
                arguments.opaque(b"a file!!");
                arguments.u64(offset);
                arguments.u32(size);
                arguments.u32(0);
                request.put_payload(buffer, self.size);
                Ok(self.client.call(request).await?.payload)
            }
        }
    }
}

async fn run(runtime: Handle, arguments: Vec<String>) -> io::Result<()> {
    let usage = || io::Error::other("tcp|rdma ADDRESS null|read|write DEPTH SIZE SECONDS");
    let [transport, address, operation, depth, size, seconds] =
        arguments.try_into().map_err(|_| usage())?;
    let address: SocketAddr = address.parse().map_err(io::Error::other)?;
    let target = match transport.as_str() {
        "tcp" => Target::Tcp(address),
        "rdma" => {
            let provider = IwarpProvider::new(Rc::clone(&runtime), IwarpConfig::default());
            Target::Rdma(provider as Rc<dyn Provider>, address)
        }
        _ => return Err(usage()),
    };
    let operation = match operation.as_str() {
        "null" => Operation::Null,
        "read" => Operation::Read,
        "write" => Operation::Write,
        _ => return Err(usage()),
    };
    let depth: usize = depth.parse().map_err(io::Error::other)?;
    let seconds: u64 = seconds.parse().map_err(io::Error::other)?;
    let client = Client::new(Rc::clone(&runtime), target, ClientConfig::default());
    client
        .call(Request::new(NFS, 3, 0, 0))
        .await
        .map_err(io::Error::other)?;
    let began = runtime.now();
    let load = Rc::new(Load {
        client,
        operation,
        size: size.parse().map_err(io::Error::other)?,
        until: began + Duration::from_secs(seconds),
        runtime,
        latencies: RefCell::default(),
    });
    let (sender, mut ended) = tokio::sync::mpsc::unbounded_channel();
    for lane in 0..depth {
        let (lane_load, sender) = (Rc::clone(&load), sender.clone());
        let task = async move {
            // The receiver waits for every lane.
            let _ = sender.send(lane_load.run(lane, depth).await);
        };
        load.runtime.spawn("lane", Box::pin(task));
    }
    drop(sender);
    while let Some(outcome) = ended.recv().await {
        outcome.map_err(io::Error::other)?;
    }
    report(&load, (load.runtime.now() - began).as_secs_f64());
    Ok(())
}

fn report(load: &Load, seconds: f64) {
    let mut latencies = load.latencies.borrow_mut();
    latencies.sort_unstable();
    let calls = latencies.len() as f64;
    let bytes = match load.operation {
        Operation::Null => 0.0,
        Operation::Read | Operation::Write => calls * load.size as f64,
    };
    let median = latencies
        .get(latencies.len() / 2)
        .copied()
        .unwrap_or_default();
    println!(
        "calls_per_s={:.0} mb_per_s={:.0} p50_us={:.1}",
        calls / seconds,
        bytes / seconds / 1e6,
        median.as_secs_f64() * 1e6
    );
}

fn main() -> io::Result<()> {
    let arguments = std::env::args().skip(1).collect();
    tokio_plug::block_on(|runtime| run(runtime, arguments))?
}
