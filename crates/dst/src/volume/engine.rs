//! The ways of managers to an engine in memory.

use gannet_meta::{EngineMemory, RequestFate};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Attempts of a request.
pub(super) const ATTEMPTS: u32 = 6;

/// The way of one manager to the engine.
pub struct EngineWay {
    pub(super) engine: EngineMemory,
    /// It does not reach the engine.
    is_cut_off: Arc<AtomicBool>,
}

impl EngineWay {
    /// A way to this engine. Of `loses` requests, one is lost, one comes late, one is doubled, and the answer to
    /// another one is lost; 0: none.
    pub(super) fn new(engine: &EngineMemory, loses: u64, seed: u64) -> EngineWay {
        let is_cut_off = Arc::<AtomicBool>::default();
        let (is_cut, requests) = (Arc::clone(&is_cut_off), AtomicU64::new(seed));
        let fate = move || {
            let number = requests.fetch_add(1, Ordering::Relaxed);
            // SplitMix64's last steps (Steele and others, OOPSLA 2014): near numbers choose differently.
            let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            match (mixed ^ (mixed >> 27)).checked_rem(loses) {
                _ if is_cut.load(Ordering::Relaxed) => RequestFate::Lost,
                Some(0) => RequestFate::Lost,
                Some(1) => RequestFate::AnswerLost,
                Some(2) => RequestFate::Late,
                Some(3) => RequestFate::Doubled,
                _ => RequestFate::Answered,
            }
        };
        EngineWay {
            engine: engine.by(fate),
            is_cut_off,
        }
    }

    /// Cuts the way to the engine, or mends it.
    pub fn cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Ordering::Relaxed);
    }
}
