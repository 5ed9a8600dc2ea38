//! The screen of `gannet top`: 80 columns, and as many lines as there are.

use super::rates::{ClientRate, OperationRate, Rates, WorkRate};
use crate::cli::TopTable;
use crate::size;
use crate::table::short;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Cell, Row, Table};

/// Lines of a terminal for which the screen is made.
pub(super) const LINES: u16 = 24;

/// The keys, which the last line shows.
const KEYS: &str =
    "sort: o ops b bytes l latency n name  show: c clients e exports f files  q quit";
/// Columns of the name of an export or a file.
const NAME: u16 = 39;

/// The parts of a screen besides rates.
pub(super) struct View<'a> {
    /// The server's address.
    pub(super) place: &'a str,
    /// Why the last look failed, if it did.
    pub(super) failure: Option<&'a str>,
    /// The lower table.
    pub(super) table: TopTable,
}

/// Draws what `rates` says of a server.
pub(super) fn draw(frame: &mut Frame<'_>, rates: &Rates, view: &View<'_>) {
    let servers = match rates.io_servers.len() {
        0 => 0,
        some => u16::try_from(some).unwrap_or(u16::MAX).min(6) + 2,
    };
    let [head, operations, busiest, volume, keys] = Layout::vertical([
        Constraint::Length(4),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(servers),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    frame.render_widget(head_text(rates, view), head);
    draw_operations(frame, operations, &rates.operations);
    match view.table {
        TopTable::Clients => draw_clients(frame, busiest, rates),
        TopTable::Exports => draw_busy(frame, busiest, "export", &rates.exports),
        TopTable::Files => draw_busy(frame, busiest, "file", &rates.files),
    }
    if servers > 0 {
        draw_servers(frame, volume, rates);
    }
    frame.render_widget(Line::styled(KEYS, dim()), keys);
}

fn dim() -> Style {
    Style::new().add_modifier(Modifier::DIM)
}

fn bold() -> Style {
    Style::new().add_modifier(Modifier::BOLD)
}

fn head_text<'a>(rates: &'a Rates, view: &View<'a>) -> Text<'a> {
    let state = match (view.failure, &rates.why) {
        (Some(failure), _) => Line::styled(format!("no answer: {failure}"), bold()),
        (None, Some(why)) => Line::styled(format!("{}: {why}", rates.state), bold()),
        (None, None) => Line::from(rates.state.as_str()),
    };
    let first = format!(
        "gannet {} at {}, up {}, {} cores",
        rates.version,
        view.place,
        time(rates.uptime_seconds),
        rates.cores
    );
    let work = format!(
        "{} ops/s  in {}  out {}  connections {}  memory {:.0}%",
        short(rates.operations_per_second),
        speed(rates.received_bytes_per_second),
        speed(rates.sent_bytes_per_second),
        rates.connections,
        100.0 * rates.budget_taken_bytes / rates.budget_bytes.max(1.0),
    );
    Text::from(vec![Line::styled(first, bold()), state, Line::from(work)])
}

/// Bytes per second.
fn speed(bytes: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a rate of this machine
    let bytes = bytes as u64;
    format!("{}/s", size::human(bytes))
}

/// A time for people, of two units at most.
pub(crate) fn time(seconds: f64) -> String {
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // a time since some start
    let seconds = seconds as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min {} s", seconds % 60),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// A bound of a latency, of which three digits suffice.
fn latency(seconds: Option<f64>) -> String {
    match seconds {
        None => String::from("-"),
        Some(seconds) if seconds < 1e-3 => format!("{:.0} us", 1e6 * seconds),
        Some(seconds) if seconds < 1.0 => format!("{:.3} ms", 1e3 * seconds),
        Some(seconds) => format!("{seconds:.3} s"),
    }
}

/// A table: a bold header, the first column to the left, others to the right.
fn table<const N: usize>(
    header: [&'static str; N],
    widths: [u16; N],
    rows: impl Iterator<Item = [String; N]>,
) -> Table<'static> {
    let line = |cells: [String; N]| {
        let cells = cells.into_iter().enumerate().map(|(column, text)| {
            let line = Line::from(text);
            Cell::from(if column == 0 {
                line
            } else {
                line.right_aligned()
            })
        });
        Row::new(cells)
    };
    let widths = widths.map(Constraint::Length);
    let header = line(header.map(str::to_owned)).style(bold());
    Table::new(rows.map(line), widths)
        .header(header)
        .column_spacing(2)
}

fn draw_operations(frame: &mut Frame<'_>, area: Rect, operations: &[OperationRate]) {
    let busy = operations.iter().filter(|it| it.per_second > 0.0);
    let rows = busy.map(|it| {
        [
            format!("{} {}", it.protocol, it.procedure),
            short(it.per_second),
            short(it.failures_per_second),
            latency(it.p50_seconds),
            latency(it.p99_seconds),
        ]
    });
    let header = [
        "operation",
        "per second",
        "failed",
        "half within",
        "99% within",
    ];
    frame.render_widget(table(header, [24, 11, 9, 12, 12], rows), area);
}

fn draw_clients(frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
    let row = |it: &ClientRate| {
        [
            it.work.name.clone(),
            it.connections.to_string(),
            short(it.work.operations_per_second),
            speed(it.work.received_bytes_per_second),
            speed(it.work.sent_bytes_per_second),
        ]
    };
    let room = usize::from(area.height.saturating_sub(2));
    let shown = rates.clients.len().min(room);
    let hidden = (rates.clients.len() - shown) as u64 + rates.more_clients;
    let rest = (hidden > 0).then(|| {
        let mut rest = [const { String::new() }; 5];
        rest[0] = format!("and {hidden} more");
        rest
    });
    let rows = rates.clients.iter().take(shown).map(row).chain(rest);
    let header = ["client", "connections", "ops/s", "in", "out"];
    frame.render_widget(table(header, [24, 11, 9, 12, 12], rows), area);
}

fn draw_busy(frame: &mut Frame<'_>, area: Rect, kind: &'static str, busy: &[WorkRate]) {
    let rows = busy.iter().map(|it| {
        [
            end_of(&it.name, NAME.into()),
            short(it.operations_per_second),
            speed(it.received_bytes_per_second),
            speed(it.sent_bytes_per_second),
        ]
    });
    let header = [kind, "ops/s", "in", "out"];
    frame.render_widget(table(header, [NAME, 9, 12, 12], rows), area);
}

/// The end of a name that is too long: paths differ there.
fn end_of(name: &str, width: usize) -> String {
    let len = name.chars().count();
    if len <= width {
        return name.to_owned();
    }
    let kept = name.chars().skip(len - width.saturating_sub(3));
    "...".chars().chain(kept).collect()
}

fn draw_servers(frame: &mut Frame<'_>, area: Rect, rates: &Rates) {
    let rows = rates.io_servers.iter().map(|server| {
        [
            format!("I/O server {}", server.number),
            server.address.clone().unwrap_or_else(|| String::from("-")),
            server.state.clone(),
            server.since_seconds.map_or_else(|| String::from("-"), time),
        ]
    });
    let header = ["server of the volume", "address", "state", "since"];
    frame.render_widget(table(header, [20, 24, 14, 14], rows), area);
}
