//! Whether what clients saw of one name fits some order in which the manager did their requests one at a time, each
//! between its call and its answer (Herlihy and Wing, "Linearizability", 1990).
//!
//! The calls and answers are gone through in the order of their times, with all states that the name may be in.

use gannet_runtime::Instant;
use std::collections::BTreeSet;

/// A request about a name, and what its client was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It made this file, where none was.
    Made(u64),
    /// It was to make a file, and one was there.
    Exists,
    /// It removed the name.
    Removed,
    /// It was to remove the name, or looked it up, and it was not there.
    NotThere,
    /// It found this file.
    Found(u64),
    /// It was to make a file, and the client gave up. It may be done later.
    MayMake,
    /// It was to remove the name, and the client gave up. It may be done later.
    MayRemove,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Name {
    Absent,
    /// It stands for this file, if that was seen.
    Present(Option<u64>),
}

impl Seen {
    /// The name after this request; `None` if it cannot have been answered so.
    fn after(self, name: Name) -> Option<Name> {
        match (self, name) {
            (Seen::Made(file), Name::Absent) => Some(Name::Present(Some(file))),
            (Seen::MayMake, Name::Absent) => Some(Name::Present(None)),
            (Seen::Exists, Name::Present(_)) => Some(name),
            (Seen::Removed | Seen::MayRemove, Name::Present(_)) => Some(Name::Absent),
            (Seen::NotThere, Name::Absent) => Some(name),
            (Seen::Found(file), Name::Present(there)) => {
                let is_same = there.is_none_or(|there| there == file);
                is_same.then_some(Name::Present(Some(file)))
            }
            _ => None,
        }
    }
}

/// The requests about one name.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// The times of calls and of answers; a request that was given up has none of these.
    requests: Vec<(Instant, Option<Instant>, Seen)>,
}

/// A state that the name may be in, and the requests under way that are done by then.
type Possible = (Name, BTreeSet<usize>);

impl History {
    pub(crate) fn add(&mut self, called: Instant, answered: Instant, seen: Seen) {
        let is_given_up = matches!(seen, Seen::MayMake | Seen::MayRemove);
        let answered = (!is_given_up).then_some(answered);
        self.requests.push((called, answered, seen));
    }

    pub(crate) fn len(&self) -> usize {
        self.requests.len()
    }

    /// The files whose making was acknowledged.
    pub(crate) fn made(&self) -> impl Iterator<Item = u64> {
        self.requests.iter().filter_map(|(.., seen)| match seen {
            Seen::Made(file) => Some(*file),
            _ => None,
        })
    }

    /// The answer that fits no order, if there is one. The name was absent at first, and each file is made once.
    pub(crate) fn misfit(&self) -> Option<String> {
        let mut events = Vec::new();
        for (number, (called, answered, _)) in self.requests.iter().enumerate() {
            events.push((*called, false, number));
            events.extend(answered.map(|answered| (answered, true, number)));
        }
        // Of those at one time the calls come first: nothing says that one answer was there before another call.
        events.sort_unstable();
        if let Some(twice) = twice(self.made()) {
            return Some(format!("file {twice} was made twice"));
        }
        let mut under_way = BTreeSet::new();
        let mut possible = BTreeSet::from([(Name::Absent, BTreeSet::new())]);
        for (time, is_answer, number) in events {
            if !is_answer {
                under_way.insert(number);
                continue;
            }
            possible = self.done(possible, &under_way);
            possible = (possible.into_iter())
                .filter_map(|(name, mut done)| done.remove(&number).then_some((name, done)))
                .collect();
            under_way.remove(&number);
            if possible.is_empty() {
                let (called, _, seen) = self.requests[number];
                return Some(format!("{seen:?}, called {called:?}, answered {time:?}"));
            }
        }
        None
    }

