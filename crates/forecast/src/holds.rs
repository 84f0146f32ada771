//! What keeps jobs from starting beside a lack of GPUs, and ends by itself: the delay before another attempt, and the quota of a user.
//! Jobs that are stopping and will not wait again are named here, too.

use rota_core::{End, JobId, NewJob, Phase, Renumbering, Time};
use rota_engine::State;
use rota_sim::{QuotaLimits, Quotas};
use std::collections::HashSet;

/// The holds of a queue at one moment, by row.
#[derive(Clone, Debug, Default)]
pub struct Holds {
    /// Jobs that wait for another attempt, and when each may start.
    pub until: Vec<(Time, JobId)>,
    /// GPUs that users may have at once.
    pub limits: QuotaLimits,
    /// The type of what jobs without a GPU run on: no quota counts it.
    pub processor: Option<Box<str>>,
    /// Jobs that are held because their user has as many GPUs as one user may have.
    pub by_quota: Vec<JobId>,
    /// Jobs that their user holds. They count against no quota.
    pub by_user: Vec<JobId>,
    /// Jobs that are stopping and will not wait again, with how they end.
    pub stopped_for_good: Vec<(JobId, End)>,
}

/// The quotas of a queue that is run forward.
#[derive(Clone, Debug, Default)]
pub(crate) struct UserQuotas {
    quotas: Quotas,
    processor: Option<Box<str>>,
}

impl UserQuotas {
    /// Quotas that know the jobs which wait, run and are held.
    pub fn new(holds: &Holds, state: &State) -> Self {
        let mut known = Self { quotas: Quotas::new(holds.limits.clone()), processor: holds.processor.clone() };
        if holds.limits == QuotaLimits::default() {
            return known;
        }
        let set = |jobs: &[JobId]| jobs.iter().copied().collect::<HashSet<_>>();
        let (by_quota, by_user) = (set(&holds.by_quota), set(&holds.by_user));
        for (row, job) in state.jobs.iter().enumerate() {
            let id = JobId::from_index(row);
            if job.phase.is_over() || job.phase == Phase::Pending || by_user.contains(&id) {
                continue;
            }
            let (user, gpus) = (user_of(id, state), known.gpus_of(id, state));
            if by_quota.contains(&id) {
                known.quotas.hold(user, gpus, state.bound.job(id).priority, id);
            } else {
                known.quotas.count(user, gpus);
            }
        }
        known
    }

    /// A job comes. Gives whether it is let in.
    pub fn comes(&mut self, request: &NewJob, job: JobId) -> bool {
        let is_on_processor = request.gpu_types.iter().any(|kind| Some(kind) == self.processor.as_ref());
        let gpus = if is_on_processor { 0 } else { request.job.gpus };
        self.quotas.comes(&request.user, gpus, request.job.priority, job)
    }

    /// A job is over. The jobs that are let go because of it are added to a list.
    pub fn ends(&mut self, job: JobId, state: &State, let_go: &mut Vec<JobId>) {
        let gpus = self.gpus_of(job, state);
        self.quotas.ends(user_of(job, state), gpus, state.bound.job(job).priority, job, let_go);
    }

    /// Jobs have other rows from now on.
    pub fn renumber(&mut self, rows: &Renumbering) {
        self.quotas.renumber(rows);
    }

    fn gpus_of(&self, job: JobId, state: &State) -> u32 {
        let spec = state.bound.job(job);
        let is_on_processor = spec.gpu_types.iter().any(|kind| Some(state.bound.names.text(*kind)) == self.processor.as_deref());
        if is_on_processor { 0 } else { spec.gpus }
    }
}

fn user_of(job: JobId, state: &State) -> &str {
    state.bound.names.text(state.bound.job(job).user)
}
