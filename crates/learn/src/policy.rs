//! `learned:model=FILE`: a trained model decides who runs next.
//!
//! The model gives a score to the waiting jobs (and, where it may preempt, to the running ones); the highest score runs first. A model
//! that goes by nothing that changes while a job waits scores a job again only when something happened to that job, when it reached a
//! further step of run time, or when much was learned about durations. Any other model scores the queue at every decision, but no more
//! than [`ROWS_MAX`] waiting jobs beside new ones: those that stand first. So the cost of a decision is bounded, however long the queue.

use crate::features::{self, JobFacts, Taught};
use crate::guard::{Guard, Made};
use crate::model::{Model, Ranges};
use crate::room::{Room, memory_of_largest};
use rota_core::{Backfill, Durations, JobId, JobView, Name, Phase, Preempt, Renumbering, Rule, Snapshot, Target, Wish};
use rota_nn::Workspace;
use rota_policy::history::{Tracker, attained_seconds, steps};
use rota_policy::registry::{Build, PLAIN};
use rota_policy::{
    Context, GittinsTable, Knows, MemoryError, Param, Params, Policy, PolicyError, PolicyInfo, Registry, Remember,
};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

/// Waiting jobs that are scored again in one decision.
pub const ROWS_MAX: usize = 256;
/// How much of a user's recent mean the next job's run time becomes.
pub(crate) const RECENT_WEIGHT: f64 = 0.2;
/// All jobs are scored again when this much was learned about durations: steps reached and jobs ended.
const RENEW_AFTER: u64 = 512;
/// The chance with which a job ends within the time that `log_history_likely` tells.
pub(crate) const LIKELY: f64 = 0.65;

/// The Gittins index of a job by its estimate, which is taken to be wrong by a factor of e now and then.
static BY_ESTIMATE: LazyLock<GittinsTable> = LazyLock::new(|| GittinsTable::new(1.0));

/// The Gittins index of a job with this estimate that has run for so many seconds.
pub(crate) fn estimate_index(attained_seconds: f64, estimate_seconds: f64) -> f64 {
    let estimate = estimate_seconds.max(1.0);
    BY_ESTIMATE.index(attained_seconds / estimate) / estimate
}

/// Parameters of `learned`.
const PARAMS: &[Param] = &[
    Param { name: "model", default: "", meaning: "the model file, as `rota learn train` writes it" },
    Param { name: "guard", default: "", meaning: "a policy that decides instead while the model does worse on recent jobs" },
    Param {
        name: "patience",
        default: "604800",
        meaning: "seconds after which a waiting job goes first, whatever its score, and a guard takes over",
    },
    Param {
        name: "estimates",
        default: "user",
        meaning: "user: the user's estimate, or the true length where there is none; history: what earlier jobs taught",
    },
];

/// What the policy remembers between decisions.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Memory {
    /// Waiting jobs with their rank.
    waiting: BTreeMap<JobId, f64>,
    /// Running jobs with their rank.
    running: BTreeMap<JobId, f64>,
    /// Mean run time in seconds of each user's recent jobs.
    recent: HashMap<Name, f64>,
    /// What jobs taught about durations, and when running jobs get to the next step of run time.
    tracker: Tracker,
    /// How much had been learned when all jobs were scored last.
    renewed_at: u64,
    rows_scored: u64,
    rows_strange: u64,
    /// How many strange rows must be seen before they are told of again.
    tell_strange_at: u64,
}

/// What a model needs to be told, by its weights.
#[derive(Clone, Copy)]
struct Needs {
    /// Whether scores change while jobs wait.
    restless: bool,
    history: bool,
    user_recent: bool,
}

/// The policy that ranks jobs by a model's scores.
pub struct Learned {
    model: Arc<Model>,
    needs: Needs,
    rule: Rule,
    patience_seconds: f64,
    memory: Memory,
    guard: Option<Guard>,
    rows: Vec<f32>,
    workspace: Workspace,
    /// Where the ranges of features are noted, after a training.
    seen: Option<Arc<Mutex<Ranges>>>,
    /// The time that this thread has used.
    clock: fn() -> Duration,
}

