//! Commands and environments, of which each is in the store once however many jobs have it: an array of ten thousand jobs with one long
//! command holds that command once, on the disk and in memory.

use crate::api::Submit;
use crate::api::text::Text;
use crate::store::database::{Writer, read_job};
use crate::store::record::{JobRecord, Spec, command_bytes};
use crate::store::spec_text::{self, SpecReader};
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

/// A command of an array that is longer than this is kept apart from its jobs.
const ARRAY_COMMAND_BYTES: usize = 256;
/// A command of any job that is longer than this is kept apart from it.
const COMMAND_BYTES: usize = 16 << 10;

/// The rows that were written or found last. Jobs that come together mostly have the same command and environment.
#[derive(Default)]
pub struct KnownTexts {
    environments: HashMap<[u8; 32], i64>,
    last_environment: Option<LastRow<(Text, Text)>>,
    last_ask: Option<LastAsk>,
}

/// A list and its row.
type LastRow<T> = (Arc<Vec<T>>, i64);

/// What was asked for last, as text, and the row of its command where that is kept apart.
struct LastAsk {
    ask: Arc<Submit>,
    text: String,
    command_id: Option<i64>,
}

impl KnownTexts {
    /// The environment with this row, if it was the last one.
    pub(super) fn environment(&self, id: i64) -> Option<Arc<Vec<(Text, Text)>>> {
        self.last_environment.as_ref().filter(|(_, known)| *known == id).map(|(variables, _)| Arc::clone(variables))
    }

    /// Keeps an environment that was read, as the last one.
    pub(super) fn keep_environment(&mut self, id: i64, variables: &Arc<Vec<(Text, Text)>>) {
        self.last_environment = Some((Arc::clone(variables), id));
    }
}

impl Writer<'_> {
    /// The row of an environment, made if it is new: a thousand jobs of one shell share one.
    pub fn environment(&mut self, variables: &Arc<Vec<(Text, Text)>>) -> rusqlite::Result<i64> {
        if let Some((_, id)) = self.known.last_environment.as_ref().filter(|(known, _)| Arc::ptr_eq(known, variables)) {
            return Ok(*id);
        }
        let (content, hash) = sealed(variables)?;
        let id = match self.known.environments.get(&hash) {
            Some(id) => *id,
            None => row_of(self.connection(), "environments", &hash, &content)?,
        };
        self.known.environments.insert(hash, id);
        self.known.last_environment = Some((Arc::clone(variables), id));
        Ok(id)
    }

    /// What is written of a job's specification, and the row of its command where that is kept apart.
    pub(super) fn parts_of(&mut self, spec: &Spec) -> rusqlite::Result<(String, Option<i64>)> {
        let known = self.known.last_ask.as_ref().filter(|known| Arc::ptr_eq(&known.ask, &spec.ask));
        let known = if let Some(known) = known {
            known
        } else {
            let (text, command_id) = self.common_part_of(spec)?;
            &*self.known.last_ask.insert(LastAsk { ask: Arc::clone(&spec.ask), text, command_id })
        };
        Ok((spec_text::text(&known.text, spec).map_err(not_written)?, known.command_id))
    }

    /// What was asked for as text, and the row of its command where that is kept apart.
    fn common_part_of(&self, spec: &Spec) -> rusqlite::Result<(String, Option<i64>)> {
        let (ask, bytes) = (&*spec.ask, command_bytes(&spec.ask.command));
        if bytes <= COMMAND_BYTES && !(spec.is_template && bytes > ARRAY_COMMAND_BYTES) {
            return Ok((serde_json::to_string(ask).map_err(not_written)?, None));
        }
        let (content, hash) = sealed(&ask.command)?;
        let id = row_of(self.connection(), "commands", &hash, &content)?;
        let rest = Submit { command: Arc::default(), ..ask.clone() };
        Ok((serde_json::to_string(&rest).map_err(not_written)?, Some(id)))
    }
}

fn not_written(error: serde_json::Error) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
}

fn sealed(text: &impl Serialize) -> rusqlite::Result<(String, [u8; 32])> {
    let content = serde_json::to_string(text).map_err(not_written)?;
    let hash = Sha256::digest(content.as_bytes()).into();
    Ok((content, hash))
}

fn row_of(connection: &Connection, table: &str, hash: &[u8; 32], content: &str) -> rusqlite::Result<i64> {
    let known = connection
        .prepare_cached(&format!("SELECT id FROM {table} WHERE hash = ?1"))?
        .query_row([hash.as_slice()], |row| row.get(0))
        .optional()?;
    if let Some(id) = known {
        return Ok(id);
    }
    connection
        .prepare_cached(&format!("INSERT INTO {table} (hash, content) VALUES (?1, ?2)"))?
        .execute(params![hash.as_slice(), content])?;
    Ok(connection.last_insert_rowid())
}

/// Reads jobs of one query. Those that ask for the same share it in memory.
pub struct JobReader<'a> {
    /// Where commands that are kept apart are read, if they are wanted.
    commands: Option<&'a Connection>,
    specs: RefCell<SpecReader>,
}

impl JobReader<'static> {
    /// A reader of jobs whose commands do not matter: those that are kept apart are left out.
    pub fn without_commands() -> Self {
        Self { commands: None, specs: RefCell::default() }
    }
}

