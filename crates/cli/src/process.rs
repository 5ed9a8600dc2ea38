//! This process's signals, and other processes of this machine.

use crate::logs;
use gannet_runtime::tokio_plug;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// SIGTERM and SIGINT; for services also SIGHUP and SIGUSR1.
pub(crate) struct Signals {
    terminate: Signal,
    interrupt: Signal,
    service: Option<ServiceSignals>,
}

/// Signals that do not end a service.
struct ServiceSignals {
    hang_up: Signal,
    user: Signal,
    /// Opens another log than that of the program again.
    reopen: Option<Box<dyn Fn()>>,
}

impl ServiceSignals {
    /// Catches them.
    fn install() -> io::Result<ServiceSignals> {
        Ok(ServiceSignals {
            hang_up: signal(SignalKind::hangup())?,
            user: signal(SignalKind::user_defined1())?,
            reopen: None,
        })
    }

    /// Opens the log again when SIGUSR1 comes; returns when SIGHUP does.
    async fn hang_up(&mut self) {
        loop {
            tokio::select! {
                _ = self.hang_up.recv() => return,
                _ = self.user.recv() => {
                    logs::reopen();
                    if let Some(reopen) = &self.reopen {
                        reopen();
                    }
                }
            }
        }
    }
}

/// A signal for a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Signalled {
    /// SIGTERM or SIGINT, by its name.
    End(&'static str),
    /// SIGHUP.
    Reload,
}

impl Signals {
    /// Catches the signals: from now on they do not end the process.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn install() -> io::Result<Signals> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            service: None,
        })
    }

    /// The same for a process that serves until it is told to end. SIGHUP does not end it; SIGUSR1 opens the file of
    /// `--log-file` again.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn install_for_service() -> io::Result<Signals> {
        Ok(Signals {
            service: Some(ServiceSignals::install()?),
            ..Signals::install()?
        })
    }

    /// Calls `reopen` too when SIGUSR1 comes to a service.
    pub(crate) fn on_reopen(&mut self, reopen: impl Fn() + 'static) {
        if let Some(service) = &mut self.service {
            service.reopen = Some(Box::new(reopen));
        }
    }

    /// Waits for SIGTERM or SIGINT; its name. SIGHUP does nothing.
    pub(crate) async fn next(&mut self) -> &'static str {
        loop {
            match self.next_or_reload().await {
                Signalled::End(name) => return name,
                Signalled::Reload => {
                    tracing::info!("SIGHUP: ignored; there is nothing to read again")
                }
            }
        }
    }

    /// Waits for the next signal of a service, apart from SIGUSR1.
    pub(crate) async fn next_or_reload(&mut self) -> Signalled {
        let hanging_up = async {
            match &mut self.service {
                Some(service) => service.hang_up().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => Signalled::End("SIGTERM"),
            _ = self.interrupt.recv() => Signalled::End("SIGINT"),
            () = hanging_up => Signalled::Reload,
        }
    }
}

/// Takes signals with `install` on a thread of its own, which goes on with `wait`.
///
/// # Errors
/// The system refuses.
pub(crate) fn take_on_a_thread<S, F: Future<Output = ()>>(
    install: impl FnOnce() -> io::Result<S> + Send + 'static,
    wait: impl FnOnce(S) -> F + Send + 'static,
) -> io::Result<JoinHandle<()>> {
    let (installed, is_installed) = mpsc::channel();
    let main = async move |_| {
        let signals = match install() {
            Ok(signals) => signals,
            // The receiver waits for one of these.
            Err(error) => return installed.send(Err(error)).unwrap_or(()),
        };
        let _ = installed.send(Ok(()));
        wait(signals).await;
    };
    let thread = std::thread::Builder::new().name(String::from("signals"));
    let thread = thread.spawn(move || {
        if let Err(error) = tokio_plug::block_on(main) {
            tracing::error!(%error, "cannot wait for signals");
        }
    })?;
    // A thread that ends without a word has logged why.
    is_installed.recv().map_err(io::Error::other)??;
    Ok(thread)
}

/// Takes SIGHUP and SIGUSR1 for a service that cannot serve yet, on a thread that ends with this. They end the process
/// no more from then on. SIGTERM and SIGINT do.
pub(crate) struct EarlySignals {
    /// Its drop ends the thread.
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
    has_hung_up: Arc<AtomicBool>,
}

