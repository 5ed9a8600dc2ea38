//! `gannet locks`: the locks and grants that clients of a volume have.

use super::facts::{Lock, Locks};
use super::{ask, run, time};
use crate::cli::LocksOptions;
use crate::failure::Failure;
use crate::{output, table};

/// `gannet locks`.
///
/// # Errors
/// The server does not answer.
pub fn locks(options: &LocksOptions) -> Result<(), Failure> {
    let place = &options.admin;
    let asking = async {
        let answer = ask::ask::<Locks>(place, "/locks.json").await;
        answer.map_err(|error| error.explain(place))
    };
    let answer = run(asking)?;
    if options.json {
        return answer.locks.iter().try_for_each(output::json);
    }
    if !answer.keeps_locks {
        return output::line(
            "no locks: the manager of a volume keeps them, and NFS of this server has none",
        );
    }
    if answer.locks.is_empty() {
        return output::line("no client has a lock or a grant");
    }
    let rows: Vec<_> = answer.locks.iter().map(row).collect();
    let header = [
        "client", "uid", "process", "file", "kind", "bytes", "state", "since",
    ];
    output::line(&table::render(1, header, &rows))?;
    if answer.more > 0 {
        output::line(&format!("and {} more", answer.more))?;
    }
    let is_hidden = |lock: &Lock| lock.address.is_none() && lock.client.is_some();
    if answer.locks.iter().any(is_hidden) {
        output::report(
            "addresses, users and processes are shown at the Unix socket, and to networks that --admin-allow names",
        );
    }
    Ok(())
}

fn row(lock: &Lock) -> [String; 8] {
    let number = |number: Option<u64>| match number {
        Some(number) => number.to_string(),
        None => String::from(table::NONE),
    };
    let client = match (&lock.address, lock.client) {
        (Some(address), _) => address.clone(),
        (None, Some(id)) => format!("client {id}"),
        (None, None) => String::from(table::NONE),
    };
    let bytes = match (lock.start, lock.end) {
        (Some(0), None) => String::from("all"),
        (Some(start), Some(end)) => format!("{start}-{end}"),
        (Some(start), None) => format!("{start}-"),
        (None, _) => String::from(table::NONE),
    };
    let state = if lock.waits { "waits" } else { "has" };
    [
        client,
        number(lock.uid),
        number(lock.process),
        lock.file.to_string(),
        lock.kind.clone(),
        bytes,
        String::from(state),
        time(lock.since_seconds),
    ]
}
