//! `learned:model=FILE`: a trained model decides who runs next.
//!
//! At every decision the model gives a score to the waiting jobs (and, where it may preempt, to the running ones); the highest score runs
//! first. A decision looks at no more than [`ROWS_MAX`] waiting jobs beside new ones: those that stand first. So its cost is bounded,
//! however long the queue is.

use crate::features::{self, ClusterFacts, JobFacts};
use crate::guard::Guard;
use crate::model::{Model, Ranges};
use rota_core::{Backfill, Durations, JobId, JobView, Name, Phase, Preempt, Renumbering, Rule, Snapshot, Target};
use rota_nn::Workspace;
use rota_policy::registry::{Build, PLAIN};
use rota_policy::{Context, Knows, MemoryError, Param, Params, Policy, PolicyError, PolicyInfo, Registry, Remember};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::sync::{Arc, LazyLock, Mutex};

/// Waiting jobs that are scored again in one decision.
pub const ROWS_MAX: usize = 256;
/// How much of a user's recent mean the next job's run time becomes.
const RECENT_WEIGHT: f64 = 0.2;

/// Parameters of `learned`.
const PARAMS: &[Param] = &[
    Param { name: "model", default: "", meaning: "the model file, as `rota learn train` writes it" },
    Param { name: "guard", default: "", meaning: "a policy that decides instead while the model does worse on recent jobs" },
    Param { name: "patience", default: "604800", meaning: "seconds after which a waiting job goes first, whatever its score" },
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
    running: BTreeSet<JobId>,
    /// Mean run time in seconds of each user's recent jobs.
    recent: HashMap<Name, f64>,
    rows_scored: u64,
    rows_strange: u64,
    /// How many strange rows must be seen before they are told of again.
    tell_strange_at: u64,
}

/// The policy.
pub struct Learned {
    model: Arc<Model>,
    rule: Rule,
    patience_seconds: f64,
    memory: Memory,
    guard: Option<Guard>,
    rows: Vec<f32>,
    workspace: Workspace,
    /// Where the ranges of features are noted, after a training.
    seen: Option<Arc<Mutex<Ranges>>>,
}

/// What is free now, and when more will be.
struct Room {
    cluster: ClusterFacts,
    idle_gpus: f64,
    largest_share: f64,
    /// Seconds from now with the GPUs that are believed free then, ascending in both.
    releases: Vec<(f64, f64)>,
}

impl Learned {
    /// A policy that goes by this model alone.
    pub fn new(model: Arc<Model>) -> Self {
        let backfill = if model.header.used.pass { Backfill::Greedy } else { Backfill::None };
        let rule = if model.header.used.preempt { Rule::preemptive(Preempt::Always) } else { Rule::run_to_end(backfill) };
        let memory = Memory { tell_strange_at: 1000, ..Memory::default() };
        Self {
            model,
            rule,
            patience_seconds: f64::INFINITY,
            memory,
            guard: None,
            rows: Vec::new(),
            workspace: Workspace::default(),
            seen: None,
        }
    }

    /// Notes the range of every feature it sees.
    #[must_use]
    pub fn noting(mut self, seen: Option<Arc<Mutex<Ranges>>>) -> Self {
        self.seen = seen;
        self
    }

    fn may_know(&self, view: &JobView<'_>, snapshot: &Snapshot<'_>) -> bool {
        self.model.header.used.estimates && (view.job.estimate.is_some() || snapshot.durations == Durations::Known)
    }

