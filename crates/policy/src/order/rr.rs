//! Round robin: everybody runs a quantum, then goes to the end of the queue.
//!
//! Jobs that arrive while all GPUs are busy are queued when a GPU is next dealt out, behind the jobs whose quantum ended then: the
//! textbook order (requeue, then admit). A job whose quantum ends while nobody waits keeps its GPUs and pays no restart.

use crate::params::{Param, Params, PolicyError};
use crate::{Context, Policy};
use rota_core::{JobId, Phase, Preempt, Renumbering, Rule, Snapshot, Span, Target, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parameters of `rr`.
pub const PARAMS: &[Param] =
    &[Param { name: "quantum", default: "360", meaning: "seconds a job runs before the next one's turn" }];

#[derive(Clone, Serialize, Deserialize)]
struct RoundRobin {
    quantum: Span,
    /// Place in the queue given last; smaller is earlier.
    tail: f64,
    /// Arrived, but not yet given a place.
    arrived: Vec<JobId>,
    places: Vec<f64>,
    /// Running jobs by the end of their quantum.
    turns: BTreeSet<(Time, JobId)>,
    turn_of: Vec<Option<Time>>,
    /// GPUs of the jobs that run.
    gpus_in_use: u64,
}

impl RoundRobin {
    fn end_turn(&mut self, job: JobId) -> bool {
        let end = self.turn_of[job.index()].take();
        end.is_some_and(|end| self.turns.remove(&(end, job)))
    }

    fn begin_turn(&mut self, job: JobId, start: Time) {
        let end = start + self.quantum;
        self.turn_of[job.index()] = Some(end);
        self.turns.insert((end, job));
    }

    fn requeue(&mut self, job: JobId, ranks: &mut Vec<(JobId, f64)>) {
        self.tail += 1.0;
        self.places[job.index()] = self.tail;
        ranks.push((job, self.tail));
    }
}

impl Policy for RoundRobin {
    fn decide(&mut self, snapshot: &Snapshot<'_>, _: &mut Context) -> Target {
        self.places.resize(snapshot.states.len(), 0.0);
        self.turn_of.resize(snapshot.states.len(), None);
        let mut ranks = Vec::new();
        let mut gpu_fell_free = false;
        for view in snapshot.changed_jobs() {
            let (job, state) = (view.id(), view.state);
            let had_turn = self.end_turn(job);
            match state.phase {
                Phase::Running => self.begin_turn(job, state.since + state.overhead),
                // Back at the place it has: one whose turn ended has a new one already, one that lost its node keeps the old.
                Phase::Waiting if state.starts > 0 => ranks.push((job, self.places[job.index()])),
                Phase::Waiting => self.arrived.push(job),
                _ => {}
            }
            gpu_fell_free |= had_turn && state.phase.is_over();
            let gpus = u64::from(view.job.gpus);
            match (had_turn, state.phase == Phase::Running) {
                (false, true) => self.gpus_in_use += gpus,
                (true, false) => self.gpus_in_use -= gpus,
                _ => {}
            }
        }
        while let Some(&(end, job)) = self.turns.first()
            && end <= snapshot.now
        {
            self.end_turn(job);
            self.requeue(job, &mut ranks);
            // If nobody takes its place the job runs on, for another quantum.
            self.begin_turn(job, snapshot.now);
            gpu_fell_free = true;
        }
        if gpu_fell_free || self.gpus_in_use < snapshot.bound.cluster.gpus.len() as u64 {
            for job in std::mem::take(&mut self.arrived) {
                self.requeue(job, &mut ranks);
            }
        } else {
            // Not yet in line: behind everybody who is.
            ranks.extend(self.arrived.iter().map(|&job| (job, f64::MAX)));
        }
        let mut target = Target::order(Rule::preemptive(Preempt::Always), ranks);
        target.review_at = self.turns.first().map(|&(end, _)| end);
        target
    }

    fn renumber(&mut self, rows: &Renumbering) {
        rows.rename(&mut self.arrived);
        rows.keep(&mut self.places);
        rows.rename_keyed(&mut self.turns);
        rows.keep(&mut self.turn_of);
    }
}

/// Builds the policy `rr`.
pub fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let quantum = Span::from_seconds(params.number("quantum", 0.001, 1e8)?).unwrap_or_default();
    Ok(Box::new(RoundRobin {
        quantum,
        tail: 0.0,
        arrived: Vec::new(),
        places: Vec::new(),
        turns: BTreeSet::new(),
        turn_of: Vec::new(),
        gpus_in_use: 0,
    }))
}
