//! Sections 5.2 to 5.4, figures 3 to 8: length and number of pipes, in user space and with sendfile, and the memory of
//! a connection.

use super::super::laboratory::{Laboratory, whole};
use super::super::row::{LEAST_DIFFERENCE, Published, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::naive::{prepared, registered};
use super::{Axes, FILE_LEN, READS, VISIBLE, figure, line, pages, piped, rate, rises};
use crate::experiment::serving::ServingOutcome;
use crate::profiles::SENDFILE_IB;
use gannet_datapath::Engine;

/// Pages of a piece.
const PIECE_PAGES: [usize; 7] = [4, 8, 16, 32, 64, 128, 256];
/// Pieces under way.
const PIPES: [usize; 6] = [1, 2, 3, 4, 6, 8];
/// Figures 7 and 8: pages of a piece, and pieces under way.
const SMALL: [(usize, usize); 9] = [
    (4, 1),
    (4, 2),
    (4, 4),
    (8, 1),
    (8, 2),
    (8, 4),
    (16, 1),
    (16, 2),
    (16, 4),
];
/// "Just over 400" MB/s: a level may be 15 % off.
const JUST_OVER_400: f64 = 460.0;
const ENGINES: [Engine; 2] = [Engine::Pipelined, Engine::Sendfile];

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    lengths(laboratory, table)?;
    numbers(laboratory, table)?;
    memory(laboratory, table)?;
    counts(laboratory, table)?;
    let mb_per_s = |it: &ServingOutcome| it.mb_per_s;
    let (mut by_length, mut by_number) = (Vec::new(), Vec::new());
    for engine in ENGINES {
        let name = engine.name();
        let load = |length| piped(engine, 1, length);
        by_length.push(line(
            laboratory,
            name,
            &SENDFILE_IB,
            &PIECE_PAGES,
            load,
            mb_per_s,
        )?);
        for length in [16, 256] {
            let name = format!("{engine}, {length} pages");
            let load = |pipes| piped(engine, pipes, length);
            by_number.push(line(
                laboratory,
                &name,
                &SENDFILE_IB,
                &PIPES,
                load,
                mb_per_s,
            )?);
        }
    }
    Ok(vec![
        figure(
            "sendfile-pages",
            "One pipe by its pages, a file of 16 MiB (figures 3 and 5)",
            Axes {
                x: "pages of a pipe",
                y: "MB/s",
            },
            by_length,
        ),
        figure(
            "sendfile-pipes",
            "Pipes under way, a file of 16 MiB (figures 4 and 6)",
            Axes {
                x: "pipes",
                y: "MB/s",
            },
            by_number,
        ),
        memory_figure(laboratory)?,
    ])
}

/// Figures 3 and 5: one pipe.
fn lengths(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let mut reached = Vec::new();
    for (engine, row) in [
        (
            Engine::Pipelined,
            "5.2: user space, one pipe, 256 pages over 4",
        ),
        (
            Engine::Sendfile,
            "5.3: sendfile, one pipe, 256 pages over 4",
        ),
    ] {
        let mut rates = Vec::new();
        for length in PIECE_PAGES {
            rates.push(rate(laboratory, &piped(engine, 1, length))?);
        }
        let [first, .., last] = rates[..] else {
            return Ok(());
        };
        table.ahead(
            row,
            "large messages are advantageous",
            Shown::new("times", last / first.max(1.0)),
            LEAST_DIFFERENCE,
            &[rises(&rates)],
            "",
        );
        // The level is that of user space with a quarter of its longest pieces.
        reached.push(rates);
    }
    let [user, kernel] = &reached[..] else {
        return Ok(());
    };
    let level = user[4];
    let needed = |rates: &[f64]| {
        let found = rates.iter().position(|rate| *rate >= level);
        whole(PIECE_PAGES[found.unwrap_or(PIECE_PAGES.len() - 1)])
    };
    table.ahead(
        "5.3: pages for the rate of user space with 64, one pipe: user space over sendfile",
        "the message size required for a certain level is smaller with sendfile",
        Shown::new("times", needed(user) / needed(kernel)),
        LEAST_DIFFERENCE,
        &[needed(user) / needed(kernel)],
        "",
    );
    let whole_file = rate(laboratory, &registered(FILE_LEN))?;
    let unpiped = user[6] / whole_file.max(1.0);
    table.same(
        "5.2: user space, one pipe of 256 pages over figure 2's dynamic registration",
        "the upper limit is the same",
        VISIBLE,
        unpiped,
        "",
    );
    Ok(())
}

