//! Write-behind over a server with faults.

mod server;

use super::*;
use gannet_runtime::yield_now;
use gannet_sim::World;
use gannet_vfs::{Credentials, FileHandle, Status};
use server::Server;
use std::future::Future;
use std::time::Duration;

/// A front end that notes what it hears.
#[derive(Default)]
struct Watcher {
    refused: Cell<u32>,
}

impl FrontEnd for Watcher {
    fn changed(&self, _: &FileWrites, _: &Wcc) {}

    fn refused(&self, _: &FileWrites) {
        self.refused.set(self.refused.get() + 1);
    }

    fn room_changed(&self, _: &FileWrites, _: bool) {}
}

/// Programs that write to a server.
struct Stage {
    server: Rc<Server>,
    watcher: Rc<Watcher>,
    writes: Rc<WriteBehind<Server, Watcher>>,
    keys: Cell<u64>,
}

impl Stage {
    /// An open description of the file with this name, by a user; gives its key too.
    fn open(&self, name: &str, uid: u32) -> (u64, Description) {
        let handle = FileHandle::new(name.as_bytes()).unwrap();
        let description = Description {
            file: self.writes.files.file(&handle),
            caller: Credentials::new(uid, uid, &[]),
        };
        self.keys.set(self.keys.get() + 1);
        let key = self.keys.get();
        let mut descriptions = self.writes.descriptions.borrow_mut();
        descriptions.open(key, description.clone());
        (key, description)
    }

    /// A write(2) that is answered before the server has its bytes.
    async fn write(&self, open: &Description, offset: u64, bytes: &[u8]) {
        let data = Buffer::from_vec(bytes.to_vec());
        let written = self.writes.write_behind(open, offset, data, bytes.len());
        assert_eq!(written.await, Ok(()));
    }

    /// An fsync(2).
    async fn sync(&self, key: u64, open: &Description) -> Result<(), Status> {
        let committed = self.writes.commit(&open.file).await;
        self.take_failure(key).map_or(committed, Err)
    }

    fn take_failure(&self, key: u64) -> Option<Status> {
        self.writes.descriptions.borrow_mut().take_failure(key)
    }
}

/// Lets every task run until it waits for the server.
async fn settle() {
    for _ in 0..1000 {
        yield_now().await;
    }
}

fn story(body: impl AsyncFnOnce(Stage) + 'static) {
    let bounds = KeptBounds::default();
    story_within(bounds, body);
}

/// As [`story`], with bounds for what is kept.
fn story_within(bounds: KeptBounds, body: impl AsyncFnOnce(Stage) + 'static) {
    let world = World::new(7);
    let runtime = world.add_node("client").runtime();
    let told = world.run(async move {
        let (server, watcher) = (Rc::new(Server::default()), Rc::new(Watcher::default()));
        let (store, front) = (Rc::clone(&server), Rc::clone(&watcher));
        let (files, turns) = (FileTable::default(), Turns::ordered(&runtime));
        let writes = WriteBehind::new(runtime, store, front, files, turns, bounds);
        let stage = Stage {
            server,
            watcher,
            writes: Rc::new(writes),
            keys: Cell::new(0),
        };
        body(stage).await;
    });
    assert!(told.is_ok());
}

#[test]
fn the_refusal_of_a_commit_that_another_file_caused_is_told_to_the_writer() {
    let bounds = KeptBounds {
        commit_ahead: 1 << 20,
        file_max: 1 << 20,
        all_max: 4999,
    };
    story_within(bounds, async |stage| {
        let (key, full) = stage.open("full", 1);
        stage.write(&full, 0, &[7; 4999]).await;
        assert_eq!(stage.writes.drain(&full.file).await, Ok(()));
        stage.server.refuse_commits(1, Some(Status::Nospc));
        let (other_key, other) = stage.open("other", 2);
        stage.write(&other, 0, &[7; 10]).await;
        assert_eq!(stage.writes.drain(&other.file).await, Ok(()));
        settle().await;
        stage.server.refuse_commits(1, None);
        assert_eq!(stage.sync(other_key, &other).await, Ok(()));
        assert_eq!(stage.sync(key, &full).await, Err(Status::Nospc));
        assert_eq!(stage.sync(key, &full).await, Ok(()));
        assert_eq!(stage.writes.kept(), 0);
    });
}

/// Checks that no WRITE came before the answer to an earlier one that it overlaps.
fn assert_ordered(stage: &Stage) {
    let writes: Vec<_> = (stage.server.requests().into_iter())
        .filter_map(|request| {
            let (offset, bytes) = request.written?;
            let range = offset..offset + bytes.len() as u64;
            Some((request.file, range, request.came, request.answered))
        })
        .collect();
    for (index, (file, range, came, _)) in writes.iter().enumerate() {
        for (earlier_file, earlier, _, answered) in &writes[..index] {
            let overlap = earlier.start < range.end && range.start < earlier.end;
            if overlap && file == earlier_file {
                assert!(answered.is_some_and(|answered| answered < *came));
            }
        }
    }
}

