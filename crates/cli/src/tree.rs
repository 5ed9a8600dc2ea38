//! Work on a whole tree, with a bounded number of objects under way. A directory is left after all objects in it. A
//! failure does not end the walk.

use crate::failure::Failure;
use crate::output;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::task::JoinSet;

/// Directories below each other.
const DEPTH_MAX: usize = 1024;
/// Objects that wait for their turn before no more directories are entered: so far the walk is ahead, to know totals.
const AHEAD_MAX: usize = 50_000;
/// Failures that are printed one by one.
const FAILURES_MAX: usize = 1000;

/// The number of a file system, and that of an object in it.
pub(crate) type Identity = (u64, u64);

/// The work on the objects of a tree.
pub(crate) trait Visitor: 'static {
    /// Something in a directory.
    type Object: 'static;
    /// A directory that was entered.
    type Directory: 'static;

    /// Whether an object is a directory that is to be entered.
    fn is_directory(&self, object: &Self::Object) -> bool;

    /// The identity of a directory that is to be entered; `None` if it is not known.
    fn identity(&self, object: &Self::Object) -> Option<Identity>;

    /// The name of an object in messages.
    fn name(&self, object: &Self::Object) -> String;

    /// Does the work on an object that is not a directory to be entered.
    async fn visit(&self, object: Self::Object) -> Result<(), Failure>;

    /// Enters a directory, and returns its objects.
    async fn enter(
        &self,
        object: Self::Object,
    ) -> Result<(Self::Directory, Vec<Self::Object>), Failure>;

    /// Leaves a directory, after all that was in it. `is_complete` is false when something of that failed.
    async fn leave(&self, directory: Self::Directory, is_complete: bool) -> Result<(), Failure>;

    /// All directories have been entered: no more objects will be found.
    fn counted(&self);
}

/// A directory that was entered, while something in it is under way.
struct Open<V: Visitor> {
    directory: Cell<Option<V::Directory>>,
    identity: Option<Identity>,
    above: Option<Rc<Open<V>>>,
    depth: usize,
    /// Objects in it that are not done.
    pending: Cell<usize>,
    is_complete: Cell<bool>,
}

impl<V: Visitor> Open<V> {
    /// Whether the directory with this identity is this one, or one that this is in.
    fn is_within(&self, identity: Identity) -> bool {
        let mut open = Some(self);
        while let Some(here) = open {
            if here.identity == Some(identity) {
                return true;
            }
            open = here.above.as_deref();
        }
        false
    }
}

/// An object whose turn has not come.
struct Waiting<V: Visitor> {
    object: V::Object,
    above: Option<Rc<Open<V>>>,
    depth: usize,
}

/// The outcome of a task.
enum Done<V: Visitor> {
    /// An object or a directory is done; the first field is its directory.
    Over(Option<Rc<Open<V>>>, Result<bool, Failure>),
    Entered {
        above: Option<Rc<Open<V>>>,
        depth: usize,
        identity: Option<Identity>,
        entered: Result<(V::Directory, Vec<V::Object>), Failure>,
    },
}

/// A walk through one or several trees.
pub(crate) struct Walk<V: Visitor> {
    visitor: Rc<V>,
    failures: Rc<Failures>,
    /// Tasks under way at a time.
    jobs: usize,
    /// The last one first, so that few directories are open at a time.
    directories: Vec<Waiting<V>>,
    objects: VecDeque<Waiting<V>>,
    finished: Vec<Rc<Open<V>>>,
    /// Directories that are just being entered.
    entering: usize,
    running: JoinSet<Done<V>>,
}

impl<V: Visitor> Walk<V> {
    pub(crate) fn new(visitor: Rc<V>, jobs: u16, failures: Rc<Failures>) -> Walk<V> {
        Walk {
            visitor,
            failures,
            jobs: usize::from(jobs).max(1),
            directories: Vec::new(),
            objects: VecDeque::new(),
            finished: Vec::new(),
            entering: 0,
            running: JoinSet::new(),
        }
    }

    /// Takes an object, and all below it, into the walk.
    pub(crate) fn add(&mut self, object: V::Object) {
        self.queue(object, None, 0);
    }

    fn queue(&mut self, object: V::Object, above: Option<Rc<Open<V>>>, depth: usize) {
        let is_directory = self.visitor.is_directory(&object);
        let waiting = Waiting {
            object,
            above,
            depth,
        };
        if is_directory {
            self.directories.push(waiting);
        } else {
            self.objects.push_back(waiting);
        }
    }

    /// Walks to the end. Failures go to their list. If the walk is dropped before, the work under way is dropped.
    pub(crate) async fn run(mut self) {
        let mut is_counted = false;
        loop {
            while self.running.len() < self.jobs && self.start() {}
            if !is_counted && self.entering == 0 && self.directories.is_empty() {
                is_counted = true;
                self.visitor.counted();
            }
            match self.running.join_next().await {
                None => return,
                Some(Ok(done)) => self.take(done),
                Some(Err(error)) => self.failures.add(Failure::new("a task ended early", error)),
            }
        }
    }

