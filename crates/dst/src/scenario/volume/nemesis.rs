//! The faults of a volume, and their times.

use super::Stage;
use crate::scenario::server::TCP_PORTS;
use gannet_sim::Crash;
use gannet_sim::Node;
use gannet_sim::Random;
use gannet_sim::store::DiskProfile;
use gannet_volume::limits::CLOCK_SKEW_MAX;
use std::rc::Rc;
use std::time::Duration;

/// The interval between two looks for a worker that asks for a fault.
const LOOK_OUT: Duration = Duration::from_millis(1);
/// The first port that a system picks.
const EPHEMERAL_PORT: u16 = 32_768;
/// The longest pause between the starts of two servers.
const START_PAUSE_NS: u64 = 1_000_000_000;
/// The first of the numbers that select a crash of an I/O server.
const IO_SERVER_DIES: u64 = 2;
/// The duration of a long fault, in nanoseconds: longer than [`gannet_volume::limits::LOCK_LEASE`], and up to twice
/// [`gannet_volume::limits::CAPABILITY_AGE`].
const OUTLASTING_NS: (u64, u64) = (50_000_000_000, 120_000_000_000);
/// The number of long faults, of a thousand, in a simulation that has some.
const OUTLASTING_PER_MILLE: u64 = 250;

/// Starts the servers in some order, perhaps with pauses.
pub(super) async fn start(stage: &Rc<Stage>, random: &Random) {
    let count = stage.bed.io_servers.len();
    // The number after the last I/O server's is the manager's.
    let mut left: Vec<usize> = (0..=count).collect();
    let with_pauses = random.chance(500);
    while !left.is_empty() {
        match left.swap_remove(random.index(left.len())) {
            manager if manager == count => stage.bed.start_manager(),
            number => stage.bed.start_io_server(number),
        }
        if with_pauses {
            pause(stage, random, START_PAUSE_NS).await;
        }
    }
}

/// Injects faults until the plan's events are used up or all workers are done.
pub(super) async fn torment(stage: &Rc<Stage>, random: &Random) {
    for _ in 0..stage.plan.events {
        let strikes = lurk(stage, random).await;
        if stage.seats.iter().all(super::Seat::is_done) || stage.failed().is_some() {
            return;
        }
        stage.count(|summary| summary.faults += 1);
        let event = if strikes {
            IO_SERVER_DIES
        } else {
            random.below(21)
        };
        match event {
            0..=1 => {
                stage.bed.kill_manager(how(random));
                outage(stage, random, 3_000_000_000).await;
                stage.faults.restart(stage.bed.manager.id());
                stage.bed.start_manager();
            }
            IO_SERVER_DIES..=4 if stage.plan.copies && random.chance(400) => {
                kill_with_copies(stage, random).await;
            }
            IO_SERVER_DIES..=4 => {
                let number = random.index(stage.bed.io_servers.len());
                stage.bed.kill_io_server(number, how(random));
                outage(stage, random, 3_000_000_000).await;
                stage.faults.restart(stage.bed.io_servers[number].node.id());
                if random.chance(300) {
                    stage.bed.start_io_server_at(number, another_port(random))
                } else {
                    stage.bed.start_io_server(number)
                }
            }
            5 => {
                let number = random.index(stage.clients.len());
                stage.faults.crash(stage.clients[number].id(), how(random));
                // Messages that it sent before may still be under way when it is back.
                outage(stage, random, 3_000_000_000).await;
                stage.faults.restart(stage.clients[number].id());
                stage.start_client(number);
            }
            6 => partition(stage, random).await,
            7 if stage.plan.full && random.chance(300) => stage.bed.fill_metadata(true),
            7 if stage.plan.full => spoil_a_disk(stage, random, full),
            8 => spoil_a_disk(stage, random, slow),
            9 => set_disks(stage, stage.plan.disk),
            10 if stage.gateway.is_some() => restart_gateway(stage, random).await,
            12 => isolate(stage, random).await,
            13 => freeze(stage, random).await,
            14..=16 => page_out(stage, random).await,
            17 => cut_the_manager_off(stage, random).await,
            18 => spoil_a_disk(stage, random, failing),
            // A write at an I/O server whose clock is behind another's leaves the file's time as it is.
            19 if stage.plan.has_pages_by_nfs() => {}
            19 => set_a_clock(stage, random),
            20 if stage.plan.iwarp => {
                let node = a_node(stage, random).id();
                stage.faults.flip_a_bit(node, &TCP_PORTS);
            }
            _ => {
                stage.faults.reset_a_connection(a_node(stage, random).id());
            }
        }
    }
}

