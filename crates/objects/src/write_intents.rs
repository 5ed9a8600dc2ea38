//! The write-intent bitmaps of groups of several members: in which objects the members may differ.
//!
//! Objects are in buckets, by the numbers of their files. A bucket is marked durably before anything in it changes. The
//! mark goes when its objects are equal and durable at both members. So a member that was away for a while needs a copy
//! of the marked buckets alone.
//!
//! | mark in memory | in the note | a change of the bucket |
//! |---|---|---|
//! | yes | yes | goes on |
//! | no, or not known to be in the note | | marks, and waits until that is durable |
//! | being taken back | | waits until that is over |

use super::double_note::{DoubleNote, NoteForm};
use super::limits::{INTENT_NAMES_MAX, SETTLE_AFTER};
use gannet_runtime::Instant;
use gannet_wire::volume::{GROUPS_OF_SERVER_MAX, ObjectId, Replicated};
use gannet_wire::xdr::{Decoder, Encoder};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::Notify;

/// The name of the file in the root of the store. `gannet volume check` does not report it as foreign.
pub const INTENTS_FILE: &str = "write-intents";

/// Buckets of each group.
const BUCKETS: usize = 4096;
/// Files with neighbouring numbers that are in one bucket: they are often made together.
const FILES_TOGETHER: u64 = 64;
/// The numbers of buckets that one message names.
pub(super) const BUCKETS_OF_MESSAGE: usize = 64;
const WORDS: usize = BUCKETS / 64;
/// Number, epoch, count and marks of a group.
const GROUP_LEN: usize = 4 + 8 + 8 + BUCKETS / 8;

pub(super) const FORM: NoteForm = NoteForm {
    name: INTENTS_FILE,
    magic: b"gannet-i",
    payload_len: 4 + GROUPS_OF_SERVER_MAX * GROUP_LEN,
    place_len: 12288,
    damage: "all objects of its groups are copied when a member returns",
};

/// A set of buckets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Buckets(Box<[u64; WORDS]>);

impl Buckets {
    pub(super) fn none() -> Buckets {
        Buckets(Box::new([0; WORDS]))
    }

    pub(super) fn all() -> Buckets {
        Buckets(Box::new([u64::MAX; WORDS]))
    }

    /// The bucket of a file's objects.
    fn of(file: u64) -> usize {
        (file / FILES_TOGETHER) as usize % BUCKETS
    }

    fn has_bucket(&self, bucket: usize) -> bool {
        self.0
            .get(bucket / 64)
            .is_some_and(|word| word >> (bucket % 64) & 1 == 1)
    }

    /// Whether the objects of a file are in one of them.
    pub(super) fn has(&self, file: u64) -> bool {
        self.has_bucket(Buckets::of(file))
    }

    fn add(&mut self, others: &Buckets) {
        let words = self.0.iter_mut().zip(&*others.0);
        words.for_each(|(word, other)| *word |= other);
    }

    fn retain(&mut self, others: &Buckets) {
        let words = self.0.iter_mut().zip(&*others.0);
        words.for_each(|(word, other)| *word &= other);
    }

    fn set(&mut self, bucket: usize, is_in: bool) {
        if let Some(word) = self.0.get_mut(bucket / 64) {
            let bit = 1 << (bucket % 64);
            *word = if is_in { *word | bit } else { *word & !bit };
        }
    }