    /// All that may have come of these states by requests under way.
    fn done(
        &self,
        possible: BTreeSet<Possible>,
        under_way: &BTreeSet<usize>,
    ) -> BTreeSet<Possible> {
        let mut all = possible.clone();
        let mut new: Vec<Possible> = possible.into_iter().collect();
        while let Some((name, done)) = new.pop() {
            for number in under_way.difference(&done) {
                let seen = self.requests[*number].2;
                // A request that was given up made a file that no other one is told that it made.
                let is_others = match (name, seen) {
                    (Name::Present(None), Seen::Found(file)) => self.made().any(|it| it == file),
                    _ => false,
                };
                let Some(after) = seen.after(name).filter(|_| !is_others) else {
                    continue;
                };
                let mut done = done.clone();
                done.insert(*number);
                if all.insert((after, done.clone())) {
                    new.push((after, done));
                }
            }
        }
        all
    }
}

/// A number that comes twice.
pub(crate) fn twice(numbers: impl Iterator<Item = u64>) -> Option<u64> {
    let mut all = BTreeSet::new();
    (numbers.into_iter()).find(|number| !all.insert(*number))
}

fn of(requests: &[(u64, u64, Seen)]) -> Option<String> {
    let mut history = History::default();
    for (called, answered, seen) in requests {
        let at = |milliseconds: u64| Instant::from_nanos(milliseconds * 1_000_000);
        history.add(at(*called), at(*answered), *seen);
    }
    history.misfit()
}

#[test]
fn answers_fit_an_order_or_not() {
    use Seen::*;
    for (fits, requests) in [
        (
            true,
            &[(0, 1, Made(1)), (2, 3, Found(1)), (4, 5, Removed)][..],
        ),
        (true, &[(0, 1, NotThere), (2, 3, Made(1)), (4, 5, Exists)]),
        // An answer from before an acknowledged change, and a change that is gone again.
        (false, &[(0, 1, Made(1)), (2, 3, NotThere)]),
        (false, &[(0, 1, Made(1)), (2, 3, Removed), (4, 5, Found(1))]),
        (false, &[(0, 1, Made(1)), (2, 3, Made(2))]),
        (false, &[(0, 1, Made(1)), (2, 3, Found(2))]),
        (false, &[(0, 1, Exists)]),
        (false, &[(0, 1, Made(1)), (2, 3, Removed), (4, 5, Made(1))]),
        // One of two at the same time was first.
        (true, &[(0, 9, Made(1)), (1, 3, NotThere), (2, 8, Found(1))]),
        (
            false,
            &[(0, 9, Made(1)), (1, 3, Found(1)), (4, 8, NotThere)],
        ),
        (false, &[(0, 9, Made(1)), (1, 3, Made(2))]),
        (true, &[(0, 9, Made(1)), (1, 3, Made(2)), (2, 8, Removed)]),
        (true, &[(0, 2, Made(1)), (2, 3, NotThere)]),
        // What was given up is done at some time, or never, and once.
        (true, &[(0, 1, MayMake), (2, 3, NotThere), (4, 5, Found(7))]),
        (true, &[(0, 1, MayMake), (2, 3, NotThere), (4, 5, NotThere)]),
        (true, &[(0, 1, MayMake), (2, 3, Exists), (4, 5, Removed)]),
        (
            false,
            &[
                (0, 1, MayMake),
                (2, 3, Made(1)),
                (4, 5, Removed),
                (6, 7, Found(1)),
            ],
        ),
        (
            false,
            &[(0, 1, MayMake), (2, 3, Found(7)), (4, 5, Found(8))],
        ),
        (false, &[(0, 1, MayMake), (2, 3, Removed), (4, 5, Exists)]),
        (
            true,
            &[
                (0, 1, Made(1)),
                (2, 3, MayRemove),
                (4, 5, Found(1)),
                (6, 7, NotThere),
            ],
        ),
        (
            false,
            &[
                (0, 1, Made(1)),
                (2, 3, MayRemove),
                (4, 5, NotThere),
                (6, 7, Found(1)),
            ],
        ),
    ] {
        assert_eq!(
            of(requests).is_none(),
            fits,
            "{requests:?}: {:?}",
            of(requests)
        );
    }
}
