//! Whether a database is whole and agrees with the run directories, and what the daemon will do where they differ.
//!
//! Nothing is changed. Beside a daemon that runs, the directories are read before the database, so that what is new in the database is
//! not taken for a difference; jobs that are under way are looked at once more afterwards.

use crate::api::JobState;
use crate::store::database::COLUMNS;
use crate::store::journal::QueueEvent;
use crate::store::record::JobRecord;
use crate::store::shared_texts::JobReader;
use crate::store::{Access, Archive, StoreError};
use rota_core::event::EVENT_VERSION;
use rota_exec::{Inspected, RunIdentity, Stage, inspect};
use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// How serious a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// The daemon deals with it by itself.
    Note,
    /// A person should look.
    Problem,
}

/// A difference between the database and the run directories, or a fault of the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How serious it is.
    pub level: Level,
    /// The job it is about.
    pub job: Option<u64>,
    /// What was found.
    pub what: String,
    /// What the daemon will do.
    pub then: String,
}

impl Finding {
    fn note(job: impl Into<Option<u64>>, what: impl Into<String>, then: impl Into<String>) -> Self {
        Self { level: Level::Note, job: job.into(), what: what.into(), then: then.into() }
    }

    fn problem(job: impl Into<Option<u64>>, what: impl Into<String>, then: impl Into<String>) -> Self {
        Self { level: Level::Problem, ..Self::note(job, what, then) }
    }
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Checked {
    /// Whether a daemon runs on the state directory.
    pub daemon_runs: bool,
    /// Jobs in the database.
    pub jobs: u64,
    /// Run directories on the disk.
    pub runs: u64,
    /// What was found, in order of jobs.
    pub findings: Vec<Finding>,
}

impl Checked {
    /// Whether a person should look at something.
    pub fn has_problems(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Problem)
    }
}

/// The attempts of a job that have a run directory.
type Attempts = BTreeMap<u32, Option<Inspected>>;

/// What the database says of a job, as far as run directories are concerned.
struct Known {
    state: JobState,
    attempts: u32,
}

/// Checks a state directory.
pub fn check(state_dir: &Path) -> Result<Checked, StoreError> {
    let mut checked = Checked { daemon_runs: daemon_runs(state_dir), ..Checked::default() };
    let runs = run_dirs(&state_dir.join("jobs"));
    checked.runs = runs.values().map(|attempts| attempts.len() as u64).sum();
    let archive = Archive::open(&state_dir.join("rota.db"), Access::Shared)?;
    check_file(&archive, &mut checked.findings)?;
    let (known, under_way) = check_rows(&archive, &mut checked.findings)?;
    checked.jobs = known.len() as u64;
    for record in under_way {
        let dir = state_dir.join("jobs").join(record.id.to_string()).join(record.attempts.to_string());
        checked.findings.extend(check_under_way(&record, inspect(&dir), checked.daemon_runs));
    }
    check_strays(&runs, &known, &mut checked.findings);
    checked.findings.sort_by_key(|finding| finding.job);
    Ok(checked)
}

fn daemon_runs(state_dir: &Path) -> bool {
    let Ok(lock) = std::fs::File::open(state_dir.join("lock")) else { return false };
    flock(&lock, FlockOperation::NonBlockingLockShared).is_err()
}

/// Every run directory, by job and attempt.
fn run_dirs(jobs: &Path) -> BTreeMap<u64, Attempts> {
    let numbered = |dir: &Path| {
        let entries = std::fs::read_dir(dir).map_or_else(|_| Vec::new(), |entries| entries.flatten().collect::<Vec<_>>());
        let number = |entry: &std::fs::DirEntry| entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
        entries.into_iter().filter_map(move |entry| Some((number(&entry)?, entry.path()))).collect::<Vec<_>>()
    };
    let attempts = |job: &Path| {
        let runs = numbered(job).into_iter();
        runs.filter_map(|(attempt, path)| Some((u32::try_from(attempt).ok()?, inspect(&path).ok()))).collect::<Attempts>()
    };
    numbered(jobs).into_iter().map(|(job, path)| (job, attempts(&path))).collect()
}

/// Whether the file itself is whole.
fn check_file(archive: &Archive, findings: &mut Vec<Finding>) -> Result<(), StoreError> {
    let faults: Vec<String> = archive
        .read(|connection| connection.prepare("PRAGMA integrity_check(20)")?.query_map([], |row| row.get(0))?.collect())?;
    let then = "the daemon may refuse to start: `rota restore` puts a backup in its place";
    findings.extend(faults.iter().filter(|fault| *fault != "ok").map(|fault| Finding::problem(None, fault, then)));
    let astray: u64 =
        archive.read(|connection| connection.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)))?;
    if astray > 0 {
        findings.push(Finding::problem(None, format!("{astray} jobs without their environment"), "they cannot start"));
    }
    let unreadable: Vec<u64> = archive.read(|connection| {
        let mut query = connection.prepare("SELECT seq, detail FROM events WHERE version = ?1")?;
        let mut rows = query.query([EVENT_VERSION])?;
        let mut unreadable = Vec::new();
        while let Some(row) = rows.next()? {
            let content: String = row.get(1)?;
            if serde_json::from_str::<QueueEvent>(&content).is_err() {
                unreadable.push(row.get(0)?);
            }
        }
        Ok(unreadable)
    })?;
    for seq in unreadable {
        let then = "the scheduler is made anew from the jobs' records";
        findings.push(Finding::problem(None, format!("event {seq} cannot be read"), then));
    }
    Ok(())
}

