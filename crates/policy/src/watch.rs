//! What a policy that weighs all jobs at once keeps between decisions: who is active, and how many GPUs of each type are up.

use rota_core::{JobId, Renumbering, Shape, Snapshot};
use serde::{Deserialize, Serialize};

/// Whole GPUs that a job of this shape takes.
pub fn size(shape: &Shape) -> f64 {
    f64::from(shape.gpus) * shape.share.fraction()
}

/// Active jobs and capacities, brought up to date with every snapshot.
#[derive(Default, Clone, Serialize, Deserialize)]
pub struct Watch {
    /// Jobs that run or could run, in order of arrival.
    pub active: Vec<JobId>,
    /// Whole GPUs of each type on nodes that are up.
    pub capacities: Vec<f64>,
    nodes_up: Vec<bool>,
    outside_changes: u64,
    speed_changes: u64,
    /// Whether the last snapshot had other speeds than the one before.
    pub has_new_speeds: bool,
}

impl Watch {
    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        rows.rename(&mut self.active);
    }

    /// Takes in a snapshot; says whether anybody came or went, job or node, or has another speed.
    pub fn update(&mut self, snapshot: &Snapshot<'_>) -> bool {
        self.has_new_speeds = std::mem::replace(&mut self.speed_changes, snapshot.speed_changes) != snapshot.speed_changes;
        let mut changed = self.has_new_speeds;
        // GPUs are counted anew only when other nodes are up than before, or strangers came or went.
        if self.nodes_up != snapshot.nodes_up || self.outside_changes != snapshot.outside_changes {
            self.outside_changes = snapshot.outside_changes;
            self.nodes_up = snapshot.nodes_up.to_vec();
            self.capacities = snapshot.capacities();
            changed = true;
        }
        for &job in snapshot.changed {
            match (self.active.binary_search(&job), snapshot.states[job.index()].phase.is_active()) {
                (Err(place), true) => self.active.insert(place, job),
                (Ok(place), false) => _ = self.active.remove(place),
                _ => continue,
            }
            changed = true;
        }
        changed
    }
}
