//! Which allocations to ask Slurm for: a function of the waiting jobs, of the GPUs that are free or on their way, and of the limits.

use crate::config::SlurmEngine;
use rota_exec::slurm::{Shape, SlurmNode};
use std::collections::BTreeMap;

/// What a waiting job needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// GPUs at once.
    pub gpus: u32,
    /// The GPU types it accepts; none means any.
    pub kinds: Vec<String>,
}

/// What is there, or will be, without asking for more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Supply {
    /// Free GPUs by type: on this machine, on workers, and of allocations that wait or whose workers have not joined yet.
    pub free: BTreeMap<String, u32>,
    /// GPUs of all allocations that are held or asked for.
    pub held: u32,
    /// Allocations that wait in Slurm's queue.
    pub waiting: u32,
}

/// The type of GPUs for which Slurm knows none.
pub const UNTYPED: &str = "gpu";

/// The allocations to ask for, in the order of the waiting jobs. A job that Slurm could never hold asks for nothing.
pub fn shapes(needs: &[Need], supply: &Supply, nodes: &[SlurmNode], limits: &SlurmEngine) -> Vec<Shape> {
    let mut free = supply.free.clone();
    let mut budget = limits.gpus_max.saturating_sub(supply.held);
    let mut places = limits.waiting_max.saturating_sub(supply.waiting) as usize;
    let kinds = Kinds::of(nodes);
    let mut wanted: Vec<Shape> = Vec::new();
    for need in needs {
        let accepts = |kind: &str| need.kinds.is_empty() || need.kinds.iter().any(|known| known == kind);
        if let Some(count) =
            free.iter_mut().filter(|(kind, _)| accepts(kind)).map(|(_, count)| count).find(|count| **count >= need.gpus)
        {
            *count -= need.gpus;
            continue;
        }
        let Some(shape) = kinds.shape(need, accepts, limits) else { continue };
        if shape.gpus() > budget {
            continue;
        }
        // Small jobs share an allocation as long as one node has the room now.
        let room = kinds.0.get(kind_of(&shape)).map_or(0, |kind| kind.free_on_one);
        let grows = wanted.iter_mut().find(|other| {
            other.kind == shape.kind && other.nodes == 1 && shape.nodes == 1 && other.gpus_per_node + shape.gpus_per_node <= room
        });
        if let Some(other) = grows {
            other.gpus_per_node += shape.gpus_per_node;
            budget -= shape.gpus();
        } else if places > 0 {
            places -= 1;
            budget -= shape.gpus();
            // What is over in a gang of uneven nodes is free for others.
            *free.entry(kind_of(&shape).to_owned()).or_default() += shape.gpus() - need.gpus;
            wanted.push(shape);
        }
    }
    wanted
}

fn kind_of(shape: &Shape) -> &str {
    shape.kind.as_deref().unwrap_or(UNTYPED)
}

/// What Slurm has of one type.
#[derive(Default)]
struct Kind {
    is_typed: bool,
    /// GPUs on the largest node.
    per_node: u32,
    /// The number of GPUs of the job on all nodes.
    all: u32,
    /// Nodes with at least one.
    nodes: u32,
    /// Free GPUs in all, and the most on one node.
    free: u32,
    free_on_one: u32,
}

struct Kinds(BTreeMap<String, Kind>);

impl Kinds {
    fn of(nodes: &[SlurmNode]) -> Self {
        let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
        for node in nodes {
            for one in &node.gpus {
                let kind = kinds.entry(one.kind.clone().unwrap_or_else(|| UNTYPED.to_owned())).or_default();
                kind.is_typed = one.kind.is_some();
                kind.per_node = kind.per_node.max(one.count);
                kind.all += one.count;
                kind.nodes += 1;
                let free = node.free(one.kind.as_deref());
                kind.free += free;
                kind.free_on_one = kind.free_on_one.max(free);
            }
        }
        Self(kinds)
    }

