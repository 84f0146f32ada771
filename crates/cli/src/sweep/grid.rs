//! What a sweep runs over: the settings, as typed or from a file, and the points of the grid in a fixed order.

use crate::args::{MechanismWord, SweepArgs, window};
use anyhow::Context;
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything that decides a sweep's results. Kept in the folder as `sweep.toml`, so that a sweep is only resumed as it was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a setting of its own")]
pub struct Settings {
    /// Policies, one line each in the pictures.
    pub policies: Vec<String>,
    /// The clusters to simulate.
    pub clusters: Vec<String>,
    /// Seeds of workload and policy.
    #[serde(default = "seed_zero")]
    pub seeds: Vec<u64>,
    /// Arrivals per hour; empty with a trace.
    #[serde(default)]
    pub rates: Vec<f64>,
    /// Jobs in each workload; empty with a trace.
    #[serde(default)]
    pub jobs: Vec<u32>,
    /// What generates the workloads.
    #[serde(default)]
    pub model: Option<String>,
    /// Whether generated jobs are gangs of 1, 2, 4 and 8 GPUs; single GPUs otherwise.
    #[serde(default)]
    pub multi_gpu: bool,
    /// Whether a fifth of the generated jobs has five times the weight.
    #[serde(default)]
    pub multi_priority: bool,
    /// Whether generated jobs have deadlines.
    #[serde(default)]
    pub slo: bool,
    /// Whether jobs that fill the cluster are there at the start (`gavel-continuous`).
    #[serde(default)]
    pub steady_state: bool,
    /// A trace instead.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// First and last job that are measured, as `4000:4999`; a run stops when they are over. All jobs if not given.
    #[serde(default)]
    pub window: Option<String>,
    /// Throughput table; the built-in one if not given.
    #[serde(default)]
    pub throughputs: Option<PathBuf>,
    /// Prices of the GPU types; their list prices if not given.
    #[serde(default)]
    pub prices: Option<PathBuf>,
    /// How decisions are timed, as `--mechanism` has it.
    #[serde(default = "event")]
    pub mechanism: String,
    /// Length of a round in seconds.
    #[serde(default = "round_seconds")]
    pub round: f64,
    /// With mechanism `gavel`: exact shares from one arrival to the next, instead of rounds.
    #[serde(default)]
    pub ideal: bool,
    /// What a restart costs in seconds.
    #[serde(default)]
    pub restart_cost: f64,
    /// GPUs on each node.
    #[serde(default = "gpus_per_node")]
    pub gpus_per_node: u32,
}

/// Models that can be swept: over arrival rates, or over numbers of jobs that are all there at the start.
pub const SWEPT_MODELS: [&str; 4] = ["poisson", "classroom", "gavel-continuous", STATIC_MODEL];
const STATIC_MODEL: &str = "gavel-static";

/// What grows along the axis of a sweep's pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Arrivals per hour.
    Rate,
    /// Jobs there at the start.
    Jobs,
}

impl Axis {
    /// The axis's name under a picture.
    pub fn words(self) -> &'static str {
        match self {
            Self::Rate => "jobs per hour",
            Self::Jobs => "number of jobs",
        }
    }

    /// The axis's name over a column.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Rate => "jobs/h",
            Self::Jobs => "jobs",
        }
    }
}

fn seed_zero() -> Vec<u64> {
    vec![0]
}

fn event() -> String {
    "event".to_owned()
}

fn round_seconds() -> f64 {
    360.0
}

fn gpus_per_node() -> u32 {
    8
}

/// One run of a sweep.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Position in the grid.
    pub index: usize,
    /// The cluster of this point.
    pub cluster: String,
    /// Jobs in the workload, if generated.
    pub workload_jobs: Option<u32>,
    /// Arrivals per hour, if generated.
    pub rate: Option<f64>,
    /// The seed of this point.
    pub seed: u64,
    /// The policy of this point.
    pub policy: String,
}