#[test]
fn overlapping_writes_leave_in_order_resends_included() {
    story(async |stage| {
        stage.server.shuffle();
        let (key, mine) = stage.open("file", 1);
        let (_, yours) = stage.open("file", 2);
        let mut local = vec![0; 4000];
        let mut chosen = 1_u64;
        for step in 0..300_u64 {
            chosen = chosen.wrapping_mul(6_364_136_223_846_793_005) + 1;
            let (offset, len) = ((chosen >> 33) % 3000, 1 + (chosen >> 50) % 900);
            let bytes = vec![step as u8; len as usize];
            local[offset as usize..][..len as usize].copy_from_slice(&bytes);
            let open = if chosen >> 63 == 0 { &mine } else { &yours };
            stage.write(open, offset, &bytes).await;
            match step % 50 {
                10 => settle().await,
                20 => stage.server.restart(),
                40 => assert_eq!(stage.sync(key, open).await, Ok(())),
                _ => {}
            }
        }
        assert_eq!(stage.sync(key, &mine).await, Ok(()));
        stage.server.restart();
        let content = stage.server.content(mine.file.handle());
        assert!(content[..] == local[..content.len()]);
        assert_ordered(&stage);
        assert_eq!((stage.writes.kept(), stage.writes.waiting()), (0, 0));
    });
}

#[test]
fn each_write_has_the_credentials_of_its_writer_resends_included() {
    story(async |stage| {
        let [(key, mine), (_, yours)] = [1, 2].map(|uid| stage.open("file", uid));
        let opens = [mine, yours];
        for step in 0..20 {
            let open = &opens[step % 2];
            stage
                .write(open, step as u64, &[open.caller.uid as u8])
                .await;
        }
        assert_eq!(stage.writes.drain(&opens[0].file).await, Ok(()));
        // The first of them resends the bytes of both.
        stage.server.restart();
        assert_eq!(stage.sync(key, &opens[0]).await, Ok(()));
        for request in stage.server.requests() {
            let bytes = request.written.map(|(_, bytes)| bytes);
            assert!(bytes.is_none_or(|it| it.iter().all(|byte| u32::from(*byte) == request.uid)));
        }
        assert_eq!(stage.server.content(opens[0].file.handle()).len(), 20);
    });
}

#[test]
fn an_answered_error_is_told_once_to_each_open_description_of_its_writer() {
    story(async |stage| {
        stage.server.refuse(1, Some(Status::Dquot));
        let opens = [1, 1, 2].map(|uid| stage.open("file", uid));
        let (_, writer) = &opens[0];
        stage.write(writer, 0, b"refused").await;
        stage.write(&opens[2].1, 10, b"taken").await;
        assert_eq!(stage.writes.drain(&writer.file).await, Ok(()));
        assert_eq!(stage.watcher.refused.get(), 1);
        assert!(
            !stage.writes.has_room(&writer.file),
            "a failure is to be told"
        );
        let told = opens.map(|(key, _)| [stage.take_failure(key), stage.take_failure(key)]);
        let refused = [Some(Status::Dquot), None];
        assert_eq!(told, [refused, refused, [None, None]]);
        assert!(stage.writes.waiting() == 0 && stage.writes.kept() == 5);
    });
}

#[test]
fn a_silent_server_drops_nothing() {
    story(async |stage| {
        let (key, open) = stage.open("file", 1);
        stage.server.set_silent(open.file.handle(), true);
        stage.write(&open, 0, b"waits").await;
        {
            let mut commit = std::pin::pin!(stage.sync(key, &open));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            assert!(commit.as_mut().poll(&mut context).is_pending());
            settle().await;
            // The program's deadline ends the commit here.
        }
        assert!(stage.writes.waiting() > 0);
        stage.server.set_silent(open.file.handle(), false);
        assert_eq!(stage.sync(key, &open).await, Ok(()));
        assert_eq!(stage.server.content(open.file.handle()), b"waits");
    });
}

#[test]
fn a_resend_that_is_refused_drops_the_bytes_of_its_writer_alone() {
    story(async |stage| {
        let [(mine, my), (yours, your)] = [1, 2].map(|uid| stage.open("file", uid));
        stage.write(&my, 0, b"mine").await;
        stage.write(&your, 4, b"yours").await;
        assert_eq!(stage.writes.drain(&my.file).await, Ok(()));
        stage.server.restart();
        stage.server.refuse(2, Some(Status::Acces));
        assert_eq!(stage.sync(mine, &my).await, Ok(()));
        assert_eq!(stage.server.content(my.file.handle()), b"mine");
        assert_eq!(stage.watcher.refused.get(), 1);
        assert_eq!(stage.sync(yours, &your).await, Err(Status::Acces));
        assert_eq!(stage.sync(yours, &your).await, Ok(()));
        assert_eq!(stage.writes.kept(), 0);
    });
}

