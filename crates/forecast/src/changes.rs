//! What would start a job sooner: the same fork, with the job asking for something else.
//!
//! A waiting job that asks for something else is withdrawn and submitted anew at this moment, as its user would do it; only a priority
//! is changed in place. Every length is the middle of what is believed. A change is listed if no smaller one of its kind starts the job
//! at once, or, where none does, starts it sooner than it would start as it is.

mod kinds;
mod trial;

pub use kinds::{Change, changed, kinds};

use crate::RunLength;
use crate::starts::{FOR_EVER, Fork};
use crate::world::Arrival;
use rota_core::event::EventKind;
use rota_core::{DependencyCondition, End, Event, JobChange, JobId, MilliGpu, NewJob, Phase, Span, Time};
use rota_engine::Engine;
use std::sync::Arc;
use trial::Trial;

/// The number of a job that is submitted in a trial.
const TRIAL_NUMBER: u64 = u64::MAX;
/// Delays of others that are named.
const DELAYS_MAX: usize = 3;
/// Delays below this are not worth a word.
const DELAY_MIN: Span = Span::from_whole_seconds(1);
/// Changes of one kind that are run forward where none starts the job at once.
const LATER_MAX: usize = 2;

/// A change, when the job starts with it, and the jobs that start later because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counterfactual {
    /// What the job asks for instead.
    pub change: Change,
    /// The start of the job with the change.
    pub start: Time,
    /// The jobs that are delayed most, by number, and by how long.
    pub delays: Vec<(u64, Span)>,
}

/// The job that is asked about.
#[derive(Clone, Debug)]
pub enum Subject {
    /// A job that waits, by its row.
    Waiting(JobId),
    /// A job that is not submitted.
    New {
        /// What it asks for.
        request: Box<NewJob>,
        /// The jobs that it waits for, by number.
        after: Vec<(u64, DependencyCondition)>,
        /// What is believed of its length.
        length: RunLength,
    },
}

/// What came of looking for changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The start of the job as it is, by the middle of what is believed; `None` if it was not reached.
    pub start: Option<Time>,
    /// The end of the job as it is, likewise.
    pub end: Option<Time>,
    /// Whether the job as it is never starts, whatever jobs end.
    pub is_never: bool,
    /// The changes, those that start the job at once first.
    pub counterfactuals: Vec<Counterfactual>,
    /// For each GPU type the job could have: the type, and its start and end there.
    pub by_type: Vec<(Box<str>, Option<Time>, Option<Time>)>,
}

/// How changes are looked for.
pub struct ChangeOptions<'a> {
    /// GPU types that may be proposed.
    pub gpu_types: Vec<Box<str>>,
    /// Share of a GPU that a job has which is placed by its memory; `None` for a job that must not be: its user asked for whole GPUs or for
    /// a share, or it needs no GPU.
    pub share_by_memory: Option<MilliGpu>,
    /// Decisions that one trial may take.
    pub decisions_max: u64,
    /// Decisions that running the job as it is may take.
    pub own_decisions_max: u64,
    /// Whether to say where the job would be done first.
    pub wants_types: bool,
    /// Whether there is time for another trial.
    pub has_time: &'a dyn Fn() -> bool,
}

/// What came of trying the changes of one kind.
enum Tried {
    /// This one starts the job at once.
    AtOnce(Box<Trial>, Change),
    /// None does; these may start it sooner.
    Later(Vec<Change>),
}

impl Fork {
    /// What would start a job sooner, and what that would cost others.
    pub fn changes(&self, subject: &Subject, options: &ChangeOptions<'_>) -> Changes {
        let engine = self.with_median_lengths();
        let Some(request) = self.request(&engine, subject) else { return Changes::default() };
        let mut base = match subject {
            Subject::Waiting(row) => {
                Trial::new(self, self.session(engine.clone(), Arc::new([])), *row, options.own_decisions_max)
            }
            Subject::New { .. } => self.submitted(&engine, subject, request.clone(), options.own_decisions_max),
        };
        base.go(options, |trial, now| now <= self.now && trial.start.is_none());
        if options.wants_types {
            // When the job starts as it is matters most to a user who has not submitted it.
            base.go(options, |trial, _| trial.start.is_none());
        }
        // Whether a change starts the job at once takes one decision to find out; when it starts otherwise takes many.
        let mut tried = Vec::new();
        if base.start != Some(self.now) {
            for kind in kinds(&engine.state, subject, &request, options) {
                if !(options.has_time)() {
                    break;
                }
                tried.push(self.at_once(&engine, subject, &request, &kind, options));
            }
        }
        // In long queues the job's own start is too far ahead to be reached in time. It is looked for as far as a change must be compared.
        let (mut counterfactuals, mut later) = (Vec::new(), Vec::new());
        for found in tried {
            match found {
                Tried::AtOnce(trial, change) => counterfactuals.push(self.costs(*trial, change, &mut base, options)),
                Tried::Later(changes) => later.push(changes),
            }
        }
        // A higher priority, the last kind, is found out soonest: the others may take all the time that there is.
        for changes in later.into_iter().rev() {
            counterfactuals.extend(self.sooner(&engine, subject, &request, changes, &mut base, options));
        }
        base.go(options, |trial, _| trial.end.is_none());
        counterfactuals.sort_by_key(|found| found.start);
        let is_never = base.start.is_none() && base.is_over;
        let mut changes = Changes { start: base.start, end: base.end, is_never, counterfactuals, ..Changes::default() };
        if options.wants_types && request.job.only.is_empty() {
            changes.by_type = self.by_type(&engine, subject, &request, options);
        }
        changes
    }