impl Settings {
    /// From the file, if one is given, with what was typed put over it.
    pub fn from_args(args: &SweepArgs) -> anyhow::Result<Self> {
        let mut settings = match &args.file {
            Some(path) => {
                let text = std::fs::read_to_string(path).with_context(|| format!("cannot read `{}`", path.display()))?;
                toml::from_str(&text).with_context(|| format!("`{}` is not a sweep", path.display()))?
            }
            None => Self {
                policies: Vec::new(),
                clusters: Vec::new(),
                seeds: seed_zero(),
                rates: Vec::new(),
                jobs: Vec::new(),
                model: None,
                multi_gpu: false,
                multi_priority: false,
                slo: false,
                steady_state: false,
                trace: None,
                window: None,
                throughputs: None,
                prices: None,
                mechanism: event(),
                round: round_seconds(),
                ideal: false,
                restart_cost: 0.0,
                gpus_per_node: gpus_per_node(),
            },
        };
        put_over(&mut settings.policies, &args.policies);
        put_over(&mut settings.clusters, &args.clusters);
        put_over(&mut settings.seeds, &args.seeds);
        put_over(&mut settings.rates, &args.rates);
        put_over(&mut settings.jobs, &args.jobs);
        settings.model = args.model.clone().or(settings.model);
        settings.multi_gpu |= args.multi_gpu;
        settings.multi_priority |= args.multi_priority;
        settings.slo |= args.slo;
        settings.steady_state |= args.steady_state;
        settings.trace = args.trace.clone().or(settings.trace);
        settings.window = args.window.map(|(first, last)| format!("{first}:{last}")).or(settings.window);
        settings.throughputs = args.throughputs.clone().or(settings.throughputs);
        settings.prices = args.prices.clone().or(settings.prices);
        settings.mechanism = args.mechanism.map_or(settings.mechanism, mechanism_name);
        settings.round = args.round.unwrap_or(settings.round);
        settings.ideal |= args.ideal;
        settings.restart_cost = args.restart_cost.unwrap_or(settings.restart_cost);
        settings.gpus_per_node = args.gpus_per_node.unwrap_or(settings.gpus_per_node);
        settings.check()?;
        Ok(settings)
    }

    fn check(&mut self) -> anyhow::Result<()> {
        for (name, empty) in
            [("policies", self.policies.is_empty()), ("clusters", self.clusters.is_empty()), ("seeds", self.seeds.is_empty())]
        {
            if empty {
                anyhow::bail!("a sweep needs `{name}`: give --{name} or a file that has it");
            }
        }
        if self.trace.is_some() {
            let generates = self.multi_gpu || self.multi_priority || self.slo || self.steady_state || self.model.is_some();
            if !self.rates.is_empty() || !self.jobs.is_empty() || generates {
                anyhow::bail!("a sweep has either `trace` or `model`, `rates`, `jobs` and what else generates workloads");
            }
        } else {
            self.check_generated()?;
        }
        self.mechanism()?;
        if let Some((_, last)) = self.window()?
            && let Some(jobs) = self.jobs.iter().find(|jobs| **jobs <= last)
        {
            anyhow::bail!("window: the last job is {last}, a workload of {jobs} jobs has jobs 0 to {}", jobs - 1);
        }
        if !(self.round.is_finite() && self.round >= 0.001 && self.restart_cost.is_finite() && self.restart_cost >= 0.0) {
            anyhow::bail!("round must be at least 0.001 s and restart_cost not negative");
        }
        if self.ideal && self.mechanism != "gavel" {
            anyhow::bail!("ideal goes with mechanism `gavel`: other mechanisms put whole jobs on GPUs");
        }
        if self.mechanism == "gavel" {
            return self.policies.iter().try_for_each(|policy| Ok(rota_gavel::check_policy(policy)?));
        }
        self.policies.iter().try_for_each(|policy| Ok(rota_learn::registry().build(policy).map(|_| ())?))
    }

