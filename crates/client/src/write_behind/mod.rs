//! Writes that leave behind their answers, and writes kept until the store confirms them.
//!
//! A front end answers a write(2) once [`WriteBehind`] keeps its bytes. They are kept by file ([`FileWrites`]) and by
//! caller, merged within one caller only, and leave in runs (`runs`). Answered unstable writes stay until a COMMIT
//! confirms them (`commit`). A front end with a cache hears what became of them ([`FrontEnd`]).
//!
//! Layers, top down: [`WriteBehind`] with its commits and its writes that wait for their answers; [`Descriptions`];
//! [`FileTable`]; [`FileWrites`]; `runs`; [`Turns`].

mod commit;
mod descriptions;
mod file;
mod runs;
mod table;
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests;
mod through;
mod turns;

pub use descriptions::{Description, Descriptions};
pub use file::FileWrites;
pub use table::FileTable;
pub use turns::{Turn, Turns};

use crate::limits::{ANSWERED_EARLY_MAX, BEHIND_MAX, FILE_BEHIND_MAX, KeptBounds, SILENCE_PAUSE};
use file::KeptWrite;
use gannet_runtime::stages::{self, Stage};
use gannet_runtime::{Buffer, Handle, Instant, sleep};
use gannet_vfs::{Stability, Status, Vfs, Wcc};
use runs::{Run, Runs};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use through::NotWritten;
use tokio::sync::Notify;

/// The part of a front end that hears what becomes of the writes that it passed on. No method may wait, or call the
/// [`WriteBehind`] that calls it.
pub trait FrontEnd: 'static {
    /// The store has answered a WRITE of this front end, with the file's state before and after.
    fn changed(&self, file: &FileWrites, wcc: &Wcc);

    /// The store refused bytes for which programs have an answer, so caches have bytes that the file never gets. Those
    /// who wait for the bytes wake up afterwards.
    fn refused(&self, file: &FileWrites);

    /// The room for further writes of a file has changed, as [`WriteBehind::has_room`] gives it.
    fn room_changed(&self, file: &FileWrites, has_room: bool);
}

/// The writes of a front end that the store has not seen or not confirmed, on one core.
pub struct WriteBehind<V, F> {
    vfs: Rc<V>,
    runtime: Handle,
    front: Rc<F>,
    files: FileTable,
    /// The open descriptions of files.
    pub descriptions: RefCell<Descriptions>,
    turns: Turns,
    bounds: KeptBounds,
    /// Bytes kept until a COMMIT, of all files.
    kept: Cell<u64>,
    /// Bytes that wait for the store behind the answers to write(2), of all files whose servers answer.
    waiting: Cell<u64>,
    /// The same of files whose servers are silent, which take no room from others.
    silent: Cell<u64>,
    /// Wakes writers that wait for room among them.
    room: Notify,
    last_reply: Cell<Instant>,
}

impl<V: Vfs, F: FrontEnd> WriteBehind<V, F> {
    /// The writes to `vfs` of the files in `files`. Long transfers take `turns`.
    pub fn new(
        runtime: Handle,
        vfs: Rc<V>,
        front: Rc<F>,
        files: FileTable,
        turns: Turns,
        bounds: KeptBounds,
    ) -> WriteBehind<V, F> {
        WriteBehind {
            vfs,
            last_reply: Cell::new(runtime.now()),
            runtime,
            front,
            files,
            descriptions: RefCell::default(),
            turns,
            bounds,
            kept: Cell::new(0),
            waiting: Cell::new(0),
            silent: Cell::new(0),
            room: Notify::new(),
        }
    }

    /// The turns of long transfers, reads included.
    pub fn turns(&self) -> &Turns {
        &self.turns
    }

    /// Bytes of all files that are kept until COMMITs.
    pub fn kept(&self) -> u64 {
        self.kept.get()
    }

    /// Bytes of all files that the store has not answered.
    pub fn waiting(&self) -> u64 {
        self.waiting.get() + self.silent.get()
    }

