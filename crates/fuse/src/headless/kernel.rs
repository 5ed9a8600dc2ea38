//! The kernel's cache of files, as Linux has it for a FUSE mount without write-back: pages, sizes, ages of attributes.
//!
//! The rules that the mount relies on are here:
//!
//! - A read takes pages that are current without a request, and sends READs of whole pages for others. It asks for
//!   attributes only if it reaches behind the known size and they are too old.
//! - A write goes to the mount at once, and through the pages that are current or wholly written.
//! - An open drops all pages unless the reply keeps them. A notification drops them from an offset on.
//! - Each change of a size and each notification gets the next version. A reply from before it is ignored.
//! - A page is locked while a READ or WRITE fills it; every drop of the page waits for that reply.

use crate::limits::REQUEST_BYTES_MAX;
use crate::pages::Kernel;
use gannet_runtime::{Handle, Instant, LocalFuture, sleep};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify, oneshot};

/// Bytes of a page.
const PAGE: u64 = 4096;
/// Pages that a READ asks for ahead of the program's, at most.
const AHEAD_MAX: u64 = 8;
/// Files that stay in the cache although no program uses them, at most.
const IDLE_MAX: usize = 4;
/// Time until the mount's thread has a notification, at most.
const NOTIFICATION_DELAY_MAX_NS: u64 = 1_000_000;

/// The requests of one open file to the mount.
pub(super) trait Requests {
    /// GETATTR: the size in bytes.
    async fn attributes(&self) -> io::Result<u64>;
    /// READ: fewer bytes at the end of the file.
    async fn read(&self, offset: u64, count: u32) -> io::Result<Vec<u8>>;
    /// WRITE of all the bytes.
    async fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// SETATTR of the size, which the reply has.
    async fn set_size(&self, size: u64) -> io::Result<u64>;
}

/// The version of the cache when a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(u64);

/// Lookups that the kernel takes back with one FORGET.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Forgotten {
    pub(super) number: u64,
    pub(super) lookups: u64,
}

/// The cache of one mount.
pub(super) struct PageCache {
    runtime: Handle,
    /// How long attributes of a reply are valid.
    age: Duration,
    version: Cell<Version>,
    /// The number of the last page.
    last_page: Cell<u64>,
    files: RefCell<BTreeMap<u64, CachedFile>>,
    /// Wakes those who wait for pages.
    unlocked: Notify,
}

struct CachedFile {
    size: u64,
    /// The version of the last event of the size.
    version: Version,
    /// The end of the validity of the attributes; `None` after an event that outdates them.
    valid_until: Option<Instant>,
    /// Writes behind the end and truncations that are under way: replies of others do not count.
    resizing: u32,
    pages: BTreeMap<u64, Page>,
    /// Held by one write or truncation at a time.
    changing: Rc<Mutex<()>>,
    /// Replies with the file that no FORGET has taken back.
    lookups: u64,
    /// References of programs.
    programs: u64,
}

struct Page {
    /// A page that was dropped and read again is another one.
    identity: u64,
    bytes: Vec<u8>,
    is_current: bool,
    is_locked: bool,
}

/// Pages that one request fills, the first with this index.
struct Run {
    first: u64,
    identities: Vec<u64>,
}

/// A look for a page.
enum Found {
    /// Bytes of the file, at least one.
    Bytes(Vec<u8>),
    /// The position lies behind the end.
    End,
    /// No current page.
    Missing(Run),
}

/// The bytes of a WRITE, which are in the pages already.
struct Chunk {
    len: usize,
    run: Run,
}

impl PageCache {
    pub(super) fn new(runtime: &Handle, age: Duration) -> PageCache {
        PageCache {
            runtime: Handle::clone(runtime),
            age,
            version: Cell::new(Version(1)),
            last_page: Cell::new(0),
            files: RefCell::default(),
            unlocked: Notify::new(),
        }
    }

    /// The version before a request is sent.
    pub(super) fn version(&self) -> Version {
        self.version.get()
    }

    fn next_version(&self) -> Version {
        let Version(last) = self.version.get();
        self.version.set(Version(last + 1));
        self.version.get()
    }

    fn page(&self, bytes: Vec<u8>) -> Page {
        self.last_page.set(self.last_page.get() + 1);
        Page {
            identity: self.last_page.get(),
            bytes,
            is_current: false,
            is_locked: true,
        }
    }

    /// Looks again after each unlock of a page until there is a result.
    async fn until<T>(
        &self,
        mut look: impl FnMut(&mut BTreeMap<u64, CachedFile>) -> Option<T>,
    ) -> T {
        loop {
            // Registered before the look, so that no wake-up is missed.
            let unlocked = self.unlocked.notified();
            if let Some(found) = look(&mut self.files.borrow_mut()) {
                return found;
            }
            unlocked.await;
        }
    }

