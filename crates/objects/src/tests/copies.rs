//! What two members of a group promise together. Changes go from one to the other without a connection.

use super::*;
use crate::{PassedOn, PeerFailure, Peers, PutBytes, Standing};
use gannet_runtime::{LocalFuture, both, sleep};
use gannet_sim::store::DiskProfile;
use gannet_sim::{Faults, Node};
use gannet_wire::volume::{
    GroupRecord, Member, MemberState, ObjectChange, ObjectPosition, Renewals, Replication,
};
use std::collections::VecDeque;

/// The group of both servers.
pub(super) const GROUP: u32 = 9;
/// The servers: the first is the primary.
pub(super) const SERVERS: [u32; 2] = [3, 4];

pub(super) fn name(file: u64) -> ObjectId {
    ObjectId { group: GROUP, file }
}

/// A change of object 7 by the primary, in the first epoch.
fn of_primary(change: ObjectChange) -> Replication {
    Replication {
        primary: SERVERS[0],
        epoch: 1,
        object: name(7),
        time: Timestamp::default(),
        begun: 0,
        over: 0,
        change,
    }
}

pub(super) fn record(epoch: u64, servers: [u32; 2]) -> Memberships {
    let members = servers.map(|server| Member {
        server,
        state: MemberState::In,
    });
    let record = GroupRecord {
        epoch,
        members: members.to_vec(),
    };
    let group = GROUP;
    Memberships {
        groups: vec![Membership { group, record }],
    }
}

/// The fate of the next change that is passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It does not reach the member.
    Lost,
    /// The member takes it, and the answer is lost.
    Unanswered,
    /// The member's disk has no room for its last byte.
    Full,
    /// It takes so many milliseconds.
    Slow(u64),
}

/// The way to the other member.
pub(super) struct Way {
    pub(super) runtime: Handle,
    pub(super) member: RefCell<Rc<SimObjects>>,
    fates: RefCell<VecDeque<Fate>>,
    pub(super) passed: Cell<usize>,
    /// Bytes of puts that were passed on.
    pub(super) data: Rc<Cell<usize>>,
}

impl Way {
    async fn pass(&self, change: Replication, bytes: Option<PutBytes>) -> PassedOn {
        self.passed.set(self.passed.get() + 1);
        let fate = self.fates.borrow_mut().pop_front();
        let copy = bytes.as_ref().map(|(buffer, data)| {
            let bytes = buffer[data.clone()].to_vec();
            let len = bytes.len();
            self.data.set(self.data.get() + len);
            (Buffer::from_vec(bytes), 0..len)
        });
        let member = Rc::clone(&self.member.borrow());
        let answer = match fate {
            Some(Fate::Lost) => Err(PeerFailure::Silent),
            Some(Fate::Unanswered) => {
                member.take_over(&change, copy).await.unwrap();
                Err(PeerFailure::Silent)
            }
            Some(Fate::Full) => {
                let part = copy.map(|(buffer, data)| (buffer, data.start..data.end - 1));
                member.take_over(&change, part).await.unwrap();
                Err(PeerFailure::Refused(Status::Nospc))
            }
            Some(Fate::Slow(millis)) => {
                sleep(&self.runtime, Duration::from_millis(millis)).await;
                let taken = member.take_over(&change, copy).await;
                taken.map_err(PeerFailure::Refused)
            }
            None => {
                let taken = member.take_over(&change, copy).await;
                taken.map_err(PeerFailure::Refused)
            }
        };
        let buffer = bytes.map(|(buffer, _)| buffer);
        PassedOn { answer, buffer }
    }
}

impl Peers for Way {
    fn replicate(
        self: Rc<Self>,
        to: u32,
        change: Replication,
        bytes: Option<PutBytes>,
    ) -> LocalFuture<PassedOn> {
        assert_eq!(to, SERVERS[1]);
        Box::pin(async move { self.pass(change, bytes).await })
    }

    fn leave(&self, _: u32) {}

