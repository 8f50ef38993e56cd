//! What was asked, and what goes wrong.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;

use super::super::faults::{Fault, Faults, Phase};
use super::{World, lock};

/// What was asked and what went wrong.
#[derive(Debug, Clone, Default, Serialize)]
pub(in super::super) struct Counts {
    requests: BTreeMap<&'static str, u64>,
    faults: BTreeMap<Fault, u64>,
}

impl World {
    pub(in super::super) fn count(&self, request: &'static str) {
        *lock(&self.counts).requests.entry(request).or_default() += 1;
    }

    pub(in super::super) fn count_faults(&self, faults: impl IntoIterator<Item = Fault>) {
        let mut counts = lock(&self.counts);
        for fault in faults {
            *counts.faults.entry(fault).or_default() += 1;
        }
    }

    pub(in super::super) fn count_fault(&self, fault: Fault, times: u64) {
        if times > 0 {
            *lock(&self.counts).faults.entry(fault).or_default() += times;
        }
    }

    pub(in super::super) fn counts(&self) -> Counts {
        lock(&self.counts).clone()
    }

    pub(in super::super) fn faults(&self) -> Arc<Faults> {
        Arc::clone(&lock(&self.faults))
    }

    pub(in super::super) fn set_faults(&self, faults: Faults) {
        *lock(&self.faults) = Arc::new(faults);
    }

    /// The fault that a request meets, which is counted.
    pub(in super::super) fn draw(&self, phase: Phase, subject: u64, tries: &[u64]) -> Option<Fault> {
        let fault = self.faults().draw(self.config.seed, phase, subject, tries);
        self.count_faults(fault);
        fault
    }
}
