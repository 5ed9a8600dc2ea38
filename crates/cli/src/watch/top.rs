//! `gannet top`: the work of a server as it happens.

use super::ask::{AskError, ask};
use super::facts::Busy;
use super::rates::{Look, Rates, Sort};
use super::run;
use super::screen::{self, View};
use crate::cli::{TopOptions, TopTable};
use crate::failure::{Explain, Failure};
use crate::output;
use hyper::StatusCode;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

/// `gannet top`.
///
/// # Errors
/// The server does not answer; standard output is no terminal, without `--once`.
pub fn top(options: &TopOptions) -> Result<(), Failure> {
    if options.once || options.json {
        return once(options);
    }
    if !io::stdout().is_terminal() {
        let hint = "print one look with --once, or --once --json for scripts";
        return Err(
            Failure::usage("cannot show a screen", "standard output is no terminal").hint(hint),
        );
    }
    run(async {
        // Before the screen is cleared: a failure of the first look is an error.
        let mut watch = Watch::start(options).await?;
        let mut terminal = ratatui::init();
        let watched = watch.show(&mut terminal).await;
        ratatui::restore();
        watched.explain(|| String::from("cannot use the terminal"))
    })
}

/// One look, after a time in which rates are counted.
fn once(options: &TopOptions) -> Result<(), Failure> {
    let rates = run(async {
        let mut watch = Watch::start(options).await?;
        tokio::time::sleep(options.every).await;
        let looked = watch.look().await;
        looked.map_err(|error| error.explain(&options.admin))?;
        Ok(watch.rates())
    })?;
    if options.json {
        return output::json(&rates);
    }
    let Ok(mut terminal) = Terminal::new(TestBackend::new(80, screen::LINES));
    let view = View {
        place: &options.admin.to_string(),
        failure: None,
        table: options.show,
    };
    let Ok(drawn) = terminal.draw(|frame| screen::draw(frame, &rates, &view));
    output::line(&text(drawn.buffer))
}

/// The lines of a screen, without the blanks at their ends and the empty lines at its end.
fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let lines = buffer.content.chunks(width).map(|line| {
        let line: String = line.iter().map(|cell| cell.symbol()).collect();
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n").trim_end().to_owned()
}

/// The looks at a server.
struct Watch<'a> {
    options: &'a TopOptions,
    started: Instant,
    before: Look,
    now: Look,
    sort: Sort,
    table: TopTable,
    failure: Option<String>,
}

/// The meaning of a key.
enum Wish {
    Quit,
    Sort(Sort),
    Show(TopTable),
}

impl<'a> Watch<'a> {
    async fn start(options: &'a TopOptions) -> Result<Watch<'a>, Failure> {
        let mut watch = Watch {
            options,
            started: Instant::now(),
            before: Look::default(),
            now: Look::default(),
            sort: Sort::default(),
            table: options.show,
            failure: None,
        };
        let looked = watch.look().await;
        looked.map_err(|error| error.explain(&options.admin))?;
        watch.before = watch.now.clone();
        Ok(watch)
    }

    /// Looks once more; after a failure the look before it is shown on.
    async fn look(&mut self) -> Result<(), AskError> {
        let place = &self.options.admin;
        let at = self.started.elapsed();
        let look = Look {
            at,
            status: ask(place, "/status.json").await?,
            clients: ask(place, "/clients.json").await?,
            busy: self.busy().await?,
        };
        self.before = std::mem::replace(&mut self.now, look);
        Ok(())
    }

    /// The busiest exports and files, if they are shown.
    async fn busy(&self) -> Result<Busy, AskError> {
        if self.table == TopTable::Clients && !self.options.json {
            return Ok(Busy::default());
        }
        match ask(&self.options.admin, "/busy.json").await {
            // Of a release that does not count it.
            Err(AskError::Status { status, .. }) if status == StatusCode::NOT_FOUND => {
                Ok(Busy::default())
            }
            answer => answer,
        }
    }

    fn rates(&self) -> Rates {
        Rates::between(&self.before, &self.now, self.sort)
    }

    /// Looks and draws until a key ends it.
    async fn show(&mut self, terminal: &mut DefaultTerminal) -> io::Result<()> {
        let place = self.options.admin.to_string();
        let mut next = Instant::now() + self.options.every;
        loop {
            let rates = self.rates();
            let view = View {
                place: &place,
                failure: self.failure.as_deref(),
                table: self.table,
            };
            terminal.draw(|frame| screen::draw(frame, &rates, &view))?;
            match wish(next.saturating_duration_since(Instant::now()))? {
                Some(Wish::Quit) => return Ok(()),
                Some(Wish::Sort(sort)) => self.sort = sort,
                Some(Wish::Show(table)) => {
                    self.table = table;
                    // Where it fails, the next look says why.
                    self.now.busy = self.busy().await.unwrap_or_default();
                }
                None => {}
            }
            if Instant::now() >= next {
                self.failure = self.look().await.err().map(|error| error.to_string());
                next = Instant::now() + self.options.every;
            }
        }
    }
}

/// Waits for a key; nothing if none comes in `time`, or one without a meaning.
fn wish(time: Duration) -> io::Result<Option<Wish>> {
    if !event::poll(time)? {
        return Ok(None);
    }
    let Event::Key(key) = event::read()? else {
        return Ok(None);
    };
    if key.kind == KeyEventKind::Release {
        return Ok(None);
    }
    let interrupts = key.modifiers.contains(KeyModifiers::CONTROL);
    Ok(match key.code {
        KeyCode::Char('c') if interrupts => Some(Wish::Quit),
        KeyCode::Char('q') | KeyCode::Esc => Some(Wish::Quit),
        KeyCode::Char('o') => Some(Wish::Sort(Sort::Operations)),
        KeyCode::Char('b') => Some(Wish::Sort(Sort::Bytes)),
        KeyCode::Char('l') => Some(Wish::Sort(Sort::Latency)),
        KeyCode::Char('n') => Some(Wish::Sort(Sort::Name)),
        KeyCode::Char('c') => Some(Wish::Show(TopTable::Clients)),
        KeyCode::Char('e') => Some(Wish::Show(TopTable::Exports)),
        KeyCode::Char('f') => Some(Wish::Show(TopTable::Files)),
        _ => None,
    })
}
