//! The blocking pools of a process: the jobs of its cores that may wait for a disk.

use crate::{Exposition, Family, Source};
use gannet_runtime::{Handle, PoolCounters};
use std::sync::{Arc, Mutex, PoisonError};

const QUEUED: Family = Family::gauge(
    "gannet_pool_jobs_queued",
    "Jobs that wait for a thread of their core's blocking pool.",
);
const RUNNING: Family = Family::gauge(
    "gannet_pool_jobs_running",
    "Jobs that threads of the blocking pools run now.",
);
const DONE: Family = Family::counter(
    "gannet_pool_jobs",
    "Jobs that threads of the blocking pools have ended.",
);

/// The blocking pools of cores, as one source. Those of cores that have ended stay part of the sums.
#[derive(Debug, Default)]
pub struct Pools(Mutex<Vec<Arc<PoolCounters>>>);

impl Pools {
    /// Has the pool of this core read too, from the core's start on. A runtime without threads has none.
    pub fn add(&self, runtime: &Handle) {
        let mut pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pools.extend(runtime.pool());
    }
}

impl Source for Pools {
    fn collect(&self, into: &mut Exposition) {
        let pools = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a pool the sums are 0, and shown.
        let mut sum = [0; 3];
        for pool in pools.iter() {
            let jobs = pool.read();
            let numbers = [jobs.queued, jobs.running, jobs.done];
            sum.iter_mut()
                .zip(numbers)
                .for_each(|(sum, number)| *sum += number);
        }
        for (family, number) in [&QUEUED, &RUNNING, &DONE].into_iter().zip(sum) {
            into.number(family, &[], number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Value;
    use gannet_runtime::tokio_plug::block_on;
    use gannet_runtime::{run_blocking, sleep};
    use std::time::Duration;

    /// The figures as a reader gets them: queued, running, done.
    fn figures(pools: &Pools) -> [f64; 3] {
        let mut read = Exposition::default();
        pools.collect(&mut read);
        [&QUEUED, &RUNNING, &DONE].map(|wanted| {
            let (_, samples) = read
                .families()
                .find(|(family, _)| *family == wanted)
                .unwrap();
            match samples.values().next().unwrap() {
                Value::Number(number) => *number,
                Value::Latency(_) => unreachable!("no family of times"),
            }
        })
    }

    #[test]
    fn pools_of_several_cores_add_up_and_stay_when_their_cores_have_ended() {
        let pools = Pools::default();
        assert_eq!(figures(&pools), [0.0; 3]);
        for round in 1..=2 {
            block_on(async |runtime| {
                pools.add(&runtime);
                let (go, held) = std::sync::mpsc::channel::<()>();
                runtime.submit_blocking(Box::new(move || held.recv().unwrap_or_default()));
                let before = 3.0 * f64::from(round - 1);
                while figures(&pools) != [0.0, 1.0, before] {
                    sleep(&runtime, Duration::from_millis(1)).await;
                }
                for _ in 0..2 {
                    run_blocking(&runtime, || ()).await.unwrap();
                }
                drop(go);
            })
            .unwrap();
            // The end of a runtime waits for the jobs that run.
            assert_eq!(figures(&pools), [0.0, 0.0, 3.0 * f64::from(round)]);
        }
    }
}
