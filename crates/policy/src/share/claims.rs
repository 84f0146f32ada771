//! Jobs as an allocation sees them: what each can do on each GPU type, alone and beside others, and what is left of it.

use crate::allocation::{Claim, PairRates};
use crate::watch::size;
use rota_core::snapshot::work_done;
use rota_core::{Bound, ClassId, GpuTypeId, JobId, Snapshot};

/// A job's speed on a type against its best.
pub(crate) fn speed_part(job: JobId, gpu_type: usize, snapshot: &Snapshot<'_>) -> f64 {
    snapshot.bound.speeds(job)[gpu_type] / snapshot.bound.best_speed(job).max(f64::MIN_POSITIVE)
}

impl PairRates for Bound {
    fn pair(&self, first: u32, second: u32) -> Option<Box<[(f64, f64)]>> {
        let rate = |class: u32, index: usize| {
            let class = &self.classes[class as usize];
            self.speeds[class.speeds as usize][index] * class.steps_per_second
        };
        if self.classes[first as usize].gpus != self.classes[second as usize].gpus {
            return None;
        }
        let part =
            |index| self.pair_parts.of(ClassId(first), ClassId(second), GpuTypeId::from_index(index)).unwrap_or((0.0, 0.0));
        let rates =
            (0..self.cluster.types.len()).map(|index| (part(index).0 * rate(first, index), part(index).1 * rate(second, index)));
        let rates = rates.collect::<Box<[_]>>();
        rates.iter().any(|rates| rates.0 > 0.0).then_some(rates)
    }
}

/// A job as an allocation sees it.
pub fn claim(job: JobId, snapshot: &Snapshot<'_>) -> Claim {
    let bound: &Bound = snapshot.bound;
    let (shape, class) = (bound.shape(job), bound.class(job));
    let rate = |(index, speed): (usize, &f64)| {
        if shape.types.contains(GpuTypeId::from_index(index)) { speed * class.steps_per_second } else { 0.0 }
    };
    let mut claim = Claim {
        id: job,
        class: bound.class_of[job.index()].0,
        rates: bound.speeds(job).iter().enumerate().map(rate).collect(),
        gang: size(shape),
        weight: bound.job(job).weight,
        remaining: 0.0,
        age: 0.0,
        deadline: None,
        entity: 0,
    };
    update_claim(&mut claim, snapshot);
    claim
}

/// What of a claim changes as time passes.
pub fn update_claim(claim: &mut Claim, snapshot: &Snapshot<'_>) {
    let (job, state) = (snapshot.bound.job(claim.id), &snapshot.states[claim.id.index()]);
    let left = snapshot.believed_work(claim.id).minus(work_done(state, snapshot.now)).seconds();
    claim.remaining = left.max(1.0) * snapshot.bound.class(claim.id).steps_per_second;
    claim.age = snapshot.now.since(job.arrival).seconds();
    claim.deadline = job.deadline.map(|deadline| deadline.seconds() - snapshot.now.seconds());
}
