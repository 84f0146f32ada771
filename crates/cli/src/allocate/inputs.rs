//! The jobs of `rota alloc`: all jobs of a trace as if they were here now, or jobs drawn at random.

use crate::args::ReadArgs;
use crate::inputs::{bind, load_trace};
use anyhow::Context;
use rota_core::random::RandomStream;
use rota_core::{Cluster, JobId, ThroughputTable};
use rota_policy::allocation::{Claim, Entity, EntityRule, PairRates};
use std::collections::HashMap;
use std::path::Path;

/// Everything an allocation is made from, and the names to print it with.
pub struct Inputs {
    pub claims: Vec<Claim>,
    pub gpus: Vec<f64>,
    pub prices: Vec<f64>,
    pub entities: Vec<Entity>,
    pub gpu_types: Vec<String>,
    pub cluster: String,
    /// Job type and gang of each class; empty where every job is its own class.
    classes: Vec<(String, u32)>,
}

impl Inputs {
    fn new(cluster: &Cluster) -> Self {
        let mut gpus = vec![0.0; cluster.types.len()];
        for gpu in &cluster.gpus {
            gpus[gpu.gpu_type.index()] += 1.0;
        }
        Self {
            claims: Vec::new(),
            gpus,
            prices: cluster.types.iter().map(|kind| kind.usd_per_hour.unwrap_or(0.0)).collect(),
            entities: Vec::new(),
            gpu_types: cluster.types.iter().map(|kind| kind.name.clone()).collect(),
            cluster: cluster.describe(),
            classes: Vec::new(),
        }
    }

    /// What a class is called.
    pub fn class_name(&self, class: u32) -> String {
        match self.classes.get(class as usize) {
            Some((job_type, gpus)) if job_type.is_empty() => format!("{gpus} GPUs"),
            Some((job_type, gpus)) => format!("{job_type}, {gpus} GPU{}", if *gpus == 1 { "" } else { "s" }),
            None => format!("job {class}"),
        }
    }

    /// What the table knows of jobs that share GPUs.
    pub fn pairs<'a>(&'a self, table: &'a ThroughputTable) -> TablePairs<'a> {
        TablePairs { table, classes: &self.classes, gpu_types: &self.gpu_types }
    }

    /// The rate with the types closed that have fewer GPUs than the gang.
    fn fitting(&self, gang: u32, rate: impl Fn(usize) -> f64) -> Box<[f64]> {
        self.gpus.iter().enumerate().map(|(index, &gpus)| if gpus >= f64::from(gang) { rate(index) } else { 0.0 }).collect()
    }
}

/// Pair rates out of a throughput table.
pub struct TablePairs<'a> {
    table: &'a ThroughputTable,
    classes: &'a [(String, u32)],
    gpu_types: &'a [String],
}

impl PairRates for TablePairs<'_> {
    fn pair(&self, first: u32, second: u32) -> Option<Box<[(f64, f64)]>> {
        let (one, other) = (self.classes.get(first as usize)?, self.classes.get(second as usize)?);
        let rates = self.gpu_types.iter().map(|gpu_type| self.table.get_pair((&one.0, one.1), (&other.0, other.1), gpu_type));
        let rates: Box<[(f64, f64)]> = rates.map(Option::unwrap_or_default).collect();
        rates.iter().any(|&(first, second)| first > 0.0 && second > 0.0).then_some(rates)
    }
}

/// The jobs of a trace, all of them here now and nothing done yet.
pub fn from_trace(path: &Path, read: &ReadArgs, cluster: Cluster, table: &ThroughputTable) -> anyhow::Result<Inputs> {
    let loaded = load_trace(path, read, table)?;
    let bound = bind(loaded.workload, cluster, table, read.skip_bad)?;
    let mut inputs = Inputs::new(&bound.cluster);
    let mut classes: HashMap<(&str, u32), u32> = HashMap::new();
    for job in &bound.jobs {
        let job_type = bound.names.text(job.kind);
        let next = classes.len() as u32;
        let class = *classes.entry((job_type, job.gpus)).or_insert(next);
        if class == next {
            inputs.classes.push((job_type.to_owned(), job.gpus));
        }
        // Jobs given in steps go by the table; others count reference seconds, at the speed of the GPU type.
        let truth = bound.truth(job.id);
        let in_steps = truth.steps > 0.0 && table.knows(job_type, job.gpus);
        let types = bound.shape(job.id).types;
        let rate = |index: usize| match types.contains(rota_core::GpuTypeId::from_index(index)) {
            true if in_steps => table.get(job_type, job.gpus, &inputs.gpu_types[index]).unwrap_or(0.0),
            true => bound.speeds(job.id)[index],
            false => 0.0,
        };
        let rates = inputs.fitting(job.gpus, rate);
        anyhow::ensure!(
            rates.iter().any(|rate| *rate > 0.0),
            "job {}: no GPU type of the cluster gives it any speed",
            job.display_id()
        );
        inputs.claims.push(Claim {
            id: job.id,
            class,
            rates,
            gang: f64::from(job.gpus),
            weight: job.weight,
            remaining: if in_steps { truth.steps } else { truth.work.seconds() },
            age: 0.0,
            deadline: job.deadline.map(|deadline| deadline.seconds() - job.arrival.seconds()),
            entity: 0,
        });
    }
    // The job's user is the entity it belongs to.
    let mut users: HashMap<rota_core::Name, u32> = HashMap::new();
    for (claim, job) in inputs.claims.iter_mut().zip(&bound.jobs) {
        let next = users.len() as u32;
        claim.entity = *users.entry(job.user).or_insert(next);
    }
    inputs.entities = vec![Entity { weight: 1.0, rule: EntityRule::Fairness }; users.len()];
    Ok(inputs)
}

