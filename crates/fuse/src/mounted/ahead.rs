//! Listing a directory ahead of programs that ask for its names one by one.

use super::{Entry, Mounted};
use crate::ahead::{Ahead, Known, Look, Scan};
use gannet_runtime::sleep;
use gannet_vfs::{Credentials, Verifier, Vfs};
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
            let mut place = Some((0, Verifier::default()));
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
