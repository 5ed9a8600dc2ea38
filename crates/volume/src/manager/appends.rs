//! Places of appended bytes: two appends at once never get the same bytes of a file.
//!
//! A place that was given may not be written yet, so the objects do not show it. The next place begins after the
//! objects' size and after all given places. A place counts while its grant lasts: after that its bytes are in the
//! objects, or never will be. The I/O servers refuse places of an earlier manager together with its capabilities.

use crate::limits::{APPENDED_FILES_MAX, APPENDS_REMEMBERED, GRANT_AGE};
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_runtime::Instant;
use gannet_wire::volume::{FileId, Status};
use std::collections::{BTreeMap, VecDeque};

/// A request to append.
pub(super) struct Append {
    pub(super) file: FileId,
    /// The client's number of the request.
    pub(super) number: u64,
    /// Bytes.
    pub(super) len: u32,
}

/// Places that were given and may not be written yet.
#[derive(Default)]
pub(super) struct Appends {
    files: BTreeMap<FileId, Places>,
}

struct Places {
    /// The first byte behind all of them.
    end: u64,
    /// When the last of them was given.
    last: Instant,
    /// Places by the client's number of the request: a request that is repeated gets the same one.
    given: VecDeque<(u64, u64)>,
}

impl Appends {
    /// The place for an append to a file of `size` bytes: the offset of its first byte.
    ///
    /// # Errors
    /// `Fbig`: the file would be too long. `Jukebox`: too many files are appended to.
    pub(super) fn place(&mut self, append: Append, size: u64, now: Instant) -> Result<u64, Status> {
        let Append { file, number, len } = append;
        if self.files.len() >= APPENDED_FILES_MAX && !self.files.contains_key(&file) {
            self.files.retain(|_, places| now < places.last + GRANT_AGE);
            if self.files.len() >= APPENDED_FILES_MAX {
                return Err(Status::Jukebox);
            }
        }
        let places = self.files.entry(file).or_insert_with(|| Places {
            end: 0,
            last: now,
            given: VecDeque::new(),
        });
        if let Some((_, start)) = places.given.iter().find(|(given, _)| *given == number) {
            return Ok(*start);
        }
        if places.last + GRANT_AGE <= now {
            places.end = 0;
        }
        let start = places.end.max(size);
        let end = start.checked_add(u64::from(len));
        let end = end
            .filter(|end| *end <= FILE_SIZE_MAX)
            .ok_or(Status::Fbig)?;
        places.end = end;
        places.last = now;
        if places.given.len() >= APPENDS_REMEMBERED {
            places.given.pop_front();
        }
        places.given.push_back((number, start));
        Ok(start)
    }

    /// Forgets the places of a file that is cut: the next one begins at its new end.
    pub(super) fn forget(&mut self, file: FileId) {
        self.files.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const FILE: FileId = FileId(7);

    fn append(number: u64, len: u32) -> Append {
        Append {
            file: FILE,
            number,
            len,
        }
    }

    #[test]
    fn places_lie_behind_each_other_before_anything_is_written() {
        let mut appends = Appends::default();
        let mut place =
            |size, number, len| appends.place(append(number, len), size, Instant::START);
        assert_eq!(place(100, 1, 10), Ok(100));
        assert_eq!(place(100, 2, 5), Ok(110));
        assert_eq!(place(110, 3, 1), Ok(115), "only the first was written");
        assert_eq!(place(500, 4, 1), Ok(500), "others write further behind");
    }

    #[test]
    fn a_request_that_comes_again_has_the_same_place() {
        let mut appends = Appends::default();
        let mut place = |number| appends.place(append(number, 10), 0, Instant::START);
        assert_eq!(place(1), Ok(0));
        assert_eq!(place(2), Ok(10));
        assert_eq!(place(1), Ok(0));
    }

    #[test]
    fn a_cut_file_and_one_without_grants_begin_with_their_size() {
        let mut appends = Appends::default();
        let start = Instant::START;
        assert_eq!(appends.place(append(1, 10), 0, start), Ok(0));
        appends.forget(FILE);
        assert_eq!(appends.place(append(2, 10), 0, start), Ok(0));
        let later = start + GRANT_AGE;
        assert_eq!(appends.place(append(3, 10), 3, later), Ok(3));
        let soon = later + (GRANT_AGE - Duration::from_nanos(1));
        assert_eq!(appends.place(append(4, 10), 3, soon), Ok(13));
    }

    #[test]
    fn a_file_that_would_be_too_long_is_refused() {
        let mut appends = Appends::default();
        let mut place = |size| appends.place(append(size, 10), size, Instant::START);
        assert_eq!(place(FILE_SIZE_MAX - 10), Ok(FILE_SIZE_MAX - 10));
        assert_eq!(place(FILE_SIZE_MAX - 9), Err(Status::Fbig));
    }
}
