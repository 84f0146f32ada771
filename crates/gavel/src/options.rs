//! What a run of Gavel can be told, and why one can be refused.

use rota_core::Cluster;
use std::collections::BTreeMap;

/// Everything a run depends on beside the workload, the cluster, the throughputs and the policy.
#[derive(Clone, Debug, PartialEq)]
pub struct GavelOptions {
    /// Length of a round.
    pub round_seconds: f64,
    /// Seed of all streams.
    pub seed: u64,
    /// Stop when the jobs with these ids (first, last) are over.
    pub window: Option<(u32, u32)>,
    /// Least time between two allocations.
    pub reset_seconds: f64,
    /// What a job loses at the beginning of a round when it was elsewhere, or nowhere, in the round before. Not Gavel's.
    pub restart_cost_seconds: f64,
    /// GPUs on each server; those that do not fill a server are left out, as Gavel does.
    pub gpus_per_server: u32,
    /// Give every job its share exactly, from one arrival to the next, instead of rounds.
    pub ideal: bool,
    /// What GPUs cost; the policies that go by cost need it.
    pub prices: Option<Prices>,
}

impl Default for GavelOptions {
    fn default() -> Self {
        Self {
            round_seconds: 360.0,
            seed: 0,
            window: None,
            reset_seconds: 1920.0,
            restart_cost_seconds: 0.0,
            gpus_per_server: 1,
            ideal: false,
            prices: None,
        }
    }
}

impl GavelOptions {
    pub(crate) fn check(&self) -> Result<(), GavelError> {
        let positive = |value: f64| value.is_finite() && value > 0.0;
        let not_negative = |value: f64| value.is_finite() && value >= 0.0;
        if !positive(self.round_seconds) {
            return Err(GavelError::Option { name: "round_seconds", value: self.round_seconds, wanted: "above 0" });
        }
        if !not_negative(self.reset_seconds) {
            return Err(GavelError::Option { name: "reset_seconds", value: self.reset_seconds, wanted: "not negative" });
        }
        if !not_negative(self.restart_cost_seconds) || self.restart_cost_seconds >= self.round_seconds {
            let value = self.restart_cost_seconds;
            return Err(GavelError::Option { name: "restart_cost_seconds", value, wanted: "not negative and below a round" });
        }
        Ok(())
    }
}

/// Dollars per hour of one GPU of each type, over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices(BTreeMap<String, Vec<(f64, f64)>>);

impl Prices {
    /// Google's prices of 2020, which Gavel has built in.
    pub fn gcp() -> Self {
        let mut prices = Self::default();
        for (name, usd_per_hour) in [("v100", 0.74), ("p100", 0.43), ("k80", 0.135)] {
            prices.set(name, 0.0, usd_per_hour);
        }
        prices
    }

    /// [`Prices::gcp`], and what the cluster knows of its other types.
    pub fn of_cluster(cluster: &Cluster) -> Self {
        let mut prices = Self::gcp();
        for kind in &cluster.types {
            if let (false, Some(usd_per_hour)) = (prices.0.contains_key(&kind.name), kind.usd_per_hour) {
                prices.set(&kind.name, 0.0, usd_per_hour);
            }
        }
        prices
    }

    /// Sets the price of a type from a moment on.
    pub fn set(&mut self, gpu_type: &str, from_seconds: f64, usd_per_hour: f64) {
        let history = self.0.entry(gpu_type.to_owned()).or_default();
        history.retain(|&(time, _)| time.total_cmp(&from_seconds).is_ne());
        history.push((from_seconds, usd_per_hour));
        history.sort_by(|one, other| one.0.total_cmp(&other.0));
    }

    /// The price of a type at a moment; before its first price that first one.
    pub fn at(&self, gpu_type: &str, seconds: f64) -> Option<f64> {
        let history = self.0.get(gpu_type)?;
        let known = history.partition_point(|&(time, _)| time <= seconds);
        history.get(known.saturating_sub(1)).map(|&(_, price)| price)
    }
}

/// Why Gavel cannot run something.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum GavelError {
    /// The name is not a policy of Gavel's.
    #[error("policy `{given}` is not one that Gavel has; it has {known}")]
    UnknownPolicy {
        /// The text that was given.
        given: String,
        /// The names that are known.
        known: String,
    },
    /// A parameter that makes no sense.
    #[error("policy `{given}`: {problem}")]
    Parameter {
        /// The text that was given.
        given: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// An option out of its range.
    #[error("{name}: {value} must be {wanted}")]
    Option {
        /// The option's name.
        name: &'static str,
        /// The value that was given.
        value: f64,
        /// What the value must be.
        wanted: &'static str,
    },
    /// A job Gavel has no notion of.
    #[error("job {job} {problem}")]
    Job {
        /// What the trace calls the job.
        job: String,
        /// What is wrong.
        problem: &'static str,
    },
    /// Nodes that come and go.
    #[error("the cluster loses nodes, and Gavel's never does")]
    Outages,
    /// No type has enough GPUs for one server.
    #[error("no GPU type has the {0} GPUs of one server")]
    NoServers(u32),
    /// The policy needs something that is not there.
    #[error("policy `{policy}` needs {missing}")]
    Missing {
        /// The policy's name.
        policy: String,
        /// The inputs that are missing.
        missing: String,
    },
    /// No job makes progress any more, and none will.
    #[error("after {seconds} s no job makes progress any more under `{policy}`: {jobs} jobs wait for ever")]
    Stuck {
        /// The policy's name.
        policy: String,
        /// The simulated second at which it happened.
        seconds: f64,
        /// The jobs that had not ended by then.
        jobs: usize,
    },
    /// A solver gave up where it must not.
    #[error("no allocation: {0}")]
    Solver(String),
}
