//! Binding: a workload meets a cluster, and everything that depends on both is settled once.
//!
//! Afterwards every job is known to fit the cluster when it is empty, has its work in reference time, a speed on each
//! GPU type, and a *shape*: jobs of one shape fit or do not fit together, which lets placement skip them together.

use crate::{
    Cluster, DependencyCondition, GpuId, GpuTypeId, Job, JobId, MilliGpu, Names, PairParts, Renumbering, Slice, Span,
    ThroughputTable, Workload,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// A set of GPU types, as bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TypeSet(u64);

impl TypeSet {
    /// No type.
    pub const EMPTY: Self = Self(0);

    /// Whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Whether a type is in the set.
    pub fn contains(self, gpu_type: GpuTypeId) -> bool {
        self.0 >> gpu_type.index() & 1 == 1
    }

    /// Adds a type.
    pub fn insert(&mut self, gpu_type: GpuTypeId) {
        self.0 |= 1 << gpu_type.index();
    }

    /// Adds all types of another set.
    pub fn insert_all(&mut self, other: Self) {
        self.0 |= other.0;
    }

    /// The types of this set that are not in `other`.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// The types in ascending order.
    pub fn iter(self) -> impl Iterator<Item = GpuTypeId> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            let lowest = left.trailing_zeros();
            (left != 0).then(|| {
                left &= left - 1;
                GpuTypeId(lowest)
            })
        })
    }
}

/// A row in the table of shapes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShapeId(pub u32);

impl ShapeId {
    /// The row of this shape.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A row in the table of job classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ClassId(pub u32);

impl ClassId {
    /// The row of this class.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// What throughput tables tell apart: a job type with a gang size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct JobClass {
    /// The job type.
    pub kind: crate::Name,
    /// Gang size.
    pub gpus: u32,
    /// Row of its speeds.
    pub speeds: u32,
    /// Steps per second at speed 1; 1 for jobs given as time, whose steps are seconds.
    pub steps_per_second: f64,
    /// How much of its speed is left on each GPU type when its gang is spread over nodes, where the table says so.
    pub spread_part: Option<Box<[f64]>>,
    /// Whether anything is known of its speed beside others.
    pub is_paired: bool,
}

/// Everything about a job that decides where it fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Shape {
    /// Gang size.
    pub gpus: u32,
    /// Share of each GPU.
    pub share: MilliGpu,
    /// Memory on each GPU.
    pub memory_mib: u32,
    /// With whom it may share a GPU.
    pub group: u32,
    /// Over how many nodes it may be spread; 0 means any.
    pub nodes_max: u32,
    /// Types it can run on.
    pub types: TypeSet,
    /// Row of the speeds of this shape's jobs: the order in which types are tried depends on it.
    pub speeds: u32,
    /// The only GPUs it may use, if not all: its row in [`Bound::gpu_sets`].
    pub only: Option<u32>,
    /// The class of its jobs, where they share GPUs and something is known of their speeds beside others.
    pub class: Option<ClassId>,
}

impl Shape {
    /// Whether it takes whole GPUs.
    pub fn is_exclusive(&self) -> bool {
        self.share == MilliGpu::WHOLE
    }

    /// What it takes of each GPU.
    pub fn slice(&self) -> Slice {
        Slice { share: self.share, memory_mib: self.memory_mib, group: self.group, class: self.class }
    }
}

/// Why a job of the workload cannot be run on the cluster at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{source_name}{}: job {job}: {problem}", if *.line > 0 { format!(":{line}") } else { String::new() })]
pub struct BindError {
    /// The trace.
    pub source_name: String,
    /// Its line.
    pub line: u32,
    /// What the trace calls the job.
    pub job: String,
    /// What is wrong.
    pub problem: Box<BindProblem>,
}

