//! The ping of the RDMA world, as librdmacm's `rping`: the client advertises its buffer, the
//! server reads it, and writes it back to another one; then the client compares.
//!
//! ```text
//! cargo run --example rping                          # both ends in this process
//! cargo run --example rping -- --server 0.0.0.0:7174
//! cargo run --example rping -- --client 127.0.0.1:7174
//! ```
//!
//! The messages are rping's own.

use gannet_fabric::{
    Access, Backing, Completion, ConnectOptions, Connected, Disconnected, Done, Provider, Region,
    RemoteAddress, RemoteKey, Scope, SendOptions, Signal, Source, Span, WorkError, WorkId,
    next_completions,
};
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_runtime::tokio_plug::block_on;
use gannet_runtime::{Buffer, Handle};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::rc::Rc;

type Failure = Box<dyn std::error::Error>;

const SIZE: usize = 100;
const COUNT: usize = 10;
/// Bytes of rping's message: address, key and length of a buffer.
const MESSAGE_LEN: usize = 16;
const DEFAULT_ADDRESS: &str = "127.0.0.1:0";

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [] => block_on(both)?,
        ["--server", address] => {
            let address = address.parse()?;
            block_on(|runtime| async move { serve(listen(&runtime, address)?).await })?
        }
        ["--client", address] => {
            let address = address.parse()?;
            block_on(|runtime| async move { client(runtime, address).await })?
        }
        _ => Err("usage: rping [--server ADDRESS | --client ADDRESS]".into()),
    }
}

async fn both(runtime: Handle) -> Result<(), Failure> {
    let listener = listen(&runtime, DEFAULT_ADDRESS.parse()?)?;
    let address = listener.local_address();
    let server = async {
        if let Err(error) = serve(listener).await {
            eprintln!("server: {error}");
        }
    };
    runtime.spawn("server", Box::pin(server));
    client(runtime, address).await
}

fn provider(runtime: &Handle) -> Rc<dyn Provider> {
    IwarpProvider::new(Rc::clone(runtime), IwarpConfig::default())
}

fn listen(
    runtime: &Handle,
    address: SocketAddr,
) -> Result<Box<dyn gannet_fabric::Listener>, Failure> {
    Ok(provider(runtime).listen(address)?)
}

fn options() -> ConnectOptions {
    let receives = vec![Buffer::zeroed(MESSAGE_LEN)].into();
    ConnectOptions {
        ord: 1,
        ird: 1,
        receives,
        ..ConnectOptions::default()
    }
}

/// Serves one client.
async fn serve(mut listener: Box<dyn gannet_fabric::Listener>) -> Result<(), Failure> {
    println!("server: listening at {}", listener.local_address());
    let mut peer = Peer::new(listener.accept().await?.accept(options()).await?);
    let sink = peer.register(vec![0; SIZE], Access::Local)?;
    loop {
        let Some((origin, len)) = peer.next_advertisement().await? else {
            return Ok(());
        };
        let span = Span {
            region: sink.clone(),
            offset: 0,
            len,
        };
        peer.endpoint.post_read(WorkId(1), span.clone(), origin)?;
        peer.endpoint.flush();
        peer.wait(|done| done == Done::Read).await?;
        peer.send_empty()?;
        let Some((target, len)) = peer.next_advertisement().await? else {
            return Ok(());
        };
        let span = Span { len, ..span };
        peer.endpoint
            .post_write(WorkId(2), Source::Span(span), target, Signal::OnError)?;
        peer.send_empty()?;
    }
}

async fn client(runtime: Handle, address: SocketAddr) -> Result<(), Failure> {
    let mut peer = Peer::new(provider(&runtime).connect(address, options()).await?);
    for round in 0..COUNT {
        let text = ping_text(round);
        let origin = peer.register(text.clone(), Access::RemoteRead)?;
        peer.advertise(&origin)?;
        peer.next_message().await?.ok_or("the server closed")?;
        let target = peer.register(vec![0; SIZE], Access::RemoteWrite)?;
        peer.advertise(&target)?;
        peer.next_message().await?.ok_or("the server closed")?;
        let echoed = target
            .deregister()
            .await?
            .ok_or("the region returned no buffer")?;
        if *echoed != *text {
            return Err("the echo differs".into());
        }
        println!("client: {}", String::from_utf8_lossy(&echoed[..40]));
    }
    peer.endpoint.close();
    Ok(())
}

