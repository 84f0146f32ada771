//! Largest priority first, growing with the time waited so that nobody waits for ever.
//!
//! With one step of priority per `age` seconds, a job's priority at time t is `priority + (t - arrival) / age`. The order of two such
//! lines never changes, so each job is ranked once, by where its line starts.

use crate::params::{BACKFILL, DEPTH, ESTIMATES, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{Preempt, Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};

/// Parameters of `priority`.
pub const PARAMS: &[Param] = &[
    Param { name: "age", default: "3600", meaning: "seconds of waiting that count as one step of priority; 0 means no ageing" },
    Param { name: "preempt", default: "false", meaning: "whether a better job stops worse ones" },
    BACKFILL,
    DEPTH,
    ESTIMATES,
];

#[derive(Clone, Serialize, Deserialize)]
struct LargestPriority {
    rule: Rule,
    seconds_per_step: f64,
}

impl Policy for LargestPriority {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        let ranks = snapshot.newly_waiting().map(|view| {
            let age = if self.seconds_per_step > 0.0 { view.job.arrival.seconds() / self.seconds_per_step } else { 0.0 };
            (view.id(), age - f64::from(view.job.priority))
        });
        Target::order(self.rule, ranks)
    }
}

/// Builds the policy `priority`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let rule = if params.flag("preempt")? {
        params.refuse(&["estimates"], "left out beside preempt=true, which reserves nothing")?;
        Rule::preemptive(Preempt::Always)
    } else {
        params.run_to_end()?
    };
    Ok(Box::new(LargestPriority { rule, seconds_per_step: params.number("age", 0.0, 1e9)? }))
}
