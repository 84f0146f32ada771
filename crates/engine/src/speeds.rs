//! Speeds that were measured while jobs ran, brought into force.

use crate::State;
use rota_core::{Phase, Time};
use std::sync::Arc;

impl State {
    /// Brings the speeds that were measured into force, where one has moved by a tenth.
    pub(crate) fn use_measured_speeds(&mut self, now: Time) {
        let bound = Arc::make_mut(&mut self.bound);
        let mut moved = Vec::new();
        for (job_type, gpus) in self.measured.gangs() {
            let class = bound.names.find(job_type).and_then(|kind| self.binder.class_by_time(kind, gpus));
            let Some(class) = class else { continue };
            let Some(speeds) = self.measured.believed(job_type, gpus, &bound.cluster.types, &self.table) else { continue };
            if let Some(jobs) = self.binder.measure(bound, class, &speeds) {
                self.speed_changes += 1;
                moved.extend(jobs);
            }
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
}
