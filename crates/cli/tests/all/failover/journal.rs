//! Journals in real engines, while their members are killed and asked to end.

use super::cluster::{Cluster, PASSWORD, certify, until, wait};
use super::etcd::Etcd;
use super::postgresql::Postgresql;
use super::support::Place;
use gannet_meta::{
    Engine, EngineError, FollowerNote, JournaledStore, ManagerName, MemoryStore, MetaStore,
    Standby, StoreError, Table, View,
};
use std::sync::Arc;
use tempfile::TempDir;

/// The volume of these tests.
const VOLUME: &str = "test";

/// A manager whose store gets what the journal has.
fn follow(
    cluster: &dyn Cluster,
    base: &Arc<MemoryStore>,
    owner: u8,
) -> Result<Standby, StoreError> {
    let base = Arc::clone(base) as Arc<dyn MetaStore>;
    let manager = ManagerName {
        name: format!("manager {owner}"),
        owner: [owner; 16],
    };
    let mut standby = Standby::over(base, cluster.engine(VOLUME), [7; 16], manager)?;
    // Records would stay for those that have ended.
    standby.be_silent();
    standby.follow()?;
    Ok(standby)
}

fn open(
    cluster: &dyn Cluster,
    base: &Arc<MemoryStore>,
    owner: u8,
) -> Result<JournaledStore, StoreError> {
    follow(cluster, base, owner)?.take_over()
}

fn put(store: &JournaledStore, number: u32, len: usize) -> Result<(), StoreError> {
    let value = vec![number as u8; len];
    store.commit(&mut |it| it.put(Table::Names, &number.to_be_bytes(), &value))
}

fn count(store: &dyn MetaStore) -> usize {
    let mut count = 0;
    let look = &mut |view: &dyn View| {
        let each = &mut |_: &[u8], _: &[u8]| {
            count += 1;
            true
        };
        view.scan(Table::Names, b"", each).unwrap();
    };
    store.read(look).unwrap();
    count
}

/// Managers that take a journal over from each other, while members die. `silence` is said of an engine without a
/// majority. Returns the store of the last manager.
fn changes_outlive_managers(cluster: &mut dyn Cluster, silence: &str) -> Arc<MemoryStore> {
    let base = Arc::<MemoryStore>::default();
    let first = open(cluster, &base, 1).unwrap();
    for number in 0..20 {
        put(&first, number, 1000).unwrap();
    }
    // The longest record, as it is encoded.
    put(&first, 20, (1 << 20) - 200).unwrap();
    // One member is away: the others go on.
    cluster.lose(1);
    for number in 21..40 {
        put(&first, number, 1000).unwrap();
    }
    // Another manager, whose store below has nothing.
    let second = open(cluster, &Arc::default(), 2).unwrap();
    assert_eq!(count(&second), 40);
    let refused = put(&first, 40, 10).err().unwrap().to_string();
    assert!(refused.contains("another manager"), "{refused}");
    put(&second, 40, 1000).unwrap();
    // Without a majority nothing is acknowledged.
    cluster.lose(2);
    let refused = put(&second, 41, 10).err().unwrap().to_string();
    assert!(refused.contains(silence), "{refused}");
    let refused = open(cluster, &base, 3).err().unwrap().to_string();
    assert!(refused.contains(silence), "{refused}");
    cluster.recover();
    wait(cluster);
    let third = open(cluster, &base, 3).unwrap();
    assert!((41..=42).contains(&count(&third)));
    // Generations of records go.
    for number in 100..140 {
        put(&third, number, 500_000).unwrap();
        third.checkpoint().unwrap();
    }
    assert!(cluster.engine(VOLUME).records(0, 100).unwrap().len() < 40);
    let again = open(cluster, &base, 4).unwrap();
    assert!(count(&again) >= 81);
    again.renew().unwrap();
    let mut engine = cluster.engine(VOLUME);
    let note = |has| FollowerNote { has, seen: 9 };
    engine.note("a/b c", note(6)).unwrap();
    engine.note("a/b c", note(7)).unwrap();
    engine.note("d", note(8)).unwrap();
    let notes = engine.notes().unwrap();
    assert_eq!((notes["a/b c"], notes["d"]), (note(7), note(8)));
    // Other volumes have rows of their own.
    assert!(cluster.engine("other").row().unwrap().is_none());
    again.release().unwrap();
    base
}

