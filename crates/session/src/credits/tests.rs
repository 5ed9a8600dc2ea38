//! Connections of a model fabric: peers that keep to their credits, and those that do not.

#![allow(clippy::unwrap_used)]

use super::*;
use crate::Origin;
use crate::receives::{PoolLimits, ReceivePool};
use gannet_fabric::{
    Completion, Disconnected, Domain, EndpointAttributes, EndpointId, Receives, RemoteAddress,
    SendOptions, SharedReceiveQueue, SharedReceives, Signal, Source, Span, WorkId,
};
use gannet_runtime::Buffer;
use gannet_softrdma::{EndpointReceives, SoftwareReceiveQueue};
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

const LIMITS: CreditLimits = CreditLimits {
    initial: 1,
    first: 8,
    step: 4,
    max: 128,
    spare: 2,
    idle: Duration::from_secs(10),
};
const POOL: PoolLimits = PoolLimits {
    receives_max: 2000,
    reserve: 4,
    connections_max: 100,
};

/// Bytes of one receive.
const RECEIVE_LEN: usize = 16;

/// Nothing of an endpoint but its receives.
struct Receiving(RefCell<EndpointReceives>);

impl Endpoint for Receiving {
    fn id(&self) -> EndpointId {
        EndpointId(1)
    }
    fn peer_address(&self) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], 1))
    }
    fn attributes(&self) -> EndpointAttributes {
        unreachable!()
    }
    fn private_data(&self) -> &[u8] {
        &[]
    }
    fn domain(&self) -> Rc<dyn Domain> {
        unreachable!()
    }
    fn post_receive(&self, _: WorkId, _: Buffer) -> Result<(), PostError> {
        unreachable!()
    }
    fn grant_receives(&self, count: u32) -> Result<(), PostError> {
        self.0.borrow_mut().grant(count)
    }
    fn post_send(&self, _: WorkId, _: Source, _: SendOptions) -> Result<(), PostError> {
        unreachable!()
    }
    fn post_write(
        &self,
        _: WorkId,
        _: Source,
        _: RemoteAddress,
        _: Signal,
    ) -> Result<(), PostError> {
        unreachable!()
    }
    fn post_read(&self, _: WorkId, _: Span, _: RemoteAddress) -> Result<(), PostError> {
        unreachable!()
    }
    fn flush(&self) {}
    fn poll_completions(
        &self,
        _: &mut Context<'_>,
        _: &mut Vec<Completion>,
    ) -> Poll<Result<(), Disconnected>> {
        Poll::Pending
    }
    fn close(&self) {}
    fn abort(&self, _: &str) {}
}

/// A connection with its client.
struct Line {
    endpoint: Receiving,
    credits: Credits,
    /// Requests that the server has, with their memory.
    held: VecDeque<Buffer>,
    /// Answers on their way to the client.
    answers: VecDeque<Grant>,
    /// The state of the client.
    sent: u64,
    answered: u64,
    window: u64,
}

impl Line {
    fn new(pool: &Rc<ReceivePool>, limits: CreditLimits) -> Option<Line> {
        Line::of(1, pool, limits)
    }

    /// The same, from another origin.
    fn of(origin: u32, pool: &Rc<ReceivePool>, limits: CreditLimits) -> Option<Line> {
        let share = pool.join(Origin::from(IpAddr::from(origin.to_be_bytes())))?;
        let Receives::Shared { queue, granted } = share.receives() else {
            unreachable!()
        };
        let receives = EndpointReceives::new(Receives::Shared { queue, granted }).unwrap();
        Some(Line {
            endpoint: Receiving(RefCell::new(receives)),
            credits: Credits::new(share, limits, Instant::START),
            held: VecDeque::new(),
            answers: VecDeque::new(),
            sent: 0,
            answered: 0,
            window: u64::from(limits.initial),
        })
    }

    /// The client sends one more, if it may: false when it may not.
    fn send(&mut self, now: Instant) -> bool {
        if self.sent - self.answered >= self.window {
            return false;
        }
        self.sent += 1;
        let (_, buffer) = self.endpoint.0.borrow_mut().take().expect("a receive");
        self.credits.request_came(now).unwrap();
        self.held.push_back(buffer);
        true
    }

    /// The server answers its oldest request.
    fn answer(&mut self) {
        if self.held.pop_front().is_some() {
            let grant = self.credits.answer(&self.endpoint, u32::MAX, 0).unwrap();
            assert!(grant.window > 0);
            self.answers.push_back(grant);
        }
    }

    /// The oldest answer leaves, and the client has it.
    fn deliver(&mut self) {
        if let Some(grant) = self.answers.pop_front() {
            self.credits.left(grant.limit);
            self.answered += 1;
            self.window = u64::from(grant.window);
        }
    }

