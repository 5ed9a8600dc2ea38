//! Numbers for changes, by which the manager knows one that it has done already.

use crate::limits::{TICKETS, TICKETS_THAT_WAIT};
use gannet_wire::volume::{Ticket, Token};
use std::cell::RefCell;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A client's slots. Whoever wants to change something waits for a free one.
pub(super) struct Tickets {
    client: Token,
    /// Free slots and the sequence of the next change in each.
    free: RefCell<Vec<(u32, u64)>>,
    turns: Semaphore,
    /// Of changes that wait for I/O servers.
    that_wait: Semaphore,
}

impl Tickets {
    /// `client` must be new: no client may ever have had it.
    pub(super) fn new(client: Token) -> Tickets {
        Tickets {
            client,
            free: RefCell::new((0..TICKETS).map(|slot| (slot, 1)).collect()),
            turns: Semaphore::new(TICKETS as usize),
            that_wait: Semaphore::new(TICKETS_THAT_WAIT as usize),
        }
    }

    /// A slot for a change, which may have to wait for I/O servers or not.
    pub(super) async fn take(&self, waits_for_servers: bool) -> Held<'_> {
        // Nobody closes the semaphores.
        let waits = match waits_for_servers {
            true => self.that_wait.acquire().await.ok(),
            false => None,
        };
        let permit = self.turns.acquire().await.ok();
        let free = self.free.borrow_mut().pop();
        // There are as many permits as slots.
        let (slot, sequence) = free.unwrap_or((TICKETS, 1));
        Held {
            ticket: Ticket {
                client: self.client,
                slot,
                sequence,
            },
            tickets: self,
            _permits: (permit, waits),
        }
    }
}

/// A slot in use; dropped, it takes another change.
pub(super) struct Held<'a> {
    pub(super) ticket: Ticket,
    tickets: &'a Tickets,
    _permits: (Option<SemaphorePermit<'a>>, Option<SemaphorePermit<'a>>),
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Ticket { slot, sequence, .. } = self.ticket;
        self.tickets.free.borrow_mut().push((slot, sequence + 1));
    }
}
