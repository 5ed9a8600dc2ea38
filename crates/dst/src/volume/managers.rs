//! Several managers of a volume over one engine, each on a machine of its own.

use super::engine::ATTEMPTS;
use super::{Bed, EngineWay, ManagerEnd, address};
use gannet_meta::{
    EngineMemory, EngineState, JournaledStore, ManagerName, MemoryStore, MetaStore, RequestFate,
    RowWatch, Sight, Standby,
};
use gannet_runtime::{Instant, sleep};
use gannet_sim::{Crash, Faults, Node, World};
use gannet_wire::volume::Address;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How often a manager that stands by looks at the row.
const FOLLOW_EVERY: Duration = Duration::from_millis(250);
/// The pause before a manager that has ended starts again, as under a service manager.
const RESTART_PAUSE: Duration = Duration::from_secs(1);

/// A machine for a manager. Its store lasts over crashes.
pub struct ManagerNode {
    /// The machine.
    pub node: Node,
    /// Its way to the engine.
    pub engine: EngineWay,
    base: Arc<MemoryStore>,
    process: Process,
}

/// The process of a manager, as its supervisor sees it.
#[derive(Clone, Default)]
struct Process {
    /// The names that it serves.
    store: Rc<RefCell<Option<Arc<JournaledStore>>>>,
    ended: ManagerEnd,
}

/// Managers that take over from each other.
pub struct Managers {
    bed: Rc<Bed>,
    faults: Faults,
    /// The machines.
    pub nodes: Vec<ManagerNode>,
    /// The engine lost changes: managers may find that, and end.
    is_undone: Cell<bool>,
}

impl Managers {
    /// `count` managers of the volume in `bed`, which has no other one and is not started. Of `loses` requests of each
    /// to the engine, one is lost, one late, one doubled, and the answer to another lost; 0: none.
    pub fn new(world: &World, bed: &Rc<Bed>, count: usize, loses: u64) -> Rc<Managers> {
        let engine = EngineMemory::new(|| RequestFate::Answered, ATTEMPTS);
        let nodes: Vec<ManagerNode> = (0..count as u64)
            .map(|number| ManagerNode {
                node: world.add_node("manager"),
                engine: EngineWay::new(&engine, loses, number << 32),
                base: Arc::new(bed.metadata.base.copy()),
                process: Process::default(),
            })
            .collect();
        let places = nodes.iter().map(|it| address(&it.node)).collect();
        bed.several.replace(places);
        Rc::new(Managers {
            bed: Rc::clone(bed),
            faults: world.faults(),
            nodes,
            is_undone: Cell::default(),
        })
    }

    /// Starts the I/O servers and all managers. `supervisor` starts a manager again that has ended.
    pub fn start(self: &Rc<Self>, supervisor: &Node) {
        (0..self.bed.io_servers.len()).for_each(|number| self.bed.start_io_server(number));
        for number in 0..self.nodes.len() {
            self.start_manager(number);
            let (managers, runtime) = (Rc::clone(self), supervisor.runtime());
            let supervising = async move {
                loop {
                    sleep(&runtime, FOLLOW_EVERY).await;
                    let process = &managers.nodes[number].process;
                    if process.ended.borrow().is_none() {
                        continue;
                    }
                    let store = process.store.take();
                    managers.kill(number);
                    // The process gives its row up, when it answers nobody any more.
                    store.inspect(|store| drop(store.release()));
                    sleep(&runtime, RESTART_PAUSE).await;
                    managers.start_manager(number);
                }
            };
            let runtime = supervisor.runtime();
            runtime.spawn("supervisor", Box::pin(supervising));
        }
    }

    /// Starts the process of a manager, which must not run.
    pub fn start_manager(self: &Rc<Self>, number: usize) {
        let managers = Rc::clone(self);
        let running = async move { managers.run(number).await };
        let runtime = self.nodes[number].node.runtime();
        runtime.spawn("manager's process", Box::pin(running));
    }

    /// Kills the process of a manager.
    pub fn kill(&self, number: usize) {
        let ManagerNode { node, process, .. } = &self.nodes[number];
        process.store.take();
        process.ended.take();
        self.faults.crash(node.id(), Crash::Process);
    }

    /// The content of the engine.
    pub fn engine_state(&self) -> EngineState {
        self.nodes[0].engine.engine.state().clone()
    }

    /// The engine has an older content again, as after a failover to a machine that lacked the rest.
    pub fn undo(&self, before: EngineState) {
        self.is_undone.set(true);
        *self.nodes[0].engine.engine.state() = before;
    }

    /// The last of the managers that serve names, or begin to.
    pub fn active(&self) -> Option<usize> {
        let serves = |it: &ManagerNode| it.process.store.borrow().is_some();
        self.nodes.iter().rposition(serves)
    }

    async fn run(&self, number: usize) {
        let manager = &self.nodes[number];
        let store = loop {
            if let Some(store) = self.stand_by(manager).await {
                break Arc::new(store);
            }
        };
        let unknown = vec![Address::default(); self.bed.io_servers.len()];
        let ended = Rc::clone(&manager.process.ended);
        self.bed
            .serve_names(&manager.node, &store, unknown, false, ended);
        self.bed.seen.replace(Some(Arc::clone(&store)));
        manager.process.store.replace(Some(store));
    }

    /// Follows the journal until this manager has it. `None`: the store cannot be used.
    async fn stand_by(&self, manager: &ManagerNode) -> Option<JournaledStore> {
        let runtime = manager.node.runtime();
        let random = u128::from(runtime.random()) << 64 | u128::from(runtime.random()) | 1;
        let name = ManagerName {
            name: manager.node.ip().to_string(),
            owner: random.to_be_bytes(),
        };
        let base = Arc::clone(&manager.base) as Arc<dyn MetaStore>;
        let engine = Box::new(manager.engine.engine.clone());
        let mut standby = Standby::over(base, engine, super::VOLUME, name).ok()?;
        let mut watch = RowWatch::default();
        loop {
            match standby.follow() {
                Ok(row)
                    if watch.see(row.as_ref(), runtime.now() - Instant::START) == Sight::Free =>
                {
                    return standby.take_over().ok();
                }
                Ok(_) => {}
                Err(error) if error.is_engine_unavailable() => watch.lose(),
                Err(error) => {
                    assert!(self.is_undone.get(), "{error}");
                    // It ends, and its supervisor starts it again.
                    sleep(&runtime, RESTART_PAUSE).await;
                    return None;
                }
            }
            sleep(&runtime, FOLLOW_EVERY).await;
        }
    }
}
