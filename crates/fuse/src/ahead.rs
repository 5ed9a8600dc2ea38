//! Attributes of a whole directory, listed once more while a program asks for them name by name.
//!
//! `du` and `find -size` list a directory first, and ask for the attributes of its names afterwards. The kernel has
//! those of the listing, but trusts them for the cache age only, and a long listing takes longer. Then each name is a
//! question of its own. After a few of them, the mount lists the directory again and answers the others from that
//! listing. An answer is as old as the page that it comes from, and never older than the cache age.
//!
//! One directory at a time, for one caller: another caller may see other objects.

use crate::inodes::Fetched;
use crate::limits::{
    AHEAD_NAMES_MAX, AHEAD_NAMES_MIN, AHEAD_PAUSE, AHEAD_PAUSE_CUT, ASKED_BEFORE_AHEAD,
};
use gannet_runtime::Instant;
use gannet_vfs::{Credentials, FileHandle};
use std::collections::HashMap;
use std::time::Duration;

/// The attributes of the directory that was listed last.
#[derive(Default)]
pub(crate) struct Ahead {
    listed: Option<Directory>,
    /// Raised by each change of names: pages that were asked for before it do not count.
    version: u64,
    /// Changes of names under way.
    changing: usize,
}

/// A directory that a program has listed.
struct Directory {
    number: u64,
    caller: Credentials,
    /// Names in that listing.
    names: usize,
    known: HashMap<Vec<u8>, Known>,
    /// Names that were asked for and not known, since the last scan began.
    asked: usize,
    /// Names that were known, since the last scan began.
    found: usize,
    /// Names that the last scan listed.
    scanned: usize,
    is_scanning: bool,
    /// A change of names ended the last scan early.
    was_cut: bool,
    not_before: Option<Instant>,
}

/// An object as a page listed it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    pub(crate) handle: FileHandle,
    pub(crate) fetched: Fetched,
    /// The time before the request for the page.
    pub(crate) since: Instant,
}

/// The answer for a name.
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // It is matched at once, and never stored.
pub(crate) enum Look {
    /// The object, and for how long its attributes are good.
    Known(Known, Duration),
    /// Not known; with true, the directory should be scanned now.
    Unknown(bool),
}

/// The right to store pages of one scan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scan {
    pub(crate) directory: u64,
    version: u64,
}

impl Ahead {
    /// Notes that a program listed so many more names of a directory; with `is_start`, from its start.
    pub(crate) fn listed(
        &mut self,
        number: u64,
        caller: &Credentials,
        names: usize,
        is_start: bool,
    ) {
        match &mut self.listed {
            Some(it) if it.number == number && it.caller == *caller => {
                it.names = if is_start { names } else { it.names + names };
            }
            // A directory that is being scanned is not given up for one of few names.
            Some(it) if it.is_scanning && names < AHEAD_NAMES_MIN => {}
            _ => {
                self.version += 1;
                self.listed = Some(Directory {
                    number,
                    caller: caller.clone(),
                    names,
                    known: HashMap::new(),
                    asked: 0,
                    found: 0,
                    scanned: 0,
                    is_scanning: false,
                    was_cut: false,
                    not_before: None,
                });
            }
        }
    }

    /// Looks a name up for a caller.
    pub(crate) fn look(
        &mut self,
        number: u64,
        caller: &Credentials,
        name: &[u8],
        age: Duration,
        now: Instant,
    ) -> Look {
        let is_changing = self.changing > 0;
        let listed = self.listed.as_mut();
        let Some(it) = listed.filter(|it| it.number == number && it.caller == *caller) else {
            return Look::Unknown(false);
        };
        let known = it.known.get(name).copied();
        let left = known.map_or(Duration::ZERO, |known| {
            (known.since + age).duration_since(now)
        });
        if let Some(known) = known.filter(|_| !left.is_zero() && !is_changing) {
            it.found += 1;
            return Look::Known(known, left);
        }
        it.asked += 1;
        let is_worth = (AHEAD_NAMES_MIN..=AHEAD_NAMES_MAX).contains(&it.names)
            && it.asked >= ASKED_BEFORE_AHEAD
            && !age.is_zero();
        let may = !it.is_scanning && it.not_before.is_none_or(|when| now >= when);
        Look::Unknown(is_worth && may && !is_changing)
    }