/// The text of a round, as rping's: a number, then letters that move on by one each round.
fn ping_text(round: usize) -> Vec<u8> {
    let mut text = format!("rdma-ping-{round}: ").into_bytes();
    let letters = (0..).map(|at| b'A' + ((round + at) % 58) as u8);
    text.extend(letters.take(SIZE - 1 - text.len()));
    text.push(0);
    text
}

/// A connection with one receive always posted.
struct Peer {
    endpoint: Connected,
    ready: VecDeque<Completion>,
}

impl Peer {
    fn new(endpoint: Connected) -> Peer {
        Peer {
            endpoint,
            ready: VecDeque::new(),
        }
    }

    fn register(&self, bytes: Vec<u8>, access: Access) -> Result<Region, Failure> {
        let backing = Backing::Buffer(Buffer::from_vec(bytes));
        let scope = Scope::Endpoint(self.endpoint.id());
        Ok(self
            .endpoint
            .domain()
            .register_now(backing, access, scope)?)
    }

    /// Tells the peer of a buffer.
    fn advertise(&self, region: &Region) -> Result<(), Failure> {
        let mut message = region.base().to_be_bytes().to_vec();
        message.extend_from_slice(&region.remote_key().0.to_be_bytes());
        message.extend_from_slice(&u32::try_from(region.len())?.to_be_bytes());
        self.send(message)
    }

    /// Tells the peer to go on.
    fn send_empty(&self) -> Result<(), Failure> {
        self.send(vec![0; MESSAGE_LEN])
    }

    fn send(&self, message: Vec<u8>) -> Result<(), Failure> {
        let len = u32::try_from(message.len())?;
        let source = Source::Buffer {
            buffer: Buffer::from_vec(message),
            len,
        };
        self.endpoint
            .post_send(WorkId(3), source, SendOptions::default())?;
        self.endpoint.flush();
        Ok(())
    }

    /// The peer's next buffer; `None` when it closed.
    async fn next_advertisement(&mut self) -> Result<Option<(RemoteAddress, u32)>, Failure> {
        let Some(message) = self.next_message().await? else {
            return Ok(None);
        };
        let (offset, rest) = message
            .split_first_chunk::<8>()
            .ok_or("the message is short")?;
        let (key, rest) = rest
            .split_first_chunk::<4>()
            .ok_or("the message is short")?;
        let len = rest.first_chunk::<4>().ok_or("the message is short")?;
        let len = u32::from_be_bytes(*len).min(SIZE as u32);
        let key = RemoteKey(u32::from_be_bytes(*key));
        let offset = u64::from_be_bytes(*offset);
        Ok(Some((RemoteAddress { key, offset }, len)))
    }

    /// The next message, with the next receive posted; `None` when the peer closed.
    async fn next_message(&mut self) -> Result<Option<Vec<u8>>, Failure> {
        let received = self
            .wait(|done| matches!(done, Done::Received { .. }))
            .await?;
        let Some(completion) = received else {
            return Ok(None);
        };
        let buffer = completion.buffer.ok_or("a message without its buffer")?;
        let message = buffer.to_vec();
        self.endpoint.post_receive(WorkId(0), buffer)?;
        Ok(Some(message))
    }

    /// The next completion that is `wanted`; `None` when the peer closed.
    async fn wait(&mut self, wanted: impl Fn(Done) -> bool) -> Result<Option<Completion>, Failure> {
        loop {
            while let Some(completion) = self.ready.pop_front() {
                match completion.outcome {
                    Ok(done) if wanted(done) => return Ok(Some(completion)),
                    Ok(_) => {}
                    Err(error) => {
                        return match (self.ended().await, error) {
                            (Disconnected::Peer, _) => Ok(None),
                            (reason, WorkError::Flushed) => Err(reason.into()),
                            (_, error) => Err(error.into()),
                        };
                    }
                }
            }
            let mut batch = Vec::new();
            match next_completions(&*self.endpoint, &mut batch).await {
                Ok(()) => self.ready.extend(batch),
                Err(Disconnected::Peer) => return Ok(None),
                Err(reason) => return Err(reason.into()),
            }
        }
    }

    /// Why the connection ended, once work was flushed.
    async fn ended(&self) -> Disconnected {
        loop {
            if let Err(reason) = next_completions(&*self.endpoint, &mut Vec::new()).await {
                return reason;
            }
        }
    }
}