/// An engine that does not let a manager in says so at once.
fn strangers_are_refused(mut wrong_password: impl Engine, mut wrong_authority: impl Engine) {
    let refused = wrong_password.row().err().unwrap();
    assert!(matches!(&refused, EngineError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("password"), "{refused}");
    let refused = wrong_authority.row().err().unwrap();
    assert!(matches!(&refused, EngineError::Refused(_)), "{refused}");
    assert!(refused.to_string().contains("not trusted"), "{refused}");
}

/// Another authority.
fn other() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    certify(folder.path());
    folder
}

mod over_etcd {
    use super::*;

    #[test]
    #[ignore = "needs etcd: `cargo xtask failover` runs it"]
    fn etcd_has_the_journal() {
        let place = Place::new();
        let mut cluster = Etcd::start(&place.path("etcd"));
        strangers_are_refused(
            cluster.engine_with("wrong", cluster.folder(), VOLUME),
            cluster.engine_with(PASSWORD, other().path(), VOLUME),
        );
        changes_outlive_managers(&mut cluster, "etcd does not answer");
    }
}

mod over_postgresql {
    use super::*;

    #[test]
    #[ignore = "needs PostgreSQL: `cargo xtask failover --engine postgresql` runs it"]
    fn postgresql_has_the_journal() {
        let mut cluster = Postgresql::start();
        // Several managers make the tables at the same time.
        cluster.say("gannet", "drop schema gannet cascade");
        std::thread::scope(|scope| {
            for _ in 0..6 {
                scope.spawn(|| {
                    let mut engine = cluster.engine(VOLUME);
                    until("the tables are made", || match engine.row() {
                        Err(EngineError::Unavailable(why)) => Err(why),
                        answered => Ok(answered.unwrap()),
                    });
                });
            }
        });
        strangers_are_refused(
            cluster.engine_with("wrong", cluster.folder(), VOLUME),
            cluster.engine_with(PASSWORD, other().path(), VOLUME),
        );
        let base = changes_outlive_managers(&mut cluster, "PostgreSQL does not answer");
        // The primary dies: another one has all that was acknowledged.
        let store = open(&cluster, &base, 1).unwrap();
        put(&store, 1, 1000).unwrap();
        let before = cluster.engine(VOLUME).row().unwrap();
        cluster.strike(1);
        wait(&cluster);
        assert_eq!(cluster.engine(VOLUME).row().unwrap(), before);
        // More records than one statement removes, as after the return of a manager.
        cluster.say(
            "gannet",
            "insert into gannet.record select 'many', g, '' from generate_series(1, 12000) as g",
        );
        let mut many = cluster.engine("many");
        many.remove(11_000).unwrap();
        assert_eq!(many.records(0, 1).unwrap()[0].0, 11_001);
        put(&store, 2, 1000).unwrap();
        store.release().unwrap();
    }