impl EarlySignals {
    /// Takes the signals.
    ///
    /// # Errors
    /// The system refuses.
    pub(crate) fn install() -> io::Result<EarlySignals> {
        let (stop, mut stopped) = oneshot::channel();
        let has_hung_up = Arc::new(AtomicBool::new(false));
        let hung_up = Arc::clone(&has_hung_up);
        let wait = move |mut signals: ServiceSignals| async move {
            loop {
                tokio::select! {
                    // An error means that the sender was dropped.
                    _ = &mut stopped => return,
                    () = signals.hang_up() => {
                        hung_up.store(true, Ordering::Relaxed);
                        tracing::info!("SIGHUP: the configuration is read again when this manager takes over");
                    }
                }
            }
        };
        let thread = take_on_a_thread(ServiceSignals::install, wait)?;
        Ok(EarlySignals {
            stop: Some(stop),
            thread: Some(thread),
            has_hung_up,
        })
    }

    /// Whether SIGHUP came.
    pub(crate) fn has_hung_up(&self) -> bool {
        self.has_hung_up.load(Ordering::Relaxed)
    }
}

impl Drop for EarlySignals {
    fn drop(&mut self) {
        drop(self.stop.take());
        // A panic of the thread has been reported.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The caller's umask. Call it before any thread runs: reading the mask means setting it.
pub(crate) fn umask() -> u32 {
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    rustix::process::umask(mask);
    mask.as_raw_mode()
}

/// Processor time that process `pid` has used so far, from `/proc/PID/stat`, which counts in hundredths of a second.
///
/// # Errors
/// There is no such process, or it may not be looked at.
pub fn cpu(pid: u32) -> io::Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"))?;
    let ticks = ticks(&stat).ok_or_else(|| io::Error::other("/proc is not Linux's"))?;
    let per_second = rustix::param::clock_ticks_per_second() as f64;
    Ok(Duration::from_secs_f64(ticks as f64 / per_second))
}

/// Processor time of a process at a moment, by thread.
///
/// `/proc/PID/stat` counts in hundredths of a second, which is too coarse for short measurements. The threads count
/// nanoseconds, but those that end take theirs with them.
#[derive(Debug, Clone)]
pub struct Usage {
    whole: Duration,
    /// Nanoseconds of each thread, from its `schedstat`; empty where the kernel has none.
    threads: BTreeMap<OsString, u64>,
}

impl Usage {
    /// The processor time of `pid` so far.
    ///
    /// # Errors
    /// There is no such process, or it may not be looked at.
    pub fn of(pid: u32) -> io::Result<Usage> {
        let whole = cpu(pid)?;
        let threads = std::fs::read_dir(format!("/proc/{pid}/task"))?;
        let time_of = |entry: std::fs::DirEntry| {
            let text = std::fs::read_to_string(entry.path().join("schedstat")).ok()?;
            let time = text.split_whitespace().next()?.parse().ok()?;
            Some((entry.file_name(), time))
        };
        let threads = threads.flatten().filter_map(time_of).collect();
        Ok(Usage { whole, threads })
    }

    /// The processor time since an earlier moment.
    pub fn since(&self, earlier: &Usage) -> Duration {
        let has_lost = |thread: &OsString| !self.threads.contains_key(thread);
        if self.threads.is_empty() || earlier.threads.keys().any(has_lost) {
            return self.whole.saturating_sub(earlier.whole);
        }
        let added = self.threads.iter().map(|(thread, time)| {
            let before = earlier.threads.get(thread).copied().unwrap_or_default();
            time.saturating_sub(before)
        });
        Duration::from_nanos(added.sum())
    }
}

/// User and system time out of a line of `/proc/PID/stat`, in clock ticks. The name in it may hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    #[test]
    fn ticks_are_found_behind_any_name() {
        let stat = "12 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 20 0 0 20";
        assert_eq!(super::ticks(stat), Some(120));
    }

    #[test]
    fn work_of_threads_counts_also_when_they_end() {
        let before = super::Usage::of(std::process::id()).unwrap();
        let work = || {
            let began = std::time::Instant::now();
            while began.elapsed() < std::time::Duration::from_millis(30) {}
        };
        std::thread::spawn(work).join().unwrap();
        work();
        let now = super::Usage::of(std::process::id()).unwrap();
        assert!(now.since(&before) >= std::time::Duration::from_millis(10));
        let mut ended = before;
        ended.threads.insert("ended".into(), 1);
        assert_eq!(now.since(&ended), now.whole.saturating_sub(ended.whole));
    }

    #[test]
    fn this_process_is_found_and_no_process_is_not() {
        assert!(super::cpu(std::process::id()).is_ok());
        assert!(super::cpu(u32::MAX).is_err());
    }
}