    /// The server gives its oldest request up: its client never hears of it.
    fn give_up(&mut self) {
        if self.held.pop_front().is_some() {
            self.credits.give_up(&self.endpoint).unwrap();
        }
    }

    /// Requests that the client may still send, by all answers of the server.
    fn open(&self) -> u64 {
        self.credits.reported() - self.credits.received
    }

    /// Receives that messages of the client find, counted by taking them all; the endpoint has none then.
    fn take_receives(&self) -> usize {
        let taken = std::iter::from_fn(|| self.endpoint.0.borrow_mut().take());
        taken.count()
    }

    /// As many round trips with the window full.
    fn round_trips(&mut self, count: usize, now: Instant) -> u64 {
        for _ in 0..count {
            while self.send(now) {}
            while !self.held.is_empty() {
                self.answer();
            }
            while !self.answers.is_empty() {
                self.deliver();
            }
        }
        self.window
    }
}

fn pool(limits: PoolLimits) -> Rc<ReceivePool> {
    let queue = SoftwareReceiveQueue::new(SharedReceives {
        id: WorkId(0),
        len: RECEIVE_LEN,
        receives_max: limits.receives_max,
    });
    ReceivePool::new(queue as Rc<dyn SharedReceiveQueue>, limits)
}

#[test]
fn a_busy_client_has_all_credits_after_three_round_trips() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    let windows: Vec<u64> = (0..4)
        .map(|_| line.round_trips(1, Instant::START))
        .collect();
    assert_eq!(windows, [8, 40, 128, 128]);
    assert_eq!(pool.granted(), 128 + LIMITS.spare);
    drop(line);
    assert_eq!((pool.granted(), pool.in_use()), (0, 0));
}

#[test]
fn a_client_that_asks_for_few_gets_few() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    for _ in 0..50 {
        assert!(line.send(Instant::START));
        line.held.pop_front();
        let grant = line.credits.answer(&line.endpoint, 3, 0).unwrap();
        assert!(grant.window <= 3, "{grant:?}");
        line.answers.push_back(grant);
        line.deliver();
    }
    assert!(pool.granted() <= 3 + LIMITS.spare);
}

#[test]
fn credits_come_back_after_a_pause_one_with_each_answer() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    line.round_trips(4, Instant::START);
    let mut now = Instant::START;
    for pause in 1..=50 {
        now += LIMITS.idle;
        assert!(line.send(now));
        line.answer();
        line.deliver();
        assert_eq!(line.window, 128 - pause);
        assert_eq!(u64::from(pool.granted()), 128 - pause + 2);
    }
}

#[test]
fn everyone_has_a_reserve_and_the_busy_share_what_is_left() {
    let pool = pool(POOL);
    let mut lines: Vec<Line> = (0..100)
        .map(|_| Line::new(&pool, LIMITS).unwrap())
        .collect();
    for _ in 0..60 {
        for line in &mut lines {
            line.round_trips(1, Instant::START);
        }
    }
    let windows: Vec<u64> = lines.iter().map(|line| line.window).collect();
    assert!(windows.iter().all(|window| *window >= 2), "{windows:?}");
    assert!(pool.granted() <= POOL.receives_max);
    assert!(pool.queue().posted() >= pool.granted());
    // All but ten connections end: these soon have all the credits that they want.
    lines.truncate(3);
    for line in &mut lines {
        assert!(line.round_trips(60, Instant::START) > 100);
    }
}

#[test]
fn a_connection_beyond_the_pools_limit_is_refused_without_receives() {
    let pool = pool(PoolLimits {
        receives_max: 10,
        reserve: 4,
        connections_max: 2,
    });
    let lines = [Line::new(&pool, LIMITS), Line::new(&pool, LIMITS)];
    assert!(lines.iter().all(Option::is_some));
    assert!(Line::new(&pool, LIMITS).is_none());
}

#[test]
fn a_request_beyond_the_credits_is_refused() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    line.round_trips(4, Instant::START);
    while line.send(Instant::START) {}
    assert_eq!(line.credits.request_came(Instant::START), Err(Exceeded));
}

#[test]
fn an_answer_that_has_not_left_gives_no_credit() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    line.round_trips(4, Instant::START);
    while line.send(Instant::START) {}
    line.answer();
    // Guessed, not read: the answer has not left.
    assert_eq!(line.credits.request_came(Instant::START), Err(Exceeded));
}

