//! Keys of one connection, on a device that has memory windows.

use super::*;
use crate::limits::{SEND_QUEUE_MAX, SEND_QUEUE_OWN};
use crate::sys::fake::WindowWork;

fn run_with_windows<F: Future<Output = ()>>(main: impl FnOnce(Bed) -> F) {
    block_on(|runtime| main(bed(runtime, FakeDevice::with_windows()))).unwrap();
}

fn bind(bed: &Bed, connection: &Connected, len: usize) -> Region {
    let scope = Scope::Endpoint(connection.id());
    let backing = Backing::Buffer(Buffer::zeroed(len));
    let domain = &bed.core.domain;
    (domain.register_now(backing, Access::RemoteWrite, scope)).unwrap()
}

/// Work on windows that was posted, in its order.
fn window_work(bed: &Bed) -> Vec<Option<WindowWork>> {
    let seen = bed.device.seen();
    seen.sent.iter().map(|work| work.window).collect()
}

/// Completes all work that was posted, and handles that.
fn complete_all(bed: &Bed, from: usize) -> usize {
    let posted = bed.device.seen().sent.len();
    for index in from..posted {
        bed.device.complete(index, status::SUCCESS);
    }
    bed.core.advance();
    posted
}

fn windows_and_registrations(bed: &Bed) -> (usize, usize) {
    let windows = bed.device.seen().windows;
    (windows, bed.registered())
}

fn nothing_went_wrong(bed: &Bed) {
    assert_eq!(bed.device.seen().faults, 0);
}

#[test]
fn a_key_of_one_connection_is_bound_before_the_message_that_bears_it() {
    run_with_windows(|bed| async move {
        let connection = bed.connect(Vec::new());
        let region = bind(&bed, &connection, 100);
        assert_eq!(
            bed.device.seen().rights & 0b1110,
            0,
            "no peer has rights by the registration"
        );
        send(&connection, 1, 8, Signal::Always);
        connection.flush();
        let key = region.remote_key().0;
        assert_eq!(window_work(&bed), [Some(WindowWork::Bind(key)), None]);
        // Memory for all connections, and memory for no peer, have no window.
        let backing = || Backing::Buffer(Buffer::zeroed(8));
        let domain = &bed.core.domain;
        let shared = domain.register_now(backing(), Access::RemoteRead, Scope::Domain);
        assert_ne!(bed.device.seen().rights & 0b100, 0);
        let scope = Scope::Endpoint(connection.id());
        let local = domain.register_now(backing(), Access::Local, scope);
        assert!(shared.is_ok() && local.is_ok());
        assert_eq!(bed.device.seen().windows, 1);
        nothing_went_wrong(&bed);
    });
}

#[test]
fn a_window_is_unbound_before_its_registration_ends_and_serves_again() {
    run_with_windows(|bed| async move {
        let connection = bed.connect(Vec::new());
        let region = bind(&bed, &connection, 100);
        connection.flush();
        let first = region.remote_key().0;
        let ending = region
            .deregister()
            .now()
            .expect_err("the device has the key");
        assert!(!region.is_valid() && region.lend().is_none());
        bed.core.advance();
        assert_eq!(window_work(&bed)[1..], [Some(WindowWork::Unbind(first))]);
        assert_eq!(bed.registered(), 1);
        complete_all(&bed, 1);
        assert_eq!(ending.await.unwrap().unwrap().len(), 100);
        assert_eq!(bed.registered(), 0);
        let again = bind(&bed, &connection, 100).remote_key().0;
        assert_eq!(again >> 8, first >> 8, "the same window");
        assert_ne!(again, first);
        nothing_went_wrong(&bed);
    });
}

