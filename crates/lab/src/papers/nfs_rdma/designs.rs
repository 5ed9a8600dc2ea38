//! Section 6: the Read-Read and the Read-Write design, READ and WRITE on OpenSolaris (figures 5 and 6).

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{LARGE, MEMORY, SMALL, THREADS, at, client_cpu, load, mean, peak, rate};
use crate::experiment::nfs::{Operation, Outcome, Workload};
use crate::profiles::OPENSOLARIS;
use gannet_rpc::Design;

const SHORT: &str = "A READ by Read-Read takes a copy at the client, an RDMA Read and an \
     interrupt more. Next to the \
     2.2 GHz of the file system's copy these are a third; the paper has nearly half.";
/// A rise of a rate that is not modest any more.
const MODEST: f64 = 1.5;
/// The share from which two rates are not equal.
const EQUAL: f64 = 0.02;
const BUSY: &str = "Both designs end at the same bound here, the memory of the server. The paper's own error \
    (4.9 %) alone turns a ratio of 1 into 5 to 7 %.";

/// Both designs with records of one length.
struct Pair {
    read_read: Series,
    read_write: Series,
}

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    let small = pair(laboratory, Operation::Read, SMALL, rate)?;
    let large = pair(laboratory, Operation::Read, LARGE, rate)?;
    let writes = pair(laboratory, Operation::Write, SMALL, rate)?;
    let cpu = pair(laboratory, Operation::Read, SMALL, client_cpu)?;
    bandwidth(table, &small, &large);
    counts(laboratory, table)?;
    write_bandwidth(table, &writes);
    processor(table, &cpu);
    let lines = |pairs: [(&str, Pair); 2]| {
        let named = pairs.into_iter().flat_map(|(name, pair)| {
            let Pair {
                read_read,
                read_write,
            } = pair;
            [(read_read, "RR"), (read_write, "RW")].map(|(line, design)| Series {
                name: format!("{design} {name}"),
                points: line.points,
            })
        });
        named.collect()
    };
    Ok(vec![
        Figure {
            file: "nfs-rdma-designs",
            title: String::from("READ by Read-Read and by Read-Write, OpenSolaris (figure 5)"),
            x: "threads",
            y: "MB/s",
            series: lines([("128 KiB", small), ("1 MiB", large)]),
        },
        Figure {
            file: "nfs-rdma-designs-write",
            title: String::from("WRITE by Read-Read and by Read-Write, OpenSolaris (figure 6)"),
            x: "threads",
            y: "MB/s",
            series: vec![writes.read_read, writes.read_write],
        },
        Figure {
            file: "nfs-rdma-designs-cpu",
            title: String::from("Client CPU of READ, OpenSolaris (figure 5)"),
            x: "threads",
            y: "percent",
            series: vec![cpu.read_read, cpu.read_write],
        },
    ])
}

fn pair(
    laboratory: &mut Laboratory<'_>,
    operation: Operation,
    record_len: u32,
    y: impl Fn(&Outcome) -> f64,
) -> Result<Pair, Failure> {
    let mut line = |design, copies| {
        let workload = |threads| Workload {
            design,
            // Where the client reads, what it read is copied to the application.
            copies,
            record_len,
            ..load(operation, threads)
        };
        laboratory.line(design_name(design), &OPENSOLARIS, &THREADS, workload, &y)
    };
    let copies = u32::from(!operation.is_write());
    Ok(Pair {
        read_read: line(Design::ReadRead, copies)?,
        read_write: line(Design::ReadWrite, 0)?,
    })
}

fn design_name(design: Design) -> &'static str {
    match design {
        Design::ReadRead => "RR",
        Design::ReadWrite => "RW",
    }
}

fn bandwidth(table: &mut Table, small: &Pair, large: &Pair) {
    table.number(
        "6: READ, Read-Read saturates, records of 1 MiB",
        "MB/s",
        375.0,
        peak(&large.read_read),
        MEMORY,
    );
    table.number(
        "6: READ, Read-Write saturates, records of 1 MiB",
        "MB/s",
        400.0,
        peak(&large.read_write),
        MEMORY,
    );
    table.ratio(
        "6: READ, Read-Write over Read-Read, both saturated, records of 1 MiB",
        400.0 / 375.0,
        peak(&large.read_write) / peak(&large.read_read).max(1.0),
        BUSY,
    );
    let ahead = |threads| at(&small.read_write, threads) / at(&small.read_read, threads).max(1.0);
    table.ratio(
        "6: READ of 128 KiB, Read-Write over Read-Read, 1 thread",
        1.47,
        ahead(1),
        SHORT,
    );
    table.ratio(
        "6: READ of 128 KiB, Read-Write over Read-Read, 8 threads",
        1.05,
        ahead(8),
        BUSY,
    );
    let of_means = |pair: &Pair| mean(&pair.read_write) / mean(&pair.read_read).max(1.0);
    let least = of_means(small).min(of_means(large));
    table.ahead(
        "6: READ, Read-Write over Read-Read, means of 1 to 8 threads, lesser of both records",
        "Read-Write ahead with all records, less so with more threads",
        Shown::new("times", least),
        LEAST_DIFFERENCE,
        &[least, ahead(1) / ahead(8).max(0.01)],
        "Once both are bound by the server's processors, single numbers of threads may differ by \
        2 % either way.",
    );
    let (rising, earlier) = (
        peak(&large.read_write) / peak(&small.read_write).max(1.0),
        saturation(&small.read_read) - saturation(&small.read_write),
    );
    table.ahead(
        "6: READ, Read-Write, peak of 1 MiB over peak of 128 KiB",
        "rises with the record, modestly",
        Shown::new("times", rising),
        LEAST_DIFFERENCE,
        &[rising, MODEST / rising.max(0.01)],
        "Judged: less than half above.",
    );
    table.ahead(
        "6: READ of 128 KiB, threads to nine tenths of the peak, Read-Read less Read-Write",
        "Read-Write saturates earlier",
        Shown::new("threads", earlier),
        LEAST_DIFFERENCE,
        &[saturation(&small.read_read) / saturation(&small.read_write).max(1.0)],
        "",
    );
}

