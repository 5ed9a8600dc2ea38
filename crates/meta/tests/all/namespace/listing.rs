//! Listings that changes of names come between.

use super::{ANN, both, guarded};
use gannet_meta::namespace;
use gannet_wire::volume::{Caller, ROOT};
use std::cell::{Cell, RefCell};

#[test]
fn a_listing_goes_on_where_it_stopped_whatever_happens_meanwhile() {
    both(|names| {
        let at = names.directory(ANN, ROOT, "many");
        for number in 0..20 {
            names
                .create(ANN, at, &format!("file-{number}"), &guarded(0o600))
                .unwrap();
        }
        let caller = Caller::new(0, 0, &[]);
        let (seen, cookie) = (RefCell::new(Vec::new()), Cell::new(0));
        loop {
            let taken = Cell::new(0);
            let complete = names
                .look(|view| {
                    namespace::list(view, &caller, at, cookie.get(), &mut |entry| {
                        if taken.get() == 3 {
                            return false;
                        }
                        taken.set(taken.get() + 1);
                        cookie.set(entry.cookie);
                        seen.borrow_mut()
                            .push(String::from_utf8(entry.name).unwrap());
                        true
                    })
                })
                .unwrap();
            if complete {
                break;
            }
            // What was listed goes, what comes is new: neither moves the place.
            let gone = seen
                .borrow()
                .last()
                .cloned()
                .filter(|name| name.starts_with("file"));
            gone.into_iter()
                .for_each(|name| names.remove(ANN, at, &name).unwrap());
        }
        let files: Vec<String> = (0..20).map(|number| format!("file-{number}")).collect();
        assert_eq!(seen.into_inner()[2..], files);
    });
}

/// A name that went behind all others would be met again, without end.
#[test]
fn a_program_that_renames_what_it_lists_meets_each_file_once() {
    both(|names| {
        let at = names.directory(ANN, ROOT, "renamed");
        for number in 0..20 {
            let name = format!("file-{number}");
            names.create(ANN, at, &name, &guarded(0o600)).unwrap();
        }
        let caller = Caller::new(0, 0, &[]);
        let (mut renamed, cookie) = (0, Cell::new(2));
        loop {
            let next = RefCell::new(None);
            let listed = names.look(|view| {
                namespace::list(view, &caller, at, cookie.get(), &mut |entry| {
                    let is_first = next.borrow().is_none();
                    if is_first {
                        cookie.set(entry.cookie);
                        next.replace(Some(String::from_utf8(entry.name).unwrap()));
                    }
                    is_first
                })
            });
            listed.unwrap();
            let Some(name) = next.take() else {
                break;
            };
            renamed += 1;
            assert!(renamed <= 20, "{name} comes again");
            // Every second one replaces another file.
            let new = format!("new-{}", renamed / 2);
            names.rename(ANN, at, &name, at, &new).unwrap();
        }
        assert_eq!((renamed, names.list(at).len()), (20, 2 + 11));
    });
}
