//! The jobs that are not over, as the queue's thread keeps them: a fold over the journal.

use crate::api::text::Text;
use crate::store::record::{JobRecord, command_bytes};
use rota_core::Time;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// Jobs that are not over.
#[derive(Clone, Debug, Default)]
pub struct Records {
    /// The record of each job, by its number.
    pub jobs: BTreeMap<u64, Arc<JobRecord>>,
    /// Those that have GPUs, or a processor slot: few, however many wait.
    on_gpus: BTreeSet<u64>,
    /// Jobs that are tried again at a moment.
    timers: BTreeSet<(Time, u64)>,
    /// Jobs that wait because their users have as many GPUs as they may have.
    pub quota_held: BTreeSet<u64>,
    /// What the jobs of each user hold.
    held: HashMap<u32, Held>,
    /// The lengths of the environments that these jobs have, by row.
    environments: HashMap<i64, u64>,
}

/// What a job holds beside its command and its environment.
const JOB_BYTES: u64 = 256;

/// What so many jobs hold that share their command and environment.
pub fn held_bytes(jobs: usize, shared_bytes: usize) -> u64 {
    jobs as u64 * JOB_BYTES + shared_bytes as u64
}

/// The length of an environment.
pub fn environment_bytes(variables: &[(Text, Text)]) -> usize {
    variables.iter().map(|(name, value)| name.0.len() + value.0.len() + 2).sum()
}

/// A text that jobs share: it counts once for all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SharedText {
    /// A command, by its place in memory.
    Command(usize),
    /// An environment, by its row.
    Environment(i64),
}

/// What the jobs of one user hold.
#[derive(Clone, Debug, Default)]
struct Held {
    bytes: u64,
    texts: HashMap<SharedText, usize>,
}

impl Records {
    /// The jobs of a store, and the lengths of their environments.
    pub fn new(jobs: BTreeMap<u64, Arc<JobRecord>>, environments: HashMap<i64, u64>) -> Self {
        let mut records = Self { environments, ..Self::default() };
        for record in jobs.into_values() {
            records.put(record);
        }
        records
    }

    /// Takes in what has become of a job.
    pub fn put(&mut self, record: Arc<JobRecord>) {
        let id = record.id;
        if let Some(before) = self.jobs.get(&id).cloned() {
            self.count(&before, Change::Less);
        }
        if !record.state.is_over() {
            self.count(&record, Change::More);
        }
        if let Some(due) = self.jobs.get(&id).and_then(|before| before.not_before) {
            self.timers.remove(&(Time(due), id));
        }
        let is_over = record.state.is_over();
        set(&mut self.on_gpus, id, record.state.has_gpus());
        set(&mut self.quota_held, id, record.quota_hold && !is_over);
        if is_over {
            self.jobs.remove(&id);
            return;
        }
        self.timers.extend(record.not_before.map(|due| (Time(due), id)));
        self.jobs.insert(id, record);
    }

    /// What the jobs of a user hold that are not over, in bytes.
    pub fn bytes_of(&self, uid: u32) -> u64 {
        self.held.get(&uid).map_or(0, |held| held.bytes)
    }

    /// Takes note of an environment's length, which its jobs do not know.
    pub fn know_environment(&mut self, id: i64, bytes: impl FnOnce() -> u64) {
        self.environments.entry(id).or_insert_with(bytes);
    }

    fn count(&mut self, record: &JobRecord, change: Change) {
        let command = &record.spec.ask.command;
        let texts = [
            (SharedText::Command(Arc::as_ptr(command).addr()), command_bytes(command) as u64),
            (SharedText::Environment(record.env_id), self.environments.get(&record.env_id).copied().unwrap_or(0)),
        ];
        let held = self.held.entry(record.uid).or_default();
        match change {
            Change::More => held.bytes += JOB_BYTES,
            Change::Less => held.bytes = held.bytes.saturating_sub(JOB_BYTES),
        }
        for (text, bytes) in texts {
            let users = held.texts.entry(text).or_insert(0);
            match change {
                Change::More => {
                    held.bytes += if *users == 0 { bytes } else { 0 };
                    *users += 1;
                }
                Change::Less if *users <= 1 => {
                    held.bytes = held.bytes.saturating_sub(bytes);
                    held.texts.remove(&text);
                }
                Change::Less => *users -= 1,
            }
        }
        if held.texts.is_empty() {
            self.held.remove(&record.uid);
        }
    }

    /// Jobs that have GPUs.
    pub fn running(&self) -> impl Iterator<Item = &Arc<JobRecord>> {
        self.on_gpus.iter().filter_map(|id| self.jobs.get(id))
    }

    /// Whether no job has GPUs.
    pub fn is_idle(&self) -> bool {
        self.on_gpus.is_empty()
    }

    /// When the next job is to be tried again.
    pub fn next_timer(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    /// Jobs that are to be tried again by now.
    pub fn due(&self, now: Time) -> Vec<u64> {
        self.timers.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect()
    }
}

/// Whether a job comes or goes.
#[derive(Clone, Copy)]
enum Change {
    More,
    Less,
}

fn set(ids: &mut BTreeSet<u64>, id: u64, is_in: bool) {
    if is_in {
        ids.insert(id);
    } else {
        ids.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::{JobState, Submit};
    use crate::store::Stamp;
    use crate::store::journal::Submission;
    use crate::store::record::Spec;

    fn record(id: u64, command: &Arc<Vec<Text>>) -> Arc<JobRecord> {
        let ask = Submit { command: Arc::clone(command), ..Submit::default() };
        let spec = Some(Arc::new(Spec { ask: Arc::new(ask), ..Spec::default() }));
        let request = Submission { uid: 5, user: "ann".to_owned(), gpus: 1, env_id: 9, memory_mib: None, group: None, spec };
        Arc::new(JobRecord::new(id, &request, Stamp { at: 0, wall_ns: 0 }))
    }

    #[test]
    fn what_jobs_share_counts_once_and_is_given_back_with_the_last_of_them() {
        let mut records = Records::default();
        records.know_environment(9, || 500);
        let (one, other) = (Arc::new(vec![Text::from("x".repeat(999).as_str())]), Arc::new(vec![Text::from("y")]));
        for id in 1..=3 {
            records.put(record(id, &one));
        }
        assert_eq!(records.bytes_of(5), 3 * JOB_BYTES + 1000 + 500);
        records.put(record(4, &other));
        assert_eq!(records.bytes_of(5), 4 * JOB_BYTES + 1000 + 2 + 500);
        // A change of a job changes nothing of it.
        records.put(record(4, &other));
        assert_eq!((records.bytes_of(5), records.bytes_of(6)), (4 * JOB_BYTES + 1502, 0));
        for id in 1..=4 {
            let over = JobRecord { state: JobState::Done, ..(*records.jobs[&id]).clone() };
            records.put(Arc::new(over));
        }
        assert_eq!((records.bytes_of(5), records.held.len()), (0, 0));
    }
}
