//! Former contents of files, which a client with a data cache may still read, except those from before its own changes.

use super::NAMES;
use std::cell::RefCell;
use std::rc::Rc;

/// How long a former content is kept, in nanoseconds: no cache's age is greater.
pub(super) const AGE_MAX_NS: u64 = 3_000_000_000;

/// A change of a file, from its bytes before to those after.
pub(super) type Apply<'a> = dyn Fn(&[u8]) -> Vec<u8> + 'a;

/// A content of a file, until another one was acknowledged.
struct Old {
    until: u64,
    content: Rc<[u8]>,
}

/// Former contents by worker and name, each for at most [`AGE_MAX_NS`].
pub(super) struct Past {
    of_workers: RefCell<Vec<[Vec<Old>; NAMES]>>,
}

impl Past {
    pub(super) fn new(workers: usize) -> Past {
        let of_workers = (0..workers).map(|_| Default::default()).collect();
        Past {
            of_workers: RefCell::new(of_workers),
        }
    }

    /// A name's file, which held `before`, was changed just now: by the cached client of worker `by`, which did this to
    /// its bytes and must see that, or by another one.
    pub(super) fn changed(
        &self,
        name: usize,
        before: &[u8],
        until: u64,
        by: Option<(usize, &Apply<'_>)>,
    ) {
        let content: Rc<[u8]> = before.into();
        for (worker, names) in self.of_workers.borrow_mut().iter_mut().enumerate() {
            let olds = &mut names[name];
            olds.retain(|old| old.until + AGE_MAX_NS >= until);
            match by {
                Some((own, apply)) if own == worker => {
                    for old in olds {
                        old.content = apply(&old.content).into();
                    }
                }
                _ => olds.push(Old {
                    until,
                    content: Rc::clone(&content),
                }),
            }
        }
    }

    /// Drops a name's former contents, since the name stands for another file now.
    pub(super) fn forget(&self, name: usize) {
        for names in self.of_workers.borrow_mut().iter_mut() {
            names[name].clear();
        }
    }

    /// Moves the former contents of `from` to `to`, as a rename does.
    pub(super) fn moved(&self, from: usize, to: usize) {
        for names in self.of_workers.borrow_mut().iter_mut() {
            names[to] = std::mem::take(&mut names[from]);
        }
    }

    /// The contents that the cached client of a worker may have seen at `since` or later.
    pub(super) fn states(&self, worker: usize, name: usize, since: u64) -> Vec<Rc<[u8]>> {
        let of_workers = self.of_workers.borrow();
        let olds = of_workers[worker][name].iter();
        let young = olds.filter(|old| old.until >= since);
        young.map(|old| Rc::clone(&old.content)).collect()
    }
}
