//! A draft: a plan in the making. Starts and stops are tried on the pool itself, every step can be undone, and making the plan
//! undoes them all, because only the world's events change the pool for good.

use crate::fit::{self, Chooser};
use crate::pool::Pool;
use rota_core::random::RandomStream;
use rota_core::{GpuId, GpuList, GpuTypeId, JobId, Phase, Plan, Promise, Score, Shape, ShapeId, Slice, Snapshot, Start, TypeSet};
use smallvec::SmallVec;

/// The types a shape can use, fastest first.
pub type TypeOrder = SmallVec<[GpuTypeId; 4]>;

/// The types of a shape, fastest first, in the order of the cluster where equally fast.
pub fn type_order(shape: &Shape, speeds: &[f64]) -> TypeOrder {
    let mut types = shape.types.iter().collect::<TypeOrder>();
    types.sort_by(|a, b| speeds[b.index()].total_cmp(&speeds[a.index()]));
    types
}

/// A plan in the making.
pub struct Draft<'a> {
    /// The state it is made for.
    pub snapshot: Snapshot<'a>,
    /// What is free if the draft were carried out.
    pub pool: &'a mut Pool,
    type_orders: &'a [TypeOrder],
    chooser: Chooser<'a>,
    plan: Plan,
}

impl<'a> Draft<'a> {
    /// An empty draft.
    pub fn new(
        snapshot: Snapshot<'a>,
        pool: &'a mut Pool,
        type_orders: &'a [TypeOrder],
        score: Score,
        stream: &'a mut RandomStream,
    ) -> Self {
        let chooser = Chooser { score, gpu_busy: snapshot.gpu_busy, stream };
        Self { snapshot, pool, type_orders, chooser, plan: Plan::default() }
    }

    /// The shape of a job.
    pub fn shape_id(&self, job: JobId) -> ShapeId {
        self.snapshot.bound.shape_of[job.index()]
    }

