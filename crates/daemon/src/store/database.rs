//! The store: one `SQLite` file with every job, environment, event and sample. What is acknowledged is synced to disk first.
//!
//! One connection writes, in the thread of the queue; others read. The schema grows by numbered migrations; a file written by a
//! newer Rota, or by another user, is refused and left alone.

use crate::api::text::Text;
use crate::api::{JobState, LiveEvent};
use crate::memory::profiles::{ClassKey, Profile, Profiles};
use crate::store::journal::{self, QueueEvent, Stamp};
use crate::store::record::{JobRecord, Spec};
use crate::store::schema::MIGRATIONS;
use crate::store::shared_texts::{JobReader, KnownTexts};
use crate::store::{Access, StoreError, explain};
use crate::watchmen::clients::ClientRow;
use rota_core::event::{EVENT_VERSION, EventKind};
use rusqlite::{Connection, OpenFlags, OptionalExtension, Row, params};
use std::collections::HashMap;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How long a write waits for another to end.
const BUSY_MAX: std::time::Duration = std::time::Duration::from_secs(10);

/// Statements that are kept compiled: more than the queue has, so that none is compiled twice.
const STATEMENTS_KEPT: usize = 64;

/// The columns of a job, in the order in which [`read_job`] takes them.
pub(crate) const COLUMNS: &str = "id, uid, user, spec, env_id, state, user_hold, exit_code, signal, reason, gpu_uuids, gpu_indices, submitted_ns, started_ns, \
                       finished_ns, arrived_at, started_at, attempts, failures, preemptions, service_ns, not_before, cancel, peak_memory_mib, energy_joules, memory_mib, ooms, stop_cause, quota_hold, identity, priority, progress, command_id";

/// An event as it is read.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredEvent {
    /// The event's number; later events have larger ones.
    pub seq: u64,
    /// Nanoseconds since 1970.
    pub wall_ns: i64,
    /// The queue's time.
    pub at: u64,
    /// The job it is about, if it is about one.
    pub job: Option<u64>,
    /// The word that people know the event by.
    pub kind: String,
    /// More, by kind.
    pub detail: serde_json::Value,
}

impl From<StoredEvent> for LiveEvent {
    fn from(event: StoredEvent) -> Self {
        Self { seq: event.seq, at: crate::clock::rfc3339(event.wall_ns), kind: event.kind, job: event.job, detail: event.detail }
    }
}

/// A job as it was read, or its number and what is wrong with its row.
pub type ReadJob = Result<JobRecord, (u64, String)>;

/// The writing connection.
pub struct Store {
    connection: Connection,
    path: PathBuf,
    access: Access,
    known: KnownTexts,
}

