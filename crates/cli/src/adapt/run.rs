//! `rota adapt run`.

use super::policies::open;
use super::work;
use crate::args::AdaptRunArgs;
use crate::output::{make_directory, print, print_json, progress, write_file};
use rota_core::random::RandomStream;
use rota_learn::adapt::choose::decision::DecisionMaker;
use rota_learn::adapt::choose::forecast::Forecaster;
use rota_learn::adapt::network::growing::GrowingNetwork;
use rota_learn::adapt::network::weights::write_weights;
use rota_learn::adapt::record::table::{read_tables, triple_text};
use rota_learn::adapt::train::job::Allocation;
use rota_learn::adapt::train::training::Run;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::Path;

#[derive(Serialize)]
struct Outcome {
    model: &'static str,
    actions: String,
    epochs: usize,
    test_accuracy: f64,
    best_test_accuracy: f64,
    parameters: usize,
    trainable: usize,
    budget_s: f64,
    time_left_s: f64,
    seed: u64,
    curve: Vec<f64>,
}

pub fn run(args: &AdaptRunArgs) -> anyhow::Result<()> {
    let data = work::images(&args.work)?;
    let mut maker = decision_maker(args)?;
    if let Some(folder) = &args.out {
        make_directory(folder)?;
    }
    let ups = args.up.iter().map(|at_s| (*at_s, Allocation::Up));
    let mut changes = ups.chain(args.down.iter().map(|at_s| (*at_s, Allocation::Down))).collect::<Vec<_>>();
    changes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let settings = work::settings(&args.work, work::cost(args.cost), args.seed, args.budget, changes);
    let mut job = Run::new(settings, data.train.shape)?;
    let bar = progress(args.budget as u64, "seconds");
    let mut best: Option<(f64, GrowingNetwork)> = None;
    let mut actions = Vec::new();
    job.finish(
        &data,
        &mut |question| {
            let action = maker.decide(question)?;
            actions.push(action);
            Ok(action)
        },
        &mut |job| {
            let Some(epoch) = job.epochs.last() else { return };
            bar.set_position(epoch.ended_s as u64);
            bar.set_message(format!("accuracy {:.4}", epoch.test_accuracy));
            if best.as_ref().is_none_or(|(accuracy, _)| epoch.test_accuracy > *accuracy) {
                best = Some((epoch.test_accuracy, job.network.clone()));
            }
        },
    )?;
    bar.finish_and_clear();
    if let Some(folder) = &args.out {
        write_results(folder, &job, best.as_ref().map_or(&job.network, |(_, network)| network))?;
    }
    let outcome = Outcome {
        model: args.work.model.name(),
        actions: triple_text(&actions),
        epochs: job.epochs.len(),
        test_accuracy: job.accuracy(),
        best_test_accuracy: best.map_or(job.accuracy(), |(accuracy, _)| accuracy),
        parameters: job.network.stack.parameters(),
        trainable: job.network.trainable(),
        budget_s: args.budget,
        time_left_s: job.question().left_s,
        seed: args.seed,
        curve: job.epochs.iter().map(|epoch| epoch.test_accuracy).collect(),
    };
    if args.json {
        return print_json(&outcome);
    }
    print(&format!(
        "{}: actions {}, {} scored epochs, test accuracy {:.4} (best {:.4}), {} parameters",
        outcome.model,
        if outcome.actions.is_empty() { "none" } else { &outcome.actions },
        outcome.epochs,
        outcome.test_accuracy,
        outcome.best_test_accuracy,
        outcome.parameters
    ))
}

fn decision_maker(args: &AdaptRunArgs) -> anyhow::Result<DecisionMaker> {
    let text = args.decide.as_str();
    Ok(match text {
        "nothing" => DecisionMaker::Nothing,
        "random" => DecisionMaker::Random(Box::new(RandomStream::new(args.seed, "decisions"))),
        "default" => {
            let path = args.tables.as_ref();
            let path = path.ok_or_else(|| anyhow::anyhow!("--decide default learns from recorded runs: give --tables FILE"))?;
            let tables = read_tables(path)?;
            DecisionMaker::forecasting(Forecaster::learn(&tables.iter().collect::<Vec<_>>(), args.seed))
        }
        digits if !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()) => {
            DecisionMaker::Fixed(digits.bytes().map(|digit| usize::from(digit - b'0')).collect())
        }
        file if Path::new(file).is_file() => {
            let (network, source) = open(Path::new(file), None)?;
            DecisionMaker::Policy(network, source.open()?)
        }
        other => anyhow::bail!(
            "--decide `{other}`: give `nothing`, `random`, `default`, actions such as `011`, or the path of a policy"
        ),
    })
}

fn write_results(folder: &Path, job: &Run, best: &GrowingNetwork) -> anyhow::Result<()> {
    let mut text = String::from("epoch,seconds,train_loss,train_acc,test_acc,parameters,rate\n");
    for epoch in &job.epochs {
        writeln!(
            text,
            "{},{:.3},{:.6},{:.6},{:.6},{},{:.8}",
            epoch.number, epoch.ended_s, epoch.loss, epoch.train_accuracy, epoch.test_accuracy, epoch.parameters, epoch.rate
        )?;
    }
    write_file(&folder.join("metrics.csv"), |file| Ok(file.write_all(text.as_bytes())?))?;
    for (name, network) in [("best.safetensors", best), ("last.safetensors", &job.network)] {
        let data = write_weights(network)?;
        write_file(&folder.join(name), |file| Ok(file.write_all(&data)?))?;
    }
    Ok(())
}
