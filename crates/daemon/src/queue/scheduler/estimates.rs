//! Estimates: the length, GPU share and memory of a job that the scheduler uses where the user gives none.

use crate::api::Submit;
use crate::store::record::JobRecord;
use rota_core::MilliGpu;

/// The numbers that stand in for what a job does not say.
#[derive(Clone, Debug)]
pub struct Estimates {
    /// The machine's name.
    pub host: String,
    /// Memory of each GPU type.
    pub memory_mib: Vec<(String, u32)>,
    /// The expected run time of a job that gives none.
    pub estimate_seconds: f64,
    /// The most jobs on one GPU, of those that say how much memory they need.
    pub jobs_per_gpu: u16,
    /// Memory that is kept free on every GPU.
    pub buffer_mib: u32,
}

impl Estimates {
    /// The job's expected run time in seconds, its share of each GPU in thousandths, and its memory on each in MiB.
    pub fn of(&self, record: &JobRecord) -> (f64, u16, u32) {
        let ask = &record.spec.ask;
        let believed = ask.estimate_seconds.or(ask.time_limit_seconds).unwrap_or(self.estimate_seconds);
        let sharing = !ask.exclusive && ask.gpus > 0 && (ask.share.is_some() || record.memory().is_some());
        let share = match (sharing, ask.share) {
            (true, Some(share)) => (share * 1000.0).round() as u16,
            // By memory alone: as many as are allowed on one GPU.
            (true, None) => 1000 / self.jobs_per_gpu,
            (false, _) => MilliGpu::WHOLE.0,
        };
        let memory_mib = match (record.memory(), ask.share) {
            // What fits a GPU only without its buffer has the GPU to itself, buffer and all.
            (Some(memory), _) if memory <= self.largest(ask) => memory.min(self.most(ask)),
            (Some(memory), _) => memory,
            // A share of the GPU is a share of its memory, of the smallest it may get.
            (None, Some(share)) if sharing => {
                (f64::from(self.usable(ask).min().unwrap_or(0).saturating_sub(self.buffer_mib)) * share) as u32
            }
            _ => 0,
        };
        (believed, share, memory_mib)
    }

    /// The most memory a job can be given on one GPU beside its buffer.
    pub fn most(&self, ask: &Submit) -> u32 {
        self.largest(ask).saturating_sub(self.buffer_mib)
    }

    fn largest(&self, ask: &Submit) -> u32 {
        self.usable(ask).max().unwrap_or(0)
    }

    fn usable<'a>(&'a self, ask: &'a Submit) -> impl Iterator<Item = u32> + 'a {
        let is_usable = |kind: &String| ask.gpu_types.is_empty() || ask.gpu_types.contains(kind);
        self.memory_mib.iter().filter(move |(kind, _)| is_usable(kind)).map(|(_, memory)| *memory)
    }
}