#[test]
fn messages_without_credits_use_the_spare_receives_again_and_again() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    line.round_trips(4, Instant::START);
    while line.send(Instant::START) {}
    for _ in 0..10 {
        let taken: Vec<_> = (0..LIMITS.spare)
            .map(|_| line.endpoint.0.borrow_mut().take().unwrap())
            .collect();
        assert!(line.endpoint.0.borrow_mut().take().is_none());
        drop(taken);
        (0..LIMITS.spare).for_each(|_| line.credits.message_came());
        line.credits.cover(&line.endpoint, 0).unwrap();
    }
    // What is owed has receives of its own.
    line.credits.cover(&line.endpoint, 7).unwrap();
    let all = std::iter::from_fn(|| line.endpoint.0.borrow_mut().take()).count();
    assert_eq!(all, 7 + LIMITS.spare as usize);
}

/// Requests sent and not answered; what the peer may still send; receives granted, posted, and with messages in them.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    in_flight: u64,
    open: u64,
    granted: u32,
    posted: u32,
    messages: usize,
}

fn account(pool: &ReceivePool, line: &Line) -> Account {
    Account {
        in_flight: line.credits.received - line.credits.answered,
        open: line.open(),
        granted: pool.granted(),
        posted: pool.queue().posted(),
        messages: pool.in_use() / RECEIVE_LEN,
    }
}

#[test]
fn a_burst_takes_and_returns_exactly_its_receives() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    line.round_trips(4, Instant::START);
    let (max, spare) = (LIMITS.max, LIMITS.spare);
    let all_open = Account {
        in_flight: 0,
        open: u64::from(max),
        granted: max + spare,
        posted: max + spare,
        messages: 0,
    };
    for _ in 0..3 {
        assert_eq!(account(&pool, &line), all_open);
        for sent in 1..=max {
            assert!(line.send(Instant::START));
            let expected = Account {
                in_flight: u64::from(sent),
                open: u64::from(max - sent),
                granted: max - sent + spare,
                posted: max - sent + spare,
                messages: sent as usize,
            };
            assert_eq!(account(&pool, &line), expected);
        }
        assert!(!line.send(Instant::START));
        for answered in 1..=max {
            line.answer();
            let expected = Account {
                in_flight: u64::from(max - answered),
                open: u64::from(answered),
                granted: answered + spare,
                posted: answered + spare,
                messages: (max - answered) as usize,
            };
            assert_eq!(account(&pool, &line), expected);
        }
        while !line.answers.is_empty() {
            line.deliver();
        }
    }
    assert_eq!(line.take_receives(), (max + spare) as usize);
}

#[test]
fn a_request_that_is_given_up_returns_one_credit_with_the_next_answer() {
    let pool = pool(POOL);
    let mut line = Line::new(&pool, LIMITS).unwrap();
    line.round_trips(4, Instant::START);
    while line.send(Instant::START) {}
    let (max, spare) = (LIMITS.max, LIMITS.spare);
    for given_up in 1..=40 {
        line.give_up();
        let expected = Account {
            in_flight: u64::from(max - given_up),
            // No message has granted the client new credits.
            open: 0,
            granted: given_up + spare,
            posted: given_up + spare,
            messages: (max - given_up) as usize,
        };
        assert_eq!(account(&pool, &line), expected);
    }
    line.answer();
    assert_eq!((line.open(), pool.granted()), (41, 41 + spare));
    while !line.held.is_empty() {
        line.answer();
    }
    assert_eq!(line.open(), u64::from(max));
    assert_eq!(line.take_receives(), (max + spare) as usize);
}

/// Others have borrowed meanwhile: a window that is wider than a fair part closes by one with each answer.
#[test]
fn a_wide_window_closes_by_one_with_each_answer_while_little_is_left() {
    let pool = pool(PoolLimits {
        receives_max: 1200,
        reserve: 4,
        connections_max: 10,
    });
    let mut wide = Line::new(&pool, LIMITS).unwrap();
    wide.round_trips(20, Instant::START);
    assert!(wide.window > 100, "{}", wide.window);
    let others = (0..9).map(|_| Line::new(&pool, LIMITS).unwrap());
    let mut others: Vec<Line> = others.collect();
    for other in &mut others {
        other.round_trips(20, Instant::START);
    }
    let part = wide.credits.share.fair_part(LIMITS.first);
    assert!(part < 30, "{part}");
    let mut one_answer = || {
        assert!(wide.send(Instant::START));
        wide.answer();
        wide.deliver();
        (wide.window, pool.granted())
    };
    let (mut window, mut granted) = one_answer();
    for _ in 0..20 {
        let before = (window, granted);
        (window, granted) = one_answer();
        assert_eq!((window, granted), (before.0 - 1, before.1 - 1));
    }
}

