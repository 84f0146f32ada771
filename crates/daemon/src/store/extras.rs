//! GPUs that a run has beyond those its job asked for, as its record keeps them.

use crate::store::journal::Stamp;
use crate::store::record::JobRecord;
use rota_core::ExtraStep;
use serde::{Deserialize, Serialize};

/// A GPU that a run may use until it is asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraGpu {
    /// The UUID of the offered GPU.
    pub uuid: String,
    /// When the run was asked to give it back, by the queue's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub withdrawn_at: Option<u64>,
}

/// What a run has after an event.
pub fn fold(extras: &mut Vec<ExtraGpu>, gpu: &str, step: ExtraStep, stamp: Stamp) {
    let known = extras.iter_mut().find(|extra| extra.uuid == gpu);
    match (step, known) {
        (ExtraStep::Offered, None) => extras.push(ExtraGpu { uuid: gpu.to_owned(), withdrawn_at: None }),
        (ExtraStep::Withdrawn, Some(extra)) => _ = extra.withdrawn_at.get_or_insert(stamp.at),
        (ExtraStep::Returned, _) => extras.retain(|extra| extra.uuid != gpu),
        (ExtraStep::Offered, Some(_)) | (ExtraStep::Withdrawn, None) => {}
    }
}

impl JobRecord {
    /// The extra GPUs that the run may use: those that it was not asked to give back.
    pub fn usable_extras(&self) -> impl Iterator<Item = &ExtraGpu> {
        self.progress.extras.iter().filter(|extra| extra.withdrawn_at.is_none())
    }

    /// Whether the run has the GPU, as its own or as an extra one.
    pub fn is_on(&self, uuid: &str) -> bool {
        self.gpu_uuids.iter().any(|own| own == uuid) || self.progress.extras.iter().any(|extra| extra.uuid == uuid)
    }

    /// What is left of the job's budget, in seconds: all its runs count. `now` is by the queue's clock.
    pub fn budget_left(&self, now: u64) -> Option<f64> {
        let budget = self.spec.ask.budget_seconds?;
        let gpus = u64::from(self.spec.ask.gpus.max(1));
        let used_ns = self.service_ns / gpus + self.started_at.map_or(0, |started| now.saturating_sub(started));
        Some((budget - used_ns as f64 / 1e9).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::journal::{QueueEvent, Submission, fold as fold_record};
    use rota_core::event::EventKind;

    fn after(record: &JobRecord, uuid: &str, step: ExtraStep, at: u64) -> JobRecord {
        let event: QueueEvent = EventKind::Extra { job: record.id, gpu: uuid.to_owned(), step };
        fold_record(Some(record), &event, Stamp { at, wall_ns: 0 }).unwrap()
    }

    #[test]
    fn an_extra_gpu_is_usable_until_it_is_asked_back_and_held_until_it_is_given_back() {
        let request =
            Submission { uid: 0, user: "ada".to_owned(), gpus: 1, env_id: 0, memory_mib: None, spec: None, group: None };
        let first = JobRecord::new(7, &request, Stamp { at: 0, wall_ns: 0 });
        let offered = after(&after(&first, "GPU-1", ExtraStep::Offered, 1), "GPU-2", ExtraStep::Offered, 1);
        assert_eq!((offered.usable_extras().count(), offered.is_on("GPU-1"), offered.is_on("GPU-3")), (2, true, false));
        let asked = after(&offered, "GPU-1", ExtraStep::Withdrawn, 5);
        assert_eq!((asked.usable_extras().count(), asked.is_on("GPU-1")), (1, true));
        // Asking again does not give it more time.
        let again = after(&asked, "GPU-1", ExtraStep::Withdrawn, 9);
        assert_eq!(again.progress.extras[0].withdrawn_at, Some(5));
        let returned = after(&again, "GPU-1", ExtraStep::Returned, 10);
        assert_eq!((returned.progress.extras.len(), returned.is_on("GPU-1"), returned.is_on("GPU-2")), (1, false, true));
        let text = serde_json::to_string(&again.progress).unwrap();
        assert_eq!(serde_json::from_str::<crate::store::record::Progress>(&text).unwrap(), again.progress);
    }
}
