//! How long a request is sent again.

use std::time::{Duration, Instant};

/// The pause before a request that nobody answered is sent again.
const PAUSE: Duration = Duration::from_millis(200);

/// The time in which a request without an answer is sent again.
pub(crate) struct Patience {
    whole: Duration,
    /// When the first attempt of the present request failed.
    since: Option<Instant>,
}

impl Patience {
    pub(crate) fn new(whole: Duration) -> Patience {
        Patience { whole, since: None }
    }

    /// Waits a little after an attempt that failed, the first or a later one. False: it is time to give up.
    pub(crate) fn wait(&mut self, attempt: u32) -> bool {
        let now = Instant::now();
        let since = match self.since.filter(|_| attempt > 0) {
            Some(since) => since,
            None => *self.since.insert(now),
        };
        std::thread::sleep(PAUSE);
        now.duration_since(since) < self.whole
    }
}
