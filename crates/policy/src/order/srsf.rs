//! Smallest remaining service first: the job with the least GPU time left (remaining time × GPUs) runs, and takes GPUs from those with more.
//!
//! The time left of a running job falls, and falls faster for a wide job, so running jobs are ranked again at every decision. They are
//! never more than there are shares of GPUs.

use super::batch_rules::gpus_of;
use super::by_history::ByHistory;
use crate::params::{ESTIMATES, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{JobId, JobView, Phase, Preempt, Renumbering, Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of `srsf`.
pub const PARAMS: &[Param] = &[ESTIMATES];

#[derive(Clone, Default, Serialize, Deserialize)]
struct SmallestRemainingService {
    running: BTreeSet<JobId>,
}

fn rank(view: &JobView<'_>) -> (JobId, f64) {
    (view.id(), view.believed_remaining().seconds() * gpus_of(view))
}

impl Policy for SmallestRemainingService {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        for view in snapshot.changed_jobs() {
            if view.state.phase == Phase::Running {
                self.running.insert(view.id());
            } else {
                self.running.remove(&view.id());
            }
        }
        let waiting = snapshot.newly_waiting().map(|view| rank(&view));
        let running = self.running.iter().map(|&job| rank(&snapshot.view(job)));
        Target::order(Rule::preemptive(Preempt::Always), waiting.chain(running))
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.running = std::mem::take(&mut self.running).into_iter().filter_map(|job| rows.new_of(job)).collect();
    }
}

/// Builds the policy `srsf`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    if params.goes_by_history()? {
        return Ok(Box::new(ByHistory::least_service_left()));
    }
    Ok(Box::new(SmallestRemainingService::default()))
}
