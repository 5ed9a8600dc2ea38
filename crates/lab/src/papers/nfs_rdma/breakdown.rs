//! Section 7: where the server's time goes in a READ on OpenSolaris (figure 10).
//!
//! An operation's time is from its call to the end of its deregistration: the file system, registering, the wire until
//! the adapter is done with the memory, deregistering, and what the processor does around them.
//!
//! Each part is measured where it is spent, with the wait for a processor, the adapter or the link in it. The paper's
//! server has a thread for each call, which waits within the registration. Here the calls of a connection register one
//! after the other. Nothing measures the wait for that turn, so it is in no part: it is unknown. Parts of one operation
//! that run at the same time are counted in full, and rows state how much they exceed its time.

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Published, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{LARGE, SMALL, THREADS, at, load, mean, registration};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use crate::profiles::{LINUX, OPENSOLARIS};
use gannet_fabric::registration::{Registration, StrategyKind};
use gannet_sim::nic::{Activity, Usage};

const SLEEPS: &str = "A call that registers sleeps until the adapter's interrupt, and then needs a processor. With \
    the paper's tmpfs (four fifths of an operation at any number of threads) the same time would \
    be a smaller part.";
const TMPFS: &str = "Here tmpfs takes a copy at 1057 MB/s and 8 us. The paper's takes four fifths of an \
    operation: at its rates some 30 us for each page. The cause is probably memory that is \
    mapped and touched for the first time. No paper has a primitive row for that.";

const PARTS: &str = "Above 1, parts of one record run at the same time: on Linux it is four calls at once. Below 1, \
    waits are unknown.";

