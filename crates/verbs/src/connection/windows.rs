//! The windows of a connection: keys to memory that serve it alone.
//!
//! A bind is posted when memory is registered, so it comes before every message that can bear its key. Windows go
//! before the queue pair does: some devices destroy no pair that has windows.

use super::{Connection, Memory, Phase, State, Work};
use crate::core::is_done;
use crate::region::Entry;
use crate::sys::{WC_WITH_INV, Wc, WindowBind, WorkKind};
use gannet_fabric::{Disconnected, Done, Signal, WorkId};
use std::rc::{Rc, Weak};

impl Connection {
    /// Gives a window to the connection; false when it takes no work any more.
    pub(crate) fn bind(self: &Rc<Self>, entry: &Rc<Entry>, key: u32, bind: WindowBind) -> bool {
        let mut state = self.state.borrow_mut();
        if !matches!(state.phase, Phase::Connecting | Phase::Open) {
            return false;
        }
        let kind = WorkKind::Bind(bind);
        state.queued.push(own(kind, Signal::OnError, entry));
        drop(state);
        let replaced = self.bound.borrow_mut().insert(key, Rc::downgrade(entry));
        debug_assert!(
            replaced.is_none_or(|entry| entry.strong_count() == 0),
            "a bound window has another key than all others"
        );
        // The key may reach the peer by another connection.
        self.start();
        true
    }

    /// Asks for the end of a window's key. The entry hears of it. False when the connection takes no work any more.
    pub(crate) fn unbind(self: &Rc<Self>, entry: &Rc<Entry>) -> bool {
        // The last holder of memory may be work whose completion is being handled. That connection is there.
        let phase = self.state.try_borrow().map(|state| state.phase.clone());
        if !matches!(phase, Ok(Phase::Open) | Err(_)) {
            return false;
        }
        self.unbinding.borrow_mut().push(Rc::clone(entry));
        self.core.start_later(self);
        true
    }

    /// True when work waits for room in the device.
    pub(crate) fn is_held_back(&self) -> bool {
        self.state.borrow().is_held_back
    }

    /// The window with this key belongs to nobody any more.
    pub(crate) fn forget_window(&self, key: u32) {
        self.bound.borrow_mut().remove(&key);
    }

    /// Notes that a message of the peer has revoked a key. Gives the reason when that ends the connection.
    pub(super) fn note_invalidation(&self, completion: &Wc) -> Option<Disconnected> {
        if !is_done(completion) || completion.wc_flags & WC_WITH_INV == 0 {
            return None;
        }
        let key = completion.invalidated_rkey;
        if let Some(entry) = self.take_bound(key) {
            entry.invalidated_by_peer();
            return None;
        }
        // Linux's rxe does not look whose window it is.
        self.core.invalidated_elsewhere(key);
        let why = "it revoked a key of another connection".to_owned();
        Some(Disconnected::PeerMisbehaved(why))
    }

    /// The memory whose window has this key, which is dead from now on.
    pub(crate) fn take_bound(&self, key: u32) -> Option<Rc<Entry>> {
        self.bound.borrow_mut().remove(&key)?.upgrade()
    }

    /// Gives all windows back to the device.
    pub(super) fn drop_windows(&self) {
        let bound = std::mem::take(&mut *self.bound.borrow_mut());
        for entry in bound.values().filter_map(Weak::upgrade) {
            entry.drop_window();
        }
        // With the flush they hear that the key is gone.
        for entry in self.unbinding.take() {
            entry.unbound(false);
        }
    }

    /// Queues what was asked for by [`Connection::unbind`], behind all other work. Drops binds whose window is gone.
    pub(super) fn queue_unbinds(&self, state: &mut State) {
        for entry in self.unbinding.take() {
            match entry.window_key() {
                Some(key) => {
                    let kind = WorkKind::Unbind { key };
                    state.queued.push(own(kind, Signal::Always, &entry));
                }
                // The peer has revoked it meanwhile.
                None => entry.unbound(false),
            }
        }
        state.queued.retain(|work| match work.kind {
            WorkKind::Bind(_) => {
                (work.memory.entry.as_ref()).is_some_and(|entry| entry.window_key().is_some())
            }
            _ => true,
        });
    }
}

fn own(kind: WorkKind, signal: Signal, entry: &Rc<Entry>) -> Work {
    Work {
        id: WorkId(0),
        done: Done::Written,
        signal,
        kind,
        is_own: true,
        signaled: false,
        outcome: None,
        memory: Memory {
            entry: Some(Rc::clone(entry)),
            ..Memory::default()
        },
    }
}