#[test]
fn a_resend_outlives_the_deadline_of_its_caller() {
    story(async |stage| {
        let (key, open) = stage.open("file", 1);
        stage.write(&open, 0, b"old").await;
        assert_eq!(stage.writes.drain(&open.file).await, Ok(()));
        stage.server.restart();
        let file = *open.file.handle();
        {
            let mut sync = std::pin::pin!(stage.sync(key, &open));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            // It ends with the resend under way.
            let is_resent = || {
                let requests = stage.server.requests();
                requests.iter().filter(|it| it.written.is_some()).count() == 2
            };
            while !is_resent() {
                assert!(sync.as_mut().poll(&mut context).is_pending());
                yield_now().await;
            }
            stage.server.set_silent(&file, true);
        }
        stage.write(&open, 0, b"new").await;
        settle().await;
        stage.server.set_silent(&file, false);
        assert_eq!(stage.sync(key, &open).await, Ok(()));
        assert_eq!(stage.server.content(&file), b"new");
        assert_ordered(&stage);
    });
}

#[test]
fn bytes_of_a_closed_file_wait_for_a_silent_server() {
    story(async |stage| {
        let (key, open) = stage.open("file", 1);
        let handle = *open.file.handle();
        stage.write(&open, 0, b"sent").await;
        assert_eq!(stage.writes.drain(&open.file).await, Ok(()));
        let silence = Some(Status::Jukebox);
        stage.server.refuse(1, silence);
        stage.server.refuse_commits(1, silence);
        stage.write(&open, 4, b" late").await;
        assert_eq!(stage.sync(key, &open).await, Err(Status::Jukebox));
        stage.writes.descriptions.borrow_mut().close(key);
        stage.writes.commit_in_time(&open.file);
        drop(open);
        assert_eq!(stage.writes.unfinished().len(), 1);
        stage.server.refuse(1, None);
        stage.server.refuse_commits(1, None);
        while !stage.writes.unfinished().is_empty() {
            // Of the world's time.
            sleep(&stage.writes.runtime, SILENCE_PAUSE).await;
        }
        assert_eq!(stage.server.content(&handle), b"sent late");
        assert_eq!((stage.writes.kept(), stage.writes.waiting()), (0, 0));
    });
}

#[test]
fn what_a_store_gives_up_for_a_silent_server_is_sent_again() {
    story(async |stage| {
        let (key, open) = stage.open("file", 1);
        stage.write(&open, 0, b"sent").await;
        assert_eq!(stage.writes.drain(&open.file).await, Ok(()));
        let silence = Some(Status::Jukebox);
        stage.server.refuse_commits(1, silence);
        assert_eq!(stage.sync(key, &open).await, Err(Status::Jukebox));
        stage.server.refuse_commits(1, None);
        stage.server.restart();
        stage.server.refuse(1, silence);
        // The resend, and then a run that waits for it.
        assert_eq!(stage.sync(key, &open).await, Err(Status::Jukebox));
        stage.write(&open, 4, b" late").await;
        assert_eq!(stage.sync(key, &open).await, Err(Status::Jukebox));
        assert_eq!((stage.writes.kept(), stage.watcher.refused.get()), (4, 0));
        stage.server.refuse(1, None);
        assert_eq!(stage.sync(key, &open).await, Ok(()));
        let content = stage.server.content(open.file.handle());
        assert_eq!(content, b"sent late");
        assert_eq!((stage.writes.kept(), stage.writes.waiting()), (0, 0));
    });
}

/// Has files of a silent server keep as much as they may, each by a task that writes until it waits.
async fn fill_with_silence(stage: &Rc<Stage>, files: usize) {
    for number in 0..files {
        let (_, open) = stage.open(&format!("silent {number}"), 1);
        stage.server.set_silent(open.file.handle(), true);
        let filling = Rc::clone(stage);
        let fill = async move {
            for place in 0.. {
                filling.write(&open, place << 20, &vec![7; 1 << 20]).await;
            }
        };
        stage
            .writes
            .runtime
            .spawn("writer of a silent file", Box::pin(fill));
        settle().await;
    }
}

