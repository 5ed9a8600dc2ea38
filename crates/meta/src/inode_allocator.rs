//! The inode allocator: it gives each number to one file, over all incarnations of the manager.
//!
//! Metadata can be put back as it was at an earlier time, while objects of I/O servers stay: a number that were given
//! again would show a new file what another one had written. So each incarnation of the manager begins with a number
//! that is made of its clock, and above all that earlier incarnations can have given, whether this metadata knows of
//! them or not.

use super::namespace::{Failure, Outcome};
use super::{Table, Transaction, View};
use gannet_wire::volume::{FileId, ROOT, Timestamp};
use std::cmp::Ordering;
use std::ops::Range;

/// An incarnation can make this many files for each second since it began, before it gives numbers of the next one:
/// 2^20. Until 2242 numbers stay below 2^53, which programs that take them for floating-point numbers can bear.
const SECOND_BITS: u32 = 20;

/// Numbers that an incarnation may skip that begins within the second that was reached, and while the clock is behind.
const SAME_SECOND_MAX: u64 = 1 << (SECOND_BITS - 1);
const BEHIND_MAX: u64 = 1 << (SECOND_BITS + 8);
/// Seconds by which the clock may be behind: incarnations that begin soon after each other have skipped some.
const CLOCK_ERROR_MAX: u64 = 3600;

const NEXT_FILE: &[u8] = b"next file";
const SKIPPED: &[u8] = b"skipped files";

/// Starts the numbers of a new volume.
pub(super) fn format(transaction: &mut dyn Transaction) -> Outcome<()> {
    put_counter(transaction, NEXT_FILE, ROOT.0 + 1)
}

/// Begins an incarnation of the manager, at `now`. Where that is not later than what was reached, its numbers begin
/// somewhere above those that this metadata knows of, which `random` says: another incarnation, of metadata put back
/// since, may have begun there too. False if the clock is far behind.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn begin(transaction: &mut dyn Transaction, now: Timestamp, random: u64) -> Outcome<bool> {
    let next = counter(transaction, NEXT_FILE)?.max(ROOT.0 + 1);
    // A clock that is before 1970 is behind.
    let seconds = u64::try_from(now.seconds).unwrap_or(0);
    let reached = next >> SECOND_BITS;
    // The fraction of the second counts too: an incarnation of metadata that were put back within this second knows
    // nothing of the one before, and would give its numbers again.
    let fraction = (u64::from(now.nanoseconds) << SECOND_BITS) / 1_000_000_000;
    let clock = seconds.checked_mul(1 << SECOND_BITS);
    let clock = clock.and_then(|start| start.checked_add(fraction));
    let start = match reached.cmp(&seconds) {
        Ordering::Less => clock,
        Ordering::Equal => next.checked_add(1 + random % SAME_SECOND_MAX),
        Ordering::Greater => next.checked_add(1 + random % BEHIND_MAX),
    };
    let start = start.ok_or(Failure::Damaged(ROOT))?;
    let mut skipped = skipped(transaction)?;
    match skipped.last_mut() {
        // The last incarnation made nothing.
        Some(last) if last.end == next => last.end = start,
        _ => skipped.push(next..start),
    }
    let pairs = skipped.iter().flat_map(|it| [it.start, it.end]);
    let bytes: Vec<u8> = pairs.flat_map(u64::to_be_bytes).collect();
    transaction.put(Table::Volume, SKIPPED, &bytes)?;
    put_counter(transaction, NEXT_FILE, start)?;
    Ok(reached < seconds + CLOCK_ERROR_MAX)
}

/// Takes the number of a new file.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub(super) fn next_file(transaction: &mut dyn Transaction) -> Outcome<FileId> {
    next(transaction, NEXT_FILE).map(FileId)
}

/// The number that the next file will have: all that were ever made have lower ones.
///
/// # Errors
/// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
pub fn next_number(view: &dyn View) -> Outcome<u64> {
    counter(view, NEXT_FILE)
}

/// Takes the next number of a counter.
pub(super) fn next(transaction: &mut dyn Transaction, name: &[u8]) -> Outcome<u64> {
    let number = counter(transaction, name)?;
    let after = number.checked_add(1).ok_or(Failure::Damaged(ROOT))?;
    put_counter(transaction, name, after)?;
    Ok(number)
}

/// The numbers that no file had, as far as the metadata knows.
pub struct NeverMade {
    /// Ranges of numbers in ascending order.
    skipped: Vec<Range<u64>>,
    next: u64,
}

