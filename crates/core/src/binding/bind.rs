//! Binding: a workload meets a cluster, and everything that depends on both is settled once.
//!
//! Afterwards every job is known to fit the cluster when it is empty, has its work in reference time, a speed on each
//! GPU type, and a *shape*: jobs of one shape fit or do not fit together, which lets placement skip them together.

use crate::{
    Binder, ClassId, Cluster, DependencyCondition, GpuId, GpuTypeId, Job, JobClass, JobId, Names, PairParts, Renumbering, Shape,
    ShapeId, Slice, Span, ThroughputTable, Workload,
};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// Why a job of the workload cannot be run on the cluster at all.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{source_name}{}: job {job}: {problem}", if *.line > 0 { format!(":{line}") } else { String::new() })]
pub struct BindError {
    /// The name of the trace that the job came from.
    pub source_name: String,
    /// The line of the job in its trace.
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
        let mut jobs = workload.jobs;
        let mut checked = Vec::with_capacity(jobs.len());
        for job in &mut jobs {
            checked.push(match circle {
                Some((member, through)) if member == job.id => {
                    Err(BindProblem::DependencyCircle { through: through.to_string() })
                }
                _ => binder.bind(&mut bound, job, table),
            });
        }
        skip_dependants(&jobs, &mut checked);
        let mut new_ids = vec![None; jobs.len()];
        for (mut job, checked) in jobs.into_iter().zip(checked) {
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
        for job in bound.jobs.iter_mut().filter(|job| !job.after.is_empty()) {
            // A job that only waits for the end of a job that is not there need not wait for it.
            let known = job
                .after
                .iter()
                .filter_map(|dependency| Some(crate::Dependency { job: new_ids[dependency.job.index()]?, ..*dependency }));
            job.after = known.collect();
            for dependency in &job.after {
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
            self.pair_parts.add(classes, &self.classes, &self.names, &self.cluster, table);
        }
        Ok(id)
    }

    /// Takes over what a table knows of jobs beside each other, if a pair is new or has moved by a tenth.
    pub fn measure_pairs(&mut self, table: &ThroughputTable) -> bool {
        for class in &mut self.classes {
            class.is_paired |= table.knows_pairs_of(self.names.text(class.kind), class.gpus);
        }
        let parts = PairParts::new(&self.classes, &self.names, &self.cluster, table);
        let has_moved = self.pair_parts.differs(&parts);
        if has_moved {
            self.pair_parts = parts;
        }
        has_moved
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

    /// Lets a job take as long as it is believed to take, and end well: a forecast draws lengths and sets them here, and knows nothing of
    /// failures to come.
    pub fn set_work(&mut self, job: JobId, work: Span) {
        let truth = &mut self.truths[job.index()];
        (truth.work, truth.fails_at) = (work, None);
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

/// Skips the jobs that wait for the success of a job that is skipped, and those that wait for theirs.
fn skip_dependants<T>(jobs: &[Job], checked: &mut [Result<T, BindProblem>]) {
    let mut dependants: HashMap<JobId, Vec<JobId>> = HashMap::new();
    for job in jobs {
        for dependency in job.after.iter().filter(|dependency| dependency.condition == DependencyCondition::Ok) {
            dependants.entry(dependency.job).or_default().push(job.id);
        }
    }
    let mut skipped = jobs.iter().map(|job| job.id).filter(|job| checked[job.index()].is_err()).collect::<Vec<_>>();
    while let Some(job) = skipped.pop() {
        for dependant in dependants.remove(&job).unwrap_or_default() {
            if checked[dependant.index()].is_ok() {
                checked[dependant.index()] = Err(BindProblem::DependencySkipped);
                skipped.push(dependant);
            }
        }
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
        // The first waits for the success of a job that comes later and cannot run; the last only for the end of one.
        let any = Box::new([crate::Dependency { job: JobId(1), condition: DependencyCondition::Any }]);
        let jobs = workload([Job { after: after(1), ..job(1) }, job(99), job(1), Job { after: any, ..job(1) }]);
        let cluster = Cluster::from_spec("a:8", 4).unwrap();
        let bound = Bound::new(jobs, cluster, &ThroughputTable::default(), BadJobs::Skip).unwrap();
        assert_eq!((bound.jobs.len(), bound.skipped.len()), (2, 2));
        assert!(bound.jobs.iter().all(|job| job.after.is_empty()) && bound.dependants.is_empty());
    }
}
