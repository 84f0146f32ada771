//! What a policy that weighs all jobs at once keeps between decisions: who is active, and how many GPUs of each type are up.

use rota_core::{JobId, Shape, Snapshot};
use std::collections::BTreeSet;

/// Whole GPUs that a job of this shape takes.
pub fn size(shape: &Shape) -> f64 {
    f64::from(shape.gpus) * shape.share.fraction()
}

/// Active jobs and capacities, brought up to date with every snapshot.
#[derive(Default)]
pub struct Watch {
    /// Jobs that run or could run, in order of arrival.
    pub active: BTreeSet<JobId>,
    /// Whole GPUs of each type on nodes that are up.
    pub capacities: Vec<f64>,
    nodes_up: Vec<bool>,
}

impl Watch {
    /// Takes in a snapshot; says whether anybody came or went, job or node.
    pub fn update(&mut self, snapshot: &Snapshot<'_>) -> bool {
        let mut changed = false;
        // GPUs are counted anew only when other nodes are up than before.
        if self.nodes_up != snapshot.nodes_up {
            self.nodes_up = snapshot.nodes_up.to_vec();
            self.capacities = snapshot.capacities();
            changed = true;
        }
        for view in snapshot.changed_jobs() {
            let is_active = view.state.phase.is_active();
            changed |= if is_active { self.active.insert(view.id()) } else { self.active.remove(&view.id()) };
        }
        changed
    }
}
