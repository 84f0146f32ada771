//! `AlloX`: waiting jobs are matched to places in the queues of free GPUs so that the sum of completion times is least.

use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use std::collections::BTreeMap;

/// Stands for a throughput of zero.
const SPEED_MIN: f64 = 1e-10;

/// The jobs that have a GPU. Each keeps it until it is done.
pub(crate) struct Allox {
    alpha: f64,
    /// The type of each job that was given a GPU.
    type_of: BTreeMap<u32, usize>,
}

impl Allox {
    pub fn new(alpha: f64) -> Self {
        Self { alpha, type_of: BTreeMap::new() }
    }
}

impl GavelPolicy for Allox {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        if let Some(job) = view.jobs.iter().find(|job| job.gpus != 1) {
            let problem = "wants several GPUs, and AlloX has single ones only";
            return Err(GavelError::Job { job: job.id.to_string(), problem });
        }
        self.type_of.retain(|id, _| view.jobs.binary_search_by_key(id, |job| job.id).is_ok());
        let mut left = view.counts.to_vec();
        for &kind in self.type_of.values() {
            left[kind] -= 1.0;
        }
        let free = (0..left.len()).flat_map(|kind| std::iter::repeat_n(kind, left[kind].max(0.0) as usize)).collect::<Vec<_>>();
        let mut waiting = view.jobs.iter().filter(|job| !self.type_of.contains_key(&job.id)).collect::<Vec<_>>();
        waiting.sort_by(|one, other| other.age_seconds.total_cmp(&one.age_seconds));
        waiting.truncate(((self.alpha * waiting.len() as f64) as usize).max(free.len()));
        let cost = |row: usize, column: usize| {
            let (turn, job) = (column / free.len(), waiting[row]);
            let speed = job.speeds[free[column % free.len()]];
            let seconds = job.steps_left / if speed > 0.0 { speed } else { SPEED_MIN };
            (turn + 1) as f64 * seconds + job.age_seconds
        };
        let matched = rota_solver::assign::assign(waiting.len(), waiting.len() * free.len(), cost)
            .map_err(|error| GavelError::Solver(error.to_string()))?;
        // Turns are counted from the end of a GPU's queue: the highest runs first.
        let mut first: Vec<Option<(usize, u32)>> = vec![None; free.len()];
        for (row, column) in matched.into_iter().enumerate() {
            let Some(column) = column else { continue };
            let (turn, worker) = (column / free.len(), column % free.len());
            if first[worker].is_none_or(|(highest, _)| turn > highest) {
                first[worker] = Some((turn, waiting[row].id));
            }
        }
        for (worker, first) in first.into_iter().enumerate() {
            if let Some((_, id)) = first {
                self.type_of.insert(id, free[worker]);
            }
        }
        let mut shares = vec![0.0; view.rows() * view.types()];
        for (position, job) in view.jobs.iter().enumerate() {
            if let Some(kind) = self.type_of.get(&job.id) {
                shares[position * view.types() + kind] = 1.0;
            }
        }
        Ok(shares)
    }
}