    #[test]
    #[ignore = "needs PostgreSQL: `cargo xtask failover --engine postgresql` runs it"]
    fn a_commit_whose_wait_was_cut_short_is_not_believed() {
        let mut cluster = Postgresql::start();
        let base = Arc::<MemoryStore>::default();
        let store = open(&cluster, &base, 1).unwrap();
        put(&store, 1, 100).unwrap();
        let row = cluster.engine(VOLUME).row().unwrap();
        cluster.lose(2);
        // The administrator ends its wait: everybody sees it, and no standby has it.
        let seen = || {
            cluster.say(
                "gannet",
                "select encode(head, 'hex') from gannet.journal where volume = 'test'",
            )
        };
        let before = seen();
        std::thread::scope(|scope| {
            let change = scope.spawn(|| put(&store, 2, 100));
            until("the change waits for standbys", || {
                let statement = "select count(pg_cancel_backend(pid)) from pg_stat_activity \
                    where wait_event = 'SyncRep' and usename = 'gannet'";
                match cluster.say("postgres", statement).trim() {
                    "0" => Err(String::from("not yet")),
                    _ => Ok(()),
                }
            });
            until("the change is seen", || match seen() == before {
                true => Err(String::from("not yet")),
                false => Ok(()),
            });
            let refused = change.join().unwrap().err().unwrap().to_string();
            assert!(refused.contains("PostgreSQL does not answer"), "{refused}");
        });
        let read = cluster.engine(VOLUME).row();
        assert!(matches!(read, Err(EngineError::Unavailable(_))), "{read:?}");
        // A standby becomes the primary: the change never was.
        let lost = cluster.lose_primary();
        cluster.recover_all_but(lost);
        let kept = cluster.engine(VOLUME).row().unwrap();
        assert_eq!(kept.map(|row| row.bytes), row.map(|row| row.bytes));
        let next = open(&cluster, &base, 2).unwrap();
        assert_eq!(count(&next), 1);
        put(&next, 2, 100).unwrap();
    }

    #[test]
    #[ignore = "needs PostgreSQL: `cargo xtask failover --engine postgresql` runs it"]
    fn a_database_that_may_lose_changes_is_refused() {
        let cluster = Postgresql::start();
        let refused = |part: &str| {
            let refused = cluster.engine(VOLUME).row().err().unwrap();
            assert!(matches!(&refused, EngineError::Refused(_)), "{refused}");
            assert!(refused.to_string().contains(part), "{refused}");
        };
        let base = Arc::<MemoryStore>::default();
        let store = open(&cluster, &base, 1).unwrap();
        put(&store, 1, 100).unwrap();
        // The setting of the server does not matter: each connection has its own.
        cluster.set("synchronous_commit = off");
        put(&store, 2, 100).unwrap();
        let admin = |statement: &str| cluster.say("gannet", statement);
        admin("alter table gannet.record set unlogged");
        refused("unlogged table gannet.record");
        admin("alter table gannet.record set logged");
        admin("alter table gannet.journal drop constraint journal_pkey");
        refused("gannet.journal without its primary key (volume)");
        admin("alter table gannet.journal add primary key (volume)");
        // It changes while a manager is at work.
        cluster.set("synchronous_standby_names = ''");
        until("the change is refused", || match put(&store, 3, 100) {
            Ok(()) => Err(String::from("not yet")),
            Err(error) => {
                assert!(
                    error.to_string().contains("no synchronous standbys"),
                    "{error}"
                );
                Ok(())
            }
        });
        refused("no synchronous standbys");
    }

    #[test]
    #[ignore = "needs PostgreSQL: `cargo xtask failover --engine postgresql` runs it"]
    fn a_database_that_lost_changes_stops_those_that_have_them() {
        let mut cluster = Postgresql::start();
        let store = open(&cluster, &Arc::default(), 1).unwrap();
        put(&store, 1, 100).unwrap();
        // One standby is away for long. Then somebody makes it the primary, and the other one with more is gone.
        let behind = cluster.lose_standby();
        put(&store, 2, 100).unwrap();
        let base = Arc::<MemoryStore>::default();
        drop(follow(&cluster, &base, 2).unwrap());
        cluster.promote_behind(behind);
        let refused = put(&store, 3, 100).err().unwrap().to_string();
        assert!(refused.contains("has lost changes"), "{refused}");
        let refused = follow(&cluster, &base, 2).err().unwrap().to_string();
        assert!(refused.contains("restored from a backup"), "{refused}");
        // Metadata that never had the change go on.
        let next = open(&cluster, &Arc::default(), 3).unwrap();
        assert_eq!(count(&next), 1);
        put(&next, 3, 100).unwrap();
        let refused = follow(&cluster, &base, 2).err().unwrap().to_string();
        assert!(refused.contains("do not belong"), "{refused}");
    }
}
