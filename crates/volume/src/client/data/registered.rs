//! Transfers of memory that stays registered from one request to the next.

use super::parents::{Parents, Reached};
use super::{DataError, Mover, Request, Share, ShareWay, States, Target, own_len, take_answer};
use crate::client::registered::RegisteredMemory;
use gannet_runtime::all;
use gannet_wire::volume::{Operation, Stability};
use std::rc::Rc;

impl Mover {
    /// As [`Mover::read`], into memory that stays registered. Its bytes are seen when it is taken back.
    ///
    /// # Errors
    /// See [`DataError`].
    pub async fn read_registered(
        &self,
        targets: &[Target],
        request: &Request,
        memory: &RegisteredMemory,
    ) -> Result<States, DataError> {
        let stability = Stability::Unstable;
        self.move_registered(targets, Operation::Read, stability, request, memory)
            .await
    }

    /// As [`Mover::write`], from memory that stays registered.
    ///
    /// # Errors
    /// See [`DataError`]. Any of the bytes may have been written then.
    pub async fn write_registered(
        &self,
        targets: &[Target],
        stability: Stability,
        request: &Request,
        memory: &RegisteredMemory,
    ) -> Result<States, DataError> {
        self.move_registered(targets, Operation::Write, stability, request, memory)
            .await
    }

    async fn move_registered(
        &self,
        targets: &[Target],
        operation: Operation,
        stability: Stability,
        request: &Request,
        memory: &RegisteredMemory,
    ) -> Result<States, DataError> {
        let shapes_fit = request.file.len() == request.memory.len();
        if !shapes_fit || request.memory.end() > memory.len() as u64 {
            return Err(DataError::Shape);
        }
        // A Write of a call that was given up could land after the bytes of this one.
        memory.no_late_calls().await;
        let using = memory.begin_use();
        let shares = targets.iter().map(|target| Share {
            target,
            len: own_len(&request.file, target.placement),
            way: ShareWay::ServerDriven,
        });
        let mut shares: Vec<_> = shares.filter(|share| share.len > 0).collect();
        let exposed = Some(Rc::new(Reached::kept(memory.exposed(), using.end())));
        let begin = |share| self.begin(share, Vec::new(), operation, stability, request, &exposed);
        let calls: Vec<_> = shares.iter_mut().map(begin).collect();
        drop(exposed);
        let answers = all(calls).await;
        let writes = operation == Operation::Write;
        let states = (shares.iter().zip(answers)).map(|(share, answer)| {
            let parents = Parents::one();
            let done = take_answer(share, answer?, request, writes, &parents, &mut [])?;
            self.note_reference(request, share.target, &done);
            Ok((share.target.placement.index, done.state))
        });
        states.collect()
    }
}
