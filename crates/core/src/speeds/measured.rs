//! Speeds that were measured while jobs ran, by job type, gang size and GPU type, and what is believed of those that were not.
//!
//! A measurement counts as much as everything before it together, as in Gavel: the table follows what changes. A GPU type on which a job
//! type was never seen is believed to be as fast as it ever was for another job type, against the types on which both were seen. So a
//! type that might be worth it is tried, and one that is not used under this belief would not be used under a lower one either.

use crate::{GpuType, Span, ThroughputTable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A speed in force is changed when it has moved by more than this part.
const CHANGE: f64 = 0.1;

/// The speed of a job type with a gang size on a GPU type, as far as it was measured.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSpeed {
    /// Steps per second of the whole gang.
    pub steps_per_second: f64,
    /// How often it was measured.
    pub samples: u32,
}

/// Steps that a job has done in a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpeedSample {
    /// The steps that the run has done.
    pub steps: u64,
    /// The time that they took.
    pub ran: Span,
}

/// One line of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SpeedEntry {
    /// The job type.
    pub job_type: Box<str>,
    /// The gang size.
    pub gpus: u32,
    /// The GPU type.
    pub gpu_type: Box<str>,
    /// The speed that was measured.
    pub speed: MeasuredSpeed,
}

type Gang = (Box<str>, u32);
type ByType = BTreeMap<Box<str>, MeasuredSpeed>;

/// The speeds that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSpeeds {
    rows: BTreeMap<Gang, ByType>,
}

impl MeasuredSpeeds {
    /// Takes in a measurement: half of what was known, half of what was seen.
    pub fn take_in(&mut self, job_type: &str, gpus: u32, gpu_type: &str, sample: SpeedSample) {
        let seconds = sample.ran.seconds();
        if sample.steps == 0 || seconds <= 0.0 {
            return;
        }
        let seen = sample.steps as f64 / seconds;
        let row = self.rows.entry((job_type.into(), gpus)).or_default();
        let known = row.entry(gpu_type.into()).or_insert(MeasuredSpeed { steps_per_second: seen, samples: 0 });
        known.steps_per_second = f64::midpoint(known.steps_per_second, seen);
        known.samples = known.samples.saturating_add(1);
    }

    /// Puts a line back that was read from the table.
    pub fn put(&mut self, entry: &SpeedEntry) {
        let row = self.rows.entry((entry.job_type.clone(), entry.gpus)).or_default();
        row.insert(entry.gpu_type.clone(), entry.speed);
    }

    /// All lines, in order of job type, gang size and GPU type.
    pub fn entries(&self) -> impl Iterator<Item = SpeedEntry> {
        self.rows.iter().flat_map(|((job_type, gpus), row)| {
            row.iter().map(|(gpu_type, speed)| SpeedEntry {
                job_type: job_type.clone(),
                gpus: *gpus,
                gpu_type: gpu_type.clone(),
                speed: *speed,
            })
        })
    }

