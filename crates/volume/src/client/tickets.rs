//! Numbers for changes, by which the manager knows one that it has done already.

use crate::calls::Ticket;
use crate::limits::TICKETS;
use gannet_wire::volume::Token;
use std::cell::RefCell;
use tokio::sync::{Semaphore, SemaphorePermit};

/// A client's slots. Whoever wants to change something waits for a free one.
pub(super) struct Tickets {
    client: Token,
    /// Free slots and the sequence of the next change in each.
    free: RefCell<Vec<(u32, u64)>>,
    turns: Semaphore,
}

impl Tickets {
    /// `client` must be new: no client may ever have had it.
    pub(super) fn new(client: Token) -> Tickets {
        Tickets {
            client,
            free: RefCell::new((0..TICKETS).map(|slot| (slot, 1)).collect()),
            turns: Semaphore::new(TICKETS as usize),
        }
    }

    pub(super) async fn take(&self) -> Held<'_> {
        let permit = self.turns.acquire().await.ok();
        let free = self.free.borrow_mut().pop();
        // There are as many permits as slots, and nobody closes the semaphore.
        let (slot, sequence) = free.unwrap_or((TICKETS, 1));
        Held {
            ticket: Ticket {
                client: self.client,
                slot,
                sequence,
            },
            tickets: self,
            _permit: permit,
        }
    }
}

/// A slot in use; dropped, it takes another change.
pub(super) struct Held<'a> {
    pub(super) ticket: Ticket,
    tickets: &'a Tickets,
    _permit: Option<SemaphorePermit<'a>>,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let Ticket { slot, sequence, .. } = self.ticket;
        self.tickets.free.borrow_mut().push((slot, sequence + 1));
    }
}
