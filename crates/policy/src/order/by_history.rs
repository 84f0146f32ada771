//! Goes by what earlier jobs taught ([`crate::history`]): the most likely to end soon first, the shortest first, the least GPU time left first;
//! or any other order, with reservations by learned lengths.
//!
//! A job's rank changes when it gets to a further step of run time, and everybody's as more is learned. So a job that outlives what was
//! believed of it is not taken for nearly done for ever: the belief of those that got as far is what counts from then on.

use super::batch_rules::gpus_of;
use crate::history::{Tracker, attained_seconds, steps};
use crate::memory::{from_bytes, to_bytes};
use crate::{Context, MemoryError, Policy, Remember};
use rota_core::{JobId, JobView, Preempt, Renumbering, Rule, Snapshot, Span, Target, Wish};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// All jobs are looked at again when this much was learned: steps reached and jobs ended.
const RENEW_AFTER: u64 = 512;
/// Of many jobs, all are looked at again when as much was learned as this part of them: the work grows with what is learned, and not with
/// its product with the jobs.
const RENEW_AFTER_PART: u64 = 8;
/// The shortest job is the one that ends first with this chance: the median knows nothing of long tails, and the mean of little else.
const RANKED_BY: f64 = 0.65;
/// A job is reckoned to run for a time that it does not exceed with this chance. That says when its GPUs are counted on to fall free, and
/// whether it may pass a job with a reservation. With a larger chance for jobs that pass than for those that run, hardly any job could pass.
const RECKONED_BY: f64 = 0.8;

/// What is believed of the jobs that wait and run, and which of them are to be looked at again.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Beliefs {
    tracker: Tracker,
    active: BTreeSet<JobId>,
    renewed_at: u64,
}

impl Beliefs {
    /// Takes in what happened. Gives the jobs of which something else is believed than before: those that changed or got further, or all when
    /// much was learned.
    fn follow(&mut self, snapshot: &Snapshot<'_>) -> Vec<JobId> {
        self.tracker.follow(snapshot);
        for view in snapshot.changed_jobs() {
            if view.state.phase.is_active() {
                self.active.insert(view.id());
            } else {
                self.active.remove(&view.id());
            }
        }
        let renew_after = RENEW_AFTER.max(self.active.len() as u64 / RENEW_AFTER_PART);
        if self.tracker.version().abs_diff(self.renewed_at) >= renew_after {
            self.renewed_at = self.tracker.version();
            return self.active.iter().copied().collect();
        }
        let moved = snapshot.changed.iter().chain(self.tracker.crossed());
        moved.copied().filter(|job| self.active.contains(job)).collect()
    }

    /// How long a job is reckoned to run in all, as work, given how long it has run.
    fn length(&mut self, view: &JobView<'_>) -> Span {
        let attained = attained_seconds(view);
        let left = self.tracker.belief(view.id()).and_then(|belief| belief.quantile(attained, RECKONED_BY));
        let seconds = attained + left.unwrap_or(steps::end_seconds(steps::STEPS));
        Span::from_seconds(seconds).unwrap_or_default().work_at_speed(view.best_speed())
    }

    /// The lengths of some jobs.
    fn lengths(&mut self, jobs: &[JobId], snapshot: &Snapshot<'_>) -> Vec<(JobId, Span)> {
        jobs.iter().map(|&job| (job, self.length(&snapshot.view(job)))).collect()
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.tracker.renumber(rows);
        rows.rename_set(&mut self.active);
    }
}

/// Which job goes first.
#[derive(Clone, Copy, Serialize, Deserialize)]
enum Goal {
    /// The best chance of ending per GPU second; running jobs are stopped for better ones.
    MostLikelyToEnd,
    /// The least length that the job does not exceed with a good chance; jobs run to the end.
    ShortestFirst(Rule),
    /// The least GPU time left in the mean; running jobs are stopped for better ones. The mean and no quantile: jobs of a kind that seems
    /// long would never start, and so never show that they are not.
    LeastServiceLeft,
}

