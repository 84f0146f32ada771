//! Heat map: how much of each GPU was given out in each bucket of time, how busy it was, and what it drew.

use crate::api::{Heatmap, HeatmapRow};
use crate::clock::rfc3339;
use crate::past::runs::RecordedRun;
use crate::store::{Archive, StoreError};
use rusqlite::{OptionalExtension, params};
use std::collections::HashMap;

/// Equal pieces of a stretch of time.
#[derive(Clone, Copy)]
pub struct Buckets {
    from_ns: i64,
    to_ns: i64,
    count: usize,
}

impl Buckets {
    /// Cuts a stretch of time, which must not be empty.
    pub fn new(from_ns: i64, to_ns: i64, count: usize) -> Self {
        Self { from_ns, to_ns, count }
    }

    fn width_ns(&self) -> f64 {
        (self.to_ns as f64 - self.from_ns as f64) / self.count as f64
    }

    fn edge(&self, bucket: usize) -> f64 {
        self.width_ns() * bucket as f64
    }

    /// Calls with each bucket that a piece of time touches, and the seconds of it that lie in there.
    fn spread(&self, start_ns: i64, end_ns: i64, mut call: impl FnMut(usize, f64)) {
        let (start, end) = (start_ns.max(self.from_ns), end_ns.min(self.to_ns));
        if end <= start {
            return;
        }
        let (start, end) = ((start - self.from_ns) as f64, (end - self.from_ns) as f64);
        let first = ((start / self.width_ns()) as usize).min(self.count - 1);
        for bucket in first..self.count {
            let overlap = end.min(self.edge(bucket + 1)) - start.max(self.edge(bucket));
            if overlap > 0.0 {
                call(bucket, overlap / 1e9);
            }
            if self.edge(bucket + 1) >= end {
                break;
            }
        }
    }

    /// For each bucket the seconds of it that have been and were recorded.
    fn known(&self, first_ns: i64, now_ns: i64) -> Vec<f64> {
        let mut known = vec![0.0; self.count];
        self.spread(first_ns, now_ns, |bucket, seconds| known[bucket] += seconds);
        known
    }
}

/// A mean over time.
#[derive(Clone, Copy, Default)]
struct Mean {
    sum: f64,
    seconds: f64,
}

impl Mean {
    fn add(&mut self, value: Option<f64>, seconds: f64) {
        if let Some(value) = value {
            self.sum += value * seconds;
            self.seconds += seconds;
        }
    }

    fn value(self) -> Option<f64> {
        (self.seconds > 0.0).then(|| self.sum / self.seconds)
    }
}

struct Row {
    allocated_s: Vec<f64>,
    used: Vec<Mean>,
    power_watts: Vec<Mean>,
}

impl Row {
    fn new(count: usize) -> Self {
        Self { allocated_s: vec![0.0; count], used: vec![Mean::default(); count], power_watts: vec![Mean::default(); count] }
    }

    fn take_stay(&mut self, stay: &RecordedRun, buckets: &Buckets, now_ns: i64) {
        buckets.spread(stay.start_ns, stay.end_ns.unwrap_or(now_ns), |bucket, seconds| {
            self.allocated_s[bucket] += seconds * stay.share();
        });
    }

    fn take_sample(&mut self, buckets: &Buckets, span_ns: (i64, i64), utilisation: Option<f64>, power_watts: Option<f64>) {
        buckets.spread(span_ns.0, span_ns.1, |bucket, seconds| {
            self.used[bucket].add(utilisation.map(|percent| (percent / 100.0).clamp(0.0, 1.0)), seconds);
            self.power_watts[bucket].add(power_watts, seconds);
        });
    }

    fn finish(self, uuid: String, index: u32, known_s: &[f64]) -> HeatmapRow {
        let allocated = self.allocated_s.iter().zip(known_s).map(|(allocated, known)| {
            // Time before the first record and in the future is unknown, not free.
            (*known > 0.0).then(|| (allocated / known).min(1.0))
        });
        HeatmapRow {
            uuid,
            index,
            allocated: allocated.collect(),
            used: self.used.into_iter().map(Mean::value).collect(),
            power_watts: self.power_watts.into_iter().map(Mean::value).collect(),
        }
    }
}

