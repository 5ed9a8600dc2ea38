//! The provider on a device in memory.

mod files;
mod immediates;
mod paging;
mod windows;

use crate::connect::connected;
use crate::core::Core;
use crate::limits::LONG_REGISTRATION;
use crate::messages::SlotPool;
use crate::sys::fake::{FakeDevice, place};
use crate::sys::{CmId, EventChannel, ProtectionDomain, status};
use crate::{VerbsConfig, VerbsError};
use gannet_fabric::{
    Access, Backing, Completion, ConnectOptions, Connected, DeregisterError, Disconnected, Domain,
    Done, PostError, Receives, Region, RegisterError, RemoteAddress, Scope, SendOptions,
    SharedReceiveQueue, SharedReceives, Signal, Source, Span, WorkError, WorkId, next_completions,
};
use gannet_runtime::{Arena, Buffer, Handle, tokio_plug::block_on};
use std::future::Future;
use std::rc::Rc;

struct Bed {
    device: FakeDevice,
    core: Rc<Core>,
}

fn run<F: Future<Output = ()>>(main: impl FnOnce(Bed) -> F) {
    block_on(|runtime| main(bed(runtime, FakeDevice::new()))).unwrap();
}

fn bed(runtime: Handle, device: FakeDevice) -> Bed {
    try_bed(runtime, device, &VerbsConfig::default()).unwrap()
}

fn try_bed(runtime: Handle, device: FakeDevice, config: &VerbsConfig) -> Result<Bed, VerbsError> {
    let context = device.context();
    let events = EventChannel::new(&context.library)?;
    let core = Core::on(runtime, events, context, config)?;
    Ok(Bed { device, core })
}

impl Bed {
    fn connect(&self, receives: impl Into<Receives>) -> Connected {
        let receives = receives.into();
        self.connect_with(ConnectOptions {
            receives,
            ..ConnectOptions::default()
        })
    }

    fn connect_with(&self, options: ConnectOptions) -> Connected {
        let id = CmId::new(&self.core.events).unwrap();
        place(&id, &self.device);
        connected(&self.core, id, options).unwrap()
    }

    fn register(&self, memory: Buffer) -> Result<Region, RegisterError> {
        let backing = Backing::Buffer(memory);
        (self.core.domain).register_now(backing, Access::RemoteWrite, Scope::Domain)
    }

    /// Registrations beside those of the provider's own.
    fn registered(&self) -> usize {
        self.device.seen().registered - 1
    }
}

fn send(connection: &Connected, id: u64, len: usize, signal: Signal) {
    let source = Source::Buffer {
        buffer: Buffer::from_vec(vec![id as u8; len]),
        len: len as u32,
    };
    let options = SendOptions {
        signal,
        ..SendOptions::default()
    };
    connection.post_send(WorkId(id), source, options).unwrap();
}

async fn completions(connection: &Connected) -> Vec<Completion> {
    let mut completions = Vec::new();
    next_completions(&**connection, &mut completions)
        .await
        .unwrap();
    completions
}

async fn reason(connection: &Connected) -> Disconnected {
    let mut completions = Vec::new();
    loop {
        if let Err(reason) = next_completions(&**connection, &mut completions).await {
            return reason;
        }
    }
}

#[test]
fn message_slots_are_registered_by_the_chunk_up_to_their_bound() {
    let device = FakeDevice::new();
    let domain = ProtectionDomain::new(&device.context()).unwrap();
    let pool = SlotPool::new(&domain, 64, 4, 10);
    let mut slots: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((slots.len(), pool.taken()), (10, 10));
    assert_eq!(device.seen().registered, 3);
    for (index, slot) in slots.iter_mut().enumerate() {
        slot.as_mut().fill(index as u8);
    }
    for (index, slot) in slots.iter().enumerate() {
        assert_eq!(slot.as_ref(), [index as u8; 64]);
        assert!(slot.piece(64).is_some() && slot.piece(65).is_none());
    }
    drop(slots);
    assert_eq!(pool.taken(), 0);
    let again: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((again.len(), device.seen().registered), (10, 3));
    drop(again);
    // Slots were used since the last look, and then were not.
    pool.trim_unused();
    assert_eq!((device.seen().registered, pool.has_spare()), (3, true));
    let kept = pool.take();
    pool.trim_unused();
    pool.trim_unused();
    assert_eq!((device.seen().registered, pool.taken()), (1, 1));
    assert!(!pool.has_spare());
    drop(kept);
    let again: Vec<_> = std::iter::from_fn(|| pool.take()).collect();
    assert_eq!((again.len(), device.seen().registered), (10, 3));
    drop(pool);
    assert_eq!(device.seen().registered, 3, "slots in use pin their memory");
    drop(again);
    assert_eq!(device.seen().registered, 0);
}