/// What can be wrong between one job and the cluster.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BindProblem {
    /// A GPU type the cluster does not have.
    #[error("gpu_type: the cluster has no `{given}`; it has {known}")]
    UnknownGpuType {
        /// What the job asks for.
        given: String,
        /// What there is.
        known: String,
    },
    /// More GPUs than there are.
    #[error("gpus: a gang of {wanted} does not fit the cluster: {largest}")]
    GangTooLarge {
        /// GPUs it wants.
        wanted: u32,
        /// What the cluster could give at most.
        largest: String,
    },
    /// More memory than a GPU has.
    #[error("memory_mib: {wanted} MiB on each GPU is more than any GPU it may use has ({largest} MiB)")]
    MemoryTooLarge {
        /// MiB it wants.
        wanted: u32,
        /// MiB of the largest GPU.
        largest: u32,
    },
    /// A GPU by a number that the cluster does not have.
    #[error("only: there is no GPU {given}; they are numbered 0 to {}", .count.saturating_sub(1))]
    UnknownGpu {
        /// The number given.
        given: u32,
        /// How many GPUs there are.
        count: usize,
    },
    /// Steps, but no throughput for them.
    #[error("job_type: no throughput for `{job_type}` with {gpus} GPUs in {table}{hint}")]
    UnknownJobType {
        /// The job type.
        job_type: String,
        /// Its gang size.
        gpus: u32,
        /// The table looked in.
        table: String,
        /// What the table does know.
        hint: String,
    },
    /// It takes no time.
    #[error("duration_s: the job has no work to do; give a duration or steps above 0")]
    NoWork,
    /// It waits for a job that was left out.
    #[error("after: the job it waits for was skipped")]
    DependencySkipped,
    /// It waits for itself, round a circle.
    #[error("after: it waits for itself, through job {through}")]
    DependencyCircle {
        /// The job it waits for.
        through: String,
    },
}

/// What to do with jobs that cannot run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadJobs {
    /// Stop at the first.
    Refuse,
    /// Leave them out and list them.
    Skip,
}

/// A job that arrives while others run, with its names as text: they are not in the tables yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NewJob {
    /// The job, without its names.
    pub job: Job,
    /// The user who asked for it.
    pub user: Box<str>,
    /// Its project; empty if it has none.
    pub project: Box<str>,
    /// Its job type; empty if it has none.
    pub job_type: Box<str>,
    /// GPU types it accepts; empty means any.
    pub gpu_types: Vec<Box<str>>,
}

/// What a job will really do, which nobody knows before it has done it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Truth {
    /// Run time, alone, on the reference GPU.
    pub work: Span,
    /// Training steps, for jobs whose length is given in steps of their job type; 0 if given as time.
    pub steps: f64,
    /// Each attempt fails when this much work is done.
    pub fails_at: Option<Span>,
}

/// A workload on a cluster, ready to be scheduled.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Bound {
    /// Where the jobs came from.
    pub source: String,
    /// Users and job types.
    pub names: Names,
    /// The jobs, numbered by arrival.
    pub jobs: Vec<Job>,
    /// What each job will really do. Only the world that simulates them may go by it, and policies that declare that they know it.
    truths: Vec<Truth>,
    /// What they run on.
    #[serde(skip)]
    pub cluster: Cluster,
    /// What its GPUs cost at which time; the list prices of their types unless others are given.
    #[serde(skip)]
    pub prices: crate::PriceTable,
    /// The distinct shapes.
    pub shapes: Vec<Shape>,
    /// The shape of each job.
    pub shape_of: Vec<ShapeId>,
    /// Distinct rows of speeds, one value per GPU type.
    pub speeds: Vec<Box<[f64]>>,
    /// Distinct sets of GPUs that jobs keep to.
    pub gpu_sets: Vec<Box<[GpuId]>>,
    /// The distinct job classes.
    pub classes: Vec<JobClass>,
    /// The class of each job.
    pub class_of: Vec<ClassId>,
    /// What classes keep of their speeds when their jobs share GPUs.
    pub pair_parts: PairParts,
    /// For each job, the jobs that wait for it.
    pub dependants: HashMap<JobId, Vec<JobId>>,
    /// Jobs left out, and why.
    #[serde(skip)]
    pub skipped: Vec<BindError>,
    /// The throughput table used, if any job is measured in steps.
    pub throughput_source: Option<String>,
}

