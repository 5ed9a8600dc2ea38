//! Tests of charged time, on one machine and without a fabric.

use super::{Activity, Constant, Host, ORDINARY, Profile, Source, TIME_SLICE_NS};
use crate::node::Node;
use crate::world::World;
use gannet_runtime::{Handle, Notify, sleep};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

fn constant(value: u64) -> Constant {
    let source = Source::Assumed("a test");
    Constant { value, source }
}

/// A machine with so many processors in a world of its own.
fn machine(cpus: u64) -> (World, Node, Rc<Host>) {
    let world = World::new(1);
    let mut profile: Profile = ORDINARY;
    profile.machine.cpus = constant(cpus);
    let node = world.add_node("machine");
    let host = Host::install(&node, &profile);
    (world, node, host)
}

type Log = Rc<RefCell<Vec<(&'static str, u64)>>>;

fn note(log: &Log, what: &'static str, runtime: &Handle) {
    log.borrow_mut().push((what, runtime.now().as_nanos()));
}

#[test]
fn what_a_task_causes_happens_when_its_charges_are_over() {
    let (world, node, host) = machine(2);
    let (log, bell) = (Log::default(), Rc::<Notify>::default());
    let runtime = node.runtime();
    let waits = {
        let (log, bell, runtime) = (Rc::clone(&log), Rc::clone(&bell), runtime.clone());
        async move {
            bell.notified().await;
            note(&log, "woken", &runtime);
        }
    };
    runtime.spawn("waits", Box::pin(waits));
    let (of_task, of_spawned) = (Rc::clone(&log), Rc::clone(&log));
    let charged = {
        let runtime = runtime.clone();
        async move {
            host.charge(Activity::Protocol, 1_000);
            host.charge(Activity::Copy, 500);
            note(&of_task, "charged", &runtime);
            bell.notify();
            let spawned = runtime.clone();
            let started = async move { note(&of_spawned, "spawned", &spawned) };
            runtime.spawn("spawned", Box::pin(started));
            host.charge(Activity::Copy, 100);
            sleep(&runtime, Duration::ZERO).await;
            note(&of_task, "went on", &runtime);
        }
    };
    runtime.spawn("charged", Box::pin(charged));
    let faults = world.faults();
    world
        .run(async move { faults.sleep(Duration::from_micros(10)).await })
        .unwrap();
    let expected = [
        ("charged", 1_500),
        ("went on", 1_600),
        ("woken", 1_500),
        ("spawned", 1_500),
    ];
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn a_task_is_not_polled_again_before_its_own_clock() {
    let (world, node, host) = machine(1);
    let (log, bell) = (Log::default(), Rc::<Notify>::default());
    let runtime = node.runtime();
    let busy = {
        let (log, bell, runtime) = (Rc::clone(&log), Rc::clone(&bell), runtime.clone());
        async move {
            host.charge(Activity::Protocol, 5_000);
            bell.notified().await;
            note(&log, "polled", &runtime);
        }
    };
    runtime.spawn("busy", Box::pin(busy));
    let faults = world.faults();
    let ring = async move {
        faults.sleep(Duration::from_nanos(700)).await;
        bell.notify();
        faults.sleep(Duration::from_micros(10)).await;
    };
    world.run(ring).unwrap();
    assert_eq!(*log.borrow(), [("polled", 5_000)]);
}

/// Ends of three charges of 1 us each, made by three tasks at the same time.
fn three_at_once(cpus: u64) -> (Vec<u64>, Rc<Host>) {
    let (world, node, host) = machine(cpus);
    let log = Log::default();
    for _ in 0..3 {
        let (log, host, runtime) = (Rc::clone(&log), Rc::clone(&host), node.runtime());
        let task = async move {
            host.charge(Activity::Protocol, 1_000);
            note(&log, "done", &runtime);
        };
        node.runtime().spawn("task", Box::pin(task));
    }
    let faults = world.faults();
    world
        .run(async move { faults.sleep(Duration::from_micros(5)).await })
        .unwrap();
    let ends = log.borrow().iter().map(|(_, at)| *at).collect();
    (ends, host)
}

#[test]
fn tasks_share_the_processors_and_waiting_is_counted() {
    let (ends, host) = three_at_once(1);
    assert_eq!(ends, [1_000, 2_000, 3_000]);
    let spent = host.usage().of(Activity::Protocol);
    assert_eq!((spent.busy_ns, spent.waited_ns), (3_000, 3_000));
    assert_eq!(host.usage().cpu_ns, 3_000);
    let (ends, host) = three_at_once(2);
    assert_eq!(ends, [1_000, 1_000, 2_000]);
    assert_eq!(host.usage().queueing_ns(), 1_000);
}

#[test]
fn an_adapter_executes_one_command_at_a_time_and_holds_no_processor() {
    let (world, node, host) = machine(1);
    let mut profile = *host.profile();
    profile.adapter.register_ns = constant(1_000);
    profile.adapter.register_page_ns = constant(100);
    profile.adapter.register_command_ns = constant(10_000);
    profile.adapter.register_entry_ns = constant(20);
    profile.adapter.command_spins = constant(0);
    profile.machine.interrupt_ns = constant(0);
    profile.machine.context_switch_ns = constant(0);
    let host = Host::install(&node, &profile);
    let log = Log::default();
    for _ in 0..2 {
        let (log, host, runtime) = (Rc::clone(&log), Rc::clone(&host), node.runtime());
        let task = async move {
            host.register(3 * super::PAGE_LEN - 1);
            note(&log, "registered", &runtime);
        };
        node.runtime().spawn("task", Box::pin(task));
    }
    let faults = world.faults();
    world
        .run(async move { faults.sleep(Duration::from_micros(50)).await })
        .unwrap();
    // 1.3 us of processor, 10.06 us of adapter; the second's 1.3 us pass while the adapter works for the first.
    assert_eq!(
        *log.borrow(),
        [("registered", 11_360), ("registered", 21_420)]
    );
    assert_eq!(host.usage().cpu_ns, 2_600);
    let spent = host.usage().of(Activity::Registration);
    assert_eq!(spent.busy_ns, 2 * 11_360);
    assert_eq!(spent.waited_ns, 1_300 + 8_760, "processor, then adapter");
}

#[test]
fn an_adapter_may_have_its_callers_spin() {
    let (world, node, host) = machine(1);
    let mut profile = *host.profile();
    profile.adapter.register_ns = constant(1_000);
    profile.adapter.register_page_ns = constant(0);
    profile.adapter.register_command_ns = constant(10_000);
    profile.adapter.command_spins = constant(1);
    let host = Host::install(&node, &profile);
    let log = Log::default();
    for _ in 0..2 {
        let (log, host, runtime) = (Rc::clone(&log), Rc::clone(&host), node.runtime());
        let task = async move {
            host.register(0);
            note(&log, "registered", &runtime);
        };
        node.runtime().spawn("task", Box::pin(task));
    }
    let faults = world.faults();
    world
        .run(async move { faults.sleep(Duration::from_micros(50)).await })
        .unwrap();
    let expected = [("registered", 11_000), ("registered", 22_000)];
    assert_eq!(*log.borrow(), expected);
    assert_eq!(
        host.usage().cpu_ns,
        22_000,
        "none of it could be used otherwise"
    );
}

#[test]
fn work_takes_turns_with_charges() {
    let (world, node, host) = machine(1);
    let log = Log::default();
    let (of_work, of_task) = (Rc::clone(&log), Rc::clone(&log));
    let (worker, runtime) = (Rc::clone(&host), node.runtime());
    let work = async move {
        worker
            .work(Activity::FileSystem, 3 * TIME_SLICE_NS, 0)
            .await;
        note(&of_work, "worked", &runtime);
    };
    node.runtime().spawn("work", Box::pin(work));
    let (charged, runtime) = (Rc::clone(&host), node.runtime());
    let task = async move {
        sleep(&runtime, Duration::from_nanos(10)).await;
        charged.charge(Activity::Protocol, 1_000);
        note(&of_task, "charged", &runtime);
    };
    node.runtime().spawn("task", Box::pin(task));
    let faults = world.faults();
    world
        .run(async move { faults.sleep(Duration::from_millis(100)).await })
        .unwrap();
    let expected = [
        ("charged", TIME_SLICE_NS + 1_000),
        ("worked", 3 * TIME_SLICE_NS + 1_000),
    ];
    assert_eq!(*log.borrow(), expected);
}

#[test]
fn threads_wait_for_a_processor_in_order_and_behind_a_woken_task() {
    let (world, node, host) = machine(1);
    let log = Log::default();
    for name in ["first", "second"] {
        let (log, host, runtime) = (Rc::clone(&log), Rc::clone(&host), node.runtime());
        let task = async move {
            host.work(Activity::FileSystem, 10_000, 0).await;
            note(&log, name, &runtime);
        };
        node.runtime().spawn(name, Box::pin(task));
    }
    let (of_woken, charged, runtime) = (Rc::clone(&log), Rc::clone(&host), node.runtime());
    let woken = async move {
        sleep(&runtime, Duration::from_nanos(500)).await;
        charged.charge(Activity::Protocol, 1_000);
        note(&of_woken, "woken", &runtime);
    };
    node.runtime().spawn("woken", Box::pin(woken));
    let faults = world.faults();
    world
        .run(async move { faults.sleep(Duration::from_millis(1)).await })
        .unwrap();
    // Noted when it was charged, which is ahead of the clock.
    let expected = [("woken", 11_000), ("first", 10_000), ("second", 21_000)];
    assert_eq!(*log.borrow(), expected);
    let spent = host.usage().of(Activity::FileSystem);
    assert_eq!((spent.busy_ns, spent.waited_ns), (20_000, 11_000));
}

#[test]
fn copies_take_turns_at_the_memory_and_transfers_come_first() {
    let world = World::new(1);
    let mut profile = ORDINARY;
    profile.machine.cpus = constant(2);
    profile.machine.copy_bytes_per_s = constant(1_000_000_000);
    profile.machine.memory_bytes_per_s = constant(3_000_000_000);
    let nodes = ["near", "far"].map(|name| world.add_node(name));
    let [near, far] = nodes.clone().map(|node| Host::install(&node, &profile));
    // A third of the time that a copy of as much takes.
    near.transfer(&far, 3_000);
    let log = Log::default();
    let runtime = nodes[0].runtime();
    for name in ["first", "second"] {
        let (log, host, clock) = (Rc::clone(&log), Rc::clone(&near), Handle::clone(&runtime));
        let task = async move {
            host.work(Activity::Copy, 0, 5_000).await;
            note(&log, name, &clock);
        };
        runtime.spawn(name, Box::pin(task));
    }
    let faults = world.faults();
    world
        .run(async move { faults.sleep(Duration::from_millis(1)).await })
        .unwrap();
    assert_eq!(*log.borrow(), [("first", 6_000), ("second", 11_000)]);
    // Both processors were held.
    assert_eq!(near.usage().cpu_ns, 17_000);
    let spent = near.usage().of(Activity::Copy);
    assert_eq!((spent.busy_ns, spent.waited_ns), (10_000, 7_000));
}

#[test]
fn transfers_of_a_port_queue_up_and_directions_do_not() {
    let world = World::new(1);
    let mut profile = ORDINARY;
    profile.link.bytes_per_s = constant(1_000_000_000);
    profile.link.latency_ns = constant(2_000);
    let nodes = ["near", "far", "other"].map(|name| world.add_node(name));
    let [near, far, other] = nodes.map(|node| Host::install(&node, &profile));
    assert_eq!(near.transfer(&far, 1_000).arrives_at, 3_000);
    let second = near.transfer(&far, 1_000);
    assert_eq!((second.left_at, second.arrives_at), (2_000, 4_000));
    assert_eq!(
        far.transfer(&near, 1_000).arrives_at,
        3_000,
        "the way back is free"
    );
    let third = other.transfer(&far, 1_000);
    assert_eq!(
        (third.left_at, third.arrives_at),
        (1_000, 5_000),
        "the receiver's port"
    );
}

#[test]
fn a_shared_bus_slows_both_directions() {
    let world = World::new(1);
    let mut profile = ORDINARY;
    profile.link.bytes_per_s = constant(1_000_000_000);
    profile.link.latency_ns = constant(0);
    profile.adapter.dma_bytes_per_s = constant(1_000_000_000);
    profile.adapter.dma_shared = constant(1);
    let nodes = ["near", "far"].map(|name| world.add_node(name));
    let [near, far] = nodes.map(|node| Host::install(&node, &profile));
    assert_eq!(near.transfer(&far, 1_000).arrives_at, 1_000);
    assert_eq!(far.transfer(&near, 1_000).arrives_at, 2_000);
}
