//! Writes of bytes, and their comparison with possible contents.

use super::Write;
use gannet_runtime::Buffer;
use gannet_vfs::{Credentials, FileHandle, Stability, Status, Vfs};

/// Writes once, followed by a COMMIT if the write asks for one.
pub(super) async fn write_once<V: Vfs>(
    fs: &V,
    caller: &Credentials,
    file: &FileHandle,
    write: &Write,
) -> Result<(), Status> {
    let (data, range) = (Buffer::from_vec(write.bytes.clone()), 0..write.bytes.len());
    let stability = if write.commits {
        Stability::Unstable
    } else {
        Stability::FileSync
    };
    let writing = fs.write(caller, file, write.offset, data, range, stability);
    let written = writing.await.result?;
    if written.count as usize != write.bytes.len() {
        return Err(Status::Io);
    }
    if write.commits {
        let committed = fs.commit(caller, file, 0, 0).await.result?;
        if committed.verifier != written.verifier {
            // A server has restarted in between and may have lost the bytes, so they must be written again.
            return Err(Status::Jukebox);
        }
    }
    Ok(())
}

/// Compares every byte with those of the possible states of a file; the length must lie between the states' lengths.
pub(super) fn compare(bytes: &[u8], states: &[&[u8]]) -> Result<(), String> {
    let lengths = || states.iter().map(|state| state.len());
    let (least, most) = (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0));
    if !(least..=most).contains(&bytes.len()) {
        let len = bytes.len();
        return Err(format!(
            "{len} bytes are there, {least} to {most} should be"
        ));
    }
    let at = |state: &[u8], index: usize| state.get(index).copied().unwrap_or(0);
    let is_wrong =
        |(index, byte): &(usize, &u8)| states.iter().all(|state| at(state, *index) != **byte);
    match bytes.iter().enumerate().find(is_wrong) {
        None => Ok(()),
        Some((index, byte)) => {
            let right: Vec<u8> = states.iter().map(|state| at(state, index)).collect();
            Err(format!("byte {index} is {byte}, and was {right:?}"))
        }
    }
}
