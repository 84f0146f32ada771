//! Two simpler answers, to compare forecasts with: the start of a job if it were the next one, and backfilling by the limits that users gave.

use crate::lengths::LengthBelief;
use crate::starts::Fork;
use rota_core::event::EventKind;
use rota_core::{End, Event, JobId, Phase, Time};
use std::collections::{HashMap, HashSet};

/// The time limit of jobs whose users gave neither estimate nor limit.
const LIMIT_SECONDS: f64 = 86_400.0;
/// The policy of the answer that goes by limits.
const BACKFILL: &str = "fcfs:backfill=easy";

/// When each job would start if no other waited, by the middle of what is believed. Jobs of one shape start at the same moment, so one of
/// each is run forward.
pub fn if_next(fork: &Fork, jobs: &[JobId]) -> Vec<Option<Time>> {
    let shape_of = &fork.engine.state.bound.shape_of;
    let mut first_of = HashMap::new();
    for job in jobs {
        first_of.entry(shape_of[job.index()]).or_insert(*job);
    }
    let mut few = fork.clone();
    let waiting =
        fork.engine.state.jobs.iter().enumerate().filter(|(_, job)| matches!(job.phase, Phase::Waiting | Phase::Blocked));
    let firsts = first_of.values().copied().collect::<HashSet<_>>();
    let others = waiting.map(|(row, _)| JobId::from_index(row)).filter(|row| !firsts.contains(row));
    others.for_each(|row| withdraw(&mut few, row));
    let mut starts = HashMap::new();
    for (shape, job) in &first_of {
        let mut alone = few.clone();
        first_of.values().filter(|other| *other != job).for_each(|other| withdraw(&mut alone, *other));
        starts.insert(*shape, alone.median_starts(&[*job])[0]);
    }
    jobs.iter().map(|job| starts[&shape_of[job.index()]]).collect()
}

fn withdraw(fork: &mut Fork, job: JobId) {
    fork.engine.record(&Event::at(fork.now, EventKind::ended(job, End::Cancelled)));
}

/// When each job would start if jobs were backfilled as they came and each took the time that its user gave, or a day.
pub fn by_limits(fork: &Fork, jobs: &[JobId]) -> Vec<Option<Time>> {
    let mut limited = fork.clone();
    if let Ok(backfill) = rota_policy::build(BACKFILL) {
        limited.engine.set_policy(backfill);
    }
    let bound = &fork.engine.state.bound;
    for (row, length) in limited.lengths.iter_mut().enumerate() {
        let job = JobId::from_index(row);
        let estimate = bound.job(job).estimate.map(|span| span.at_speed(bound.best_speed(job)).seconds());
        length.limit_seconds = Some(estimate.unwrap_or(LIMIT_SECONDS));
        length.belief = LengthBelief::Estimated(f64::MAX);
    }
    limited.median_starts(jobs)
}
