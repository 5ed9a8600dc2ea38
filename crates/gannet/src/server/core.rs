//! One core of a server: a service over its own fronts of the stores, the transports, and their end.

use super::fabric::{CoreFabric, FabricListener};
use super::numbers::{CoreNumbers, Published};
#[cfg(feature = "volumes")]
use super::stores::VolumeStores;
use super::stores::{OpenStores, Stores};
use super::{Content, DRAIN_MAX, Shared, pressure};
use gannet_fabric::{Domain, RegionStats};
use gannet_nfs::server::Server as NfsServer;
use gannet_rpc::Server as RpcServer;
use gannet_runtime::{Handle, timeout};
use gannet_vfs::Vfs;
use std::io;
use std::ops::Add;
use std::rc::Rc;
use std::sync::Arc;

type Rpc<V> = RpcServer<NfsServer<V>>;

/// Serves the connections of core `index` until the server stops and they are drained.
pub(super) async fn serve(index: usize, runtime: Handle, shared: Arc<Shared>) {
    let Some(numbers) = shared.cores.get(index).map(Arc::clone) else {
        return;
    };
    shared.pools.add(&runtime);
    match &shared.parts.content {
        Content::Directories(_) => {
            let stores = Stores::new(&runtime);
            serve_stores(index, &runtime, &shared, numbers, stores).await;
        }
        #[cfg(feature = "volumes")]
        Content::Volume(_, client) => {
            let stores = VolumeStores::new(&runtime, client);
            serve_stores(index, &runtime, &shared, numbers, stores).await;
        }
        Content::Nothing => {
            let answering = numbers.answer(Published::default, |_| {});
            runtime.spawn("publish numbers", Box::pin(answering));
            // An error means that the sender was dropped, which ends the server as well.
            let _ = shared.stop.clone().wait_for(|stop| *stop).await;
        }
    }
}

async fn serve_stores<V: Vfs>(
    index: usize,
    runtime: &Handle,
    shared: &Arc<Shared>,
    numbers: Arc<CoreNumbers>,
    stores: impl OpenStores<V> + 'static,
) {
    let Some((rpc, service)) = rpc_server(runtime, shared, &numbers, &stores) else {
        return;
    };
    let stores = Rc::new(stores);
    rpc.limit_connections(shared.parts.connections);
    let mut stop = shared.stop.clone();
    if index == 0 {
        distribute(runtime, shared);
    }
    if let Some(listener) = &shared.parts.tcp {
        let (rpc, listener) = (rpc.clone(), listener.for_core(index));
        runtime.spawn(
            "nfs over tcp",
            Box::pin(async move {
                if let Err(error) = rpc.serve_tcp(listener).await {
                    tracing::error!(%error, "NFS over TCP ended");
                }
            }),
        );
    }
    let domains = match &shared.parts.rdma {
        Some(listener) => serve_rdma(index, runtime, &rpc, listener, shared),
        None => Vec::new(),
    };
    let reclaim = {
        let rpc = rpc.clone();
        move || rpc.reclaim()
    };
    let (pressure, stopping) = (shared.pressure.clone(), stop.clone());
    let reclaiming = pressure::reclaim_when_short(pressure, stopping, reclaim);
    runtime.spawn("reclaim when memory is short", Box::pin(reclaiming));
    let read = {
        let (rpc, stores) = (rpc.clone(), Rc::clone(&stores));
        move || read(index, &rpc, &domains, &*stores)
    };
    let change = move |content: &Content| change_exports(&service, &*stores, content);
    let answering = Arc::clone(&numbers).answer(read.clone(), change);
    runtime.spawn("publish numbers", Box::pin(answering));
    // An error means that the sender was dropped, which ends the server as well.
    let _ = stop.wait_for(|stop| *stop).await;
    rpc.stop();
    if timeout(runtime, DRAIN_MAX, rpc.drained()).await.is_err() {
        tracing::warn!(
            core = index,
            "some connections did not drain in time: aborting them"
        );
    }
    numbers.publish(read());
}

/// Has a core serve other exports. Their settings were checked before.
fn change_exports<V: Vfs>(service: &NfsServer<V>, stores: &impl OpenStores<V>, content: &Content) {
    let Some(opened) = stores.open(content) else {
        return;
    };
    if let Err(error) = service.change_exports(opened) {
        tracing::error!(%error, "a core keeps the exports that it had");
    }
}

