//! Memory pressure: the kernel reports that programs wait for memory, and the cores give their caches back.
//!
//! Pressure stall information (PSI) is that of the server's own control group (version 2), which `memory.high`
//! throttles, else of the whole machine. A trigger wakes a thread when programs waited for 100 ms within two seconds.
//! Where the kernel refuses triggers to this user, the thread reads every two seconds how long they waited.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::sync::watch;

/// Pressure: some program waited for this long ...
const STALL: Duration = Duration::from_millis(100);
/// ... within this time. Linux lets users other than root have windows of whole two seconds alone.
const WINDOW: Duration = Duration::from_secs(2);
/// PSI of the whole machine.
const MACHINE: &str = "/proc/pressure/memory";
/// Where control groups of version 2 are mounted, alone or beside those of version 1.
const GROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// Counts the times at which memory was short; its sender ends with the thread that watches.
pub(super) fn watch_memory() -> watch::Receiver<u64> {
    let (sender, receiver) = watch::channel(0);
    let group = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let paths = candidates(&group);
    let opened = (paths.iter()).find_map(|path| Some((path, Source::open(path).ok()?)));
    let Some((path, source)) = opened else {
        tracing::info!(
            "this kernel has no {MACHINE}: caches shrink when they are idle, and not when memory is short"
        );
        return receiver;
    };
    tracing::debug!(path = %path.display(), by_trigger = matches!(source, Source::Trigger(_)), "watching memory");
    let watching = std::thread::Builder::new()
        .name(String::from("memory-pressure"))
        .spawn(move || observe(source, &sender));
    if let Err(error) = watching {
        tracing::warn!(%error, "cannot watch memory pressure");
    }
    receiver
}

/// Runs `reclaim` each time memory is short, until the server stops.
pub(super) async fn reclaim_when_short(
    mut pressure: watch::Receiver<u64>,
    mut stop: watch::Receiver<bool>,
    reclaim: impl Fn(),
) {
    loop {
        tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            short = pressure.changed() => match short {
                Ok(()) => reclaim(),
                Err(_) => return,
            },
        }
    }
}

/// The files that may report pressure, the best first, for a process in these control groups (/proc/self/cgroup).
fn candidates(groups: &str) -> Vec<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"));
    let of_own = own
        .into_iter()
        .flat_map(|own| GROUPS.map(|mounted| Path::new(mounted).join(own).join("memory.pressure")));
    of_own.chain([PathBuf::from(MACHINE)]).collect()
}

/// Reports when memory is short, until the receiver is dropped.
fn observe(mut source: Source, short: &watch::Sender<u64>) {
    while !short.is_closed() {
        match source.wait(WINDOW) {
            Ok(true) => {
                tracing::debug!("memory is short");
                short.send_modify(|times| *times += 1);
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot watch memory pressure any more");
                return;
            }
        }
    }
}

/// How pressure is noticed.
enum Source {
    /// The kernel makes the file ready with priority.
    Trigger(File),
    /// The file holds the time for which programs waited so far.
    Total { file: File, last: Duration },
}

impl Source {
    fn open(path: &Path) -> io::Result<Source> {
        Source::trigger(path).or_else(|_| Source::total(path))
    }

    fn trigger(path: &Path) -> io::Result<Source> {
        let mut file = OpenOptions::new().read(true).write(true).open(path)?;
        let (stall, window) = (STALL.as_micros(), WINDOW.as_micros());
        file.write_all(format!("some {stall} {window}\0").as_bytes())?;
        Ok(Source::Trigger(file))
    }

    fn total(path: &Path) -> io::Result<Source> {
        let file = File::open(path)?;
        let last = waited(&file)?;
        Ok(Source::Total { file, last })
    }

    /// Waits for `window` at most, and returns whether memory was short in it.
    fn wait(&mut self, window: Duration) -> io::Result<bool> {
        match self {
            Source::Trigger(file) => is_triggered(file, window),
            Source::Total { file, last } => {
                std::thread::sleep(window);
                let now = waited(file)?;
                let since = now.saturating_sub(*last);
                *last = now;
                Ok(since >= STALL)
            }
        }
    }
}

