//! Walks over the pieces of a request, cut into turns.
//!
//! A request of 124 bytes may describe 2^20 pieces, and a walk over them takes a core milliseconds, or seconds where
//! something is done with each. So a walk counts its steps: after [`WALK_STEPS`] it lets the core's other tasks run and
//! waits for the scheduler, which lets one walk at a time go on, connection by connection. However many long requests
//! there are, the core's other tasks find one turn of theirs before them.

use super::scheduler::{FlowKey, Scheduler};
use crate::layout::{ByteRun, Pair, Pairs, Step, own_len_of, runs};
use crate::limits::{PLAN_PIECES_MAX, WALK_STEPS};
use crate::link::Link;
use gannet_fabric::EndpointId;
use gannet_runtime::Handle;
use gannet_wire::volume::{Class, Placement, Shape};
use std::cell::Cell;
use std::rc::Rc;

/// The walks of a core, which go on one at a time.
pub(super) struct Walks {
    runtime: Handle,
    /// The scheduler of steps, one turn at a time.
    scheduler: Rc<Scheduler>,
}

impl Walks {
    pub(super) fn new(runtime: Handle) -> Rc<Walks> {
        let steps = u64::from(WALK_STEPS);
        let scheduler = Scheduler::new(Handle::clone(&runtime), steps, steps);
        Rc::new(Walks { runtime, scheduler })
    }
}

/// Counts the steps of one request, and makes it wait for its turns.
pub(super) struct Pace {
    walks: Rc<Walks>,
    connection: EndpointId,
    /// Steps that are left of the turn. The first turn is the one in which the request came.
    left: Cell<u32>,
}

impl Pace {
    /// The pace of a request from the peer of `link`.
    pub(super) fn new(walks: &Rc<Walks>, link: &Link) -> Pace {
        Pace::of(walks, link.endpoint().id())
    }

    fn of(walks: &Rc<Walks>, connection: EndpointId) -> Pace {
        Pace {
            walks: Rc::clone(walks),
            connection,
            left: Cell::new(WALK_STEPS),
        }
    }

    /// Called before so many steps: waits for the next turn if this one has fewer left.
    pub(super) async fn steps(&self, count: u32) {
        if let Some(left) = self.left.get().checked_sub(count) {
            self.left.set(left);
            return;
        }
        let walks = &self.walks;
        let flow = FlowKey {
            connection: self.connection,
            class: Class::Bulk,
        };
        let permit = walks.scheduler.take(flow, u64::from(WALK_STEPS)).await;
        self.left.set(WALK_STEPS.saturating_sub(count));
        // The turn ends when this task stops, and not later: the task may wait for a disk or a peer. Dropped here, the
        // permit would go to another walk in the same round of the core's tasks, and each walk would have a turn in
        // each round.
        let end = async move { drop(permit) };
        walks.runtime.spawn("end of a walk's turn", Box::pin(end));
    }
}

/// Bytes of `shape` that lie on the server of `placement`.
pub(super) async fn own_len(pace: &Pace, shape: &Shape, placement: Placement) -> u64 {
    let mut len = 0;
    for piece in shape.pieces() {
        pace.steps(1).await;
        len += own_len_of(piece, placement);
    }
    len
}

/// The ranges of a plan in the object: those that follow each other are one.
pub(super) fn ranges_of(plan: &[Pair]) -> impl Iterator<Item = ByteRun> {
    let ranges = plan.iter().map(|pair| (pair.object_offset, pair.len));
    runs(ranges, u64::MAX)
}

/// Cuts a transfer into plans of up to `len_max` bytes and [`PLAN_PIECES_MAX`] pieces.
pub(super) struct Plans<'a> {
    pairs: Pairs<'a>,
    rest: Option<Pair>,
    len_max: u32,
    pace: &'a Pace,
}