    /// Takes in which jobs wait and run now.
    fn follow(&mut self, snapshot: &Snapshot<'_>) {
        for view in snapshot.changed_jobs() {
            let job = view.id();
            self.memory.waiting.remove(&job);
            self.memory.running.remove(&job);
            match view.state.phase {
                Phase::Waiting => drop(self.memory.waiting.insert(job, f64::NEG_INFINITY)),
                Phase::Running | Phase::Stopping => drop(self.memory.running.insert(job)),
                Phase::Finished => {
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
        let gpus = snapshot.capacities().iter().sum::<f64>();
        let mut used = HashMap::new();
        let mut releases = Vec::new();
        let mut busy = 0.0;
        for &job in &self.memory.running {
            let view = snapshot.view(job);
            let share = view.job.share.fraction();
            busy += share * f64::from(view.job.gpus);
            view.state.gpus.iter().for_each(|gpu| *used.entry(gpu.index()).or_insert(0.0) += share);
            if self.may_know(&view, snapshot) {
                releases.push((view.believed_remaining().seconds(), f64::from(view.job.gpus)));
            }
        }
        let idle_gpus = (gpus - used.len() as f64).max(0.0);
        let largest_share = if idle_gpus >= 1.0 { 1.0 } else { used.values().map(|used: &f64| 1.0 - used).fold(0.0, f64::max) };
        releases.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = idle_gpus;
        for (_, gpus) in &mut releases {
            free += *gpus;
            *gpus = free;
        }
        let cluster = ClusterFacts { free: (1.0 - busy / gpus.max(1.0)).max(0.0), gpus, waiting: self.memory.waiting.len() };
        Room { cluster, idle_gpus, largest_share, releases }
    }

    fn push_row(&mut self, job: JobId, room: &Room, snapshot: &Snapshot<'_>) {
        let view = snapshot.view(job);
        let knows = self.may_know(&view, snapshot);
        let (gpus, share) = (f64::from(view.job.gpus), view.job.share.fraction());
        let fits_now = if share < 1.0 { share <= room.largest_share + 1e-9 } else { gpus <= room.idle_gpus };
        let later = room.releases.partition_point(|(_, free)| *free < gpus);
        let later = room.releases.get(later).map_or(0.0, |(seconds, _)| *seconds);
        let gpu_memory = snapshot.bound.cluster.types.iter().map(|kind| kind.memory_mib).max().unwrap_or(0);
        let facts = JobFacts {
            wait_seconds: snapshot.now.since(view.job.arrival).seconds(),
            estimate_seconds: knows.then(|| view.believed_seconds()),
            remaining_seconds: knows.then(|| view.believed_remaining().seconds()),
            gpus,
            share,
            memory: f64::from(view.job.memory_mib) / f64::from(gpu_memory.max(1)),
            attained_seconds: view.service().seconds(),
            priority: f64::from(view.job.priority),
            fits_now,
            running: view.state.phase.has_gpus(),
            user_recent_seconds: self.memory.recent.get(&view.job.user).copied(),
            earliest_start_seconds: if fits_now { 0.0 } else { later },
        };
        features::push_row(&mut self.rows, &facts, &room.cluster);
    }

    /// The jobs to score: new ones, those that stand first, and the running ones where they may lose their GPUs.
    fn jobs_to_score(&self) -> Vec<JobId> {
        let waiting = &self.memory.waiting;
        let mut jobs = if waiting.len() <= ROWS_MAX {
            waiting.keys().copied().collect::<Vec<_>>()
        } else {
            // New jobs have the smallest rank of all, so they come first and are always among them.
            let new = waiting.values().filter(|rank| **rank == f64::NEG_INFINITY).count();
            let mut by_rank = waiting.iter().map(|(job, rank)| (*rank, *job)).collect::<Vec<_>>();
            by_rank.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
            by_rank.truncate(ROWS_MAX.max(new));
            by_rank.into_iter().map(|(_, job)| job).collect()
        };
        if self.model.header.used.preempt {
            jobs.extend(self.memory.running.iter().copied());
        }
        jobs
    }

    /// The model's ranks for the jobs it looked at. `None` if a score is no number.
    fn ranks(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Option<Vec<(JobId, f64)>> {
        let room = self.room(snapshot);
        let jobs = self.jobs_to_score();
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
        let mut ranks = jobs.into_iter().zip(scores).map(|(job, score)| (job, -f64::from(*score))).collect::<Vec<_>>();
        for (job, rank) in &mut ranks {
            let waited = snapshot.now.since(snapshot.bound.job(*job).arrival).seconds();
            if waited > self.patience_seconds {
                // The longest wait first among them.
                *rank = -1e12 - waited;
            }
            if let Some(kept) = self.memory.waiting.get_mut(job) {
                *kept = *rank;
            }
        }
        Some(ranks)
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
        self.follow(snapshot);
        let ranks = self.ranks(snapshot, context);
        let own = ranks.map(|ranks| Target::order(self.rule, ranks));
        match &mut self.guard {
            Some(guard) => guard.decide(own, &self.memory.waiting, &self.model, snapshot, context),
            None => own.unwrap_or_else(|| {
                context
                    .problems
                    .push("learned: the model gave a score that is no number; jobs go in order of arrival".to_owned());
                Target::order(self.rule, self.memory.waiting.keys().map(|&job| (job, 0.0)).collect::<Vec<_>>())
            }),
        }
    }

    fn renumber(&mut self, rows: &Renumbering) {
        let waiting = std::mem::take(&mut self.memory.waiting);
        self.memory.waiting = waiting.into_iter().filter_map(|(job, rank)| Some((rows.new_of(job)?, rank))).collect();
        let running = std::mem::take(&mut self.memory.running);
        self.memory.running = running.into_iter().filter_map(|job| rows.new_of(job)).collect();
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
            rule: self.rule,
            patience_seconds: self.patience_seconds,
            memory: self.memory.clone(),
            guard: self.guard.clone(),
            rows: Vec::new(),
            workspace: Workspace::default(),
            seen: self.seen.clone(),
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

/// `learned`.
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
        knows: Knows::DurationsOrHistory,
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
