//! The number of descriptors that the served directories may keep open, and the count of refused ones.

use super::open::OpenError;
use crate::limits::{DESCRIPTORS_MAX, DESCRIPTORS_MIN};
use rustix::process::{Resource, Rlimit};
use std::sync::atomic::{AtomicU64, Ordering};

/// Number of times that the kernel has refused a descriptor: the process, or the machine, has as many open as it may.
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The descriptors that each of the `directories` of one process may keep open: equal shares of half of the process's
/// limit, whose soft value is raised to the hard one. The other half is for connections and for operations under way.
///
/// # Errors
/// [`OpenError::Descriptors`]: that is too few to serve them.
pub fn descriptors_each(directories: usize) -> Result<usize, OpenError> {
    let limit = raised_limit();
    share(limit, directories).ok_or(OpenError::Descriptors {
        limit,
        needed: needed(directories),
    })
}

fn share(limit: u64, directories: usize) -> Option<usize> {
    let half = usize::try_from(limit / 2).unwrap_or(usize::MAX);
    let each = half.min(DESCRIPTORS_MAX) / directories.max(1);
    (each >= DESCRIPTORS_MIN).then_some(each)
}

/// The least limit with which so many directories can be served.
fn needed(directories: usize) -> u64 {
    (2 * DESCRIPTORS_MIN).saturating_mul(directories.max(1)) as u64
}

fn raised_limit() -> u64 {
    let limit = rustix::process::getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        let raised = Rlimit {
            current: limit.maximum,
            maximum: limit.maximum,
        };
        if let Err(error) = rustix::process::setrlimit(Resource::Nofile, raised) {
            tracing::debug!(%error, "the soft limit of open files stays");
        }
    }
    let limit = rustix::process::getrlimit(Resource::Nofile).current;
    limit.unwrap_or(u64::MAX)
}

/// Notes that the kernel refused a descriptor.
pub(crate) fn note_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// Number of descriptors that were refused so far.
pub(crate) fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_directories_together_take_half_and_each_enough() {
        for limit in [1024, 20_000, 524_288, u64::MAX] {
            for directories in [1, 2, 4, 7, 256] {
                let Some(each) = share(limit, directories) else {
                    assert!(limit < needed(directories));
                    continue;
                };
                assert!(limit >= needed(directories) && each >= DESCRIPTORS_MIN);
                assert!((each * directories) as u64 <= limit / 2);
                assert!(each * directories <= DESCRIPTORS_MAX);
            }
        }
        assert_eq!(share(20_000, 4), Some(2500));
        assert_eq!(share(1024, 16), None);
    }
}