    fn list(self: Rc<Self>, _: u32, from: ObjectPosition) -> LocalFuture<Option<ObjectPage>> {
        Box::pin(async move {
            let mut page = ObjectPage {
                next: from,
                foreign_files: 0,
                lost_below: 0,
                objects: Vec::new(),
            };
            let member = Rc::clone(&self.member.borrow());
            member.list(&mut page).await.unwrap();
            Some(page)
        })
    }
}

/// Two members of a group.
pub(super) struct Pair {
    pub(super) nodes: [Node; 2],
    pub(super) disks: [Rc<Disk>; 2],
    pub(super) primary: Rc<SimObjects>,
    pub(super) way: Rc<Way>,
    pub(super) faults: Faults,
}

impl Pair {
    pub(super) fn member(&self) -> Rc<SimObjects> {
        Rc::clone(&self.way.member.borrow())
    }

    pub(super) fn fates(&self, fates: &[Fate]) {
        self.way.fates.borrow_mut().extend(fates);
    }

    /// The member gives the primary the right to serve, if it may have it.
    fn renew(&self) {
        let known = self.primary.groups_of_several().into_iter();
        let groups = known.map(|(group, record, _)| self.primary.renewal(group, record.epoch));
        let asked = Renewals {
            primary: SERVERS[0],
            groups: groups.collect(),
        };
        let now = self.way.runtime.now_with_suspend();
        for group in self.member().renew(&asked) {
            let epoch = asked.groups.iter().find(|it| it.group == group);
            (self.primary).is_renewed(group, epoch.unwrap().epoch, now);
        }
    }

    async fn keep_renewing(&self) {
        loop {
            self.renew();
            sleep(&self.way.runtime, Duration::from_millis(500)).await;
        }
    }

    /// Both are told this record.
    pub(super) async fn both_hear(&self, record: Memberships) {
        for objects in [&self.primary, &self.member()] {
            objects.learn_groups(record.clone()).await.unwrap();
        }
        self.renew();
    }

    /// Restarts the member after a power failure.
    async fn restart_member(&self) {
        self.disks[1].crash();
        let again = open(&self.nodes[1], &self.disks[1], SERVERS[1]);
        again.load_notes().await.unwrap();
        self.way.member.replace(again);
        let epoch = self.epoch() + 1;
        self.both_hear(record(epoch, SERVERS)).await;
        assert_eq!(self.standing_of_member(), Standing::Restarted);
        // As if it had been filled meanwhile.
        let mut filling = record(epoch + 1, SERVERS);
        filling.groups[0].record.members[1].state = MemberState::Filling;
        self.both_hear(filling).await;
        self.both_hear(record(epoch + 2, SERVERS)).await;
    }

    fn epoch(&self) -> u64 {
        self.primary.groups_of_several()[0].1.epoch
    }

    fn standing_of_member(&self) -> Standing {
        self.member().groups_of_several()[0].2
    }

    pub(super) async fn write(
        &self,
        file: u64,
        offset: u64,
        bytes: Vec<u8>,
    ) -> Result<u64, Status> {
        write_at(&self.primary, file, offset, bytes).await
    }

    /// Waits until both are equal, and gives the bytes of a file.
    pub(super) async fn bytes(&self, file: u64) -> Vec<u8> {
        while self.primary.has_uneven() {
            sleep(&self.way.runtime, Duration::from_millis(100)).await;
        }
        let own = bytes_at(&self.primary, file).await;
        assert_eq!(own, bytes_at(&self.member(), file).await, "members differ");
        own
    }
}

pub(super) async fn write_at(
    objects: &SimObjects,
    file: u64,
    offset: u64,
    bytes: Vec<u8>,
) -> Result<u64, Status> {
    let object = name(file);
    let said = shape(offset, bytes.len() as u32);
    let write = objects.accept_write(object, &said, EVERYTHING)?;
    let handle = objects.find_or_make(object).await?;
    let verifier = objects.verifier_for_write(object).await?;
    let target = Target {
        object,
        handle: &handle,
        write: &write,
        capability: &capability(file),
        stability: Stability::Unstable,
    };
    let data = 0..bytes.len();
    let buffer = Buffer::from_vec(bytes);
    objects.store(target, offset, buffer, data, ()).await?;
    Ok(verifier)
}