impl<'a> Plans<'a> {
    pub(super) fn new(pairs: Pairs<'a>, len_max: u32, pace: &'a Pace) -> Plans<'a> {
        Plans {
            pairs,
            rest: None,
            len_max,
            pace,
        }
    }

    /// The next plan, which has bytes.
    pub(super) async fn next(&mut self) -> Option<Vec<Pair>> {
        let (mut plan, mut room) = (Vec::new(), self.len_max);
        while room > 0 && plan.len() < PLAN_PIECES_MAX {
            let pair = match self.rest.take() {
                Some(pair) => pair,
                None => match self.next_pair().await {
                    Some(pair) => pair,
                    None => break,
                },
            };
            let len = pair.len.min(room);
            plan.push(Pair { len, ..pair });
            room -= len;
            self.rest = (len < pair.len).then(|| Pair {
                object_offset: pair.object_offset + u64::from(len),
                memory_offset: pair.memory_offset + u64::from(len),
                len: pair.len - len,
            });
        }
        (!plan.is_empty()).then_some(plan)
    }

    async fn next_pair(&mut self) -> Option<Pair> {
        loop {
            self.pace.steps(1).await;
            match self.pairs.step() {
                Step::Item(pair) => return Some(pair),
                Step::Nothing => {}
                Step::End => return None,
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::layout::{pairs, pairs_together};
    use gannet_runtime::yield_now;
    use gannet_sim::World;
    use gannet_wire::volume::{Level, NESTED_PIECES_MAX, Piece};
    use std::future::Future;
    use std::pin::Pin;

    const HALF: Placement = Placement {
        unit: 4096,
        width: 2,
        index: 0,
    };

    /// Single bytes.
    fn bytes(count: u64, stride: u64) -> Shape {
        let count = count as u32;
        let first = Piece { offset: 0, len: 1 };
        Shape::nested(first, vec![Level { count, stride }]).unwrap()
    }

    /// Counts the polls of a future.
    async fn polls<F: Future>(future: F, count: &Cell<u64>) -> F::Output {
        let mut future: Pin<Box<F>> = Box::pin(future);
        std::future::poll_fn(move |context| {
            count.set(count.get() + 1);
            future.as_mut().poll(context)
        })
        .await
    }

    /// Thirty requests of two connections, each of which looks at many pieces twice, beside a short task of the core:
    /// whenever that has its turn, one walk has taken a turn since, and not thirty.
    #[test]
    fn long_walks_go_on_one_turn_at_a_time() {
        const PIECES: u64 = 1 << 16;
        let world = World::new(1);
        let runtime = world.add_node("server").runtime();
        let done = world.run(async move {
            let walks = Walks::new(Handle::clone(&runtime));
            let (polled, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
            for number in 0..30 {
                let pace = Pace::of(&walks, EndpointId(number % 2));
                let (polled, ended) = (Rc::clone(&polled), Rc::clone(&ended));
                let walk = async move {
                    let (file, memory) = (bytes(PIECES, 8192), bytes(PIECES, 1));
                    let len = own_len(&pace, &file, HALF).await;
                    assert_eq!(len, PIECES);
                    let mut plans = Plans::new(pairs(&file, HALF, &memory), u32::MAX, &pace);
                    let mut found = 0;
                    while let Some(plan) = plans.next().await {
                        assert!(plan.len() <= PLAN_PIECES_MAX);
                        found += plan.len() as u64;
                    }
                    assert_eq!(found, PIECES);
                    ended.set(ended.get() + 1);
                };
                let task = async move { polls(walk, &polled).await };
                runtime.spawn("walk", Box::pin(task));
            }
            let (mut rounds, mut most) = (0, 0);
            while ended.get() < 30 {
                let before = polled.get();
                yield_now().await;
                // In the first rounds all come and ask for a turn. Then there is one at a time.
                let taken = polled.get() - before;
                most = if rounds > 3 { taken.max(most) } else { 0 };
                rounds += 1;
            }
            assert!(most <= 4, "{most} turns between two of another task");
            assert!(rounds > 30 * PIECES / u64::from(WALK_STEPS), "{rounds}");
        });
        done.unwrap();
    }

    /// A server that has none of a million pieces finds that out in turns.
    #[test]
    fn pieces_of_other_servers_are_passed_by_in_turns() {
        let world = World::new(1);
        let runtime = world.add_node("server").runtime();
        let done = world.run(async move {
            let walks = Walks::new(runtime);
            let pace = Pace::of(&walks, EndpointId(1));
            let (file, other) = (
                bytes(NESTED_PIECES_MAX, 8192),
                Placement { index: 1, ..HALF },
            );
            let polled = Cell::new(0);
            let mut plans = Plans::new(pairs_together(&file, other, 0), u32::MAX, &pace);
            assert_eq!(polls(plans.next(), &polled).await, None);
            let least = NESTED_PIECES_MAX / u64::from(WALK_STEPS) - 1;
            assert!(polled.get() >= least, "{polled:?}");
        });
        done.unwrap();
    }

    #[test]
    fn a_short_request_never_waits() {
        let world = World::new(1);
        let runtime = world.add_node("server").runtime();
        let done = world.run(async move {
            let walks = Walks::new(runtime);
            let pace = Pace::of(&walks, EndpointId(1));
            let file = Shape::contiguous(100, 1 << 20).unwrap();
            let polled = Cell::new(0);
            let mut plans = Plans::new(pairs_together(&file, HALF, 0), 300_000, &pace);
            let lens = async {
                let mut lens = Vec::new();
                while let Some(plan) = plans.next().await {
                    lens.push(plan.iter().map(|pair| pair.len).sum::<u32>());
                }
                lens
            };
            let lens = polls(lens, &polled).await;
            assert_eq!(
                lens.iter().sum::<u32>() as u64,
                own_len(&pace, &file, HALF).await
            );
            assert!(
                lens.iter().all(|len| *len <= 300_000) && lens.len() == 2,
                "{lens:?}"
            );
            assert_eq!(polled.get(), 1, "no turn was waited for");
        });
        done.unwrap();
    }

    #[test]
    fn neighbours_in_the_object_are_one_range() {
        let pair = |object_offset, memory_offset, len| Pair {
            object_offset,
            memory_offset,
            len,
        };
        let plan = [pair(0, 50, 10), pair(10, 7, 5), pair(20, 0, 1)];
        let run = |offset, len| ByteRun { offset, len };
        let expected = [run(0, 15), run(20, 1)];
        assert_eq!(ranges_of(&plan).collect::<Vec<_>>(), expected);
    }
}
