//! Speeds that were measured while jobs ran, alone and beside each other, brought into force.

use crate::State;
use rota_core::measured::has_moved;
use rota_core::{Binder, JobId, Phase, Time};
use std::sync::Arc;

impl State {
    /// The same state, in which the speeds of jobs that are there from the beginning can be measured.
    #[must_use]
    pub fn taught(mut self) -> Self {
        self.binder = Binder::of(&self.bound);
        self
    }

    /// Brings the speeds that were measured into force, where one has moved by a tenth.
    pub(crate) fn use_measured_speeds(&mut self, now: Time) {
        let bound = Arc::make_mut(&mut self.bound);
        let mut moved = Vec::new();
        for (job_type, gpus) in self.measured.gangs() {
            let class = bound.names.find(job_type).and_then(|kind| self.binder.class_by_time(kind, gpus));
            let Some(class) = class else { continue };
            let Some(speeds) = self.measured.believed(job_type, gpus, &bound.cluster.types, &self.table) else { continue };
            let untried = self.measured.untried(job_type, gpus, &bound.cluster.types, &self.table);
            if let Some(jobs) = self.binder.measure(bound, class, &speeds, untried) {
                self.speed_changes += 1;
                moved.extend(jobs);
            }
        }
        if !moved.is_empty() {
            self.use_measured_pairs(now);
        }
        for job in moved {
            match self.jobs[job.index()].phase {
                Phase::Running | Phase::Stopping => self.change_pace(job, now),
                // Placement keeps waiting jobs by their shapes.
                Phase::Waiting => self.note_change(job),
                _ => {}
            }
        }
    }

    /// A job of the first type was measured beside one of the second: brings that into force, where it has moved by a tenth.
    pub(crate) fn use_measured_pair(&mut self, types: [&str; 2], gpus: u32, gpu_type: &str, now: Time) {
        let bound = &self.bound;
        let class = |job_type: &str| bound.names.find(job_type).and_then(|kind| self.binder.class_by_time(kind, gpus));
        let [Some(first), Some(second)] = types.map(class) else { return };
        let Some(kind) = bound.cluster.type_named(gpu_type) else { return };
        let Some(parts) = self.measured.pair_parts(types, gpus, gpu_type, &self.table) else { return };
        let in_force = bound.pair_parts.of(first, second, kind);
        if in_force.is_none_or(|in_force| has_moved(&[in_force.0, in_force.1], &[parts.0, parts.1])) {
            self.use_measured_pairs(now);
        }
    }

    /// Brings the speeds of jobs beside each other into force: those that were measured, and what is expected of the others.
    pub(crate) fn use_measured_pairs(&mut self, now: Time) {
        if self.measured.is_empty() {
            return;
        }
        let mut known = self.measured.added_to(&self.table, &self.bound.cluster.types);
        self.estimator.fill(&mut known);
        if !known.knows_pairs() || !Arc::make_mut(&mut self.bound).measure_pairs(&known) {
            return;
        }
        self.speed_changes += 1;
        let shares = |index: usize| {
            let (job, state) = (JobId::from_index(index), &self.jobs[index]);
            state.phase.has_gpus() && (state.partner.is_some() || self.bound.shape(job).class.is_some())
        };
        let sharing = (0..self.jobs.len()).filter(|index| shares(*index)).map(JobId::from_index).collect::<Vec<_>>();
        self.change_paces(&sharing, now);
    }
}
