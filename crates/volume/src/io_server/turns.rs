//! Whose bytes move next: deficit round robin (Shreedhar and Varghese, SIGCOMM 1995) over the connections of an I/O
//! server, with a bound for the bytes under way.
//!
//! Only long transfers wait for turns, a piece at a time. Short ones and metadata never do, and find at most the bytes
//! of the turns before them: that is what the bound is for. A connection whose turns do not end, because its client
//! takes or gives nothing, stops counting after [`TURN_AGE_MAX`] and holds up nobody but itself.

use crate::limits::TURN_AGE_MAX;
use gannet_fabric::EndpointId;
use gannet_runtime::{Handle, Instant, timeout};
use gannet_wire::volume::Class;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tokio::sync::oneshot;

/// Whose turn: a connection's requests of one class.
type FlowKey = (EndpointId, Class);

/// See the module.
pub(super) struct Turns {
    runtime: Handle,
    /// Bytes that a flow may move when it is its turn.
    quantum: u64,
    /// Bytes under way, of all flows and of one.
    bytes_max: u64,
    flow_bytes_max: u64,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    /// Bytes under way of flows that move.
    under_way: u64,
    flows: BTreeMap<FlowKey, Flow>,
    /// Flows with somebody waiting, the next one first.
    round: VecDeque<FlowKey>,
    /// The first one of them has had its quantum of this round.
    is_served: bool,
}

#[derive(Default)]
struct Flow {
    deficit: u64,
    waiting: VecDeque<(u64, oneshot::Sender<Turn>)>,
    under_way: u64,
    /// When one of its turns began or ended last.
    moved: Instant,
    /// Its bytes are not counted in the sum.
    is_stuck: bool,
}

/// Leave to move bytes, until it is dropped.
pub(super) struct Turn {
    turns: Rc<Turns>,
    flow: FlowKey,
    bytes: u64,
}

impl Turns {
    /// Turns of at most `quantum` bytes, `bytes_max` bytes of them under way, of which one flow has at most a quarter
    /// or two quanta.
    pub(super) fn new(runtime: Handle, quantum: u64, bytes_max: u64) -> Rc<Turns> {
        Rc::new(Turns {
            runtime,
            quantum,
            bytes_max,
            flow_bytes_max: (bytes_max / 4).max(2 * quantum),
            state: RefCell::default(),
        })
    }

    /// Waits until it is the turn of `bytes` bytes of a connection's requests of this class; at most a quantum.
    pub(super) async fn take(
        self: &Rc<Self>,
        (connection, class): (EndpointId, Class),
        bytes: u64,
    ) -> Turn {
        let flow = (connection, class);
        let (sender, mut receiver) = oneshot::channel();
        {
            let mut state = self.state.borrow_mut();
            let waiting = &mut state.flows.entry(flow).or_default().waiting;
            waiting.push_back((bytes, sender));
            if waiting.len() == 1 {
                state.round.push_back(flow);
            }
        }
        self.give_turns();
        loop {
            match timeout(&self.runtime, TURN_AGE_MAX, &mut receiver).await {
                Ok(Ok(turn)) => return turn,
                Ok(Err(_)) => unreachable!("whoever waits is in its flow until it has its turn"),
                Err(_) => self.pass_by_the_stuck(),
            }
        }
    }

    /// Gives turns while there is room.
    fn give_turns(self: &Rc<Self>) {
        while let Some((sender, turn)) = self.next_turn() {
            // Who waited may be gone: then the turn ends here, and makes room for another.
            drop(sender.send(turn));
        }
    }

