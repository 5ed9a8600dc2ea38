//! Sections 6.7 and 6.8: list I/O on tiles, and allocation hints.

use super::super::laboratory::Laboratory;
use super::super::row::Table;
use super::super::{Failure, Figure, Series};
use super::transport_name;
use crate::experiment::Transport;
use crate::experiment::volume::{Access, Load, Rows};
use crate::profiles::PVFS_IB;
use std::time::Duration;

/// A tile of 1024 times 768 elements.
const ROW_ELEMENTS: u32 = 1024;
const ROWS: u32 = 768;
const GAIN: &str = "RDMA's side is faster than the paper's, as in 6.3; its TCP was not told apart from its file \
     system.";
const HINTS: &str = "One of six requests registers the whole allocation, as in the paper. By section 5's 4.1 us a \
     page that costs as much as its rows one by one: they and the gaps between them are long.";
const KEPT: &str = "Not of the paper: the allocation is registered once for many tiles. The paper's gain lies between \
     the two.";

fn load(transport: Transport, writes: bool, element: u32, how: Rows) -> Load {
    Load {
        transport,
        writes,
        compute_nodes: 4,
        access: Access::Rows {
            len: ROW_ELEMENTS * element,
            count: ROWS,
            how,
        },
        time: Duration::from_millis(1),
        ..Load::default()
    }
}

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    let mut series = Vec::new();
    for (writes, name, with_list, without) in
        [(false, "read", 2.7, 1.79), (true, "write", 2.2, 1.93)]
    {
        let mut rate = |transport, how| {
            let outcome = laboratory.run_volume(&PVFS_IB, &load(transport, writes, 24, how))?;
            Ok::<f64, Failure>(outcome.mib_per_s)
        };
        let (rdma, tcp) = (Transport::Rdma, Transport::Tcp);
        let (list, tcp_list) = (rate(rdma, Rows::Lists)?, rate(tcp, Rows::Lists)?);
        let (each, tcp_each) = (rate(rdma, Rows::Each)?, rate(tcp, Rows::Each)?);
        let row = format!("6.7: tiles, {name}, RDMA over TCP with list I/O");
        table.number(&row, "times", with_list, list / tcp_list.max(1.0), GAIN);
        let row = format!("6.7: tiles, {name}, RDMA over TCP with a call for each row");
        table.number(&row, "times", without, each / tcp_each.max(1.0), GAIN);
        let row = format!("6.7: tiles, {name}, list I/O over a call for each row, RDMA");
        table.order(
            &row,
            "list I/O far ahead",
            ("times", list / each.max(1.0)),
            list > 1.2 * each,
            "",
        );
        let nested = rate(rdma, Rows::Nested)?;
        let row = format!("6.7: tiles, {name}, one nested shape over six lists, RDMA");
        let note = "Not of the paper: what a shape that repeats adds to lists of 128 pieces.";
        table.order(
            &row,
            "within a tenth, or ahead",
            ("times", nested / list.max(1.0)),
            nested > 0.9 * list,
            note,
        );
        for (transport, list, each) in [(rdma, list, each), (tcp, tcp_list, tcp_each)] {
            series.push(Series {
                name: format!("{} {name}", transport_name(transport)),
                points: vec![(1.0, each), (2.0, list)],
            });
        }
        if !writes {
            let sieve = rate(rdma, Rows::Sieve)?;
            let row = "6.7: tiles, read, list I/O over data sieving, RDMA";
            let note = "Not of the paper. Half of what sieving moves is thrown away.";
            table.order(
                row,
                "list I/O ahead",
                ("times", list / sieve.max(1.0)),
                list > sieve,
                note,
            );
        }
    }
    hints(laboratory, table)?;
    Ok(vec![Figure {
        file: "pvfs-ib-tiles",
        title: String::from("Tiles: 1 a call for each row, 2 list I/O (figure 13)"),
        x: "way",
        y: "MB/s (2^20)",
        series,
    }])
}

/// Elements of 64 bytes that lie apart in memory too.
fn hints(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    for (writes, name, published) in [(false, "read", 85.0), (true, "write", 71.0)] {
        let mut rate = |how| {
            let load = Load {
                // The paper's tile is six times as high; all of it is the same.
                access: Access::Rows {
                    len: ROW_ELEMENTS * 64,
                    count: ROWS / 6,
                    how,
                },
                ..load(Transport::Rdma, writes, 64, how)
            };
            let outcome = laboratory.run_volume(&PVFS_IB, &load)?;
            Ok::<f64, Failure>(outcome.mib_per_s)
        };
        let each = rate(Rows::ListsOfRegistered)?.max(1.0);
        let gain = |parent: f64| 100.0 * (parent / each - 1.0);
        let (fresh, kept) = (rate(Rows::ListsInParent)?, rate(Rows::ListsInKeptParent)?);
        let row = format!("6.8: tiles in memory too, {name}, gain of allocation hints");
        table.number(&row, "percent", published, gain(fresh), HINTS);
        let row =
            format!("6.8: tiles in memory too, {name}, gain of hints, memory registered before");
        table.order(
            &row,
            "hints ahead",
            ("percent", gain(kept)),
            gain(kept) > 20.0,
            KEPT,
        );
    }
    Ok(())
}
