//! The scheduler of an I/O server: deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) over its connections,
//! with a bound for the bytes under way.
//!
//! Only long transfers wait for permits, a piece at a time. Short ones and metadata never do: the bound keeps the bytes
//! before them few. The permits of a connection may not end, because its client takes or gives nothing. After
//! [`PERMIT_AGE_MAX`] they stop counting, so that the stalled connection blocks no other.

use crate::limits::PERMIT_AGE_MAX;
use gannet_fabric::EndpointId;
use gannet_runtime::{Handle, Instant, timeout};
use gannet_wire::volume::Class;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tokio::sync::oneshot;

/// The name of a flow: the requests of one class on one connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FlowKey {
    pub(super) connection: EndpointId,
    pub(super) class: Class,
}

/// The scheduler of one kind of transfer on a core.
pub(super) struct Scheduler {
    runtime: Handle,
    /// Bytes that a flow may move in one round.
    quantum: u64,
    /// Bounds of the bytes under way, of all flows and of one.
    bytes_max: u64,
    flow_bytes_max: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Bytes under way of all flows that are not stalled.
    under_way: u64,
    flows: BTreeMap<FlowKey, Flow>,
    /// Flows with requests that wait, the next one first.
    round: VecDeque<FlowKey>,
    /// The first one of them has had its quantum of this round.
    is_served: bool,
}

#[derive(Default)]
struct Flow {
    deficit: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Permit>)>,
    under_way: u64,
    /// When one of its permits began or ended last.
    moved: Instant,
    /// Its bytes are not in the sum of the state.
    is_stalled: bool,
}

/// The right to move bytes, until it is dropped.
pub(super) struct Permit {
    scheduler: Rc<Scheduler>,
    flow: FlowKey,
    bytes: u64,
}

impl Scheduler {
    /// Permits of at most `quantum` bytes, `bytes_max` bytes under way in all. One flow has at most a quarter of that,
    /// or two quanta.
    pub(super) fn new(runtime: Handle, quantum: u64, bytes_max: u64) -> Rc<Scheduler> {
        Rc::new(Scheduler {
            runtime,
            quantum,
            bytes_max,
            flow_bytes_max: (bytes_max / 4).max(2 * quantum),
            state: RefCell::default(),
        })
    }

    /// Waits for a permit to move `bytes` bytes for a connection's requests of this class; at most a quantum.
    pub(super) async fn take(self: &Rc<Self>, flow: FlowKey, bytes: u64) -> Permit {
        let (sender, mut receiver) = oneshot::channel();
        {
            let mut state = self.state.borrow_mut();
            let waiting = &mut state.flows.entry(flow).or_default().waiting;
            waiting.push_back((bytes, sender));
            if waiting.len() == 1 {
                state.round.push_back(flow);
            }
        }
        self.give_permits();
        loop {
            match timeout(&self.runtime, PERMIT_AGE_MAX, &mut receiver).await {
                Ok(Ok(permit)) => return permit,
                Ok(Err(_)) => unreachable!("a request is in its flow until it has its permit"),
                Err(_) => self.exclude_stalled(),
            }
        }
    }

    /// Gives permits while there is room.
    fn give_permits(self: &Rc<Self>) {
        while let Some((sender, permit)) = self.next_permit() {
            // The request may be gone: then the permit ends here, and makes room for another.
            drop(sender.send(permit));
        }
    }