    fn iter(&self) -> impl Iterator<Item = usize> {
        (0..BUCKETS).filter(|bucket| self.has_bucket(*bucket))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// All that are in it, by messages: the first bucket of each, and a mask.
    pub(super) fn messages(&self) -> Vec<(u32, u64)> {
        let firsts = (0..).step_by(BUCKETS_OF_MESSAGE);
        let all = firsts.zip(*self.0.clone());
        all.filter(|(_, mask)| *mask != 0).collect()
    }

    /// The buckets of a message; `None` if there are no such buckets.
    fn of_message(first: u32, mask: u64) -> Option<Buckets> {
        let mut buckets = Buckets::none();
        let first = first as usize;
        let word = buckets.0.get_mut(first / BUCKETS_OF_MESSAGE)?;
        *word = mask;
        first.is_multiple_of(BUCKETS_OF_MESSAGE).then_some(buckets)
    }
}

/// The changes of a marked bucket, as far as this process knows them.
#[derive(Default)]
struct Bucket {
    /// The number of the last change, of all that this process has begun.
    number: u64,
    /// How many are under way.
    open: u32,
    last: Instant,
    /// Files of which objects changed.
    files: BTreeSet<u64>,
    /// Until then, others of its objects may have changed as well.
    others: Option<Instant>,
}

struct OfGroup {
    /// The last epoch in which this member had everything; 0 if it has lost something since.
    kept_in: u64,
    /// It has lost something, and has not been filled since.
    is_tainted: bool,
    /// How often marks have been taken back.
    settled: u64,
    marks: Buckets,
    /// Marks that are in the note, at least as long as they are in `marks`.
    noted: Buckets,
    /// Marks that are being taken back.
    clearing: Buckets,
    buckets: BTreeMap<usize, Bucket>,
    /// How many, of all buckets.
    files: usize,
}

impl OfGroup {
    /// A group of which nothing is known.
    fn unknown() -> OfGroup {
        OfGroup::noted(0, 0, Buckets::all())
    }

    fn noted(kept_in: u64, settled: u64, marks: Buckets) -> OfGroup {
        OfGroup {
            kept_in,
            is_tainted: false,
            settled,
            noted: marks.clone(),
            marks,
            clearing: Buckets::none(),
            buckets: BTreeMap::new(),
            files: 0,
        }
    }

    fn bucket(&mut self, bucket: usize) -> &mut Bucket {
        let is_marked = self.marks.has_bucket(bucket);
        // Marked by an earlier process, or long ago: not all of its changes are known.
        let unknown = || Bucket {
            others: is_marked.then(Instant::default),
            ..Bucket::default()
        };
        self.buckets.entry(bucket).or_insert_with(unknown)
    }

    fn clear(&mut self, bucket: usize) {
        self.marks.set(bucket, false);
        // A write of the note that is under way may lack it.
        self.noted.set(bucket, false);
        if let Some(bucket) = self.buckets.remove(&bucket) {
            self.files -= bucket.files.len();
        }
    }

    /// Whether a bucket has not changed for a while.
    fn is_idle(&self, bucket: usize, now: Instant) -> bool {
        let known = self.buckets.get(&bucket);
        known.is_none_or(|it| it.open == 0 && now >= it.last + SETTLE_AFTER)
    }
}

/// Buckets that have not changed for a while, and what is known of their changes.
pub(super) struct Idle {
    /// The buckets, each with the number of its last change.
    numbers: Vec<(usize, u64)>,
    pub(super) buckets: Buckets,
    /// The files whose objects may not be durable; `None`: any of the buckets.
    pub(super) files: Option<BTreeSet<u64>>,
}

/// The wait of a change that begins.
pub(super) enum Begun {
    /// For nothing.
    Marked,
    /// Until this version of the note is durable.
    Marking(u64),
    /// Until marks have been taken back: it has not begun.
    Clearing,
}

/// The bitmaps of the server's groups of several members.
pub(super) struct WriteIntents {
    pub(super) note: DoubleNote,
    pub(super) is_loaded: Cell<bool>,
    groups: RefCell<BTreeMap<u32, OfGroup>>,
    /// The version of the bitmaps in memory.
    version: Cell<u64>,
    /// The latest version that is durable.
    durable: Cell<u64>,
    /// Changes that this process has begun.
    begun: Cell<u64>,
    /// Marks have been taken back.
    pub(super) cleared: Notify,
}

impl Default for WriteIntents {
    fn default() -> WriteIntents {
        WriteIntents {
            note: DoubleNote::new(FORM),
            is_loaded: Cell::default(),
            groups: RefCell::default(),
            version: Cell::default(),
            durable: Cell::default(),
            begun: Cell::default(),
            cleared: Notify::new(),
        }
    }
}

impl WriteIntents {
    fn with<T>(&self, group: u32, with: impl FnOnce(&mut OfGroup) -> T) -> T {
        let mut groups = self.groups.borrow_mut();
        with(groups.entry(group).or_insert_with(OfGroup::unknown))
    }

    /// A later version, which is not durable yet.
    fn next_version(&self) -> u64 {
        self.version.set(self.version.get() + 1);
        self.version.get()
    }

