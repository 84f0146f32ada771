//! Poisson arrivals with durations, gangs, users, estimates, priorities and deadlines drawn from plain distributions.

use super::{check_jobs, check_range};
use crate::cell::GANG_MAX;
use crate::error::{Fault, Problem};
use rota_core::random::RandomStream;
use rota_core::{Job, Span, Time, Workload};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Longest duration drawn: a long tail must not make one job outlast everything.
const DURATION_SECONDS_MAX: f64 = 365.0 * 86_400.0;
/// Shortest duration drawn.
const DURATION_SECONDS_MIN: f64 = 1.0;

/// How long jobs run.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(tag = "distribution", rename_all = "kebab-case", deny_unknown_fields)]
pub enum DurationModel {
    /// All the same.
    Fixed {
        /// The length of every job.
        seconds: f64,
    },
    /// Each length between two ends equally likely.
    Uniform {
        /// Shortest, in seconds.
        low_s: f64,
        /// Longest, in seconds.
        high_s: f64,
    },
    /// Lengths are exponentially distributed.
    Exponential {
        /// Mean, in seconds.
        mean_s: f64,
    },
    /// Log-normal: as many jobs shorter than the median as longer, with a long tail.
    Lognormal {
        /// Median, in seconds.
        median_s: f64,
        /// Standard deviation of the logarithm.
        sigma: f64,
    },
    /// Gavel's: four of five jobs half an hour to 17 hours, the fifth up to a week, both even in the logarithm.
    GavelLike,
}

impl DurationModel {
    fn draw(&self, stream: &mut RandomStream) -> Span {
        let seconds = match *self {
            Self::Fixed { seconds } => seconds,
            Self::Uniform { low_s, high_s } => stream.uniform(low_s, high_s),
            Self::Exponential { mean_s } => stream.exponential(mean_s),
            Self::Lognormal { median_s, sigma } => median_s * (sigma * stream.normal()).exp(),
            Self::GavelLike => {
                let exponent = if stream.unit() >= 0.8 { stream.uniform(3.0, 4.0) } else { stream.uniform(1.5, 3.0) };
                60.0 * 10_f64.powf(exponent)
            }
        };
        let seconds = if seconds.is_nan() { DURATION_SECONDS_MIN } else { seconds };
        let floor = if let Self::Fixed { .. } = self { 1e-3 } else { DURATION_SECONDS_MIN };
        Span::from_seconds(seconds.clamp(floor, DURATION_SECONDS_MAX)).unwrap_or(Span::from_whole_seconds(1))
    }

    fn check(&self) -> Result<(), Fault> {
        let seconds =
            |value, field| check_range(value, 1e-3, DURATION_SECONDS_MAX, "seconds from 0.001 to 31536000 (a year)", field);
        match *self {
            Self::Fixed { seconds: value } => seconds(value, "duration.seconds"),
            Self::Uniform { low_s, high_s } => {
                seconds(low_s, "duration.low_s")?;
                seconds(high_s, "duration.high_s")?;
                check_range(high_s, low_s, DURATION_SECONDS_MAX, "`high_s` not below `low_s`", "duration.high_s")
            }
            Self::Exponential { mean_s } => seconds(mean_s, "duration.mean_s"),
            Self::Lognormal { median_s, sigma } => {
                seconds(median_s, "duration.median_s")?;
                check_range(sigma, 0.0, 10.0, "a number from 0 to 10", "duration.sigma")
            }
            Self::GavelLike => Ok(()),
        }
    }
}

/// Gang sizes with how often they are drawn.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "BTreeMap<String, f64>")]
pub struct GangWeights(pub BTreeMap<u32, f64>);

impl TryFrom<BTreeMap<String, f64>> for GangWeights {
    type Error = Problem;

    fn try_from(weights: BTreeMap<String, f64>) -> Result<Self, Problem> {
        weights.into_iter().map(|(size, weight)| Ok((crate::cell::gpus(&size)?, weight))).collect::<Result<_, _>>().map(Self)
    }
}

