//! Runs: every run of a job on GPUs, with what was measured of it, by the wall clock.
//!
//! A run that touches a stretch of time may have begun long before it, so an index by start alone would have to be read from the
//! beginning. Runs therefore have a class by their length: one that is shorter than an hour and touches a stretch began at most an hour
//! before it. What is read grows with what is asked for, not with the history.

use crate::api::GpuName;
use crate::store::record::JobRecord;
use crate::store::{Archive, Stamp, StoreError, Writer};
use rusqlite::{Row, params};

/// Use of a GPU below this, in per cent, is none.
pub const IDLE_PERCENT: f64 = 5.0;

const SECOND: i64 = 1_000_000_000;
/// The longest that runs of each class are; `None` for those that go on. The same limits are in the table's column.
const LENGTHS_NS: [(Option<u8>, i64); 6] = [
    (Some(0), 60 * SECOND),
    (Some(1), 3600 * SECOND),
    (Some(2), 86_400 * SECOND),
    (Some(3), 30 * 86_400 * SECOND),
    (Some(4), i64::MAX),
    (None, i64::MAX),
];

/// What was measured of a run, over all its GPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Measure {
    /// Energy drawn for it.
    pub energy_joules: Option<f64>,
    /// GPU seconds with next to no use.
    pub idle_s: f64,
    /// GPU seconds of which the use is known.
    pub known_s: f64,
}

impl Measure {
    /// The part of the time in which its GPUs were idle, where anything is known of it.
    pub fn idle_part(&self) -> Option<f64> {
        (self.known_s > 0.0).then(|| (self.idle_s / self.known_s).clamp(0.0, 1.0))
    }
}

/// What samples say of a job over some time. Old samples stand for whole minutes, also for those in which the job came or went: what
/// they say of energy and idleness is right for each second, and not for all of them together.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sampled {
    /// Energy of the samples.
    pub energy_joules: Option<f64>,
    /// Seconds of which the power is known.
    pub powered_s: f64,
    /// Seconds with next to no use.
    pub idle_s: f64,
    /// Seconds of which the use is known.
    pub known_s: f64,
}

impl Sampled {
    /// As it is for a run of so many seconds on so many GPUs; `None` if nothing was sampled.
    pub fn over(&self, seconds: f64, gpus: f64) -> Option<Measure> {
        let known_s = if self.known_s > 0.0 { seconds * gpus } else { 0.0 };
        let energy_joules = self.energy_joules.filter(|_| self.powered_s > 0.0).map(|joules| joules / self.powered_s * seconds);
        let measure = Measure { energy_joules, idle_s: known_s * self.idle_s / self.known_s.max(1.0), known_s };
        (self.known_s > 0.0 || energy_joules.is_some()).then_some(measure)
    }
}

/// One run of a job on GPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordedRun {
    /// The job that was on the GPUs.
    pub job: u64,
    /// The job's owner.
    pub user: String,
    /// The job's name.
    pub name: Option<String>,
    /// The job's project.
    pub project: Option<String>,
    /// UUIDs of its GPUs.
    pub gpus: Vec<String>,
    /// Share of each, in thousandths.
    pub share_milli: u16,
    /// Nanoseconds since 1970.
    pub start_ns: i64,
    /// `None` while it goes on.
    pub end_ns: Option<i64>,
    /// How the run ended; `None` while it goes on.
    pub end: Option<String>,
    /// What was measured over the whole run.
    pub measure: Measure,
}

impl RecordedRun {
    /// The part of it that lies between two moments, as a beginning and an end. One that goes on lasts until `now`.
    pub fn within(&self, from_ns: i64, to_ns: i64, now_ns: i64) -> Option<(i64, i64)> {
        let (start, end) = (self.start_ns.max(from_ns), self.end_ns.unwrap_or(now_ns).min(to_ns));
        (end > start).then_some((start, end))
    }

    /// The job's share of each GPU.
    pub fn share(&self) -> f64 {
        f64::from(self.share_milli) / 1000.0
    }
}

