//! Shortest remaining time first: a new job with less to do than a running one takes its place.
//!
//! A waiting job's rank is the time it still needs. A running job's falls as it runs, so its rank is the moment it is believed to end
//! and placement compares the time left until then: nobody has to be ranked again while time passes. On a GPU type that is not its
//! best a job really falls more slowly; until it is next looked at, it is taken for further on than it is, which only protects it.

use crate::params::{Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{Phase, Preempt, Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};

/// Parameters of `srtf`.
pub const PARAMS: &[Param] = &[];

#[derive(Clone, Serialize, Deserialize)]
struct ShortestRemaining;

impl Policy for ShortestRemaining {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        let rule = Rule { running_ranks_count_down: true, ..Rule::preemptive(Preempt::Always) };
        let ranks = snapshot.changed_jobs().filter(|view| view.state.phase.is_active()).map(|view| {
            let remaining = view.believed_remaining();
            let running = view.state.phase == Phase::Running;
            (view.id(), if running { (snapshot.now + remaining).seconds() } else { remaining.seconds() })
        });
        Target::order(rule, ranks)
    }
}

/// Builds the policy `srtf`.
#[expect(clippy::unnecessary_wraps, reason = "every policy is built in the same way")]
pub fn build(_: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    Ok(Box::new(ShortestRemaining))
}