    /// The types a job can use, fastest first.
    pub fn types_of(&self, job: JobId) -> &'a [GpuTypeId] {
        &self.type_orders[self.shape_id(job).index()]
    }

    fn slice(&self, job: JobId) -> Slice {
        let shape = self.snapshot.bound.shape(job);
        shape.slice()
    }

    /// Starts a job on the first of its types outside `closed` where it fits; says where.
    pub fn try_start(&mut self, job: JobId, closed: TypeSet) -> Option<GpuTypeId> {
        let types = self.types_of(job);
        types.iter().copied().find(|&gpu_type| !closed.contains(gpu_type) && self.try_start_on(job, gpu_type))
    }

    /// Starts a job on one type if it fits there.
    pub fn try_start_on(&mut self, job: JobId, gpu_type: GpuTypeId) -> bool {
        let bound = self.snapshot.bound;
        let Some(gpus) = fit::find(self.pool, bound, bound.shape(job), gpu_type, &mut self.chooser) else { return false };
        self.pool.take(&gpus, self.slice(job));
        self.plan.starts.push(Start { job, gpus });
        true
    }

    /// Starts a job on one type if it fits there without certain GPUs, each named once.
    pub fn try_start_avoiding(&mut self, job: JobId, gpu_type: GpuTypeId, avoided: &[GpuId]) -> bool {
        if avoided.is_empty() {
            return self.try_start_on(job, gpu_type);
        }
        self.pool.withhold(avoided);
        let started = self.try_start_on(job, gpu_type);
        self.pool.restore(avoided);
        started
    }

    /// Starts a job on these very GPUs if it fits there, and more gets done with it than without it.
    pub fn try_start_at(&mut self, job: JobId, gpus: &GpuList) -> bool {
        let (bound, slice) = (self.snapshot.bound, self.slice(job));
        let shape = bound.shape(job);
        let fits = gpus.len() == shape.gpus as usize
            && self.pool.has_room(gpus, slice)
            && gpus.iter().all(|gpu| self.pool.gains_by(bound, shape, *gpu));
        if fits {
            self.pool.take(gpus, slice);
            self.plan.starts.push(Start { job, gpus: gpus.clone() });
        }
        fits
    }

    /// The GPUs that a job would get now without certain GPUs, each named once.
    pub fn gang_avoiding(&mut self, job: JobId, avoided: &[GpuId]) -> Option<GpuList> {
        let (bound, types) = (self.snapshot.bound, self.types_of(job));
        // What is only looked up draws nothing, so that later placements are the same with and without it.
        let score = if self.chooser.score == Score::Random { Score::Consolidate } else { self.chooser.score };
        let mut chooser = Chooser { score, gpu_busy: self.chooser.gpu_busy, stream: self.chooser.stream };
        self.pool.withhold(avoided);
        let gang = types.iter().find_map(|&gpu_type| fit::find(self.pool, bound, bound.shape(job), gpu_type, &mut chooser));
        self.pool.restore(avoided);
        gang
    }

    /// Takes a job off its GPUs to see what would fit then. It must be put back.
    pub fn lift(&mut self, job: JobId) {
        let gpus = self.gpus_of(job).clone();
        self.pool.give(&gpus, self.slice(job));
    }

    /// Puts a lifted job back.
    pub fn put_back(&mut self, job: JobId) {
        let gpus = self.gpus_of(job).clone();
        self.pool.take(&gpus, self.slice(job));
    }

    /// Starts a job on the GPUs of another, alone there until now, if they can share that type.
    pub fn try_start_beside(&mut self, job: JobId, host: JobId, gpu_type: GpuTypeId) -> bool {
        let started = self.plan.starts.iter().find(|start| start.job == host).map(|start| &start.gpus);
        let runs_on = || {
            let state = &self.snapshot.states[host.index()];
            (state.phase == Phase::Running && !self.plan.stops.contains(&host)).then_some(&state.gpus)
        };
        let Some(gpus) = started.or_else(runs_on).cloned() else { return false };
        let shape = self.snapshot.bound.shape(job);
        // A job that cannot be stopped may be on another type than the policy wanted for it.
        let is_of_type = |gpu: &GpuId| self.snapshot.bound.cluster.gpus[gpu.index()].gpu_type == gpu_type;
        let sound = shape.gpus as usize == gpus.len()
            && gpus.iter().all(is_of_type)
            && shape.is_exclusive()
            && shape.types.contains(gpu_type)
            && self.snapshot.bound.only(shape).is_none_or(|only| gpus.iter().all(|gpu| only.contains(gpu)))
            && self.snapshot.bound.pair_part(job, host, gpu_type).is_some()
            && self.pool.has_room_beside(&gpus, shape.memory_mib);
        if sound {
            self.pool.take(&gpus, self.slice(job));
            self.plan.starts.push(Start { job, gpus });
        }
        sound
    }

    /// Whether one node has room for all of a job's gang.
    pub fn has_node_for(&self, job: JobId, gpu_type: GpuTypeId) -> bool {
        self.pool.has_node_for(self.snapshot.bound.shape(job).gpus, gpu_type)
    }

    /// Whether a job of this shape would fit on any of its types now.
    pub fn fits(&self, shape: ShapeId) -> bool {
        let row = &self.snapshot.bound.shapes[shape.index()];
        self.type_orders[shape.index()].iter().any(|&gpu_type| self.fits_on(row, gpu_type))
    }

    /// Whether a job of this shape would fit on one type now.
    pub fn fits_on(&self, shape: &Shape, gpu_type: GpuTypeId) -> bool {
        fit::fits(self.pool, self.snapshot.bound, shape, gpu_type)
    }

    /// Stops a running job.
    pub fn stop(&mut self, job: JobId) {
        self.pool.give(&self.snapshot.states[job.index()].gpus, self.slice(job));
        self.plan.stops.push(job);
    }

    /// Lets a stopped job run on after all, where its GPUs were not given away; says whether they were not.
    pub fn let_run_on(&mut self, job: JobId) -> bool {
        let gpus = &self.snapshot.states[job.index()].gpus;
        let free = self.pool.has_room(gpus, self.slice(job));
        if free {
            self.pool.take(gpus, self.slice(job));
            self.plan.stops.retain(|&stopped| stopped != job);
        }
        free
    }

    /// Jobs started in this draft.
    pub fn starts(&self) -> &[Start] {
        &self.plan.starts
    }

    /// Notes a start that a job can count on.
    pub fn promise(&mut self, promise: Promise) {
        self.plan.promises.push(promise);
    }

    /// The plan. The pool is as it was before the draft.
    pub fn into_plan(mut self) -> Plan {
        let mut plan = std::mem::take(&mut self.plan);
        for start in &plan.starts {
            self.pool.give(&start.gpus, self.slice(start.job));
        }
        for &job in plan.stops.iter().rev() {
            self.pool.take(&self.snapshot.states[job.index()].gpus, self.slice(job));
        }
        // A victim that was given its own GPUs again never stopped.
        let states = self.snapshot.states;
        let kept = plan.starts.iter().filter(|start| states[start.job.index()].gpus == start.gpus).map(|start| start.job);
        let kept = kept.collect::<SmallVec<[JobId; 4]>>();
        if !kept.is_empty() {
            plan.stops.retain(|job| !kept.contains(job));
            plan.starts.retain(|start| !kept.contains(&start.job));
        }
        plan
    }

    /// The GPUs of a job started in this draft or running before it.
    pub fn gpus_of(&self, job: JobId) -> &GpuList {
        let started = self.plan.starts.iter().find(|start| start.job == job);
        started.map_or(&self.snapshot.states[job.index()].gpus, |start| &start.gpus)
    }
}
