//! Gandiva as Gavel has it: when GPUs are short, jobs are packed in pairs at random; every pair or job gets an equal part.

use super::shares::{isolated, isolated_row};
use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use rota_core::mersenne::Mersenne;
use std::collections::BTreeMap;

/// Pairs below this score are taken apart.
const SCORE_MIN: f64 = 1.0;

/// The pairs of jobs that are packed together, and the random stream that chooses them.
pub(crate) struct Gandiva {
    stream: Mersenne,
    /// Partners by id, both ways.
    partner: BTreeMap<u32, u32>,
}

impl Gandiva {
    pub fn new(seed: u64) -> Self {
        Self { stream: Mersenne::new(u128::from(seed)), partner: BTreeMap::new() }
    }

    /// Forgets pairs with a job that has left, and pairs that cannot run on some type.
    fn drop_bad(&mut self, view: &View<'_>, row_of: &BTreeMap<(u32, u32), usize>) {
        let is_good = |one: u32, other: u32| {
            row_of.get(&(one.min(other), one.max(other))).is_some_and(|&row| score(view, row) >= SCORE_MIN)
        };
        self.partner.retain(|&one, &mut other| is_good(one, other));
    }

    /// Draws pairs among the jobs without one. A draw of two jobs with different gang sizes uses up a try.
    fn draw(&mut self, view: &View<'_>) {
        let mut single =
            (0..view.jobs.len()).filter(|&position| !self.partner.contains_key(&view.jobs[position].id)).collect::<Vec<_>>();
        for _ in 0..single.len() {
            if single.len() < 2 {
                break;
            }
            let drawn = self.stream.sample(single.len(), 2);
            let (one, other) = (single[drawn[0]], single[drawn[1]]);
            let (first, second) = (&view.jobs[one], &view.jobs[other]);
            if first.gpus == second.gpus {
                single.retain(|&position| position != one && position != other);
                self.partner.insert(first.id, second.id);
                self.partner.insert(second.id, first.id);
            }
        }
    }
}

/// How much a pair is worth: the sum over all types, as Gavel has it, which makes nearly every pair a good one.
fn score(view: &View<'_>, row: usize) -> f64 {
    let pair = &view.pairs[row - view.jobs.len()];
    let mut sum = 0.0;
    for (kind, together) in pair.speeds.iter().enumerate() {
        for (place, &job) in pair.members.iter().enumerate() {
            if together[place] <= 0.0 {
                return 0.0;
            }
            sum += together[place] / view.jobs[job].speeds[kind];
        }
    }
    sum
}

impl GavelPolicy for Gandiva {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        let mut row_of = BTreeMap::new();
        for (index, pair) in view.pairs.iter().enumerate() {
            let [first, second] = pair.members.map(|position| view.jobs[position].id);
            row_of.insert((first, second), view.jobs.len() + index);
        }
        self.drop_bad(view, &row_of);
        let wanted = view.jobs.iter().map(|job| f64::from(job.gpus)).sum::<f64>();
        if wanted <= view.counts.iter().sum::<f64>() {
            return Ok(isolated(view));
        }
        self.draw(view);
        let mut chosen = Vec::new();
        for (position, job) in view.jobs.iter().enumerate() {
            match self.partner.get(&job.id) {
                None => chosen.push(position),
                Some(&other) if job.id < other => chosen.extend(row_of.get(&(job.id, other))),
                Some(_) => {}
            }
        }
        let mut shares = vec![0.0; view.rows() * view.types()];
        for &row in &chosen {
            let own = isolated_row(view.counts, chosen.len(), view.row_gpus(row));
            shares[row * view.types()..][..view.types()].copy_from_slice(&own);
        }
        Ok(shares)
    }
}
