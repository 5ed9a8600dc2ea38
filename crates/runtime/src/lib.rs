//! The runtime seam: clock, timers, tasks, randomness, byte streams, files; and its tokio plug