    /// Takes the entry of a reply for a program: a LOOKUP, CREATE or a name of READDIRPLUS that was asked for at
    /// `asked`; without that version it counts in any case.
    pub(super) async fn looked_up(&self, number: u64, size: u64, asked: Option<Version>) {
        self.count_lookup(number, size);
        self.learn(number, size, asked).await;
    }

    fn count_lookup(&self, number: u64, size: u64) {
        let mut files = self.files.borrow_mut();
        let file = files.entry(number).or_insert_with(|| CachedFile {
            size,
            version: Version(0),
            valid_until: None,
            resizing: 0,
            pages: BTreeMap::new(),
            changing: Rc::default(),
            lookups: 0,
            programs: 0,
        });
        file.lookups += 1;
        file.programs += 1;
    }

    /// Takes the size of a reply, unless a later event is known.
    async fn learn(&self, number: u64, size: u64, asked: Option<Version>) {
        let mut is_other = false;
        self.change(number, |file| {
            let is_overtaken = asked.is_some_and(|asked| file.version > asked);
            if is_overtaken || file.resizing > 0 {
                return;
            }
            is_other = file.size != size;
            self.show(file, size);
        });
        if is_other {
            self.cut(number, size).await;
        }
    }

    /// Takes the attributes of a reply.
    fn show(&self, file: &mut CachedFile, size: u64) {
        file.size = size;
        file.version = self.next_version();
        file.valid_until = Some(self.runtime.now() + self.age);
    }

    /// Drops pages behind `size`, and the bytes behind it of the page that it is in.
    async fn cut(&self, number: u64, size: u64) {
        self.drop_pages(number, size.div_ceil(PAGE)).await;
        let (index, left) = (size / PAGE, (size % PAGE) as usize);
        let cut = |files: &mut BTreeMap<u64, CachedFile>| {
            let file = files.get_mut(&number);
            match file.and_then(|file| file.pages.get_mut(&index)) {
                Some(page) if page.is_locked => None,
                Some(page) => {
                    page.bytes[left..].fill(0);
                    Some(())
                }
                None => Some(()),
            }
        };
        self.until(cut).await;
    }

    /// Drops pages from an index on, in their order.
    async fn drop_pages(&self, number: u64, from: u64) {
        let mut next = from;
        let drop = |files: &mut BTreeMap<u64, CachedFile>| {
            let Some(file) = files.get_mut(&number) else {
                return Some(());
            };
            while let Some((&index, page)) = file.pages.range(next..).next() {
                if page.is_locked {
                    return None;
                }
                next = index + 1;
                file.pages.remove(&index);
            }
            Some(())
        };
        self.until(drop).await;
    }

    /// Does what an open does after its reply.
    pub(super) async fn opened(&self, number: u64, keeps_pages: bool) {
        if !keeps_pages {
            self.drop_pages(number, 0).await;
        }
    }

    /// Drops attributes, and pages from byte `start` on.
    async fn invalidate(&self, number: u64, start: Option<u64>) -> io::Result<()> {
        if !self.files.borrow().contains_key(&number) {
            return Err(io::Error::from(io::ErrorKind::NotFound));
        }
        self.change(number, |file| {
            file.version = self.next_version();
            file.valid_until = None;
        });
        if let Some(start) = start {
            self.drop_pages(number, start / PAGE).await;
        }
        Ok(())
    }

    /// Takes back references of programs. The kernel keeps some files that no program uses; it gives those that it
    /// forgets now.
    pub(super) fn let_go(&self, number: u64, references: u64) -> Vec<Forgotten> {
        let mut files = self.files.borrow_mut();
        if let Some(file) = files.get_mut(&number) {
            file.programs = file.programs.saturating_sub(references);
        }
        let idle = files.iter().filter(|(_, file)| file.programs == 0);
        let mut idle: Vec<u64> = idle.map(|(number, _)| *number).collect();
        let mut forgotten = Vec::new();
        while !idle.is_empty() && (idle.len() > IDLE_MAX || self.draw(4) == 0) {
            let number = idle.swap_remove(self.draw(idle.len() as u64) as usize);
            let lookups = files.remove(&number).map_or(0, |file| file.lookups);
            forgotten.push(Forgotten { number, lookups });
        }
        drop(files);
        self.unlocked.notify_waiters();
        forgotten
    }

    /// A number below `bound`.
    fn draw(&self, bound: u64) -> u64 {
        self.runtime.random() % bound
    }

    fn size(&self, number: u64) -> u64 {
        self.files.borrow().get(&number).map_or(0, |file| file.size)
    }

