//! The queue: waiting jobs in rank order and running jobs by rank and by believed end, kept up to date change by change.
//!
//! Waiting jobs stand in one ordered set per shape, because jobs of one shape fit or do not fit together: a walk in rank order
//! asks each shape once instead of each job. Invariant: a job stands where its phase and rank say, and in at most one place of
//! each kind; `heads` holds the first job of every shape that has one.

use rota_core::{GpuTypeId, JobId, Phase, Renumbering, ShapeId, Snapshot, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A rank as an integer that sorts the same way, so that it can stand in ordered sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct RankKey(u64);

impl RankKey {
    /// The key of a rank.
    pub fn new(rank: f64) -> Self {
        // Adding zero makes the two zeros one; flipping the right bits makes integer order equal float order.
        let bits = (rank + 0.0).to_bits();
        Self(if bits >> 63 == 1 { !bits } else { bits | 1 << 63 })
    }

    /// The rank of a key.
    pub fn rank(self) -> f64 {
        f64::from_bits(if self.0 >> 63 == 1 { self.0 & !(1 << 63) } else { !self.0 })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Standing {
    Nowhere,
    Waiting(RankKey),
    Running { key: RankKey, gpu_type: GpuTypeId, end: Time, stoppable: bool },
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Entry {
    rank: f64,
    standing: Standing,
}

/// What to keep about running jobs; nothing is kept that no rule needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningIndex {
    /// By rank, for preemption.
    pub by_rank: bool,
    /// By believed end, for reservations.
    pub by_end: bool,
}

/// Waiting and running jobs in order.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Queue {
    entries: Vec<Entry>,
    waiting: Vec<BTreeSet<(RankKey, JobId)>>,
    /// The first waiting job of every shape.
    pub heads: BTreeSet<(RankKey, JobId, ShapeId)>,
    /// Running jobs of each GPU type by rank.
    pub running: Vec<BTreeSet<(RankKey, JobId)>>,
    /// Running jobs by the moment they are believed to end.
    pub ends: BTreeSet<(Time, JobId)>,
    index: RunningIndex,
    /// Whether a job left its GPUs at another moment than believed since this was last asked.
    plans_upset: bool,
}

impl Queue {
    /// Takes in everything that changed: phases since the last decision, new ranks, and jobs believed to be of another length.
    pub fn update(
        &mut self,
        snapshot: &Snapshot<'_>,
        ranks: &[(JobId, f64)],
        relearned: impl Iterator<Item = JobId>,
        index: RunningIndex,
    ) {
        let (jobs, shapes, types) = (snapshot.states.len(), snapshot.bound.shapes.len(), snapshot.bound.cluster.types.len());
        if (self.entries.len(), self.waiting.len(), self.running.len()) != (jobs, shapes, types) {
            self.entries.resize(jobs, Entry { rank: 0.0, standing: Standing::Nowhere });
            self.waiting.resize(shapes, BTreeSet::new());
            self.running.resize(types, BTreeSet::new());
        }
        if index != self.index {
            self.index = index;
            (0..snapshot.states.len()).for_each(|job| self.settle(JobId::from_index(job), snapshot));
        }
        for job in relearned {
            self.settle(job, snapshot);
        }
        for &(job, rank) in ranks {
            self.entries[job.index()].rank = rank;
            self.settle(job, snapshot);
        }
        for &job in snapshot.changed.iter().chain(snapshot.repaced) {
            self.settle(job, snapshot);
        }
    }

    /// Puts a job where its phase and rank say it belongs.
    pub fn settle(&mut self, job: JobId, snapshot: &Snapshot<'_>) {
        let state = &snapshot.states[job.index()];
        let key = RankKey::new(self.entries[job.index()].rank);
        let standing = match state.phase {
            // A job whose GPUs are promised to it is only waiting for others to leave them.
            Phase::Waiting if !state.is_promised => Standing::Waiting(key),
            Phase::Running | Phase::Stopping if self.index.by_rank || self.index.by_end => {
                let gpu_type =
                    state.gpus.first().map(|gpu| snapshot.bound.cluster.gpus[gpu.index()].gpu_type).unwrap_or_default();
                let left = snapshot.length(job).minus(state.done);
                let lets_itself = snapshot.bound.job(job).preemptible && !state.is_spared();
                let stoppable = state.phase == Phase::Running && lets_itself;
                Standing::Running { key, gpu_type, end: state.paced_from + left.at_speed(state.speed), stoppable }
            }
            _ => Standing::Nowhere,
        };
        let before = self.entries[job.index()].standing;
        let left_as_believed = matches!(before, Standing::Running { end, .. } if end == snapshot.now);
        let left = state.phase.is_over() || (state.phase == Phase::Waiting && state.starts > 0);
        self.plans_upset |= left && !left_as_believed;
        if before != standing {
            self.remove(job, snapshot.bound.shape_of[job.index()]);
            self.insert(job, snapshot.bound.shape_of[job.index()], standing);
        }
    }

    /// Jobs have other rows from now on. Jobs that are over stand nowhere.
    pub fn renumber(&mut self, rows: &Renumbering) {
        rows.keep(&mut self.entries);
        self.waiting.iter_mut().chain(&mut self.running).for_each(|jobs| rows.rename_keyed(jobs));
        rows.rename_keyed(&mut self.ends);
        let heads = std::mem::take(&mut self.heads).into_iter();
        self.heads = heads.filter_map(|(key, job, shape)| Some((key, rows.new_of(job)?, shape))).collect();
    }

    /// Takes a waiting job out while a plan is made.
    pub fn withdraw(&mut self, job: JobId, shape: ShapeId) {
        self.remove(job, shape);
    }

    /// Puts a job among the waiting while a plan is made (a victim of preemption).
    pub fn enqueue(&mut self, job: JobId, shape: ShapeId) {
        self.remove(job, shape);
        let key = RankKey::new(self.entries[job.index()].rank);
        self.insert(job, shape, Standing::Waiting(key));
    }

    fn remove(&mut self, job: JobId, shape: ShapeId) {
        match self.entries[job.index()].standing {
            Standing::Nowhere => {}
            Standing::Waiting(key) => {
                let set = &mut self.waiting[shape.index()];
                if set.first() == Some(&(key, job)) {
                    self.heads.remove(&(key, job, shape));
                    set.remove(&(key, job));
                    self.heads.extend(set.first().map(|&(key, job)| (key, job, shape)));
                } else {
                    set.remove(&(key, job));
                }
            }
            Standing::Running { key, gpu_type, end, .. } => {
                self.running[gpu_type.index()].remove(&(key, job));
                self.ends.remove(&(end, job));
            }
        }
        self.entries[job.index()].standing = Standing::Nowhere;
    }

    fn insert(&mut self, job: JobId, shape: ShapeId, standing: Standing) {
        match standing {
            Standing::Nowhere => {}
            Standing::Waiting(key) => {
                let set = &mut self.waiting[shape.index()];
                let head = set.first().copied();
                if head.is_none_or(|head| (key, job) < head) {
                    if let Some((key, job)) = head {
                        self.heads.remove(&(key, job, shape));
                    }
                    self.heads.insert((key, job, shape));
                }
                set.insert((key, job));
            }
            Standing::Running { key, gpu_type, end, stoppable } => {
                // Who may not be stopped is nobody's victim.
                if self.index.by_rank && stoppable {
                    self.running[gpu_type.index()].insert((key, job));
                }
                if self.index.by_end {
                    self.ends.insert((end, job));
                }
            }
        }
        self.entries[job.index()].standing = standing;
    }

    /// The first head after a position in rank order; `None` as position means from the beginning.
    pub fn next_head(&self, after: Option<(RankKey, JobId, ShapeId)>) -> Option<(RankKey, JobId, ShapeId)> {
        match after {
            None => self.heads.first().copied(),
            Some(position) => {
                let later = (std::ops::Bound::Excluded(position), std::ops::Bound::Unbounded);
                self.heads.range(later).next().copied()
            }
        }
    }

    /// The next waiting job of the same shape.
    pub fn next_of_shape(&self, shape: ShapeId, after: (RankKey, JobId)) -> Option<(RankKey, JobId)> {
        let later = (std::ops::Bound::Excluded(after), std::ops::Bound::Unbounded);
        self.waiting[shape.index()].range(later).next().copied()
    }

    /// The first waiting jobs in rank order, at most `count`.
    pub fn first_waiting(&self, count: usize) -> Vec<JobId> {
        let mut front = self.heads.clone();
        let mut jobs = Vec::new();
        while jobs.len() < count
            && let Some((key, job, shape)) = front.pop_first()
        {
            jobs.push(job);
            front.extend(self.next_of_shape(shape, (key, job)).map(|(key, job)| (key, job, shape)));
        }
        jobs
    }

    /// When a running job is believed to end: one that has run over its estimate, when it will have run over twice as long.
    pub fn believed_end(end: Time, now: Time) -> Time {
        if end > now { end } else { now + now.since(end).max(Span::from_whole_seconds(1)) }
    }

    /// Whether running jobs ended at other moments than believed since the last call.
    pub fn take_plans_upset(&mut self) -> bool {
        std::mem::take(&mut self.plans_upset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_sort_as_ranks_do(a in any::<f64>(), b in any::<f64>()) {
            prop_assume!(!a.is_nan() && !b.is_nan());
            prop_assert_eq!(RankKey::new(a).cmp(&RankKey::new(b)), a.partial_cmp(&b).unwrap());
            prop_assert!(RankKey::new(a).rank().total_cmp(&(a + 0.0)).is_eq());
        }
    }
}
