//! Records over a byte stream, by hand.

use gannet_runtime::Stream;
use gannet_runtime::stream::{Follow, readable, writable};
use gannet_wire::rpc::RecordMark;
use std::io::{ErrorKind, IoSlice};

pub async fn send(stream: &Stream, bytes: &[u8]) -> std::io::Result<()> {
    let mut done = 0;
    while done < bytes.len() {
        writable(&**stream).await?;
        match stream.try_write(&[IoSlice::new(&bytes[done..])], Follow::Nothing) {
            Ok(count) => done += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Exactly `len` bytes, or what came before the end.
pub async fn receive(stream: &Stream, len: usize) -> Result<Vec<u8>, Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < len {
        let mut buffer = vec![0; len - bytes.len()];
        if readable(&**stream).await.is_err() {
            return Err(bytes);
        }
        match stream.try_read(&mut buffer) {
            Ok(0) => return Err(bytes),
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return Err(bytes),
        }
    }
    Ok(bytes)
}

pub fn record(message: &[u8]) -> Vec<u8> {
    [
        &RecordMark::single(message.len() as u32).to_bytes(),
        message,
    ]
    .concat()
}

pub async fn receive_record(stream: &Stream) -> Result<Vec<u8>, Vec<u8>> {
    let mark = receive(stream, 4).await?;
    let mark = RecordMark::from_bytes(mark.try_into().unwrap());
    assert!(mark.last);
    receive(stream, mark.length as usize).await
}

pub async fn exchange(stream: &Stream, message: &[u8]) -> Result<Vec<u8>, Vec<u8>> {
    send(stream, &record(message))
        .await
        .map_err(|_| Vec::new())?;
    receive_record(stream).await
}
