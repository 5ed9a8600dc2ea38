//! A paper's page (docs/papers): what was reproduced, what was not, what decides each figure, and what it rests on.

use super::study::{DECIDED_MOVE_MIN, FITTED_MOVE_MAX};
use super::{Ablated, Figure, Judged, Paper, Row, Study, Verdict};
use std::fmt::Write as _;

/// A figure that moves by less has nothing that decides it.
const SHOWN_MIN: f64 = 0.005;

/// See [`story`].
const ODAFS_STORY: &str = "Table II is *input*. The simulated adapter charges its numbers; calls and optimistic reads \
    are real messages and Reads of the simulated fabric. The result is their sum. A whole access \
    takes 33 % less time with 50 us of network and client and 24 % less with 100. \"20 to 40 %\" \
    is the paper's rough estimate, and none of this counts. A call that runs in the completion \
    handler, without a thread (its Optimistic RPC), is 10 us faster than a call. An optimistic \
    read still saves 27 and 19 % of it. The hits are simulated. The client's cache, directory \
    and policy are the code that serves. The server is a page cache of 896 MB with \
    least-recently-used replacement. Figure 4's picture is lost; its statements are reproduced. \
    The paper's five questions have these answers here. (1) *Replacement*: with one client the \
    server's own order leaves nothing stale, and a random one 11 %. With four independent \
    clients the order matters little, and a server that reports evictions is worth 7 %. Evicting \
    stale references first gives no visible gain. (2) *Balance*: the best directory has as many \
    references as the server has pages, 4 % of the client's memory with 64 bytes each. More is \
    worse, because the others are stale. The adaptive balance finds it, because it charges \
    refused reads to the directory. With a file of 1.15 GB and 64-byte entries an access then \
    takes 16 % *less* than with a compact directory of the whole file. That directory does not \
    pay. (3) *Metadata*: references to attributes save 28 % of a stat, and 18 % of a stat and a \
    read. (4) *Invalidations*: a directory that adapts has few stale references. A server that \
    reports each block sends 6 to 22 messages for each refused read that it saves. With 64 \
    blocks in a message it sends fewer than one. (5) *Prefetching*: references that come with a \
    reply pay for whole files and for popular blocks, and cost no cache hits. Most of the gain \
    is there with 7 to 15 of them.";