pub(super) async fn bytes_at(objects: &SimObjects, file: u64) -> Vec<u8> {
    let Some(handle) = objects.find_any(name(file)).await.unwrap() else {
        return Vec::new();
    };
    let opened = objects.open(&handle, 0, 1 << 16).await.unwrap();
    let mut bytes = vec![0; opened.count as usize];
    opened.file.read_at(0, &mut bytes).unwrap();
    bytes
}

pub(super) fn object_range(file: u64, size: u64) -> ObjectRange {
    ObjectRange {
        group: GROUP,
        ..range(file, size)
    }
}

pub(super) fn open(node: &Node, disk: &Rc<Disk>, number: u32) -> Rc<SimObjects> {
    let runtime = node.runtime();
    let store = SimStore::open(disk, Handle::clone(&runtime));
    let store = FolderStore::new(Handle::clone(&runtime), store, number);
    let rights = Rights {
        allow: Box::new(|it, rights| it.rights & rights == rights),
        age_max: Duration::from_secs(120),
    };
    Objects::new(runtime, store, number, rights, Rc::new(Told::default()))
}

pub(super) fn run_pair(story: impl AsyncFnOnce(Rc<Pair>) + 'static) {
    let world = World::new(1);
    let nodes = [world.add_node("primary"), world.add_node("member")];
    let disks = [Disk::new(&world), Disk::new(&world)];
    let faults = world.faults();
    let story = async move {
        let member = open(&nodes[1], &disks[1], SERVERS[1]);
        let primary = open(&nodes[0], &disks[0], SERVERS[0]);
        let way = Rc::new(Way {
            runtime: nodes[0].runtime(),
            member: RefCell::new(Rc::clone(&member)),
            fates: RefCell::default(),
            passed: Cell::new(0),
            data: Rc::default(),
        });
        primary.reach_peers(Rc::clone(&way) as Rc<dyn Peers>);
        for objects in [&primary, &member] {
            objects.load_notes().await.unwrap();
            objects.learn_groups(record(1, SERVERS)).await.unwrap();
        }
        let pair = Rc::new(Pair {
            nodes,
            disks,
            primary,
            way,
            faults,
        });
        let renewing = Rc::clone(&pair);
        let renewing = async move { renewing.keep_renewing().await };
        pair.way.runtime.spawn("renewing", Box::pin(renewing));
        pair.renew();
        story(pair).await;
    };
    world.run(story).unwrap();
}

#[test]
fn each_change_is_at_both_members() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 100]).await.unwrap();
        pair.write(7, 50, vec![2; 100]).await.unwrap();
        let expected = [vec![1; 50], vec![2; 100]].concat();
        assert_eq!(pair.bytes(7).await, expected);
        pair.primary.truncate(&object_range(7, 60)).await.unwrap();
        assert_eq!(pair.bytes(7).await, expected[..60]);
        pair.primary.unlink(&object_range(7, 0)).await.unwrap();
        for objects in [&pair.primary, &pair.member()] {
            assert_eq!(objects.find_any(name(7)).await, Ok(None));
            assert!(objects.is_removed(name(7)));
        }
    });
}

#[test]
fn what_was_committed_outlives_the_power_of_either() {
    run_pair(async |pair| {
        let written = pair.write(7, 0, vec![1; 100]).await.unwrap();
        let all = object_range(7, 0);
        let commit = || pair.primary.commit(&all);
        assert_eq!(commit().await.unwrap().verifier, written);
        pair.write(7, 100, vec![2; 100]).await.unwrap();
        pair.restart_member().await;
        assert_eq!(bytes_at(&pair.member(), 7).await, [1; 100]);
        // The client learns that it must send again what it has not committed.
        let verifier = commit().await.unwrap().verifier;
        assert_ne!(verifier, written);
        let again = pair.write(7, 100, vec![2; 100]).await.unwrap();
        assert_eq!(again, verifier);
        assert_eq!(commit().await.unwrap().verifier, verifier);
        pair.restart_member().await;
        assert_eq!(pair.bytes(7).await.len(), 200);
    });
}

