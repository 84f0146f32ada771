//! What would start a job sooner: the same fork, with the job asking for something else.
//!
//! A waiting job that asks for something else is withdrawn and submitted anew at this moment, as its user would do it; only a priority
//! is changed in place. Every length is the middle of what is believed. A change is listed if no smaller one of its kind starts the job
//! at once, or, where none does, starts it sooner than it would start as it is.

use crate::starts::Fork;
use crate::world::{Arrival, ArrivingWorld};
use crate::{RunLength, starts::FOR_EVER};
use rota_core::event::EventKind;
use rota_core::{End, Event, GpuId, JobChange, JobId, MilliGpu, NewJob, Phase, Span, Time};
use rota_engine::{Engine, Session, State};
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

/// The number of a job that is submitted in a trial.
const TRIAL_NUMBER: u64 = u64::MAX;
/// Delays of others that are named.
const DELAYS_MAX: usize = 3;
/// Delays below this are not worth a word.
const DELAY_MIN: Span = Span::from_whole_seconds(1);
/// Changes of one kind that are tried one after the other.
const STEPS_MAX: usize = 64;
/// Changes of one kind that are run forward where none starts the job at once.
const LATER_MAX: usize = 2;

/// What a job asks for instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// So many GPUs.
    Gpus(u32),
    /// A GPU type that it did not accept.
    GpuType(Box<str>),
    /// GPUs of several types together.
    AnyType,
    /// Any GPU, where it named some.
    AnyGpu,
    /// So much memory on each GPU.
    MemoryMib(u32),
    /// A higher priority.
    Priority(i32),
}

impl fmt::Display for Change {
    /// The options of `rota submit` that ask for it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpus(gpus) => write!(formatter, "--gpus {gpus}"),
            Self::GpuType(name) => write!(formatter, "--gpu-type {name}"),
            Self::AnyType => write!(formatter, "--any-type"),
            Self::AnyGpu => write!(formatter, "without --gpu-ids"),
            Self::MemoryMib(memory) => write!(formatter, "--memory {memory}"),
            Self::Priority(priority) => write!(formatter, "--priority {priority}"),
        }
    }
}

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
    /// A job that is not submitted, with what is believed of its length.
    New(Box<NewJob>, RunLength),
}

/// What came of looking for changes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The start of the job as it is, by the middle of what is believed; `None` if it was not reached.
    pub start: Option<Time>,
    /// The end of the job as it is, likewise.
    pub end: Option<Time>,
    /// The changes, those that start the job at once first.
    pub counterfactuals: Vec<Counterfactual>,
    /// For each GPU type the job could have: the type, and its start and end there.
    pub by_type: Vec<(Box<str>, Option<Time>, Option<Time>)>,
}

/// How changes are looked for.
pub struct ChangeOptions<'a> {
    /// GPU types that may be proposed.
    pub gpu_types: Vec<Box<str>>,
    /// Share of a GPU that a job has which is placed by its memory.
    pub share_by_memory: MilliGpu,
    /// Decisions that one trial may take.
    pub decisions_max: u64,
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

/// One trial: the fork with a change, on its way forward.
struct Trial {
    session: Session<ArrivingWorld>,
    row: JobId,
    start: Option<Time>,
    end: Option<Time>,
    /// The starts of other jobs, by row.
    starts: HashMap<JobId, Time>,
    next: Option<Time>,
    decisions: u64,
}

impl Trial {
    fn new(session: Session<ArrivingWorld>, row: JobId) -> Self {
        Self { session, row, start: None, end: None, starts: HashMap::new(), next: None, decisions: 0 }
    }

    /// Goes on while `until` says so of the next moment.
    fn go(&mut self, options: &ChangeOptions<'_>, mut until: impl FnMut(&Self, Time) -> bool) {
        loop {
            if self.next.is_none() {
                let mut told = Vec::new();
                let moment = self.session.advance(&mut |event| told.push(event.clone()));
                self.note(&told);
                let Some(moment) = moment else { return };
                self.next = Some(moment.now);
            }
            let Some(now) = self.next.filter(|now| until(self, *now)) else { return };
            if self.decisions >= options.decisions_max || now.0 >= FOR_EVER.0 / 2 || !(options.has_time)() {
                return;
            }
            let target = self.session.ask();
            let mut told = Vec::new();
            self.session.hand_in(&target, &mut |event| told.push(event.clone()));
            self.note(&told);
            self.decisions += 1;
            self.next = None;
        }
    }

    fn note(&mut self, told: &[Event]) {
        for event in told {
            match &event.kind {
                EventKind::Started { job, .. } if *job == self.row => {
                    self.start.get_or_insert(event.time_ns);
                }
                EventKind::Started { job, .. } => {
                    self.starts.entry(*job).or_insert(event.time_ns);
                }
                EventKind::Ended { job, end, .. } if *job == self.row && end.is_over() => self.end = Some(event.time_ns),
                _ => {}
            }
        }
    }