    /// The smallest change of one kind that starts the job at once; where there is none, the first changes that could start it later.
    fn at_once(
        &self,
        engine: &Engine,
        subject: &Subject,
        request: &NewJob,
        kind: &[Change],
        options: &ChangeOptions<'_>,
    ) -> Tried {
        if let [.., Change::Priority(_)] = kind {
            return self.least_priority_at_once(engine, subject, request, kind, options);
        }
        let mut later = Vec::new();
        for change in kind {
            if !(options.has_time)() {
                break;
            }
            let trial = self.trial_of_now(engine, subject, request, change, options);
            if trial.start == Some(self.now) {
                return Tried::AtOnce(Box::new(trial), change.clone());
            }
            if trial.has_row() && later.len() < LATER_MAX {
                later.push(change.clone());
            }
        }
        Tried::Later(later)
    }

    /// The same of priorities: a higher one never starts the job later, so that the smallest is found by halving.
    fn least_priority_at_once(
        &self,
        engine: &Engine,
        subject: &Subject,
        request: &NewJob,
        kind: &[Change],
        options: &ChangeOptions<'_>,
    ) -> Tried {
        let mut found = None;
        let (mut low, mut high) = (0, kind.len());
        while low < high && (options.has_time)() {
            // The highest comes first: where it does not help, none does.
            let place = if found.is_none() { high - 1 } else { usize::midpoint(low, high) };
            let trial = self.trial_of_now(engine, subject, request, &kind[place], options);
            if trial.start == Some(self.now) {
                found = Some((trial, &kind[place]));
                high = place;
            } else if found.is_none() {
                break;
            } else {
                low = place + 1;
            }
        }
        match found {
            // Where time ran out, a smaller one might do.
            Some(_) if low < high => Tried::Later(Vec::new()),
            Some((trial, change)) => Tried::AtOnce(Box::new(trial), change.clone()),
            None => Tried::Later(kind.iter().take(LATER_MAX).cloned().collect()),
        }
    }

    /// A trial of one change that was run as far as this moment.
    fn trial_of_now(
        &self,
        engine: &Engine,
        subject: &Subject,
        request: &NewJob,
        change: &Change,
        options: &ChangeOptions<'_>,
    ) -> Trial {
        let mut trial = self.trial(engine, subject, request, change, options);
        trial.go(options, |trial, now| now <= self.now && trial.start.is_none());
        trial
    }

    /// The first of some changes that starts the job sooner than it starts as it is.
    fn sooner(
        &self,
        engine: &Engine,
        subject: &Subject,
        request: &NewJob,
        later: Vec<Change>,
        base: &mut Trial,
        options: &ChangeOptions<'_>,
    ) -> Option<Counterfactual> {
        for change in later {
            if !(options.has_time)() {
                break;
            }
            let mut trial = self.trial(engine, subject, request, &change, options);
            trial.go(options, |trial, now| trial.start.is_none() && base.start.is_none_or(|start| now < start));
            let Some(start) = trial.start else { continue };
            base.go(options, |base, now| base.start.is_none() && now <= start);
            // Where the job's own start was not found, it is known to be no sooner than what was looked at.
            if base.start.or(base.next).is_none_or(|own| start < own) {
                return Some(self.costs(trial, change, base, options));
            }
        }
        None
    }