impl Writer<'_> {
    /// A job has come to its GPUs. Jobs without a GPU leave nothing here.
    pub fn begin_run(&mut self, job: &JobRecord, share_milli: u16, stamp: Stamp) -> rusqlite::Result<()> {
        if job.gpu_uuids.is_empty() {
            return Ok(());
        }
        let gpus = serde_json::to_string(&job.gpu_uuids).unwrap_or_default();
        self.connection()
            .prepare_cached(
                "INSERT OR REPLACE INTO runs (job, attempt, user, name, project, gpus, share_milli, start_ns)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                job.id,
                job.attempts,
                job.user,
                job.spec.label(),
                job.spec.ask.project,
                gpus,
                share_milli,
                job.started_ns.unwrap_or(stamp.wall_ns)
            ])?;
        Ok(())
    }

    /// A job has left its GPUs, if it was on any.
    pub fn end_run(&mut self, job: &JobRecord, end: &str, measure: Measure, ended_ns: i64) -> rusqlite::Result<()> {
        // A clock that was set back makes no run end before it began.
        self.connection()
            .prepare_cached(
                "UPDATE runs SET end_ns = max(start_ns, ?2), ending = ?3, energy_joules = ?4, idle_s = ?5, known_s = ?6
                 WHERE job = ?1 AND end_ns IS NULL",
            )?
            .execute(params![job.id, ended_ns, end, measure.energy_joules, measure.idle_s, measure.known_s])?;
        Ok(())
    }

    /// Remembers a GPU, for the time when it is gone.
    pub fn put_gpu(&mut self, gpu: &GpuName, stamp: Stamp) -> rusqlite::Result<()> {
        self.connection()
            .prepare_cached("INSERT OR REPLACE INTO gpus (uuid, number, name, kind, seen_ns) VALUES (?1, ?2, ?3, ?4, ?5)")?
            .execute(params![gpu.uuid, gpu.index, gpu.name, gpu.kind, stamp.wall_ns])?;
        Ok(())
    }
}

const COLUMNS: &str = "job, user, name, project, gpus, share_milli, start_ns, end_ns, ending, energy_joules, coalesce(idle_s, 0), coalesce(known_s, 0)";

fn read_stay(row: &Row<'_>) -> rusqlite::Result<RecordedRun> {
    let gpus: String = row.get(4)?;
    Ok(RecordedRun {
        job: row.get(0)?,
        user: row.get(1)?,
        name: row.get(2)?,
        project: row.get(3)?,
        gpus: serde_json::from_str(&gpus).unwrap_or_default(),
        share_milli: row.get(5)?,
        start_ns: row.get(6)?,
        end_ns: row.get(7)?,
        end: row.get(8)?,
        measure: Measure { energy_joules: row.get(9)?, idle_s: row.get(10)?, known_s: row.get(11)? },
    })
}

/// What samples say of a job between two moments in seconds, the first of them not included.
pub fn measured_between(connection: &rusqlite::Connection, job: u64, from_s: i64, to_s: i64) -> rusqlite::Result<Sampled> {
    connection
        .prepare_cached(
            "SELECT sum(power_watts * span_s), coalesce(sum(CASE WHEN power_watts IS NOT NULL THEN span_s END), 0),
               coalesce(sum(CASE WHEN utilisation < ?4 THEN span_s END), 0), coalesce(sum(CASE WHEN utilisation IS NOT NULL THEN span_s END), 0)
             FROM job_samples WHERE job = ?1 AND wall_s > ?2 AND wall_s <= ?3",
        )?
        .query_row(params![job, from_s, to_s, IDLE_PERCENT], |row| {
            let seconds = |column: usize| row.get::<_, i64>(column).map(|seconds| seconds as f64);
            Ok(Sampled { energy_joules: row.get(0)?, powered_s: seconds(1)?, idle_s: seconds(2)?, known_s: seconds(3)? })
        })
}

impl Archive {
    /// Runs that touch a stretch of time, the latest first within each class of lengths, and no more than `limit` of each.
    pub fn each_stay(&self, from_ns: i64, to_ns: i64, limit: usize, mut call: impl FnMut(RecordedRun)) -> Result<(), StoreError> {
        let sql = format!(
            "SELECT {COLUMNS} FROM runs WHERE length_class IS ?1 AND start_ns > ?2 AND start_ns < ?3 AND (end_ns IS NULL OR end_ns > ?4)
             ORDER BY start_ns DESC LIMIT ?5"
        );
        self.read(|connection| {
            let mut statement = connection.prepare_cached(&sql)?;
            for (class, longest_ns) in LENGTHS_NS {
                let earliest = from_ns.saturating_sub(longest_ns);
                let mut rows = statement.query(params![class, earliest, to_ns, from_ns, limit.cast_signed() as i64])?;
                while let Some(row) = rows.next()? {
                    call(read_stay(row)?);
                }
            }
            Ok(())
        })
    }