#[test]
fn the_other_member_serves_nobody_and_hears_only_its_primary() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1]).await.unwrap();
        let member = pair.member();
        assert_eq!(member.find(name(7)).await, Err(Status::Stale));
        let refused = write_at(&member, 7, 0, vec![2]).await;
        assert_eq!(refused, Err(Status::Stale));
        let change = of_primary(ObjectChange::Cut { size: 0 });
        let strangers = [
            Replication { epoch: 2, ..change },
            Replication { epoch: 0, ..change },
            Replication {
                primary: 5,
                ..change
            },
            Replication {
                object: object(7),
                ..change
            },
        ];
        for stranger in strangers {
            let taken = member.take_over(&stranger, None).await;
            assert_eq!(taken, Err(Status::Stale), "{stranger}");
        }
        // The primary takes no changes either.
        let taken = pair.primary.take_over(&change, None).await;
        assert_eq!(taken, Err(Status::Stale));
        assert_eq!(pair.bytes(7).await, [1]);
    });
}

#[test]
fn an_answer_that_is_lost_is_asked_for_again() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1]).await.unwrap();
        pair.fates(&[Fate::Lost, Fate::Unanswered]);
        pair.write(7, 0, vec![2; 9]).await.unwrap();
        assert_eq!(pair.bytes(7).await, [2; 9]);
    });
}

#[test]
fn a_member_without_room_is_made_equal_again() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 8]).await.unwrap();
        pair.write(8, 0, vec![1; 8]).await.unwrap();
        pair.fates(&[Fate::Full, Fate::Full]);
        let over = pair.write(7, 4, vec![2; 100]).await;
        assert_eq!(over, Err(Status::Nospc));
        let over = pair.write(8, 0, vec![2; 100]).await;
        assert_eq!(over, Err(Status::Nospc));
        assert!(pair.primary.has_uneven());
        assert_eq!(bytes_at(&pair.member(), 7).await.len(), 103);
        assert_eq!(pair.bytes(7).await, [1; 8]);
        assert_eq!(pair.bytes(8).await, [1; 8]);
        pair.restart_member().await;
        assert_eq!(pair.bytes(7).await, [1; 8], "durable at the member");
    });
}

#[test]
fn a_primary_that_cannot_store_makes_the_member_equal() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 8]).await.unwrap();
        pair.disks[0].set_profile(DiskProfile {
            no_space_per_mille: 1000,
            ..DiskProfile::default()
        });
        let over = pair.write(7, 4, vec![2; 100]).await;
        assert_eq!(over, Err(Status::Nospc));
        assert_eq!(bytes_at(&pair.member(), 7).await.len(), 104);
        assert_eq!(pair.bytes(7).await[..8], [1, 1, 1, 1, 1, 1, 1, 1]);
    });
}

#[test]
fn a_right_that_ends_while_the_member_stores_changes_nothing() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 8]).await.unwrap();
        pair.fates(&[Fate::Slow(1000)]);
        let ending = async {
            sleep(&pair.way.runtime, Duration::from_millis(500)).await;
            pair.primary.revoke(&capability(7), 1_000).unwrap();
        };
        let (written, ()) = both(pair.write(7, 0, vec![2; 9]), ending).await;
        assert_eq!(written, Err(Status::Stale));
        assert_eq!(pair.bytes(7).await, [1; 8]);
    });
}

/// A permit that says when it was dropped.
struct Permit<'a>(&'a Cell<bool>);

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        self.0.set(true);
    }
}

#[test]
fn a_slow_member_holds_no_permits_and_no_more_than_its_share() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1]).await.unwrap();
        pair.fates(&[Fate::Slow(4000); 2]);
        let (half, dropped) = (1 << 20, Cell::new(false));
        let (object, capability) = (name(7), capability(7));
        let said = shape(0, half);
        let write = (pair.primary)
            .accept_write(object, &said, EVERYTHING)
            .unwrap();
        let handle = pair.primary.find_or_make(object).await.unwrap();
        let target = Target {
            object,
            handle: &handle,
            write: &write,
            capability: &capability,
            stability: Stability::Unstable,
        };
        let buffer = Buffer::zeroed(half as usize);
        let (data, permit) = (0..half as usize, Permit(&dropped));
        let long = pair.primary.store(target, 0, buffer, data, permit);
        let beside = async {
            sleep(&pair.way.runtime, Duration::from_millis(100)).await;
            assert!(!dropped.get());
            let one = pair.write(7, 1 << 20, vec![1; 1 << 20]);
            let refused = async {
                sleep(&pair.way.runtime, Duration::from_millis(1000)).await;
                assert!(dropped.get());
                let more = pair.write(8, 0, vec![1; 1 << 20]).await;
                assert_eq!(more, Err(Status::Jukebox));
            };
            let (one, ()) = both(one, refused).await;
            one.unwrap();
        };
        let (stored, ()) = both(long, beside).await;
        stored.unwrap();
        pair.write(8, 0, vec![1; 1 << 20]).await.unwrap();
    });
}

