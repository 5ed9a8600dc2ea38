//! Section 5.6, figure 10: all engines beside each other, and faster links.

use super::super::laboratory::{Laboratory, whole};
use super::super::row::{LEAST_DIFFERENCE, Shown, Table};
use super::super::{Failure, Figure, Series};
use super::naive::{SIZES, registered};
use super::{Axes, FILE_LEN, READS, VISIBLE, figure, line, piped, rate};
use crate::experiment::serving::{Pipes, ServingLoad};
use crate::profiles::{SENDFILE_IB, SENDFILE_IB_2X, SENDFILE_IB_4X};
use gannet_datapath::Engine;
use gannet_sim::nic::Profile;

/// 6 pipes of 256 pages.
const PIPES: Pipes = Pipes {
    count: 6,
    len: 1 << 20,
};
/// Rates of a link, and the machines that have it.
const LINKS: [(usize, &Profile); 3] = [
    (1, &SENDFILE_IB),
    (2, &SENDFILE_IB_2X),
    (4, &SENDFILE_IB_4X),
];

fn pipelined(len: usize) -> ServingLoad {
    ServingLoad::of(Engine::Pipelined, PIPES, len)
}

fn sendfile(len: usize) -> ServingLoad {
    ServingLoad::of(Engine::Sendfile, PIPES, len)
}

pub(super) fn run(
    laboratory: &mut Laboratory<'_>,
    table: &mut Table,
) -> Result<Vec<Figure>, Failure> {
    large(laboratory, table)?;
    small(laboratory, table)?;
    processors(laboratory, table)?;
    let links = links(laboratory, table)?;
    static_pipes(laboratory, table)?;
    let mut series = Vec::new();
    for (name, load) in [
        (
            "user space, not pipelined",
            registered as fn(usize) -> ServingLoad,
        ),
        ("user space, pipelined", pipelined),
        ("sendfile", sendfile),
    ] {
        series.push(line(laboratory, name, &SENDFILE_IB, &SIZES, load, |it| {
            it.mb_per_s
        })?);
    }
    let all = figure(
        "sendfile-all",
        "All file serving schemes, 6 pipes of 256 pages (figure 10)",
        Axes {
            x: "bytes of a file",
            y: "MB/s",
        },
        series,
    );
    Ok(vec![all, links])
}

fn large(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let [plain, piped, sent] = [registered, pipelined, sendfile].map(|load| load(FILE_LEN));
    let plain = rate(laboratory, &plain)?.max(1.0);
    let piped = rate(laboratory, &piped)?.max(1.0);
    let sent = rate(laboratory, &sent)?;
    table.ahead(
        "5.6: pipelined over not pipelined, 16 MiB",
        "beyond 1 MB the advantages of overlapping are apparent",
        Shown::new("times", piped / plain),
        LEAST_DIFFERENCE,
        &[piped / plain],
        "",
    );
    table.ahead(
        "5.6: sendfile over pipelined, 16 MiB",
        "the higher curve is sendfile",
        Shown::new("times", sent / piped),
        LEAST_DIFFERENCE,
        &[sent / piped],
        "Pipelined is bound by its copies here, and not by registration.",
    );
    Ok(())
}

fn small(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let mut most: f64 = 1.0;
    for len in [16 << 10, 256 << 10, 1 << 20] {
        let ratio =
            rate(laboratory, &pipelined(len))? / rate(laboratory, &registered(len))?.max(1.0);
        most = most.max(ratio).max(1.0 / ratio.max(1e-3));
    }
    table.same(
        "5.6: pipelined over not pipelined, most at 16 KiB, 256 KiB and 1 MiB",
        "the same up until around 1 MB",
        LEAST_DIFFERENCE,
        most,
        "",
    );
    let mut ahead = Vec::new();
    for len in [16, 32, 64, 128, 256, 512, 1024] {
        let sent = rate(laboratory, &sendfile(len << 10))?;
        ahead.push((
            len,
            sent / rate(laboratory, &registered(len << 10))?.max(1.0),
        ));
    }
    let at = |len| {
        let found = ahead.iter().find(|(it, _)| *it == len);
        found.map_or(f64::NAN, |(_, ratio)| *ratio)
    };
    table.same(
        "5.6: sendfile over not pipelined, 16 KiB",
        "similar for small messages",
        VISIBLE,
        at(16),
        READS,
    );
    table.ahead(
        "5.6: sendfile over not pipelined, 256 KiB",
        "from 256 kB the effect can be seen",
        Shown::new("times", at(256)),
        VISIBLE,
        &[at(256)],
        "",
    );
    let first = ahead.iter().find(|(_, ratio)| *ratio >= 1.0 + VISIBLE);
    let first = first.map_or(f64::INFINITY, |(len, _)| whole(*len));
    table.order(
        "5.6: the smallest of 16 KiB to 1 MiB at which sendfile is ahead by a tenth",
        "starting from 256 kB",
        Shown::new("KiB", first),
        (128.0..=512.0).contains(&first),
        "The copy and the walk cost as much for each page here, however few pages there are. The threshold for \
            visible was chosen before any run.",
    );
    Ok(())
}

