//! Where the time of an operation goes, at one end: each moment of it belongs to one [`Stage`].
//!
//! An end that wants to know it gives the operation a [`Stopwatch`]. Code that makes an operation wait says so with
//! [`enter`], and code that knows how long something took with [`took`]. Both speak of the operation whose future this
//! core polls just now, which [`within`] and [`watched`] tell: no seam between them has to hand a stopwatch on. Without
//! one they do nothing and read no clock.
//!
//! The parts of an operation add up to its whole time exactly, also where several of its steps run side by side. Then a
//! moment belongs to the step that changed last, which may be one that has ended.

use crate::{Handle, Instant};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// An activity, or a wait, of an operation at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Stage {
    /// Waiting for its turn: for a place, a credit, a budget's room, a thread, the operations before it.
    Queue,
    /// Bytes on their way: a server's own receiving and sending; for a client all the time until the reply is here.
    Wire,
    /// Registering memory and revoking its registrations.
    Registration,
    /// Copying bytes outside of a file system.
    Copy,
    /// In the file system, with its disk.
    FileSystem,
    /// Waiting until data is durable.
    Sync,
    /// Waiting for other servers of a volume.
    Servers,
    /// All else.
    #[default]
    Protocol,
}

impl Stage {
    /// All stages.
    pub const ALL: [Stage; 8] = [
        Stage::Queue,
        Stage::Wire,
        Stage::Registration,
        Stage::Copy,
        Stage::FileSystem,
        Stage::Sync,
        Stage::Servers,
        Stage::Protocol,
    ];

    /// Its word in labels and logs.
    pub fn name(self) -> &'static str {
        match self {
            Stage::Queue => "queue",
            Stage::Wire => "wire",
            Stage::Registration => "registration",
            Stage::Copy => "copy",
            Stage::FileSystem => "file_system",
            Stage::Sync => "sync",
            Stage::Servers => "servers",
            Stage::Protocol => "protocol",
        }
    }
}

/// The time of an operation, or of several, by stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts([Duration; Stage::ALL.len()]);

impl Parts {
    /// The time in one stage.
    pub fn of(&self, stage: Stage) -> Duration {
        self.0.get(stage as usize).copied().unwrap_or_default()
    }

    /// The time in all stages.
    pub fn whole(&self) -> Duration {
        self.0.iter().sum()
    }

    /// The time in all stages in milliseconds, to a microsecond, for lines of the log.
    pub fn whole_ms(&self) -> f64 {
        (self.whole().as_secs_f64() * 1e6).round() / 1e3
    }

    /// The stages that took any time.
    pub fn each(&self) -> impl Iterator<Item = (Stage, Duration)> {
        let each = Stage::ALL.map(|stage| (stage, self.of(stage)));
        each.into_iter().filter(|(_, time)| !time.is_zero())
    }

    /// Adds `time` to a stage.
    pub fn add(&mut self, stage: Stage, time: Duration) {
        if let Some(part) = self.0.get_mut(stage as usize) {
            *part += time;
        }
    }

    /// The times that were added since an earlier sum.
    #[must_use]
    pub fn since(&self, earlier: &Parts) -> Parts {
        let mut parts = *self;
        for (part, before) in parts.0.iter_mut().zip(earlier.0) {
            *part = part.saturating_sub(before);
        }
        parts
    }

    /// Adds the times of other operations.
    pub fn add_all(&mut self, other: &Parts) {
        other.each().for_each(|(stage, time)| self.add(stage, time));
    }
}

impl std::fmt::Display for Parts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (index, (stage, time)) in self.each().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{} {:.1?}", stage.name(), time)?;
        }
        Ok(())
    }
}

/// Takes the time of one operation apart.
pub struct Stopwatch {
    clock: Handle,
    stage: Cell<Stage>,
    since: Cell<Instant>,
    parts: Cell<Parts>,
}

