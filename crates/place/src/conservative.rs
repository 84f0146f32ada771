//! Conservative backfill: every waiting job (up to a depth) holds a promised start, and nobody may push another's later.
//!
//! A promise is made when a job enters the reach of the planner, from the jobs before it alone, and from then on only moves earlier.
//! It is kept as long as running jobs end no later than believed and no node is lost. Otherwise it is made anew, and so are the promises of
//! all jobs behind that job: they must not keep it from the next best start.
//!
//! Where whole GPUs of a type are as good as one another, they are counted. While a job waits that shares GPUs, or keeps to certain
//! GPUs or nodes, promises are made GPU by GPU.

use crate::calendar::Calendar;
use crate::draft::Draft;
use crate::queue::Queue;
use crate::releases::releases;
use rota_core::{GpuId, GpuList, GpuTypeId, JobId, Promise, Shape, Time};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// How often promises are moved earlier in one plan: a job that moves may make room for one before it.
const PASSES_MAX: usize = 4;

/// Promised starts, kept from plan to plan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Promises {
    slots: HashMap<JobId, Slot>,
    nodes_up: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Slot {
    start: Time,
    end: Time,
    gpu_type: GpuTypeId,
    /// The very GPUs, where promises are made GPU by GPU; otherwise any will do.
    gpus: GpuList,
}

impl Promises {
    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &rota_core::Renumbering) {
        let slots = std::mem::take(&mut self.slots).into_iter();
        self.slots = slots.filter_map(|(job, slot)| Some((rows.new_of(job)?, slot))).collect();
    }
}

/// Starts every job whose promised moment has come, after giving promises to new ones and moving all as early as possible.
pub fn fill(queue: &mut Queue, draft: &mut Draft<'_>, promises: &mut Promises, depth: usize) {
    let snapshot = draft.snapshot;
    let jobs = queue.first_waiting(depth);
    let mut profile = Profile::now(queue, draft, &jobs);
    let nodes_up = snapshot.nodes_up.iter().filter(|up| **up).count();
    let upset = queue.take_plans_upset() || nodes_up != promises.nodes_up;
    promises.nodes_up = nodes_up;
    let mut slots = kept_promises(&mut profile, draft, promises, &jobs);
    let mut passes = if upset { PASSES_MAX } else { 1 };
    while passes > 0 {
        passes -= 1;
        let mut moved = false;
        for &job in &jobs {
            let before = slots.get(&job);
            let start_before = before.map(|slot| slot.start);
            match before {
                Some(_) if !upset => continue,
                Some(slot) => profile.vacate(slot, snapshot.bound.shape(job)),
                None => {}
            }
            let Some(slot) = earliest(&profile, draft, job) else {
                slots.remove(&job);
                continue;
            };
            profile.occupy(&slot, snapshot.bound.shape(job));
            moved |= start_before.is_some_and(|before| before != slot.start);
            slots.insert(job, slot);
        }
        if !moved {
            break;
        }
    }
    for job in jobs {
        let Some(slot) = slots.get(&job) else { continue };
        let is_due = slot.start <= snapshot.now;
        if is_due && start(draft, &slots, job, slot) {
            queue.withdraw(job, draft.shape_id(job));
            slots.remove(&job);
        } else {
            draft.promise(Promise { job, start: slot.start });
        }
    }
    promises.slots = slots;
}

/// The promises that still hold.
fn kept_promises(profile: &mut Profile, draft: &Draft<'_>, promises: &Promises, jobs: &[JobId]) -> HashMap<JobId, Slot> {
    let mut before = jobs.iter().filter_map(|job| Some((promises.slots.get(job)?, *job))).collect::<Vec<_>>();
    // In order of their starts, slots without GPUs of their own find GPUs whenever there are enough of them.
    before.sort_by_key(|(slot, _)| slot.start);
    let mut slots = HashMap::with_capacity(jobs.len());
    for (slot, job) in before {
        if let Some(slot) = profile.kept(slot, draft, job) {
            profile.occupy(&slot, draft.snapshot.bound.shape(job));
            slots.insert(job, slot);
        }
    }
    let is_broken = |job: &JobId| promises.slots.contains_key(job) && !slots.contains_key(job);
    if let Some(first) = jobs.iter().position(is_broken) {
        for job in &jobs[first..] {
            if let Some(slot) = slots.remove(job) {
                profile.vacate(&slot, draft.snapshot.bound.shape(*job));
            }
        }
    }
    slots
}

