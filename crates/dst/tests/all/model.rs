//! The oracle refuses replies that no state explains, and accepts those that one explains.

#![allow(clippy::unwrap_used)]

use gannet_dst::model::{Answer, Create, Execution, Key, Operation, Oracle, Outcome, TOP};
use gannet_vfs::{Stability, Status};

const FILE: Key = 1;

fn create(how: Create, key: Key) -> Operation {
    let name = b"file".to_vec();
    Operation::Create {
        directory: TOP,
        name,
        how,
        key,
    }
}

fn write(offset: u64, bytes: &[u8], stability: Stability) -> Operation {
    Operation::Write {
        file: FILE,
        offset,
        bytes: bytes.to_vec(),
        stability,
    }
}

/// An operation, and the outcome that its caller saw.
#[derive(Clone)]
struct Observed {
    operation: Operation,
    outcome: Outcome,
}

fn read(bytes: &[u8]) -> Observed {
    let operation = Operation::Read {
        file: FILE,
        offset: 0,
        len: 100,
    };
    let bytes = bytes.to_vec();
    Observed {
        operation,
        outcome: Ok(Answer::Bytes { bytes, eof: true }),
    }
}

fn never(_: Status) -> bool {
    false
}

/// An oracle that has seen these operations succeed.
fn after(operations: &[Operation]) -> Oracle {
    let mut oracle = Oracle::new();
    for operation in operations {
        let answer = match operation {
            Operation::Create { key, .. } => Answer::Object(*key),
            _ => Answer::Done,
        };
        oracle
            .learn(operation, Some(&Ok(answer)), Execution::Once, never)
            .unwrap();
    }
    oracle
}

fn believes(oracle: &mut Oracle, observed: Observed, how: Execution) -> bool {
    let Observed { operation, outcome } = observed;
    oracle.learn(&operation, Some(&outcome), how, never).is_ok()
}

#[test]
fn a_wrong_byte_is_caught() {
    let file = || {
        after(&[
            create(Create::Guarded, FILE),
            write(0, b"hello", Stability::Unstable),
        ])
    };
    assert!(believes(&mut file(), read(b"hello"), Execution::Once));
    assert!(!believes(&mut file(), read(b"hellO"), Execution::Once));
    assert!(!believes(&mut file(), read(b"hell"), Execution::Once));
}

#[test]
fn executing_twice_is_believed_only_after_a_restart() {
    let again = Observed {
        operation: create(Create::Guarded, 2),
        outcome: Err(Status::Exist),
    };
    assert!(!believes(
        &mut Oracle::new(),
        again.clone(),
        Execution::Once
    ));
    let mut oracle = Oracle::new();
    assert!(believes(&mut oracle, again, Execution::OnceOrMore));
    assert_eq!(oracle.state().entries(TOP), [(b"file".to_vec(), 2)]);
    let mut oracle = after(&[create(Create::Guarded, FILE)]);
    let remove = Observed {
        operation: Operation::Remove {
            directory: TOP,
            name: b"file".to_vec(),
        },
        outcome: Err(Status::Noent),
    };
    assert!(believes(&mut oracle, remove, Execution::OnceOrMore));
    assert!(oracle.state().entries(TOP).is_empty());
}

#[test]
fn an_unanswered_operation_leaves_two_states_until_one_is_seen() {
    for (seen, other) in [(b"new".as_slice(), b"old".as_slice()), (b"old", b"new")] {
        let mut oracle = after(&[
            create(Create::Guarded, FILE),
            write(0, b"old", Stability::FileSync),
        ]);
        let lost = write(0, b"new", Stability::FileSync);
        oracle
            .learn(&lost, None, Execution::Unknown, never)
            .unwrap();
        assert!(believes(&mut oracle, read(seen), Execution::Once));
        assert!(believes(&mut oracle, read(seen), Execution::Once));
        assert!(!believes(&mut oracle, read(other), Execution::Once));
    }
}

#[test]
fn a_crash_takes_what_was_not_synced_and_nothing_else() {
    let file = || {
        after(&[
            create(Create::Guarded, FILE),
            write(0, b"aaaa", Stability::FileSync),
            write(2, b"bbbb", Stability::Unstable),
        ])
    };
    for left in [b"aaaa".as_slice(), b"aabbbb"] {
        assert_eq!(file().adopt(FILE, left), Ok(()), "{left:?}");
    }
    for never in [
        b"aa".as_slice(),
        b"aaaabbbb",
        b"bbbbbb",
        b"aabbbbb",
        b"aac",
        b"",
    ] {
        assert!(file().adopt(FILE, never).is_err(), "{never:?}");
    }
    let mut committed = file();
    committed
        .learn(
            &Operation::Commit { file: FILE },
            Some(&Ok(Answer::Done)),
            Execution::Once,
            never,
        )
        .unwrap();
    assert!(committed.adopt(FILE, b"aaaa").is_err());
    let mut adopted = file();
    adopted.adopt(FILE, b"aabbbb").unwrap();
    assert!(believes(&mut adopted, read(b"aabbbb"), Execution::Once));
}

#[test]
fn a_sync_after_the_crash_brings_nothing_back() {
    let late_sync = || {
        let mut oracle = after(&[
            create(Create::Guarded, FILE),
            write(0, b"aaaaaa", Stability::FileSync),
            write(0, b"bbbbbb", Stability::Unstable),
        ]);
        let synced = Observed {
            operation: write(2, b"cc", Stability::FileSync),
            outcome: Ok(Answer::Done),
        };
        assert!(believes(&mut oracle, synced, Execution::OnceOrMore));
        assert!(oracle.may_lose(FILE));
        oracle
    };
    assert_eq!(late_sync().adopt(FILE, b"aaccaa"), Ok(()));
    assert_eq!(late_sync().adopt(FILE, b"bbccbb"), Ok(()));
    assert!(late_sync().adopt(FILE, b"bbbbbb").is_err());
}

#[test]
fn a_disk_error_is_believed_only_where_it_is_excused() {
    let operation = create(Create::Guarded, FILE);
    let outcome = Err(Status::Io);
    let mut oracle = Oracle::new();
    let learned = oracle.learn(&operation, Some(&outcome), Execution::Once, |status| {
        status == Status::Io
    });
    assert_eq!(learned, Ok(()));
    assert!(oracle.state().entries(TOP).is_empty());
    assert!(!believes(
        &mut oracle,
        Observed { operation, outcome },
        Execution::Once
    ));
}
