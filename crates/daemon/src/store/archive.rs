//! One reading connection to the store, for questions about the past.

use crate::api::JobState;
use crate::store::Access;
use crate::store::database::{COLUMNS, EVENT_COLUMNS, StoredEvent, job_by_id, read_event};
use crate::store::record::JobRecord;
use crate::store::schema::MIGRATIONS;
use crate::store::shared_texts::JobReader;
use crate::store::{StoreError, explain, journal};
use rusqlite::{Connection, OpenFlags, OptionalExtension, ToSql, params};
use std::path::{Path, PathBuf};

/// Says whether a store is whole, beside the daemon that writes it or without one: how many jobs it has.
pub fn check(path: &Path) -> Result<u64, StoreError> {
    let archive = Archive::open(path, Access::Shared)?;
    let known = MIGRATIONS.len().cast_signed() as i64;
    let (found, health, jobs): (i64, String, u64) = archive.read(|connection| {
        let found = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
        let health = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
        Ok((found, health, connection.query_row("SELECT count(*) FROM jobs", [], |row| row.get(0))?))
    })?;
    if found > known {
        return Err(StoreError::Newer { path: path.to_owned(), found, known });
    }
    if health == "ok" { Ok(jobs) } else { Err(StoreError::Damaged { path: path.to_owned(), problem: health }) }
}

/// The pages that a reading connection keeps, in KiB. The system keeps those of the file, too.
const PAGES_KIB: i64 = 512;

/// A reading connection, for whoever asks about the past.
pub struct Archive {
    connection: Connection,
    path: PathBuf,
}

/// Which jobs of the past.
#[derive(Clone, Debug, Default)]
pub struct Past {
    /// Only those below this number.
    pub before: Option<u64>,
    /// Only in this state.
    pub state: Option<JobState>,
    /// Only of this user.
    pub user: Option<String>,
    /// Only of this project.
    pub project: Option<String>,
    /// Only those that ended at or after this moment, in nanoseconds since 1970.
    pub since_ns: Option<i64>,
    /// Only those that ended before this moment.
    pub until_ns: Option<i64>,
    /// Only those with this in their name or their command, in lower case.
    pub text: Option<String>,
    /// The text and the name are looked for in the jobs of this user only.
    pub text_of: Option<u32>,
    /// Only of this group.
    pub group: Option<u64>,
    /// Only those that are called so, or whose group is.
    pub name: Option<String>,
    /// No more than this.
    pub limit: usize,
}

impl Past {
    /// A part of the text that is the same in every way of writing it, for a first look at what is written down.
    fn pattern(&self) -> Option<String> {
        let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "./=-".contains(letter);
        // The part of a name in brackets is written down in another way.
        let name = self.name.as_deref().and_then(|name| name.split('[').next());
        let words = self.text.as_deref().or(name)?.split(|letter| !is_plain(letter));
        words.max_by_key(|word| word.len()).map(|word| format!("%{word}%"))
    }
}