/// Starts a job whose moment has come. A job that shares GPUs goes where it was promised its part; any other where no promise is broken.
fn start(draft: &mut Draft<'_>, slots: &HashMap<JobId, Slot>, job: JobId, slot: &Slot) -> bool {
    let shares = !draft.snapshot.bound.shape(job).is_exclusive();
    (shares && draft.try_start_at(job, &slot.gpus))
        || draft.try_start_avoiding(job, slot.gpu_type, &promised_to_others(slots, job, slot))
}

/// GPUs that are promised to other jobs before this one is believed to end.
fn promised_to_others(slots: &HashMap<JobId, Slot>, job: JobId, slot: &Slot) -> Vec<GpuId> {
    if slot.gpus.is_empty() {
        return Vec::new();
    }
    let others = slots.iter().filter(|(other, theirs)| **other != job && theirs.start < slot.end);
    let mut gpus = others.flat_map(|(_, theirs)| &theirs.gpus).copied().collect::<Vec<_>>();
    gpus.sort_unstable();
    gpus.dedup();
    gpus
}

/// The earliest slot of a job on any of its types.
fn earliest(profile: &Profile, draft: &Draft<'_>, job: JobId) -> Option<Slot> {
    let slots = draft.types_of(job).iter().filter_map(|&gpu_type| {
        let run = draft.snapshot.believed_run(job, gpu_type);
        let (start, gpus) = match profile {
            Profile::Numbers(types) => {
                let gpus = i64::from(draft.snapshot.bound.job(job).gpus);
                (types[gpu_type.index()].earliest(gpus, run)?, GpuList::new())
            }
            Profile::Gpus(calendar) => calendar.gang(draft, job, gpu_type, run, draft.snapshot.now)?,
        };
        Some(Slot { start, end: start + run, gpu_type, gpus })
    });
    slots.min_by_key(|slot| slot.start)
}

/// What is free over time.
enum Profile {
    /// The number of free GPUs by type: enough where one GPU of a type is as good as another.
    Numbers(Vec<Steps>),
    /// GPU by GPU, where a waiting job shares GPUs, or keeps to certain GPUs or nodes.
    Gpus(Calendar),
}

impl Profile {
    fn now(queue: &Queue, draft: &Draft<'_>, jobs: &[JobId]) -> Self {
        let snapshot = draft.snapshot;
        let is_particular = |job: &JobId| {
            let shape = snapshot.bound.shape(*job);
            shape.nodes_max > 0 || shape.only.is_some() || !shape.is_exclusive()
        };
        if jobs.iter().any(is_particular) {
            return Self::Gpus(Calendar::now(queue, draft));
        }
        let mut types = (0..snapshot.bound.cluster.types.len())
            .map(|index| Steps(vec![(snapshot.now, i64::from(draft.pool.idle_of(GpuTypeId::from_index(index))))]))
            .collect::<Vec<_>>();
        for release in releases(queue, draft) {
            let steps = &mut types[release.gpu_type.index()].0;
            match steps.last_mut() {
                Some((at, free)) if *at == release.at => *free += i64::from(release.gpus),
                Some(&mut (_, free)) => steps.push((release.at, free + i64::from(release.gpus))),
                None => {}
            }
        }
        Self::Numbers(types)
    }

