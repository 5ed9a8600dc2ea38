//! Section 7: where the server's time goes in a READ on OpenSolaris (figure 10).
//!
//! An operation's time is from its call to the end of its deregistration: the file system, registering, the wire until
//! the adapter is done with the memory, deregistering, and what the processor does around them.
//!
//! The paper's server has a thread for each call, which waits within the registration for the adapter and a processor.
//! Here the calls of a connection register one after the other, and wait for their turn instead: what is left of the
//! client's latency when all else is taken off is that wait, and counts as registration.

use super::super::laboratory::Laboratory;
use super::super::row::{Published, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{LARGE, SMALL, THREADS, at, load, mean};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use crate::profiles::OPENSOLARIS;
use gannet_sim::nic::{Activity, Usage};

const SLEEPS: &str = "A call that registers sleeps until the adapter's interrupt, and then needs a processor. With \
    the paper's tmpfs (four fifths of an operation at any number of threads) the same time would \
    be a smaller part.";
const TMPFS: &str = "Here tmpfs takes a copy at 1057 MB/s and 8 us. The paper's takes four fifths of an \
    operation: at its rates some 30 us for each page. The cause is probably memory that is \
    mapped and touched for the first time. No paper has a primitive row for that.";

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
    shares(table, &registration, &file_system);
    revoking(table, &deregistration, &large);
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
        series: vec![registration, deregistration, file_system, protocol, wire],
    })
}

/// Percent of an operation's time at its server that an activity takes, waiting included.
fn percent(outcome: &Outcome, activity: Activity) -> f64 {
    let turn = wait_for_turn(outcome);
    let all: f64 = Activity::ALL
        .into_iter()
        .map(|it| elapsed(outcome, &outcome.server_usage, it))
        .sum();
    let own = elapsed(outcome, &outcome.server_usage, activity);
    let waited = if activity == Activity::Registration {
        turn
    } else {
        0.0
    };
    100.0 * (own + waited) / (all + turn).max(1.0)
}

/// Nanoseconds of an operation that an activity takes at a side, waiting included.
fn elapsed(outcome: &Outcome, usage: &Usage, activity: Activity) -> f64 {
    let (busy, waited) = outcome.per_operation(usage, activity);
    busy + waited
}

/// Nanoseconds for which an operation's data wait until other calls of the connection are registered. The server
/// deregisters when the client has its answer already; the client, before.
#[allow(clippy::cast_precision_loss)] // some microseconds
fn wait_for_turn(outcome: &Outcome) -> f64 {
    let at = |usage: &Usage, left_out: Activity| -> f64 {
        let counted = Activity::ALL.into_iter().filter(|it| *it != left_out);
        counted.map(|it| elapsed(outcome, usage, it)).sum()
    };
    let server = at(&outcome.server_usage, Activity::Deregistration);
    let client = at(&outcome.client_usage, Activity::Wire);
    let there_and_back = 2.0 * OPENSOLARIS.link.latency_ns.value as f64;
    (outcome.mean_latency_ns - server - client - there_and_back).max(0.0)
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
    table.order(
        "7: share of registration, READ of 128 KiB, 4 threads over 1 thread",
        "rises from 1 to 4 threads and falls to 8",
        Shown::new("times", four / one.max(0.1)),
        four > 2.0 * one && eight < four && eight > one,
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
    table.order(
        "7: share of deregistration, READ of 1 MiB over 128 KiB",
        "falls with the record",
        Shown::new("times", mean(large) / mean(small).max(0.01)),
        mean(large) < mean(small),
        "",
    );
}