    /// Whether the job got a row: a request that no GPU could ever meet gets none.
    fn has_row(&self) -> bool {
        self.session.engine.state.jobs.len() > self.row.index()
    }
}

impl Fork {
    /// What would start a job sooner, and what that would cost others.
    pub fn changes(&self, subject: &Subject, options: &ChangeOptions<'_>) -> Changes {
        let engine = self.drawn(|_, _, _| 0.5);
        let Some(request) = self.request(&engine, subject) else { return Changes::default() };
        let mut base = match subject {
            Subject::Waiting(row) => Trial::new(self.session(engine.clone(), Arc::new([])), *row),
            Subject::New(..) => self.submitted(&engine, None, request.clone()),
        };
        base.go(options, |trial, now| now <= self.now && trial.start.is_none());
        // Whether a change starts the job at once takes one decision to find out; when it starts otherwise takes many.
        let mut tried = Vec::new();
        if base.start.is_none() {
            for kind in kinds(&engine.state, subject, &request, options) {
                if !(options.has_time)() {
                    break;
                }
                tried.push(self.at_once(&engine, subject, &request, kind, options));
            }
        }
        base.go(options, |trial, _| trial.end.is_none());
        let mut changes = Changes { start: base.start, end: base.end, ..Changes::default() };
        for found in tried {
            changes.counterfactuals.extend(match found {
                Tried::AtOnce(trial, change) => Some(self.costs(*trial, change, &base, options)),
                Tried::Later(later) => self.sooner(&engine, subject, &request, later, &base, options),
            });
        }
        changes.counterfactuals.sort_by_key(|found| found.start);
        if options.wants_types {
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
        kind: Vec<Change>,
        options: &ChangeOptions<'_>,
    ) -> Tried {
        let mut later = Vec::new();
        for change in kind.into_iter().take(STEPS_MAX) {
            if !(options.has_time)() {
                break;
            }
            let mut trial = self.trial(engine, subject, request, &change, options);
            trial.go(options, |trial, now| now <= self.now && trial.start.is_none());
            if trial.start == Some(self.now) {
                return Tried::AtOnce(Box::new(trial), change);
            }
            if trial.has_row() && later.len() < LATER_MAX {
                later.push(change);
            }
        }
        Tried::Later(later)
    }

    /// The first of some changes that starts the job sooner than it starts as it is.
    fn sooner(
        &self,
        engine: &Engine,
        subject: &Subject,
        request: &NewJob,
        later: Vec<Change>,
        base: &Trial,
        options: &ChangeOptions<'_>,
    ) -> Option<Counterfactual> {
        for change in later {
            if !(options.has_time)() {
                break;
            }
            // Where the job's own start was not found, it is known to be no sooner than what was looked at.
            let is_sooner = |start: Time| base.start.or(base.next).is_none_or(|base| start < base);
            let mut trial = self.trial(engine, subject, request, &change, options);
            trial.go(options, |trial, now| trial.start.is_none() && is_sooner(now));
            if trial.start.is_some_and(is_sooner) {
                return Some(self.costs(trial, change, base, options));
            }
        }
        None
    }

    /// Runs a trial on until its job has ended, and says which jobs start later than without the change.
    fn costs(&self, mut trial: Trial, change: Change, base: &Trial, options: &ChangeOptions<'_>) -> Counterfactual {
        trial.go(options, |trial, _| trial.end.is_none());
        let mut delays = Vec::new();
        for (row, start) in &trial.starts {
            if let (Some(before), Some(number)) = (base.starts.get(row), self.numbers.get(row.index())) {
                let delay = start.since(*before);
                if start > before && delay >= DELAY_MIN {
                    delays.push((*number, delay));
                }
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
            Subject::New(request, length) => {
                let is_accepted =
                    |name: &str| request.gpu_types.is_empty() || request.gpu_types.iter().any(|kind| **kind == *name);
                let types = engine.state.bound.cluster.types.iter().filter(|kind| is_accepted(&kind.name));
                let best = types.map(|kind| kind.speed).fold(0.0, f64::max);
                let seconds = length.total(0.0, 0.5).and_then(Span::from_seconds);
                let work = seconds.map_or(FOR_EVER, |span| span.work_at_speed(best)).max(Span(1));
                let mut request = (**request).clone();
                (request.job.arrival, request.job.work, request.job.steps) = (self.now, work, 0.0);
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

    fn trial(&self, engine: &Engine, subject: &Subject, request: &NewJob, change: &Change, options: &ChangeOptions<'_>) -> Trial {
        if let (Subject::Waiting(row), Change::Priority(priority)) = (subject, change) {
            let mut session = self.session(engine.clone(), Arc::new([]));
            let change = JobChange::Priority(*priority);
            session.replay(&Event::at(self.now, EventKind::Changed { job: *row, change, note: () }));
            return Trial::new(session, *row);
        }
        let old = if let Subject::Waiting(row) = subject { Some(*row) } else { None };
        self.submitted(engine, old, changed(request, change, options))
    }

    /// The fork in which a job is submitted now, in place of another.
    fn submitted(&self, engine: &Engine, old: Option<JobId>, request: NewJob) -> Trial {
        let arrival = Arrival { number: TRIAL_NUMBER, request, after: Vec::new() };
        let mut session = self.session(engine.clone(), Arc::new([arrival]));
        if let Some(old) = old {
            session.replay(&Event::at(self.now, EventKind::ended(old, End::Cancelled)));
        }
        Trial::new(session, JobId::from_index(self.numbers.len()))
    }
}

/// The request with a change. A gang of fewer GPUs is believed to run longer in proportion.
pub fn changed(request: &NewJob, change: &Change, options: &ChangeOptions<'_>) -> NewJob {
    let mut changed = request.clone();
    let job = &mut changed.job;
    match change {
        Change::Gpus(gpus) => {
            job.work = Span((job.work.0 as f64 * f64::from(job.gpus) / f64::from(*gpus)).min(FOR_EVER.0 as f64) as u64);
            job.gpus = *gpus;
        }
        Change::GpuType(name) => {
            changed.gpu_types = vec![name.clone()];
            (job.any_type, job.only) = (false, Box::default());
        }
        Change::AnyType => {
            job.any_type = true;
            changed.gpu_types.clone_from(&options.gpu_types);
        }
        Change::AnyGpu => job.only = Box::default(),
        Change::MemoryMib(memory) => {
            job.memory_mib = *memory;
            job.share = job.share.min(options.share_by_memory);
        }
        Change::Priority(priority) => job.priority = *priority,
    }
    changed
}

/// The changes that may help, each kind from small to large.
pub fn kinds(state: &State, subject: &Subject, request: &NewJob, options: &ChangeOptions<'_>) -> Vec<Vec<Change>> {
    let job = &request.job;
    let mut kinds = vec![(1..job.gpus).rev().map(Change::Gpus).collect::<Vec<_>>()];
    let others = options.gpu_types.iter().filter(|name| !request.gpu_types.is_empty() && !request.gpu_types.contains(name));
    let other_types = others.map(|name| vec![Change::GpuType(name.clone())]);
    kinds.extend(other_types);
    if job.gpus > 1 && !job.any_type && options.gpu_types.len() > 1 {
        kinds.push(vec![Change::AnyType]);
    }
    if !job.only.is_empty() {
        kinds.push(vec![Change::AnyGpu]);
    }
    if job.gpus == 1 {
        let needed = if job.memory_mib > 0 { job.memory_mib } else { u32::MAX };
        let levels = memory_left(state).into_iter().rev().filter(|left| *left < needed);
        kinds.push(levels.map(Change::MemoryMib).collect());
    }
    kinds.push(priorities(state, subject, job.priority).map(Change::Priority).collect());
    kinds
}

/// The memory that is left on GPUs that jobs share, in MiB, without repeats.
fn memory_left(state: &State) -> BTreeSet<u32> {
    let cluster = &state.bound.cluster;
    let mut taken = vec![Some(0_u32); cluster.gpus.len()];
    let mut is_shared = vec![false; cluster.gpus.len()];
    for (index, job) in state.jobs.iter().enumerate().filter(|(_, job)| job.phase.has_gpus()) {
        let shape = state.bound.shape(JobId::from_index(index));
        for gpu in &job.gpus {
            is_shared[gpu.index()] = true;
            let place = &mut taken[gpu.index()];
            *place =
                place.filter(|_| !shape.is_exclusive() && shape.memory_mib > 0).and_then(|sum| sum.checked_add(shape.memory_mib));
        }
    }
    let left = taken.iter().enumerate().filter(|(index, _)| is_shared[*index]).filter_map(|(index, taken)| {
        let gpu = GpuId::from_index(index);
        let outside = state.outside[index].memory_mib;
        cluster.type_of(gpu).memory_mib.checked_sub((*taken)?.checked_add(outside)?).filter(|left| *left > 0)
    });
    left.collect()
}

/// Priorities above the job's own that put it beside or before another waiting job, from small to large.
fn priorities(state: &State, subject: &Subject, own: i32) -> impl Iterator<Item = i32> + use<> {
    let is_other = |row: &usize| !matches!(subject, Subject::Waiting(job) if job.index() == *row);
    let waiting = state.jobs.iter().enumerate().filter(|(_, other)| other.phase == Phase::Waiting).map(|(row, _)| row);
    let others = waiting.filter(is_other).map(|row| state.bound.job(JobId::from_index(row)).priority);
    let steps = others.flat_map(|priority| [priority, priority.saturating_add(1)]).filter(|priority| *priority > own);
    steps.collect::<BTreeSet<_>>().into_iter()
}