/// The processor time of this thread. Other processes do not add to it, so a busy machine makes no model slow.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

impl Learned {
    /// A policy that goes by this model alone.
    pub fn new(model: Arc<Model>) -> Self {
        let backfill = match (model.header.used.pass, model.header.used.reserve) {
            (false, _) => Backfill::None,
            (true, false) => Backfill::Greedy,
            (true, true) => Backfill::Easy,
        };
        let rule = if model.header.used.preempt { Rule::preemptive(Preempt::Always) } else { Rule::run_to_end(backfill) };
        let memory = Memory { tell_strange_at: 100, ..Memory::default() };
        let uses = |names: &[&str]| names.iter().any(|name| model.uses(features::place(name)));
        let needs = Needs {
            restless: uses(&features::RESTLESS),
            history: uses(&features::FROM_HISTORY),
            user_recent: uses(&["log_user_recent"]),
        };
        Self {
            model,
            needs,
            rule,
            patience_seconds: f64::INFINITY,
            memory,
            guard: None,
            rows: Vec::new(),
            workspace: Workspace::default(),
            seen: None,
            clock: thread_time,
        }
    }

    /// Notes the range of every feature it sees.
    #[must_use]
    pub fn noting(mut self, seen: Option<Arc<Mutex<Ranges>>>) -> Self {
        if seen.is_some() {
            // All features are noted, not only those that this model goes by.
            self.needs = Needs { restless: self.needs.restless, history: true, user_recent: true };
        }
        self.seen = seen;
        self
    }

    fn may_know(&self, view: &JobView<'_>, snapshot: &Snapshot<'_>) -> bool {
        self.model.header.used.estimates && (view.job.estimate.is_some() || snapshot.durations == Durations::Known)
    }

    fn tracks(&self) -> bool {
        self.needs.history || self.model.header.used.preempt
    }

    /// Takes in which jobs wait and run now.
    fn follow(&mut self, snapshot: &Snapshot<'_>) {
        if self.tracks() {
            self.memory.tracker.follow(snapshot);
        }
        for view in snapshot.changed_jobs() {
            let job = view.id();
            let rank = self.memory.waiting.remove(&job).or(self.memory.running.remove(&job)).unwrap_or(f64::NEG_INFINITY);
            match view.state.phase {
                Phase::Waiting => drop(self.memory.waiting.insert(job, f64::NEG_INFINITY)),
                Phase::Running | Phase::Stopping => drop(self.memory.running.insert(job, rank)),
                Phase::Finished if self.needs.user_recent => {
                    let width = f64::from(view.job.gpus) * view.job.share.fraction();
                    let seconds = view.state.service.seconds() / width.max(1e-3);
                    let mean = self.memory.recent.entry(view.job.user).or_insert(seconds);
                    *mean += RECENT_WEIGHT * (seconds - *mean);
                }
                _ => {}
            }
        }
    }

    fn room(&self, snapshot: &Snapshot<'_>) -> Room {
        if !self.needs.restless && self.seen.is_none() {
            return Room::unseen(snapshot);
        }
        let running = self.memory.running.keys().copied();
        Room::new(running, self.memory.waiting.len(), snapshot, |view| self.may_know(view, snapshot))
    }

    /// What earlier jobs taught about this one.
    fn taught(&mut self, view: &JobView<'_>) -> Option<Taught> {
        if !self.needs.history {
            return None;
        }
        let attained = attained_seconds(view);
        let index = self.memory.tracker.index(view.id(), attained);
        let belief = self.memory.tracker.belief(view.id())?;
        let longest = steps::end_seconds(steps::STEPS);
        let within = |chance| belief.quantile(attained, chance).unwrap_or(longest);
        Some(Taught {
            index,
            median_seconds: within(0.5),
            likely_seconds: within(LIKELY),
            mean_seconds: belief.mean_remaining(attained),
        })
    }