impl Bound {
    /// A cluster without jobs.
    pub fn empty(source: &str, cluster: Cluster) -> Self {
        Self {
            source: source.to_owned(),
            names: Names::default(),
            jobs: Vec::new(),
            truths: Vec::new(),
            prices: crate::PriceTable::of_cluster(&cluster),
            cluster,
            shapes: Vec::new(),
            shape_of: Vec::new(),
            speeds: Vec::new(),
            gpu_sets: Vec::new(),
            classes: Vec::new(),
            class_of: Vec::new(),
            pair_parts: PairParts::default(),
            dependants: HashMap::new(),
            skipped: Vec::new(),
            throughput_source: None,
        }
    }

    /// Binds a workload to a cluster.
    pub fn new(workload: Workload, cluster: Cluster, table: &ThroughputTable, bad_jobs: BadJobs) -> Result<Self, BindError> {
        let mut bound = Self { names: workload.names, ..Self::empty(&workload.source, cluster) };
        bound.jobs.reserve(workload.jobs.len());
        let mut binder = Binder::new(&bound.cluster);
        let circle = find_circle(&workload.jobs);
        let mut new_ids = vec![None; workload.jobs.len()];
        for mut job in workload.jobs {
            let earlier_skipped = |dependency: &crate::Dependency| {
                dependency.job < job.id
                    && dependency.condition == DependencyCondition::Ok
                    && new_ids[dependency.job.index()].is_none()
            };
            let checked = match circle {
                Some((member, through)) if member == job.id => {
                    Err(BindProblem::DependencyCircle { through: through.to_string() })
                }
                _ if job.after.iter().any(earlier_skipped) => Err(BindProblem::DependencySkipped),
                _ => binder.bind(&mut bound, &mut job, table),
            };
            match checked {
                Ok((shape, class)) => {
                    new_ids[job.id.index()] = Some(JobId::from_index(bound.jobs.len()));
                    job.id = JobId::from_index(bound.jobs.len());
                    bound.add(job, shape, class, table);
                }
                Err(problem) => {
                    let error = BindError {
                        source_name: bound.source.clone(),
                        line: job.line,
                        job: job.display_id(),
                        problem: Box::new(problem),
                    };
                    if bad_jobs == BadJobs::Refuse {
                        return Err(error);
                    }
                    bound.skipped.push(error);
                }
            }
        }
        for job in &mut bound.jobs {
            for dependency in &mut job.after {
                if let Some(id) = new_ids[dependency.job.index()] {
                    dependency.job = id;
                }
                bound.dependants.entry(dependency.job).or_default().push(job.id);
            }
        }
        bound.pair_parts = PairParts::new(&bound.classes, &bound.names, &bound.cluster, table);
        Ok(bound)
    }

    /// Adds one job that arrived while others run. The jobs it waits for must be there already.
    pub fn admit(&mut self, binder: &mut Binder, new: NewJob, table: &ThroughputTable) -> Result<JobId, BindProblem> {
        let classes = self.classes.len();
        let mut job = new.job;
        job.user = self.names.intern(&new.user);
        job.project = self.names.intern(&new.project);
        job.kind = self.names.intern(&new.job_type);
        job.gpu_types = new.gpu_types.iter().map(|name| self.names.intern(name)).collect();
        let (shape, class) = binder.bind(self, &mut job, table)?;
        let id = JobId::from_index(self.jobs.len());
        job.id = id;
        for dependency in &job.after {
            self.dependants.entry(dependency.job).or_default().push(id);
        }
        self.add(job, shape, class, table);
        if self.classes[classes..].iter().any(|class| class.is_paired) {
            self.pair_parts = PairParts::new(&self.classes, &self.names, &self.cluster, table);
        }
        Ok(id)
    }

