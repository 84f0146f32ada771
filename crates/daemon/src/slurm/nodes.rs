//! What could be had from Slurm, as nodes that do not answer: jobs for their GPUs are accepted and wait, instead of being refused.

use rota_exec::slurm::SlurmNode;
use rota_exec::{Node, NodeName};
use rota_gpu::{ComputeMode, Device};

use super::demand::UNTYPED;

/// What the names of such nodes begin with.
pub(crate) const PREFIX: &str = "slurm:";
/// The number of the first of their GPUs, far from those of real ones.
const FIRST_INDEX: u32 = 1_000_000;

/// Whether a node is only a promise of Slurm's.
pub(crate) fn is_promise(node: &str) -> bool {
    node.starts_with(PREFIX)
}

/// The nodes of Slurm's inventory, none of which answers.
pub(crate) fn promised(nodes: &[SlurmNode]) -> Vec<Node> {
    let mut index = FIRST_INDEX;
    let catalog = rota_core::GpuCatalog::default();
    let mut promise = |node: &SlurmNode| {
        let kinds =
            node.gpus.iter().flat_map(|one| std::iter::repeat_n(one.kind.as_deref().unwrap_or(UNTYPED), one.count as usize));
        let mut device = |kind: &str| {
            index += 1;
            Device {
                index,
                uuid: format!("{PREFIX}{}:{index}", node.name),
                name: format!("{kind} of Slurm's node {}", node.name),
                kind: kind.to_owned(),
                pci_bus_id: None,
                memory_total_mib: u64::from(catalog.find(kind).memory_mib),
                power_limit_watts: None,
                compute_mode: ComputeMode::Default,
                mig_parent: None,
                minor: None,
            }
        };
        let devices = kinds.map(&mut device).collect();
        Node { name: NodeName::new(&format!("{PREFIX}{}", node.name)), devices, answers: false }
    };
    nodes.iter().map(&mut promise).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_exec::slurm::gpus_of;

    #[test]
    fn each_gpu_of_slurms_is_a_device_of_its_own_on_a_node_that_does_not_answer() {
        let node = |name: &str, gpus: &str| SlurmNode {
            name: name.to_owned(),
            partitions: Vec::new(),
            state: "idle".to_owned(),
            gpus: gpus_of(gpus),
            used: Vec::new(),
        };
        let nodes = promised(&[node("v1", "gpu:v100:2,gpu:k80:1"), node("x1", "gpu:3")]);
        assert!(nodes.iter().all(|node| !node.answers && is_promise(node.name.as_str())));
        let kinds = nodes.iter().flat_map(|node| node.devices.iter().map(|device| device.kind.as_str())).collect::<Vec<_>>();
        assert_eq!(kinds, ["v100", "v100", "k80", "gpu", "gpu", "gpu"]);
        let mut uuids = nodes.iter().flat_map(|node| node.devices.iter().map(|device| device.uuid.as_str())).collect::<Vec<_>>();
        uuids.sort_unstable();
        uuids.dedup();
        assert_eq!(uuids.len(), 6);
    }
}
