//! GPUs that a run has beyond those its job asked for, as its record keeps them.

use crate::store::journal::Stamp;
use crate::store::record::JobRecord;
use rota_core::ExtraStep;
use serde::{Deserialize, Serialize};

/// A GPU that a run may use until it is asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtraGpu {
    /// The GPU.
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
