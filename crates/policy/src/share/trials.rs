//! Trials: when a round ends, one waiting job of each job type goes to each GPU type on which the job type was never measured.
//!
//! So all speeds are known after a round or two, and shares do not hang on guesses. A job type whose trials told no speed is not tried
//! for ever.

use crate::watch::size;
use rota_core::{ClassId, GpuTypeId, JobId, Snapshot};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet};

/// Trials of a job type on a GPU type, at the most.
const TRIALS_MAX: u32 = 3;

/// The trials that were made, by job class and GPU type, and those of the decision under way.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Trials {
    made: BTreeMap<(ClassId, GpuTypeId), u32>,
    /// Jobs in the order of their ids, and where each goes.
    #[serde(skip)]
    now: Vec<(JobId, GpuTypeId)>,
}

impl Trials {
    /// Chooses the jobs, of all active ones in the order of their ids.
    pub(super) fn choose(&mut self, jobs: impl Iterator<Item = JobId> + Clone, snapshot: &Snapshot<'_>, capacities: &[f64]) {
        let bound = snapshot.bound;
        if bound.classes.iter().all(|class| class.untried.is_empty()) {
            return;
        }
        let class_of = |job: JobId| bound.class_of[job.index()];
        let running = jobs.clone().filter_map(|job| Some((class_of(job), snapshot.type_now(job)?)));
        let mut under_way = running.collect::<HashSet<_>>();
        let mut free = capacities.to_vec();
        for job in jobs.filter(|job| snapshot.type_now(*job).is_none() && bound.shape(*job).is_exclusive()) {
            let (class, shape) = (class_of(job), bound.shape(job));
            let may_try = |kind: &GpuTypeId| {
                let trial = (class, *kind);
                shape.types.contains(*kind)
                    && free[kind.index()] >= size(shape)
                    && !under_way.contains(&trial)
                    && self.made.get(&trial).is_none_or(|made| *made < TRIALS_MAX)
            };
            if let Some(kind) = bound.class(job).untried.iter().find(may_try) {
                free[kind.index()] -= size(shape);
                under_way.insert((class, kind));
                *self.made.entry((class, kind)).or_default() += 1;
                self.now.push((job, kind));
            }
        }
    }

    /// Where a job goes for a trial.
    pub(super) fn of(&self, job: JobId) -> Option<GpuTypeId> {
        let place = self.now.binary_search_by_key(&job, |(job, _)| *job).ok()?;
        Some(self.now[place].1)
    }

    /// The decision is made.
    pub(super) fn end(&mut self) {
        self.now.clear();
    }
}