#[test]
fn without_an_answer_the_caller_is_told_to_try_again() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 8]).await.unwrap();
        pair.fates(&[Fate::Lost; 60]);
        let over = pair.write(7, 0, vec![2; 9]).await;
        assert_eq!(over, Err(Status::Jukebox));
        let cut = pair.primary.truncate(&object_range(7, 3)).await;
        assert!(cut.is_ok() || cut == Err(Status::Jukebox));
        pair.way.fates.borrow_mut().clear();
        let cut = pair.primary.truncate(&object_range(7, 3)).await;
        assert_eq!(cut.unwrap().size, 3);
        assert_eq!(pair.bytes(7).await, [1; 3]);
    });
}

#[test]
fn a_server_that_is_primary_no_more_stores_nothing() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 8]).await.unwrap();
        pair.fates(&[Fate::Lost]);
        let turning = async {
            sleep(&pair.way.runtime, Duration::from_millis(50)).await;
            let turned = record(2, [SERVERS[1], SERVERS[0]]);
            pair.primary.learn_groups(turned).await.unwrap();
        };
        let (written, ()) = both(pair.write(7, 0, vec![2; 9]), turning).await;
        assert_eq!(written, Err(Status::Stale));
        assert_eq!(bytes_at(&pair.primary, 7).await, [1; 8]);
    });
}

#[test]
fn the_verifier_of_a_member_is_known_before_the_first_write() {
    run_pair(async |pair| {
        let first = pair.write(7, 0, vec![1]).await.unwrap();
        let passed = pair.way.passed.get();
        assert_eq!(passed, 2, "the member is greeted once");
        assert_eq!(pair.write(7, 1, vec![1]).await, Ok(first));
        assert_eq!(pair.way.passed.get(), 3);
        let own = pair.member().verifier();
        let greeting = of_primary(ObjectChange::Greet);
        let greeted = pair.member().take_over(&greeting, None).await;
        let verifier = greeted.map(|it| it.verifier);
        assert_eq!(verifier, Ok(own));
    });
}

#[test]
fn a_member_that_restarted_serves_only_after_it_was_out_or_filled() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 8]).await.unwrap();
        pair.disks[1].crash();
        let again = open(&pair.nodes[1], &pair.disks[1], SERVERS[1]);
        again.load_notes().await.unwrap();
        let standing = |objects: &SimObjects| objects.groups_of_several().first().map(|it| it.2);
        assert_eq!(standing(&again), None, "it has heard nothing");
        // The manager had granted it before it heard of the restart.
        for epoch in [1, 2] {
            again.learn_groups(record(epoch, SERVERS)).await.unwrap();
            assert_eq!(standing(&again), Some(Standing::Restarted));
        }
        let mut alone = record(3, SERVERS);
        alone.groups[0].record.members[0].state = MemberState::Out;
        again.learn_groups(alone).await.unwrap();
        assert_eq!(standing(&again), Some(Standing::Alone { epoch: 3 }));
        // What the process before has promised is over by then.
        assert_eq!(again.may_serve(GROUP), Err(Status::Jukebox));
        sleep(&pair.way.runtime, Duration::from_millis(2100)).await;
        assert_eq!(again.may_serve(GROUP), Ok(()));
    });
}