    /// The measured speed of a job type with a gang size on a GPU type.
    pub fn get(&self, job_type: &str, gpus: u32, gpu_type: &str) -> Option<MeasuredSpeed> {
        self.rows.get(&(job_type.into(), gpus))?.get(gpu_type).copied()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The job types with a gang size that were measured on some GPU type.
    pub fn gangs(&self) -> impl Iterator<Item = (&str, u32)> {
        self.rows.keys().map(|(job_type, gpus)| (&**job_type, *gpus))
    }

    /// The speed of a job type on each of these GPU types: measured, or what `table` says, or what is believed. None if it was never
    /// measured.
    pub fn believed(&self, job_type: &str, gpus: u32, types: &[GpuType], table: &ThroughputTable) -> Option<Vec<f64>> {
        let own = self.rows.get(&(job_type.into(), gpus))?;
        let known = |kind: &GpuType| {
            let measured = own.get(kind.name.as_str()).map(|speed| speed.steps_per_second);
            measured.or_else(|| table.get(job_type, gpus, &kind.name).filter(|speed| *speed > 0.0))
        };
        let known = types.iter().map(known).collect::<Vec<_>>();
        let believed = |to: usize| {
            let anchors = known.iter().enumerate().filter_map(|(from, speed)| Some((from, (*speed)?)));
            anchors.map(|(from, speed)| speed * self.ratio((job_type, gpus), &types[from], &types[to])).fold(0.0, f64::max)
        };
        Some((0..types.len()).map(|to| known[to].unwrap_or_else(|| believed(to))).collect())
    }

    /// How many times faster than on one GPU type any other job type was seen to be on another one; by what the types say of themselves
    /// where none was seen on both.
    fn ratio(&self, but: (&str, u32), from: &GpuType, to: &GpuType) -> f64 {
        let others = self.rows.iter().filter(|((job_type, gpus), _)| (&**job_type, *gpus) != but);
        let ratios = others.filter_map(|(_, row)| {
            let (from, to) = (row.get(from.name.as_str())?, row.get(to.name.as_str())?);
            Some(to.steps_per_second / from.steps_per_second)
        });
        ratios.reduce(f64::max).unwrap_or(to.speed / from.speed)
    }
}

/// Whether one of these speeds differs from the one in force by more than a tenth.
pub(crate) fn has_moved(in_force: &[f64], speeds: &[f64]) -> bool {
    in_force.iter().zip(speeds).any(|(old, new)| (new - old).abs() > CHANGE * old)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cluster;

    fn seconds(steps: u64, seconds: u64) -> SpeedSample {
        SpeedSample { steps, ran: Span::from_whole_seconds(seconds) }
    }

    #[test]
    fn the_newest_measurement_counts_half() {
        let mut speeds = MeasuredSpeeds::default();
        speeds.take_in("net", 1, "fast", seconds(100, 10));
        speeds.take_in("net", 1, "fast", seconds(200, 10));
        speeds.take_in("net", 1, "fast", seconds(0, 10));
        assert_eq!(speeds.get("net", 1, "fast"), Some(MeasuredSpeed { steps_per_second: 15.0, samples: 2 }));
        assert_eq!((speeds.get("net", 2, "fast"), speeds.get("net", 1, "slow")), (None, None));
        let mut again = MeasuredSpeeds::default();
        speeds.entries().for_each(|entry| again.put(&entry));
        assert_eq!(again, speeds);
    }

    #[test]
    fn a_type_that_was_never_tried_is_believed_to_be_as_good_as_it_ever_was() {
        let types = Cluster::from_spec("fast:1,slow:1,other:1", 1).unwrap().types;
        let (mut speeds, table) = (MeasuredSpeeds::default(), ThroughputTable::default());
        assert_eq!(speeds.believed("net", 1, &types, &table), None);
        speeds.take_in("net", 1, "fast", seconds(80, 1));
        assert_eq!(speeds.believed("net", 1, &types, &table).unwrap(), [80.0, 80.0, 80.0], "nothing speaks against the others");
        for (job_type, slow) in [("lm", 25), ("vision", 50)] {
            speeds.take_in(job_type, 1, "fast", seconds(100, 1));
            speeds.take_in(job_type, 1, "slow", seconds(slow, 1));
        }
        assert_eq!(speeds.believed("net", 1, &types, &table).unwrap(), [80.0, 40.0, 80.0], "as good as for `vision`");
        let mut told = ThroughputTable::new("site");
        told.insert("net", 1, "other", 7.0);
        assert_eq!(speeds.believed("net", 1, &types, &told).unwrap(), [80.0, 40.0, 7.0]);
        speeds.take_in("net", 1, "slow", seconds(10, 1));
        assert_eq!(speeds.believed("net", 1, &types, &told).unwrap(), [80.0, 10.0, 7.0], "what was measured counts");
    }

    #[test]
    fn a_speed_moves_by_a_tenth() {
        assert!(!has_moved(&[1.0, 0.5], &[1.09, 0.46]));
        assert!(has_moved(&[1.0, 0.5], &[1.0, 0.44]));
    }
}