#[test]
fn bytes_for_a_silent_server_leave_room_for_other_files() {
    story(async |stage| {
        let stage = Rc::new(stage);
        fill_with_silence(&stage, 4).await;
        let silent = stage.writes.waiting();
        assert!(silent > BEHIND_MAX / 2);
        let (key, open) = stage.open("file", 1);
        // It is as silent for now: what it keeps is room that it has.
        stage.server.set_silent(open.file.handle(), true);
        let bytes = vec![7; 1 << 16];
        for place in 0..50 {
            stage.write(&open, place << 16, &bytes).await;
        }
        stage.server.set_silent(open.file.handle(), false);
        assert_eq!(stage.sync(key, &open).await, Ok(()));
        assert_eq!(stage.writes.waiting(), silent);
        assert_eq!(stage.server.content(open.file.handle()).len(), 50 << 16);
    });
}

#[test]
fn bytes_that_a_store_has_given_up_take_no_room_from_others() {
    story(async |stage| {
        let [(_, silent), (_, open)] = [1, 2].map(|uid| stage.open(&format!("file {uid}"), uid));
        stage.server.refuse(1, Some(Status::Jukebox));
        stage.write(&silent, 0, &vec![7; 1 << 20]).await;
        assert_eq!(stage.writes.drain(&silent.file).await, Err(Status::Jukebox));
        assert_eq!(
            (stage.writes.waiting.get(), stage.writes.silent.get()),
            (0, 1 << 20)
        );
        stage.write(&open, 0, b"others").await;
        assert_eq!(stage.writes.drain(&open.file).await, Ok(()));
        stage.server.refuse(1, None);
        assert_eq!(stage.writes.drain(&silent.file).await, Ok(()));
        assert_eq!(
            (stage.writes.waiting.get(), stage.writes.silent.get()),
            (0, 0)
        );
    });
}

#[test]
fn the_last_reply_is_that_to_any_write_or_commit() {
    story(async |stage| {
        let (key, open) = stage.open("file", 1);
        let wait = async || sleep(&stage.writes.runtime, Duration::from_secs(5)).await;
        let is_now = || stage.writes.last_reply() == stage.writes.runtime.now();
        wait().await;
        assert!(!is_now());
        stage.write(&open, 0, b"bytes").await;
        assert_eq!(stage.writes.drain(&open.file).await, Ok(()));
        assert!(is_now(), "a WRITE");
        wait().await;
        assert_eq!(stage.sync(key, &open).await, Ok(()));
        assert!(is_now(), "a COMMIT");
        wait().await;
        // The store has given up a silent server.
        stage.server.refuse(1, Some(Status::Jukebox));
        stage.write(&open, 0, b"bytes").await;
        let given_up = stage.writes.drain(&open.file).await;
        assert_eq!((given_up, is_now()), (Err(Status::Jukebox), false));
        stage.server.refuse(1, None);
    });
}

#[test]
fn a_file_without_room_keeps_one_write_until_its_answer() {
    story(async |stage| {
        let stage = Rc::new(stage);
        // More silent files than parts of the room.
        fill_with_silence(&stage, 100).await;
        let silent = stage.writes.waiting();
        let (key, open) = stage.open("file", 1);
        for place in 0..5 {
            stage
                .write(&open, place << 20, &vec![place as u8; 1 << 20])
                .await;
            assert_eq!(stage.writes.waiting(), silent, "the store has it");
        }
        assert_eq!(stage.sync(key, &open).await, Ok(()));
    });
}

#[test]
fn transfers_to_a_silent_server_stop_others_for_a_second() {
    story(async |stage| {
        let stage = Rc::new(stage);
        fill_with_silence(&stage, 1).await;
        // Without its own runs: they would wait for turns too.
        let turn = stage.writes.turns().take(1 << 20).await;
        assert!(turn.is_some());
    });
}

#[test]
fn a_silent_commit_stops_no_writer_of_another_file() {
    let bounds = KeptBounds {
        commit_ahead: 1 << 20,
        file_max: 1 << 20,
        all_max: 5000,
    };
    story_within(bounds, async |stage| {
        let [(_, full), (key, open)] = ["full", "file"].map(|name| stage.open(name, 1));
        stage.write(&full, 0, &[7; 4999]).await;
        assert_eq!(stage.writes.drain(&full.file).await, Ok(()));
        stage.server.set_silent(full.file.handle(), true);
        for place in 0..10 {
            stage.write(&open, 100 * place, &[7; 100]).await;
            assert_eq!(stage.writes.drain(&open.file).await, Ok(()));
            assert!(
                stage.writes.kept() <= 5000 + 100,
                "its own bytes are committed"
            );
        }
        assert_eq!(stage.sync(key, &open).await, Ok(()));
        assert_eq!(stage.writes.kept(), 4999);
        let commits = stage.server.requests().into_iter();
        let of_full = commits.filter(|it| it.file == *full.file.handle() && it.written.is_none());
        assert_eq!(of_full.count(), 1, "one is under way at a time");
        stage.server.set_silent(full.file.handle(), false);
        settle().await;
        assert_eq!(stage.writes.kept(), 0);
    });
}