impl Store {
    /// Opens the store of a state directory, making or migrating it.
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        // It holds environments, and with them secrets: whoever may look into the directory must not read them. SQLite gives its
        // other files the mode of this one. What cannot be made here is told by SQLite.
        _ = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        match Self::open_by(path, Access::Shared) {
            Err(StoreError::DiskFull(_)) => Self::open_by(path, Access::Alone),
            opened => opened,
        }
    }

    fn open_by(path: &Path, access: Access) -> Result<Self, StoreError> {
        Self::with(access.open(path, OpenFlags::default()).map_err(|source| explain(path, source))?, path, access)
    }

    /// How other connections of this process are to be opened.
    pub fn access(&self) -> Access {
        self.access
    }

    /// A store that is kept in memory and is gone with its value.
    #[cfg(test)]
    pub fn in_memory() -> Self {
        Self::with(Connection::open_in_memory().expect("memory"), Path::new("memory"), Access::Shared).expect("an empty store")
    }

    fn with(connection: Connection, path: &Path, access: Access) -> Result<Self, StoreError> {
        let mut store = Self { connection, path: path.to_owned(), access, known: KnownTexts::default() };
        store.prepare().map_err(|error| match error {
            StoreError::Sqlite { source, .. } => explain(path, source),
            other => other,
        })?;
        Ok(store)
    }

    fn prepare(&mut self) -> Result<(), StoreError> {
        let connection = &mut self.connection;
        let path = self.path.clone();
        let wrap = |source| StoreError::Sqlite { path: path.clone(), source };
        connection.busy_timeout(BUSY_MAX).map_err(wrap)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_KEPT);
        let found: i64 = connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(wrap)?;
        let known = MIGRATIONS.len().cast_signed() as i64;
        if found > known {
            return Err(StoreError::Newer { path, found, known });
        }
        connection.pragma_update(None, "journal_mode", "WAL").map_err(wrap)?;
        connection.pragma_update(None, "synchronous", "FULL").map_err(wrap)?;
        connection.pragma_update(None, "foreign_keys", true).map_err(wrap)?;
        let health: String = connection.query_row("PRAGMA quick_check(1)", [], |row| row.get(0)).map_err(wrap)?;
        if health != "ok" {
            return Err(StoreError::Damaged { path, problem: health });
        }
        for (number, migration) in MIGRATIONS.iter().enumerate().skip(found as usize) {
            let transaction = connection.transaction().map_err(wrap)?;
            transaction.execute_batch(migration).map_err(wrap)?;
            transaction.pragma_update(None, "user_version", number.cast_signed() as i64 + 1).map_err(wrap)?;
            transaction.commit().map_err(wrap)?;
        }
        if found < known {
            // A database whose write-ahead file is lost must not look like a new one.
            self.checkpoint();
        }
        Ok(())
    }

    /// Writes everything into the database file itself, so that a copy of that file alone is whole. Left undone while others read.
    pub fn checkpoint(&self) {
        // What is not done now is done by the next daemon.
        _ = self.connection.busy_timeout(std::time::Duration::from_millis(500));
        _ = self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
        _ = self.connection.busy_timeout(BUSY_MAX);
    }

    /// Gives back the memory of pages and texts that are kept for the next writes.
    pub fn release_memory(&mut self) {
        self.known = KnownTexts::default();
        // Nothing is lost if it fails.
        _ = self.connection.execute_batch("PRAGMA shrink_memory");
    }

    /// Does everything in `change` or nothing, and returns only when it is on the disk.
    pub fn transaction<T>(
        &mut self,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        let (connection, known) = (&self.connection, &mut self.known);
        let outcome = (|| {
            let transaction = OpenTransaction::begin(connection)?;
            let result = change(&mut Writer { connection, known })?;
            transaction.commit()?;
            Ok(result)
        })();
        if outcome.is_err() {
            // Rows that were rolled back must not be remembered.
            self.known = KnownTexts::default();
        }
        outcome.map_err(|source| explain(&self.path, source))
    }

    /// Does everything in `change` or nothing, without waiting for the disk: it outlives this process, and may not outlive the power.
    pub fn transaction_unsynced<T>(
        &mut self,
        change: impl FnOnce(&mut Writer<'_>) -> Result<T, rusqlite::Error>,
    ) -> Result<T, StoreError> {
        let path = self.path.clone();
        let level = |store: &Self, level: &str| {
            store.connection.pragma_update(None, "synchronous", level).map_err(|source| explain(&path, source))
        };
        level(self, "NORMAL")?;
        let outcome = self.transaction(change);
        level(self, "FULL")?;
        outcome
    }

    /// GPUs that an administrator has drained.
    pub fn drained_gpus(&self) -> Result<Vec<String>, StoreError> {
        self.read(|connection| {
            connection
                .prepare("SELECT substr(key, 9) FROM meta WHERE key LIKE 'drained:%' AND value = 'yes'")?
                .query_map([], |row| row.get(0))?
                .collect()
        })
    }

    /// Jobs that are not over, by id. A job whose row cannot be read is given by its number and what is wrong with it.
    pub fn unfinished(&self) -> Result<Vec<ReadJob>, StoreError> {
        let sql =
            format!("SELECT {COLUMNS} FROM jobs WHERE state IN ('waiting','held','starting','running','stopping') ORDER BY id");
        self.read(|connection| {
            let reader = JobReader::new(connection);
            let row = |row: &Row<'_>| {
                let id: u64 = row.get(0)?;
                Ok(reader.read(row).map_err(|error| (id, error.to_string())))
            };
            connection.prepare(&sql)?.query_map([], row)?.collect()
        })
    }

    /// The lengths of the environments of jobs that are not over, by row.
    pub fn environment_bytes(&self) -> Result<HashMap<i64, u64>, StoreError> {
        let sql = "SELECT id, length(content) FROM environments WHERE id IN
                   (SELECT env_id FROM jobs WHERE state IN ('waiting','held','starting','running','stopping'))";
        self.read(|connection| connection.prepare(sql)?.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?.collect())
    }

    /// Arrays that were accepted and not yet made into jobs to the last.
    pub fn arrays(&self) -> Result<Vec<String>, StoreError> {
        self.read(|connection| {
            connection.prepare("SELECT content FROM arrays ORDER BY first")?.query_map([], |row| row.get(0))?.collect()
        })
    }

    /// A value that outlives the daemon.
    pub fn meta(&self, key: &str) -> Result<Option<String>, StoreError> {
        self.read(|connection| connection.query_row("SELECT value FROM meta WHERE key = ?1", [key], |row| row.get(0)).optional())
    }

    /// The highest number given to a job, and to an event, and the last moment written.
    pub fn last(&self) -> Result<(u64, u64, u64), StoreError> {
        self.read(|connection| {
            let job: Option<u64> = connection.query_row("SELECT max(id) FROM jobs", [], |row| row.get(0))?;
            let event: Option<(u64, u64)> = connection
                .query_row("SELECT seq, at FROM events ORDER BY seq DESC LIMIT 1", [], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            Ok((job.unwrap_or(0), event.map_or(0, |event| event.0), event.map_or(0, |event| event.1)))
        })
    }

    /// How the jobs that others wait for ended, where they have.
    pub fn states_of(&self, ids: &[u64]) -> Result<HashMap<u64, JobState>, StoreError> {
        let mut states = HashMap::new();
        // No job was ever given a number that the store cannot hold.
        for id in ids.iter().filter(|id| i64::try_from(**id).is_ok()) {
            let found: Option<String> = self.read(|connection| {
                connection.query_row("SELECT state FROM jobs WHERE id = ?1", [id], |row| row.get(0)).optional()
            })?;
            states.extend(found.and_then(|word| JobState::from_word(&word)).map(|state| (*id, state)));
        }
        Ok(states)
    }

    /// The job a user submitted with a key: its first, and how many came with it.
    pub fn by_key(&self, uid: u32, key: &str) -> Result<Vec<u64>, StoreError> {
        self.read(|connection| {
            connection
                .prepare_cached("SELECT id FROM jobs WHERE uid = ?1 AND key = ?2 ORDER BY id")?
                .query_map(params![uid, key], |row| row.get(0))?
                .collect()
        })
    }

    /// The image of the scheduler, and the event it was made after.
    pub fn image(&self) -> Result<Option<(u64, Vec<u8>)>, StoreError> {
        self.read(|connection| {
            let row = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
            connection.query_row("SELECT seq, content FROM images", [], row).optional()
        })
    }

    /// The events after one, in the order in which they were written. Each job that was accepted comes with what it asked for.
    pub fn journal_after(&self, seq: u64) -> Result<Vec<(u64, Stamp, QueueEvent)>, StoreError> {
        let rows: Vec<Result<(u64, Stamp, QueueEvent), StoreError>> = self.read(|connection| {
            let reader = JobReader::new(connection);
            let row = |row: &Row<'_>| {
                let seq = row.get(0)?;
                let wrong = |problem: String| StoreError::Row { job: 0, problem: format!("event {seq}: {problem}") };
                let mut event: QueueEvent = match serde_json::from_str(row.get_ref(3)?.as_str().map_err(rusqlite::Error::from)?) {
                    Ok(event) => event,
                    Err(error) => return Ok(Err(wrong(error.to_string()))),
                };
                if let (EventKind::Admitted { request, .. }, Ok(text)) = (&mut event, row.get_ref(4)?.as_str()) {
                    match reader.spec(text, row.get(5)?) {
                        Ok(spec) => request.spec = Some(Arc::new(spec)),
                        Err(error) => return Ok(Err(wrong(error.to_string()))),
                    }
                }
                Ok(Ok((seq, Stamp { wall_ns: row.get(1)?, at: row.get(2)? }, event)))
            };
            let sql = "SELECT e.seq, e.wall_ns, e.at, e.detail, CASE WHEN e.kind = 'submitted' THEN j.spec END, j.command_id
                       FROM events e LEFT JOIN jobs j ON j.id = e.job WHERE e.seq > ?1 AND e.version = ?2 ORDER BY e.seq";
            connection.prepare(sql)?.query_map(params![seq, EVENT_VERSION], row)?.collect()
        })?;
        rows.into_iter().collect()
    }

    /// The environment that jobs refer to by this number. The one that was written or read last is not read again.
    pub fn environment(&mut self, id: i64) -> Result<Arc<Vec<(Text, Text)>>, StoreError> {
        if let Some(known) = self.known.environment(id) {
            return Ok(known);
        }
        let sql = "SELECT content FROM environments WHERE id = ?1";
        let content: String = self.read(|connection| connection.prepare_cached(sql)?.query_row([id], |row| row.get(0)))?;
        let wrong = |error| StoreError::Row { job: 0, problem: format!("environment {id}: {error}") };
        let read = Arc::new(serde_json::from_str(&content).map_err(wrong)?);
        self.known.keep_environment(id, &read);
        Ok(read)
    }

    /// One job, over or not.
    pub fn job(&self, id: u64) -> Result<Option<JobRecord>, StoreError> {
        self.read(|connection| job_by_id(connection, id))
    }

    /// What is known of the memory of programs.
    pub fn profiles(&self) -> Result<Profiles, StoreError> {
        let rows = self.read(|connection| {
            let row = |row: &Row<'_>| {
                let content: String = row.get(3)?;
                // One that cannot be read is learned anew.
                let profile = serde_json::from_str::<Profile>(&content).unwrap_or_default();
                Ok((ClassKey { uid: row.get(0)?, class: row.get(1)? }, row.get(2)?, profile))
            };
            connection.prepare("SELECT uid, class, gpu_type, content FROM profiles")?.query_map([], row)?.collect()
        })?;
        Ok(Profiles::load(rows))
    }

    /// Clients of watchmen that are listed.
    pub fn clients(&self) -> Result<Vec<ClientRow>, StoreError> {
        self.read(|connection| {
            let row = |row: &Row<'_>| {
                let tie: Option<String> = row.get(2)?;
                // One that cannot be read is as if its process were not known.
                let tie = tie.and_then(|text| serde_json::from_str(&text).ok());
                Ok(ClientRow { job: row.get(0)?, requested_ns: row.get(1)?, tie })
            };
            connection.prepare("SELECT job, requested_ns, tie FROM clients ORDER BY job")?.query_map([], row)?.collect()
        })
    }

    /// Anything else that only reads.
    pub fn read<T>(&self, query: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        query(&self.connection).map_err(|source| explain(&self.path, source))
    }
}