    /// Begins a scan; `None` if the last one was of little use, or another is under way.
    pub(crate) fn begin(&mut self, now: Instant) -> Option<(Scan, Credentials)> {
        let it = self.listed.as_mut().filter(|it| !it.is_scanning)?;
        let was_of_use = it.found * 8 >= it.scanned;
        (it.asked, it.found, it.scanned) = (0, 0, 0);
        if !was_of_use {
            let pause = if it.was_cut {
                AHEAD_PAUSE_CUT
            } else {
                AHEAD_PAUSE
            };
            it.not_before = Some(now + pause);
            return None;
        }
        (it.is_scanning, it.was_cut) = (true, false);
        let scan = Scan {
            directory: it.number,
            version: self.version,
        };
        Some((scan, it.caller.clone()))
    }

    /// Stores a page of a scan; false if the scan is over, because names have changed or another directory was listed.
    pub(crate) fn store(&mut self, scan: Scan, page: Vec<(Vec<u8>, Known)>) -> bool {
        let is_old = scan.version != self.version || self.changing > 0;
        let Some(it) = self.listed.as_mut().filter(|_| !is_old) else {
            return false;
        };
        debug_assert!(it.is_scanning && it.number == scan.directory);
        it.scanned += page.len();
        it.known.extend(page);
        it.scanned <= AHEAD_NAMES_MAX
    }

    /// Ends a scan that began at `since`. Names that it did not list are gone.
    pub(crate) fn end(&mut self, scan: Scan, since: Instant) {
        if scan.version == self.version
            && let Some(it) = &mut self.listed
        {
            it.is_scanning = false;
            it.known.retain(|_, known| known.since >= since);
        }
    }

    /// Frees what is older than `age`.
    pub(crate) fn expire(&mut self, age: Duration, now: Instant) {
        if let Some(it) = &mut self.listed {
            it.known.retain(|_, known| now < known.since + age);
            it.known.shrink_to_fit();
        }
    }

    /// A change of names begins: nothing that was listed before its end may answer for a name.
    pub(crate) fn change(&mut self) {
        self.changing += 1;
        self.forget();
    }

    /// A change of names is over.
    pub(crate) fn changed(&mut self) {
        debug_assert!(self.changing > 0);
        self.changing -= 1;
        self.forget();
    }

