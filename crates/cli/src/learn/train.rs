//! `rota learn train`.

use super::environment;
use crate::args::{AlgorithmWord, TrainArgs};
use crate::output::{print, print_json, progress, remark, write_file};
use rota_learn::train::ppo::Variant;
use rota_learn::train::{Point, Settings, es, ppo};

pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let chosen = environment::task(&args.env)?;
    let objective = match &args.objective {
        Some(word) => word.parse().map_err(|problem| anyhow::anyhow!("--objective: {problem}"))?,
        None => chosen.objective,
    };
    let mut used = chosen.task.used();
    used.estimates &= !args.no_estimates;
    used.preempt = args.preempt;
    let settings = Settings {
        seed: args.seed,
        steps: args.steps,
        objective,
        hidden: hidden(&args.hidden)?,
        validation_episodes: args.validation,
        used,
        environment: args.env.env.clone(),
    };
    let bar = progress(args.steps, "steps");
    bar.set_message("training");
    let mut told = |point: Point| {
        bar.set_position(point.steps.min(args.steps));
        if bar.is_hidden() {
            remark(&format!("step {}: validation cost {:.4}", point.steps, point.validation_cost));
        }
    };
    let trained = match args.algo {
        AlgorithmWord::Es => es::train(&chosen.task, &settings, args.episodes, &mut told)?,
        AlgorithmWord::Ppo => ppo::train(&chosen.task, &settings, Variant::Ppo, &mut told)?,
        AlgorithmWord::Reinforce => ppo::train(&chosen.task, &settings, Variant::Reinforce, &mut told)?,
    };
    bar.finish_and_clear();
    let bytes = trained.model.to_bytes()?;
    write_file(&args.output, |file| Ok(file.write_all(&bytes)?))?;
    if args.json {
        return print_json(&trained.curve);
    }
    let best = trained.curve.iter().map(|point| point.validation_cost).fold(f64::INFINITY, f64::min);
    print(&format!(
        "wrote {}: {} parameters, {} steps, best validation cost ({}) {best:.4}",
        args.output.display(),
        trained.model.network.parameters().len(),
        trained.model.header.steps,
        objective.word(),
    ))
}

/// The sizes of hidden layers.
fn hidden(text: &str) -> anyhow::Result<Vec<usize>> {
    if text == "none" {
        return Ok(Vec::new());
    }
    let size = |part: &str| part.trim().parse::<usize>().ok().filter(|size| (1..=rota_nn::WIDTH_MAX).contains(size));
    let sizes = text.split(',').map(size).collect::<Option<Vec<_>>>();
    sizes.ok_or_else(|| {
        anyhow::anyhow!("--hidden `{text}`: give sizes from 1 to {} such as `16,8`, or `none`", rota_nn::WIDTH_MAX)
    })
}
