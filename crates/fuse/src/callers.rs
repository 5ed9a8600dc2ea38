//! The callers of requests. A request has user, group and process; the supplementary groups are read from `/proc`.

use crate::limits::{CALLER_AGE, CALLERS_MAX};
use gannet_runtime::Instant;
use gannet_vfs::Credentials;
use std::cell::RefCell;
use std::collections::HashMap;

/// User, group and process of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Asker {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) process: u32,
}

/// Credentials of the latest callers, at most [`CALLERS_MAX`], each for [`CALLER_AGE`].
#[derive(Default)]
pub(crate) struct Callers {
    known: RefCell<HashMap<Asker, (Instant, Credentials)>>,
}

impl Callers {
    /// The credentials of `asker` with its groups, at most [`CALLER_AGE`] old. They have no groups for root, which
    /// needs none, nor for a process that `/proc` does not show: it has ended, or runs in another container.
    pub(crate) fn credentials(&self, asker: Asker, now: Instant) -> Credentials {
        if asker.uid == 0 {
            return Credentials::new(0, asker.gid, &[]);
        }
        let mut known = self.known.borrow_mut();
        if let Some((taken, credentials)) = known.get(&asker)
            && now < *taken + CALLER_AGE
        {
            return credentials.clone();
        }
        if known.len() >= CALLERS_MAX {
            known.clear();
        }
        let status = std::fs::read_to_string(format!("/proc/{}/status", asker.process));
        let groups = groups(&status.unwrap_or_default());
        let credentials = Credentials::new(asker.uid, asker.gid, &groups);
        known.insert(asker, (now, credentials.clone()));
        credentials
    }
}

/// True if a thread has a signal to handle, so that its system call must end.
pub(crate) fn has_signal(thread: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status"));
    // A thread that has ended waits no longer.
    status.map_or(true, |status| is_signalled(&status))
}

/// True if a fatal signal ends a thread: it is pending, or the thread ends by it already. (The kernel sends SIGKILL to
/// all threads of a process that any fatal signal ends.)
pub(crate) fn is_killed(thread: u32) -> bool {
    let read = |name: &str| std::fs::read_to_string(format!("/proc/{thread}/{name}"));
    let Ok(status) = read("status") else {
        return false;
    };
    let pending = signals(&status, "SigPnd:") | signals(&status, "ShdPnd:");
    if pending & SIGKILL != 0 {
        return true;
    }
    // While execve(2) closes files, it waits for us, and `stat` would wait for it (seen on Linux 6.18). A thread that
    // ends has given its memory up, and one in execve(2) has not.
    !has_memory(&status) && read("stat").is_ok_and(|stat| ends_by_signal(&stat))
}

/// True unless the thread has given up its memory on its way to its end, by the text of `/proc/PID/status`.
fn has_memory(status: &str) -> bool {
    status.lines().any(|line| line.starts_with("VmSize:"))
}

/// SIGKILL in the sets of signals of `/proc/PID/status`.
const SIGKILL: u64 = 1 << 8;
/// The kernel's flag of a thread that a signal ends (PF_SIGNALED of proc(5)'s flags).
const SIGNALED: u64 = 0x400;

/// True if the thread has been ended by a signal, by the text of `/proc/PID/stat`. The name of the program, in
/// parentheses, may have blanks and parentheses itself.
fn ends_by_signal(stat: &str) -> bool {
    let after_name = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    let flags = after_name.split_ascii_whitespace().nth(6);
    let flags: Option<u64> = flags.and_then(|flags| flags.parse().ok());
    flags.is_some_and(|flags| flags & SIGNALED != 0)
}

/// A set of signals in the text of `/proc/PID/status`.
fn signals(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|text| u64::from_str_radix(text.trim(), 16).ok())
        .unwrap_or(0)
}

/// True if a signal is pending that is not blocked, by the text of `/proc/PID/status`.
fn is_signalled(status: &str) -> bool {
    let set = |name: &str| signals(status, name);
    (set("SigPnd:") | set("ShdPnd:")) & !set("SigBlk:") != 0
}

/// The supplementary groups in the text of `/proc/PID/status`.
fn groups(status: &str) -> Vec<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Groups:"));
    let numbers = line.unwrap_or_default().split_ascii_whitespace();
    numbers.filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_those_of_the_process() {
        let status = "Name:\tsh\nUid:\t7\t7\t7\t7\nGroups:\t4 24 100 \nNStgid:\t9\n";
        assert_eq!(groups(status), [4, 24, 100]);
        assert_eq!(groups("Name:\tsh\n"), [] as [u32; 0]);
    }

    #[test]
    fn a_running_thread_has_memory_and_an_ended_one_has_none() {
        let own = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        assert!(has_memory(&own));
        assert!(!has_memory("Name:\tsh\nState:\tZ (zombie)\nThreads:\t1\n"));
    }

    #[test]
    fn a_signal_counts_unless_it_is_blocked() {
        let status = |thread: &str, process: &str, blocked: &str| {
            is_signalled(&format!(
                "Name:\tsh\nSigPnd:\t{thread}\nShdPnd:\t{process}\nSigBlk:\t{blocked}\n"
            ))
        };
        let none = "0000000000000000";
        let interrupt = "0000000000000002";
        assert!(!status(none, none, none));
        assert!(status(interrupt, none, none) && status(none, interrupt, none));
        assert!(!status(interrupt, none, interrupt));
        assert!(has_signal(u32::MAX), "the thread has ended");
    }

    #[test]
    fn a_thread_is_killed_from_the_signal_to_its_end() {
        let stat = |flags: u64| format!("12 (a) b)) S 1 12 12 0 -1 {flags} 5 0 0 0");
        assert!(ends_by_signal(&stat(0x40_0400)) && !ends_by_signal(&stat(0x40_0000)));
        assert!(!ends_by_signal("") && !ends_by_signal("12 (a"));
        assert!(!is_killed(std::process::id()) && !is_killed(u32::MAX));
        assert_eq!(signals("SigPnd:\t0000000000000100\n", "SigPnd:"), SIGKILL);
    }

    #[test]
    fn a_process_without_a_proc_entry_has_no_groups() {
        let callers = Callers::default();
        let asker = Asker {
            uid: 7,
            gid: 8,
            process: u32::MAX,
        };
        let credentials = callers.credentials(asker, Instant::default());
        assert_eq!(credentials, Credentials::new(7, 8, &[]));
        let root = Asker { uid: 0, ..asker };
        assert!(
            callers
                .credentials(root, Instant::default())
                .groups()
                .is_empty()
        );
    }
}
