//! The target store: the targets of notifications on the disk, and how far each has been told.
//!
//! Messages themselves are not kept: the journal has all that happened, and a target's place in it says what is still to be told. A
//! connection of its own writes here, without waiting for the disk: a place that is lost in a power cut means a message that comes
//! twice, and the queue's own writes never wait for it.

use super::notification::Notification;
use super::target::{Target, Trust};
use crate::api::{NotifyEvent, NotifyKind};
use crate::store::{Access, Archive, StoreError, StoredEvent};
use rusqlite::{Connection, OpenFlags, Row, params};
use std::path::Path;
use std::time::Duration;

const COLUMNS: &str = "id, uid, user, kind, address, secret, on_events, is_trusted, told, given_up, problem";
/// Events looked at in one go.
const EVENTS_AT_ONCE: usize = 512;

/// The writing connection.
pub struct TargetStore {
    connection: Connection,
    path: std::path::PathBuf,
}

impl TargetStore {
    /// Opens the store, which the queue has made.
    pub fn open(path: &Path, access: Access) -> Result<Self, StoreError> {
        let opened =
            access.open(path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX).and_then(|connection| {
                connection.busy_timeout(Duration::from_secs(10))?;
                // Tidying up the log is left to the queue.
                connection.pragma_update(None, "wal_autocheckpoint", 0)?;
                Ok(Self { connection, path: path.to_owned() })
            });
        opened.map_err(|source| StoreError::Sqlite { path: path.to_owned(), source })
    }

    /// All targets that are kept, of all users and of the site.
    pub fn targets(&self) -> Result<Vec<Target>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM notify_targets ORDER BY id");
        self.explain(|connection| connection.prepare(&sql)?.query_map([], read_target)?.collect())
    }

    /// Adds a target. It is on the disk when this returns, because its user is told that it is kept.
    pub fn add(&self, target: &Target) -> Result<u64, StoreError> {
        self.synced(|connection| {
            connection.execute(
                &format!("INSERT INTO notify_targets ({COLUMNS}) VALUES (NULL, ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, NULL)"),
                params![
                    target.uid,
                    target.user,
                    target.kind.word(),
                    target.address,
                    target.secret,
                    words(&target.on),
                    target.trust == Trust::Administrator,
                    target.told
                ],
            )?;
            Ok(connection.last_insert_rowid().cast_unsigned())
        })
    }

    /// Keeps what a site changed about a target of its own.
    pub fn change(&self, id: u64, target: &Target) -> Result<(), StoreError> {
        self.synced(|connection| {
            let sql = "UPDATE notify_targets SET secret = ?2, on_events = ?3 WHERE id = ?1";
            connection.execute(sql, params![id, target.secret, words(&target.on)]).map(|_| ())
        })
    }

    /// Forgets a target, and with it whatever it was still to be told.
    pub fn remove(&self, id: u64) -> Result<(), StoreError> {
        self.synced(|connection| connection.execute("DELETE FROM notify_targets WHERE id = ?1", [id]).map(|_| ()))
    }

    /// Keeps how far a target has been told, and how that went.
    pub fn note(&self, target: &Target) -> Result<(), StoreError> {
        self.explain(|connection| {
            connection
                .prepare_cached("UPDATE notify_targets SET told = ?2, given_up = ?3, problem = ?4 WHERE id = ?1")?
                .execute(params![target.id, target.told, target.given_up, target.problem])
                .map(|_| ())
        })
    }

    fn synced<T>(&self, change: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        self.explain(|connection| {
            connection.pragma_update(None, "synchronous", "FULL")?;
            let outcome = change(connection);
            connection.pragma_update(None, "synchronous", "NORMAL")?;
            outcome
        })
    }

    fn explain<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, StoreError> {
        work(&self.connection).map_err(|source| StoreError::Sqlite { path: self.path.clone(), source })
    }
}

fn words(events: &[NotifyEvent]) -> String {
    events.iter().map(|event| event.word()).collect::<Vec<_>>().join(",")
}

fn read_target(row: &Row<'_>) -> rusqlite::Result<Target> {
    let kind: String = row.get(3)?;
    let on: String = row.get(6)?;
    let trust = if row.get(7)? { Trust::Administrator } else { Trust::User };
    Ok(Target {
        id: row.get(0)?,
        uid: row.get(1)?,
        user: row.get(2)?,
        kind: NotifyKind::from_word(&kind)
            .ok_or_else(|| rusqlite::Error::InvalidColumnType(3, kind, rusqlite::types::Type::Text))?,
        address: row.get(4)?,
        secret: row.get(5)?,
        on: on.split(',').filter_map(NotifyEvent::from_word).collect(),
        trust,
        told: row.get(8)?,
        given_up: row.get(9)?,
        problem: row.get(10)?,
    })
}

/// The events that a target has not been told of yet.
pub struct Pending {
    /// The messages, oldest first, without their jobs and identities.
    pub events: Vec<(StoredEvent, NotifyEvent)>,
    /// Up to here there is nothing else.
    pub until: u64,
}

/// Looks for what a target is still to be told, among the events up to `head`.
pub fn pending(archive: &Archive, target: &Target, head: u64, most: usize) -> Result<Pending, StoreError> {
    let mut found = Pending { events: Vec::new(), until: target.told };
    while found.until < head && found.events.len() < most {
        let events = archive.read(|connection| {
            // In this order: the journal from a place on, and of each event the owner of its job.
            connection
                .prepare_cached(
                    "SELECT e.seq, e.wall_ns, e.at, e.job, e.kind, e.detail, e.version FROM events e CROSS JOIN jobs j
                     WHERE e.seq > ?1 AND e.seq <= ?2 AND e.kind IN ('started','finished','failed','lost','cancelled')
                       AND j.id = e.job AND (?3 IS NULL OR j.uid = ?3) ORDER BY e.seq LIMIT ?4",
                )?
                .query_map(params![found.until, head, target.uid, EVENTS_AT_ONCE], crate::store::read_event)?
                .collect::<rusqlite::Result<Vec<_>>>()
        })?;
        let is_all = events.len() < EVENTS_AT_ONCE;
        for event in events {
            found.until = event.seq;
            if let Some(what) = meaning(&event).filter(|what| target.on.contains(what)) {
                found.events.push((event, what));
                if found.events.len() == most {
                    return Ok(found);
                }
            }
        }
        if is_all {
            found.until = head;
        }
    }
    Ok(found)
}

/// What an entry of the journal means to people; only the first start of a job is news.
fn meaning(event: &StoredEvent) -> Option<NotifyEvent> {
    match event.kind.as_str() {
        "started" if event.detail["attempt"] == 1 => Some(NotifyEvent::Started),
        "finished" => Some(NotifyEvent::Finished),
        "failed" | "lost" => Some(NotifyEvent::Failed),
        "cancelled" => Some(NotifyEvent::Cancelled),
        _ => None,
    }
}

/// Whether an entry of the journal can be something to tell.
pub fn may_matter(kind: &str) -> bool {
    matches!(kind, "started" | "finished" | "failed" | "lost" | "cancelled")
}

/// The age of a message.
pub fn age(message: &Notification, now_ns: i64) -> Duration {
    Duration::from_nanos(u64::try_from(now_ns - message.wall_ns).unwrap_or(0))
}
