//! The nodes as the scheduler sees them: the GPUs of each, and the processors of the daemon's own machine as slots for jobs without a GPU.

use rota_core::cluster::{Gpu, Node};
use rota_core::{Cluster, GpuCatalog, GpuId, GpuType, GpuTypeId, NodeId};
use rota_gpu::Device;
use std::collections::HashMap;

/// The type of the slots that jobs without GPUs run in.
pub const CPU: &str = "cpu";

/// Devices in the order of the scheduler's GPU numbers, and the cluster they make.
#[derive(Clone, Debug)]
pub struct Machine {
    /// The devices; the index of a device is its GPU number.
    pub devices: Vec<Device>,
    /// The types of the GPUs, by device.
    pub kinds: Vec<String>,
    /// The nodes as a cluster, for the scheduler.
    pub cluster: Cluster,
    /// The name of the machine that the daemon runs on.
    pub host: String,
    /// The GPU of each UUID.
    by_uuid: HashMap<String, GpuId>,
}

impl Machine {
    /// Puts the devices of an executor's nodes and the processor slots of the daemon's own machine together.
    pub fn new(host: &str, nodes: &[rota_exec::Node], cpu_slots: u32) -> Self {
        let catalog = GpuCatalog::default();
        let devices = nodes.iter().flat_map(|node| node.devices.iter().cloned()).collect::<Vec<_>>();
        let kinds = kinds(&devices);
        let mut cluster =
            Cluster { types: Vec::new(), nodes: Vec::new(), gpus: Vec::new(), outages: Vec::new(), entities: Vec::new() };
        let add_type = |cluster: &mut Cluster, kind: GpuType| {
            let known = cluster.types.iter().position(|known| known.name == kind.name);
            GpuTypeId::from_index(known.unwrap_or_else(|| {
                cluster.types.push(kind);
                cluster.types.len() - 1
            }))
        };
        let mut next = devices.iter().zip(&kinds);
        for node in nodes.iter().filter(|node| !node.devices.is_empty()) {
            let first = cluster.gpus.len() as u32;
            let id = NodeId::from_index(cluster.nodes.len());
            for (device, kind) in next.by_ref().take(node.devices.len()) {
                let base = catalog.find(&device.kind);
                // Boards of one type may differ a little: what fits on one of them must fit on all.
                let alike = devices.iter().zip(&kinds).filter(|(_, other)| *other == kind);
                let least = alike.map(|(device, _)| device.memory_total_mib).min().unwrap_or(device.memory_total_mib);
                let memory_mib = u32::try_from(least).unwrap_or(u32::MAX);
                let gpu_type = add_type(&mut cluster, GpuType { name: kind.clone(), memory_mib, ..base });
                cluster.gpus.push(Gpu { node: id, gpu_type });
            }
            let gpus = first..cluster.gpus.len() as u32;
            cluster.nodes.push(Node { name: node.name.as_str().to_owned(), gpus });
        }
        let slot = GpuType { name: CPU.to_owned(), memory_mib: 0, idle_watts: 0.0, full_watts: 0.0, ..GpuType::unknown(CPU) };
        let gpu_type = add_type(&mut cluster, slot);
        let (node, gpus) = (NodeId::from_index(cluster.nodes.len()), devices.len() as u32);
        cluster.gpus.extend((0..cpu_slots).map(|_| Gpu { node, gpu_type }));
        cluster.nodes.push(Node { name: format!("{host} processors"), gpus: gpus..gpus + cpu_slots });
        let by_uuid = devices.iter().enumerate().map(|(index, device)| (device.uuid.clone(), GpuId::from_index(index))).collect();
        Self { devices, kinds, cluster, host: host.to_owned(), by_uuid }
    }

    /// The node of this name, if it has GPUs.
    pub fn node_named(&self, name: &str) -> Option<NodeId> {
        self.cluster.nodes.iter().position(|node| node.name == name).map(NodeId::from_index)
    }

    /// The name of the node that a GPU is in.
    pub fn node_of(&self, gpu: GpuId) -> &str {
        &self.cluster.nodes[self.cluster.gpus[gpu.index()].node.index()].name
    }

    /// The same machine, on which users have parts of their own under hierarchical sharing.
    #[must_use]
    pub fn with_entities(mut self, entities: &[rota_core::cluster::SharingEntity]) -> Self {
        self.cluster.entities = entities.to_vec();
        self
    }

    /// The GPU with this UUID.
    pub fn gpu_of(&self, uuid: &str) -> Option<GpuId> {
        self.by_uuid.get(uuid).copied()
    }

    /// The device of a GPU; slots have none.
    pub fn device(&self, gpu: GpuId) -> Option<&Device> {
        self.devices.get(gpu.index())
    }

    /// The GPU with this index, as people count them.
    pub fn gpu_numbered(&self, index: u32) -> Option<GpuId> {
        self.devices.iter().position(|device| device.index == index).map(GpuId::from_index)
    }

    /// The name of a GPU in the journal: its UUID, or the number of a processor slot.
    pub fn name(&self, gpu: GpuId) -> String {
        let slot = || format!("{}{}", crate::store::journal::SLOT, gpu.index() - self.devices.len());
        self.device(gpu).map_or_else(slot, |device| device.uuid.clone())
    }

    /// The processor slot with this number.
    pub fn slot(&self, number: u32) -> Option<GpuId> {
        let index = self.devices.len() + number as usize;
        (index < self.cluster.gpus.len()).then(|| GpuId::from_index(index))
    }

    /// The types that are GPUs.
    pub fn gpu_types(&self) -> impl Iterator<Item = &str> {
        self.cluster.types.iter().map(|kind| kind.name.as_str()).filter(|name| *name != CPU)
    }
}

/// Boards of one model whose memory differs by no more than this part are one type: error correction and drivers keep some of it.
const ALIKE: f64 = 0.05;

/// The type of each device: its kind, with its memory where devices of one kind differ much in that.
fn kinds(devices: &[Device]) -> Vec<String> {
    let mut sizes: HashMap<&str, u64> = HashMap::new();
    for device in devices {
        sizes.entry(&device.kind).or_insert(device.memory_total_mib);
    }
    let name = |device: &Device| {
        let first = sizes.get(device.kind.as_str()).copied().unwrap_or_default();
        if first.abs_diff(device.memory_total_mib) as f64 > first as f64 * ALIKE {
            format!("{}-{}g", device.kind, device.memory_total_mib.div_ceil(1024))
        } else {
            device.kind.clone()
        }
    };
    devices.iter().map(name).collect()
}