/// One row for each GPU that is here, or had a job in that time.
pub fn heatmap(archive: &Archive, buckets: Buckets, now_ns: i64, is_here: impl Fn(&str) -> bool) -> Result<Heatmap, StoreError> {
    let mut rows: HashMap<String, Row> = HashMap::new();
    archive.each_stay(buckets.from_ns, buckets.to_ns, usize::MAX >> 1, |stay| {
        for gpu in &stay.gpus {
            let row = rows.entry(gpu.clone()).or_insert_with(|| Row::new(buckets.count));
            row.take_stay(&stay, &buckets, now_ns);
        }
    })?;
    let first_ns = archive.read(|connection| {
        let epoch: Option<String> =
            connection.query_row("SELECT value FROM meta WHERE key = 'epoch_ns'", [], |row| row.get(0)).optional()?;
        Ok(epoch.and_then(|text| text.parse().ok()).unwrap_or(i64::MIN))
    })?;
    let known_s = buckets.known(first_ns, now_ns);
    let mut gpus = Vec::new();
    for gpu in archive.gpus()? {
        let Some(mut row) = rows.remove(&gpu.uuid).or_else(|| is_here(&gpu.uuid).then(|| Row::new(buckets.count))) else {
            continue;
        };
        take_samples(archive, &gpu.uuid, &buckets, &mut row)?;
        gpus.push(row.finish(gpu.uuid, gpu.index, &known_s));
    }
    Ok(Heatmap { from: rfc3339(buckets.from_ns), to: rfc3339(buckets.to_ns), bucket_seconds: buckets.width_ns() / 1e9, gpus })
}

fn take_samples(archive: &Archive, uuid: &str, buckets: &Buckets, row: &mut Row) -> Result<(), StoreError> {
    const SECOND: i64 = 1_000_000_000;
    // A sample stands for at most a minute before it.
    let (first_s, last_s) = (buckets.from_ns.div_euclid(SECOND), buckets.to_ns.div_euclid(SECOND) + 61);
    archive.read(|connection| {
        let mut statement = connection.prepare_cached(
            "SELECT wall_s, span_s, utilisation, power_watts FROM gpu_samples WHERE gpu = ?1 AND wall_s BETWEEN ?2 AND ?3",
        )?;
        let mut samples = statement.query(params![uuid, first_s, last_s])?;
        while let Some(sample) = samples.next()? {
            let (wall_s, span_s): (i64, i64) = (sample.get(0)?, sample.get(1)?);
            let stretch_ns = ((wall_s - span_s) * SECOND, wall_s * SECOND);
            row.take_sample(buckets, stretch_ns, sample.get(2)?, sample.get(3)?);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::past::runs::Measure;

    const SECOND: i64 = 1_000_000_000;

    fn spread(buckets: Buckets, start: i64, end: i64) -> Vec<(usize, f64)> {
        let mut found = Vec::new();
        buckets.spread(start * SECOND, end * SECOND, |bucket, seconds| found.push((bucket, seconds)));
        found
    }

    #[test]
    fn a_piece_of_time_is_spread_over_the_buckets_it_touches() {
        let buckets = Buckets::new(100 * SECOND, 140 * SECOND, 4);
        assert_eq!(spread(buckets, 105, 125), [(0, 5.0), (1, 10.0), (2, 5.0)]);
        assert_eq!(spread(buckets, 0, 1000), [(0, 10.0), (1, 10.0), (2, 10.0), (3, 10.0)]);
        assert_eq!(spread(buckets, 110, 120), [(1, 10.0)]);
        assert_eq!(spread(buckets, 0, 100), []);
        assert_eq!(spread(buckets, 140, 150), []);
        assert_eq!(spread(buckets, 130, 140), [(3, 10.0)]);
        let total = spread(Buckets::new(0, 7 * SECOND, 3), 1, 6).iter().map(|(_, seconds)| seconds).sum::<f64>();
        assert!((total - 5.0).abs() < 1e-9);
    }

    #[test]
    fn what_nobody_knows_is_null_and_what_goes_on_lasts_until_now() {
        let buckets = Buckets::new(0, 50 * SECOND, 5);
        // Recorded since 10, now is 35.
        let known = buckets.known(10 * SECOND, 35 * SECOND);
        let mut row = Row::new(5);
        let stay = |start: i64, end: Option<i64>, share_milli| RecordedRun {
            job: 1,
            user: String::new(),
            name: None,
            project: None,
            gpus: Vec::new(),
            share_milli,
            start_ns: start * SECOND,
            end_ns: end.map(|end| end * SECOND),
            end: None,
            measure: Measure::default(),
        };
        row.take_stay(&stay(15, Some(25), 1000), &buckets, 35 * SECOND);
        row.take_stay(&stay(30, None, 500), &buckets, 35 * SECOND);
        row.take_sample(&buckets, (10 * SECOND, 20 * SECOND), Some(80.0), Some(100.0));
        row.take_sample(&buckets, (20 * SECOND, 25 * SECOND), Some(40.0), None);
        row.take_sample(&buckets, (25 * SECOND, 30 * SECOND), Some(0.0), None);
        let row = row.finish("a".to_owned(), 0, &known);
        assert_eq!(row.allocated, [None, Some(0.5), Some(0.5), Some(0.5), None]);
        assert_eq!(row.used, [None, Some(0.8), Some(0.2), None, None]);
        assert_eq!(row.power_watts, [None, Some(100.0), None, None, None]);
    }
}