/// The pool of a core of NFS/RDMA: 200 connections of one origin have been busy, and rest.
#[test]
fn idle_connections_of_one_origin_leave_credits_to_others_and_some_to_their_own() {
    let pool = pool(PoolLimits {
        receives_max: 24 << 10,
        reserve: 4,
        connections_max: 4096,
    });
    let join = |origin, rounds| {
        let mut line = Line::of(origin, &pool, LIMITS).unwrap();
        line.round_trips(rounds, Instant::START);
        line
    };
    let idle: Vec<Line> = (0..200).map(|_| join(1, 4)).collect();
    let narrow = idle.iter().filter(|line| line.window < 6).count();
    assert!(narrow < 20, "{narrow} connections with few credits");
    // Half of the receives that no reserve needs, beside the reserves of these connections.
    let lent = (24 << 10) - 4 * 4096;
    assert!(pool.granted() <= lent / 2 + 200 * 4, "{}", pool.granted());
    for origin in 2..5 {
        let others: Vec<Line> = (0..3).map(|_| join(origin, 4)).collect();
        let windows: Vec<u64> = others.iter().map(|line| line.window).collect();
        assert_eq!(windows, [128; 3], "origin {origin}");
    }
    // An origin is forgotten with its last connection.
    drop(idle);
    assert!(pool.borrowed.borrow().is_empty());
}

#[test]
fn a_pool_holds_when_every_connection_can_have_its_reserve() {
    let limits = |receives_max| PoolLimits {
        receives_max,
        reserve: 7,
        connections_max: 30,
    };
    assert!(limits(210).hold());
    assert!(!limits(209).hold());
}

#[test]
fn a_client_that_connects_again_begins_anew_beside_what_its_requests_hold() {
    let pool = pool(POOL);
    for connection in 0..5 {
        let mut line = Line::new(&pool, LIMITS).unwrap();
        let windows: Vec<u64> = (0..3)
            .map(|_| line.round_trips(1, Instant::START))
            .collect();
        assert_eq!(windows, [8, 40, 128], "connection {connection}");
        while line.send(Instant::START) {}
        if connection % 2 == 0 {
            // It ends because of a request without credit.
            assert_eq!(line.credits.request_came(Instant::START), Err(Exceeded));
        }
        let held = std::mem::take(&mut line.held);
        drop(line);
        // Its requests are still being worked on.
        assert_eq!(pool.granted(), 0);
        assert_eq!(pool.in_use(), held.len() * RECEIVE_LEN);
        assert_eq!(held.len(), LIMITS.max as usize);
        drop(held);
        assert_eq!((pool.granted(), pool.in_use()), (0, 0));
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Send,
    Answer,
    Deliver,
    Pause,
    Leave,
    Join,
}

proptest! {
    /// Whatever clients do within their credits, in any order: each message finds a receive, and what may be sent is
    /// never more than what is posted. A grant that is not backed by a receive fails here.
    #[test]
    fn no_message_within_its_credits_is_without_a_receive(
        steps in proptest::collection::vec(
            (0usize..8, prop_oneof![
                8 => Just(Step::Send), 6 => Just(Step::Answer), 6 => Just(Step::Deliver),
                1 => Just(Step::Pause), 1 => Just(Step::Leave), 1 => Just(Step::Join),
            ], 1usize..20), 1..400),
        receives_max in 40u32..300,
    ) {
        let pool = pool(PoolLimits { receives_max, reserve: 4, connections_max: 8 });
        let mut lines: Vec<Option<Line>> = (0..8).map(|_| Line::new(&pool, LIMITS)).collect();
        let mut now = Instant::START;
        for (index, step, times) in steps {
            for _ in 0..times {
                match (step, &mut lines[index]) {
                    (Step::Send, Some(line)) => drop(line.send(now)),
                    (Step::Answer, Some(line)) => line.answer(),
                    (Step::Deliver, Some(line)) => line.deliver(),
                    (Step::Pause, _) => now += Duration::from_secs(3),
                    (Step::Leave, line) => *line = None,
                    (Step::Join, line @ None) => {
                        *line = Line::new(&pool, LIMITS);
                        prop_assert!(line.is_some(), "no reserve");
                    }
                    _ => {}
                }
            }
            prop_assert!(pool.granted() <= pool.queue().posted());
            let may_send: u64 = lines.iter().flatten()
                .map(|line| u64::from(line.credits.share.granted()))
                .sum();
            prop_assert_eq!(may_send, u64::from(pool.granted()));
            for line in lines.iter().flatten() {
                // Never more sends than receives: what may come with a credit and without finds one each.
                let may_come = line.open() + u64::from(LIMITS.spare);
                prop_assert!(may_come <= u64::from(line.credits.share.granted()));
                let in_flight = line.credits.received - line.credits.answered;
                prop_assert_eq!(in_flight, line.held.len() as u64);
            }
        }
        // Everybody can go on from wherever that was.
        for line in lines.iter_mut().flatten() {
            while !line.held.is_empty() { line.answer(); }
            while !line.answers.is_empty() { line.deliver(); }
            prop_assert!(line.send(now), "a connection without credits");
        }
    }
}
