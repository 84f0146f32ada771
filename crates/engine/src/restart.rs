//! What it costs a job to lose its GPUs, and how long it therefore keeps them at the least.

use crate::State;
use rota_core::{JobId, RestartCost, Span};
use serde::{Deserialize, Serialize};

/// What it costs a job to lose its GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restart {
    /// Time at the beginning of every run but the first in which nothing is done.
    pub cost: Span,
    /// How often a job saves its progress by itself; what it did since is lost with its node. `None`: only when it is preempted.
    pub checkpoint: Option<Span>,
    /// How long a job runs at the least before it is stopped for others.
    pub min_run: MinRun,
}

/// How long a job runs at the least before it is stopped for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MinRun {
    /// A length of time.
    For(Span),
    /// So many times as long as it takes to start again.
    Restarts(u32),
}

impl Default for MinRun {
    fn default() -> Self {
        Self::For(Span::ZERO)
    }
}

impl Restart {
    /// How long a job runs at the least before it is stopped for others.
    pub fn min_run(&self) -> Span {
        match self.min_run {
            MinRun::For(span) => span,
            MinRun::Restarts(times) => Span(self.cost.0.saturating_mul(times.into())),
        }
    }

    /// The same as a number of restarts, where it is one: then it depends on the job's type.
    pub fn min_run_restarts(&self) -> Option<u32> {
        match self.min_run {
            MinRun::For(_) => None,
            MinRun::Restarts(times) => Some(times),
        }
    }
}

impl State {
    /// What a job loses when it is stopped and started again.
    fn restart_cost_of(&self, job: JobId) -> Span {
        self.restart_costs.of(self.bound.job(job).kind).map_or(self.restart.cost, RestartCost::whole)
    }

    /// How long a job runs at the least before it is stopped for others.
    pub(crate) fn min_run_of(&self, job: JobId) -> Span {
        let by_restarts = self.restart.min_run_restarts().map(|restarts| self.restart_cost_of(job).times(restarts.into()));
        by_restarts.unwrap_or_else(|| self.restart.min_run())
    }
}