/// A transaction that has begun. It is undone unless it is committed. Its own statements are kept compiled, as all others are.
struct OpenTransaction<'a>(&'a Connection);

impl<'a> OpenTransaction<'a> {
    fn begin(connection: &'a Connection) -> rusqlite::Result<Self> {
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(Self(connection))
    }

    fn commit(self) -> rusqlite::Result<()> {
        self.0.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}

impl Drop for OpenTransaction<'_> {
    fn drop(&mut self) {
        // Some errors have undone it already.
        if !self.0.is_autocommit() {
            _ = self.0.execute_batch("ROLLBACK");
        }
    }
}

/// Changes inside one transaction.
pub struct Writer<'a> {
    connection: &'a Connection,
    pub(super) known: &'a mut KnownTexts,
}

impl Writer<'_> {
    /// Writes a job, new or changed.
    pub fn put_job(&mut self, job: &JobRecord) -> rusqlite::Result<()> {
        let json = |value: &dyn erased::Json| value.text();
        let (spec, command_id) = self.parts_of(&job.spec)?;
        let membership = job.spec.membership;
        self.connection.prepare_cached(
            "INSERT INTO jobs (id, uid, user, key, spec, env_id, state, user_hold, exit_code, signal, reason, gpu_uuids, gpu_indices, submitted_ns,
               started_ns, finished_ns, arrived_at, started_at, attempts, failures, preemptions, service_ns, not_before, cancel, peak_memory_mib, energy_joules, memory_mib, ooms, quota_hold, command_id,
               group_id, group_place)
             VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19,?20,?21,?22,?23,?24,?25,?26,?27,?28,?29,?30,?31,?32)",
        )?
        .execute(params![
            job.id, job.uid, job.user, job.spec.ask.key, spec, job.env_id, job.state.word(), job.user_hold, job.exit_code,
            job.signal, job.reason, json(&job.gpu_uuids), json(&job.gpu_indices), job.submitted_ns, job.started_ns, job.finished_ns,
            job.arrived_at, job.started_at, job.attempts, job.failures, job.preemptions, job.service_ns, job.not_before, job.cancel,
            job.peak_memory_mib, job.energy_joules, job.memory_mib, job.ooms, job.quota_hold, command_id,
            membership.map(|place| place.group), membership.map(|place| place.place),
        ])?;
        Ok(())
    }

    /// Writes what has become of a job; what was asked for stays as it was.
    pub fn update_job(&mut self, job: &JobRecord) -> rusqlite::Result<()> {
        let json = |value: &dyn erased::Json| value.text();
        self.connection.prepare_cached(
            "UPDATE jobs SET state = ?2, user_hold = ?3, exit_code = ?4, signal = ?5, reason = ?6, gpu_uuids = ?7, gpu_indices = ?8, started_ns = ?9,
               finished_ns = ?10, started_at = ?11, attempts = ?12, failures = ?13, preemptions = ?14, service_ns = ?15, not_before = ?16, cancel = ?17,
               peak_memory_mib = ?18, energy_joules = ?19, memory_mib = ?20, ooms = ?21, stop_cause = ?22, quota_hold = ?23, identity = ?24, progress = ?25 WHERE id = ?1",
        )?
        .execute(params![
            job.id, job.state.word(), job.user_hold, job.exit_code, job.signal, job.reason, json(&job.gpu_uuids), json(&job.gpu_indices),
            job.started_ns, job.finished_ns, job.started_at, job.attempts, job.failures, job.preemptions, job.service_ns, job.not_before,
            job.cancel, job.peak_memory_mib, job.energy_joules, job.memory_mib, job.ooms, job.stop_cause.as_ref().map(erased::Json::text),
            job.quota_hold, job.identity, json(&job.progress),
        ])?;
        Ok(())
    }

    /// Writes the priority of a job, which was changed. What was asked for stays as it was.
    pub fn update_priority(&mut self, job: u64, priority: i32) -> rusqlite::Result<()> {
        self.connection.prepare_cached("UPDATE jobs SET priority = ?2 WHERE id = ?1")?.execute(params![job, priority])?;
        Ok(())
    }

    /// Writes an event.
    pub fn event(&mut self, seq: u64, stamp: Stamp, event: &QueueEvent) -> rusqlite::Result<()> {
        let content = serde_json::to_string(event).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        self.connection
            .prepare_cached(
                "INSERT INTO events (seq, wall_ns, at, job, kind, detail, version) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![seq, stamp.wall_ns, stamp.at, event.job(), journal::word(event), content, EVENT_VERSION])?;
        // What administrators set is kept where a restart finds it without reading the whole journal.
        let yes = |is_so: bool| if is_so { "yes" } else { "no" };
        match event {
            EventKind::PolicySet { policy, .. } => self.set_meta("policy", policy),
            EventKind::Drained { gpu: None, .. } | EventKind::Resumed { gpu: None, .. } => {
                self.set_meta("draining", yes(matches!(event, EventKind::Drained { .. })))
            }
            EventKind::Drained { gpu: Some(uuid), .. } | EventKind::Resumed { gpu: Some(uuid), .. } => {
                self.set_meta(&format!("drained:{uuid}"), yes(matches!(event, EventKind::Drained { .. })))
            }
            _ => Ok(()),
        }
    }

    /// Writes an image of the scheduler as of an event, in place of the one before, and drops what only the scheduler needed until then.
    pub fn put_image(&mut self, seq: u64, content: &[u8]) -> rusqlite::Result<()> {
        // Those before the last image went with it: a long journal is not read again.
        let before: Option<u64> = self.connection.query_row("SELECT max(seq) FROM images", [], |row| row.get(0))?;
        self.connection.prepare_cached("INSERT OR REPLACE INTO images VALUES (1, ?1, ?2)")?.execute(params![seq, content])?;
        let inner = journal::INNER.map(|word| format!("'{word}'")).join(",");
        let sql = format!("DELETE FROM events WHERE seq > ?1 AND seq <= ?2 AND kind IN ({inner})");
        self.connection.execute(&sql, [before.unwrap_or(0), seq])?;
        Ok(())
    }

    /// Keeps an array that is being made into jobs, by the number of its first one, until all of them are there.
    pub fn put_array(&mut self, first: u64, content: &str) -> rusqlite::Result<()> {
        self.connection.prepare_cached("INSERT INTO arrays VALUES (?1, ?2)")?.execute(params![first, content])?;
        Ok(())
    }

    /// Forgets an array whose jobs are all there.
    pub fn forget_array(&mut self, first: u64) -> rusqlite::Result<()> {
        self.connection.prepare_cached("DELETE FROM arrays WHERE first = ?1")?.execute([first])?;
        Ok(())
    }

    /// Keeps a value that outlives the daemon.
    pub fn set_meta(&mut self, key: &str, value: &str) -> rusqlite::Result<()> {
        self.connection
            .prepare_cached("INSERT INTO meta VALUES (?1, ?2) ON CONFLICT(key) DO UPDATE SET value = ?2")?
            .execute(params![key, value])?;
        Ok(())
    }

    /// Keeps what is known of a class.
    pub fn put_profile(&mut self, key: &ClassKey, kind: &str, profile: &Profile) -> rusqlite::Result<()> {
        let content = serde_json::to_string(profile).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))?;
        self.connection
            .prepare_cached("INSERT OR REPLACE INTO profiles VALUES (?1, ?2, ?3, ?4)")?
            .execute(params![key.uid, key.class, kind, content])?;
        Ok(())
    }

    /// Keeps when a client of watchmen was last heard of, and the process it is tied to.
    pub fn put_client(&mut self, row: &ClientRow) -> rusqlite::Result<()> {
        let tie = row.tie.as_ref().map(erased::Json::text);
        self.connection.prepare_cached("INSERT OR REPLACE INTO clients VALUES (?1, ?2, ?3)")?.execute(params![
            row.job,
            row.requested_ns,
            tie
        ])?;
        Ok(())
    }

    /// Does not list a client any more; its job stays in the history.
    pub fn forget_client(&mut self, job: u64) -> rusqlite::Result<()> {
        self.connection.prepare_cached("DELETE FROM clients WHERE job = ?1")?.execute([job])?;
        Ok(())
    }

    /// Forgets a class.
    pub fn forget_profile(&mut self, key: &ClassKey) -> rusqlite::Result<()> {
        self.connection.execute("DELETE FROM profiles WHERE uid = ?1 AND class = ?2", params![key.uid, key.class])?;
        Ok(())
    }

    /// The connection, for what has a file of its own: samples, tokens.
    pub fn connection(&self) -> &Connection {
        self.connection
    }
}

