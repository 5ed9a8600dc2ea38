//! Not of the paper, which had eight machines: the same machines, up to 32.

use super::super::laboratory::Laboratory;
use super::super::row::{Shown, Table};
use super::super::{Failure, Figure, Series};
use super::{line, rate};
use crate::experiment::volume::{Access, End, Load};
use gannet_volume::client::TransferPolicy;
use std::time::Duration;

const IO_NODES: [u32; 5] = [1, 2, 4, 8, 16];

/// As many compute nodes as I/O nodes, each with a process that moves 16 MiB at a time, over all I/O nodes: 256 KiB for
/// each of 64. Only whole operations count, so all are measured for the same time, which is that of many of them.
/// Nothing goes by Fast RDMA, whose buffers on thousands of connections would be gigabytes of real memory.
fn load(io_nodes: usize, writes: bool) -> Load {
    Load {
        io_nodes,
        compute_nodes: io_nodes,
        writes,
        access: Access::Contiguous(16 << 20),
        policy: TransferPolicy {
            eager_max: 0,
            ..TransferPolicy::default()
        },
        time: Duration::from_millis(200),
        end: End::Time,
        ..Load::default()
    }
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Figure, Failure> {
    let mut lines = Vec::new();
    for (writes, name) in [(false, "read"), (true, "write")] {
        let scaled = line(
            laboratory,
            name,
            &IO_NODES,
            |count| load(count, writes),
            rate,
        )?;
        let alone = scaled.points.first().map_or(1.0, |it| it.1).max(1.0);
        for (count, rate) in scaled.points.iter().skip(1) {
            let share = rate / (count * alone);
            let row = format!(
                "scale: {name}, {count} I/O and compute nodes over 1 and 1, share of linear"
            );
            let note = "Eight machines were all it had.";
            table.beyond(
                &row,
                "at least 0.9 of linear",
                Shown::new("times", share),
                share >= 0.9,
                note,
            );
        }
        lines.push(scaled);
    }
    let linear = lines
        .first()
        .and_then(|line| line.points.first())
        .map(|first| Series {
            name: String::from("linear"),
            points: IO_NODES
                .map(|count| (f64::from(count), f64::from(count) * first.1))
                .to_vec(),
        });
    lines.extend(linear);
    Ok(Figure {
        file: "pvfs-ib-scale",
        title: String::from("Aggregate bandwidth with as many compute nodes as I/O nodes"),
        x: "I/O nodes",
        y: "MB/s (2^20)",
        series: lines,
    })
}
