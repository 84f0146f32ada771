//! What is known of the memory of programs, and the jobs that wait to be told.

use crate::config::Config;
use crate::machine::inventory::{CPU, Machine};
use crate::memory::profiles::{ClassKey, Profiles};
use crate::queue::estimates::Estimates;
use std::collections::{BTreeSet, HashMap};

/// What classes of programs need, and which jobs are given memory by it.
pub struct MemoryKnowledge {
    /// What jobs are counted with where they do not say.
    pub estimates: Estimates,
    /// What is known of each class of programs.
    pub profiles: Profiles,
    /// Jobs whose memory is predicted, and that do not run, by their class.
    pub predicted: HashMap<ClassKey, BTreeSet<u64>>,
    /// The runs under way that are to tell how much memory a class needs.
    pub profile_runs: HashMap<ClassKey, u64>,
}

impl MemoryKnowledge {
    /// What is known at the start, with what was learned before.
    pub fn new(profiles: Profiles, config: &Config, machine: &Machine) -> Self {
        Self { estimates: estimates_of(config, machine), profiles, predicted: HashMap::new(), profile_runs: HashMap::new() }
    }
}

/// What jobs are counted with on a machine.
pub fn estimates_of(config: &Config, machine: &Machine) -> Estimates {
    let kinds = machine.cluster.types.iter().filter(|kind| kind.name != CPU);
    Estimates {
        host: machine.host.clone(),
        memory_mib: kinds.map(|kind| (kind.name.clone(), kind.memory_mib)).collect(),
        estimate_seconds: config.jobs.estimate_seconds,
        buffer_mib: config.sharing.buffer_mib,
        jobs_per_gpu: config.gpus.jobs_per_gpu,
    }
}