impl Archive {
    /// Opens a store for reading.
    pub fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let open = || {
            let connection = access.open(path, flags)?;
            connection.busy_timeout(std::time::Duration::from_secs(10))?;
            connection.pragma_update(None, "cache_size", -PAGES_KIB)?;
            Ok(connection)
        };
        Ok(Self { connection: open().map_err(|source| explain(path, source))?, path: path.to_owned() })
    }

    /// Gives back the memory of pages that are kept for the next look.
    pub fn rest(&self) {
        // Nothing is lost if it fails.
        _ = self.connection.execute_batch("PRAGMA shrink_memory");
    }

    /// A job by its number, over or not.
    pub fn job(&self, id: u64) -> Result<Option<JobRecord>, StoreError> {
        self.read(|connection| job_by_id(connection, id))
    }

    /// Where a job is, as far as the store knows.
    pub fn state_of(&self, id: u64) -> Result<Option<JobState>, StoreError> {
        let word: Option<String> = self.read(|connection| {
            connection.prepare_cached("SELECT state FROM jobs WHERE id = ?1")?.query_row([id], |row| row.get(0)).optional()
        })?;
        Ok(word.and_then(|word| JobState::from_word(&word)))
    }

    /// Jobs that are over, the latest first.
    pub fn past(&self, past: &Past) -> Result<Vec<JobRecord>, StoreError> {
        let before = past.before.map(|id| i64::try_from(id).unwrap_or(i64::MAX));
        let group = past.group.map(|group| i64::try_from(group).unwrap_or(i64::MAX));
        let (state, pattern) = (past.state.map(JobState::word), past.pattern());
        let mut sql = format!("SELECT {COLUMNS} FROM jobs WHERE state IN ('done','failed','cancelled','lost')");
        let mut parameters: Vec<&dyn ToSql> = Vec::new();
        let conditions: [(&str, Option<&dyn ToSql>); 8] = [
            ("id < ?", before.as_ref().map(|value| value as _)),
            ("group_id = ?", group.as_ref().map(|value| value as _)),
            ("state = ?", state.as_ref().map(|value| value as _)),
            ("user = ?", past.user.as_ref().map(|value| value as _)),
            ("json_extract(spec, '$.project') = ?", past.project.as_ref().map(|value| value as _)),
            ("finished_ns >= ?", past.since_ns.as_ref().map(|value| value as _)),
            ("finished_ns < ?", past.until_ns.as_ref().map(|value| value as _)),
            // Bytes that are no text are written down in a way that hides them from a first look.
            // So are commands that are kept apart.
            ("(spec LIKE ? OR spec LIKE '%base64%' OR command_id IS NOT NULL)", pattern.as_ref().map(|value| value as _)),
        ];
        for (condition, parameter) in conditions {
            if let Some(parameter) = parameter {
                parameters.push(parameter);
                sql.push_str(" AND ");
                sql.push_str(condition);
            }
        }
        sql.push_str(" ORDER BY id DESC");
        self.read(|connection| {
            let mut query = connection.prepare_cached(&sql)?;
            let parameters = parameters.as_slice();
            let reader = JobReader::new(connection);
            let is_wanted = |record: &JobRecord| {
                let is_seen = past.text_of.is_none_or(|uid| uid == record.uid);
                past.text.as_ref().is_none_or(|text| is_seen && crate::http::says(record, text))
                    && past.name.as_ref().is_none_or(|name| is_seen && record.spec.is_named(name))
            };
            let records = query.query_map(parameters, |row| reader.read(row))?.filter(|record| match record {
                Ok(record) => is_wanted(record),
                // One row that cannot be read does not hide the others; `rota check` names it.
                Err(error) => !is_of_one_row(error),
            });
            records.take(past.limit).collect()
        })
    }

    /// See [`ended`].
    pub fn ended(&self, ends: Ends, newest_max: usize, mut each: impl FnMut(u64, &JobRecord)) -> Result<(), StoreError> {
        self.read(|connection| ended(connection, ends, newest_max, &mut each))
    }

    /// The number of the last event.
    pub fn newest_event(&self) -> Result<u64, StoreError> {
        let newest: Option<u64> =
            self.read(|connection| connection.query_row("SELECT max(seq) FROM events", [], |row| row.get(0)))?;
        Ok(newest.unwrap_or(0))
    }

    /// Events after a number.
    pub fn events_after(&self, seq: u64, limit: u32) -> Result<Vec<StoredEvent>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached(&format!(
                    "SELECT {EVENT_COLUMNS} FROM events WHERE seq > ?1 AND kind NOT IN ({}) ORDER BY seq LIMIT ?2",
                    journal::INNER.map(|word| format!("'{word}'")).join(",")
                ))?
                .query_map(params![seq, limit], read_event)?
                .collect()
        })
    }

    /// Anything else that only reads.
    pub fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        query(&self.connection).map_err(|source| explain(&self.path, source))
    }
}

/// Ends of jobs, by the numbers of their events. The order of these is that in which they were written, whatever the wall clock said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ends {
    /// Only those after this event; without one, the newest.
    pub after: Option<u64>,
    /// None that were written after this event.
    pub until: Option<u64>,
}

