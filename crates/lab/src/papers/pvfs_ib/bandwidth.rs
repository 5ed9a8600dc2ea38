//! Sections 6.3, 6.4 and 6.6: bandwidth by nodes, with and without a disk, processors, pipelining.

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{last, line, rate, slope, transport_name};
use crate::experiment::Transport;
use crate::experiment::volume::{Access, Load};
use crate::profiles::PVFS_IB_DISK;
use gannet_volume::io_server::ServerPolicy;
use std::time::Duration;

const NODES: [u32; 4] = [1, 2, 3, 4];
/// Bytes that the server moves at a time, of 32 MiB in all.
const UNITS_KIB: [u32; 6] = [64, 128, 256, 512, 1024, 2048];
const OVERLAP: &str = "The file system's copy and the adapter overlap, as in section 4.2 (\"read 1 MB, then start a \
    1 MB RDMA write\"). So 1057 and 827 MB/s together leave some 750; one after the other they \
    would leave 464.";
const DISK: &str = "Only writing: the paper does not say from which cache it read.";
const TURNS: &str = "The simulated disk works beside the processors; on the testbed its driver \
     and TCP took turns for them, which \
     no primitive row describes. With one compute node what is written fits into the assumed \
     cache over RDMA, and not \
     into it over TCP.";
/// The share that is far above: ten times as much.
const FAR_ABOVE: f64 = 9.0;
/// Bytes of a stripe, and of a transfer: section 4.2.
const STRIPE: u32 = 64 << 10;

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    let mut figures = by_nodes(laboratory, table)?;
    disk(laboratory, table)?;
    figures.push(pipelining(laboratory, table)?);
    Ok(figures)
}

/// Each compute node moves 2 MiB for each I/O node, as pvfs-test does.
fn load(transport: Transport, writes: bool, io_nodes: usize, compute_nodes: usize) -> Load {
    Load {
        transport,
        writes,
        io_nodes,
        compute_nodes,
        // At most 8 MiB.
        access: Access::Contiguous(io_nodes as u32 * (2 << 20)),
        unit: STRIPE,
        server: ServerPolicy {
            read_piece: STRIPE,
            write_piece: STRIPE,
        },
        ..Load::default()
    }
}