impl<'a> JobReader<'a> {
    /// A reader on a connection.
    pub fn new(connection: &'a Connection) -> Self {
        Self { commands: Some(connection), specs: RefCell::default() }
    }

    /// The job of a row.
    pub fn read(&self, row: &Row<'_>) -> rusqlite::Result<JobRecord> {
        let spec = self.spec(row.get_ref("spec")?.as_str().map_err(rusqlite::Error::from)?, row.get("command_id")?)?;
        read_job(row, spec)
    }

    /// The specification of a text, whose command may be kept apart.
    pub fn spec(&self, text: &str, command_row: Option<i64>) -> rusqlite::Result<Spec> {
        let command = |ask: &mut Submit| {
            if let (Some(connection), Some(id)) = (self.commands, command_row) {
                ask.command = command_of(connection, id)?;
            }
            Ok(())
        };
        self.specs.borrow_mut().read(text, command_row, command).map_err(|NotRead(error)| error)
    }
}

fn command_of(connection: &Connection, id: i64) -> Result<Arc<Vec<Text>>, NotRead> {
    let content: String =
        connection.prepare_cached("SELECT content FROM commands WHERE id = ?1")?.query_row([id], |row| row.get(0))?;
    Ok(Arc::new(serde_json::from_str(&content)?))
}

/// Why a specification was not read: the database refused, or the text is not as it must be.
struct NotRead(rusqlite::Error);

impl From<rusqlite::Error> for NotRead {
    fn from(error: rusqlite::Error) -> Self {
        Self(error)
    }
}

impl From<serde_json::Error> for NotRead {
    fn from(error: serde_json::Error) -> Self {
        Self(rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Text, error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::journal::{Stamp, Submission};
    use crate::store::{Store, StoreError};

    fn put(store: &mut Store, id: u64, spec: &Arc<Spec>) -> Result<(), StoreError> {
        let request = Submission { uid: 1, gpus: 1, env_id: 1, spec: Some(Arc::clone(spec)), ..Submission::default() };
        let record = JobRecord::new(id, &request, Stamp { at: 0, wall_ns: 0 });
        store.transaction(|writer| writer.put_job(&record))
    }

    #[test]
    fn an_environment_is_read_once_for_the_jobs_that_start_together_and_again_for_others() {
        let mut store = Store::in_memory();
        let variables = |value: &str| Arc::new(vec![(Text::from("NAME"), Text::from(value))]);
        let (one, other) = (variables("one"), variables("other"));
        let first = store.transaction(|writer| writer.environment(&one)).unwrap();
        assert!(Arc::ptr_eq(&store.environment(first).unwrap(), &one), "what was just written is not read");
        let second = store.transaction(|writer| writer.environment(&other)).unwrap();
        let read = store.environment(first).unwrap();
        assert_eq!(read, one);
        assert!(Arc::ptr_eq(&store.environment(first).unwrap(), &read));
        assert_eq!(store.environment(second).unwrap(), other);
        // A row of a transaction that was undone is known to nobody.
        let third = variables("third");
        let undone = store.transaction(|writer| {
            let id = writer.environment(&third)?;
            Err::<(), _>(rusqlite::Error::InvalidParameterName(id.to_string()))
        });
        undone.unwrap_err();
        assert!(store.environment(3).is_err());
        assert_eq!(store.transaction(|writer| writer.environment(&third)).unwrap(), 3);
        store.release_memory();
        assert_eq!(store.environment(3).unwrap(), third);
    }

    #[test]
    fn a_long_command_of_many_jobs_is_written_and_read_once() {
        let mut store = Store::in_memory();
        store.transaction(|writer| writer.environment(&Arc::default())).unwrap();
        let command = Arc::new(vec![Text::from("run"), Text::from("x".repeat(1000).as_str())]);
        for id in 1..=3 {
            let ask = Submit { command: Arc::clone(&command), name: Some("long".to_owned()), ..Submit::default() };
            let ask = Arc::new(ask);
            put(&mut store, id, &Arc::new(Spec { ask, is_template: true, array_index: Some(id), ..Spec::default() })).unwrap();
        }
        let short = Arc::new(Submit { command: Arc::new(vec![Text::from("short")]), ..Submit::default() });
        put(&mut store, 4, &Arc::new(Spec { ask: short.clone(), ..Spec::default() })).unwrap();
        let count = |sql: &str| store.read(|connection| connection.query_row(sql, [], |row| row.get::<_, u64>(0))).unwrap();
        assert_eq!(count("SELECT count(*) FROM commands"), 1);
        assert!(count("SELECT max(length(spec)) FROM jobs") < 500, "no job has a copy of it");
        let jobs = store.unfinished().unwrap().into_iter().map(Result::unwrap).collect::<Vec<_>>();
        assert!(jobs[..3].iter().all(|job| job.spec.ask.command == command && job.spec.ask.name.as_deref() == Some("long")));
        assert!(Arc::ptr_eq(&jobs[0].spec.ask.command, &jobs[2].spec.ask.command), "there is one copy in memory, too");
        assert_eq!(jobs[3].spec.ask, short);
        assert_eq!(store.job(2).unwrap().unwrap(), jobs[1]);
    }
}
