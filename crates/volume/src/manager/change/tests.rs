use super::*;
use crate::limits::{CHANGE_LEN_MAX, REQUEST_AGE};
use gannet_meta::groups::Groups;
use gannet_meta::{DamagedValue, JournalMemory, JournaledStore, MemoryStore};
use gannet_wire::volume::{Chosen, FILE_NAME_MAX, ROOT, RequestId, SYMLINK_MAX, WIDTH_MAX};

/// A store in which one inode is damaged.
struct Spoiled(MemoryStore, FileId);

struct Seen<T>(T, FileId);

impl<T> Seen<T> {
    fn check(&self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        let key = key.to_vec();
        if table == Table::Inodes && key == self.1.0.to_be_bytes() {
            Err(StoreError(Box::new(DamagedValue { table, key })))
        } else {
            Ok(())
        }
    }
}

impl View for Seen<&mut dyn Transaction> {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        self.check(table, key)?;
        self.0.get(table, key)
    }

    fn scan(
        &self,
        table: Table,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<(), StoreError> {
        self.0.scan(table, from, each)
    }
}

impl Transaction for Seen<&mut dyn Transaction> {
    fn put(&mut self, table: Table, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.0.put(table, key, value)
    }

    fn delete(&mut self, table: Table, key: &[u8]) -> Result<(), StoreError> {
        self.0.delete(table, key)
    }
}

impl MetaStore for Spoiled {
    fn read(&self, look: &mut dyn FnMut(&dyn View)) -> Result<(), StoreError> {
        self.0.read(look)
    }

    fn commit(
        &self,
        work: &mut dyn FnMut(&mut dyn Transaction) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        self.0.commit(&mut |it| work(&mut Seen(it, self.1)))
    }
}

fn given(servers: u32, slots: usize) -> Given {
    Given {
        layouts: Layouts {
            default: Stripes::everywhere(4096),
            servers,
            groups: GroupsForFiles::of(&Groups::of_servers(servers), servers).into(),
            turn: 0,
            away: Arc::default(),
        },
        kept: Arc::default(),
        now: Timestamp::default(),
        room: RoomForReplies {
            slots,
            requests: 10,
        },
    }
}

/// An NFS call, of the client with this number.
fn request(client: u8, xid: u32, digest: u64) -> Option<RequestKey> {
    let client = [client; 16];
    Some(RequestKey {
        id: RequestId { client, xid },
        digest,
    })
}

fn mkdir(slot: u32, directory: FileId, name: &str) -> Work {
    let entry = Entry {
        directory,
        name: name.as_bytes().to_vec(),
    };
    let slot_sequence = SlotSequence {
        client: [1; 16],
        slot,
        sequence: 1,
    };
    Work {
        caller: Caller::new(0, 0, &[]),
        task: Task::Asked {
            slot_sequence,
            request: None,
            call: Call::Mkdir {
                entry,
                attributes: AttributeChanges::default(),
            },
        },
        last_write: Timestamp::default(),
    }
}

#[test]
fn a_damaged_inode_fails_the_changes_that_meet_it_and_no_others() {
    let store = MemoryStore::default();
    let format = |it: &mut dyn Transaction| {
        namespace::format(it, Timestamp::default()).unwrap();
        Ok(())
    };
    store.commit(&mut |it| format(it)).unwrap();
    let made = commit(&store, vec![mkdir(0, ROOT, "d")], &given(1, 10)).unwrap();
    let damaged = made.outcomes[0].as_ref().unwrap().inodes[0].0;
    let store = Spoiled(store, damaged);
    let work = vec![
        mkdir(1, ROOT, "before"),
        mkdir(2, damaged, "lost"),
        mkdir(3, ROOT, "after"),
    ];
    let done = commit(&store, work, &given(1, 10)).unwrap();
    let outcomes = done.outcomes.iter().map(|it| it.as_ref().map(|_| ()).err());
    let expected = [None, Some(&Status::Io), None];
    assert_eq!(outcomes.collect::<Vec<_>>(), expected);
    let caller = Caller::new(0, 0, &[]);
    store
        .read(&mut |view| {
            for name in [&b"before"[..], b"after"] {
                namespace::lookup(view, &caller, ROOT, name).unwrap();
            }
        })
        .unwrap();
}

