//! Weighted fair queueing: smallest virtual finish time first.
//!
//! Virtual time V starts at 0. A job that arrives gets the start tag S = max(V, the last finish tag of its flow) and the finish tag
//! F = S + estimate × GPUs / weight. When a job starts, V moves to its S; when it ends, to its F if that is later. A flow is a user's
//! jobs, which follow each other; a job without a user is a flow of its own.

use crate::params::{BACKFILL, DEPTH, Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{Name, Phase, Renumbering, Rule, Snapshot, Target};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Parameters of `wfq`.
pub const PARAMS: &[Param] = &[BACKFILL, DEPTH];

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Tags {
    start: f64,
    finish: f64,
    given: bool,
}

#[derive(Clone, Serialize, Deserialize)]
struct FairQueueing {
    rule: Rule,
    virtual_time: f64,
    tags: Vec<Tags>,
    last_finish: HashMap<Name, f64>,
}

impl Policy for FairQueueing {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        self.tags.resize(snapshot.states.len(), Tags::default());
        for view in snapshot.changed_jobs() {
            let tags = self.tags[view.id().index()];
            match view.state.phase {
                Phase::Running => self.virtual_time = self.virtual_time.max(tags.start),
                Phase::Finished | Phase::Failed if tags.given => self.virtual_time = self.virtual_time.max(tags.finish),
                _ => {}
            }
        }
        let mut ranks = Vec::new();
        for view in snapshot.newly_waiting() {
            let tags = &mut self.tags[view.id().index()];
            if !tags.given {
                let job = view.job;
                let before = if job.user.is_some() { self.last_finish.get(&job.user).copied().unwrap_or(0.0) } else { 0.0 };
                let start = self.virtual_time.max(before);
                let finish = start + view.believed_seconds() * f64::from(job.gpus) / job.weight;
                *tags = Tags { start, finish, given: true };
                if job.user.is_some() {
                    self.last_finish.insert(job.user, finish);
                }
            }
            ranks.push((view.id(), tags.finish));
        }
        Target::order(self.rule, ranks)
    }

    fn renumber(&mut self, rows: &Renumbering) {
        rows.keep(&mut self.tags);
    }
}

/// Builds the policy `wfq`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let rule = params.run_to_end()?;
    Ok(Box::new(FairQueueing { rule, virtual_time: 0.0, tags: Vec::new(), last_finish: HashMap::new() }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::bind::BadJobs;
    use rota_core::random::RandomStream;
    use rota_core::{Bound, Cluster, Job, JobId, JobState, Span, ThroughputTable, Time, Wish, Workload};

    #[test]
    fn finish_tags_of_the_four_teaching_jobs() {
        // MatMul, DL, XGBoost, LSTM: estimates over weights.
        let mut workload = Workload::new("tags");
        for (estimate, weight) in [(3, 3.0), (50, 5.0), (2, 7.0), (30, 2.0)] {
            let estimate = Some(Span::from_whole_seconds(estimate));
            workload.push(Job { weight, estimate, ..Job::new(Time::ZERO, Span::from_whole_seconds(60)) });
        }
        workload.finish();
        let cluster = Cluster::from_spec("gpu:1", 1).unwrap();
        let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
        let states = vec![JobState { phase: Phase::Waiting, ..JobState::default() }; 4];
        let snapshot = Snapshot {
            now: Time::ZERO,
            round: None,
            is_tick: false,
            bound: &bound,
            states: &states,
            nodes_up: &[true],
            gpu_busy: &[Span::ZERO],
            outside: &[],
            outside_changes: 0,
            restart_cost: Span::ZERO,
            restart_costs: &rota_core::RestartCosts::default(),
            min_run: Span::ZERO,
            min_run_restarts: None,
            speed_changes: 0,
            durations: rota_core::Durations::Hidden,
            changed: &[JobId(0), JobId(1), JobId(2), JobId(3)],
            lengths: &[],
            repaced: &[],
        };
        let mut context = Context { stream: RandomStream::new(0, "policy"), problems: Vec::new() };
        let target = crate::build("wfq").unwrap().policy.decide(&snapshot, &mut context);
        let Wish::Order { ranks, .. } = target.wish else { panic!("an order was expected") };
        let tags = ranks.iter().map(|(_, tag)| (tag * 1000.0).round() / 1000.0).collect::<Vec<_>>();
        assert_eq!(tags, [1.0, 10.0, 0.286, 15.0]);
    }
}
