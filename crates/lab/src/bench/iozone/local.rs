//! A server of this process, on loopback, over a scratch directory.

use super::stopwatch::{Deliveries, TimedRuntime, Totals};
use super::threads::Spent;
use super::timed::{StoreClocks, Timed};
use gannet::url::{Scheme, Url};
use gannet_cli::failure::{Explain, Failure};
use gannet_cli::scratch::Scratch;
use gannet_fabric::Provider;
use gannet_iwarp::{IwarpConfig, IwarpProvider};
use gannet_localfs::{LocalOptions, LocalStore, LocalTree};
use gannet_nfs::server::{Export, Server as NfsServer, Squash};
use gannet_rpc::{CacheLimits, Counters, RdmaOptions, ReplyCache, Server as RpcServer};
use gannet_runtime::tokio_plug::{Cores, SharedListener, available_cores};
use gannet_runtime::{Handle, timeout};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::Duration;
use tokio::sync::watch;

/// How long a core may take to say what it did.
const ANSWER_MAX: Duration = Duration::from_secs(5);
/// How long connections may take to end.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// Serves until dropped; the scratch directory goes with it.
pub(super) struct LocalServer {
    url: Url,
    shared: Arc<Shared>,
    /// Asks the cores what they did: each new number is a question.
    questions: watch::Sender<u64>,
    answers: Mutex<mpsc::Receiver<Spent>>,
    stop: watch::Sender<bool>,
    cores: Option<Cores>,
    cores_count: usize,
    _scratch: Scratch,
}

/// The state that all cores share.
struct Shared {
    scheme: Scheme,
    rdma: RdmaOptions,
    tree: Arc<LocalTree>,
    listener: SharedListener,
    cache: Arc<ReplyCache>,
    counters: Arc<Counters>,
    store: Arc<StoreClocks>,
    totals: Arc<Totals>,
    deliveries: Deliveries,
}

/// One core's ends of the channels.
#[derive(Clone)]
struct Wires {
    questions: watch::Receiver<u64>,
    answers: mpsc::Sender<Spent>,
    stop: watch::Receiver<bool>,
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
        deliveries: &Deliveries,
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
            counters: Arc::default(),
            store: Arc::default(),
            totals: Arc::default(),
            deliveries: deliveries.clone(),
        });
        let address = shared.listener.local_address();
        let url = Url::parse(&format!("{}://{address}/", scheme.name())).explain(what)?;
        let (questions, questioned) = watch::channel(0);
        let (answer, answers) = mpsc::channel();
        let (stop, stopped) = watch::channel(false);
        let wires = Mutex::new(Wires {
            questions: questioned,
            answers: answer,
            stop: stopped,
        });
        let for_cores = Arc::clone(&shared);
        let cores = Cores::start(cores_count, move |index, runtime| {
            let wires = wires.lock().unwrap_or_else(PoisonError::into_inner).clone();
            serve(index, runtime, Arc::clone(&for_cores), wires)
        });
        Ok(LocalServer {
            url,
            shared,
            questions,
            answers: Mutex::new(answers),
            stop,
            cores: Some(cores.explain(what)?),
            cores_count,
            _scratch: scratch,
        })
    }

    /// Its root.
    pub(super) fn url(&self) -> &Url {
        &self.url
    }

    /// The time that its cores have spent, summed up; `None` when one of them does not answer.
    pub(super) fn spent(&self) -> Option<Spent> {
        let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        self.questions.send_modify(|number| *number += 1);
        let mut sum = Spent {
            file_system: self.shared.store.whole.get(),
            file_system_work: self.shared.store.work.get(),
            queueing: Duration::from_nanos(self.shared.counters.starved_ns.total()),
            ..Spent::default()
        }
        .and_totals(&self.shared.totals);
        for _ in 0..self.cores_count {
            sum = sum.plus(answers.recv_timeout(ANSWER_MAX).ok()?);
        }
        Some(sum)
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
async fn serve(index: usize, runtime: Handle, shared: Arc<Shared>, mut wires: Wires) {
    let core = TimedRuntime::new(&runtime, &shared.totals, &shared.deliveries);
    let runtime: Handle = Rc::clone(&core) as Handle;
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
    let (serving, streams) = (rpc.clone(), core.listening(shared.listener.for_core(index)));
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
    loop {
        tokio::select! {
            asked = wires.questions.changed() => {
                let answered = wires.answers.send(spent(&rpc));
                if asked.is_err() || answered.is_err() {
                    break;
                }
            }
            // An error means that the sender was dropped, which ends the core as well.
            _ = wires.stop.wait_for(|stop| *stop) => break,
        }
    }
    rpc.stop();
    if timeout(&runtime, DRAIN_MAX, rpc.drained()).await.is_err() {
        tracing::warn!(
            core = index,
            "some connections did not end in time and are cut"
        );
    }
}

type Rpc = RpcServer<NfsServer<Timed<LocalStore>>>;

fn rpc_server(runtime: &Handle, shared: &Shared) -> Result<Rpc, Failure> {
    let what = || String::from("cannot serve on loopback");
    let store = LocalStore::new(Arc::clone(&shared.tree), Rc::clone(runtime));
    let store = Timed::new(store, Arc::clone(&shared.store));
    let mut export = Export::new("/").explain(what)?;
    export.rules.squash = Squash::None;
    let service = NfsServer::new([(export, store)]).explain(what)?;
    Ok(RpcServer::new(
        Rc::clone(runtime),
        Rc::new(service),
        Arc::clone(&shared.cache),
        Arc::clone(&shared.counters),
    ))
}

/// The time that this core's strategies have spent.
fn spent(rpc: &Rpc) -> Spent {
    let each = |counters| Spent::of(counters, Duration::ZERO);
    rpc.registrations()
        .iter()
        .map(each)
        .fold(Spent::default(), Spent::plus)
}
