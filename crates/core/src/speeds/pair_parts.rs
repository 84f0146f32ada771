//! Interference: what is left of the speeds of jobs that share GPUs.
//!
//! Measured for pairs of job classes. Among three or more, each is slowed by every other as if the two were alone; classes that nobody
//! measured together leave each other's speeds as they are.

use crate::measured::has_moved;
use crate::{ClassId, JobClass};
use crate::{Cluster, GpuTypeId, Names, ThroughputTable};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A pair that cannot run together is not made to; if it is all the same, it must not stand still for ever.
const PART_MIN: f64 = 1e-3;

/// What each of two classes keeps of its speed on one GPU type; zeros where they cannot run together, nothing where nobody knows.
type Parts = Option<(f64, f64)>;

/// Fills a table with what is expected of pairs that were never measured.
pub trait PairEstimator: Send + Sync {
    /// Adds pairs of job types whose speeds alone the table knows. The same table is always filled alike.
    fn fill(&self, table: &mut ThroughputTable);
}

/// Expects nothing of pairs that were never measured.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoEstimates;

impl PairEstimator for NoEstimates {
    fn fill(&self, _: &mut ThroughputTable) {}
}

/// By two classes in order of their ids, what each keeps of its speed on each GPU type beside the other.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct PairParts(HashMap<(ClassId, ClassId), Box<[Parts]>>);

impl PairParts {
    /// What a table knows of these classes.
    pub(crate) fn new(classes: &[JobClass], names: &Names, cluster: &Cluster, table: &ThroughputTable) -> Self {
        let mut parts = Self::default();
        parts.add(0, classes, names, cluster, table);
        parts
    }

    /// Adds what a table knows of the classes from a position on, beside each other and beside those before them.
    pub(crate) fn add(&mut self, from: usize, classes: &[JobClass], names: &Names, cluster: &Cluster, table: &ThroughputTable) {
        let paired = classes.iter().enumerate().filter(|(_, class)| class.is_paired).collect::<Vec<_>>();
        let key = |class: &JobClass| (names.text(class.kind), class.gpus);
        for (place, &(position, first)) in paired.iter().enumerate() {
            for &(other, second) in paired[place..].iter().filter(|(other, _)| *other >= from) {
                let on = |kind: &crate::GpuType| {
                    let together = table.get_pair(key(first), key(second), &kind.name)?;
                    let alone = |class: &JobClass| table.get(names.text(class.kind), class.gpus, &kind.name);
                    let part = |rate: f64, class: &JobClass| alone(class).filter(|alone| *alone > 0.0).map(|alone| rate / alone);
                    let parts = (part(together.0, first)?, part(together.1, second)?);
                    Some(if parts.0 > 0.0 && parts.1 > 0.0 { parts } else { (0.0, 0.0) })
                };
                let row = cluster.types.iter().map(on).collect::<Box<[_]>>();
                if row.iter().any(Option::is_some) {
                    self.0.insert((ClassId(position as u32), ClassId(other as u32)), row);
                }
            }
        }
    }

    /// Whether a pair is known in only one of the two, or has moved by a tenth.
    pub(crate) fn differs(&self, other: &Self) -> bool {
        let has_moved = |before: &Parts, after: &Parts| match (before, after) {
            (Some(before), Some(after)) => has_moved(&[before.0, before.1], &[after.0, after.1]),
            (before, after) => before.is_some() != after.is_some(),
        };
        let same = |key, row: &[Parts]| {
            other.0.get(key).is_some_and(|after| !row.iter().zip(after).any(|(before, after)| has_moved(before, after)))
        };
        self.0.len() != other.0.len() || !self.0.iter().all(|(key, row)| same(key, row))
    }

    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// What two classes keep of their speeds beside each other, if that is known; zeros if they cannot run together.
    pub fn of(&self, first: ClassId, second: ClassId, gpu_type: GpuTypeId) -> Option<(f64, f64)> {
        let parts = |a, b| self.0.get(&(a, b)).and_then(|row| row[gpu_type.index()]);
        if first <= second { parts(first, second) } else { parts(second, first).map(|(b, a)| (a, b)) }
    }

