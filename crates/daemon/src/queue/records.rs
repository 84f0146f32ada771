//! The jobs that are not over, as the queue's thread keeps them: a fold over the journal.

use crate::store::record::JobRecord;
use rota_core::Time;
use std::collections::{BTreeMap, BTreeSet};
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
}

impl Records {
    /// The jobs of a store.
    pub fn new(jobs: BTreeMap<u64, Arc<JobRecord>>) -> Self {
        let mut records = Self::default();
        for record in jobs.into_values() {
            records.put(record);
        }
        records
    }

    /// Takes in what has become of a job.
    pub fn put(&mut self, record: Arc<JobRecord>) {
        let id = record.id;
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

fn set(ids: &mut BTreeSet<u64>, id: u64, is_in: bool) {
    if is_in {
        ids.insert(id);
    } else {
        ids.remove(&id);
    }
}