/// Figures 4 and 6: two pipes and more, of 1 MiB.
fn numbers(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let mut gains = Vec::new();
    for engine in ENGINES {
        let [one, two, six] = [1, 2, 6].map(|pipes| piped(engine, pipes, 256));
        let one = rate(laboratory, &one)?.max(1.0);
        gains.push((
            rate(laboratory, &two)? / one - 1.0,
            rate(laboratory, &six)? / one - 1.0,
        ));
    }
    let [(two, six), (two_of_kernel, _)] = gains[..] else {
        return Ok(());
    };
    table.ahead(
        "5.2: user space, 2 pipes over 1, 256 pages",
        "two are sufficient to increase the throughput significantly",
        Shown::new("times", 1.0 + two),
        VISIBLE,
        &[1.0 + two],
        "",
    );
    table.order(
        "5.2: user space, gain of 2 pipes as a share of the gain of 6, 256 pages",
        "more may be better, at a cost",
        Shown::new("times", two / six.max(1e-3)),
        two > 0.5 * six,
        "Judged: at least half of the gain.",
    );
    table.ahead(
        "5.3: gain from 1 to 2 pipes, user space over sendfile, 256 pages",
        "very much smaller with sendfile",
        Shown::new("times", two / two_of_kernel.max(1e-3)),
        1.0,
        &[two / two_of_kernel.max(1e-3)],
        "",
    );
    Ok(())
}

/// The best rate of an engine with so many KiB in all its pipes.
fn best(laboratory: &mut Laboratory<'_>, engine: Engine, total_kib: usize) -> Result<f64, Failure> {
    let mut best: f64 = 0.0;
    for (length, pipes) in SMALL {
        if pages(length) * pipes == total_kib << 10 {
            best = best.max(rate(laboratory, &piped(engine, pipes, length))?);
        }
    }
    Ok(best)
}

/// Section 5.4, figures 7 and 8.
fn memory(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    for engine in ENGINES {
        for total in [32, 64] {
            let best = best(laboratory, engine, total)?;
            table.judge(
                &format!("5.4: {engine}, 16 MiB with {total} KiB, the best of its pipes"),
                "MB/s",
                Published::Between(200.0, JUST_OVER_400),
                best,
                "\"200 MB/s to just over 400 MB/s\": as any level, 15 % above 400 is allowed. The range may be \
                 figure 7's alone.",
            );
        }
        let two = rate(laboratory, &piped(engine, 2, 16))?;
        table.number(
            &format!("5.4: {engine}, 16 MiB with 128 KiB in 2 pipes"),
            "MB/s",
            700.0,
            two,
            "\"Nearly 700\"; the paper does not say with which engine. Pipelined copies each piece here.",
        );
    }
    let [piped_rate, sent] = [Engine::Pipelined, Engine::Sendfile].map(|it| piped(it, 4, 16));
    let (piped_rate, sent) = (rate(laboratory, &piped_rate)?, rate(laboratory, &sent)?);
    let peak = rate(laboratory, &prepared(FILE_LEN))?;
    table.number(
        "5.4: pipelined, 16 MiB with 256 KiB in 4 pipes",
        "MB/s",
        700.0,
        piped_rate,
        READS,
    );
    table.same(
        "5.4: sendfile, 16 MiB with 256 KiB in 4 pipes, over no copy and no registration",
        "full throughput",
        LEAST_DIFFERENCE,
        sent / peak.max(1.0),
        "",
    );
    table.ratio(
        "5.4: sendfile over pipelined, 256 KiB in 4 pipes",
        900.0 / 700.0,
        sent / piped_rate.max(1.0),
        READS,
    );
    Ok(())
}

/// Counts that do not depend on any constant: a file of 16 MiB in 256 pieces of 16 pages.
fn counts(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    for (engine, registrations, copies) in [
        (Engine::Static, 0.0, 1.0),
        (Engine::Dynamic, 256.0, 0.0),
        (Engine::Pipelined, 256.0, 0.0),
        (Engine::Sendfile, 256.0, 0.0),
    ] {
        let outcome = laboratory.serve(&SENDFILE_IB, &piped(engine, 4, 16))?;
        let registered = usize::try_from(outcome.server.events.registrations);
        table.count(
            &format!("3: {engine}, registrations for 16 MiB in pieces of 16 pages"),
            registrations,
            whole(registered.unwrap_or(usize::MAX)),
            "",
        );
        let copied = usize::try_from(outcome.copied_bytes).unwrap_or(usize::MAX);
        table.count(
            &format!("3: {engine}, copies of the file's bytes by a processor"),
            copies,
            whole(copied) / whole(FILE_LEN),
            match engine {
                Engine::Dynamic | Engine::Pipelined => READS,
                _ => "",
            },
        );
    }
    Ok(())
}

fn memory_figure(laboratory: &mut Laboratory<'_>) -> Result<Figure, Failure> {
    let mut series = Vec::new();
    for engine in ENGINES {
        for pipes in [1, 2, 4] {
            let mut points = Vec::new();
            for length in laboratory.points(&[4, 8, 16]) {
                let load = piped(engine, pipes, length);
                let total = whole(pages(length) * pipes) / 1024.0;
                points.push((total, rate(laboratory, &load)?));
            }
            let plural = if pipes == 1 { "" } else { "s" };
            series.push(Series {
                name: format!("{engine}, {pipes} pipe{plural}"),
                points,
            });
        }
    }
    Ok(figure(
        "sendfile-memory",
        "A file of 16 MiB by the memory of its connection (figures 7 and 8)",
        Axes {
            x: "KiB in all pipes",
            y: "MB/s",
        },
        series,
    ))
}