    /// The allocation for a job: of the type that has the most GPUs free, on as few nodes as hold it.
    fn shape(&self, need: &Need, accepts: impl Fn(&str) -> bool, limits: &SlurmEngine) -> Option<Shape> {
        let possible = self.0.iter().filter(|(name, kind)| accepts(name) && kind.per_node > 0).filter_map(|(name, kind)| {
            let nodes = need.gpus.div_ceil(kind.per_node);
            let fits = need.gpus <= kind.all && nodes <= kind.nodes && nodes <= limits.nodes_max;
            let gpus_per_node = need.gpus.div_ceil(nodes.max(1));
            fits.then_some((kind.free, Shape { kind: kind.is_typed.then(|| name.clone()), nodes, gpus_per_node }))
        });
        // The first of the best, so that equals do not take turns.
        possible
            .fold(None, |best: Option<(u32, Shape)>, one| match best {
                Some(best) if best.0 >= one.0 => Some(best),
                _ => Some(one),
            })
            .map(|(_, shape)| shape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rota_exec::slurm::gpus_of;

    fn nodes() -> Vec<SlurmNode> {
        let node = |name: &str, gpus: &str, used: &str| SlurmNode {
            name: name.to_owned(),
            partitions: vec!["main".to_owned()],
            state: "mixed".to_owned(),
            gpus: gpus_of(gpus),
            used: gpus_of(used),
        };
        vec![
            node("v1", "gpu:v100:4", "gpu:v100:3"),
            node("v2", "gpu:v100:4", ""),
            node("p1", "gpu:p100:4", "gpu:p100:4"),
            node("k1", "gpu:k80:2", ""),
        ]
    }

    fn need(gpus: u32, kind: &str) -> Need {
        Need { gpus, kinds: kind.split(',').filter(|kind| !kind.is_empty()).map(str::to_owned).collect() }
    }

    fn asked(needs: &[Need], supply: &Supply, limits: &SlurmEngine) -> Vec<String> {
        let word = |shape: &Shape| format!("{}x{}", shape.nodes, shape.gres());
        shapes(needs, supply, &nodes(), limits).iter().map(word).collect()
    }

    #[test]
    fn an_allocation_has_the_shape_of_the_job() {
        let limits = SlurmEngine { gpus_max: 16, ..SlurmEngine::default() };
        let none = Supply::default();
        assert_eq!(asked(&[need(2, "k80")], &none, &limits), ["1xgpu:k80:2"]);
        assert_eq!(asked(&[need(1, "")], &none, &limits), ["1xgpu:v100:1"]);
        assert_eq!(asked(&[need(8, "v100")], &none, &limits), ["2xgpu:v100:4"]);
        assert_eq!(asked(&[need(5, "v100")], &none, &limits), ["2xgpu:v100:3"]);
        // More than there are, or of a type that Slurm does not have.
        assert_eq!(asked(&[need(9, ""), need(1, "h100")], &none, &limits), Vec::<String>::new());
    }

    #[test]
    fn small_jobs_share_an_allocation_that_one_node_has_room_for() {
        let limits = SlurmEngine::default();
        let needs = vec![need(1, "v100"); 6];
        assert_eq!(asked(&needs, &Supply::default(), &limits), ["1xgpu:v100:4", "1xgpu:v100:2"]);
        // Nothing of the type is free: each job asks for itself, and no more than may wait.
        assert_eq!(asked(&vec![need(1, "p100"); 6], &Supply::default(), &limits), vec!["1xgpu:p100:1"; 4]);
    }

    #[test]
    fn what_is_there_or_on_its_way_is_not_asked_for_again() {
        let limits = SlurmEngine::default();
        let supply = Supply { free: BTreeMap::from([("v100".to_owned(), 2)]), held: 2, waiting: 1 };
        assert_eq!(asked(&[need(2, "v100")], &supply, &limits), Vec::<String>::new());
        assert_eq!(asked(&[need(2, "v100"), need(1, "v100")], &supply, &limits), ["1xgpu:v100:1"]);
    }

    #[test]
    fn limits_hold() {
        let limits = SlurmEngine { gpus_max: 4, nodes_max: 1, ..SlurmEngine::default() };
        let supply = Supply { held: 3, ..Supply::default() };
        assert_eq!(asked(&[need(2, "v100"), need(1, "k80")], &supply, &limits), ["1xgpu:k80:1"]);
        assert_eq!(asked(&[need(8, "v100")], &Supply::default(), &SlurmEngine { gpus_max: 8, ..limits }), Vec::<String>::new());
    }
}
