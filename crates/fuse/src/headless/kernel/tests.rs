//! The cache by itself, with a file in place of the mount.

#![allow(clippy::unwrap_used)]

use super::*;
use gannet_runtime::{both, tokio_plug, yield_now};

const NUMBER: u64 = 7;
const HOUR: Duration = Duration::from_secs(3600);

/// The file, and what it was asked.
#[derive(Default)]
struct Served {
    bytes: RefCell<Vec<u8>>,
    questions: Cell<usize>,
    reads: Cell<usize>,
    /// WRITEs fail.
    is_full: Cell<bool>,
    /// READs wait while this is held.
    holding: Mutex<()>,
}

impl Served {
    fn new(bytes: &[u8]) -> Served {
        Served {
            bytes: RefCell::new(bytes.to_vec()),
            ..Served::default()
        }
    }
}

impl Requests for Served {
    async fn attributes(&self) -> io::Result<u64> {
        self.questions.set(self.questions.get() + 1);
        Ok(self.bytes.borrow().len() as u64)
    }

    async fn read(&self, offset: u64, count: u32) -> io::Result<Vec<u8>> {
        self.reads.set(self.reads.get() + 1);
        let read = {
            let bytes = self.bytes.borrow();
            let start = (offset as usize).min(bytes.len());
            let end = (start + count as usize).min(bytes.len());
            bytes[start..end].to_vec()
        };
        let _held = self.holding.lock().await;
        Ok(read)
    }

    async fn write(&self, offset: u64, written: &[u8]) -> io::Result<()> {
        if self.is_full.get() {
            return Err(io::Error::from(io::ErrorKind::StorageFull));
        }
        let (mut bytes, end) = (self.bytes.borrow_mut(), offset as usize + written.len());
        let len = bytes.len().max(end);
        bytes.resize(len, 0);
        bytes[offset as usize..end].copy_from_slice(written);
        Ok(())
    }

    async fn set_size(&self, size: u64) -> io::Result<u64> {
        self.bytes.borrow_mut().resize(size as usize, 0);
        Ok(size)
    }
}

/// Has `story` done with the cache of a file with these bytes, whose attributes are valid for `age`.
fn with_a_file(age: Duration, bytes: &[u8], story: impl AsyncFnOnce(Rc<PageCache>, Served)) {
    let done = tokio_plug::block_on(async |runtime| {
        let (cache, served) = (PageCache::new(&runtime, age), Served::new(bytes));
        cache.looked_up(NUMBER, bytes.len() as u64, None).await;
        story(Rc::new(cache), served).await;
    });
    done.unwrap();
}

impl PageCache {
    async fn all(&self, served: &Served) -> Vec<u8> {
        self.read(NUMBER, 0, 100_000, served).await.unwrap()
    }
}