/// The introduction to the rows of each paper.
fn story(paper: Paper) -> &'static str {
    match paper {
        Paper::NfsRdma => {
            "The paper's headline is *not* reproduced: a server that keeps its memory \
                registered reads 2.1 times as fast. With the costs of primitive operations (the \
                table of constants), a server that registers 128 KiB for every call reaches the \
                same bound. That bound is its memory, with two or three calls under way. The \
                model follows the paper's machines. The server registers the call's data when \
                the file system returns, and deregisters behind the reply (sections 7 and 8). \
                Each command takes the one adapter for itself while the driver sleeps. Physical \
                pages are scattered, with an entry each. That costs 63 us of a READ. The paper's \
                own section 7 agrees that it is the smaller part: 5 to 24 % of an operation, \
                deregistration 1 to 2 %. Avoiding it gains 1 / (1 - 0.26) = 1.35 at most. The \
                rest must lie in the 79 to 83 % that section 7 calls tmpfs. The server that \
                registers also gets new memory for each call, and only the cache's comes from a \
                slab. An earlier model charged 16 us a page for that. The number was fitted on \
                the result, no paper has it, and it is removed. The adapters check nothing but \
                the key, so memory behind a fast mapping returns with its revocation. The \
                paper's driver gave it back before that, and left it open to the peer (section \
                3.2). So FMR on Linux is further behind all-physical here, and that order does \
                not count any more."
        }
        Paper::Sandia => {
            "The slides give no measured number in words, so only orders can be judged. Their \
                five numbers are the rates of their own links, which are inputs: no rate here is \
                a result. RDMA on DDR has the rate of the bus, which is assumed. Costs \
                of TCP's packets are assumed too. An order that one of them decides does not \
                count. Neither does one between testbeds that differ in assumed costs alone. \
                Memory behind a fast mapping of the client returns with its revocation, because \
                the adapter checks nothing but the key. With that cost iWARP is not visibly \
                ahead of the host's TCP any more. The gain on InfiniBand over that on Ethernet \
                does not count any more."
        }
        Paper::PvfsIb => {
            "The profile has facts of PVFS 1.5. The I/O server is one thread, whose file \
                operations block (section 3.3.2) and which holds a processor while it polls. The \
                client's library has no thread of its own, so its process and the streams' \
                packets share a processor. Transfers are a stripe long (section 4.2). One \
                difference is not modelled. Over TCP the volume's protocol requests the data of \
                a write before they are sent; PVFS sent them right behind the request. The rows \
                of writes over TCP (bandwidth, processor, ext3, tiles) rest on that. The \
                adapters check nothing but the key, so a peer reaches memory as long as its key \
                is valid. PVFS accepted that; a volume does not. A client's memory stays \
                registered for servers that read it. Memory that they write is registered for each \
                request, so reads are behind writes. A read of a short part of a long allocation \
                comes to memory of its length and is copied, where PVFS registered the allocation \
                once. Buffers of Fast RDMA serve one connection, by a protection domain of its \
                own, so a peer reaches no other's. The reads that are behind, and the \
                registrations of tiles, come out no more."
        }
        Paper::Sendfile => {
            "Two numbers that the paper cites are the input: 1 MB at 900 MB/s without and at \
                600 MB/s with registration. The paper's library is `FileSender` of the crate \
                `datapath` here, with four engines of the same names. Two of them do more than \
                the paper's: dynamic and pipelined read each piece into the memory that they \
                register, and the paper's map the file. The copies that `FileSender` counts are \
                charged. So user space is *not* reproduced: it copies, and the copy is its bound. \
                It has 390 MB/s without pipes and 421 with 128 KiB in pipes, where the paper has \
                700. Sendfile is ahead of it with every length, and by 2.1 where the paper has \
                1.29. An earlier page charged these engines for no copy, and counted those rows. \
                Sendfile copies nothing and takes 0.45 us a page to register, because the kernel \
                does not walk page tables. It has 508 MB/s with 64 KiB, above the published \
                range. Files are in the page cache."
        }
        Paper::Odafs => ODAFS_STORY,
    }
}

/// A number as the papers have them: three digits are more than that.
pub(super) fn digits(value: f64) -> String {
    let decimals = match value.abs() {
        large if large >= 100.0 => 0,
        middle if middle >= 10.0 => 1,
        _ => 2,
    };
    format!("{value:.decimals$}")
}

/// A sentence with the numbers of rows of each kind that agree.
pub(super) fn summary(study: &Study) -> String {
    let count = |kind| study.agreeing(&[kind]);
    let [ratios, counts, orders, levels] = ["ratio", "count", "order", "level"].map(count);
    let excluded = study.judged.iter().filter(|it| it.excluded.is_some());
    let beyond = study.report.rows.iter().filter(|row| !row.of_paper);
    format!(
        "Reproduced are {} of {} ratios, {} of {} exact counts and {} of {} orders that no single \
        constant decides. Of the levels, {} of {} are within 15 %. {} rows do not count, and {} rows are not the paper's.",
        ratios.0,
        ratios.1,
        counts.0,
        counts.1,
        orders.0,
        orders.1,
        levels.0,
        levels.1,
        excluded.count(),
        beyond.count(),
    )
}

/// The largest move of a row by an assumed constant, in a few words.
pub(super) fn sensitivity(judged: &Judged) -> String {
    judged.sensitivity.as_ref().map_or_else(
        || String::from("none"),
        |moved| {
            let (share, how) = (100.0 * moved.share, &moved.how);
            format!("{share:+.0} %, {} {how}", moved.constant)
        },
    )
}

/// Whether a row agrees, or that it does not count.
pub(super) fn verdict(row: &Row, judged: &Judged) -> &'static str {
    match judged.excluded {
        Some(_) => "excluded",
        None => row.within.name(),
    }
}

