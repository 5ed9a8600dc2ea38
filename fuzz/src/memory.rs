//! How much memory a target holds: every binary with this crate counts what its threads allocate.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Bytes that this thread has allocated and not freed. Negative where it frees what other threads have allocated.
    static HELD: Cell<isize> = const { Cell::new(0) };
    /// The most that [`HELD`] was since a measurement began.
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Counts before the allocation, so that one that fails counts too.
fn note(len: usize) {
    let held = HELD.get().saturating_add_unsigned(len);
    HELD.set(held);
    PEAK.set(PEAK.get().max(held));
}

fn note_freed(len: usize) {
    HELD.set(HELD.get().saturating_sub_unsigned(len));
}

// SAFETY: all memory is the system's. The counters beside it have no destructor, so they may be used at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as the caller says.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: as the caller says.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note_freed(layout.size());
        // SAFETY: as the caller says.
        unsafe { System.dealloc(place, layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, len: usize) -> *mut u8 {
        note_freed(layout.size());
        note(len);
        // SAFETY: as the caller says.
        unsafe { System.realloc(place, layout, len) }
    }
}

/// The most bytes that this thread held at a time while it did `work`, beyond those that it held before.
pub fn peak_of(work: impl FnOnce()) -> usize {
    let before = HELD.get();
    PEAK.set(before);
    work();
    PEAK.get().abs_diff(before)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hint::black_box;

    #[test]
    fn the_peak_counts_memory_that_is_held_at_the_same_time() {
        let one_by_one = peak_of(|| {
            for _ in 0..10 {
                black_box(vec![1_u8; 1000]);
            }
        });
        assert_eq!(one_by_one, 1000);
        let together = peak_of(|| {
            let held: Vec<_> = (0..10).map(|_| black_box(vec![1_u8; 1000])).collect();
            drop(held);
        });
        assert!((10_000..11_000).contains(&together), "{together}");
        let zeroed_and_grown = peak_of(|| {
            let mut held = vec![0_u8; 5000];
            held.reserve_exact(15_000);
            black_box(held);
        });
        assert_eq!(zeroed_and_grown, 20_000);
        assert_eq!(peak_of(|| ()), 0);
    }

    #[test]
    fn memory_of_other_threads_does_not_count() {
        let peak = peak_of(|| {
            let thread = std::thread::spawn(|| drop(black_box(vec![1_u8; 1 << 20])));
            thread.join().unwrap();
        });
        assert!(peak < 1 << 20, "{peak}");
    }
}
