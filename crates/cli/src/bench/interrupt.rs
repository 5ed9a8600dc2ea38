//! SIGINT and SIGTERM under a benchmark: it stops, and removes its files.

use crate::failure::{Explain, Failure};
use crate::process::{Signals, take_on_a_thread};
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
        let wait = move |mut signals: Signals| async move {
            loop {
                signals.next().await;
                if sender.send_replace(true) {
                    std::process::exit(EXIT_CODE);
                }
            }
        };
        take_on_a_thread(Signals::install, wait)
            .explain(|| String::from("cannot wait for signals"))?;
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