/// Counts that do not depend on any constant: messages and completions.
fn counts(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    for (design, name, messages, completions) in [
        (Design::ReadRead, "Read-Read", 3.0, 3.0),
        (Design::ReadWrite, "Read-Write", 2.0, 2.0),
    ] {
        let workload = Workload {
            design,
            copies: u32::from(design == Design::ReadRead),
            ..load(Operation::Read, 1)
        };
        let outcome = laboratory.run(&OPENSOLARIS, &workload)?;
        let (client, server) = (outcome.client_usage.events, outcome.server_usage.events);
        table.count(
            &format!("4 and 5: messages of a READ, {name}"),
            messages,
            outcome.each(client.messages + server.messages),
            "Call and reply; RDMA_DONE.",
        );
        table.count(
            &format!("4 and 5.1: completions that the server takes for a READ, {name}"),
            completions,
            outcome.each(server.completions),
            "The call's, the reply's; RDMA_DONE's.",
        );
        let (reads, writes) = (outcome.each(client.reads), outcome.each(server.writes));
        let (words, holds) = match design {
            Design::ReadRead => ("the client reads", reads > 0.9 && writes == 0.0),
            Design::ReadWrite => ("the server writes", writes > 0.9 && reads == 0.0),
        };
        table.order(
            &format!("4 and 5: RDMA operations of a READ, {name}"),
            words,
            Shown::new("each", reads + writes),
            holds,
            "",
        );
    }
    Ok(())
}

/// Threads that a line takes to nine tenths of its peak.
fn saturation(line: &Series) -> f64 {
    let enough = 0.9 * peak(line);
    let first = line.points.iter().find(|(_, y)| *y >= enough);
    first.map_or(0.0, |point| point.0)
}

fn write_bandwidth(table: &mut Table, writes: &Pair) {
    let apart = |threads| at(&writes.read_read, threads) / at(&writes.read_write, threads).max(1.0);
    let farthest = THREADS
        .into_iter()
        .map(|threads| (apart(threads) - 1.0).abs())
        .fold(0.0, f64::max);
    table.same(
        "6: WRITE of 128 KiB, one design over the other, most of 1 to 8 threads",
        "equal in both designs",
        EQUAL,
        1.0 + farthest,
        "",
    );
}

fn processor(table: &mut Table, cpu: &Pair) {
    let rows = [
        (
            "6: client CPU of READ, Read-Write, 1 thread",
            2.0,
            at(&cpu.read_write, 1),
            "Twice the paper's rate takes twice its processor.",
        ),
        (
            "6: client CPU of READ, Read-Write, 8 threads",
            5.0,
            at(&cpu.read_write, 8),
            "",
        ),
        (
            "6: client CPU of READ, Read-Read, 1 thread",
            4.0,
            at(&cpu.read_read, 1),
            "Twice the paper's rate takes twice its processor.",
        ),
        (
            "6: client CPU of READ, Read-Read, 8 threads",
            24.0,
            at(&cpu.read_read, 8),
            "",
        ),
    ];
    for (row, published, simulated, note) in rows {
        table.number(row, "percent", published, simulated, note);
    }
    let of = |line: &Series, threads| at(line, threads).max(0.01);
    table.ratio(
        "6: client CPU of READ, Read-Read over Read-Write, 8 threads",
        24.0 / 5.0,
        of(&cpu.read_read, 8) / of(&cpu.read_write, 8),
        "",
    );
    table.ratio(
        "6: client CPU of READ, Read-Read over Read-Write, 1 thread",
        4.0 / 2.0,
        of(&cpu.read_read, 1) / of(&cpu.read_write, 1),
        "One copy of 128 KiB at 1057 MB/s is 124 us, three times all else that this client does \
        for a READ. The paper's \
         two ratios, 2 and 4.8, differ by more than its bandwidths do.",
    );
    let more = THREADS.map(|threads| of(&cpu.read_read, threads) / of(&cpu.read_write, threads));
    table.ahead(
        "6: client CPU of READ, Read-Read over Read-Write, 8 threads, order",
        "Read-Write needs less at any number of threads",
        Shown::new(
            "times",
            at(&cpu.read_read, 8) / at(&cpu.read_write, 8).max(0.1),
        ),
        LEAST_DIFFERENCE,
        &more,
        "",
    );
}
