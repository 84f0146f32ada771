//! `rota learn eval`.

use super::{chart, environment, power};
use crate::args::{EnvArgs, EvalArgs};
use crate::output::{print, print_json, write_file};
use rota_learn::evaluate::{Player, Score, evaluate};
use rota_learn::model::Model;
use rota_learn::simulated::Episodes;
use rota_learn::task::Objective;
use rota_learn::train::TUNING_SEEDS;
use std::fmt::Write as _;
use std::sync::Arc;

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    if args.model.is_empty() && args.against.is_empty() && args.tune.is_empty() {
        anyhow::bail!("nobody to judge: give --model, --against or both");
    }
    let chosen = environment::task(&args.env)?;
    let mut players = Vec::new();
    for path in &args.model {
        let model = Model::read(path, chosen.task.features())?;
        let own = power::task_of(&model, &chosen.task)?;
        players.push(Player::Model(path.display().to_string(), Arc::new(model), own));
    }
    players.extend(args.against.iter().cloned().map(Player::Rule));
    for pattern in &args.tune {
        players.push(Player::Rule(tuned(args, pattern)?));
    }
    let seeds = match args.seeds {
        Some((first, last)) => (u64::from(first)..=u64::from(last)).collect::<Vec<_>>(),
        None => (0..args.episodes.unwrap_or(chosen.episodes)).collect(),
    };
    let scores = evaluate(&chosen.task, &players, &seeds)?;
    if let Some(path) = &args.plot {
        let picture =
            chart::intervals(&format!("{}: {}", args.env.env, chosen.objective.word()), &shown(&scores, chosen.objective));
        write_file(path, |file| Ok(file.write_all(picture.as_bytes())?))?;
    }
    if args.json { print_json(&scores) } else { print(&table(&scores)?) }
}

/// Training episodes that values are compared on.
const TUNING_EPISODES: u64 = 8;
/// The most combinations of values that are tried.
const COMBINATIONS_MAX: usize = 64;

/// The policy whose values do best on training episodes.
fn tuned(args: &EvalArgs, pattern: &str) -> anyhow::Result<String> {
    let env = EnvArgs { window: args.tune_window.or(args.env.window), ..args.env.clone() };
    let chosen = environment::task(&env)?;
    let mut best: Option<(f64, String)> = None;
    for spec in combinations(pattern)? {
        let mut cost = 0.0;
        for seed in 0..TUNING_EPISODES.min(chosen.episodes) {
            cost += chosen.objective.cost(&chosen.task.play_rule(&spec, TUNING_SEEDS + seed, Episodes::Training)?);
        }
        if best.as_ref().is_none_or(|(least, _)| cost < *least) {
            best = Some((cost, spec));
        }
    }
    best.map(|(_, spec)| spec).ok_or_else(|| anyhow::anyhow!("--tune `{pattern}`: nothing to choose from"))
}

/// Every combination of the values that are separated by `/`.
fn combinations(pattern: &str) -> anyhow::Result<Vec<String>> {
    let (name, parameters) = pattern.split_once(':').unwrap_or((pattern, ""));
    let mut specs = vec![name.to_owned()];
    for (place, parameter) in parameters.split(',').filter(|part| !part.is_empty()).enumerate() {
        let (key, values) = parameter
            .split_once('=')
            .ok_or_else(|| anyhow::anyhow!("--tune `{pattern}`: `{parameter}` is not of the form `key=value/value`"))?;
        let before = if place == 0 { ':' } else { ',' };
        let longer = |spec: &String| values.split('/').map(|value| format!("{spec}{before}{key}={value}")).collect::<Vec<_>>();
        specs = specs.iter().flat_map(longer).collect();
        anyhow::ensure!(specs.len() <= COMBINATIONS_MAX, "--tune `{pattern}`: more than {COMBINATIONS_MAX} combinations");
    }
    Ok(specs)
}

/// The objective's mean of each player, with its interval.
fn shown(scores: &[Score], objective: Objective) -> Vec<(String, [f64; 3])> {
    let of = |score: &Score| match objective {
        Objective::Reward => [score.reward_mean_low, score.reward_mean, score.reward_mean_high],
        Objective::Wait => [score.wait_mean_s_low, score.wait_mean_s, score.wait_mean_s_high],
        Objective::Makespan => [score.makespan_mean_s_low, score.makespan_mean_s, score.makespan_mean_s_high],
        Objective::Bsld => [score.bsld_mean_low, score.bsld_mean, score.bsld_mean_high],
        Objective::Jct => [score.jct_mean_s_low, score.jct_mean_s, score.jct_mean_s_high],
        Objective::Energy => [score.energy_kwh_low, score.energy_kwh, score.energy_kwh_high].map(|energy| energy.unwrap_or(0.0)),
    };
    scores.iter().map(|score| (score.policy.clone(), of(score))).collect()
}

/// One line a player, then the differences to the first.
pub fn table(scores: &[Score]) -> anyhow::Result<String> {
    let width = scores.iter().map(|score| score.policy.len()).max().unwrap_or(6).max(6);
    let mut text = String::new();
    let heads = ["reward", "wait s", "makespan s", "bsld", "JCT s"];
    write!(text, "{:<width$}", "player")?;
    heads.iter().try_for_each(|head| write!(text, " {head:>12}"))?;
    let knows_energy = scores.iter().any(|score| score.energy_kwh.is_some());
    if knows_energy {
        write!(text, " {:>12}", "energy kWh")?;
    }
    writeln!(text, " {:>6}", "lost")?;
    for score in scores {
        let means = [score.reward_mean, score.wait_mean_s, score.makespan_mean_s, score.bsld_mean, score.jct_mean_s];
        write!(text, "{:<width$}", score.policy)?;
        means.iter().try_for_each(|mean| write!(text, " {mean:>12.2}"))?;
        if knows_energy {
            write!(text, " {:>12.2}", score.energy_kwh.unwrap_or(f64::NAN))?;
        }
        writeln!(text, " {:>6}", score.lost)?;
    }
    if let [first, _, ..] = scores {
        writeln!(
            text,
            "\n{} minus each other, mean with 95 % interval over the same {} episodes:",
            first.policy, first.episodes
        )?;
        for (other, metrics) in &first.paired {
            write!(text, "{other:<width$}")?;
            for name in ["reward_mean", "wait_mean_s", "makespan_mean_s", "bsld_mean", "jct_mean_s"] {
                if let Some(interval) = metrics.get(name) {
                    write!(text, "  {name} {:.2} [{:.2}, {:.2}]", interval.mean, interval.low, interval.high)?;
                }
            }
            writeln!(text)?;
        }
    }
    Ok(text)
}