    /// True if the attributes of a file may be used without a question.
    fn is_valid(&self, number: u64) -> bool {
        let files = self.files.borrow();
        let until = files.get(&number).and_then(|file| file.valid_until);
        until.is_some_and(|until| self.runtime.now() <= until)
    }

    /// The size of a file as stat(2) shows it: known, or of a reply.
    pub(super) async fn stat(&self, number: u64, requests: &impl Requests) -> io::Result<u64> {
        if self.is_valid(number) {
            return Ok(self.size(number));
        }
        let asked = self.version();
        let size = requests.attributes().await?;
        self.learn(number, size, Some(asked)).await;
        Ok(size)
    }

    /// Reads as pread(2) does.
    pub(super) async fn read(
        &self,
        number: u64,
        offset: u64,
        count: u32,
        requests: &impl Requests,
    ) -> io::Result<Vec<u8>> {
        let end = offset + u64::from(count);
        if end > self.size(number) {
            self.stat(number, requests).await?;
        }
        let mut read = Vec::new();
        loop {
            let position = offset + read.len() as u64;
            let look = |files: &mut BTreeMap<u64, CachedFile>| match files.get_mut(&number) {
                Some(file) => self.look(file, position, end),
                None => Some(Found::End),
            };
            match self.until(look).await {
                Found::Bytes(bytes) => read.extend(bytes),
                Found::End => return Ok(read),
                Found::Missing(run) => self.fill(number, run, requests).await?,
            }
        }
    }

    /// Looks for the bytes of a file at `position`, up to `end` or the end of their page; `None` while the page is
    /// filled. Pages that are missing are there and locked afterwards.
    fn look(&self, file: &mut CachedFile, position: u64, end: u64) -> Option<Found> {
        let end = end.min(file.size);
        if position >= end {
            return Some(Found::End);
        }
        let (index, start) = (position / PAGE, (position % PAGE) as usize);
        match file.pages.get_mut(&index) {
            Some(page) if page.is_current => {
                let end = (end - index * PAGE).min(PAGE) as usize;
                Some(Found::Bytes(page.bytes[start..end].to_vec()))
            }
            Some(page) if page.is_locked => None,
            Some(page) => {
                page.is_locked = true;
                let run = Run {
                    first: index,
                    identities: vec![page.identity],
                };
                Some(Found::Missing(run))
            }
            None => {
                let wanted = (end - 1) / PAGE - index;
                let after = index + self.draw(wanted + AHEAD_MAX);
                let last = after.min((file.size - 1) / PAGE);
                let mut run = Run {
                    first: index,
                    identities: Vec::new(),
                };
                for index in index..=last {
                    if file.pages.contains_key(&index) {
                        break;
                    }
                    let page = self.page(vec![0; PAGE as usize]);
                    run.identities.push(page.identity);
                    file.pages.insert(index, page);
                }
                Some(Found::Missing(run))
            }
        }
    }

    /// Fills locked pages by one READ.
    async fn fill(&self, number: u64, run: Run, requests: &impl Requests) -> io::Result<()> {
        let (offset, asked) = (run.first * PAGE, self.version());
        let count = run.identities.len() as u64 * PAGE;
        let wanted = u32::try_from(count).unwrap_or(u32::MAX);
        let read = requests.read(offset, wanted).await;
        let mut files = self.files.borrow_mut();
        if let Some(file) = files.get_mut(&number) {
            if let Ok(bytes) = &read {
                let (len, end) = (bytes.len() as u64, offset + bytes.len() as u64);
                let is_known = asked >= file.version && file.resizing == 0;
                if len < count && end < file.size && is_known {
                    file.size = end;
                    file.version = self.next_version();
                }
                let mut padded = bytes.clone();
                padded.resize(count as usize, 0);
                run.pages(file, |page, place| {
                    let start = place * PAGE as usize;
                    let filled = &padded[start..start + PAGE as usize];
                    page.bytes.copy_from_slice(filled);
                    page.is_current = true;
                });
            }
            run.pages(file, |page, _| page.is_locked = false);
        }
        drop(files);
        self.unlocked.notify_waiters();
        read.map(|_| ())
    }

    /// The lock that writes and truncations of a file take.
    fn changing(&self, number: u64) -> Rc<Mutex<()>> {
        let files = self.files.borrow();
        files
            .get(&number)
            .map_or_else(Rc::default, |file| Rc::clone(&file.changing))
    }