    /// Gives a job another share and memory, because more is known of it. It must not be on GPUs.
    pub fn reshape(&mut self, binder: &mut Binder, job: JobId, slice: Slice, table: &ThroughputTable) -> Result<(), BindProblem> {
        let Truth { work, steps, .. } = *self.truth(job);
        let slice = Job { share: slice.share, memory_mib: slice.memory_mib, group: slice.group, ..self.job(job).clone() };
        let mut changed = Job { work, steps, ..slice };
        self.shape_of[job.index()] = binder.bind(self, &mut changed, table)?.0;
        self.jobs[job.index()] = Job { work: Span::ZERO, steps: 0.0, ..changed };
        Ok(())
    }

    /// What a job will really do.
    pub fn truth(&self, job: JobId) -> &Truth {
        &self.truths[job.index()]
    }

    /// A job as its workload had it, with what it will really do.
    pub fn whole_job(&self, job: JobId) -> Job {
        let Truth { work, steps, fails_at } = *self.truth(job);
        Job { work, steps, fails_at, ..self.job(job).clone() }
    }

    /// Lets a job take as long as somebody believes it will: a forecast draws lengths and sets them here.
    pub fn set_work(&mut self, job: JobId, work: Span) {
        self.truths[job.index()].work = work;
    }

    /// Drops the rows of jobs that are over and numbers the others anew, in the same order.
    pub fn renumber(&mut self, rows: &Renumbering) {
        rows.keep(&mut self.jobs);
        rows.keep(&mut self.truths);
        rows.keep(&mut self.shape_of);
        rows.keep(&mut self.class_of);
        for (index, job) in self.jobs.iter_mut().enumerate() {
            job.id = JobId::from_index(index);
            // A job that was waited for and is over has nothing more to say.
            let after = job.after.iter().filter_map(|dependency| {
                Some(crate::Dependency { job: rows.new_of(dependency.job)?, condition: dependency.condition })
            });
            job.after = after.collect();
        }
        let dependants = std::mem::take(&mut self.dependants).into_iter().filter_map(|(job, dependants)| {
            let dependants = dependants.into_iter().filter_map(|dependant| rows.new_of(dependant)).collect::<Vec<_>>();
            Some((rows.new_of(job)?, dependants)).filter(|(_, dependants)| !dependants.is_empty())
        });
        self.dependants = dependants.collect();
    }

    /// Gives a job another priority, because somebody asked.
    pub fn reprioritise(&mut self, job: JobId, priority: i32) {
        self.jobs[job.index()].priority = priority;
    }

    /// Takes a job in. How long it will really run is put where policies do not look.
    fn add(&mut self, mut job: Job, shape: ShapeId, class: ClassId, table: &ThroughputTable) {
        if job.steps > 0.0 {
            self.throughput_source = Some(table.source.clone());
        }
        self.truths.push(Truth { work: job.work, steps: job.steps, fails_at: job.fails_at });
        (job.work, job.steps, job.fails_at) = (Span::ZERO, 0.0, None);
        self.shape_of.push(shape);
        self.class_of.push(class);
        self.jobs.push(job);
    }

    /// The only GPUs that jobs of a shape may use, if not all.
    pub fn only(&self, shape: &Shape) -> Option<&[GpuId]> {
        shape.only.map(|row| &*self.gpu_sets[row as usize])
    }

    /// The same with other prices.
    #[must_use]
    pub fn with_prices(self, prices: crate::PriceTable) -> Self {
        Self { prices, ..self }
    }

    /// A job of the workload.
    pub fn job(&self, job: JobId) -> &Job {
        &self.jobs[job.index()]
    }