#[test]
fn a_lost_disk_serves_nothing_until_it_is_out_also_after_a_restart() {
    run_pair(async |pair| {
        pair.disks[1].replace();
        for epoch in [1, 4] {
            let again = open(&pair.nodes[1], &pair.disks[1], SERVERS[1]);
            again.note_lost(100);
            again.load_notes().await.unwrap();
            again.learn_groups(record(epoch, SERVERS)).await.unwrap();
            // It is the only one that is in, as far as the manager knows.
            let mut alone = record(epoch + 1, SERVERS);
            alone.groups[0].record.members[0].state = MemberState::Filling;
            again.learn_groups(alone).await.unwrap();
            let standing = || again.groups_of_several()[0].2;
            assert_eq!(standing(), Standing::Lost);
            assert_eq!(again.find(name(7)).await, Err(Status::Jukebox));
            let told = again.state_of_named(name(7)).await;
            assert_eq!(told, Err(Status::Jukebox));
            let mut out = record(epoch + 2, SERVERS);
            out.groups[0].record.members[1].state = MemberState::Out;
            if epoch == 4 {
                again.learn_groups(out).await.unwrap();
                assert_eq!(standing(), Standing::Out);
            }
        }
    });
}

/// As the manager opens it: the other member is out until it has joined.
#[test]
fn a_group_from_after_the_loss_of_a_disk_is_served() {
    run_pair(async |pair| {
        pair.disks[0].replace();
        let told = |new: bool| {
            let mut told = record(1, SERVERS);
            let mut later = told.groups[0].clone();
            (later.group, later.record.members[1].state) = (GROUP + 1, MemberState::Out);
            told.groups.extend(new.then_some(later));
            told
        };
        for (is_restarted, expected) in [
            (false, Standing::Alone { epoch: 1 }),
            (true, Standing::Restarted),
        ] {
            let again = open(&pair.nodes[0], &pair.disks[0], SERVERS[0]);
            again.note_lost(100);
            again.load_notes().await.unwrap();
            again.learn_groups(told(is_restarted)).await.unwrap();
            again.learn_groups(told(true)).await.unwrap();
            let standings = again.groups_of_several().into_iter().map(|it| it.2);
            assert_eq!(standings.collect::<Vec<_>>(), [Standing::Lost, expected]);
        }
    });
}

/// The image of a disk is older than a group, or than its second member: the other one has what is missing.
#[test]
fn a_server_with_an_older_image_of_its_disk_does_not_serve() {
    run_pair(async |pair| {
        for (noted, expected) in [
            (None, Standing::Lost),
            (Some(GroupRecord::of(SERVERS[0])), Standing::Restarted),
        ] {
            pair.disks[0].replace();
            let open = || open(&pair.nodes[0], &pair.disks[0], SERVERS[0]);
            let mut single = record(1, SERVERS);
            single.groups[0].group = GROUP + 1;
            single.groups[0].record = GroupRecord::of(SERVERS[0]);
            let mut before = single.clone();
            before.groups.extend(noted.map(|record| Membership {
                group: GROUP,
                record,
            }));
            let earlier = open();
            earlier.load_notes().await.unwrap();
            earlier.learn_groups(before).await.unwrap();
            drop(earlier);
            let again = open();
            again.load_notes().await.unwrap();
            let mut now = record(3, SERVERS);
            now.groups.extend(single.groups);
            again.learn_groups(now).await.unwrap();
            let standings = again.groups_of_several().into_iter().map(|it| it.2);
            assert_eq!(standings.collect::<Vec<_>>(), [expected]);
        }
    });
}