    fn push_row(&mut self, job: JobId, room: &Room, snapshot: &Snapshot<'_>) {
        let view = snapshot.view(job);
        let knows = self.may_know(&view, snapshot);
        let (gpus, share) = (f64::from(view.job.gpus), view.job.share.fraction());
        let memory = f64::from(view.job.memory_mib) / memory_of_largest(snapshot);
        let alignment = room.alignment(gpus, share, memory);
        let facts = JobFacts {
            wait_seconds: snapshot.now.since(view.job.arrival).seconds(),
            submitted_second: view.job.arrival.seconds(),
            estimate_seconds: knows.then(|| view.believed_seconds()),
            remaining_seconds: knows.then(|| view.believed_remaining().seconds()),
            estimate_index: knows.then(|| estimate_index(attained_seconds(&view), view.believed_seconds())),
            gpus,
            share,
            memory,
            attained_seconds: view.service().seconds(),
            priority: f64::from(view.job.priority),
            fits_now: alignment.is_some(),
            alignment: alignment.unwrap_or(0.0),
            running: view.state.phase.has_gpus(),
            user_recent_seconds: self.memory.recent.get(&view.job.user).copied(),
            taught: self.taught(&view),
            earliest_start_seconds: if alignment.is_some() { 0.0 } else { room.seconds_until(gpus) },
        };
        features::push_row(&mut self.rows, &facts, &room.cluster);
    }

    /// The jobs to score.
    fn jobs_to_score(&mut self, snapshot: &Snapshot<'_>) -> Vec<JobId> {
        let preempts = self.model.header.used.preempt;
        let version = self.memory.tracker.version();
        let is_renewed = self.needs.history && version.abs_diff(self.memory.renewed_at) >= RENEW_AFTER;
        if is_renewed {
            self.memory.renewed_at = version;
        }
        let Memory { waiting, running, tracker, .. } = &self.memory;
        if !self.needs.restless && !is_renewed {
            let crossed = if preempts { tracker.crossed() } else { &[] };
            let scored = |job: &JobId| waiting.contains_key(job) || (preempts && running.contains_key(job));
            return snapshot.changed.iter().chain(crossed).copied().filter(scored).collect();
        }
        let mut jobs = if waiting.len() <= ROWS_MAX || is_renewed {
            waiting.keys().copied().collect::<Vec<_>>()
        } else {
            // New jobs have the smallest rank of all, so they come first and are always among them.
            let new = waiting.values().filter(|rank| **rank == f64::NEG_INFINITY).count();
            let mut by_rank = waiting.iter().map(|(job, rank)| (*rank, *job)).collect::<Vec<_>>();
            by_rank.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            by_rank.truncate(ROWS_MAX.max(new));
            by_rank.into_iter().map(|(_, job)| job).collect()
        };
        if preempts {
            jobs.extend(running.keys().copied());
        }
        jobs
    }