    fn next_permit(self: &Rc<Self>) -> Option<(oneshot::Sender<Permit>, Permit)> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let mut passed = 0;
        while passed < state.round.len() {
            let key = *state.round.front()?;
            let flow = state.flows.get_mut(&key)?;
            let bytes = flow.waiting.front()?.0;
            if flow.under_way > 0 && flow.under_way + bytes > self.flow_bytes_max {
                // It has its share, so the next flow follows. Its deficit stays: it is for later.
                state.round.rotate_left(1);
                state.is_served = false;
                passed += 1;
                continue;
            }
            if state.under_way > 0 && state.under_way + bytes > self.bytes_max {
                return None;
            }
            if !state.is_served {
                flow.deficit += self.quantum_of(key.class);
                state.is_served = true;
            }
            if flow.deficit < bytes {
                state.round.rotate_left(1);
                state.is_served = false;
                passed = 0;
                continue;
            }
            flow.deficit -= bytes;
            let (_, sender) = flow.waiting.pop_front()?;
            if flow.waiting.is_empty() {
                flow.deficit = 0;
                state.round.pop_front();
                state.is_served = false;
            }
            self.begin(flow, &mut state.under_way, bytes);
            let scheduler = Rc::clone(self);
            let permit = Permit {
                scheduler,
                flow: key,
                bytes,
            };
            return Some((sender, permit));
        }
        None
    }

    /// Background work gets a quarter of what others get.
    fn quantum_of(&self, class: Class) -> u64 {
        match class {
            Class::Background => self.quantum.div_ceil(4),
            _ => self.quantum,
        }
    }

    fn begin(&self, flow: &mut Flow, under_way: &mut u64, bytes: u64) {
        flow.moved = self.runtime.now();
        flow.under_way += bytes;
        if !flow.is_stalled {
            *under_way += bytes;
        }
    }

    fn end(self: &Rc<Self>, key: FlowKey, bytes: u64) {
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            let Some(flow) = state.flows.get_mut(&key) else {
                return;
            };
            flow.under_way -= bytes;
            if !flow.is_stalled {
                state.under_way -= bytes;
            } else {
                // It moves again.
                flow.is_stalled = false;
                state.under_way += flow.under_way;
            }
            flow.moved = self.runtime.now();
            if flow.under_way == 0 && flow.waiting.is_empty() {
                state.flows.remove(&key);
            }
        }
        self.give_permits();
    }

    /// Takes flows that have not moved for [`PERMIT_AGE_MAX`] out of the sum: their bytes would hold up all others.
    fn exclude_stalled(self: &Rc<Self>) {
        let now = self.runtime.now();
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            for flow in state.flows.values_mut() {
                if !flow.is_stalled && flow.under_way > 0 && now >= flow.moved + PERMIT_AGE_MAX {
                    flow.is_stalled = true;
                    state.under_way -= flow.under_way;
                }
            }
        }
        self.give_permits();
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.scheduler.end(self.flow, self.bytes);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_runtime::sleep;
    use gannet_sim::World;
    use std::cell::RefCell;
    use std::time::Duration;

    const QUANTUM: u64 = 100;

    fn flow(connection: u64, class: Class) -> FlowKey {
        FlowKey {
            connection: EndpointId(connection),
            class,
        }
    }

    /// The connections that had a permit, in order.
    type Order = Rc<RefCell<Vec<u64>>>;

    /// Asks for permits of `bytes` each, which last for 100 milliseconds.
    fn ask(scheduler: &Rc<Scheduler>, order: &Order, key: FlowKey, bytes: u64, count: usize) {
        for _ in 0..count {
            let (scheduler, order) = (Rc::clone(scheduler), Rc::clone(order));
            let runtime = Handle::clone(&scheduler.runtime);
            let task = async move {
                let permit = scheduler.take(key, bytes).await;
                order.borrow_mut().push(key.connection.0);
                sleep(&scheduler.runtime, Duration::from_millis(100)).await;
                drop(permit);
            };
            runtime.spawn("a permit", Box::pin(task));
        }
    }

    fn run(bytes_max: u64, story: impl AsyncFnOnce(Rc<Scheduler>, Order) + 'static) {
        let world = World::new(1);
        let runtime = world.add_node("server").runtime();
        let scheduler = Scheduler::new(runtime, QUANTUM, bytes_max);
        let done = world.run(async move { story(scheduler, Order::default()).await });
        done.unwrap();
    }

    #[test]
    fn connections_share_by_bytes() {
        run(QUANTUM, async |scheduler, order| {
            ask(&scheduler, &order, flow(0, Class::Bulk), QUANTUM, 1);
            // One has asked for much before the other comes with half as long pieces.
            ask(&scheduler, &order, flow(1, Class::Bulk), QUANTUM, 20);
            ask(&scheduler, &order, flow(2, Class::Bulk), QUANTUM / 2, 40);
            sleep(&scheduler.runtime, Duration::from_secs(3)).await;
            let order = order.borrow();
            let bytes = |who, len| order.iter().filter(|it| **it == who).count() as u64 * len;
            let (one, other) = (bytes(1, QUANTUM), bytes(2, QUANTUM / 2));
            assert!(
                one > 5 * QUANTUM && one.abs_diff(other) <= QUANTUM,
                "{one} {other}"
            );
        });
    }

    #[test]
    fn background_work_gets_a_quarter() {
        run(QUANTUM, async |scheduler, order| {
            ask(&scheduler, &order, flow(1, Class::Background), QUANTUM, 40);
            ask(&scheduler, &order, flow(2, Class::Bulk), QUANTUM, 40);
            sleep(&scheduler.runtime, Duration::from_secs(4)).await;
            let order = order.borrow();
            let background = order.iter().filter(|it| **it == 1).count();
            let rest = order.len() - background;
            assert!(
                background > 4 && rest >= 3 * background,
                "{background} of {rest}"
            );
        });
    }

    #[test]
    fn one_connection_has_a_part_of_what_is_under_way() {
        run(16 * QUANTUM, async |scheduler, order| {
            ask(&scheduler, &order, flow(1, Class::Bulk), QUANTUM, 40);
            sleep(&scheduler.runtime, Duration::from_millis(10)).await;
            assert_eq!(order.borrow().len(), 4, "a quarter");
            ask(&scheduler, &order, flow(2, Class::Bulk), QUANTUM, 40);
            sleep(&scheduler.runtime, Duration::from_millis(10)).await;
            assert_eq!(order.borrow().len(), 8);
        });
    }

    #[test]
    fn a_stalled_flow_blocks_no_other() {
        run(4 * QUANTUM, async |scheduler, order| {
            let mut stalled = Vec::new();
            for connection in 1..3 {
                for _ in 0..2 {
                    stalled.push(scheduler.take(flow(connection, Class::Bulk), QUANTUM).await);
                }
            }
            ask(&scheduler, &order, flow(9, Class::Bulk), QUANTUM, 8);
            ask(&scheduler, &order, flow(1, Class::Bulk), QUANTUM, 1);
            sleep(&scheduler.runtime, PERMIT_AGE_MAX / 2).await;
            assert!(order.borrow().is_empty(), "they may yet move");
            sleep(&scheduler.runtime, 2 * PERMIT_AGE_MAX).await;
            assert_eq!(
                *order.borrow(),
                [9; 8],
                "but not more of those that stand still"
            );
            drop(stalled);
            sleep(&scheduler.runtime, Duration::from_secs(1)).await;
            assert_eq!(order.borrow().len(), 9);
            let state = scheduler.state.borrow();
            assert!(state.under_way == 0 && state.flows.is_empty() && state.round.is_empty());
        });
    }

    #[test]
    fn an_abandoned_request_gets_no_permit() {
        run(QUANTUM, async |scheduler, order| {
            let first = scheduler.take(flow(1, Class::Bulk), QUANTUM).await;
            let gone = scheduler.take(flow(2, Class::Bulk), QUANTUM);
            let gone = timeout(&scheduler.runtime, Duration::from_millis(1), gone).await;
            assert!(gone.is_err());
            ask(&scheduler, &order, flow(3, Class::Bulk), QUANTUM, 1);
            drop(first);
            sleep(&scheduler.runtime, Duration::from_millis(1)).await;
            assert_eq!(*order.borrow(), [3]);
        });
    }
}