    /// The shape of a job.
    pub fn shape(&self, job: JobId) -> &Shape {
        &self.shapes[self.shape_of[job.index()].index()]
    }

    /// The speeds of a job, one per GPU type.
    pub fn speeds(&self, job: JobId) -> &[f64] {
        &self.speeds[self.shape(job).speeds as usize]
    }

    /// The class of a job.
    pub fn class(&self, job: JobId) -> &JobClass {
        &self.classes[self.class_of[job.index()].index()]
    }

    /// How much of their speeds two jobs keep when they share whole GPUs of a type; `None` if they cannot.
    pub fn pair_part(&self, first: JobId, second: JobId, gpu_type: GpuTypeId) -> Option<(f64, f64)> {
        let parts = self.pair_parts.of(self.class_of[first.index()], self.class_of[second.index()], gpu_type);
        parts.filter(|&(a, b)| a > 0.0 && b > 0.0)
    }

    /// The best speed a job can have anywhere it may run.
    pub fn best_speed(&self, job: JobId) -> f64 {
        let speeds = self.speeds(job);
        self.shape(job).types.iter().map(|gpu_type| speeds[gpu_type.index()]).fold(0.0, f64::max)
    }
}

/// A job on a circle of dependencies and the one it waits for there, if there is a circle.
fn find_circle(jobs: &[Job]) -> Option<(JobId, JobId)> {
    // Jobs that wait for nothing unresolved are peeled off until none is left or all left wait for each other.
    let mut unresolved = jobs.iter().map(|job| job.after.len()).collect::<Vec<_>>();
    let mut dependants: HashMap<JobId, Vec<JobId>> = HashMap::new();
    for job in jobs {
        for dependency in &job.after {
            dependants.entry(dependency.job).or_default().push(job.id);
        }
    }
    let mut ready = jobs.iter().filter(|job| job.after.is_empty()).map(|job| job.id).collect::<Vec<_>>();
    while let Some(job) = ready.pop() {
        for dependant in dependants.get(&job).into_iter().flatten() {
            unresolved[dependant.index()] -= 1;
            if unresolved[dependant.index()] == 0 {
                ready.push(*dependant);
            }
        }
    }
    let stuck = jobs.iter().find(|job| unresolved[job.id.index()] > 0)?;
    let through = stuck.after.iter().find(|dependency| unresolved[dependency.job.index()] > 0)?;
    Some((stuck.id, through.job))
}

/// What finds the rows that jobs have in common while they are bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Binder {
    /// GPUs of each type, and the largest number of them on one node, on two, … (for limits on nodes).
    counts: Vec<Vec<u32>>,
    shape_ids: HashMap<Shape, ShapeId>,
    speed_ids: HashMap<Vec<u64>, u32>,
    set_ids: HashMap<Box<[GpuId]>, u32>,
    /// By job type, gang size and whether lengths are in steps.
    class_ids: HashMap<(crate::Name, u32, bool), ClassId>,
    /// Work per step and row of speeds of the job types seen.
    steps_seen: HashMap<(crate::Name, u32), (f64, u32)>,
}

impl Binder {
    /// For a cluster that no job was bound to yet.
    pub fn new(cluster: &Cluster) -> Self {
        let mut per_node = vec![vec![0_u32; cluster.nodes.len()]; cluster.types.len()];
        for gpu in &cluster.gpus {
            per_node[gpu.gpu_type.index()][gpu.node.index()] += 1;
        }
        for counts in &mut per_node {
            counts.sort_unstable_by(|a, b| b.cmp(a));
            let mut sum = 0;
            for count in counts {
                sum += *count;
                *count = sum;
            }
        }
        Self {
            counts: per_node,
            shape_ids: HashMap::new(),
            speed_ids: HashMap::new(),
            set_ids: HashMap::new(),
            class_ids: HashMap::new(),
            steps_seen: HashMap::new(),
        }
    }

