//! Sections 6.7 and 6.8: list I/O on tiles, and allocation hints.

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::transport_name;
use crate::experiment::Transport;
use crate::experiment::volume::{Access, Load, Rows, VolumeOutcome};
use crate::profiles::PVFS_IB;
use std::time::Duration;

/// A tile of 1024 times 768 elements.
const ROW_ELEMENTS: u32 = 1024;
const ROWS: u32 = 768;
const GAIN: &str = "As 6.3: the paper's RDMA is slower than the same parts are here, and its measurement did not \
    separate TCP from the file system.";
const HINTS: &str = "By section 5's numbers (120 us and 4.1 us a page), a parent of 96 MiB takes as long as 768 \
    rows of 64 KiB. That is 101 and 108 ms without deregistration, because rows and gaps are \
    long. Our cache keeps memory of powers of two, 128 MiB here. The paper's gain does not \
    follow from its primitive row.";
const THREE: &str =
    "Three times 32 MiB are registered, and 128 MiB of the one: our cache keeps powers of two.";
const ARRAY: &str = "The whole array is 192 MiB (256 as kept). Its registration takes twice as long, and pays if \
    other tiles of it are moved as well.";
const PART: &str = "A read comes to memory of its length, and registers none of the allocations.";

/// The share that is far ahead.
const FAR: f64 = 0.2;

/// All rows of a tile are the same; a sixth of them shows what a change does.
fn rows(laboratory: &Laboratory<'_>) -> u32 {
    if laboratory.is_short() {
        ROWS / 6
    } else {
        ROWS
    }
}

/// The part of a file that a process moves: rows of [`ROW_ELEMENTS`] elements.
#[derive(Debug, Clone, Copy)]
struct Tile {
    /// Number of rows.
    rows: u32,
    /// Bytes of an element.
    element_len: u32,
}

/// The paper's gains of RDMA over TCP, in times.
#[derive(Debug, Clone, Copy)]
struct PublishedGains {
    with_list: f64,
    without: f64,
}

const READ_GAINS: PublishedGains = PublishedGains {
    with_list: 2.7,
    without: 1.79,
};
const WRITE_GAINS: PublishedGains = PublishedGains {
    with_list: 2.2,
    without: 1.93,
};