pub(super) fn run(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Figure, Failure> {
    let mut share = |activity: Activity, record_len| {
        let workload = |threads| Workload {
            record_len,
            ..load(Operation::Read, threads)
        };
        let y = |outcome: &Outcome| percent(outcome, activity);
        laboratory.line(activity.name(), &OPENSOLARIS, &THREADS, workload, y)
    };
    let registration = share(Activity::Registration, SMALL)?;
    let deregistration = share(Activity::Deregistration, SMALL)?;
    let large = share(Activity::Deregistration, LARGE)?;
    let file_system = share(Activity::FileSystem, SMALL)?;
    let protocol = share(Activity::Protocol, SMALL)?;
    let wire = share(Activity::Wire, SMALL)?;
    let unknown = laboratory.line(
        "unknown (below 0: overlap)",
        &OPENSOLARIS,
        &THREADS,
        |threads| load(Operation::Read, threads),
        unknown,
    )?;
    shares(table, &registration, &file_system);
    revoking(table, &deregistration, &large);
    sums(laboratory, table)?;
    let alone = laboratory.run(&OPENSOLARIS, &load(Operation::Read, 1))?;
    table.judge(
        "7: registration and deregistration at the client, READ of 128 KiB, 1 thread",
        "percent",
        Published::Below(0.1),
        of_client(&alone),
        "0.1 % of the operation would be 1 us. The same adapter and driver take 70 us to \
        register and deregister at \
         the server, and the paper's client registers as well.",
    );
    Ok(Figure {
        file: "nfs-rdma-breakdown",
        title: String::from(
            "Share of the server's time in a READ of 128 KiB, OpenSolaris (figure 10)",
        ),
        x: "threads",
        y: "percent",
        series: vec![
            registration,
            deregistration,
            file_system,
            protocol,
            wire,
            unknown,
        ],
    })
}

/// How much of an operation's time the parts account for.
fn sums(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    // The kernel of Linux registers nothing at the server.
    let of_linux = registration(StrategyKind::AllPhysical);
    for (profile, name, server) in [
        (&OPENSOLARIS, "OpenSolaris", Registration::default()),
        (&LINUX, "Linux", of_linux),
    ] {
        for operation in [Operation::Read, Operation::Write] {
            let verb = if operation.is_write() {
                "WRITE"
            } else {
                "READ"
            };
            for threads in [1, 8] {
                let workload = Workload {
                    server,
                    ..load(operation, threads)
                };
                let outcome = laboratory.run(profile, &workload)?;
                let row = format!(
                    "7: parts of both sides over the time of a {verb} of 128 KiB, {threads} threads, {name}"
                );
                table.same(
                    &row,
                    "the parts are the whole",
                    LEAST_DIFFERENCE,
                    known(&outcome),
                    PARTS,
                );
                table.not_of_paper();
            }
        }
    }
    Ok(())
}

/// Percent of an operation's time at its server that an activity takes, waiting included.
fn percent(outcome: &Outcome, activity: Activity) -> f64 {
    100.0 * elapsed(outcome, &outcome.server_usage, activity) / time_at_server(outcome)
}

/// Percent of an operation's time at its server that no activity accounts for. Below 0 where activities of one
/// operation overlap.
fn unknown(outcome: &Outcome) -> f64 {
    let known = Activity::ALL.map(|activity| percent(outcome, activity));
    100.0 - known.iter().sum::<f64>()
}

/// Nanoseconds of an operation that an activity takes at a side, waiting included.
fn elapsed(outcome: &Outcome, usage: &Usage, activity: Activity) -> f64 {
    let (busy, waited) = outcome.per_operation(usage, activity);
    busy + waited
}

/// Nanoseconds of an operation that all activities of a side take together, waiting included.
fn all_elapsed(outcome: &Outcome, usage: &Usage) -> f64 {
    let each = Activity::ALL.map(|activity| elapsed(outcome, usage, activity));
    each.iter().sum()
}

/// Nanoseconds of an operation on the link, there and back.
#[allow(clippy::cast_precision_loss)] // some microseconds
fn in_flight() -> f64 {
    2.0 * OPENSOLARIS.link.latency_ns.value as f64
}

/// Nanoseconds from an operation's begin to the end of its deregistration, for which its client does not wait.
fn time(outcome: &Outcome) -> f64 {
    let behind = elapsed(outcome, &outcome.server_usage, Activity::Deregistration);
    outcome.mean_latency_ns + behind
}

/// The part of an operation's time that is neither its client's nor the link's.
fn time_at_server(outcome: &Outcome) -> f64 {
    let elsewhere = all_elapsed(outcome, &outcome.client_usage) + in_flight();
    (time(outcome) - elsewhere).max(1.0)
}

/// The parts of an operation at both sides and on the link, over its time. Above 1 they overlap, below it some are
/// unknown.
fn known(outcome: &Outcome) -> f64 {
    let both = [&outcome.client_usage, &outcome.server_usage];
    let both = both.map(|usage| all_elapsed(outcome, usage));
    (both[0] + both[1] + in_flight()) / time(outcome).max(1.0)
}

/// Percent of an operation, as the client sees it, that its own registration takes.
fn of_client(outcome: &Outcome) -> f64 {
    let usage = &outcome.client_usage;
    let each = [Activity::Registration, Activity::Deregistration];
    let each = each.map(|activity| elapsed(outcome, usage, activity));
    100.0 * each.iter().sum::<f64>() / outcome.mean_latency_ns.max(1.0)
}

fn shares(table: &mut Table, registration: &Series, file_system: &Series) {
    for (threads, published) in [(1, 5.0), (4, 24.0), (8, 16.0)] {
        let row = format!("7: share of registration, READ of 128 KiB, {threads} threads");
        table.number(
            &row,
            "percent",
            published,
            at(registration, threads),
            SLEEPS,
        );
    }
    let (one, four, eight) = (
        at(registration, 1),
        at(registration, 4),
        at(registration, 8),
    );
    table.ahead(
        "7: share of registration, READ of 128 KiB, 4 threads over 1 thread",
        "rises from 1 to 4 threads and falls to 8",
        Shown::new("times", four / one.max(0.1)),
        LEAST_DIFFERENCE,
        &[
            four / one.max(0.1),
            four / eight.max(0.1),
            eight / one.max(0.1),
        ],
        "",
    );
    for (threads, published) in [(1, 83.0), (8, 79.0)] {
        let row = format!("7: share of the file system, READ of 128 KiB, {threads} threads");
        table.number(&row, "percent", published, at(file_system, threads), TMPFS);
    }
}

fn revoking(table: &mut Table, small: &Series, large: &Series) {
    table.judge(
        "7: share of deregistration, READ of 128 KiB, mean of 1 to 8 threads",
        "percent",
        Published::Between(1.0, 2.0),
        mean(small),
        "The command is half as long as those that register, and its caller must get a \
            processor back as well.",
    );
    table.judge(
        "7: share of deregistration, READ of 1 MiB, mean of 1 to 8 threads",
        "percent",
        Published::Below(1.0),
        mean(large),
        "Waiting for a processor behind operations of 5 ms.",
    );
    table.ahead(
        "7: share of deregistration, READ of 1 MiB over 128 KiB",
        "falls with the record",
        Shown::new("times", mean(large) / mean(small).max(0.01)),
        LEAST_DIFFERENCE,
        &[mean(small) / mean(large).max(0.01)],
        "",
    );
}