/// The jobs of a database; none for a job that cannot be read.
type KnownJobs = HashMap<u64, Option<Known>>;

/// Whether every job can be read. Gives the jobs, and the records of those under way.
fn check_rows(archive: &Archive, findings: &mut Vec<Finding>) -> Result<(KnownJobs, Vec<JobRecord>), StoreError> {
    let mut known = HashMap::new();
    let mut under_way = Vec::new();
    archive.read(|connection| {
        let reader = JobReader::new(connection);
        let mut query = connection.prepare(&format!("SELECT {COLUMNS} FROM jobs ORDER BY id"))?;
        let mut rows = query.query([])?;
        while let Some(row) = rows.next()? {
            let id: u64 = row.get(0)?;
            match reader.read(row) {
                Ok(record) => {
                    known.insert(id, Some(Known { state: record.state, attempts: record.attempts }));
                    if record.state.has_gpus() && !record.is_claim() {
                        under_way.push(record);
                    }
                }
                Err(error) => {
                    known.insert(id, None);
                    let then = "the job is left out of lists, and is not started";
                    findings.push(Finding::problem(id, format!("its row cannot be read: {error}"), then));
                }
            }
        }
        Ok(())
    })?;
    Ok((known, under_way))
}

/// A job that has GPUs by the database: whether its run directory agrees.
fn check_under_way(record: &JobRecord, inspected: std::io::Result<Inspected>, daemon_runs: bool) -> Option<Finding> {
    let job = record.id;
    let word = record.state.word();
    let inspected = match inspected {
        Ok(inspected) => inspected,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Some(Finding::problem(job, format!("it is {word}, and has no run directory"), "it becomes `lost`"));
        }
        Err(error) => {
            let what = format!("its run directory cannot be read: {error}");
            return Some(Finding::problem(job, what, "the daemon tries again until it can"));
        }
    };
    let found = inspected.identity.as_ref().map(RunIdentity::as_str);
    let is_another = found.is_some() && found != record.identity.as_deref();
    if is_another {
        let what = format!("it is {word}, and its run directory is of another run");
        return Some(Finding::problem(job, what, "it becomes `lost`; what the other run left stays where it is"));
    }
    match inspected.stage {
        Stage::Running { .. } => None,
        // The daemon is about to start it, or about to be told of its end.
        _ if daemon_runs => None,
        Stage::Ended(record) => {
            let how = match (record.code, record.signal) {
                (Some(code), _) => format!("exit code {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => "without a status".to_owned(),
            };
            Some(Finding::note(job, format!("it ended while no daemon ran: {how}"), "its end is taken from the record"))
        }
        Stage::Unused | Stage::NotTaken => Some(Finding::note(job, "its supervisor never came", "it waits again")),
        Stage::Gone => {
            let what = format!("it is {word}, and its supervisor is gone without a record");
            Some(Finding::problem(job, what, "it becomes `lost`, or waits again if the machine was restarted"))
        }
    }
}

/// Runs that the database does not know of.
fn check_strays(runs: &BTreeMap<u64, Attempts>, known: &HashMap<u64, Option<Known>>, findings: &mut Vec<Finding>) {
    let mut unknown = Vec::new();
    for (&job, attempts) in runs {
        let record = known.get(&job);
        for (&attempt, inspected) in attempts {
            let Some(stage) = inspected.as_ref().map(|inspected| &inspected.stage) else { continue };
            let is_known = matches!(record, Some(Some(known)) if attempt <= known.attempts);
            match (stage, record) {
                (Stage::Running { supervisor }, _) if !is_known => {
                    let what = format!("attempt {attempt} runs (supervisor {supervisor}), and the database does not know it");
                    let then = "the daemon neither waits for it nor stops it, and does not know its GPUs are in use";
                    findings.push(Finding::problem(job, what, then));
                }
                (Stage::Running { supervisor }, Some(Some(known))) if known.state.is_over() && attempt == known.attempts => {
                    let what = format!("it is over by the database, and runs (supervisor {supervisor})");
                    findings.push(Finding::problem(job, what, "the daemon does not stop it"));
                }
                (Stage::Unused, _) => {}
                (_, Some(Some(known))) if !is_known && !known.state.is_over() => {
                    let what = format!("attempt {attempt} was started before, and the database does not know it");
                    let then = "the job runs again; what it left is kept beside the new run directory";
                    findings.push(Finding::problem(job, what, then));
                }
                (_, None) => unknown.push(job),
                _ => {}
            }
        }
    }
    unknown.dedup();
    if let (Some(first), Some(last)) = (unknown.first(), unknown.last()) {
        let what = format!("{} jobs have run directories and are not in the database, numbers {first} to {last}", unknown.len());
        findings.push(Finding::note(None, what, "new jobs get higher numbers; remove the directories if nobody needs them"));
    }
}
