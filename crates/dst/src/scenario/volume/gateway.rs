//! A machine that is a client of the volume, and serves it by NFS to clients without the volume's protocol.

use super::Stage;
use crate::scenario::server::{self, CLIENT_NAME};
use gannet_fabric::Provider;
use gannet_nfs::client::{Client, Error, NfsFs};
use gannet_rpc::RdmaOptions;
use gannet_sim::Node;
use gannet_vfs::FileHandle;
use gannet_volume::client::Siblings;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The cores that share its connections: any of them may serve a client.
const CORES: u16 = 2;
/// The pause between two attempts to mount its export.
const PATIENCE: Duration = Duration::from_millis(300);

/// The machine of an NFS server over the volume; a crash ends its process, and the machine stays.
pub(super) struct Gateway {
    pub(super) node: Node,
    /// Its clients connect by RDMA, not by TCP.
    pub(super) rdma: bool,
}

impl Gateway {
    /// Starts its process, which must not run.
    pub(super) fn start(&self, stage: &Stage) {
        let siblings = Siblings::new(self.node.runtime().random());
        let stores = (0..CORES).map(|_| {
            let store = stage.bed.mount_with(&self.node, Arc::clone(&siblings));
            store.with_policy(stage.plan.policy())
        });
        let provider = || {
            let provider = self.provider(stage, &self.node)?;
            Some((provider, RdmaOptions::default()))
        };
        server::serve(&self.node, stores, provider);
    }

    fn provider(&self, stage: &Stage, node: &Node) -> Option<Rc<dyn Provider>> {
        self.rdma.then(|| stage.bed.provider(node))
    }

    /// Mounts its export on `client`, with as many attempts as that takes; returns the store and its root directory.
    pub(super) async fn mount(&self, stage: &Stage, client: &Node) -> (NfsFs, FileHandle) {
        loop {
            match self.try_mount(stage, client).await {
                Ok(mounted) => return mounted,
                Err(_) => stage.faults.sleep(PATIENCE).await,
            }
        }
    }

    async fn try_mount(&self, stage: &Stage, client: &Node) -> Result<(NfsFs, FileHandle), Error> {
        let runtime = client.runtime();
        let core = (runtime.random() % u64::from(CORES)) as u16;
        let target = server::target(&self.node, core, self.provider(stage, client));
        let rpc = gannet_rpc::Client::new(Rc::clone(&runtime), target, server::calling(0, 0));
        let calls = Client::new(runtime, rpc).forgiving_echoes();
        let root = calls.mount(b"/").await?;
        let fs = NfsFs::open(calls, root, String::from(CLIENT_NAME)).await?;
        Ok((fs.for_front_end().await?, root))
    }
}