    fn next_turn(self: &Rc<Self>) -> Option<(oneshot::Sender<Turn>, Turn)> {
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        let mut passed = 0;
        while passed < state.round.len() {
            let key = *state.round.front()?;
            let flow = state.flows.get_mut(&key)?;
            let bytes = flow.waiting.front()?.0;
            if flow.under_way > 0 && flow.under_way + bytes > self.flow_bytes_max {
                // It has its share: the next one. What it saved up is for later.
                state.round.rotate_left(1);
                state.is_served = false;
                passed += 1;
                continue;
            }
            if state.under_way > 0 && state.under_way + bytes > self.bytes_max {
                return None;
            }
            if !state.is_served {
                flow.deficit += self.quantum_of(key.1);
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
            let turns = Rc::clone(self);
            let turn = Turn {
                turns,
                flow: key,
                bytes,
            };
            return Some((sender, turn));
        }
        None
    }

    /// Work that nobody waits for gets a quarter of what others get.
    fn quantum_of(&self, class: Class) -> u64 {
        match class {
            Class::Background => self.quantum.div_ceil(4),
            _ => self.quantum,
        }
    }

    fn begin(&self, flow: &mut Flow, under_way: &mut u64, bytes: u64) {
        flow.moved = self.runtime.now();
        flow.under_way += bytes;
        if !flow.is_stuck {
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
            if !flow.is_stuck {
                state.under_way -= bytes;
            } else {
                // It moves again.
                flow.is_stuck = false;
                state.under_way += flow.under_way;
            }
            flow.moved = self.runtime.now();
            if flow.under_way == 0 && flow.waiting.is_empty() {
                state.flows.remove(&key);
            }
        }
        self.give_turns();
    }

    /// Takes flows that have not moved for long out of the sum.
    fn pass_by_the_stuck(self: &Rc<Self>) {
        let now = self.runtime.now();
        {
            let mut state = self.state.borrow_mut();
            let state = &mut *state;
            for flow in state.flows.values_mut() {
                if !flow.is_stuck && flow.under_way > 0 && now >= flow.moved + TURN_AGE_MAX {
                    flow.is_stuck = true;
                    state.under_way -= flow.under_way;
                }
            }
        }
        self.give_turns();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.turns.end(self.flow, self.bytes);
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
        (EndpointId(connection), class)
    }

    /// What happened, in order: who had a turn.
    type Order = Rc<RefCell<Vec<u64>>>;

    /// Asks for turns of `bytes` each, which last for a second.
    fn ask(turns: &Rc<Turns>, order: &Order, key: FlowKey, bytes: u64, count: usize) {
        for _ in 0..count {
            let (turns, order) = (Rc::clone(turns), Rc::clone(order));
            let runtime = Handle::clone(&turns.runtime);
            let task = async move {
                let turn = turns.take(key, bytes).await;
                order.borrow_mut().push(key.0.0);
                sleep(&turns.runtime, Duration::from_millis(100)).await;
                drop(turn);
            };
            runtime.spawn("a turn", Box::pin(task));
        }
    }

    fn run(bytes_max: u64, story: impl AsyncFnOnce(Rc<Turns>, Order) + 'static) {
        let world = World::new(1);
        let runtime = world.add_node("server").runtime();
        let turns = Turns::new(runtime, QUANTUM, bytes_max);
        let done = world.run(async move { story(turns, Order::default()).await });
        done.unwrap();
    }

    #[test]
    fn connections_take_turns_by_bytes() {
        run(QUANTUM, async |turns, order| {
            ask(&turns, &order, flow(0, Class::Bulk), QUANTUM, 1);
            // One has asked for much before the other comes with half as long pieces.
            ask(&turns, &order, flow(1, Class::Bulk), QUANTUM, 20);
            ask(&turns, &order, flow(2, Class::Bulk), QUANTUM / 2, 40);
            sleep(&turns.runtime, Duration::from_secs(3)).await;
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
    fn work_that_nobody_waits_for_gets_a_quarter() {
        run(QUANTUM, async |turns, order| {
            ask(&turns, &order, flow(1, Class::Background), QUANTUM, 40);
            ask(&turns, &order, flow(2, Class::Bulk), QUANTUM, 40);
            sleep(&turns.runtime, Duration::from_secs(4)).await;
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
        run(16 * QUANTUM, async |turns, order| {
            ask(&turns, &order, flow(1, Class::Bulk), QUANTUM, 40);
            sleep(&turns.runtime, Duration::from_millis(10)).await;
            assert_eq!(order.borrow().len(), 4, "a quarter");
            ask(&turns, &order, flow(2, Class::Bulk), QUANTUM, 40);
            sleep(&turns.runtime, Duration::from_millis(10)).await;
            assert_eq!(order.borrow().len(), 8);
        });
    }

    #[test]
    fn who_stands_still_holds_up_nobody_else() {
        run(4 * QUANTUM, async |turns, order| {
            let mut stuck = Vec::new();
            for connection in 1..3 {
                for _ in 0..2 {
                    stuck.push(turns.take(flow(connection, Class::Bulk), QUANTUM).await);
                }
            }
            ask(&turns, &order, flow(9, Class::Bulk), QUANTUM, 8);
            ask(&turns, &order, flow(1, Class::Bulk), QUANTUM, 1);
            sleep(&turns.runtime, TURN_AGE_MAX / 2).await;
            assert!(order.borrow().is_empty(), "they may yet move");
            sleep(&turns.runtime, 2 * TURN_AGE_MAX).await;
            assert_eq!(
                *order.borrow(),
                [9; 8],
                "but not more of those that stand still"
            );
            drop(stuck);
            sleep(&turns.runtime, Duration::from_secs(1)).await;
            assert_eq!(order.borrow().len(), 9);
            let state = turns.state.borrow();
            assert!(state.under_way == 0 && state.flows.is_empty() && state.round.is_empty());
        });
    }

    #[test]
    fn who_no_longer_waits_has_no_turn() {
        run(QUANTUM, async |turns, order| {
            let first = turns.take(flow(1, Class::Bulk), QUANTUM).await;
            let gone = turns.take(flow(2, Class::Bulk), QUANTUM);
            let gone = timeout(&turns.runtime, Duration::from_millis(1), gone).await;
            assert!(gone.is_err());
            ask(&turns, &order, flow(3, Class::Bulk), QUANTUM, 1);
            drop(first);
            sleep(&turns.runtime, Duration::from_millis(1)).await;
            assert_eq!(*order.borrow(), [3]);
        });
    }
}
