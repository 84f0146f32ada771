//! The binder: it gives each job the rows of the tables that it has in common with others.

use crate::bind::{BindProblem, NewJob};
use crate::measured::has_moved;
use crate::{Bound, ClassId, Cluster, GpuId, GpuTypeId, Job, JobClass, MilliGpu, Shape, ShapeId, Span, ThroughputTable, TypeSet};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;

/// What finds the rows that jobs have in common while they are bound.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Binder {
    /// GPUs of each type, and the largest number of them on one node, on two, … (for limits on nodes).
    counts: Vec<Vec<u32>>,
    shape_ids: HashMap<Shape, ShapeId>,
    speed_ids: HashMap<Vec<u64>, u32>,
    set_ids: HashMap<Box<[GpuId]>, u32>,
    class_ids: HashMap<ClassKey, ClassId>,
    /// Work per step and row of speeds of the job types seen.
    steps_seen: HashMap<(crate::Name, u32), (f64, u32)>,
    /// Whether the speeds of a class were ever measured.
    has_measured: bool,
    /// The shape and the class that were found last: most jobs have what the one before them had, and a comparison is cheaper than a hash.
    #[serde(skip)]
    last_shape: Option<(Shape, ShapeId)>,
    #[serde(skip)]
    last_class: Option<(ClassKey, ClassId)>,
    /// The row of the speeds of jobs of which no more is known than the cluster's own.
    #[serde(skip)]
    plain_speeds: Option<u32>,
}

