//! A server of this process, on loopback, over a scratch directory.

use gannet::url::{Scheme, Url};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::scratch::Scratch;
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
use gannet_metrics::SlowOperations;
use gannet_nfs::server::{Export, Operations, Server as NfsServer, Squash};
use gannet_rpc::{CacheLimits, RdmaOptions, ReplyCache, Server as RpcServer};
use gannet_runtime::stages::Parts;
use gannet_runtime::tokio_plug::{Cores, SharedListener, available_cores};
use gannet_runtime::{Handle, timeout};
use gannet_wire::nfs3::NfsProcedure;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long connections may take to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Serves until dropped; the scratch directory goes with it.
pub(super) struct LocalServer {
    url: Url,
    shared: Arc<Shared>,
    stop: watch::Sender<bool>,
    cores: Option<Cores>,
    _scratch: Scratch,
}

/// The state that all cores share.
struct Shared {
    scheme: Scheme,
    rdma: RdmaOptions,
    tree: Arc<LocalTree>,
    listener: SharedListener,
    cache: Arc<ReplyCache>,
    operations: Arc<Operations>,
    slow: Arc<SlowOperations>,
}

impl LocalServer {
    /// Serves a new scratch directory on a free port of loopback, on all cores.
    ///
    /// # Errors
    /// The directory, the socket or a thread cannot be had.
    pub(super) fn start(
        scheme: Scheme,
        rdma: RdmaOptions,
        above: Option<&Path>,
    ) -> Result<LocalServer, Failure> {
        let what = || String::from("cannot serve on loopback");
        let scratch = Scratch::make("iozone", above)?;
        let (share, state) = (scratch.path().join("share"), scratch.path().join("state"));
        std::fs::create_dir(&share).explain(what)?;
        let local = LocalOptions {
            state_dir: Some(state),
            ..LocalOptions::default()
        };
        let cores_count = available_cores();
        let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
        let shared = Arc::new(Shared {
            scheme,
            rdma,
            tree: LocalTree::open(&share, &local).explain(what)?,
            listener: SharedListener::bind(loopback, cores_count).explain(what)?,
            cache: Arc::new(ReplyCache::new(CacheLimits::default())),
            operations: Arc::default(),
            slow: Arc::new(SlowOperations::parts_alone()),
        });
        let address = shared.listener.local_address();
        let url = Url::parse(&format!("{}://{address}/", scheme.name())).explain(what)?;
        let (stop, stopped) = watch::channel(false);
        let for_cores = Arc::clone(&shared);
        let cores = Cores::start(cores_count, move |index, runtime| {
            serve(index, runtime, Arc::clone(&for_cores), stopped.clone())
        });
        Ok(LocalServer {
            url,
            shared,
            stop,
            cores: Some(cores.explain(what)?),
            _scratch: scratch,
        })
    }

    /// Its root.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// Where the time of all its READs and WRITEs so far went.
    pub(super) fn parts(&self) -> Parts {
        let operations = &self.shared.operations;
        let mut parts = operations.parts(NfsProcedure::Read);
        parts.add_all(&operations.parts(NfsProcedure::Write));
        parts
    }
}

impl Drop for LocalServer {
    fn drop(&mut self) {
        // An error means that all cores have ended by themselves.
        let _ = self.stop.send(true);
        if let Some(Err(error)) = self.cores.take().map(Cores::join) {
            tracing::warn!(%error, "the server did not end well");
        }
    }
}

/// Serves the connections of core `index` until the server stops and they are drained.
async fn serve(
    index: usize,
    runtime: Handle,
    shared: Arc<Shared>,
    mut stop: watch::Receiver<bool>,
) {
    let rpc = match rpc_server(&runtime, &shared) {
        Ok(rpc) => rpc,
        Err(failure) => return tracing::error!(%failure, "cannot serve"),
    };
    if index == 0 {
        let shared = Arc::clone(&shared);
        let accept = async move {
            if let Err(error) = shared.listener.distribute().await {
                tracing::error!(%error, "accepting ended");
            }
        };
        runtime.spawn("accept", Box::pin(accept));
    }
    let (serving, streams) = (rpc.clone(), shared.listener.for_core(index));
    let provider = IwarpProvider::new(Rc::clone(&runtime), IwarpConfig::default());
    let serving = async move {
        let served = match shared.scheme {
            Scheme::Tcp => serving.serve_tcp(streams).await,
            Scheme::Rdma | Scheme::Native => {
                let listener = Box::new(provider.listen_on(streams));
                let provider = provider as Rc<dyn Provider>;
                serving.serve_rdma(provider, shared.rdma, listener).await
            }
        };
        if let Err(error) = served {
            tracing::error!(%error, "serving ended");
        }
    };
    runtime.spawn("serve", Box::pin(serving));
    // An error means that the sender was dropped, which ends the core as well.
    let _ = stop.wait_for(|stop| *stop).await;
    rpc.stop();
    if timeout(&runtime, DRAIN_MAX, rpc.drained()).await.is_err() {
        tracing::warn!(
            core = index,
            "some connections did not end in time and are cut"
        );
    }
}

type Rpc = RpcServer<NfsServer<LocalStore>>;

fn rpc_server(runtime: &Handle, shared: &Shared) -> Result<Rpc, Failure> {
    let what = || String::from("cannot serve on loopback");
    let store = LocalStore::new(Arc::clone(&shared.tree), Rc::clone(runtime));
    let mut export = Export::new("/").explain(what)?;
    export.rules.squash = Squash::None;
    let service = NfsServer::new([(export, store)]).explain(what)?;
    let service = service.counting_in(Arc::clone(&shared.operations));
    let service = service.noting_slow(Arc::clone(&shared.slow));
    Ok(RpcServer::new(
        Rc::clone(runtime),
        Rc::new(service),
        Arc::clone(&shared.cache),
        Arc::default(),
    ))
}