impl NeverMade {
    /// Looks at the volume.
    ///
    /// # Errors
    /// `Failure::Store`: the store failed. `Failure::Damaged`: one of its values cannot be decoded.
    pub fn new(view: &dyn View) -> Outcome<NeverMade> {
        Ok(NeverMade {
            skipped: skipped(view)?,
            next: counter(view, NEXT_FILE)?,
        })
    }

    /// Whether no file ever had this number.
    pub fn contains(&self, file: FileId) -> bool {
        let after = self.skipped.partition_point(|it| it.start <= file.0);
        let before = after.checked_sub(1).and_then(|at| self.skipped.get(at));
        file.0 >= self.next || before.is_some_and(|it| file.0 < it.end)
    }
}

/// The ranges of numbers that no file had, in ascending order.
fn skipped(view: &dyn View) -> Outcome<Vec<Range<u64>>> {
    let bytes = view.get(Table::Volume, SKIPPED)?.unwrap_or_default();
    let (numbers, rest) = bytes.as_chunks::<8>();
    let (pairs, odd) = numbers.as_chunks::<2>();
    if !rest.is_empty() || !odd.is_empty() {
        return Err(Failure::Damaged(ROOT));
    }
    let pairs = pairs.iter().map(|pair| pair.map(u64::from_be_bytes));
    Ok(pairs.map(|[from, to]| from..to).collect())
}

fn counter(view: &dyn View, name: &[u8]) -> Outcome<u64> {
    match view.get(Table::Volume, name)? {
        Some(bytes) => {
            let bytes = bytes.try_into().map_err(|_| Failure::Damaged(ROOT))?;
            Ok(u64::from_be_bytes(bytes))
        }
        None => Ok(1),
    }
}

fn put_counter(transaction: &mut dyn Transaction, name: &[u8], value: u64) -> Outcome<()> {
    Ok(transaction.put(Table::Volume, name, &value.to_be_bytes())?)
}

#[cfg(test)]
mod tests {
    use super::super::MetaStore;
    use super::super::fixture::{change, create, formatted, seen};
    use super::super::{MemoryStore, StoreError};
    use super::*;

    /// An incarnation that begins at this second and makes so many files: whether the clock was right, and their
    /// numbers.
    fn incarnation(store: &MemoryStore, seconds: i64, files: usize) -> (bool, Vec<u64>) {
        let (mut is_right, mut made) = (false, Vec::new());
        change(store, |transaction| {
            let now = Timestamp {
                seconds,
                nanoseconds: 0,
            };
            is_right = begin(
                transaction,
                now,
                seconds.cast_unsigned() * 7777 + files as u64,
            )
            .unwrap();
            made = (0..files)
                .map(|_| next_file(transaction).unwrap().0)
                .collect();
            Ok(())
        });
        (is_right, made)
    }

    fn copy(store: &MemoryStore) -> MemoryStore {
        let copy = MemoryStore::default();
        let pairs = seen(store, |view| {
            let mut pairs = Vec::new();
            let mut take = |key: &[u8], value: &[u8]| {
                pairs.push((key.to_vec(), value.to_vec()));
                true
            };
            view.scan(Table::Volume, &[], &mut take).unwrap();
            pairs
        });
        change(&copy, |it| {
            let mut pairs = pairs.iter();
            pairs.try_for_each(|(key, value)| it.put(Table::Volume, key, value))
        });
        copy
    }

    fn never_made(store: &MemoryStore, files: &[u64]) -> Vec<bool> {
        let known = seen(store, |view| NeverMade::new(view).unwrap());
        files
            .iter()
            .map(|file| known.contains(FileId(*file)))
            .collect()
    }

    /// A restart takes longer than a millisecond, but perhaps not a second.
    #[test]
    fn no_number_is_given_again_after_a_backup_was_put_back_within_a_second() {
        let store = formatted(|_, _| {});
        incarnation(&store, 1_800_000_000, 3);
        let backup = copy(&store);
        let first_of = |store: &MemoryStore, nanoseconds| {
            let (mut first, seconds) = (0, 1_800_000_100);
            change(store, |transaction| {
                let now = Timestamp {
                    seconds,
                    nanoseconds,
                };
                assert!(begin(transaction, now, 7).unwrap());
                first = next_file(transaction).unwrap().0;
                Ok(())
            });
            first
        };
        let lost = first_of(&store, 300_000_000);
        let again = first_of(&backup, 301_000_000);
        assert!(lost + 1000 < again, "{lost} and {again}");
        let latest = first_of(&copy(&backup), 999_999_999);
        assert!(again < latest && latest >> SECOND_BITS == 1_800_000_100);
    }

