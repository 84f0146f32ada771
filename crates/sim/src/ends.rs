//! The moments at which runs end: a heap in which each job stands once, so that a job that is stopped and started a thousand times
//! leaves nothing behind.

use rota_core::{JobId, Renumbering, Time};

/// A job that does not stand in the heap.
const NOWHERE: u32 = u32::MAX;

/// Jobs by the end of their runs, earliest first; at one moment by id.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    heap: Vec<(Time, JobId)>,
    /// Where each job stands in the heap.
    place: Vec<u32>,
}

impl Ends {
    /// The earliest end.
    pub fn first(&self) -> Option<(Time, JobId)> {
        self.heap.first().copied()
    }

    /// Sets the end of a job's run, whatever it was before.
    pub fn set(&mut self, job: JobId, at: Time) {
        if self.place.len() <= job.index() {
            self.place.resize(job.index() + 1, NOWHERE);
        }
        let place = match self.place[job.index()] {
            NOWHERE => {
                self.heap.push((at, job));
                self.heap.len() - 1
            }
            place => {
                self.heap[place as usize].0 = at;
                place as usize
            }
        };
        let place = self.rise(place);
        self.sink(place);
    }

    /// Removes the earliest end.
    pub fn pop(&mut self) {
        if let Some(&(_, job)) = self.heap.first() {
            self.heap.swap_remove(0);
            self.place[job.index()] = NOWHERE;
            if !self.heap.is_empty() {
                self.sink(0);
            }
        }
    }

    /// Jobs have other rows from now on. The ends of jobs whose rows are dropped are forgotten.
    pub fn renumber(&mut self, rows: &Renumbering) {
        let kept = std::mem::take(&mut self.heap);
        self.place.clear();
        for (at, job) in kept {
            if let Some(job) = rows.new_of(job) {
                self.set(job, at);
            }
        }
    }

    fn rise(&mut self, mut place: usize) -> usize {
        let entry = self.heap[place];
        while place > 0 && entry < self.heap[(place - 1) / 2] {
            self.put(place, self.heap[(place - 1) / 2]);
            place = (place - 1) / 2;
        }
        self.put(place, entry);
        place
    }

    fn sink(&mut self, mut place: usize) {
        let entry = self.heap[place];
        loop {
            let left = 2 * place + 1;
            let Some(&(mut least)) = self.heap.get(left) else { break };
            let mut below = left;
            if let Some(&right) = self.heap.get(left + 1)
                && right < least
            {
                (least, below) = (right, left + 1);
            }
            if entry <= least {
                break;
            }
            self.put(place, least);
            place = below;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: (Time, JobId)) {
        self.heap[place] = entry;
        self.place[entry.1.index()] = place as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn ends_come_out_in_order_however_often_they_were_set() {
        let mut ends = Ends::default();
        let mut known = BTreeMap::new();
        let mut state = 1_u64;
        for _ in 0..5000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let (job, at) = (JobId((state >> 33) as u32 % 60), Time((state >> 40) % 500));
            if state >> 62 == 0 {
                let least = known.iter().map(|(job, at): (&JobId, &Time)| (*at, *job)).min();
                assert_eq!(ends.first(), least);
                ends.pop();
                least.and_then(|(_, job)| known.remove(&job));
            } else {
                ends.set(job, at);
                known.insert(job, at);
            }
        }
    }
}