/// Settings of the model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Poisson {
    /// The number of jobs.
    pub jobs: u32,
    /// Mean arrivals per hour; 0 lets all arrive at the start.
    pub jobs_per_hour: f64,
    /// The lengths of the jobs.
    pub duration: DurationModel,
    /// The gang sizes of the jobs.
    pub gangs: GangWeights,
    /// Whether there are gangs at all; if not, every job has one GPU.
    pub multi_gpu: bool,
    /// How many users there are, each equally busy; 0 for none.
    pub users: u32,
    /// Error of users' estimates: standard deviation of the logarithm of estimate over truth; 0 for no estimates.
    pub estimate_sigma: f64,
    /// Part of the jobs that have a high priority: priority 1 and `high_priority_weight` instead of 0 and 1.
    pub high_priority_fraction: f64,
    /// Fair share weight of jobs of high priority.
    pub high_priority_weight: f64,
    /// Multiples of the duration after which a job is due, each equally likely; empty for no deadlines.
    pub deadline_multiples: Vec<f64>,
}

impl Default for Poisson {
    fn default() -> Self {
        Self {
            jobs: 1000,
            jobs_per_hour: 60.0,
            duration: DurationModel::Lognormal { median_s: 1800.0, sigma: 1.5 },
            gangs: GangWeights(BTreeMap::from([(1, 0.7), (2, 0.1), (4, 0.15), (8, 0.05)])),
            multi_gpu: true,
            users: 10,
            estimate_sigma: 0.0,
            high_priority_fraction: 0.0,
            high_priority_weight: 5.0,
            deadline_multiples: Vec::new(),
        }
    }
}

impl Poisson {
    /// Refuses settings that make no sense, naming the one.
    pub(crate) fn check(&self, jobs_max: u32) -> Result<(), Fault> {
        check_jobs(self.jobs, jobs_max, "jobs")?;
        check_range(self.jobs_per_hour, 0.0, 1e9, "a number from 0 to 1e9", "jobs_per_hour")?;
        self.duration.check()?;
        for &weight in self.gangs.0.values() {
            check_range(weight, 0.0, 1e9, "weights from 0 to 1e9", "gangs")?;
        }
        if self.gangs.0.values().sum::<f64>() <= 0.0 {
            return Err(
                Problem::Missing { wanted: "a weight above 0 for at least one gang size, such as `1 = 0.7`" }.within("gangs")
            );
        }
        check_range(f64::from(self.users), 0.0, 1e6, "a number of users from 0 to 1000000", "users")?;
        check_range(self.estimate_sigma, 0.0, 10.0, "a number from 0 to 10", "estimate_sigma")?;
        check_range(self.high_priority_fraction, 0.0, 1.0, "a fraction from 0 to 1", "high_priority_fraction")?;
        check_range(self.high_priority_weight, 1e-9, 1e9, "a weight from 1e-9 to 1e9", "high_priority_weight")?;
        for &multiple in &self.deadline_multiples {
            check_range(multiple, 1e-3, 1e4, "multiples from 0.001 to 10000", "deadline_multiples")?;
        }
        Ok(())
    }
}

/// Makes the jobs of a seed.
pub fn poisson(config: &Poisson, seed: u64) -> Workload {
    let mut workload = Workload::new(format!("poisson, seed {seed}"));
    let stream = |name| RandomStream::new(seed, name);
    let (mut arrivals, mut durations, mut gangs) = (stream("arrivals"), stream("durations"), stream("gangs"));
    let (mut users, mut estimates) = (stream("users"), stream("estimates"));
    let (mut priorities, mut deadlines) = (stream("priorities"), stream("deadlines"));
    let user_names =
        (0..config.users.min(1_000_000)).map(|number| workload.names.intern(&format!("user-{number}"))).collect::<Vec<_>>();
    let sizes = config.gangs.0.iter().map(|(&size, &weight)| (size.clamp(1, GANG_MAX), weight.max(0.0))).collect::<Vec<_>>();
    let weight_sum = sizes.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut now_seconds = 0.0;
    let count = config.jobs.min(super::JOBS_MAX);
    workload.jobs.reserve_exact(count as usize);
    for position in 0..count {
        if position > 0 && config.jobs_per_hour > 0.0 {
            now_seconds += arrivals.exponential(3600.0 / config.jobs_per_hour);
        }
        // A very low rate runs out of the hundred years that times may have.
        let Some(arrival) = Time::from_seconds(now_seconds) else { break };
        let work = config.duration.draw(&mut durations);
        let mut job = Job::new(arrival, work);
        let gang_draw = gangs.unit() * weight_sum;
        if config.multi_gpu {
            job.gpus = pick(&sizes, gang_draw);
        }
        if !user_names.is_empty() {
            job.user = user_names[users.below(user_names.len() as u64) as usize];
        }
        if config.estimate_sigma > 0.0 {
            let factor = (config.estimate_sigma * estimates.normal()).exp();
            job.estimate = Span::from_seconds((work.seconds() * factor).clamp(1.0, DURATION_SECONDS_MAX));
        }
        if priorities.unit() < config.high_priority_fraction {
            (job.priority, job.weight) = (1, config.high_priority_weight);
        }
        if !config.deadline_multiples.is_empty() {
            let multiple = config.deadline_multiples[deadlines.below(config.deadline_multiples.len() as u64) as usize];
            job.deadline = Span::from_seconds(work.seconds() * multiple).map(|span| arrival + span);
        }
        workload.push(job);
    }
    workload.finish();
    workload
}