/// The numbers that core `index` keeps in cells.
fn read<V: Vfs>(
    index: usize,
    rpc: &Rpc<V>,
    domains: &[Rc<dyn Domain>],
    stores: &impl OpenStores<V>,
) -> Published {
    let registrations = rpc.registrations().into_iter();
    let regions = domains.iter().map(|domain| domain.stats());
    Published {
        registrations: registrations.sum(),
        regions: regions.fold(RegionStats::default(), Add::add),
        memory: rpc.memory_in_use(),
        memory_kept: rpc.memory_kept(),
        // The other cores go the same way, and a connection of each would be many.
        manager_silent_for: (index == 0).then(|| stores.manager_silent_for()).flatten(),
        #[cfg(feature = "volumes")]
        volume: stores.volume_counters(),
    }
}

/// The services of this core. Their settings were checked before the cores started.
fn rpc_server<V: Vfs>(
    runtime: &Handle,
    shared: &Shared,
    numbers: &CoreNumbers,
    stores: &impl OpenStores<V>,
) -> Option<(Rpc<V>, Rc<NfsServer<V>>)> {
    let opened = stores.open(&shared.parts.content)?.into_iter();
    // At the start no store was opened before.
    let opened = opened.filter_map(|(export, store)| Some((export, store?)));
    let service = NfsServer::new(opened);
    let service = service.map(|it| it.on_core(Rc::clone(runtime), Arc::clone(&shared.mounts)));
    let service = service.map(|it| it.counting_in(Arc::clone(&numbers.operations)));
    let service = service.map(|it| it.noting_slow(Arc::clone(&shared.parts.slow)));
    let service = service.map(|it| match &shared.parts.user_groups {
        Some(source) => it.with_user_groups(Rc::clone(runtime), Arc::clone(source)),
        None => it,
    });
    let service = service.map(|it| match &shared.parts.audit {
        Some(audit) => it.audited_by(Arc::clone(audit), Rc::clone(runtime)),
        None => it,
    });
    match service {
        Ok(service) => {
            let service = Rc::new(service);
            let rpc = RpcServer::within(
                shared.parts.budget.clone(),
                Rc::clone(runtime),
                Rc::clone(&service),
                Arc::clone(&shared.cache),
                Arc::clone(&numbers.rpc),
            );
            Some((rpc, service))
        }
        Err(error) => {
            tracing::error!(%error, "cannot serve these exports");
            None
        }
    }
}

/// Serves RDMA connections of this core. Returns the domains of their memory.
fn serve_rdma<V: Vfs>(
    index: usize,
    runtime: &Handle,
    rpc: &Rpc<V>,
    listener: &FabricListener,
    shared: &Shared,
) -> Vec<Rc<dyn Domain>> {
    let options = shared.parts.rdma_options;
    let admitting = |streams| rpc.admitting(streams);
    let fabrics = match listener.for_core(index, runtime, admitting) {
        Ok(fabrics) => fabrics,
        Err(error) => {
            tracing::error!(%error, "a core serves no NFS over RDMA");
            return Vec::new();
        }
    };
    let serve = |CoreFabric { provider, listener }: CoreFabric| {
        let (rpc, domain) = (rpc.clone(), provider.domain());
        runtime.spawn(
            "nfs over rdma",
            Box::pin(async move {
                if let Err(error) = rpc.serve_rdma(provider, options, listener).await {
                    tracing::error!(%error, "NFS over RDMA ended");
                }
            }),
        );
        domain
    };
    fabrics.into_iter().map(serve).collect()
}

/// Hands connections to the cores in turn, until the server stops.
fn distribute(runtime: &Handle, shared: &Arc<Shared>) {
    let (tcp, rdma) = (Arc::clone(shared), Arc::clone(shared));
    spawn_distributor(runtime, shared, async move {
        match &tcp.parts.tcp {
            Some(listener) => listener.distribute().await,
            None => Ok(()),
        }
    });
    let clock = Handle::clone(runtime);
    spawn_distributor(runtime, shared, async move {
        match &rdma.parts.rdma {
            Some(listener) => listener.distribute(&clock).await,
            None => Ok(()),
        }
    });
}

fn spawn_distributor(
    runtime: &Handle,
    shared: &Arc<Shared>,
    accepting: impl Future<Output = io::Result<()>> + 'static,
) {
    let mut stop = shared.stop.clone();
    runtime.spawn(
        "accept",
        Box::pin(async move {
            tokio::select! {
                Err(error) = accepting => tracing::error!(%error, "accepting ended"),
                _ = stop.wait_for(|stop| *stop) => {}
            }
        }),
    );
}