    /// Writes as pwrite(2) does, all of the bytes.
    pub(super) async fn write(
        &self,
        number: u64,
        offset: u64,
        bytes: &[u8],
        requests: &impl Requests,
    ) -> io::Result<()> {
        let changing = self.changing(number);
        let _changing = changing.lock().await;
        let is_longer = u32::from(self.size(number) < offset + bytes.len() as u64);
        self.change(number, |file| file.resizing += is_longer);
        let (mut done, mut written) = (Ok(()), 0);
        while done.is_ok() && written < bytes.len() {
            let at = offset + written as u64;
            let chunk = self.place(number, at, &bytes[written..]).await;
            done = requests
                .write(at, &bytes[written..written + chunk.len])
                .await;
            self.change(number, |file| {
                let is_written = done.is_ok();
                chunk.run.pages(file, |page, _| {
                    page.is_current &= is_written;
                    page.is_locked = false;
                });
            });
            self.unlocked.notify_waiters();
            written += if done.is_ok() { chunk.len } else { 0 };
        }
        self.change(number, |file| {
            file.version = self.next_version();
            file.valid_until = None;
            if written > 0 {
                file.size = file.size.max(offset + written as u64);
            }
            file.resizing -= is_longer;
        });
        done
    }

    fn change(&self, number: u64, change: impl FnOnce(&mut CachedFile)) {
        let mut files = self.files.borrow_mut();
        if let Some(file) = files.get_mut(&number) {
            change(file);
        }
    }

    /// Puts the bytes of the next WRITE into pages. It ends behind the first page that is not current, which stays
    /// locked for it.
    async fn place(&self, number: u64, offset: u64, bytes: &[u8]) -> Chunk {
        let mut chunk = Chunk {
            len: 0,
            run: Run {
                first: offset / PAGE,
                identities: Vec::new(),
            },
        };
        let most = bytes.len().min(REQUEST_BYTES_MAX as usize);
        let mut is_locked = false;
        while chunk.len < most && !is_locked {
            let position = offset + chunk.len as u64;
            let (index, start) = (position / PAGE, (position % PAGE) as usize);
            let len = (PAGE as usize - start).min(most - chunk.len);
            let part = &bytes[chunk.len..chunk.len + len];
            let put = |files: &mut BTreeMap<u64, CachedFile>| {
                let Some(file) = files.get_mut(&number) else {
                    return Some(false);
                };
                let page = match file.pages.get_mut(&index) {
                    Some(page) if page.is_locked => return None,
                    Some(page) => page,
                    None => {
                        let page = self.page(vec![0; PAGE as usize]);
                        file.pages.entry(index).or_insert(page)
                    }
                };
                page.bytes[start..start + len].copy_from_slice(part);
                page.is_current |= len == PAGE as usize;
                page.is_locked = !page.is_current;
                chunk.run.identities.push(page.identity);
                Some(page.is_locked)
            };
            is_locked = self.until(put).await;
            chunk.len += len;
        }
        chunk
    }

    /// Sets the size as ftruncate(2) does.
    pub(super) async fn truncate(
        &self,
        number: u64,
        size: u64,
        requests: &impl Requests,
    ) -> io::Result<()> {
        let changing = self.changing(number);
        let _changing = changing.lock().await;
        self.change(number, |file| file.resizing += 1);
        let set = requests.set_size(size).await;
        if let Ok(shown) = set {
            let mut old = shown;
            self.change(number, |file| {
                old = file.size;
                self.show(file, shown);
            });
            if old != shown {
                self.cut(number, shown).await;
                self.drop_pages(number, 0).await;
            }
        }
        self.change(number, |file| file.resizing -= 1);
        set.map(|_| ())
    }
}

impl Run {
    /// Calls `change` with each page that is still the one of the request, and its place in the request.
    fn pages(&self, file: &mut CachedFile, mut change: impl FnMut(&mut Page, usize)) {
        for (place, identity) in self.identities.iter().enumerate() {
            let page = file.pages.get_mut(&(self.first + place as u64));
            if let Some(page) = page.filter(|page| page.identity == *identity) {
                change(page, place);
            }
        }
    }
}

impl Kernel for Rc<PageCache> {
    fn drop_cached(&self, number: u64, start: Option<u64>) -> LocalFuture<io::Result<()>> {
        let (cache, delay_ns) = (Rc::clone(self), self.draw(2 * NOTIFICATION_DELAY_MAX_NS));
        let (ends, ended) = oneshot::channel();
        // A task of its own: a request that is dropped at its deadline does not take its notification back.
        let dropping = async move {
            if delay_ns < NOTIFICATION_DELAY_MAX_NS {
                sleep(&cache.runtime, Duration::from_nanos(delay_ns)).await;
            }
            // No receiver waits for it after its request was dropped.
            let _ = ends.send(cache.invalidate(number, start).await);
        };
        self.runtime.spawn("notification", Box::pin(dropping));
        Box::pin(async move { ended.await.unwrap_or(Ok(())) })
    }
}

#[cfg(test)]
mod tests;
