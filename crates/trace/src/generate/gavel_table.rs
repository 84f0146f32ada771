//! The 26 job types Gavel draws from, in the order its random choice counts them, and how fast each is on the GPU
//! type that durations are drawn for.

use crate::error::{Problem, TraceError};
use rota_core::ThroughputTable;

/// The GPU type on which a job takes the time that was drawn for it.
pub const REFERENCE_GPU_TYPE: &str = "v100";

/// The gang sizes there are.
const GANG_SIZES: [u32; 4] = [1, 2, 4, 8];

/// A job type to draw.
#[derive(Debug)]
pub(super) struct Template {
    pub job_type: &'static str,
    /// Whether a job of this type can have more than one GPU.
    pub is_distributed: bool,
}

/// The order is part of the workload: a draw is a position in this list.
pub(super) const TEMPLATES: [Template; 26] = [
    Template { job_type: "ResNet-18 (batch size 16)", is_distributed: true },
    Template { job_type: "ResNet-18 (batch size 32)", is_distributed: true },
    Template { job_type: "ResNet-18 (batch size 64)", is_distributed: true },
    Template { job_type: "ResNet-18 (batch size 128)", is_distributed: true },
    Template { job_type: "ResNet-18 (batch size 256)", is_distributed: true },
    Template { job_type: "ResNet-50 (batch size 16)", is_distributed: true },
    Template { job_type: "ResNet-50 (batch size 32)", is_distributed: true },
    Template { job_type: "ResNet-50 (batch size 64)", is_distributed: true },
    Template { job_type: "ResNet-50 (batch size 128)", is_distributed: true },
    Template { job_type: "Transformer (batch size 16)", is_distributed: true },
    Template { job_type: "Transformer (batch size 32)", is_distributed: true },
    Template { job_type: "Transformer (batch size 64)", is_distributed: true },
    Template { job_type: "Transformer (batch size 128)", is_distributed: true },
    Template { job_type: "Transformer (batch size 256)", is_distributed: true },
    Template { job_type: "LM (batch size 5)", is_distributed: true },
    Template { job_type: "LM (batch size 10)", is_distributed: true },
    Template { job_type: "LM (batch size 20)", is_distributed: true },
    Template { job_type: "LM (batch size 40)", is_distributed: true },
    Template { job_type: "LM (batch size 80)", is_distributed: true },
    Template { job_type: "Recommendation (batch size 512)", is_distributed: false },
    Template { job_type: "Recommendation (batch size 1024)", is_distributed: false },
    Template { job_type: "Recommendation (batch size 2048)", is_distributed: false },
    Template { job_type: "Recommendation (batch size 4096)", is_distributed: false },
    Template { job_type: "Recommendation (batch size 8192)", is_distributed: false },
    Template { job_type: "A3C", is_distributed: false },
    Template { job_type: "CycleGAN", is_distributed: false },
];

/// Steps per second on the reference GPU, by template and gang size.
#[derive(Clone, Debug)]
pub(super) struct ReferenceSpeeds([[f64; GANG_SIZES.len()]; TEMPLATES.len()]);

impl ReferenceSpeeds {
    /// Takes them out of a table, which must have all that can be drawn with gangs of up to `gpus_max`.
    pub fn new(table: &ThroughputTable, gpus_max: u32) -> Result<Self, TraceError> {
        let mut speeds = [[0.0; GANG_SIZES.len()]; TEMPLATES.len()];
        for (template, row) in TEMPLATES.iter().zip(&mut speeds) {
            let sizes_max = if template.is_distributed { gpus_max } else { 1 };
            for (&gpus, speed) in GANG_SIZES.iter().zip(row).filter(|&(&gpus, _)| gpus <= sizes_max) {
                let known = table.get(template.job_type, gpus, REFERENCE_GPU_TYPE);
                *speed = known.filter(|speed| *speed > 0.0 && speed.is_finite()).ok_or_else(|| TraceError {
                    path: table.source.clone(),
                    line: 0,
                    field: Some(format!("{} with {gpus} GPUs on {REFERENCE_GPU_TYPE}", template.job_type).into()),
                    problem: Problem::Missing { wanted: "a speed above 0, from which the model makes the steps of its jobs" },
                })?;
            }
        }
        Ok(Self(speeds))
    }

    /// The speed of a template with a gang.
    pub fn of(&self, template: usize, gpus: u32) -> f64 {
        self.0[template][gpus.trailing_zeros() as usize]
    }
}
