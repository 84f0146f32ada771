//! Curves: what one job did over time, and what happened to it.

use crate::api::{JobPoint, JobSamples};
use crate::clock::rfc3339;
use crate::store::{Archive, StoreError, StoredEvent};
use rusqlite::params;

/// Points of a curve; where there are more samples, a point is the mean of several.
const POINTS_MAX: i64 = 2000;
/// Events of one job; of more the latest.
const EVENTS_MAX: u32 = 10_000;

impl Archive {
    /// What was sampled of a job.
    pub fn curve(&self, job: u64) -> Result<JobSamples, StoreError> {
        self.read(|connection| {
            let (first, last): (Option<i64>, Option<i64>) = connection
                .prepare_cached("SELECT min(wall_s), max(wall_s) FROM job_samples WHERE job = ?1")?
                .query_row([job], |row| Ok((row.get(0)?, row.get(1)?)))?;
            let (Some(first), Some(last)) = (first, last) else { return Ok(JobSamples { job, points: Vec::new() }) };
            let width_s = (last - first) / POINTS_MAX + 1;
            let point = |row: &rusqlite::Row<'_>| {
                Ok(JobPoint {
                    at: rfc3339(row.get::<_, i64>(0)? * 1_000_000_000),
                    memory_mib: row.get(1)?,
                    utilisation_percent: row.get(2)?,
                    power_watts: row.get(3)?,
                })
            };
            let points = connection
                .prepare_cached(
                    "SELECT max(wall_s), avg(memory_mib), avg(utilisation), avg(power_watts) FROM job_samples WHERE job = ?1
                     GROUP BY (wall_s - ?2) / ?3 ORDER BY 1",
                )?
                .query_map(params![job, first, width_s], point)?
                .collect::<rusqlite::Result<_>>()?;
            Ok(JobSamples { job, points })
        })
    }

    /// What happened to a job, in order.
    pub fn events_of(&self, job: u64) -> Result<Vec<StoredEvent>, StoreError> {
        let mut events: Vec<StoredEvent> = self.read(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {} FROM events WHERE job = ?1 ORDER BY seq DESC LIMIT ?2",
                    crate::store::EVENT_COLUMNS
                ))?
                .query_map(params![job, EVENTS_MAX], crate::store::read_event)?
                .collect()
        })?;
        events.reverse();
        Ok(events)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    #[test]
    fn a_long_curve_is_drawn_with_fewer_points() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rota.db");
        let mut store = Store::open(&path).unwrap();
        let write = store.transaction(|writer| {
            for second in 0..6000 {
                let row = params![7, second, f64::from(second)];
                writer.connection().prepare_cached("INSERT INTO job_samples VALUES (?1, ?2, 1, ?3, NULL, 5.0)")?.execute(row)?;
            }
            Ok(())
        });
        write.unwrap();
        let archive = Archive::open(&path, crate::store::Access::Shared).unwrap();
        let curve = archive.curve(7).unwrap();
        assert_eq!(curve.points.len(), 2000);
        assert_eq!((curve.points[0].memory_mib, curve.points[0].utilisation_percent), (Some(1.0), None));
        assert_eq!(curve.points[1999].at, rfc3339(5999 * 1_000_000_000));
        assert_eq!(archive.curve(8).unwrap().points, []);
    }
}
