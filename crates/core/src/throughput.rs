//! Throughput table: steps per second of a job type, by gang size and GPU type.

use std::collections::{BTreeSet, HashMap};

/// Steps per second of whole jobs. GPU types and job types are names; any of them may be missing.
#[derive(Clone, Debug, Default)]
pub struct ThroughputTable {
    /// What it is, for the assumptions printed with a result.
    pub source: String,
    steps_per_second: HashMap<(String, u32), HashMap<String, f64>>,
}

impl ThroughputTable {
    /// An empty table with a name.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), steps_per_second: HashMap::new() }
    }

    /// Sets the speed of a job type with a gang of `gpus` on a GPU type.
    pub fn insert(&mut self, job_type: &str, gpus: u32, gpu_type: &str, steps_per_second: f64) {
        self.steps_per_second.entry((job_type.to_owned(), gpus)).or_default().insert(gpu_type.to_owned(), steps_per_second);
    }

    /// The speed, if the table knows it; 0 means that the job cannot run there.
    pub fn get(&self, job_type: &str, gpus: u32, gpu_type: &str) -> Option<f64> {
        self.steps_per_second.get(&(job_type.to_owned(), gpus))?.get(gpu_type).copied()
    }

    /// Whether a job type is known with this gang size.
    pub fn knows(&self, job_type: &str, gpus: u32) -> bool {
        self.steps_per_second.contains_key(&(job_type.to_owned(), gpus))
    }

    /// The gang sizes known for a job type.
    pub fn gang_sizes(&self, job_type: &str) -> BTreeSet<u32> {
        self.steps_per_second.keys().filter(|(known, _)| known == job_type).map(|&(_, gpus)| gpus).collect()
    }

    /// All job types, sorted.
    pub fn job_types(&self) -> BTreeSet<&str> {
        self.steps_per_second.keys().map(|(job_type, _)| job_type.as_str()).collect()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.steps_per_second.is_empty()
    }
}
