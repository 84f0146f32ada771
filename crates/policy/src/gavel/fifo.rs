//! Gavel's first-in-first-out policies: `fifo` on any type that has room, `fifo-perf` on the fastest, `fifo-packed` two jobs on one GPU.
//!
//! `fifo` runs jobs to their end and waits behind its head. The other two fill the cluster anew, in order of arrival, whenever running
//! jobs may be moved: an earlier job moves up to a faster type as it falls free, later ones take what is left, also past one that does
//! not fit, and give way to it when it does.

use crate::share::pairing::join_waiting;
use crate::watch::{Watch, size};
use crate::{Context, Policy};
use rota_core::{GpuTypeId, JobId, Preempt, Renumbering, Snapshot, Target, Wish};
use serde::{Deserialize, Serialize};

/// What two jobs must make together, in parts of what they make alone, before they share GPUs.
const PACKED_PARTS_MIN: f64 = 1.5;

#[derive(Clone, Serialize, Deserialize)]
enum Kind {
    /// Any type, at random; to the end.
    Any,
    /// The fastest type.
    Fastest,
    /// The fastest type, then beside another.
    Packed,
}

#[derive(Clone, Serialize, Deserialize)]
struct Fifo {
    kind: Kind,
    watch: Watch,
}

/// Who is where, and what is left of each type.
struct Filling {
    types: Vec<(JobId, Option<GpuTypeId>)>,
    pairs: Vec<(JobId, JobId)>,
    free: Vec<f64>,
}

impl Filling {
    fn empty(capacities: &[f64]) -> Self {
        Self { types: Vec::new(), pairs: Vec::new(), free: capacities.to_vec() }
    }
}

/// Types on which a job fits into what is free, fastest first.
pub(crate) fn open_types(job: JobId, free: &[f64], snapshot: &Snapshot<'_>) -> Vec<GpuTypeId> {
    let (shape, speeds) = (snapshot.bound.shape(job), snapshot.bound.speeds(job));
    let mut open = shape.types.iter().filter(|gpu_type| free[gpu_type.index()] >= size(shape) - 1e-9).collect::<Vec<_>>();
    open.sort_by(|a, b| speeds[b.index()].total_cmp(&speeds[a.index()]));
    open
}

impl Fifo {
    /// Those who run, where they run, and what is free beside them.
    fn running(&self, snapshot: &Snapshot<'_>) -> Filling {
        let mut filling = Filling::empty(&self.watch.capacities);
        for &job in &self.watch.active {
            let Some(gpu_type) = snapshot.type_now(job) else { continue };
            filling.types.push((job, Some(gpu_type)));
            match snapshot.states[job.index()].partner {
                Some(partner) if partner < job => filling.pairs.push((partner, job)),
                _ => filling.free[gpu_type.index()] -= size(snapshot.bound.shape(job)),
            }
        }
        filling
    }
}

impl Policy for Fifo {
    fn decide(&mut self, snapshot: &Snapshot<'_>, context: &mut Context) -> Target {
        self.watch.update(snapshot);
        let keeps_running = matches!(self.kind, Kind::Any) || snapshot.is_within_round();
        let filling = if keeps_running { self.running(snapshot) } else { Filling::empty(&self.watch.capacities) };
        let Filling { mut types, mut pairs, mut free } = filling;
        let mut is_blocked = false;
        for &job in &self.watch.active {
            if keeps_running && snapshot.type_now(job).is_some() {
                continue;
            }
            let open = if is_blocked { Vec::new() } else { open_types(job, &free, snapshot) };
            let chosen = match self.kind {
                Kind::Any => {
                    is_blocked |= open.is_empty();
                    if open.is_empty() { None } else { Some(open[context.stream.below(open.len() as u64) as usize]) }
                }
                Kind::Fastest | Kind::Packed => open.first().copied(),
            };
            if let Some(gpu_type) = chosen {
                free[gpu_type.index()] -= size(snapshot.bound.shape(job));
            }
            types.push((job, chosen));
        }
        if matches!(self.kind, Kind::Packed) {
            join_waiting(&mut types, &mut pairs, PACKED_PARTS_MIN, snapshot);
        }
        // The next end of a round is a chance to move up, if there are rounds at all.
        let somebody_runs = types.iter().any(|(_, gpu_type)| gpu_type.is_some());
        let review_at =
            snapshot.round.filter(|_| somebody_runs && !matches!(self.kind, Kind::Any)).map(|round| snapshot.now + round);
        let preempt = if matches!(self.kind, Kind::Any) { Preempt::Never } else { Preempt::Always };
        Target { wish: Wish::Assignment { types, pairs, preempt }, review_at }
    }

    fn renumber(&mut self, rows: &Renumbering) {
        self.watch.renumber(rows);
    }
}

/// The policy `fifo`.
pub fn any_type() -> Box<dyn Policy> {
    Box::new(Fifo { kind: Kind::Any, watch: Watch::default() })
}

/// The policy `fifo-perf`.
pub fn fastest_type() -> Box<dyn Policy> {
    Box::new(Fifo { kind: Kind::Fastest, watch: Watch::default() })
}

/// The policy `fifo-packed`.
pub fn packed() -> Box<dyn Policy> {
    Box::new(Fifo { kind: Kind::Packed, watch: Watch::default() })
}