impl Stopwatch {
    /// Starts in `stage`, which began at `since`.
    pub fn start(clock: &Handle, stage: Stage, since: Instant) -> Rc<Stopwatch> {
        Rc::new(Stopwatch {
            clock: Rc::clone(clock),
            stage: Cell::new(stage),
            since: Cell::new(since),
            parts: Cell::default(),
        })
    }

    /// The operation is in another stage from now on. Returns the stage before.
    pub fn enter(&self, stage: Stage) -> Stage {
        self.note();
        self.stage.replace(stage)
    }

    /// `time` of what was spent in the present stage was spent in another: the whole of it, if it was less.
    fn move_to(&self, stage: Stage, time: Duration) {
        self.note();
        let (mut parts, from) = (self.parts.get(), self.stage.get());
        let time = time.min(parts.of(from));
        if let Some(part) = parts.0.get_mut(from as usize) {
            *part -= time;
        }
        parts.add(stage, time);
        self.parts.set(parts);
    }

    /// The parts until now.
    pub fn parts(&self) -> Parts {
        self.note();
        self.parts.get()
    }

    /// The time since the Unix epoch, by the clock of the core.
    pub fn wall_clock(&self) -> Duration {
        self.clock.wall_clock()
    }

    fn note(&self) {
        let now = self.clock.now();
        let mut parts = self.parts.get();
        parts.add(
            self.stage.get(),
            now.duration_since(self.since.replace(now)),
        );
        self.parts.set(parts);
    }
}

impl std::fmt::Debug for Stopwatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stopwatch")
            .field("stage", &self.stage.get())
            .field("parts", &self.parts.get())
            .finish_non_exhaustive()
    }
}

thread_local! {
    /// The stopwatch of the operation whose future this core polls now.
    static CURRENT: RefCell<Option<Rc<Stopwatch>>> = const { RefCell::new(None) };
}

/// The stopwatch of the operation whose future this core polls now, if it has one.
pub fn current() -> Option<Rc<Stopwatch>> {
    // Fails only when the thread ends.
    let current = CURRENT.try_with(|current| current.borrow().clone());
    current.ok().flatten()
}

/// Does a step of the operation that `watch` belongs to.
pub fn within<T>(watch: Option<&Rc<Stopwatch>>, step: impl FnOnce() -> T) -> T {
    let Some(watch) = watch else { return step() };
    let _restored = Restored(replace_current(Some(Rc::clone(watch))));
    step()
}

/// Puts the stopwatch of before back, also when a step panics.
struct Restored(Option<Rc<Stopwatch>>);

impl Drop for Restored {
    fn drop(&mut self) {
        replace_current(self.0.take());
    }
}

fn replace_current(watch: Option<Rc<Stopwatch>>) -> Option<Rc<Stopwatch>> {
    let replaced = CURRENT.try_with(|current| current.replace(watch));
    replaced.ok().flatten()
}

/// Polls `operation` within `watch` each time.
pub async fn watched<T>(watch: &Rc<Stopwatch>, operation: impl Future<Output = T>) -> T {
    let mut operation = std::pin::pin!(operation);
    std::future::poll_fn(|context| within(Some(watch), || operation.as_mut().poll(context))).await
}

/// The operation that is being polled spent `time` of the time until now in `stage`.
pub fn took(stage: Stage, time: Duration) {
    if let Some(watch) = current() {
        watch.move_to(stage, time);
    }
}

/// The operation that is being polled is in `stage` until the guard is dropped, which may be in a later poll.
#[must_use = "the stage ends when this is dropped"]
pub fn enter(stage: Stage) -> Entered {
    let watch = current();
    Entered(watch.map(|watch| {
        let before = watch.enter(stage);
        (watch, before)
    }))
}

/// A stage that an operation is in; see [`enter`].
pub struct Entered(Option<(Rc<Stopwatch>, Stage)>);

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some((watch, before)) = self.0.take() {
            watch.enter(before);
        }
    }
}

#[cfg(test)]
mod tests;