    /// The shape and class of a job; fills in the work of one given in steps.
    fn bind(&mut self, bound: &mut Bound, job: &mut Job, table: &ThroughputTable) -> Result<(ShapeId, ClassId), BindProblem> {
        let speeds = self.speeds_of(bound, job, table)?;
        if job.work == Span::ZERO {
            return Err(BindProblem::NoWork);
        }
        let accepted = job.gpu_types.iter().map(|&wanted| bound.names.text(wanted)).collect::<Vec<_>>();
        let types = self.types_of(&bound.cluster, job, &accepted, &bound.speeds[speeds as usize])?;
        let only = (!job.only.is_empty()).then(|| {
            let next = bound.gpu_sets.len() as u32;
            let row = *self.set_ids.entry(job.only.clone()).or_insert(next);
            if row == next {
                bound.gpu_sets.push(job.only.clone());
            }
            row
        });
        let class = self.class_of(bound, job, speeds, table);
        let shares = job.share != MilliGpu::WHOLE && bound.classes[class.index()].is_paired;
        let shape = Shape {
            gpus: job.gpus,
            share: job.share,
            memory_mib: job.memory_mib,
            group: job.group,
            nodes_max: job.nodes_max,
            types,
            speeds,
            only,
            class: shares.then_some(class),
        };
        let next = ShapeId(bound.shapes.len() as u32);
        let id = *self.shape_ids.entry(shape).or_insert(next);
        if id == next {
            bound.shapes.push(shape);
        }
        Ok((id, class))
    }

    /// The class of a job that has its speeds.
    fn class_of(&mut self, bound: &mut Bound, job: &Job, speeds: u32, table: &ThroughputTable) -> ClassId {
        let seconds_per_step = self.steps_seen.get(&(job.kind, job.gpus)).filter(|_| job.steps > 0.0).map(|seen| seen.0);
        let next = ClassId(bound.classes.len() as u32);
        let id = *self.class_ids.entry((job.kind, job.gpus, seconds_per_step.is_some())).or_insert(next);
        if id == next {
            let job_type = bound.names.text(job.kind);
            let part = |kind: &crate::GpuType| {
                let spread = table.get_spread(job_type, job.gpus, &kind.name)?;
                let alone = table.get(job_type, job.gpus, &kind.name)?;
                (spread > 0.0 && alone > 0.0).then_some(spread / alone)
            };
            let parts = bound.cluster.types.iter().map(part).collect::<Vec<_>>();
            let is_known = job.gpus > 1 && parts.iter().any(Option::is_some);
            let spread_part = is_known.then(|| parts.into_iter().map(|part| part.unwrap_or(1.0)).collect());
            let steps_per_second = seconds_per_step.map_or(1.0, |seconds| 1.0 / seconds);
            let is_paired = table.knows_pairs_of(job_type, job.gpus);
            bound.classes.push(JobClass { kind: job.kind, gpus: job.gpus, speeds, steps_per_second, spread_part, is_paired });
        }
        id
    }

