//! Power limits that a model may choose from, and a model's limits where it plays.

use super::environment;
use crate::args::EnvArgs;
use rota_gpu::PowerCap;
use rota_learn::model::Model;
use rota_learn::simulated::Limit;
use rota_learn::task::Task;
use rota_learn::train::power::Trial;
use std::fmt::Write as _;

/// The least parts of their speed that GPUs keep under the limits a model may choose from.
const SPEEDS_MIN: [f64; 7] = [0.99, 0.97, 0.95, 0.94, 0.92, 0.9, 0.85];

/// The limits that a model may choose from on this cluster: for each least speed the limit of least energy of every type that was measured.
pub fn choices(args: &EnvArgs, task: &Task) -> anyhow::Result<Vec<Vec<Limit>>> {
    if !matches!(task, Task::Simulated(_)) {
        anyhow::bail!("--objective energy goes with classroom and trace");
    }
    let cluster = environment::cluster(args)?;
    let mut choices = Vec::new();
    for speed_min in SPEEDS_MIN {
        let cap = PowerCap::Best { speed_min };
        let limits = cluster.types.iter().filter_map(|kind| limit(&kind.name, cap.watts(&kind.name)?)).collect::<Vec<_>>();
        if !limits.is_empty() && !choices.contains(&limits) {
            choices.push(limits);
        }
    }
    let names = cluster.types.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>().join(", ");
    let known = rota_gpu::measured_kinds().join(", ");
    anyhow::ensure!(
        !choices.is_empty(),
        "--objective energy: how {names} slows down under a power limit was not measured; measured are {known}"
    );
    Ok(choices)
}

fn limit(gpu_type: &str, watts: f64) -> Option<Limit> {
    let effect = rota_gpu::effect_of(gpu_type, watts)?;
    Some(Limit { gpu_type: gpu_type.to_owned(), watts, speed: effect.speed, power: effect.power })
}

/// The task as a model plays it that chose power limits; `None` if it chose none.
pub fn task_of(model: &Model, task: &Task) -> anyhow::Result<Option<Task>> {
    let Task::Simulated(scenario) = task else { return Ok(None) };
    if model.header.power_limits.is_empty() {
        return Ok(None);
    }
    let mut limits = Vec::new();
    for (gpu_type, watts) in &model.header.power_limits {
        let Some(limit) = limit(gpu_type, *watts) else {
            anyhow::bail!(
                "the model limits {gpu_type} to {watts} W, and how {gpu_type} slows down under a limit was not measured"
            );
        };
        limits.push(limit);
    }
    Ok(Some(Task::Simulated(Box::new(scenario.under(limits)))))
}

/// What each choice came to on the validation episodes, the chosen one marked.
pub fn table(trials: &[Trial], model: &Model) -> String {
    let chosen = model.header.power_limits.iter().map(|(kind, watts)| format!("{kind}={watts}")).collect::<Vec<_>>().join(",");
    let mut text = "power limits on the validation episodes, against none:".to_owned();
    let Some(none) = trials.first() else { return text };
    for trial in trials {
        let mark = if trial.limits == chosen { "  <- chosen" } else { "" };
        let name = if trial.limits.is_empty() { "none" } else { &trial.limits };
        let change = |value: f64, before: f64| 100.0 * (value / before.max(1e-12) - 1.0);
        _ = write!(
            text,
            "\n  {name:<24} energy {:+.1} %, mean completion time {:+.1} %{mark}",
            change(trial.energy_kwh, none.energy_kwh),
            change(trial.jct_mean_s, none.jct_mean_s)
        );
    }
    text
}
