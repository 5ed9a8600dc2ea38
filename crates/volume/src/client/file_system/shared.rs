//! Operations that clients coordinate through the manager: byte locks and appends.

use super::bytes::{ClientMemory, TransferShapes, Transferred};
use super::{OperationError, VolumeFs, shape};
use crate::client::change_locks::LockRange;
use crate::client::leases::LeaseKey;
use crate::client::locks::{Attempt, LockFailure, Unlocking};
use crate::limits::ATTEMPT_PAUSE;
use gannet_meta::limits::FILE_SIZE_MAX;
use gannet_runtime::{Buffer, sleep};
use gannet_vfs::{
    ByteLock, Credentials, FileHandle, LockRequest, Locked, Stability, Status, WriteDone,
};
use gannet_wire::volume::{Appending, Call, Capability};

impl VolumeFs {
    /// Does a lock request, over restarts of the manager. An unlock that does not reach the manager is owed.
    pub(super) async fn lock_bytes(
        &self,
        caller: &Credentials,
        file: &FileHandle,
        lock: &ByteLock,
        request: LockRequest,
    ) -> Result<Locked, Status> {
        let id = self.id(file)?;
        if request == LockRequest::Unlock && !self.locks.has(id, lock.owner) {
            return Ok(Locked::Done);
        }
        let began = self.now();
        let mut unlocking =
            (request == LockRequest::Unlock).then(|| self.locks.unlocking(id, lock));
        loop {
            let failed = match self.locks.attempt(caller, id, lock, request).await {
                Ok(Attempt::Answered(locked)) => {
                    unlocking.take().into_iter().for_each(Unlocking::end);
                    return Ok(locked);
                }
                Ok(Attempt::Recovering | Attempt::Late) => {
                    OperationError::ManagerWaits { is_question: false }
                }
                Err(failure) => match self.may_pass(failure) {
                    Ok(failed) => failed,
                    Err(status) => {
                        unlocking.take().into_iter().for_each(Unlocking::end);
                        return Err(status);
                    }
                },
            };
            if unlocking.is_some() {
                // It is owed from here on.
                return Ok(Locked::Done);
            }
            if let Err(status) = self.pause(began, &failed).await {
                // The manager may have granted the lock, and the reply is lost: without an unlock it would stay held.
                self.locks.owe(id, lock);
                return Err(status);
            }
        }
    }

    /// The error of a failed request, if another attempt may succeed. The manager's refusal is the caller's at once.
    fn may_pass(&self, failure: LockFailure) -> Result<OperationError, Status> {
        match failure {
            LockFailure::Refused(Status::Jukebox) => {
                Ok(OperationError::ManagerWaits { is_question: false })
            }
            LockFailure::Refused(status) => {
                let refused = OperationError::ManagerRefused(status);
                Err(self.last_error.note(self.now(), &refused))
            }
            LockFailure::Away(error) => Ok(OperationError::Manager(error)),
        }
    }

    /// Keeps a file when its last name goes, over restarts of the manager.
    pub(super) async fn keep_file(&self, file: &FileHandle) -> Result<(), Status> {
        let id = self.id(file)?;
        let began = self.now();
        let keeping = self.locks.keeping(id);
        loop {
            let failed = match self.locks.keep(id).await {
                Ok(()) => {
                    keeping.end();
                    return Ok(());
                }
                Err(failure) => self.may_pass(failure)?,
            };
            self.pause(began, &failed).await?;
        }
    }

    /// Ends a [`VolumeFs::keep_file`].
    pub(super) async fn let_file_go(&self, file: &FileHandle, may_have_name: bool) {
        let Ok(id) = self.id(file) else {
            return;
        };
        if !may_have_name {
            // Nobody will commit it.
            self.siblings.unstable.forget(id);
        }
        if let Err(LockFailure::Away(error)) = self.locks.let_go(id).await {
            tracing::debug!(file = id.0, %error, "cannot report the close of a file without a name: the manager removes it when this client's lease ends");
        }
    }

    /// Asks the manager for a place at the end of a file, and writes there. A place is used with its own capability and
    /// with no later one: the next manager does not know the place, and gives it to another append.
    pub(super) async fn append_bytes(
        &self,
        caller: &Credentials,
        file: &FileHandle,
        at_least: u64,
        len: u32,
        buffer: &mut Buffer,
        stability: Stability,
    ) -> Result<(u64, WriteDone), Status> {
        let id = self.id(file)?;
        let began = self.now();
        loop {
            let asked = self.asked_at();
            let call = Call::Append {
                file: id,
                number: self.runtime.random(),
                at_least,
                len,
            };
            let answer = self.ask(caller, call).await?;
            let place: Appending = self.granted_in(&answer)?;
            let key = LeaseKey::new(id, caller, Capability::WRITE);
            let lease = self.leases.keep(key, place.granted, asked);
            let offset = place.offset;
            let file = shape(offset, len)?;
            if file.end() > FILE_SIZE_MAX {
                return Err(Status::Fbig);
            }
            let shapes = TransferShapes {
                file,
                memory: shape(0, len)?,
            };
            let bytes = LockRange::bytes(id, offset..shapes.file.end());
            let guard = self.lock_ranges(&[bytes]).await?;
            let how = self.moving_write(id, stability, Some(&guard));
            let mut written = Err(OperationError::TooLate);
            // Tries the same place while the lease lasts: after that, the place may be another append's.
            while self.now() < lease.until {
                let mut memory = ClientMemory::from(&mut *buffer);
                written = self.move_once(&lease, id, &shapes, &how, &mut memory).await;
                match &written {
                    Err(error) if !matches!(error, OperationError::Refused { .. }) => {
                        if self.may_try_again(began, error).is_err() {
                            break;
                        }
                        sleep(&self.runtime, ATTEMPT_PAUSE).await;
                    }
                    _ => break,
                }
            }
            drop(how);
            drop(guard);
            let failed = match written {
                Ok(Transferred { verifier, .. }) => {
                    let done = WriteDone {
                        count: len,
                        committed: stability,
                        verifier,
                    };
                    return Ok((offset, done));
                }
                Err(error) => error,
            };
            self.after(id, began, &failed).await?;
        }
    }
}