    /// The row of speeds of a job; fills in the work of a job given in steps.
    fn speeds_of(&mut self, bound: &mut Bound, job: &mut Job, table: &ThroughputTable) -> Result<u32, BindProblem> {
        let in_steps = job.steps > 0.0;
        if in_steps && let Some(&(seconds_per_step, row)) = self.steps_seen.get(&(job.kind, job.gpus)) {
            job.work = Span::from_seconds(job.steps * seconds_per_step).unwrap_or(Span::ZERO);
            return Ok(row);
        }
        let job_type = bound.names.text(job.kind);
        if in_steps && table.knows(job_type, job.gpus) {
            let speeds = bound.cluster.types.iter().map(|kind| table.get(job_type, job.gpus, &kind.name).unwrap_or(0.0));
            let speeds = speeds.collect::<Vec<_>>();
            let best = speeds.iter().copied().fold(0.0, f64::max);
            if best > 0.0 {
                let row = self.speed_row(bound, speeds.iter().map(|speed| speed / best).collect());
                self.steps_seen.insert((job.kind, job.gpus), (1.0 / best, row));
                job.work = Span::from_seconds(job.steps / best).unwrap_or(Span::ZERO);
                return Ok(row);
            }
        }
        if in_steps && job.work == Span::ZERO {
            let sizes = table.gang_sizes(job_type);
            let hint = if sizes.is_empty() {
                let known = table.job_types().into_iter().take(4).collect::<Vec<_>>().join("`, `");
                format!("; it knows `{known}`, …")
            } else {
                format!("; it knows that type with {} GPUs on other GPU types or gang sizes", join(sizes))
            };
            return Err(BindProblem::UnknownJobType {
                job_type: job_type.to_owned(),
                gpus: job.gpus,
                table: table.source.clone(),
                hint,
            });
        }
        let speeds = bound.cluster.types.iter().map(|kind| kind.speed).collect();
        Ok(self.speed_row(bound, speeds))
    }

    fn speed_row(&mut self, bound: &mut Bound, speeds: Vec<f64>) -> u32 {
        let bits = speeds.iter().map(|speed| speed.to_bits()).collect::<Vec<_>>();
        let next = bound.speeds.len() as u32;
        let row = *self.speed_ids.entry(bits).or_insert(next);
        if row == next {
            bound.speeds.push(speeds.into());
        }
        row
    }

    /// Whether a job given as time could be bound, without binding it.
    pub fn check(&self, cluster: &Cluster, new: &NewJob) -> Result<(), BindProblem> {
        if new.job.work == Span::ZERO {
            return Err(BindProblem::NoWork);
        }
        let accepted = new.gpu_types.iter().map(|name| &**name).collect::<Vec<_>>();
        let speeds = cluster.types.iter().map(|kind| kind.speed).collect::<Vec<_>>();
        self.types_of(cluster, &new.job, &accepted, &speeds).map(|_| ())
    }

    fn types_of(&self, cluster: &Cluster, job: &Job, wanted: &[&str], speeds: &[f64]) -> Result<TypeSet, BindProblem> {
        for name in wanted {
            if cluster.type_named(name).is_none() {
                let known = cluster.types.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(", ");
                return Err(BindProblem::UnknownGpuType { given: (*name).to_owned(), known });
            }
        }
        if let Some(&gpu) = job.only.iter().find(|gpu| gpu.index() >= cluster.gpus.len()) {
            return Err(BindProblem::UnknownGpu { given: gpu.0, count: cluster.gpus.len() });
        }
        let accepted = |name: &str| wanted.is_empty() || wanted.contains(&name);
        let mut types = TypeSet::EMPTY;
        let mut largest_memory = 0;
        let mut largest_pools = Vec::new();
        for (index, kind) in cluster.types.iter().enumerate() {
            let nodes = &self.counts[index];
            let reach = if job.nodes_max == 0 { nodes.len() } else { nodes.len().min(job.nodes_max as usize) };
            let mut most = nodes[reach - 1];
            if !job.only.is_empty() {
                let of_type = |gpu: &&GpuId| cluster.gpus[gpu.index()].gpu_type.index() == index;
                most = most.min(job.only.iter().filter(of_type).count() as u32);
            }
            if !accepted(&kind.name) || speeds[index] <= 0.0 || most == 0 {
                continue;
            }
            largest_memory = largest_memory.max(kind.memory_mib);
            largest_pools.push(format!("{most} {}", kind.name));
            if most >= job.gpus && kind.memory_mib >= job.memory_mib {
                types.insert(GpuTypeId::from_index(index));
            }
        }
        if !types.is_empty() {
            return Ok(types);
        }
        if job.memory_mib > largest_memory && largest_memory > 0 {
            return Err(BindProblem::MemoryTooLarge { wanted: job.memory_mib, largest: largest_memory });
        }
        let within = if job.nodes_max == 0 { String::new() } else { format!(" on {} nodes", job.nodes_max) };
        let largest = format!("it has at most {}{within} of one type for this job", largest_pools.join(", "));
        Err(BindProblem::GangTooLarge { wanted: job.gpus, largest })
    }
}

