//! Two machines of a testbed, connected, and what is measured between them.
#![allow(dead_code, clippy::unwrap_used)] // each test uses a part

use gannet_fabric::{
    Access, Backing, Completion, ConnectOptions, Connected, Provider, Region, RemoteAddress, Scope,
    SendOptions, Signal, Source, Span, WorkId, next_completions,
};
use gannet_runtime::{Buffer, Handle};
use gannet_sim::World;
use gannet_sim::fabric::{FabricProfile, SimFabric};
use gannet_sim::nic::{Host, Profile};
use std::future::Future;
use std::net::SocketAddr;
use std::rc::Rc;

pub(crate) const PAGE: u64 = 4096;
pub(crate) const WORK: WorkId = WorkId(1000);

/// One end of a connection and what it runs on.
pub(crate) struct End {
    pub(crate) runtime: Handle,
    pub(crate) provider: Rc<dyn Provider>,
    pub(crate) endpoint: Connected,
    pub(crate) host: Rc<Host>,
}

impl End {
    pub(crate) fn now(&self) -> u64 {
        self.runtime.now().as_nanos()
    }

    pub(crate) fn register(&self, pages: u64, access: Access) -> Region {
        let buffer = Buffer::zeroed(usize::try_from(pages * PAGE).unwrap());
        let domain = self.provider.domain();
        domain
            .register_now(Backing::Buffer(buffer), access, Scope::Domain)
            .unwrap()
    }

    pub(crate) async fn completions(&self) -> Vec<Completion> {
        let mut completions = Vec::new();
        next_completions(&*self.endpoint, &mut completions)
            .await
            .unwrap();
        for completion in &completions {
            completion.outcome.as_ref().unwrap();
        }
        completions
    }

    pub(crate) fn send(&self, bytes: &[u8]) {
        let buffer = Buffer::from_vec(bytes.to_vec());
        let len = u32::try_from(bytes.len()).unwrap();
        let source = Source::Buffer { buffer, len };
        self.endpoint
            .post_send(WORK, source, SendOptions::default())
            .unwrap();
        self.endpoint.flush();
    }
}

pub(crate) fn address_of(region: &Region, offset: u64) -> RemoteAddress {
    RemoteAddress {
        key: region.remote_key(),
        offset: region.base() + offset,
    }
}

pub(crate) fn options() -> ConnectOptions {
    ConnectOptions {
        ord: 64,
        ird: 64,
        receives: (0..8).map(|_| Buffer::zeroed(64)).collect(),
        ..ConnectOptions::default()
    }
}

/// Runs `test` on two machines of `profile`, connected.
pub(crate) fn with_pair<T: 'static, F: Future<Output = T> + 'static>(
    profile: &Profile,
    test: impl FnOnce(End, End) -> F + 'static,
) -> T {
    let world = World::new(7);
    let fabric = SimFabric::new(&world, FabricProfile::default());
    let mut machines = ["near", "far"].map(|name| {
        let node = world.add_node(name);
        let host = Host::install(&node, profile);
        Some((node.runtime(), fabric.provider(&node), host, node))
    });
    let (near_runtime, near_provider, near_host, _) = machines[0].take().unwrap();
    let (far_runtime, far_provider, far_host, far) = machines[1].take().unwrap();
    let address = SocketAddr::new(far.ip(), 1);
    world
        .run(async move {
            let mut listener = far_provider.listen(address).unwrap();
            let accepting = async { listener.accept().await.unwrap().accept(options()).await };
            let connecting = near_provider.connect(address, options());
            let mut accepting = std::pin::pin!(accepting);
            let mut connecting = std::pin::pin!(connecting);
            let (mut near, mut far) = (None, None);
            std::future::poll_fn(|context| {
                if far.is_none()
                    && let std::task::Poll::Ready(made) = accepting.as_mut().poll(context)
                {
                    far = Some(made.unwrap());
                }
                if near.is_none()
                    && let std::task::Poll::Ready(made) = connecting.as_mut().poll(context)
                {
                    near = Some(made.unwrap());
                }
                if near.is_some() && far.is_some() {
                    std::task::Poll::Ready(())
                } else {
                    std::task::Poll::Pending
                }
            })
            .await;
            let end = |runtime, provider, endpoint: Option<Connected>, host| End {
                runtime,
                provider,
                endpoint: endpoint.unwrap(),
                host,
            };
            let near = end(near_runtime, near_provider, near, near_host);
            let far = end(far_runtime, far_provider, far, far_host);
            test(near, far).await
        })
        .unwrap()
}

/// Nanoseconds of half a ping-pong of 4 bytes.
pub(crate) fn half_ping_pong(profile: &Profile) -> u64 {
    const ROUNDS: u64 = 100;
    with_pair(profile, |near, far| async move {
        let (runtime, starts) = (far.runtime.clone(), near.now());
        let answering = async move {
            for _ in 0..ROUNDS {
                let received = far.completions().await;
                assert_eq!(received.len(), 1);
                let buffer = received.into_iter().next().unwrap().buffer.unwrap();
                far.endpoint.post_receive(WORK, buffer).unwrap();
                far.send(b"pong");
            }
            // Letting go of the endpoint would break the connection before the last one left.
            std::future::pending::<()>().await;
        };
        runtime.spawn("answering", Box::pin(answering));
        for _ in 0..ROUNDS {
            near.send(b"ping");
            let received = near.completions().await;
            let buffer = received.into_iter().next().unwrap().buffer.unwrap();
            near.endpoint.post_receive(WORK, buffer).unwrap();
        }
        (near.now() - starts) / (2 * ROUNDS)
    })
}

/// Megabytes per second of `count` RDMA Writes of `len` bytes each, `depth` of them outstanding.
pub(crate) fn write_rate(profile: &Profile, len: u32, count: u32, depth: u32) -> f64 {
    with_pair(profile, move |near, far| async move {
        let source = near.register(u64::from(len) / PAGE, Access::Local);
        let target = far.register(u64::from(len) / PAGE, Access::RemoteWrite);
        let starts = near.now();
        let (mut posted, mut done) = (0, 0);
        while done < count {
            while posted < count && posted - done < depth {
                let source = Source::Span(Span::whole(&source).unwrap());
                let to = address_of(&target, 0);
                near.endpoint
                    .post_write(WORK, source, to, Signal::Always)
                    .unwrap();
                posted += 1;
            }
            near.endpoint.flush();
            done += u32::try_from(near.completions().await.len()).unwrap();
        }
        f64::from(len) * f64::from(count) * 1e3 / (near.now() - starts) as f64
    })
}

/// Megabytes per second of RDMA Reads of `len` bytes, as many outstanding as the adapter allows.
pub(crate) fn read_rate(profile: &Profile, len: u32) -> f64 {
    const COUNT: usize = 400;
    with_pair(profile, move |near, far| async move {
        let sink = near.register(16, Access::Local);
        let source = far.register(16, Access::RemoteRead);
        let starts = near.now();
        let (mut posted, mut done) = (0, 0);
        while done < COUNT {
            while posted < COUNT && posted - done < 64 {
                let sink = Span {
                    region: sink.clone(),
                    offset: 0,
                    len,
                };
                near.endpoint
                    .post_read(WORK, sink, address_of(&source, 0))
                    .unwrap();
                posted += 1;
            }
            near.endpoint.flush();
            done += near.completions().await.len();
        }
        COUNT as f64 * f64::from(len) * 1e3 / (near.now() - starts) as f64
    })
}