    /// Begins a change of an object. Unless it has to wait for marks that are taken back, [`WriteIntents::end`] ends
    /// it.
    pub(super) fn begin(&self, object: ObjectId, now: Instant) -> Begun {
        let bucket = Buckets::of(object.file);
        self.begun.set(self.begun.get() + 1);
        let before = self.with(object.group, |group| {
            if group.clearing.has_bucket(bucket) {
                return None;
            }
            let is_full = group.files >= INTENT_NAMES_MAX;
            let known = group.bucket(bucket);
            known.number = self.begun.get();
            (known.open, known.last) = (known.open + 1, now);
            if is_full {
                known.others = Some(now);
            } else if known.files.insert(object.file) {
                group.files += 1;
            }
            let (is_marked, is_noted) = (&group.marks, &group.noted);
            let before = (is_marked.has_bucket(bucket), is_noted.has_bucket(bucket));
            group.marks.set(bucket, true);
            Some(before)
        });
        match before {
            None => Begun::Clearing,
            Some((true, true)) => Begun::Marked,
            // The version that has the mark is on its way.
            Some((true, false)) => Begun::Marking(self.version.get()),
            Some((false, _)) => Begun::Marking(self.next_version()),
        }
    }

    /// Ends a change of an object.
    pub(super) fn end(&self, object: ObjectId, now: Instant) {
        self.with(object.group, |group| {
            let bucket = Buckets::of(object.file);
            if let Some(bucket) = group.buckets.get_mut(&bucket) {
                debug_assert!(bucket.open > 0, "a change ends that did not begin");
                bucket.open -= 1;
                bucket.last = now;
            }
        });
    }

    /// Buckets of a group that have not changed for a while.
    pub(super) fn idle(&self, group: u32, now: Instant) -> Idle {
        self.with(group, |group| {
            let mut idle = Idle {
                numbers: Vec::new(),
                buckets: Buckets::none(),
                files: Some(BTreeSet::new()),
            };
            for bucket in group.marks.iter().filter(|it| group.is_idle(*it, now)) {
                let known = group.buckets.get(&bucket);
                let files = known.filter(|it| it.others.is_none());
                idle.numbers.push((bucket, known.map_or(0, |it| it.number)));
                idle.buckets.set(bucket, true);
                match (&mut idle.files, files) {
                    (Some(all), Some(known)) => all.extend(&known.files),
                    _ => idle.files = None,
                }
            }
            idle
        })
    }

    /// Begins to take back the marks of buckets, as far as they have not changed since.
    pub(super) fn begin_clearing(&self, group: u32, idle: &Idle) -> Buckets {
        self.with(group, |group| {
            for (bucket, number) in &idle.numbers {
                let known = group.buckets.get(bucket);
                let is_same = known.map_or(*number == 0, |it| it.number == *number && it.open == 0);
                group.clearing.set(*bucket, is_same);
            }
            group.settled += 1;
            self.next_version();
            group.clearing.clone()
        })
    }

    /// Takes back the marks that were being taken back.
    pub(super) fn end_clearing(&self, group: u32) {
        self.with(group, |group| {
            let clearing = std::mem::replace(&mut group.clearing, Buckets::none());
            clearing.iter().for_each(|bucket| group.clear(bucket));
        });
        self.next_version();
        self.cleared.notify_waiters();
    }

    /// The primary says that the members are equal in these buckets. False if there are no such buckets.
    pub(super) fn are_settled(&self, group: u32, first: u32, mask: u64) -> bool {
        let Some(settled) = Buckets::of_message(first, mask) else {
            return false;
        };
        self.with(group, |group| {
            for bucket in settled.iter() {
                let known = group.buckets.get(&bucket);
                if known.is_none_or(|it| it.open == 0) {
                    group.clear(bucket);
                }
            }
        });
        self.next_version();
        true
    }

    /// The buckets of a group that another member needs a copy of, by what it says of itself. It has what it had if it
    /// had everything as late as this one, and knows of every mark that this one has taken back: an older image of its
    /// disk does not.
    pub(super) fn to_copy(&self, group: u32, said: Option<Replicated>) -> Buckets {
        self.with(group, |group| {
            let has_kept =
                said.is_some_and(|it| it.kept_in >= group.kept_in && it.settled >= group.settled);
            if group.kept_in > 0 && has_kept {
                group.marks.clone()
            } else {
                Buckets::all()
            }
        })
    }

