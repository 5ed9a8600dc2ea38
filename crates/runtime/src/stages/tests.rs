#![allow(clippy::unwrap_used)]

use super::*;
use crate::{BlockingJob, Listener, LocalFuture, Notify, Runtime, Stream};
use std::net::SocketAddr;

/// A clock that goes on when told so.
#[derive(Default)]
struct Clock(Cell<u64>);

impl Clock {
    fn pass(&self, nanoseconds: u64) {
        self.0.set(self.0.get() + nanoseconds);
    }
}

impl Runtime for Clock {
    fn now(&self) -> Instant {
        Instant::from_nanos(self.0.get())
    }

    fn wall_clock(&self) -> Duration {
        Duration::ZERO
    }

    fn sleep_until(&self, _deadline: Instant) -> LocalFuture<()> {
        unreachable!("a stopwatch does not wait")
    }

    fn spawn(&self, _name: &'static str, _task: LocalFuture<()>) {
        unreachable!("a stopwatch starts no tasks")
    }

    fn random(&self) -> u64 {
        0
    }

    fn submit_blocking(&self, _job: BlockingJob) {
        unreachable!("a stopwatch does not block")
    }

    fn connect(&self, _address: SocketAddr) -> LocalFuture<std::io::Result<Stream>> {
        unreachable!("a stopwatch does not connect")
    }

    fn listen(&self, _address: SocketAddr) -> std::io::Result<Box<dyn Listener>> {
        unreachable!("a stopwatch does not listen")
    }
}

fn started() -> (Rc<Clock>, Rc<Stopwatch>) {
    let clock = Rc::<Clock>::default();
    let handle: Handle = Rc::clone(&clock) as Handle;
    let watch = Stopwatch::start(&handle, Stage::Wire, Instant::START);
    (clock, watch)
}

fn nanoseconds(parts: &Parts) -> Vec<(Stage, u128)> {
    parts
        .each()
        .map(|(stage, time)| (stage, time.as_nanos()))
        .collect()
}

#[test]
fn each_moment_belongs_to_one_stage() {
    let (clock, watch) = started();
    clock.pass(5);
    watch.enter(Stage::Protocol);
    clock.pass(1);
    within(Some(&watch), || {
        let _file_system = enter(Stage::FileSystem);
        clock.pass(20);
        {
            let _sync = enter(Stage::Sync);
            clock.pass(300);
        }
        clock.pass(20);
    });
    clock.pass(2);
    let parts = watch.parts();
    assert_eq!(
        nanoseconds(&parts),
        [
            (Stage::Wire, 5),
            (Stage::FileSystem, 40),
            (Stage::Sync, 300),
            (Stage::Protocol, 3),
        ]
    );
    assert_eq!(parts.whole(), Duration::from_nanos(348));
    assert_eq!(
        parts.to_string(),
        "wire 5.0ns file_system 40.0ns sync 300.0ns protocol 3.0ns"
    );
}

#[test]
fn what_a_step_took_leaves_its_stage_and_never_more_than_that() {
    let (clock, watch) = started();
    clock.pass(10);
    within(Some(&watch), || {
        took(Stage::Registration, Duration::from_nanos(4));
        took(Stage::Copy, Duration::from_nanos(100));
    });
    let parts = watch.parts();
    assert_eq!(
        nanoseconds(&parts),
        [(Stage::Registration, 4), (Stage::Copy, 6)]
    );
}

#[test]
fn without_a_stopwatch_nothing_happens() {
    let _stage = enter(Stage::Sync);
    took(Stage::Copy, Duration::from_secs(1));
    assert!(current().is_none());
    within(None, || assert!(current().is_none()));
}

#[test]
fn a_stopwatch_is_current_while_its_operation_is_polled_and_not_between() {
    let (clock, watch) = started();
    let wake = Notify::default();
    let mut operation = std::pin::pin!(watched(&watch, async {
        let _servers = enter(Stage::Servers);
        wake.notified().await;
        assert!(current().is_some());
    }));
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(operation.as_mut().poll(&mut context).is_pending());
    assert!(current().is_none());
    // Another operation is polled meanwhile.
    let (_, other) = started();
    within(Some(&other), || took(Stage::Copy, Duration::from_nanos(1)));
    clock.pass(50);
    wake.notify();
    assert!(operation.as_mut().poll(&mut context).is_ready());
    clock.pass(1);
    assert_eq!(
        nanoseconds(&watch.parts()),
        [(Stage::Wire, 1), (Stage::Servers, 50)]
    );
}

#[test]
fn a_stage_ends_when_its_operation_is_given_up() {
    let (clock, watch) = started();
    {
        let mut operation = Box::pin(watched(&watch, async {
            let _sync = enter(Stage::Sync);
            std::future::pending::<()>().await;
        }));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(operation.as_mut().poll(&mut context).is_pending());
        clock.pass(7);
    }
    clock.pass(2);
    assert_eq!(
        nanoseconds(&watch.parts()),
        [(Stage::Wire, 2), (Stage::Sync, 7)]
    );
}
