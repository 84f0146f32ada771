//! What would start a job sooner, asked of a copy of the queue: for `explain`, and for a job that is not submitted yet.
//!
//! The queue's thread only hands out the copy. The trials are made in the thread of the request, and end after a set time.

use crate::api::{Counterfactual, Delay, DryRun, TypeOutcome};
use crate::clock::rfc3339;
use crate::forecast::forecaster::GPUS_AWAY;
use crate::forecast::fork::{QueueFork, wall_of};
use crate::forecast::learned::{Learned, SharedLearned};
use crate::machine::inventory::CPU;
use crate::queue::rows::is_slice;
use crate::store::record::JobRecord;
use rota_core::{JobId, MilliGpu, NewJob, Phase, Span, Time};
use rota_forecast::{ChangeOptions, Changes, Fork, Subject};
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Trials of one question end after so much time on a processor.
const TIME_MAX: Duration = Duration::from_millis(35);
/// A job that is not submitted is asked about once, and with more to say.
const DRY_RUN_TIME_MAX: Duration = Duration::from_millis(500);
/// All trials of a short queue may take so many decisions each; those of long queues fewer.
const DECISIONS_MAX: u64 = 4000;
const DECISIONS_MIN: u64 = 200;
/// Running a job that is not submitted as it is may take so many.
const DRY_RUN_DECISIONS_MAX: u64 = 20_000;

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
    /// Whether it would be held by its user's quota at first, in words.
    pub quota: Option<String>,
}

/// What would start a waiting job sooner.
pub fn of_job(queue: QueueFork, learned: &SharedLearned, jobs_per_gpu: u16, id: u64) -> Vec<Counterfactual> {
    let Some(row) = queue.numbers.iter().position(|number| *number == id).map(JobId::from_index) else { return Vec::new() };
    let Some(record) = queue.records[row.index()].clone() else { return Vec::new() };
    if queue.engine.state.jobs.get(row.index()).is_none_or(|job| job.phase != Phase::Waiting) {
        return Vec::new();
    }
    let began = thread_time();
    let queue = Believed::new(queue, &learned.lock());
    let changes = queue.look(&record, jobs_per_gpu, &Subject::Waiting(row), &|| thread_time().saturating_sub(began) < TIME_MAX);
    queue.counterfactuals(&changes)
}

/// When a job would start that is not submitted, and what would start it sooner.
pub fn of_candidate(queue: QueueFork, learned: &SharedLearned, jobs_per_gpu: u16, candidate: Candidate) -> DryRun {
    let jobs = candidate.jobs;
    if candidate.stays.is_some() {
        return DryRun { jobs, note: candidate.stays, ..DryRun::default() };
    }
    let began = thread_time();
    let (queue, length) = {
        let learned = learned.lock();
        (Believed::new(queue, &learned), learned.length(&candidate.record))
    };
    let is_unknown = length.is_unknown();
    let after = candidate.record.spec.ask.after.iter().map(|after| (after.id, after.condition.into())).collect::<Vec<_>>();
    let subject = Subject::New { request: Box::new(candidate.request), after, length };
    let has_time = || thread_time().saturating_sub(began) < DRY_RUN_TIME_MAX;
    let changes = queue.look(&candidate.record, jobs_per_gpu, &subject, &has_time);
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
        note: candidate.quota.or_else(|| changes.start.is_none().then(|| queue.why_unknown(&candidate.record, &changes))),
        starts_now: changes.start == Some(queue.fork.now),
        start: changes.start.map(when),
        end: end(changes.end),
        first_done: gpu_types.first().filter(|first| first.end.is_some()).map(|first| first.gpu_type.clone()),
        gpu_types,
        counterfactuals: queue.counterfactuals(&changes),
    }
}

/// A copy of the queue with what is believed of lengths.
struct Believed {
    fork: Fork,
    /// The moment of the copy, in nanoseconds since 1970.
    wall_ns: i64,
}

impl Believed {
    fn new(queue: QueueFork, learned: &Learned) -> Self {
        let wall_ns = queue.wall_ns;
        let lengths = queue.lengths(learned);
        Self { fork: queue.into_fork(lengths, None), wall_ns }
    }

    /// A moment of the queue's time in nanoseconds since 1970.
    fn wall(&self, time: Time) -> i64 {
        wall_of(time, self.fork.now, self.wall_ns)
    }

    /// What would start a job sooner, by its record. Time is that of this thread: on a busy machine a question gets the same answer.
    fn look(&self, record: &JobRecord, jobs_per_gpu: u16, subject: &Subject, has_time: &dyn Fn() -> bool) -> Changes {
        let state = &self.fork.engine.state;
        let ask = &record.spec.ask;
        let types = state.bound.cluster.types.iter().map(|kind| kind.name.as_str());
        let may_have = |name: &&str| ask.gpus > 0 && *name != CPU && (ask.gpus == 1 || !is_slice(name));
        let waiting = state.jobs.iter().filter(|job| job.phase == Phase::Waiting).count() as u64;
        let decisions_max = (1_000_000 / (waiting + 1)).clamp(DECISIONS_MIN, DECISIONS_MAX);
        let is_new = matches!(subject, Subject::New { .. });
        let may_share = ask.gpus == 1 && !ask.exclusive && ask.share.is_none();
        let options = ChangeOptions {
            gpu_types: types.filter(may_have).map(Into::into).collect(),
            share_by_memory: may_share.then(|| MilliGpu(MilliGpu::WHOLE.0 / jobs_per_gpu.max(1))),
            decisions_max,
            own_decisions_max: if is_new { DRY_RUN_DECISIONS_MAX } else { decisions_max },
            wants_types: is_new,
            has_time,
        };
        self.fork.changes(subject, &options)
    }

    fn counterfactuals(&self, changes: &Changes) -> Vec<Counterfactual> {
        let delay = |(id, by): &(u64, Span)| Delay { id: *id, seconds: by.seconds() };
        let found = changes.counterfactuals.iter().map(|found| Counterfactual {
            change: found.change.to_string(),
            start: rfc3339(self.wall(found.start)),
            is_now: found.start == self.fork.now,
            delays: found.delays.iter().map(delay).collect(),
        });
        found.collect()
    }

    /// Why it is not known when a job would start that is not submitted.
    fn why_unknown(&self, record: &JobRecord, changes: &Changes) -> String {
        if self.fork.engine.state.is_drained {
            return "the queue is drained: no job starts until `rota resume`".to_owned();
        }
        let is_unknown = |id: &u64| {
            let row = self.fork.numbers.iter().position(|number| number == id);
            row.is_some_and(|row| self.fork.lengths[row].is_unknown())
        };
        let mut awaited = record.spec.ask.after.iter().map(|after| after.id);
        match awaited.find(is_unknown) {
            Some(id) => format!("it would wait for job {id}, whose length is not known"),
            None if changes.is_never && record.spec.ask.after.is_empty() => GPUS_AWAY.to_owned(),
            None if !self.fork.knows_all_lengths() => "it depends on jobs whose lengths are not known".to_owned(),
            None if changes.is_never => "the jobs that it would wait for do not start".to_owned(),
            None => "its start is further ahead than is looked at".to_owned(),
        }
    }
}

/// How long this thread has run on a processor.
pub fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
}