/// "A reduction in CPU utilization."
fn processors(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let of = |laboratory: &mut Laboratory<'_>, load: &ServingLoad| {
        let outcome = laboratory.serve(&SENDFILE_IB, load);
        outcome.map(|outcome| outcome.cpu_s_per_gb())
    };
    let plain = of(laboratory, &registered(FILE_LEN))?;
    let sent = of(laboratory, &sendfile(FILE_LEN))?;
    let copied = of(laboratory, &piped(Engine::Static, 1, 256))?;
    table.ahead(
        "5.6: processor time for a byte, not pipelined over sendfile, 16 MiB",
        "user space is quite CPU intensive",
        Shown::new("times", plain / sent.max(1e-6)),
        1.0,
        &[plain / sent.max(1e-6)],
        "",
    );
    table.ahead(
        "2: processor time for a byte, static over sendfile, 16 MiB",
        "zero copy saves CPU cycles",
        Shown::new("times", copied / sent.max(1e-6)),
        1.0,
        &[copied / sent.max(1e-6)],
        "",
    );
    Ok(())
}

/// The last paragraph: links of two and four times the rate.
fn links(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<Figure, Failure> {
    let mut series = Vec::new();
    for (name, load) in [
        (
            "user space, not pipelined",
            registered as fn(usize) -> ServingLoad,
        ),
        ("user space, pipelined", pipelined),
        ("sendfile", sendfile),
    ] {
        let mut points = Vec::new();
        for (times, profile) in LINKS {
            let outcome = laboratory.serve(profile, &load(FILE_LEN))?;
            points.push((whole(times), outcome.mb_per_s));
        }
        series.push(Series {
            name: name.to_string(),
            points,
        });
    }
    let ratios = series[2].points.iter().zip(&series[1].points);
    let ratios: Vec<f64> = ratios
        .map(|(sent, piped)| sent.1 / piped.1.max(1.0))
        .collect();
    let steps: Vec<f64> = ratios
        .windows(2)
        .map(|it| it[1] / it[0].max(1e-3))
        .collect();
    table.ahead(
        "5.6: sendfile over pipelined, 16 MiB, a link of four times the rate",
        "even more advantage at higher speeds",
        Shown::new("times", ratios[2]),
        LEAST_DIFFERENCE,
        &steps,
        "The way to memory is as much faster; the machines are the same.",
    );
    Ok(figure(
        "sendfile-links",
        "All file serving schemes on faster links, 16 MiB (section 5.6)",
        Axes {
            x: "times the rate of SDR",
            y: "MB/s",
        },
        series,
    ))
}

/// Static memory in pipes, which the paper leaves out.
fn static_pipes(laboratory: &mut Laboratory<'_>, table: &mut Table) -> Result<(), Failure> {
    let [one, two] = [1, 2].map(|pipes| piped(Engine::Static, pipes, 16));
    let one = rate(laboratory, &one)?;
    let two = rate(laboratory, &two)?;
    table.ahead(
        "3.2: static, 2 pipes of 64 KiB over 1, 16 MiB",
        "copies overlap with the link as registrations do",
        Shown::new("times", two / one.max(1.0)),
        VISIBLE,
        &[two / one.max(1.0)],
        "With pipes static memory fills this link too, at the processor's expense.",
    );
    table.not_of_paper();
    Ok(())
}