#[test]
fn pages_answer_reads_until_a_notification_drops_them() {
    with_a_file(HOUR, &[1; 10_000], async |cache, served| {
        assert_eq!(cache.all(&served).await, [1; 10_000]);
        served.bytes.borrow_mut().fill(2);
        assert_eq!(cache.all(&served).await, [1; 10_000]);
        assert_eq!(cache.drop_cached(NUMBER, None).await.ok(), Some(()));
        assert_eq!(cache.all(&served).await, [1; 10_000], "attributes alone");
        // Whole pages: the second is dropped with the third.
        assert_eq!(cache.drop_cached(NUMBER, Some(8000)).await.ok(), Some(()));
        let read = cache.all(&served).await;
        assert_eq!((read[4095], read[4096], read[9999]), (1, 2, 2));
        let reads = served.reads.get();
        cache.opened(NUMBER, true).await;
        assert_eq!(cache.all(&served).await, read);
        assert_eq!(served.reads.get(), reads);
        cache.opened(NUMBER, false).await;
        assert_eq!(cache.all(&served).await, [2; 10_000]);
        let unknown = cache.drop_cached(NUMBER + 1, Some(0)).await;
        assert_eq!(unknown.unwrap_err().kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn attributes_are_asked_for_behind_the_known_size_after_their_age() {
    with_a_file(Duration::ZERO, &[1; 100], async |cache, served| {
        yield_now().await;
        while cache.is_valid(NUMBER) {}
        assert_eq!(cache.read(NUMBER, 0, 100, &served).await.unwrap(), [1; 100]);
        assert_eq!(
            served.questions.get(),
            0,
            "it does not reach behind the end"
        );
        served.bytes.borrow_mut().resize(200, 2);
        // The end of the last page was read as zeros, and stays so until somebody drops it.
        let read = cache.all(&served).await;
        assert_eq!((served.questions.get(), read.len()), (1, 200));
        assert_eq!(read[100..], [0; 100]);
    });
    with_a_file(HOUR, &[1; 100], async |cache, served| {
        served.bytes.borrow_mut().resize(200, 2);
        assert_eq!(cache.all(&served).await, [1; 100]);
        assert_eq!(served.questions.get(), 0, "they are valid");
    });
}

#[test]
fn a_reply_from_before_an_event_does_not_count() {
    with_a_file(HOUR, &[1; 100], async |cache, served| {
        let asked = cache.version();
        assert_eq!(cache.drop_cached(NUMBER, None).await.ok(), Some(()));
        cache.learn(NUMBER, 50, Some(asked)).await;
        assert_eq!(cache.size(NUMBER), 100);
        assert!(!cache.is_valid(NUMBER));
        cache.learn(NUMBER, 50, Some(cache.version())).await;
        assert_eq!(cache.size(NUMBER), 50);
        assert!(cache.is_valid(NUMBER));
        let asked = cache.version();
        let written = cache.write(NUMBER, 50, &[3; 10], &served).await;
        assert_eq!(written.ok(), Some(()));
        cache.learn(NUMBER, 50, Some(asked)).await;
        assert_eq!(cache.size(NUMBER), 60);
    });
}

#[test]
fn a_short_read_cuts_the_known_size() {
    with_a_file(HOUR, &[1; 10_000], async |cache, served| {
        served.bytes.borrow_mut().truncate(5000);
        assert_eq!(cache.all(&served).await, [1; 5000]);
        assert_eq!(cache.size(NUMBER), 5000);
    });
}

#[test]
fn a_write_fills_pages_that_are_current_or_whole() {
    with_a_file(HOUR, &[1; 20_000], async |cache, served| {
        // Parts of the first and the third page, and all of the second.
        let written = cache.write(NUMBER, 4000, &[2; 5000], &served).await;
        assert_eq!(written.ok(), Some(()));
        served.bytes.borrow_mut().fill(3);
        let read = cache.all(&served).await;
        assert_eq!(
            (read[3999], read[4096], read[8191], read[8999]),
            (3, 2, 2, 3)
        );
        served.is_full.set(true);
        let written = cache.write(NUMBER, 4096, &[4; 10], &served).await;
        assert!(written.is_err());
        assert_eq!(cache.all(&served).await, [3; 20_000], "it is read again");
    });
}

#[test]
fn a_truncation_drops_all_pages_if_the_size_changes() {
    with_a_file(HOUR, &[1; 10_000], async |cache, served| {
        assert_eq!(cache.all(&served).await, [1; 10_000]);
        served.bytes.borrow_mut().fill(2);
        let cut = cache.truncate(NUMBER, 10_000, &served).await;
        assert_eq!(cut.ok(), Some(()));
        assert_eq!(cache.all(&served).await, [1; 10_000]);
        let cut = cache.truncate(NUMBER, 5000, &served).await;
        assert_eq!(cut.ok(), Some(()));
        assert_eq!(cache.all(&served).await, [2; 5000]);
    });
}

#[test]
fn a_drop_waits_for_the_read_that_fills_the_page() {
    with_a_file(HOUR, &[1; 100], async |cache, served| {
        let held = served.holding.lock().await;
        let dropped = Cell::new(false);
        let dropping = async {
            while served.reads.get() == 0 {
                yield_now().await;
            }
            assert_eq!(cache.invalidate(NUMBER, None).await.ok(), Some(()));
            cache.drop_pages(NUMBER, 0).await;
            dropped.set(true);
        };
        let releasing = async {
            while served.reads.get() == 0 {
                yield_now().await;
            }
            for _ in 0..10 {
                yield_now().await;
            }
            assert!(!dropped.get());
            drop(held);
        };
        let (read, _) = both(cache.all(&served), both(dropping, releasing)).await;
        assert_eq!((read, dropped.get()), (vec![1; 100], true));
        served.bytes.borrow_mut().fill(2);
        assert_eq!(cache.all(&served).await, [2; 100], "it was dropped");
    });
}

#[test]
fn a_file_that_no_program_uses_is_forgotten_at_some_time_with_all_lookups() {
    with_a_file(HOUR, &[], async |cache, _| {
        cache.looked_up(NUMBER, 0, None).await;
        assert_eq!(cache.let_go(NUMBER, 1), []);
        let mut forgotten = cache.let_go(NUMBER, 1);
        while forgotten.is_empty() {
            forgotten = cache.let_go(NUMBER, 0);
        }
        let all = Forgotten {
            number: NUMBER,
            lookups: 2,
        };
        assert_eq!(forgotten, [all]);
    });
}