    /// When the store replied to a WRITE or COMMIT for the last time; at first, the begin. A request that lasts for
    /// many of them learns by it whether a server is silent.
    pub fn last_reply(&self) -> Instant {
        self.last_reply.get()
    }

    /// Notes a reply. `Jukebox` is none: the store waits for a silent server no longer.
    fn replied<T>(&self, result: &Result<T, Status>) {
        if !matches!(result, Err(Status::Jukebox)) {
            self.last_reply.set(self.runtime.now());
        }
    }

    /// The sum that the bytes of a file count in.
    fn sum(&self, file: &FileWrites) -> &Cell<u64> {
        if file.is_silent.get() {
            &self.silent
        } else {
            &self.waiting
        }
    }

    /// Counts a file as one whose server is silent, or answers. A silent one whose bytes have no room there stays.
    fn set_silent(&self, file: &FileWrites, is_silent: bool) {
        let of_file = file.runs.borrow().charged();
        let is_full = is_silent && self.silent.get() + of_file > BEHIND_MAX;
        if is_full || file.is_silent.get() == is_silent {
            return;
        }
        let from = self.sum(file);
        from.set(from.get() - of_file);
        file.is_silent.set(is_silent);
        let to = self.sum(file);
        to.set(to.get() + of_file);
        self.room.notify_waiters();
    }

    /// Keeps the first `len` bytes of `data` for the store, once there is room for them.
    ///
    /// Bytes that wait for a silent server must not stop the writers of other files. Once the store has given one up,
    /// they count by themselves. Until then a file may keep as many bytes as stay free for others. Where that is too
    /// little, a file without any keeps one write, whose answer waits for the store's.
    ///
    /// # Errors
    /// `Jukebox`: the store waits for a silent server no longer.
    pub async fn write_behind(
        self: &Rc<Self>,
        open: &Description,
        offset: u64,
        data: Buffer,
        len: usize,
    ) -> Result<(), Status> {
        let is_alone = self.room(&open.file, len).await?;
        self.add(open, offset, data, len);
        if is_alone {
            return self.drain(&open.file).await;
        }
        Ok(())
    }

    /// Waits until a write of `len` bytes may be kept; true if it is the only one of its file, and has no room.
    async fn room(&self, file: &FileWrites, len: usize) -> Result<bool, Status> {
        let _stage = stages::enter(Stage::Queue);
        let given_up = file.given_up.get();
        loop {
            // Registered before the look, so that no wake-up is missed.
            let room = self.room.notified();
            let of_file = file.runs.borrow().charged();
            let free = BEHIND_MAX.saturating_sub(self.sum(file).get() + len as u64);
            if of_file < FILE_BEHIND_MAX && of_file + len as u64 <= free {
                return Ok(false);
            }
            if of_file == 0 {
                return Ok(true);
            }
            if file.given_up.get() != given_up {
                return Err(Status::Jukebox);
            }
            room.await;
        }
    }

    /// True while a file may keep twice as much as it does, [`ANSWERED_EARLY_MAX`] bytes are free, and no program that
    /// has the file open must be told a failure. A front end may then answer short writes before it passes them on.
    pub fn has_room(&self, file: &Rc<FileWrites>) -> bool {
        let of_file = file.runs.borrow().charged();
        let free = BEHIND_MAX.saturating_sub(self.sum(file).get());
        free >= ANSWERED_EARLY_MAX
            && of_file < FILE_BEHIND_MAX.min(free) / 2
            && !self.descriptions.borrow().has_failure(file)
    }

    /// Keeps the first `len` bytes of `data` for the store, of a write that was answered while the file had room.
    pub fn add(self: &Rc<Self>, open: &Description, offset: u64, data: Buffer, len: usize) {
        let file = &open.file;
        self.change_runs(file, |runs| runs.add(&open.caller, offset, data, len));
        self.send_runs(file);
        self.report_room(file);
    }

    fn report_room(&self, file: &Rc<FileWrites>) {
        self.front.room_changed(file, self.has_room(file));
    }