    /// Runs a trial on until its job has ended, others have its GPUs, and the jobs that were stopped for it run again. Says which jobs start
    /// later than without the change, or wait longer after they were stopped.
    fn costs(&self, mut trial: Trial, change: Change, base: &mut Trial, options: &ChangeOptions<'_>) -> Counterfactual {
        trial.go(options, |trial, now| trial.end.is_none_or(|end| now <= end) || trial.has_displaced());
        let last = trial.now();
        base.go(options, |_, now| now <= last);
        let mut delays = Vec::new();
        for (row, number) in self.numbers.iter().enumerate() {
            let job = JobId::from_index(row);
            let starts = trial.starts.get(&job).zip(base.starts.get(&job));
            let later = starts.map_or(Span::ZERO, |(start, before)| start.since(*before));
            let delay = Span(later.0 + trial.waited_again(job).minus(base.waited_again(job)).0);
            if job != trial.row && delay >= DELAY_MIN {
                delays.push((*number, delay));
            }
        }
        delays.sort_by_key(|(number, delay)| (std::cmp::Reverse(*delay), *number));
        delays.truncate(DELAYS_MAX);
        Counterfactual { change, start: trial.start.unwrap_or(self.now), delays }
    }

    /// The start and end of the job on each type that it could have.
    fn by_type(
        &self,
        engine: &Engine,
        subject: &Subject,
        request: &NewJob,
        options: &ChangeOptions<'_>,
    ) -> Vec<(Box<str>, Option<Time>, Option<Time>)> {
        let mut found = Vec::new();
        for name in &options.gpu_types {
            if !(options.has_time)() {
                break;
            }
            let mut trial = self.trial(engine, subject, request, &Change::GpuType(name.clone()), options);
            trial.go(options, |trial, _| trial.end.is_none());
            if trial.has_row() {
                found.push((name.clone(), trial.start, trial.end));
            }
        }
        found.sort_by_key(|(_, _, end)| (end.is_none(), *end));
        found
    }

    /// What a job asks for, as if it were submitted now, with its length.
    fn request(&self, engine: &Engine, subject: &Subject) -> Option<NewJob> {
        let row = match subject {
            Subject::New { request, length, .. } => {
                let mut request = (**request).clone();
                (request.job.arrival, request.job.steps, request.job.after) = (self.now, 0.0, Box::default());
                let best = self.best_speed(engine, &request);
                let seconds = length.total(0.0, 0.5).and_then(Span::from_seconds);
                request.job.work = seconds.unwrap_or(FOR_EVER).work_at_speed(best).max(Span(1));
                return Some(request);
            }
            Subject::Waiting(row) => *row,
        };
        let bound = &engine.state.bound;
        if engine.state.jobs.get(row.index())?.phase != Phase::Waiting {
            return None;
        }
        let mut job = bound.whole_job(row);
        let name = |name| Box::from(bound.names.text(name));
        let (user, project, job_type) = (name(job.user), name(job.project), name(job.kind));
        let gpu_types = job.gpu_types.iter().map(|kind| name(*kind)).collect();
        (job.arrival, job.after, job.steps) = (self.now, Box::default(), 0.0);
        Some(NewJob { job, user, project, job_type, gpu_types })
    }

    /// The speed of a job that is not submitted on its best GPU type: measured, of its job type, or of the GPU type.
    fn best_speed(&self, engine: &Engine, request: &NewJob) -> f64 {
        let mut engine = engine.clone();
        let job = JobId::from_index(self.numbers.len());
        engine.record(&Event::at(self.now, EventKind::Admitted { job, request: Box::new(request.clone()) }));
        let is_there = engine.state.jobs.len() > job.index();
        if is_there { engine.state.bound.best_speed(job) } else { 1.0 }
    }

    fn trial(&self, engine: &Engine, subject: &Subject, request: &NewJob, change: &Change, options: &ChangeOptions<'_>) -> Trial {
        if let (Subject::Waiting(row), Change::Priority(priority)) = (subject, change) {
            let mut session = self.session(engine.clone(), Arc::new([]));
            let change = JobChange::Priority(*priority);
            session.replay(&Event::at(self.now, EventKind::Changed { job: *row, change, note: () }));
            return Trial::new(self, session, *row, options.decisions_max);
        }
        self.submitted(engine, subject, changed(request, change, options), options.decisions_max)
    }

    /// The fork in which a job is submitted now, in place of the one that waits.
    fn submitted(&self, engine: &Engine, subject: &Subject, request: NewJob, decisions_max: u64) -> Trial {
        let after = if let Subject::New { after, .. } = subject { after.clone() } else { Vec::new() };
        let arrival = Arrival { number: TRIAL_NUMBER, request, after };
        let mut session = self.session(engine.clone(), Arc::new([arrival]));
        if let Subject::Waiting(old) = subject {
            let let_go = session.world.withdrawn(*old, &engine.state);
            session.replay(&Event::at(self.now, EventKind::ended(*old, End::Cancelled)));
            for event in &let_go {
                session.replay(event);
            }
        }
        Trial::new(self, session, JobId::from_index(self.numbers.len()), decisions_max)
    }
}
