//! Section 5.1, figure 2: static and dynamic registration, a message of the file's length at a time.

use super::super::laboratory::Laboratory;
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure};
use super::{Axes, READS, VISIBLE, figure, line, rate, rises};
use crate::experiment::serving::{Pipes, ServingLoad};
use crate::profiles::SENDFILE_IB;
use gannet_datapath::Engine;

/// Bytes of a message.
pub(super) const SIZES: [usize; 13] = [
    4 << 10,
    8 << 10,
    16 << 10,
    32 << 10,
    64 << 10,
    128 << 10,
    256 << 10,
    512 << 10,
    1 << 20,
    2 << 20,
    4 << 20,
    8 << 20,
    16 << 20,
];
/// The file sizes whose order is judged.
const RISING: [usize; 4] = [16 << 10, 64 << 10, 1 << 20, 16 << 20];
/// Static buffers are good up to here.
const GOOD_MAX: usize = 64 << 10;
/// Share of its best rate that is good.
const GOOD: f64 = 0.8;

/// The file as one message, copied into memory that stays registered.
fn copied(len: usize) -> ServingLoad {
    ServingLoad::of(Engine::Static, Pipes { count: 1, len }, len)
}

/// The file as one message, read into memory that is registered for it and deregistered.
pub(super) fn registered(len: usize) -> ServingLoad {
    ServingLoad::of(Engine::Dynamic, Pipes { count: 1, len }, len)
}

/// The file as one message, with copy and registration out of the timing loop.
pub(super) fn prepared(len: usize) -> ServingLoad {
    ServingLoad {
        is_prepared: true,
        ..copied(len)
    }
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Figure, Failure> {
    static_rows(laboratory, table)?;
    dynamic_rows(laboratory, table)?;
    let mut series = Vec::new();
    for (name, load) in [
        (
            "no copy, no registration",
            prepared as fn(usize) -> ServingLoad,
        ),
        ("static", copied),
        ("dynamic", registered),
    ] {
        series.push(line(laboratory, name, &SENDFILE_IB, &SIZES, load, |it| {
            it.mb_per_s
        })?);
    }
    Ok(figure(
        "sendfile-naive",
        "Static and dynamic registration (figure 2)",
        Axes {
            x: "bytes of a message",
            y: "MB/s",
        },
        series,
    ))
}

fn static_rows(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let good = rate(laboratory, &copied(GOOD_MAX))?;
    let large = rate(laboratory, &copied(1 << 20))?;
    let largest = rate(laboratory, &copied(16 << 20))?;
    let peak = rate(laboratory, &prepared(16 << 20))?;
    let dynamic = rate(laboratory, &registered(GOOD_MAX))?;
    table.order(
        "5.1: static, 64 KiB over 1 MiB",
        "good up through about 64 kB, and no better beyond",
        Shown::new("times", good / large.max(1.0)),
        (GOOD..1.0 + VISIBLE).contains(&(good / large.max(1.0)))
            && largest < (1.0 + VISIBLE) * large,
        "Judged: at 64 KiB at least 0.8 of what 1 MiB has, and 16 MiB less than 1.1 of it. \
         Caches are not modelled: at 64 KiB fixed costs are paid off, and the copy's rate is left.",
    );
    table.ahead(
        "5.1: static, 16 MiB over no copy and no registration",
        "the memory bus becomes the bottleneck",
        Shown::new("times", largest / peak.max(1.0)),
        1.0 / GOOD - 1.0,
        &[peak / largest.max(1.0)],
        "Copy and transfer alternate, and the copy is the bound. The bus as such is never \
            full here: without its bound nothing changes.",
    );
    table.ahead(
        "5.1: static over dynamic, 64 KiB",
        "static good, dynamic low at small messages",
        Shown::new("times", good / dynamic.max(1.0)),
        LEAST_DIFFERENCE,
        &[good / dynamic.max(1.0)],
        "",
    );
    Ok(())
}

fn dynamic_rows(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let mut rates = Vec::new();
    for len in RISING {
        rates.push(rate(laboratory, &registered(len))?);
    }
    let [first, .., largest] = rates[..] else {
        return Ok(());
    };
    let copied = rate(laboratory, &copied(16 << 20))?;
    let peak = rate(laboratory, &prepared(16 << 20))?;
    table.ahead(
        "5.1: dynamic, 16 MiB over 16 KiB",
        "steadily increases with message size",
        Shown::new("times", largest / first.max(1.0)),
        LEAST_DIFFERENCE,
        &[rises(&rates)],
        "",
    );
    table.ahead(
        "5.1: dynamic over static, 16 MiB",
        "not bound by the memory bus",
        Shown::new("times", largest / copied.max(1.0)),
        LEAST_DIFFERENCE,
        &[largest / copied.max(1.0)],
        READS,
    );
    table.ahead(
        "5.1: dynamic, 16 MiB, over no copy and no registration",
        "effects of registration clearly visible even at large sizes",
        Shown::new("times", largest / peak.max(1.0)),
        VISIBLE,
        &[peak / largest.max(1.0)],
        "",
    );
    table.number(
        "5.1, 5.6: dynamic tops out, 16 MiB",
        "MB/s",
        700.0,
        largest,
        READS,
    );
    Ok(())
}