fn join(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    fn workload(jobs: impl IntoIterator<Item = Job>) -> Workload {
        let mut workload = Workload::new("test.csv");
        jobs.into_iter().for_each(|job| workload.push(job));
        workload.finish();
        workload
    }

    fn job(gpus: u32) -> Job {
        Job { gpus, line: 7, ..Job::new(Time::ZERO, Span::from_whole_seconds(10)) }
    }

    fn bind(jobs: Vec<Job>, cluster: &str) -> Result<Bound, BindError> {
        let cluster = Cluster::from_spec(cluster, 4).unwrap();
        Bound::new(workload(jobs), cluster, &ThroughputTable::new("no table"), BadJobs::Refuse)
    }

    #[test]
    fn a_gang_larger_than_any_pool_is_refused_with_the_pools() {
        let message = bind(vec![job(9)], "a:8,b:4").unwrap_err().to_string();
        assert_eq!(
            message,
            "test.csv:7: job 0: gpus: a gang of 9 does not fit the cluster: it has at most 8 a, 4 b of one type for this job"
        );
        let message = bind(vec![Job { nodes_max: 1, ..job(5) }], "a:8").unwrap_err().to_string();
        assert!(message.contains("at most 4 a on 1 nodes"), "{message}");
    }

    #[test]
    fn jobs_of_one_shape_share_a_row() {
        let bound = bind(vec![job(1), job(4), job(1)], "a:8").unwrap();
        assert_eq!(bound.shapes.len(), 2);
        assert_eq!(bound.shape_of[0], bound.shape_of[2]);
    }

    #[test]
    fn steps_become_work_on_the_fastest_type() {
        let mut table = ThroughputTable::new("table");
        table.insert("net", 1, "fast", 10.0);
        table.insert("net", 1, "slow", 2.5);
        let mut jobs = workload([Job { steps: 100.0, work: Span::ZERO, ..job(1) }]);
        jobs.jobs[0].kind = jobs.names.intern("net");
        let cluster = Cluster::from_spec("slow:1,fast:1,other:1", 1).unwrap();
        let bound = Bound::new(jobs.clone(), cluster, &table, BadJobs::Refuse).unwrap();
        assert_eq!(bound.truth(JobId(0)).work, Span::from_whole_seconds(10));
        assert_eq!(bound.speeds(JobId(0)), [0.25, 1.0, 0.0]);
        assert!(!bound.shape(JobId(0)).types.contains(GpuTypeId(2)));
        let cluster = Cluster::from_spec("other:1", 1).unwrap();
        let message = Bound::new(jobs, cluster, &table, BadJobs::Refuse).unwrap_err().to_string();
        assert!(message.contains("no throughput for `net` with 1 GPUs in table"), "{message}");
    }

    #[test]
    fn circles_and_skipped_dependencies_are_found() {
        let after = |position: usize| -> Box<[crate::Dependency]> {
            Box::new([crate::Dependency { job: JobId::from_index(position), condition: DependencyCondition::Ok }])
        };
        let message =
            bind(vec![Job { after: after(1), ..job(1) }, Job { after: after(0), ..job(1) }], "a:8").unwrap_err().to_string();
        assert!(message.contains("waits for itself"), "{message}");
        let jobs = workload([job(99), Job { after: after(0), ..job(1) }, job(1)]);
        let cluster = Cluster::from_spec("a:8", 4).unwrap();
        let bound = Bound::new(jobs, cluster, &ThroughputTable::default(), BadJobs::Skip).unwrap();
        assert_eq!((bound.jobs.len(), bound.skipped.len()), (1, 2));
    }
}
