//! Shared parts of the tests: a server on loopback, a client, a simulated disk below the server.
#![allow(dead_code, clippy::unwrap_used)] // every test program uses its own part

use gannet_fabric::Provider;
use gannet_fabric::registration::Registration;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_nfs::client::{Client, Error, NfsFs};
use gannet_nfs::server::{Export, Server};
use gannet_rpc::{
    CacheLimits, CallerCredential, ClientConfig, Counters, Persistence, ReplyCache, Service,
    Target, Transport,
};
use gannet_runtime::Handle;
use gannet_sim::World;
use gannet_sim::store::{Disk, SimStore};
use gannet_vfs::{Credentials, Status, Vfs};
use gannet_wire::rpc::Groups;
use std::cell::Cell;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

thread_local! {
    /// The transport of the running test.
    static TRANSPORT: Cell<Transport> = const { Cell::new(Transport::Tcp) };
}

/// Runs a test twice, over TCP and over RDMA, each on a runtime of its own and for a minute at most.
pub(crate) fn run<F: Future<Output = ()>>(test: impl Fn(Handle) -> F) {
    for transport in [Transport::Tcp, Transport::Rdma] {
        println!("over {transport:?}");
        TRANSPORT.set(transport);
        run_once(&test);
    }
}

/// Has clients of this thread use a transport.
pub(crate) fn use_transport(transport: Transport) {
    TRANSPORT.set(transport);
}

/// Runs a test on a runtime of its own, for a minute at most.
pub(crate) fn run_once<F: Future<Output = ()>>(test: impl FnOnce(Handle) -> F) {
    gannet_runtime::tokio_plug::block_on(|runtime| async move {
        let limited =
            gannet_runtime::timeout(&runtime, Duration::from_secs(60), test(runtime.clone()));
        limited.await.expect("the test hangs");
    })
    .unwrap();
}

/// A server that answers NFS and MOUNT on loopback.
pub(crate) struct Running<S: Service> {
    pub(crate) counters: Arc<Counters>,
    pub(crate) addresses: Addresses,
    rpc: gannet_rpc::Server<S>,
    provider: Rc<dyn Provider>,
}

/// Where a server listens, over TCP and over RDMA.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    tcp: SocketAddr,
    rdma: SocketAddr,
}

impl<V: Vfs> Running<Server<V>> {
    pub(crate) fn start(runtime: &Handle, exports: Vec<(Export, V)>) -> Running<Server<V>> {
        Running::start_at(runtime, exports, Addresses::any())
    }

    pub(crate) fn start_at(
        runtime: &Handle,
        exports: Vec<(Export, V)>,
        addresses: Addresses,
    ) -> Running<Server<V>> {
        Running::serve(runtime, Server::new(exports).unwrap(), addresses)
    }
}

impl<S: Service> Running<S> {
    pub(crate) fn serve(runtime: &Handle, service: S, addresses: Addresses) -> Running<S> {
        Running::share(runtime, Rc::new(service), addresses)
    }

    /// As [`Running::serve`], of a service that the test looks at.
    pub(crate) fn share(runtime: &Handle, service: Rc<S>, addresses: Addresses) -> Running<S> {
        Running::share_by(runtime, service, addresses, IwarpConfig::default())
    }

    /// The same, with a software RNIC of these settings.
    pub(crate) fn share_by(
        runtime: &Handle,
        service: Rc<S>,
        addresses: Addresses,
        iwarp: IwarpConfig,
    ) -> Running<S> {
        let cache = Arc::new(ReplyCache::new(CacheLimits::default()));
        let counters = Arc::<Counters>::default();
        let rpc = gannet_rpc::Server::new(runtime.clone(), service, cache, Arc::clone(&counters));
        let listener = runtime.listen(addresses.tcp).unwrap();
        let tcp = listener.local_address();
        let serving = rpc.clone();
        let task = async move { serving.serve_tcp(listener).await.unwrap() };
        runtime.spawn("tcp server", Box::pin(task));

        let provider: Rc<dyn Provider> = IwarpProvider::new(runtime.clone(), iwarp);
        let listener = provider.listen(addresses.rdma).unwrap();
        let rdma = listener.local_address();
        let (serving, served_by) = (rpc.clone(), Rc::clone(&provider));
        let task = async move {
            serving
                .serve_rdma(served_by, Registration::default(), listener)
                .await
                .unwrap()
        };
        runtime.spawn("rdma server", Box::pin(task));
        Running {
            addresses: Addresses { tcp, rdma },
            counters,
            rpc,
            provider,
        }
    }