    /// The same, in order of their starts; of too many the latest, and whether there were more.
    pub fn stays(&self, from_ns: i64, to_ns: i64, limit: usize) -> Result<(Vec<RecordedRun>, bool), StoreError> {
        let mut stays = Vec::new();
        self.each_stay(from_ns, to_ns, limit + 1, |stay| stays.push(stay))?;
        stays.sort_by_key(|stay| (stay.start_ns, stay.job));
        let surplus = stays.len().saturating_sub(limit);
        stays.drain(..surplus);
        Ok((stays, surplus > 0))
    }

    /// GPUs that are here or were, by index; of two with one index the one seen last comes first.
    pub fn gpus(&self) -> Result<Vec<GpuName>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT uuid, number, name, kind FROM gpus ORDER BY number, seen_ns DESC")?
                .query_map([], |row| Ok(GpuName { uuid: row.get(0)?, index: row.get(1)?, name: row.get(2)?, kind: row.get(3)? }))?
                .collect()
        })
    }

    /// What samples say of a job between two moments.
    pub fn sampled(&self, job: u64, from_ns: i64, to_ns: i64) -> Result<Sampled, StoreError> {
        self.read(|connection| measured_between(connection, job, from_ns.div_euclid(SECOND), to_ns.div_euclid(SECOND)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;

    fn archive(runs: &[(u64, i64, Option<i64>)]) -> (tempfile::TempDir, Archive) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rota.db");
        let mut store = Store::open(&path).unwrap();
        let write = store.transaction(|writer| {
            for (job, start_s, end_s) in runs {
                writer.connection().execute(
                    "INSERT INTO runs (job, attempt, user, gpus, share_milli, start_ns, end_ns) VALUES (?1, 1, 'ann', '[\"a\"]', 1000, ?2, ?3)",
                    params![job, start_s * SECOND, end_s.map(|end| end * SECOND)],
                )?;
            }
            Ok(())
        });
        write.unwrap();
        (folder, Archive::open(&path, crate::store::Access::Shared).unwrap())
    }

    #[test]
    fn a_stretch_finds_the_runs_that_touch_it_however_long_they_are() {
        let month = 30 * 86_400;
        let (_folder, archive) = archive(&[
            (1, 0, Some(10)),
            (2, 90, Some(110)),
            (3, 100, Some(101)),
            (4, 199, Some(5000)),
            (5, 200, Some(300)),
            (6, -3 * month, Some(150)),
            (7, -2 * 86_400, Some(101)),
            (8, 50, None),
            (9, 201, None),
            (10, 40, Some(100)),
        ]);
        let found = |from: i64, to: i64, limit| {
            let (stays, more) = archive.stays(from * SECOND, to * SECOND, limit).unwrap();
            (stays.iter().map(|stay| stay.job).collect::<Vec<_>>(), more)
        };
        assert_eq!(found(100, 200, 100), (vec![6, 7, 8, 2, 3, 4], false));
        assert_eq!(found(100, 200, 2), (vec![3, 4], true));
        assert_eq!(found(6000, 7000, 100), (vec![8, 9], false));
        assert_eq!(found(-9 * month, -8 * month, 100), (vec![], false));
    }

    #[test]
    fn a_stretch_of_a_long_history_is_found_by_the_index() {
        let (_folder, archive) = archive(&[]);
        let plan: Vec<String> = archive
            .read(|connection| {
                let sql = "EXPLAIN QUERY PLAN SELECT job FROM runs WHERE length_class IS ?1 AND start_ns > ?2 AND start_ns < ?3 ORDER BY start_ns DESC";
                connection.prepare(sql)?.query_map(params![1, 0, 1], |row| row.get(3))?.collect()
            })
            .unwrap();
        assert!(plan.iter().all(|step| step.contains("runs_by_length") && !step.contains("SCAN")), "{plan:?}");
    }

    #[test]
    fn what_lies_within_a_stretch() {
        let stay = |start_ns, end_ns| RecordedRun {
            job: 1,
            user: String::new(),
            name: None,
            project: None,
            gpus: Vec::new(),
            share_milli: 250,
            start_ns,
            end_ns,
            end: None,
            measure: Measure::default(),
        };
        assert_eq!(stay(5, Some(25)).within(10, 20, 30), Some((10, 20)));
        assert_eq!(stay(12, Some(15)).within(10, 20, 30), Some((12, 15)));
        assert_eq!(stay(12, None).within(10, 20, 14), Some((12, 14)));
        assert_eq!(stay(12, None).within(10, 20, 30), Some((12, 20)));
        assert_eq!(stay(20, Some(25)).within(10, 20, 30), None);
        assert_eq!(stay(5, Some(10)).within(10, 20, 30), None);
        assert!((stay(0, None).share() - 0.25).abs() < 1e-12);
    }
}