/// A policy that ranks by history.
#[derive(Clone, Serialize, Deserialize)]
pub struct ByHistory {
    goal: Goal,
    beliefs: Beliefs,
}

impl ByHistory {
    /// The policy `gittins:classes=on`.
    pub fn most_likely_to_end() -> Self {
        Self::new(Goal::MostLikelyToEnd)
    }

    /// The policy `sjf:estimates=history`.
    pub fn shortest_first(rule: Rule) -> Self {
        Self::new(Goal::ShortestFirst(rule))
    }

    /// The policy `srsf:estimates=history`.
    pub fn least_service_left() -> Self {
        Self::new(Goal::LeastServiceLeft)
    }

    fn new(goal: Goal) -> Self {
        Self { goal, beliefs: Beliefs::default() }
    }

    fn rank(&mut self, view: &JobView<'_>) -> f64 {
        let attained = attained_seconds(view);
        let tracker = &mut self.beliefs.tracker;
        match self.goal {
            Goal::MostLikelyToEnd => -tracker.index(view.id(), attained) / gpus_of(view),
            Goal::ShortestFirst(_) => {
                tracker.belief(view.id()).and_then(|belief| belief.quantile(0.0, RANKED_BY)).unwrap_or(f64::MAX)
            }
            Goal::LeastServiceLeft => {
                tracker.belief(view.id()).map_or(f64::MAX, |belief| belief.mean_remaining(attained)) * gpus_of(view)
            }
        }
    }
}

impl Policy for ByHistory {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        let jobs = self.beliefs.follow(snapshot);
        let ranks = jobs.iter().map(|&job| (job, self.rank(&snapshot.view(job)))).collect::<Vec<_>>();
        if let Goal::ShortestFirst(rule) = self.goal {
            let lengths = self.beliefs.lengths(&jobs, snapshot);
            return Target { wish: Wish::Order { ranks, rule, lengths }, review_at: None };
        }
        let mut target = Target::order(Rule::preemptive(Preempt::Always), ranks);
        target.review_at = self.beliefs.tracker.next_crossing();
        target
    }

    fn begin_forecast(&mut self) {
        self.beliefs.tracker.close();
    }

    fn trackers(&mut self) -> Vec<&mut Tracker> {
        vec![&mut self.beliefs.tracker]
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.beliefs.renumber(rows);
    }
}

/// Another policy's order, with reservations and backfill by learned lengths.
pub struct ReservesByHistory {
    order: Box<dyn Policy>,
    beliefs: Beliefs,
}

impl ReservesByHistory {
    /// The same order, with learned lengths.
    pub fn new(order: Box<dyn Policy>) -> Self {
        Self { order, beliefs: Beliefs::default() }
    }
}

impl Policy for ReservesByHistory {
    fn decide(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Target {
        let jobs = self.beliefs.follow(snapshot);
        let mut target = self.order.decide(snapshot, context);
        if let Wish::Order { lengths, .. } = &mut target.wish {
            *lengths = self.beliefs.lengths(&jobs, snapshot);
        }
        target
    }

    fn waits_for_rounds(&self) -> bool {
        self.order.waits_for_rounds()
    }

    fn begin_forecast(&mut self) {
        self.order.begin_forecast();
        self.beliefs.tracker.close();
    }

    fn trackers(&mut self) -> Vec<&mut Tracker> {
        let mut all = self.order.trackers();
        all.push(&mut self.beliefs.tracker);
        all
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.order.renumber(rows);
        self.beliefs.renumber(rows);
    }
}

impl Remember for ReservesByHistory {
    fn fork(&self) -> Box<dyn Policy> {
        Box::new(Self { order: self.order.fork(), beliefs: self.beliefs.clone() })
    }

    fn save(&self) -> Vec<u8> {
        to_bytes(&(self.order.save(), &self.beliefs))
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), MemoryError> {
        let (order, beliefs): (Vec<u8>, Beliefs) = from_bytes(bytes)?;
        self.order.load(&order)?;
        self.beliefs = beliefs;
        Ok(())
    }
}
