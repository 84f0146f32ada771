//! Speeds that were measured while jobs ran, by job type, gang size and GPU type, and what is believed of those that were not.
//! Of two jobs that share their GPUs, the speed of each is kept by the other's job type.
//!
//! A measurement counts as much as everything before it together, as in Gavel: the table follows what changes. One that is shorter than
//! those before counts less, in proportion: a few steps before a stop say little. A GPU type on which a job
//! type was never seen is believed to be as fast as it ever was for another job type, against the types on which both were seen.
//! Policies that divide time expect more of it than that, so that a type that might be worth it is tried.

use crate::{GpuType, GpuTypeId, Span, ThroughputTable, TypeSet};
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
    /// The length of the longest measurement.
    #[serde(default)]
    pub longest: Span,
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
    /// The type of the job on the same GPUs; none for a speed alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Box<str>>,
    /// The speed that was measured.
    pub speed: MeasuredSpeed,
}

type Gang = (Box<str>, u32);
type ByType = BTreeMap<Box<str>, MeasuredSpeed>;
/// A job type, the type of the job on the same GPUs, and the gang size of both.
type Sharing = (Box<str>, Box<str>, u32);

/// The speeds that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredSpeeds {
    /// Jobs alone on their GPUs.
    rows: BTreeMap<Gang, ByType>,
    /// Jobs that share their GPUs with another one.
    pairs: BTreeMap<Sharing, ByType>,
}

impl MeasuredSpeeds {
    /// Takes in a measurement: half of what was known, half of what was seen, and less of it if it was short. `beside` is the type of the
    /// job on the same GPUs.
    pub fn take_in(&mut self, job_type: &str, gpus: u32, gpu_type: &str, beside: Option<&str>, sample: SpeedSample) {
        let seconds = sample.ran.seconds();
        if sample.steps == 0 || seconds <= 0.0 {
            return;
        }
        let seen = sample.steps as f64 / seconds;
        let row = self.row(job_type, gpus, beside);
        let nothing = MeasuredSpeed { steps_per_second: seen, samples: 0, longest: Span::ZERO };
        let known = row.entry(gpu_type.into()).or_insert(nothing);
        known.steps_per_second += (seen - known.steps_per_second) * seconds / (seconds + known.longest.seconds());
        known.longest = known.longest.max(sample.ran);
        known.samples = known.samples.saturating_add(1);
    }

    /// Puts a line back that was read from the table.
    pub fn put(&mut self, entry: &SpeedEntry) {
        self.row(&entry.job_type, entry.gpus, entry.beside.as_deref()).insert(entry.gpu_type.clone(), entry.speed);
    }

    fn row(&mut self, job_type: &str, gpus: u32, beside: Option<&str>) -> &mut ByType {
        match beside {
            None => self.rows.entry((job_type.into(), gpus)).or_default(),
            Some(beside) => self.pairs.entry((job_type.into(), beside.into(), gpus)).or_default(),
        }
    }

    /// All lines: jobs alone, then jobs beside others, each in order of job type, gang size and GPU type.
    pub fn entries(&self) -> impl Iterator<Item = SpeedEntry> {
        let alone = self.rows.iter().map(|((job_type, gpus), row)| (job_type, None, *gpus, row));
        let shared = self.pairs.iter().map(|((job_type, beside, gpus), row)| (job_type, Some(beside), *gpus, row));
        alone.chain(shared).flat_map(|(job_type, beside, gpus, row)| {
            row.iter().map(move |(gpu_type, speed)| SpeedEntry {
                job_type: job_type.clone(),
                gpus,
                gpu_type: gpu_type.clone(),
                beside: beside.cloned(),
                speed: *speed,
            })
        })
    }

    /// The measured speed of a job type with a gang size on a GPU type.
    pub fn get(&self, job_type: &str, gpus: u32, gpu_type: &str) -> Option<MeasuredSpeed> {
        self.rows.get(&(job_type.into(), gpus))?.get(gpu_type).copied()
    }

    /// The measured speed of a job type beside another one on a GPU type.
    pub fn get_beside(&self, job_type: &str, beside: &str, gpus: u32, gpu_type: &str) -> Option<MeasuredSpeed> {
        self.pairs.get(&(job_type.into(), beside.into(), gpus))?.get(gpu_type).copied()
    }

