//! The guard rail: another policy decides until the model has shown on this site's own jobs that it does no worse.
//!
//! Both policies decide all the time, so that each is ready to take over; only one is followed. Whenever [`EVERY`] more jobs have ended, the
//! last [`KEPT`] of them are simulated under both, and the model is followed only if the mean completion time under it is at most
//! [`WORSE`] times that under the guard. Three things hand the decision to the guard at once, until the next comparison: a score that is
//! no number, a decision of the model that took more than [`SLOW`] of this thread's time, and a job that waits beyond the limit.

use crate::model::Model;
use crate::policy::Learned;
use rota_core::bind::BadJobs;
use rota_core::{Bound, Cluster, Job, JobId, Phase, Renumbering, Snapshot, Span, Target, ThroughputTable, Time, Wish, Workload};
use rota_policy::history::Tracker;
use rota_policy::{Configured, Context, MemoryError};
use rota_sim::SimOptions;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// Jobs that end between two comparisons.
const EVERY: u32 = 64;
/// Ended jobs that a comparison simulates.
const KEPT: usize = 256;
/// The model is left when it is worse than the guard by this factor.
const WORSE: f64 = 1.02;

/// The most of the thread's time that a decision of the model may take.
pub const SLOW: Duration = Duration::from_millis(10);

/// What a decision of the model came to, beside its target.
#[derive(Clone, Copy, Debug, Default)]
pub struct Made {
    /// The thread's time that it took.
    pub took: Duration,
    /// The longest that a job has waited, and whether that is beyond the limit.
    pub waited_too_long: Option<f64>,
}

/// A job that ended, as much as a simulation needs.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Past {
    job: Job,
    seconds: f64,
}

/// What is written down of a guard.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Saved {
    policy: Vec<u8>,
    ranks: BTreeMap<JobId, f64>,
    past: VecDeque<Past>,
    ended: u32,
    trusts_model: bool,
}

/// A guard and what it has seen.
#[derive(Clone)]
pub struct Guard {
    policy: Configured,
    /// The rank that the guard gave each waiting or running job.
    ranks: BTreeMap<JobId, f64>,
    past: VecDeque<Past>,
    /// Jobs that ended since the last comparison.
    ended: u32,
    trusts_model: bool,
    /// Whether the last decision followed the model.
    followed_model: bool,
}

impl Guard {
    /// A guard that decides until the model has earned trust.
    pub fn new(policy: Configured) -> Self {
        Self { policy, ranks: BTreeMap::new(), past: VecDeque::new(), ended: 0, trusts_model: false, followed_model: false }
    }

    /// What is written down.
    pub fn save(&self) -> Saved {
        Saved {
            policy: self.policy.policy.save(),
            ranks: self.ranks.clone(),
            past: self.past.clone(),
            ended: self.ended,
            trusts_model: self.trusts_model,
        }
    }

    /// Takes up what was written down.
    pub fn load(&mut self, saved: Saved) -> Result<(), MemoryError> {
        self.policy.policy.load(&saved.policy)?;
        (self.ranks, self.past) = (saved.ranks, saved.past);
        (self.ended, self.trusts_model) = (saved.ended, saved.trusts_model);
        // All ranks are given again at the next decision, whoever made the last ones.
        self.followed_model = !self.trusts_model;
        Ok(())
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        let ranks = std::mem::take(&mut self.ranks);
        self.ranks = ranks.into_iter().filter_map(|(job, rank)| Some((rows.new_of(job)?, rank))).collect();
        self.policy.policy.renumber(rows);
    }

    /// Where the guard's policy keeps what it learns of jobs' lengths.
    pub fn trackers(&mut self) -> Vec<&mut Tracker> {
        self.policy.policy.trackers()
    }

    /// From now on what is decided is a forecast.
    pub fn begin_forecast(&mut self) {
        self.policy.policy.begin_forecast();
    }

