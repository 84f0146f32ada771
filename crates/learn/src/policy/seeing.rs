//! What the policy looks at, for environments that are taken step by step: they show the same rows that the policy is going to see.

use super::{Learned, Needs};
use crate::model::Model;
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