    /// The slot of a job if its promise can still be kept.
    fn kept(&self, slot: &Slot, draft: &Draft<'_>, job: JobId) -> Option<Slot> {
        if slot.start < draft.snapshot.now {
            return None;
        }
        match self {
            Self::Numbers(types) => {
                let least = types[slot.gpu_type.index()].least(slot.start, slot.end);
                (least >= i64::from(draft.snapshot.bound.job(job).gpus)).then(|| Slot { gpus: GpuList::new(), ..slot.clone() })
            }
            Self::Gpus(calendar) if slot.gpus.is_empty() => {
                let run = slot.end.since(slot.start);
                let (start, gpus) = calendar.gang(draft, job, slot.gpu_type, run, slot.start)?;
                (start == slot.start).then(|| Slot { gpus, ..slot.clone() })
            }
            Self::Gpus(calendar) => {
                let slice = draft.snapshot.bound.shape(job).slice();
                calendar.have_room(&slot.gpus, slice, slot.start, slot.end).then(|| slot.clone())
            }
        }
    }

    fn occupy(&mut self, slot: &Slot, shape: &Shape) {
        match self {
            Self::Numbers(types) => types[slot.gpu_type.index()].add(slot.start, slot.end, -i64::from(shape.gpus)),
            Self::Gpus(calendar) => calendar.take(&slot.gpus, shape.slice(), slot.start, slot.end),
        }
    }

    fn vacate(&mut self, slot: &Slot, shape: &Shape) {
        match self {
            Self::Numbers(types) => types[slot.gpu_type.index()].add(slot.start, slot.end, i64::from(shape.gpus)),
            Self::Gpus(calendar) => calendar.give(&slot.gpus, shape.slice(), slot.start, slot.end),
        }
    }
}

/// A step function: from each moment on, so many GPUs are free. The last step lasts for ever.
struct Steps(Vec<(Time, i64)>);

impl Steps {
    /// Adds to the free GPUs from `start` until `end`.
    fn add(&mut self, start: Time, end: Time, gpus: i64) {
        let first = self.split(start);
        let last = self.split(end);
        self.0[first..last].iter_mut().for_each(|(_, free)| *free += gpus);
    }

    /// Makes a step begin at this moment and says which.
    fn split(&mut self, at: Time) -> usize {
        let position = self.0.partition_point(|&(moment, _)| moment < at);
        if self.0.get(position).is_none_or(|&(moment, _)| moment != at) {
            let free = self.0[position.saturating_sub(1)].1;
            self.0.insert(position, (at, free));
        }
        position
    }

    /// The fewest GPUs free at any moment from `start` until `end`.
    fn least(&self, start: Time, end: Time) -> i64 {
        let first = self.0.partition_point(|&(moment, _)| moment <= start).saturating_sub(1);
        let during = self.0[first..].iter().take_while(|&&(moment, _)| moment < end);
        during.map(|&(_, free)| free).min().unwrap_or(0)
    }

    /// The first moment from which so many GPUs stay free for so long.
    fn earliest(&self, gpus: i64, run: rota_core::Span) -> Option<Time> {
        let mut candidate = None;
        for &(moment, free) in &self.0 {
            if candidate.is_some_and(|start| moment >= start + run) {
                break;
            }
            candidate = if free < gpus { None } else { candidate.or(Some(moment)) };
        }
        candidate
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::Span;

    #[test]
    fn steps_find_the_first_gap_that_is_long_enough() {
        // 2 free until 10, 4 until 20, then 8.
        let mut steps = Steps(vec![(Time(0), 2), (Time(10), 4), (Time(20), 8)]);
        assert_eq!(steps.earliest(2, Span(100)), Some(Time(0)));
        assert_eq!(steps.earliest(3, Span(5)), Some(Time(10)));
        steps.add(Time(15), Time(25), -3);
        assert_eq!(steps.earliest(4, Span(5)), Some(Time(10)));
        assert_eq!(steps.earliest(4, Span(6)), Some(Time(20)));
        assert_eq!(steps.least(Time(12), Time(16)), 1);
        assert_eq!(steps.earliest(9, Span(1)), None);
        steps.add(Time(15), Time(25), 3);
        assert_eq!(steps.earliest(4, Span(6)), Some(Time(10)));
    }
}
