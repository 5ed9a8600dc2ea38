//! Sums of where the time of operations went.

use crate::{Counter, Exposition, Family, Label};
use gannet_runtime::stages::{Parts, Stage};
use std::time::Duration;

/// The times of one kind of operation by stage, of those that were taken apart.
#[derive(Debug, Default)]
pub struct PartCounters([Counter; Stage::ALL.len()]);

impl PartCounters {
    /// Adds those of an operation.
    pub fn add(&self, parts: &Parts) {
        for (stage, time) in parts.each() {
            if let Some(nanoseconds) = self.0.get(stage as usize) {
                nanoseconds.add(u64::try_from(time.as_nanos()).unwrap_or(0));
            }
        }
    }

    /// The sums so far.
    pub fn read(&self) -> Parts {
        let mut parts = Parts::default();
        for (stage, nanoseconds) in Stage::ALL.iter().zip(&self.0) {
            parts.add(*stage, Duration::from_nanos(nanoseconds.total()));
        }
        parts
    }

    /// Adds the stages that took any time to samples of `family`, with a label `part` behind these.
    pub fn collect(&self, family: &Family, [first, second]: [Label; 2], into: &mut Exposition) {
        for (stage, time) in self.read().each() {
            let labels = [first, second, Label::word("part", stage.name())];
            into.real(family, &labels, time.as_secs_f64());
        }
    }
}
