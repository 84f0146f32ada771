//! The same cluster with more or fewer GPUs.

use super::words::counted;
use anyhow::bail;
use rota_core::cluster::{GPUS_MAX, Gpu, Node, Outage};
use rota_core::{Cluster, GpuTypeId, NodeId};

/// In place of a GPU type: whole nodes.
const NODE: &str = "node";

/// GPU types with their counts, as in `a100:8,t4:2`; `node` stands for whole nodes.
fn counts(spec: &str, gpus_per_node: u32) -> anyhow::Result<Vec<(Cluster, String, usize)>> {
    let part = |part: &str| -> anyhow::Result<_> {
        let cluster = Cluster::from_spec(part, gpus_per_node)?;
        if cluster.types.len() != 1 {
            bail!("`{part}`: write a GPU type and a count, such as `a100:8`");
        }
        let name = cluster.types[0].name.clone();
        let count = cluster.gpus.len();
        Ok((cluster, name, count))
    };
    spec.split(',').map(part).collect()
}

/// The cluster with these GPUs beside its own, such as `a100:8`, on new nodes of `gpus_per_node` GPUs each; `node:2` adds two copies of the
/// last node.
pub fn with_more(cluster: &Cluster, spec: &str, gpus_per_node: u32) -> anyhow::Result<Cluster> {
    let mut grown = cluster.clone();
    for (added, name, count) in counts(spec, gpus_per_node)? {
        if name == NODE {
            for _ in 0..count {
                copy_last_node(&mut grown);
                if grown.gpus.len() > GPUS_MAX {
                    bail!("`{spec}` gives more than {GPUS_MAX} GPUs");
                }
            }
            continue;
        }
        let known = grown.types.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            grown.types.extend(added.types);
            grown.types.len() - 1
        });
        for node in &added.nodes {
            let gpu = Gpu { node: NodeId::from_index(grown.nodes.len()), gpu_type: GpuTypeId::from_index(known) };
            add_node(&mut grown, vec![gpu; node.gpus.len()]);
        }
    }
    Ok(grown)
}

fn add_node(cluster: &mut Cluster, gpus: Vec<Gpu>) {
    let first = cluster.gpus.len() as u32;
    cluster.gpus.extend(gpus);
    cluster.nodes.push(Node { name: format!("added-{}", cluster.nodes.len()), gpus: first..cluster.gpus.len() as u32 });
}

fn copy_last_node(cluster: &mut Cluster) {
    let Some(last) = cluster.nodes.last().cloned() else { return };
    let node = NodeId::from_index(cluster.nodes.len());
    let gpus = last.gpus.map(|gpu| Gpu { node, ..cluster.gpus[gpu as usize] }).collect();
    add_node(cluster, gpus);
}

/// The cluster without so many GPUs of a type, the last ones, such as `a100:4`; `node:1` takes the last node away.
pub fn with_fewer(cluster: &Cluster, spec: &str) -> anyhow::Result<Cluster> {
    let mut stays = vec![true; cluster.gpus.len()];
    let mut nodes = cluster.nodes.len();
    for (_, name, count) in counts(spec, u32::MAX)? {
        if name == NODE {
            if count >= nodes {
                bail!("`{spec}` takes {} from {nodes}; at least one must stay", counted(count, "node"));
            }
            nodes -= count;
            stays[cluster.nodes[nodes].gpus.start as usize..].fill(false);
            continue;
        }
        let kind = cluster.types.iter().position(|known| known.name == name).map(GpuTypeId::from_index);
        let is_of_type = |gpu: &usize| stays[*gpu] && kind == Some(cluster.gpus[*gpu].gpu_type);
        let taken = (0..cluster.gpus.len()).rev().filter(is_of_type).take(count).collect::<Vec<_>>();
        if taken.len() < count {
            let known = cluster.types.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(", ");
            bail!("`{spec}`: the cluster has {} {name} to take; its types are {known}", taken.len());
        }
        for gpu in taken {
            stays[gpu] = false;
        }
    }
    if !stays.contains(&true) {
        bail!("`{spec}`: no GPU would be left");
    }
    Ok(keeping(cluster, &stays))
}

/// The cluster with only those GPUs. Nodes that lose all of theirs are gone, and so are their outages.
fn keeping(cluster: &Cluster, stays: &[bool]) -> Cluster {
    let mut kept = Cluster { nodes: Vec::new(), gpus: Vec::new(), outages: Vec::new(), ..cluster.clone() };
    let mut new_nodes = vec![None; cluster.nodes.len()];
    for (index, node) in cluster.nodes.iter().enumerate() {
        let id = NodeId::from_index(kept.nodes.len());
        let first = kept.gpus.len() as u32;
        let gpus = node.gpus.clone().filter(|gpu| stays[*gpu as usize]);
        kept.gpus.extend(gpus.map(|gpu| Gpu { node: id, ..cluster.gpus[gpu as usize] }));
        if kept.gpus.len() as u32 > first {
            new_nodes[index] = Some(id);
            kept.nodes.push(Node { name: node.name.clone(), gpus: first..kept.gpus.len() as u32 });
        }
    }
    let outages = cluster.outages.iter();
    kept.outages = outages.filter_map(|outage| Some(Outage { node: new_nodes[outage.node.index()]?, ..*outage })).collect();
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(cluster: &Cluster) -> Vec<(String, usize)> {
        let of = |index| cluster.gpus.iter().filter(|gpu| gpu.gpu_type == GpuTypeId::from_index(index)).count();
        cluster.types.iter().enumerate().map(|(index, kind)| (kind.name.clone(), of(index))).collect()
    }

    #[test]
    fn gpus_are_added_on_nodes_of_their_own() {
        let cluster = with_more(&Cluster::from_spec("a100:4", 4).unwrap(), "a100:8,t4:2", 8).unwrap();
        assert_eq!(sizes(&cluster), [("a100".to_owned(), 12), ("t4".to_owned(), 2)]);
        assert_eq!(cluster.nodes.iter().map(|node| node.gpus.len()).collect::<Vec<_>>(), [4, 8, 2]);
        assert_eq!(with_more(&cluster, "node:2", 8).unwrap().gpus.len(), 18);
    }

    #[test]
    fn the_last_gpus_of_a_type_are_taken_away() {
        let cluster = Cluster::from_spec("a100:6,t4:4", 4).unwrap();
        let fewer = with_fewer(&cluster, "a100:3").unwrap();
        assert_eq!(sizes(&fewer), [("a100".to_owned(), 3), ("t4".to_owned(), 4)]);
        assert_eq!(fewer.nodes.iter().map(|node| node.gpus.clone()).collect::<Vec<_>>(), [0..3, 3..7]);
        assert!(fewer.gpus.iter().enumerate().all(|(index, gpu)| fewer.nodes[gpu.node.index()].gpus.contains(&(index as u32))));
        assert_eq!(with_fewer(&cluster, "node:1").unwrap().gpus.len(), 6);
    }

    #[test]
    fn what_is_not_there_cannot_be_taken() {
        let cluster = Cluster::from_spec("a100:4", 4).unwrap();
        for (spec, says) in
            [("a100:5", "has 4 a100"), ("v100:1", "its types are a100"), ("node:1", "one must stay"), ("a100:4", "no GPU")]
        {
            let error = with_fewer(&cluster, spec).unwrap_err().to_string();
            assert!(error.contains(says), "{spec}: {error}");
        }
    }
}