/// As `CHANGE_LEN_MAX` says: a longer change would be written to the store below at once.
#[test]
fn the_longest_change_fits_its_part_of_the_journal() {
    let base = Arc::new(MemoryStore::default());
    let journal = JournalMemory::new([7; 16], (CHANGE_LEN_MAX / 4096) as u32);
    let below = Arc::clone(&base) as Arc<dyn MetaStore>;
    let store = JournaledStore::over(below, Box::new(journal), [7; 16]).unwrap();
    let wide = Stripes {
        unit: 4096,
        on: Chosen::Listed((0..WIDTH_MAX as u32).collect()),
        copies: None,
    };
    let (root, now) = (Caller::new(0, 0, &[7; 16]), Timestamp::default());
    let format = |it: &mut dyn Transaction| {
        let request = Request {
            caller: &root,
            now,
            intents: &RefCell::default(),
            has_room: true,
            kept: &KeptFiles::default(),
        };
        namespace::format(it, now).unwrap();
        let wide = Some(wide.clone());
        namespace::set_stripes(it, request, ROOT, wide, WIDTH_MAX as u32).unwrap();
        Ok(())
    };
    store.commit(&mut |it| format(it)).unwrap();
    let (name, text) = ("n".repeat(FILE_NAME_MAX), vec![b't'; SYMLINK_MAX]);
    let mut work = mkdir(0, ROOT, &name);
    if let Task::Asked {
        call: Call::Mkdir {
            entry, attributes, ..
        },
        ..
    } = &work.task
    {
        let call = Call::Symlink {
            entry: entry.clone(),
            text,
            attributes: *attributes,
        };
        work.task = Task::Asked {
            slot_sequence: SlotSequence::default(),
            request: request(1, 1, 1),
            call,
        };
    }
    let done = commit(&store, vec![work], &given(WIDTH_MAX as u32, 10)).unwrap();
    assert!(done.outcomes[0].is_ok());
    let found = |store: &dyn MetaStore| {
        let mut found = false;
        let look = &mut |view: &dyn View| {
            found = namespace::lookup(view, &root, ROOT, name.as_bytes()).is_ok();
        };
        store.read(look).unwrap();
        found
    };
    assert!(
        found(&store) && !found(&*base),
        "it is in the journal alone"
    );
}

#[test]
fn a_new_slot_waits_when_the_reply_cache_is_full_and_used_ones_go_on() {
    let store = MemoryStore::default();
    let format = &mut |it: &mut dyn Transaction| {
        namespace::format(it, Timestamp::default()).unwrap();
        Ok(())
    };
    store.commit(format).unwrap();
    let done = |work, slots| {
        let done = commit(&store, work, &given(1, slots)).unwrap();
        let outcomes = done.outcomes.into_iter().map(|it| it.err());
        (outcomes.collect::<Vec<_>>(), done.new_replies.slots)
    };
    let two = vec![mkdir(0, ROOT, "a"), mkdir(1, ROOT, "b")];
    assert_eq!(done(two, 1), (vec![None, Some(Status::Jukebox)], 1));
    let mut next = mkdir(0, ROOT, "c");
    if let Task::Asked { slot_sequence, .. } = &mut next.task {
        slot_sequence.sequence = 2;
    }
    // Sent again, and the slot's next change.
    assert_eq!(
        done(vec![mkdir(0, ROOT, "a"), next], 0),
        (vec![None, None], 0)
    );
    assert_eq!(done(vec![mkdir(1, ROOT, "b")], 1), (vec![None], 1));
}