/// Hands over jobs that ended and the events of their ends, in the order of these, one at a time and without commands that are kept
/// apart: an array of ten thousand jobs takes no more memory here than one job. Without a first event it begins with the newest
/// `newest_max`.
pub fn ended(
    connection: &Connection,
    ends: Ends,
    newest_max: usize,
    each: &mut dyn FnMut(u64, &JobRecord),
) -> rusqlite::Result<()> {
    let of_ends = "FROM events INDEXED BY events_of_ends";
    let is_end = "kind IN ('finished','failed','cancelled','lost')";
    let until = ends.until.map_or(i64::MAX, u64::cast_signed);
    let after = if let Some(after) = ends.after {
        after.cast_signed()
    } else {
        let sql = format!("SELECT seq {of_ends} WHERE {is_end} AND seq <= ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2");
        connection.prepare_cached(&sql)?.query_row(params![until, newest_max], |row| row.get(0)).optional()?.unwrap_or(0)
    };
    let reader = JobReader::without_commands();
    let sql = format!(
        "SELECT {COLUMNS}, seq {of_ends} CROSS JOIN jobs ON id = job WHERE {is_end} AND seq > ?1 AND seq <= ?2 \
         AND state IN ('done','failed','cancelled','lost') ORDER BY seq"
    );
    let mut query = connection.prepare_cached(&sql)?;
    for record in query.query_map([after, until], |row| Ok((row.get("seq")?, reader.read(row)?)))? {
        match record {
            Ok((seq, record)) => each(seq, &record),
            Err(error) if is_of_one_row(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether an error is about what is in a row, and not about the database.
fn is_of_one_row(error: &rusqlite::Error) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    matches!(error, FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Submit;
    use crate::api::text::Text;
    use crate::store::Store;
    use crate::store::journal::{RunReport, Stamp, Submission};
    use crate::store::record::Spec;
    use rota_core::End;
    use rota_core::event::EventKind;
    use std::sync::Arc;

    /// A job of an array with a long command, which is over or not.
    fn job(id: u64, ask: &Arc<Submit>, state: JobState) -> JobRecord {
        let spec = Spec { ask: Arc::clone(ask), is_template: true, array_index: Some(id), ..Spec::default() };
        let request = Submission { uid: 1, gpus: 1, env_id: 1, spec: Some(Arc::new(spec)), ..Submission::default() };
        JobRecord { state, ..JobRecord::new(id, &request, Stamp { at: 0, wall_ns: 0 }) }
    }

    #[test]
    fn ended_jobs_come_one_at_a_time_as_their_ends_were_written_and_without_long_commands() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rota.db");
        let mut store = Store::open(&path).unwrap();
        let command = Arc::new(vec![Text::from("x".repeat(100_000).as_str())]);
        let ask = Arc::new(Submit { command, name: Some("long".to_owned()), ..Submit::default() });
        store.transaction(|writer| writer.environment(&Arc::default())).unwrap();
        let write = |writer: &mut crate::store::Writer<'_>| {
            for (id, state) in [(1, JobState::Done), (2, JobState::Failed), (3, JobState::Waiting), (4, JobState::Cancelled)] {
                writer.put_job(&job(id, &ask, state))?;
            }
            // The wall clock was set back between the second and the third end.
            let ends =
                [(10, 4, End::Cancelled, 30), (11, 3, End::Preempted, 40), (12, 2, End::Crashed, 50), (13, 1, End::Finished, 20)];
            ends.into_iter().try_for_each(|(seq, job, end, wall_ns)| {
                writer.event(seq, Stamp { at: seq, wall_ns }, &EventKind::Ended { job, end, report: RunReport::default() })
            })
        };
        store.transaction(write).unwrap();
        let archive = Archive::open(&path, Access::Shared).unwrap();
        let seen = |after, until, newest_max| {
            let mut ids = Vec::new();
            let each = |seq, record: &JobRecord| {
                assert_eq!((record.spec.ask.name.as_deref(), record.spec.ask.command.len()), (Some("long"), 0));
                ids.push((seq, record.id));
            };
            archive.ended(Ends { after, until }, newest_max, each).unwrap();
            ids
        };
        assert_eq!(seen(None, None, 100), [(10, 4), (12, 2), (13, 1)]);
        assert_eq!(seen(None, None, 2), [(12, 2), (13, 1)], "the newest teach");
        assert_eq!(seen(None, Some(12), 1), [(12, 2)]);
        assert_eq!(seen(Some(10), None, 1), [(12, 2), (13, 1)]);
        assert_eq!(seen(Some(13), None, 100), []);
    }
}