    /// The model's ranks for the jobs it looked at. `None` if a score is no number.
    fn ranks(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Option<Vec<(JobId, f64)>> {
        let room = self.room(snapshot);
        let jobs = self.jobs_to_score(snapshot);
        self.rows.clear();
        for &job in &jobs {
            self.push_row(job, &room, snapshot);
        }
        self.note_strange(jobs.len(), context);
        if let Some(seen) = self.seen.as_ref().and_then(|seen| seen.lock().ok()).as_mut() {
            seen.note(&self.rows);
        }
        let scores = self.model.scores(&self.rows, &mut self.workspace);
        if scores.iter().any(|score| !score.is_finite()) {
            return None;
        }
        let ranks = jobs.into_iter().zip(scores).map(|(job, score)| (job, -f64::from(*score))).collect::<Vec<_>>();
        for &(job, rank) in &ranks {
            if let Some(kept) = self.memory.waiting.get_mut(&job).or(self.memory.running.get_mut(&job)) {
                *kept = rank;
            }
        }
        Some(self.impatient(ranks, snapshot))
    }

    /// The longest wait, where it is beyond the limit.
    fn waited_too_long(&self, snapshot: &Snapshot<'_>) -> Option<f64> {
        let oldest = self.memory.waiting.keys().next()?;
        let seconds = snapshot.now.since(snapshot.bound.job(*oldest).arrival).seconds();
        (seconds > self.patience_seconds).then_some(seconds)
    }

    /// Puts jobs that have waited for too long first, the longest wait before the others.
    fn impatient(&self, mut ranks: Vec<(JobId, f64)>, snapshot: &Snapshot<'_>) -> Vec<(JobId, f64)> {
        if self.patience_seconds.is_infinite() {
            return ranks;
        }
        let waited = |job: JobId| snapshot.now.since(snapshot.bound.job(job).arrival).seconds();
        // Jobs come in the order of their arrival, so all that waited for too long stand at the beginning.
        let late = self.memory.waiting.keys().take_while(|job| waited(**job) > self.patience_seconds);
        let late = late.map(|job| (*job, -1e12 - waited(*job))).collect::<BTreeMap<_, _>>();
        ranks.retain(|(job, _)| !late.contains_key(job));
        ranks.extend(late);
        ranks
    }

    fn note_strange(&mut self, rows: usize, context: &mut Context) {
        let memory = &mut self.memory;
        memory.rows_scored += rows as u64;
        memory.rows_strange += self.model.strange_rows(&self.rows) as u64;
        if memory.rows_strange >= memory.tell_strange_at {
            context.problems.push(format!(
                "learned: {} of {} jobs looked at were far outside what the model was trained on; its choices for them are guesses",
                memory.rows_strange, memory.rows_scored
            ));
            memory.tell_strange_at = memory.rows_strange.saturating_mul(10);
        }
    }
}

impl Policy for Learned {
    fn decide(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Target {
        let began = (self.clock)();
        self.follow(snapshot);
        let ranks = self.ranks(snapshot, context);
        let made = Made { took: (self.clock)().saturating_sub(began), waited_too_long: self.waited_too_long(snapshot) };
        let own = ranks.map(|ranks| {
            let mut target = Target::order(self.rule, ranks);
            if self.model.header.used.preempt {
                target.review_at = self.memory.tracker.next_crossing();
            }
            target
        });
        match &mut self.guard {
            Some(guard) => {
                let all = self.memory.waiting.iter().chain(&self.memory.running).map(|(job, rank)| (*job, *rank));
                guard.decide(own, all, made, &self.model, snapshot, context)
            }
            None => own.unwrap_or_else(|| {
                context
                    .problems
                    .push("learned: the model gave a score that is no number; jobs go in order of arrival".to_owned());
                Target::order(self.rule, self.memory.waiting.keys().map(|&job| (job, 0.0)).collect::<Vec<_>>())
            }),
        }
    }

    fn begin_forecast(&mut self) {
        self.memory.tracker.close();
        if let Some(guard) = &mut self.guard {
            guard.begin_forecast();
        }
    }

    fn trackers(&mut self) -> Vec<&mut Tracker> {
        let own = self.tracks().then_some(&mut self.memory.tracker);
        let guard = self.guard.as_mut().map(Guard::trackers);
        own.into_iter().chain(guard.into_iter().flatten()).collect()
    }

    fn renumber(&mut self, rows: &Renumbering) {
        for ranks in [&mut self.memory.waiting, &mut self.memory.running] {
            *ranks = std::mem::take(ranks).into_iter().filter_map(|(job, rank)| Some((rows.new_of(job)?, rank))).collect();
        }
        self.memory.tracker.renumber(rows);
        if let Some(guard) = &mut self.guard {
            guard.renumber(rows);
        }
    }
}

// The model is of the file and not of the memory: a restart reads the file again.
impl Remember for Learned {
    fn fork(&self) -> Box<dyn Policy> {
        Box::new(Self {
            model: Arc::clone(&self.model),
            needs: self.needs,
            rule: self.rule,
            patience_seconds: self.patience_seconds,
            memory: self.memory.clone(),
            guard: self.guard.clone(),
            rows: Vec::new(),
            workspace: Workspace::default(),
            seen: self.seen.clone(),
            clock: self.clock,
        })
    }