/// All of it, as Markdown.
pub(super) fn page(study: &Study) -> String {
    let name = study.paper.name();
    let mut page = format!(
        "# {name}\n\nWritten by `gannet-lab papers {name} --charts docs/papers`; how to read it: \
        [README.md](README.md).\n\n\
         {}\n\n{}\n",
        summary(study),
        story(study.paper)
    );
    list(&mut page, study, "Reproduced", true);
    list(&mut page, study, "Not reproduced", false);
    excluded(&mut page, study);
    decided(&mut page, study);
    rows(&mut page, study, "Rows", true);
    rows(&mut page, study, "Not of the paper", false);
    figures(&mut page, study);
    effects(&mut page, study);
    constants(&mut page, study);
    page
}

fn heading(page: &mut String, title: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(page, "\n## {title}\n");
}

fn line(page: &mut String, cells: &[String]) {
    let cells: Vec<String> = cells.iter().map(|cell| cell.replace('|', "\\|")).collect();
    let _ = writeln!(page, "| {} |", cells.join(" | "));
}

fn header(page: &mut String, cells: &[String]) {
    line(page, cells);
    let _ = writeln!(page, "|{}", "---|".repeat(cells.len()));
}

fn list(page: &mut String, study: &Study, title: &str, agrees: bool) {
    let rows = study
        .rows()
        .filter(|(row, judged)| row.of_paper && judged.excluded.is_none())
        .filter(|(row, _)| (row.within == Verdict::Within) == agrees)
        .map(|(row, _)| row);
    heading(page, title);
    for row in rows {
        let mut text = format!(
            "- {}: {} published, {} simulated",
            row.row,
            row.published,
            digits(row.simulated)
        );
        if row.within == Verdict::NoDifference {
            text.push_str(": no difference");
        }
        if !agrees && !row.note.is_empty() {
            let _ = write!(text, ". {}", row.note);
        }
        let _ = writeln!(page, "{text}");
    }
}

fn excluded(page: &mut String, study: &Study) {
    let mut excluded = study
        .rows()
        .filter_map(|(row, judged)| Some((row, judged.excluded.as_ref()?)))
        .peekable();
    if excluded.peek().is_none() {
        return;
    }
    heading(page, "Rows that do not count");
    for (row, why) in excluded {
        let (published, simulated) = (&row.published, digits(row.simulated));
        let _ = writeln!(
            page,
            "- {}: {published} published, {simulated} simulated; {why}",
            row.row
        );
    }
}

/// The line of a figure that moves most without some cost: the cost's number among all, the line, before and after.
fn most_moved(ablated: &Ablated) -> Option<(usize, &str, f64, f64)> {
    let moves = ablated.lines.iter().flat_map(|(line, means)| {
        let base = means.first().copied().unwrap_or(0.0);
        let without = means.iter().enumerate().skip(1);
        without.map(move |(number, mean)| (number - 1, line.as_str(), base, *mean))
    });
    let share = |it: &(usize, &str, f64, f64)| (it.3 / it.2.max(1e-9) - 1.0).abs();
    let moves = moves.filter(|it| share(it).is_finite());
    moves.max_by(|one, other| share(one).total_cmp(&share(other)))
}

fn decided(page: &mut String, study: &Study) {
    heading(page, "What decides each figure");
    let figures = study.report.figures.iter().zip(&study.ablated);
    for (figure, ablated) in figures {
        let Some((number, name, before, after)) = most_moved(ablated) else {
            continue;
        };
        if (after / before.max(1e-9) - 1.0).abs() < SHOWN_MIN {
            let _ = writeln!(
                page,
                "- {}: by none of the costs that are left out below",
                figure.title
            );
            continue;
        }
        let what = Study::ablations().nth(number).unwrap_or_default();
        let (before, after) = (digits(before), digits(after));
        let _ = writeln!(
            page,
            "- {}: most by \"{what}\" ({name}: {before} to {after} {})",
            figure.title, figure.y
        );
    }
}

/// The kind of a row, and of an order the least difference that counts.
fn kind(row: &Row) -> String {
    let kind = row.published.kind();
    match row.least_difference {
        Some(least) => format!("{kind}, {:.0} %", 100.0 * least),
        None => kind.to_owned(),
    }
}

