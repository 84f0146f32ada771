//! `rota learn train`.

use super::{chart, environment, power};
use crate::args::{AlgorithmWord, TrainArgs};
use crate::output::{print, print_json, progress, remark, write_file};
use rota_learn::features::RESTLESS;
use rota_learn::model::Model;
use rota_learn::task::{Objective, Task};
use rota_learn::train::imitate::imitate;
use rota_learn::train::power::choose;
use rota_learn::train::ppo::Variant;
use rota_learn::train::{Point, Settings, es, ppo, q};
use rota_nn::{Activation, Network};

pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let chosen = environment::task(&args.env)?;
    let objective = match &args.objective {
        Some(word) => word.parse().map_err(|problem| anyhow::anyhow!("--objective: {problem}"))?,
        None => chosen.objective,
    };
    if args.algo != AlgorithmWord::Es && (args.preempt || args.reserve) {
        anyhow::bail!("--preempt and --reserve go with --algo es: single steps start jobs and stop none");
    }
    let mut used = chosen.task.used();
    used.estimates &= !args.no_estimates;
    used.preempt = args.preempt;
    used.reserve = args.reserve;
    let steps = args.steps.unwrap_or(chosen.steps);
    // Where the chosen job is waited for, a few unlucky choices make most of a sequence's cost: few sequences do not tell a good
    // checkpoint from a lucky one.
    let is_committed = args.env.env.starts_with("swf-compat") && !args.env.resort;
    let validation = args.validation.unwrap_or(if is_committed { 256 } else { 32 });
    let is_linear = args.algo == AlgorithmWord::Es && !args.env.env.starts_with("classroom");
    let is_linear = is_linear || args.algo == AlgorithmWord::Q;
    let usual = if is_linear { "none" } else { "16" };
    let choices = if objective == Objective::Energy { power::choices(&args.env, &chosen.task)? } else { Vec::new() };
    let settings = Settings {
        seed: args.seed,
        steps,
        // The order of jobs hardly changes what they need, and much how long they take.
        objective: if objective == Objective::Energy { Objective::Jct } else { objective },
        hidden: hidden(args.hidden.as_deref().unwrap_or(usual))?,
        validation_episodes: validation,
        used,
        environment: args.env.env.clone(),
        features: features(args, &chosen.task)?,
        restarts: args.restarts as usize,
        makespan_weight: args.makespan_weight,
        warm: None,
    };
    let settings = Settings { warm: warm(args, &chosen.task, &settings)?, ..settings };
    let bar = progress(steps, "steps");
    bar.set_message("training");
    let mut told = |point: Point| {
        bar.set_position(point.steps.min(steps));
        if bar.is_hidden() {
            remark(&format!("step {}: validation cost {:.4}", point.steps, point.validation_cost));
        }
    };
    let mut trained = match args.algo {
        AlgorithmWord::Es => es::train(&chosen.task, &settings, args.episodes, &mut told)?,
        AlgorithmWord::Ppo => ppo::train(&chosen.task, &settings, Variant::Ppo, &mut told)?,
        AlgorithmWord::Q => q::train(&chosen.task, &settings, &mut told)?,
        AlgorithmWord::Reinforce => ppo::train(&chosen.task, &settings, Variant::Reinforce, &mut told)?,
    };
    bar.finish_and_clear();
    if objective == Objective::Energy {
        objective.word().clone_into(&mut trained.model.header.objective);
        let trials = choose(&chosen.task, &mut trained.model, &choices, validation, args.jct_slack)?;
        remark(&power::table(&trials, &trained.model));
    }
    let bytes = trained.model.to_bytes()?;
    write_file(&args.output, |file| Ok(file.write_all(&bytes)?))?;
    let picture = chart::curve(&format!("{}: {}", args.env.env, objective.word()), &trained.curve);
    write_file(&args.output.with_extension("svg"), |file| Ok(file.write_all(picture.as_bytes())?))?;
    if args.json {
        return print_json(&trained.curve);
    }
    // What a search for short completion times came to; the energy is told above.
    let objective = settings.objective;
    let best = trained.curve.iter().map(|point| point.validation_cost).fold(f64::INFINITY, f64::min);
    print(&format!(
        "wrote {}: {} parameters, {} steps, best validation cost ({}) {best:.4}",
        args.output.display(),
        trained.model.network.parameters().len(),
        trained.model.header.steps,
        objective.word(),
    ))
}

/// The network to begin with: that of a model, or one that imitates.
fn warm(args: &TrainArgs, task: &Task, settings: &Settings) -> anyhow::Result<Option<Network>> {
    if let Some(path) = &args.resume {
        return Ok(Some(Model::read(path, task.features())?.network));
    }
    let Some(rule) = &args.imitate else { return Ok(None) };
    let activation = if args.algo == AlgorithmWord::Es { Activation::Relu } else { Activation::Tanh };
    Ok(Some(imitate(task, settings, rule, activation)?))
}

/// Features that say nothing, or the same as others, about jobs that cannot be stopped.
const FOR_PREEMPTION: [&str; 6] =
    ["log_remaining", "log_remaining_area", "log_attained", "log_attained_time", "log_estimate_index", "running"];

/// The features that a score may use.
fn features(args: &TrainArgs, task: &Task) -> anyhow::Result<Vec<String>> {
    let known = task.features();
    let is_trace = args.env.env.starts_with("trace");
    let keep = |name: &&&str| args.preempt || !FOR_PREEMPTION.contains(*name);
    let is_still = |name: &&&str| !RESTLESS.contains(*name);
    let owned = |name: &&str| (*name).to_owned();
    match args.features.as_deref().unwrap_or(if is_trace { "still" } else { "all" }) {
        "all" => Ok(known.iter().filter(keep).map(owned).collect()),
        "still" => Ok(known.iter().filter(keep).filter(is_still).map(owned).collect()),
        names => {
            let names = names.split(',').map(str::trim).collect::<Vec<_>>();
            if let Some(unknown) = names.iter().find(|name| !known.contains(name)) {
                anyhow::bail!("--features: unknown feature `{unknown}`; known here are {}", known.join(", "));
            }
            Ok(names.into_iter().map(str::to_owned).collect())
        }
    }
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
