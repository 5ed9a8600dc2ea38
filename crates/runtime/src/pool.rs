//! The jobs of a core's blocking pool, counted.

use crate::BlockingJob;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The jobs that wait for the blocking pool of one core, that run and that have ended. Other threads may read them.
///
/// The core and the threads of its pool update them by relaxed additions, without a lock or an allocation.
#[derive(Debug, Default)]
pub struct PoolCounters {
    submitted: AtomicU64,
    begun: AtomicU64,
    ended: AtomicU64,
}

/// A [`PoolCounters`] at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PoolReading {
    /// Jobs that wait for a thread.
    pub queued: u64,
    /// Jobs that run now.
    pub running: u64,
    /// Jobs that have ended, also by a panic.
    pub done: u64,
}

impl PoolCounters {
    /// The present numbers.
    pub fn read(&self) -> PoolReading {
        // A job may go on between the loads, so that a difference would fall below zero for this reading.
        let [submitted, begun, done] =
            [&self.submitted, &self.begun, &self.ended].map(|it| it.load(Ordering::Relaxed));
        PoolReading {
            queued: submitted.saturating_sub(begun),
            running: begun.saturating_sub(done),
            done,
        }
    }

    /// Counts `job` as submitted, and returns it as a job that counts its start and end.
    pub(crate) fn counted(
        self: &Arc<PoolCounters>,
        job: BlockingJob,
    ) -> impl FnOnce() + Send + 'static {
        self.submitted.fetch_add(1, Ordering::Relaxed);
        let mut counted = Counted {
            pool: Arc::clone(self),
            has_begun: false,
        };
        move || {
            counted.begin();
            job();
        }
    }
}

/// A job from its submission to its end. Its drop is the end: a job that panics ends too.
struct Counted {
    pool: Arc<PoolCounters>,
    has_begun: bool,
}

impl Counted {
    fn begin(&mut self) {
        self.has_begun = true;
        self.pool.begun.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        if self.has_begun {
            self.pool.ended.fetch_add(1, Ordering::Relaxed);
        } else {
            // The runtime shuts down and never runs the job, so it waits no more.
            self.pool.submitted.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tokio_plug::block_on;
    use crate::{Handle, PoolClosed, run_blocking, sleep};
    use std::sync::mpsc::channel;
    use std::time::Duration;

    /// Waits until the pool of `runtime` reads as `expected`: a job is counted as done behind its answer.
    async fn reads(runtime: &Handle, queued: u64, running: u64, done: u64) {
        let expected = PoolReading {
            queued,
            running,
            done,
        };
        let pool = runtime.pool().unwrap();
        for _ in 0..30_000 {
            if pool.read() == expected {
                return;
            }
            sleep(runtime, Duration::from_millis(1)).await;
        }
        panic!("{:?}, not {expected:?}", pool.read());
    }

    #[test]
    fn jobs_are_counted_while_they_wait_while_they_run_and_when_they_have_ended() {
        block_on(async |runtime| {
            reads(&runtime, 0, 0, 0).await;
            let (go, held) = channel::<()>();
            let held = Arc::new(std::sync::Mutex::new(held));
            // Four more than the pool has threads. Each job takes one message.
            for _ in 0..20 {
                let held = Arc::clone(&held);
                let wait = move || held.lock().map(|held| held.recv()).map_or((), drop);
                runtime.submit_blocking(Box::new(wait));
            }
            reads(&runtime, 4, 16, 0).await;
            for _ in 0..3 {
                go.send(()).unwrap();
            }
            reads(&runtime, 1, 16, 3).await;
            drop(go);
            reads(&runtime, 0, 0, 20).await;
            let panics = run_blocking(&runtime, || panic!("as the test wants"));
            assert_eq!(panics.await, Err::<(), _>(PoolClosed));
            reads(&runtime, 0, 0, 21).await;
        })
        .unwrap();
    }

    #[test]
    fn a_job_that_is_never_run_does_not_wait_for_ever() {
        let pool = Arc::new(PoolCounters::default());
        let job = pool.counted(Box::new(|| ()));
        assert_eq!(pool.read().queued, 1);
        drop(job);
        assert_eq!(pool.read(), PoolReading::default());
    }
}
