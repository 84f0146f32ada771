//! History: the journal as runs of jobs on GPUs, in the queue's own time.

use crate::api::{GpuSample, PastRun};
use crate::store::journal::end_of_word;
use crate::store::{Archive, EVENT_COLUMNS, StoreError, StoredEvent, read_event};
use rusqlite::params;
use std::collections::HashMap;

impl Archive {
    /// The runs of jobs, by job. A job without any never started.
    pub fn runs_of(&self, first: u64, last: u64) -> Result<HashMap<u64, Vec<PastRun>>, StoreError> {
        let events: Vec<StoredEvent> = self.read(|connection| {
            connection
                .prepare_cached(&format!("SELECT {EVENT_COLUMNS} FROM events WHERE job BETWEEN ?1 AND ?2 ORDER BY seq"))?
                .query_map(params![first, last], read_event)?
                .collect()
        })?;
        let mut runs: HashMap<u64, Vec<PastRun>> = HashMap::new();
        let mut open: HashMap<u64, (u64, Vec<String>)> = HashMap::new();
        for StoredEvent { job, at, kind, detail, .. } in events {
            let Some(job) = job else { continue };
            if kind == "started" {
                let uuids = serde_json::from_value(detail["uuids"].clone()).unwrap_or_default();
                open.insert(job, (at, uuids));
            } else if end_of_word(&kind).is_some()
                && let Some((start_ns, gpu_uuids)) = open.remove(&job)
            {
                let work_seconds = detail["work_seconds"].as_f64().unwrap_or(at.saturating_sub(start_ns) as f64 / 1e9);
                let kept_part = detail["kept_part"].as_f64();
                let run = PastRun { gpu_uuids, start_ns, end_ns: at, work_seconds, kept_part, end: kind };
                runs.entry(job).or_default().push(run);
            }
        }
        Ok(runs)
    }

    /// When jobs ended for good, by job, in the queue's own time; those that have not are missing.
    pub fn ends_of(&self, jobs: impl IntoIterator<Item = u64>) -> Result<HashMap<u64, u64>, StoreError> {
        self.read(|connection| {
            let sql = "SELECT MAX(at) FROM events WHERE job = ?1 AND kind IN ('finished','failed','cancelled','lost')";
            let mut query = connection.prepare_cached(sql)?;
            let mut ends = HashMap::new();
            // No job was ever given a number that the store cannot hold.
            for job in jobs.into_iter().filter(|job| i64::try_from(*job).is_ok()) {
                let at: Option<u64> = query.query_row([job], |row| row.get(0))?;
                ends.extend(at.map(|at| (job, at)));
            }
            Ok(ends)
        })
    }

    /// When users let jobs go that they held, by job; the last time counts.
    pub fn releases_of(&self, first: u64, last: u64) -> Result<HashMap<u64, u64>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT job, MAX(at) FROM events WHERE kind = 'released' AND job BETWEEN ?1 AND ?2 GROUP BY job")?
                .query_map(params![first, last], |row| Ok((row.get(0)?, row.get(1)?)))?
                .collect()
        })
    }

    /// What the GPUs did between two moments, in seconds since 1970.
    pub fn samples(&self, from_s: i64, until_s: i64) -> Result<Vec<GpuSample>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(
                    "SELECT gpu, wall_s, span_s, utilisation, memory_used_mib, power_watts FROM gpu_samples WHERE wall_s BETWEEN ?1 AND ?2 ORDER BY wall_s, gpu",
                )?
                .query_map(params![from_s, until_s], |row| {
                    Ok(GpuSample {
                        uuid: row.get(0)?,
                        at: crate::clock::rfc3339(row.get::<_, i64>(1)? * 1_000_000_000),
                        span_seconds: row.get(2)?,
                        utilisation_percent: row.get(3)?,
                        memory_used_mib: row.get(4)?,
                        power_watts: row.get(5)?,
                    })
                })?
                .collect()
        })
    }
}