#[test]
fn lent_memory_stays_registered_and_comes_back_as_the_same_memory() {
    run(|bed| async move {
        let region = bed.register(Buffer::zeroed(100)).unwrap();
        let lent = region.lend().unwrap();
        assert!(region.lend().is_none() && bed.registered() == 1);
        assert!(region.restore(Buffer::zeroed(100)).is_err(), "elsewhere");
        assert!(region.restore(Buffer::zeroed(99)).is_err());
        region.restore(lent).unwrap();
        let memory = region.deregister().now().unwrap().unwrap();
        assert_eq!(memory.unwrap().len(), 100);
        assert_eq!(bed.registered(), 0);
        let again = region.deregister().now().unwrap();
        assert!(matches!(again, Ok(None)));
        assert_eq!(bed.core.domain.stats().bytes_registered, 0);
    });
}

#[test]
fn memory_that_stays_registered_goes_to_no_one() {
    run(|bed| async move {
        let arena = Arena::new(4096, 2);
        let stuck = bed.register(arena.take().unwrap()).unwrap();
        bed.device.seen().is_stuck = true;
        let ended = stuck.deregister().now().unwrap();
        assert_eq!(ended.err(), Some(DeregisterError::Adapter));
        drop(stuck);
        assert_eq!((arena.in_use(), bed.registered()), (1, 1));
        bed.device.seen().is_full = true;
        let refused = bed.register(arena.take().unwrap());
        assert_eq!(refused.err(), Some(RegisterError::TableFull));
        assert_eq!(arena.in_use(), 1);
    });
}

#[test]
fn long_memory_is_registered_and_taken_back_on_the_pool() {
    run(|bed| async move {
        let register = || {
            let backing = Backing::Buffer(Buffer::zeroed(LONG_REGISTRATION));
            bed.core
                .domain
                .register(backing, Access::Local, Scope::Domain)
        };
        let registering = register().now();
        let region = registering.expect_err("it takes a while").await.unwrap();
        let ending = region.deregister().now().expect_err("so does this");
        assert!(!region.is_valid());
        let memory = ending.await.unwrap().unwrap();
        assert_eq!((memory.len(), bed.registered()), (LONG_REGISTRATION, 0));
        drop(register());
        while bed.device.seen().registrations < 3 || bed.registered() > 0 {
            gannet_runtime::yield_now().await;
        }
    });
}

#[test]
fn a_flush_posts_one_chain_of_which_few_complete_by_themselves() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        for id in 0..40 {
            send(&connection, id, 1000, Signal::OnError);
        }
        assert_eq!(bed.device.seen().send_calls, 0);
        connection.flush();
        let signaled: Vec<usize> = {
            let seen = bed.device.seen();
            assert_eq!((seen.send_calls, seen.sent.len()), (1, 40));
            assert!(seen.sent.iter().all(|work| !work.inline));
            assert_eq!(seen.sent[7].bytes, [7; 1000]);
            let sent = seen.sent.iter().enumerate();
            let signaled = sent.filter(|(_, work)| work.signaled);
            signaled.map(|(index, _)| index).collect()
        };
        assert_eq!(signaled, [15, 31]);
        assert_eq!(bed.core.messages.taken(), 40);
        // Later work may be done first; nothing is given up for work that is under way.
        bed.device.complete(31, status::SUCCESS);
        bed.core.advance();
        assert_eq!(bed.core.messages.taken(), 25);
        bed.device.complete(15, status::SUCCESS);
        bed.core.advance();
        assert_eq!(bed.core.messages.taken(), 8);
        drop(connection);
        assert_eq!(bed.core.messages.taken(), 0);
    });
}

