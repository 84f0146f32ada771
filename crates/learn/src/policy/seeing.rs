//! What the policy looks at, for environments that are taken step by step: they show the same rows that the policy is going to see.

use super::{Learned, Needs};
use crate::features::COUNT;
use crate::model::Model;
use crate::room::Room;
use rota_core::{JobId, Snapshot};
use std::sync::Arc;

impl Learned {
    /// The jobs that a decision looks at, `most` at the most, each with its row of features.
    pub(crate) fn see(&mut self, snapshot: &Snapshot<'_>, most: usize) -> (Vec<JobId>, &[f32]) {
        self.follow(snapshot);
        let room = self.room(snapshot);
        let mut jobs = self.jobs_to_score(snapshot);
        jobs.truncate(most);
        self.rows.clear();
        for &job in &jobs {
            self.push_row(job, &room, snapshot);
        }
        (jobs, &self.rows)
    }

    /// Takes in what happened, and puts the waiting jobs into `jobs`, `most` at the most, in order of arrival. Says how many wait in all.
    pub(crate) fn keep_up(&mut self, snapshot: &Snapshot<'_>, most: usize, jobs: &mut Vec<JobId>) -> usize {
        self.follow(snapshot);
        jobs.clear();
        jobs.extend(self.memory.waiting.keys().take(most));
        self.memory.waiting.len()
    }

    /// The row of a job with nothing in it that depends on the rest of the cluster, and the estimate that it shows.
    pub(crate) fn still_row(&mut self, job: JobId, snapshot: &Snapshot<'_>) -> ([f32; COUNT], Option<f64>) {
        self.rows.clear();
        self.push_row(job, &Room::unseen(snapshot), snapshot);
        let mut row = [0.0; COUNT];
        row.copy_from_slice(&self.rows);
        let view = snapshot.view(job);
        (row, self.may_know(&view, snapshot).then(|| view.believed_seconds()))
    }

    /// How much has been learned about run times.
    pub(crate) fn version(&self) -> u64 {
        self.memory.tracker.version()
    }

    /// A policy that is shown every feature of every job at every decision, whatever the model makes of them.
    pub(crate) fn seeing_all(model: Arc<Model>) -> Self {
        let needs = Needs { restless: true, history: true, user_recent: true };
        Self { needs, ..Self::new(model) }
    }

    /// The same model before it has seen anything.
    pub(crate) fn anew(&self) -> Self {
        Self::seeing_all(Arc::clone(&self.model))
    }
}
