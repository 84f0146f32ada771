//! What simulated jobs and plans come to, in every simulated world: how a run ends, and the events that carry a plan out.

use rota_core::event::EventKind;
use rota_core::{End, Event, JobId, JobList, Plan, Span, StopCause, Time};
use rota_engine::State;

/// How the run of a job ends: the job is done, or fails, or fails and is tried again.
pub fn end_of(job: JobId, state: &State) -> End {
    let (spec, truth) = (state.bound.job(job), state.bound.truth(job));
    match truth.fails_at.is_some_and(|fails_at| fails_at <= truth.work) {
        true if state.jobs[job.index()].failures < spec.retries => End::Retried,
        true => End::Crashed,
        false => End::Finished,
    }
}

/// Adds the events that carry a plan out. Where stopping takes time, the jobs to be stopped are leaving from now on, and the GPUs of jobs
/// that are leaving are promised to those they were taken for.
pub fn carry_out(plan: &Plan, state: &State, now: Time, stop_time: Span, events: &mut Vec<Event>) {
    let is_at_once = stop_time == Span::ZERO;
    events.extend(plan.stops.iter().map(|&job| {
        let leaving = EventKind::Stopping { job, cause: StopCause::Preempt, note: () };
        Event::at(now, if is_at_once { EventKind::ended(job, End::Preempted) } else { leaving })
    }));
    events.extend(plan.starts.iter().map(|start| {
        let after = if is_at_once { JobList::new() } else { plan.stops_before(start, &state.jobs).collect() };
        let gpus = start.gpus.clone();
        let is_free = after.is_empty();
        Event::at(
            now,
            if is_free { EventKind::started(start.job, gpus) } else { EventKind::Promised { job: start.job, gpus, after } },
        )
    }));
}
