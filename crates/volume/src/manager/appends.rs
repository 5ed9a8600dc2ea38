//! Where appended bytes go: two that append at once never get the same bytes of a file.
//!
//! A file is as long as its objects say, and bytes that were given a place may not be written yet. So the next place
//! begins behind both. What is known here is good for as long as somebody may write by a grant of this manager: after
//! that the bytes are in the objects, or will never be. Places given by an earlier manager are refused by the I/O
//! servers together with its capabilities.

use crate::limits::{APPENDED_FILES_MAX, APPENDS_REMEMBERED, GRANT_AGE};
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_runtime::Instant;
use gannet_wire::volume::{FileId, Status};
use std::collections::{BTreeMap, VecDeque};

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
    /// By the client's number of the request, so that one that comes again gets the same.
    given: VecDeque<(u64, u64)>,
}

impl Appends {
    /// The first of `len` bytes for the request `number`, in a file that is `size` bytes long by now.
    ///
    /// # Errors
    /// `Fbig`: the file would be too long. `Jukebox`: too many files are appended to.
    pub(super) fn place(
        &mut self,
        (file, size): (FileId, u64),
        (number, len): (u64, u32),
        now: Instant,
    ) -> Result<u64, Status> {
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

    /// The file is cut: the next place begins where it ends then.
    pub(super) fn forget(&mut self, file: FileId) {
        self.files.remove(&file);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const FILE: FileId = FileId(7);

    #[test]
    fn places_lie_behind_each_other_before_anything_is_written() {
        let mut appends = Appends::default();
        let mut place =
            |size, number, len| appends.place((FILE, size), (number, len), Instant::START);
        assert_eq!(place(100, 1, 10), Ok(100));
        assert_eq!(place(100, 2, 5), Ok(110));
        assert_eq!(place(110, 3, 1), Ok(115), "only the first was written");
        assert_eq!(place(500, 4, 1), Ok(500), "others write further behind");
    }

    #[test]
    fn a_request_that_comes_again_has_the_same_place() {
        let mut appends = Appends::default();
        let mut place = |number| appends.place((FILE, 0), (number, 10), Instant::START);
        assert_eq!(place(1), Ok(0));
        assert_eq!(place(2), Ok(10));
        assert_eq!(place(1), Ok(0));
    }

    #[test]
    fn a_cut_file_and_one_that_nobody_can_write_any_more_begin_with_their_size() {
        let mut appends = Appends::default();
        let start = Instant::START;
        assert_eq!(appends.place((FILE, 0), (1, 10), start), Ok(0));
        appends.forget(FILE);
        assert_eq!(appends.place((FILE, 0), (2, 10), start), Ok(0));
        let later = start + GRANT_AGE;
        assert_eq!(appends.place((FILE, 3), (3, 10), later), Ok(3));
        let soon = later + (GRANT_AGE - Duration::from_nanos(1));
        assert_eq!(appends.place((FILE, 3), (4, 10), soon), Ok(13));
    }

    #[test]
    fn a_file_that_would_be_too_long_is_refused() {
        let mut appends = Appends::default();
        let mut place = |size| appends.place((FILE, size), (size, 10), Instant::START);
        assert_eq!(place(FILE_SIZE_MAX - 10), Ok(FILE_SIZE_MAX - 10));
        assert_eq!(place(FILE_SIZE_MAX - 9), Err(Status::Fbig));
    }
}
