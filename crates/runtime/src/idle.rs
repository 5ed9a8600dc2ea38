//! Memory that is kept for its next user, and goes back to the system when it is idle.

use crate::{Arena, Handle, Slabs, sleep};
use std::cell::Cell;
use std::rc::{Rc, Weak};
use std::time::Duration;

/// Memory that nobody used for this long goes back, and within twice this time.
pub const MEMORY_IDLE_MAX: Duration = Duration::from_secs(30);

/// Memory that is kept for its next user.
pub trait Idles: 'static {
    /// Gives back what was not used since the last call of this.
    fn give_back(&self) -> impl Future<Output = ()>;

    /// Whether none is kept or in use.
    fn is_gone(&self) -> bool;
}

/// Has memory given back that is idle. It costs its users one look at a flag, and an idle program nothing: the task
/// that looks each [`MEMORY_IDLE_MAX`] runs from the first use until the memory is gone.
#[derive(Debug, Default)]
pub struct IdleWatch {
    running: Rc<Cell<bool>>,
}

impl IdleWatch {
    /// Looks after `memory`, which is about to be used. It is dropped with its owner.
    pub fn look_after<T: Idles>(&self, runtime: &Handle, memory: &Rc<T>) {
        if !self.running.replace(true) {
            let (memory, running) = (Rc::downgrade(memory), Rc::clone(&self.running));
            let watch = watch(memory, running, Handle::clone(runtime));
            runtime.spawn("give idle memory back", Box::pin(watch));
        }
    }
}

async fn watch<T: Idles>(memory: Weak<T>, running: Rc<Cell<bool>>, runtime: Handle) {
    loop {
        sleep(&runtime, MEMORY_IDLE_MAX).await;
        let Some(memory) = memory.upgrade() else {
            return;
        };
        memory.give_back().await;
        if memory.is_gone() {
            // No await from here to the return: a use meanwhile would find a task that no longer looks.
            running.set(false);
            // The allocator keeps what is freed below memory in use.
            runtime.release_memory();
            return;
        }
    }
}

impl Idles for Arena {
    async fn give_back(&self) {
        self.trim_unused();
    }

    fn is_gone(&self) -> bool {
        self.idle() == 0 && self.in_use() == 0
    }
}

impl Idles for Slabs {
    async fn give_back(&self) {
        drop(self.take_unused());
    }

    fn is_gone(&self) -> bool {
        self.idle() == 0 && self.in_use() == 0
    }
}
