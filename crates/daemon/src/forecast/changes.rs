//! What would start a job sooner, asked of a copy of the queue: for `explain`, and for a job that is not submitted yet.
//!
//! The queue's thread only hands out the copy. The trials are made in the thread of the request, and end after a set time.

use crate::api::{Counterfactual, Delay, DryRun, TypeOutcome};
use crate::clock::rfc3339;
use crate::forecast::fork::QueueFork;
use crate::forecast::learned::Learned;
use crate::machine::inventory::CPU;
use crate::store::record::JobRecord;
use rota_core::{JobId, MilliGpu, NewJob, Phase, Span, Time};
use rota_forecast::{ChangeOptions, Changes, Subject};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Trials of one question end after so much time on a processor.
const TIME_MAX: Duration = Duration::from_millis(35);
/// A job that is not submitted is asked about once, and with more to say.
const DRY_RUN_TIME_MAX: Duration = Duration::from_millis(500);
/// All trials of a short queue may take so many decisions each; those of long queues fewer.
const DECISIONS_MAX: u64 = 4000;
const DECISIONS_MIN: u64 = 200;

/// A job that is to be tried out.
pub struct Candidate {
    /// What it asks for, as the scheduler sees it.
    pub request: NewJob,
    /// Its record, as it would be.
    pub record: JobRecord,
    /// How many jobs the submit would make. The candidate is the first.
    pub jobs: u32,
    /// Why it would not start by itself: it would be held, or fail at once.
    pub stays: Option<String>,
}

/// What would start a waiting job sooner.
pub fn of_job(queue: &QueueFork, learned: &Learned, jobs_per_gpu: u16, id: u64) -> Vec<Counterfactual> {
    let Some(row) = queue.numbers.iter().position(|number| *number == id).map(JobId::from_index) else { return Vec::new() };
    if queue.engine.state.jobs.get(row.index()).is_none_or(|job| job.phase != Phase::Waiting) {
        return Vec::new();
    }
    let changes = look(queue, learned, jobs_per_gpu, &Subject::Waiting(row), TIME_MAX);
    counterfactuals(queue, &changes)
}

/// When a job would start that is not submitted, and what would start it sooner.
pub fn of_candidate(queue: &QueueFork, learned: &Learned, jobs_per_gpu: u16, candidate: Candidate) -> DryRun {
    let jobs = candidate.jobs;
    if candidate.stays.is_some() {
        return DryRun { jobs, note: candidate.stays, ..DryRun::default() };
    }
    let length = learned.length(&candidate.record);
    let is_unknown = length.is_unknown();
    let after = candidate.record.spec.ask.after.iter().map(|after| (after.id, after.condition.into())).collect::<Vec<_>>();
    let subject = Subject::New { request: Box::new(candidate.request), after, length };
    let changes = look(queue, learned, jobs_per_gpu, &subject, DRY_RUN_TIME_MAX);
    let when = |time: Time| rfc3339(queue.wall(time));
    // The end of a job whose length is not known is not known either.
    let end = |end: Option<Time>| end.filter(|_| !is_unknown).map(when);
    let gpu_types = changes.by_type.iter().map(|(name, start, ended)| TypeOutcome {
        gpu_type: name.to_string(),
        start: start.map(when),
        end: end(*ended),
    });
    let gpu_types = gpu_types.collect::<Vec<_>>();
    DryRun {
        jobs,
        note: changes.start.is_none().then(|| why_unknown(queue, &candidate.record)),
        starts_now: changes.start == Some(queue.now),
        start: changes.start.map(when),
        end: end(changes.end),
        first_done: gpu_types.first().filter(|first| first.end.is_some()).map(|first| first.gpu_type.clone()),
        gpu_types,
        counterfactuals: counterfactuals(queue, &changes),
    }
}

/// Why it is not known when a job would start that is not submitted.
fn why_unknown(queue: &QueueFork, record: &JobRecord) -> String {
    if queue.engine.state.is_drained {
        return "the queue is drained: no job starts until `rota resume`".to_owned();
    }
    let awaits = record.spec.ask.after.iter().find(|after| queue.numbers.contains(&after.id));
    match awaits {
        Some(after) => format!("it would wait for job {}, and when that job ends is not known", after.id),
        None => "it depends on jobs whose lengths are not known".to_owned(),
    }
}

fn look(queue: &QueueFork, learned: &Learned, jobs_per_gpu: u16, subject: &Subject, time_max: Duration) -> Changes {
    // The thread's own time: on a busy machine a question gets the same answer.
    let began = thread_time();
    let types = queue.engine.state.bound.cluster.types.iter().map(|kind| kind.name.as_str());
    let waiting = queue.engine.state.jobs.iter().filter(|job| job.phase == Phase::Waiting).count() as u64;
    let options = ChangeOptions {
        gpu_types: types.filter(|name| *name != CPU).map(Into::into).collect(),
        share_by_memory: MilliGpu(MilliGpu::WHOLE.0 / jobs_per_gpu.max(1)),
        decisions_max: (1_000_000 / (waiting + 1)).clamp(DECISIONS_MIN, DECISIONS_MAX),
        wants_types: matches!(subject, Subject::New { .. }),
        has_time: &|| thread_time().saturating_sub(began) < time_max,
    };
    queue.believed(learned).changes(subject, &options)
}

/// How long this thread has run on a processor.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}

fn counterfactuals(queue: &QueueFork, changes: &Changes) -> Vec<Counterfactual> {
    let delay = |(id, by): &(u64, Span)| Delay { id: *id, seconds: by.seconds() };
    let found = changes.counterfactuals.iter().map(|found| Counterfactual {
        change: found.change.to_string(),
        start: rfc3339(queue.wall(found.start)),
        is_now: found.start == queue.now,
        delays: found.delays.iter().map(delay).collect(),
    });
    found.collect()
}
