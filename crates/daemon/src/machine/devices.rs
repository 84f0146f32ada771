//! The GPUs of this machine as the queue knows them: which there are, which may not be used, and what is seen on them.

use crate::machine::inventory::Machine;
use crate::machine::telemetry::Telemetry;
use crate::queue::messages::WHOLE;
use rota_core::{GpuId, Slice};
use std::collections::{HashMap, HashSet};

/// The GPUs and what is known of them.
pub struct Devices {
    /// The GPUs and the cluster they make.
    pub machine: Machine,
    /// What was seen on them.
    pub telemetry: Telemetry,
    /// GPUs that an administrator has drained.
    pub drained: HashSet<GpuId>,
    /// GPUs that do not answer.
    pub lost: HashSet<GpuId>,
    /// GPUs that came while the daemon ran, and were not looked at yet: nothing is started there before.
    pub unseen: HashSet<GpuId>,
    /// GPUs that something holds which a run has left there: an MPS server that does not end.
    pub held: HashSet<GpuId>,
    /// GPUs of jobs that run on others too which are not there any more, by job. They are taken until the job has ended.
    pub astray: HashMap<u64, Vec<GpuId>>,
    /// GPUs that jobs have beyond those they asked for, with the job.
    pub offered: HashMap<GpuId, u64>,
    /// Nodes that will be gone soon: nothing more is started there.
    pub leaving: HashSet<String>,
    /// Whether jobs came to or left GPUs since the board showed them.
    pub are_stale: bool,
}

impl Devices {
    /// The devices of a machine, before anybody has looked at them.
    pub fn new(machine: Machine, drained: HashSet<GpuId>) -> Self {
        let telemetry = Telemetry::new(machine.devices.len());
        Self {
            machine,
            telemetry,
            drained,
            lost: HashSet::new(),
            unseen: HashSet::new(),
            held: HashSet::new(),
            astray: HashMap::new(),
            offered: HashMap::new(),
            leaving: HashSet::new(),
            are_stale: false,
        }
    }

    /// The same for another machine: what is known of the GPUs that are still there is kept, and those that are new are unseen.
    pub fn moved(self, machine: Machine) -> Self {
        let before = self.machine;
        let still = |gpu: GpuId| before.device(gpu).and_then(|device| machine.gpu_of(&device.uuid));
        let move_all = |gpus: HashSet<GpuId>| gpus.into_iter().filter_map(still).collect::<HashSet<_>>();
        let is_new = |device: &&rota_gpu::Device| before.gpu_of(&device.uuid).is_none();
        let new = machine.devices.iter().filter(is_new).filter_map(|device| machine.gpu_of(&device.uuid));
        Self {
            unseen: new.chain(self.unseen.into_iter().filter_map(still)).collect(),
            telemetry: self.telemetry.moved(&before, &machine),
            drained: move_all(self.drained),
            lost: move_all(self.lost),
            held: move_all(self.held),
            // These are found again from the records.
            astray: HashMap::new(),
            offered: HashMap::new(),
            leaving: self.leaving,
            are_stale: true,
            machine,
        }
    }

    /// The job on a GPU that has lost another of its GPUs.
    pub fn astray_on(&self, gpu: GpuId) -> Option<u64> {
        self.astray.iter().find(|(_, gpus)| gpus.contains(&gpu)).map(|(job, _)| *job)
    }

    /// What others than jobs hold of a GPU, and memory that is kept free on it.
    pub fn outside(&self, gpu: GpuId, buffer_mib: u32) -> Slice {
        let is_lent = self.astray_on(gpu).is_some() || self.offered.contains_key(&gpu);
        let is_out = [&self.drained, &self.lost, &self.unseen, &self.held].iter().any(|out| out.contains(&gpu));
        if is_out || is_lent {
            return WHOLE;
        }
        let strangers = self.telemetry.strangers.get(gpu.index()).copied().unwrap_or_default();
        let overused = self.telemetry.overused_mib.get(gpu.index()).copied().unwrap_or_default();
        let memory_mib = strangers.memory_mib.saturating_add(overused).saturating_add(buffer_mib);
        Slice { memory_mib, ..strangers }
    }
}