    /// The target to follow: the model's or the guard's. `own` is none if the model gave a score that is no number.
    pub fn decide(
        &mut self,
        own: Option<Target>,
        own_ranks: impl Iterator<Item = (JobId, f64)>,
        made: Made,
        model: &Arc<Model>,
        snapshot: &Snapshot<'_>,
        context: &mut Context,
    ) -> Target {
        let mut guarded = self.policy.policy.decide(snapshot, context);
        self.follow(&guarded, snapshot);
        if self.ended >= EVERY {
            self.ended = 0;
            self.compare(model, &snapshot.bound.cluster, context);
        }
        if own.is_none() {
            self.distrust("the model gave a score that is no number", context);
        }
        if made.took > SLOW {
            let why = format!("a decision of the model took {} ms; it may take {}", made.took.as_millis(), SLOW.as_millis());
            self.distrust(&why, context);
        }
        if let Some(seconds) = made.waited_too_long {
            self.distrust(&format!("a job has waited for {seconds:.0} s, which is beyond the limit"), context);
        }
        let follows_model = self.trusts_model;
        let changed = follows_model != self.followed_model;
        self.followed_model = follows_model;
        match own {
            Some(mut own) if follows_model => {
                if changed {
                    set_ranks(&mut own, own_ranks.collect());
                }
                own
            }
            _ => {
                if changed {
                    set_ranks(&mut guarded, self.ranks.clone());
                }
                guarded
            }
        }
    }

    fn follow(&mut self, guarded: &Target, snapshot: &Snapshot<'_>) {
        if let Wish::Order { ranks, .. } = &guarded.wish {
            self.ranks.extend(ranks.iter().copied());
        }
        for view in snapshot.changed_jobs().filter(|view| view.state.phase.is_over()) {
            self.ranks.remove(&view.id());
            if view.state.phase == Phase::Finished {
                let width = f64::from(view.job.gpus) * view.job.share.fraction();
                let seconds = view.state.service.seconds() / width.max(1e-3);
                self.past.push_back(Past { job: view.job.clone(), seconds });
                while self.past.len() > KEPT {
                    self.past.pop_front();
                }
                self.ended += 1;
            }
        }
    }

    /// Simulates the jobs that ended last under both policies.
    fn compare(&mut self, model: &Arc<Model>, cluster: &Cluster, context: &mut Context) {
        let Some(bound) = replayed(&self.past, cluster) else { return };
        let spec = self.policy.spec.clone();
        let Ok(guard) = rota_policy::build(&spec) else { return };
        let durations = guard.durations;
        let learned = Configured { spec: "learned".to_owned(), policy: Box::new(Learned::new(Arc::clone(model))), durations };
        let (own, other) = (mean_completion(&bound, learned), mean_completion(&bound, guard));
        let does_well = own <= WORSE * other;
        let jobs = bound.jobs.len();
        if does_well && !self.trusts_model {
            self.trusts_model = true;
            context.problems.push(format!(
                "learned: the model decides from now on: the last {jobs} jobs would have taken {own:.0} s on average under it, and {other:.0} s under its guard `{spec}`"
            ));
        } else if !does_well {
            let why = format!(
                "the last {jobs} jobs would have taken {own:.0} s on average under the model, and {other:.0} s under the guard"
            );
            self.distrust(&why, context);
        }
    }

    fn distrust(&mut self, why: &str, context: &mut Context) {
        if self.trusts_model {
            self.trusts_model = false;
            context.problems.push(format!("learned: the guard `{}` decides from now on: {why}", self.policy.spec));
        }
    }
}

/// Gives a target all ranks, where it gave only those that changed.
fn set_ranks(target: &mut Target, mut whole: BTreeMap<JobId, f64>) {
    if let Wish::Order { ranks, .. } = &mut target.wish {
        whole.extend(ranks.iter().copied());
        *ranks = whole.into_iter().filter(|(_, rank)| rank.is_finite()).collect();
    }
}

/// The jobs as a workload of their own. `None` if there are none, or they cannot run on this cluster.
fn replayed(past: &VecDeque<Past>, cluster: &Cluster) -> Option<Arc<Bound>> {
    let first = past.iter().map(|past| past.job.arrival).min()?;
    let mut workload = Workload::new("recent jobs");
    for Past { job, seconds } in past {
        let work = Span::from_seconds(seconds.max(1e-3))?;
        // Names mean nothing in another workload, and dependencies were met.
        workload.push(Job {
            work,
            steps: 0.0,
            fails_at: None,
            gpu_types: Box::default(),
            after: Box::default(),
            only: Box::default(),
            user: rota_core::Name::NONE,
            project: rota_core::Name::NONE,
            kind: rota_core::Name::NONE,
            arrival: Time(job.arrival.0 - first.0),
            ..job.clone()
        });
    }
    workload.finish();
    let cluster = Cluster { outages: Vec::new(), ..cluster.clone() };
    let bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Skip).ok()?;
    (!bound.jobs.is_empty()).then(|| Arc::new(bound))
}

fn mean_completion(bound: &Arc<Bound>, policy: Configured) -> f64 {
    crate::simulated::run(bound, policy, &SimOptions::default()).jct_mean_s
}