/// The size whose weight a draw from 0 to the sum of weights falls on.
fn pick(sizes: &[(u32, f64)], mut draw: f64) -> u32 {
    for &(size, weight) in sizes {
        if draw < weight {
            return size;
        }
        draw -= weight;
    }
    sizes.iter().rev().find(|(_, weight)| *weight > 0.0).map_or(1, |&(size, _)| size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        let values = values.collect::<Vec<_>>();
        values.iter().sum::<f64>() / values.len() as f64
    }

    #[test]
    fn rates_gangs_and_priorities_are_as_asked() {
        let config = Poisson { jobs: 50_000, high_priority_fraction: 0.2, deadline_multiples: vec![2.0], ..Poisson::default() };
        let workload = poisson(&config, 7);
        assert!((workload.jobs.last().unwrap().arrival.seconds() / 50_000.0 - 60.0).abs() < 1.0);
        for (size, expected) in &config.gangs.0 {
            let share = workload.jobs.iter().filter(|job| job.gpus == *size).count() as f64 / 50_000.0;
            assert!((share - expected).abs() < 0.01, "{size}: {share}");
        }
        assert!((mean(workload.jobs.iter().map(|job| f64::from(job.priority))) - 0.2).abs() < 0.01);
        let slack = |job: &Job| job.deadline.unwrap().since(job.arrival).seconds() / job.work.seconds();
        assert!(workload.jobs.iter().all(|job| (slack(job) - 2.0).abs() < 1e-6));
        let single = poisson(&Poisson { multi_gpu: false, ..config.clone() }, 7);
        assert!(single.jobs.iter().zip(&workload.jobs).all(|(one, other)| one.gpus == 1 && one.work == other.work));
    }

    #[test]
    fn durations_have_the_moments_of_their_distribution() {
        let durations = |duration| {
            let config = Poisson { jobs: 50_000, duration, ..Poisson::default() };
            poisson(&config, 1).jobs.into_iter().map(|job| job.work.seconds())
        };
        assert!(durations(DurationModel::Fixed { seconds: 0.5 }).all(|seconds| (seconds - 0.5).abs() < 1e-9));
        assert!((mean(durations(DurationModel::Uniform { low_s: 100.0, high_s: 300.0 })) - 200.0).abs() < 2.0);
        assert!((mean(durations(DurationModel::Exponential { mean_s: 500.0 })) - 500.0).abs() < 10.0);
        let below =
            mean(durations(DurationModel::Lognormal { median_s: 900.0, sigma: 1.0 }).map(|seconds| f64::from(seconds < 900.0)));
        assert!((below - 0.5).abs() < 0.01, "{below}");
        let long = mean(durations(DurationModel::GavelLike).map(|seconds| f64::from(seconds >= 60_000.0)));
        assert!((long - 0.2).abs() < 0.01, "{long}");
    }

    #[test]
    fn estimates_err_as_asked() {
        let config = Poisson { jobs: 20_000, estimate_sigma: 0.5, ..Poisson::default() };
        let logs =
            poisson(&config, 2).jobs.into_iter().map(|job| (job.estimate.unwrap().seconds() / job.work.seconds()).ln().powi(2));
        assert!((mean(logs).sqrt() - 0.5).abs() < 0.02);
    }
}