    #[test]
    fn no_number_is_given_again_after_older_metadata_was_put_back() {
        let store = formatted(|_, _| {});
        let (_, first) = incarnation(&store, 1_800_000_000, 3);
        let backup = copy(&store);
        let (_, lost) = incarnation(&store, 1_800_000_100, 3);
        let more = incarnation(&store, 1_800_000_100, 3).1;
        let (is_right, again) = incarnation(&backup, 1_800_000_101, 3);
        assert!(is_right);
        let all = [first.clone(), lost.clone(), more.clone(), again.clone()].concat();
        assert!(
            all.is_sorted() && all.windows(2).all(|pair| pair[0] != pair[1]),
            "{all:?}"
        );
        assert!(all.iter().all(|file| *file < 1 << 53));
        // To the metadata that was put back, files of the time in between are none that it made.
        assert_eq!(never_made(&backup, &lost), [true; 3]);
        assert_eq!(never_made(&backup, &more), [true; 3]);
        for made in [&first, &again] {
            assert_eq!(never_made(&backup, made), [false; 3]);
        }
    }

    #[test]
    fn numbers_skipped_by_incarnations_are_kept_and_idle_incarnations_add_none() {
        let store = formatted(|transaction, request| {
            // By a version that did not go by the clock.
            create(transaction, request, ROOT, b"a", &[1]);
        });
        for second in 1..1000 {
            assert!(incarnation(&store, second, 0).0);
        }
        let skipped = seen(&store, |view| skipped(view).unwrap());
        let expected = 3..999 << SECOND_BITS;
        assert_eq!(skipped, [expected]);
        let (_, made) = incarnation(&store, 1000, 2);
        incarnation(&store, 2000, 0);
        let (last, next) = (made[1], 2000 << SECOND_BITS);
        let asked = [
            1,
            2,
            3,
            made[0] - 1,
            made[0],
            last,
            last + 1,
            next - 1,
            next,
            u64::MAX,
        ];
        let expected = [
            false, false, true, true, false, false, true, true, true, true,
        ];
        assert_eq!(never_made(&store, &asked), expected);
    }

    #[test]
    fn a_clock_that_is_behind_or_was_ahead_is_reported_and_gives_no_number_twice() {
        let store = formatted(|_, _| {});
        let (is_right, ahead) = incarnation(&store, 1_900_000_000, 2);
        assert!(is_right);
        let backup = copy(&store);
        let (is_right, lost) = incarnation(&store, 1_800_000_000, 3);
        assert!(!is_right && lost[0] > ahead[1]);
        let (is_right, again) = incarnation(&backup, 1_800_000_100, 3);
        assert!(!is_right && again[0] > ahead[1]);
        assert!(again.iter().all(|file| !lost.contains(file)), "{again:?}");
        assert_eq!(never_made(&backup, &lost), [true; 3]);
        assert_eq!(never_made(&backup, &again), [false; 3]);
        // Twice within a second is no trouble, either.
        let store = formatted(|_, _| {});
        let both = [1, 2].map(|_| incarnation(&store, 1_800_000_000, 1).1[0]);
        assert!(both[0] < both[1]);
    }

    #[test]
    fn damaged_counters_fail_as_damage_of_the_root() {
        for (key, value) in [
            (NEXT_FILE, &b"odd"[..]),
            (NEXT_FILE, &u64::MAX.to_be_bytes()),
            (SKIPPED, &[0; 8]),
            (SKIPPED, &[0; 17]),
        ] {
            let store = formatted(|_, _| {});
            change(&store, |it| it.put(Table::Volume, key, value));
            let work = |it: &mut dyn Transaction| -> Outcome<FileId> {
                begin(it, Timestamp::default(), 0)?;
                let skipping = Timestamp {
                    seconds: 9,
                    nanoseconds: 0,
                };
                begin(it, skipping, 0)?;
                next_file(it)
            };
            let mut done = Ok(FileId(0));
            let committed = store.commit(&mut |it| {
                done = work(it);
                Ok::<(), StoreError>(())
            });
            committed.unwrap();
            assert!(matches!(done, Err(Failure::Damaged(ROOT))), "{value:?}");
        }
    }
}
