//! SIGINT and SIGTERM under a benchmark: it stops, and removes its files.

use crate::failure::{Explain, Failure};
use gannet_runtime::tokio_plug;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Exit status of a second signal: that of a shell's command that SIGINT ended.
const EXIT_CODE: i32 = 130;

/// Whether a signal has asked the benchmark to end. Clones share the state.
#[derive(Clone)]
pub struct Interrupt {
    /// Set by a thread that runs until the process ends.
    interrupted: watch::Receiver<bool>,
}

impl Interrupt {
    /// Takes the signals from now on; a second one ends the process at once.
    ///
    /// # Errors
    /// They cannot be taken.
    pub fn install() -> Result<Interrupt, Failure> {
        let (sender, interrupted) = watch::channel(false);
        let (installed, is_installed) = std::sync::mpsc::channel();
        let wait = move || {
            tokio_plug::block_on(async |_| {
                let both = signal(SignalKind::interrupt())
                    .and_then(|interrupt| Ok((interrupt, signal(SignalKind::terminate())?)));
                let mut both = match both {
                    Ok(both) => {
                        // The receiver is dropped when the benchmark has ended already.
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
                    if sender.send_replace(true) {
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
        Ok(Interrupt { interrupted })
    }

    /// The failure that ends the benchmark, once a signal has come.
    ///
    /// # Errors
    /// A signal has come.
    pub fn check(&self) -> Result<(), Failure> {
        if *self.interrupted.borrow() {
            return Err(Interrupt::failure());
        }
        Ok(())
    }

    /// Waits for a signal.
    pub async fn wait(&self) {
        let mut interrupted = self.interrupted.clone();
        if interrupted
            .wait_for(|interrupted| *interrupted)
            .await
            .is_err()
        {
            std::future::pending().await
        }
    }

    /// Does `work`, unless a signal comes before its end.
    ///
    /// # Errors
    /// The errors of `work`, or a signal has come.
    pub async fn until<T>(
        &self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        tokio::select! {
            done = work => done,
            () = self.wait() => Err(Interrupt::failure()),
        }
    }

    fn failure() -> Failure {
        Failure::new("the benchmark is not complete", "interrupted")
    }
}
