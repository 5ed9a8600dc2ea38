//! The process that administrators ask about.

use crate::server::{Health, Reading, Tally};
use gannet_metrics::{Registry, SlowOperations};
use serde_json::{Map, Value, json};
use std::net::SocketAddr;
use std::pin::Pin;

/// A process that counts, and knows whether it works: a server, or a mount.
pub trait Subject: Send + Sync {
    /// The sources of its numbers.
    fn registry(&self) -> &Registry;

    /// Reads everything that is counted, and tells what is wrong. Waits a second at most.
    fn read(&self) -> Pin<Box<dyn Future<Output = Reading> + '_>>;

    /// Its operations that took long.
    fn slow(&self) -> &SlowOperations;

    /// Its own fields in `/status.json`.
    fn status(&self) -> Map<String, Value>;
}

impl Subject for Tally {
    fn registry(&self) -> &Registry {
        Tally::registry(self)
    }

    fn read(&self) -> Pin<Box<dyn Future<Output = Reading> + '_>> {
        Box::pin(Tally::read(self))
    }

    fn slow(&self) -> &SlowOperations {
        Tally::slow(self)
    }

    fn status(&self) -> Map<String, Value> {
        let address = |address: Option<SocketAddr>| json!(address.map(|it| it.to_string()));
        let fields = [
            ("cores", json!(self.cores())),
            ("nfs_tcp", address(self.tcp_address())),
            ("nfs_rdma", address(self.rdma_address())),
        ];
        let fields = fields.map(|(name, value)| (name.to_owned(), value));
        Map::from_iter(fields)
    }
}

/// `/health` while it is `health`: whether it is ready, and the answer.
pub(super) fn state(health: &Health) -> (bool, Value) {
    let answer = match health {
        Health::Ready => json!({ "state": "ready" }),
        Health::Stopping => json!({
            "state": "stopping",
            "why": "the server was told to stop, and answers the calls under way",
        }),
        Health::Stuck(cores) => json!({
            "state": "stuck",
            "why": format!("cores {cores:?} did not answer within a second: see the log for what they wait for"),
            "cores": cores,
        }),
        Health::Waiting(waiting) => json!({
            "state": "waiting",
            "why": format!(
                "no manager of the volume has answered for {} s, and calls wait: see the log of the managers, and the way to them",
                waiting.as_secs()
            ),
        }),
    };
    (*health == Health::Ready, answer)
}
