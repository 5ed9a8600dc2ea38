//! Section 5.5, figure 9: what a registration costs in user space and in the kernel.

use super::super::laboratory::{Laboratory, whole};
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::naive::SIZES;
use super::{Axes, VISIBLE, figure};
use crate::experiment::serving::Registered;
use crate::profiles::SENDFILE_IB;

/// The share from which two costs are not identical.
const IDENTICAL: f64 = 0.01;

/// Microseconds to register and to deregister.
fn cost(
    laboratory: &mut Laboratory<'_>,
    what: Registered,
    len: usize,
) -> Result<(f64, f64), Failure> {
    let (registering, deregistering) = laboratory.registration(&SENDFILE_IB, what, len)?;
    let micros = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    Ok((micros(registering), micros(deregistering)))
}

pub(super) fn run(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Figure, Failure> {
    rows(laboratory, table)?;
    let mut series = Vec::new();
    for (name, what) in [
        ("user space", Registered::Memory),
        ("kernel, pages of a file", Registered::File),
    ] {
        let mut points = Vec::new();
        for len in laboratory.points(&SIZES) {
            points.push((whole(len), cost(laboratory, what, len)?.0));
        }
        series.push(Series {
            name: name.to_string(),
            points,
        });
    }
    Ok(figure(
        "sendfile-registration",
        "Registering in user space and in the kernel (figure 9)",
        Axes {
            x: "bytes",
            y: "us",
        },
        series,
    ))
}

fn rows(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let (mut ratios, mut freed) = (Vec::new(), Vec::new());
    let mut smallest = 0.0;
    for len in [4 << 10, 64 << 10, 1 << 20] {
        let (user, user_freed) = cost(laboratory, Registered::Memory, len)?;
        let (kernel, kernel_freed) = cost(laboratory, Registered::File, len)?;
        ratios.push(user / kernel.max(1e-3));
        freed.push(user_freed / kernel_freed.max(1e-3));
        if len == 4 << 10 {
            smallest = user;
        }
    }
    let [small, middle, large] = ratios[..] else {
        return Ok(());
    };
    let note = "The paper's first two points are outliers, by its own words.";
    table.same(
        "5.5: registering 4 KiB, user space over kernel",
        "the adapter dominates small ones: equal",
        VISIBLE,
        small,
        note,
    );
    table.ahead(
        "5.5: registering 1 MiB, user space over kernel",
        "the difference grows with the size",
        Shown::new("times", large),
        LEAST_DIFFERENCE,
        &[middle / small.max(1e-3), large / middle.max(1e-3)],
        "",
    );
    let (longest, _) = cost(laboratory, Registered::Memory, 1 << 20)?;
    table.ahead(
        "5.5: user space, 4 KiB as a share of 1 MiB",
        "for larger sizes the translation dominates",
        Shown::new("times", smallest / longest.max(1e-3)),
        1.0,
        &[longest / f64::max(smallest, 1e-3)],
        "",
    );
    let farthest = freed.into_iter().max_by(|one, other| {
        let apart = |ratio: f64| (ratio - 1.0).abs();
        apart(*one).total_cmp(&apart(*other))
    });
    table.same(
        "5.5: deregistering, user space over kernel",
        "identical",
        IDENTICAL,
        farthest.unwrap_or(f64::NAN),
        "",
    );
    Ok(())
}
