//! First in, first out: a job gets one type for itself, in the order of arrival.

use super::{GavelPolicy, Shares, View};
use crate::GavelError;
use crate::name::Awareness;
use rota_core::mersenne::Mersenne;
use std::collections::{BTreeMap, VecDeque};

/// Two jobs share GPUs only if together they make more than this part of their steps alone.
const PACKED_SPEED_MIN: f64 = 1.5;

pub(super) fn build(awareness: Awareness, seed: u64) -> Box<dyn GavelPolicy> {
    match awareness {
        Awareness::Agnostic => Box::new(Fifo { stream: Mersenne::new(u128::from(seed)), type_of: BTreeMap::new() }),
        Awareness::Perf => Box::new(FifoPerf { packs: false }),
        Awareness::Packed => Box::new(FifoPerf { packs: true }),
    }
}

/// FIFO without regard to speeds: a job that has a GPU type keeps it until it is done.
struct Fifo {
    stream: Mersenne,
    /// The type of each job that has one.
    type_of: BTreeMap<u32, usize>,
}

impl Fifo {
    /// Keeps what was given, and offers the type of every job that is gone to the head of the queue once. As Gavel does, what
    /// is left of a type is looked at before all jobs that keep theirs have been counted.
    fn keep(&mut self, view: &View<'_>, queue: &mut VecDeque<usize>, left: &mut [f64]) {
        for (id, kind) in self.type_of.clone() {
            if let Ok(position) = view.jobs.binary_search_by_key(&id, |job| job.id) {
                left[kind] -= f64::from(view.jobs[position].gpus);
                continue;
            }
            self.type_of.remove(&id);
            let Some(head) = queue.front().map(|&position| &view.jobs[position]) else { continue };
            if f64::from(head.gpus) <= left[kind] && head.speeds[kind] > 0.0 {
                left[kind] -= f64::from(head.gpus);
                self.type_of.insert(head.id, kind);
                queue.pop_front();
            }
        }
    }

    /// Gives types to the queue. As Gavel does, a type is drawn but the last on the list is used, even one that is full.
    fn give(&mut self, view: &View<'_>, queue: &mut VecDeque<usize>, left: &mut [f64]) {
        let mut listed = (0..left.len()).filter(|&kind| left[kind] > 0.0).collect::<Vec<_>>();
        while let (Some(&used), Some(position)) = (listed.last(), queue.pop_front()) {
            let job = &view.jobs[position];
            let gpus = f64::from(job.gpus);
            let fitting = listed.iter().copied().filter(|&kind| left[kind] >= gpus).collect::<Vec<_>>();
            let Some(&drawn) = self.stream.choice(&fitting) else { return };
            if job.speeds[used] > 0.0 {
                self.type_of.insert(job.id, used);
                left[used] -= gpus;
                if left[used] == 0.0 {
                    listed.retain(|&kind| kind != drawn);
                }
            }
        }
    }
}

impl GavelPolicy for Fifo {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        let mut left = view.counts.to_vec();
        let waits = |position: &usize| !self.type_of.contains_key(&view.jobs[*position].id);
        let mut queue = (0..view.jobs.len()).filter(waits).collect();
        self.keep(view, &mut queue, &mut left);
        self.give(view, &mut queue, &mut left);
        let mut shares = vec![0.0; view.rows() * view.types()];
        for (position, job) in view.jobs.iter().enumerate() {
            if let Some(kind) = self.type_of.get(&job.id) {
                shares[position * view.types() + kind] = 1.0;
            }
        }
        Ok(shares)
    }
}

/// FIFO with regard to speeds: each job in turn takes the fastest type that has room, anew each time.
struct FifoPerf {
    packs: bool,
}

/// A row that was given a type.
struct Placed {
    row: usize,
    kind: usize,
}

/// Gives jobs their fastest types until the head of the queue fits nowhere. As Gavel does, that head is then lost to packing.
fn place(view: &View<'_>, queue: &mut VecDeque<usize>) -> Vec<Placed> {
    let mut left = view.counts.to_vec();
    let mut placed = Vec::new();
    while left.iter().any(|&count| count > 0.0) {
        let Some(position) = queue.pop_front() else { break };
        let job = &view.jobs[position];
        let mut best: Option<usize> = None;
        for kind in (0..left.len()).filter(|&kind| left[kind] >= f64::from(job.gpus)) {
            if best.is_none_or(|best| job.speeds[kind] > job.speeds[best]) {
                best = Some(kind);
            }
        }
        let Some(kind) = best else { break };
        if job.speeds[kind] > 0.0 {
            left[kind] -= f64::from(job.gpus);
            placed.push(Placed { row: position, kind });
        }
    }
    placed
}

/// Puts jobs of the queue beside placed ones, each beside the best partner, until a job finds no partner.
fn pack(view: &View<'_>, queue: VecDeque<usize>, placed: &mut [Placed]) {
    let rows = view.rows_of_jobs();
    for position in queue {
        let mut best: Option<(f64, usize, usize)> = None;
        for &(row, place) in &rows[position][1..] {
            let partner = view.pairs[row - view.jobs.len()].members[1 - place];
            let Some(index) = placed.iter().position(|placed| placed.row == partner) else { continue };
            let kind = placed[index].kind;
            let ratio = |place: usize, job: usize| {
                let together = view.speed(row, place, kind);
                if together > 0.0 { together / view.jobs[job].speeds[kind] } else { 0.0 }
            };
            // The member with the smaller id is counted first.
            let [first, second] = view.pairs[row - view.jobs.len()].members;
            let score = ratio(0, first) + ratio(1, second);
            if score > PACKED_SPEED_MIN && best.is_none_or(|(highest, at, _)| score > highest || (score >= highest && index < at))
            {
                best = Some((score, index, row));
            }
        }
        let Some((_, index, row)) = best else { return };
        placed[index].row = row;
    }
}

impl GavelPolicy for FifoPerf {
    fn allocate(&mut self, view: &View<'_>) -> Result<Shares, GavelError> {
        let mut queue = (0..view.jobs.len()).collect();
        let mut placed = place(view, &mut queue);
        if self.packs {
            pack(view, queue, &mut placed);
        }
        let mut shares = vec![0.0; view.rows() * view.types()];
        for Placed { row, kind } in placed {
            shares[row * view.types() + kind] = 1.0;
        }
        Ok(shares)
    }
}