fn by_nodes(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Vec<Figure>, Failure> {
    let mut compute = Vec::new();
    let mut io = Vec::new();
    let mut cpu = Vec::new();
    for transport in [Transport::Rdma, Transport::Tcp] {
        for writes in [false, true] {
            let name = format!(
                "{} {}",
                transport_name(transport),
                if writes { "write" } else { "read" }
            );
            let by_compute = |count| load(transport, writes, 4, count);
            compute.push(line(laboratory, &name, &NODES, by_compute, rate)?);
            let by_io = |count| load(transport, writes, count, 4);
            io.push(line(laboratory, &name, &NODES, by_io, rate)?);
            let percent =
                |outcome: &crate::experiment::volume::VolumeOutcome| 100.0 * outcome.client_cpu;
            cpu.push(line(laboratory, &name, &NODES, by_compute, percent)?);
        }
    }
    rates(table, &compute, &io);
    processors(table, &cpu);
    let figure = |file, title: &str, x, y, series| Figure {
        file,
        title: title.to_string(),
        x,
        y,
        series,
    };
    Ok(vec![
        figure(
            "pvfs-ib-compute-nodes",
            "Bandwidth with four I/O nodes (figures 7 and 8)",
            "compute nodes",
            "MB/s (2^20)",
            compute,
        ),
        figure(
            "pvfs-ib-io-nodes",
            "Bandwidth with four compute nodes (figures 7 and 8)",
            "I/O nodes",
            "MB/s (2^20)",
            io,
        ),
        figure(
            "pvfs-ib-cpu",
            "Processor of a compute node, four I/O nodes (figure 10)",
            "compute nodes",
            "percent of one processor",
            cpu,
        ),
    ])
}

fn rates(table: &mut Table, compute: &[Series], io: &[Series]) {
    let [read, write, tcp_read, tcp_write] = compute else {
        return;
    };
    let note = "The client's processor is the bound: copy, packets and interrupts of one process.";
    table.number(
        "6.3: TCP, reads, for each compute node",
        "MB/s",
        120.0,
        slope(tcp_read),
        note,
    );
    table.number(
        "6.3: TCP, writes, for each compute node",
        "MB/s",
        160.0,
        slope(tcp_write),
        "PVFS sends data right behind the request; here the server asks for each piece first.",
    );
    table.ahead(
        "6.3: TCP, writes over reads, for each compute node",
        "writes ahead of reads",
        Shown::new("times", slope(tcp_write) / slope(tcp_read).max(1.0)),
        LEAST_DIFFERENCE,
        &[slope(tcp_write) / slope(tcp_read).max(1.0)],
        "As above: a write waits for the server's request for its data here.",
    );
    let [io_read, io_write, ..] = io else {
        return;
    };
    table.number(
        "6.3: RDMA, reads by four compute nodes, for each I/O node",
        "MB/s",
        400.0,
        slope(io_read),
        OVERLAP,
    );
    table.number(
        "6.3: RDMA, writes by four compute nodes, for each I/O node",
        "MB/s",
        400.0,
        slope(io_write),
        "",
    );
    table.ahead(
        "6.3: RDMA, reads over writes, four and four nodes",
        "writes slightly less",
        Shown::new("times", last(read) / last(write).max(1.0)),
        LEAST_DIFFERENCE,
        &[last(read) / last(write).max(1.0)],
        "",
    );
    gains(table, [read, write, tcp_read, tcp_write]);
}

/// The gains of RDMA over TCP.
fn gains(table: &mut Table, [read, write, tcp_read, tcp_write]: [&Series; 4]) {
    let gain = last(read).max(last(write)) / last(tcp_read).max(last(tcp_write)).max(1.0);
    table.ratio(
        "abstract: RDMA over TCP, four and four nodes, the better of reads and writes",
        3.0,
        gain,
        "As the row of reads: the paper's 400 MB/s for each I/O node against ours.",
    );
    table.ratio(
        "6.3: RDMA over TCP, writes, four and four nodes",
        1600.0 / 640.0,
        last(write) / last(tcp_write).max(1.0),
        "From its increments: 400 for each I/O node, 160 for each compute node.",
    );
    table.ratio(
        "6.3: RDMA over TCP, reads, four and four nodes",
        1600.0 / 480.0,
        last(read) / last(tcp_read).max(1.0),
        "From its increments: 400 for each I/O node, 120 for each compute node.",
    );
    let both = [(read, tcp_read), (write, tcp_write)];
    let least = both
        .iter()
        .flat_map(|(rdma, tcp)| rdma.points.iter().zip(&tcp.points))
        .map(|(rdma, tcp)| rdma.1 / tcp.1.max(1.0))
        .fold(f64::INFINITY, f64::min);
    table.ahead(
        "6.3: RDMA over TCP, four I/O nodes, least of 1 to 4 compute nodes",
        "RDMA ahead everywhere",
        Shown::new("times", least),
        LEAST_DIFFERENCE,
        &[least],
        "",
    );
}

fn processors(table: &mut Table, cpu: &[Series]) {
    let highest = |line: &Series| line.points.iter().map(|it| it.1).fold(0.0, f64::max);
    let (rdma, tcp) = (
        highest(&cpu[0]).max(highest(&cpu[1])),
        highest(&cpu[2]).max(highest(&cpu[3])),
    );
    table.number(
        "6.4: client CPU over TCP, most of 1 to 4 compute nodes",
        "percent",
        91.0,
        tcp,
        "Of one processor; the paper does not say of how many its percentages are.",
    );
    table.number("6.4: client CPU over RDMA", "percent", 1.5, rdma, "");
    table.ahead(
        "6.4: client CPU, TCP over RDMA",
        "TCP far above",
        Shown::new("times", tcp / rdma.max(0.01)),
        FAR_ABOVE,
        &[tcp / rdma.max(0.01)],
        "Of one processor, as above. None of the costs of a request at the client was measured \
        by the paper.",
    );
    let ends = |line: &Series| (line.points.first().map_or(0.0, |it| it.1), last(line));
    let (alone, four) = ends(&cpu[2]);
    table.ahead(
        "6.4: client CPU of reads over TCP, 4 compute nodes over 1",
        "drops with more compute nodes",
        Shown::new("times", four / alone.max(0.01)),
        LEAST_DIFFERENCE,
        &[alone / four.max(0.01)],
        "",
    );
}

/// MPI-IO on ext3: four I/O nodes.
fn disk(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let nodes = if laboratory.is_short() {
        vec![4]
    } else {
        vec![1, 2, 3, 4]
    };
    let mut run = |transport, compute_nodes| {
        let load = Load {
            warm_up: 6,
            time: Duration::from_millis(1500),
            ..load(transport, true, 4, compute_nodes)
        };
        let outcome = laboratory.run_volume(&PVFS_IB_DISK, &load)?;
        Ok::<f64, Failure>(outcome.mib_per_s)
    };
    let (mut gains, mut four) = (Vec::new(), 0.0);
    for count in nodes {
        let (rdma, tcp) = (run(Transport::Rdma, count)?, run(Transport::Tcp, count)?);
        gains.push(rdma / tcp.max(1.0));
        four = rdma;
    }
    table.number(
        "6.4: RDMA on ext3, four compute nodes write",
        "MB/s",
        95.0,
        four,
        DISK,
    );
    let least = gains.iter().copied().fold(f64::INFINITY, f64::min);
    let most = gains.iter().copied().fold(0.0, f64::max);
    let row = "6.4: RDMA over TCP on ext3, writes, least of 1 to 4 compute nodes";
    table.ratio(row, 1.15, least, TURNS);
    let row = "6.4: RDMA over TCP on ext3, writes, most of 1 to 4 compute nodes";
    table.ratio(row, 1.42, most, TURNS);
    Ok(())
}

fn pipelining(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Figure, Failure> {
    let load = |kib: usize, writes| Load {
        io_nodes: 1,
        writes,
        access: Access::Contiguous(32 << 20),
        // Stripes do not cut what one server moves.
        unit: 4 << 20,
        server: ServerPolicy {
            read_piece: kib as u32 * 1024,
            write_piece: kib as u32 * 1024,
        },
        time: Duration::from_millis(100),
        ..Load::default()
    };
    let read = line(laboratory, "read", &UNITS_KIB, |kib| load(kib, false), rate)?;
    let write = line(laboratory, "write", &UNITS_KIB, |kib| load(kib, true), rate)?;
    for (name, line) in [("read", &read), ("write", &write)] {
        let best = line.points.iter().map(|it| it.1).fold(1.0, f64::max);
        let below = line.points.iter().filter(|it| it.0 < 2048.0);
        let least = below.map(|it| it.1 / best).fold(1.0, f64::min);
        table.same(
            &format!("6.6: 32 MB from one I/O node, {name}: units below 2 MB over the best, least"),
            "overlap fully",
            LEAST_DIFFERENCE,
            least,
            "",
        );
        let smallest = line.points.first().map_or(0.0, |it| it.1);
        table.ahead(
            &format!("6.6: 32 MB from one I/O node, {name}: units of 64 KiB over the best"),
            "slightly less with very small units",
            Shown::new("times", smallest / best),
            LEAST_DIFFERENCE,
            &[best / smallest.max(1.0)],
            "Several units are under way at once here, so that one's start-up is another's \
            transfer; PVFS's one thread \
             waited for each.",
        );
    }
    Ok(Figure {
        file: "pvfs-ib-pipelining",
        title: String::from("32 MB to and from one I/O node by the unit of transfer (figure 12)"),
        x: "KiB of a unit",
        y: "MB/s (2^20)",
        series: vec![read, write],
    })
}
