//! The counts of one class: how many jobs reached each step, and how many ended in it.
//!
//! There may be tens of thousands of classes, so counts are small: 16 bits each, in 1024ths of a job where old jobs are forgotten.

use super::steps::STEPS;
use serde::{Deserialize, Serialize};

/// What is left of a count that forgets after each end, in 1024ths.
const KEPT: u32 = 993;
/// One job, for classes that forget. If jobs end one after the other, a count stays below 34. While many run it can reach 63, and is then
/// halved.
const FINE: u16 = 1024;

/// Counts by step, as far as any job of the class has got.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Table {
    /// Reached and ended.
    counts: Vec<(u16, u16)>,
}

/// Whether a class forgets old jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// All jobs count alike.
    Long,
    /// With every end, what was counted before counts 3 % less.
    Short,
}

impl Memory {
    /// What one job adds to a count.
    fn one(self) -> u16 {
        if self == Self::Short { FINE } else { 1 }
    }
}

impl Table {
    fn at(&mut self, step: usize) -> &mut (u16, u16) {
        let step = step.min(STEPS - 1);
        if self.counts.len() <= step {
            // A few rows at a time: most classes stay short.
            self.counts.reserve_exact((step + 3).min(STEPS) - self.counts.len());
            self.counts.resize(step + 1, (0, 0));
        }
        &mut self.counts[step]
    }

    /// One more job reached a step. Where counts get too large for their bits, all are halved: their ratios stay.
    pub fn reach(&mut self, step: usize, memory: Memory) {
        if self.at(step).0 > u16::MAX - memory.one() {
            self.scale(512);
        }
        self.at(step).0 += memory.one();
    }

    /// A job that reached a step does not count any more. Of what was forgotten since, nothing is taken back.
    pub fn take_back(&mut self, step: usize, memory: Memory) {
        let (reached, ended) = self.at(step);
        *reached = reached.saturating_sub(memory.one()).max(*ended);
    }

    /// One more job ended in a step that it had reached.
    pub fn end(&mut self, step: usize, memory: Memory) {
        let (reached, ended) = self.at(step);
        *ended = ended.saturating_add(memory.one()).min(*reached);
        if memory == Memory::Short {
            self.scale(KEPT);
        }
    }

    /// Multiplies all counts by so many 1024ths.
    fn scale(&mut self, parts: u32) {
        let scaled = |count: u16| ((u32::from(count) * parts) >> 10) as u16;
        for (reached, ended) in &mut self.counts {
            (*reached, *ended) = (scaled(*reached), scaled(*ended));
        }
    }

    /// Turns the hazards of the coarser class into those of this one.
    pub fn shrink(&self, hazards: &mut [f64; STEPS], weight: f64, memory: Memory) {
        let unit = f64::from(memory.one());
        for (hazard, &(reached, ended)) in hazards.iter_mut().zip(&self.counts) {
            *hazard = (f64::from(ended) / unit + weight * *hazard) / (f64::from(reached) / unit + weight);
        }
    }

    /// How many ended in all.
    pub fn ended_sum(&self, memory: Memory) -> f64 {
        self.counts.iter().map(|&(_, ended)| f64::from(ended) / f64::from(memory.one())).sum()
    }

    /// Bytes behind the pointer.
    pub fn bytes(&self) -> usize {
        self.counts.capacity() * size_of::<(u16, u16)>()
    }
}