/// A gang of 1, 2, 4 or 8, in Philly's proportions, brought down to what the cluster has.
fn draw_gang(stream: &mut RandomStream, most: f64) -> u32 {
    let draw = stream.unit();
    let mut gang = if draw < 0.7 {
        1
    } else if draw <= 0.8 {
        2
    } else if draw <= 0.95 {
        4
    } else {
        8
    };
    while gang > 1 && f64::from(gang) > most {
        gang /= 2;
    }
    gang
}

/// Run time at the best speed, four in five below 17 hours.
fn draw_seconds(stream: &mut RandomStream) -> f64 {
    let (low, high) = if stream.unit() >= 0.8 { (3.0, 4.0) } else { (1.5, 3.0) };
    60.0 * 10_f64.powf(stream.uniform(low, high))
}

/// A job with everything but its class and speeds drawn.
fn draw_claim(stream: &mut RandomStream, index: usize, gang: u32, rates: Box<[f64]>) -> Claim {
    let best = rates.iter().copied().fold(0.0, f64::max);
    let seconds = draw_seconds(stream);
    let age = seconds * stream.unit();
    let slack = [1.2, 2.0, 10.0][stream.below(3) as usize];
    Claim {
        id: JobId::from_index(index),
        class: index as u32,
        rates,
        gang: f64::from(gang),
        weight: 1.0,
        remaining: seconds * best,
        age,
        deadline: Some(slack * seconds),
        entity: 0,
    }
}

/// Jobs of the types and gangs that a table knows.
pub fn from_table(count: usize, seed: u64, cluster: &Cluster, table: &ThroughputTable) -> anyhow::Result<Inputs> {
    let mut inputs = Inputs::new(cluster);
    let most = inputs.gpus.iter().copied().fold(0.0, f64::max);
    // What can be drawn, by gang.
    let mut kinds: HashMap<u32, Vec<u32>> = HashMap::new();
    let mut speeds: Vec<Box<[f64]>> = Vec::new();
    for job_type in table.job_types() {
        for gang in table.gang_sizes(job_type) {
            let rates = inputs.fitting(gang, |index| table.get(job_type, gang, &inputs.gpu_types[index]).unwrap_or(0.0));
            if rates.iter().any(|rate| *rate > 0.0) {
                kinds.entry(gang).or_default().push(speeds.len() as u32);
                inputs.classes.push((job_type.to_owned(), gang));
                speeds.push(rates);
            }
        }
    }
    anyhow::ensure!(!speeds.is_empty(), "{} has no job type with a speed above 0 on this cluster", table.source);
    let mut stream = RandomStream::new(seed, "alloc");
    for index in 0..count {
        let mut gang = draw_gang(&mut stream, most);
        while gang > 1 && !kinds.contains_key(&gang) {
            gang /= 2;
        }
        let drawable = kinds.get(&gang).or_else(|| kinds.values().next()).context("nothing to draw from")?;
        let class = drawable[stream.below(drawable.len() as u64) as usize];
        let claim = draw_claim(&mut stream, index, inputs.classes[class as usize].1, speeds[class as usize].clone());
        inputs.claims.push(Claim { class, ..claim });
    }
    Ok(inputs)
}

/// Jobs that are all different: speeds between 0.3 and 1.3 times a factor that grows with the place of the GPU type, weights 1, 1, 2 and 4.
pub fn invented(count: usize, seed: u64, cluster: &Cluster) -> Inputs {
    let mut inputs = Inputs::new(cluster);
    let most = inputs.gpus.iter().copied().fold(0.0, f64::max);
    let mut stream = RandomStream::new(seed, "alloc");
    for index in 0..count {
        let gang = draw_gang(&mut stream, most);
        let drawn: Vec<f64> =
            (0..inputs.gpus.len()).map(|place| (0.3 + stream.unit()) * (1.0 + place as f64 * stream.unit())).collect();
        let rates = inputs.fitting(gang, |place| drawn[place]);
        let weight = [1.0, 1.0, 2.0, 4.0][stream.below(4) as usize];
        let claim = draw_claim(&mut stream, index, gang, rates);
        inputs.claims.push(Claim { weight, ..claim });
    }
    inputs
}