mod erased {
    /// Anything that can be written as JSON, which these types always can.
    pub trait Json {
        fn text(&self) -> String;
    }

    impl<T: serde::Serialize> Json for T {
        fn text(&self) -> String {
            serde_json::to_string(self).unwrap_or_default()
        }
    }
}

/// The job of a row, whose specification was read before.
pub(super) fn read_job(row: &Row<'_>, mut spec: Spec) -> rusqlite::Result<JobRecord> {
    let json_error = |column: usize, error: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, error.into())
    };
    if let Some(priority) = row.get(30)?
        && priority != spec.ask.priority
    {
        Arc::make_mut(&mut spec.ask).priority = priority;
    }
    let state: String = row.get(5)?;
    let list = |column: usize| row.get::<_, String>(column);
    Ok(JobRecord {
        id: row.get(0)?,
        uid: row.get(1)?,
        user: row.get(2)?,
        spec: Arc::new(spec),
        env_id: row.get(4)?,
        state: JobState::from_word(&state)
            .ok_or_else(|| rusqlite::Error::InvalidColumnType(5, state, rusqlite::types::Type::Text))?,
        user_hold: row.get(6)?,
        exit_code: row.get(7)?,
        signal: row.get(8)?,
        reason: row.get(9)?,
        gpu_uuids: serde_json::from_str(&list(10)?).map_err(|error| json_error(10, error))?,
        gpu_indices: serde_json::from_str(&list(11)?).map_err(|error| json_error(11, error))?,
        submitted_ns: row.get(12)?,
        started_ns: row.get(13)?,
        finished_ns: row.get(14)?,
        arrived_at: row.get(15)?,
        started_at: row.get(16)?,
        attempts: row.get(17)?,
        failures: row.get(18)?,
        preemptions: row.get(19)?,
        service_ns: row.get(20)?,
        not_before: row.get(21)?,
        cancel: row.get(22)?,
        peak_memory_mib: row.get(23)?,
        energy_joules: row.get(24)?,
        memory_mib: row.get(25)?,
        ooms: row.get(26)?,
        stop_cause: row.get::<_, Option<String>>(27)?.and_then(|text| serde_json::from_str(&text).ok()),
        quota_hold: row.get(28)?,
        identity: row.get(29)?,
        progress: row.get::<_, Option<String>>(31)?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
    })
}

