//! The space of the I/O servers, asked at intervals for readers of the manager's state.

use super::{DiskSpace, Manager};
use crate::limits::{SPACE_EVERY, TERM_DEADLINE};
use crate::link::LinkError;
use gannet_runtime::{all, sleep, timeout};
use gannet_wire::volume::{Class, Operation};
use std::rc::Rc;

impl Manager {
    /// Asks each I/O server for its space at intervals. Only a manager that somebody may watch does so: the calls are
    /// for nothing else.
    pub async fn watch_space(self: Rc<Self>) {
        loop {
            let asked = (0..self.servers.count()).map(|number| Box::pin(self.ask_space(number)));
            all(asked).await;
            sleep(&self.runtime, SPACE_EVERY).await;
        }
    }

    async fn ask_space(&self, number: u32) {
        let asking = timeout(&self.runtime, TERM_DEADLINE, self.space_of(number));
        // Whether it answers is known by the calls about the term.
        if let Ok(Ok(space)) = asking.await {
            self.state.has_space(number, space);
        }
    }

    async fn space_of(&self, number: u32) -> Result<DiskSpace, LinkError> {
        let link = Rc::clone(&self.servers).link(number).await?;
        let answer = link.call(Operation::Usage, Class::Background, &[], &[]);
        let answer = answer.await?;
        answer.header.status.map_err(LinkError::Refused)?;
        DiskSpace::from_usage(answer.body()).ok_or(LinkError::Undecodable)
    }
}