    fn forget(&mut self) {
        self.version += 1;
        if let Some(it) = &mut self.listed {
            it.known.clear();
            it.was_cut |= it.is_scanning;
            (it.asked, it.is_scanning) = (0, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inodes::Epoch;
    use crate::inodes::tests::file;

    const AGE: Duration = Duration::from_secs(1);

    fn at(milliseconds: u64) -> Instant {
        Instant::default() + Duration::from_millis(milliseconds)
    }

    fn user(uid: u32) -> Credentials {
        Credentials::new(uid, uid, &[])
    }

    fn page(names: std::ops::Range<u32>, since: Instant) -> Vec<(Vec<u8>, Known)> {
        let known = |name: u32| Known {
            handle: FileHandle::new(&name.to_be_bytes()).unwrap(),
            fetched: Fetched {
                attributes: file(u64::from(name), 0),
                asked: Epoch::default(),
            },
            since,
        };
        names
            .map(|name| (name.to_be_bytes().to_vec(), known(name)))
            .collect()
    }

    fn look(ahead: &mut Ahead, name: u32, now: Instant) -> Look {
        ahead.look(7, &user(1), &name.to_be_bytes(), AGE, now)
    }

    /// Asks for names until a scan is due, and begins it.
    fn begun(ahead: &mut Ahead, now: Instant) -> Scan {
        for name in 1..ASKED_BEFORE_AHEAD as u32 {
            assert!(matches!(look(ahead, name, now), Look::Unknown(false)));
        }
        assert!(matches!(look(ahead, 0, now), Look::Unknown(true)));
        ahead.begin(now).unwrap().0
    }

    #[test]
    fn a_directory_whose_names_are_asked_for_is_scanned_and_answers_until_the_age_of_each_page() {
        let mut ahead = Ahead::default();
        ahead.listed(7, &user(1), 1500, true);
        ahead.listed(7, &user(1), 500, false);
        let scan = begun(&mut ahead, at(0));
        assert!(ahead.begin(at(0)).is_none(), "one scan at a time");
        assert!(ahead.store(scan, page(0..1000, at(10))));
        assert!(ahead.store(scan, page(1000..2000, at(500))));
        ahead.end(scan, at(0));
        let Look::Known(known, left) = look(&mut ahead, 5, at(210)) else {
            panic!("a name of the first page");
        };
        assert_eq!((known.since, left), (at(10), Duration::from_millis(800)));
        assert!(matches!(look(&mut ahead, 5, at(1010)), Look::Unknown(_)));
        assert!(matches!(look(&mut ahead, 1500, at(1010)), Look::Known(..)));
        // Not for others, nor for other directories.
        for (number, uid) in [(7, 2), (8, 1)] {
            let look = ahead.look(number, &user(uid), &5_u32.to_be_bytes(), AGE, at(210));
            assert!(matches!(look, Look::Unknown(false)));
        }
        ahead.expire(AGE, at(1010));
        assert_eq!(ahead.listed.as_ref().unwrap().known.len(), 1000);
    }

    #[test]
    fn a_change_of_names_forgets_all_and_ends_the_scan() {
        let mut ahead = Ahead::default();
        ahead.listed(7, &user(1), 2000, true);
        let scan = begun(&mut ahead, at(0));
        assert!(ahead.store(scan, page(0..1000, at(10))));
        ahead.change();
        assert!(matches!(look(&mut ahead, 5, at(20)), Look::Unknown(false)));
        assert!(
            !ahead.store(scan, page(1000..2000, at(10))),
            "a page from before the change"
        );
        ahead.changed();
        assert!(!ahead.store(scan, page(1000..2000, at(10))));
        ahead.end(scan, at(0));
        assert!(matches!(look(&mut ahead, 1500, at(20)), Look::Unknown(_)));
        // The next scan waits a little, since this one answered nothing, and counts.
        let next = |ahead: &mut Ahead, now| {
            let due = (0..100).any(|name| matches!(look(ahead, name, now), Look::Unknown(true)));
            ahead.begin(now).filter(|_| due)
        };
        assert!(next(&mut ahead, at(30)).is_none());
        let later = at(30) + AHEAD_PAUSE_CUT;
        let (scan, _) = next(&mut ahead, later).unwrap();
        assert!(ahead.store(scan, page(0..1000, later)));
        assert!(matches!(look(&mut ahead, 5, later), Look::Known(..)));
    }

    #[test]
    fn small_and_huge_directories_and_scans_of_little_use_are_left_alone() {
        let mut ahead = Ahead::default();
        for names in [AHEAD_NAMES_MIN - 1, AHEAD_NAMES_MAX + 1] {
            ahead.listed(7, &user(1), names, true);
            for name in 0..100 {
                assert!(matches!(
                    look(&mut ahead, name, at(0)),
                    Look::Unknown(false)
                ));
            }
        }
        ahead.listed(7, &user(1), 2000, true);
        assert!(matches!(look(&mut ahead, 1, at(0)), Look::Unknown(true)));
        let (scan, _) = ahead.begin(at(0)).unwrap();
        assert!(ahead.store(scan, page(0..2000, at(0))));
        ahead.end(scan, at(0));
        // A hundred of 2000 were asked for.
        for name in 0..100 {
            assert!(matches!(look(&mut ahead, name, at(1)), Look::Known(..)));
        }
        for name in 0..16 {
            look(&mut ahead, name, at(1500));
        }
        assert!(ahead.begin(at(1500)).is_none());
        let later = at(1500) + AHEAD_PAUSE;
        assert!(
            matches!(look(&mut ahead, 1, later), Look::Unknown(false)),
            "it asks for few"
        );
        let due = (0..100).any(|name| matches!(look(&mut ahead, name, later), Look::Unknown(true)));
        assert!(due && ahead.begin(later).is_some());
    }
}
