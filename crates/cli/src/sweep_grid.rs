//! What a sweep runs over: the settings, as typed or from a file, and the points of the grid in a fixed order.

use crate::args::{MechanismWord, SweepArgs};
use anyhow::Context;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Everything that decides a sweep's results. Kept in the folder as `sweep.toml`, so that a sweep is only resumed as it was begun.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Policies, one line each in the pictures.
    pub policies: Vec<String>,
    /// Clusters.
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
    /// A trace instead.
    #[serde(default)]
    pub trace: Option<PathBuf>,
    /// `event` or `rounds`.
    #[serde(default = "event")]
    pub mechanism: String,
    /// Length of a round in seconds.
    #[serde(default = "round_seconds")]
    pub round: f64,
    /// What a restart costs in seconds.
    #[serde(default)]
    pub restart_cost: f64,
    /// GPUs on each node.
    #[serde(default = "gpus_per_node")]
    pub gpus_per_node: u32,
}

/// Models with an arrival rate to sweep over.
pub const SWEPT_MODELS: [&str; 3] = ["poisson", "classroom", "gavel-continuous"];

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
    /// The cluster.
    pub cluster: String,
    /// Jobs in the workload, if generated.
    pub workload_jobs: Option<u32>,
    /// Arrivals per hour, if generated.
    pub rate: Option<f64>,
    /// The seed.
    pub seed: u64,
    /// The policy.
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
                trace: None,
                mechanism: event(),
                round: round_seconds(),
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
        settings.trace = args.trace.clone().or(settings.trace);
        settings.mechanism = args.mechanism.map_or(settings.mechanism, |word| mechanism_word(word).to_owned());
        settings.round = args.round.unwrap_or(settings.round);
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
            if !self.rates.is_empty() || !self.jobs.is_empty() || self.model.is_some() {
                anyhow::bail!("a sweep has either `trace` or `model`, `rates` and `jobs`");
            }
        } else {
            self.model.get_or_insert_with(|| "poisson".to_owned());
            if self.rates.is_empty() {
                anyhow::bail!("a sweep over generated workloads needs `rates`: arrivals per hour, e.g. --rates 4,8,12");
            }
            if self.jobs.is_empty() {
                self.jobs.push(1000);
            }
        }
        if let Some(model) = self.model.as_deref().filter(|model| !SWEPT_MODELS.contains(model)) {
            anyhow::bail!("model: `{model}` is not one of {}", SWEPT_MODELS.join(", "));
        }
        if let Some(rate) = self.rates.iter().find(|rate| !(rate.is_finite() && **rate > 0.0)) {
            anyhow::bail!("rates: `{rate}` is not a number of jobs per hour above 0");
        }
        if !["event", "rounds"].contains(&self.mechanism.as_str()) {
            anyhow::bail!("mechanism: `{}` is not one of event, rounds", self.mechanism);
        }
        if !(self.round.is_finite() && self.round >= 0.001 && self.restart_cost.is_finite() && self.restart_cost >= 0.0) {
            anyhow::bail!("round must be at least 0.001 s and restart_cost not negative");
        }
        self.policies.iter().try_for_each(|policy| Ok(rota_policy::build(policy).map(|_| ())?))
    }

    /// All points: clusters, then workloads, then seeds, then policies, so that runs of one workload are neighbours.
    pub fn points(&self) -> Vec<Point> {
        let workloads = if self.trace.is_some() {
            vec![(None, None)]
        } else {
            self.jobs.iter().flat_map(|jobs| self.rates.iter().map(|rate| (Some(*jobs), Some(*rate)))).collect()
        };
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

fn mechanism_word(word: MechanismWord) -> &'static str {
    match word {
        MechanismWord::Event => "event",
        MechanismWord::Rounds => "rounds",
    }
}
