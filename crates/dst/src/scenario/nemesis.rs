//! The faults of a run, and their times.

use super::Stage;
use super::plan::Crashes;
use super::server::TCP_PORTS;
use gannet_sim::Crash;
use gannet_sim::Random;
use gannet_sim::store::DiskProfile;
use std::time::Duration;

/// The duration of a long fault, in nanoseconds: beyond every deadline of a connection, and often beyond the reply
/// cache.
const OUTLASTING_NS: (u64, u64) = (50_000_000_000, 150_000_000_000);
/// The number of long faults, of a thousand, in a simulation that has some.
const OUTLASTING_PER_MILLE: u64 = 300;

/// How far a wall clock jumps, in seconds.
const CLOCK_JUMP_MAX_S: u64 = 86_400;

/// Injects faults until the plan's events are used up or the workers are done.
pub(super) async fn torment(stage: &Stage) {
    let random = Random::new(stage.plan.events).fork(&format!("nemesis {:?}", stage.plan.links));
    for _ in 0..stage.plan.events {
        pause(stage, &random, 1_500_000_000).await;
        if stage.busy.get() == 0 || stage.failed().is_some() {
            return;
        }
        stage.count(|summary| summary.faults += 1);
        match random.below(12) {
            0..=3 => {
                stage.faults.reset_a_connection(stage.server.id());
            }
            4..=5 => partition(stage, &random).await,
            6 => slow_disk(stage, &random).await,
            8 if stage.plan.crc => {
                stage.faults.flip_a_bit(stage.server.id(), &TCP_PORTS);
            }
            9 => set_a_clock(stage, &random),
            7 if stage.plan.long_faults => freeze(stage, &random).await,
            _ if stage.plan.crashes == Crashes::Sometimes => crash(stage, &random).await,
            _ => {
                stage.faults.reset_a_connection(stage.client.id());
            }
        }
    }
}

async fn pause(stage: &Stage, random: &Random, longest_ns: u64) {
    let wait = random.between(1_000_000, longest_ns);
    stage.faults.sleep(Duration::from_nanos(wait)).await;
}

async fn partition(stage: &Stage, random: &Random) {
    let (one, other) = (stage.client.id(), stage.server.id());
    stage.faults.partition(one, other);
    outage(stage, random, 30_000_000_000).await;
    stage.faults.heal(one, other);
}

/// The server or the client stands still for a while.
async fn freeze(stage: &Stage, random: &Random) {
    let node = if random.chance(500) {
        stage.server.id()
    } else {
        stage.client.id()
    };
    stage.faults.freeze(node);
    outage(stage, random, 5_000_000_000).await;
    stage.faults.thaw(node);
}

/// Waits while a fault lasts: up to `longest_ns`, or longer than a client waits for any reply.
async fn outage(stage: &Stage, random: &Random, longest_ns: u64) {
    if !(stage.plan.long_faults && random.chance(OUTLASTING_PER_MILLE)) {
        return pause(stage, random, longest_ns).await;
    }
    let (least, most) = OUTLASTING_NS;
    let wait = Duration::from_nanos(random.between(least, most));
    stage.faults.note(format_args!("for {} s", wait.as_secs()));
    stage.faults.sleep(wait).await;
}

/// The wall clock of a machine jumps, by up to a day. NFS takes times from the server's and waits by no wall clock.
fn set_a_clock(stage: &Stage, random: &Random) {
    let node = if random.chance(500) {
        stage.server.id()
    } else {
        stage.client.id()
    };
    let ahead = random.below(2 * CLOCK_JUMP_MAX_S + 1) as i64 - CLOCK_JUMP_MAX_S as i64;
    stage.faults.set_clock(node, ahead);
}

async fn slow_disk(stage: &Stage, random: &Random) {
    stage.disk.set_profile(DiskProfile {
        slow_per_mille: 1000,
        delay_max_ns: 2_000_000_000,
        ..stage.plan.disk
    });
    pause(stage, random, 10_000_000_000).await;
    stage.disk.set_profile(stage.plan.disk);
}

async fn crash(stage: &Stage, random: &Random) {
    let how = if random.chance(500) {
        Crash::Process
    } else {
        Crash::Power
    };
    // The number is even now, so a request with a later reply sees that the server crashed meanwhile.
    stage.incarnation.set(stage.incarnation.get() + 1);
    stage.faults.crash(stage.server.id(), how);
    if how == Crash::Power {
        stage.disk.crash();
    }
    pause(stage, random, 8_000_000_000).await;
    stage.faults.restart(stage.server.id());
    stage.start_server();
}