/// What makes one class another: job type, gang size and whether lengths are in steps.
type ClassKey = (crate::Name, u32, bool);

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
            has_measured: false,
            last_shape: None,
            last_class: None,
            plain_speeds: None,
        }
    }

    /// For jobs that are bound already.
    pub fn of(bound: &Bound) -> Self {
        let mut binder = Self::new(&bound.cluster);
        binder.shape_ids = bound.shapes.iter().enumerate().map(|(row, shape)| (*shape, ShapeId(row as u32))).collect();
        let bits = |speeds: &[f64]| speeds.iter().map(|speed| speed.to_bits()).collect::<Vec<_>>();
        binder.speed_ids = bound.speeds.iter().enumerate().map(|(row, speeds)| (bits(speeds), row as u32)).collect();
        binder.set_ids = bound.gpu_sets.iter().enumerate().map(|(row, gpus)| (gpus.clone(), row as u32)).collect();
        for (job, &class) in bound.class_of.iter().enumerate() {
            let (row, in_steps) = (&bound.classes[class.index()], bound.truth(crate::JobId::from_index(job)).steps > 0.0);
            binder.class_ids.insert((row.kind, row.gpus, in_steps), class);
        }
        binder
    }

    /// The shape and class of a job; fills in the work of one given in steps.
    pub(crate) fn bind(
        &mut self,
        bound: &mut Bound,
        job: &mut Job,
        table: &ThroughputTable,
    ) -> Result<(ShapeId, ClassId), BindProblem> {
        let speeds = self.speeds_of(bound, job, table)?;
        if job.work == Span::ZERO {
            return Err(BindProblem::NoWork);
        }
        let accepted = job.gpu_types.iter().map(|&wanted| bound.names.text(wanted)).collect::<Vec<_>>();
        let types = self.types_of(&bound.cluster, job, &accepted, &bound.speeds[speeds as usize])?;
        let is_mixed = job.any_type && job.gpus > 1;
        let named = if is_mixed && job.only.is_empty() {
            // Counting GPUs by type is not enough for a gang that spans types: its GPUs are told one by one.
            let is_accepted = |gpu: &GpuId| types.contains(bound.cluster.gpus[gpu.index()].gpu_type);
            (0..bound.cluster.gpus.len()).map(GpuId::from_index).filter(is_accepted).collect()
        } else {
            job.only.clone()
        };
        let only = (!named.is_empty()).then(|| {
            let next = bound.gpu_sets.len() as u32;
            let row = *self.set_ids.entry(named.clone()).or_insert(next);
            if row == next {
                bound.gpu_sets.push(named);
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
            is_mixed,
            class: shares.then_some(class),
        };
        Ok((self.shape_row(bound, shape), class))
    }

    fn shape_row(&mut self, bound: &mut Bound, shape: Shape) -> ShapeId {
        if let Some((_, id)) = self.last_shape.filter(|(last, _)| *last == shape) {
            return id;
        }
        let next = ShapeId(bound.shapes.len() as u32);
        let id = *self.shape_ids.entry(shape).or_insert(next);
        if id == next {
            bound.shapes.push(shape);
        }
        self.last_shape = Some((shape, id));
        id
    }

    /// The class of a job that has its speeds.
    fn class_of(&mut self, bound: &mut Bound, job: &Job, speeds: u32, table: &ThroughputTable) -> ClassId {
        let seconds_per_step = self.steps_seen.get(&(job.kind, job.gpus)).filter(|_| job.steps > 0.0).map(|seen| seen.0);
        let key = (job.kind, job.gpus, seconds_per_step.is_some());
        if let Some((_, id)) = self.last_class.filter(|(last, _)| *last == key) {
            return id;
        }
        let next = ClassId(bound.classes.len() as u32);
        let id = *self.class_ids.entry(key).or_insert(next);
        self.last_class = Some((key, id));
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
            bound.classes.push(JobClass {
                kind: job.kind,
                gpus: job.gpus,
                speeds,
                steps_per_second,
                spread_part,
                is_paired,
                is_measured: false,
                untried: TypeSet::EMPTY,
            });
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
        // Jobs given as time have the speeds of their class, which may have been measured since it was made.
        if self.has_measured
            && let Some(class) = self.class_ids.get(&(job.kind, job.gpus, false))
        {
            return Ok(bound.classes[class.index()].speeds);
        }
        let row = self.plain_speeds.unwrap_or_else(|| {
            let speeds = bound.cluster.types.iter().map(|kind| kind.speed).collect();
            self.speed_row(bound, speeds)
        });
        self.plain_speeds = Some(row);
        Ok(row)
    }

    /// The class of jobs given as time of a type and gang size, if there is one.
    pub fn class_by_time(&self, kind: crate::Name, gpus: u32) -> Option<ClassId> {
        self.class_ids.get(&(kind, gpus, false)).copied()
    }

    /// Gives a class the speeds that were measured, in steps per second on each GPU type, if one of them has moved by a tenth or was
    /// tried for the first time. Names the jobs that have other speeds from then on.
    pub fn measure(&mut self, bound: &mut Bound, class: ClassId, speeds: &[f64], untried: TypeSet) -> Option<Vec<crate::JobId>> {
        let best = speeds.iter().copied().fold(0.0, f64::max);
        let known = &bound.classes[class.index()];
        let in_force = bound.speeds[known.speeds as usize].iter().map(|speed| speed * known.steps_per_second);
        let is_news = !known.is_measured || known.untried != untried;
        let has_moved = is_news || has_moved(&in_force.collect::<Vec<_>>(), speeds);
        if best <= 0.0 || !has_moved {
            return None;
        }
        self.has_measured = true;
        let row = self.speed_row(bound, speeds.iter().map(|speed| on_grid(speed / best)).collect());
        let class_row = &mut bound.classes[class.index()];
        (class_row.speeds, class_row.steps_per_second, class_row.is_measured) = (row, best, true);
        class_row.untried = untried;
        let of_class = (0..bound.jobs.len()).filter(|&index| bound.class_of[index] == class);
        let jobs = of_class.map(crate::JobId::from_index).collect::<Vec<_>>();
        for job in &jobs {
            let shape = Shape { speeds: row, ..*bound.shape(*job) };
            bound.shape_of[job.index()] = self.shape_row(bound, shape);
        }
        Some(jobs)
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
        let mut types = TypeSet::EMPTY;
        let (mut spanned, mut together) = (TypeSet::EMPTY, 0);
        for (index, kind) in cluster.types.iter().enumerate() {
            let most = self.most_of_type(cluster, job, wanted, speeds, index);
            if most == 0 || kind.memory_mib < job.memory_mib {
                continue;
            }
            spanned.insert(GpuTypeId::from_index(index));
            together += most;
            if most >= job.gpus {
                types.insert(GpuTypeId::from_index(index));
            }
        }
        if job.any_type && job.gpus > 1 && together >= job.gpus {
            return Ok(spanned);
        }
        if types.is_empty() { Err(self.misfit(cluster, job, wanted, speeds)) } else { Ok(types) }
    }

    /// The most GPUs of a type that one gang of a job could have; 0 if the job cannot use the type.
    fn most_of_type(&self, cluster: &Cluster, job: &Job, wanted: &[&str], speeds: &[f64], index: usize) -> u32 {
        let is_accepted = wanted.is_empty() || wanted.contains(&cluster.types[index].name.as_str());
        if !is_accepted || speeds[index] <= 0.0 {
            return 0;
        }
        let nodes = &self.counts[index];
        let reach = if job.nodes_max == 0 { nodes.len() } else { nodes.len().min(job.nodes_max as usize) };
        if job.only.is_empty() {
            return nodes[reach - 1];
        }
        let of_type = |gpu: &&GpuId| cluster.gpus[gpu.index()].gpu_type.index() == index;
        nodes[reach - 1].min(job.only.iter().filter(of_type).count() as u32)
    }

    /// Why a job fits on no type.
    fn misfit(&self, cluster: &Cluster, job: &Job, wanted: &[&str], speeds: &[f64]) -> BindProblem {
        let mut largest_memory = 0;
        let mut largest_pools = Vec::new();
        for (index, kind) in cluster.types.iter().enumerate() {
            let most = self.most_of_type(cluster, job, wanted, speeds, index);
            if most > 0 {
                largest_memory = largest_memory.max(kind.memory_mib);
                largest_pools.push(format!("{most} {}", kind.name));
            }
        }
        if job.memory_mib > largest_memory && largest_memory > 0 {
            return BindProblem::MemoryTooLarge { wanted: job.memory_mib, largest: largest_memory };
        }
        let within = if job.nodes_max == 0 { String::new() } else { format!(" on {} nodes", job.nodes_max) };
        let largest = match (largest_pools.as_slice(), wanted) {
            ([], []) => "it has no GPU type for this job".to_owned(),
            ([], wanted) => format!("it has no {} for this job", wanted.join(" or ")),
            (pools, _) => format!("it has at most {}{within} of one type for this job", pools.join(", ")),
        };
        BindProblem::GangTooLarge { wanted: job.gpus, largest }
    }
}

/// The nearest of some speeds that lie one part in fifty apart: a measured speed that wanders takes few different values, and few rows.
fn on_grid(speed: f64) -> f64 {
    const APART: f64 = 0.02;
    ((speed.ln() / APART).round() * APART).exp()
}

fn join(numbers: impl IntoIterator<Item = u32>) -> String {
    numbers.into_iter().map(|number| number.to_string()).collect::<Vec<_>>().join(", ")
}