    /// All objects of these buckets are about to be copied: which of them have changed before does not count.
    pub(super) fn begin_copy(&self, group: u32, copied: &Buckets, now: Instant) {
        self.with(group, |group| {
            for bucket in copied.iter() {
                let known = group.bucket(bucket);
                let before = std::mem::take(&mut known.files).len();
                let others = known.others.unwrap_or_default();
                known.others = Some(if known.open > 0 { now } else { others });
                group.files -= before;
            }
            // The member marks what it gets.
            group.marks.add(copied);
        });
        self.next_version();
    }

    /// All objects of these buckets were copied, durably at both, from `begun` on.
    pub(super) fn are_copied(&self, group: u32, copied: &Buckets, begun: Instant) {
        self.with(group, |group| {
            for bucket in copied.iter() {
                let known = group.bucket(bucket);
                known.others = known.others.filter(|at| *at >= begun);
            }
        });
    }

    /// The words of this member about itself, for the primary.
    pub(super) fn replicated(&self, group: u32, verifier: u64) -> Replicated {
        self.with(group, |group| Replicated {
            verifier,
            kept_in: group.kept_in,
            settled: group.settled,
        })
    }

    /// How often marks of a group have been taken back.
    pub(super) fn settled(&self, group: u32) -> u64 {
        self.with(group, |group| group.settled)
    }

    /// The primary says how often marks of a group have been taken back.
    pub(super) fn have_settled(&self, group: u32, count: u64) {
        self.with(group, |group| group.settled = group.settled.max(count));
        self.next_version();
    }

    /// This member may have lost something of all its groups: it has everything again once it was filled.
    pub(super) fn taint_all(&self) {
        for group in self.groups.borrow_mut().values_mut() {
            (group.is_tainted, group.kept_in) = (true, 0);
        }
        self.next_version();
    }

    /// As [`WriteIntents::taint_all`], of one group.
    pub(super) fn taint(&self, group: u32) {
        self.with(group, |group| {
            (group.is_tainted, group.kept_in) = (true, 0);
        });
        self.next_version();
    }

    /// Whether this member may have lost something of a group since it was filled.
    pub(super) fn is_tainted(&self, group: u32) -> bool {
        self.with(group, |group| group.is_tainted)
    }

    /// This member is being filled: what it loses from now on counts.
    pub(super) fn is_filled(&self, group: u32) {
        self.with(group, |group| group.is_tainted = false);
    }

    /// The member has everything of a group in this epoch.
    pub(super) fn has_all(&self, group: u32, epoch: u64) {
        let is_new = self.with(group, |group| {
            let is_new = group.kept_in < epoch && !group.is_tainted;
            if is_new {
                group.kept_in = epoch;
            }
            is_new
        });
        if is_new {
            self.next_version();
        }
    }

    /// Any object may differ from that of the other member.
    pub(super) fn mark_all(&self, group: u32) {
        self.with(group, |group| {
            group.marks = Buckets::all();
            group.noted = Buckets::none();
            let now_unknown = group.buckets.values_mut();
            now_unknown.for_each(|it| it.others = it.others.max(Some(it.last)));
        });
        self.next_version();
    }

    /// Nothing is known of a group any more.
    pub(super) fn forget(&self, group: u32) {
        let mut unknown = OfGroup::unknown();
        unknown.noted = Buckets::none();
        self.groups.borrow_mut().insert(group, unknown);
        self.next_version();
    }

    /// Forgets groups but these.
    pub(super) fn retain(&self, groups: &BTreeSet<u32>) {
        let mut known = self.groups.borrow_mut();
        known.retain(|group, _| groups.contains(group));
    }

    /// The version in memory, if it is not durable.
    pub(super) fn version_to_note(&self) -> Option<u64> {
        let version = self.version.get();
        (version > self.durable.get()).then_some(version)
    }

    /// Whether a version of the note, or a later one, is durable.
    pub(super) fn is_durable(&self, version: u64) -> bool {
        self.durable.get() >= version
    }

