//! What is free on the cluster now, and when more is believed to be: the part of a model's features that jobs have in common.

use crate::features::ClusterFacts;
use rota_core::{JobId, JobView, Snapshot};

/// What is left of one GPU.
#[derive(Clone, Copy)]
struct Left {
    share: f64,
    /// Of the largest memory that a GPU of this cluster has.
    memory: f64,
}

/// What is free now, and when more will be.
pub(crate) struct Room {
    /// What every row shares.
    pub cluster: ClusterFacts,
    idle_gpus: f64,
    /// What is left of each GPU on nodes that are up.
    left: Vec<Left>,
    /// Seconds from now with the GPUs that are believed free then, ascending in both.
    releases: Vec<(f64, f64)>,
}

impl Room {
    /// The room beside these running jobs. `knows` says of which of them an end is believed.
    pub fn new(
        running: impl Iterator<Item = JobId>,
        waiting: usize,
        snapshot: &Snapshot<'_>,
        knows: impl Fn(&JobView<'_>) -> bool,
    ) -> Self {
        let gpus = snapshot.capacities().iter().sum::<f64>();
        let largest = memory_of_largest(snapshot);
        let mut left = left_by_strangers(snapshot, largest);
        let mut releases = Vec::new();
        let mut busy = 0.0;
        for job in running {
            let view = snapshot.view(job);
            let share = view.job.share.fraction();
            busy += share * f64::from(view.job.gpus);
            for gpu in &view.state.gpus {
                if let Some(left) = left.get_mut(gpu.index()) {
                    left.share -= share;
                    left.memory -= f64::from(view.job.memory_mib) / largest;
                }
            }
            if knows(&view) {
                releases.push((view.believed_remaining().seconds(), f64::from(view.job.gpus)));
            }
        }
        let idle_gpus = left.iter().filter(|left| left.share > 1.0 - 1e-9).count() as f64;
        releases.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut free = idle_gpus;
        for (_, gpus) in &mut releases {
            free += *gpus;
            *gpus = free;
        }
        let cluster = ClusterFacts { free: (1.0 - busy / gpus.max(1.0)).max(0.0), gpus, waiting };
        Self { cluster, idle_gpus, left, releases }
    }

    /// A room of which nothing but its size is known.
    pub fn unseen(snapshot: &Snapshot<'_>) -> Self {
        let cluster = ClusterFacts { gpus: snapshot.bound.cluster.gpus.len() as f64, ..ClusterFacts::default() };
        Self { cluster, idle_gpus: 0.0, left: Vec::new(), releases: Vec::new() }
    }

    /// How well a job of this share and memory goes with the GPU that suits it best; `None` if there is no room for it.
    pub fn alignment(&self, gpus: f64, share: f64, memory: f64) -> Option<f64> {
        if share >= 1.0 {
            return (gpus <= self.idle_gpus).then_some(self.cluster.free);
        }
        let fits = |left: &&Left| share <= left.share + 1e-9 && memory <= left.memory + 1e-9;
        let fitting = self.left.iter().filter(fits).map(|left| share * left.share + memory * left.memory);
        fitting.reduce(f64::max)
    }

    /// Seconds until this many whole GPUs are believed to be free; 0 if that is not known.
    pub fn seconds_until(&self, gpus: f64) -> f64 {
        let later = self.releases.partition_point(|(_, free)| *free < gpus);
        self.releases.get(later).map_or(0.0, |(seconds, _)| *seconds)
    }
}

/// The memory of the largest GPU in MiB, at least 1.
pub(crate) fn memory_of_largest(snapshot: &Snapshot<'_>) -> f64 {
    let largest = snapshot.bound.cluster.types.iter().map(|kind| kind.memory_mib).max().unwrap_or(0);
    f64::from(largest.max(1))
}

fn left_by_strangers(snapshot: &Snapshot<'_>, largest: f64) -> Vec<Left> {
    let cluster = &snapshot.bound.cluster;
    let left = cluster.gpus.iter().zip(snapshot.outside).map(|(gpu, outside)| {
        let is_up = snapshot.nodes_up[gpu.node.index()];
        let memory = f64::from(cluster.types[gpu.gpu_type.index()].memory_mib.saturating_sub(outside.memory_mib));
        let share = if is_up { 1.0 - outside.share.fraction() } else { 0.0 };
        Left { share, memory: memory / largest }
    });
    left.collect()
}