#[test]
fn a_member_is_filled_while_both_go_on() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1; 3000]).await.unwrap();
        pair.write(8, 0, vec![2; 10]).await.unwrap();
        let mut alone = record(2, SERVERS);
        alone.groups[0].record.members[1].state = MemberState::Out;
        pair.both_hear(alone).await;
        pair.write(7, 1000, vec![3; 5000]).await.unwrap();
        pair.primary.unlink(&object_range(8, 0)).await.unwrap();
        pair.write(9, 0, vec![4; 20]).await.unwrap();
        pair.primary.revoke(&capability(9), 500).unwrap();
        assert_eq!(bytes_at(&pair.member(), 7).await.len(), 3000);
        let mut filling = record(3, SERVERS);
        filling.groups[0].record.members[1].state = MemberState::Filling;
        pair.both_hear(filling).await;
        assert!(pair.primary.is_filling(GROUP, 3));
        let meanwhile = async {
            pair.write(9, 10, vec![5; 20]).await.unwrap();
            pair.write(10, 0, vec![6; 20]).await.unwrap();
        };
        let (filled, ()) = both(pair.primary.fill(GROUP, 3), meanwhile).await;
        filled.unwrap();
        let expected = [vec![1; 1000], vec![3; 5000]].concat();
        assert_eq!(pair.bytes(7).await, expected);
        assert_eq!(pair.bytes(8).await, []);
        assert_eq!(pair.bytes(9).await, [vec![4; 10], vec![5; 20]].concat());
        assert_eq!(pair.bytes(10).await, [6; 20]);
        let revoked = Capability {
            expires: 500,
            ..capability(9)
        };
        assert_eq!(pair.member().check(&revoked, 0), Err(Status::Stale));
        let time = async |objects: &SimObjects| {
            let handle = objects.find_any(name(7)).await.unwrap().unwrap();
            objects.store.state(&handle).await.unwrap().modified
        };
        assert_eq!(time(&pair.primary).await, time(&pair.member()).await);
    });
}

#[test]
fn a_primary_whose_other_member_is_filled_serves_on_by_its_right() {
    run_pair(async |pair| {
        let mut filling = record(2, SERVERS);
        filling.groups[0].record.members[1].state = MemberState::Filling;
        pair.both_hear(filling).await;
        pair.renew();
        pair.primary.learn_groups(record(3, SERVERS)).await.unwrap();
        // The other member has not heard of it, and has promised all the same.
        assert_eq!(pair.primary.may_serve(GROUP), Ok(()));
        sleep(&pair.way.runtime, Duration::from_secs(2)).await;
        assert_eq!(pair.primary.may_serve(GROUP), Err(Status::Jukebox));
        // The next record is another matter.
        pair.both_hear(record(3, SERVERS)).await;
        pair.renew();
        pair.primary.learn_groups(record(5, SERVERS)).await.unwrap();
        assert_eq!(pair.primary.may_serve(GROUP), Err(Status::Jukebox));
    });
}

#[test]
fn a_primary_without_the_right_of_the_other_member_serves_nobody() {
    run_pair(async |pair| {
        pair.write(7, 0, vec![1]).await.unwrap();
        let mut filling = record(2, SERVERS);
        filling.groups[0].record.members[1].state = MemberState::Filling;
        pair.primary.learn_groups(filling.clone()).await.unwrap();
        sleep(&pair.way.runtime, Duration::from_secs(5)).await;
        let served = pair.primary.may_serve(GROUP);
        assert_eq!(served, Ok(()), "who is being filled takes over from nobody");
        pair.primary.learn_groups(record(3, SERVERS)).await.unwrap();
        let served = pair.primary.may_serve(GROUP);
        assert_eq!(served, Err(Status::Jukebox));
        let refused = pair.primary.find(name(7)).await;
        assert_eq!(refused, Err(Status::Jukebox));
        pair.member().learn_groups(filling).await.unwrap();
        pair.member()
            .learn_groups(record(3, SERVERS))
            .await
            .unwrap();
        pair.renew();
        assert_eq!(pair.primary.may_serve(GROUP), Ok(()));
        // The other member waits until that right is over.
        let mut turned = record(4, [SERVERS[1], SERVERS[0]]);
        turned.groups[0].record.members[1].state = MemberState::Out;
        let member = pair.member();
        member.learn_groups(turned).await.unwrap();
        assert_eq!(member.may_serve(GROUP), Err(Status::Jukebox));
        sleep(&pair.way.runtime, Duration::from_millis(2000)).await;
        assert_eq!(member.may_serve(GROUP), Err(Status::Jukebox));
        assert_eq!(pair.primary.may_serve(GROUP), Err(Status::Jukebox));
        sleep(&pair.way.runtime, Duration::from_millis(100)).await;
        assert_eq!(member.may_serve(GROUP), Ok(()));
    });
}