#[test]
fn a_key_that_the_peer_revokes_is_dead_and_its_memory_is_free() {
    run_with_windows(|bed| async move {
        let connection = bed.connect(vec![Buffer::zeroed(16), Buffer::zeroed(16)]);
        let region = bind(&bed, &connection, 100);
        connection.flush();
        let key = region.remote_key().0;
        bed.device.deliver_invalidating(1, b"reply", key);
        let done = completions(&connection).await.remove(0).outcome;
        let invalidated = matches!(
            done,
            Ok(Done::Received { invalidated: Some(it), .. }) if it == region.remote_key()
        );
        assert!(invalidated && !region.is_valid());
        let memory = region.deregister().now().ok().unwrap().unwrap();
        assert_eq!((memory.unwrap().len(), bed.registered()), (100, 0));
        // Nothing is posted for a key that is dead.
        bed.core.advance();
        assert_eq!(window_work(&bed).len(), 1);
        nothing_went_wrong(&bed);
    });
}

#[test]
fn a_peer_that_revokes_a_key_of_another_connection_is_cut_off() {
    run_with_windows(|bed| async move {
        let receives = || vec![Buffer::zeroed(16)];
        let (victim, attacker) = (bed.connect(receives()), bed.connect(receives()));
        let region = bind(&bed, &victim, 100);
        victim.flush();
        // The victim's receive comes first.
        bed.device.deliver(1, b"hello");
        bed.device
            .deliver_invalidating(2, b"away", region.remote_key().0);
        let reason = reason(&attacker).await;
        assert!(
            matches!(reason, Disconnected::PeerMisbehaved(_)),
            "{reason}"
        );
        // The victim knows that its key is dead.
        assert!(!region.is_valid());
        drop(region);
        assert_eq!(bed.registered(), 0);
        assert_eq!(window_work(&bed).len(), 1);
        nothing_went_wrong(&bed);
    });
}

#[test]
fn windows_go_before_their_pair_does() {
    run_with_windows(|bed| async move {
        let connection = bed.connect(Vec::new());
        let (kept, leaving) = (bind(&bed, &connection, 100), bind(&bed, &connection, 50));
        connection.flush();
        let leaving = leaving
            .deregister()
            .now()
            .expect_err("the device has the key");
        let scope = Scope::Endpoint(connection.id());
        drop(connection);
        assert_eq!(windows_and_registrations(&bed), (0, 1));
        assert_eq!(leaving.await.unwrap().unwrap().len(), 50);
        let kept = kept.deregister().now().ok().unwrap().unwrap();
        assert_eq!(kept.unwrap().len(), 100);
        // Of the connection that has ended.
        let backing = Backing::Buffer(Buffer::zeroed(8));
        let late = bed
            .core
            .domain
            .register_now(backing, Access::RemoteRead, scope);
        assert_eq!(bed.device.seen().rights & 0b1110, 0);
        drop(late);
        assert_eq!(bed.registered(), 0);
        nothing_went_wrong(&bed);
    });
}

#[test]
fn lent_memory_is_out_of_reach_when_its_region_is_dropped() {
    run_with_windows(|bed| async move {
        let connection = bed.connect(Vec::new());
        let region = bind(&bed, &connection, 100);
        connection.flush();
        let memory = region.lend().unwrap();
        drop(region);
        assert_eq!(windows_and_registrations(&bed), (0, 0));
        drop(memory);
        nothing_went_wrong(&bed);
    });
}

#[test]
fn binds_wait_for_room_in_the_device_and_keep_their_order() {
    run_with_windows(|bed| async move {
        let connection = bed.connect(Vec::new());
        let room = (SEND_QUEUE_MAX + SEND_QUEUE_OWN) as usize;
        let regions: Vec<_> = (0..300).map(|_| bind(&bed, &connection, 8)).collect();
        send(&connection, 1, 8, Signal::Always);
        connection.flush();
        assert_eq!(bed.device.seen().sent.len(), room);
        let mut posted = 0;
        while bed.device.seen().sent.len() < 301 {
            posted = complete_all(&bed, posted);
        }
        let expected = regions
            .iter()
            .map(|region| Some(WindowWork::Bind(region.remote_key().0)));
        let expected: Vec<_> = expected.chain([None]).collect();
        assert_eq!(window_work(&bed), expected);
        nothing_went_wrong(&bed);
    });
}
