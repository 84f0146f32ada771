//! `rota learn eval`.

use super::environment;
use crate::args::EvalArgs;
use crate::output::{print, print_json};
use rota_learn::evaluate::{Player, Score, evaluate};
use rota_learn::model::Model;
use std::fmt::Write as _;
use std::sync::Arc;

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    if args.model.is_empty() && args.against.is_empty() {
        anyhow::bail!("nobody to judge: give --model, --against or both");
    }
    let chosen = environment::task(&args.env)?;
    let mut players = Vec::new();
    for path in &args.model {
        let model = Model::read(path, chosen.task.features())?;
        players.push(Player::Model(path.display().to_string(), Arc::new(model)));
    }
    players.extend(args.against.iter().cloned().map(Player::Rule));
    let seeds = match args.seeds {
        Some((first, last)) => (u64::from(first)..=u64::from(last)).collect::<Vec<_>>(),
        None => (0..args.episodes.unwrap_or(chosen.episodes)).collect(),
    };
    let scores = evaluate(&chosen.task, &players, &seeds)?;
    if args.json { print_json(&scores) } else { print(&table(&scores)?) }
}

/// One line a player, then the differences to the first.
pub fn table(scores: &[Score]) -> anyhow::Result<String> {
    let width = scores.iter().map(|score| score.policy.len()).max().unwrap_or(6).max(6);
    let mut text = String::new();
    let heads = ["reward", "wait s", "makespan s", "bsld", "JCT s"];
    writeln!(
        text,
        "{:<width$} {:>12} {:>12} {:>12} {:>12} {:>12} {:>6}",
        "player", heads[0], heads[1], heads[2], heads[3], heads[4], "lost"
    )?;
    for score in scores {
        let means = [score.reward_mean, score.wait_mean_s, score.makespan_mean_s, score.bsld_mean, score.jct_mean_s];
        write!(text, "{:<width$}", score.policy)?;
        means.iter().try_for_each(|mean| write!(text, " {mean:>12.2}"))?;
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
            for name in ["reward_mean", "wait_mean_s", "makespan_mean_s", "bsld_mean"] {
                if let Some(interval) = metrics.get(name) {
                    write!(text, "  {name} {:.2} [{:.2}, {:.2}]", interval.mean, interval.low, interval.high)?;
                }
            }
            writeln!(text)?;
        }
    }
    Ok(text)
}