#[test]
fn short_messages_are_inline_and_long_ones_registered() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        send(&connection, 1, 0, Signal::Always);
        send(&connection, 2, 128, Signal::Always);
        send(&connection, 3, 100_000, Signal::Always);
        connection.flush();
        {
            let seen = bed.device.seen();
            let inline: Vec<bool> = seen.sent.iter().map(|work| work.inline).collect();
            assert_eq!(inline, [false, true, false]);
            assert_eq!(seen.sent[1].bytes, [2; 128]);
            assert_eq!(seen.sent[2].bytes, [3; 100_000]);
        }
        assert_eq!((bed.registered(), bed.core.messages.taken()), (1, 0));
        for index in 0..3 {
            bed.device.complete(index, status::SUCCESS);
        }
        let done = completions(&connection).await;
        let lens: Vec<usize> = done
            .iter()
            .filter_map(|it| Some(it.buffer.as_ref()?.len()))
            .collect();
        assert_eq!((lens, bed.registered()), (vec![0, 128, 100_000], 0));
        assert!(done.iter().all(|it| it.outcome == Ok(Done::Sent)));
    });
}

#[test]
fn a_full_send_queue_takes_work_again_after_its_completions() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        let max = connection.attributes().send_queue_max as usize;
        for id in 0..max as u64 {
            send(&connection, id, 10, Signal::OnError);
        }
        connection.flush();
        let source = Source::Buffer {
            buffer: Buffer::zeroed(10),
            len: 10,
        };
        let full = connection.post_send(WorkId(9), source, SendOptions::default());
        assert_eq!(full, Err(PostError::QueueFull));
        for index in (15..max).step_by(16) {
            bed.device.complete(index, status::SUCCESS);
        }
        // The poster never waits.
        send(&connection, 9, 10, Signal::OnError);
    });
}

#[test]
fn a_failed_request_names_its_work_and_the_rest_is_flushed() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        for id in 0..3 {
            send(&connection, id, 10, Signal::Always);
        }
        connection.flush();
        bed.device.complete(0, status::SUCCESS);
        bed.device.complete(1, status::REM_ACCESS_ERR);
        let done = completions(&connection).await;
        let outcomes: Vec<_> = done.iter().map(|it| (it.id.0, it.outcome)).collect();
        let expected = [
            (0, Ok(Done::Sent)),
            (1, Err(WorkError::Refused)),
            (2, Err(WorkError::Flushed)),
        ];
        assert_eq!(outcomes, expected);
        let reason = reason(&connection).await;
        assert!(
            matches!(reason, Disconnected::PeerTerminated(_)),
            "{reason}"
        );
    });
}

fn shared(bed: &Bed, receives: u32) -> Rc<dyn SharedReceiveQueue> {
    let options = SharedReceives {
        id: WorkId(77),
        len: 256,
        receives_max: receives,
    };
    let queue = bed.core.shared_receives(options).unwrap();
    queue.post(receives).unwrap();
    queue
}

#[test]
fn a_message_beyond_the_grant_ends_its_connection_and_returns_its_receive() {
    run(|bed| async move {
        let queue = shared(&bed, 8);
        let receives = |granted| Receives::Shared {
            queue: Rc::clone(&queue),
            granted,
        };
        let (greedy, modest) = (bed.connect(receives(1)), bed.connect(receives(1)));
        greedy.grant_receives(1).unwrap();
        for text in [b"one", b"two", b"six"] {
            bed.device.deliver(1, text);
        }
        bed.device.deliver(2, b"mine");
        let mut done = completions(&greedy).await;
        assert_eq!(done.len(), 2);
        let buffer = done.remove(0).buffer.unwrap();
        assert_eq!((buffer.len(), &buffer[..3]), (256, &b"one"[..]));
        let reason = reason(&greedy).await;
        assert!(
            matches!(reason, Disconnected::PeerMisbehaved(_)),
            "{reason}"
        );
        assert_eq!((queue.posted(), bed.device.seen().receives.len()), (5, 5));
        assert_eq!(completions(&modest).await.len(), 1);
        assert_eq!((queue.room(), queue.in_use()), (1, 512));
        drop((done, buffer));
        assert_eq!((queue.room(), queue.in_use()), (3, 0));
        queue.post(3).unwrap();
        assert_eq!(queue.post(1), Err(PostError::QueueFull));
        assert_eq!(greedy.grant_receives(1), Err(PostError::Closed));
        // A message of a connection that is gone.
        bed.device.deliver(1, b"late");
        bed.core.advance();
        assert_eq!((queue.posted(), bed.device.seen().receives.len()), (8, 8));
    });
}