    /// Starts what comes next; false when nothing waits.
    ///
    /// A part of all work in flight enters directories, so that the total is known early.
    fn start(&mut self) -> bool {
        if let Some(open) = self.finished.pop() {
            self.start_leave(open);
            return true;
        }
        let may_enter = self.objects.len() < AHEAD_MAX && self.entering < self.jobs.div_ceil(4);
        if (may_enter || self.objects.is_empty())
            && let Some(waiting) = self.directories.pop()
        {
            self.start_enter(waiting);
            return true;
        }
        let Some(waiting) = self.objects.pop_front() else {
            return false;
        };
        let visitor = Rc::clone(&self.visitor);
        self.running.spawn_local(async move {
            let visited = visitor.visit(waiting.object).await;
            Done::Over(waiting.above, visited.map(|()| true))
        });
        true
    }

    fn start_enter(&mut self, waiting: Waiting<V>) {
        let visitor = Rc::clone(&self.visitor);
        self.entering += 1;
        self.running.spawn_local(async move {
            let Waiting {
                object,
                above,
                depth,
            } = waiting;
            let identity = visitor.identity(&object);
            let contains_itself =
                identity.is_some_and(|it| above.as_ref().is_some_and(|open| open.is_within(it)));
            let refused = if depth >= DEPTH_MAX {
                Some("directories are nested too deeply")
            } else {
                contains_itself.then_some("the directory contains itself")
            };
            let entered = match refused {
                Some(why) => {
                    let what = format!("cannot enter {}", visitor.name(&object));
                    Err(Failure::new(what, why))
                }
                None => visitor.enter(object).await,
            };
            Done::Entered {
                above,
                depth,
                identity,
                entered,
            }
        });
    }

    fn start_leave(&mut self, open: Rc<Open<V>>) {
        let visitor = Rc::clone(&self.visitor);
        self.running.spawn_local(async move {
            let is_complete = open.is_complete.get();
            let left = match open.directory.take() {
                Some(directory) => visitor.leave(directory, is_complete).await,
                None => Ok(()),
            };
            Done::Over(open.above.clone(), left.map(|()| is_complete))
        });
    }

    fn take(&mut self, done: Done<V>) {
        match done {
            Done::Over(above, outcome) => self.over(above, outcome),
            Done::Entered {
                above,
                depth,
                identity,
                entered,
            } => {
                self.entering -= 1;
                match entered {
                    Ok((directory, objects)) => {
                        let open = Open {
                            directory: Cell::new(Some(directory)),
                            identity,
                            above,
                            depth,
                            pending: Cell::new(objects.len()),
                            is_complete: Cell::new(true),
                        };
                        self.entered(Rc::new(open), objects);
                    }
                    Err(failure) => self.over(above, Err(failure)),
                }
            }
        }
    }

    fn entered(&mut self, open: Rc<Open<V>>, objects: Vec<V::Object>) {
        if objects.is_empty() {
            self.finished.push(open);
            return;
        }
        for object in objects {
            self.queue(object, Some(Rc::clone(&open)), open.depth + 1);
        }
    }

    /// Something in `above` is done; true: with all below it.
    fn over(&mut self, above: Option<Rc<Open<V>>>, outcome: Result<bool, Failure>) {
        let is_complete = outcome.unwrap_or_else(|failure| {
            self.failures.add(failure);
            false
        });
        let Some(above) = above else {
            return;
        };
        if !is_complete {
            above.is_complete.set(false);
        }
        above.pending.set(above.pending.get() - 1);
        if above.pending.get() == 0 {
            self.finished.push(above);
        }
    }
}

/// Failures, to be printed at the end.
#[derive(Default)]
pub(crate) struct Failures {
    listed: RefCell<Vec<Failure>>,
    count: Cell<u64>,
    /// Some error was a missing right.
    has_denied: Cell<bool>,
}

impl Failures {
    pub(crate) fn add(&self, failure: Failure) {
        self.has_denied
            .set(self.has_denied.get() || failure.is_denied());
        self.count.set(self.count.get() + 1);
        let mut listed = self.listed.borrow_mut();
        if listed.len() < FAILURES_MAX {
            listed.push(failure);
        }
    }

    /// Whether one of them is that a right is missing.
    pub(crate) fn has_denied(&self) -> bool {
        self.has_denied.get()
    }