/// The address of an NFS server moves, and calls under way come to another one, which has a session of its own.
#[test]
fn a_change_for_an_nfs_call_is_done_once_whichever_server_asks() {
    let store = MemoryStore::default();
    let format = &mut |it: &mut dyn Transaction| {
        namespace::format(it, Timestamp::default()).unwrap();
        Ok(())
    };
    store.commit(format).unwrap();
    let asks = |server: u8, call, asking, now: u64, requests| {
        let mut work = mkdir(0, ROOT, "");
        if let Task::Asked {
            slot_sequence,
            request,
            call: asked,
        } = &mut work.task
        {
            (slot_sequence.client, slot_sequence.sequence) = ([server; 16], now);
            (*request, *asked) = (asking, call);
        }
        let mut given = given(1, 10);
        given.now.seconds = now as i64;
        given.room.requests = requests;
        let done = commit(&store, vec![work], &given).unwrap();
        let outcome = done.outcomes[0].as_ref().map(|_| ()).map_err(|it| *it);
        let new = done.new_replies;
        (outcome, new.requests, new.slots)
    };
    let entry = |name: &[u8]| Entry {
        directory: ROOT,
        name: name.to_vec(),
    };
    let make = Call::Mkdir {
        entry: entry(b"d"),
        attributes: AttributeChanges::default(),
    };
    let remove = Call::Rmdir { entry: entry(b"d") };
    let (done, exists, gone) = (Ok(()), Err(Status::Exist), Err(Status::Noent));
    let age = REQUEST_AGE.as_secs();
    for (server, call, asking, now, requests, expected) in [
        (1, &make, request(1, 7, 1), 1, 1, (done, 1, 1)),
        (2, &make, request(1, 7, 1), 2, 0, (done, 0, 1)),
        (2, &make, request(1, 7, 2), 3, 9, (exists, 0, 0)),
        (2, &make, request(2, 7, 1), 4, 9, (exists, 0, 0)),
        (2, &make, None, 5, 9, (exists, 0, 0)),
        // What failed is tried again, and what was done is known until the client has another call in its row.
        (1, &remove, request(1, 8, 2), 6, 1, (done, 1, 0)),
        (2, &remove, request(1, 8, 2), 7, 1, (done, 0, 0)),
        (2, &remove, request(1, 9, 2), 8, 1, (gone, 0, 0)),
        // Without room it is done, but not known by the call.
        (1, &make, request(3, 1, 1), 9, 0, (done, 0, 0)),
        (2, &make, request(3, 1, 1), 10, 9, (exists, 0, 0)),
        // A used row needs no room.
        (1, &remove, request(1, 7, 3), 11, 0, (done, 0, 0)),
        (2, &remove, request(1, 7, 3), 11 + age, 0, (done, 0, 0)),
        (2, &remove, request(1, 7, 3), 12 + age, 0, (gone, 0, 0)),
        // By a clock that was ahead of the present one.
        (1, &make, request(1, 7, 4), 5000, 9, (done, 0, 0)),
        (3, &make, request(1, 7, 4), 5000 - age, 9, (done, 0, 1)),
        (4, &make, request(1, 7, 4), 4999 - age, 9, (exists, 0, 0)),
        (1, &remove, request(1, 7, 5), 5001, 9, (done, 0, 0)),
    ] {
        let found = asks(server, call.clone(), asking, now, requests);
        assert_eq!(found, expected, "{server} {asking:?} at {now}");
    }
    // The second server asks again, as after a lost answer, and another call has the row.
    for (server, call, asking, now, why) in [
        (1, &make, request(1, 7, 6), 6000, "it is there"),
        (2, &make, request(1, 7, 6), 6001, "it was done before"),
        (1, &remove, request(1, 7, 7), 6002, "it is gone"),
        (2, &make, request(1, 7, 6), 6001, "the slot has it"),
        (1, &make, None, 6003, "it was not made again"),
    ] {
        assert_eq!(asks(server, call.clone(), asking, now, 9).0, done, "{why}");
    }
}

/// Engines take a mebibyte at a time.
#[test]
fn long_changes_share_a_transaction_as_far_as_a_record_has_room() {
    let base = Arc::new(MemoryStore::default());
    let journal = JournalMemory::new([7; 16], (RECORD_LEN_MAX / 4096) as u32);
    let below = Arc::clone(&base) as Arc<dyn MetaStore>;
    let store = JournaledStore::over(below, Box::new(journal), [7; 16]).unwrap();
    let format = |it: &mut dyn Transaction| {
        namespace::format(it, Timestamp::default()).unwrap();
        Ok(())
    };
    store.commit(&mut |it| format(it)).unwrap();
    let symlink = |slot: u32| {
        let mut work = mkdir(slot, ROOT, "");
        let entry = Entry {
            directory: ROOT,
            name: format!("link {slot}").into_bytes(),
        };
        if let Task::Asked { call, .. } = &mut work.task {
            *call = Call::Symlink {
                entry,
                text: vec![b'x'; SYMLINK_MAX],
                attributes: AttributeChanges::default(),
            };
        }
        work
    };
    let mut left: Vec<Work> = (0..300).map(symlink).collect();
    let mut transactions = 0;
    while !left.is_empty() {
        let before = left.len();
        let made = commit(&store, left, &given(1, 1000)).unwrap();
        assert_eq!(made.outcomes.len() + made.left.len(), before);
        assert!(made.outcomes.iter().all(Result::is_ok));
        // A record without a place in the journal would have gone down at once.
        assert!(store.lengths().journal > made.outcomes.len() as u64 * SYMLINK_MAX as u64);
        (left, transactions) = (made.left, transactions + 1);
    }
    assert!((2..10).contains(&transactions), "{transactions}");
    store
        .read(&mut |view| {
            let (caller, name) = (Caller::new(0, 0, &[]), b"link 299");
            namespace::lookup(view, &caller, ROOT, name).unwrap();
        })
        .unwrap();
}