    /// Whether nothing was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty() && self.pairs.is_empty()
    }

    /// The job types with a gang size that were measured on some GPU type.
    pub fn gangs(&self) -> impl Iterator<Item = (&str, u32)> {
        self.rows.keys().map(|(job_type, gpus)| (&**job_type, *gpus))
    }

    /// The speed of a job type on each of these GPU types: measured, or what `table` says, or what is believed. None if it was never
    /// measured.
    pub fn believed(&self, job_type: &str, gpus: u32, types: &[GpuType], table: &ThroughputTable) -> Option<Vec<f64>> {
        self.rows.get(&(job_type.into(), gpus))?;
        let known = types.iter().map(|kind| self.known(job_type, gpus, kind, table)).collect::<Vec<_>>();
        let believed = |to: usize| {
            let anchors = known.iter().enumerate().filter_map(|(from, speed)| Some((from, (*speed)?)));
            anchors.map(|(from, speed)| speed * self.ratio((job_type, gpus), &types[from], &types[to])).fold(0.0, f64::max)
        };
        Some((0..types.len()).map(|to| known[to].unwrap_or_else(|| believed(to))).collect())
    }

    /// The GPU types on which a job type was neither measured nor is in `table`.
    pub fn untried(&self, job_type: &str, gpus: u32, types: &[GpuType], table: &ThroughputTable) -> TypeSet {
        let mut untried = TypeSet::EMPTY;
        for (index, kind) in types.iter().enumerate() {
            if self.known(job_type, gpus, kind, table).is_none() {
                untried.insert(GpuTypeId::from_index(index));
            }
        }
        untried
    }

    fn known(&self, job_type: &str, gpus: u32, kind: &GpuType, table: &ThroughputTable) -> Option<f64> {
        let measured = self.get(job_type, gpus, &kind.name).map(|speed| speed.steps_per_second);
        measured.or_else(|| table.get(job_type, gpus, &kind.name).filter(|speed| *speed > 0.0))
    }

    /// What two job types keep of their speeds beside each other, once both were measured so.
    pub fn pair_parts(&self, types: [&str; 2], gpus: u32, gpu_type: &str, table: &ThroughputTable) -> Option<(f64, f64)> {
        let part = |job_type: &str, beside: &str| {
            let together = self.get_beside(job_type, beside, gpus, gpu_type)?.steps_per_second;
            let measured = self.get(job_type, gpus, gpu_type).map(|speed| speed.steps_per_second);
            let alone = measured.or_else(|| table.get(job_type, gpus, gpu_type)).filter(|alone| *alone > 0.0)?;
            Some(together / alone)
        };
        Some((part(types[0], types[1])?, part(types[1], types[0])?))
    }

    /// A table with what is believed of job types that it does not know, and with the pairs that were measured. A measured pair keeps its
    /// parts of the speeds alone: the table's own pairs and those measured here may come from machines of different speeds.
    pub fn added_to(&self, table: &ThroughputTable, types: &[GpuType]) -> ThroughputTable {
        let mut known = table.clone();
        for (job_type, gpus) in self.gangs() {
            let believed = self.believed(job_type, gpus, types, table).unwrap_or_default();
            for (kind, speed) in types.iter().zip(believed).filter(|(_, speed)| *speed > 0.0) {
                if table.get(job_type, gpus, &kind.name).is_none() {
                    known.insert(job_type, gpus, &kind.name, speed);
                }
            }
        }
        for ((first, second, gpus), row) in self.pairs.iter().filter(|((first, second, _), _)| first <= second) {
            for gpu_type in row.keys() {
                let alone = |job_type: &str| known.get(job_type, *gpus, gpu_type);
                let Some(parts) = self.pair_parts([first, second], *gpus, gpu_type, table) else { continue };
                let Some(speeds) = alone(first).zip(alone(second)) else { continue };
                known.insert_pair((first, *gpus), (second, *gpus), gpu_type, (parts.0 * speeds.0, parts.1 * speeds.1));
            }
        }
        known
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
pub fn has_moved(in_force: &[f64], speeds: &[f64]) -> bool {
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
        speeds.take_in("net", 1, "fast", None, seconds(100, 10));
        speeds.take_in("net", 1, "fast", None, seconds(200, 10));
        speeds.take_in("net", 1, "fast", None, seconds(0, 10));
        let longest = Span::from_whole_seconds(10);
        assert_eq!(speeds.get("net", 1, "fast"), Some(MeasuredSpeed { steps_per_second: 15.0, samples: 2, longest }));
        assert_eq!((speeds.get("net", 2, "fast"), speeds.get("net", 1, "slow")), (None, None));
        let mut again = MeasuredSpeeds::default();
        speeds.entries().for_each(|entry| again.put(&entry));
        assert_eq!(again, speeds);
    }

    #[test]
    fn a_short_measurement_counts_for_as_much_as_it_is_long() {
        let mut speeds = MeasuredSpeeds::default();
        let speed = |speeds: &MeasuredSpeeds| speeds.get("net", 1, "fast").unwrap().steps_per_second;
        speeds.take_in("net", 1, "fast", None, seconds(90, 9));
        speeds.take_in("net", 1, "fast", None, seconds(20, 1));
        assert!((speed(&speeds) - 11.0).abs() < 1e-12, "1 s of 20 beside 9 s of 10");
        speeds.take_in("net", 1, "fast", None, seconds(27 * 20, 27));
        assert!((speed(&speeds) - 17.75).abs() < 1e-12, "three times as long as any before");
    }

    #[test]
    fn a_type_that_was_never_tried_is_believed_to_be_as_good_as_it_ever_was() {
        let types = Cluster::from_spec("fast:1,slow:1,other:1", 1).unwrap().types;
        let (mut speeds, table) = (MeasuredSpeeds::default(), ThroughputTable::default());
        assert_eq!(speeds.believed("net", 1, &types, &table), None);
        speeds.take_in("net", 1, "fast", None, seconds(80, 1));
        assert_eq!(speeds.believed("net", 1, &types, &table).unwrap(), [80.0, 80.0, 80.0], "nothing speaks against the others");
        for (job_type, slow) in [("lm", 25), ("vision", 50)] {
            speeds.take_in(job_type, 1, "fast", None, seconds(100, 1));
            speeds.take_in(job_type, 1, "slow", None, seconds(slow, 1));
        }
        assert_eq!(speeds.believed("net", 1, &types, &table).unwrap(), [80.0, 40.0, 80.0], "as good as for `vision`");
        let mut told = ThroughputTable::new("site");
        told.insert("net", 1, "other", 7.0);
        assert_eq!(speeds.believed("net", 1, &types, &told).unwrap(), [80.0, 40.0, 7.0]);
        speeds.take_in("net", 1, "slow", None, seconds(10, 1));
        assert_eq!(speeds.believed("net", 1, &types, &told).unwrap(), [80.0, 10.0, 7.0], "what was measured counts");
        let untried = |table| speeds.untried("net", 1, &types, table).iter().map(GpuTypeId::index).collect::<Vec<_>>();
        assert_eq!((untried(&table), untried(&told)), (vec![2], vec![]));
    }

    #[test]
    fn a_pair_is_known_when_both_of_its_jobs_were_measured() {
        let types = Cluster::from_spec("fast:1", 1).unwrap().types;
        let mut speeds = MeasuredSpeeds::default();
        // The table was made on a machine twice as fast, and knows `lm` alone and beside its like.
        let mut table = ThroughputTable::new("site");
        table.insert("lm", 1, "fast", 40.0);
        table.insert_pair(("lm", 1), ("lm", 1), "fast", (10.0, 10.0));
        speeds.take_in("net", 1, "fast", None, seconds(100, 10));
        speeds.take_in("lm", 1, "fast", None, seconds(200, 10));
        speeds.take_in("net", 1, "fast", Some("lm"), seconds(80, 10));
        assert_eq!(speeds.pair_parts(["net", "lm"], 1, "fast", &table), None);
        for steps in [60, 100] {
            speeds.take_in("lm", 1, "fast", Some("net"), seconds(steps, 10));
        }
        assert_eq!(
            speeds.get_beside("lm", "net", 1, "fast"),
            Some(MeasuredSpeed { steps_per_second: 8.0, samples: 2, longest: Span::from_whole_seconds(10) })
        );
        assert_eq!(speeds.pair_parts(["net", "lm"], 1, "fast", &table), Some((0.8, 0.4)));
        let known = speeds.added_to(&table, &types);
        assert_eq!((known.get("net", 1, "fast"), known.get("lm", 1, "fast")), (Some(10.0), Some(40.0)));
        assert_eq!(known.get_pair(("net", 1), ("lm", 1), "fast"), Some((8.0, 16.0)), "the parts that were measured");
        assert_eq!(known.get_pair(("lm", 1), ("lm", 1), "fast"), Some((10.0, 10.0)), "the table's own pairs stay");
        let mut again = MeasuredSpeeds::default();
        speeds.entries().for_each(|entry| again.put(&entry));
        assert_eq!(again, speeds);
    }

    #[test]
    fn a_speed_moves_by_a_tenth() {
        assert!(!has_moved(&[1.0, 0.5], &[1.09, 0.46]));
        assert!(has_moved(&[1.0, 0.5], &[1.0, 0.44]));
    }
}
