//! Jobs as an allocation sees them: what each can do on each GPU type, alone and beside others, and what is left of it.

use crate::allocation::{Claim, PairRates};
use crate::watch::size;
use rota_core::snapshot::work_done;
use rota_core::{Bound, ClassId, GpuTypeId, JobId, Snapshot};

/// A job expects this many times what is believed of a GPU type that its job type was never tried on. Only a trial shows that a job type
/// gains more by it than all others do, and it costs no more than half a round.
const HOPE: f64 = 2.0;

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
    let mut claim = Claim {
        id: job,
        class: bound.class_of[job.index()].0,
        rates: rates(job, bound),
        gang: size(bound.shape(job)),
        weight: bound.job(job).weight,
        remaining: 0.0,
        age: 0.0,
        deadline: None,
        entity: 0,
    };
    update_claim(&mut claim, snapshot);
    claim
}

/// What a job can do on each GPU type, as far as it is known; nothing where it cannot run.
fn rates(job: JobId, bound: &Bound) -> Box<[f64]> {
    let (shape, class) = (bound.shape(job), bound.class(job));
    let rate = |(index, speed): (usize, &f64)| {
        let gpu_type = GpuTypeId::from_index(index);
        let hope = if class.untried.contains(gpu_type) { HOPE } else { 1.0 };
        if shape.types.contains(gpu_type) { speed * class.steps_per_second * hope } else { 0.0 }
    };
    bound.speeds(job).iter().enumerate().map(rate).collect()
}

/// What of a claim changes as time passes.
pub fn update_claim(claim: &mut Claim, snapshot: &Snapshot<'_>) {
    let (job, state) = (snapshot.bound.job(claim.id), &snapshot.states[claim.id.index()]);
    let left = snapshot.believed_work(claim.id).minus(work_done(state, snapshot.now)).seconds();
    claim.remaining = left.max(1.0) * snapshot.bound.class(claim.id).steps_per_second;
    claim.age = snapshot.now.since(job.arrival).seconds();
    claim.deadline = job.deadline.map(|deadline| deadline.seconds() - snapshot.now.seconds());
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_core::bind::BadJobs;
    use rota_core::{Cluster, Job, Span, ThroughputTable, Time, TypeSet, Workload};

    #[test]
    fn more_is_expected_of_a_gpu_type_that_was_never_tried() {
        let mut workload = Workload::new("one job");
        workload.push(Job::new(Time::ZERO, Span::from_whole_seconds(60)));
        workload.finish();
        let cluster = Cluster::from_spec("tried:1,new:1", 1).unwrap();
        let mut bound = Bound::new(workload, cluster, &ThroughputTable::default(), BadJobs::Refuse).unwrap();
        assert_eq!(*rates(JobId(0), &bound), [1.0, 1.0]);
        bound.classes[0].untried.insert(GpuTypeId(1));
        assert_eq!(*rates(JobId(0), &bound), [1.0, HOPE]);
        bound.classes[0].untried = TypeSet::EMPTY;
        assert_eq!(*rates(JobId(0), &bound), [1.0, 1.0], "then what was seen counts");
    }
}