/// A port as the system picks it for a server that asks for none.
fn another_port(random: &Random) -> u16 {
    EPHEMERAL_PORT + random.index(1 << 12) as u16
}

/// Crashes the NFS server and starts it again. A power failure makes no difference, since it keeps no data.
async fn restart_gateway(stage: &Stage, random: &Random) {
    let Some(gateway) = &stage.gateway else {
        return;
    };
    stage.faults.crash(gateway.node.id(), how(random));
    outage(stage, random, 3_000_000_000).await;
    stage.faults.restart(gateway.node.id());
    gateway.start(stage);
}

/// Takes I/O servers of a volume with copies down: two at a time, one for so long that another takes over, or one with
/// its disk.
async fn kill_with_copies(stage: &Stage, random: &Random) {
    let count = stage.bed.io_servers.len();
    let first = random.index(count);
    let mut down = vec![first];
    let loses_disk = random.chance(300) && stage.bed.group_that_lacks_a_copy().is_none();
    if !loses_disk && random.chance(400) {
        down.push((first + 1 + random.index(count - 1)) % count);
    }
    for number in &down {
        stage.bed.kill_io_server(*number, how(random));
        pause(stage, random, 100_000_000).await;
    }
    outage(stage, random, 8_000_000_000).await;
    for number in down {
        stage.faults.restart(stage.bed.io_servers[number].node.id());
        // Otherwise the other members may have failed meanwhile, and have less than this one.
        if loses_disk && stage.bed.is_replaced(number as u32) {
            stage.bed.start_on_a_new_disk(number);
        } else {
            stage.bed.start_io_server(number);
        }
        pause(stage, random, 1_000_000_000).await;
    }
}

/// Waits for the time of the next fault; true if a worker asks for a crash of an I/O server now.
async fn lurk(stage: &Stage, random: &Random) -> bool {
    let Some(_) = &stage.plan.mounts else {
        pause(stage, random, 500_000_000).await;
        return false;
    };
    let until = stage.faults.now_ns() + random.between(100_000, 500_000_000);
    while stage.faults.now_ns() < until {
        stage.faults.sleep(LOOK_OUT).await;
        if stage.strike.take() {
            return true;
        }
    }
    false
}

async fn pause(stage: &Stage, random: &Random, longest_ns: u64) {
    let wait = random.between(100_000, longest_ns);
    stage.faults.sleep(Duration::from_nanos(wait)).await;
}

/// Waits while a fault lasts: up to `longest_ns`, or longer than every lease and deadline.
async fn outage(stage: &Stage, random: &Random, longest_ns: u64) {
    if !(stage.plan.long_faults && random.chance(OUTLASTING_PER_MILLE)) {
        return pause(stage, random, longest_ns).await;
    }
    let (least, most) = OUTLASTING_NS;
    let wait = Duration::from_nanos(random.between(least, most));
    stage.faults.note(format_args!("for {} s", wait.as_secs()));
    stage.faults.sleep(wait).await;
}

fn how(random: &Random) -> Crash {
    if random.chance(700) {
        Crash::Process
    } else {
        Crash::Power
    }
}

fn all_nodes(stage: &Stage) -> Vec<&Node> {
    let io_servers = stage.bed.io_servers.iter().map(|it| &it.node);
    let gateway = stage.gateway.iter().map(|it| &it.node);
    let servers = io_servers.chain([&stage.bed.manager]).chain(gateway);
    servers.chain(&stage.clients).collect()
}

/// Any machine.
fn a_node<'a>(stage: &'a Stage, random: &Random) -> &'a Node {
    let nodes = all_nodes(stage);
    nodes[random.index(nodes.len())]
}

