//! A trial of one device: both ends of a connection in this process, every kind of work.
//!
//! `cargo run -p gannet-verbs --example ping -- ADDRESS`, with the address of a device's network interface.

use gannet_fabric::{
    Access, Backing, Completion, ConnectOptions, Connected, Done, Provider, Receives, Region,
    RemoteAddress, Scope, SendOptions, SharedReceiveQueue, SharedReceives, Signal, Source, Span,
    WorkId, next_completions,
};
use gannet_runtime::{Buffer, Handle, both, tokio_plug::block_on};
use gannet_verbs::{VerbsConfig, VerbsLibrary, VerbsProvider, devices};
use std::collections::VecDeque;
use std::error::Error;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

type Outcome<T = ()> = Result<T, Box<dyn Error>>;

const LONG: usize = 1 << 20;

fn main() -> Outcome {
    let address = std::env::args().nth(1).ok_or("which address?")?;
    let address: IpAddr = address.parse()?;
    block_on(|runtime| ping(runtime, address))?
}

async fn ping(runtime: Handle, address: IpAddr) -> Outcome {
    let library = VerbsLibrary::open()?;
    for device in devices(&library)? {
        println!("{device:?}");
    }
    let config = VerbsConfig::at(address);
    let near = VerbsProvider::new(Rc::clone(&runtime), &library, &config)?;
    let far = VerbsProvider::new(Rc::clone(&runtime), &library, &config)?;
    println!("{:?}", near.capabilities());
    let queue = far.shared_receives(SharedReceives {
        id: WorkId(77),
        len: 4096,
        receives_max: 64,
    });
    let queue = queue.ok_or("no shared receives")?;
    queue.post(64)?;
    let (near, far) = pair(&near, &far, &queue, address).await?;
    println!("{:?}\n{:?}", near.0.attributes(), far.0.attributes());
    let (mut near, mut far) = (near, far);
    messages(&runtime, &*queue, &mut near, &mut far).await?;
    memory(&runtime, &mut near, &mut far).await?;
    near.0.close();
    far.ended().await;
    near.ended().await;
    Ok(())
}

/// One end, and the completions that it has not looked at.
struct End(Connected, VecDeque<Completion>);

impl End {
    async fn next(&mut self) -> Outcome<Completion> {
        loop {
            if let Some(completion) = self.1.pop_front() {
                return Ok(completion);
            }
            let mut batch = Vec::new();
            next_completions(&*self.0, &mut batch).await?;
            self.1.extend(batch);
        }
    }

    async fn done(&mut self) -> Outcome<Done> {
        Ok(self.next().await?.outcome?)
    }

    async fn ended(&mut self) {
        let mut rest = Vec::new();
        let reason = loop {
            if let Err(reason) = next_completions(&*self.0, &mut rest).await {
                break reason;
            }
        };
        println!("{reason}, {} completions at the end", rest.len());
    }

    fn expose(&self, memory: Buffer, access: Access) -> Outcome<Region> {
        let scope = Scope::Endpoint(self.0.id());
        let backing = Backing::Buffer(memory);
        Ok(self.0.domain().register_now(backing, access, scope)?)
    }
}

async fn pair(
    near: &VerbsProvider,
    far: &VerbsProvider,
    queue: &Rc<dyn SharedReceiveQueue>,
    address: IpAddr,
) -> Outcome<(End, End)> {
    let mut listener = far.listen(SocketAddr::new(address, 0))?;
    println!("listening at {}", listener.local_address());
    let options = |receives| ConnectOptions {
        private_data: b"hello".to_vec(),
        ord: 4,
        ird: 4,
        receives,
        ..ConnectOptions::default()
    };
    let own: Receives = (0..8).map(|_| Buffer::zeroed(4096)).collect();
    let connecting = near.connect(listener.local_address(), options(own));
    let accepting = async {
        let incoming = listener.accept().await?;
        let (from, data) = (incoming.peer_address(), incoming.private_data().len());
        println!(
            "{from} asks with {data} bytes, {:?}",
            incoming.read_depths()
        );
        let (queue, granted) = (Rc::clone(queue), 8);
        incoming
            .accept(options(Receives::Shared { queue, granted }))
            .await
    };
    let (near, far) = both(connecting, accepting).await;
    Ok((End(near?, VecDeque::new()), End(far?, VecDeque::new())))
}

async fn messages(
    runtime: &Handle,
    queue: &dyn SharedReceiveQueue,
    near: &mut End,
    far: &mut End,
) -> Outcome {
    let options = SendOptions::default;
    let message = |len: usize| Source::Buffer {
        buffer: Buffer::from_vec(vec![7; len]),
        len: len as u32,
    };
    for len in [1, 100, 3000] {
        near.0.post_send(WorkId(1), message(len), options())?;
        near.0.flush();
        println!("far: {:?}", far.next().await?);
        far.0.post_send(WorkId(2), message(len), options())?;
        far.0.flush();
        println!("near: {:?}", near.next().await?);
        near.0.post_receive(WorkId(0), Buffer::zeroed(4096))?;
        queue.post(1)?;
        far.0.grant_receives(1)?;
    }
    let start = runtime.now();
    let rounds = 200;
    for _ in 0..rounds {
        near.0.post_send(WorkId(1), message(1000), options())?;
        near.0.flush();
        far.done().await?;
        far.0.post_send(WorkId(2), message(1000), options())?;
        far.0.flush();
        near.done().await?;
        near.0.post_receive(WorkId(0), Buffer::zeroed(4096))?;
        queue.post(1)?;
        far.0.grant_receives(1)?;
    }
    println!("{:?} a round trip", (runtime.now() - start) / rounds);
    Ok(())
}

async fn memory(runtime: &Handle, near: &mut End, far: &mut End) -> Outcome {
    let target = far.expose(Buffer::zeroed(LONG), Access::RemoteReadWrite)?;
    let source = near.expose(Buffer::from_vec(vec![9; LONG]), Access::Local)?;
    let sink = near.expose(Buffer::zeroed(LONG), Access::Local)?;
    let address = RemoteAddress {
        key: target.remote_key(),
        offset: target.base(),
    };
    let start = runtime.now();
    let span = Source::Span(Span::whole(&source)?);
    near.0
        .post_write(WorkId(3), span, address, Signal::Always)?;
    near.0.flush();
    println!("{:?} after {:?}", near.done().await?, runtime.now() - start);
    let start = runtime.now();
    near.0.post_read(WorkId(4), Span::whole(&sink)?, address)?;
    near.0.flush();
    println!("{:?} after {:?}", near.done().await?, runtime.now() - start);
    let lent = sink.lend().ok_or("the memory is not lent")?;
    assert!(lent.iter().all(|byte| *byte == 9));
    assert!(sink.restore(Buffer::zeroed(LONG)).is_err());
    sink.restore(lent)
        .map_err(|_| "the memory is not taken back")?;
    // Deregistered while the peer writes to it.
    for _ in 0..4 {
        let span = Source::Span(Span::whole(&source)?);
        near.0
            .post_write(WorkId(5), span, address, Signal::OnError)?;
    }
    near.0.flush();
    let memory = target.deregister().await?;
    println!("deregistered: {:?}", memory.map(|memory| memory.len()));
    Ok(())
}