    /// The version in memory, as the note has it, and the marks of each group.
    pub(super) fn payload(&self) -> (u64, Vec<u8>, BTreeMap<u32, Buckets>) {
        let groups = self.groups.borrow();
        let mut payload = Vec::with_capacity(FORM.payload_len);
        let mut encoder = Encoder::new(&mut payload);
        let known = || groups.iter().take(GROUPS_OF_SERVER_MAX);
        // At most GROUPS_OF_SERVER_MAX.
        encoder.u32(known().count() as u32);
        for (number, group) in known() {
            encoder.u32(*number);
            encoder.u64(group.kept_in);
            encoder.u64(group.settled);
            group.marks.0.iter().for_each(|word| encoder.u64(*word));
        }
        payload.resize(FORM.payload_len, 0);
        let marks = known().map(|(number, group)| (*number, group.marks.clone()));
        (self.version.get(), payload, marks.collect())
    }

    /// A version of the note is durable, with these marks.
    pub(super) fn note_durable(&self, version: u64, marks: BTreeMap<u32, Buckets>) {
        self.durable.set(self.durable.get().max(version));
        for (number, mut marks) in marks {
            self.with(number, |group| {
                // Not those that were taken back meanwhile: the next note will lack them.
                marks.retain(&group.marks);
                group.noted = marks;
            });
        }
    }

    /// Takes what an earlier process has noted. Of what is not there nothing is known.
    pub(super) fn load(&self, payload: &[u8]) -> Option<()> {
        let mut decoder = Decoder::new(payload);
        let count = decoder.length(GROUPS_OF_SERVER_MAX).ok()?;
        let mut groups = BTreeMap::new();
        for _ in 0..count {
            let (number, kept_in) = (decoder.u32().ok()?, decoder.u64().ok()?);
            let settled = decoder.u64().ok()?;
            let mut marks = Buckets::none();
            for word in &mut *marks.0 {
                *word = decoder.u64().ok()?;
            }
            groups.insert(number, OfGroup::noted(kept_in, settled, marks));
        }
        self.groups.replace(groups);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const OBJECT: ObjectId = ObjectId { group: 9, file: 7 };

    #[test]
    fn a_mark_that_was_taken_back_while_the_note_was_written_is_noted_again() {
        let intents = WriteIntents::default();
        let mut now = Instant::default();
        intents.begin(OBJECT, now);
        let (version, _, marks) = intents.payload();
        intents.end(OBJECT, now);
        now += SETTLE_AFTER + Duration::from_secs(1);
        let idle = intents.idle(OBJECT.group, now);
        let clearing = intents.begin_clearing(OBJECT.group, &idle);
        assert!(clearing.has(OBJECT.file));
        assert!(matches!(intents.begin(OBJECT, now), Begun::Clearing));
        intents.end_clearing(OBJECT.group);
        // That note has the mark, and the next one will lack it.
        intents.note_durable(version, marks);
        for _ in 0..2 {
            match intents.begin(OBJECT, now) {
                Begun::Marking(marking) => assert!(!intents.is_durable(marking)),
                _ => panic!("a change goes on without a mark"),
            }
        }
        let (version, _, marks) = intents.payload();
        intents.note_durable(version, marks);
        assert!(matches!(intents.begin(OBJECT, now), Begun::Marked));
    }

    #[test]
    fn notes_are_read_as_they_were_written_and_not_otherwise() {
        let intents = WriteIntents::default();
        intents.has_all(9, 4);
        intents.have_settled(9, 3);
        let (_, payload, _) = intents.payload();
        assert_eq!(payload.len(), FORM.payload_len);
        let again = WriteIntents::default();
        again.load(&payload).unwrap();
        assert_eq!(again.replicated(9, 1), intents.replicated(9, 1));
        assert!(again.load(&[0xff; 8]).is_none());
        assert!(again.load(&payload[..100]).is_none());
    }

    #[test]
    fn messages_name_all_buckets_and_no_others() {
        assert!(Buckets::none().messages().is_empty());
        let all = Buckets::all().messages();
        assert_eq!(all.len(), BUCKETS / BUCKETS_OF_MESSAGE);
        for (first, mask) in all {
            assert!(Buckets::of_message(first, mask).is_some());
            assert!(Buckets::of_message(first + 1, mask).is_none());
        }
        assert!(Buckets::of_message(BUCKETS as u32, 1).is_none());
    }
}
