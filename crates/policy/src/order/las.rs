//! Least attained service in two dimensions (GPUs × time), in queues, after Tiresias: jobs that have had little GPU time go first.
//!
//! A job falls from queue to queue as its GPU time passes each step; in a queue the earlier arrival goes first. With
//! `promote` a job that has waited that many times as long as it ran starts again in the first queue, so that long jobs are not starved by
//! a stream of short ones. It is off unless asked for: on an overloaded cluster it buys nothing and costs many preemptions
//! (the whole Philly trace on 400 GPUs: `promote=8` makes the mean JCT 16 % longer and preempts eight times as often).

use super::levels::Levels;
use crate::params::{Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{JobId, JobView, Phase, Preempt, Renumbering, Rule, Snapshot, Span, Target, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of `las`.
pub const PARAMS: &[Param] = &[
    Param { name: "queues", default: "10", meaning: "number of queues" },
    Param { name: "first", default: "600", meaning: "GPU seconds after which a job leaves the first queue" },
    Param { name: "factor", default: "4", meaning: "how much longer each further queue lasts" },
    Param {
        name: "promote",
        default: "0",
        meaning: "back to the first queue after waiting this many times its run time; 0 means never",
    },
];

#[derive(Clone, Serialize, Deserialize)]
struct LeastAttainedService {
    levels: Levels,
    promote: u64,
    promotions: BTreeSet<(Time, JobId)>,
    promotion_of: Vec<Option<Time>>,
}

impl LeastAttainedService {
    /// When a waiting job will have waited long enough to be promoted.
    fn promotion(&self, view: &JobView<'_>) -> Option<Time> {
        let may_rise = self.promote > 0 && view.state.phase == Phase::Waiting && self.levels.level(view.id()) > 0;
        let gpus = f64::from(view.job.gpus) * view.job.share.fraction();
        may_rise.then(|| view.state.since + self.levels.counted(view).at_speed(gpus).times(self.promote) + Span(1))
    }

    fn await_promotion(&mut self, view: &JobView<'_>) {
        let job = view.id();
        if let Some(at) = self.promotion_of[job.index()].take() {
            self.promotions.remove(&(at, job));
        }
        if let Some(at) = self.promotion(view) {
            self.promotion_of[job.index()] = Some(at);
            self.promotions.insert((at, job));
        }
    }
}

impl Policy for LeastAttainedService {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        self.promotion_of.resize(snapshot.states.len(), None);
        let mut ranks = Vec::new();
        self.levels.follow(snapshot, |view, level| ranks.push((view.id(), level as f64)));
        if self.promote > 0 {
            for view in snapshot.changed_jobs() {
                self.await_promotion(&view);
            }
        }
        while let Some(&(at, job)) = self.promotions.first()
            && at <= snapshot.now
        {
            let view = snapshot.view(job);
            self.levels.forgive(&view, snapshot.now);
            self.await_promotion(&view);
            ranks.push((job, 0.0));
        }
        let mut target = Target::order(Rule::preemptive(Preempt::Always), ranks);
        let next_promotion = self.promotions.first().map(|&(at, _)| at);
        target.review_at = self.levels.next_crossing().into_iter().chain(next_promotion).min();
        target
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.levels.renumber(rows);
        rows.rename_keyed(&mut self.promotions);
        rows.keep(&mut self.promotion_of);
    }
}

/// Builds the policy `las`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let first = params.number("first", 0.001, 1e9)?;
    let factor = params.number("factor", 1.0, 1e6)?;
    let queues = params.whole("queues", 1, 64)? as usize;
    Ok(Box::new(LeastAttainedService {
        levels: Levels::new(first, factor, queues - 1),
        promote: params.whole("promote", 0, 1_000_000)?,
        promotions: BTreeSet::new(),
        promotion_of: Vec::new(),
    }))
}