    /// What a class keeps of its speed beside all these others.
    pub fn pace(&self, class: ClassId, others: impl Iterator<Item = ClassId>, gpu_type: GpuTypeId) -> f64 {
        others.map(|other| self.of(class, other, gpu_type).map_or(1.0, |parts| parts.0.max(PART_MIN))).product()
    }

    /// How much more a GPU does with one of this class than without, in speeds alone: 1 where nobody is slowed, below 0 where less is
    /// done than before. Nothing where it cannot run beside one of those there.
    pub fn gain(&self, class: ClassId, there: &[ClassId], gpu_type: GpuTypeId) -> Option<f64> {
        let mut gain = self.pace(class, there.iter().copied(), gpu_type);
        for (place, &other) in there.iter().enumerate() {
            let (_, part) = self.of(class, other, gpu_type).unwrap_or((1.0, 1.0));
            if part <= 0.0 {
                return None;
            }
            let rest = there.iter().enumerate().filter(|(at, _)| *at != place).map(|(_, class)| *class);
            gain -= (1.0 - part) * self.pace(other, rest, gpu_type);
        }
        Some(gain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bind::BadJobs;
    use crate::{Bound, Job, Span, Time, Workload};

    /// Classes 0 (a) and 1 (b) take half of each other's speed, c is never in anybody's way, d and a cannot run together.
    fn parts() -> PairParts {
        let mut table = ThroughputTable::new("test");
        let mut workload = Workload::new("test");
        for kind in ["a", "b", "c", "d"] {
            table.insert(kind, 1, "x", 10.0);
            let kind = workload.names.intern(kind);
            workload.push(Job { kind, ..Job::new(Time::ZERO, Span::from_whole_seconds(1)) });
        }
        table.insert_pair(("a", 1), ("b", 1), "x", (5.0, 5.0));
        table.insert_pair(("b", 1), ("b", 1), "x", (2.5, 2.5));
        table.insert_pair(("a", 1), ("d", 1), "x", (0.0, 0.0));
        workload.finish();
        let cluster = Cluster::from_spec("x:1", 1).unwrap();
        Bound::new(workload, cluster, &table, BadJobs::Refuse).unwrap().pair_parts
    }

    #[test]
    fn a_tenth_more_is_another_pair() {
        let known = |first: f64| PairParts(HashMap::from([((ClassId(0), ClassId(1)), [Some((first, 0.5)), None].into())]));
        assert!(!known(0.8).differs(&known(0.87)) && known(0.8).differs(&known(0.9)));
        assert!(known(0.8).differs(&PairParts::default()) && PairParts::default().differs(&known(0.8)));
    }

    #[test]
    fn each_slows_each() {
        let (parts, kind) = (parts(), GpuTypeId(0));
        let [a, b, c, d] = [0, 1, 2, 3].map(ClassId);
        let pace = |class, others: &[ClassId]| Some(parts.pace(class, others.iter().copied(), kind));
        assert_eq!(pace(a, &[]), Some(1.0));
        assert_eq!(pace(a, &[b, c]), Some(0.5));
        assert_eq!(pace(a, &[b, b]), Some(0.25));
        assert_eq!(parts.gain(a, &[], kind), Some(1.0));
        assert_eq!(parts.gain(c, &[a, b], kind), Some(1.0));
        assert_eq!(parts.gain(a, &[b], kind), Some(0.0));
        assert_eq!(parts.gain(b, &[b], kind), Some(-0.5));
        // With two of b there, each at a quarter, the loss is a quarter in all and the newcomer has a quarter.
        assert_eq!(parts.gain(a, &[b, b], kind), Some(0.0));
        assert_eq!(parts.gain(d, &[c, a], kind), None);
        assert_eq!(parts.gain(d, &[b], kind), Some(1.0), "nobody measured them together");
    }
}
