//! Calls that wait, and how a program ends them.

#![allow(unsafe_code)]

use gannet_capi::*;
use std::ffi::CStr;
use std::ptr::{null, null_mut};
use std::thread;

const ADDRESS: &CStr = c"127.0.0.1:0";

/// A listener and both ends of a connection.
struct Pair {
    adapter: *mut gannet_adapter,
    listener: *mut gannet_listener,
    server: *mut gannet_connection,
    client: *mut gannet_connection,
}

/// A pointer that goes to another thread, as pointers of C do.
struct Sent<T>(*const T);
// SAFETY: functions of the library may be called from any thread.
unsafe impl<T> Send for Sent<T> {}

impl<T> Sent<T> {
    fn get(&self) -> *const T {
        self.0
    }
}

impl Pair {
    fn new() -> Pair {
        // SAFETY: pointers are those of the calls before; the address ends with a NUL.
        unsafe {
            let adapter = gannet_adapter_start(null());
            let listener = gannet_listen(adapter, ADDRESS.as_ptr());
            let port = gannet_listener_port(listener);
            assert!(port > 0);
            let address = std::ffi::CString::new(format!("127.0.0.1:{port}")).unwrap();
            let client = gannet_connect(adapter, address.as_ptr());
            let server = gannet_accept(listener);
            assert!(!client.is_null() && !server.is_null());
            assert_eq!(gannet_send(client, b"hello".as_ptr().cast(), 5), 0);
            let pair = Pair {
                adapter,
                listener,
                server,
                client,
            };
            assert_eq!(pair.receive_within(60_000), 5);
            pair
        }
    }

    fn receive_within(&self, milliseconds: u32) -> isize {
        let mut message = [0_u8; 16];
        // SAFETY: `message` has so many bytes.
        unsafe { gannet_receive_within(self.server, message.as_mut_ptr().cast(), 16, milliseconds) }
    }

    fn free(self) {
        // SAFETY: nothing uses them any more.
        unsafe {
            assert_eq!(gannet_connection_free(self.client), 0);
            assert_eq!(gannet_connection_free(self.server), 0);
            assert_eq!(gannet_listener_free(self.listener), 0);
            gannet_adapter_free(self.adapter);
        }
    }
}

fn error() -> String {
    // SAFETY: the text is there until the next failure of this thread.
    unsafe { CStr::from_ptr(gannet_error()) }
        .to_string_lossy()
        .into_owned()
}

#[test]
fn a_shutdown_ends_calls_that_wait_in_other_threads() {
    let pair = Pair::new();
    let (listener, server) = (
        Sent(pair.listener.cast_const()),
        Sent(pair.server.cast_const()),
    );
    let accepting = thread::spawn(move || {
        // SAFETY: the listener is freed behind this thread's end.
        let accepted = unsafe { gannet_accept(listener.get()) };
        (accepted.is_null(), error(), gannet_timed_out())
    });
    let receiving = thread::spawn(move || {
        let mut message = [0_u8; 16];
        // SAFETY: the connection is freed behind this thread's end.
        let received =
            unsafe { gannet_receive(server.get(), message.as_mut_ptr().cast(), message.len()) };
        (received, error())
    });
    // SAFETY: both are freed later.
    unsafe {
        assert_eq!(gannet_listener_shutdown(pair.listener), 0);
        assert_eq!(gannet_connection_shutdown(pair.server), 0);
    }
    let (is_null, why, timed_out) = accepting.join().unwrap();
    assert!(is_null && !timed_out);
    assert_eq!(why, "the listener was shut down");
    let (received, why) = receiving.join().unwrap();
    assert_eq!(received, -1);
    assert!(why.contains("closed by this end"), "{why}");
    pair.free();
}

#[test]
fn a_call_whose_time_is_over_says_so_and_loses_nothing() {
    let pair = Pair::new();
    // SAFETY: the pointers are those of the pair.
    unsafe {
        assert!(gannet_accept_within(pair.listener, 1).is_null());
        assert!(gannet_timed_out(), "{}", error());
        assert_eq!(pair.receive_within(1), -1);
        assert!(gannet_timed_out(), "{}", error());
        assert_eq!(gannet_send(pair.client, b"late".as_ptr().cast(), 4), 0);
        assert_eq!(pair.receive_within(60_000), 4);
        assert_eq!(gannet_connection_shutdown(pair.client), 0);
        assert_eq!(pair.receive_within(60_000), -1);
        assert!(!gannet_timed_out(), "{}", error());
        assert_eq!(gannet_connection_shutdown(null_mut()), -1);
    }
    pair.free();
}