#[test]
fn messages_are_copied_from_slots_into_receives_of_its_own() {
    run(|bed| async move {
        let receives = vec![
            Buffer::zeroed(100),
            Buffer::zeroed(20_000),
            Buffer::zeroed(0),
        ];
        let connection = bed.connect(receives);
        assert_eq!((bed.registered(), bed.core.messages.taken()), (1, 2));
        bed.device.deliver(1, &[5; 40]);
        bed.device.deliver(1, &[6; 20_000]);
        let done = completions(&connection).await;
        let buffers: Vec<&Buffer> = done.iter().filter_map(|it| it.buffer.as_ref()).collect();
        assert_eq!((&buffers[0][..40], buffers[0].len()), (&[5; 40][..], 100));
        assert_eq!(buffers[1][..], [6; 20_000]);
        assert_eq!((bed.registered(), bed.core.messages.taken()), (0, 1));
        // The last receive has room for nothing.
        bed.device.deliver(1, b"!");
        let reason = reason(&connection).await;
        assert!(
            matches!(reason, Disconnected::PeerMisbehaved(_)),
            "{reason}"
        );
    });
}

#[test]
fn work_keeps_its_region_and_memory_is_not_lent_meanwhile() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        let region = bed.register(Buffer::zeroed(64)).unwrap();
        let target = RemoteAddress {
            key: region.remote_key(),
            offset: 0,
        };
        let source = Source::Span(Span::whole(&region).unwrap());
        connection
            .post_write(WorkId(1), source, target, Signal::Always)
            .unwrap();
        connection.flush();
        assert!(region.lend().is_none());
        drop(region);
        assert_eq!(bed.registered(), 1, "the work names it");
        bed.device.complete(0, status::SUCCESS);
        assert_eq!(completions(&connection).await[0].outcome, Ok(Done::Written));
        assert_eq!(bed.registered(), 0);
    });
}

#[test]
fn completions_of_connections_that_are_gone_change_nothing() {
    run(|bed| async move {
        let connection = bed.connect(vec![Buffer::zeroed(100)]);
        send(&connection, 1, 1000, Signal::Always);
        connection.flush();
        drop(connection);
        assert_eq!(bed.core.messages.taken(), 0);
        bed.device.complete(0, status::WR_FLUSH_ERR);
        bed.device.deliver(1, b"");
        bed.core.advance();
        let next = bed.connect(Vec::new());
        send(&next, 2, 10, Signal::Always);
        next.flush();
        bed.device.complete(1, status::SUCCESS);
        // A completion that came twice.
        bed.device.complete(1, status::SUCCESS);
        assert_eq!(completions(&next).await.len(), 1);
    });
}

#[test]
fn a_closing_connection_waits_for_its_work_and_ends() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        send(&connection, 1, 10, Signal::OnError);
        connection.close();
        let refused = connection.post_send(
            WorkId(2),
            Source::Buffer {
                buffer: Buffer::zeroed(1),
                len: 1,
            },
            SendOptions::default(),
        );
        assert_eq!(refused, Err(PostError::Closed));
        assert_eq!(bed.device.seen().sent.len(), 2, "the message, and a mark");
        assert!(bed.device.seen().sent[1].signaled);
        bed.device.complete(1, status::SUCCESS);
        assert_eq!(reason(&connection).await, Disconnected::Local);
    });
}
