//! The choice of power limits: a lower limit saves energy and makes jobs longer. Of several choices the one is taken that needs the least energy
//! on the validation episodes, while the mean completion time gets no longer than is allowed.
//!
//! In a cluster that is not overloaded the energy of busy GPUs hardly depends on the order of jobs, so the order is learned first, for short
//! completion times, and the limits are then chosen for it.

use super::{TrainError, VALIDATION_SEEDS};
use crate::model::Model;
use crate::simulated::{Episodes, Limit};
use crate::task::{Task, TaskError};
use rayon::prelude::*;
use serde::Serialize;
use std::sync::Arc;

/// The part of the allowed slowdown that a choice may use up on validation episodes; the rest is for what other episodes bring.
const USED_UP: f64 = 0.8;

/// What one choice of limits came to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Trial {
    /// The limits in watts, such as `v100=175`; empty for none.
    pub limits: String,
    /// Mean energy of an episode in kilowatt-hours.
    pub energy_kwh: f64,
    /// Mean completion time.
    pub jct_mean_s: f64,
}

/// Gives the model the limits of least energy among `choices` that make the mean completion time at most `slack` (a part of it) longer than
/// it is without limits.
pub fn choose(
    task: &Task,
    model: &mut Model,
    choices: &[Vec<Limit>],
    episodes: u64,
    slack: f64,
) -> Result<Vec<Trial>, TrainError> {
    let Task::Simulated(scenario) = task else { return Ok(Vec::new()) };
    let all = std::iter::once(Vec::new()).chain(choices.iter().cloned()).collect::<Vec<_>>();
    let shared = Arc::new(model.clone());
    let trials = all.par_iter().map(|limits| {
        let capped = scenario.under(limits.clone());
        let mut trial = Trial { limits: words(limits), energy_kwh: 0.0, jct_mean_s: 0.0 };
        for seed in 0..episodes {
            let outcome = capped.play_model(&shared, VALIDATION_SEEDS + seed, Episodes::Training, None)?;
            trial.energy_kwh += outcome.energy_kwh.unwrap_or(0.0) / episodes as f64;
            trial.jct_mean_s += outcome.jct_mean_s / episodes as f64;
        }
        Ok::<_, TaskError>(trial)
    });
    let trials = trials.collect::<Result<Vec<_>, _>>()?;
    let longest = trials[0].jct_mean_s * (1.0 + USED_UP * slack);
    let allowed = trials.iter().enumerate().filter(|(place, trial)| *place == 0 || trial.jct_mean_s <= longest);
    let best = allowed.min_by(|a, b| a.1.energy_kwh.total_cmp(&b.1.energy_kwh)).map_or(0, |(place, _)| place);
    model.header.power_limits = all[best].iter().map(|limit| (limit.gpu_type.clone(), limit.watts)).collect();
    Ok(trials)
}

fn words(limits: &[Limit]) -> String {
    limits.iter().map(|limit| format!("{}={}", limit.gpu_type, limit.watts)).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Use;
    use crate::simulated::Scenario;
    use rota_core::{Cluster, Job, Span, ThroughputTable, Time, Workload};

    fn limit(watts: f64, speed: f64, power: f64) -> Vec<Limit> {
        vec![Limit { gpu_type: "v100".to_owned(), watts, speed, power }]
    }

    #[test]
    fn the_deepest_limit_is_chosen_that_keeps_completion_times_within_what_is_allowed() {
        let mut workload = Workload::new("single jobs");
        for hour in 0..40 {
            workload.push(Job::new(Time(hour * 3_600_000_000_000), Span::from_whole_seconds(1800)));
        }
        workload.finish();
        let cluster = Cluster::from_spec("v100:2", 2).unwrap();
        let options = rota_sim::SimOptions::default();
        let scenario = Scenario::trace(workload, ThroughputTable::default(), 40, cluster, options);
        let task = Task::Simulated(Box::new(scenario));
        let choices = [limit(200.0, 0.97, 0.90), limit(175.0, 0.95, 0.84), limit(125.0, 0.85, 0.69)];
        for (slack, wanted) in [(0.0, None), (0.05, Some(200.0)), (0.1, Some(175.0)), (0.5, Some(125.0))] {
            let mut model = Model::blank(Use { pass: true, estimates: true, ..Use::default() });
            let trials = choose(&task, &mut model, &choices, 1, slack).unwrap();
            assert_eq!(model.header.power_limits.get("v100").copied(), wanted, "{slack}");
            assert_eq!(trials.len(), 4);
            assert!((trials[2].jct_mean_s / trials[0].jct_mean_s - 1.0 / 0.95).abs() < 1e-6);
            assert!(trials.windows(2).all(|pair| pair[1].energy_kwh < pair[0].energy_kwh), "{trials:?}");
            let bytes = model.to_bytes().unwrap();
            assert_eq!(
                Model::parse("m", &bytes, &crate::features::NAMES).unwrap().header.power_limits,
                model.header.power_limits
            );
        }
    }
}
