//! Listing a directory ahead of programs that ask for its names one by one.

use super::{Entry, Mounted};
use crate::ahead::{Ahead, Known, Look, Scan};
use crate::listing::PagePlace;
use gannet_runtime::sleep;
use gannet_vfs::{Credentials, Vfs};
use std::cell::RefCell;
use std::rc::Rc;

/// A guard of a change of names. Its drop ends the change also when a deadline drops the request.
pub(super) struct ChangingNames<'a>(&'a RefCell<Ahead>);

impl Drop for ChangingNames<'_> {
    fn drop(&mut self) {
        self.0.borrow_mut().changed();
    }
}

impl<V: Vfs> Mounted<V> {
    /// Begins a change of names: until it is over, and for what was listed before, each name is asked for.
    pub(super) fn changing_names(&self) -> ChangingNames<'_> {
        self.ahead.borrow_mut().change();
        ChangingNames(&self.ahead)
    }

    /// The entry of a name that was listed ahead. A scan begins where it is due.
    pub(super) async fn look_ahead(
        self: &Rc<Self>,
        caller: &Credentials,
        process: u32,
        parent: u64,
        name: &[u8],
    ) -> Option<Entry> {
        let (age, now) = (self.options.cache_age, self.runtime.now());
        let looked = (self.ahead.borrow_mut()).look(parent, caller, name, age, now);
        match looked {
            Look::Known(known, left) => {
                if self.knows_better(&known.handle, known.fetched.asked) {
                    return None;
                }
                self.learn_first(&known.handle, &known.fetched).await;
                let mut entry = self.report(&known.handle, &known.fetched, process);
                self.requests.names.note(true);
                entry.age = left;
                Some(entry)
            }
            Look::Unknown(is_due) => {
                let begun = is_due.then(|| self.ahead.borrow_mut().begin(now)).flatten();
                if let Some((scan, caller)) = begun {
                    let mounted = Rc::clone(self);
                    let scanning = async move { mounted.scan(scan, &caller).await };
                    self.runtime.spawn("names ahead", Box::pin(scanning));
                }
                None
            }
        }
    }

    /// Lists a directory once, and frees the pages when they are old.
    async fn scan(&self, scan: Scan, caller: &Credentials) {
        let begun = self.runtime.now();
        let listed = self.within(async {
            let mut place = Some(PagePlace::default());
            while let Some(next) = place {
                let (directory, since) = (self.handle(scan.directory)?, self.runtime.now());
                let page = self.read_page(caller, &directory, next, 0).await?;
                let (objects, behind) = page.into_objects();
                let known = objects.into_iter().map(|(name, handle, fetched)| {
                    let known = Known {
                        handle,
                        fetched,
                        since,
                    };
                    (name, known)
                });
                let stored = self.ahead.borrow_mut().store(scan, known.collect());
                place = behind.filter(|_| stored);
            }
            Ok(())
        });
        // Without an answer the programs ask for each name themselves, and are told.
        let _ = listed.await;
        self.ahead.borrow_mut().end(scan, begun);
        sleep(&self.runtime, self.options.cache_age).await;
        let (age, now) = (self.options.cache_age, self.runtime.now());
        self.ahead.borrow_mut().expire(age, now);
        self.runtime.release_memory();
    }
}

#[cfg(test)]
mod tests {
    use super::super::data::tests::on_a_file_with_age;
    use super::*;
    use crate::inodes::ROOT;
    use crate::limits::{AHEAD_NAMES_MIN, ASKED_BEFORE_AHEAD};
    use crate::listing::PortionPlus;
    use crate::session::Caching;
    use fuser::Errno;
    use gannet_runtime::{Handle, timeout};
    use std::fs;
    use std::time::Duration;

    const AGE: Duration = Duration::from_secs(3600);

    /// The position behind the names so far.
    struct Last(u64);

    impl PortionPlus for Last {
        fn add(&mut self, _entry: &Entry, next: u64, _name: &[u8]) -> bool {
            self.0 = next;
            false
        }
    }

    fn name(number: usize) -> String {
        format!("name-{number:04}")
    }

    #[test]
    fn names_that_are_asked_for_one_by_one_come_from_one_listing_until_a_name_changes() {
        on_a_file_with_age(Caching::Cached, AGE, async |share, mounted, _| {
            for number in 0..AHEAD_NAMES_MIN + 100 {
                fs::write(share.join(name(number)), b"").unwrap();
            }
            let caller = mounted.options.caller.clone().unwrap();
            let look = async |number| {
                let name = name(number).into_bytes();
                mounted.lookup(&caller, 1, ROOT, &name).await
            };
            let key = mounted.open_directory(&caller, ROOT).unwrap();
            let mut last = Last(0);
            loop {
                let before = last.0;
                mounted.list_plus(key, before, &mut last).await.unwrap();
                if last.0 == before {
                    break;
                }
            }
            // A few are asked for at the store: their attributes have the whole age.
            for number in 0..ASKED_BEFORE_AHEAD {
                assert_eq!(look(number).await.unwrap().age, AGE);
            }
            let listed = async {
                while look(1000).await.unwrap().age == AGE {
                    sleep(&mounted.runtime, Duration::from_millis(1)).await;
                }
            };
            let runtime = Handle::clone(&mounted.runtime);
            timeout(&runtime, Duration::from_secs(60), listed)
                .await
                .unwrap();
            // Another host removes a file: it is seen within the age, as with all attributes.
            fs::remove_file(share.join(name(1001))).unwrap();
            assert!(look(1001).await.is_ok());
            // What this mount changes is seen at once.
            let removed = name(1002).into_bytes();
            mounted.remove(&caller, ROOT, &removed).await.unwrap();
            for number in [1001, 1002] {
                assert_eq!(look(number).await.err(), Some(Errno::ENOENT));
            }
        });
    }
}