    fn check_generated(&mut self) -> anyhow::Result<()> {
        let model = self.model.get_or_insert_with(|| "poisson".to_owned()).clone();
        if !SWEPT_MODELS.contains(&model.as_str()) {
            anyhow::bail!("model: `{model}` is not one of {}", SWEPT_MODELS.join(", "));
        }
        match self.axis() {
            Axis::Rate if self.rates.is_empty() => {
                anyhow::bail!("a sweep over generated workloads needs `rates`: arrivals per hour, e.g. --rates 4,8,12")
            }
            Axis::Jobs if !self.rates.is_empty() => {
                anyhow::bail!("rates: all jobs of {model} arrive at once; sweep over `jobs` instead, e.g. --jobs 100,200,300")
            }
            Axis::Jobs if self.jobs.is_empty() => anyhow::bail!("a sweep of {model} needs `jobs`, e.g. --jobs 100,200,300"),
            Axis::Rate | Axis::Jobs => {}
        }
        if self.jobs.is_empty() {
            self.jobs.push(1000);
        }
        if let Some(rate) = self.rates.iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
            anyhow::bail!("rates: `{rate}` is not a number of jobs per hour above 0");
        }
        if self.steady_state && model != "gavel-continuous" {
            anyhow::bail!("steady_state: only gavel-continuous has jobs that are there at the start and others that arrive");
        }
        if model == "classroom" && (self.multi_gpu || self.multi_priority || self.slo) {
            anyhow::bail!("classroom tasks have one GPU, their own priorities and no deadlines");
        }
        Ok(())
    }

    /// What grows along the axis of the pictures.
    pub fn axis(&self) -> Axis {
        if self.model.as_deref() == Some(STATIC_MODEL) { Axis::Jobs } else { Axis::Rate }
    }

    /// The jobs that are measured.
    pub fn window(&self) -> anyhow::Result<Option<(u32, u32)>> {
        let parse = |text: &String| window(text).map_err(|problem| anyhow::anyhow!("window: `{text}`: {problem}"));
        self.window.as_ref().map(parse).transpose()
    }

    /// How decisions are timed.
    pub fn mechanism(&self) -> anyhow::Result<MechanismWord> {
        MechanismWord::from_str(&self.mechanism, false).map_err(|_| {
            let known = MechanismWord::value_variants().iter().map(|&word| mechanism_name(word)).collect::<Vec<_>>();
            anyhow::anyhow!("mechanism: `{}` is not one of {}", self.mechanism, known.join(", "))
        })
    }

    /// Numbers of jobs and arrival rates, one workload each.
    pub fn workloads(&self) -> Vec<(Option<u32>, Option<f64>)> {
        match (&self.trace, self.axis()) {
            (Some(_), _) => vec![(None, None)],
            (None, Axis::Jobs) => self.jobs.iter().map(|jobs| (Some(*jobs), None)).collect(),
            (None, Axis::Rate) => {
                self.jobs.iter().flat_map(|jobs| self.rates.iter().map(|rate| (Some(*jobs), Some(*rate)))).collect()
            }
        }
    }

    /// All points: clusters, then workloads, then seeds, then policies, so that runs of one workload are neighbours.
    pub fn points(&self) -> Vec<Point> {
        let workloads = self.workloads();
        let mut points = Vec::new();
        for cluster in &self.clusters {
            for &(workload_jobs, rate) in &workloads {
                for &seed in &self.seeds {
                    for policy in &self.policies {
                        let (cluster, policy) = (cluster.clone(), policy.clone());
                        points.push(Point { index: points.len(), cluster, workload_jobs, rate, seed, policy });
                    }
                }
            }
        }
        points
    }
}

fn put_over<T: Clone>(settings: &mut Vec<T>, typed: &[T]) {
    if !typed.is_empty() {
        *settings = typed.to_vec();
    }
}

fn mechanism_name(word: MechanismWord) -> String {
    word.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
