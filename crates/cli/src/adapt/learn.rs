//! `rota adapt learn`.

use super::cpu_seconds;
use super::policies::{Source, open};
use crate::args::AdaptLearnArgs;
use crate::output::{print, print_json, progress, write_file};
use rota_core::random::RandomStream;
use rota_learn::adapt::choose::exact::{ExactSettings, learn_exactly};
use rota_learn::adapt::choose::game::Game;
use rota_learn::adapt::choose::policy::PolicyNetwork;
use rota_learn::adapt::choose::policy_file::write_policy;
use rota_learn::adapt::choose::reinforce::{Episode, Learner, RATE};
use rota_learn::adapt::record::reward::{standardised, tangents};
use rota_learn::adapt::record::table::{Table, find, read_tables, triple_text};
use serde::Serialize;
use std::fmt::Write as _;

/// The step size without `--compat`, where rewards are standardised.
const RATE_STANDARDISED: f64 = 1e-3;
/// Episodes between two moves of the progress bar.
const TOLD_EVERY: u64 = 500;

#[derive(Serialize)]
struct Learned {
    table: String,
    triple: String,
    rank: usize,
    accuracy: f64,
    regret_points: f64,
    episodes: u64,
    episodes_per_cpu_second: f64,
    cpu_seconds: f64,
    seed: u64,
    probabilities: [Vec<f32>; 3],
}

pub fn run(args: &AdaptLearnArgs) -> anyhow::Result<()> {
    let tables = read_tables(&args.tables)?;
    let table = find(&tables, &args.table)?;
    let (network, source) = start(args, table)?;
    let game = Game::new(table, &source.open()?)?;
    let rewards = if args.compat { tangents(table)? } else { standardised(&accuracies(table)) };
    let before = cpu_seconds();
    let network = if args.exact {
        let mut network = network;
        learn_exactly(&mut network, &game, &rewards, ExactSettings::new(args.episodes));
        network
    } else {
        sampled(args, table, network, &game, &rewards)?
    };
    let spent = (cpu_seconds() - before).max(1e-9);
    if let Some(path) = &args.output {
        let data = write_policy(&network, source.words())?;
        write_file(path, |file| Ok(file.write_all(&data)?))?;
    }
    let (triple, probabilities) = game.greedy(&network);
    let learned = Learned {
        table: table.name(),
        triple: triple_text(&triple),
        rank: table.rank(triple),
        accuracy: table.run(triple).accuracy,
        regret_points: table.regret_points(triple),
        episodes: args.episodes,
        episodes_per_cpu_second: args.episodes as f64 / spent,
        cpu_seconds: spent,
        seed: args.seed,
        probabilities,
    };
    if args.json {
        return print_json(&learned);
    }
    print(&format!(
        "{}: triple {}, accuracy {:.4}, rank {} of {}, {:.2} points below the best; {:.0} episodes per CPU second",
        learned.table,
        learned.triple,
        learned.accuracy,
        learned.rank,
        table.runs.len(),
        learned.regret_points,
        learned.episodes_per_cpu_second
    ))
}

fn accuracies(table: &Table) -> Vec<f64> {
    table.runs.iter().map(|run| run.accuracy).collect()
}

/// The policy to start from, and where its vectors come from.
fn start<'a>(args: &'a AdaptLearnArgs, table: &Table) -> anyhow::Result<(PolicyNetwork, Source<'a>)> {
    let vocabulary = args.vocabulary.as_deref();
    if let Some(path) = &args.from {
        let (network, source) = open(path, vocabulary)?;
        anyhow::ensure!(
            network.actions() == table.actions(),
            "`{}` chooses from {} actions, but {} has {}",
            path.display(),
            network.actions(),
            table.name(),
            table.actions()
        );
        return Ok((network, source));
    }
    let source = match vocabulary {
        Some(file) => Source::File(file),
        None if args.compat => Source::Compat(args.seed),
        None => Source::Free(args.seed),
    };
    Ok((PolicyNetwork::random(table.actions(), &mut RandomStream::new(args.seed, "policy")), source))
}

/// Learns from sampled episodes, with a progress bar and, where asked for, one row an episode.
fn sampled(
    args: &AdaptLearnArgs,
    table: &Table,
    network: PolicyNetwork,
    game: &Game,
    rewards: &[f64],
) -> anyhow::Result<PolicyNetwork> {
    let rate = if args.compat { RATE } else { RATE_STANDARDISED };
    let mut learner = Learner::new(network, rate, args.temperature);
    let mut stream = RandomStream::new(args.seed, "episodes");
    let bar = progress(args.episodes, "episodes");
    let mut log = String::from("episode,objective,accuracy\n");
    for episode in 0..args.episodes {
        let Episode { triple, objective } = learner.play(game, rewards, &mut stream);
        if args.log.is_some() {
            writeln!(log, "{episode},{objective:.4},{}", table.run(triple).accuracy)?;
        }
        if episode % TOLD_EVERY == 0 {
            bar.set_position(episode);
        }
    }
    bar.finish_and_clear();
    if let Some(path) = &args.log {
        write_file(path, |file| Ok(file.write_all(log.as_bytes())?))?;
    }
    Ok(learner.network)
}