    /// Where the running test's clients connect to.
    pub(crate) fn target(&self) -> Target {
        self.target_over(TRANSPORT.get())
    }

    fn target_over(&self, transport: Transport) -> Target {
        match transport {
            Transport::Tcp => Target::Tcp(self.addresses.tcp),
            Transport::Rdma => Target::Rdma(Rc::clone(&self.provider), self.addresses.rdma),
        }
    }

    /// Ends the server and waits for its connections to end.
    pub(crate) async fn stop(self) {
        self.rpc.stop();
        self.rpc.drained().await;
    }

    pub(crate) fn client(&self, runtime: &Handle, credential: CallerCredential) -> Client {
        self.client_over(TRANSPORT.get(), runtime, credential)
    }

    /// A client that connects over this transport.
    pub(crate) fn client_over(
        &self,
        transport: Transport,
        runtime: &Handle,
        credential: CallerCredential,
    ) -> Client {
        let config = ClientConfig {
            credential,
            persistence: Persistence::Soft { attempts: 10 },
            backoff_min: Duration::from_millis(10),
            ..ClientConfig::default()
        };
        let rpc = gannet_rpc::Client::new(runtime.clone(), self.target_over(transport), config);
        Client::new(runtime.clone(), rpc)
    }

    pub(crate) async fn mount(&self, runtime: &Handle) -> Files {
        let client = self.client(runtime, user(1000, &[1000]));
        mount(runtime, client, 1000, &[1000], b"/").await.unwrap()
    }
}

/// A mounted export.
pub(crate) type Files = gannet_client::Files<NfsFs>;

/// Mounts `path`, for a user with groups.
pub(crate) async fn mount(
    runtime: &Handle,
    client: Client,
    uid: u32,
    groups: &[u32],
    path: &[u8],
) -> Result<Files, Error> {
    let root = client.mount(path).await?;
    let export = NfsFs::open(client, root, "test".to_owned()).await?;
    let gid = groups.first().copied().unwrap_or(uid);
    let caller = Credentials::new(uid, gid, groups);
    Ok(Files::new(runtime.clone(), export, caller))
}

/// The procedures that something is reached by.
pub(crate) trait Calls {
    /// See the trait.
    fn client(&self) -> &Client;
}

impl Calls for Files {
    fn client(&self) -> &Client {
        self.objects().file_system().client()
    }
}

/// Why something failed, if by a status.
pub(crate) trait Refused: Debug {
    /// See the trait.
    fn status(&self) -> Option<Status>;
}

impl Refused for Error {
    fn status(&self) -> Option<Status> {
        self.status()
    }
}

impl Refused for gannet_client::Error {
    fn status(&self) -> Option<Status> {
        match self {
            gannet_client::Error::Status(status) => Some(*status),
            _ => None,
        }
    }
}

pub(crate) fn user(uid: u32, groups: &[u32]) -> CallerCredential {
    CallerCredential::Sys {
        machine_name: "test".to_owned(),
        uid,
        gid: groups.first().copied().unwrap_or(uid),
        groups: Groups::new(groups),
    }
}

pub(crate) fn export(path: &str) -> Export {
    Export::new(path).unwrap()
}

impl Addresses {
    /// The well-known ports of a machine.
    pub(crate) fn of(ip: IpAddr) -> Addresses {
        Addresses {
            tcp: SocketAddr::new(ip, 2049),
            rdma: SocketAddr::new(ip, 20049),
        }
    }

    /// Free ports.
    pub(crate) fn any() -> Addresses {
        let any = "127.0.0.1:0".parse().unwrap();
        Addresses {
            tcp: any,
            rdma: any,
        }
    }
}

/// An empty disk, which answers at once and without errors until its profile is set.
pub(crate) fn disk() -> Rc<Disk> {
    Disk::new(&World::new(7))
}

/// A store of its own: one incarnation of a server over an empty disk.
pub(crate) fn store(runtime: &Handle) -> SimStore {
    SimStore::open(&disk(), runtime.clone())
}

/// One writable export "/" of an empty disk, mounted by user 1000.
pub(crate) async fn served(runtime: &Handle) -> (Running<Server<SimStore>>, Rc<Disk>, Files) {
    let disk = disk();
    let store = SimStore::open(&disk, runtime.clone());
    let running = Running::start(runtime, vec![(export("/"), store)]);
    let files = running.mount(runtime).await;
    (running, disk, files)
}

/// The status an operation was refused with.
pub(crate) fn status<T: Debug, E: Refused>(result: Result<T, E>) -> Status {
    result.unwrap_err().status().unwrap()
}