    /// Changes what waits for the store. Every change goes through here, since the sum over all files is updated by the
    /// difference.
    fn change_runs<T>(&self, file: &FileWrites, change: impl FnOnce(&mut Runs) -> T) -> T {
        let mut runs = file.runs.borrow_mut();
        let before = runs.charged();
        let changed = change(&mut runs);
        let after = runs.charged();
        let sum = self.sum(file);
        debug_assert!(sum.get() + after >= before, "the sum counts all files");
        sum.set(sum.get() + after - before);
        if after < before {
            self.room.notify_waiters();
        }
        changed
    }

    /// Starts the runs of a file that may leave now.
    fn send_runs(self: &Rc<Self>, file: &Rc<FileWrites>) {
        loop {
            // A variable of its own ends the borrow before the task may run.
            let next = file.runs.borrow_mut().take_next();
            let Some(run) = next else {
                return;
            };
            let (writes, file) = (Rc::clone(self), Rc::clone(file));
            let sending = async move { writes.send_run(file, run).await };
            self.runtime.spawn("write behind", Box::pin(sending));
        }
    }

    /// Sends one run. No deadline applies: a WRITE that is cut short could reach the server after newer bytes. Those
    /// who wait for it have deadlines.
    async fn send_run(self: Rc<Self>, file: Rc<FileWrites>, run: Run) {
        let Run {
            number,
            caller,
            offset,
            bytes,
        } = run;
        let open = Description { file, caller };
        let file = &open.file;
        let (data, len) = bytes.into_buffer();
        let sent = {
            // As in `WriteBehind::write`.
            let _writing = file.turn.read().await;
            let _turn = self.turns.take(len).await;
            let written = self.write_until_answered(&open, offset, data, len).await;
            written.map(|(write, is_stable)| self.keep_written(file, write, is_stable))
        };
        if let Err(status) = sent {
            self.tell(file, &open.caller, len as u64, status);
        }
        while sent.is_ok() && self.bound_kept(file).await.is_err() {
            sleep(&self.runtime, SILENCE_PAUSE).await;
        }
        self.change_runs(file, |runs| runs.answered(number));
        self.set_silent(file, false);
        self.report_room(file);
        file.answered.notify_waiters();
        self.send_runs(file);
    }

    /// Writes a run, again and again while the store waits in vain for a silent server: only an answer may drop bytes.
    ///
    /// # Errors
    /// The status of the server's reply; `Jukebox` from a store that does not give the memory back.
    async fn write_until_answered(
        &self,
        open: &Description,
        offset: u64,
        mut data: Buffer,
        len: usize,
    ) -> Result<(KeptWrite, bool), Status> {
        loop {
            let written = self.write_all(open, offset, data, len, Stability::Unstable);
            match written.await {
                Err(NotWritten {
                    status: Status::Jukebox,
                    memory: Some(memory),
                }) => data = memory,
                written => return Ok(written?),
            }
            open.file.given_up.set(open.file.given_up.get() + 1);
            self.set_silent(&open.file, true);
            open.file.answered.notify_waiters();
            self.room.notify_waiters();
            sleep(&self.runtime, SILENCE_PAUSE).await;
        }
    }

    /// Waits until the store has answered all writes of a file so far.
    ///
    /// # Errors
    /// `Jukebox`: the store waits for a silent server no longer. The writes stay, and are sent again.
    pub async fn drain(self: &Rc<Self>, file: &Rc<FileWrites>) -> Result<(), Status> {
        let until = file.runs.borrow_mut().hurry();
        let given_up = file.given_up.get();
        loop {
            // Registered before the look, so that no wake-up is missed.
            let answered = file.answered.notified();
            if file.runs.borrow().is_past(until) {
                return Ok(());
            }
            if file.given_up.get() != given_up {
                return Err(Status::Jukebox);
            }
            self.send_runs(file);
            answered.await;
        }
    }

    /// Drops the writes of a file that are kept, and those that the store has not seen; gives their bytes.
    pub fn drop_kept(&self, file: &FileWrites) -> u64 {
        let before = self.waiting();
        self.change_runs(file, Runs::drop_waiting);
        self.keep(file, FileWrites::clear) + before - self.waiting()
    }
}