/// The columns of an event, in the order in which [`read_event`] takes them.
pub const EVENT_COLUMNS: &str = "seq, wall_ns, at, job, kind, detail, version";

/// An event as people are told it.
pub fn read_event(row: &Row<'_>) -> rusqlite::Result<StoredEvent> {
    let content: String = row.get(5)?;
    let detail = if row.get::<_, u16>(6)? < EVENT_VERSION {
        // Written before events had types: it is told as it was.
        serde_json::from_str(&content).unwrap_or_default()
    } else {
        serde_json::from_str::<QueueEvent>(&content).map_or(serde_json::Value::Null, |event| journal::detail(&event))
    };
    Ok(StoredEvent { seq: row.get(0)?, wall_ns: row.get(1)?, at: row.get(2)?, job: row.get(3)?, kind: row.get(4)?, detail })
}

pub(super) fn job_by_id(connection: &Connection, id: u64) -> rusqlite::Result<Option<JobRecord>> {
    if i64::try_from(id).is_err() {
        // No job was ever given such a number.
        return Ok(None);
    }
    let reader = JobReader::new(connection);
    let sql = format!("SELECT {COLUMNS} FROM jobs WHERE id = ?1");
    connection.prepare_cached(&sql)?.query_row([id], |row| reader.read(row)).optional()
}