fn load(transport: Transport, writes: bool, tile: Tile, how: Rows) -> Load {
    Load {
        transport,
        writes,
        compute_nodes: 4,
        access: Access::Rows {
            len: ROW_ELEMENTS * tile.element_len,
            count: tile.rows,
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
    let tile = Tile {
        rows: rows(laboratory),
        element_len: 24,
    };
    for (writes, name, published) in [(false, "read", READ_GAINS), (true, "write", WRITE_GAINS)] {
        let mut requests = Vec::new();
        let mut rate = |transport, how| {
            let load = load(transport, writes, tile, how);
            let outcome = laboratory.run_volume(&PVFS_IB, &load)?;
            requests.push((how, outcome.requests));
            Ok::<f64, Failure>(outcome.mib_per_s)
        };
        let (rdma, tcp) = (Transport::Rdma, Transport::Tcp);
        let (list, tcp_list) = (rate(rdma, Rows::Lists)?, rate(tcp, Rows::Lists)?);
        let (each, tcp_each) = (rate(rdma, Rows::Each)?, rate(tcp, Rows::Each)?);
        let rates = [list, tcp_list, each, tcp_each];
        gains(table, name, published, rates);
        let nested = rate(rdma, Rows::Nested)?;
        let row = format!("6.7: tiles, {name}, one nested shape over six lists, RDMA");
        let note = "The gain of a repeating shape over lists of 128 pieces.";
        table.beyond(
            &row,
            "within a tenth, or ahead",
            Shown::new("times", nested / list.max(1.0)),
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
            let note = "Half of the bytes that sieving moves are discarded.";
            let gain = list / sieve.max(1.0);
            let shown = Shown::new("times", gain);
            table.ahead(
                row,
                "list I/O ahead",
                shown,
                LEAST_DIFFERENCE,
                &[gain],
                note,
            );
            table.not_of_paper();
        }
        if !laboratory.is_short() {
            counts(table, name, &requests);
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

/// The gains of RDMA over TCP with list I/O and without, and of list I/O with RDMA.
fn gains(
    table: &mut Table,
    name: &str,
    published: PublishedGains,
    [list, tcp_list, each, tcp_each]: [f64; 4],
) {
    let row = format!("6.7: tiles, {name}, RDMA over TCP with list I/O");
    table.ratio(&row, published.with_list, list / tcp_list.max(1.0), GAIN);
    let row = format!("6.7: tiles, {name}, RDMA over TCP with a call for each row");
    table.ratio(&row, published.without, each / tcp_each.max(1.0), GAIN);
    let (with_list, without) = (list / tcp_list.max(1.0), each / tcp_each.max(1.0));
    let row = format!("6.7: tiles, {name}, RDMA over TCP, with list I/O less without");
    table.ahead(
        &row,
        "list I/O makes the gain of RDMA larger",
        Shown::new("times", with_list - without),
        LEAST_DIFFERENCE,
        &[with_list / without.max(0.01)],
        "",
    );
    let row = format!("6.7: tiles, {name}, list I/O over a call for each row, RDMA");
    table.ahead(
        &row,
        "list I/O far ahead",
        Shown::new("times", list / each.max(1.0)),
        FAR,
        &[list / each.max(1.0)],
        "",
    );
}

/// Requests for a tile: those of both ways are among `requests`.
fn counts(table: &mut Table, name: &str, requests: &[(Rows, f64)]) {
    for (how, published, what) in [
        (Rows::Lists, 6.0, "list I/O"),
        (Rows::Each, 768.0, "a call for each row"),
    ] {
        let asked = requests.iter().find(|(asked, _)| *asked == how);
        let row = format!("6.7: requests for a tile, {name}, {what}");
        table.count(&row, published, asked.map_or(0.0, |it| it.1), "");
    }
}

/// The notes of the rows on hints.
struct HintNotes {
    registrations: &'static str,
    array: &'static str,
    three: &'static str,
    each_of_three: &'static str,
}

impl HintNotes {
    fn of(writes: bool) -> HintNotes {
        if writes {
            HintNotes {
                registrations: "Six, five of them cached.",
                array: ARRAY,
                three: THREE,
                each_of_three: "Six requests, each of which names all three.",
            }
        } else {
            HintNotes {
                registrations: "Six requests. Each registers memory of its length.",
                array: PART,
                three: PART,
                each_of_three: "Six requests. Each registers memory of its length.",
            }
        }
    }
}

/// Elements of 64 bytes that lie apart in memory too.
fn hints(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let tile = Tile {
        rows: rows(laboratory),
        element_len: 64,
    };
    for (writes, name, published) in [(false, "read", 1.85), (true, "write", 1.71)] {
        let mut run = |how| {
            let load = Load {
                // Nothing of a tile is left from another one.
                warm_up: 0,
                ..load(Transport::Rdma, writes, tile, how)
            };
            laboratory.run_volume(&PVFS_IB, &load)
        };
        let each = run(Rows::ListsOfRows)?;
        let three = run(Rows::ListsInThreeParents)?;
        let (parent, whole) = (run(Rows::ListsInParent)?, run(Rows::ListsInWhole)?);
        let kept = run(Rows::ListsInKeptParent)?;
        let over_each = |it: VolumeOutcome| it.mib_per_s / each.mib_per_s.max(1.0);
        let row = format!("6.8: tiles in memory too, {name}, with allocation hints over without");
        table.ratio(&row, published, over_each(parent), HINTS);
        let row = format!("6.8: registrations for a tile, {name}, without hints");
        let note = "One for each row.";
        table.count(&row, f64::from(tile.rows), each.registrations, note);
        let row = format!("6.8: registrations for a tile, {name}, with hints");
        let notes = HintNotes::of(writes);
        table.count(&row, 1.0, parent.registrations, notes.registrations);
        let over_whole = parent.mib_per_s / whole.mib_per_s.max(1.0);
        table.ahead(
            &format!("5: {name}, covering part of the parent registered over the whole, one tile"),
            "the covering part ahead",
            Shown::new("times", over_whole),
            LEAST_DIFFERENCE,
            &[over_whole],
            notes.array,
        );
        table.not_of_paper();
        let three_over_one = three.mib_per_s / parent.mib_per_s.max(1.0);
        table.beyond(
            &format!("5: {name}, tile out of three allocations (figure 6b) over out of one"),
            "within a tenth, or ahead",
            Shown::new("times", three_over_one),
            three_over_one > 0.9,
            notes.three,
        );
        table.beyond(
            &format!("5: {name}, registrations for a tile out of three allocations"),
            "one for each allocation",
            Shown::new("each", three.registrations),
            three.registrations == 3.0,
            notes.each_of_three,
        );
        table.ahead(
            &format!("6.8: tiles in memory too, {name}, hints, memory registered before"),
            "hints ahead",
            Shown::new("times", over_each(kept)),
            FAR,
            &[over_each(kept)],
            "The allocation is registered once for many tiles. The paper's gain lies between the \
            two.",
        );
        table.not_of_paper();
    }
    Ok(())
}