/// Cuts a machine off from all others.
async fn isolate(stage: &Stage, random: &Random) {
    let one = a_node(stage, random).id();
    let others = all_nodes(stage).into_iter().map(Node::id);
    let others: Vec<_> = others.filter(|other| *other != one).collect();
    others
        .iter()
        .for_each(|other| stage.faults.partition(one, *other));
    outage(stage, random, 2_000_000_000).await;
    others
        .iter()
        .for_each(|other| stage.faults.heal(one, *other));
}

/// Cuts the manager off from all I/O servers, while clients reach it and them.
async fn cut_the_manager_off(stage: &Stage, random: &Random) {
    let manager = stage.bed.manager.id();
    let servers: Vec<_> = stage.bed.io_servers.iter().map(|it| it.node.id()).collect();
    (servers.iter()).for_each(|server| stage.faults.partition(manager, *server));
    outage(stage, random, 4_000_000_000).await;
    (servers.iter()).for_each(|server| stage.faults.heal(manager, *server));
}

/// Takes all page cache, or some pages, from I/O servers; perhaps again and again for a while.
async fn page_out(stage: &Stage, random: &Random) {
    for _ in 0..[1, 1, 20][random.index(3)] {
        let all = random.chance(300);
        let per_mille = random.between(1, 1000);
        let some = stage.bed.io_servers.iter();
        let some = some.filter(|_| all || random.chance(500));
        some.for_each(|it| it.disk.page_out(if all { 1000 } else { per_mille }));
        pause(stage, random, 5_000_000).await;
    }
}

/// Freezes a machine for a while and lets it go on.
async fn freeze(stage: &Stage, random: &Random) {
    let node = a_node(stage, random).id();
    stage.freezes.set(stage.freezes.get() + 1);
    stage.faults.freeze(node);
    let longest = if stage.plan.copies {
        6_000_000_000
    } else {
        2_000_000_000
    };
    outage(stage, random, longest).await;
    stage.faults.thaw(node);
    stage.freezes.set(stage.freezes.get() + 1);
}

async fn partition(stage: &Stage, random: &Random) {
    let (one, other) = (a_node(stage, random).id(), a_node(stage, random).id());
    stage.faults.partition(one, other);
    outage(stage, random, 2_000_000_000).await;
    stage.faults.heal(one, other);
}

/// Gives a disk a faulty profile, beside all other faults, until disks are set back.
fn spoil_a_disk(stage: &Stage, random: &Random, how: fn(&Random, DiskProfile) -> DiskProfile) {
    let number = random.index(stage.bed.io_servers.len());
    let disk = &stage.bed.io_servers[number].disk;
    disk.set_profile(how(random, stage.plan.disk));
}

fn full(_: &Random, usual: DiskProfile) -> DiskProfile {
    DiskProfile {
        no_space_per_mille: 1000,
        ..usual
    }
}

fn slow(random: &Random, usual: DiskProfile) -> DiskProfile {
    DiskProfile {
        slow_per_mille: 1000,
        delay_max_ns: random.between(50_000_000, 3_000_000_000),
        ..usual
    }
}

fn failing(random: &Random, usual: DiskProfile) -> DiskProfile {
    DiskProfile {
        io_errors_per_mille: random.between(1, 1000),
        ..usual
    }
}

/// The wall clock of a machine jumps, so far that no two differ by more than [`CLOCK_SKEW_MAX`].
fn set_a_clock(stage: &Stage, random: &Random) {
    let most = CLOCK_SKEW_MAX.as_secs() / 2;
    let ahead = random.below(2 * most + 1) as i64 - most as i64;
    stage.faults.set_clock(a_node(stage, random).id(), ahead);
}

fn set_disks(stage: &Stage, profile: DiskProfile) {
    stage.bed.fill_metadata(false);
    for io_server in &stage.bed.io_servers {
        io_server.disk.set_profile(profile);
    }
}

/// Ends all faults. The tasks that took servers down have started them again before.
pub(super) fn heal(stage: &Stage) {
    let profile = DiskProfile {
        slow_per_mille: stage.plan.disk.slow_per_mille,
        delay_max_ns: stage.plan.disk.delay_max_ns.min(1_000_000),
        ..DiskProfile::default()
    };
    set_disks(stage, profile);
    stage.faults.note(format_args!("healed"));
    stage.healed.set(true);
}