fn is_triggered(file: &File, window: Duration) -> io::Result<bool> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec {
        tv_sec: window.as_secs() as i64,
        tv_nsec: i64::from(window.subsec_nanos()),
    };
    let mut polled = [PollFd::new(file, PollFlags::PRI)];
    rustix::io::retry_on_intr(|| poll(&mut polled, Some(&timeout)))?;
    let ready = polled[0].revents();
    if ready.contains(PollFlags::ERR) {
        return Err(io::Error::other("the control group is gone"));
    }
    Ok(ready.contains(PollFlags::PRI))
}

/// The time for which some program has waited so far: the total of the first line.
fn waited(file: &File) -> io::Result<Duration> {
    let mut text = [0; 512];
    let len = file.read_at(&mut text, 0)?;
    let text = String::from_utf8_lossy(&text[..len]);
    let some = text.lines().find(|line| line.starts_with("some "));
    let total = some.and_then(|line| line.rsplit_once("total=")?.1.trim().parse().ok());
    total
        .map(Duration::from_micros)
        .ok_or_else(|| io::Error::other("no line `some ... total=MICROSECONDS`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn text(total: u64) -> String {
        let line =
            |kind, total| format!("{kind} avg10=1.50 avg60=0.00 avg300=0.12 total={total}\n");
        line("some", total) + &line("full", 9_999_999)
    }

    #[test]
    fn the_own_control_group_comes_before_the_machine() {
        let paths = |groups| {
            candidates(groups)
                .into_iter()
                .map(|it| it.display().to_string())
        };
        let mixed = "4:memory:/old\n0::/system.slice/gannet.service\n";
        let own = "system.slice/gannet.service/memory.pressure";
        let expected = [
            format!("/sys/fs/cgroup/{own}"),
            format!("/sys/fs/cgroup/unified/{own}"),
            String::from(MACHINE),
        ];
        assert!(paths(mixed).eq(expected));
        assert!(paths("4:memory:/old\n").eq([String::from(MACHINE)]));
        assert_eq!(
            paths("0::/\n").next().unwrap(),
            "/sys/fs/cgroup/memory.pressure"
        );
    }

    #[test]
    fn memory_is_short_when_programs_waited_for_it_long_enough() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory.pressure");
        std::fs::write(&path, text(5_000_000)).unwrap();
        let mut source = Source::total(&path).unwrap();
        let mut is_short_at = |total| {
            std::fs::write(&path, text(total)).unwrap();
            source.wait(Duration::ZERO).unwrap()
        };
        let seen = [5_000_000, 5_099_999, 5_200_000, 5_200_001, 9_000_000].map(&mut is_short_at);
        assert_eq!(seen, [false, false, true, false, true]);
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(source.wait(Duration::ZERO).is_err());
        assert!(Source::total(&path).is_err());
    }

    #[test]
    fn each_core_gives_its_cache_back_when_memory_is_short_and_ends_with_the_server() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("memory.pressure");
        std::fs::write(&path, text(0)).unwrap();
        let source = Source::total(&path).unwrap();
        let (short, pressure) = watch::channel(0);
        let (stop, stopped) = watch::channel(false);
        let thread = std::thread::spawn(move || observe(source, &short));
        gannet_runtime::tokio_plug::block_on(|_| async {
            let reclaimed = Cell::new(0);
            std::fs::write(&path, text(60_000_000)).unwrap();
            let reclaim = || {
                reclaimed.set(reclaimed.get() + 1);
                stop.send(true).unwrap();
            };
            reclaim_when_short(pressure, stopped, reclaim).await;
            assert_eq!(reclaimed.get(), 1);
        })
        .unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn this_kernel_takes_a_trigger_or_reports_the_total() {
        let path = Path::new(MACHINE);
        // A kernel without PSI has no such file, which `watch_memory` says.
        if path.exists() {
            let mut source = Source::open(path).unwrap();
            source.wait(Duration::ZERO).unwrap();
        }
    }
}