fn rows(page: &mut String, study: &Study, title: &str, of_paper: bool) {
    let mut rows = study
        .rows()
        .filter(|(row, _)| row.of_paper == of_paper)
        .peekable();
    if rows.peek().is_none() {
        return;
    }
    heading(page, title);
    let cells = [
        "row",
        "kind, least difference",
        "published",
        "simulated",
        "unit",
        "within",
        "sensitivity",
        "note",
    ];
    header(page, &cells.map(String::from));
    for (row, judged) in rows {
        line(
            page,
            &[
                row.row.clone(),
                kind(row),
                row.published.to_string(),
                digits(row.simulated),
                row.unit.to_owned(),
                verdict(row, judged).to_owned(),
                sensitivity(judged),
                row.note.clone(),
            ],
        );
    }
}

/// The name of a row or a line, with all costs, and without each.
fn ablation_header(page: &mut String, first: &str) {
    let mut cells = vec![first.to_owned(), String::from("with all")];
    cells.extend(Study::ablations().map(String::from));
    header(page, &cells);
}

fn ablation_line(page: &mut String, name: &str, numbers: &[f64]) {
    let mut cells = vec![name.to_owned()];
    cells.extend(numbers.iter().map(|number| {
        if number.is_finite() {
            digits(*number)
        } else {
            String::from("not measured")
        }
    }));
    line(page, &cells);
}

fn figures(page: &mut String, study: &Study) {
    heading(page, "Figures, and what they are without some cost");
    let figures = study.report.figures.iter().zip(&study.ablated);
    for (figure, ablated) in figures {
        let Figure { title, file, y, .. } = figure;
        let _ = writeln!(page, "![{title}]({file}.svg)\n");
        ablation_header(page, &format!("mean of the line, {y}"));
        for (name, means) in &ablated.lines {
            ablation_line(page, name, means);
        }
        page.push('\n');
    }
    let _ = writeln!(
        page,
        "Measured at the ends and the middle of each line, for a quarter of the time."
    );
}

fn effects(page: &mut String, study: &Study) {
    heading(page, "Rows without some cost");
    ablation_header(page, "row");
    for (row, judged) in study.rows() {
        if row.of_paper && !row.published.is_level() {
            ablation_line(page, &row.row, &judged.ablated);
        }
    }
}

fn constants(page: &mut String, study: &Study) {
    heading(page, "Constants");
    let count = |label: &str| {
        let labelled = study.constants.iter();
        let labelled = labelled.filter(|(_, _, constant)| constant.source.label() == label);
        labelled.count()
    };
    let [given, derived, assumed, fitted] = ["given", "derived", "assumed", "fitted"].map(count);
    let _ = writeln!(
        page,
        "{given} given, {derived} derived, {assumed} assumed, {fitted} fitted. A row that a \
        fitted one moves by more than {} % is excluded. So is a level that moves by {} % or more \
        when one given or derived rate is halved, or one assumed constant halved or doubled. A \
        ratio, count or order that agrees is excluded if it does not agree with one assumed \
        constant halved or doubled.\n",
        100.0 * FITTED_MOVE_MAX,
        100.0 * DECIDED_MOVE_MIN,
    );
    let cells = ["testbed", "constant", "value", "label", "source"];
    header(page, &cells.map(String::from));
    for (testbed, name, constant) in &study.constants {
        line(
            page,
            &[
                (*testbed).to_owned(),
                (*name).to_owned(),
                constant.value.to_string(),
                constant.source.label().to_owned(),
                constant.source.text().to_owned(),
            ],
        );
    }
}

/// One sentence on several papers.
pub(super) fn counted(studies: &[Study]) -> String {
    let of_all = |kinds: &[&str]| {
        let each = studies.iter().map(|study| study.agreeing(kinds));
        each.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    };
    let effects = of_all(&["ratio", "count", "order"]);
    format!(
        "{} papers: {} of {} ratios, counts and orders are reproduced.",
        studies.len(),
        effects.0,
        effects.1
    )
}
