//! RDMA Write with Immediate.

use super::*;

#[test]
fn an_immediate_leaves_with_its_write() {
    run(|bed| async move {
        let connection = bed.connect(Vec::new());
        let region = bed.register(Buffer::from_vec(vec![7; 64])).unwrap();
        let target = RemoteAddress {
            key: region.remote_key(),
            offset: 0,
        };
        let source = Source::Span(Span::whole(&region).unwrap());
        let (id, signal) = (WorkId(1), Signal::Always);
        let posted = connection.post_write_with_immediate(id, source, target, 0x0102_0304, signal);
        posted.unwrap();
        connection.flush();
        let (bytes, immediate) = {
            let seen = bed.device.seen();
            (seen.sent[0].bytes.clone(), seen.sent[0].immediate)
        };
        assert_eq!((bytes, immediate), (vec![7; 64], Some(0x0102_0304)));
        bed.device.complete(0, status::SUCCESS);
        assert_eq!(completions(&connection).await[0].outcome, Ok(Done::Written));
    });
}

fn taking_immediates(receives: impl Into<Receives>) -> ConnectOptions {
    ConnectOptions {
        receives: receives.into(),
        immediates: true,
        ..ConnectOptions::default()
    }
}

fn immediates(done: &[Completion]) -> Vec<Result<Done, WorkError>> {
    done.iter().map(|it| it.outcome).collect()
}

#[test]
fn the_bytes_of_an_immediate_are_not_in_its_receive() {
    run(|bed| async move {
        let connection = bed.connect_with(taking_immediates(vec![
            Buffer::zeroed(100),
            Buffer::zeroed(20_000),
        ]));
        // Longer than the receives: their memory is not touched.
        for immediate in [5, u32::MAX] {
            bed.device.deliver_immediate(1, immediate, 1 << 20);
        }
        let done = completions(&connection).await;
        let expected = [5, u32::MAX].map(|immediate| {
            let len = 1 << 20;
            Ok(Done::ReceivedImmediate { immediate, len })
        });
        assert_eq!(immediates(&done), expected);
        assert!(
            done.iter()
                .flat_map(|it| &it.buffer)
                .all(|it| it.iter().all(|byte| *byte == 0))
        );
    });
}

#[test]
fn an_immediate_that_nobody_takes_is_no_message_of_someone_else() {
    run(|bed| async move {
        let queue = shared(&bed, 1);
        let receives = || Receives::Shared {
            queue: Rc::clone(&queue),
            granted: 1,
        };
        let (victim, hostile) = (bed.connect(receives()), bed.connect(receives()));
        let taking = bed.connect_with(taking_immediates(receives()));
        bed.device.deliver(1, b"a secret of the victim");
        drop(completions(&victim).await);
        queue.post(1).unwrap();
        // The receive has the victim's bytes in it still.
        bed.device.deliver_immediate(2, 1, 22);
        let reason = reason(&hostile).await;
        assert!(
            matches!(reason, Disconnected::PeerMisbehaved(_)),
            "{reason}"
        );
        // It serves again.
        bed.device.deliver_immediate(3, 1, 22);
        let (immediate, len) = (1, 22);
        let done = completions(&taking).await;
        let expected = [Ok(Done::ReceivedImmediate { immediate, len })];
        assert_eq!(immediates(&done), expected);
    });
}