    fn save(&self) -> Vec<u8> {
        let guard = self.guard.as_ref().map(Guard::save);
        postcard::to_allocvec(&(&self.memory, guard)).unwrap_or_default()
    }

    fn load(&mut self, bytes: &[u8]) -> Result<(), MemoryError> {
        let (memory, guard) = postcard::from_bytes::<(Memory, Option<crate::guard::Saved>)>(bytes)
            .map_err(|error| MemoryError(error.to_string()))?;
        self.memory = memory;
        if let (Some(guard), Some(saved)) = (&mut self.guard, guard) {
            guard.load(saved)?;
        }
        Ok(())
    }
}

/// Sees what a model would see, beside a policy that decides.
pub(crate) struct Observer {
    learned: Learned,
    /// The rank that the policy gave each job.
    ranks: BTreeMap<JobId, f64>,
}

impl Observer {
    /// An observer that sees what a model sees that is used like this.
    pub fn new(used: crate::model::Use) -> Self {
        Self { learned: Learned::seeing_all(Arc::new(Model::blank(used))), ranks: BTreeMap::new() }
    }

    /// The rows of the waiting jobs and the place of the one ranked first; `None` where there is nothing to choose.
    pub fn look(&mut self, snapshot: &Snapshot<'_>, target: &Target) -> Option<(Vec<f32>, usize)> {
        self.learned.follow(snapshot);
        let Wish::Order { ranks, .. } = &target.wish else { return None };
        self.ranks.extend(ranks.iter().copied());
        let waiting = self.learned.memory.waiting.keys().copied().take(ROWS_MAX).collect::<Vec<_>>();
        if waiting.len() < 2 {
            return None;
        }
        let rank = |job: &JobId| self.ranks.get(job).copied().unwrap_or(0.0);
        let choice = (0..waiting.len()).min_by(|a, b| rank(&waiting[*a]).total_cmp(&rank(&waiting[*b])).then(a.cmp(b)))?;
        let room = self.learned.room(snapshot);
        self.learned.rows.clear();
        for job in waiting {
            self.learned.push_row(job, &room, snapshot);
        }
        Some((self.learned.rows.clone(), choice))
    }
}

/// Builds the policy `learned`.
fn build(params: &Params<'_>) -> Result<Box<dyn Policy>, PolicyError> {
    let file = params.word("model");
    let bad = |parameter: &'static str, given: &str, expected: String| PolicyError::BadValue {
        policy: "learned",
        parameter,
        given: given.to_owned(),
        expected,
    };
    if file.is_empty() {
        return Err(bad("model", file, "a model file, as `rota learn train` writes it".to_owned()));
    }
    if !matches!(params.word("estimates"), "user" | "history") {
        return Err(bad("estimates", params.word("estimates"), "user or history".to_owned()));
    }
    let model = Model::read(Path::new(file), &features::NAMES)
        .map_err(|error| bad("model", file, format!("a model file that can be used: {error}")))?;
    let mut learned = Learned::new(Arc::new(model));
    learned.patience_seconds = params.number("patience", 1.0, 1e12)?;
    let guard = params.word("guard");
    if !guard.is_empty() {
        learned.guard = Some(Guard::new(rota_policy::build(guard)?));
    }
    Ok(Box::new(learned))
}

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| {
    let mut registry = Registry::default();
    registry.add(PolicyInfo {
        name: "learned",
        summary: "a trained model gives each job a score; the highest runs first",
        params: PARAMS,
        preemptive: true,
        knows: Knows::Durations,
        build: Build::Closure(Arc::new(build)),
        ..PLAIN
    });
    registry
});

/// Every policy there is, `learned` among them.
pub fn registry() -> &'static Registry {
    &REGISTRY
}

mod seeing;
#[cfg(test)]
mod tests;
