//! A core that polls in place of sleeping runs all kinds of tasks. A program of its own, because the setting is for the
//! whole process.

#![allow(clippy::unwrap_used)]

use gannet_runtime::stream::{Follow, readable, writable};
use gannet_runtime::tokio_plug::{block_on, set_busy_poll};
use gannet_runtime::{Stream, run_blocking, sleep};
use std::io::{ErrorKind, IoSlice};
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

const ROUNDS: u32 = 500;

async fn receive(stream: &Stream) -> Option<u8> {
    let mut byte = [0];
    loop {
        readable(&**stream).await.unwrap();
        match stream.try_read(&mut byte) {
            Ok(count) => return (count > 0).then_some(byte[0]),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
}

async fn send(stream: &Stream, byte: u8) {
    loop {
        writable(&**stream).await.unwrap();
        match stream.try_write(&[IoSlice::new(&[byte])], Follow::Nothing) {
            Ok(count) => return assert_eq!(count, 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
    }
}

#[test]
fn a_polling_core_sees_sockets_timers_and_the_pool() {
    // So long that a core that has begun to poll never stops.
    set_busy_poll(Duration::from_secs(1000));
    let (sender, addresses) = mpsc::channel();
    let server = std::thread::spawn(move || {
        block_on(|runtime| async move {
            let mut listener = runtime.listen("127.0.0.1:0".parse().unwrap()).unwrap();
            sender.send(listener.local_address()).unwrap();
            let stream = listener.accept().await.unwrap();
            let (done, ended) = tokio::sync::oneshot::channel();
            let echo = async move {
                while let Some(byte) = receive(&stream).await {
                    send(&stream, byte).await;
                }
                done.send(()).unwrap();
            };
            runtime.spawn("echo", Box::pin(echo));
            ended.await.unwrap();
        })
    });
    let address = addresses.recv().unwrap();
    let asked = block_on(|runtime| async move {
        let stream = runtime.connect(address).await.unwrap();
        let (done, ended) = tokio::sync::oneshot::channel();
        let handle = Rc::clone(&runtime);
        let ask = async move {
            for round in 0..ROUNDS {
                send(&stream, round as u8).await;
                assert_eq!(receive(&stream).await, Some(round as u8));
                if round % 50 == 49 {
                    sleep(&handle, Duration::from_millis(1)).await;
                    let doubled = run_blocking(&handle, move || 2 * round).await;
                    assert_eq!(doubled, Ok(2 * round));
                }
            }
            done.send(ROUNDS).unwrap();
        };
        runtime.spawn("ask", Box::pin(ask));
        ended.await.unwrap()
    });
    assert_eq!(asked.unwrap(), ROUNDS);
    server.join().unwrap().unwrap();
}
