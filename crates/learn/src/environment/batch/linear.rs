//! Episodes of this protocol played by a linear score, without making rows: what does not change while a job waits is summed up once for each
//! job, and the rest is added when the queue is looked at. A search over linear scores plays little else.

use super::{Batch, BatchTrace, Choosing, ROWS_MAX, Sequences};
use crate::environment::Outcome;
use crate::features::{self, COUNT, log};
use rota_nn::Network;
use std::sync::Arc;

const WAIT: usize = features::place("log_wait");
const SLOWDOWN: usize = features::place("log_slowdown");
const FITS: usize = features::place("fits_now");
const EARLIEST: usize = features::place("log_earliest_start");

/// The weights of a linear score.
struct Weights {
    wait: f64,
    slowdown: f64,
    fits: f64,
    earliest: f64,
    still: [f64; COUNT],
}

impl Weights {
    /// The weights of a network without hidden layers; `None` if it has some.
    fn of(network: &Network) -> Option<Self> {
        if *network.sizes() != [COUNT, 1] {
            return None;
        }
        let mut still = [0.0; COUNT];
        still.iter_mut().zip(network.parameters()).for_each(|(weight, parameter)| *weight = f64::from(*parameter));
        let (wait, slowdown, fits, earliest) = (still[WAIT], still[SLOWDOWN], still[FITS], still[EARLIEST]);
        // What all jobs have in common changes no order.
        for name in features::RESTLESS {
            still[features::place(name)] = 0.0;
        }
        Some(Self { wait, slowdown, fits, earliest, still })
    }
}

/// A job's score as far as it is known.
#[derive(Clone, Copy, Default)]
struct Scored {
    still: f64,
    /// With what the wait adds to it.
    waiting: f64,
    at: f64,
}

/// Plays an episode by the highest score. Gives the number of steps too. `None` if the network has hidden layers.
pub fn play(
    trace: &Arc<BatchTrace>,
    choosing: Choosing,
    sequences: Sequences,
    seed: u64,
    network: &Network,
) -> Option<(Outcome, u64)> {
    let weights = Weights::of(network)?;
    let mut batch = Batch::unseen(Arc::clone(trace), choosing, sequences);
    batch.begin(seed);
    let first = batch.jobs.start;
    let begun = |job: usize| {
        let row = batch.trace.row(job).iter();
        let still = row.zip(&weights.still).map(|(value, weight)| f64::from(*value) * weight).sum::<f64>();
        Scored { still, waiting: 0.0, at: f64::NAN }
    };
    let mut scores = batch.jobs.clone().map(begun).collect::<Vec<_>>();
    let mut ends = Vec::new();
    let mut steps = 0;
    loop {
        let best = best(&batch, &weights, &mut scores, first, &mut ends);
        steps += 1;
        batch.go_on(best);
        if batch.is_done {
            return Some((batch.sum_up(), steps));
        }
    }
}

/// The place in the queue of the job with the highest score; the first of equals.
fn best(batch: &Batch, weights: &Weights, scores: &mut [Scored], first: usize, ends: &mut Vec<(f64, u32)>) -> usize {
    let seen = if batch.choosing == Choosing::Resort { batch.queue.len() } else { batch.queue.len().min(ROWS_MAX) };
    let has_place = weights.fits != 0.0 || weights.earliest != 0.0;
    if weights.earliest != 0.0 {
        batch.free_later(ends);
    }
    let mut best = (0, f64::NEG_INFINITY);
    for (place, &job) in batch.queue[..seen].iter().enumerate() {
        let known = &mut scores[job - first];
        let processors = batch.trace.jobs[job].processors;
        if known.at.to_bits() != batch.now.to_bits() {
            let (submitted, estimate) = (batch.trace.jobs[job].submitted, batch.trace.jobs[job].estimate);
            let waited = batch.now - submitted;
            known.waiting = known.still;
            if weights.wait != 0.0 {
                known.waiting += weights.wait * f64::from(log(waited, 10.0));
            }
            if weights.slowdown != 0.0 {
                known.waiting += weights.slowdown * f64::from(log(waited / estimate.max(10.0), 5.0));
            }
            known.at = batch.now;
        }
        let mut score = known.waiting;
        if has_place && processors <= batch.free {
            score += weights.fits;
        } else if weights.earliest != 0.0 {
            let later = ends.partition_point(|(_, free)| *free < processors);
            let seconds = ends.get(later).map_or(0.0, |(end, _)| end - batch.now);
            score += weights.earliest * f64::from(log(seconds, 10.0));
        }
        if score > best.1 {
            best = (place, score);
        }
    }
    best.0
}