    /// Tells them, on standard error.
    ///
    /// # Errors
    /// Reports how many objects could not be `done`, if there were any; `what` names them.
    pub(crate) fn report(&self, what: &str, done: &str) -> Result<(), Failure> {
        let listed = std::mem::take(&mut *self.listed.borrow_mut());
        let count = self.count.get();
        if count == 0 {
            return Ok(());
        }
        listed.iter().for_each(Failure::report);
        let more = count - listed.len() as u64;
        if more > 0 {
            output::report(&format!("gannet: and {more} more"));
        }
        let why = match count {
            1 => format!("one object could not be {done}"),
            _ => format!("{count} objects could not be {done}"),
        };
        let hint = match count {
            1 => "the line above says which",
            _ => "the lines above say which",
        };
        Err(Failure::new(what, why).hint(hint))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use gannet_runtime::tokio_plug;

    /// Directories that hold `width` directories each down to `depth`, and as many files; one file fails.
    struct Made {
        width: usize,
        depth: usize,
        bad: &'static str,
        /// The last part of the path of a directory that is always the same one.
        looping: &'static str,
        log: RefCell<Vec<String>>,
        under_way: Cell<usize>,
        most: Cell<usize>,
        counts: Cell<usize>,
    }

    /// A file or a directory by its path.
    struct MadeObject {
        name: String,
        is_directory: bool,
    }

    impl Visitor for Made {
        type Object = MadeObject;
        type Directory = String;

        fn is_directory(&self, object: &MadeObject) -> bool {
            object.is_directory
        }

        fn identity(&self, object: &MadeObject) -> Option<Identity> {
            let (_, last) = object.name.rsplit_once('/')?;
            (last == self.looping).then_some((1, 2))
        }

        fn name(&self, object: &MadeObject) -> String {
            object.name.clone()
        }

        async fn visit(&self, object: MadeObject) -> Result<(), Failure> {
            let name = object.name;
            self.under_way.set(self.under_way.get() + 1);
            self.most.set(self.most.get().max(self.under_way.get()));
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            self.under_way.set(self.under_way.get() - 1);
            if name == self.bad {
                return Err(Failure::new(name, "bad"));
            }
            self.log.borrow_mut().push(name);
            Ok(())
        }

        async fn enter(&self, object: MadeObject) -> Result<(String, Vec<MadeObject>), Failure> {
            let name = object.name;
            let is_low = name.matches('/').count() < self.depth;
            let kinds = [true, false]
                .into_iter()
                .filter(|is_directory| is_low || !is_directory);
            let objects = kinds.flat_map(|is_directory| {
                let letter = if is_directory { 'd' } else { 'f' };
                let name = &name;
                (0..self.width).map(move |number| MadeObject {
                    name: format!("{name}/{letter}{number}"),
                    is_directory,
                })
            });
            Ok((name.clone(), objects.collect()))
        }

        async fn leave(&self, directory: String, is_complete: bool) -> Result<(), Failure> {
            let mark = if is_complete { '+' } else { '-' };
            self.log.borrow_mut().push(format!("{directory}{mark}"));
            Ok(())
        }

        fn counted(&self) {
            self.counts.set(self.counts.get() + 1);
        }
    }

    #[test]
    fn directories_are_left_after_all_that_is_in_them() {
        let visitor = Rc::new(Made {
            width: 3,
            depth: 2,
            bad: "top/d1/d2/f0",
            looping: "",
            log: RefCell::default(),
            under_way: Cell::new(0),
            most: Cell::new(0),
            counts: Cell::new(0),
        });
        let failures = Rc::new(Failures::default());
        let mut walk = Walk::new(Rc::clone(&visitor), 4, Rc::clone(&failures));
        walk.add(MadeObject {
            name: String::from("top"),
            is_directory: true,
        });
        tokio_plug::block_on(async |_| walk.run().await).unwrap();
        assert_eq!(failures.count.get(), 1);
        assert_eq!(visitor.counts.get(), 1);
        assert_eq!(visitor.most.get(), 4, "as many at a time as may be");
        let log = visitor.log.borrow();
        let directories = 1 + 3 + 9;
        assert_eq!(log.len(), directories + 3 * directories - 1);
        let at = |wanted: &str| log.iter().position(|entry| entry == wanted).unwrap();
        for (number, entry) in log.iter().enumerate() {
            let above = entry.trim_end_matches(['+', '-']).rsplit_once('/');
            let Some((above, _)) = above else { continue };
            let is_complete = !"top/d1/d2/".starts_with(&format!("{above}/"));
            let mark = if is_complete { '+' } else { '-' };
            assert!(at(&format!("{above}{mark}")) > number, "{entry}");
        }
    }

    #[test]
    fn a_directory_that_contains_itself_is_entered_once() {
        let visitor = Rc::new(Made {
            width: 1,
            depth: 5,
            bad: "",
            looping: "d0",
            log: RefCell::default(),
            under_way: Cell::new(0),
            most: Cell::new(0),
            counts: Cell::new(0),
        });
        let failures = Rc::new(Failures::default());
        let mut walk = Walk::new(Rc::clone(&visitor), 4, Rc::clone(&failures));
        walk.add(MadeObject {
            name: String::from("top"),
            is_directory: true,
        });
        tokio_plug::block_on(async |_| walk.run().await).unwrap();
        let listed = failures.listed.borrow();
        let told: Vec<String> = listed.iter().map(Failure::to_string).collect();
        assert_eq!(
            told,
            ["cannot enter top/d0/d0: the directory contains itself"]
        );
        let log = visitor.log.borrow();
        assert_eq!(*log, ["top/f0", "top/d0/f0", "top/d0-", "top-"]);
    }
}
