//! SIGINT and SIGTERM under a benchmark: it stops, and removes its files.

use crate::failure::{Explain, Failure};
use gannet_runtime::tokio_plug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

/// Exit status of a second signal: that of a shell's command that SIGINT ended.
const EXIT_CODE: i32 = 130;

/// Whether somebody wants the benchmark to end. Clones see the same.
#[derive(Clone)]
pub(crate) struct Interrupt {
    flag: Arc<AtomicBool>,
}

impl Interrupt {
    /// Takes the signals from now on; a second one ends the process at once.
    ///
    /// # Errors
    /// They cannot be taken.
    pub(crate) fn install() -> Result<Interrupt, Failure> {
        let flag = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&flag);
        let (installed, is_installed) = std::sync::mpsc::channel();
        let wait = move || {
            tokio_plug::block_on(async |_| {
                let both = signal(SignalKind::interrupt())
                    .and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
                let mut both = match both {
                    Ok(both) => {
                        // Nobody listens when the benchmark is over already.
                        let _ = installed.send(Ok(()));
                        both
                    }
                    Err(error) => return installed.send(Err(error)).unwrap_or(()),
                };
                loop {
                    tokio::select! {
                        _ = both.0.recv() => {}
                        _ = both.1.recv() => {}
                    }
                    if seen.swap(true, Ordering::Relaxed) {
                        std::process::exit(EXIT_CODE);
                    }
                }
            })
        };
        let what = || String::from("cannot wait for signals");
        std::thread::Builder::new()
            .name(String::from("signals"))
            .spawn(wait)
            .explain(what)?;
        is_installed.recv().explain(what)?.explain(what)?;
        Ok(Interrupt { flag })
    }

    /// The failure that ends the benchmark, once a signal has come.
    ///
    /// # Errors
    /// A signal has come.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.flag.load(Ordering::Relaxed) {
            return Err(Failure::new("the benchmark is not complete", "interrupted"));
        }
        Ok(())
    }
}
