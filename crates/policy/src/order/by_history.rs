//! Orders by what earlier jobs taught ([`crate::history`]): the most likely to end soon first, or the shortest first.
//!
//! A job's rank changes when it gets to a further step of run time, and everybody's as more is learned. So a job that outlives what was
//! believed of it is not taken for nearly done for ever: the belief of those that got as far is what counts from then on.

use crate::history::{Tracker, attained_seconds, steps};
use crate::{Context, Policy};
use rota_core::{JobId, JobView, Length, Preempt, Renumbering, Rule, Snapshot, Span, Target, Wish};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Everybody is ranked again when this much was learned: steps reached and jobs ended.
const RENEW_AFTER: u64 = 512;
/// The shortest job is the one that ends first with this chance: the median knows nothing of long tails, and the mean of little else.
const RANKED_BY: f64 = 0.65;
/// A job that passes another is reckoned to end within its time with this chance.
const SURE: f64 = 0.9;

/// Which job goes first.
#[derive(Clone, Serialize, Deserialize)]
enum Goal {
    /// The best chance of ending per GPU second; running jobs are stopped for better ones.
    MostLikelyToEnd,
    /// The least length that the job does not exceed with a good chance.
    ShortestFirst(Rule),
}

/// A policy that ranks by history.
#[derive(Clone, Serialize, Deserialize)]
pub struct ByHistory {
    goal: Goal,
    tracker: Tracker,
    active: BTreeSet<JobId>,
    ranked_at: u64,
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

    fn new(goal: Goal) -> Self {
        Self { goal, tracker: Tracker::default(), active: BTreeSet::new(), ranked_at: 0 }
    }

    /// The jobs to be ranked: those that changed or got further, or all when much was learned.
    fn choose(&mut self, snapshot: &Snapshot<'_>) -> Vec<JobId> {
        for view in snapshot.changed_jobs() {
            if view.state.phase.is_active() {
                self.active.insert(view.id());
            } else {
                self.active.remove(&view.id());
            }
        }
        if self.tracker.version().saturating_sub(self.ranked_at) >= RENEW_AFTER {
            self.ranked_at = self.tracker.version();
            return self.active.iter().copied().collect();
        }
        let moved = snapshot.changed.iter().chain(self.tracker.crossed());
        moved.copied().filter(|job| self.active.contains(job)).collect()
    }

    fn rank(&mut self, view: &JobView<'_>) -> f64 {
        match self.goal {
            Goal::MostLikelyToEnd => {
                let index = self.tracker.index(view.id(), attained_seconds(view));
                -index / (f64::from(view.job.gpus) * view.job.share.fraction())
            }
            Goal::ShortestFirst(_) => {
                let quantile = self.tracker.belief(view.id()).and_then(|belief| belief.quantile(0.0, RANKED_BY));
                quantile.unwrap_or(f64::MAX)
            }
        }
    }

    /// How long a job is believed to run in all, given how long it has run.
    fn length(&mut self, view: &JobView<'_>) -> Length {
        let attained = attained_seconds(view);
        let belief = self.tracker.belief(view.id());
        let within = |chance| {
            let left = belief.and_then(|belief| belief.quantile(attained, chance));
            let seconds = attained + left.unwrap_or(steps::end_seconds(steps::STEPS));
            Span::from_seconds(seconds).unwrap_or_default().work_at_speed(view.best_speed())
        };
        Length { likely: within(0.5), at_most: within(SURE) }
    }
}

impl Policy for ByHistory {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        self.tracker.follow(snapshot);
        let jobs = self.choose(snapshot);
        let ranks = jobs.iter().map(|&job| (job, self.rank(&snapshot.view(job)))).collect::<Vec<_>>();
        match self.goal {
            Goal::MostLikelyToEnd => {
                let mut target = Target::order(Rule::preemptive(Preempt::Always), ranks);
                target.review_at = self.tracker.next_crossing();
                target
            }
            Goal::ShortestFirst(rule) => {
                let lengths = jobs.iter().map(|&job| (job, self.length(&snapshot.view(job)))).collect();
                Target { wish: Wish::Order { ranks, rule, lengths }, review_at: None }
            }
        }
    }

    fn begin_forecast(&mut self) {
        self.tracker.close();
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.tracker.renumber(rows);
        rows.rename_set(&mut self.active);
    }
}
